//! One trait for all that files lie on, and one conformance suite for all that implement it (in `io`, which
//! has what it is tried with).
//!
//! A driver moves bytes between memory and places in one open file. Calls may come from several threads at a time. What it could not do
//! it reports together with how much it has done: bytes that it has acknowledged are in the file.

use std::fmt::Debug;
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

use tutti_base::{Error, Result};
use tutti_data::{Segment, Tiles};

/// What became of a transfer.
#[derive(Debug, Default)]
pub struct Moved {
    /// Bytes that were moved, from the first on.
    pub bytes: u64,
    /// Why no more were, unless all were or the file has ended.
    pub fault: Option<Error>,
}

impl Moved {
    /// So many, and nothing went wrong.
    pub fn all(bytes: u64) -> Moved {
        Moved { bytes, fault: None }
    }

    /// As a result.
    ///
    /// # Errors
    /// The fault.
    pub fn result(self) -> Result<u64> {
        self.fault.map_or(Ok(self.bytes), Err)
    }
}

/// Accesses to ranges of the stream of a view.
pub trait Views {
    /// Reads from `stream` on until memory is full. Returns how many bytes of it lie before the end of the
    /// file.
    fn read_view(&self, view: &Arc<Tiles>, stream: u64, into: &mut [IoSliceMut<'_>]) -> Moved;

    /// Writes all of memory from `stream` on.
    fn write_view(&self, view: &Arc<Tiles>, stream: u64, from: &[IoSlice<'_>]) -> Moved;
}

/// An open file.
pub trait Driver: Send + Sync + Debug {
    /// Reads from `offset` on until memory is full or the file ends.
    fn read(&self, offset: u64, into: &mut [IoSliceMut<'_>]) -> Moved;

    /// Writes all of memory from `offset` on.
    fn write(&self, offset: u64, from: &[IoSlice<'_>]) -> Moved;

    /// Reads pieces of the file, which ascend and do not overlap, one after the other into `packed`, which is as long as they are.
    /// Returns how many bytes of them lie before the end of the file.
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

    /// Writes `packed` to pieces of the file, which ascend and do not overlap, and to no other byte.
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

    /// The better way, where a view is known at the other end: no list of its runs goes over the network.
    fn views(&self) -> Option<&dyn Views> {
        None
    }

    /// Bytes of the file.
    ///
    /// # Errors
    /// What the system reports.
    fn bytes(&self) -> Result<u64>;

    /// Makes it longer or shorter.
    ///
    /// # Errors
    /// What the system reports.
    fn resize(&self, bytes: u64) -> Result<()>;

    /// Makes room for its first `bytes`; it is at least so long then.
    ///
    /// # Errors
    /// `NoSpace`, and what else the system reports.
    fn allocate(&self, bytes: u64) -> Result<()>;

    /// Makes room for a range; the file reaches its end then.
    ///
    /// # Errors
    /// As [`Driver::allocate`].
    fn allocate_range(&self, offset: u64, bytes: u64) -> Result<()> {
        self.allocate(offset + bytes)
    }

    /// Waits until all that was written is on the device.
    ///
    /// # Errors
    /// What the system reports, which may be of an earlier write. What a device has lost is told again until
    /// the file is closed, though the next call to the system may succeed; a server that cannot be reached
    /// has lost nothing yet.
    fn sync(&self) -> Result<()>;

    /// What it is, for people: the file system, how pieces are moved.
    fn describe(&self) -> String;

    /// Whether accesses go over a network, so that few long ones are better than many short ones.
    fn is_remote(&self) -> bool {
        false
    }

    /// Bytes of a stripe and number of devices that the file is spread over, where that is known.
    fn stripes(&self) -> Option<(u64, u32)> {
        None
    }

    /// Whether places mean nothing: what is read or written follows what was before.
    fn is_stream(&self) -> bool {
        false
    }
}
