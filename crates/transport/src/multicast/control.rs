//! Control messages between the two ends of a stream. They travel as records of the link, which is reliable
//! and keeps order: only the datagrams of a stream may get lost.

use std::net::{Ipv4Addr, SocketAddrV4};

use crate::link::{Header, LINK_KIND};

/// A word about a stream. Numbers are those of datagrams.
#[allow(missing_docs, reason = "the fields are what their types say")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MulticastControl {
    /// From the sender: the datagrams from this number on are for the receiver too. It reports along `way`
    /// after at most `quarter` datagrams.
    Open { first: u64, quarter: u32, group: SocketAddrV4, way: Path },
    /// From a receiver: it listens to datagrams with the given number or later ones.
    Opened { first: u64 },
    /// From a receiver: it cannot listen.
    Refused { first: u64 },
    /// From a receiver: it has all datagrams before this number.
    Have { next: u64 },
    /// From a receiver to another one: of the stream of rank `origin` it has all datagrams before `next`, and
    /// so have the members that report to it.
    Gathered { origin: u32, next: u64 },
    /// From the sender: later reports of the receiver go directly to the sender.
    Straight,
    /// From a receiver: it has all datagrams before `next`, and lacks these ranges after it. A range is its
    /// distance from `next` and its length.
    Lack { next: u64, ranges: Vec<(u32, u32)> },
    /// From the sender: a request to report which datagrams before this number are missing.
    Ask { end: u64 },
    /// From the sender: a datagram that got lost.
    Repair { number: u64, kind: u8, payload: Vec<u8> },
    /// From the sender: the datagrams from this number on are not for the receiver.
    Leave { end: u64 },
    /// From a receiver: acknowledgement of `Leave`.
    Left { end: u64 },
    /// From a receiver: it takes no datagrams from this number on, for lack of room. The records have to take
    /// another route to it.
    Decline { end: u64 },
}

/// Route of acknowledgements: up a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// Receiver of this member's reports; `None` for the sender.
    pub parent: Option<u32>,
    /// Members that report to this receiver.
    pub children: Vec<u32>,
}

/// Highest number of ranges in one report. Further ones are requested when these have arrived.
pub const MOST_RANGES: usize = 128;

const OPEN: u64 = 1;
const OPENED: u64 = 2;
const REFUSED: u64 = 3;
const HAVE: u64 = 4;
const LACK: u64 = 5;
const ASK: u64 = 6;
const REPAIR: u64 = 7;
const LEAVE: u64 = 8;
const LEFT: u64 = 9;
const DECLINE: u64 = 10;
const GATHERED: u64 = 11;
const STRAIGHT: u64 = 12;

impl MulticastControl {
    /// Encodes the message as a record about stream `stream`.
    pub fn encode(&self, stream: u32) -> (Header, Vec<u8>) {
        let (what, number, more, payload) = match self {
            MulticastControl::Open { first, quarter, group, way } => {
                let address = u64::from(u32::from(*group.ip())) << 16 | u64::from(group.port());
                let words = [*quarter, way.parent.map_or(0, |parent| parent + 1)];
                let words = words.iter().chain(&way.children).flat_map(|word| word.to_le_bytes());
                (OPEN, *first, address, words.collect())
            }
            MulticastControl::Gathered { origin, next } => (GATHERED, *next, u64::from(*origin), Vec::new()),
            MulticastControl::Straight => (STRAIGHT, 0, 0, Vec::new()),
            MulticastControl::Opened { first } => (OPENED, *first, 0, Vec::new()),
            MulticastControl::Refused { first } => (REFUSED, *first, 0, Vec::new()),
            MulticastControl::Have { next } => (HAVE, *next, 0, Vec::new()),
            MulticastControl::Lack { next, ranges } => {
                let words = ranges.iter().flat_map(|&(start, count)| [start, count]);
                (LACK, *next, 0, words.flat_map(u32::to_le_bytes).collect())
            }
            MulticastControl::Ask { end } => (ASK, *end, 0, Vec::new()),
            MulticastControl::Repair { number, kind, payload } => {
                (REPAIR, *number, u64::from(*kind), payload.clone())
            }
            MulticastControl::Leave { end } => (LEAVE, *end, 0, Vec::new()),
            MulticastControl::Left { end } => (LEFT, *end, 0, Vec::new()),
            MulticastControl::Decline { end } => (DECLINE, *end, 0, Vec::new()),
        };
        (Header([LINK_KIND | what << 8 | u64::from(stream) << 32, number, more]), payload)
    }

    /// Decodes the stream and the message; `None` if they are malformed.
    pub fn decode(header: Header, payload: &[u8]) -> Option<(u32, MulticastControl)> {
        let [first, number, more] = header.0;
        let control = match first >> 8 & 0xff {
            OPEN => {
                let (words, rest) = payload.as_chunks::<4>();
                let words: Vec<u32> = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
                let (&[quarter, parent], children) = words.split_first_chunk().filter(|_| rest.is_empty())?;
                let group = SocketAddrV4::new(Ipv4Addr::from((more >> 16) as u32), more as u16);
                let way = Path { parent: parent.checked_sub(1), children: children.to_vec() };
                MulticastControl::Open { first: number, quarter, group, way }
            }
            GATHERED => MulticastControl::Gathered { origin: u32::try_from(more).ok()?, next: number },
            STRAIGHT => MulticastControl::Straight,
            OPENED => MulticastControl::Opened { first: number },
            REFUSED => MulticastControl::Refused { first: number },
            HAVE => MulticastControl::Have { next: number },
            LACK => {
                let (pairs, rest) = payload.as_chunks::<8>();
                let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("half of eight bytes"));
                let ranges = pairs.iter().map(|pair| (word(&pair[..4]), word(&pair[4..]))).collect();
                (rest.is_empty() && pairs.len() <= MOST_RANGES)
                    .then_some(MulticastControl::Lack { next: number, ranges })?
            }
            ASK => MulticastControl::Ask { end: number },
            REPAIR => MulticastControl::Repair {
                number,
                kind: u8::try_from(more).ok().filter(|kind| *kind < 4)?,
                payload: payload.to_vec(),
            },
            LEAVE => MulticastControl::Leave { end: number },
            LEFT => MulticastControl::Left { end: number },
            DECLINE => MulticastControl::Decline { end: number },
            _ => return None,
        };
        Some(((first >> 32) as u32, control))
    }
}
