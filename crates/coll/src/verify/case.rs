//! Specification of the collective operations: the initial and the final data of each, as the standard
//! defines them, on symbolic data. Every algorithm is proved against it.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::value::{Atom, Values};
use crate::ir::{Schedule, Tables};
use crate::shape::{Collective, Params, Shape};

/// Unit of a result that differs from the expected value.
#[derive(Debug)]
pub(super) struct WrongUnit {
    unit: usize,
    found: String,
    expected: String,
}

impl fmt::Display for WrongUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unit {} holds {}, not {}", self.unit, self.found, self.expected)
    }
}

/// Operation on all ranks that is to be verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// Collective operation to verify.
    pub collective: Collective,
    /// Number of ranks of the communicator.
    pub ranks: u32,
    /// Root of the operation, or 0.
    pub root: u32,
    /// Units as in [`Shape::count`]; for the v collectives, the mean length of a block.
    pub count: u64,
    /// True if the operator commutes.
    pub commutative: bool,
    /// True if every rank passes MPI_IN_PLACE where the standard allows it.
    pub in_place: bool,
    /// Parameters of the generator.
    pub params: Params,
    /// Pairs of ranks that exchange data.
    pub pattern: Pattern,
}

/// Pattern of the ranks that exchange data in an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pattern {
    /// All pairs of ranks.
    #[default]
    Whole,
    /// Ranks of two groups with those of the other one; the value is the size of the first group.
    Groups(u32),
    /// All ranks with a file that is divided into windows.
    File {
        /// Units of a window.
        window: u32,
        /// Number of aggregators, the ranks in charge of windows.
        aggregators: u32,
        /// Seed of the random views.
        seed: u32,
    },
    /// Neighbours in a grid of up to three dimensions.
    Grid {
        /// Extents of the grid; their product is the number of ranks.
        dims: [u32; 3],
        /// True for each dimension that is closed to rings.
        periodic: [bool; 3],
    },
    /// Neighbours in a random graph.
    Random {
        /// Seed of the random graph.
        seed: u32,
        /// Mean number of edges of a rank.
        degree: u32,
    },
}

/// Running sums of both tables of a rank.
#[derive(Debug, Default)]
pub struct Sums {
    send: Vec<u64>,
    recv: Vec<u64>,
    permutation: Arc<[u32]>,
}

impl Sums {
    pub(super) fn new(send: Vec<u64>, recv: Vec<u64>) -> Sums {
        Sums { send, recv, ..Sums::default() }
    }

    /// Adds the permutation of a schedule.
    pub(super) fn with_permutation_of(self, schedule: &Schedule) -> Sums {
        Sums { permutation: Arc::clone(&schedule.permutation), ..self }
    }

    /// Returns the tables in the form that a schedule uses.
    pub fn tables(&self) -> Tables<'_> {
        Tables { send: &self.send, recv: &self.recv, permutation: &self.permutation }
    }
}

pub(super) fn sums(lengths: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut sum = 0;
    std::iter::once(0)
        .chain(lengths.map(|length| {
            sum += length;
            sum
        }))
        .collect()
}

impl Case {
    /// Returns the length of block `block` if every block has its own: 0, the mean or twice the mean.
    pub(super) fn block(&self, block: u32) -> u64 {
        self.count * u64::from((block * 7 + self.root) % 3)
    }

    /// Returns the length of the data that `from` sends to `to` in alltoallv. The function is symmetric, so
    /// that it also works in place.
    pub(super) fn pair(&self, from: u32, to: u32) -> u64 {
        self.count * u64::from((from * to + from + to) % 3)
    }

    fn blocks(&self) -> Vec<u64> {
        sums((0..self.ranks).map(|block| self.block(block)))
    }

    /// Returns true if `rank` has its contribution in the receive buffer.
    fn is_in_place(&self, rank: u32) -> bool {
        use Collective as C;
        match self.collective {
            // Neither intercommunicators nor neighbourhoods have MPI_IN_PLACE here.
            _ if self.pattern != Pattern::Whole => false,
            C::Barrier | C::Bcast => false,
            C::Gather | C::Gatherv | C::Scatter | C::Scatterv | C::Reduce => {
                self.in_place && rank == self.root
            }
            _ => self.in_place,
        }
    }

    /// Returns the shape of the operation at `rank`.
    pub fn shape(&self, rank: u32) -> Shape {
        use Collective as C;
        if let Pattern::Groups(first) = self.pattern {
            return self.group_shape(first, rank);
        }
        let in_place = self.is_in_place(rank);
        let count = match self.collective {
            C::FileRead | C::FileWrite => self.view(rank).len() as u64,
            C::Barrier | C::NeighborAllgatherv | C::NeighborAlltoallv => 0,
            C::Gatherv | C::Scatterv => self.block(rank),
            C::Allgatherv | C::ReduceScatter => (0..self.ranks).map(|block| self.block(block)).sum(),
            C::Alltoallv if in_place => (0..self.ranks).map(|from| self.pair(from, rank)).sum(),
            C::Alltoallv => 0,
            _ => self.count,
        };
        Shape {
            collective: self.collective,
            ranks: self.ranks,
            first_group: 0,
            rank,
            root: self.root,
            count,
            own: match self.collective {
                C::ReduceScatter | C::NeighborAllgatherv => self.block(rank),
                C::NeighborAllgather | C::NeighborAlltoall => self.count,
                _ => 0,
            },
            unit_bytes: 1,
            commutative: self.commutative,
            together: false,
            in_place,
        }
    }

    /// Returns the running sums of the tables of `rank`.
    pub fn sums(&self, rank: u32) -> Sums {
        use Collective as C;
        if let Pattern::Groups(first) = self.pattern {
            return self.group_sums(first, rank);
        }
        let root = rank == self.root;
        match self.collective {
            C::FileRead | C::FileWrite => self.file_sums(rank),
            C::NeighborAllgatherv | C::NeighborAlltoallv => {
                let [send, recv] = self.edge_sums(rank);
                Sums::new(send, recv)
            }
            C::Gatherv if root => Sums { recv: self.blocks(), ..Sums::default() },
            C::Scatterv if root => Sums { send: self.blocks(), ..Sums::default() },
            C::Allgatherv | C::ReduceScatter => Sums { recv: self.blocks(), ..Sums::default() },
            C::Alltoallv => Sums {
                send: sums((0..self.ranks).map(|to| self.pair(rank, to))),
                recv: sums((0..self.ranks).map(|from| self.pair(from, rank))),
                ..Sums::default()
            },
            _ => Sums::default(),
        }
    }

    /// Returns the units of the send and receive buffers of `rank`; 0 for one that is not significant.
    fn sizes(&self, rank: u32) -> (u64, u64) {
        use Collective as C;
        if let Pattern::Groups(first) = self.pattern {
            return self.group_sizes(first, rank);
        }
        if self.collective.is_of_neighbours() {
            return self.edge_sizes(rank);
        }
        let root = rank == self.root;
        let all = self.count * u64::from(self.ranks);
        let sums = self.sums(rank);
        let last = |sums: &[u64]| sums.last().copied().unwrap_or(0);
        match self.collective {
            C::FileRead => (0, self.view(rank).len() as u64),
            C::FileWrite => (self.view(rank).len() as u64, 0),
            C::Barrier => (0, 0),
            C::Bcast => (0, self.count),
            C::Gather => (self.count, if root { all } else { 0 }),
            C::Gatherv => (self.block(rank), last(&sums.recv)),
            C::Scatter => (if root { all } else { 0 }, self.count),
            C::Scatterv => (last(&sums.send), self.block(rank)),
            C::Allgather => (self.count, all),
            C::Allgatherv => (self.block(rank), last(&sums.recv)),
            C::Alltoall => (all, all),
            C::Alltoallv => (last(&sums.send), last(&sums.recv)),
            C::Reduce => (self.count, if root { self.count } else { 0 }),
            C::Allreduce | C::Scan | C::Exscan => (self.count, self.count),
            C::ReduceScatterBlock => (all, if self.in_place { all } else { self.count }),
            C::ReduceScatter => {
                let all = last(&sums.recv);
                (all, if self.in_place { all } else { self.block(rank) })
            }
            C::NeighborAllgather | C::NeighborAllgatherv | C::NeighborAlltoall | C::NeighborAlltoallv => {
                unreachable!("neighbourhood collectives are handled above")
            }
        }
    }

    /// Returns the first unit of block `block` in a buffer with one block for each rank.
    fn start(&self, block: u32) -> u64 {
        use Collective as C;
        match self.collective {
            C::Gatherv | C::Scatterv | C::Allgatherv | C::ReduceScatter => {
                (0..block).map(|block| self.block(block)).sum()
            }
            _ => self.count * u64::from(block),
        }
    }

    /// Returns the initial send and receive buffers of `rank`.
    pub(super) fn initial(&self, rank: u32) -> [Vec<Atom>; 2] {
        use Collective as C;
        let (send, recv) = self.sizes(rank);
        let in_place = self.is_in_place(rank);
        let scatter = matches!(self.collective, C::Scatter | C::Scatterv);
        let own = |length: u64| (0..length).map(|unit| Values::own(rank, unit)).collect::<Vec<_>>();
        let mut receive = vec![Atom::UNDEFINED; recv as usize];
        if self.collective == C::Bcast {
            return [Vec::new(), if rank == self.root { own(recv) } else { receive }];
        }
        if !in_place || scatter {
            return [own(send), receive];
        }
        let at = match self.collective {
            C::Gather | C::Gatherv | C::Allgather | C::Allgatherv => self.start(rank),
            _ => 0,
        } as usize;
        let values = own(send);
        receive[at..at + values.len()].copy_from_slice(&values);
        [Vec::new(), receive]
    }

    /// Checks the receive buffer of `rank` at the end; `before` is what it held at the start.
    pub(super) fn check(
        &self,
        rank: u32,
        before: &[Atom],
        after: &[Atom],
        values: &Values,
    ) -> Result<(), WrongUnit> {
        for (unit, &found) in after.iter().enumerate() {
            let unchanged = before[unit];
            let right = match self.expected(rank, unit as u64) {
                Expected::Unchanged => found == unchanged,
                Expected::Of(origin, element) => found == Values::own(origin, element),
                Expected::Combined(ranks, element) => {
                    u64::from(found.element) == element && values.is_of(found.list, &ranks, self.commutative)
                }
            };
            if !right {
                let expected = self.expected(rank, unit as u64);
                let expected = format!("{expected:?}");
                return Err(WrongUnit { unit, found: values.show(found).to_string(), expected });
            }
        }
        Ok(())
    }

    fn expected(&self, rank: u32, unit: u64) -> Expected {
        use Collective as C;
        if let Pattern::Groups(first) = self.pattern {
            return self.group_expected(first, rank, unit);
        }
        if self.collective.is_of_neighbours() {
            return self.edge_expected(rank, unit);
        }
        match self.collective {
            C::FileRead => Expected::Of(0, self.view(rank)[unit as usize]),
            C::FileWrite => Expected::Unchanged,
            C::Barrier => Expected::Unchanged,
            C::Bcast => Expected::Of(self.root, unit),
            C::Scatter | C::Scatterv if self.is_in_place(rank) => Expected::Unchanged,
            C::Scatter | C::Scatterv => Expected::Of(self.root, self.start(rank) + unit),
            C::Gather | C::Allgather => Expected::Of((unit / self.count) as u32, unit % self.count),
            C::Alltoall => {
                let (origin, offset) = ((unit / self.count) as u32, unit % self.count);
                Expected::Of(origin, self.start(rank) + offset)
            }
            C::Gatherv | C::Allgatherv => {
                let (origin, offset) = self.find(unit, |block| self.block(block));
                Expected::Of(origin, offset)
            }
            C::Alltoallv => {
                let (origin, offset) = self.find(unit, |from| self.pair(from, rank));
                let before: u64 = (0..rank).map(|to| self.pair(origin, to)).sum();
                Expected::Of(origin, before + offset)
            }
            C::Reduce | C::Allreduce => Expected::Combined(0..self.ranks, unit),
            C::ReduceScatterBlock if unit >= self.count => Expected::Unchanged,
            C::ReduceScatter if unit >= self.block(rank) => Expected::Unchanged,
            C::ReduceScatterBlock | C::ReduceScatter => {
                Expected::Combined(0..self.ranks, self.start(rank) + unit)
            }
            C::Scan => Expected::Combined(0..rank + 1, unit),
            C::Exscan if rank == 0 => Expected::Unchanged,
            C::Exscan => Expected::Combined(0..rank, unit),
            C::NeighborAllgather | C::NeighborAllgatherv | C::NeighborAlltoall | C::NeighborAlltoallv => {
                unreachable!("neighbourhood collectives are handled above")
            }
        }
    }

    /// Returns the block that contains `unit`, and the offset in it.
    fn find(&self, unit: u64, length: impl Fn(u32) -> u64) -> (u32, u64) {
        let mut rest = unit;
        for block in 0..self.ranks {
            if rest < length(block) {
                return (block, rest);
            }
            rest -= length(block);
        }
        unreachable!("a unit of the buffer lies in one of its blocks")
    }

    /// Returns an upper bound of the units of one rank's temporaries.
    pub(super) fn temporary_bound(&self, rank: u32) -> u64 {
        let (send, recv) = self.sizes(rank);
        if let Some(bound) = self.window_bound() {
            return bound;
        }
        // A root may hold the data of all ranks, and so may every rank of an allreduce in one hop, which is
        // for few bytes. So may a rank that combines all operands of a prefix at once. A leader holds the
        // data that the ranks of its host send to others.
        use Collective as C;
        let of_all = self.collective.rooted()
            || matches!(self.collective, C::Allreduce | C::Alltoall | C::Scan | C::Exscan)
            || self.pattern != Pattern::Whole;
        let blocks = if of_all { u64::from(self.ranks) } else { 1 };
        let slots = u64::from(self.params.window.min(8)) + 4;
        slots * send.max(recv).max(1) * blocks + self.frames_bound()
    }

    /// Returns an upper bound of the units of a rank's bank: a few slots with a part of every rank's data. In
    /// a pipeline that part is a segment, whatever the size of the operation.
    pub(super) fn bank_bound(&self) -> u64 {
        // Blocks by tables differ in length; none is longer than twice the mean.
        let whole = 2 * self.count.max(1);
        let something = if self.params.segment > 0 { whole.min(self.params.segment) } else { whole };
        let slots = u64::from(self.params.window.min(crate::ir::Loop::MAX_WINDOW)) + 4;
        // The bank of a leader may hold blocks for all ranks from all ranks of its host.
        let host = if self.collective == Collective::Alltoall { u64::from(self.ranks) } else { 1 };
        slots * (u64::from(self.ranks) + 1) * something * host + self.frames_bound()
    }

    /// Returns an upper bound of the units of frames: one for each rank, or for all ranks from all ranks of a
    /// host.
    fn frames_bound(&self) -> u64 {
        let (ranks, frame) = (u64::from(self.ranks), self.params.segment + crate::ir::Kind::FRAME_HEADER);
        match self.collective {
            Collective::Gatherv | Collective::Scatterv => ranks * frame,
            Collective::Alltoallv => ranks * ranks * frame,
            _ => 0,
        }
    }
}

/// Required content of a unit at the end.
#[derive(Debug)]
pub(super) enum Expected {
    /// The initial content, unchanged.
    Unchanged,
    /// An element of a rank's operand.
    Of(u32, u64),
    /// An element, combined over these ranks.
    Combined(Range<u32>, u64),
}
