//! Neighbourhood collectives (MPI-5 section 8.6), over the topology of a communicator.

use std::sync::Arc;

use tutti_base::Result;
use tutti_core::collective::{Collective, Side};
use tutti_core::communicator::Communicator;
use tutti_core::topology::Topology;

use crate::entry::Call;
use crate::form::Form;
use crate::handles::kind::{Comm, Datatype};
use crate::imp::collective::{block, entries, operation, perform, typed_entries};
use crate::scope::{Address, Array, CountArray, In};
use crate::types::{MPI_Aint, MPI_Datatype};

/// Returns a communicator with a topology, and the numbers of blocks that the caller receives and sends.
fn arranged<'s>(comm: In<'s, Comm>) -> Result<(&'s Arc<Communicator>, u32, u32)> {
    let comm = comm.get()?;
    if comm.topology().is_none() {
        return Err(Topology::missing("a topology", "MPI_Cart_create or MPI_Dist_graph_create"));
    }
    comm.check_loops()?;
    let (sources, destinations) = comm.degrees();
    Ok((comm, sources as u32, destinations as u32))
}

/// Returns a block for each of `neighbours`. Without neighbours, the other arguments are ignored.
fn blocks<'s>(neighbours: u32, address: Address, items: i64, handle: In<'s, Datatype>) -> Result<Side<'s>> {
    if neighbours == 0 { Ok(Side::Absent) } else { block(address, items, handle) }
}

/// Exchanges equal blocks with neighbours (MPI_Neighbor_allgather, and MPI_Neighbor_alltoall with the same
/// arguments).
#[allow(clippy::too_many_arguments, reason = "as many as the standard's functions have, and which")]
pub fn regular(
    call: &mut Call,
    collective: Collective,
    sendbuf: Address,
    sendcount: i64,
    sendtype: In<Datatype>,
    recvbuf: Address,
    recvcount: i64,
    recvtype: In<Datatype>,
    comm: In<Comm>,
    form: Form,
) -> Result<()> {
    let (comm, sources, destinations) = arranged(comm)?;
    let send = blocks(destinations, sendbuf, sendcount, sendtype)?;
    let recv = blocks(sources, recvbuf, recvcount, recvtype)?;
    perform(call, comm, operation(collective, send, recv)?, form)
}

/// Collects blocks of different lengths from neighbours (MPI_Neighbor_allgatherv).
#[allow(clippy::too_many_arguments, reason = "as many as the standard's function has")]
pub fn allgatherv(
    call: &mut Call,
    sendbuf: Address,
    sendcount: i64,
    sendtype: In<Datatype>,
    recvbuf: Address,
    recvcounts: CountArray,
    displs: CountArray,
    recvtype: In<Datatype>,
    comm: In<Comm>,
    form: Form,
) -> Result<()> {
    let (comm, sources, destinations) = arranged(comm)?;
    let send = blocks(destinations, sendbuf, sendcount, sendtype)?;
    let recv = entries(recvbuf, recvcounts, displs, recvtype, sources)?;
    perform(call, comm, operation(Collective::NeighborAllgatherv, send, recv)?, form)
}

/// Exchanges blocks of different lengths with neighbours (MPI_Neighbor_alltoallv).
#[allow(clippy::too_many_arguments, reason = "as many as the standard's function has")]
pub fn alltoallv(
    call: &mut Call,
    sendbuf: Address,
    sendcounts: CountArray,
    sdispls: CountArray,
    sendtype: In<Datatype>,
    recvbuf: Address,
    recvcounts: CountArray,
    rdispls: CountArray,
    recvtype: In<Datatype>,
    comm: In<Comm>,
    form: Form,
) -> Result<()> {
    let (comm, sources, destinations) = arranged(comm)?;
    let send = entries(sendbuf, sendcounts, sdispls, sendtype, destinations)?;
    let recv = entries(recvbuf, recvcounts, rdispls, recvtype, sources)?;
    perform(call, comm, operation(Collective::NeighborAlltoallv, send, recv)?, form)
}

/// Exchanges blocks of different lengths and datatypes with neighbours (MPI_Neighbor_alltoallw).
#[allow(clippy::too_many_arguments, reason = "as many as the standard's function has")]
pub fn alltoallw(
    call: &mut Call,
    sendbuf: Address,
    sendcounts: CountArray,
    sdispls: Array<MPI_Aint>,
    sendtypes: Array<MPI_Datatype>,
    recvbuf: Address,
    recvcounts: CountArray,
    rdispls: Array<MPI_Aint>,
    recvtypes: Array<MPI_Datatype>,
    comm: In<Comm>,
    form: Form,
) -> Result<()> {
    let (comm, sources, destinations) = arranged(comm)?;
    let send = typed_entries(sendbuf, sendcounts, read(sdispls, destinations)?, sendtypes, destinations)?;
    let recv = typed_entries(recvbuf, recvcounts, read(rdispls, sources)?, recvtypes, sources)?;
    perform(call, comm, operation(Collective::NeighborAlltoallv, send, recv)?, form)
}

/// Displacements in bytes, which are addresses in both variants.
fn read<'s>(displs: Array<'s, MPI_Aint>, neighbours: u32) -> Result<impl Iterator<Item = i64> + 's> {
    Ok(displs.slice(neighbours.into())?.iter().map(|displacement| *displacement as i64))
}
