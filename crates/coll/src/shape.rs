//! Description of a collective operation, seen from one rank, without its memory.

use std::fmt;

use crate::hierarchy::Ignored;
use crate::ir::Unit;

/// The collective operations of MPI that are made of schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Collective {
    /// MPI-5 section 6.3.
    Barrier,
    /// MPI-5 section 6.4.
    Bcast,
    /// MPI-5 section 6.5.
    Gather,
    /// MPI-5 section 6.5, counts differ from rank to rank.
    Gatherv,
    /// MPI-5 section 6.6.
    Scatter,
    /// MPI-5 section 6.6, counts differ from rank to rank.
    Scatterv,
    /// MPI-5 section 6.7.
    Allgather,
    /// MPI-5 section 6.7, counts differ from rank to rank.
    Allgatherv,
    /// MPI-5 section 6.8.
    Alltoall,
    /// MPI-5 section 6.8, counts differ from pair to pair; also MPI_Alltoallw, where datatypes do.
    Alltoallv,
    /// MPI-5 section 6.9.1.
    Reduce,
    /// MPI-5 section 6.9.6.
    Allreduce,
    /// MPI-5 section 6.10.1, blocks of one size.
    ReduceScatterBlock,
    /// MPI-5 section 6.10.2, blocks of given sizes.
    ReduceScatter,
    /// MPI-5 section 6.11.1.
    Scan,
    /// MPI-5 section 6.11.2.
    Exscan,
    /// MPI-5 section 8.6.1.
    NeighborAllgather,
    /// MPI-5 section 8.6.1, counts differ from neighbour to neighbour.
    NeighborAllgatherv,
    /// MPI-5 section 8.6.2.
    NeighborAlltoall,
    /// MPI-5 section 8.6.2, counts differ from neighbour to neighbour; also MPI_Neighbor_alltoallw, where
    /// datatypes do.
    NeighborAlltoallv,
    /// MPI-5 section 14.4: all ranks read from a file.
    FileRead,
    /// MPI-5 section 14.4: all ranks write to a file.
    FileWrite,
}

impl Collective {
    /// Collectives of all members of a communicator, in the order of the standard.
    pub const ALL: [Collective; 16] = [
        Collective::Barrier,
        Collective::Bcast,
        Collective::Gather,
        Collective::Gatherv,
        Collective::Scatter,
        Collective::Scatterv,
        Collective::Allgather,
        Collective::Allgatherv,
        Collective::Alltoall,
        Collective::Alltoallv,
        Collective::Reduce,
        Collective::Allreduce,
        Collective::ReduceScatterBlock,
        Collective::ReduceScatter,
        Collective::Scan,
        Collective::Exscan,
    ];

    /// Collectives along the edges of a topology (MPI-5, section 8.6).
    pub const OF_NEIGHBOURS: [Collective; 4] = [
        Collective::NeighborAllgather,
        Collective::NeighborAllgatherv,
        Collective::NeighborAlltoall,
        Collective::NeighborAlltoallv,
    ];

    /// Collectives of a communicator, then those of neighbours.
    pub const EVERY: [Collective; 20] = {
        let mut every = [Collective::Barrier; 20];
        let mut place = 0;
        while place < every.len() {
            let neighbours = place.checked_sub(Collective::ALL.len());
            every[place] = match neighbours {
                None => Collective::ALL[place],
                Some(place) => Collective::OF_NEIGHBOURS[place],
            };
            place += 1;
        }
        every
    };

    /// Returns the name used in settings and reports.
    pub fn name(self) -> &'static str {
        match self {
            Collective::Barrier => "barrier",
            Collective::Bcast => "bcast",
            Collective::Gather => "gather",
            Collective::Gatherv => "gatherv",
            Collective::Scatter => "scatter",
            Collective::Scatterv => "scatterv",
            Collective::Allgather => "allgather",
            Collective::Allgatherv => "allgatherv",
            Collective::Alltoall => "alltoall",
            Collective::Alltoallv => "alltoallv",
            Collective::Reduce => "reduce",
            Collective::Allreduce => "allreduce",
            Collective::ReduceScatterBlock => "reduce_scatter_block",
            Collective::ReduceScatter => "reduce_scatter",
            Collective::Scan => "scan",
            Collective::Exscan => "exscan",
            Collective::NeighborAllgather => "neighbor_allgather",
            Collective::NeighborAllgatherv => "neighbor_allgatherv",
            Collective::NeighborAlltoall => "neighbor_alltoall",
            Collective::NeighborAlltoallv => "neighbor_alltoallv",
            Collective::FileRead => "file_read",
            Collective::FileWrite => "file_write",
        }
    }

    /// Returns the unit of the spans of its schedules.
    pub fn unit(self) -> Unit {
        use Collective as C;
        match self {
            C::Reduce | C::Allreduce | C::ReduceScatterBlock | C::ReduceScatter | C::Scan | C::Exscan => {
                Unit::Element
            }
            _ => Unit::Byte,
        }
    }

    /// Returns true if blocks go along the edges of a topology only.
    pub fn is_of_neighbours(self) -> bool {
        Collective::OF_NEIGHBOURS.contains(&self)
    }

    /// Returns true if all ranks access a file. Each rank's tables then hold its bytes in each window.
    pub fn is_of_files(self) -> bool {
        matches!(self, Collective::FileRead | Collective::FileWrite)
    }

    /// Returns true if one rank is the root.
    pub fn rooted(self) -> bool {
        use Collective as C;
        matches!(self, C::Bcast | C::Gather | C::Gatherv | C::Scatter | C::Scatterv | C::Reduce)
    }
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One rank's view of a collective operation: all properties that an algorithm may use.
///
/// All fields but `rank`, `in_place`, `own`, and in some collectives `count`, are equal on all ranks.
/// Selection uses only the equal ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Collective operation to perform.
    pub collective: Collective,
    /// Ranks of the communicator, at least 1; of both groups of an intercommunicator, the first group's
    /// first.
    pub ranks: u32,
    /// Ranks of the first group of an intercommunicator; 0 for an intracommunicator.
    pub first_group: u32,
    /// Number of this rank, below `ranks`.
    pub rank: u32,
    /// The root; 0 where there is none, [`Shape::NOBODY`] where this rank of an intercommunicator does not
    /// know it.
    pub root: u32,
    /// In units of [`Collective::unit`]:
    /// - bcast, reduce, allreduce, scan, exscan: all of the data;
    /// - gather, scatter, allgather, alltoall, reduce_scatter_block: one block;
    /// - gatherv, scatterv: this rank's own block (differs from rank to rank);
    /// - allgatherv, reduce_scatter: the sum of [`crate::ir::Table::Recv`];
    /// - alltoallv: the sum of this rank's receive table if `in_place`, else 0;
    /// - file_read, file_write: this rank's bytes (differs from rank to rank);
    /// - barrier, neighbor_allgatherv, neighbor_alltoallv: 0;
    /// - neighbor_allgather, neighbor_alltoall, and allgather and alltoall of an intercommunicator: one block
    ///   that is received.
    pub count: u64,
    /// reduce_scatter: the units of this rank's block. Neighbourhood collectives, and allgather, allgatherv
    /// and alltoall of an intercommunicator: one block that is sent. Else 0. Differs from rank to rank.
    pub own: u64,
    /// Packed bytes of a unit: 1, or the size of the datatype of a reduction.
    pub unit_bytes: u64,
    /// True if the operator commutes; `true` where there is none.
    pub commutative: bool,
    /// True if the operator rounds once, so that all operands of an element must be combined in one step.
    pub together: bool,
    /// True if this rank passed MPI_IN_PLACE: its contribution lies in the receive buffer, at the position
    /// that the standard defines. Always `false` for bcast.
    pub in_place: bool,
}

impl Shape {
    /// Value of a rank that does not exist.
    pub const NOBODY: u32 = u32::MAX;

    /// Returns an operation on `count` units without root, operator or MPI_IN_PLACE.
    pub fn new(collective: Collective, ranks: u32, rank: u32, count: u64) -> Shape {
        Shape {
            collective,
            ranks,
            first_group: 0,
            rank,
            root: 0,
            count,
            own: 0,
            unit_bytes: 1,
            commutative: true,
            together: false,
            in_place: false,
        }
    }

    /// Returns the bytes of [`Shape::count`] units.
    pub fn bytes(&self) -> u64 {
        self.count * self.unit_bytes
    }

    /// Returns true if this rank is the root.
    pub fn is_root(&self) -> bool {
        self.rank == self.root
    }

    /// Returns the rank at `distance` from this one, around the ring of ranks.
    pub fn neighbour(&self, distance: i64) -> u32 {
        (i64::from(self.rank) + distance).rem_euclid(i64::from(self.ranks)) as u32
    }
}

/// Parameters of a generator; its registration lists those that it uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Params {
    /// Children of a node of a tree; [`Params::FLAT`]: as many as there are.
    pub radix: u32,
    /// The same of the tree downwards, where there is one up and one down (fan-in and fan-out; S1, section
    /// 3.1); 0: as [`Params::radix`].
    pub fan_out: u32,
    /// Units of a segment of a pipeline; 0: the whole. Where blocks travel in frames, the units of the
    /// longest that does.
    pub segment: u64,
    /// Iterations in flight (segments, rounds): `1..=Loop::MAX_WINDOW`.
    pub window: u32,
    /// Number of ranks that may access the memory of one rank at the same time; 0: all.
    pub readers: u32,
    /// Distances between ranks that make no difference.
    pub ignored: Ignored,
}

impl Params {
    /// A radix that makes any tree flat.
    pub const FLAT: u32 = u32::MAX;
    /// Parameters of [`Params::default`], as a constant.
    pub const DEFAULT: Params =
        Params { radix: 2, fan_out: 0, segment: 0, window: 2, readers: 0, ignored: Ignored::NONE };

    /// Returns the parameters of the tree downwards.
    pub fn downwards(&self) -> Params {
        let radix = if self.fan_out == 0 { self.radix } else { self.fan_out };
        Params { radix, ..*self }
    }
}

impl Default for Params {
    fn default() -> Params {
        Params::DEFAULT
    }
}

impl fmt::Display for Params {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.radix {
            Params::FLAT => f.write_str("flat")?,
            radix => write!(f, "radix {radix}")?,
        }
        match self.fan_out {
            0 => {}
            Params::FLAT => f.write_str(" down flat")?,
            radix => write!(f, " down radix {radix}")?,
        }
        write!(f, " segment {} window {}", self.segment, self.window)?;
        if self.readers > 0 {
            write!(f, " readers {}", self.readers)?;
        }
        if self.ignored == Ignored::NONE { Ok(()) } else { write!(f, " ignored {}", self.ignored) }
    }
}
