//! Cards: what a waiting rank publishes. A card has a bounded length; lists that do not fit are cut, and the
//! card says so. A wait with a need that was cut away is never called certain.
//!
//! The encoding has numbers in little endian with four or eight bytes, texts with two bytes of length, and
//! lists with two bytes of count. The launcher and the ranks of a job may differ in version: a card begins
//! with [`VERSION`], and another version is no card.

use crate::ranks::Ranks;

/// First byte of a card.
pub const VERSION: u8 = 1;
/// Longest text of a card, in bytes.
const MOST_TEXT: usize = 160;
/// Maximum number of entries in each list of a card.
pub const MOST_ENTRIES: usize = 16;

/// Quantifier of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// All entries are needed.
    All,
    /// One of the entries is enough.
    Any,
}

/// Kind of the event that a wait needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A message for a receive or a probe.
    Receive,
    /// A receive for a message.
    Send,
    /// The other members of a collective operation.
    Collective,
    /// The lock of a window, which other ranks hold.
    Lock,
    /// MPI_Win_post by a target.
    Post,
    /// MPI_Win_complete by origins.
    Complete,
    /// A partition that the sender makes ready, or the receiver of a partitioned message.
    Partition,
    /// A reply for which the other rank need only be inside any MPI function.
    Answer,
    /// An event outside the ranks of the job: another job, a thread, a file.
    Outside,
}

impl Kind {
    const ALL: [Kind; 9] = [
        Kind::Receive,
        Kind::Send,
        Kind::Collective,
        Kind::Lock,
        Kind::Post,
        Kind::Complete,
        Kind::Partition,
        Kind::Answer,
        Kind::Outside,
    ];
}

/// Event that a wait needs, and the ranks that can cause it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// Kind of the event.
    pub kind: Kind,
    /// Context of the communicator, or 0.
    pub context: u32,
    /// Name of the communicator or window.
    pub object: String,
    /// Name of the collective operation; otherwise empty.
    pub operation: String,
    /// Tag of the message; None for any tag.
    pub tag: Option<i32>,
    /// Number of the collective operation on its communicator, counted from 0.
    pub number: u32,
    /// Length of the message in bytes.
    pub bytes: u64,
    /// Ranks of the world that can cause the event. None: no rank is known, so nothing can be proved.
    pub by: Ranks,
    /// Whether all ranks of `by` must act, or any of them.
    pub mode: Mode,
}

impl Need {
    /// Returns a need of this kind without further properties.
    pub fn new(kind: Kind, by: Ranks, mode: Mode) -> Need {
        let (object, operation) = (String::new(), String::new());
        Need { kind, context: 0, object, operation, tag: None, number: 0, bytes: 0, by, mode }
    }
}

/// Wait of one thread of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// MPI function that the program has called; empty if it is unknown.
    pub function: String,
    /// Function, file and line of the program.
    pub place: String,
    /// Description of the wait in words.
    pub text: String,
    /// Whether all events must happen, or any of them.
    pub mode: Mode,
    /// Events that end the wait. None: the wait is not understood.
    pub needs: Vec<Need>,
    /// True if needs were left out.
    pub is_cut: bool,
}

/// Message that no receive has taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Rank of the world at the other end.
    pub peer: u32,
    /// Context of the communicator.
    pub context: u32,
    /// Name of the communicator.
    pub object: String,
    /// Tag of the message.
    pub tag: i32,
}

/// State of a waiting rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Card {
    /// Waits of the rank's threads.
    pub waits: Vec<Wait>,
    /// True if another thread of the program may call MPI.
    pub has_other_threads: bool,
    /// True if this rank sends or receives data of a message that has matched.
    pub is_transferring: bool,
    /// Numbers of records that this rank has sent to and received from other hosts, in a job of several.
    pub network: Option<(u64, u64)>,
    /// Messages that have arrived and match no receive.
    pub arrived: Vec<Message>,
    /// Numbers of collective operations that the rank has called, by context.
    pub called: Vec<(u32, u32)>,
}

impl Card {
    /// Returns the encoded card, of at most `most` bytes. Lists are cut where they are too long.
    pub fn encode(&self, most: usize) -> Vec<u8> {
        for entries in [MOST_ENTRIES, 4, 1] {
            let bytes = self.encode_entries(entries);
            if bytes.len() <= most {
                return bytes;
            }
        }
        let bare = |wait: &Wait| Wait { needs: Vec::new(), is_cut: true, ..wait.clone() };
        let waits = self.waits.iter().take(1).map(bare).collect();
        let card = Card { waits, has_other_threads: true, arrived: Vec::new(), called: Vec::new(), ..*self };
        card.encode_entries(1)
    }

    fn encode_entries(&self, entries: usize) -> Vec<u8> {
        let mut out = vec![VERSION, u8::from(self.has_other_threads), u8::from(self.is_transferring)];
        out.push(u8::from(self.network.is_some()));
        let (sent, received) = self.network.unwrap_or_default();
        [sent, received].into_iter().for_each(|count| out.extend(count.to_le_bytes()));
        put_list(&mut out, &self.waits, entries, |out, wait| put_wait(out, wait, entries));
        put_list(&mut out, &self.arrived, entries, put_message);
        // A number of 8 bytes takes little room, and a communicator that is missing hides a cause.
        put_list(&mut out, &self.called, 4 * entries, |out, &(context, number)| {
            put_u32(out, context);
            put_u32(out, number);
        });
        out
    }

    /// Returns the card that the bytes encode; None if they are malformed or of another version.
    pub fn decode(bytes: &[u8]) -> Option<Card> {
        let mut reader = Reader(bytes);
        if reader.u8()? != VERSION {
            return None;
        }
        let (has_other_threads, is_transferring) = (reader.flag()?, reader.flag()?);
        let has_network = reader.flag()?;
        let network = (reader.u64()?, reader.u64()?);
        let network = has_network.then_some(network);
        let waits = reader.list(Reader::wait)?;
        let arrived = reader.list(Reader::message)?;
        let called = reader.list(|reader| Some((reader.u32()?, reader.u32()?)))?;
        Some(Card { waits, has_other_threads, is_transferring, network, arrived, called })
    }

    /// Returns the number of collective operations that the rank has called on a communicator, if it is
    /// known.
    pub fn called_on(&self, context: u32) -> Option<u32> {
        self.called.iter().find(|(of, _)| *of == context).map(|(_, number)| *number)
    }

    /// Returns the needs of all waits.
    pub fn needs(&self) -> impl Iterator<Item = &Need> {
        self.waits.iter().flat_map(|wait| &wait.needs)
    }
}

fn put_u32(out: &mut Vec<u8>, number: u32) {
    out.extend(number.to_le_bytes());
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    let end = (0..=text.len().min(MOST_TEXT)).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    out.extend((end as u16).to_le_bytes());
    out.extend(&text.as_bytes()[..end]);
}

fn put_list<T>(out: &mut Vec<u8>, list: &[T], most: usize, put: impl Fn(&mut Vec<u8>, &T)) {
    let count = list.len().min(most).min(u16::MAX.into());
    out.extend((count as u16).to_le_bytes());
    list[..count].iter().for_each(|entry| put(out, entry));
}

fn put_wait(out: &mut Vec<u8>, wait: &Wait, entries: usize) {
    [&wait.function, &wait.place, &wait.text].into_iter().for_each(|text| put_text(out, text));
    out.push(u8::from(wait.mode == Mode::Any));
    out.push(u8::from(wait.is_cut || wait.needs.len() > entries));
    put_list(out, &wait.needs, entries, put_need);
}

fn put_need(out: &mut Vec<u8>, need: &Need) {
    let kind = Kind::ALL.iter().position(|kind| *kind == need.kind).unwrap_or(0);
    out.extend([kind as u8, u8::from(need.mode == Mode::Any), u8::from(need.tag.is_some())]);
    put_u32(out, need.context);
    put_u32(out, need.tag.unwrap_or(0) as u32);
    put_u32(out, need.number);
    out.extend(need.bytes.to_le_bytes());
    put_text(out, &need.object);
    put_text(out, &need.operation);
    // Ranges that are cut would make a set of other ranks. An empty set proves nothing.
    let ranges = if need.by.ranges().len() <= 4 * MOST_ENTRIES { need.by.ranges() } else { &[] };
    put_list(out, ranges, ranges.len(), |out, &(first, last)| {
        put_u32(out, first);
        put_u32(out, last);
    });
}

fn put_message(out: &mut Vec<u8>, message: &Message) {
    put_u32(out, message.peer);
    put_u32(out, message.context);
    put_u32(out, message.tag as u32);
    put_text(out, &message.object);
}

/// Bytes of a card that are not read yet.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*bytes)
    }

    fn u8(&mut self) -> Option<u8> {
        self.bytes::<1>().map(|[byte]| byte)
    }

    fn flag(&mut self) -> Option<bool> {
        self.u8().map(|byte| byte != 0)
    }

    fn u32(&mut self) -> Option<u32> {
        self.bytes().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.bytes().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Option<String> {
        let length = u16::from_le_bytes(self.bytes()?) as usize;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(String::from_utf8_lossy(text).into_owned())
    }

    fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = u16::from_le_bytes(self.bytes()?);
        (0..count).map(|_| read(self)).collect()
    }

    fn mode(&mut self) -> Option<Mode> {
        self.flag().map(|is_any| if is_any { Mode::Any } else { Mode::All })
    }

    fn wait(&mut self) -> Option<Wait> {
        let (function, place, text) = (self.text()?, self.text()?, self.text()?);
        let (mode, is_cut) = (self.mode()?, self.flag()?);
        Some(Wait { function, place, text, mode, is_cut, needs: self.list(Reader::need)? })
    }

    fn need(&mut self) -> Option<Need> {
        let kind = *Kind::ALL.get(usize::from(self.u8()?))?;
        let (mode, has_tag) = (self.mode()?, self.flag()?);
        let (context, tag, number) = (self.u32()?, self.u32()? as i32, self.u32()?);
        let bytes = self.u64()?;
        let (object, operation) = (self.text()?, self.text()?);
        let by = self.ranges()?;
        let tag = has_tag.then_some(tag);
        Some(Need { kind, context, object, operation, tag, number, bytes, by, mode })
    }

    fn ranges(&mut self) -> Option<Ranks> {
        /// Maximum number of ranks that are believed, so that malformed bytes take no memory.
        const MOST: u32 = 1 << 22;
        let mut left = MOST;
        let ranges = self.list(|reader| {
            let (first, last) = (reader.u32()?, reader.u32()?);
            left = left.checked_sub(last.checked_sub(first)?.checked_add(1)?)?;
            Some(first..=last)
        })?;
        Some(ranges.into_iter().flatten().collect())
    }

    fn message(&mut self) -> Option<Message> {
        let (peer, context, tag) = (self.u32()?, self.u32()?, self.u32()? as i32);
        Some(Message { peer, context, tag, object: self.text()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn card() -> Card {
        let need = Need {
            context: 4,
            object: "MPI_COMM_WORLD".to_string(),
            tag: Some(-7),
            number: 12,
            bytes: 1 << 40,
            ..Need::new(Kind::Receive, [3, 5, 6].into_iter().collect(), Mode::Any)
        };
        let wait = Wait {
            function: "MPI_Recv".to_string(),
            place: "main (solver.c:214)".to_string(),
            text: "a receive".to_string(),
            mode: Mode::Any,
            needs: vec![need],
            is_cut: false,
        };
        let arrived = Message { peer: 3, context: 4, object: "MPI_COMM_WORLD".to_string(), tag: 8 };
        Card {
            waits: vec![wait],
            has_other_threads: true,
            is_transferring: true,
            network: Some((5, 7)),
            arrived: vec![arrived],
            called: vec![(4, 2)],
        }
    }

    #[test]
    fn a_card_is_what_it_was() {
        assert_eq!(Card::decode(&card().encode(4000)), Some(card()));
        assert_eq!(Card::decode(&[VERSION + 1, 0, 0]), None);
    }

    #[test]
    fn a_card_that_is_too_long_is_cut_and_says_so() {
        let mut long = card();
        let need = long.waits[0].needs[0].clone();
        long.waits[0].needs = vec![need; 100];
        let cut = Card::decode(&long.encode(4000)).unwrap();
        assert_eq!((cut.waits[0].needs.len(), cut.waits[0].is_cut), (MOST_ENTRIES, true));
        let cut = Card::decode(&long.encode(100)).unwrap();
        assert_eq!((cut.waits[0].needs.len(), cut.waits[0].is_cut), (0, true));
        // Every second rank of a large job: the set is not believed in part.
        long.waits[0].needs.truncate(1);
        long.waits[0].needs[0].by = (0..2000).map(|rank| 2 * rank).collect();
        assert!(Card::decode(&long.encode(4000)).unwrap().waits[0].needs[0].by.is_empty());
    }

    proptest! {
        /// Decodes random bytes, which are refused or become a card.
        #[test]
        fn any_bytes_are_a_card_or_refused(mut bytes in proptest::collection::vec(any::<u8>(), 1..200)) {
            bytes[0] = VERSION;
            let _ = Card::decode(&bytes);
        }

        /// Damages one byte of a card.
        #[test]
        fn a_damaged_card_is_refused_or_another(place in 0usize..200, value in any::<u8>()) {
            let mut bytes = card().encode(4000);
            let place = place % bytes.len();
            bytes[place] = value;
            let _ = Card::decode(&bytes);
        }
    }
}
