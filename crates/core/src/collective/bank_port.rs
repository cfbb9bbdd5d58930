//! All that an operation needs which uses nothing but flags, banks and what travels by value: the usual small
//! one.

use tutti_base::Result;
use tutti_coll::ir::Access;
use tutti_transport::banks::{Banks, Slot};
use tutti_transport::locality;

use super::inline_payload::Carrier;
use crate::buffer::Buffer;
use crate::engine::{Exposed, NodePort, Remote};

/// The node for an operation that is granted its flags and banks, as long as what it exposes travels by value. All members of the
/// communicator are here, and have the numbers there that their ranks are.
#[derive(Debug)]
pub struct BankPort<'a> {
    /// The banks.
    pub banks: &'a Banks,
    /// Those of the operation.
    pub slot: Slot,
    /// Bytes of the bank of the schedule.
    pub bank_bytes: usize,
    /// What is carried beside it.
    pub carried_bytes: usize,
    /// What is read from so many bytes on is for a port that lends.
    pub near_bytes: u64,
    /// Looks at a flag beyond the first.
    pub looks: u32,
}

/// The engine leaves all else to another port.
const LIGHT: &str = "a light port only carries";

impl BankPort<'_> {
    fn carrier(&self) -> Carrier<'_> {
        Carrier { banks: self.banks, slot: &self.slot, bank_bytes: self.bank_bytes, rank: self.banks.me() }
    }

    /// As [`NodePort::reached`], for a few microseconds, and finds out how far the peer is.
    #[cold]
    fn observe_distance(&self, peer: u32, flag: u16, value: u64) -> bool {
        locality::observe_reader(|| self.banks.is_reached(&self.slot, peer, flag, value)).came
    }
}

impl NodePort for BankPort<'_> {
    const LIGHT: bool = true;

    #[inline]
    fn carry(&mut self, number: u16, memory: Exposed<'_>, access: Access) -> bool {
        if self.carrier().bytes(memory) >= self.near_bytes {
            return false;
        }
        let mut used = self.carried_bytes;
        let is_carried = self.carrier().carry(number, memory, access, &mut used);
        self.carried_bytes = used;
        is_carried
    }

    #[inline]
    fn carried(&mut self, from: Remote) -> Option<*const u8> {
        self.carrier().carried(from.peer, from)
    }

    fn granted(&mut self) -> bool {
        true
    }

    #[inline(always)]
    fn post(&mut self, flag: u16, value: u64) {
        self.banks.post(&self.slot, flag, value);
    }

    #[inline(always)]
    fn reached(&mut self, peer: u32, flag: u16, value: u64) -> bool {
        if self.banks.is_reached(&self.slot, peer, flag, value) {
            self.banks.look_ahead(&self.slot, peer, flag);
            return true;
        }
        if locality::is_due() {
            return self.observe_distance(peer, flag, value);
        }
        for _ in 0..self.looks {
            std::hint::spin_loop();
            if self.banks.is_reached(&self.slot, peer, flag, value) {
                return true;
            }
        }
        false
    }

    #[inline(always)]
    fn bank(&mut self, peer: u32) -> *mut u8 {
        self.banks.bank(&self.slot, peer)
    }

    fn expose(&mut self, _: u16, _: Exposed<'_>, _: Access) -> Result<()> {
        unreachable!("{LIGHT}")
    }

    #[inline(always)]
    fn lends(&self) -> bool {
        false
    }

    fn direct(&mut self, _: Remote, _: u64) -> Option<*const u8> {
        unreachable!("{LIGHT}")
    }

    fn pull(&mut self, _: Remote, _: &Buffer) -> Result<()> {
        unreachable!("{LIGHT}")
    }

    fn push(&mut self, _: &Buffer, _: Remote) -> Result<()> {
        unreachable!("{LIGHT}")
    }

    fn leave(&mut self) {}
}
