//! Collective communication (MPI-5 chapter 6): arguments become [`Arguments`], the form decides how it
//! runs.
//!
//! # Safety
//! [`Arguments::new`] requires memory as MPI-5 requires it of the caller of the function. The wrapper passes
//! the requirement on to the program.

use std::ffi::c_int;
use std::sync::Arc;

use tutti_base::{Error, ErrorClass, Rank, Result};
use tutti_core::buffer::device;
use tutti_core::collective::{
    self, Arguments, CallKey, Collective, CollectiveHints, CommContext, Shape, Side, WaitContext,
};
use tutti_core::communicator::Communicator;
use tutti_core::engine::Array;
use tutti_data::Reducer;

use crate::entry::Call;
use crate::form::Form;
use crate::generated::constants::{MPI_PROC_NULL, MPI_ROOT};
use crate::handles::kind::{Comm, Datatype, Op};
use crate::handles::request::handle_of;
use crate::imp::memory::{argument_beside, count, count_of, datatype, datatype_of, process, refuse_device};
use crate::scope::{Address, Array as Handles, CountArray, In};
use crate::types::MPI_Datatype;

mod overlap;

/// Returns the communicator of an operation that is not defined for intercommunicators.
pub(super) fn intra<'s>(comm: In<'s, Comm>) -> Result<&'s Arc<Communicator>> {
    let found = comm.get()?;
    if found.inter().is_none() {
        return Ok(found);
    }
    let reason = "argument comm is an intercommunicator; this operation is for intracommunicators";
    Err(Error::new(ErrorClass::Comm, reason))
}

/// Relation of the calling rank to the root of an operation.
struct Part {
    /// The number of the root.
    root: u32,
    at_root: bool,
    /// The root deals with the caller: it may be the root itself, and is not, between two groups.
    with_root: bool,
    /// MPI_IN_PLACE has a meaning.
    may_be_in_place: bool,
}

/// Parses the argument `root`. In an intercommunicator it is a rank of the remote group, MPI_ROOT, or
/// MPI_PROC_NULL if another member of the local group is the root (MPI-5 section 6.2.3).
fn part(root: c_int, comm: &Communicator) -> Result<Part> {
    let peers = comm.peers().size();
    let known = u32::try_from(root).ok().filter(|root| *root < peers);
    if comm.inter().is_none() {
        let root = known.ok_or_else(|| wrong_root(root, peers, ""))?;
        let at_root = comm.rank().0 == root;
        return Ok(Part { root, at_root, with_root: true, may_be_in_place: at_root });
    }
    let none = Part { root: Shape::NOBODY, at_root: false, with_root: false, may_be_in_place: false };
    match (root, known) {
        (MPI_ROOT, _) => Ok(Part { root: comm.number(comm.rank(), false), at_root: true, ..none }),
        (MPI_PROC_NULL, _) => Ok(none),
        (_, Some(rank)) => Ok(Part { root: comm.number(Rank(rank), true), with_root: true, ..none }),
        _ => Err(wrong_root(root, peers, ", MPI_ROOT or MPI_PROC_NULL")),
    }
}

#[cold]
fn wrong_root(root: c_int, peers: u32, or: &str) -> Error {
    Error::new(ErrorClass::Root, format!("argument root is {root}; it must be 0 to {}{or}", peers - 1))
}

/// Returns the result of `side` if `so`, and an absent side otherwise. Used for arguments that matter at the
/// root only.
fn where_so<'s>(so: bool, side: impl FnOnce() -> Result<Side<'s>>) -> Result<Side<'s>> {
    if so { side() } else { Ok(Side::Absent) }
}

/// Parses a buffer of items of one datatype.
fn array<'s>(address: Address, items: i64, handle: In<'s, Datatype>) -> Result<Array<'s>> {
    items_at((address, handle.name()), address, count_of(items, handle)?, datatype(handle)?)
}

/// Returns `items` items at the address `at`, like [`array`]. `address` is the argument that `at` was
/// computed from, and it must not be null. `name` is the name of the datatype's argument.
#[inline]
fn items_at<'s>(
    (address, name): (Address, &str),
    at: Address,
    items: u64,
    datatype: &'s tutti_data::Datatype,
) -> Result<Array<'s>> {
    if address.is_in_place() {
        return Err(wrong_buffer(name, "MPI_IN_PLACE, which is not allowed at this rank"));
    }
    let size = datatype.size() as u64;
    if items.checked_mul(size).is_none_or(|bytes| bytes > i64::MAX as u64) {
        return Err(Error::new(ErrorClass::Count, format!("{items} items of {size} bytes are too many")));
    }
    if address.is_null() && items > 0 && size > 0 && datatype.true_lb() == 0 {
        return Err(wrong_buffer(name, "a null pointer"));
    }
    if items > 0 && size > 0 {
        let first = at.offset(datatype.true_lb() as isize);
        refuse_device(first, || name_of_buffer(name).unwrap_or_else(|| "a buffer".to_string()))?;
    }
    Ok(Array { base: at.pointer(), count: items, datatype })
}

#[cold]
fn wrong_buffer(datatype: &str, what: &str) -> Error {
    let name = name_of_buffer(datatype);
    let reason = name.map_or_else(|| format!("a buffer is {what}"), |name| format!("{name} is {what}"));
    Error::new(ErrorClass::Buffer, reason)
}

/// Returns the name of the buffer that belongs to a datatype argument, or `None` if the call has two buffers
/// for it, like reductions.
#[cold]
fn name_of_buffer(datatype: &str) -> Option<String> {
    (datatype != "datatype")
        .then(|| format!("argument {}", argument_beside(datatype.trim_end_matches('s'), "buf")))
}

pub(super) fn block<'s>(address: Address, items: i64, handle: In<'s, Datatype>) -> Result<Side<'s>> {
    array(address, items, handle).map(Side::Block)
}

/// Returns a block like [`block`]; MPI_IN_PLACE is accepted if `allowed`.
fn block_or_in_place<'s>(
    address: Address,
    items: i64,
    handle: In<'s, Datatype>,
    allowed: bool,
) -> Result<Side<'s>> {
    if allowed && address.is_in_place() { Ok(Side::InPlace) } else { block(address, items, handle) }
}

/// Parses an array of items for each rank, with counts and displacements in extents.
pub(super) fn entries<'s>(
    address: Address,
    counts: CountArray,
    displs: CountArray,
    handle: In<'s, Datatype>,
    ranks: u32,
) -> Result<Side<'s>> {
    let ranks = i64::from(ranks);
    let datatype = datatype(handle)?;
    let extent = datatype.extent() as isize;
    let mut all = Vec::with_capacity(ranks as usize);
    for (items, displacement) in counts.read(ranks)?.zip(displs.read(ranks)?) {
        let at = address.offset((displacement as isize).wrapping_mul(extent));
        all.push(items_at((address, handle.name()), at, count(items, counts.name())?, datatype)?);
    }
    Ok(Side::Entries(all))
}

/// Parses an array of items of its own datatype for each rank, with displacements in bytes.
pub(super) fn typed_entries<'s>(
    address: Address,
    counts: CountArray,
    displs: impl Iterator<Item = i64>,
    types: Handles<'s, MPI_Datatype>,
    ranks: u32,
) -> Result<Side<'s>> {
    let ranks = i64::from(ranks);
    let mut all = Vec::with_capacity(ranks as usize);
    let places = counts.read(ranks)?.zip(displs);
    for ((items, displacement), handle) in places.zip(types.handles(ranks)?) {
        let at = address.offset(displacement as isize);
        // From MPI_BOTTOM on, displacements are addresses.
        let checked = if address.is_null() { at } else { address };
        let items = count(items, counts.name())?;
        all.push(items_at((checked, handle.name()), at, items, datatype_of(items, handle)?)?);
    }
    Ok(Side::Entries(all))
}

/// Checks that an operator supports a datatype.
pub(super) fn check_operator(op: &tutti_data::Op, datatype: &tutti_data::Datatype) -> Result<()> {
    op.check_reduction(datatype)?;
    if process()?.config.diagnosis.check_types { op.check_strictly(datatype) } else { Ok(()) }
}

/// Parses an operator, and checks that it supports the datatype. Hints say whether results are rounded once:
/// those of the form, then those of the communicator.
fn operator(
    call: &Call,
    comm: &Communicator,
    op: In<Op>,
    handle: In<Datatype>,
    form: &Form,
) -> Result<(Reducer, bool)> {
    let (named, op, datatype) = (handle.raw().bits(), op.get()?, datatype(handle)?);
    check_operator(op, datatype)?;
    let hint = match form {
        Form::Persistent(info, _) => info
            .optional()?
            .and_then(|info| CollectiveHints::from_info(&info.borrow(&call.held)).reproducible),
        _ => None,
    };
    let own = || Ok(comm.collectives.is_reproducible(&call.held, process()?));
    let exact = hint.map_or_else(own, Ok)?.then(|| op.bind_exact(datatype)).flatten();
    let reducer = exact.map_or_else(|| op.bind(datatype), Ok)?;
    Ok((reducer.named(named), op.is_commutative()))
}

pub(super) fn operation<'s>(collective: Collective, send: Side<'s>, recv: Side<'s>) -> Result<Arguments<'s>> {
    if let (Some(from), Some(into)) = (first_byte(&send), first_byte(&recv))
        && from == into
    {
        let reason = "arguments sendbuf and recvbuf are the same memory; say MPI_IN_PLACE if that is meant";
        return Err(Error::new(ErrorClass::Buffer, reason));
    }
    overlap::check(collective, &send, &recv, process()?.config.diagnosis.check_arguments)?;
    // SAFETY: the caller of the MPI function vouches for the memory that the arguments describe.
    Ok(unsafe { Arguments::new(collective, send, recv) })
}

/// Returns the address of the first byte of a side's data, or `None` if it has no data.
fn first_byte(side: &Side<'_>) -> Option<usize> {
    let of = |array: &Array<'_>| {
        let some = array.count > 0 && array.datatype.size() > 0;
        some.then(|| (array.base as usize).wrapping_add_signed(array.datatype.true_lb() as isize))
    };
    match side {
        Side::Block(array) => of(array),
        Side::Entries(all) => all.iter().find_map(of),
        Side::InPlace | Side::Absent => None,
    }
}

/// Runs an operation in the form that the caller selected: blocking, non-blocking or persistent.
#[inline]
pub(super) fn perform(
    call: &mut Call,
    comm: &Arc<Communicator>,
    arguments: Arguments<'_>,
    form: Form,
) -> Result<()> {
    let process = process()?;
    let whole = collective::Call::new(comm, arguments);
    let (id, request) = match form {
        Form::Blocking(_) => {
            return collective::perform(&mut WaitContext::new(&mut call.held, process, comm), &whole);
        }
        Form::Nonblocking(request) => {
            request.check_new()?;
            (collective::start(CommContext::new(&call.held, process, comm), &whole), request)
        }
        Form::Persistent(info, request) => {
            let entries = info.optional()?.map(|info| info.borrow(&call.held).clone());
            let hints = CollectiveHints::from_info(&entries.unwrap_or_default());
            request.check_new()?;
            let mut cx = WaitContext::new(&mut call.held, process, comm);
            (collective::persistent(&mut cx, &whole, &hints)?, request)
        }
    };
    request.set(handle_of(id))
}

/// Returns the key of a call, by which a repeated call is recognised.
#[inline(always)]
fn call_key<const N: usize>(
    collective: Collective,
    root: c_int,
    buffers: [Address; 2],
    counts: [i64; 2],
    datatypes: [In<'_, Datatype>; N],
) -> CallKey {
    let [send, recv] = buffers;
    let datatypes =
        [datatypes.first(), datatypes.last()].map(|handle| handle.map_or(0, |handle| handle.raw().bits()));
    let in_place = [send.is_in_place(), recv.is_in_place()];
    CallKey { collective, in_place, root, counts, datatypes, operator: 0 }
}

/// Runs the operation with this key on other memory, if the communicator has done it before and it is simple.
/// The arguments were found right then; only the addresses are new.
#[inline(always)]
fn replay_call(
    call: &mut Call,
    comm: &Arc<Communicator>,
    key: &CallKey,
    buffers: [Address; 2],
    form: Form,
) -> Option<Result<()>> {
    replay_call_with(call, comm, key, [], buffers, form)
}

/// Repeats a cached operation like [`replay_call`], if the argument lists are equal too.
#[inline(always)]
fn replay_call_with<const N: usize>(
    call: &mut Call,
    comm: &Arc<Communicator>,
    key: &CallKey,
    lists: [CountArray; N],
    buffers: [Address; 2],
    form: Form,
) -> Option<Result<()>> {
    let [send, recv] = buffers;
    let ranks = comm.size();
    let has_lists = |known: &[i64]| N == 0 || is_list_of(known, &lists, ranks);
    if send == recv {
        return None;
    }
    let (process, addresses) = (process().ok()?, [send.pointer(), recv.pointer()]);
    // Invalid arguments are refused in the complete path, which checks them.
    if device::is_checked(usize::MAX)
        && buffers.iter().any(|buffer| refuse_device(*buffer, String::new).is_err())
    {
        return None;
    }
    match form {
        // SAFETY: the caller of the MPI function vouches for the memory that the arguments describe.
        Form::Blocking(_) => unsafe {
            collective::replay(
                &mut WaitContext::new(&mut call.held, process, comm),
                key,
                has_lists,
                addresses,
            )
        },
        Form::Nonblocking(request) => {
            request.check_new().ok()?;
            // SAFETY: as above.
            let id = unsafe {
                collective::start_replay(
                    CommContext::new(&call.held, process, comm),
                    key,
                    has_lists,
                    addresses,
                )?
            };
            Some(request.set(handle_of(id)))
        }
        Form::Persistent(..) => None,
    }
}

/// Returns true if `known` is the concatenation of the lists.
#[inline]
fn is_list_of(known: &[i64], lists: &[CountArray], ranks: u32) -> bool {
    let ranks = ranks as usize;
    let are_equal = |(list, known): (&CountArray, &[i64])| list.starts_with(known);
    known.len() == lists.len() * ranks && lists.iter().zip(known.chunks_exact(ranks)).all(are_equal)
}

/// Adds to `operation` a copy of the concatenated lists and the base addresses of displacements, for
/// comparison in later calls.
fn listed<'s>(
    operation: Arguments<'s>,
    lists: &[CountArray],
    buffers: [Address; 2],
    comm: &Communicator,
) -> Result<Arguments<'s>> {
    if comm.inter().is_some() {
        // Operations between two groups are not cached by their arguments.
        return Ok(operation);
    }
    let ranks = i64::from(comm.size());
    let mut all = Vec::with_capacity(lists.len() * ranks as usize);
    for list in lists {
        all.extend(list.read(ranks)?);
    }
    Ok(operation.with_lists(all, buffers.map(Address::pointer)))
}

/// Synchronises the members of a communicator (MPI_Barrier).
pub fn barrier(call: &mut Call, comm: In<Comm>, form: Form) -> Result<()> {
    let comm = comm.get()?;
    let key = call_key(Collective::Barrier, 0, [Address::NOWHERE; 2], [0; 2], []);
    // Two different addresses that are never accessed.
    let nothing = [Address::NOWHERE, Address::NOWHERE.offset(1)];
    if let Some(result) = replay_call(call, comm, &key, nothing, form) {
        return result;
    }
    perform(call, comm, operation(Collective::Barrier, Side::Absent, Side::Absent)?.with_key(key), form)
}

/// Sends the root's data to all members (MPI_Bcast).
pub fn bcast(
    call: &mut Call,
    buffer: Address,
    count: i64,
    datatype: In<Datatype>,
    root: c_int,
    comm: In<Comm>,
    form: Form,
) -> Result<()> {
    let comm = comm.get()?;
    let buffers = [Address::NOWHERE, buffer];
    let key = call_key(Collective::Bcast, root, buffers, [0, count], [datatype]);
    if let Some(result) = replay_call(call, comm, &key, buffers, form) {
        return result;
    }
    let part = part(root, comm)?;
    let message = || {
        let items = count_of(count, datatype)?;
        let datatype = (datatype.name(), datatype_of(items, datatype)?);
        items_at((buffer, datatype.0), buffer, items, datatype.1).map(Side::Block)
    };
    let all = where_so(part.with_root || part.at_root, message)?;
    let whole = operation(Collective::Bcast, Side::Absent, all)?;
    perform(call, comm, whole.with_root(part.root).with_key(key), form)
}

/// Collects equal blocks of all members at the root (MPI_Gather).
#[allow(clippy::too_many_arguments, reason = "as many as the standard's function has")]
pub fn gather(
    call: &mut Call,
    sendbuf: Address,
    sendcount: i64,
    sendtype: In<Datatype>,
    recvbuf: Address,
    recvcount: i64,
    recvtype: In<Datatype>,
    root: c_int,
    comm: In<Comm>,
    form: Form,
) -> Result<()> {
    let comm = comm.get()?;
    let buffers = [sendbuf, recvbuf];
    let key = call_key(Collective::Gather, root, buffers, [sendcount, recvcount], [sendtype, recvtype]);
    if let Some(result) = replay_call(call, comm, &key, buffers, form) {
        return result;
    }
    let part = part(root, comm)?;
    let give = || block_or_in_place(sendbuf, sendcount, sendtype, part.may_be_in_place);
    let send = where_so(part.with_root, give)?;
    let recv = where_so(part.at_root, || block(recvbuf, recvcount, recvtype))?;
    perform(call, comm, operation(Collective::Gather, send, recv)?.with_root(part.root).with_key(key), form)
}

/// Collects blocks of different lengths at the root (MPI_Gatherv).
#[allow(clippy::too_many_arguments, reason = "as many as the standard's function has")]
pub fn gatherv(
    call: &mut Call,
    sendbuf: Address,
    sendcount: i64,
    sendtype: In<Datatype>,
    recvbuf: Address,
    recvcounts: CountArray,
    displs: CountArray,
    recvtype: In<Datatype>,
    root: c_int,
    comm: In<Comm>,
    form: Form,
) -> Result<()> {
    let comm = comm.get()?;
    let (part, buffers) = (part(root, comm)?, [sendbuf, recvbuf]);
    let key = call_key(Collective::Gatherv, root, buffers, [sendcount, 0], [sendtype, recvtype]);
    let lists = [recvcounts, displs];
    let before = match part.at_root {
        true => replay_call_with(call, comm, &key, lists, buffers, form),
        false => replay_call(call, comm, &key, buffers, form),
    };
    if let Some(result) = before {
        return result;
    }
    let give = || block_or_in_place(sendbuf, sendcount, sendtype, part.may_be_in_place);
    let send = where_so(part.with_root, give)?;
    let peers = comm.peers().size();
    let recv = where_so(part.at_root, || entries(recvbuf, recvcounts, displs, recvtype, peers))?;
    let mut whole = operation(Collective::Gatherv, send, recv)?.with_root(part.root).with_key(key);
    if part.at_root {
        whole = listed(whole, &lists, buffers, comm)?;
    }
    perform(call, comm, whole, form)
}

/// Distributes equal blocks of the root's data (MPI_Scatter).
#[allow(clippy::too_many_arguments, reason = "as many as the standard's function has")]
pub fn scatter(
    call: &mut Call,
    sendbuf: Address,
    sendcount: i64,
    sendtype: In<Datatype>,
    recvbuf: Address,
    recvcount: i64,
    recvtype: In<Datatype>,
    root: c_int,
    comm: In<Comm>,
    form: Form,
) -> Result<()> {
    let comm = comm.get()?;
    let buffers = [sendbuf, recvbuf];
    let key = call_key(Collective::Scatter, root, buffers, [sendcount, recvcount], [sendtype, recvtype]);
    if let Some(result) = replay_call(call, comm, &key, buffers, form) {
        return result;
    }
    let part = part(root, comm)?;
    let send = where_so(part.at_root, || block(sendbuf, sendcount, sendtype))?;
    let take = || block_or_in_place(recvbuf, recvcount, recvtype, part.may_be_in_place);
    let recv = where_so(part.with_root, take)?;
    perform(call, comm, operation(Collective::Scatter, send, recv)?.with_root(part.root).with_key(key), form)
}

/// Distributes blocks of different lengths from the root (MPI_Scatterv).
#[allow(clippy::too_many_arguments, reason = "as many as the standard's function has")]
pub fn scatterv(
    call: &mut Call,
    sendbuf: Address,
    sendcounts: CountArray,
    displs: CountArray,
    sendtype: In<Datatype>,
    recvbuf: Address,
    recvcount: i64,
    recvtype: In<Datatype>,
    root: c_int,
    comm: In<Comm>,
    form: Form,
) -> Result<()> {
    let comm = comm.get()?;
    let (part, buffers) = (part(root, comm)?, [sendbuf, recvbuf]);
    let key = call_key(Collective::Scatterv, root, buffers, [0, recvcount], [sendtype, recvtype]);
    let lists = [sendcounts, displs];
    let before = match part.at_root {
        true => replay_call_with(call, comm, &key, lists, buffers, form),
        false => replay_call(call, comm, &key, buffers, form),
    };
    if let Some(result) = before {
        return result;
    }
    let peers = comm.peers().size();
    let send = where_so(part.at_root, || entries(sendbuf, sendcounts, displs, sendtype, peers))?;
    let take = || block_or_in_place(recvbuf, recvcount, recvtype, part.may_be_in_place);
    let recv = where_so(part.with_root, take)?;
    let mut whole = operation(Collective::Scatterv, send, recv)?.with_root(part.root).with_key(key);
    if part.at_root {
        whole = listed(whole, &lists, buffers, comm)?;
    }
    perform(call, comm, whole, form)
}

/// Collects equal blocks of all members at all members (MPI_Allgather).
#[allow(clippy::too_many_arguments, reason = "as many as the standard's function has")]
pub fn allgather(
    call: &mut Call,
    sendbuf: Address,
    sendcount: i64,
    sendtype: In<Datatype>,
    recvbuf: Address,
    recvcount: i64,
    recvtype: In<Datatype>,
    comm: In<Comm>,
    form: Form,
) -> Result<()> {
    let comm = comm.get()?;
    let buffers = [sendbuf, recvbuf];
    let key = call_key(Collective::Allgather, 0, buffers, [sendcount, recvcount], [sendtype, recvtype]);
    if let Some(result) = replay_call(call, comm, &key, buffers, form) {
        return result;
    }
    let send = block_or_in_place(sendbuf, sendcount, sendtype, comm.inter().is_none())?;
    let recv = block(recvbuf, recvcount, recvtype)?;
    perform(call, comm, operation(Collective::Allgather, send, recv)?.with_key(key), form)
}

/// Collects blocks of different lengths at all members (MPI_Allgatherv).
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
    let comm = comm.get()?;
    let (buffers, lists) = ([sendbuf, recvbuf], [recvcounts, displs]);
    let key = call_key(Collective::Allgatherv, 0, buffers, [sendcount, 0], [sendtype, recvtype]);
    if let Some(result) = replay_call_with(call, comm, &key, lists, buffers, form) {
        return result;
    }
    let send = block_or_in_place(sendbuf, sendcount, sendtype, comm.inter().is_none())?;
    let recv = entries(recvbuf, recvcounts, displs, recvtype, comm.peers().size())?;
    let whole = operation(Collective::Allgatherv, send, recv)?.with_key(key);
    perform(call, comm, listed(whole, &lists, buffers, comm)?, form)
}

/// Exchanges equal blocks between all members (MPI_Alltoall).
#[allow(clippy::too_many_arguments, reason = "as many as the standard's function has")]
pub fn alltoall(
    call: &mut Call,
    sendbuf: Address,
    sendcount: i64,
    sendtype: In<Datatype>,
    recvbuf: Address,
    recvcount: i64,
    recvtype: In<Datatype>,
    comm: In<Comm>,
    form: Form,
) -> Result<()> {
    let comm = comm.get()?;
    let buffers = [sendbuf, recvbuf];
    let key = call_key(Collective::Alltoall, 0, buffers, [sendcount, recvcount], [sendtype, recvtype]);
    if let Some(result) = replay_call(call, comm, &key, buffers, form) {
        return result;
    }
    let send = block_or_in_place(sendbuf, sendcount, sendtype, comm.inter().is_none())?;
    let recv = block(recvbuf, recvcount, recvtype)?;
    perform(call, comm, operation(Collective::Alltoall, send, recv)?.with_key(key), form)
}

/// Runs an exchange in which each member sends and receives by lists. The lists of the received data come
/// last in `all`. They are the only ones if the exchange is in place. `sides` parses both sides from the
/// arguments; its parameter is true if the exchange is in place, where the sent side is empty.
#[inline(always)]
fn exchange<'s, const RECEIVED: usize, const ALL: usize>(
    call: &mut Call,
    comm: &Arc<Communicator>,
    key: CallKey,
    (received, all): ([CountArray; RECEIVED], [CountArray; ALL]),
    buffers: [Address; 2],
    sides: impl FnOnce(bool) -> Result<[Side<'s>; 2]>,
    form: Form,
) -> Result<()> {
    let in_place = buffers[0].is_in_place() && comm.inter().is_none();
    let before = match in_place {
        true => replay_call_with(call, comm, &key, received, buffers, form),
        false => replay_call_with(call, comm, &key, all, buffers, form),
    };
    if let Some(result) = before {
        return result;
    }
    let [send, recv] = sides(in_place)?;
    let whole = operation(key.collective, send, recv)?.with_key(key);
    let lists: &[CountArray] = if in_place { &received } else { &all };
    perform(call, comm, listed(whole, lists, buffers, comm)?, form)
}

/// Exchanges blocks of different lengths between all members (MPI_Alltoallv).
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
    let comm = comm.get()?;
    let buffers = [sendbuf, recvbuf];
    let key = call_key(Collective::Alltoallv, 0, buffers, [0; 2], [sendtype, recvtype]);
    let lists = ([recvcounts, rdispls], [sendcounts, sdispls, recvcounts, rdispls]);
    let ranks = comm.peers().size();
    let sides = |in_place| {
        let send = match in_place {
            true => Side::InPlace,
            false => entries(sendbuf, sendcounts, sdispls, sendtype, ranks)?,
        };
        Ok([send, entries(recvbuf, recvcounts, rdispls, recvtype, ranks)?])
    };
    exchange(call, comm, key, lists, buffers, sides, form)
}

/// Exchanges blocks of different lengths and datatypes between all members (MPI_Alltoallw).
#[allow(clippy::too_many_arguments, reason = "as many as the standard's function has")]
pub fn alltoallw(
    call: &mut Call,
    sendbuf: Address,
    sendcounts: CountArray,
    sdispls: CountArray,
    sendtypes: Handles<MPI_Datatype>,
    recvbuf: Address,
    recvcounts: CountArray,
    rdispls: CountArray,
    recvtypes: Handles<MPI_Datatype>,
    comm: In<Comm>,
    form: Form,
) -> Result<()> {
    let comm = comm.get()?;
    let buffers = [sendbuf, recvbuf];
    // The datatypes are lists here. The key has no single datatype, which distinguishes it from that of
    // MPI_Alltoallv.
    let key = call_key(Collective::Alltoallv, 0, buffers, [0; 2], []);
    let received = [recvcounts, rdispls, recvtypes.numbers()];
    let all = [sendcounts, sdispls, sendtypes.numbers(), recvcounts, rdispls, recvtypes.numbers()];
    let ranks = comm.peers().size();
    let sides = |in_place| {
        let send = match in_place {
            true => Side::InPlace,
            false => typed_entries(sendbuf, sendcounts, sdispls.read(ranks.into())?, sendtypes, ranks)?,
        };
        Ok([send, typed_entries(recvbuf, recvcounts, rdispls.read(ranks.into())?, recvtypes, ranks)?])
    };
    exchange(call, comm, key, (received, all), buffers, sides, form)
}

/// Combines the data of all members at the root (MPI_Reduce).
#[allow(clippy::too_many_arguments, reason = "as many as the standard's function has")]
pub fn reduce(
    call: &mut Call,
    sendbuf: Address,
    recvbuf: Address,
    count: i64,
    datatype: In<Datatype>,
    op: In<Op>,
    root: c_int,
    comm: In<Comm>,
    form: Form,
) -> Result<()> {
    let comm = comm.get()?;
    let buffers = [sendbuf, recvbuf];
    let key = CallKey {
        operator: op.raw().bits(),
        ..call_key(Collective::Reduce, root, buffers, [count; 2], [datatype])
    };
    if let Some(result) = replay_call(call, comm, &key, buffers, form) {
        return result;
    }
    let part = part(root, comm)?;
    let give = || block_or_in_place(sendbuf, count, datatype, part.may_be_in_place);
    let send = where_so(part.with_root, give)?;
    let recv = where_so(part.at_root, || block(recvbuf, count, datatype))?;
    let mut whole = operation(Collective::Reduce, send, recv)?.with_root(part.root);
    if part.with_root || part.at_root {
        let (reducer, commutative) = operator(call, comm, op, datatype, &form)?;
        whole = whole.with_operator(reducer, commutative);
    }
    perform(call, comm, whole.with_key(key), form)
}

/// Runs a reduction whose result on every rank is as long as its input: MPI_Allreduce, MPI_Scan, MPI_Exscan.
#[allow(clippy::too_many_arguments, reason = "as many as the standard's functions have, and which")]
pub fn reduce_everywhere(
    call: &mut Call,
    collective: Collective,
    sendbuf: Address,
    recvbuf: Address,
    count: i64,
    datatype: In<Datatype>,
    op: In<Op>,
    comm: In<Comm>,
    form: Form,
) -> Result<()> {
    let comm = if collective == Collective::Allreduce { comm.get()? } else { intra(comm)? };
    let buffers = [sendbuf, recvbuf];
    let key =
        CallKey { operator: op.raw().bits(), ..call_key(collective, 0, buffers, [count; 2], [datatype]) };
    if let Some(result) = replay_call(call, comm, &key, buffers, form) {
        return result;
    }
    let (reducer, commutative) = operator(call, comm, op, datatype, &form)?;
    let send = block_or_in_place(sendbuf, count, datatype, comm.inter().is_none())?;
    let recv = block(recvbuf, count, datatype)?;
    perform(
        call,
        comm,
        operation(collective, send, recv)?.with_operator(reducer, commutative).with_key(key),
        form,
    )
}

/// Combines the data of all members and distributes the result in equal blocks (MPI_Reduce_scatter_block).
#[allow(clippy::too_many_arguments, reason = "as many as the standard's function has")]
pub fn reduce_scatter_block(
    call: &mut Call,
    sendbuf: Address,
    recvbuf: Address,
    recvcount: i64,
    datatype: In<Datatype>,
    op: In<Op>,
    comm: In<Comm>,
    form: Form,
) -> Result<()> {
    let comm = comm.get()?;
    let buffers = [sendbuf, recvbuf];
    let key = CallKey {
        operator: op.raw().bits(),
        ..call_key(Collective::ReduceScatterBlock, 0, buffers, [recvcount; 2], [datatype])
    };
    if let Some(result) = replay_call(call, comm, &key, buffers, form) {
        return result;
    }
    let (reducer, commutative) = operator(call, comm, op, datatype, &form)?;
    let send = block_or_in_place(sendbuf, recvcount, datatype, comm.inter().is_none())?;
    let recv = block(recvbuf, recvcount, datatype)?;
    let whole = operation(Collective::ReduceScatterBlock, send, recv)?
        .with_operator(reducer, commutative)
        .with_key(key);
    perform(call, comm, whole, form)
}

/// Combines the data of all members and distributes the result in blocks (MPI_Reduce_scatter).
#[allow(clippy::too_many_arguments, reason = "as many as the standard's function has")]
pub fn reduce_scatter(
    call: &mut Call,
    sendbuf: Address,
    recvbuf: Address,
    recvcounts: CountArray,
    datatype: In<Datatype>,
    op: In<Op>,
    comm: In<Comm>,
    form: Form,
) -> Result<()> {
    let comm = comm.get()?;
    let buffers = [sendbuf, recvbuf];
    let key = CallKey {
        operator: op.raw().bits(),
        ..call_key(Collective::ReduceScatter, 0, buffers, [0; 2], [datatype])
    };
    if let Some(result) = replay_call_with(call, comm, &key, [recvcounts], buffers, form) {
        return result;
    }
    let (reducer, commutative) = operator(call, comm, op, datatype, &form)?;
    let counts = recvcounts.read(i64::from(comm.size()))?;
    let blocks = counts.map(|items| count(items, recvcounts.name())).collect::<Result<Vec<u64>>>()?;
    let total = blocks.iter().try_fold(0u64, |sum, items| sum.checked_add(*items));
    let total = total.and_then(|total| i64::try_from(total).ok()).ok_or_else(|| {
        Error::new(ErrorClass::Count, "the counts of argument recvcounts add up to too many")
    })?;
    let send = block_or_in_place(sendbuf, total, datatype, comm.inter().is_none())?;
    let own = blocks[comm.rank().0 as usize] as i64;
    let recv = block(recvbuf, own, datatype)?;
    let whole = operation(Collective::ReduceScatter, send, recv)?
        .with_operator(reducer, commutative)
        .with_blocks(blocks);
    perform(call, comm, listed(whole.with_key(key), &[recvcounts], buffers, comm)?, form)
}
