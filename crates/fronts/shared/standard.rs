//! The standard ABI as far as fronts need it (MPI-5 chapter 20).
#![allow(missing_docs, non_camel_case_types, reason = "the names are those of the standard")]

use std::ffi::c_int;

/// An address, or a difference of addresses, in bytes.
pub type MPI_Aint = isize;
/// A count of anything.
pub type MPI_Count = i64;
/// A position in a file, in bytes.
pub type MPI_Offset = i64;

/// MPI_Status of the standard ABI, with the meaning that Tutti gives to the words that are its own.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Status {
    pub source: c_int,
    pub tag: c_int,
    pub error: c_int,
    pub internal: [c_int; 5],
}

impl Status {
    /// Value of a field that the library has not written.
    pub const UNTOUCHED: c_int = c_int::MIN;
    /// A status that the library has not written.
    pub const FRESH: Status =
        Status { source: Status::UNTOUCHED, tag: 0, error: Status::UNTOUCHED, internal: [0; 5] };

    /// Returns the number of received bytes.
    pub fn bytes(&self) -> u64 {
        u64::from(self.internal[0] as u32) | u64::from(self.internal[1] as u32) << 32
    }

    /// Creates a status with these fields.
    pub fn new(source: c_int, tag: c_int, error: c_int, bytes: u64, cancelled: bool) -> Status {
        let internal = [bytes as c_int, (bytes >> 32) as c_int, c_int::from(cancelled), 0, 0];
        Status { source, tag, error, internal }
    }

    /// Returns true if the operation was cancelled.
    pub fn cancelled(&self) -> bool {
        self.internal[2] != 0
    }
}

pub const MPI_COMM_NULL: usize = 0x100;
pub const MPI_COMBINER_SUBARRAY: c_int = 111;
pub const MPI_COMBINER_DARRAY: c_int = 112;
pub const MPI_TAG_UB: c_int = 501;
pub const MPI_IO: c_int = 502;
pub const MPI_HOST: c_int = 503;
pub const MPI_LASTUSEDCODE: c_int = 506;
pub const MPI_WIN_CREATE_FLAVOR: c_int = 604;
pub const MPI_WIN_MODEL: c_int = 605;
pub const MPI_CART: c_int = 211;
pub const MPI_GRAPH: c_int = 212;
pub const MPI_DIST_GRAPH: c_int = 213;
pub const MPI_DISTRIBUTE_DFLT_DARG: c_int = 19;

pub const MPI_ERR_OTHER: c_int = 16;
pub const MPI_ERR_ERRHANDLER: c_int = 61;
pub const MPI_ERR_LASTCODE: c_int = 16383;
pub const MPI_UNDEFINED: c_int = -32766;
pub const MPI_IN_PLACE: usize = 1;
pub const MPI_BUFFER_AUTOMATIC: usize = 2;
pub const MPI_UNWEIGHTED: usize = 10;
pub const MPI_WEIGHTS_EMPTY: usize = 11;
pub const MPI_T_PVAR_ALL_HANDLES: usize = 1;

/// The lengths of texts that the library returns.
pub const MPI_MAX_DATAREP_STRING: usize = 128;
pub const MPI_MAX_ERROR_STRING: usize = 512;
pub const MPI_MAX_INFO_KEY: usize = 256;
pub const MPI_MAX_LIBRARY_VERSION_STRING: usize = 8192;
pub const MPI_MAX_OBJECT_NAME: usize = 128;
pub const MPI_MAX_PORT_NAME: usize = 1024;
pub const MPI_MAX_PROCESSOR_NAME: usize = 256;
