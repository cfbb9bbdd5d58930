//! Tables of the kernel's program, with the layout of `bpf/packets.c`: sizes, and encoding of programs.

use tutti_coll::lower::{AREAS, Action, CHANNELS, EVENTS, Program, RULES};

/// UDP port to which interfaces send packets of collectives.
pub const PORT: u16 = 7547;
/// Maximum number of groups of a job.
pub const GROUPS: usize = 8;
/// Maximum number of programs of a group.
pub const PROGRAMS: usize = 36;
/// Maximum number of peers of a rank in a group.
pub const PEERS: usize = 32;
/// Maximum length of a block in bytes.
pub const AREA_BYTES: usize = 512;
/// Maximum length of a block that is combined, in bytes.
pub const OPERAND_BYTES: usize = 128;
/// Length of a record in bytes.
pub const RECORD_BYTES: usize = 36;
/// Number of counters in the kernel's table.
pub const COUNTERS: usize = 11;

/// Event that a counter counts. Its number is its place in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// Packets that changed something, or were answered.
    Taken = 0,
    /// Packets with invalid content (`Dropped::Malformed` of [`tutti_coll::lower::Dropped`]).
    Malformed = 1,
    /// Packets of an operation that has completed already (`Dropped::Stale`).
    Stale = 2,
    /// Packets that contradict the description of the operation (`Dropped::Disagreement`).
    Disagreement = 3,
    /// Packets that have arrived before (`Dropped::Again`).
    Again = 4,
    /// Requests for a message that waits for the own rank's call (`Dropped::Waits`).
    Waits = 5,
    /// Packets with a wrong tag.
    Forged = 6,
    /// Packets dropped because another processor used the record for too long.
    Busy = 7,
    /// Packets for no group of this host, or of a kind that only the own rank may send.
    Foreign = 8,
    /// Packets sent by the kernel's program.
    Emitted = 9,
    /// Operations that are complete for the own rank.
    Completed = 10,
}

/// Combination of two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// No combination.
    None = 0,
    /// Sum of integers of 64 bits, which wraps around.
    SumI64 = 1,
    /// Sum of numbers of 64 bits (IEEE 754).
    SumF64 = 2,
    /// Smaller one of two integers of 64 bits.
    MinI64 = 3,
    /// Larger one of two integers of 64 bits.
    MaxI64 = 4,
}

impl Operator {
    /// All operators in the order of their numbers.
    pub const ALL: [Operator; 5] =
        [Operator::None, Operator::SumI64, Operator::SumF64, Operator::MinI64, Operator::MaxI64];

    /// Combines two blocks, word by word; for [`tutti_coll::lower::Machine`].
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

/// Entry of the tables of rules and events.
pub type Entry = [u8; 8];

/// Error: a program has peers that the table of peers lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyPeers;

/// Encodes the rules and events of a program as table entries. `peers` are the ranks that it communicates
/// with, in the order of the table of peers.
///
/// # Errors
/// If a rank is not among the peers.
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

/// Length of the table of rules, in entries of 8 bytes.
pub const RULE_ENTRIES: usize = GROUPS * PROGRAMS * RULES;
/// Length of the table of events, in entries of 8 bytes.
pub const EVENT_ENTRIES: usize = GROUPS * PROGRAMS * EVENTS;
/// Number of entries of the table of records.
pub const RECORD_ENTRIES: usize = GROUPS * CHANNELS as usize;
/// Number of entries of the table of areas.
pub const AREA_ENTRIES: usize = RECORD_ENTRIES * AREAS;
/// Distance between records in mapped memory in bytes: entries are multiples of 8 bytes there.
pub const RECORD_STRIDE: usize = RECORD_BYTES.next_multiple_of(8);
