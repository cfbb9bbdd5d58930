//! The sockets of a daemon: one to its parent, one from each child, and those of strangers, who are shown the door.
//!
//! It listens only while children are missing, only on the addresses that they were told, and gives a stranger [`PROOF_TIME`]
//! and a place among [`MOST_STRANGERS`].
//!
//! Segments are so short that they pass every path: where one carries less than its ends believe and says nothing, long ones
//! would never arrive, and a daemon would look dead. What daemons say to each other is little.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use serde::{Serialize, de::DeserializeOwned};
use tutti_base::PortRange;
use tutti_sys::event::{Interest, Poller};
use tutti_sys::socket::{self, SAFE_SEGMENT_BYTES};

use crate::tree::handshake::{Admitting, CHALLENGE_BYTES, HELLO_BYTES, Joining, Nonce, PROOF_BYTES, Secret};
use crate::tree::link::{Link, Pace};
use crate::tree::message::{Cause, Down, Loss, Up};

/// Tokens in the poller.
const LISTENERS: u64 = 1 << 32;
const STRANGERS: u64 = 2 << 32;
const PARENT: u64 = 3 << 32;
const CHILDREN: u64 = 4 << 32;
/// First token that is not ours.
pub const TOKENS_END: u64 = 5 << 32;
/// First token that is ours.
pub const TOKENS: u64 = LISTENERS;

/// How long a connection may take to prove what it is.
const PROOF_TIME: Duration = Duration::from_secs(10);
/// Connections that may be proving at a time; the oldest makes room.
const MOST_STRANGERS: usize = 128;
/// Connections accepted in one go.
const AT_ONCE: usize = 32;
/// Bytes read in one go.
const PIECE: usize = 64 << 10;
/// Bytes that wait for a daemon before it counts as lost: all that is long is granted first, so this is far from what is sent.
const MOST_WAITING: usize = 256 << 20;
/// Until the plan says something else.
const FIRST_PACE: Pace = Pace { interval: Duration::from_secs(1), limit: Duration::from_secs(30) };

/// What came over the connections.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard {
    /// A child has joined.
    Joined(u32),
    /// A child says.
    Up(u32, Up),
    /// The parent says.
    Down(Down),
    /// A child's connection has ended.
    Lost(u32, Cause),
    /// The parent's connection has ended.
    ParentLost(Cause),
}

/// A connection of two who trust each other.
#[derive(Debug)]
struct Wire<Out, In> {
    stream: TcpStream,
    link: Link<Out, In>,
    watched: Interest,
    token: u64,
}

/// A connection that has proved nothing.
#[derive(Debug)]
struct Stranger {
    stream: TcpStream,
    until: Duration,
    held: Vec<u8>,
    admitting: Option<Admitting>,
}

/// All connections of a daemon.
#[derive(Debug)]
pub struct Connections {
    secret: Secret,
    /// The number of the daemon.
    number: u32,
    pace: Pace,
    listeners: Vec<TcpListener>,
    strangers: VecDeque<(u64, Stranger)>,
    next_stranger: u64,
    parent: Option<Wire<Up, Down>>,
    children: BTreeMap<u32, Wire<Down, Up>>,
    /// Connections that were shown the door.
    refused: u64,
}

impl Connections {
    /// None so far, of daemon `number`.
    pub fn new(secret: Secret, number: u32) -> Connections {
        Connections {
            secret,
            number,
            pace: FIRST_PACE,
            listeners: Vec::new(),
            strangers: VecDeque::new(),
            next_stranger: 0,
            parent: None,
            children: BTreeMap::new(),
            refused: 0,
        }
    }

    /// Sets how often to speak and how long to wait, now that it is known.
    pub fn set_pace(&mut self, pace: Pace) {
        self.pace = pace;
        if let Some(parent) = &mut self.parent {
            parent.link.set_pace(pace);
        }
    }

    /// Begins to listen, on ports of `ports` if they are said; returns where.
    ///
    /// # Errors
    /// Fails if a system call fails.
    pub fn listen(
        &mut self,
        addresses: &[IpAddr],
        ports: Option<PortRange>,
        poller: &Poller,
    ) -> io::Result<Vec<SocketAddr>> {
        let mut told = Vec::new();
        for &address in addresses {
            let listener = socket::listen(address, ports, Some(SAFE_SEGMENT_BYTES))?;
            listener.set_nonblocking(true)?;
            poller.add(listener.as_fd(), LISTENERS + self.listeners.len() as u64, Interest::Read)?;
            let port = listener.local_addr()?.port();
            let reachable =
                if address.is_unspecified() { tutti_sys::interface::all() } else { vec![address] };
            told.extend(reachable.into_iter().map(|address| SocketAddr::new(address, port)));
            self.listeners.push(listener);
        }
        Ok(told)
    }

    /// Listens no more; those who are proving are dropped.
    pub fn stop_listening(&mut self) {
        self.listeners.clear();
        self.strangers.clear();
    }

    /// Whether it listens.
    pub fn is_listening(&self) -> bool {
        !self.listeners.is_empty()
    }

    /// Connections that were shown the door.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Joins a parent by the first of its addresses that leads to it; returns the own address of that connection.
    ///
    /// # Errors
    /// Why it cannot be joined.
    pub fn join(
        &mut self,
        addresses: &[SocketAddr],
        nonce: Nonce,
        poller: &Poller,
        now: Duration,
    ) -> io::Result<IpAddr> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "no address of the parent");
        let patience = PROOF_TIME / addresses.len().max(1) as u32;
        for address in addresses {
            // An address that means something else here (a bridge for containers) answers wrongly or not at all.
            let joined = socket::connect_within(*address, Some(SAFE_SEGMENT_BYTES), patience)
                .and_then(|mut stream| Ok((prove(&mut stream, self.secret, self.number, nonce)?, stream)));
            match joined {
                Ok((agreed, stream)) => {
                    let own = stream.local_addr()?.ip();
                    let link = Link::new(agreed, self.pace, now);
                    self.parent = Some(Wire::new(stream, link, PARENT, poller)?);
                    return Ok(own);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Says something to the parent, if there is one.
    pub fn send_up(&mut self, up: &Up, now: Duration) {
        if let Some(parent) = &mut self.parent {
            parent.link.send(up, now);
        }
    }

    /// Says something to a child, if it is there.
    pub fn send_down(&mut self, child: u32, down: &Down, now: Duration) {
        if let Some(wire) = self.children.get_mut(&child) {
            wire.link.send(down, now);
        }
    }

    /// Takes an event of the poller under one of our tokens. `expects` tells which children may join.
    pub fn ready(
        &mut self,
        token: u64,
        poller: &Poller,
        now: Duration,
        expects: impl Fn(u32) -> bool,
        heard: &mut Vec<Heard>,
    ) {
        match token {
            LISTENERS..STRANGERS => self.accept((token - LISTENERS) as usize, poller, now),
            STRANGERS..PARENT => self.examine(token, poller, now, expects, heard),
            PARENT => {
                let Some(parent) = &mut self.parent else { return };
                let mut messages = Vec::new();
                let result = parent.receive(now, &mut messages);
                heard.extend(messages.into_iter().map(Heard::Down));
                if let Err(cause) = result {
                    self.parent = None;
                    heard.push(Heard::ParentLost(cause));
                }
            }
            _ => {
                let child = (token - CHILDREN) as u32;
                let Some(wire) = self.children.get_mut(&child) else { return };
                let mut messages = Vec::new();
                let result = wire.receive(now, &mut messages);
                heard.extend(messages.into_iter().map(|up| Heard::Up(child, up)));
                if let Err(cause) = result {
                    self.children.remove(&child);
                    heard.push(Heard::Lost(child, cause));
                }
            }
        }
    }

    /// Says to all that this daemon is there, while it is busy and hears nobody.
    pub fn speak(&mut self, now: Duration) {
        if let Some(parent) = &mut self.parent {
            parent.link.speak(now);
            parent.write();
        }
        for wire in self.children.values_mut() {
            wire.link.speak(now);
            wire.write();
        }
    }

    /// Writes what can be written, says what is due, and notices who is silent.
    pub fn advance(&mut self, poller: &Poller, now: Duration, heard: &mut Vec<Heard>) {
        if let Some(parent) = &mut self.parent
            && let Err(cause) = parent.advance(poller, now)
        {
            if cause == Cause::Silent {
                // Perhaps only the way from there is broken.
                parent.link.send(&Up::Lost(Loss { daemon: self.number, cause: Cause::CutOff }), now);
                parent.write();
            }
            self.parent = None;
            heard.push(Heard::ParentLost(cause));
        }
        self.children.retain(|&child, wire| match wire.advance(poller, now) {
            Ok(()) => true,
            Err(cause) => {
                heard.push(Heard::Lost(child, cause));
                false
            }
        });
        while self.strangers.front().is_some_and(|(_, stranger)| stranger.until <= now) {
            self.strangers.pop_front();
            self.refused += 1;
        }
    }

    /// When [`Connections::advance`] has something to do.
    pub fn deadline(&self) -> Option<Duration> {
        let parent = self.parent.iter().map(|parent| parent.link.deadline());
        let children = self.children.values().map(|wire| wire.link.deadline());
        let strangers = self.strangers.front().map(|(_, stranger)| stranger.until);
        parent.chain(children).chain(strangers).min()
    }

    /// Drops a child's connection.
    pub fn drop_child(&mut self, child: u32) {
        self.children.remove(&child);
    }

    /// Returns the local address of a child's connection.
    pub fn own_address(&self, child: u32) -> Option<IpAddr> {
        self.children.get(&child)?.stream.local_addr().ok().map(|address| address.ip())
    }

    /// Whether nothing waits to be written to the parent.
    pub fn is_flushed(&self) -> bool {
        self.parent.as_ref().is_none_or(|parent| parent.link.outgoing.is_empty())
    }

    fn accept(&mut self, listener: usize, poller: &Poller, now: Duration) {
        for _ in 0..AT_ONCE {
            let Some(Ok((stream, _))) = self.listeners.get(listener).map(TcpListener::accept) else { return };
            if self.strangers.len() == MOST_STRANGERS {
                self.strangers.pop_front();
                self.refused += 1;
            }
            let token = STRANGERS + self.next_stranger % (PARENT - STRANGERS);
            self.next_stranger += 1;
            let is_watched = stream.set_nonblocking(true).is_ok()
                && stream.set_nodelay(true).is_ok()
                && poller.add(stream.as_fd(), token, Interest::Read).is_ok();
            if is_watched {
                let stranger =
                    Stranger { stream, until: now + PROOF_TIME, held: Vec::new(), admitting: None };
                self.strangers.push_back((token, stranger));
            }
        }
    }

    fn examine(
        &mut self,
        token: u64,
        poller: &Poller,
        now: Duration,
        expects: impl Fn(u32) -> bool,
        heard: &mut Vec<Heard>,
    ) {
        let Some(at) = self.strangers.iter().position(|(known, _)| *known == token) else { return };
        match self.strangers[at].1.examine(self.secret) {
            Ok(None) => {}
            Ok(Some((number, agreed))) => {
                let Some((_, stranger)) = self.strangers.remove(at) else { return };
                // A child that comes twice is none: one of the two is a stranger who knows too much.
                let known = self.children.contains_key(&number);
                // It was watched under another token.
                let forgotten = poller.remove(stranger.stream.as_fd());
                let link = Link::new(agreed, self.pace, now);
                let token = CHILDREN + u64::from(number);
                match Wire::new(stranger.stream, link, token, poller) {
                    Ok(wire) if expects(number) && !known && forgotten.is_ok() => {
                        self.children.insert(number, wire);
                        heard.push(Heard::Joined(number));
                    }
                    _ => self.refused += 1,
                }
            }
            Err(_) => {
                self.strangers.remove(at);
                self.refused += 1;
            }
        }
    }
}

/// The child's side of the proof, waiting for the parent's.
fn prove(
    stream: &mut TcpStream,
    secret: Secret,
    number: u32,
    nonce: Nonce,
) -> io::Result<crate::tree::handshake::Agreed> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PROOF_TIME))?;
    stream.set_write_timeout(Some(PROOF_TIME))?;
    let (joining, hello) = Joining::new(secret, number, nonce);
    stream.write_all(&hello)?;
    let mut challenge = [0; CHALLENGE_BYTES];
    stream.read_exact(&mut challenge)?;
    let (proof, agreed) = joining.prove(&challenge).map_err(|_| {
        io::Error::new(io::ErrorKind::PermissionDenied, "the parent does not know the secret")
    })?;
    stream.write_all(&proof)?;
    Ok(agreed)
}

impl Stranger {
    /// Reads what there is; returns the child's number once it has proved that it is one.
    fn examine(&mut self, secret: Secret) -> io::Result<Option<(u32, crate::tree::handshake::Agreed)>> {
        let refused = || io::Error::from(io::ErrorKind::PermissionDenied);
        // No byte more than the proof: what follows is the link's.
        let wanted = if self.admitting.is_some() { PROOF_BYTES } else { HELLO_BYTES };
        let mut bytes = vec![0; wanted - self.held.len()];
        match self.stream.read(&mut bytes) {
            Ok(0) => return Err(refused()),
            Ok(count) => self.held.extend_from_slice(&bytes[..count]),
            Err(error) if is_passing(&error) => return Ok(None),
            Err(error) => return Err(error),
        }
        if self.held.len() < wanted {
            return Ok(None);
        }
        let held = std::mem::take(&mut self.held);
        if let Some(admitting) = &self.admitting {
            let proof: [u8; PROOF_BYTES] = held.try_into().map_err(|_| refused())?;
            let agreed = admitting.admit(&proof).map_err(|_| refused())?;
            return Ok(Some((admitting.number, agreed)));
        }
        let hello: [u8; HELLO_BYTES] = held.try_into().map_err(|_| refused())?;
        let (admitting, challenge) =
            Admitting::new(secret, &hello, &random_nonce()?).map_err(|_| refused())?;
        self.admitting = Some(admitting);
        // The first bytes on this connection: there is room for them.
        self.stream.write_all(&challenge)?;
        Ok(None)
    }
}

/// A nonce.
///
/// # Errors
/// When the system has no randomness.
pub fn random_nonce() -> io::Result<Nonce> {
    Ok(tutti_sys::job::Secret::random()?.0)
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

impl<Out: Serialize, In: DeserializeOwned> Wire<Out, In> {
    fn new(stream: TcpStream, link: Link<Out, In>, token: u64, poller: &Poller) -> io::Result<Wire<Out, In>> {
        stream.set_nonblocking(true)?;
        poller.add(stream.as_fd(), token, Interest::Read)?;
        Ok(Wire { stream, link, watched: Interest::Read, token })
    }

    fn receive(&mut self, now: Duration, messages: &mut Vec<In>) -> Result<(), Cause> {
        let mut bytes = [0; PIECE];
        match self.stream.read(&mut bytes) {
            Ok(0) => Err(Cause::Closed),
            Ok(count) => self.link.receive(&bytes[..count], now, messages).map_err(|_| Cause::Malformed),
            Err(error) if is_passing(&error) => Ok(()),
            // What a process that ends has not read resets its connections.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Err(Cause::Closed),
            Err(error) => Err(Cause::Broken(error.to_string())),
        }
    }

    fn advance(&mut self, poller: &Poller, now: Duration) -> Result<(), Cause> {
        let is_alive = self.link.tick(now);
        self.write();
        let wanted = if self.link.outgoing.is_empty() { Interest::Read } else { Interest::Both };
        if wanted != self.watched && poller.change(self.stream.as_fd(), self.token, wanted).is_ok() {
            self.watched = wanted;
        }
        if !is_alive || self.link.outgoing.len() > MOST_WAITING {
            return Err(Cause::Silent);
        }
        Ok(())
    }

    /// Writes what the socket takes.
    fn write(&mut self) {
        let outgoing = &mut self.link.outgoing;
        while !outgoing.is_empty() {
            match self.stream.write(outgoing.as_slices().0) {
                Ok(count) => drop(outgoing.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // What the other end had still to say is read before its end is noticed.
                Err(_) => {
                    outgoing.clear();
                    break;
                }
            }
        }
    }
}
