//! Connections over TCP sockets of the kernel.
//!
//! Used where no better network is available. A poll costs one system call: `recv` while there are few
//! connections, otherwise `epoll_wait`. A short record goes out by one `send`, at once. Bytes that the socket
//! does not take are queued, up to a limit. All connections receive into one piece of memory. A connection
//! has memory of its own only for a record that has arrived in part or was left. Hence a peer that sends
//! while its records are not taken meets a full socket.
//!
//! A connecting process has to send a greeting (its private data) within some seconds, and is answered by the
//! decision of the owner. A process that sends anything else is disconnected and counted.

mod bulk;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod stream;
mod waiting;
mod wire;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::time::{Duration, Instant};

use tutti_base::PortRange;
use tutti_seal::Forged;
use tutti_sys::event::{self, Interest, Poller};
use tutti_sys::socket::{self, SAFE_SEGMENT_BYTES};
use tutti_sys::{kept, kept_socket};

use super::address;
use super::carrier::{Carrier, CarrierKind, Event, Frames, RECORD_BYTES, RequestId, place_of};
use super::frame::{Front, HEADER_BYTES};
use crate::adaptive::ConnectionId;
use crate::link::{Full, Header, Peer};
use crate::loan::{Loan, Memory};
use bulk::Wish;
use stream::Stream;
pub use waiting::Sealing;
use waiting::{KernelWaiting, Opening};
pub use wire::root;

/// Length of the memory that all connections receive into: some records, and short enough to stay in a
/// processor's cache.
const ROOM_BYTES: usize = 256 << 10;
/// Number of connections up to which each is polled by itself, followed by the number of unsuccessful polls
/// in a row after which all are polled at once. That costs one system call, and another for each connection
/// that has something.
const DIRECT: usize = 2;
const DIRECT_IN_VAIN: u32 = 64;
/// Interval of the checks for stuck connections, the number of connections in one check, and the longest
/// sleep between them.
const LOOK: Duration = Duration::from_millis(500);
const LOOKED_AT: usize = 64;
const SLEEP: Duration = Duration::from_secs(5);
/// Token of the listener, and the first token of connections that are being opened (the upper half of the
/// numbers).
const LISTENER: u64 = u64::MAX;
const OPENING: u64 = 1 << 32;

/// Implementation of [`Carrier`] over TCP.
#[derive(Debug)]
pub struct Kernel {
    listener: TcpListener,
    is_kept: bool,
    interface: IpAddr,
    address: Vec<u8>,
    poller: Poller,
    ready: Vec<event::Event>,
    /// Streams of the connections, indexed by [`place_of`].
    streams: Vec<Option<Stream>>,
    /// Established connections.
    open: Vec<u32>,
    /// Number of polls in a row in which the connections had nothing.
    in_vain: u32,
    /// Connections whose records were left, or are still in memory.
    held: Vec<u32>,
    /// Connections with queued bytes.
    sending: Vec<u32>,
    /// Streams that are disconnected but still have bytes to send.
    leaving: Vec<Stream>,
    /// Streams on which bytes arrived that the peer did not send. The job ends for them.
    condemned: Vec<Stream>,
    waiting: KernelWaiting,
    events: VecDeque<Event>,
    /// True if long packets get lost on the way to some host.
    is_narrow: bool,
    /// Time without acknowledgement after which a connection counts as broken.
    silence: Duration,
    next_look: Instant,
    /// Index of the open connection that is checked next.
    looked_at: usize,
    /// Lent memory with its permitted reader, by the names of the loans.
    loans: HashMap<u64, (Peer, Memory)>,
    last_loan: u64,
    /// Completed reads, of this process and of its peers.
    completed: VecDeque<u64>,
    returned: VecDeque<Loan>,
    room: Box<[u8]>,
    scratch: Box<[u8]>,
}

impl Kernel {
    /// Listens on a port of its own at `interface`, one of `ports` if they are given. Sent bytes are
    /// acknowledged within `silence`, or the connection is broken. If `is_kept`, a checkpoint of the job
    /// keeps the connections ([`kept`]), for one carrier a process. `sealing` is their protection.
    ///
    /// # Errors
    /// What the system reports, for example that it has no such interface.
    pub fn new(
        interface: IpAddr,
        ports: Option<PortRange>,
        silence: Duration,
        is_kept: bool,
        sealing: Sealing,
    ) -> io::Result<Kernel> {
        // What is not marked yet is a socket of the program's own, and a checkpoint is refused for it.
        let critical = kept::Critical::enter();
        let listener = socket::listen(interface, ports, None)?;
        if is_kept {
            kept_socket::mark(listener.as_fd())?;
        }
        drop(critical);
        event::set_nonblocking(listener.as_fd())?;
        let poller = Poller::new()?;
        poller.add(listener.as_fd(), LISTENER, Interest::Read)?;
        Ok(Kernel {
            address: address::encode(listener.local_addr()?),
            listener,
            is_kept,
            interface,
            poller,
            ready: Vec::new(),
            streams: Vec::new(),
            open: Vec::new(),
            in_vain: 0,
            held: Vec::new(),
            sending: Vec::new(),
            leaving: Vec::new(),
            condemned: Vec::new(),
            waiting: KernelWaiting::new(sealing),
            events: VecDeque::new(),
            is_narrow: false,
            silence,
            next_look: Instant::now() + LOOK,
            looked_at: 0,
            loans: HashMap::new(),
            last_loan: 0,
            completed: VecDeque::new(),
            returned: VecDeque::new(),
            room: Box::default(),
            scratch: Box::default(),
        })
    }

    fn stream(&self, connection: ConnectionId) -> Option<&Stream> {
        self.streams.get(place_of(connection))?.as_ref().filter(|stream| stream.name() == connection)
    }

    /// Returns the stream at an index of the table.
    fn stream_at(&self, place: u32) -> Option<&Stream> {
        self.streams.get(place as usize)?.as_ref()
    }

    /// Makes a stream an established connection.
    fn establish(&mut self, stream: Stream, private_data: Vec<u8>) {
        let connection = stream.name();
        let place = place_of(connection);
        if self.streams.len() <= place {
            self.streams.resize_with(place + 1, || None);
        }
        if self.room.is_empty() {
            self.room = vec![0; ROOM_BYTES].into();
            self.scratch = vec![0; HEADER_BYTES + RECORD_BYTES].into();
        }
        let added = self.poller.change(stream.socket().as_fd(), place as u64, Interest::Read);
        debug_assert!(added.is_ok(), "the socket was watched while it was opened");
        if stream.holds() {
            self.held.push(place as u32);
        }
        self.streams[place] = Some(stream);
        self.open.push(place as u32);
        self.events.push_back(Event::Established(connection, private_data));
    }

    /// Removes a connection from all tables.
    fn remove(&mut self, place: u32) -> Option<Stream> {
        for list in [&mut self.open, &mut self.held, &mut self.sending] {
            list.retain(|&other| other != place);
        }
        self.streams.get_mut(place as usize)?.take()
    }

    fn broke(&mut self, place: u32, error: &io::Error) {
        let why = match error.kind() {
            io::ErrorKind::UnexpectedEof => "the peer closed the connection".to_string(),
            _ => error.to_string(),
        };
        if let Some(stream) = self.remove(place) {
            self.events.push_back(Event::Closed(stream.name(), why));
            if error.get_ref().is_some_and(|error| error.is::<Forged>()) {
                // Closed, it would make the peer report a lost connection, perhaps before this process says
                // why.
                let _ = self.poller.change(stream.socket().as_fd(), OPENING, Interest::Nothing);
                self.condemned.push(stream);
            }
        }
    }

    /// Receives on one connection, or offers held records again. Returns true if anything was taken.
    fn receive(&mut self, place: u32, frames: &mut impl Frames) -> bool {
        let Some(stream) = self.streams.get_mut(place as usize).and_then(Option::as_mut) else {
            return false;
        };
        let (held, was_queued, name) = (stream.holds(), stream.is_queued(), stream.name());
        let mut hand = |kind, header, payload: &[u8]| frames.arrived(name, kind, header, payload);
        let result = stream.receive(&mut self.room, &mut hand);
        let holds = stream.holds();
        self.completed.extend(stream.take_completed());
        let wishes = stream.take_wishes();
        // A restart was noticed: a salt waits.
        let begins_sending = stream.is_queued() && !was_queued;
        if holds != held {
            let _ = self.poller.change(stream.socket().as_fd(), u64::from(place), stream.interest());
            if holds {
                self.held.push(place);
            } else {
                self.held.retain(|&other| other != place);
            }
        }
        if begins_sending {
            self.begin_sending(place);
        }
        let peer = frames.peer(name);
        match result.and_then(|taken| self.grant(place, peer, &wishes).map(|()| taken)) {
            Ok(taken) => {
                // What came with the wishes may make the owner say what it wants to read itself. That would
                // wait behind all that the socket takes now, so it is the owner's turn first.
                if !wishes.is_empty() && !taken {
                    self.flush(place);
                }
                taken
            }
            Err(error) => {
                self.broke(place, &error);
                false
            }
        }
    }

    /// Queues the answers to the peer's read requests on a connection; the next flush sends them.
    fn grant(&mut self, place: u32, peer: Option<Peer>, wishes: &[Wish]) -> io::Result<()> {
        for &wish in wishes {
            let strange =
                || io::Error::new(io::ErrorKind::InvalidData, "the peer reads what was not lent to it");
            let its = |(to, memory): &&(Peer, Memory)| Some(*to) == peer && wish.bytes <= memory.bytes();
            let (_, memory) = self.loans.get(&wish.loan).filter(its).ok_or_else(strange)?;
            let memory = Memory::clone(memory);
            let Some(stream) = self.streams.get_mut(place as usize).and_then(Option::as_mut) else { break };
            let was_queued = stream.is_queued();
            stream.answer(memory, wish);
            if !was_queued && stream.is_queued() {
                let _ = self.poller.change(stream.socket().as_fd(), u64::from(place), stream.interest());
                self.sending.push(place);
            }
        }
        Ok(())
    }

    /// Marks a connection as one with queued bytes to send.
    fn begin_sending(&mut self, place: u32) {
        if self.sending.contains(&place) {
            return;
        }
        if let Some(stream) = self.stream_at(place) {
            let _ = self.poller.change(stream.socket().as_fd(), u64::from(place), stream.interest());
            self.sending.push(place);
        }
    }

    /// Sends the queued bytes of one connection.
    fn flush(&mut self, place: u32) {
        let Some(stream) = self.streams.get_mut(place as usize).and_then(Option::as_mut) else { return };
        let flushed = stream.flush();
        for loan in stream.take_returned() {
            self.loans.remove(&loan);
            self.returned.push_back(Loan::named(loan));
        }
        match flushed {
            Ok(true) => {
                self.sending.retain(|&other| other != place);
                let _ = self.poller.change(stream.socket().as_fd(), u64::from(place), stream.interest());
            }
            Ok(false) => {}
            Err(error) => self.broke(place, &error),
        }
    }

    fn flush_all(&mut self) {
        let mut place = 0;
        while let Some(&connection) = self.sending.get(place) {
            self.flush(connection);
            place += usize::from(self.sending.get(place) == Some(&connection));
        }
        self.leaving.retain_mut(|stream| matches!(stream.flush(), Ok(false)));
    }

    fn offer_held(&mut self, frames: &mut impl Frames) -> bool {
        let mut taken = false;
        for place in (0..self.held.len()).rev() {
            if let Some(&connection) = self.held.get(place) {
                taken |= self.receive(connection, frames);
            }
        }
        taken
    }

    /// Asks the system which sockets are ready.
    fn look(&mut self) {
        self.ready.clear();
        let waited = self.poller.wait(Some(Duration::ZERO), &mut self.ready);
        debug_assert!(waited.is_ok(), "a set of descriptors can be waited for");
    }

    /// Handles the ready sockets of connections that are not established.
    fn open_ready(&mut self) {
        for place in 0..self.ready.len() {
            match self.ready[place].token {
                LISTENER => self.waiting.accept_all(&self.listener, &self.poller),
                token if token >= OPENING => self.advance(token),
                _ => {}
            }
        }
    }

    /// Makes progress on one connection that is not established.
    fn advance(&mut self, token: u64) {
        match self.waiting.advance(token, &self.poller) {
            Some(Opening::Event(event)) => self.events.push_back(event),
            Some(Opening::Connected(stream, data)) => self.establish(*stream, data),
            None => {}
        }
    }

    /// Takes the bytes that a checkpoint has taken out of sockets. They come before all that the sockets
    /// contain.
    #[cold]
    fn take_back(&mut self) {
        let mut all = Vec::new();
        kept::take_back(|socket, bytes| all.push((socket, bytes.to_vec())));
        for (socket, bytes) in all {
            if let Some(token) = self.waiting.give_back(socket, &bytes) {
                self.advance(token);
                continue;
            }
            let its = |stream: &Stream| stream.socket().as_raw_fd() == socket;
            let place = self.streams.iter().position(|stream| stream.as_ref().is_some_and(its));
            // Of one that was disconnected nobody wants to hear anything.
            let Some(place) = place else { continue };
            let Some(stream) = self.streams[place].as_mut() else { continue };
            let held = stream.holds();
            stream.give_back(&bytes);
            self.completed.extend(stream.take_completed());
            if stream.holds() && !held {
                let _ = self.poller.change(stream.socket().as_fd(), place as u64, stream.interest());
                self.held.push(place as u32);
            }
        }
    }
}

impl Kernel {
    /// Marks a socket as one that a checkpoint can keep, if it keeps those of this carrier.
    fn mark(&self, socket: &impl AsFd) -> io::Result<()> {
        if self.is_kept { kept_socket::mark(socket.as_fd()) } else { Ok(()) }
    }

    fn begin(&mut self, connection: ConnectionId, to: &[u8], private_data: &[u8], is_narrow: bool) {
        let interface = (!self.interface.is_unspecified()).then_some(self.interface);
        // As in `new`.
        let critical = kept::Critical::enter();
        let begun = address::decode(to)
            .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))
            .and_then(|to: SocketAddr| {
                let is_narrow = is_narrow || self.is_narrow;
                socket::connect(to, interface, is_narrow.then_some(SAFE_SEGMENT_BYTES))
            })
            .and_then(|socket| self.mark(&socket).map(|()| socket));
        drop(critical);
        let begun =
            begun.and_then(|socket| self.waiting.connecting(connection, socket, private_data, &self.poller));
        if let Err(error) = begun {
            self.events.push_back(Event::Closed(connection, error.to_string()));
        }
    }

    /// Notes that long packets to this host get lost: a connection to it came up, but nothing sent on it was
    /// acknowledged. Later connections use short packets.
    fn found_narrow(&mut self, host: IpAddr) {
        if !std::mem::replace(&mut self.is_narrow, true) {
            self.events.push_back(Event::Narrow(host.to_string()));
        }
    }

    /// Breaks connections on which nothing is acknowledged for too long. Otherwise nothing would show that
    /// for a quarter of an hour.
    fn look_for_stuck(&mut self) {
        let now = Instant::now();
        if self.open.is_empty() && self.waiting.is_empty() || now < self.next_look {
            return;
        }
        self.next_look = now + LOOK;
        for (connection, host) in self.waiting.give_up_stuck() {
            self.found_narrow(host);
            let why = "the long packet sent to open it got lost again and again";
            self.events.push_back(Event::Closed(connection, why.to_string()));
        }
        let mut broken = Vec::new();
        for _ in 0..self.open.len().min(LOOKED_AT) {
            self.looked_at = (self.looked_at + 1) % self.open.len();
            let place = self.open[self.looked_at];
            let Some(Some(stream)) = self.streams.get_mut(place as usize) else { continue };
            if stream.stuck(now) >= self.silence {
                broken.push(place);
            }
        }
        for place in broken {
            let reason = format!(
                "for {:?} (TUTTI_SILENCE_MS) nothing of what was sent over the connection has been acknowledged: its host is \
                 gone, or long packets get lost on the way (a network that carries less than the interface's MTU, and a \
                 firewall that drops the ICMP messages which say so)",
                self.silence
            );
            self.broke(place, &io::Error::new(io::ErrorKind::TimedOut, reason));
        }
    }
}

impl Carrier for Kernel {
    const SEES_REACH: bool = true;

    fn listen_address(&self) -> &[u8] {
        &self.address
    }

    fn moved(&mut self) {
        // Limits of before are by a clock that may have been another.
        self.next_look = Instant::now() + LOOK;
        self.streams.iter_mut().flatten().for_each(Stream::forget_stuck);
        // Each end of a sealed stream waits for the other's salt.
        for place in self.open.clone() {
            self.begin_sending(place);
            self.flush(place);
        }
        let Ok(address) = self.listener.local_addr() else { return };
        self.address = address::encode(address);
        if !self.interface.is_unspecified() {
            self.interface = address.ip();
        }
    }

    fn connect(&mut self, connection: ConnectionId, to: &[u8], private_data: &[u8]) {
        self.begin(connection, to, private_data, false);
    }

    fn connect_narrow(&mut self, connection: ConnectionId, to: &[u8], private_data: &[u8]) {
        self.begin(connection, to, private_data, true);
    }

    fn narrow(&mut self) {
        self.is_narrow = true;
    }

    fn accept(&mut self, request: RequestId, connection: ConnectionId, private_data: &[u8]) {
        match self.waiting.accept(request, connection, private_data) {
            Ok(stream) => self.establish(stream, Vec::new()),
            Err(error) => self.events.push_back(Event::Closed(connection, error.to_string())),
        }
    }

    fn reject(&mut self, request: RequestId) {
        self.waiting.reject(request);
    }

    fn disconnect(&mut self, connection: ConnectionId) {
        if let Some(host) = self.waiting.forget(connection) {
            self.found_narrow(host);
        }
        if self.stream(connection).is_some()
            && let Some(mut stream) = self.remove(place_of(connection) as u32)
        {
            if stream.is_deaf()
                && let Ok(peer) = stream.socket().peer_addr()
            {
                self.found_narrow(peer.ip());
            }
            if !matches!(stream.flush(), Ok(false)) {
                return;
            }
            let _ = self.poller.change(stream.socket().as_fd(), OPENING, Interest::Write);
            self.leaving.push(stream);
        }
    }

    #[inline]
    fn has_room(&self, connection: ConnectionId, bytes: usize) -> bool {
        self.stream(connection).is_some_and(|stream| stream.has_room(bytes))
    }

    #[inline]
    fn send(
        &mut self,
        connection: ConnectionId,
        kind: CarrierKind,
        header: Header,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), Full> {
        let stream = self.streams.get_mut(place_of(connection)).and_then(Option::as_mut).ok_or(Full)?;
        if stream.name() != connection
            || !stream.has_room(bytes)
            || kind == CarrierKind::End && stream.is_read()
        {
            return Err(Full);
        }
        let frame = &mut self.scratch[..HEADER_BYTES + bytes];
        Front { kind, line: 0, header, bytes }.write(frame);
        fill(&mut frame[HEADER_BYTES..]);
        let was_queued = stream.is_queued();
        match stream.send(frame) {
            Ok(true) => {}
            Ok(false) if was_queued => {}
            Ok(false) => {
                let (socket, interest) = (stream.socket().as_fd(), stream.interest());
                let _ = self.poller.change(socket, place_of(connection) as u64, interest);
                self.sending.push(place_of(connection) as u32);
            }
            // The record is lost with the connection, as those on their way are; that is reported.
            Err(error) => self.broke(place_of(connection) as u32, &error),
        }
        Ok(())
    }

    fn lend(&mut self, to: Peer, memory: Memory) -> Option<Loan> {
        self.last_loan += 1;
        self.loans.insert(self.last_loan, (to, memory));
        Some(Loan::named(self.last_loan))
    }

    fn withdraw(&mut self, loan: Loan) {
        self.loans.remove(&loan.name);
    }

    fn returned(&mut self) -> Option<Loan> {
        self.returned.pop_front()
    }

    fn read(&mut self, connection: ConnectionId, loan: Loan, memory: Memory, bytes: u64, token: u64) -> bool {
        let wish = Wish { loan: loan.name, bytes, token };
        if bytes == 0 || self.send(connection, CarrierKind::Read, wish.header(), 0, |_| ()).is_err() {
            return false;
        }
        // If there is none any more, it broke just now, which is reported.
        if let Some(stream) = self.streams.get_mut(place_of(connection)).and_then(Option::as_mut) {
            stream.expect(memory, wish);
        }
        true
    }

    fn completed(&mut self) -> Option<u64> {
        self.completed.pop_front()
    }

    fn poll(&mut self, frames: &mut impl Frames) -> bool {
        if kept::has_given_back() && self.is_kept {
            self.take_back();
        }
        if !self.sending.is_empty() || !self.leaving.is_empty() {
            self.flush_all();
        }
        let mut taken = !self.held.is_empty() && self.offer_held(frames);
        if self.open.len() < 2 || self.open.len() <= DIRECT && self.in_vain < DIRECT_IN_VAIN {
            for place in (0..self.open.len()).rev() {
                match self.open.get(place) {
                    Some(&connection) if !self.held.contains(&connection) => {
                        taken |= self.receive(connection, frames);
                    }
                    _ => {}
                }
            }
            self.in_vain = if taken { 0 } else { self.in_vain.saturating_add(1) };
            return taken;
        }
        self.look();
        self.open_ready();
        for place in 0..self.ready.len() {
            let token = self.ready[place].token;
            if token < OPENING && !self.held.contains(&(token as u32)) {
                taken |= self.receive(token as u32, frames);
            }
        }
        if taken {
            self.in_vain = 0;
        }
        taken
    }

    fn poll_one(&mut self, connection: ConnectionId, frames: &mut impl Frames) -> bool {
        let place = place_of(connection) as u32;
        if !self.sending.is_empty() {
            self.flush(place);
        }
        self.stream(connection).is_some() && self.receive(place, frames)
    }

    fn control(&mut self) {
        if kept::has_given_back() && self.is_kept {
            self.take_back();
        }
        self.waiting.expire();
        self.look_for_stuck();
        self.look();
        self.open_ready();
    }

    fn is_opening(&self) -> bool {
        !self.waiting.is_empty() || !self.events.is_empty()
    }

    fn event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn pending(&self) -> bool {
        let more = |&place: &u32| self.stream_at(place).is_some_and(Stream::has_more);
        !self.events.is_empty()
            || !self.completed.is_empty()
            || !self.returned.is_empty()
            || self.held.iter().any(more)
            || kept::has_given_back()
    }

    fn is_flushed(&self) -> bool {
        self.sending.is_empty() && self.leaving.is_empty()
    }

    fn is_ready(&self, ready: &[RawFd]) -> bool {
        ready.contains(&self.poller.as_fd().as_raw_fd())
    }

    fn before_sleep(&mut self, descriptors: &mut Vec<RawFd>) -> bool {
        descriptors.push(self.poller.as_fd().as_raw_fd());
        self.events.is_empty() && !kept::has_given_back()
    }

    fn rest(&self) -> Option<Duration> {
        if !self.waiting.is_empty() {
            return Some(LOOK);
        }
        (!self.open.is_empty()).then_some(SLEEP)
    }

    fn memory_bytes(&self) -> usize {
        let streams = self.streams.iter().flatten().chain(&self.leaving);
        let own: usize = streams.map(Stream::memory_bytes).sum();
        own + self.room.len() + self.scratch.len() + self.streams.capacity() * size_of::<Option<Stream>>()
    }

    fn foreign(&self) -> u64 {
        self.waiting.foreign
    }
}
