//! The tables of the kernel's program, as `bpf/packets.c` has them: sizes, and programs as their entries.

use tutti_coll::lower::{AREAS, Action, CHANNELS, EVENTS, Program, RULES};

/// Where interfaces talk to each other (UDP).
pub const PORT: u16 = 7547;
/// Groups of a job.
pub const GROUPS: usize = 8;
/// Programs of a group.
pub const PROGRAMS: usize = 36;
/// Ranks that a rank of a group has to do with.
pub const PEERS: usize = 32;
/// Longest block, in bytes.
pub const AREA_BYTES: usize = 512;
/// Longest block that is combined, in bytes.
pub const OPERAND_BYTES: usize = 128;
/// Bytes of a record.
pub const RECORD_BYTES: usize = 36;
/// What is counted.
pub const COUNTERS: usize = 11;

/// What a counter counts; the number is its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// Packets that changed something, or were answered.
    Taken = 0,
    /// As [`tutti_coll::lower::Dropped`].
    Malformed = 1,
    /// As there.
    Stale = 2,
    /// As there.
    Disagreement = 3,
    /// As there.
    Again = 4,
    /// As there.
    Waits = 5,
    /// With a wrong tag.
    Forged = 6,
    /// Another processor was at the record for too long.
    Busy = 7,
    /// For no group of this host, or what only its own rank may send.
    Foreign = 8,
    /// Packets sent.
    Emitted = 9,
    /// Operations that ended for the own rank.
    Completed = 10,
}

/// How operands are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// Not at all.
    None = 0,
    /// The sum of integers of 64 bits; wraps.
    SumI64 = 1,
    /// The sum of numbers of 64 bits (IEEE 754).
    SumF64 = 2,
    /// The smaller integer of 64 bits.
    MinI64 = 3,
    /// The larger integer of 64 bits.
    MaxI64 = 4,
}

impl Operator {
    /// All of them.
    pub const ALL: [Operator; 5] =
        [Operator::None, Operator::SumI64, Operator::SumF64, Operator::MinI64, Operator::MaxI64];

    /// Combines blocks, word by word; for [`tutti_coll::lower::Machine`].
    pub fn combine(number: u8, left: &[u8], right: &[u8]) -> Vec<u8> {
        let operator = Operator::ALL.into_iter().find(|operator| *operator as u8 == number);
        let words = left.as_chunks::<8>().0.iter().zip(right.as_chunks::<8>().0);
        let result = words.map(|(left, right)| {
            let (x, y) = (i64::from_le_bytes(*left), i64::from_le_bytes(*right));
            match operator.unwrap_or(Operator::None) {
                Operator::None => x.to_le_bytes(),
                Operator::SumI64 => x.wrapping_add(y).to_le_bytes(),
                Operator::SumF64 => (f64::from_le_bytes(*left) + f64::from_le_bytes(*right)).to_le_bytes(),
                Operator::MinI64 => x.min(y).to_le_bytes(),
                Operator::MaxI64 => x.max(y).to_le_bytes(),
            }
        });
        result.flatten().collect()
    }
}

/// An entry of the tables of rules and events.
pub type Entry = [u8; 8];

/// Why a program does not fit into the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyPeers;

/// The entries of a program for its rules and events; `peers` are the ranks it has to do with, in the order
/// of the table of peers.
///
/// # Errors
/// A rank is not among the peers.
pub fn entries(program: &Program, peers: &[u32]) -> Result<([Entry; RULES], [Entry; EVENTS]), TooManyPeers> {
    let place = |rank: u32| {
        let place = peers.iter().take(PEERS).position(|peer| *peer == rank);
        place.map(|place| place as u8).ok_or(TooManyPeers)
    };
    let area = |area: Option<u8>| area.map_or(0, |area| area + 1);
    let mut rules = [[0; 8]; RULES];
    for (entry, rule) in rules.iter_mut().zip(&program.rules) {
        let words = match rule.action {
            Action::Combine { left, right, into } => [1, left, right, into],
            Action::Emit { peer, event, from } => [2, place(peer)?, event, area(from)],
            Action::Complete => [3, 0, 0, 0],
        };
        entry[..4].copy_from_slice(&rule.needs.to_le_bytes());
        entry[4..].copy_from_slice(&words);
    }
    let mut events = [[0; 8]; EVENTS];
    for (number, (entry, event)) in events.iter_mut().zip(&program.events).enumerate() {
        let peer = if number == 0 { 0 } else { place(event.peer)? };
        entry[..4].copy_from_slice(&event.peer.to_le_bytes());
        entry[4..].copy_from_slice(&[peer, event.rule, area(event.into), 1]);
    }
    Ok((rules, events))
}

/// The table of rules, in entries of 8 bytes.
pub const RULE_ENTRIES: usize = GROUPS * PROGRAMS * RULES;
/// The table of events, in entries of 8 bytes.
pub const EVENT_ENTRIES: usize = GROUPS * PROGRAMS * EVENTS;
/// The table of records.
pub const RECORD_ENTRIES: usize = GROUPS * CHANNELS as usize;
/// The table of areas.
pub const AREA_ENTRIES: usize = RECORD_ENTRIES * AREAS;
/// Bytes from one record to the next in mapped memory: entries are multiples of 8 bytes there.
pub const RECORD_STRIDE: usize = RECORD_BYTES.next_multiple_of(8);
