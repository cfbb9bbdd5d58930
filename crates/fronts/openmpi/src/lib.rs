//! `libmpi.so.40`: the ABI of Open MPI 3 to 5, translated to the standard one.
#![allow(non_snake_case, reason = "the names are those of the standard")]

pub mod abi;
#[path = "generated/constants.rs"]
pub mod constants;
pub mod cplusplus;
pub mod handles;
#[path = "generated/objects.rs"]
pub mod objects;
#[path = "../../shared/mod.rs"]
pub mod shared;
