//! What the two ends of a stream say to each other by records of the link, which is reliable and keeps order:
//! only the datagrams of a stream may get lost.

use std::net::{Ipv4Addr, SocketAddrV4};

use crate::link::{Header, LINK_KIND};

/// A word about a stream. Numbers are those of datagrams.
#[allow(missing_docs, reason = "the fields are what their types say")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MulticastControl {
    /// Sender: what has this number and those after it is for you too. Say at the latest after so many
    /// datagrams what you have, to whom the way leads.
    Open { first: u64, quarter: u32, group: SocketAddrV4, way: Path },
    /// Receiver: I listen, from the number on that was said.
    Opened { first: u64 },
    /// Receiver: I cannot listen.
    Refused { first: u64 },
    /// Receiver: I have all before this number.
    Have { next: u64 },
    /// Receiver, to another one: of the stream of this rank I have all before `next`, and so have those who
    /// tell me.
    Gathered { origin: u32, next: u64 },
    /// Sender: say yourself what you have, from now on.
    Straight,
    /// Receiver: I have all before `next`, and of what comes then I lack these: where each range begins after
    /// `next`, and how long it is.
    Lack { next: u64, ranges: Vec<(u32, u32)> },
    /// Sender: what do you lack of what comes before this number?
    Ask { end: u64 },
    /// Sender: this is what has got lost.
    Repair { number: u64, kind: u8, payload: Vec<u8> },
    /// Sender: from this number on, nothing is for you.
    Leave { end: u64 },
    /// Receiver: I know.
    Left { end: u64 },
    /// Receiver: I take nothing from this number on, for lack of room; send it to me another way.
    Decline { end: u64 },
}

/// The way of acknowledgements: up a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// Who is told; `None`: the sender.
    pub parent: Option<u32>,
    /// Who tells this receiver.
    pub children: Vec<u32>,
}

/// Most ranges that are told at once: others are asked for when these are there.
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
    /// As a record about stream `stream`.
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

    /// The stream and what is said of it; `None` if that is nothing.
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
