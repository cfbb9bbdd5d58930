//! Specification of the collectives of an intercommunicator (MPI-5 chapter 6, the paragraphs on
//! intercommunicators): each group receives the data of the other. The sizes of blocks differ between the
//! groups if the standard allows it.

use std::ops::Range;

use super::case::{Case, Expected, Sums, sums};
use crate::shape::{Collective, Shape};

/// Both groups of an operation, seen from one rank.
pub(super) struct Sides {
    pub own: Range<u32>,
    pub other: Range<u32>,
}

impl Sides {
    fn others(&self) -> u64 {
        u64::from(self.other.end - self.other.start)
    }
}

impl Case {
    /// Returns the groups as `rank` sees them; `first` is the size of the first.
    pub(super) fn sides(&self, first: u32, rank: u32) -> Sides {
        if rank < first {
            Sides { own: 0..first, other: first..self.ranks }
        } else {
            Sides { own: first..self.ranks, other: 0..first }
        }
    }

    /// Returns the units of a block that a rank contributes, if the blocks of a group are equal.
    fn width(&self, first: u32, rank: u32) -> u64 {
        self.count + u64::from(rank >= first)
    }

    /// Returns the number of units that both groups combine, which is divisible among either.
    fn combined(&self, first: u32) -> u64 {
        self.count * u64::from(first) * u64::from(self.ranks - first)
    }

    /// Returns the units of the block of the member at `place` of a group of `size` in reduce_scatter.
    fn part(&self, first: u32, place: u32, size: u32) -> u64 {
        let (total, size) = (self.combined(first), u64::from(size));
        match self.collective {
            Collective::ReduceScatterBlock => total / size,
            _ if place == 0 => total - (size - 1) * (total / (size + 1)),
            _ => total / (size + 1),
        }
    }

    /// Returns true if `rank` is the root, or in the group that exchanges data with the root.
    fn takes_part(&self, first: u32, rank: u32) -> bool {
        rank == self.root || self.sides(first, rank).other.contains(&self.root)
    }

    pub(super) fn group_shape(&self, first: u32, rank: u32) -> Shape {
        use Collective as C;
        let sides = self.sides(first, rank);
        let root = match self.collective.rooted() {
            true if self.takes_part(first, rank) => self.root,
            true => Shape::NOBODY,
            false => 0,
        };
        let size = sides.own.end - sides.own.start;
        let (count, own) = match self.collective {
            C::Barrier | C::Alltoallv => (0, 0),
            C::Gatherv | C::Scatterv => (self.block(rank), 0),
            C::Allgather | C::Alltoall => (self.width(first, sides.other.start), self.width(first, rank)),
            C::Allgatherv => (sides.other.clone().map(|rank| self.block(rank)).sum(), self.block(rank)),
            C::ReduceScatterBlock => (self.part(first, 0, size), 0),
            C::ReduceScatter => (self.combined(first), self.part(first, rank - sides.own.start, size)),
            _ => (self.count, 0),
        };
        let shape = Shape::new(self.collective, self.ranks, rank, count);
        Shape { first_group: first, root, own, commutative: self.commutative, ..shape }
    }

    pub(super) fn group_sums(&self, first: u32, rank: u32) -> Sums {
        use Collective as C;
        let sides = self.sides(first, rank);
        let root = rank == self.root;
        let blocks = || sums(sides.other.clone().map(|rank| self.block(rank)));
        let size = sides.own.end - sides.own.start;
        match self.collective {
            C::Gatherv if root => Sums::new(Vec::new(), blocks()),
            C::Scatterv if root => Sums::new(blocks(), Vec::new()),
            C::Allgatherv => Sums::new(Vec::new(), blocks()),
            C::Alltoallv => Sums::new(
                sums(sides.other.clone().map(|to| self.pair(rank, to))),
                sums(sides.other.clone().map(|from| self.pair(from, rank))),
            ),
            C::ReduceScatter => {
                Sums::new(Vec::new(), sums((0..size).map(|place| self.part(first, place, size))))
            }
            _ => Sums::default(),
        }
    }

    /// Returns the units of both buffers.
    pub(super) fn group_sizes(&self, first: u32, rank: u32) -> (u64, u64) {
        use Collective as C;
        let sides = self.sides(first, rank);
        if self.collective.rooted() && !self.takes_part(first, rank) {
            return (0, 0);
        }
        let root = rank == self.root;
        let either = |at_root: (u64, u64), elsewhere: (u64, u64)| if root { at_root } else { elsewhere };
        let sums = self.group_sums(first, rank);
        let last = |sums: &[u64]| sums.last().copied().unwrap_or(0);
        let (sent, received) = (last(sums.tables().send), last(sums.tables().recv));
        let own = self.group_shape(first, rank).own;
        match self.collective {
            C::Bcast => (0, self.count),
            C::Gather => either((0, self.count * sides.others()), (self.count, 0)),
            C::Gatherv => either((0, received), (self.block(rank), 0)),
            C::Scatter => either((self.count * sides.others(), 0), (0, self.count)),
            C::Scatterv => either((sent, 0), (0, self.block(rank))),
            C::Allgather => (own, self.width(first, sides.other.start) * sides.others()),
            C::Allgatherv => (own, received),
            C::Alltoall => (own * sides.others(), self.width(first, sides.other.start) * sides.others()),
            C::Alltoallv => (sent, received),
            C::Reduce => either((0, self.count), (self.count, 0)),
            C::Allreduce => (self.count, self.count),
            C::ReduceScatterBlock => (self.combined(first), self.group_shape(first, rank).count),
            C::ReduceScatter => (self.combined(first), own),
            _ => (0, 0),
        }
    }

    pub(super) fn group_expected(&self, first: u32, rank: u32, unit: u64) -> Expected {
        use Collective as C;
        let sides = self.sides(first, rank);
        let (other, place) = (sides.other.clone(), rank - sides.own.start);
        let size = sides.own.end - sides.own.start;
        let regular = |width: u64| (other.start + (unit / width) as u32, unit % width);
        match self.collective {
            C::Bcast if rank == self.root => Expected::Unchanged,
            C::Bcast => Expected::Of(self.root, unit),
            C::Scatter => Expected::Of(self.root, self.count * u64::from(place) + unit),
            C::Scatterv => {
                let before: u64 =
                    sides.own.clone().take_while(|other| *other < rank).map(|rank| self.block(rank)).sum();
                Expected::Of(self.root, before + unit)
            }
            C::Gather => {
                let (origin, offset) = regular(self.count);
                Expected::Of(origin, offset)
            }
            C::Allgather => {
                let (origin, offset) = regular(self.width(first, other.start));
                Expected::Of(origin, offset)
            }
            C::Gatherv | C::Allgatherv => {
                let (origin, offset) = find(other, unit, |block| self.block(block));
                Expected::Of(origin, offset)
            }
            C::Alltoall => {
                let width = self.width(first, other.start);
                let (origin, offset) = regular(width);
                Expected::Of(origin, width * u64::from(place) + offset)
            }
            C::Alltoallv => {
                let (origin, offset) = find(other, unit, |from| self.pair(from, rank));
                let before: u64 =
                    sides.own.clone().take_while(|to| *to < rank).map(|to| self.pair(origin, to)).sum();
                Expected::Of(origin, before + offset)
            }
            C::Reduce | C::Allreduce => Expected::Combined(other, unit),
            C::ReduceScatterBlock | C::ReduceScatter => {
                let before: u64 = (0..place).map(|place| self.part(first, place, size)).sum();
                Expected::Combined(other, before + unit)
            }
            _ => Expected::Unchanged,
        }
    }
}

/// Returns the block of one of `ranks` that contains `unit`, and the offset in it.
fn find(ranks: Range<u32>, unit: u64, length: impl Fn(u32) -> u64) -> (u32, u64) {
    let mut rest = unit;
    for rank in ranks {
        if rest < length(rank) {
            return (rank, rest);
        }
        rest -= length(rank);
    }
    unreachable!("a unit of the buffer lies in one of its blocks")
}
