//! Connections over endpoints of libfabric (tcp, verbs).
//!
//! All connections receive into one shared queue of buffers, so a connection has no memory of its own except
//! in the provider. The private data of both sides contain the number by which each identifies the
//! connection; every frame contains the receiver's number. A frame that is left keeps its buffer; when half
//! of all are kept, frames are copied out. Where the provider reads remote memory, long messages are lent
//! ([`super::remote`]).
//!
//! # Safety
//! - Buffers are posted for the time in which nobody else looks at them (`buffers`), and fields are declared
//!   in the order in which they must be dropped: endpoints, then what they are bound to, then buffers, of
//!   `remote` too.
//! - Nothing of the domain is reachable from outside this structure, so all of it moves between threads as
//!   one, and is used by one at a time (`&mut`): it may be sent.
#![allow(unsafe_code)]

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::os::fd::RawFd;
use std::rc::Rc;

use tutti_sys::fabric::{
    Completion, CompletionQueue, ConnectionChange, Domain, Endpoint, Error, EventQueue, Fabric, Info,
    OperationContext, PassiveEndpoint, PeerAddress, Receiver, Result, SharedReceive, Wakeup,
};

use super::buffers::Buffers;
use super::carrier::{
    Carrier, CarrierKind, Event, Frames, PRIVATE_BYTES, RECORD_BYTES, RECORDS_PER_POLL, RequestId, place_of,
};
use super::frame::{Front, HEADER_BYTES};
use super::remote::Remote;
use crate::adaptive::ConnectionId;
use crate::link::{Full, Header, Peer, Verdict};
use crate::loan::{Loan, Memory};

/// Receives that are posted for all connections.
const RECEIVES: usize = 64;
/// Sends that may be under way on all connections.
const SENDS: usize = 64;
const BUFFER_BYTES: usize = HEADER_BYTES + RECORD_BYTES;
/// Bytes in front of the private data: the sender's number of the connection.
const NUMBER_BYTES: usize = 4;
/// Frames up to this length are sent by value, if the provider takes them.
const INJECT_BYTES: usize = 256;
/// Frames sent by value in a row. A provider may keep any number of them, so the next one has a completion,
/// and completions are bounded by the buffers for sends.
const INJECTS: u32 = 31;

/// A frame that was not taken.
#[derive(Debug)]
enum Held {
    Buffer(u32, usize),
    Copied(Vec<u8>),
}

#[derive(Debug)]
struct Line {
    name: ConnectionId,
    endpoint: Endpoint,
    /// The number of this connection on the other side.
    theirs: u32,
    established: bool,
    /// Sends that the provider had no room for, in order: pieces with their lengths.
    unsent: VecDeque<(u32, usize)>,
    /// Sends under way.
    sending: usize,
    /// Frames sent by value since the last other one.
    injected: u32,
    held: VecDeque<Held>,
    /// Reason for which the connection ended, if it has.
    ended: Option<String>,
}

/// A [`Carrier`] over libfabric.
#[derive(Debug)]
pub struct Connected {
    lines: Vec<Option<Line>>,
    /// Disconnected, but with sends under way.
    leaving: Vec<Line>,
    passive: PassiveEndpoint,
    requests: BTreeMap<u64, (Info, u32)>,
    next_request: u64,
    /// Endpoint to place.
    places: HashMap<usize, u32>,
    shared: Rc<SharedReceive>,
    completions: Rc<CompletionQueue>,
    connection_events: Rc<EventQueue>,
    domain: Rc<Domain>,
    info: Info,
    remote: Option<Box<Remote<ConnectionId>>>,
    /// Loans that peers say they have read.
    read: Vec<(ConnectionId, u64)>,
    /// Opened with the first connection.
    receives: Option<Buffers>,
    /// Buffers for sends, and the line of each send under way.
    sends: Option<Buffers>,
    send_lines: Vec<Option<ConnectionId>>,
    kept: usize,
    address: Vec<u8>,
    inject_bytes: usize,
    events: VecDeque<Event>,
    foreign: u64,
}

// SAFETY: see the module.
unsafe impl Send for Connected {}

impl Connected {
    /// Listens on the interface of an offer.
    ///
    /// # Errors
    /// The error of the provider.
    pub fn new(info: &Info) -> Result<Connected> {
        let fabric = Fabric::open(info)?;
        let domain = Domain::open(&fabric, info)?;
        let completions = CompletionQueue::open(&domain, 2 * (RECEIVES + SENDS), Wakeup::Descriptor)?;
        let connection_events = EventQueue::open(&fabric, Wakeup::Descriptor)?;
        let passive = PassiveEndpoint::listen(&fabric, info, &connection_events)?;
        Ok(Connected {
            lines: Vec::new(),
            leaving: Vec::new(),
            address: passive.name()?,
            passive,
            requests: BTreeMap::new(),
            next_request: 0,
            places: HashMap::new(),
            shared: SharedReceive::open(&domain, RECEIVES)?,
            completions,
            connection_events,
            remote: Remote::new(&domain)?.map(Box::new),
            read: Vec::new(),
            domain,
            inject_bytes: info.inject_bytes().min(INJECT_BYTES),
            info: info.clone(),
            receives: None,
            sends: None,
            send_lines: vec![None; SENDS],
            kept: 0,
            events: VecDeque::new(),
            foreign: 0,
        })
    }

    /// Makes an endpoint and, with the first one, the buffers.
    fn endpoint(&mut self, info: &Info) -> Result<Endpoint> {
        if self.receives.is_none() {
            self.receives = Some(Buffers::new(&self.domain, RECEIVES, BUFFER_BYTES)?);
            self.sends = Some(Buffers::new(&self.domain, SENDS, BUFFER_BYTES)?);
            self.post_all()?;
        }
        Endpoint::connected(
            &self.domain,
            info,
            &self.completions,
            &self.connection_events,
            Some(&self.shared),
        )
    }

    /// Posts every receive buffer that is free.
    fn post_all(&mut self) -> Result<()> {
        let Some(receives) = &mut self.receives else { return Ok(()) };
        while let Some(piece) = receives.take() {
            let (start, context) = (receives.start(piece), receives.context(piece));
            // SAFETY: the piece is nobody's until its completion; see the module.
            let posted = unsafe { self.shared.receive(start, BUFFER_BYTES, receives.descriptor(), context)? };
            if !posted {
                receives.give(piece);
                break;
            }
        }
        Ok(())
    }

    fn line(&mut self, connection: ConnectionId) -> Option<&mut Line> {
        line_of(&mut self.lines, connection)
    }

    fn add(&mut self, connection: ConnectionId, endpoint: Endpoint, theirs: u32) {
        let place = place_of(connection);
        if self.lines.len() <= place {
            self.lines.resize_with(place + 1, || None);
        }
        self.places.insert(endpoint.identity(), place as u32);
        self.lines[place] = Some(Line {
            name: connection,
            endpoint,
            theirs,
            established: false,
            unsent: VecDeque::new(),
            sending: 0,
            injected: 0,
            held: VecDeque::new(),
            ended: None,
        });
    }

    fn try_connect(&mut self, connection: ConnectionId, to: &[u8], private_data: &[u8]) -> Result<()> {
        let endpoint = self.endpoint(&self.info.clone())?;
        endpoint.connect(to, &numbered(connection, private_data))?;
        self.add(connection, endpoint, u32::MAX);
        Ok(())
    }

    fn try_accept(
        &mut self,
        request: RequestId,
        connection: ConnectionId,
        private_data: &[u8],
    ) -> Result<()> {
        let Some((info, theirs)) = self.requests.remove(&request.0) else { return Ok(()) };
        let endpoint = self.endpoint(&info)?;
        endpoint.accept(&numbered(connection, private_data))?;
        self.add(connection, endpoint, theirs);
        Ok(())
    }

    fn end(&mut self, connection: ConnectionId, why: String) {
        if let Some(line) = self.line(connection) {
            line.ended.get_or_insert(why);
        }
    }

    /// Reads the completion queue once: frames are put behind those of their connection that are held. How
    /// many came.
    fn read(&mut self) -> usize {
        let mut done = [Completion { context: std::ptr::null_mut(), bytes: 0, received: false }; 16];
        let mut failed = None;
        let count = match self.completions.read(&mut done, |failure| failed = Some(failure)) {
            Ok(count) => count,
            Err(error) => {
                self.all_ended(&error);
                return 0;
            }
        };
        if let Some(failure) = failed {
            self.completed(failure.context, Err(failure.code));
        }
        for completion in &done[..count] {
            self.completed(completion.context, Ok(completion.bytes));
        }
        count + usize::from(failed.is_some())
    }

    fn all_ended(&mut self, error: &Error) {
        for line in self.lines.iter_mut().flatten() {
            line.ended.get_or_insert_with(|| error.to_string());
        }
    }

    /// Handles the end of an operation, with its number of bytes or an error.
    fn completed(&mut self, context: *mut OperationContext, result: std::result::Result<usize, i32>) {
        if let Some(piece) = self.receives.as_ref().and_then(|receives| receives.piece_of(context)) {
            return self.received(piece, result.unwrap_or(0));
        }
        if let Some(remote) = &mut self.remote
            && remote.ended(context, result)
        {
            return;
        }
        let Some(piece) = self.sends.as_ref().and_then(|sends| sends.piece_of(context)) else { return };
        if let Some(sends) = &mut self.sends {
            sends.give(piece);
        }
        let Some(connection) = self.send_lines[piece as usize].take() else { return };
        if let Some(line) = self.line(connection) {
            line.sending -= 1;
            if result.is_err() {
                line.ended.get_or_insert_with(|| "a send failed".to_string());
            }
        } else if let Some(line) = self.leaving.iter_mut().find(|line| line.name == connection) {
            line.sending -= 1;
        }
    }

    fn received(&mut self, piece: u32, bytes: usize) {
        let receives = self.receives.as_mut().expect("one of its pieces has come");
        let front = Front::of_message(receives.read(piece, bytes)).map(|(front, _)| front);
        let line = front.and_then(|front| Some((front, self.lines.get_mut(front.line as usize)?.as_mut()?)));
        let Some((front, line)) = line else {
            receives.give(piece);
            return;
        };
        if front.kind == CarrierKind::Done {
            // Not behind records that are left: these may wait for what it frees.
            self.read.push((line.name, front.header.0[0]));
            return receives.give(piece);
        }
        self.kept += 1;
        line.held.push_back(Held::Buffer(piece, bytes));
        if self.kept > RECEIVES / 2 {
            self.copy_out();
        }
    }

    /// Copies frames that are held elsewhere, so that their buffers can be posted.
    fn copy_out(&mut self) {
        let receives = self.receives.as_mut().expect("frames are held in its pieces");
        for held in self.lines.iter_mut().flatten().flat_map(|line| &mut line.held) {
            if let Held::Buffer(piece, bytes) = *held {
                *held = Held::Copied(receives.read(piece, bytes).to_vec());
                receives.give(piece);
                self.kept -= 1;
            }
        }
    }

    /// Offers what a connection holds, a bounded number of frames. True if anything was taken.
    fn offer(&mut self, place: usize, frames: &mut impl Frames) -> bool {
        let mut taken = 0;
        let Some(Some(line)) = self.lines.get_mut(place) else { return false };
        let Some(receives) = self.receives.as_mut() else { return false };
        while taken < RECORDS_PER_POLL {
            let Some(held) = line.held.front() else { break };
            let message = match held {
                Held::Buffer(piece, bytes) => receives.read(*piece, *bytes),
                Held::Copied(bytes) => bytes,
            };
            let (front, payload) = Front::of_message(message).expect("it was read when it came");
            if frames.arrived(line.name, front.kind, front.header, payload) == Verdict::Left {
                break;
            }
            if let Some(Held::Buffer(piece, _)) = line.held.pop_front() {
                receives.give(piece);
                self.kept -= 1;
            }
            taken += 1;
        }
        taken > 0
    }

    /// Posts a send: whether the provider had room for it.
    fn post(line: &Line, sends: &Buffers, piece: u32, bytes: usize) -> Result<bool> {
        let (start, context) = (sends.start(piece), sends.context(piece));
        // SAFETY: the piece is nobody's until its completion; see the module.
        unsafe { line.endpoint.send(PeerAddress::UNSPECIFIED, start, bytes, sends.descriptor(), context) }
    }

    /// Posts the sends that found no room before.
    fn post_unsent(&mut self) {
        let Some(sends) = &self.sends else { return };
        for line in self.lines.iter_mut().flatten().chain(&mut self.leaving) {
            while let Some(&(piece, bytes)) = line.unsent.front() {
                match Self::post(line, sends, piece, bytes) {
                    Ok(true) => drop(line.unsent.pop_front()),
                    Ok(false) => break,
                    Err(error) => {
                        line.ended.get_or_insert_with(|| error.to_string());
                        break;
                    }
                }
            }
        }
    }

    /// Takes back what peers have read, and moves the own reads forward.
    fn lend_and_read(&mut self, frames: &impl Frames) {
        let Some(remote) = &mut self.remote else { return };
        let lines = &mut self.lines;
        for (connection, loan) in self.read.drain(..) {
            if !remote.give_back(frames.peer(connection), loan)
                && let Some(line) = line_of(lines, connection)
            {
                line.ended.get_or_insert_with(|| "the peer read memory that was not lent to it".to_string());
            }
        }
        let endpoint = |connection| {
            let line = lines.get(place_of(connection))?.as_ref().filter(|line| line.name == connection)?;
            Some((&line.endpoint, PeerAddress::UNSPECIFIED))
        };
        remote.step(endpoint);
        for (connection, why) in remote.reads().take_failures() {
            if let Some(line) = line_of(lines, connection) {
                line.ended.get_or_insert(why);
            }
        }
        while let Some((connection, loan)) = self.remote.as_mut().and_then(|remote| remote.reads().untold()) {
            let header = Header([loan.name, 0, 0]);
            if self.send(connection, CarrierKind::Done, header, 0, |_| ()).is_err() {
                break;
            }
            if let Some(remote) = &mut self.remote {
                remote.reads().told();
            }
        }
    }

    /// Returns true if this process reads memory of the peer of a connection.
    fn is_read(&mut self, connection: ConnectionId) -> bool {
        self.remote.as_mut().is_some_and(|remote| remote.reads().reads_from(connection))
    }

    /// Reports the connections that have ended and of which everything was taken.
    fn report_ended(&mut self) {
        for line in self.lines.iter_mut().flatten() {
            if line.held.is_empty()
                && let Some(why) = line.ended.take()
            {
                self.events.push_back(Event::Closed(line.name, why));
            }
        }
        // A connection that broke has no sends under way for long, but some providers do not report them.
        self.leaving.retain(|line| line.sending > 0 && line.ended.is_none());
    }

    fn changed(&mut self, change: ConnectionChange) {
        let line_of =
            |places: &HashMap<usize, u32>, endpoint| places.get(&endpoint).map(|&place| place as usize);
        match change {
            ConnectionChange::Requested { request, data } => {
                let Some((number, data)) = data.split_first_chunk::<NUMBER_BYTES>() else {
                    self.foreign += 1;
                    let _ = self.passive.reject(&request, &[]);
                    return;
                };
                self.next_request += 1;
                self.requests.insert(self.next_request, (request, u32::from_le_bytes(*number)));
                let data = trimmed(data);
                self.events.push_back(Event::Requested(RequestId(self.next_request), data));
            }
            ConnectionChange::Connected { endpoint, data } => {
                let Some(Some(line)) =
                    line_of(&self.places, endpoint).and_then(|place| self.lines.get_mut(place))
                else {
                    return;
                };
                line.established = true;
                let mut rest = Vec::new();
                if let (u32::MAX, Some((number, data))) =
                    (line.theirs, data.split_first_chunk::<NUMBER_BYTES>())
                {
                    line.theirs = u32::from_le_bytes(*number);
                    rest = trimmed(data);
                }
                self.events.push_back(Event::Established(line.name, rest));
            }
            ConnectionChange::Closed { endpoint } => self.gone(endpoint, "the peer closed the connection"),
            ConnectionChange::Refused { endpoint, code, .. } => {
                let why = std::io::Error::from_raw_os_error(code).to_string();
                self.gone(endpoint, &why);
            }
        }
    }

    fn gone(&mut self, endpoint: usize, why: &str) {
        if let Some(line) =
            self.places.get(&endpoint).and_then(|&place| self.lines.get(place as usize)?.as_ref())
        {
            let name = line.name;
            self.end(name, why.to_string());
        }
        for line in self.leaving.iter_mut().filter(|line| line.endpoint.identity() == endpoint) {
            line.ended = Some(why.to_string());
        }
    }
}

fn line_of(lines: &mut [Option<Line>], connection: ConnectionId) -> Option<&mut Line> {
    lines.get_mut(place_of(connection))?.as_mut().filter(|line| line.name == connection)
}

/// Returns the private data with the number of the connection in front.
fn numbered(connection: ConnectionId, private_data: &[u8]) -> Vec<u8> {
    let mut bytes = (place_of(connection) as u32).to_le_bytes().to_vec();
    bytes.push(private_data.len() as u8);
    bytes.extend(private_data);
    bytes
}

/// Returns the private data behind the number. Providers may pad it with zeros, so its length stands in
/// front.
fn trimmed(data: &[u8]) -> Vec<u8> {
    let Some((&bytes, data)) = data.split_first() else { return Vec::new() };
    data.get(..usize::from(bytes).min(PRIVATE_BYTES)).unwrap_or_default().to_vec()
}

impl Carrier for Connected {
    const SEES_REACH: bool = false;

    fn listen_address(&self) -> &[u8] {
        &self.address
    }

    fn connect(&mut self, connection: ConnectionId, address: &[u8], private_data: &[u8]) {
        if let Err(error) = self.try_connect(connection, address, private_data) {
            self.events.push_back(Event::Closed(connection, error.to_string()));
        }
    }

    fn accept(&mut self, request: RequestId, connection: ConnectionId, private_data: &[u8]) {
        if let Err(error) = self.try_accept(request, connection, private_data) {
            self.events.push_back(Event::Closed(connection, error.to_string()));
        }
    }

    fn reject(&mut self, request: RequestId) {
        if let Some((info, _)) = self.requests.remove(&request.0) {
            let _ = self.passive.reject(&info, &[]);
        }
    }

    fn disconnect(&mut self, connection: ConnectionId) {
        if self.line(connection).is_none() {
            return;
        }
        let reads = self.is_read(connection);
        let Some(mut line) = self.lines[place_of(connection)].take() else { return };
        self.places.remove(&line.endpoint.identity());
        for held in line.held.drain(..) {
            if let (Held::Buffer(piece, _), Some(receives)) = (held, &mut self.receives) {
                receives.give(piece);
                self.kept -= 1;
            }
        }
        if line.sending > 0 && line.ended.is_none() && !reads {
            return self.leaving.push(line);
        }
        // The endpoint first: what is read into is the owner's again then.
        drop(line);
        if let Some(remote) = &mut self.remote {
            remote.reads().gone(connection);
        }
    }

    #[inline]
    fn has_room(&self, connection: ConnectionId, _bytes: usize) -> bool {
        let line = self.lines.get(place_of(connection)).and_then(Option::as_ref);
        line.is_some_and(|line| line.unsent.is_empty()) && self.sends.as_ref().is_some_and(Buffers::has_free)
    }

    fn send(
        &mut self,
        connection: ConnectionId,
        kind: CarrierKind,
        header: Header,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> std::result::Result<(), Full> {
        if kind == CarrierKind::End && self.is_read(connection) {
            return Err(Full);
        }
        let line = self.lines.get_mut(place_of(connection)).and_then(Option::as_mut).ok_or(Full)?;
        let sends = self.sends.as_mut().ok_or(Full)?;
        if line.name != connection || !line.unsent.is_empty() || !sends.has_free() {
            return Err(Full);
        }
        let (front, whole) = (Front { kind, line: line.theirs, header, bytes }, HEADER_BYTES + bytes);
        let piece = sends.take().ok_or(Full)?;
        let frame = sends.write(piece, whole);
        front.write(frame);
        fill(&mut frame[HEADER_BYTES..]);
        // The last frame is sent with a completion: all before it are sent then.
        if kind == CarrierKind::Record && whole <= self.inject_bytes && line.injected < INJECTS {
            match line.endpoint.inject(PeerAddress::UNSPECIFIED, frame) {
                Ok(true) => {
                    line.injected += 1;
                    sends.give(piece);
                    return Ok(());
                }
                Ok(false) => {}
                Err(error) => drop(line.ended.get_or_insert_with(|| error.to_string())),
            }
        }
        self.send_lines[piece as usize] = Some(connection);
        line.sending += 1;
        line.injected = 0;
        match Self::post(line, sends, piece, whole) {
            Ok(true) => {}
            Ok(false) => line.unsent.push_back((piece, whole)),
            Err(error) => {
                line.ended.get_or_insert_with(|| error.to_string());
                line.sending -= 1;
                self.send_lines[piece as usize] = None;
                sends.give(piece);
            }
        }
        Ok(())
    }

    fn lend(&mut self, to: Peer, memory: Memory) -> Option<Loan> {
        self.remote.as_mut()?.lend(None, to, memory)
    }

    fn withdraw(&mut self, loan: Loan) {
        if let Some(remote) = &mut self.remote {
            remote.withdraw(loan);
        }
    }

    fn returned(&mut self) -> Option<Loan> {
        self.remote.as_mut()?.returned()
    }

    fn read(&mut self, connection: ConnectionId, loan: Loan, memory: Memory, bytes: u64, token: u64) -> bool {
        let there = self.line(connection).is_some_and(|line| line.ended.is_none());
        let Some(remote) = self.remote.as_mut().filter(|_| there) else { return false };
        remote.read((None, connection), loan, memory, bytes, token)
    }

    fn completed(&mut self) -> Option<u64> {
        self.remote.as_mut()?.reads().completed()
    }

    fn poll(&mut self, frames: &mut impl Frames) -> bool {
        if self.receives.is_none() {
            return false;
        }
        let came = self.read();
        let mut taken = false;
        if self.kept > 0 || came > 0 {
            for place in 0..self.lines.len() {
                taken |= self.offer(place, frames);
            }
            if let Err(error) = self.post_all() {
                self.all_ended(&error);
            }
        }
        self.post_unsent();
        self.lend_and_read(frames);
        taken
    }

    fn poll_one(&mut self, connection: ConnectionId, frames: &mut impl Frames) -> bool {
        self.read();
        self.post_unsent();
        self.lend_and_read(frames);
        let taken = self.offer(place_of(connection), frames);
        if let Err(error) = self.post_all() {
            self.all_ended(&error);
        }
        taken
    }

    fn control(&mut self) {
        loop {
            match self.connection_events.read() {
                Ok(Some(change)) => self.changed(change),
                Ok(None) => break,
                Err(error) => return self.all_ended(&error),
            }
        }
        let ended = |line: &Line| line.ended.is_some();
        if self.lines.iter().flatten().chain(&self.leaving).any(ended) || !self.leaving.is_empty() {
            // What came before the end is behind it in another queue.
            while self.receives.is_some() && self.read() > 0 {}
            self.report_ended();
        }
    }

    fn is_opening(&self) -> bool {
        let opening = |line: &Line| !line.established || line.ended.is_some();
        !self.requests.is_empty() || !self.events.is_empty() || self.lines.iter().flatten().any(opening)
    }

    fn event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn pending(&self) -> bool {
        !self.events.is_empty()
            || self.remote.as_ref().is_some_and(|remote| remote.has_news())
            || !self.completions.may_wait().unwrap_or(false)
            || !self.connection_events.may_wait().unwrap_or(false)
    }

    fn is_flushed(&self) -> bool {
        let read = self.remote.as_ref().is_none_or(|remote| remote.is_flushed());
        read && self.leaving.is_empty() && self.lines.iter().flatten().all(|line| line.sending == 0)
    }

    fn before_sleep(&mut self, descriptors: &mut Vec<RawFd>) -> bool {
        descriptors.extend(self.completions.descriptor());
        descriptors.extend(self.connection_events.descriptor());
        self.events.is_empty()
            && self.completions.may_wait().unwrap_or(false)
            && self.connection_events.may_wait().unwrap_or(false)
    }

    fn memory_bytes(&self) -> usize {
        let pools = self.receives.iter().chain(&self.sends).map(Buffers::memory_bytes).sum::<usize>();
        let remote = self.remote.as_ref().map_or(0, |remote| remote.memory_bytes());
        pools + remote + self.lines.capacity() * size_of::<Option<Line>>()
    }

    fn registrations(&self) -> (u64, u64) {
        self.remote.as_ref().map_or((0, 0), |remote| remote.registrations())
    }

    fn foreign(&self) -> u64 {
        self.foreign
    }
}
