//! Handles and error codes of the library as integers of Fortran: for callbacks of Fortran, which the library
//! calls with its own (`crates/fronts/fortran`).
//!
//! # Safety
//! The library vouches for its handles.
#![allow(missing_docs, clippy::missing_safety_doc, reason = "called by the layer of Fortran alone")]

use std::ffi::c_int;

use crate::abi::{MPI_Comm, MPI_Datatype, MPI_File, MPI_Session, MPI_Win};
use crate::shared::kind::{Handle, answer};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_fortran_comm(standard: usize) -> c_int {
    MPI_Comm::foreign(standard).fortran()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_fortran_datatype(standard: usize) -> c_int {
    MPI_Datatype::foreign(standard).fortran()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_fortran_file(standard: usize) -> c_int {
    MPI_File::foreign(standard).fortran()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_fortran_win(standard: usize) -> c_int {
    MPI_Win::foreign(standard).fortran()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_fortran_session(standard: usize) -> c_int {
    MPI_Session::foreign(standard).fortran()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_fortran_error(standard: c_int) -> c_int {
    answer(standard)
}
