//! The simulated operation, as all ranks see it.

use crate::ir::Tables;
use crate::shape::{Collective, Shape};

/// Usual numbers of units of a block, for the v collectives, where no rank knows the real ones of all ranks.
const UNKNOWN_BLOCKS: [u64; 3] = [64, 4 << 10, 256 << 10];
/// Middle one of the usual sizes.
const UNKNOWN_BLOCK: u64 = UNKNOWN_BLOCKS[1];

/// Operation on blocks of equal size.
#[derive(Clone, Debug)]
pub struct Load {
    shape: Shape,
    /// Running sums over the blocks, where the collective takes a table.
    sums: Vec<u64>,
}

impl Load {
    /// Returns the operation of which `shape` is any rank's part. Blocks whose sizes differ from rank to rank
    /// are assumed to be equal. For gatherv, scatterv and alltoallv the size is `shape.count`, or a usual
    /// size if that is 0.
    pub fn new(shape: &Shape) -> Load {
        use Collective as C;
        let own = if shape.collective.is_of_files() { shape.own } else { 0 };
        let mut shape = Shape { rank: 0, in_place: false, own, ..*shape };
        let ranks = u64::from(shape.ranks);
        if matches!(shape.collective, C::Gatherv | C::Scatterv | C::Alltoallv) && shape.count == 0 {
            shape.count = UNKNOWN_BLOCK;
        }
        let sums = match shape.collective {
            // `own` pieces of equal size.
            C::FileRead | C::FileWrite => (0..=own).map(|piece| piece * shape.count).collect(),
            C::Gatherv | C::Scatterv | C::Alltoallv => (0..=ranks).map(|block| block * shape.count).collect(),
            C::Allgatherv | C::ReduceScatter => {
                let (quotient, rest) = (shape.count / ranks, shape.count % ranks);
                (0..=ranks).map(|block| block * quotient + block.min(rest)).collect()
            }
            _ => Vec::new(),
        };
        Load { shape, sums }
    }

    /// Returns the operations that `shape` may denote: one, or several of usual sizes if the counts are
    /// unknown.
    pub fn all(shape: &Shape) -> Vec<Load> {
        use Collective as C;
        let unknown = matches!(shape.collective, C::Gatherv | C::Scatterv | C::Alltoallv) && shape.count == 0;
        let blocks = if unknown { &UNKNOWN_BLOCKS[..] } else { &[shape.count] };
        blocks.iter().map(|&count| Load::new(&Shape { count, ..*shape })).collect()
    }

    /// Returns the shape of the operation at rank 0.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Returns the shape of the operation at `rank`.
    pub fn shape_of(&self, rank: u32) -> Shape {
        let mut shape = Shape { rank, ..self.shape };
        match shape.collective {
            Collective::ReduceScatter => {
                shape.own = self.sums[rank as usize + 1] - self.sums[rank as usize];
            }
            Collective::Alltoallv => shape.count = 0,
            _ => {}
        }
        shape
    }

    /// Returns the tables, which are the same for every rank.
    pub fn tables(&self) -> Tables<'_> {
        Tables { send: &self.sums, recv: &self.sums, permutation: &[] }
    }

    /// Returns the bytes of both buffers of a rank; for a rooted operation, the mean.
    pub fn footprint(&self) -> f64 {
        use Collective as C;
        let (ranks, bytes) = (f64::from(self.shape.ranks), self.shape.bytes() as f64);
        match self.shape.collective {
            C::Barrier => 0.0,
            C::Bcast => bytes,
            C::FileRead | C::FileWrite => bytes,
            C::Reduce | C::Allreduce | C::Scan | C::Exscan => 2.0 * bytes,
            C::Gather | C::Gatherv | C::Scatter | C::Scatterv => 2.0 * bytes,
            C::Allgather | C::ReduceScatterBlock => (ranks + 1.0) * bytes,
            C::Allgatherv | C::ReduceScatter => (1.0 + 1.0 / ranks) * bytes,
            C::Alltoall | C::Alltoallv => 2.0 * ranks * bytes,
            C::NeighborAllgather | C::NeighborAllgatherv => 2.0 * bytes,
            C::NeighborAlltoall | C::NeighborAlltoallv => 2.0 * bytes,
        }
    }
}
