//! Operations of a communicator that wait until its members have agreed.

use std::collections::{HashMap, VecDeque};

use tutti_coll::tune::UnitKey;
use tutti_coll::tune::cycle::CyclePlace;

use super::call::OwnedCall;
use super::collected::{Maxima, Maximum};
use super::tuning::{CallSpot, Tuning};
use crate::inside::Reading;
use crate::request::RequestId;

/// State of a communicator for operations that wait.
#[derive(Debug, Default)]
pub(crate) struct DeferredCalls {
    /// Operations that were called and wait to begin, in the order of calls.
    pub(crate) waiting: VecDeque<Waiting>,
    /// Agreement on what hosts offer, while it is in progress.
    pub(crate) settling: Option<Settling>,
    /// True if an activity advances the waiting operations.
    pub(crate) attended: bool,
    /// Tuning of the communicator's operations.
    pub(crate) tuning: Tuning,
    /// Contributions of units whose maxima have not arrived yet.
    pub(crate) words: HashMap<CyclePlace, Maxima>,
    /// Number of tuned persistent operations that were made, by key.
    pub(crate) made: HashMap<UnitKey, u32>,
}

impl DeferredCalls {
    /// Counts a new tuned persistent operation; returns the number of earlier ones with the same key.
    pub(crate) fn count_made(&mut self, key: UnitKey) -> u32 {
        let made = self.made.entry(key).or_default();
        *made += 1;
        *made - 1
    }
}

/// Agreement on what hosts offer, in the background.
#[derive(Debug)]
pub(crate) struct Settling {
    /// Maximum over the offers of the hosts.
    pub(crate) maximum: Maximum,
    /// Number of operations that have begun since.
    pub(crate) begun: u32,
}

/// An operation that was called and has not begun.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) call: OwnedCall,
    /// Tags of the operation, and of the agreement if it carries one along.
    pub(crate) tags: [i32; 2],
    /// Request that the call has returned.
    pub(crate) request: RequestId,
    /// Position in the program's loop and time of the call, if the operation is tuned.
    pub(crate) spot: Option<Box<(CallSpot, Reading)>>,
}
