//! With whom a rank exchanges blocks in a neighbourhood collective (MPI-5 section 8.6).

/// The edges of one rank, in the order of its blocks. An edge may be there several times, and lead back to
/// the rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Neighbours {
    /// Who sends to this rank, a block of the receive buffer each; [`Neighbours::NOBODY`] leaves its block as
    /// it is.
    pub sources: Vec<u32>,
    /// To whom this rank sends; [`Neighbours::NOBODY`] gets nothing.
    pub destinations: Vec<u32>,
    /// Blocks come in pairs, one for each direction of a dimension: what goes in one direction is received as
    /// from the other one. That makes a difference only where both neighbours are the same process.
    pub opposite: bool,
}

impl Neighbours {
    /// MPI_PROC_NULL, at the rim of a grid.
    pub const NOBODY: u32 = u32::MAX;

    /// Blocks to send and to whom, leaving out nobody.
    pub fn sends(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        (0..).zip(self.destinations.iter().copied()).filter(|(_, rank)| *rank != Self::NOBODY)
    }

    /// Blocks to receive and from whom, leaving out nobody: those of one source in the order in which it
    /// sends them.
    pub fn receives(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let block = |place: u32| if self.opposite { place ^ 1 } else { place };
        let blocks = (0..self.sources.len() as u32).map(block);
        blocks.map(|block| (block, self.sources[block as usize])).filter(|(_, rank)| *rank != Self::NOBODY)
    }
}
