//! Process topologies (MPI-5 chapter 8): who a communicator's members call their neighbours.
//!
//! This file is what the three kinds have in common; [`cartesian`] and [`graph`] are the kinds, pure.
//! Neighbours of a rank are in [`crate::communicator`]; [`crate::constructors`] makes communicators that have
//! a topology, and finds out which process should take which rank.

pub mod cartesian;
pub mod graph;

use tutti_base::{Error, ErrorClass, Result};

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
