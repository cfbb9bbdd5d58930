//! Links of several ranks in one process, over loopback.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};

use tutti_base::config::Config;
use tutti_sys::job::Secret;

use super::*;
use crate::directory::{Address, Answer};

/// Addresses that all ranks of a test share.
#[derive(Clone, Debug, Default)]
struct Shared {
    known: Arc<Mutex<HashMap<u32, Address>>>,
    rank: u32,
    asked: Vec<u32>,
}

impl Directory for Shared {
    fn publish(&mut self, address: &Address) {
        self.known.lock().unwrap().insert(self.rank, *address);
    }

    fn request(&mut self, rank: u32) {
        self.asked.push(rank);
    }

    fn poll(&mut self) -> Option<Answer> {
        let known = self.known.lock().unwrap();
        let place = self.asked.iter().position(|rank| known.contains_key(rank))?;
        let rank = self.asked.swap_remove(place);
        Some((rank, known.get(&rank).copied()))
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// The links of a job on loopback.
pub(crate) fn job(ranks: u32, config: &Config) -> Vec<FabricLink> {
    let shared = Shared::default();
    let link = |rank| {
        let identity =
            Identity { rank, ranks, job_id: 7, secret: Secret([9; 32]), interface: "127.0.0.1".to_string() };
        let directory = Box::new(Shared { rank, ..shared.clone() });
        FabricLink::new(config, &identity, directory).unwrap()
    };
    (0..ranks).map(link).collect()
}
