//! Two-phase exchange between ranks and a file (collective buffering). Some ranks, the aggregators, are in
//! charge of windows of the file. They read or write whole windows, and exchange the content with the ranks
//! that own the bytes.
//!
//! No requests or lists are sent: each rank knows the views of all, so both sides of a message know its
//! length from their tables. Windows are assigned in turn, so that a window of a file always has the same
//! aggregator. A round is an iteration of one loop: one window of each aggregator. With several rounds in
//! flight, one window is exchanged while others are on their way to the device. Aggregators begin in
//! different parts of the file, and step through it by the golden section. Otherwise a rank whose bytes are
//! all in one part, as with the tiles of an image, would be busy in some rounds and idle in the others.

use crate::build::{Builder, block};
use crate::coprime::coprime_from;
use crate::ir::{BufferId, Division, Index, Kind, Length, Schedule, Span, Start, StepId, Table, Unit};

/// Number of messages of a rank that are received at a time. With more, all would arrive together at the end,
/// and the device would be idle until then.
const AHEAD: u32 = 4;

/// One rank's knowledge of an exchange.
#[derive(Clone, Copy, Debug)]
pub struct Exchange<'a> {
    /// Ranks of the communicator.
    pub ranks: u32,
    /// Number of this rank.
    pub rank: u32,
    /// Aggregators: window `w` belongs to number `w` modulo their count.
    pub aggregators: &'a [u32],
    /// Number of windows of each aggregator.
    pub rounds: u32,
    /// Largest number of bytes that all ranks together have in a window of this rank.
    pub slot: u64,
    /// Number of rounds in flight.
    pub in_flight: u32,
}

impl Exchange<'_> {
    /// Returns a number that grows by `step` a round, from that of the round with which aggregator `number`
    /// begins.
    fn round(&self, number: u32, step: u32) -> Index {
        let first = u64::from(number) * u64::from(self.rounds) / self.aggregators.len() as u64;
        match (step.checked_mul(self.rounds), self.ranks.checked_mul(self.rounds)) {
            (Some(all), Some(_)) => {
                let (first, step) = (first as i64 * i64::from(step), i64::from(step));
                Index::cyclic(first, step * i64::from(stride(self.rounds)), all)
            }
            // The product exceeds the range of an index: all aggregators begin at the first window.
            _ => Index::linear(0, step.into()),
        }
    }

    /// Returns the windows of aggregator `number`, round by round.
    fn windows(&self, number: u32) -> Index {
        self.round(number, self.aggregators.len() as u32).plus(number)
    }

    /// Returns the positions of the own windows in a table of all ranks' bytes, round by round.
    fn places(&self) -> Index {
        self.round(self.own().expect("only called at an aggregator"), self.ranks)
    }

    /// Returns the number of this rank among the aggregators, or `None` if it is none.
    fn own(&self) -> Option<u32> {
        self.aggregators.iter().position(|rank| *rank == self.rank).map(|number| number as u32)
    }

    /// Returns the other aggregators with their numbers, rotated by this rank, so that ranks do not all begin
    /// with the same one.
    fn others(&self) -> impl Iterator<Item = (u32, u32)> {
        let all = self.aggregators.len();
        (0..all).map(move |step| (step + self.rank as usize) % all).filter_map(|number| {
            let aggregator = self.aggregators[number];
            (aggregator != self.rank).then_some((number as u32, aggregator))
        })
    }

    /// Returns the bytes of `rank` in the slot of a round.
    fn piece(&self, slots: BufferId, table: Table, rank: u32) -> Span {
        let division = Division::Table(table);
        let (index, first) = (self.places().plus(rank), self.places());
        let start = Start::Within { division, index, first, stride: self.slot, slot: self.slots() };
        Span { buffer: slots, start, length: Length::Blocks { division, index, count: 1 } }
    }

    /// Returns all bytes in the slot of a round.
    fn whole(&self, slots: BufferId, table: Table) -> Span {
        let (division, index) = (Division::Table(table), self.places());
        let start = Start::Affine { offset: 0, stride: self.slot, index: self.slots() };
        Span { buffer: slots, start, length: Length::Blocks { division, index, count: self.ranks } }
    }

    fn slots(&self) -> Index {
        Index::cyclic(0, 1, self.in_flight)
    }
}

/// Returns the number of positions in the file by which a round is behind the one before it, modulo the
/// number of rounds. It is about the golden section, so that any few rounds are spread over the file. It has
/// no divisor in common with `rounds`, so that all positions are visited.
fn stride(rounds: u32) -> u32 {
    let golden = u64::from(rounds) * 382 / 1000;
    coprime_from(golden.max(1), rounds.into()) as u32
}

/// Returns the schedule of a collective write: ranks send their bytes to the aggregators, which write them.
/// The send table has the bytes of this rank in each window. The receive table has those of every rank in
/// each window of this rank.
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

/// Returns the schedule of a collective read: aggregators read, and send every rank its bytes. The tables are
/// those of [`write()`], exchanged.
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
        let of = |number: u32| (0..rounds).map(move |round| exchange.windows(number).in_iteration(round));
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
