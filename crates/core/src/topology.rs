//! Process topologies (MPI-5 chapter 8), which define the neighbours of a communicator's members.
//!
//! This file has the common part; [`cartesian`] and [`graph`] have the kinds as pure code. Neighbours of a
//! rank are in [`crate::communicator`]. [`crate::constructors`] creates communicators with a topology, and
//! maps processes to ranks.

pub mod cartesian;
pub mod graph;

use tutti_base::{Error, ErrorClass, Result};

pub use cartesian::Cartesian;
pub use graph::{Distributed, Graph};

/// Topology of a communicator. It never changes, and duplicates share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topology {
    /// Grid, by MPI_Cart_create or MPI_Cart_sub.
    Cartesian(Cartesian),
    /// Graph that every member knows completely, by MPI_Graph_create.
    Graph(Graph),
    /// Graph of which every member knows its own neighbours only. It is made by MPI_Dist_graph_create or
    /// MPI_Dist_graph_create_adjacent.
    Distributed(Distributed),
}

impl Topology {
    /// Returns a topology as a Cartesian one.
    ///
    /// # Errors
    /// `Topology` if it is of another kind, or there is none.
    pub fn cartesian(topology: Option<&Topology>) -> Result<&Cartesian> {
        match topology {
            Some(Topology::Cartesian(cartesian)) => Ok(cartesian),
            _ => Err(Self::missing("a Cartesian topology", "MPI_Cart_create")),
        }
    }

    /// Returns a topology as a graph.
    ///
    /// # Errors
    /// `Topology` if it is of another kind, or there is none.
    pub fn graph(topology: Option<&Topology>) -> Result<&Graph> {
        match topology {
            Some(Topology::Graph(graph)) => Ok(graph),
            _ => Err(Self::missing("a graph topology", "MPI_Graph_create")),
        }
    }

    /// Returns a topology as a distributed graph.
    ///
    /// # Errors
    /// `Topology` if it is of another kind, or there is none.
    pub fn distributed(topology: Option<&Topology>) -> Result<&Distributed> {
        match topology {
            Some(Topology::Distributed(distributed)) => Ok(distributed),
            _ => Err(Self::missing("a distributed graph topology", "MPI_Dist_graph_create")),
        }
    }

    /// Returns the error of an operation that needs a topology which the communicator does not have.
    pub fn missing(what: &str, maker: &str) -> Error {
        Error::new(
            ErrorClass::Topology,
            format!("argument comm has not {what}; make a communicator by {maker} first"),
        )
    }
}
