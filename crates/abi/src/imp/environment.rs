//! Start, end, versions, time (MPI-5 chapters 9 and 11).

use std::ffi::{c_double, c_int};

use tutti_base::Result;

use crate::generated::constants::*;
use crate::phase;
use crate::scope::{Out, TextOut};

/// MPI_Initialized.
pub fn initialized(flag: Out<c_int>) -> Result<()> {
    flag.set_flag(phase::was_initialised())
}

/// MPI_Finalized.
pub fn finalized(flag: Out<c_int>) -> Result<()> {
    flag.set_flag(phase::was_finalised())
}

/// MPI_Get_version.
pub fn get_version(version: Out<c_int>, subversion: Out<c_int>) -> Result<()> {
    version.set(MPI_VERSION)?;
    subversion.set(MPI_SUBVERSION)
}

/// MPI_Abi_get_version.
pub fn abi_get_version(major: Out<c_int>, minor: Out<c_int>) -> Result<()> {
    major.set(MPI_ABI_VERSION)?;
    minor.set(MPI_ABI_SUBVERSION)
}

/// MPI_Get_library_version.
pub fn get_library_version(version: TextOut, resultlen: Out<c_int>) -> Result<()> {
    let text = concat!("Tutti ", env!("CARGO_PKG_VERSION"), " (MPI 5.0, standard ABI 1.0)");
    let written = version.set(text.as_bytes(), MPI_MAX_LIBRARY_VERSION_STRING as usize)?;
    resultlen.set(written as c_int)
}

/// MPI_Wtime: seconds since the machine started, the same for all processes on it.
pub fn wtime() -> c_double {
    let now = clock(libc::clock_gettime);
    now.tv_sec as c_double + now.tv_nsec as c_double * 1e-9
}

/// MPI_Wtick.
pub fn wtick() -> c_double {
    let resolution = clock(libc::clock_getres);
    resolution.tv_sec as c_double + resolution.tv_nsec as c_double * 1e-9
}

fn clock(read: unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> c_int) -> libc::timespec {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid place for the result; CLOCK_MONOTONIC always exists.
    unsafe { read(libc::CLOCK_MONOTONIC, &raw mut time) };
    time
}

/// Ends this process and all it is connected with.
pub fn end_job(code: c_int) -> ! {
    std::process::exit(code)
}
