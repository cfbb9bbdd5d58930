//! Operations of a communicator that wait to begin until its members have agreed.

use std::collections::{HashMap, VecDeque};

use tutti_coll::tune::UnitKey;
use tutti_coll::tune::cycle::Place;

use super::collected::{Maxima, Maximum};
use super::operation::Owned;
use super::tuning::{CallSpot, Tuning};
use crate::inside::Reading;
use crate::request::RequestId;

/// What a communicator keeps of it.
#[derive(Debug, Default)]
pub(crate) struct Deferred {
    pub(crate) waiting: VecDeque<Waiting>,
    /// What hosts have to offer is being found out.
    pub(crate) settling: Option<Settling>,
    /// An activity looks after what waits.
    pub(crate) attended: bool,
    pub(crate) tuning: Tuning,
    /// What units have contributed and not heard of.
    pub(crate) words: HashMap<Place, Maxima>,
    /// Tuned persistent operations that were made, by what they are.
    pub(crate) made: HashMap<UnitKey, u32>,
}

impl Deferred {
    /// A tuned persistent operation is made: how many equal ones were before.
    pub(crate) fn count_made(&mut self, key: UnitKey) -> u32 {
        let made = self.made.entry(key).or_default();
        *made += 1;
        *made - 1
    }
}

#[derive(Debug)]
pub(crate) struct Settling {
    pub(crate) maximum: Maximum,
    /// Operations that have begun since.
    pub(crate) begun: u32,
}

/// An operation that was called for.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) operation: Owned,
    /// The number of the operation, and that of the agreement if it carries one along.
    pub(crate) tags: [i32; 2],
    pub(crate) request: RequestId,
    /// Position in the program's loop and time of the call, if the operation is tuned.
    pub(crate) spot: Option<Box<(CallSpot, Reading)>>,
}
