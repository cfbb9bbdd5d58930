//! `libmpi.so.12`: the ABI of MPICH 3 to 5, of Intel MPI, MVAPICH and Cray MPI, translated to the standard one.
#![allow(non_snake_case, reason = "the names are those of the standard")]

pub mod abi;
#[path = "generated/constants.rs"]
pub mod constants;
#[path = "../../shared/mod.rs"]
pub mod shared;
