//! Specification of the neighbourhood collectives (MPI-5 section 8.6). Every rank sends its blocks one after
//! the other to its destinations, and receives those of its sources one after the other.

use super::case::{Case, Expected, Pattern, sums};
use crate::neighbours::Neighbours;
use crate::shape::Collective;

impl Case {
    /// Returns the neighbours of `rank`: those in the pattern's grid, or those in a random graph. There are
    /// edges that occur several times, and edges from a rank to itself.
    pub fn neighbours(&self, rank: u32) -> Neighbours {
        match self.pattern {
            Pattern::Grid { dims, periodic } => grid(dims, periodic, rank),
            Pattern::Random { seed, degree } => {
                let edge = |number: u32| {
                    let end = |salt: u32| {
                        let mixed = (u64::from(seed) << 32 | u64::from(2 * number + salt))
                            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
                        ((mixed ^ mixed >> 32).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33) as u32 % self.ranks
                    };
                    (end(0), end(1))
                };
                let edges = || (0..self.ranks * degree).map(edge);
                let sources = edges().filter(|(_, to)| *to == rank).map(|(from, _)| from).collect::<Vec<_>>();
                let destinations = edges().filter(|(from, _)| *from == rank).map(|(_, to)| to).collect();
                // The program chooses the order of sources, but the edges of one source keep their order.
                Neighbours { sources: sources.into_iter().rev().collect(), destinations, opposite: false }
            }
            Pattern::Whole | Pattern::Groups(_) | Pattern::File { .. } => Neighbours::default(),
        }
    }

    /// Returns the units of the block that `from` sends to `to` along each of their edges.
    fn edge_units(&self, from: u32, to: u32) -> u64 {
        match self.collective {
            _ if from == Neighbours::NOBODY || to == Neighbours::NOBODY => self.count,
            Collective::NeighborAllgatherv => self.block(from),
            Collective::NeighborAlltoallv => self.pair(from, to),
            _ => self.count,
        }
    }

    /// Returns the running sums of the blocks of both buffers of `rank`.
    pub(super) fn edge_sums(&self, rank: u32) -> [Vec<u64>; 2] {
        let Neighbours { sources, destinations, .. } = self.neighbours(rank);
        [
            sums(destinations.iter().map(|to| self.edge_units(rank, *to))),
            sums(sources.iter().map(|from| self.edge_units(*from, rank))),
        ]
    }

    /// Returns the units of both buffers.
    pub(super) fn edge_sizes(&self, rank: u32) -> (u64, u64) {
        let last = |sums: &[u64]| sums.last().copied().unwrap_or(0);
        let [send, recv] = self.edge_sums(rank);
        match self.collective {
            Collective::NeighborAllgather => (self.count, last(&recv)),
            Collective::NeighborAllgatherv => (self.block(rank), last(&recv)),
            _ => (last(&send), last(&recv)),
        }
    }

    pub(super) fn edge_expected(&self, rank: u32, unit: u64) -> Expected {
        let [_, recv] = self.edge_sums(rank);
        let block = recv.partition_point(|start| *start <= unit) - 1;
        let offset = unit - recv[block];
        let own = self.neighbours(rank);
        let source = own.sources[block];
        if source == Neighbours::NOBODY {
            return Expected::Unchanged;
        }
        if matches!(self.collective, Collective::NeighborAllgather | Collective::NeighborAllgatherv) {
            return Expected::Of(source, offset);
        }
        let its = self.neighbours(source).destinations;
        let sent = match self.pattern {
            // A block from below was sent upwards, and the reverse.
            Pattern::Grid { .. } => block ^ 1,
            _ => {
                let before = own.sources[..block].iter().filter(|other| **other == source).count();
                let mut mine = (0..its.len()).filter(|place| its[*place] == rank);
                mine.nth(before).expect("an edge has two ends")
            }
        };
        let [send, _] = self.edge_sums(source);
        Expected::Of(source, send[sent] + offset)
    }
}

fn grid(dims: [u32; 3], periodic: [bool; 3], rank: u32) -> Neighbours {
    let mut around = Vec::new();
    let mut stride: u32 = dims.iter().product();
    for (dim, periodic) in dims.into_iter().zip(periodic) {
        stride /= dim;
        let own = rank / stride % dim;
        for up in [false, true] {
            let (there, leaves) =
                if up { ((own + 1) % dim, own + 1 == dim) } else { ((own + dim - 1) % dim, own == 0) };
            let neighbour = rank - own * stride + there * stride;
            around.push(if leaves && !periodic { Neighbours::NOBODY } else { neighbour });
        }
    }
    Neighbours { sources: around.clone(), destinations: around, opposite: true }
}
