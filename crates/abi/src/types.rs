//! The types of the C interface: integers, handles as they travel, MPI_Status, opaque tool handles.
#![allow(non_camel_case_types, reason = "the names are those of the standard")]

use std::ffi::{c_int, c_void};
use std::fmt;
use std::marker::PhantomData;

use crate::handles::kind;

/// Handle as the user holds it: a predefined constant, a handle of [`crate::handles`], or garbage.
#[repr(transparent)]
pub struct Raw<K> {
    bits: usize,
    kind: PhantomData<fn() -> K>,
}

impl<K> Raw<K> {
    /// Returns a predefined handle: a number of the ABI below 0x1000.
    pub const fn predefined(number: usize) -> Raw<K> {
        Raw { bits: number, kind: PhantomData }
    }

    /// Returns the handle whose bits [`Raw::bits`] has returned.
    pub const fn from_bits(bits: usize) -> Raw<K> {
        Raw { bits, kind: PhantomData }
    }

    /// Returns the handle as a number, the form that callbacks of core use.
    pub const fn bits(self) -> usize {
        self.bits
    }
}

impl<K> Clone for Raw<K> {
    fn clone(&self) -> Raw<K> {
        *self
    }
}

impl<K> Copy for Raw<K> {}

impl<K> PartialEq for Raw<K> {
    fn eq(&self, other: &Raw<K>) -> bool {
        self.bits == other.bits
    }
}

impl<K> Eq for Raw<K> {}

impl<K> fmt::Debug for Raw<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.bits)
    }
}

/// An address, or a difference of addresses, in bytes.
pub type MPI_Aint = isize;
/// A count of anything.
pub type MPI_Count = i64;
/// A position in a file, in bytes.
pub type MPI_Offset = i64;

/// Handle of a communicator.
pub type MPI_Comm = Raw<kind::Comm>;
/// Handle of a group of processes.
pub type MPI_Group = Raw<kind::Group>;
/// Handle of a datatype.
pub type MPI_Datatype = Raw<kind::Datatype>;
/// Handle of a reduction operation.
pub type MPI_Op = Raw<kind::Op>;
/// Handle of a request.
pub type MPI_Request = Raw<kind::Request>;
/// Handle of an info object.
pub type MPI_Info = Raw<kind::Info>;
/// Handle of an error handler.
pub type MPI_Errhandler = Raw<kind::Errhandler>;
/// Handle of a window.
pub type MPI_Win = Raw<kind::Win>;
/// Handle of a file.
pub type MPI_File = Raw<kind::File>;
/// Handle of a session.
pub type MPI_Session = Raw<kind::Session>;
/// A message taken by a matched probe.
pub type MPI_Message = Raw<kind::Message>;

/// An object of the tool information interface.
#[repr(C)]
#[derive(Debug)]
pub struct Opaque {
    nothing: [u8; 0],
}

/// Handle of an enumeration's description.
pub type MPI_T_enum = *mut Opaque;
/// Handle of a control variable.
pub type MPI_T_cvar_handle = *mut Opaque;
/// Handle of a performance variable.
pub type MPI_T_pvar_handle = *mut Opaque;
/// A session of performance variables.
pub type MPI_T_pvar_session = *mut Opaque;
/// A registration for events.
pub type MPI_T_event_registration = *mut Opaque;
/// Handle of one event, valid during its callback.
pub type MPI_T_event_instance = *mut Opaque;
/// Safety level: functions that a callback may call (an enumeration in C).
pub type MPI_T_cb_safety = c_int;

/// MPI_Status (MPI-5 section 20.3.4). Tutti's words: bytes received (low, high), cancelled.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MPI_Status {
    /// Rank of the sender.
    pub source: c_int,
    /// Tag of the message.
    pub tag: c_int,
    /// Error code, set by functions that complete several requests.
    pub error: c_int,
    /// Private fields of the library.
    pub internal: [c_int; 5],
}

/// Function of the program that runs when operations are complete: the error code of one that failed, and the
/// program's data (see `mpi-ext.h`).
pub type MPIX_Continue_cb_function = unsafe extern "C" fn(c_int, *mut c_void) -> c_int;
