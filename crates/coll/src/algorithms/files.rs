//! Two phases between ranks and a file (collective buffering): ranks that are in charge of windows of the
//! file read or write them whole, and exchange what is in them with the ranks whose bytes these are.
//!
//! Nothing is asked for and no list is sent: each rank knows the views of all, so both sides of a message
//! know from their tables how long it is. Windows are dealt out in turn, so that a window of a file always
//! has the same rank in charge. A round is an iteration of one loop: one window of each in charge; with
//! several rounds in flight a window is exchanged while others are on their way to the device. Those in
//! charge begin in different parts of the file, and go round it by the golden section: where a rank has all
//! that is in one part, as with the tiles of an image, it would otherwise have the links for itself in some
//! rounds and nothing to do in the others.

use crate::build::{Builder, block};
use crate::coprime::coprime_from;
use crate::ir::{BufferId, Division, Index, Kind, Length, Schedule, Span, Start, StepId, Table, Unit};

/// So many messages of a rank are received at a time: of more, all would arrive together at the end of
/// their time, and the device had nothing to do until then.
const AHEAD: u32 = 4;

/// What one rank knows of an exchange.
#[derive(Clone, Copy, Debug)]
pub struct Exchange<'a> {
    /// Ranks of the communicator.
    pub ranks: u32,
    /// This rank.
    pub rank: u32,
    /// Who is in charge of windows: window `w` is that of `w` modulo their number.
    pub aggregators: &'a [u32],
    /// Windows of each.
    pub rounds: u32,
    /// The most bytes that all ranks together have in a window of this rank.
    pub slot: u64,
    /// Rounds in flight.
    pub in_flight: u32,
}

impl Exchange<'_> {
    /// A number that grows by `step` a round, from that of the round with which aggregator `number` begins.
    fn round(&self, number: u32, step: u32) -> Index {
        let first = u64::from(number) * u64::from(self.rounds) / self.aggregators.len() as u64;
        match (step.checked_mul(self.rounds), self.ranks.checked_mul(self.rounds)) {
            (Some(all), Some(_)) => {
                let (first, step) = (first as i64 * i64::from(step), i64::from(step));
                Index::cyclic(first, step * i64::from(stride(self.rounds)), all)
            }
            // More than can be counted round: all begin at the beginning.
            _ => Index::linear(0, step.into()),
        }
    }

    /// The windows of aggregator `number`, round by round.
    fn windows(&self, number: u32) -> Index {
        self.round(number, self.aggregators.len() as u32).plus(number)
    }

    /// The places of the own windows in a table of all ranks' bytes, round by round.
    fn places(&self) -> Index {
        self.round(self.own().expect("asked by who is in charge"), self.ranks)
    }

    /// The number of this rank among those in charge.
    fn own(&self) -> Option<u32> {
        self.aggregators.iter().position(|rank| *rank == self.rank).map(|number| number as u32)
    }

    /// Those in charge with their numbers, from this rank's place on: not all ranks begin with the same one.
    fn others(&self) -> impl Iterator<Item = (u32, u32)> {
        let all = self.aggregators.len();
        (0..all).map(move |step| (step + self.rank as usize) % all).filter_map(|number| {
            let aggregator = self.aggregators[number];
            (aggregator != self.rank).then_some((number as u32, aggregator))
        })
    }

    /// The bytes of `rank` in the slot of a round.
    fn piece(&self, slots: BufferId, table: Table, rank: u32) -> Span {
        let division = Division::Table(table);
        let (index, first) = (self.places().plus(rank), self.places());
        let start = Start::Within { division, index, first, stride: self.slot, slot: self.slots() };
        Span { buffer: slots, start, length: Length::Blocks { division, index, count: 1 } }
    }

    /// All of the slot of a round.
    fn whole(&self, slots: BufferId, table: Table) -> Span {
        let (division, index) = (Division::Table(table), self.places());
        let start = Start::Affine { offset: 0, stride: self.slot, index: self.slots() };
        Span { buffer: slots, start, length: Length::Blocks { division, index, count: self.ranks } }
    }

    fn slots(&self) -> Index {
        Index::cyclic(0, 1, self.in_flight)
    }
}

/// By how many places in the file a round is behind the one before it, counted round the file: about the
/// golden section, so that any few rounds are of all parts, and without a common divisor, so that all
/// places come.
fn stride(rounds: u32) -> u32 {
    let golden = u64::from(rounds) * 382 / 1000;
    coprime_from(golden.max(1), rounds.into()) as u32
}

/// Ranks give what is theirs to those in charge, who write it. The table of the send buffer has the bytes of
/// this rank in each window, that of the receive buffer those of every rank in each window of this one.
pub fn write(exchange: &Exchange<'_>) -> Schedule {
    let mut b = Builder::new(Unit::Byte);
    let slots = exchange.own().map(|_| b.temporary(exchange.slot * u64::from(exchange.in_flight)));
    b.repeat(exchange.rounds, exchange.in_flight, |b| {
        let given = |number| block(BufferId::SEND, Division::Table(Table::Send), exchange.windows(number));
        for (number, aggregator) in exchange.others() {
            b.send(aggregator, 0, given(number), &[]);
        }
        let (Some(own), Some(slots)) = (exchange.own(), slots) else { return };
        let pieces: Vec<StepId> = (0..exchange.ranks)
            .map(|step| (step + exchange.rank) % exchange.ranks)
            .map(|rank| {
                let into = exchange.piece(slots, Table::Recv, rank);
                if rank == exchange.rank {
                    return b.copy(given(own), into, &[]);
                }
                let before = b.upcoming().before(AHEAD);
                b.recv(rank, 0, into, &[before])
            })
            .collect();
        let after: Vec<_> = pieces.into_iter().map(StepId::done).collect();
        let from = exchange.whole(slots, Table::Recv);
        b.step(Kind::FileWrite { from, window: exchange.windows(own) }, &after);
    });
    b.finish()
}

/// Those in charge read, and give every rank what is its. The tables are those of [`write`] the other way
/// round.
pub fn read(exchange: &Exchange<'_>) -> Schedule {
    let mut b = Builder::new(Unit::Byte);
    let slots = exchange.own().map(|_| b.temporary(exchange.slot * u64::from(exchange.in_flight)));
    b.repeat(exchange.rounds, exchange.in_flight, |b| {
        let wanted = |number| block(BufferId::RECV, Division::Table(Table::Recv), exchange.windows(number));
        for (number, aggregator) in exchange.others() {
            b.recv(aggregator, 0, wanted(number), &[]);
        }
        let (Some(own), Some(slots)) = (exchange.own(), slots) else { return };
        let into = exchange.whole(slots, Table::Send);
        let read = b.step(Kind::FileRead { into, window: exchange.windows(own) }, &[]);
        for step in 0..exchange.ranks {
            let rank = (step + exchange.rank) % exchange.ranks;
            let from = exchange.piece(slots, Table::Send, rank);
            if rank == exchange.rank {
                b.copy(from, wanted(own), &[read.done()]);
            } else {
                b.send(rank, 0, from, &[read.done()]);
            }
        }
    });
    b.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rounds: u32, first: [u64; 4]) {
        let aggregators = [0, 1, 2, 3];
        let exchange =
            Exchange { ranks: 4, rank: 0, aggregators: &aggregators, rounds, slot: 1, in_flight: 2 };
        let of = |number: u32| (0..rounds).map(move |round| exchange.windows(number).at(round));
        assert_eq!(aggregators.map(|number| of(number).next().unwrap_or(0)), first);
        let mut all: Vec<u64> = aggregators.into_iter().flat_map(of).collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..4 * u64::from(rounds)), "each window once");
    }

    #[test]
    fn few_rounds_are_of_all_parts() {
        assert_eq!([0, 1, 2, 3, 4, 5, 8, 13, 24, 100].map(stride), [1, 1, 1, 1, 1, 1, 3, 4, 11, 39]);
        for rounds in 1..200 {
            let mut places: Vec<u32> = (0..rounds).map(|round| round * stride(rounds) % rounds).collect();
            places.sort_unstable();
            assert!(places.into_iter().eq(0..rounds), "{rounds}");
        }
    }

    #[test]
    fn those_in_charge_begin_in_different_parts() {
        check(1, [0, 1, 2, 3]);
        check(6, [0, 5, 14, 19]);
        check(0, [0; 4]);
    }
}
