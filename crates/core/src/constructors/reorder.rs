//! Assignment of members to the ranks of a topology, where the program allows reordering. Neighbours are
//! placed near each other in the hardware ([`tutti_coll::hierarchy::mapping`]). Members know of each
//! other's bindings, so all compute the same result.

use std::sync::Arc;

use tutti_base::{Rank, Result};
use tutti_coll::hierarchy::mapping::TrafficMatrix;
use tutti_coll::simulate::Layout;

use crate::collective::{self, WaitContext};
use crate::communicator::Communicator;
use crate::lanes::LaneGuard;
use crate::process::Process;
use crate::topology::graph::{Distributed, Edges};
use crate::topology::{Cartesian, Graph};

/// Largest number of ranks that are reordered; the mapping of more would take seconds.
const MOST: u32 = 1 << 14;
/// Bytes of one edge in a message.
const EDGE_BYTES: usize = 8;

/// Returns the member for each place of a grid, followed by the members without a place.
pub(super) fn of_grid(process: &Process, comm: &Arc<Communicator>, grid: &Cartesian) -> Vec<u32> {
    order(process, comm, || TrafficMatrix::grid(grid.dims(), grid.periodic(), comm.size(), 1))
}

/// Returns the member for each node of a graph, followed by the members without a node.
pub(super) fn of_graph(process: &Process, comm: &Arc<Communicator>, graph: &Graph) -> Vec<u32> {
    let edges = (0..graph.size())
        .flat_map(|node| graph.neighbours(node).iter().map(move |other| (node, *other as u32, 1)));
    order(process, comm, || TrafficMatrix::new(comm.size(), edges))
}

/// Reorders a distributed graph, of which each member knows its own edges only. Returns the member for each
/// node, and the edges of the node that this member takes.
pub(super) fn of_distributed(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    edges: Distributed,
) -> Result<(Vec<u32>, Distributed)> {
    if places(process, comm).is_none() {
        return Ok(((0..comm.size()).collect(), edges));
    }
    // One member computes the mapping, so that only this one holds the whole graph.
    let mut parts = vec![Vec::new(); comm.size() as usize];
    parts[0] = encode(&edges.destinations);
    let told = WaitContext::new(held, process, comm).alltoall_bytes(&parts)?;
    let mut text = Vec::new();
    if comm.rank() == Rank(0) {
        let all = (0..).zip(&told).flat_map(|(from, part)| {
            let ends = decode(part);
            let weights = ends.weights.into_iter().map(|weight| weight as u64);
            ends.ranks.into_iter().zip(weights).map(move |(to, weight)| (from, to, weight))
        });
        let found = order(process, comm, || TrafficMatrix::new(comm.size(), all));
        text = found.iter().flat_map(|rank| rank.to_le_bytes()).collect();
    }
    WaitContext::new(held, process, comm).broadcast_bytes(Rank(0), &mut text)?;
    let found: Vec<u32> = text.chunks_exact(4).map(number).collect();
    let mut moved = Distributed { weighted: edges.weighted, ..Distributed::default() };
    for (side, into) in [(&edges.sources, &mut moved.sources), (&edges.destinations, &mut moved.destinations)]
    {
        parts.iter_mut().for_each(Vec::clear);
        parts[found[comm.rank().0 as usize] as usize] = encode(side);
        let received = WaitContext::new(held, process, comm).alltoall_bytes(&parts)?;
        *into = decode(&received.concat());
    }
    Ok((found, moved))
}

/// Returns the best order of members for this traffic, or their own order if no layout is known.
fn order(process: &Process, comm: &Arc<Communicator>, traffic: impl FnOnce() -> TrafficMatrix) -> Vec<u32> {
    match places(process, comm) {
        Some(layout) => traffic().map(layout.hierarchy()),
        None => (0..comm.size()).collect(),
    }
}

/// Returns the layout of the members, if it is known and they are few enough.
fn places(process: &Process, comm: &Arc<Communicator>) -> Option<Arc<Layout>> {
    collective::member_layout(process, comm).filter(|_| comm.size() <= MOST)
}

/// Encodes edges as pairs of rank and weight.
fn encode(edges: &Edges) -> Vec<u8> {
    let each = edges.ranks.iter().zip(&edges.weights);
    each.flat_map(|(rank, weight)| [rank.to_le_bytes(), weight.to_le_bytes()].concat()).collect()
}

/// Decodes edges.
fn decode(bytes: &[u8]) -> Edges {
    let mut edges = Edges::default();
    for edge in bytes.chunks_exact(EDGE_BYTES) {
        edges.push(number(&edge[..4]), number(&edge[4..8]) as i32);
    }
    edges
}

/// Decodes a number of four bytes, in little-endian order.
fn number(four: &[u8]) -> u32 {
    four.iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte))
}
