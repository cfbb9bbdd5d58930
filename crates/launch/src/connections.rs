//! Sockets of a daemon: one to its parent, one from each child, and those of strangers, which have not proved
//! the secret yet.
//!
//! The daemon listens only while children are missing, and only on the addresses that they got. A stranger
//! has [`PROOF_TIME`] for its proof, and at most [`MOST_STRANGERS`] may be connected.
//!
//! TCP segments are short enough for every network path. A path may carry shorter segments than both ends
//! assume, and drop longer ones silently, so that a daemon would seem dead. Short segments cost little, as
//! daemons exchange few bytes.

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

/// Ranges of tokens in the poller, by kind of connection.
const LISTENERS: u64 = 1 << 32;
const STRANGERS: u64 = 2 << 32;
const PARENT: u64 = 3 << 32;
const CHILDREN: u64 = 4 << 32;
/// First token that does not belong to this module.
pub const TOKENS_END: u64 = 5 << 32;
/// First token that belongs to this module.
pub const TOKENS: u64 = LISTENERS;

/// Maximum time for the proof of a new connection.
const PROOF_TIME: Duration = Duration::from_secs(10);
/// Maximum number of connections without proof; a new one replaces the oldest.
const MOST_STRANGERS: usize = 128;
/// Maximum number of connections that are accepted at once.
const AT_ONCE: usize = 32;
/// Maximum bytes that are read at once.
const PIECE: usize = 64 << 10;
/// Maximum bytes that wait for a daemon before it counts as lost. Long data are granted by credit first, so
/// that normal traffic stays far below.
const MOST_WAITING: usize = 256 << 20;
/// Heartbeat times before the plan sets others.
const FIRST_PACE: Pace = Pace { interval: Duration::from_secs(1), limit: Duration::from_secs(30) };

/// Event on the connections of a daemon.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard {
    /// A child has proved the secret and joined.
    Joined(u32),
    /// A child has sent a message.
    Up(u32, Up),
    /// The parent has sent a message.
    Down(Down),
    /// The connection of a child has ended.
    Lost(u32, Cause),
    /// The connection of the parent has ended.
    ParentLost(Cause),
}

/// Connection whose ends have proved the secret.
#[derive(Debug)]
struct Wire<Out, In> {
    stream: TcpStream,
    link: Link<Out, In>,
    watched: Interest,
    token: u64,
}

/// Connection without a proof so far.
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
    /// Number of this daemon.
    number: u32,
    pace: Pace,
    listeners: Vec<TcpListener>,
    strangers: VecDeque<(u64, Stranger)>,
    next_stranger: u64,
    parent: Option<Wire<Up, Down>>,
    children: BTreeMap<u32, Wire<Down, Up>>,
    /// Number of connections that were refused.
    refused: u64,
}

impl Connections {
    /// Creates the connections of daemon `number`, none so far.
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

    /// Sets the heartbeat times, now that they are known.
    pub fn set_pace(&mut self, pace: Pace) {
        self.pace = pace;
        if let Some(parent) = &mut self.parent {
            parent.link.set_pace(pace);
        }
    }

    /// Listens on the addresses, on ports of `ports` if there are any. Returns the addresses at which
    /// children reach this daemon.
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

    /// Stops listening. Connections without a proof are closed.
    pub fn stop_listening(&mut self) {
        self.listeners.clear();
        self.strangers.clear();
    }

    /// Returns true while the daemon listens.
    pub fn is_listening(&self) -> bool {
        !self.listeners.is_empty()
    }

    /// Returns the number of connections that were refused.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Joins the parent at the first of its addresses that works. Returns the local address of that
    /// connection.
    ///
    /// # Errors
    /// Fails if the parent cannot be reached or does not know the secret; the error is that of the last
    /// address.
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
            // The address may mean another machine here (a bridge for containers), which replies wrongly or
            // not at all.
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

    /// Sends a message to the parent, if there is one.
    pub fn send_up(&mut self, up: &Up, now: Duration) {
        if let Some(parent) = &mut self.parent {
            parent.link.send(up, now);
        }
    }

    /// Sends a message to a child, if it is connected.
    pub fn send_down(&mut self, child: u32, down: &Down, now: Duration) {
        if let Some(wire) = self.children.get_mut(&child) {
            wire.link.send(down, now);
        }
    }

    /// Handles an event of the poller under a token of this module. `expects` returns true for children that
    /// may join.
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

    /// Sends heartbeats on all connections, for a daemon that is busy and receives nothing.
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

    /// Writes as much as possible, sends due heartbeats, and detects silent connections.
    pub fn advance(&mut self, poller: &Poller, now: Duration, heard: &mut Vec<Heard>) {
        if let Some(parent) = &mut self.parent
            && let Err(cause) = parent.advance(poller, now)
        {
            if cause == Cause::Silent {
                // Only the direction from the parent may be broken.
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

    /// Returns the time at which [`Connections::advance`] must be called next, if any.
    pub fn deadline(&self) -> Option<Duration> {
        let parent = self.parent.iter().map(|parent| parent.link.deadline());
        let children = self.children.values().map(|wire| wire.link.deadline());
        let strangers = self.strangers.front().map(|(_, stranger)| stranger.until);
        parent.chain(children).chain(strangers).min()
    }

    /// Closes the connection of a child.
    pub fn drop_child(&mut self, child: u32) {
        self.children.remove(&child);
    }

    /// Returns the local address of a child's connection.
    pub fn own_address(&self, child: u32) -> Option<IpAddr> {
        self.children.get(&child)?.stream.local_addr().ok().map(|address| address.ip())
    }

    /// Returns true if no bytes wait to be written to the parent.
    pub fn is_flushed(&self) -> bool {
        self.parent.as_ref().is_none_or(|parent| parent.link.outgoing.is_empty())
    }

    /// Accepts connections of strangers on a listening socket.
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

    /// Continues the handshake with a stranger, which becomes a child after a valid proof.
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
                // A child that joins twice is refused. One of the two would be a stranger that knows the
                // secret.
                let known = self.children.contains_key(&number);
                // The connection was watched under another token before.
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

/// Performs the child's side of the handshake, and waits for the parent's.
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
    /// Reads the bytes that have arrived. Returns the child's number once it has proved the secret.
    fn examine(&mut self, secret: Secret) -> io::Result<Option<(u32, crate::tree::handshake::Agreed)>> {
        let refused = || io::Error::from(io::ErrorKind::PermissionDenied);
        // Not a byte after the proof is read, since the link must read what follows.
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
        // These are the first bytes on this connection, so that there is room for them.
        self.stream.write_all(&challenge)?;
        Ok(None)
    }
}

/// Draws a random nonce for a handshake.
///
/// # Errors
/// Fails if the system provides no randomness.
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

    /// Reads the messages that have arrived.
    fn receive(&mut self, now: Duration, messages: &mut Vec<In>) -> Result<(), Cause> {
        let mut bytes = [0; PIECE];
        match self.stream.read(&mut bytes) {
            Ok(0) => Err(Cause::Closed),
            Ok(count) => self.link.receive(&bytes[..count], now, messages).map_err(|_| Cause::Malformed),
            Err(error) if is_passing(&error) => Ok(()),
            // The system resets a connection if a process ends with unread bytes.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Err(Cause::Closed),
            Err(error) => Err(Cause::Broken(error.to_string())),
        }
    }

    /// Sends due heartbeats, writes as much as possible, and checks that the other end is alive.
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

    /// Writes as much as the socket accepts.
    fn write(&mut self) {
        let outgoing = &mut self.link.outgoing;
        while !outgoing.is_empty() {
            match self.stream.write(outgoing.as_slices().0) {
                Ok(count) => drop(outgoing.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // Bytes that the other end sent before its end are still read.
                Err(_) => {
                    outgoing.clear();
                    break;
                }
            }
        }
    }
}
