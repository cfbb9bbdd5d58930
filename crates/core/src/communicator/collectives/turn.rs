//! Reservation of a slot in the banks by an operation, and the space that it needs there.

use tutti_coll::Plan;
use tutti_coll::generator::Node;
use tutti_sys::floating_point::isolated;
use tutti_transport::banks::{Banks, Class, Slot};

/// Reservation of a slot in the banks for one operation. Slots of a class are granted in the order of
/// reservations.
#[derive(Clone, Copy, Debug)]
pub struct BankTurn {
    /// Class of the slot.
    class: Class,
    /// Position among the reservations of the class.
    number: u64,
    /// Size of the schedule's bank, in bytes.
    bytes: usize,
    /// True if the operation exposes memory.
    lends: bool,
    /// True if copies of exposed memory bypass the caches.
    streams: bool,
    /// Hash of the signature, which flags carry.
    agreed: u16,
    /// Slot, once it is granted.
    slot: Option<Slot>,
}

/// Space and properties that a plan needs of a slot.
#[derive(Clone, Copy, Debug)]
pub struct SlotNeeds {
    /// Size of the bank, in bytes.
    pub bytes: usize,
    /// True if memory is exposed. It needs tables and edges, for which not all slots have space.
    pub lends: bool,
    /// True if copies of exposed memory bypass the caches.
    streams: bool,
    /// Smallest exposure for reading, in bytes, that is exposed in place if it is mapped.
    pub near_bytes: u64,
    /// Class of slots, once the banks are known.
    class: Option<Class>,
}

impl SlotNeeds {
    /// Computes the needs of a schedule confined to one host.
    pub fn of(near_bytes: u64, plan: &Plan) -> SlotNeeds {
        let bytes = (plan.schedule.bank * plan.shape.unit_bytes) as usize;
        // The algorithm decides, not the rank's part of it: all members need the same class of slots.
        let lends = plan.choice.generator.node() == Node::Exposed;
        let streams = lends && isolated(|| plan.exceeds_cache());
        SlotNeeds { bytes, lends, streams, near_bytes, class: None }
    }

    /// Fixes the class of slots in these banks, for which the plan was selected.
    pub fn within(self, banks: &Banks) -> SlotNeeds {
        SlotNeeds { class: Some(self.class_in(banks)), ..self }
    }

    /// Populates the memory that this rank writes when the operation is repeated. That is its bank, if it
    /// `fills` it, and the tables and edges of this number of exposures.
    pub fn populate(&self, banks: &mut Banks, fills: bool, exposures: usize) {
        let class = self.class.unwrap_or_else(|| self.class_in(banks));
        if fills {
            banks.populate(class, self.bytes);
        }
        banks.populate_exposures(class, exposures);
    }

    /// Returns the class of slots that suits these needs.
    fn class_in(&self, banks: &Banks) -> Class {
        banks.layout().class_of(self.bytes, self.lends).expect("a plan's bank fits: it was selected so")
    }
}

impl BankTurn {
    /// Reserves a slot for an operation that begins now.
    #[inline]
    pub fn take(banks: &mut Banks, room: SlotNeeds, agreed: u16) -> BankTurn {
        let SlotNeeds { bytes, lends, streams, .. } = room;
        let class = room.class.unwrap_or_else(|| room.class_in(banks));
        BankTurn { class, number: banks.begin(class), bytes, lends, streams, agreed, slot: None }
    }

    /// Returns true if the slot is granted, and tries to get it if not.
    #[inline]
    pub fn grant(&mut self, banks: &mut Banks) -> bool {
        if self.slot.is_none() {
            let granted = banks.grant(self.class, self.number, self.bytes, self.agreed);
            self.slot = match granted {
                Some(slot) if !self.lends => Some(banks.spread(slot, self.number, self.bytes)),
                granted => granted,
            };
        }
        self.slot.is_some()
    }

    /// Returns true if the slot is granted, without trying to get it.
    pub fn is_granted(&self) -> bool {
        self.slot.is_some()
    }

    /// Returns the number of the reservation in its class.
    #[inline]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the class of the slot.
    pub fn class(&self) -> Class {
        self.class
    }

    /// Returns the size of the schedule's bank, in bytes.
    pub fn bank_bytes(&self) -> usize {
        self.bytes
    }

    /// Returns true if copies of exposed memory bypass the caches, because all of it together exceeds them.
    pub fn streams(&self) -> bool {
        self.streams
    }

    /// Returns the slot. It must be granted.
    #[inline]
    pub fn slot(&self) -> &Slot {
        self.slot.as_ref().expect("a turn is granted before it is used")
    }

    /// Releases the slot at the end of the operation.
    #[inline]
    pub fn leave(&self, banks: &mut Banks) {
        banks.leave(self.class, self.number);
    }
}
