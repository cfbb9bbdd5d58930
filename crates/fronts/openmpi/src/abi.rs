//! ABI of Open MPI: handles are addresses ([`crate::handles`]), and the number of bytes comes last in a
//! status.
#![allow(
    missing_docs,
    non_camel_case_types,
    non_upper_case_globals,
    reason = "the names are those of Open MPI"
)]

use std::ffi::{c_int, c_void};

use crate::constants::*;
use crate::handles::Pointer;
use crate::shared::kind;
use crate::shared::standard::{self, Status};

/// Name of the ABI in messages to users.
pub const NAME: &str = "Open MPI (libmpi.so.40)";

pub type MPI_Comm = Pointer<kind::Comm>;
pub type MPI_Group = Pointer<kind::Group>;
pub type MPI_Datatype = Pointer<kind::Datatype>;
pub type MPI_Op = Pointer<kind::Op>;
pub type MPI_Request = Pointer<kind::Request>;
pub type MPI_Info = Pointer<kind::Info>;
pub type MPI_Errhandler = Pointer<kind::Errhandler>;
pub type MPI_Win = Pointer<kind::Win>;
pub type MPI_File = Pointer<kind::File>;
pub type MPI_Session = Pointer<kind::Session>;
pub type MPI_Message = Pointer<kind::Message>;

/// Status in the layout of Open MPI.
#[repr(C)]
pub struct MPI_Status {
    source: c_int,
    tag: c_int,
    error: c_int,
    cancelled: c_int,
    bytes: usize,
}

impl MPI_Status {
    /// Returns true if the pointer is MPI_STATUS_IGNORE, which is null.
    #[inline(always)]
    pub fn is_ignored(status: *const MPI_Status) -> bool {
        status.is_null()
    }

    /// Converts the status to the standard ABI.
    pub fn standard(&self) -> Status {
        let (source, tag, error) = (rank_in(self.source), tag_in(self.tag), error_in(self.error));
        Status::new(source, tag, error, self.bytes as u64, self.cancelled != 0)
    }

    /// Converts a status of the standard ABI.
    pub fn from_standard(status: &Status) -> MPI_Status {
        let mut own = MPI_Status { source: 0, tag: 0, error: 0, cancelled: 0, bytes: 0 };
        own.take(status);
        own
    }

    /// Converts the status to the standard ABI, and leaves the error in `status` unchanged.
    pub fn tell(&self, status: &mut Status) {
        *status = Status { error: status.error, ..self.standard() };
    }

    /// Copies the fields that the library has written.
    #[inline]
    pub fn take(&mut self, status: &Status) {
        if status.source != Status::UNTOUCHED {
            (self.source, self.tag) = (rank_out(status.source), tag_out(status.tag));
            (self.cancelled, self.bytes) = (c_int::from(status.cancelled()), status.bytes() as usize);
        }
        if status.error != Status::UNTOUCHED {
            self.error = error_out(status.error);
        }
    }

    /// Number of Fortran integers in a status; the layout is the same.
    pub const WORDS: usize = 6;
}

/// Returns the buffer unchanged: MPI_BOTTOM and MPI_IN_PLACE are those of the standard.
#[inline(always)]
pub fn buffer_in(buffer: *mut c_void) -> *mut c_void {
    buffer
}

/// Does nothing for a buffer that MPI_Buffer_detach has returned: the constants are those of the standard.
///
/// # Safety
/// None: it is the program's own.
pub unsafe fn buffer_out(_place: *mut *mut c_void) {}

/// Returns true if the buffer is MPI_IN_PLACE.
pub fn is_in_place(buffer: *const c_void) -> bool {
    buffer as isize == MPI_IN_PLACE
}

/// Translates the weights of a graph, or a constant in their place.
pub fn weights_in(weights: *mut c_int) -> *mut c_int {
    match weights as usize {
        2 => standard::MPI_UNWEIGHTED as *mut c_int,
        3 => standard::MPI_WEIGHTS_EMPTY as *mut c_int,
        _ => weights,
    }
}

/// Translates a handle of a performance variable, or the constant for all of a session.
pub fn pvar_handle_in(handle: usize) -> usize {
    if handle == usize::MAX { standard::MPI_T_PVAR_ALL_HANDLES } else { handle }
}

/// A value that programs find by name, as an address.
#[repr(transparent)]
pub struct Address(*const c_void);

// SAFETY: an address that never changes.
unsafe impl Sync for Address {}

// Constants that Fortran programs pass in place of statuses and arguments. They may be copied into the
// program.
#[unsafe(no_mangle)]
pub static mpi_fortran_status_ignore_: [c_int; MPI_Status::WORDS] = [0; MPI_Status::WORDS];
#[unsafe(no_mangle)]
pub static mpi_fortran_statuses_ignore_: [c_int; MPI_Status::WORDS] = [0; MPI_Status::WORDS];
#[unsafe(no_mangle)]
pub static MPI_F_STATUS_IGNORE: Address = Address((&raw const mpi_fortran_status_ignore_).cast());
#[unsafe(no_mangle)]
pub static MPI_F_STATUSES_IGNORE: Address = Address((&raw const mpi_fortran_statuses_ignore_).cast());

macro_rules! copy_functions {
    ($($null:ident $dup:ident $delete:ident;)*) => {
        $(
            /// Copies nothing: a predefined copy function of the standard.
            ///
            /// # Safety
            /// Called as the standard requires.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $null(
                _object: *const c_void,
                _keyval: c_int,
                _extra_state: *mut c_void,
                _value: *mut c_void,
                _copy: *mut *mut c_void,
                flag: *mut c_int,
            ) -> c_int {
                // SAFETY: a place for the answer.
                unsafe { flag.write(0) };
                0
            }

            /// Copies the value: a predefined copy function of the standard.
            ///
            /// # Safety
            /// Called as the standard requires.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $dup(
                _object: *const c_void,
                _keyval: c_int,
                _extra_state: *mut c_void,
                value: *mut c_void,
                copy: *mut *mut c_void,
                flag: *mut c_int,
            ) -> c_int {
                // SAFETY: places for the answers.
                unsafe {
                    copy.write(value);
                    flag.write(1);
                }
                0
            }

            /// Does nothing: a predefined delete function of the standard.
            ///
            /// # Safety
            /// Called as the standard requires.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $delete(
                _object: *const c_void,
                _keyval: c_int,
                _value: *mut c_void,
                _extra_state: *mut c_void,
            ) -> c_int {
                0
            }
        )*
    };
}

copy_functions! {
    OMPI_C_MPI_NULL_COPY_FN OMPI_C_MPI_DUP_FN OMPI_C_MPI_NULL_DELETE_FN;
    OMPI_C_MPI_COMM_NULL_COPY_FN OMPI_C_MPI_COMM_DUP_FN OMPI_C_MPI_COMM_NULL_DELETE_FN;
    OMPI_C_MPI_TYPE_NULL_COPY_FN OMPI_C_MPI_TYPE_DUP_FN OMPI_C_MPI_TYPE_NULL_DELETE_FN;
    OMPI_C_MPI_WIN_NULL_COPY_FN OMPI_C_MPI_WIN_DUP_FN OMPI_C_MPI_WIN_NULL_DELETE_FN;
}
