//! Reference machine: a network interface's reaction to a packet, as a function of its programs and its
//! records. The verifying tests run it with every fault, and the kernel's program is compared with it packet
//! by packet.
//!
//! # Channels
//! Operations of a group have numbers from 1 on, in the order in which its members call them, and use
//! [`CHANNELS`] records in rotation. The first packet of a later operation takes over a record, whoever sent
//! it, so a message may arrive long before the call. The caller ensures that nobody needs the old operation
//! any more ([`super::Rotation`]). A packet of an older operation is stale.
//!
//! # Loss
//! Nothing is acknowledged. A rank that has waited in vain requests the message from its sender
//! ([`Purpose::Ask`]; yu-2006, section 6.3, receiver-driven retransmission). An interface that has not sent
//! the requested message, as it waits for one itself, forwards the request to the sender of that one. So
//! running ranks also recover a message that was lost between two hosts whose ranks are stopped. The
//! interface also replies that it is alive ([`Purpose::Alive`]). A rank that waits for a sleeping rank thus
//! gets replies from its interface, but none if the rank is gone.

use super::program::{Action, ENTERED, Program, Rule};

/// Number of records of a group.
pub const CHANNELS: u32 = 32;

/// Description of an operation beside its program, equal at all members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Operation {
    /// Index of the program.
    pub program: u8,
    /// Number of the operator that combines blocks; its meaning is defined by the machine's owner.
    pub operator: u8,
    /// Number of bytes of a block.
    pub bytes: u16,
}

/// Purpose of a packet, with its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Tells the interface that its own rank calls the operation.
    Enter,
    /// Carries a message of the operation.
    Message {
        /// Number of the message's event at the receiver.
        event: u8,
    },
    /// Requests a lost message from its sender.
    Ask {
        /// Number of the sender's rule that emits the message.
        rule: u8,
    },
    /// Reports that the sender of a requested message is itself still waiting.
    Alive {
        /// Number of the message's event at the rank that requested it.
        event: u8,
    },
}

/// A packet between two interfaces, or from a rank to its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Packet {
    /// Number of the operation, at least 1.
    pub sequence: u32,
    /// Description of the operation.
    pub operation: Operation,
    /// Rank of the sender.
    pub from: u32,
    /// Rank of the receiver.
    pub to: u32,
    /// Purpose of the packet.
    pub purpose: Purpose,
    /// A block of data, or empty.
    pub data: Vec<u8>,
}

/// Reason why a packet changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dropped {
    /// The program, event, rule or peer does not exist, or the number of bytes is wrong.
    Malformed,
    /// The operation has completed already.
    Stale,
    /// Members disagree on the description of the operation.
    Disagreement,
    /// The packet has arrived before.
    Again,
    /// The requested message waits for the own rank's call.
    Waits,
}

/// Result of processing a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The packet was ignored for this reason.
    Dropped(Dropped),
    /// The packet was used.
    Taken,
    /// The packet was used, and completed the operation for the own rank.
    Complete,
}

/// State of one operation in a channel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Number of the operation; 0 if none has used the record yet.
    pub sequence: u32,
    /// Description of the operation.
    pub operation: Operation,
    /// Bit mask of events that have arrived.
    pub arrived: u32,
    /// Bit mask of rules that have fired.
    pub fired: u32,
    /// Number of the last operation in this record that was complete for the rank.
    pub done: u32,
    /// Number of the last operation in this record on which members disagree.
    pub disputed: u32,
    /// Bit mask of events whose senders have reported that they wait themselves. The rank clears it when it
    /// requests messages.
    pub heard: u32,
    /// Contents of the areas, empty until they are defined.
    pub areas: Vec<Vec<u8>>,
}

/// Network interface: the programs of one member of a group, and its records.
#[derive(Clone, Debug)]
pub struct Machine {
    rank: u32,
    programs: Vec<Program>,
    records: Vec<Record>,
    combine: fn(u8, &[u8], &[u8]) -> Vec<u8>,
}

impl Machine {
    /// Returns the interface of a rank. `combine` maps operator, left and right operand to the result.
    pub fn new(rank: u32, programs: Vec<Program>, combine: fn(u8, &[u8], &[u8]) -> Vec<u8>) -> Machine {
        Machine { rank, programs, records: vec![Record::default(); CHANNELS as usize], combine }
    }

    /// Returns the record of an operation. It may hold another operation of the same channel.
    pub fn record(&self, sequence: u32) -> &Record {
        &self.records[(sequence % CHANNELS) as usize]
    }

    /// Processes a packet; packets that it sends are appended to `out`.
    pub fn take(&mut self, packet: &Packet, out: &mut Vec<Packet>) -> Verdict {
        if packet.sequence == 0 || packet.to != self.rank {
            return Verdict::Dropped(Dropped::Malformed);
        }
        match packet.purpose {
            Purpose::Enter => self.arrive(packet, 0, out),
            Purpose::Message { event } => self.arrive(packet, event, out),
            Purpose::Ask { rule } => self.answer(packet, rule, out),
            Purpose::Alive { event } => self.hear(packet, event),
        }
    }

    /// Returns the packets that a rank sends after it has waited in vain for an operation. These are its
    /// call, if the interface does not know it, and requests for missing messages.
    pub fn overdue(&self, call: &Packet) -> Vec<Packet> {
        let record = self.record(call.sequence);
        let arrived = if record.sequence == call.sequence { record.arrived } else { 0 };
        let again = (arrived & ENTERED == 0).then(|| call.clone());
        let program = &self.programs[usize::from(call.operation.program)];
        let asks = program.overdue(arrived).map(|(to, rule)| Packet {
            to,
            purpose: Purpose::Ask { rule },
            data: Vec::new(),
            ..*call
        });
        again.into_iter().chain(asks).collect()
    }

    fn arrive(&mut self, packet: &Packet, event: u8, out: &mut Vec<Packet>) -> Verdict {
        let programs = &self.programs;
        let Some(program) = programs.get(usize::from(packet.operation.program)) else {
            return Verdict::Dropped(Dropped::Malformed);
        };
        let known = program.events.get(usize::from(event)).filter(|known| known.peer == packet.from);
        let is_own = matches!(packet.purpose, Purpose::Enter);
        let Some(known) = known.filter(|_| (event == 0) == is_own) else {
            return Verdict::Dropped(Dropped::Malformed);
        };
        let bytes = if known.into.is_some() { usize::from(packet.operation.bytes) } else { 0 };
        if packet.data.len() != bytes {
            return Verdict::Dropped(Dropped::Malformed);
        }
        let record = &mut self.records[(packet.sequence % CHANNELS) as usize];
        if record.sequence > packet.sequence {
            return Verdict::Dropped(Dropped::Stale);
        }
        if record.sequence < packet.sequence {
            record.sequence = packet.sequence;
            record.operation = packet.operation;
            (record.arrived, record.fired, record.heard) = (0, 0, 0);
            record.areas = vec![Vec::new(); usize::from(program.areas)];
        } else if record.operation != packet.operation {
            record.disputed = packet.sequence;
            return Verdict::Dropped(Dropped::Disagreement);
        }
        if record.arrived >> event & 1 == 1 {
            return Verdict::Dropped(Dropped::Again);
        }
        if let Some(area) = known.into {
            record.areas[usize::from(area)].clone_from(&packet.data);
        }
        record.arrived |= 1 << event;
        fire(record, program, self.combine, out)
    }

    fn answer(&mut self, packet: &Packet, rule: u8, out: &mut Vec<Packet>) -> Verdict {
        let Some(program) = self.programs.get(usize::from(packet.operation.program)) else {
            return Verdict::Dropped(Dropped::Malformed);
        };
        let known = program.rules.get(usize::from(rule)).filter(|known| match known.action {
            Action::Emit { peer, .. } => peer == packet.from,
            Action::Combine { .. } | Action::Complete => false,
        });
        let Some(known) = known.filter(|_| packet.data.is_empty()) else {
            return Verdict::Dropped(Dropped::Malformed);
        };
        let record = &self.records[(packet.sequence % CHANNELS) as usize];
        if record.sequence > packet.sequence {
            return Verdict::Dropped(Dropped::Stale);
        }
        let has_begun = record.sequence == packet.sequence;
        if has_begun && record.operation != packet.operation {
            return Verdict::Dropped(Dropped::Disagreement);
        }
        if has_begun && record.fired >> rule & 1 == 1 {
            out.extend(emitted(record, program, known));
            return Verdict::Taken;
        }
        let missing = known.needs & !if has_begun { record.arrived } else { 0 };
        let mut say = |to, purpose| {
            out.push(Packet { from: self.rank, to, purpose, data: Vec::new(), ..*packet });
        };
        let waits_for_rank = missing & ENTERED != 0;
        if !waits_for_rank {
            let lost = program.events[missing.trailing_zeros() as usize];
            say(lost.peer, Purpose::Ask { rule: lost.rule });
        }
        if let Action::Emit { event, .. } = known.action {
            say(packet.from, Purpose::Alive { event });
        }
        if waits_for_rank { Verdict::Dropped(Dropped::Waits) } else { Verdict::Taken }
    }

    fn hear(&mut self, packet: &Packet, event: u8) -> Verdict {
        let program = self.programs.get(usize::from(packet.operation.program));
        let known = program.and_then(|program| program.events.get(usize::from(event)));
        let is_sound = known.is_some_and(|known| known.peer == packet.from);
        if event == 0 || !is_sound || !packet.data.is_empty() {
            return Verdict::Dropped(Dropped::Malformed);
        }
        let record = &mut self.records[(packet.sequence % CHANNELS) as usize];
        if record.sequence != packet.sequence {
            return Verdict::Dropped(Dropped::Stale);
        }
        record.heard |= 1 << event;
        Verdict::Taken
    }
}

/// Fires all rules whose events have arrived.
fn fire(
    record: &mut Record,
    program: &Program,
    combine: fn(u8, &[u8], &[u8]) -> Vec<u8>,
    out: &mut Vec<Packet>,
) -> Verdict {
    let mut verdict = Verdict::Taken;
    for (number, rule) in program.rules.iter().enumerate() {
        if record.fired >> number & 1 == 1 || rule.needs & !record.arrived != 0 {
            continue;
        }
        record.fired |= 1 << number;
        match rule.action {
            Action::Combine { left, right, into } => {
                let [left, right] = [left, right].map(|area| &record.areas[usize::from(area)]);
                record.areas[usize::from(into)] = combine(record.operation.operator, left, right);
            }
            Action::Emit { .. } => out.extend(emitted(record, program, rule)),
            Action::Complete => {
                record.done = record.sequence;
                verdict = Verdict::Complete;
            }
        }
    }
    verdict
}

/// Returns the message that a rule emits, or `None` if it emits none.
fn emitted(record: &Record, program: &Program, rule: &Rule) -> Option<Packet> {
    let Action::Emit { peer, event, from } = rule.action else { return None };
    let data = from.map_or(Vec::new(), |area| record.areas[usize::from(area)].clone());
    Some(Packet {
        sequence: record.sequence,
        operation: record.operation,
        from: program.rank,
        to: peer,
        purpose: Purpose::Message { event },
        data,
    })
}
