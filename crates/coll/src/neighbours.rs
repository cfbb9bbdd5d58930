//! Neighbours of a rank in a neighbourhood collective (MPI-5 section 8.6).

/// Edges of one rank, in the order of its blocks. An edge may occur several times, and lead back to the rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Neighbours {
    /// Ranks that send to this rank, each a block of the receive buffer. For [`Neighbours::NOBODY`] the block
    /// is not changed.
    pub sources: Vec<u32>,
    /// Ranks that this rank sends to; for [`Neighbours::NOBODY`] nothing is sent.
    pub destinations: Vec<u32>,
    /// True if blocks come in pairs, one for each direction of a dimension. A block sent in one direction is
    /// then received as one from the opposite direction. That makes a difference only if both neighbours are
    /// the same process.
    pub opposite: bool,
}

impl Neighbours {
    /// Value for MPI_PROC_NULL, at the boundary of a grid.
    pub const NOBODY: u32 = u32::MAX;

    /// Returns the blocks to send and their receivers, without [`Neighbours::NOBODY`].
    pub fn sends(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        (0..).zip(self.destinations.iter().copied()).filter(|(_, rank)| *rank != Self::NOBODY)
    }

    /// Returns the blocks to receive and their senders, without [`Neighbours::NOBODY`]. Blocks of one source
    /// come in the order in which it sends them.
    pub fn receives(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let block = |place: u32| if self.opposite { place ^ 1 } else { place };
        let blocks = (0..self.sources.len() as u32).map(block);
        blocks.map(|block| (block, self.sources[block as usize])).filter(|(_, rank)| *rank != Self::NOBODY)
    }
}
