//! State of a communicator for the kernel's packet program (S9).

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};

use super::Collectives;
use crate::communicator::Communicator;
use crate::lanes::LaneGuard;
use crate::offload::OffloadGroup;

/// State of the offload for one communicator.
#[derive(Debug, Default)]
pub(crate) enum OffloadState {
    /// Not decided so far.
    #[default]
    Open,
    /// Not used.
    None,
    /// Used by all members, each on a host of its own; with the addresses of the hosts.
    Ready(Arc<OffloadGroup>, Arc<[Ipv4Addr]>),
    /// Used by the leaders of hosts that have several members.
    Several(Arc<Hosts>),
}

/// Communicators and state for hosts with several members.
#[derive(Debug)]
pub(crate) struct Hosts {
    /// Communicator of the members on this host, for the part up to the leader.
    pub up: Arc<Communicator>,
    /// Communicator of the same members, for the part down from the leader.
    pub down: Arc<Communicator>,
    /// Communicator of the leaders; `None` at other members.
    pub leaders: Option<Arc<Communicator>>,
    /// Group of the leaders in the kernel; `None` at other members.
    pub place: Option<Arc<OffloadGroup>>,
    /// Index of each member's host, and its number on that host.
    pub members: Vec<(u32, u32)>,
    /// Counters that keep the parts of operations in order.
    pub turns: Mutex<Turns>,
}

/// Numbers of operations: called, begun in the kernel, and begun on the way down.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// Position of the next operation.
    pub(crate) next: u32,
    /// Number of operations whose call of the kernel has begun here.
    pub(crate) called: u32,
    /// Number of operations whose part down has begun here.
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
            OffloadState::Several(hosts) => {
                let leaders = hosts.leaders.iter().map(Arc::clone);
                leaders.chain([Arc::clone(&hosts.up), Arc::clone(&hosts.down)]).collect()
            }
            _ => Vec::new(),
        }
    }
}
