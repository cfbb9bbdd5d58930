//! Collective operations that the library itself needs: to agree on things, and to know its members.
//!
//! # Safety
//! The memory of these operations is the library's own: vectors that outlive a blocking call, and [`Words`] that an
//! operation in the background keeps alive.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::sync::Arc;

use tutti_base::{Rank, Result};
use tutti_coll::Collective;
use tutti_data::{Datatype, Op, Reducer};

use super::{Operation, Side, refusals, run, run_saying, start_keeping};
use crate::buffer::Buffer;
use crate::communicator::Communicator;
use crate::completion;
use crate::dynamic::{decode, encode};
use crate::engine::Array;
use crate::exchange::exchange;
use crate::giant::Held;
use crate::group::Group;
use crate::process::Process;
use crate::request::RequestId;

/// Numbers of the standard ABI for the types and the operator used here.
const UINT32: u32 = 0x251;
const BYTE: u32 = 0x247;
const MAX: u32 = 0x23;

/// A maximum being taken in the background.
#[derive(Debug)]
pub struct Maximum {
    /// Complete when it is known.
    pub request: RequestId,
    words: Arc<Words>,
}

/// Memory of an operation in the background: what goes in, and what comes out.
#[derive(Debug)]
pub struct Words(UnsafeCell<[u32; 2]>);

// SAFETY: only touched under the giant lock: by the engine, and after the operation is over by its owner.
unsafe impl Send for Words {}
// SAFETY: as above.
unsafe impl Sync for Words {}

impl Maximum {
    /// The maximum, once the request is complete.
    ///
    /// # Errors
    /// What went wrong with a message.
    pub fn finish(&self, held: &Held, process: &Process) -> Result<u32> {
        completion::finish(held, process, self.request).result?;
        // SAFETY: the operation is over, so nobody else touches the words.
        let [_, highest] = unsafe { *self.words.0.get() };
        Ok(highest)
    }
}

fn datatype(code: u32) -> &'static Datatype {
    Datatype::predefined(code).expect("a number of a predefined datatype")
}

/// Of one word from each member; without `from` that is the one at `into`.
fn maximum_of(from: Option<*mut u32>, into: *mut u32) -> Operation<'static> {
    let side =
        |base: *mut u32| Side::Block(Array { base: base.cast(), count: 1, datatype: datatype(UINT32) });
    // SAFETY: callers give words that outlive the operation.
    let operation =
        unsafe { Operation::new(Collective::Allreduce, from.map_or(Side::InPlace, side), side(into)) };
    operation.reducing(reducer(), true)
}

fn reducer() -> Reducer {
    let operator = Op::predefined(MAX).expect("the number of a predefined operation");
    operator.bind(datatype(UINT32)).expect("the maximum of integers is defined")
}

/// The maximum of `value` over an intracommunicator.
///
/// # Errors
/// What went wrong with a message.
pub fn maximum(held: &mut Held, process: &Process, comm: &Communicator, value: u32) -> Result<u32> {
    let mut value = value;
    let operation = maximum_of(None, &raw mut value);
    run(held, process, comm, &operation)?;
    drop(operation);
    Ok(value)
}

/// Starts to take a maximum, under a number of an operation: rounds of one agreement follow one another under the
/// same, since others may call for operations between them. On an intercommunicator it is the other group's.
///
/// # Errors
/// None now; reserved for a communicator that cannot communicate.
pub fn start_maximum(
    held: &Held,
    process: &Process,
    comm: &Arc<Communicator>,
    tag: i32,
    value: u32,
) -> Result<Maximum> {
    let words = Arc::new(Words(UnsafeCell::new([value, 0])));
    let from = words.0.get().cast::<u32>();
    let operation = maximum_of(Some(from), from.wrapping_add(1));
    let request = start_keeping(held, process, comm, &operation, tag, Arc::clone(&words));
    Ok(Maximum { request, words })
}

/// What all members give, being gathered in the background.
#[derive(Debug)]
pub struct Gathering {
    /// Complete when all is there.
    pub request: RequestId,
    mine: Buffer,
    all: Buffer,
}

impl Gathering {
    /// What each member gave, one after the other, once the request is complete.
    ///
    /// # Errors
    /// What went wrong with a message.
    pub fn finish(&self, held: &Held, process: &Process) -> Result<Vec<u8>> {
        completion::finish(held, process, self.request).result?;
        debug_assert!(self.mine.bytes() <= self.all.bytes(), "the own part is among them");
        Ok(self.all.to_vec())
    }
}

/// Starts to gather equally many bytes of each member, under a number of an operation.
pub fn start_allgather(
    held: &Held,
    process: &Process,
    comm: &Arc<Communicator>,
    tag: i32,
    mine: Vec<u8>,
) -> Gathering {
    let bytes = mine.len();
    let (mine, all) = (Buffer::owned(mine), Buffer::owned(vec![0; bytes * comm.size() as usize]));
    let array =
        |buffer: &Buffer| Array { base: buffer.start(), count: bytes as u64, datatype: datatype(BYTE) };
    // SAFETY: both buffers are kept until the operation is over: by the value that is returned, and by the request's owner, who finishes it.
    let operation =
        unsafe { Operation::new(Collective::Allgather, Side::Block(array(&mine)), Side::Block(array(&all))) };
    let memory = Arc::new(Words(UnsafeCell::new([0; 2])));
    let request = start_keeping(held, process, comm, &operation, tag, memory);
    Gathering { request, mine, all }
}

/// Waits until all members have come here.
///
/// # Errors
/// What went wrong with a message.
pub fn barrier(held: &mut Held, process: &Process, comm: &Communicator) -> Result<()> {
    // SAFETY: no memory.
    let operation = unsafe { Operation::new(Collective::Barrier, Side::Absent, Side::Absent) };
    run(held, process, comm, &operation)
}

/// The barrier of MPI_Finalize: nobody leaves while another process may still talk to it.
///
/// # Errors
/// What went wrong with a message; that members have disagreed about an operation, where only what is left over says so.
pub fn last_barrier(held: &mut Held, process: &Process) -> Result<()> {
    // SAFETY: no memory.
    let operation = unsafe { Operation::new(Collective::Barrier, Side::Absent, Side::Absent) };
    run_saying(held, process, &process.world, &operation, "MPI_Finalize: ")?;
    refusals::overdue_anywhere(held, process)
}

/// What every member gave, one after the other; all give equally many bytes.
///
/// # Errors
/// What went wrong with a message.
pub fn allgather_bytes(
    held: &mut Held,
    process: &Process,
    comm: &Communicator,
    mine: &[u8],
) -> Result<Vec<u8>> {
    let mut all = vec![0u8; mine.len() * comm.size() as usize];
    let array = |base: *mut u8| Array { base, count: mine.len() as u64, datatype: datatype(BYTE) };
    let (send, recv) = (Side::Block(array(mine.as_ptr().cast_mut())), Side::Block(array(all.as_mut_ptr())));
    // SAFETY: both vectors outlive the call; the send side is only read.
    let operation = unsafe { Operation::new(Collective::Allgather, send, recv) };
    run(held, process, comm, &operation)?;
    drop(operation);
    Ok(all)
}

/// What every member has for this one, by rank; `parts` is what this one has for each.
///
/// # Errors
/// What went wrong with a message.
pub fn alltoall_bytes(
    held: &mut Held,
    process: &Process,
    comm: &Communicator,
    parts: &[Vec<u8>],
) -> Result<Vec<Vec<u8>>> {
    let lengths: Vec<u8> = parts.iter().flat_map(|part| (part.len() as u64).to_le_bytes()).collect();
    let mut theirs = vec![0u8; lengths.len()];
    let array = |base: *mut u8, count| Array { base, count, datatype: datatype(BYTE) };
    let send = Side::Block(array(lengths.as_ptr().cast_mut(), 8));
    // SAFETY: both vectors outlive the call and have eight bytes a member; the send side is only read.
    let operation =
        unsafe { Operation::new(Collective::Alltoall, send, Side::Block(array(theirs.as_mut_ptr(), 8))) };
    run(held, process, comm, &operation)?;
    drop(operation);
    let length = |eight: &[u8]| eight.iter().rev().fold(0, |value, byte| value << 8 | usize::from(*byte));
    let mut received: Vec<Vec<u8>> = theirs.chunks_exact(8).map(|eight| vec![0; length(eight)]).collect();
    let send = parts.iter().map(|part| array(part.as_ptr().cast_mut(), part.len() as u64)).collect();
    let recv = received.iter_mut().map(|part| array(part.as_mut_ptr(), part.len() as u64)).collect();
    // SAFETY: all vectors outlive the call; those to send are only read.
    let operation =
        unsafe { Operation::new(Collective::Alltoallv, Side::Entries(send), Side::Entries(recv)) };
    run(held, process, comm, &operation)?;
    drop(operation);
    Ok(received)
}

/// Gives what `root` has to all members; they need not know how long it is.
///
/// # Errors
/// What went wrong with a message.
pub fn broadcast_bytes(
    held: &mut Held,
    process: &Process,
    comm: &Communicator,
    root: Rank,
    data: &mut Vec<u8>,
) -> Result<()> {
    let mut length = (data.len() as u64).to_le_bytes();
    broadcast(held, process, comm, root, &mut length)?;
    data.resize(u64::from_le_bytes(length) as usize, 0);
    broadcast(held, process, comm, root, data)
}

fn broadcast(
    held: &mut Held,
    process: &Process,
    comm: &Communicator,
    root: Rank,
    data: &mut [u8],
) -> Result<()> {
    let array = Array { base: data.as_mut_ptr(), count: data.len() as u64, datatype: datatype(BYTE) };
    // SAFETY: the slice outlives the call.
    let operation = unsafe { Operation::new(Collective::Bcast, Side::Absent, Side::Block(array)) };
    run(held, process, comm, &operation.rooted(root.0))
}

/// What the other group of an intercommunicator gave, at every member; all of a group give the same.
///
/// # Errors
/// What went wrong with a message.
pub fn swap_bytes(held: &mut Held, process: &Process, comm: &Communicator, mine: Vec<u8>) -> Result<Vec<u8>> {
    let inter = comm.inter().expect("only intercommunicators have another group");
    let mut theirs = Vec::new();
    if comm.rank() == Rank(0) {
        theirs = exchange(held, process, comm, Rank(0), 0, mine)?;
    }
    broadcast_bytes(held, process, &inter.local, Rank(0), &mut theirs)?;
    Ok(theirs)
}

/// The group that the other side of an intercommunicator names, for the one that this side names.
///
/// # Errors
/// What went wrong with a message.
pub fn other_group(held: &mut Held, process: &Process, comm: &Communicator, mine: &Group) -> Result<Group> {
    let words = encode(held, process, mine);
    let theirs = swap_bytes(held, process, comm, words)?;
    decode(held, process, &theirs)
}
