//! Process topologies (MPI-5 chapter 8): who a communicator's members call their neighbours.
//!
//! This file is what the three kinds have in common: the neighbours of a rank, in the order in which neighbourhood collectives
//! lay out their blocks. [`cartesian`] and [`graph`] are the kinds, pure; [`create`] makes communicators that have one, and
//! [`reorder`] finds out which process should take which rank.

pub mod cartesian;
pub mod create;
pub mod graph;
mod reorder;

use tutti_base::{Error, ErrorClass, Result};
use tutti_coll::Neighbours;

use crate::communicator::Communicator;

pub use cartesian::Cartesian;
pub use graph::{Distributed, Graph};

/// What is known of a communicator's neighbourhoods. Never changes; duplicates share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topology {
    /// Made by MPI_Cart_create or MPI_Cart_sub.
    Cartesian(Cartesian),
    /// Made by MPI_Graph_create: every member knows all of it.
    Graph(Graph),
    /// Made by MPI_Dist_graph_create or MPI_Dist_graph_create_adjacent: every member knows its own neighbours.
    Distributed(Distributed),
}

impl Communicator {
    /// With whom the caller exchanges blocks in neighbourhood collectives; nobody, without a topology.
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

    /// Whether the edges from the caller to itself have two ends: then what it sends itself has somewhere to go.
    ///
    /// # Errors
    /// `Topology` if they have not; the program told each end by itself.
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

    /// Numbers of blocks that the caller receives and sends in neighbourhood collectives.
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

impl Topology {
    /// As a Cartesian one.
    ///
    /// # Errors
    /// `Topology` if it is none; so are the other two.
    pub fn cartesian(topology: Option<&Topology>) -> Result<&Cartesian> {
        match topology {
            Some(Topology::Cartesian(cartesian)) => Ok(cartesian),
            _ => Err(Self::missing("a Cartesian topology", "MPI_Cart_create")),
        }
    }

    /// As a graph.
    ///
    /// # Errors
    /// `Topology` if it is none.
    pub fn graph(topology: Option<&Topology>) -> Result<&Graph> {
        match topology {
            Some(Topology::Graph(graph)) => Ok(graph),
            _ => Err(Self::missing("a graph topology", "MPI_Graph_create")),
        }
    }

    /// As a distributed graph.
    ///
    /// # Errors
    /// `Topology` if it is none.
    pub fn distributed(topology: Option<&Topology>) -> Result<&Distributed> {
        match topology {
            Some(Topology::Distributed(distributed)) => Ok(distributed),
            _ => Err(Self::missing("a distributed graph topology", "MPI_Dist_graph_create")),
        }
    }

    /// For an operation that needs some topology.
    pub fn missing(what: &str, maker: &str) -> Error {
        Error::new(
            ErrorClass::Topology,
            format!("argument comm has not {what}; make a communicator by {maker} first"),
        )
    }
}
