//! Connections over TCP sockets of the kernel.
//!
//! Used where no better network is there. A poll costs one call to the kernel: `recv` while there are few connections, else
//! `epoll_wait`. A short record goes out by one `send`, at once; what the socket does not take is queued, up to a bound.
//! All connections receive into one piece of memory, and a connection has memory of its own only for a record
//! that has arrived in part or was left: a peer that sends without its records being taken meets a full socket.
//!
//! Whoever connects has to say hello (its private data) within some seconds and is answered by its owner's decision; what
//! says something else is closed and counted.

mod bulk;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod stream;
mod waiting;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::time::Duration;

use tutti_sys::event::{self, Interest, Poller};
use tutti_sys::socket;

use super::address;
use super::carrier::{Carrier, Event, Frames, Kind, RECORD_BYTES, RequestId, place_of};
use super::frame::{Front, HEADER_BYTES};
use crate::adaptive::ConnectionId;
use crate::link::{Full, Header, Peer};
use crate::loan::{Loan, Memory};
use bulk::Wish;
use stream::Stream;
use waiting::{Opening, Waiting};

/// Memory that all connections receive into: some records, and little enough to stay in a processor's cache.
const ROOM_BYTES: usize = 256 << 10;
/// Connections up to which each is asked by itself.
const DIRECT: usize = 2;
/// The token of the listener, and of connections that are being opened (the upper half of the numbers).
const LISTENER: u64 = u64::MAX;
const OPENING: u64 = 1 << 32;

/// A [`Carrier`] over TCP.
#[derive(Debug)]
pub struct Kernel {
    listener: TcpListener,
    interface: IpAddr,
    address: Vec<u8>,
    poller: Poller,
    ready: Vec<event::Event>,
    /// By [`place_of`].
    streams: Vec<Option<Stream>>,
    /// Established ones.
    open: Vec<u32>,
    /// Those whose records were left, or are still in memory.
    held: Vec<u32>,
    /// Those with something queued to be sent.
    sending: Vec<u32>,
    /// Disconnected, but not yet sent out.
    leaving: Vec<Stream>,
    waiting: Waiting,
    events: VecDeque<Event>,
    /// Memory and who may read it, by the names of the loans.
    loans: HashMap<u64, (Peer, Memory)>,
    last_loan: u64,
    /// Reads that are over, of this process and of its peers.
    completed: VecDeque<u64>,
    returned: VecDeque<Loan>,
    room: Box<[u8]>,
    scratch: Box<[u8]>,
}

impl Kernel {
    /// Listens on a port of its own at `interface`.
    ///
    /// # Errors
    /// What the system reports, for example that it has no such interface.
    pub fn new(interface: IpAddr) -> io::Result<Kernel> {
        let listener = TcpListener::bind((interface, 0))?;
        event::set_nonblocking(listener.as_fd())?;
        let poller = Poller::new()?;
        poller.add(listener.as_fd(), LISTENER, Interest::Read)?;
        Ok(Kernel {
            address: address::encode(listener.local_addr()?),
            listener,
            interface,
            poller,
            ready: Vec::new(),
            streams: Vec::new(),
            open: Vec::new(),
            held: Vec::new(),
            sending: Vec::new(),
            leaving: Vec::new(),
            waiting: Waiting::default(),
            events: VecDeque::new(),
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

    /// The connection at a place of the table.
    fn at(&self, place: u32) -> Option<&Stream> {
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

    /// Takes a connection out of everything.
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
        }
    }

    /// Receives on one connection, or offers again what it holds. True if anything was taken.
    fn receive(&mut self, place: u32, frames: &mut impl Frames) -> bool {
        let Some(stream) = self.streams.get_mut(place as usize).and_then(Option::as_mut) else {
            return false;
        };
        let (held, name) = (stream.holds(), stream.name());
        let mut hand = |kind, header, payload: &[u8]| frames.arrived(name, kind, header, payload);
        let result = stream.receive(&mut self.room, &mut hand);
        let holds = stream.holds();
        self.completed.extend(stream.take_completed());
        let wishes = stream.take_wishes();
        if holds != held {
            let _ = self.poller.change(stream.socket().as_fd(), u64::from(place), stream.interest());
            if holds {
                self.held.push(place);
            } else {
                self.held.retain(|&other| other != place);
            }
        }
        let peer = frames.peer(name);
        match result.and_then(|taken| self.grant(place, peer, &wishes).map(|()| taken)) {
            Ok(taken) => {
                // What came with the wishes may make the owner say what it wants to read itself. That would wait behind all that
                // the socket takes now, so it is the owner's turn first.
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

    /// What the peer of a connection wants to read is sent from the next flush on.
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

    /// Sends what is queued on one connection.
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

    /// Does what the ready sockets of connections that are not established ask for.
    fn open_ready(&mut self) {
        for place in 0..self.ready.len() {
            match self.ready[place].token {
                LISTENER => self.waiting.accept_all(&self.listener, &self.poller),
                token if token >= OPENING => match self.waiting.advance(token, &self.poller) {
                    Some(Opening::Event(event)) => self.events.push_back(event),
                    Some(Opening::Connected(stream, data)) => self.establish(*stream, data),
                    None => {}
                },
                _ => {}
            }
        }
    }
}

impl Carrier for Kernel {
    fn listen_address(&self) -> &[u8] {
        &self.address
    }

    fn connect(&mut self, connection: ConnectionId, to: &[u8], private_data: &[u8]) {
        let interface = (!self.interface.is_unspecified()).then_some(self.interface);
        let begun = address::decode(to)
            .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))
            .and_then(|to: SocketAddr| socket::connect(to, interface, None))
            .and_then(|socket| self.waiting.connecting(connection, socket, private_data, &self.poller));
        if let Err(error) = begun {
            self.events.push_back(Event::Closed(connection, error.to_string()));
        }
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
        self.waiting.forget(connection);
        if self.stream(connection).is_some()
            && let Some(mut stream) = self.remove(place_of(connection) as u32)
            && matches!(stream.flush(), Ok(false))
        {
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
        kind: Kind,
        header: Header,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), Full> {
        let stream = self.streams.get_mut(place_of(connection)).and_then(Option::as_mut).ok_or(Full)?;
        if stream.name() != connection || !stream.has_room(bytes) || kind == Kind::End && stream.is_read() {
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
        if bytes == 0 || self.send(connection, Kind::Read, wish.header(), 0, |_| ()).is_err() {
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
        if !self.sending.is_empty() || !self.leaving.is_empty() {
            self.flush_all();
        }
        let mut taken = !self.held.is_empty() && self.offer_held(frames);
        if self.open.len() <= DIRECT {
            for place in (0..self.open.len()).rev() {
                match self.open.get(place) {
                    Some(&connection) if !self.held.contains(&connection) => {
                        taken |= self.receive(connection, frames);
                    }
                    _ => {}
                }
            }
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
        self.waiting.expire(&mut self.events);
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
        let more = |&place: &u32| self.at(place).is_some_and(Stream::has_more);
        !self.events.is_empty()
            || !self.completed.is_empty()
            || !self.returned.is_empty()
            || self.held.iter().any(more)
            || event::is_readable(self.poller.as_fd())
    }

    fn is_flushed(&self) -> bool {
        self.sending.is_empty() && self.leaving.is_empty()
    }

    fn before_sleep(&mut self, descriptors: &mut Vec<RawFd>) -> bool {
        descriptors.push(self.poller.as_fd().as_raw_fd());
        self.events.is_empty()
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
