//! Collective access in two phases (S10; View I/O). Members exchange data with aggregators, which read or
//! write whole windows of the file.
//!
//! Members exchange their views when these are set. For an access, each member announces the position in its
//! view and the number of bytes. From that, each computes the length of every message: the bytes of a window
//! are one range of a member's stream ([`Tiles::within`]). No list goes over the network, and lists cover at
//! most one window. The schedule is [`tutti_coll::algorithms::files`]. The module is pure: all functions
//! depend only on data that all members have.

use std::ops::Range;
use std::sync::Arc;

use tutti_coll::Schedule;
use tutti_coll::algorithms::files::{self, Exchange};
use tutti_data::Tiles;

use crate::view::View;
use tutti_storage::together::aggregators;

/// Windows are multiples of this.
const WINDOW_UNIT: u64 = 64 << 10;
/// Rounds in flight: some are exchanged while others are on their way to the device.
const IN_FLIGHT: u32 = 8;
/// Number of rounds of an access, unless they would be too short.
const ROUNDS: u64 = 16;
/// Greatest number of rounds, unless the windows have their greatest length.
const MOST_ROUNDS: u64 = 1024;
/// An access of fewer runs a member is over before an exchange has begun.
const FEW_RUNS: u64 = 64;
/// Longest description of a view that others get.
const MOST_VIEW_BYTES: usize = 1 << 20;

/// Encodes a view for the other members, or returns `None` if its bytes overlap or the description is too
/// long.
pub fn encode_view(view: &View) -> Option<Vec<u8>> {
    let is_plain = view.is_disjoint() && view.layout().size() > 0;
    let bytes = is_plain.then(|| view.tiles().encode())?;
    (bytes.len() <= MOST_VIEW_BYTES).then_some(bytes)
}

/// Description of one member's part of an access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Card {
    /// The first byte of its stream.
    pub stream: u64,
    /// Number of bytes in the stream.
    pub bytes: u64,
    /// The class of an error, or 0.
    pub verdict: u32,
    /// Length of the file in bytes.
    pub file_bytes: u64,
}

impl Card {
    /// Length of an encoded card in bytes.
    pub const BYTES: usize = 32;

    /// Encodes the card as little-endian words.
    pub fn encode(&self) -> Vec<u8> {
        let words = [self.stream, self.bytes, self.verdict.into(), self.file_bytes];
        words.into_iter().flat_map(u64::to_le_bytes).collect()
    }

    /// Decodes the cards of all members, which [`Card::encode`] has written.
    pub fn decode_all(bytes: &[u8]) -> Vec<Card> {
        let word = |card: &[u8], number: usize| {
            let (words, _) = card.as_chunks::<8>();
            words.get(number).map_or(0, |word| u64::from_le_bytes(*word))
        };
        let card = |card: &[u8]| Card {
            stream: word(card, 0),
            bytes: word(card, 1),
            verdict: word(card, 2) as u32,
            file_bytes: word(card, 3),
        };
        bytes.chunks_exact(Card::BYTES).map(card).collect()
    }

    fn range(&self) -> Range<u64> {
        self.stream..self.stream + self.bytes
    }
}

/// Parameters of the two-phase exchange, on which the members of a file have agreed.
#[derive(Clone, Debug)]
pub struct TwoPhaseParams {
    /// View of each member.
    pub views: Arc<[Tiles]>,
    /// Number of aggregators; 0: as many as are fastest.
    pub aggregators: u32,
    /// Memory for windows on each aggregator, in bytes.
    pub buffer_bytes: u64,
    /// Whether members exchange data in every access, also if that is slower.
    pub always: bool,
    /// Whether members also exchange data in non-blocking accesses, which overlap with computation.
    pub beside: bool,
}

/// One access of all members, divided into windows.
#[derive(Clone, Debug)]
pub struct Division {
    /// View of each member.
    pub views: Arc<[Tiles]>,
    /// Range of its stream that each member accesses.
    pub streams: Vec<Range<u64>>,
    /// Bytes of a window.
    window_bytes: u64,
    /// Number of the window that has number 0 in the schedule.
    first: u64,
    rounds: u32,
    in_flight: u32,
    aggregators: Vec<u32>,
}

impl TwoPhaseParams {
    /// Builds the parameters from all views and the hints of the first member. Returns `None` without an exchange.
    pub fn new(
        views: &Arc<[Tiles]>,
        wish: u64,
        aggregators: u32,
        buffer_bytes: u64,
    ) -> Option<TwoPhaseParams> {
        let runs: u64 = views.iter().map(|view| view.tiling().mean_run()).fold(0, u64::saturating_add);
        let mean = runs / views.len().max(1) as u64;
        let always = wish == u64::MAX;
        (always || mean < wish).then(|| TwoPhaseParams {
            views: Arc::clone(views),
            aggregators,
            buffer_bytes,
            always,
            beside: true,
        })
    }

    /// Divides an access into windows. Returns `None` if independent accesses are better, because no member
    /// has data or all have few runs.
    pub fn divide(&self, cards: &[Card]) -> Option<Division> {
        let members = cards.iter().zip(&*self.views);
        let spans = members.filter_map(|(card, view)| view.span(&card.range()));
        let all = spans.reduce(|one, other| one.start.min(other.start)..one.end.max(other.end))?;
        if !self.always && self.runs(cards) < FEW_RUNS * cards.len() as u64 {
            return None;
        }
        let ranks = cards.len() as u32;
        let aggregators = aggregators(self.aggregators, ranks);
        let count = aggregators.len() as u32;
        let window_bytes = self.window_bytes((all.end - all.start).div_ceil(u64::from(count)));
        let (begin, end) = (all.start / window_bytes, all.end.div_ceil(window_bytes));
        // A window of the file always has the same member in charge.
        let first = begin - begin % u64::from(count);
        let rounds = u32::try_from((end - first).div_ceil(u64::from(count))).ok()?;
        let in_flight = (self.buffer_bytes / window_bytes).min((rounds / 2).into()) as u32;
        Some(Division {
            views: Arc::clone(&self.views),
            streams: cards.iter().map(Card::range).collect(),
            window_bytes,
            first,
            rounds,
            in_flight: in_flight.clamp(2, IN_FLIGHT),
            aggregators,
        })
    }

    /// Returns the length of a window in bytes, for `even` bytes of the file on each aggregator. The access
    /// takes several rounds. The windows in flight fit into the memory that the hint allows. A very long
    /// access has fewer and longer windows, as each one occupies entries in tables.
    fn window_bytes(&self, even: u64) -> u64 {
        let usual = even.div_ceil(ROUNDS).min(self.buffer_bytes / u64::from(IN_FLIGHT));
        usual.max(even.div_ceil(MOST_ROUNDS)).min(self.buffer_bytes).max(1).next_multiple_of(WINDOW_UNIT)
    }

    /// Returns an estimate of the number of runs in the file, for all members together.
    fn runs(&self, cards: &[Card]) -> u64 {
        let runs = |(card, view): (&Card, &Tiles)| {
            let tile = view.tiling().bytes().max(1);
            (u128::from(card.bytes) * u128::from(view.tiling().runs()) / u128::from(tile)) as u64
        };
        cards.iter().zip(&*self.views).map(runs).fold(0, u64::saturating_add)
    }
}

impl Division {
    /// Returns the range of the file that a window covers.
    pub fn window(&self, number: u64) -> Range<u64> {
        let start = (self.first + number) * self.window_bytes;
        start..start + self.window_bytes
    }

    /// Returns the part of a window that a member has: a range of its stream.
    pub fn within(&self, rank: u32, window: u64) -> Range<u64> {
        let rank = rank as usize;
        self.views[rank].within(&self.streams[rank], &self.window(window))
    }

    fn length(&self, rank: u32, window: u64) -> u64 {
        let range = self.within(rank, window);
        range.end - range.start
    }

    /// Returns running sums of the bytes of a member in all windows.
    pub fn own(&self, rank: u32) -> Vec<u64> {
        let windows = u64::from(self.rounds) * self.aggregators.len() as u64;
        sums((0..windows).map(|window| self.length(rank, window)))
    }

    /// Returns running sums of the bytes of all members in the windows of aggregator `rank`; empty for other
    /// ranks.
    pub fn slots(&self, rank: u32) -> Vec<u64> {
        let count = self.aggregators.len() as u64;
        let Some(place) = self.aggregators.iter().position(|other| *other == rank) else { return Vec::new() };
        let ranks = self.streams.len() as u32;
        let windows = (0..u64::from(self.rounds)).map(|round| round * count + place as u64);
        sums(windows.flat_map(|window| (0..ranks).map(move |other| self.length(other, window))))
    }

    /// Returns the schedule of a member. `slots` is the result of its [`Division::slots`].
    pub fn schedule(&self, rank: u32, slots: &[u64], write: bool) -> Schedule {
        let ranks = self.streams.len();
        let round = |ends: &[u64]| ends[ranks] - ends[0];
        let slot = slots.windows(ranks + 1).step_by(ranks).map(round).max().unwrap_or(0);
        let exchange = Exchange {
            ranks: ranks as u32,
            rank,
            aggregators: &self.aggregators,
            rounds: self.rounds,
            slot,
            in_flight: self.in_flight,
        };
        if write { files::write(&exchange) } else { files::read(&exchange) }
    }
}

fn sums(lengths: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut sum = 0;
    let next = |length: u64| {
        sum += length;
        sum
    };
    std::iter::once(0).chain(lengths.map(next)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::representation::Representation;
    use tutti_data::{Datatype, Form};
    use tutti_storage::hints::Choice;
    use tutti_storage::together::Wish;

    /// Returns the parameters for views in which each member has every n-th piece.
    fn means(ranks: u32, piece: i64, buffer_bytes: u64) -> TwoPhaseParams {
        let byte = Datatype::predefined(0x247).unwrap();
        let seen = |rank: u32| {
            let block = Datatype::create_contiguous(piece, byte, Form::Int).unwrap();
            let tile = Datatype::create_resized(0, piece * i64::from(ranks), &block, Form::Int).unwrap();
            tile.commit();
            let view = View::new(piece * i64::from(rank), byte, &tile, Representation::Native, true).unwrap();
            Tiles::decode(&encode_view(&view).unwrap()).unwrap()
        };
        TwoPhaseParams {
            views: (0..ranks).map(seen).collect(),
            aggregators: 2,
            buffer_bytes,
            always: false,
            beside: true,
        }
    }

    fn check(ranks: u32, piece: i64, bytes: u64, buffer_bytes: u64) {
        let means = means(ranks, piece, buffer_bytes);
        let cards = vec![Card { stream: 7, bytes, ..Card::default() }; ranks as usize];
        let division = means.divide(&cards).unwrap();
        for rank in 0..ranks {
            let own = division.own(rank);
            assert_eq!(own.last(), Some(&bytes), "all bytes of rank {rank} lie in windows");
            let slots = division.slots(rank);
            for (place, aggregator) in division.aggregators.iter().enumerate() {
                if *aggregator == rank {
                    let window = place;
                    assert_eq!(slots[1] - slots[0], division.own(0)[window + 1] - division.own(0)[window]);
                }
            }
        }
        let all: u64 = (0..ranks).filter_map(|rank| division.slots(rank).last().copied()).sum();
        assert_eq!(all, bytes * u64::from(ranks));
    }

    #[test]
    fn every_byte_is_in_one_window() {
        check(1, 64, 100_000, 1 << 20);
        check(4, 64, 100_000, 1 << 16);
        check(5, 300, 1_000_000, 1 << 16);
    }

    #[test]
    fn rounds_in_flight_have_the_memory_of_the_hint() {
        let check = |bytes: u64, expected: (u64, u32, u32)| {
            let cards = [Card { stream: 0, bytes, ..Card::default() }; 2];
            let division = means(2, 64, 4 << 20).divide(&cards).unwrap();
            assert_eq!((division.window_bytes, division.rounds, division.in_flight), expected);
        };
        check(100_000, (64 << 10, 2, 2));
        check(1 << 20, (64 << 10, 16, 8));
        check(64 << 20, (512 << 10, 128, 8));
        check(1 << 30, (1 << 20, 1024, 4));
        check(1 << 34, (4 << 20, 4096, 2));
    }

    #[test]
    fn few_runs_and_nothing_are_not_exchanged() {
        let card = |bytes| [Card { stream: 0, bytes, ..Card::default() }; 2];
        assert!(means(2, 64, 1 << 20).divide(&card(64 * 10)).is_none());
        assert!(means(2, 64, 1 << 20).divide(&card(64 * 1000)).is_some());
        assert!(TwoPhaseParams { always: true, ..means(2, 64, 1 << 20) }.divide(&card(64)).is_some());
        assert!(means(2, 64, 1 << 20).divide(&card(0)).is_none());
    }

    #[test]
    fn short_runs_are_exchanged() {
        let is_exchanged = |piece, wish: Wish| {
            TwoPhaseParams::new(&means(3, piece, 1 << 20).views, wish.word(), 0, 1 << 20).is_some()
        };
        assert!(is_exchanged(1 << 10, Wish::from_hint(Choice::Automatic, true, false)));
        assert!(!is_exchanged(1 << 14, Wish::from_hint(Choice::Automatic, true, false)));
        assert!(is_exchanged(1 << 14, Wish::from_hint(Choice::Automatic, false, true)));
        assert!(!is_exchanged(1 << 10, Wish::from_hint(Choice::Automatic, false, false)));
        assert!(is_exchanged(1 << 20, Wish::from_hint(Choice::Enable, false, false)));
        assert!(!is_exchanged(1, Wish::from_hint(Choice::Disable, true, true)));
    }

    #[test]
    fn a_card_survives() {
        let card = Card { stream: 1, bytes: 2, verdict: 41, file_bytes: 4 };
        let both = [card.encode(), Card::default().encode()].concat();
        assert_eq!(Card::decode_all(&both), [card, Card::default()]);
    }
}
