//! Process topologies (MPI-5 chapter 8).

use std::ffi::c_int;
use std::sync::Arc;

use tutti_base::{Error, ErrorClass, Result};
use tutti_core::communicator::Communicator;
use tutti_core::constructors::topologies::{self, Edge};
use tutti_core::dims;
use tutti_core::topology::graph::Edges;
use tutti_core::topology::{Cartesian, Distributed, Graph, Topology};

use crate::entry::Call;
use crate::generated::constants::*;
use crate::handles::kind::{Comm, Info};
use crate::imp::comm::{give, give_with};
use crate::imp::memory::process;
use crate::scope::{Array, ArrayOut, HandleOut, In, Out};

/// Distributes processes over the dimensions of a grid (MPI_Dims_create).
pub fn dims_create(_call: &mut Call, nnodes: c_int, ndims: c_int, dims: ArrayOut<c_int>) -> Result<()> {
    dims::fill(nnodes, dims.slice(ndims.into())?)
}

/// Returns the kind of a communicator's topology (MPI_Topo_test).
pub fn topo_test(_call: &mut Call, comm: In<Comm>, status: Out<c_int>) -> Result<()> {
    status.set(match comm.get()?.topology() {
        None => MPI_UNDEFINED,
        Some(Topology::Cartesian(_)) => MPI_CART,
        Some(Topology::Graph(_)) => MPI_GRAPH,
        Some(Topology::Distributed(_)) => MPI_DIST_GRAPH,
    })
}

/// Creates a communicator with a Cartesian topology (MPI_Cart_create).
pub fn cart_create(
    call: &mut Call,
    comm_old: In<Comm>,
    ndims: c_int,
    dims: Array<c_int>,
    periods: Array<c_int>,
    reorder: c_int,
    comm_cart: HandleOut<Comm>,
) -> Result<()> {
    comm_cart.check()?;
    let comm = comm_old.get()?;
    let grid = grid_of(ndims, dims, periods)?;
    give(comm_cart, topologies::cartesian(&mut call.held, process()?, comm, grid, reorder != 0)?)
}

/// Returns the rank that the caller would have in a Cartesian topology (MPI_Cart_map).
pub fn cart_map(
    _call: &mut Call,
    comm: In<Comm>,
    ndims: c_int,
    dims: Array<c_int>,
    periods: Array<c_int>,
    newrank: Out<c_int>,
) -> Result<()> {
    let grid = grid_of(ndims, dims, periods)?;
    mapped(newrank, topologies::cartesian_rank(process()?, comm.get()?, &grid)?)
}

/// Splits a Cartesian communicator into grids of fewer dimensions (MPI_Cart_sub).
pub fn cart_sub(
    call: &mut Call,
    comm: In<Comm>,
    remain_dims: Array<c_int>,
    newcomm: HandleOut<Comm>,
) -> Result<()> {
    newcomm.check()?;
    let comm = comm.get()?;
    let dims = Topology::cartesian(comm.topology())?.dims().len() as i64;
    let remain: Vec<bool> = remain_dims.slice(dims)?.iter().map(|remains| *remains != 0).collect();
    give(newcomm, topologies::sub(&mut call.held, process()?, comm, &remain)?)
}

/// Returns the number of dimensions of a Cartesian topology (MPI_Cartdim_get).
pub fn cartdim_get(_call: &mut Call, comm: In<Comm>, ndims: Out<c_int>) -> Result<()> {
    ndims.set(Topology::cartesian(comm.get()?.topology())?.dims().len() as c_int)
}

/// Returns dimensions, periods and the caller's coordinates (MPI_Cart_get).
pub fn cart_get(
    _call: &mut Call,
    comm: In<Comm>,
    maxdims: c_int,
    dims: ArrayOut<c_int>,
    periods: ArrayOut<c_int>,
    coords: ArrayOut<c_int>,
) -> Result<()> {
    let comm = comm.get()?;
    let grid = Topology::cartesian(comm.topology())?;
    let room = room_for(grid, maxdims)?;
    write(dims.slice(room)?, grid.dims().iter().map(|dim| *dim as c_int));
    write(periods.slice(room)?, grid.periodic().iter().map(|periodic| c_int::from(*periodic)));
    write(coords.slice(room)?, grid.coords(comm.rank().0).into_iter().map(|coord| coord as c_int));
    Ok(())
}

/// Returns the coordinates of a rank (MPI_Cart_coords).
pub fn cart_coords(
    _call: &mut Call,
    comm: In<Comm>,
    rank: c_int,
    maxdims: c_int,
    coords: ArrayOut<c_int>,
) -> Result<()> {
    let comm = comm.get()?;
    let grid = Topology::cartesian(comm.topology())?;
    let rank = member(comm, rank)?;
    write(coords.slice(room_for(grid, maxdims)?)?, grid.coords(rank).into_iter().map(|coord| coord as c_int));
    Ok(())
}

/// Returns the rank at coordinates (MPI_Cart_rank).
pub fn cart_rank(_call: &mut Call, comm: In<Comm>, coords: Array<c_int>, rank: Out<c_int>) -> Result<()> {
    let grid = Topology::cartesian(comm.get()?.topology())?;
    rank.set(grid.rank(coords.slice(grid.dims().len() as i64)?)? as c_int)
}

/// Returns both ranks at a distance in one dimension (MPI_Cart_shift).
pub fn cart_shift(
    _call: &mut Call,
    comm: In<Comm>,
    direction: c_int,
    disp: c_int,
    rank_source: Out<c_int>,
    rank_dest: Out<c_int>,
) -> Result<()> {
    let comm = comm.get()?;
    let grid = Topology::cartesian(comm.topology())?;
    let all = grid.dims().len();
    let along = usize::try_from(direction).ok().filter(|along| *along < all).ok_or_else(|| {
        let reason = format!("argument direction is {direction}; the grid has {all} dimensions, from 0 on");
        Error::new(ErrorClass::Dims, reason)
    })?;
    let (source, destination) = grid.shift(comm.rank().0, along, disp);
    rank_source.set(or_nobody(source))?;
    rank_dest.set(or_nobody(destination))
}

/// Creates a communicator with a graph topology (MPI_Graph_create).
pub fn graph_create(
    call: &mut Call,
    comm_old: In<Comm>,
    nnodes: c_int,
    indx: Array<c_int>,
    edges: Array<c_int>,
    reorder: c_int,
    comm_graph: HandleOut<Comm>,
) -> Result<()> {
    comm_graph.check()?;
    let comm = comm_old.get()?;
    let graph = graph_of(nnodes, indx, edges)?;
    give(comm_graph, topologies::graph(&mut call.held, process()?, comm, graph, reorder != 0)?)
}

/// Returns the rank that the caller would have in a graph topology (MPI_Graph_map).
pub fn graph_map(
    _call: &mut Call,
    comm: In<Comm>,
    nnodes: c_int,
    indx: Array<c_int>,
    edges: Array<c_int>,
    newrank: Out<c_int>,
) -> Result<()> {
    let graph = graph_of(nnodes, indx, edges)?;
    mapped(newrank, topologies::graph_rank(process()?, comm.get()?, &graph)?)
}

/// Returns the numbers of nodes and edges of a graph (MPI_Graphdims_get).
pub fn graphdims_get(_call: &mut Call, comm: In<Comm>, nnodes: Out<c_int>, nedges: Out<c_int>) -> Result<()> {
    let graph = Topology::graph(comm.get()?.topology())?;
    nnodes.set(graph.size() as c_int)?;
    nedges.set(graph.edges().len() as c_int)
}

/// Returns the edges of a graph topology, as many as the arrays hold (MPI_Graph_get).
pub fn graph_get(
    _call: &mut Call,
    comm: In<Comm>,
    maxindex: c_int,
    maxedges: c_int,
    indx: ArrayOut<c_int>,
    edges: ArrayOut<c_int>,
) -> Result<()> {
    let graph = Topology::graph(comm.get()?.topology())?;
    write(indx.slice(maxindex.into())?, graph.index().iter().copied());
    write(edges.slice(maxedges.into())?, graph.edges().iter().copied());
    Ok(())
}

/// Returns the number of a rank's neighbours in a graph (MPI_Graph_neighbors_count).
pub fn graph_neighbors_count(
    _call: &mut Call,
    comm: In<Comm>,
    rank: c_int,
    nneighbors: Out<c_int>,
) -> Result<()> {
    let comm = comm.get()?;
    let graph = Topology::graph(comm.topology())?;
    nneighbors.set(graph.neighbours(member(comm, rank)?).len() as c_int)
}

/// Returns the neighbours of a rank in a graph, as many as the array holds (MPI_Graph_neighbors).
pub fn graph_neighbors(
    _call: &mut Call,
    comm: In<Comm>,
    rank: c_int,
    maxneighbors: c_int,
    neighbors: ArrayOut<c_int>,
) -> Result<()> {
    let comm = comm.get()?;
    let graph = Topology::graph(comm.topology())?;
    let found = graph.neighbours(member(comm, rank)?);
    write(neighbors.slice(maxneighbors.into())?, found.iter().copied());
    Ok(())
}

/// Creates a distributed graph from edges that any member specifies (MPI_Dist_graph_create).
#[allow(clippy::too_many_arguments, reason = "as many as the standard's function has")]
pub fn dist_graph_create(
    call: &mut Call,
    comm_old: In<Comm>,
    n: c_int,
    sources: Array<c_int>,
    degrees: Array<c_int>,
    destinations: Array<c_int>,
    weights: Array<c_int>,
    info: In<Info>,
    reorder: c_int,
    comm_dist_graph: HandleOut<Comm>,
) -> Result<()> {
    comm_dist_graph.check()?;
    let info = info.optional()?;
    let comm = comm_old.get()?;
    let (ranks, degrees) = (sources.slice(n.into())?, degrees.slice(n.into())?);
    if let Some(place) = degrees.iter().position(|degree| *degree < 0) {
        let reason = format!("argument degrees[{place}] is {}; it must be 0 or more", degrees[place]);
        return Err(Error::new(ErrorClass::Arg, reason));
    }
    let all = degrees.iter().map(|degree| i64::from(*degree)).sum();
    let given = given_weights(weights, all)?;
    let sources = Edges::new(ranks, None, comm.size(), sources.name())?;
    let ends = Edges::new(destinations.slice(all)?, given, comm.size(), destinations.name())?;
    let told = sources.ranks.iter().zip(degrees);
    let told = told.flat_map(|(source, degree)| std::iter::repeat_n(*source, *degree as usize));
    let told: Vec<Edge> = told
        .zip(ends.ranks.iter().zip(&ends.weights))
        .map(|(source, (destination, weight))| Edge { source, destination: *destination, weight: *weight })
        .collect();
    let weighted = given.is_some();
    let new = topologies::distributed(&mut call.held, process()?, comm, &told, weighted, reorder != 0)?;
    give_with(call, comm_dist_graph, new, info)
}

/// Creates a distributed graph from each member's own edges (MPI_Dist_graph_create_adjacent).
#[allow(clippy::too_many_arguments, reason = "as many as the standard's function has")]
pub fn dist_graph_create_adjacent(
    call: &mut Call,
    comm_old: In<Comm>,
    indegree: c_int,
    sources: Array<c_int>,
    sourceweights: Array<c_int>,
    outdegree: c_int,
    destinations: Array<c_int>,
    destweights: Array<c_int>,
    info: In<Info>,
    reorder: c_int,
    comm_dist_graph: HandleOut<Comm>,
) -> Result<()> {
    comm_dist_graph.check()?;
    let info = info.optional()?;
    let comm = comm_old.get()?;
    let come = given_weights(sourceweights, indegree.into())?;
    let go = given_weights(destweights, outdegree.into())?;
    let edges = Distributed {
        sources: Edges::new(sources.slice(indegree.into())?, come, comm.size(), sources.name())?,
        destinations: Edges::new(
            destinations.slice(outdegree.into())?,
            go,
            comm.size(),
            destinations.name(),
        )?,
        weighted: come.is_some() && go.is_some(),
    };
    let new = topologies::adjacent(&mut call.held, process()?, comm, edges, reorder != 0)?;
    give_with(call, comm_dist_graph, new, info)
}

/// Returns the numbers of the caller's neighbours in a distributed graph (MPI_Dist_graph_neighbors_count).
pub fn dist_graph_neighbors_count(
    _call: &mut Call,
    comm: In<Comm>,
    indegree: Out<c_int>,
    outdegree: Out<c_int>,
    weighted: Out<c_int>,
) -> Result<()> {
    let edges = Topology::distributed(comm.get()?.topology())?;
    indegree.set(edges.sources.len() as c_int)?;
    outdegree.set(edges.destinations.len() as c_int)?;
    weighted.set_flag(edges.weighted)
}

/// Returns the neighbours of the caller, as many as the arrays hold (MPI_Dist_graph_neighbors; MPI-5 section
/// 8.5.5).
#[allow(clippy::too_many_arguments, reason = "as many as the standard's function has")]
pub fn dist_graph_neighbors(
    _call: &mut Call,
    comm: In<Comm>,
    maxindegree: c_int,
    sources: ArrayOut<c_int>,
    sourceweights: ArrayOut<c_int>,
    maxoutdegree: c_int,
    destinations: ArrayOut<c_int>,
    destweights: ArrayOut<c_int>,
) -> Result<()> {
    let edges = Topology::distributed(comm.get()?.topology())?;
    let sides = [
        (&edges.sources, maxindegree, sources, sourceweights),
        (&edges.destinations, maxoutdegree, destinations, destweights),
    ];
    for (side, room, ranks, weights) in sides {
        write(ranks.slice(room.into())?, side.ranks.iter().map(|rank| *rank as c_int));
        if edges.weighted && !is_unweighted(weights.pointer()) {
            write(weights.slice(room.into())?, side.weights.iter().copied());
        }
    }
    Ok(())
}

/// Returns the weights of `all` edges, unless the argument is MPI_UNWEIGHTED.
fn given_weights<'s>(weights: Array<'s, c_int>, all: i64) -> Result<Option<&'s [c_int]>> {
    if is_unweighted(weights.pointer()) {
        return Ok(None);
    }
    if weights.pointer() as usize == MPI_WEIGHTS_EMPTY && all > 0 {
        let reason = format!("argument {} is MPI_WEIGHTS_EMPTY, but there are edges", weights.name());
        return Err(Error::new(ErrorClass::Arg, reason));
    }
    weights.slice(all).map(Some)
}

fn is_unweighted(weights: *const c_int) -> bool {
    weights as usize == MPI_UNWEIGHTED
}

fn grid_of(ndims: c_int, dims: Array<c_int>, periods: Array<c_int>) -> Result<Cartesian> {
    if ndims < 0 {
        let reason = format!("argument ndims is {ndims}; it must not be negative");
        return Err(Error::new(ErrorClass::Dims, reason));
    }
    Cartesian::new(dims.slice(ndims.into())?, periods.slice(ndims.into())?)
}

fn graph_of(nnodes: c_int, indx: Array<c_int>, edges: Array<c_int>) -> Result<Graph> {
    let index = indx.slice(nnodes.into())?;
    Graph::new(index, edges.slice(index.last().copied().unwrap_or(0).into())?)
}

/// Returns the number of dimensions, if `maxdims` has room for them.
fn room_for(grid: &Cartesian, maxdims: c_int) -> Result<i64> {
    let dims = grid.dims().len() as i64;
    if i64::from(maxdims) >= dims {
        return Ok(dims);
    }
    let reason = format!("argument maxdims is {maxdims}; the grid has {dims} dimensions");
    Err(Error::new(ErrorClass::Arg, reason))
}

/// Parses a rank of a communicator.
fn member(comm: &Arc<Communicator>, rank: c_int) -> Result<u32> {
    u32::try_from(rank).ok().filter(|rank| *rank < comm.size()).ok_or_else(|| {
        let reason = format!("argument rank is {rank}; it must be 0 to {}", comm.size() - 1);
        Error::new(ErrorClass::Rank, reason)
    })
}

fn or_nobody(rank: Option<u32>) -> c_int {
    rank.map_or(MPI_PROC_NULL, |rank| rank as c_int)
}

fn mapped(place: Out<c_int>, rank: Option<u32>) -> Result<()> {
    place.set(rank.map_or(MPI_UNDEFINED, |rank| rank as c_int))
}

/// Fills the beginning of `room`.
fn write(room: &mut [c_int], values: impl Iterator<Item = c_int>) {
    room.iter_mut().zip(values).for_each(|(place, value)| *place = value);
}
