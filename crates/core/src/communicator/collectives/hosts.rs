//! State of a communicator for the kernel's packet program (S9).

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};

use super::Collectives;
use crate::communicator::Communicator;
use crate::lanes::LaneGuard;
use crate::offload::OffloadGroup;

/// State of the offload for one communicator.
#[derive(Debug, Default)]
pub(crate) enum Standing {
    /// Not decided so far.
    #[default]
    Open,
    /// Not used.
    None,
    /// Used by all members, each on a host of its own; with the addresses of the hosts.
    Ready(Arc<OffloadGroup>, Arc<[Ipv4Addr]>),
    /// Used by the speakers of hosts that have several members.
    Several(Arc<Hosts>),
}

/// Communicators and state for hosts with several members.
#[derive(Debug)]
pub(crate) struct Hosts {
    pub up: Arc<Communicator>,
    pub down: Arc<Communicator>,
    /// Communicator of the speakers, and its group in the kernel; only at speakers.
    pub leaders: Option<Arc<Communicator>>,
    pub place: Option<Arc<OffloadGroup>>,
    /// Index of each member's host, and its number on that host.
    pub members: Vec<(u32, u32)>,
    pub turns: Mutex<Turns>,
}

/// Numbers of operations: called, begun in the kernel, and begun on the way down.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    pub(crate) next: u32,
    pub(crate) called: u32,
    pub(crate) descended: u32,
}

impl Hosts {
    /// Locks the numbers of operations.
    pub(crate) fn turns(&self) -> std::sync::MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if this rank is the only member on its host.
    pub(crate) fn is_alone(&self) -> bool {
        self.up.size() == 1
    }
}

impl Collectives {
    /// Returns the communicators that this one uses internally for the offload.
    pub(crate) fn parts(&self, held: &LaneGuard) -> Vec<Arc<Communicator>> {
        match &*self.offloaded.borrow(held) {
            Standing::Several(hosts) => {
                let leaders = hosts.leaders.iter().map(Arc::clone);
                leaders.chain([Arc::clone(&hosts.up), Arc::clone(&hosts.down)]).collect()
            }
            _ => Vec::new(),
        }
    }
}
