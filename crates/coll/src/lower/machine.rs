//! The reference machine: what a network interface does with a packet, as a function of its programs and of
//! what it keeps. The verifying tests run it with every fault, and the kernel's program is compared with it
//! packet by packet.
//!
//! # Channels
//! Operations of a group have numbers from 1 on, in the order in which its members call them, and take
//! [`CHANNELS`] records in rotation. A record is taken over by the first packet of a later operation, whoever
//! it is from, so that a message may come long before the call. Who calls sees to it that nobody needs the
//! old one any more ([`super::Rotation`]); a packet of an operation before it is stale.
//!
//! # Loss
//! Nothing is acknowledged: who has waited in vain asks the sender ([`Purpose::Ask`]; yu-2006, section 6.3,
//! receiver-driven retransmission). An interface that has not sent itself what it is asked for, as it waits
//! for a message, passes the question on to whom that should have come from. So a message that was lost
//! between two hosts whose ranks are stopped is found by those who run. And it says that it is there
//! ([`Purpose::Alive`]): who waits for a rank that sleeps hears its interface, and of one that is gone
//! nothing.

use super::program::{Action, ENTERED, Program, Rule};

/// Records of a group.
pub const CHANNELS: u32 = 32;

/// What an operation is, beside its program; all members say the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Operation {
    /// Which program.
    pub program: u8,
    /// How blocks are combined; the machine's owner knows the numbers.
    pub operator: u8,
    /// Bytes of a block.
    pub bytes: u16,
}

/// What a packet is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// The rank of this interface calls the operation.
    Enter,
    /// A message.
    Message {
        /// Which event it is here.
        event: u8,
    },
    /// A message from here is missed.
    Ask {
        /// The rule that sends it.
        rule: u8,
    },
    /// A message that was asked for is waited for here too.
    Alive {
        /// Which event it is there.
        event: u8,
    },
}

/// A packet between two interfaces, or from a rank to its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Packet {
    /// The number of the operation, from 1 on.
    pub sequence: u32,
    /// What is done.
    pub operation: Operation,
    /// The sender.
    pub from: u32,
    /// The receiver.
    pub to: u32,
    /// What it is for.
    pub purpose: Purpose,
    /// A block, or nothing.
    pub data: Vec<u8>,
}

/// Why a packet changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dropped {
    /// No such program, event, rule or peer, or not as many bytes as it says.
    Malformed,
    /// Of an operation that is over.
    Stale,
    /// Members disagree on what this operation is.
    Disagreement,
    /// It has come before.
    Again,
    /// What is asked for waits for the own rank.
    Waits,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Nothing.
    Dropped(Dropped),
    /// It was used.
    Taken,
    /// It was used, and the operation is over for the own rank.
    Complete,
}

/// One operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Its number; 0: none yet.
    pub sequence: u32,
    /// What it is.
    pub operation: Operation,
    /// Events that have come.
    pub arrived: u32,
    /// Rules that are done.
    pub fired: u32,
    /// The number of the last operation here that was over for the rank.
    pub done: u32,
    /// The number of the last operation here on which members disagree.
    pub disputed: u32,
    /// Events whose senders have said that they wait themselves; the rank forgets them when it asks.
    pub heard: u32,
    /// Blocks.
    pub areas: Vec<Vec<u8>>,
}

/// An interface: the programs of one member of a group and its records.
#[derive(Clone, Debug)]
pub struct Machine {
    rank: u32,
    programs: Vec<Program>,
    records: Vec<Record>,
    combine: fn(u8, &[u8], &[u8]) -> Vec<u8>,
}

impl Machine {
    /// The interface of a rank. `combine`: operator, left and right operand to the result.
    pub fn new(rank: u32, programs: Vec<Program>, combine: fn(u8, &[u8], &[u8]) -> Vec<u8>) -> Machine {
        Machine { rank, programs, records: vec![Record::default(); CHANNELS as usize], combine }
    }

    /// What it keeps of an operation, or of another one in the same channel.
    pub fn record(&self, sequence: u32) -> &Record {
        &self.records[(sequence % CHANNELS) as usize]
    }

    /// Takes a packet in; what it sends is appended to `out`.
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

    /// What the rank sends that has waited in vain for an operation: its call, if the interface does not know
    /// of it, and questions.
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

/// Does what can be done now.
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

/// The message of a rule.
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
