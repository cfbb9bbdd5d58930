//! MPI_Status at the C side (MPI-5 section 3.2.5).

use std::ffi::c_int;
use std::marker::PhantomData;

use tutti_base::{Error, ErrorClass, Result};

use crate::types::MPI_Status;

/// Content of a status as in core. `MPI_ERROR` is missing, as only functions for several requests set it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Rank of the sender, or a negative constant of the standard.
    pub source: i32,
    /// Tag of the message, or `MPI_ANY_TAG`.
    pub tag: i32,
    /// Bytes received, in packed form.
    pub bytes: u64,
    /// Whether the operation was cancelled.
    pub cancelled: bool,
}

/// Status that the user passes as an argument.
#[derive(Clone, Copy, Debug)]
pub struct StatusIn<'s> {
    pointer: *const MPI_Status,
    name: &'static str,
    scope: PhantomData<&'s ()>,
}

/// Output argument for a status, which the user may decline.
#[derive(Clone, Copy, Debug)]
pub struct StatusOut<'s> {
    pointer: *mut MPI_Status,
    scope: PhantomData<&'s ()>,
}

/// Output argument for an array of statuses, which the user may decline.
#[derive(Clone, Copy, Debug)]
pub struct Statuses<'s> {
    pointer: *mut MPI_Status,
    scope: PhantomData<&'s ()>,
}

impl MPI_Status {
    /// Any source, any tag, no bytes, not cancelled (MPI-5 section 3.7.3).
    pub const EMPTY: MPI_Status = MPI_Status { source: -1, tag: -2, error: 0, internal: [0; 5] };

    /// Returns the number of bytes, which the private fields contain.
    pub fn bytes(&self) -> u64 {
        u64::from(self.internal[0] as u32) | u64::from(self.internal[1] as u32) << 32
    }

    /// Sets the number of received bytes.
    pub fn set_bytes(&mut self, bytes: u64) {
        self.internal[0] = bytes as c_int;
        self.internal[1] = (bytes >> 32) as c_int;
    }

    /// Returns true if the operation was cancelled.
    pub fn cancelled(&self) -> bool {
        self.internal[2] != 0
    }

    /// Sets whether it was.
    pub fn set_cancelled(&mut self, cancelled: bool) {
        self.internal[2] = c_int::from(cancelled);
    }

    /// Returns the content of the status in core's form.
    pub fn report(&self) -> Report {
        let (bytes, cancelled) = (self.bytes(), self.cancelled());
        Report { source: self.source, tag: self.tag, bytes, cancelled }
    }

    fn fill(&mut self, report: Report) {
        self.source = report.source;
        self.tag = report.tag;
        self.set_bytes(report.bytes);
        self.set_cancelled(report.cancelled);
    }
}

impl<'s> StatusIn<'s> {
    /// # Safety
    /// See [`crate::scope`] for the requirements.
    pub(crate) unsafe fn new(pointer: *const MPI_Status, name: &'static str) -> StatusIn<'s> {
        StatusIn { pointer, name, scope: PhantomData }
    }

    /// Returns a copy of the user's status.
    ///
    /// # Errors
    /// Fails with `Arg` for a null pointer: MPI_STATUS_IGNORE is not a status.
    pub fn get(self) -> Result<MPI_Status> {
        if self.pointer.is_null() {
            let reason = format!("argument {} is MPI_STATUS_IGNORE or a null pointer", self.name);
            return Err(Error::new(ErrorClass::Arg, reason));
        }
        // SAFETY: not null, and the caller vouches for it.
        Ok(unsafe { self.pointer.read() })
    }
}

impl<'s> StatusOut<'s> {
    /// MPI_STATUS_IGNORE: the user declines the status.
    pub const IGNORE: StatusOut<'static> = StatusOut { pointer: std::ptr::null_mut(), scope: PhantomData };

    /// # Safety
    /// See [`crate::scope`] for the requirements.
    #[inline(always)]
    pub(crate) unsafe fn new(pointer: *mut MPI_Status) -> StatusOut<'s> {
        StatusOut { pointer, scope: PhantomData }
    }

    /// Returns the address of the status; null for MPI_STATUS_IGNORE.
    #[inline(always)]
    pub(crate) fn pointer(self) -> *mut MPI_Status {
        self.pointer
    }

    /// Returns true if the user declines the status.
    #[inline(always)]
    pub fn is_ignored(self) -> bool {
        self.pointer.is_null()
    }

    /// Returns a status; `MPI_ERROR` stays as it is.
    #[inline]
    pub fn set(self, report: Report) {
        // SAFETY: the caller vouches for the pointer where it is not null.
        if let Some(status) = unsafe { self.pointer.as_mut() } {
            status.fill(report);
        }
    }

    /// Returns the empty status of a request that is null or inactive. Unlike others it has an `MPI_ERROR`
    /// (MPI-5 section 3.7.3).
    pub fn set_empty(self) {
        // SAFETY: the caller vouches for the pointer where it is not null.
        if let Some(status) = unsafe { self.pointer.as_mut() } {
            *status = MPI_Status::EMPTY;
        }
    }

    /// Changes the status that is there (MPI_Status_set_...).
    ///
    /// # Errors
    /// Fails with `Arg` for MPI_STATUS_IGNORE.
    pub fn change(self, change: impl FnOnce(&mut MPI_Status)) -> Result<()> {
        // SAFETY: the caller vouches for the pointer where it is not null.
        let status = unsafe { self.pointer.as_mut() };
        let status = status.ok_or_else(|| {
            Error::new(ErrorClass::Arg, "argument status is MPI_STATUS_IGNORE or a null pointer")
        })?;
        change(status);
        Ok(())
    }
}

impl<'s> Statuses<'s> {
    /// # Safety
    /// See [`crate::scope`] for the requirements.
    #[inline(always)]
    pub(crate) unsafe fn new(pointer: *mut MPI_Status) -> Statuses<'s> {
        Statuses { pointer, scope: PhantomData }
    }

    /// Returns the output argument of the status with this index, which must be inside the user's array.
    #[inline]
    pub fn output_at(self, index: usize) -> StatusOut<'s> {
        if self.pointer.is_null() {
            return StatusOut::IGNORE;
        }
        // SAFETY: the caller vouches for as many statuses as there are requests.
        StatusOut { pointer: unsafe { self.pointer.add(index) }, scope: PhantomData }
    }

    /// Returns the error code of one of several requests (with MPI_ERR_IN_STATUS).
    pub fn set_error(self, index: usize, code: c_int) {
        // SAFETY: as in `at`.
        if let Some(status) = unsafe { self.output_at(index).pointer.as_mut() } {
            status.error = code;
        }
    }

    /// Returns a status and its error code (MPI_Waitall with MPI_ERR_IN_STATUS).
    pub fn set_with_error(self, index: usize, report: Report, code: c_int) {
        let place = self.output_at(index);
        place.set(report);
        // SAFETY: as in `at`.
        if let Some(status) = unsafe { place.pointer.as_mut() } {
            status.error = code;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_holds_what_it_is_given() {
        let mut status = MPI_Status { source: 0, tag: 0, error: 77, internal: [-1; 5] };
        let report = Report { source: 3, tag: 9, bytes: 0x1_8000_0001, cancelled: true };
        // SAFETY: a pointer to a status.
        unsafe { StatusOut::new(&raw mut status) }.set(report);
        assert_eq!((status.report(), status.error), (report, 77));
        // SAFETY: as above.
        unsafe { StatusOut::new(&raw mut status) }.set_empty();
        assert_eq!((status.source, status.tag, status.error, status.bytes()), (-1, -2, 0, 0));
        StatusOut::IGNORE.set(report);
        assert!(StatusOut::IGNORE.change(|_| ()).is_err());
    }
}
