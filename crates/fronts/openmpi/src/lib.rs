//! `libmpi.so.40`: the ABI of Open MPI 3 to 5, translated to the standard one.
#![allow(non_snake_case, reason = "the names are those of the standard")]

pub mod abi;
pub mod constants;
pub mod cplusplus;
pub mod handles;
pub mod objects;
#[path = "../../shared/mod.rs"]
pub mod shared;
