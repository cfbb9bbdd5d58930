//! Neighbours of a rank in its communicator's topology (MPI-5 section 8.6).

use tutti_base::{Error, ErrorClass, Result};
use tutti_coll::Neighbours;

use crate::communicator::Communicator;
use crate::topology::{Topology, graph};

impl Communicator {
    /// Returns the ranks with which the caller exchanges blocks in neighbourhood collectives; none without
    /// a topology.
    pub fn neighbours(&self) -> Neighbours {
        let own = self.rank().0;
        match self.topology() {
            None => Neighbours::default(),
            Some(Topology::Cartesian(grid)) => {
                let around: Vec<u32> =
                    grid.neighbours(own).map(|rank| rank.unwrap_or(Neighbours::NOBODY)).collect();
                Neighbours { sources: around.clone(), destinations: around, opposite: true }
            }
            Some(Topology::Graph(graph)) => {
                let around: Vec<u32> = graph.neighbours(own).iter().map(|rank| *rank as u32).collect();
                Neighbours { sources: around.clone(), destinations: around, opposite: false }
            }
            Some(Topology::Distributed(edges)) => Neighbours {
                sources: edges.sources.ranks.clone(),
                destinations: edges.destinations.ranks.clone(),
                opposite: false,
            },
        }
    }

    /// Checks that each edge from the caller to itself has two ends, so that data sent along it is
    /// received.
    ///
    /// # Errors
    /// Returns `Topology` if the numbers of ends differ. The program specified each end independently.
    pub fn check_loops(&self) -> Result<()> {
        let Some(Topology::Distributed(edges)) = self.topology() else { return Ok(()) };
        let own = self.rank().0;
        let loops = |edges: &graph::Edges| edges.ranks.iter().filter(|rank| **rank == own).count();
        let (come, go) = (loops(&edges.sources), loops(&edges.destinations));
        if come == go {
            return Ok(());
        }
        let reason = format!(
            "argument comm: rank {own} is {come} times among its own sources and {go} times among its destinations, \
             which are the same edges"
        );
        Err(Error::new(ErrorClass::Topology, reason))
    }

    /// Returns the numbers of blocks that the caller receives and sends in neighbourhood collectives.
    pub fn degrees(&self) -> (usize, usize) {
        match self.topology() {
            None => (0, 0),
            Some(Topology::Cartesian(grid)) => (2 * grid.dims().len(), 2 * grid.dims().len()),
            Some(Topology::Graph(graph)) => {
                let degree = graph.neighbours(self.rank().0).len();
                (degree, degree)
            }
            Some(Topology::Distributed(edges)) => (edges.sources.len(), edges.destinations.len()),
        }
    }
}
