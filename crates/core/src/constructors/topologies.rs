//! Communicators with a topology (MPI-5 section 8.5). All constructors are collective over an
//! intracommunicator.

use std::sync::Arc;

use tutti_base::{Error, ErrorClass, Rank, Result};

use super::{create, reorder, split};
use crate::collective::WaitContext;
use crate::communicator::Communicator;
use crate::group::Group;
use crate::lanes::LaneGuard;
use crate::process::Process;
use crate::topology::{Cartesian, Distributed, Graph, Topology};

/// An edge of MPI_Dist_graph_create, which any member may specify.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Rank at which the edge begins.
    pub source: u32,
    /// Rank at which the edge ends.
    pub destination: u32,
    /// Weight of the edge, 1 if none is given.
    pub weight: i32,
}

/// Bytes of an edge's end in a message: direction, the other rank, the weight.
const END_BYTES: usize = 9;

/// Makes a communicator with a grid (MPI_Cart_create). Returns `None` for a member without a place in the
/// grid.
///
/// # Errors
/// Returns `Dims` if the grid is larger than the group, `Comm` for an intercommunicator.
pub fn cartesian(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    grid: Cartesian,
    reorder: bool,
) -> Result<Option<Arc<Communicator>>> {
    check_grid(comm, &grid)?;
    let (order, size) = (reorder.then(|| reorder::of_grid(process, comm, &grid)), grid.size());
    with(held, process, comm, order, size, Topology::Cartesian(grid))
}

/// Returns the rank that the caller would have in the grid (MPI_Cart_map); `None` if it has no place there.
///
/// # Errors
/// Returns the same errors as [`cartesian`].
pub fn cartesian_rank(process: &Process, comm: &Arc<Communicator>, grid: &Cartesian) -> Result<Option<u32>> {
    check_grid(comm, grid)?;
    Ok(rank_in(&reorder::of_grid(process, comm, grid), comm, grid.size()))
}

/// Makes a communicator with a graph (MPI_Graph_create). Returns `None` for a member without a node.
///
/// # Errors
/// Returns `Arg` if the graph is larger than the group, `Comm` for an intercommunicator.
pub fn graph(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    graph: Graph,
    reorder: bool,
) -> Result<Option<Arc<Communicator>>> {
    check_graph(comm, &graph)?;
    if graph.size() == 0 {
        return Ok(None);
    }
    let (order, size) = (reorder.then(|| reorder::of_graph(process, comm, &graph)), graph.size());
    with(held, process, comm, order, size, Topology::Graph(graph))
}

/// Returns the rank that the caller would have in the graph (MPI_Graph_map); `None` if it has no node
/// there.
///
/// # Errors
/// Returns the same errors as [`graph`].
pub fn graph_rank(process: &Process, comm: &Arc<Communicator>, graph: &Graph) -> Result<Option<u32>> {
    check_graph(comm, graph)?;
    Ok(rank_in(&reorder::of_graph(process, comm, graph), comm, graph.size()))
}

/// Splits a grid into the grids of the dimensions that remain (MPI_Cart_sub).
///
/// # Errors
/// Returns `Topology` if `comm` has no grid.
pub fn sub(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    remain: &[bool],
) -> Result<Option<Arc<Communicator>>> {
    let grid = Topology::cartesian(comm.topology())?;
    let (part, color) = grid.sub(comm.rank().0, remain);
    let new = split::split(held, process, comm, color as i32, comm.rank().0 as i32)?;
    Ok(new.inspect(|new| new.arrange(Arc::new(Topology::Cartesian(part)))))
}

/// Makes a communicator with a graph in which every member specifies its own edges
/// (MPI_Dist_graph_create_adjacent).
///
/// # Errors
/// Returns `Comm` for an intercommunicator.
pub fn adjacent(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    edges: Distributed,
    reorder: bool,
) -> Result<Option<Arc<Communicator>>> {
    check_intra(comm)?;
    with_edges(held, process, comm, edges, reorder)
}

/// Makes a communicator with a graph whose edges any member may specify (MPI_Dist_graph_create). Each edge
/// is sent to its two ends. A member has its edges in the order of the ranks that specified them.
///
/// # Errors
/// Returns `Comm` for an intercommunicator.
pub fn distributed(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    told: &[Edge],
    weighted: bool,
    reorder: bool,
) -> Result<Option<Arc<Communicator>>> {
    check_intra(comm)?;
    let mut parts = vec![Vec::new(); comm.size() as usize];
    for edge in told {
        encode(&mut parts[edge.source as usize], false, edge.destination, edge.weight);
        encode(&mut parts[edge.destination as usize], true, edge.source, edge.weight);
    }
    let mut edges = Distributed { weighted, ..Distributed::default() };
    for part in WaitContext::new(held, process, comm).alltoall_bytes(&parts)? {
        decode(&part, &mut edges);
    }
    with_edges(held, process, comm, edges, reorder)
}

/// Makes a communicator with a distributed graph, reordered if requested.
fn with_edges(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    edges: Distributed,
    reorder: bool,
) -> Result<Option<Arc<Communicator>>> {
    let (order, edges) = match reorder {
        true => {
            let (order, edges) = reorder::of_distributed(held, process, comm, edges)?;
            (Some(order), edges)
        }
        false => (None, edges),
    };
    with(held, process, comm, order, comm.size(), Topology::Distributed(edges))
}

/// Makes a communicator with this topology from the first `size` members, in `order` or their own order.
fn with(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    order: Option<Vec<u32>>,
    size: u32,
    topology: Topology,
) -> Result<Option<Arc<Communicator>>> {
    let order = order.unwrap_or_else(|| (0..size).collect());
    let member = |rank: &u32| comm.group().get(Rank(*rank)).expect("a member of the communicator");
    let group: Group = order[..size as usize].iter().map(member).collect();
    let group = group.with_origin(comm.group().origin());
    let new = create::create(held, process, comm, &group)?;
    Ok(new.inspect(|new| new.arrange(Arc::new(topology))))
}

/// Returns the position of the caller among the first `size` members of an order.
fn rank_in(order: &[u32], comm: &Arc<Communicator>, size: u32) -> Option<u32> {
    let place = order[..size as usize].iter().position(|rank| *rank == comm.rank().0);
    place.map(|place| place as u32)
}

/// Appends one end of an edge to a message.
fn encode(part: &mut Vec<u8>, incoming: bool, other: u32, weight: i32) {
    part.push(u8::from(incoming));
    part.extend(other.to_le_bytes());
    part.extend(weight.to_le_bytes());
}

/// Adds the edge ends in a message to a graph.
fn decode(part: &[u8], edges: &mut Distributed) {
    for end in part.chunks_exact(END_BYTES) {
        let number = |at: usize| [end[at], end[at + 1], end[at + 2], end[at + 3]];
        let (other, weight) = (u32::from_le_bytes(number(1)), i32::from_le_bytes(number(5)));
        let side = if end[0] == 0 { &mut edges.destinations } else { &mut edges.sources };
        side.push(other, weight);
    }
}

/// Returns an error for an intercommunicator.
fn check_intra(comm: &Arc<Communicator>) -> Result<()> {
    match comm.inter() {
        None => Ok(()),
        Some(_) => Err(Error::new(
            ErrorClass::Comm,
            "argument comm_old is an intercommunicator; topologies are for intracommunicators",
        )),
    }
}

/// Returns an error if the grid does not fit the communicator.
fn check_grid(comm: &Arc<Communicator>, grid: &Cartesian) -> Result<()> {
    check_intra(comm)?;
    check_size(comm, grid.size(), ErrorClass::Dims, "dims")
}

/// Returns an error if the graph does not fit the communicator.
fn check_graph(comm: &Arc<Communicator>, graph: &Graph) -> Result<()> {
    check_intra(comm)?;
    check_size(comm, graph.size(), ErrorClass::Arg, "nnodes")
}

/// Returns an error of `class` if a topology needs more processes than the communicator has.
fn check_size(comm: &Arc<Communicator>, size: u32, class: ErrorClass, argument: &str) -> Result<()> {
    if size <= comm.size() {
        return Ok(());
    }
    let reason = format!("argument {argument} asks for {size} processes; comm_old has {}", comm.size());
    Err(Error::new(class, reason))
}
