//! An operation's turn at the banks, and what it needs of them.

use tutti_coll::Plan;
use tutti_coll::generator::Node;
use tutti_sys::floating_point::isolated;
use tutti_transport::banks::{Banks, Class, Slot};

/// What one operation uses of the banks.
#[derive(Clone, Copy, Debug)]
pub struct BankTurn {
    class: Class,
    number: u64,
    bytes: usize,
    lends: bool,
    streams: bool,
    agreed: u16,
    slot: Option<Slot>,
}

/// What a plan needs of a slot.
#[derive(Clone, Copy, Debug)]
pub struct SlotNeeds {
    /// Of the bank.
    pub bytes: usize,
    /// Exposed memory has tables and edges, for which not all slots have room.
    pub lends: bool,
    /// Copies of lent memory pass the caches by.
    streams: bool,
    /// What is lent to be read is lent where it is mapped, from so many bytes on.
    pub near_bytes: u64,
    /// Of which class its slots are, once it is known of which banks.
    class: Option<Class>,
}

impl SlotNeeds {
    /// Of a schedule within the node.
    pub fn of(near_bytes: u64, plan: &Plan) -> SlotNeeds {
        let bytes = (plan.schedule.bank * plan.shape.unit_bytes) as usize;
        // The algorithm decides, not the rank's part: all need the same room.
        let lends = plan.choice.generator.node() == Node::Exposed;
        let streams = lends && isolated(|| plan.exceeds_cache());
        SlotNeeds { bytes, lends, streams, near_bytes, class: None }
    }

    /// In these banks, for which it was selected.
    pub fn within(self, banks: &Banks) -> SlotNeeds {
        SlotNeeds { class: Some(self.class_in(banks)), ..self }
    }

    /// Has the memory now that a rank writes which does this again and again: of its bank, if it `fills`
    /// that, and for what it lends, so many times.
    pub fn populate(&self, banks: &mut Banks, fills: bool, exposures: usize) {
        let class = self.class.unwrap_or_else(|| self.class_in(banks));
        if fills {
            banks.populate(class, self.bytes);
        }
        banks.populate_exposures(class, exposures);
    }

    fn class_in(&self, banks: &Banks) -> Class {
        banks.layout().class_of(self.bytes, self.lends).expect("a plan's bank fits: it was selected so")
    }
}

impl BankTurn {
    /// The turn of an operation that begins now.
    #[inline]
    pub fn take(banks: &mut Banks, room: SlotNeeds, agreed: u16) -> BankTurn {
        let SlotNeeds { bytes, lends, streams, .. } = room;
        let class = room.class.unwrap_or_else(|| room.class_in(banks));
        BankTurn { class, number: banks.begin(class), bytes, lends, streams, agreed, slot: None }
    }

    /// Asks whether it has come.
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

    /// Whether it has come.
    pub fn is_granted(&self) -> bool {
        self.slot.is_some()
    }

    /// The number of the operation in its class.
    #[inline]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Of which class its slot is.
    pub fn class(&self) -> Class {
        self.class
    }

    /// Bytes of the bank of the schedule.
    pub fn bank_bytes(&self) -> usize {
        self.bytes
    }

    /// Whether copies of lent memory pass the caches by: all of it together does not fit in there.
    pub fn streams(&self) -> bool {
        self.streams
    }

    /// What the operation uses, once its turn has come.
    #[inline]
    pub fn slot(&self) -> &Slot {
        self.slot.as_ref().expect("a turn is granted before it is used")
    }

    /// It is over.
    #[inline]
    pub fn leave(&self, banks: &mut Banks) {
        banks.leave(self.class, self.number);
    }
}
