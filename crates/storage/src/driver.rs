//! The trait of everything that can store files. The conformance suite for all its implementations is in
//! `io`, which has what the suite needs.
//!
//! A driver moves bytes between memory and offsets of one open file. Calls may come from several threads at
//! a time. A failed call reports the error together with the number of bytes that were moved before. Bytes
//! that a driver has acknowledged are in the file.

use std::fmt::Debug;
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

use tutti_base::{Error, Result};
use tutti_data::{Segment, Tiles};

/// Result of a transfer of bytes.
#[derive(Debug, Default)]
pub struct Moved {
    /// Number of bytes moved, counted from the first one.
    pub bytes: u64,
    /// Error that stopped the transfer, if any. A read that ends at the end of the file has no error.
    pub fault: Option<Error>,
}

impl Moved {
    /// Returns the result of a transfer of `bytes` without error.
    pub fn all(bytes: u64) -> Moved {
        Moved { bytes, fault: None }
    }

    /// Converts the transfer to a result: the number of bytes, or the error.
    ///
    /// # Errors
    /// The error that stopped the transfer.
    pub fn result(self) -> Result<u64> {
        self.fault.map_or(Ok(self.bytes), Err)
    }
}

/// Accesses to ranges of the byte stream that a view selects from the file.
pub trait Views {
    /// Reads from position `stream` on until memory is full. Returns the number of its bytes that lie
    /// before the end of the file.
    fn read_view(&self, view: &Arc<Tiles>, stream: u64, into: &mut [IoSliceMut<'_>]) -> Moved;

    /// Writes all of memory, starting at position `stream`.
    fn write_view(&self, view: &Arc<Tiles>, stream: u64, from: &[IoSlice<'_>]) -> Moved;
}

/// Open file on some kind of storage.
pub trait Driver: Send + Sync + Debug {
    /// Reads from `offset` on until memory is full or the file ends.
    fn read(&self, offset: u64, into: &mut [IoSliceMut<'_>]) -> Moved;

    /// Writes all of memory, starting at `offset`.
    fn write(&self, offset: u64, from: &[IoSlice<'_>]) -> Moved;

    /// Reads pieces of the file one after the other into `packed`. The pieces ascend and do not overlap;
    /// their total length is that of `packed`. Returns the number of their bytes that lie before the end of
    /// the file.
    fn gather(&self, pieces: &[Segment], packed: &mut [u8]) -> Moved {
        let mut rest = packed;
        let mut done = 0;
        for piece in pieces {
            let (now, later) = rest.split_at_mut(piece.bytes as usize);
            rest = later;
            let moved = self.read(piece.offset as u64, &mut [IoSliceMut::new(now)]);
            done += moved.bytes;
            if moved.fault.is_some() || moved.bytes < piece.bytes {
                return Moved { bytes: done, ..moved };
            }
        }
        Moved::all(done)
    }

    /// Writes `packed` to pieces of the file, which ascend and do not overlap. No other byte of the file is
    /// written.
    fn scatter(&self, pieces: &[Segment], packed: &[u8]) -> Moved {
        let mut rest = packed;
        let mut done = 0;
        for piece in pieces {
            let (now, later) = rest.split_at(piece.bytes as usize);
            rest = later;
            let moved = self.write(piece.offset as u64, &[IoSlice::new(now)]);
            done += moved.bytes;
            if moved.fault.is_some() {
                return Moved { bytes: done, ..moved };
            }
        }
        Moved::all(done)
    }

    /// Returns the accesses by views, if the storage knows views. They are better then, because no list of
    /// pieces is sent over the network.
    fn views(&self) -> Option<&dyn Views> {
        None
    }

    /// Returns the length of the file in bytes.
    ///
    /// # Errors
    /// Errors of the system.
    fn bytes(&self) -> Result<u64>;

    /// Sets the length of the file.
    ///
    /// # Errors
    /// Errors of the system.
    fn resize(&self, bytes: u64) -> Result<()>;

    /// Reserves space for the first `bytes` of the file, which is at least that long afterwards.
    ///
    /// # Errors
    /// `NoSpace`, and other errors of the system.
    fn allocate(&self, bytes: u64) -> Result<()>;

    /// Reserves space for a range; the file extends to its end afterwards.
    ///
    /// # Errors
    /// Errors of [`Driver::allocate`].
    fn allocate_range(&self, offset: u64, bytes: u64) -> Result<()> {
        self.allocate(offset + bytes)
    }

    /// Waits until all written data are on the device.
    ///
    /// # Errors
    /// Errors of the system, possibly caused by an earlier write. If a device has lost data, the error is
    /// repeated until the file is closed, though the next system call may succeed. A server that cannot be
    /// reached has not lost data yet.
    fn sync(&self) -> Result<()>;

    /// Describes the file for users: the file system, and the method for small pieces.
    fn describe(&self) -> String;

    /// Returns true if accesses go over a network, so that a few long ones are better than many short ones.
    fn is_remote(&self) -> bool {
        false
    }

    /// Returns the stripe length in bytes and the number of devices of the file, if they are known.
    fn stripes(&self) -> Option<(u64, u32)> {
        None
    }

    /// Returns true if offsets have no meaning: each access continues after the previous one.
    fn is_stream(&self) -> bool {
        false
    }
}
