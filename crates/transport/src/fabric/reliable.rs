//! Messages over networks that reach all processes without connections (efa, cxi, psm2, psm3, opx; also
//! tcp;ofi_rxm).
//!
//! The provider is reliable, so there is nothing to decide. A peer is looked up in the directory when the
//! first record for it is sent; records wait meanwhile. Every frame contains its sender and its sequence
//! number, as a long message may complete after a short one that was sent later. A keyed tag over the header
//! ensures that no other job and no replay is taken for a peer.
//!
//! # Safety
//! - Buffers are posted for the time in which nobody else looks at them (`buffers`), and fields are declared
//!   in the order in which they must be dropped: the endpoint, then what it is bound to, then buffers.
//! - Nothing of the domain is reachable from outside this structure, so all of it moves between threads as
//!   one, and is used by one at a time (`&mut`): it may be sent.
#![allow(unsafe_code)]

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::os::fd::{AsRawFd, RawFd};
use std::rc::Rc;
use std::time::Instant;

use tutti_sys::fabric::{
    AddressVector, Completion, CompletionQueue, Domain, Endpoint, Fabric, Info, OperationContext,
    PeerAddress, Receiver, Result, Wakeup,
};

use super::Identity;
use super::buffers::Buffers;
use super::carrier::{CarrierKind, RECORD_BYTES, RECORDS_PER_POLL};
use super::counters::FabricCounters;
use super::frame::{Front, HEADER_BYTES};
use super::remote::Remote;
use crate::adaptive::tag::{Key, TAG_BYTES, Use};
use crate::directory::{Address, Directory};
use crate::link::{Full, Header, Link, Peer, Sink, Verdict};
use crate::loan::{Loan, Memory};

/// Receives that are posted for all peers.
const RECEIVES: usize = 64;
/// Sends that may be under way to all peers.
const SENDS: usize = 64;
/// Bytes in front of a payload: also the number of the frame (8), and the tag.
const FRONT_BYTES: usize = NUMBERED_BYTES + TAG_BYTES;
const NUMBERED_BYTES: usize = HEADER_BYTES + 8;
/// Highest distance of a frame's number from the expected one: more than can be under way.
const AHEAD: u64 = 1 << 16;
const BUFFER_BYTES: usize = FRONT_BYTES + RECORD_BYTES;
/// Frames that wait for the address of one peer.
const WAITING: usize = 16;
/// Frames sent by value in a row; see `connected`.
const INJECTS: u32 = 31;

/// Frame that its receiver has not taken.
#[derive(Debug)]
enum Held {
    Buffer(u32, usize),
    Copied(Vec<u8>),
}

/// State of a peer with which messages were exchanged.
#[derive(Debug, Default)]
struct Partner {
    address: Option<PeerAddress>,
    asked: bool,
    /// Frames that wait for the address, or for room at the provider: pieces with their lengths.
    unsent: VecDeque<(u32, usize)>,
    /// Frames that arrived early or were left, by number.
    held: BTreeMap<u64, Held>,
    /// Frames sent.
    sent: u64,
    /// Number of the next frame to deliver.
    next: u64,
    /// Number of frames sent by value since the last other one.
    injected: u32,
}

/// A link over a reliable endpoint.
#[derive(Debug)]
pub struct Reliable {
    endpoint: Endpoint,
    addresses: Rc<AddressVector>,
    completions: Rc<CompletionQueue>,
    remote: Option<Remote<u32>>,
    _domain: Rc<Domain>,
    receives: Buffers,
    sends: Buffers,
    /// Receivers of the sends under way.
    send_peers: Vec<Option<u32>>,
    partners: HashMap<u32, Partner>,
    kept: usize,
    lookups: usize,
    inject_bytes: usize,
    directory: Box<dyn Directory>,
    key: Key,
    rank: u32,
    ranks: u32,
    failures: VecDeque<(Peer, String)>,
    counters: FabricCounters,
    leaving: bool,
}

// SAFETY: see the module.
unsafe impl Send for Reliable {}

impl Reliable {
    /// Opens an endpoint of an offer, and publishes its address.
    ///
    /// # Errors
    /// What the provider reports; an address that is too long for a directory.
    pub fn new(info: &Info, identity: &Identity, mut directory: Box<dyn Directory>) -> Result<Reliable> {
        let fabric = Fabric::open(info)?;
        let domain = Domain::open(&fabric, info)?;
        let completions = CompletionQueue::open(&domain, 2 * (RECEIVES + SENDS), Wakeup::Descriptor)?;
        let addresses = AddressVector::open(&domain)?;
        let endpoint = Endpoint::unconnected(&domain, &completions, &addresses)?;
        if let Some(address) = Address::new(&endpoint.name()?) {
            directory.publish(&address);
        }
        let mut link = Reliable {
            endpoint,
            addresses,
            completions,
            receives: Buffers::new(&domain, RECEIVES, BUFFER_BYTES)?,
            sends: Buffers::new(&domain, SENDS, BUFFER_BYTES)?,
            remote: Remote::new(&domain)?,
            _domain: domain,
            send_peers: vec![None; SENDS],
            partners: HashMap::new(),
            kept: 0,
            lookups: 0,
            inject_bytes: info.inject_bytes(),
            directory,
            key: Key::new(&identity.secret.0, Use::Frame),
            rank: identity.rank,
            ranks: identity.ranks,
            failures: VecDeque::new(),
            counters: FabricCounters::default(),
            leaving: false,
        };
        link.post_all()?;
        Ok(link)
    }

    /// Posts every receive buffer that is free.
    fn post_all(&mut self) -> Result<()> {
        while let Some(piece) = self.receives.take() {
            let (start, context) = (self.receives.start(piece), self.receives.context(piece));
            let descriptor = self.receives.descriptor();
            // SAFETY: the piece is nobody's until its completion; see the module.
            if !unsafe { self.endpoint.receive(start, BUFFER_BYTES, descriptor, context)? } {
                self.receives.give(piece);
                break;
            }
        }
        Ok(())
    }

    /// Returns the tag of a numbered header, which names its sender, for one receiver.
    fn tag(&self, numbered: &[u8], to: u32) -> [u8; TAG_BYTES] {
        self.key.tag(&[numbered, &to.to_le_bytes()])
    }

    /// Reads the completion queue once. How many operations ended.
    fn read(&mut self) -> usize {
        let mut done = [Completion { context: std::ptr::null_mut(), bytes: 0, received: false }; 16];
        let mut failed = None;
        let count = self.completions.read(&mut done, |failure| failed = Some(failure)).unwrap_or(0);
        if let Some(failure) = failed {
            self.completed(failure.context, Err(failure.code));
        }
        for completion in &done[..count] {
            self.completed(completion.context, Ok(completion.bytes));
        }
        count + usize::from(failed.is_some())
    }

    fn completed(&mut self, context: *mut OperationContext, result: std::result::Result<usize, i32>) {
        if let Some(piece) = self.receives.piece_of(context) {
            return self.received(piece, result.unwrap_or(0));
        }
        if let Some(remote) = &mut self.remote
            && remote.ended(context, result)
        {
            return;
        }
        let Some(piece) = self.sends.piece_of(context) else { return };
        self.sends.give(piece);
        let peer = self.send_peers[piece as usize].take();
        if let (Some(peer), Err(code), false) = (peer, result, self.leaving) {
            self.failures.push_back((Peer(peer), std::io::Error::from_raw_os_error(code).to_string()));
        }
    }

    /// Puts a frame behind those of its sender, if it is what it says.
    fn received(&mut self, piece: u32, bytes: usize) {
        let frame = self.receives.read(piece, bytes);
        let front = frame
            .first_chunk::<NUMBERED_BYTES>()
            .and_then(|start| Some((start, Front::read(start.first_chunk()?)?)));
        let whole = |front: &Front| front.bytes + FRONT_BYTES == bytes && front.line < self.ranks;
        let Some((start, front)) = front.filter(|(_, front)| whole(front)) else {
            self.counters.adaptive.malformed += u64::from(bytes > 0);
            return self.receives.give(piece);
        };
        let number = u64::from_le_bytes(*start[HEADER_BYTES..].first_chunk().expect("it is this long"));
        let expected = self.tag(start, self.rank);
        let differs =
            expected.iter().zip(&frame[NUMBERED_BYTES..FRONT_BYTES]).fold(0, |all, (a, b)| all | (a ^ b));
        if differs != 0 {
            self.counters.adaptive.forged += 1;
            return self.receives.give(piece);
        }
        let partner = self.partners.entry(front.line).or_default();
        let known = number < partner.next || number - partner.next >= AHEAD;
        let Entry::Vacant(place) = partner.held.entry(number) else { return self.duplicate(piece) };
        if known {
            return self.duplicate(piece);
        }
        place.insert(Held::Buffer(piece, bytes));
        self.kept += 1;
        if front.kind == CarrierKind::Done {
            // Not behind records that are left: these may wait for what it frees.
            self.given_back(front.line, front.header.0[0]);
        }
        if self.kept > RECEIVES / 2 {
            self.copy_out();
        }
    }

    fn given_back(&mut self, from: u32, loan: u64) {
        let known = self.remote.as_mut().is_some_and(|remote| remote.give_back(Some(Peer(from)), loan));
        if !known && !self.leaving {
            self.failures.push_back((Peer(from), "the peer read memory that was not lent to it".to_string()));
        }
    }

    /// Moves the own reads forward.
    fn read_remote(&mut self) {
        let (endpoint, partners) = (&self.endpoint, &self.partners);
        let Some(remote) = &mut self.remote else { return };
        remote.step(|rank| Some((endpoint, partners.get(&rank)?.address?)));
        let failed = remote.reads().take_failures();
        self.failures.extend(failed.into_iter().map(|(rank, why)| (Peer(rank), why)));
        while let Some((rank, loan)) = self.remote.as_mut().and_then(|remote| remote.reads().untold()) {
            if self.send_frame(Peer(rank), CarrierKind::Done, (Header([loan.name, 0, 0]), 0), |_| ()).is_err()
            {
                break;
            }
            if let Some(remote) = &mut self.remote {
                remote.reads().told();
            }
        }
    }

    fn duplicate(&mut self, piece: u32) {
        self.counters.adaptive.duplicates += 1;
        self.receives.give(piece);
    }

    /// Copies frames that are held elsewhere, so that their buffers can be posted.
    fn copy_out(&mut self) {
        for held in self.partners.values_mut().flat_map(|partner| partner.held.values_mut()) {
            if let Held::Buffer(piece, bytes) = *held {
                *held = Held::Copied(self.receives.read(piece, bytes).to_vec());
                self.receives.give(piece);
                self.kept -= 1;
            }
        }
    }

    /// Offers what a peer has sent, a bounded number of frames. True if anything was taken.
    fn offer(&mut self, from: u32, sink: &mut impl Sink) -> bool {
        let Some(partner) = self.partners.get_mut(&from) else { return false };
        let mut taken = 0;
        while taken < RECORDS_PER_POLL {
            let Some(held) = partner.held.get(&partner.next) else { break };
            let frame = match held {
                Held::Buffer(piece, bytes) => self.receives.read(*piece, *bytes),
                Held::Copied(bytes) => bytes,
            };
            let (start, payload) = frame.split_at(FRONT_BYTES);
            let front: Front = start.first_chunk().and_then(Front::read).expect("it was read when it came");
            if front.kind == CarrierKind::Record {
                if sink.arrived(Peer(from), front.header, payload) == Verdict::Left {
                    break;
                }
                self.counters.received_records += 1;
                self.counters.received_bytes += payload.len() as u64;
            }
            partner.next += 1;
            if let Some(Held::Buffer(piece, _)) = partner.held.remove(&(partner.next - 1)) {
                self.receives.give(piece);
                self.kept -= 1;
            }
            taken += 1;
        }
        taken > 0
    }

    fn offer_all(&mut self, sink: &mut impl Sink) -> bool {
        let senders: Vec<u32> = self
            .partners
            .iter()
            .filter(|(_, partner)| !partner.held.is_empty())
            .map(|(&rank, _)| rank)
            .collect();
        let mut taken = false;
        for from in senders {
            taken |= self.offer(from, sink);
        }
        taken
    }

    /// Takes the addresses that have come.
    fn learn(&mut self) {
        while let Some((rank, address)) = self.directory.poll() {
            self.lookups = self.lookups.saturating_sub(1);
            let inserted = address.map(|address| self.addresses.insert(address.bytes()));
            let Some(partner) = self.partners.get_mut(&rank) else { continue };
            match inserted {
                Some(Ok(address)) => partner.address = Some(address),
                Some(Err(error)) => self.failures.push_back((Peer(rank), error.to_string())),
                None => {
                    self.failures.push_back((Peer(rank), "it has ended, or never had an address".to_string()))
                }
            }
        }
    }

    /// Posts the sends that wait for room.
    fn post_unsent(&mut self) {
        for (&rank, partner) in &mut self.partners {
            let Some(address) = partner.address else { continue };
            while let Some(&(piece, bytes)) = partner.unsent.front() {
                let (start, context) = (self.sends.start(piece), self.sends.context(piece));
                let descriptor = self.sends.descriptor();
                // SAFETY: the piece is nobody's until its completion; see the module.
                match unsafe { self.endpoint.send(address, start, bytes, descriptor, context) } {
                    Ok(true) => drop(partner.unsent.pop_front()),
                    Ok(false) => break,
                    Err(error) => {
                        partner.unsent.pop_front();
                        self.sends.give(piece);
                        self.send_peers[piece as usize] = None;
                        self.failures.push_back((Peer(rank), error.to_string()));
                    }
                }
            }
        }
    }

    /// Sends a frame.
    fn send_frame(
        &mut self,
        to: Peer,
        kind: CarrierKind,
        (header, bytes): (Header, usize),
        fill: impl FnOnce(&mut [u8]),
    ) -> std::result::Result<(), Full> {
        assert!(
            to.0 < self.ranks && to.0 != self.rank && bytes <= RECORD_BYTES,
            "a record that no link takes"
        );
        let partner = self.partners.entry(to.0).or_default();
        if !std::mem::replace(&mut partner.asked, true) {
            self.directory.request(to.0);
            self.lookups += 1;
        }
        if !self.has_room(to, bytes) {
            return Err(Full);
        }
        let piece = self.sends.take().ok_or(Full)?;
        let partner = self.partners.get_mut(&to.0).expect("it was entered above");
        let number = partner.sent;
        partner.sent += 1;
        let whole = FRONT_BYTES + bytes;
        let mut start = [0; NUMBERED_BYTES];
        Front { kind, line: self.rank, header, bytes }.write(&mut start);
        start[HEADER_BYTES..].copy_from_slice(&number.to_le_bytes());
        let tag = self.tag(&start, to.0);
        let frame = self.sends.write(piece, whole);
        frame[..NUMBERED_BYTES].copy_from_slice(&start);
        frame[NUMBERED_BYTES..FRONT_BYTES].copy_from_slice(&tag);
        fill(&mut frame[FRONT_BYTES..]);
        let partner = self.partners.get_mut(&to.0).expect("it was entered above");
        let short = whole <= self.inject_bytes && kind == CarrierKind::Record && partner.injected < INJECTS;
        if let (Some(address), true, true) = (partner.address, short, partner.unsent.is_empty())
            && self.endpoint.inject(address, frame) == Ok(true)
        {
            partner.injected += 1;
            self.sends.give(piece);
            return Ok(());
        }
        partner.injected = 0;
        partner.unsent.push_back((piece, whole));
        self.send_peers[piece as usize] = Some(to.0);
        self.post_unsent();
        Ok(())
    }

    /// Returns true if the directory collects which hosts have called [`Directory::report_arrival`].
    pub fn collects_arrivals(&self) -> bool {
        self.directory.collects_arrivals()
    }

    /// Reports that all ranks of this host have called MPI_Finalize.
    pub fn report_arrival(&mut self) {
        self.directory.report_arrival();
    }

    /// Returns the counts so far.
    pub fn counters(&self) -> FabricCounters {
        let partner = size_of::<Partner>() + size_of::<u32>();
        let remote = self.remote.as_ref().map_or(0, Remote::memory_bytes);
        let memory = self.receives.memory_bytes()
            + self.sends.memory_bytes()
            + remote
            + self.partners.capacity() * partner;
        let mut counters = FabricCounters { memory_bytes: memory as u64, ..self.counters };
        counters.adaptive.peers = self.partners.len() as u64;
        (counters.registrations, counters.reused_registrations) =
            self.remote.as_ref().map_or((0, 0), Remote::registrations);
        counters
    }

    /// Prepares for sleep: see [`crate::FarLink::before_sleep`] for the result.
    pub fn before_sleep(&mut self, descriptors: &mut Vec<RawFd>) -> (bool, Option<Instant>) {
        descriptors.extend(self.completions.descriptor());
        if self.lookups > 0 {
            descriptors.extend(self.directory.descriptor().map(|fd| fd.as_raw_fd()));
        }
        let quiet = self.failures.is_empty() && self.completions.may_wait().unwrap_or(false);
        (quiet, None)
    }

    /// See [`crate::FarLink::slept`]. A poll of the queues costs no system call.
    pub fn slept(&mut self, _ready: &[RawFd]) {}

    /// Accepts messages again for a further program in this process ([`crate::FarLink::reopen`]).
    pub fn reopen(&mut self) {
        self.leaving = false;
    }

    /// Returns true once all sent records have left, as [`crate::FarLink::is_flushed`] describes.
    pub fn is_flushed(&mut self) -> bool {
        if !std::mem::replace(&mut self.leaving, true) {
            // A frame with a completion behind those that have none.
            let peers: Vec<u32> = self
                .partners
                .iter()
                .filter(|(_, partner)| partner.injected > 0)
                .map(|(&rank, _)| rank)
                .collect();
            for peer in peers {
                let _ = self.send_frame(Peer(peer), CarrierKind::End, (Header::default(), 0), |_| ());
            }
        }
        self.poll(&mut |_: Peer, _: Header, _: &[u8]| Verdict::Taken);
        self.send_peers.iter().all(Option::is_none) && self.remote.as_ref().is_none_or(Remote::is_flushed)
    }
}

impl Drop for Reliable {
    fn drop(&mut self) {
        // Regions may belong to the endpoint, which is closed first.
        if let Some(remote) = &mut self.remote {
            remote.close();
        }
    }
}

impl Link for Reliable {
    fn max_payload(&self) -> usize {
        RECORD_BYTES
    }

    fn try_send_with(
        &mut self,
        to: Peer,
        header: Header,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> std::result::Result<(), Full> {
        self.send_frame(to, CarrierKind::Record, (header, bytes), fill)?;
        self.counters.sent_records += 1;
        self.counters.sent_bytes += bytes as u64;
        Ok(())
    }

    fn has_room(&self, to: Peer, _bytes: usize) -> bool {
        let takes = |partner: &Partner| partner.address.is_some() && partner.unsent.len() < WAITING;
        self.sends.has_free() && self.partners.get(&to.0).is_some_and(takes)
    }

    fn want_room(&mut self, to: Peer, bytes: usize) -> bool {
        // Room comes with completions, which wake a sleeper.
        self.has_room(to, bytes)
    }

    fn poll(&mut self, sink: &mut impl Sink) -> bool {
        if self.lookups > 0 {
            self.learn();
        }
        let came = self.read();
        let taken = (came > 0 || self.kept > 0 || self.holds_copies()) && self.offer_all(sink);
        if came > 0 || taken {
            let _ = self.post_all();
        }
        if self.send_peers.iter().any(Option::is_some) {
            self.post_unsent();
        }
        self.read_remote();
        taken
    }

    fn poll_peer(&mut self, from: Peer, sink: &mut impl Sink) -> bool {
        if self.lookups > 0 {
            self.learn();
        }
        self.read();
        let taken = self.offer(from.0, sink);
        let _ = self.post_all();
        self.post_unsent();
        self.read_remote();
        taken
    }

    fn pending(&self) -> bool {
        self.remote.as_ref().is_some_and(Remote::has_news) || !self.completions.may_wait().unwrap_or(false)
    }

    fn lend(&mut self, to: Peer, memory: Memory) -> Option<Loan> {
        let Reliable { remote, endpoint, .. } = self;
        remote.as_mut()?.lend(Some(endpoint), to, memory)
    }

    fn withdraw(&mut self, loan: Loan) {
        if let Some(remote) = &mut self.remote {
            remote.withdraw(loan);
        }
    }

    fn returned(&mut self) -> Option<Loan> {
        self.remote.as_mut()?.returned()
    }

    fn read(&mut self, from: Peer, loan: Loan, memory: Memory, bytes: u64, token: u64) -> bool {
        let reachable = self.partners.get(&from.0).is_some_and(|partner| partner.address.is_some());
        let Reliable { remote, endpoint, counters, .. } = self;
        let Some(remote) = remote.as_mut().filter(|_| reachable) else { return false };
        let begun = remote.read((Some(endpoint), from.0), loan, memory, bytes, token);
        if begun {
            counters.reads += 1;
            counters.read_bytes += bytes;
        }
        begun
    }

    fn completed(&mut self) -> Option<u64> {
        self.remote.as_mut()?.reads().completed()
    }

    fn failure(&mut self) -> Option<(Peer, String)> {
        self.failures.pop_front()
    }
}

impl Reliable {
    fn holds_copies(&self) -> bool {
        self.partners.values().any(|partner| !partner.held.is_empty())
    }
}
