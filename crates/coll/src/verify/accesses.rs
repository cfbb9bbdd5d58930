//! Accesses to memory that several ranks use, and the check that conflicting accesses are ordered.
//!
//! An access is forgotten when a later one replaces it. An access that conflicts with the old one also
//! conflicts with the new one, and is after the old one if it is after the new one.

use super::clocks::{Clocks, Thread};
use crate::cursor::Instance;

/// One step's use of units `start..end` of a buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    pub start: u64,
    pub end: u64,
    pub rank: u32,
    pub thread: Thread,
    /// Epoch of `thread` at the time of the access.
    pub epoch: u32,
    pub instance: Instance,
}

impl Access {
    fn overlaps(&self, other: &Access) -> bool {
        self.start < other.end && other.start < self.end
    }

    fn covers(&self, other: &Access) -> bool {
        self.start <= other.start && other.end <= self.end
    }
}

/// Accesses to one buffer of one rank.
#[derive(Clone, Debug, Default)]
pub(super) struct Accesses {
    /// True if other ranks may access it: the bank from the beginning, other memory once a part of it is
    /// exposed.
    pub watched: bool,
    reads: Vec<Access>,
    writes: Vec<Access>,
}

impl Accesses {
    /// Records an access, and checks its order against earlier ones.
    ///
    /// # Errors
    /// Returns an earlier access that conflicts with this one and is not ordered before it, and `true` if
    /// that was a write.
    pub fn record(&mut self, access: Access, write: bool, clocks: &Clocks) -> Result<(), (Access, bool)> {
        let conflicts = |earlier: &&Access| {
            earlier.overlaps(&access) && !clocks.knows(access.thread, earlier.thread, earlier.epoch)
        };
        if let Some(earlier) = self.writes.iter().find(conflicts) {
            return Err((*earlier, true));
        }
        if !write {
            self.reads.retain(|earlier| earlier.thread != access.thread || !access.covers(earlier));
            self.reads.push(access);
            return Ok(());
        }
        if let Some(earlier) = self.reads.iter().find(conflicts) {
            return Err((*earlier, false));
        }
        self.reads.retain(|earlier| !access.covers(earlier));
        self.writes.retain(|earlier| !access.covers(earlier));
        self.writes.push(access);
        Ok(())
    }

    /// Returns an access that is not ordered before the end of `owner`, if there is one.
    pub fn beyond(&self, owner: u32, clocks: &Clocks) -> Option<&Access> {
        let mut all = self.reads.iter().chain(&self.writes);
        all.find(|access| !clocks.leaves_after(owner, access.thread, access.epoch))
    }
}
