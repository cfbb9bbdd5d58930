//! Collective operations for the library's own use: to agree on values and to exchange data about members.
//!
//! # Safety
//! The memory of these operations is the library's own. Blocking calls use vectors that outlive the call;
//! operations in the background keep their buffers alive.
#![allow(unsafe_code)]

use std::marker::PhantomData;

use tutti_base::{Error, ErrorClass, Rank, Result};
use tutti_coll::Collective;
use tutti_data::{Datatype, Op, Reducer};

use super::completion::nonblocking::start_keeping;
use super::completion::run_planned;
use super::context::{CommContext, WaitContext};
use super::perform_untuned;
use crate::buffer::Buffer;
use crate::communicator::collectives::AllowedPaths;
use crate::communicator::collectives::call::{Arguments, Call, Side};
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
        cx: CommContext<'_>,
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
        let operation = unsafe { Arguments::new(collective, array(&mine), array(&all)) }.internal();
        let operation = match collective {
            Collective::Allreduce => operation.with_operator(maximum_on(datatype), true),
            _ => operation,
        };
        let request = start_keeping(cx, &Call::new(cx.comm, operation), tag, [mine, all.clone()]);
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

impl WaitContext<'_> {
    /// Returns the maximum of `value` over the members of an intracommunicator.
    ///
    /// # Errors
    /// Returns the error of a message that failed.
    pub fn maximum(&mut self, value: u64) -> Result<u64> {
        self.maximum_by(value, AllowedPaths::All)
    }

    /// Adds up the words of all members of an intracommunicator, one by one.
    ///
    /// # Errors
    /// Returns the error of a message that failed.
    pub fn add_words(&mut self, words: &mut [i64]) -> Result<()> {
        let datatype = datatype(INT64);
        let array = Array { base: words.as_mut_ptr().cast(), count: words.len() as u64, datatype };
        let sum = Op::predefined(SUM).expect("the number of a predefined operation");
        let sum = sum.bind(datatype).expect("the sum of integers is defined");
        // SAFETY: the words outlive the call.
        let operation = unsafe { Arguments::new(Collective::Allreduce, Side::InPlace, Side::Block(array)) };
        perform_untuned(self, &Call::new(self.comm, operation.with_operator(sum, true)))
    }

    /// Returns the maximum as [`maximum`] does, without the banks of the communicator (see
    /// [`barrier_by_messages`]).
    ///
    /// # Errors
    /// Returns the error of a message that failed.
    pub fn maximum_by_messages(&mut self, value: u64) -> Result<u64> {
        self.maximum_by(value, AllowedPaths::Messages)
    }

    /// Returns the maximum over the members by the given means.
    fn maximum_by(&mut self, value: u64, paths: AllowedPaths) -> Result<u64> {
        let mut value = value;
        let array = Array { base: (&raw mut value).cast(), count: 1, datatype: datatype(UINT64) };
        // SAFETY: the word outlives the call.
        let operation =
            unsafe { Arguments::new(Collective::Allreduce, Side::InPlace, Side::Block(array)) }.internal();
        let operation = operation.with_operator(maximum_on(datatype(UINT64)), true);
        let call = Call::new(self.comm, operation);
        match paths {
            AllowedPaths::All => perform_untuned(self, &call)?,
            AllowedPaths::Messages => run_planned(self, &call, paths)?,
        }
        Ok(value)
    }

    /// Returns the bits set in these words at any member, of both groups of an intercommunicator.
    ///
    /// # Errors
    /// Returns the error of a message that failed.
    pub fn either<const WORDS: usize>(&mut self, words: [u64; WORDS]) -> Result<[u64; WORDS]> {
        let mut words = words;
        let among = self.comm.inter().map_or(self.comm, |inter| &inter.local);
        let array =
            Array { base: words.as_mut_ptr().cast(), count: WORDS as u64, datatype: datatype(UINT64) };
        let operator = Op::predefined(BIT_OR).expect("the number of a predefined operation");
        let operator = operator.bind(array.datatype).expect("bits of integers are combined");
        // SAFETY: the words outlive the call.
        let operation =
            unsafe { Arguments::new(Collective::Allreduce, Side::InPlace, Side::Block(array)) }.internal();
        let call = Call::new(among, operation.with_operator(operator, true));
        perform_untuned(&mut self.within(among), &call)?;
        if self.comm.inter().is_some() {
            let mine = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            let theirs = self.swap_bytes(mine)?;
            for (word, theirs) in words.iter_mut().zip(theirs.as_chunks::<8>().0) {
                *word |= u64::from_ne_bytes(*theirs);
            }
        }
        Ok(words)
    }

    /// Waits until all members have called this.
    ///
    /// # Errors
    /// Returns the error of a message that failed.
    pub fn barrier(&mut self) -> Result<()> {
        let call = Call::new(self.comm, nothing());
        perform_untuned(self, &call)
    }

    /// Waits as [`barrier`] does, without the banks of the communicator. Making banks takes some hundred
    /// times as long as a barrier, which does not pay off if few operations follow.
    ///
    /// # Errors
    /// Returns the error of a message that failed.
    pub fn barrier_by_messages(&mut self) -> Result<()> {
        let call = Call::new(self.comm, nothing());
        run_planned(self, &call, AllowedPaths::Messages)
    }

    /// Returns the bytes of all members one after the other; all members pass equally many.
    ///
    /// # Errors
    /// Returns the error of a message that failed.
    pub fn allgather_bytes(&mut self, mine: &[u8]) -> Result<Vec<u8>> {
        let mut all = vec![0u8; mine.len() * self.comm.size() as usize];
        let array = |base: *mut u8| Array { base, count: mine.len() as u64, datatype: datatype(BYTE) };
        let (send, recv) =
            (Side::Block(array(mine.as_ptr().cast_mut())), Side::Block(array(all.as_mut_ptr())));
        // SAFETY: both vectors outlive the call; the send side is only read.
        let operation = unsafe { Arguments::new(Collective::Allgather, send, recv) }.internal();
        let call = Call::new(self.comm, operation);
        perform_untuned(self, &call)?;
        Ok(all)
    }

    /// Returns the bytes that each member has for this one, by rank. `parts` holds the bytes of this member
    /// for each.
    ///
    /// # Errors
    /// Returns the error of a message that failed.
    pub fn alltoall_bytes(&mut self, parts: &[Vec<u8>]) -> Result<Vec<Vec<u8>>> {
        let lengths: Vec<u8> = parts.iter().flat_map(|part| (part.len() as u64).to_le_bytes()).collect();
        let mut theirs = vec![0u8; lengths.len()];
        let array = |base: *mut u8, count| Array { base, count, datatype: datatype(BYTE) };
        let send = Side::Block(array(lengths.as_ptr().cast_mut(), 8));
        // SAFETY: both vectors outlive the call and have eight bytes a member; the send side is only read.
        let operation =
            unsafe { Arguments::new(Collective::Alltoall, send, Side::Block(array(theirs.as_mut_ptr(), 8))) }
                .internal();
        let call = Call::new(self.comm, operation);
        perform_untuned(self, &call)?;
        let length = |eight: &[u8]| eight.iter().rev().fold(0, |value, byte| value << 8 | usize::from(*byte));
        let mut received: Vec<Vec<u8>> = theirs.chunks_exact(8).map(|eight| vec![0; length(eight)]).collect();
        let send = parts.iter().map(|part| array(part.as_ptr().cast_mut(), part.len() as u64)).collect();
        let recv = received.iter_mut().map(|part| array(part.as_mut_ptr(), part.len() as u64)).collect();
        // SAFETY: all vectors outlive the call; those to send are only read.
        let operation =
            unsafe { Arguments::new(Collective::Alltoallv, Side::Entries(send), Side::Entries(recv)) }
                .internal();
        let call = Call::new(self.comm, operation);
        perform_untuned(self, &call)?;
        Ok(received)
    }

    /// Copies the data of `root` to all members, which need not know the length.
    ///
    /// # Errors
    /// Returns the error of a message that failed.
    pub fn broadcast_bytes(&mut self, root: Rank, data: &mut Vec<u8>) -> Result<()> {
        let mut length = (data.len() as u64).to_le_bytes();
        self.broadcast(root, &mut length)?;
        data.resize(u64::from_le_bytes(length) as usize, 0);
        self.broadcast(root, data)
    }

    /// Copies data of a known length from `root` to all members.
    fn broadcast(&mut self, root: Rank, data: &mut [u8]) -> Result<()> {
        let array = Array { base: data.as_mut_ptr(), count: data.len() as u64, datatype: datatype(BYTE) };
        // SAFETY: the slice outlives the call.
        let operation =
            unsafe { Arguments::new(Collective::Bcast, Side::Absent, Side::Block(array)) }.internal();
        let call = Call::new(self.comm, operation.with_root(root.0));
        perform_untuned(self, &call)
    }

    /// Returns the bytes of the other group of an intercommunicator, at every member. All members of a group
    /// pass the same.
    ///
    /// # Errors
    /// Returns the error of a message that failed.
    pub fn swap_bytes(&mut self, mine: Vec<u8>) -> Result<Vec<u8>> {
        let inter = self.comm.inter().expect("only intercommunicators have another group");
        let mut theirs = Vec::new();
        if self.comm.rank() == Rank(0) {
            theirs = exchange(self.lane, self.process, self.comm, Rank(0), 0, mine)?;
        }
        self.within(&inter.local).broadcast_bytes(Rank(0), &mut theirs)?;
        Ok(theirs)
    }

    /// Takes the number of a new persistent operation, 1 or more. If all numbers have been used, the members
    /// first agree on numbers that are free on each of them.
    ///
    /// # Errors
    /// Returns `NoMem` if all numbers are in use, or the error of a message of the agreement.
    pub(super) fn take_number(&mut self, signature: Signature) -> Result<u32> {
        for _ in 0..=BLOCKS {
            let mut state = self.comm.collectives.state.borrow_mut(self.lane);
            let numbers = &mut state.history.persistent;
            if let Some(number) = numbers.take(signature) {
                return Ok(number);
            }
            let in_use = numbers.in_use();
            drop(state);
            let in_use = self.either(in_use)?;
            self.comm.collectives.state.borrow_mut(self.lane).history.persistent.agree(in_use);
        }
        let reason =
            "as many persistent operations of the communicator exist as there are numbers for them, 2^22";
        Err(Error::new(ErrorClass::NoMem, reason))
    }
}

impl CommContext<'_> {
    /// Starts a maximum with the tag of an operation. All rounds of one agreement use the same tag, since
    /// other operations may be called between them. On an intercommunicator the result is the other group's
    /// maximum.
    ///
    /// # Errors
    /// Returns no error now; one is reserved for a communicator that cannot communicate.
    pub fn start_maximum(self, tag: i32, value: u64) -> Result<Maximum> {
        let mine = value.to_ne_bytes().to_vec();
        Ok(Collected::start(self, tag, mine, (Collective::Allreduce, UINT64, 1)))
    }

    /// Starts the maxima of several words, equally many at each member, with the tag of an operation.
    pub fn start_maxima(self, tag: i32, words: &[u64]) -> Maxima {
        let mine = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        Collected::start(self, tag, mine, (Collective::Allreduce, UINT64, 1))
    }

    /// Starts to gather bytes, equally many from each member, with the tag of an operation.
    pub fn start_allgather(self, tag: i32, mine: Vec<u8>) -> Gathering {
        let members = self.comm.size() as usize;
        Collected::start(self, tag, mine, (Collective::Allgather, BYTE, members))
    }
}

/// Describes a barrier, which has no data.
fn nothing() -> Arguments<'static> {
    // SAFETY: no memory.
    unsafe { Arguments::new(Collective::Barrier, Side::Absent, Side::Absent) }.internal()
}
