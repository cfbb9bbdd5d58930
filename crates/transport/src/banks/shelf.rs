//! Banks of persistent operations of a communicator, which are used again.
//!
//! To map and to clear a region takes tens of microseconds, and programs make and free persistent operations
//! by millions. So a member that frees one puts its banks on the shelf; when all members have, the next
//! operation of that layout may get them ([`tutti_sys::regions`]). They go on counting where they stood, so
//! that nothing in them is taken for something newer.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use tutti_sys::job::Job;
use tutti_sys::regions::{Answer, Region, RegionKey, Wanted};

use super::{Banks, Layout};

/// Banks on a shelf, at the most: the oldest are given back to the system.
const MOST_KEPT: usize = 64;
/// Operations that a member may make before others have made the first of them.
const AHEAD: usize = 64;
/// Bits of the number of a key for what distinguishes operations that do not fit.
const DIGEST_BITS: u32 = 10;

/// Sets of banks that a member has released, and the keys of the latest sets that it requested.
#[derive(Debug, Default)]
pub struct Shelf {
    released: VecDeque<Box<Banks>>,
    /// Number of sets requested so far.
    asked: u64,
    /// The latest keys, the oldest first.
    latest: VecDeque<RegionKey>,
}

/// Communicator and operation that ask for banks.
#[derive(Clone, Copy, Debug)]
pub struct Owner {
    /// The serial number of the communicator.
    pub communicator: u64,
    /// The lowest local rank of its members.
    pub lowest: u32,
    /// Differs, mostly, at members that do not mean the same operation: these share nothing.
    pub digest: u16,
}

impl Shelf {
    /// Opens the banks of a new operation. All members ask in the same order. Returns `None` if all members
    /// are refused.
    ///
    /// # Errors
    /// WouldBlock when the others have to come first: then it is asked again. All else as for
    /// [`Banks::open`].
    pub fn open(
        &mut self,
        job: &Arc<Job>,
        owner: Owner,
        layout: &Layout,
        ranks: &[u32],
        me: u32,
    ) -> io::Result<Option<Box<Banks>>> {
        let Owner { communicator, lowest, digest } = owner;
        debug_assert!(digest < 1 << DIGEST_BITS, "a digest that is too long");
        let number = (self.asked + 1) << DIGEST_BITS | u64::from(digest);
        let key = RegionKey { communicator, number, lowest };
        let behind = self.latest.front().copied().filter(|_| self.latest.len() == AHEAD);
        let (members, bytes) = (layout.members, layout.places().bytes as u64);
        let wanted = Wanted { key, members, bytes, form: layout.form(), behind };
        let has = |entry| self.released.iter().rev().any(|banks| banks.region.entry() == entry);
        let answer = Region::ask(job, &wanted, has)?;
        if answer == Answer::Ahead {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.asked += 1;
        if self.latest.len() == AHEAD {
            self.latest.pop_front();
        }
        self.latest.push_back(key);
        let Answer::Granted(grant) = answer else { return Ok(None) };
        // Mostly it is the latest.
        let place = self.released.iter().rposition(|banks| banks.region.entry() == grant.entry);
        let Some(mut banks) = place.and_then(|place| self.released.remove(place)) else {
            return Ok(Some(Box::new(Banks::from_region(
                Region::map(job, grant, bytes)?,
                layout,
                ranks,
                me,
            ))));
        };
        banks.region.retake(grant);
        Ok(Some(banks))
    }

    /// Takes the banks of a freed operation. They are dropped if an operation in them has failed.
    pub fn put(&mut self, mut banks: Box<Banks>) {
        if !banks.is_at_rest() || banks.region.release().is_err() {
            return;
        }
        if self.released.len() == MOST_KEPT {
            self.released.pop_front();
        }
        self.released.push_back(banks);
    }
}
