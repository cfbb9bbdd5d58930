//! The smallest port for the engine. It serves operations that use only flags, banks and payloads that
//! travel by value: the usual small operation.

use tutti_base::Result;
use tutti_coll::ir::Access;
use tutti_transport::banks::{Banks, Slot};
use tutti_transport::locality;

use super::inline_payload::Carrier;
use crate::buffer::Buffer;
use crate::engine::{Exposed, NodePort, Remote};

/// Port of an operation that owns its flags and banks, as long as all memory it exposes travels by value.
/// All members of the communicator are on this host, and their numbers in the banks are their ranks.
#[derive(Debug)]
pub struct BankPort<'a> {
    /// Banks of the communicator.
    pub banks: &'a Banks,
    /// Slot of the operation in the banks.
    pub slot: Slot,
    /// Size of the bank of the schedule, in bytes.
    pub bank_bytes: usize,
    /// Bytes of payload copied next to the bank so far.
    pub carried_bytes: usize,
    /// Smallest exposure, in bytes, that is read in place instead of copied; such memory needs the full
    /// port.
    pub near_bytes: u64,
    /// Number of polls of a flag after the first.
    pub looks: u32,
}

/// Panic message: the engine passes all other work to another port.
const LIGHT: &str = "a light port only carries";

impl BankPort<'_> {
    /// Returns the view of the slot for copying payloads.
    fn carrier(&self) -> Carrier<'_> {
        Carrier { banks: self.banks, slot: &self.slot, bank_bytes: self.bank_bytes, rank: self.banks.me() }
    }

    /// Polls a flag for a few microseconds, as `NodePort::reached` does, and measures the distance of the
    /// peer.
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
