//! Remainder of the C++ bindings. A program that includes Open MPI's `mpi.h` from C++ has tables of virtual
//! functions. They refer to a few functions that the header only declares (`libmpi_cxx.so.40`). A program
//! that uses MPI from C never calls them, but the dynamic linker needs them.

use std::ffi::c_void;

use crate::abi::{MPI_Datatype, MPI_Win};

/// A C++ object: the table of its virtual functions, then its handle.
#[repr(C)]
pub struct Wrapped<H> {
    table: *const c_void,
    handle: H,
}

/// Does nothing: `MPI::Comm::Comm()` of a complete object.
///
/// # Safety
/// Called by a constructor that sets the handle afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ZN3MPI4CommC1Ev(_this: *mut c_void) {}

/// Does nothing: `MPI::Comm::Comm()` of a base class.
///
/// # Safety
/// As the one above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ZN3MPI4CommC2Ev(_this: *mut c_void) {}

/// Frees a window of the C++ bindings (`MPI::Win::Free()`).
///
/// # Safety
/// `this` is a window of the C++ bindings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ZN3MPI3Win4FreeEv(this: *mut Wrapped<MPI_Win>) {
    // SAFETY: the caller's promise.
    unsafe { crate::shared::generated::window::PMPI_Win_free(&raw mut (*this).handle) };
}

/// Frees a datatype of the C++ bindings (`MPI::Datatype::Free()`).
///
/// # Safety
/// `this` is a datatype of the C++ bindings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ZN3MPI8Datatype4FreeEv(this: *mut Wrapped<MPI_Datatype>) {
    // SAFETY: the caller's promise.
    unsafe { crate::shared::generated::datatype::PMPI_Type_free(&raw mut (*this).handle) };
}

/// Does nothing. Constructors of operators and error handlers of the C++ bindings call it, which have no
/// effect here.
#[unsafe(no_mangle)]
pub extern "C" fn ompi_op_set_cxx_callback(_op: *mut c_void, _function: *const c_void) {}

/// Does nothing, like [`ompi_op_set_cxx_callback`] above.
#[unsafe(no_mangle)]
pub extern "C" fn ompi_mpi_cxx_op_intercept() {}
