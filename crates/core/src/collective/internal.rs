//! Collective operations for the library's own use: to agree on values and to exchange data about members.
//!
//! # Safety
//! The memory of these operations is the library's own. Blocking calls use vectors that outlive the call;
//! operations in the background keep their buffers alive.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::sync::Arc;

use tutti_base::{Error, ErrorClass, Rank, Result};
use tutti_coll::Collective;
use tutti_data::{Datatype, Op, Reducer};

use super::{Means, Operation, Side, run, run_by, start_keeping};
use crate::buffer::Buffer;
use crate::communicator::Communicator;
use crate::communicator::collectives::collected::{Collected, Gathering, Maxima, Maximum, OfBytes};
use crate::communicator::collectives::numbers::BLOCKS;
use crate::completion;
use crate::engine::Array;
use crate::exchange::exchange;
use crate::lanes::LaneGuard;
use crate::process::Process;
use crate::wire::Signature;

/// Codes of the datatypes and operators used here, in the standard ABI.
const INT64: u32 = 0x258;
const UINT64: u32 = 0x259;
const BYTE: u32 = 0x247;
const MAX: u32 = 0x23;
const SUM: u32 = 0x21;
const BIT_OR: u32 = 0x29;

impl<T: OfBytes> Collected<T> {
    /// Returns the result; the request must be complete.
    ///
    /// # Errors
    /// Returns the error of a message that failed.
    pub fn finish(&self, held: &LaneGuard, process: &Process) -> Result<T> {
        completion::finish(held, process, self.request).result?;
        Ok(T::of_bytes(self.all.to_vec()))
    }

    /// Starts an operation on `mine` with tag `tag`; its result is `blocks` times as long.
    fn start(
        held: &LaneGuard,
        process: &Process,
        comm: &Arc<Communicator>,
        tag: i32,
        mine: Vec<u8>,
        (collective, element, blocks): (Collective, u32, usize),
    ) -> Collected<T> {
        let bytes = mine.len();
        let (mine, all) = (Buffer::owned(mine), Buffer::owned(vec![0; bytes * blocks]));
        let datatype = datatype(element);
        let count = bytes as u64 / datatype.size().max(1) as u64;
        let array = |buffer: &Buffer| Side::Block(Array { base: buffer.start(), count, datatype });
        // SAFETY: both buffers are kept by the running operation until it is over.
        let operation = unsafe { Operation::new(collective, array(&mine), array(&all)) }.internal();
        let operation = match collective {
            Collective::Allreduce => operation.reducing(maximum_on(datatype), true),
            _ => operation,
        };
        let request = start_keeping(held, process, comm, &operation, tag, [mine, all.clone()]);
        Collected { request, all, of: PhantomData }
    }
}

/// Returns a predefined datatype by its code in the standard ABI.
fn datatype(code: u32) -> &'static Datatype {
    Datatype::predefined(code).expect("a number of a predefined datatype")
}

/// Returns the maximum operator for a datatype of integers.
fn maximum_on(datatype: &Datatype) -> Reducer {
    let operator = Op::predefined(MAX).expect("the number of a predefined operation");
    operator.bind(datatype).expect("the maximum of integers is defined")
}

/// Returns the maximum of `value` over the members of an intracommunicator.
///
/// # Errors
/// Returns the error of a message that failed.
pub fn maximum(held: &mut LaneGuard, process: &Process, comm: &Communicator, value: u64) -> Result<u64> {
    maximum_by(held, process, comm, value, Means::All)
}

/// Adds up the words of all members of an intracommunicator, one by one.
///
/// # Errors
/// Returns the error of a message that failed.
pub fn add_words(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Communicator,
    words: &mut [i64],
) -> Result<()> {
    let datatype = datatype(INT64);
    let array = Array { base: words.as_mut_ptr().cast(), count: words.len() as u64, datatype };
    let sum = Op::predefined(SUM).expect("the number of a predefined operation");
    let sum = sum.bind(datatype).expect("the sum of integers is defined");
    // SAFETY: the words outlive the call.
    let operation = unsafe { Operation::new(Collective::Allreduce, Side::InPlace, Side::Block(array)) };
    run(held, process, comm, &operation.reducing(sum, true))
}

/// Returns the maximum as [`maximum`] does, without the banks of the communicator (see
/// [`barrier_by_messages`]).
///
/// # Errors
/// Returns the error of a message that failed.
pub fn maximum_by_messages(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Communicator,
    value: u64,
) -> Result<u64> {
    maximum_by(held, process, comm, value, Means::Messages)
}

/// Returns the maximum over the members by the given means.
fn maximum_by(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Communicator,
    value: u64,
    means: Means,
) -> Result<u64> {
    let mut value = value;
    let array = Array { base: (&raw mut value).cast(), count: 1, datatype: datatype(UINT64) };
    // SAFETY: the word outlives the call.
    let operation =
        unsafe { Operation::new(Collective::Allreduce, Side::InPlace, Side::Block(array)) }.internal();
    let operation = operation.reducing(maximum_on(datatype(UINT64)), true);
    match means {
        Means::All => run(held, process, comm, &operation)?,
        Means::Messages => run_by(held, process, comm, &operation, means, "")?,
    }
    drop(operation);
    Ok(value)
}

/// Returns the bits set in these words at any member, of both groups of an intercommunicator.
///
/// # Errors
/// Returns the error of a message that failed.
pub fn either<const WORDS: usize>(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Communicator,
    words: [u64; WORDS],
) -> Result<[u64; WORDS]> {
    let mut words = words;
    let among = comm.inter().map_or(comm, |inter| &inter.local);
    let array = Array { base: words.as_mut_ptr().cast(), count: WORDS as u64, datatype: datatype(UINT64) };
    let operator = Op::predefined(BIT_OR).expect("the number of a predefined operation");
    let operator = operator.bind(array.datatype).expect("bits of integers are combined");
    // SAFETY: the words outlive the call.
    let operation =
        unsafe { Operation::new(Collective::Allreduce, Side::InPlace, Side::Block(array)) }.internal();
    run(held, process, among, &operation.reducing(operator, true))?;
    if comm.inter().is_some() {
        let mine = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let theirs = swap_bytes(held, process, comm, mine)?;
        for (word, theirs) in words.iter_mut().zip(theirs.as_chunks::<8>().0) {
            *word |= u64::from_ne_bytes(*theirs);
        }
    }
    Ok(words)
}

/// Takes the number of a new persistent operation, 1 or more. If all numbers have been used, the members
/// first agree on numbers that are free on each of them.
///
/// # Errors
/// Returns `NoMem` if all numbers are in use, or the error of a message of the agreement.
pub(super) fn take_number(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Communicator,
    signature: Signature,
) -> Result<u32> {
    for _ in 0..=BLOCKS {
        let mut state = comm.collectives.state.borrow_mut(held);
        let numbers = &mut state.begun.persistent;
        if let Some(number) = numbers.take(signature) {
            return Ok(number);
        }
        let in_use = numbers.in_use();
        drop(state);
        let in_use = either(held, process, comm, in_use)?;
        comm.collectives.state.borrow_mut(held).begun.persistent.agree(in_use);
    }
    let reason =
        "as many persistent operations of the communicator exist as there are numbers for them, 2^22";
    Err(Error::new(ErrorClass::NoMem, reason))
}

/// Starts a maximum with the tag of an operation. All rounds of one agreement use the same tag, since other
/// operations may be called between them. On an intercommunicator the result is the other group's maximum.
///
/// # Errors
/// Returns no error now; one is reserved for a communicator that cannot communicate.
pub fn start_maximum(
    held: &LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    tag: i32,
    value: u64,
) -> Result<Maximum> {
    let mine = value.to_ne_bytes().to_vec();
    Ok(Collected::start(held, process, comm, tag, mine, (Collective::Allreduce, UINT64, 1)))
}

/// Starts the maxima of several words, equally many at each member, with the tag of an operation.
pub fn start_maxima(
    held: &LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    tag: i32,
    words: &[u64],
) -> Maxima {
    let mine = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    Collected::start(held, process, comm, tag, mine, (Collective::Allreduce, UINT64, 1))
}

/// Starts to gather bytes, equally many from each member, with the tag of an operation.
pub fn start_allgather(
    held: &LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    tag: i32,
    mine: Vec<u8>,
) -> Gathering {
    let members = comm.size() as usize;
    Collected::start(held, process, comm, tag, mine, (Collective::Allgather, BYTE, members))
}

/// Waits until all members have called this.
///
/// # Errors
/// Returns the error of a message that failed.
pub fn barrier(held: &mut LaneGuard, process: &Process, comm: &Communicator) -> Result<()> {
    run(held, process, comm, &nothing())
}

/// Waits as [`barrier`] does, without the banks of the communicator. Making banks takes some hundred times
/// as long as a barrier, which does not pay off if few operations follow.
///
/// # Errors
/// Returns the error of a message that failed.
pub fn barrier_by_messages(held: &mut LaneGuard, process: &Process, comm: &Communicator) -> Result<()> {
    run_by(held, process, comm, &nothing(), Means::Messages, "")
}

/// Describes a barrier, which has no data.
fn nothing() -> Operation<'static> {
    // SAFETY: no memory.
    unsafe { Operation::new(Collective::Barrier, Side::Absent, Side::Absent) }.internal()
}

/// Returns the bytes of all members one after the other; all members pass equally many.
///
/// # Errors
/// Returns the error of a message that failed.
pub fn allgather_bytes(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Communicator,
    mine: &[u8],
) -> Result<Vec<u8>> {
    let mut all = vec![0u8; mine.len() * comm.size() as usize];
    let array = |base: *mut u8| Array { base, count: mine.len() as u64, datatype: datatype(BYTE) };
    let (send, recv) = (Side::Block(array(mine.as_ptr().cast_mut())), Side::Block(array(all.as_mut_ptr())));
    // SAFETY: both vectors outlive the call; the send side is only read.
    let operation = unsafe { Operation::new(Collective::Allgather, send, recv) }.internal();
    run(held, process, comm, &operation)?;
    drop(operation);
    Ok(all)
}

/// Returns the bytes that each member has for this one, by rank. `parts` holds the bytes of this member for
/// each.
///
/// # Errors
/// Returns the error of a message that failed.
pub fn alltoall_bytes(
    held: &mut LaneGuard,
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
        unsafe { Operation::new(Collective::Alltoall, send, Side::Block(array(theirs.as_mut_ptr(), 8))) }
            .internal();
    run(held, process, comm, &operation)?;
    drop(operation);
    let length = |eight: &[u8]| eight.iter().rev().fold(0, |value, byte| value << 8 | usize::from(*byte));
    let mut received: Vec<Vec<u8>> = theirs.chunks_exact(8).map(|eight| vec![0; length(eight)]).collect();
    let send = parts.iter().map(|part| array(part.as_ptr().cast_mut(), part.len() as u64)).collect();
    let recv = received.iter_mut().map(|part| array(part.as_mut_ptr(), part.len() as u64)).collect();
    // SAFETY: all vectors outlive the call; those to send are only read.
    let operation =
        unsafe { Operation::new(Collective::Alltoallv, Side::Entries(send), Side::Entries(recv)) }.internal();
    run(held, process, comm, &operation)?;
    drop(operation);
    Ok(received)
}

/// Copies the data of `root` to all members, which need not know the length.
///
/// # Errors
/// Returns the error of a message that failed.
pub fn broadcast_bytes(
    held: &mut LaneGuard,
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

/// Copies data of a known length from `root` to all members.
fn broadcast(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Communicator,
    root: Rank,
    data: &mut [u8],
) -> Result<()> {
    let array = Array { base: data.as_mut_ptr(), count: data.len() as u64, datatype: datatype(BYTE) };
    // SAFETY: the slice outlives the call.
    let operation = unsafe { Operation::new(Collective::Bcast, Side::Absent, Side::Block(array)) }.internal();
    run(held, process, comm, &operation.rooted(root.0))
}

/// Returns the bytes of the other group of an intercommunicator, at every member. All members of a group
/// pass the same.
///
/// # Errors
/// Returns the error of a message that failed.
pub fn swap_bytes(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Communicator,
    mine: Vec<u8>,
) -> Result<Vec<u8>> {
    let inter = comm.inter().expect("only intercommunicators have another group");
    let mut theirs = Vec::new();
    if comm.rank() == Rank(0) {
        theirs = exchange(held, process, comm, Rank(0), 0, mine)?;
    }
    broadcast_bytes(held, process, &inter.local, Rank(0), &mut theirs)?;
    Ok(theirs)
}
