//! What a communicator has of the kernel's packet program (S9).

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};

use super::Collectives;
use crate::communicator::Communicator;
use crate::lanes::LaneGuard;
use crate::offload::OffloadGroup;

/// Whether the members have the kernel's program.
#[derive(Debug, Default)]
pub(crate) enum Standing {
    /// Nobody has asked.
    #[default]
    Open,
    /// They have not.
    None,
    /// They have; their hosts.
    Ready(Arc<OffloadGroup>, Arc<[Ipv4Addr]>),
    /// Those have who speak for their hosts.
    Several(Arc<Hosts>),
}

/// The hosts of a communicator.
#[derive(Debug)]
pub(crate) struct Hosts {
    pub up: Arc<Communicator>,
    pub down: Arc<Communicator>,
    /// At those who speak for their hosts: all of these, and what they are in the kernel.
    pub leaders: Option<Arc<Communicator>>,
    pub place: Option<Arc<OffloadGroup>>,
    /// The host of each member, and which one on it that is.
    pub members: Vec<(u32, u32)>,
    pub turns: Mutex<Turns>,
}

/// How many operations were called, and have begun their parts.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    pub(crate) next: u32,
    pub(crate) called: u32,
    pub(crate) descended: u32,
}

impl Hosts {
    pub(crate) fn turns(&self) -> std::sync::MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_alone(&self) -> bool {
        self.up.size() == 1
    }
}

impl Collectives {
    /// What a communicator has of communicators for it.
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
