//! Reads of remote memory by the network itself (FI_RMA): a long message goes from its sender's buffer into
//! its receiver's, and neither process copies it.
//!
//! The lender registers its memory and sends the address with the offer of the message ([`Loan`]). The
//! receiver reads it ([`reads`]) without any action of the lender, and then sends a frame (`Done`) that ends
//! the loan. Registrations are kept as long as it is certain which pages they show ([`registrations`]).
//!
//! Memory of short runs is sent rather than lent: an operation costs more than a copy then.
//!
//! # Safety
//! - [`Memory`] is valid as long as it is held, and nobody else uses it: a lent one is held until its loan is
//!   over or withdrawn, one that is read into until all of its operations have ended.
//! - A kept registration names memory that may be gone. Peers read by keys of loans only, and a loan's memory
//!   is there.
//! - Contexts live in [`Buffers`], which an owner drops after its endpoints.
#![allow(unsafe_code)]

mod reads;
mod registrations;
#[cfg(test)]
mod tests;

#[cfg(any(test, fuzzing))]
pub use self::reads::fuzz;

use std::collections::{HashMap, VecDeque};
use std::ffi::c_void;
use std::io::IoSliceMut;
use std::ptr::null_mut;
use std::rc::Rc;
use std::sync::Arc;

use tutti_sys::fabric::{Domain, Endpoint, OperationContext, PeerAddress, RegisteredRegion, Result, Rights};

use self::reads::{List, Port, ReadLimits, Reads, Run, Target, runs_of};
use self::registrations::{Backing, Registrations, Wanted};
use super::buffers::Buffers;
use super::frame::BULK_BYTES;
use crate::exposure;
use crate::link::Peer;
use crate::loan::{Loan, Memory, Pieces};

/// Highest number of operations under way.
const OPERATIONS: usize = 16;
/// Highest number of runs of memory in one loan.
const RUNS: usize = 1 << 12;
/// Average bytes that an operation must move to be worth its cost.
const WORTH_BYTES: u64 = 16 << 10;
/// Highest number of kept registrations, and of their bytes.
const KEPT: usize = 256;
const KEPT_BYTES: u64 = 4 << 30;

/// Memory registered with the provider.
#[derive(Debug)]
pub struct Registered {
    region: RegisteredRegion,
    start: u64,
}

/// Memory that a peer may read.
#[derive(Debug)]
struct Lent {
    to: Peer,
    loan: Loan,
    /// Owner of the memory, held until the loan ends.
    _memory: Memory,
    _regions: Vec<Rc<Registered>>,
    _list: Option<Arc<List>>,
}

/// Loans and reads of a process. `P` names a peer as its endpoints do.
#[derive(Debug)]
pub struct Remote<P> {
    reads: Reads<P, Rc<Registered>>,
    registrations: Registrations<Rc<Registered>>,
    loans: HashMap<u64, Lent>,
    last_loan: u64,
    returned: VecDeque<Loan>,
    contexts: Buffers,
    domain: Rc<Domain>,
}

/// Starter of operations on the endpoints that `way` finds.
struct Operations<'a, W> {
    way: W,
    contexts: &'a Buffers,
}

impl<'a, P, W: FnMut(P) -> Option<(&'a Endpoint, PeerAddress)>> Port<P, Rc<Registered>>
    for Operations<'_, W>
{
    fn read(
        &mut self,
        from: P,
        runs: &mut [IoSliceMut<'_>],
        region: Option<&Rc<Registered>>,
        remote: (u64, u64),
        operation: u32,
    ) -> std::result::Result<bool, String> {
        let (endpoint, address) = (self.way)(from).ok_or("the connection has ended")?;
        let runs: Vec<(*mut u8, usize)> = runs.iter_mut().map(|run| (run.as_mut_ptr(), run.len())).collect();
        let descriptor: Option<*mut c_void> = region.map(|region| region.region.descriptor());
        let mut descriptors =
            vec![descriptor.unwrap_or(null_mut()); if descriptor.is_some() { runs.len() } else { 0 }];
        let context = self.contexts.context(operation);
        // SAFETY: memory and context are held until the operation ends; see the module.
        let posted = unsafe { endpoint.read_remote(address, &runs, &mut descriptors, remote, context) };
        posted.map_err(|error| error.to_string())
    }
}

impl<P: Copy + PartialEq> Remote<P> {
    /// Prepares reads of remote memory. None if the provider of the domain does not support them.
    ///
    /// # Errors
    /// The error of the provider.
    pub fn new(domain: &Rc<Domain>) -> Result<Option<Remote<P>>> {
        let info = domain.info();
        if !info.accesses_remote_memory() || info.pieces() == 0 {
            return Ok(None);
        }
        let limits = ReadLimits {
            runs: info.pieces().min(tutti_sys::fabric::PIECES),
            operation_bytes: (BULK_BYTES).min(info.max_message_bytes()) as u64,
            operations: OPERATIONS,
        };
        Ok(Some(Remote {
            reads: Reads::new(limits),
            registrations: Registrations::new(KEPT, KEPT_BYTES),
            loans: HashMap::new(),
            last_loan: 0,
            returned: VecDeque::new(),
            contexts: Buffers::new(domain, OPERATIONS, 1)?,
            domain: domain.clone(),
        }))
    }

    /// Registers all of the runs as one region. Regions that belong to an endpoint are those of `endpoint`.
    fn register(&mut self, endpoint: Option<&Endpoint>, runs: &[Run], lent: bool) -> Option<Rc<Registered>> {
        let start = runs.iter().map(|run| run.address).min()?;
        let end = runs.iter().map(|run| run.address + run.bytes).max()?;
        if end - start > 2 * runs.iter().map(|run| run.bytes).sum::<u64>() {
            // Most of it is not of the message, and may be anything.
            return None;
        }
        let wanted = Wanted { start, end, lent, backing: self.backing(start, end, !lent) };
        if let Some(known) = self.registrations.find(&wanted) {
            return Some(known);
        }
        let rights = if lent { Rights::RemoteRead } else { Rights::Local };
        let make = || {
            let address: *const u8 = std::ptr::with_exposed_provenance(start as usize);
            // SAFETY: see the module: the memory is valid while it is read by this registration.
            unsafe {
                RegisteredRegion::register(&self.domain, address, (end - start) as usize, rights, endpoint)
            }
        };
        let mut made = make();
        if made.is_err() && !self.registrations.is_empty() {
            self.registrations.clear();
            made = make();
        }
        let registered = Rc::new(Registered { region: made.ok()?, start });
        self.registrations.keep(wanted, &registered);
        Some(registered)
    }

    fn backing(&self, start: u64, end: u64, writing: bool) -> Backing {
        if !self.domain.info().registers_pages() {
            return Backing::Addresses;
        }
        exposure::pages(start, end, writing).map_or(Backing::Unknown, Backing::Pages)
    }

    /// Returns the name that peers use for an address of registered memory.
    fn remote_address(&self, registered: &Registered, address: u64) -> u64 {
        if self.domain.info().addresses_are_virtual() { address } else { address - registered.start }
    }

    /// Lends memory to a peer for reading: see [`crate::Link::lend`].
    pub fn lend(&mut self, endpoint: Option<&Endpoint>, to: Peer, memory: Memory) -> Option<Loan> {
        let runs = runs_of(&memory, RUNS)?;
        if runs.is_empty() || memory.bytes() / (runs.len() as u64) < WORTH_BYTES {
            return None;
        }
        let registered = self.register(endpoint, &runs, true)?;
        let key = registered.region.key();
        let at = |run: &Run| Run { address: self.remote_address(&registered, run.address), ..*run };
        let name = self.last_loan + 1;
        let (loan, list, regions) = if let [one] = &runs[..] {
            (Loan { name, address: at(one).address, key, runs: 1 }, None, vec![registered])
        } else {
            let list = List::from_runs(key, runs.iter().map(at));
            let own = [Run { address: list.address(), bytes: list.bytes() }];
            let listed = self.register(endpoint, &own, true)?;
            let address = self.remote_address(&listed, own[0].address);
            let loan = Loan { name, address, key: listed.region.key(), runs: runs.len() as u64 };
            (loan, Some(list), vec![registered, listed])
        };
        self.last_loan = name;
        self.loans.insert(name, Lent { to, loan, _memory: memory, _regions: regions, _list: list });
        Some(loan)
    }

    /// Ends a loan early: see [`crate::Link::withdraw`].
    pub fn withdraw(&mut self, loan: Loan) {
        self.loans.remove(&loan.name);
    }

    /// Ends a loan that the peer has read. Returns false if it was not lent to that peer.
    pub fn give_back(&mut self, from: Option<Peer>, name: u64) -> bool {
        if self.loans.get(&name).is_none_or(|lent| Some(lent.to) != from) {
            return false;
        }
        self.returned.extend(self.loans.remove(&name).map(|lent| lent.loan));
        true
    }

    /// Returns the next finished loan: see [`crate::Link::returned`].
    pub fn returned(&mut self) -> Option<Loan> {
        self.returned.pop_front()
    }

    /// Starts to read a loan of a peer: see [`crate::Link::read`].
    pub fn read(
        &mut self,
        (endpoint, from): (Option<&Endpoint>, P),
        loan: Loan,
        memory: Memory,
        bytes: u64,
        token: u64,
    ) -> bool {
        let Some(own) = runs_of(&memory, RUNS) else { return false };
        let (takes, local) =
            (self.domain.info().pieces() as u64, self.domain.info().registers_local_memory());
        if bytes == 0
            || loan.runs == 0
            || loan.runs > RUNS as u64
            || bytes / own.len() as u64 * takes < WORTH_BYTES
        {
            return false;
        }
        let mut region = None;
        if local {
            region = self.register(endpoint, &own, false);
            if region.is_none() {
                return false;
            }
        }
        let mut list = None;
        if loan.runs > 1 {
            let room = List::with_room(loan.runs);
            let own = [Run { address: room.address(), bytes: room.bytes() }];
            let listed = if local { self.register(endpoint, &own, false) } else { None };
            if local && listed.is_none() {
                return false;
            }
            list = Some((room, listed));
        }
        self.reads.begin(from, loan, Target { list, memory: (memory, region), bytes }, token);
        true
    }

    /// Begins what finds room, on the endpoints that `way` finds. True if anything was begun.
    pub fn step<'a>(&mut self, way: impl FnMut(P) -> Option<(&'a Endpoint, PeerAddress)>) -> bool {
        let Remote { reads, contexts, .. } = self;
        !reads.is_idle() && reads.step(&mut Operations { way, contexts })
    }

    /// Returns true if an operation that ended, with so many bytes or an error's number, is one of these.
    pub fn ended(&mut self, context: *mut OperationContext, result: std::result::Result<usize, i32>) -> bool {
        let Some(operation) = self.contexts.piece_of(context) else { return false };
        let text = |code| format!("a read of its memory failed: {}", std::io::Error::from_raw_os_error(code));
        self.reads.ended(operation, result.map(drop).map_err(text));
        true
    }

    /// Returns the state machine of the reads.
    pub fn reads(&mut self) -> &mut Reads<P, Rc<Registered>> {
        &mut self.reads
    }

    /// Returns true if a returned loan or a completed read can be fetched.
    pub fn has_news(&self) -> bool {
        !self.returned.is_empty() || self.reads.has_completed()
    }

    /// Returns true if this process has nothing left to do.
    pub fn is_flushed(&self) -> bool {
        self.reads.is_idle() && self.reads.is_told()
    }

    /// Gives all registrations back. Called before the endpoint that they belong to is closed.
    pub fn close(&mut self) {
        self.registrations.clear();
        self.loans.clear();
    }

    /// Bytes of memory for it.
    pub fn memory_bytes(&self) -> usize {
        self.contexts.memory_bytes() + self.loans.capacity() * size_of::<(u64, Lent)>()
    }

    /// Returns the number of registrations of memory, and the number of reused registrations.
    pub fn registrations(&self) -> (u64, u64) {
        self.registrations.counts()
    }
}
