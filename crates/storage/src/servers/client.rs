//! Connections of a program to the servers of a mount, and requests to several of them at a time
//! ("errands").
//!
//! A process has one connection to each server, used by one errand at a time. An errand is a request with
//! the data that it sends or receives. Errands of several servers run at the same time. Their bytes go
//! directly from and to the program's memory.
//!
//! **Lost servers.** If a server is killed, its system reports that at once, or at the next access. A host
//! that has vanished reports nothing. Therefore bytes are sent while nothing arrives. If the other system
//! does not acknowledge them after two retransmissions, the server is considered lost. On a busy host the
//! second retransmission may be late. Therefore one retransmission suffices after 700 ms without any
//! acknowledgement, so that the whole wait stays below a second. The system of a server that is only busy
//! does acknowledge.
//!
//! **Checkpoints.** A process that has locked a server is not stopped ([`Critical`]), so no errand is in
//! progress during a checkpoint. A restored process finds its connections closed. It reads the servers'
//! present addresses, connects, and opens its files again by name when it needs them.

use std::io::{self, IoSlice, IoSliceMut, Write};
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tutti_base::traffic::TRAFFIC;
use tutti_base::{Error, ErrorClass, Result};
use tutti_seal::{Cover, StreamKeys};
use tutti_sys::kept::{self, Critical};
use tutti_sys::{event, kept_socket, local_socket, socket};

use super::greeting::{End, Greeting, Key, number, token};
use super::mount::{self, Mount, Server};
use super::sealed_socket::SealedSocket;
use super::wire::{self, HEADER_BYTES, Header, Reply, Request, Token, VERSION};

/// Maximum time to connect, and to wait for each reply of the greeting.
const CONNECT: Duration = Duration::from_millis(800);
/// Time without incoming bytes after which some are sent.
const SILENCE: Duration = Duration::from_millis(100);
/// Maximum time for a server to lend a file; after that its bytes are requested over the connection.
const LEND: Duration = Duration::from_millis(500);
/// Number of unanswered retransmissions after which a server is considered lost.
const REPETITIONS: u32 = 2;
/// Time without acknowledgement after which one retransmission suffices.
const UNHEARD: Duration = Duration::from_millis(700);
/// Maximum number of memory pieces in one call.
const PIECES: usize = 256;

/// Source of the servers' addresses.
#[derive(Clone, Debug)]
pub enum Source {
    /// Path of a mount file, which is read again when a server is lost.
    File(PathBuf),
    /// Text of a mount file.
    Text(String),
}

/// Client of all servers of a mount; see the module.
#[derive(Debug)]
pub struct Client {
    source: Source,
    mount: Mount,
    /// True if open files are requested from servers on this host.
    borrows: bool,
    /// Minimum protection of data sent and received.
    cover: Option<Cover>,
    peers: Vec<Mutex<Peer>>,
}

/// Lock on a server, for one caller at a time.
#[derive(Debug)]
pub struct Engaged<'a> {
    peer: MutexGuard<'a, Peer>,
    /// Critical section of all servers that are locked together; one of them holds it.
    _critical: Option<Critical>,
}

impl Deref for Engaged<'_> {
    type Target = Peer;

    fn deref(&self) -> &Peer {
        &self.peer
    }
}

impl DerefMut for Engaged<'_> {
    fn deref_mut(&mut self) -> &mut Peer {
        &mut self.peer
    }
}

/// Server with its connection.
#[derive(Debug)]
pub struct Peer {
    server: Server,
    key: Key,
    link: Option<Link>,
    /// Restarts of this process ([`kept::restarts`]) at the time of the last connection attempt.
    restarts: u32,
    /// Number of connections made so far. An open file belongs to one connection.
    pub epoch: u64,
}

#[derive(Debug)]
struct Link {
    socket: SealedSocket,
    local: Vec<u8>,
}

/// Data that an errand moves.
#[derive(Debug)]
pub enum Data<'a> {
    /// No data.
    None,
    /// Memory that is sent to the server.
    Out(Vec<&'a [u8]>),
    /// Memory that is received from the server.
    In(Vec<&'a mut [u8]>),
}

/// Request to one server, with its progress and result.
#[derive(Debug)]
pub struct ServerTask<'a> {
    /// Number of the server in the mount.
    pub server: usize,
    head: Vec<u8>,
    sent: usize,
    data: Data<'a>,
    /// Number of bytes moved; of `In`, those that have arrived.
    pub moved: u64,
    /// Header and message as far as they have arrived.
    input: Vec<u8>,
    /// Number of bytes of a payload that are still missing.
    payload: u64,
    /// Reply of the server, or the error.
    pub outcome: Option<Result<Reply>>,
    heard: Option<Instant>,
    /// Time of the last check whether the other system responds.
    looked: Option<Instant>,
}

#[cold]
fn gone(server: &Server, why: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorClass::Io, format!("io-server {} ({}): {why}", server.name, server.address))
}

impl Source {
    fn read(&self) -> Result<Mount> {
        match self {
            Source::File(path) => Mount::read(path),
            // When mpirun restarts a job, it starts the job's servers again.
            Source::Text(text) => {
                kept::servers().map_or_else(|| Mount::parse(text), |text| of_restart(&text))
            }
        }
    }
}

/// Parses the servers' data after a restart: their secret in a line of its own, then their addresses.
fn of_restart(text: &str) -> Result<Mount> {
    let wrong = || Error::new(ErrorClass::BadFile, "the restart does not say where the io-servers are");
    let (secret, rest) = text.split_once('\n').ok_or_else(wrong)?;
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let secret: Option<Vec<u8>> = secret.as_bytes().chunks(2).map(byte).collect();
    let secret: [u8; 32] = secret.and_then(|secret| secret.try_into().ok()).ok_or_else(wrong)?;
    Mount::parse(&mount::with_key(rest, &Key::of_secret(&secret)))
}

impl Client {
    /// Creates a client for the servers of a mount. Connections are made when they are needed.
    ///
    /// # Errors
    /// Errors of [`Mount::read`]; `Io` while servers have not entered themselves.
    pub fn new(source: Source, borrows: bool, cover: Option<Cover>) -> Result<Client> {
        let mount = source.read()?;
        let missing = mount.servers.iter().filter(|server| server.is_none()).count();
        if missing > 0 {
            let why =
                format!("{missing} of the {} io-servers of the mount have not started", mount.servers.len());
            return Err(Error::new(ErrorClass::Io, why));
        }
        let (key, restarts) = (mount.key, kept::restarts());
        let peer = |server: &Server| {
            Mutex::new(Peer { server: server.clone(), key, link: None, restarts, epoch: 0 })
        };
        let peers = mount.servers.iter().flatten().map(peer).collect();
        Ok(Client { source, mount, borrows, cover, peers })
    }

    /// Returns the data of the mount.
    pub fn mount(&self) -> &Mount {
        &self.mount
    }

    /// Returns the number of servers.
    pub fn servers(&self) -> usize {
        self.peers.len()
    }

    /// Locks one server for this caller.
    pub fn peer(&self, server: usize) -> Engaged<'_> {
        self.engage([server]).remove(0)
    }

    /// Locks all servers in their order, so that two callers never wait for each other.
    pub fn all(&self) -> Vec<Engaged<'_>> {
        self.engage(0..self.peers.len())
    }

    /// Locks some servers for this caller. They must be in ascending order.
    pub fn engage(&self, servers: impl IntoIterator<Item = usize>) -> Vec<Engaged<'_>> {
        let mut critical = Some(Critical::enter());
        let servers = servers.into_iter().map(|server| Engaged {
            peer: self.peers[server].lock().unwrap_or_else(PoisonError::into_inner),
            _critical: critical.take(),
        });
        servers.collect()
    }

    /// Ensures that there is a connection to a server.
    ///
    /// # Errors
    /// `Io`, naming the server; `Access` if one of the two does not know the key.
    pub fn connect(&self, peer: &mut Peer, number: usize) -> Result<()> {
        let has_moved = peer.restarts != kept::restarts();
        if has_moved {
            peer.restarts = kept::restarts();
            peer.link = None;
        }
        if peer.link.as_ref().is_some_and(|link| !event::is_readable(link.socket.stream.as_fd())) {
            return Ok(());
        }
        let had_one = peer.link.take().is_some();
        if had_one {
            // The loss is reported once; the next call connects again.
            return Err(gone(&peer.server, &"it has closed the connection, or was killed"));
        }
        if (peer.epoch > 0 || has_moved)
            && let Ok(mount) = self.source.read()
            && let Some(Some(server)) = mount.servers.get(number)
        {
            (peer.server, peer.key) = (server.clone(), mount.key);
        }
        let link = greet(&peer.server, &peer.key, self.cover)?;
        peer.link = Some(link);
        peer.epoch += 1;
        Ok(())
    }

    /// Returns the open file of a ticket, if the server runs on this host and belongs to this user.
    /// `identity` is the file's device and inode. The server has sent it over the connection on which both
    /// ends have proved that they know the key.
    pub fn borrow(&self, peer: &Peer, ticket: &Token, identity: (u64, u64)) -> Option<OwnedFd> {
        let link = peer.link.as_ref().filter(|_| self.borrows)?;
        // The name of another host's socket denotes nothing here, or another socket, which the identity
        // reveals.
        let connection = local_socket::Connection::connect(&link.local).ok()?;
        connection.send(ticket, &[]).ok()?;
        let mut answer = [0];
        let (_, mut files) = connection.receive_within(&mut answer, LEND).ok()?;
        let file = files.pop()?;
        let found = rustix::fs::fstat(&file).ok()?;
        ((found.st_dev, found.st_ino) == identity).then_some(file)
    }
}

/// Connects to a server, and proves that both know the key. The two agree on the protection `cover`, or on
/// a stronger one.
fn greet(server: &Server, key: &Key, cover: Option<Cover>) -> Result<Link> {
    let failed = |error: io::Error| gone(server, &error);
    let stream = socket::connect_within(server.address, None, CONNECT).map_err(failed)?;
    let _ = stream.set_nodelay(true);
    stream.set_read_timeout(Some(CONNECT)).map_err(failed)?;
    let mut link = Link { socket: SealedSocket::new(stream), local: Vec::new() };
    let (nonce, cover) = (token()?, number(cover));
    let hello = Request::Hello { version: VERSION, nonce, cover };
    let reply = ask(&mut link.socket, &hello, None).map_err(|why| gone(server, &why))?;
    let Reply::Challenge { nonce: other, proof, cover: answer, local } = reply else {
        return Err(gone(server, &"it is no io-server"));
    };
    let said = Greeting { client: nonce, server: other, asked: cover, cover: answer, local: &local };
    if !said.verifies(key, End::Server, &proof) {
        let why = gone(server, &"it does not know the key of the mount").to_string();
        return Err(Error::new(ErrorClass::Access, why));
    }
    if answer < cover {
        return Err(gone(server, &"it does not protect what it sends (TUTTI_PROTECT)"));
    }
    let proof = Request::Proof(said.proof(key, End::Client));
    ask(&mut link.socket, &proof, Some(&said.keys(key, End::Client))).map_err(|why| gone(server, &why))?;
    link.socket.stream.set_read_timeout(None).map_err(failed)?;
    link.socket.stream.set_nonblocking(true).map_err(failed)?;
    kept_socket::mark_as_renewed(link.socket.stream.as_fd()).map_err(failed)?;
    Ok(Link { local, ..link })
}

/// Sends one request over a blocking socket and returns the reply. With `keys`, the reply and all later
/// messages are sealed.
fn ask(socket: &mut SealedSocket, request: &Request, keys: Option<&Option<StreamKeys>>) -> Result<Reply> {
    let failed = |error: io::Error| Error::new(ErrorClass::Io, error.to_string());
    let mut bytes = Vec::new();
    wire::put(&mut bytes, request, 0);
    (&socket.stream).write_all(&bytes).map_err(failed)?;
    if let Some(Some(keys)) = keys {
        socket.seal(keys, &[]);
    }
    let mut receive = |into: &mut [u8]| {
        let mut have = 0;
        while have < into.len() {
            match socket.receive(&mut [IoSliceMut::new(&mut into[have..])]) {
                Ok(0) => return Err(failed(io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => have += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(())
    };
    let mut header = [0; HEADER_BYTES];
    receive(&mut header)?;
    let mut message = vec![0; Header::decode(&header)?.message];
    receive(&mut message)?;
    wire::message(&message)
}

impl Peer {
    /// Returns the server's name.
    pub fn name(&self) -> &str {
        &self.server.name
    }

    /// Returns true if there was a connection after the last errand.
    pub fn is_connected(&self) -> bool {
        self.link.is_some()
    }

    /// Creates an error that names this server.
    pub fn error(&self, class: ErrorClass, why: &str) -> Error {
        Error::new(class, gone(&self.server, &why).to_string())
    }

    /// Sends a request that has no reply.
    ///
    /// # Errors
    /// `Io`, naming the server.
    pub fn tell(&mut self, request: &Request) -> Result<()> {
        let (mut errand, begun) = (ServerTask::new(0, request, Data::None), Instant::now());
        loop {
            let Some(link) = &mut self.link else { return Err(gone(&self.server, &"no connection")) };
            let sent = match errand.head.get(errand.sent..).filter(|left| !left.is_empty()) {
                Some(left) => link.socket.send(&[IoSlice::new(left)]),
                None => link
                    .socket
                    .flush()
                    .and_then(|done| if done { Ok(0) } else { Err(io::ErrorKind::WouldBlock.into()) }),
            };
            match sent {
                Ok(0) => return Ok(()),
                Ok(bytes) => errand.sent += bytes,
                Err(error) if is_not_yet(&error) => {
                    event::wait_writable(&[link.socket.stream.as_raw_fd()], SILENCE);
                    if is_silent(link, begun.elapsed()) {
                        self.link = None;
                    }
                }
                Err(error) => {
                    self.link = None;
                    return Err(gone(&self.server, &error));
                }
            }
        }
    }

    /// Sends one request and returns its reply.
    ///
    /// # Errors
    /// Errors of the server, and `Io` for a lost one; both name it.
    pub fn ask(&mut self, request: &Request) -> Result<Reply> {
        let mut errands = [ServerTask::new(0, request, Data::None)];
        run(&mut [self], &mut errands);
        let [errand] = errands;
        errand.outcome.expect("an errand that was run has an outcome")
    }
}

fn is_not_yet(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Returns true if the other system does not respond any more. `waited` is the time that the caller has
/// waited.
fn is_silent(link: &Link, waited: Duration) -> bool {
    socket::path(link.socket.stream.as_fd()).is_ok_and(|path| {
        let unheard = path.unheard.min(waited);
        path.unacknowledged > 0
            && (path.repetitions >= REPETITIONS || path.repetitions > 0 && unheard >= UNHEARD)
    })
}

/// Performs errands, all at the same time; each stores its result in itself. `peers` has their servers, in
/// the same order.
pub fn run(peers: &mut [&mut Peer], errands: &mut [ServerTask<'_>]) {
    loop {
        let (mut readable, mut writable) = (Vec::new(), Vec::new());
        for (peer, errand) in peers.iter_mut().zip(errands.iter_mut()) {
            errand.step(peer);
            if let (None, Some(link)) = (&errand.outcome, &peer.link) {
                readable.push(link.socket.stream.as_raw_fd());
                if errand.has_more_to_send() || link.socket.is_pending() {
                    writable.push(link.socket.stream.as_raw_fd());
                }
            }
        }
        if readable.is_empty() {
            errands.iter().for_each(|errand| TRAFFIC.server_requests.add(errand.moved));
            return;
        }
        TRAFFIC.server_waits.add(writable.len() as u64);
        event::wait_ready(&readable, &writable, SILENCE);
    }
}

impl<'a> ServerTask<'a> {
    /// Creates an errand with a request and the data that it moves.
    pub fn new(server: usize, request: &Request, data: Data<'a>) -> ServerTask<'a> {
        let payload = match &data {
            Data::Out(pieces) => pieces.iter().map(|piece| piece.len() as u64).sum(),
            Data::None | Data::In(_) => 0,
        };
        let mut head = Vec::new();
        wire::put(&mut head, request, payload);
        let (input, outcome) = (Vec::new(), None);
        let (heard, looked) = (None, None);
        ServerTask { server, head, sent: 0, data, moved: 0, input, payload: 0, outcome, heard, looked }
    }

    fn has_more_to_send(&self) -> bool {
        self.sent < self.head.len() || matches!(&self.data, Data::Out(pieces) if !pieces.is_empty())
    }

    /// Sends and receives as much as is possible now.
    fn step(&mut self, peer: &mut Peer) {
        if self.outcome.is_some() {
            return;
        }
        let Some(link) = &mut peer.link else {
            self.outcome = Some(Err(gone(&peer.server, &"no connection")));
            return;
        };
        let moved = self.send(link).and_then(|sent| Ok(self.receive(link)? || sent));
        let moved = match moved {
            Ok(moved) => moved,
            Err(why) => {
                self.outcome = Some(Err(gone(&peer.server, &why)));
                peer.link = None;
                return;
            }
        };
        if let Some(Ok(Reply::Failed { class, why, value })) = &self.outcome {
            let class = ErrorClass::from_code(*class).unwrap_or(ErrorClass::Io);
            self.moved = self.moved.max(*value);
            self.outcome =
                Some(Err(gone(&peer.server, why)).map_err(|error| Error::new(class, error.to_string())));
            return;
        }
        let now = Instant::now();
        if moved {
            (self.heard, self.looked) = (Some(now), Some(now));
            return;
        }
        let waited = now.duration_since(*self.heard.get_or_insert(now));
        if now.duration_since(*self.looked.get_or_insert(now)) >= SILENCE {
            self.looked = Some(now);
            if is_silent(link, waited) {
                self.outcome = Some(Err(gone(&peer.server, &"its host does not answer")));
                peer.link = None;
            } else if !self.has_more_to_send() {
                let mut nothing = Vec::new();
                wire::put(&mut nothing, &Request::Nothing, 0);
                // These few bytes are accepted by the system as a whole or not at all.
                let _ = link.socket.send(&[IoSlice::new(&nothing)]);
            }
        }
    }

    /// Sends as much as the system accepts. Returns true if anything was sent.
    fn send(&mut self, link: &mut Link) -> Result<bool> {
        let was_pending = link.socket.is_pending();
        let is_flushed =
            link.socket.flush().map_err(|error| Error::new(ErrorClass::Io, error.to_string()))?;
        let mut has_sent = was_pending && is_flushed;
        while self.has_more_to_send() {
            let mut pieces = Vec::with_capacity(PIECES);
            pieces.extend((self.sent < self.head.len()).then(|| IoSlice::new(&self.head[self.sent..])));
            if let Data::Out(data) = &self.data {
                pieces.extend(data.iter().take(PIECES).map(|piece| IoSlice::new(piece)));
            }
            match link.socket.send(&pieces) {
                Ok(mut bytes) => {
                    has_sent = true;
                    let head = bytes.min(self.head.len() - self.sent);
                    self.sent += head;
                    bytes -= head;
                    self.moved += bytes as u64;
                    if let Data::Out(data) = &mut self.data {
                        let whole = passed(data.iter().map(|piece| piece.len()), &mut bytes);
                        data.drain(..whole);
                        if let Some(first) = data.first_mut() {
                            *first = &first[bytes..];
                        }
                    }
                }
                Err(error) if is_not_yet(&error) => break,
                Err(error) => return Err(Error::new(ErrorClass::Io, error.to_string())),
            }
        }
        Ok(has_sent)
    }

    /// Receives as much as has arrived. Returns true if there was anything.
    fn receive(&mut self, link: &mut Link) -> Result<bool> {
        let mut has_received = false;
        while self.outcome.is_none() {
            let read = if self.payload > 0 { self.receive_data(link) } else { self.receive_message(link) };
            match read {
                Ok(0) => {
                    return Err(Error::new(ErrorClass::Io, "it was killed, or has closed the connection"));
                }
                Ok(_) => has_received = true,
                Err(error) if is_not_yet(&error) => break,
                Err(error) => return Err(Error::new(ErrorClass::Io, error.to_string())),
            }
            self.understand()?;
        }
        Ok(has_received)
    }

    fn receive_data(&mut self, link: &mut Link) -> io::Result<usize> {
        let Data::In(memory) = &mut self.data else { return Err(io::ErrorKind::InvalidData.into()) };
        let mut left = self.payload as usize;
        let mut pieces = Vec::with_capacity(PIECES);
        for piece in memory.iter_mut().take(PIECES) {
            let bytes = piece.len().min(left);
            left -= bytes;
            pieces.push(IoSliceMut::new(&mut piece[..bytes]));
            if left == 0 {
                break;
            }
        }
        if pieces.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it sends more than was asked for"));
        }
        let bytes = link.socket.receive(&mut pieces)?;
        self.moved += bytes as u64;
        self.payload -= bytes as u64;
        let mut rest = bytes;
        let whole = passed(memory.iter().map(|piece| piece.len()), &mut rest);
        memory.drain(..whole);
        if let Some(first) = memory.first_mut() {
            *first = &mut std::mem::take(first)[rest..];
        }
        Ok(bytes)
    }

    fn receive_message(&mut self, link: &mut Link) -> io::Result<usize> {
        let have = self.input.len();
        let wanted = match self.input.first_chunk::<HEADER_BYTES>() {
            None => HEADER_BYTES,
            Some(header) => {
                let header = Header::decode(header);
                HEADER_BYTES + header.map_err(|_| io::ErrorKind::InvalidData)?.message
            }
        };
        self.input.resize(wanted, 0);
        let read = link.socket.receive(&mut [IoSliceMut::new(&mut self.input[have..])]);
        self.input.truncate(have + *read.as_ref().unwrap_or(&0));
        read
    }

    /// Processes the message if it is complete.
    fn understand(&mut self) -> Result<()> {
        let Some(header) = self.input.first_chunk::<HEADER_BYTES>() else { return Ok(()) };
        let header = Header::decode(header)?;
        if self.input.len() < HEADER_BYTES + header.message {
            return Ok(());
        }
        let reply: Reply = wire::message(&self.input[HEADER_BYTES..])?;
        self.input.clear();
        match reply {
            Reply::Data => self.payload = header.payload,
            reply => self.outcome = Some(Ok(reply)),
        }
        Ok(())
    }
}

/// Returns the number of leading pieces that `bytes` covers completely, and reduces `bytes` to the
/// remainder.
fn passed(lengths: impl Iterator<Item = usize>, bytes: &mut usize) -> usize {
    let is_covered = |length: &usize| {
        let covered = *length <= *bytes;
        *bytes -= if covered { *length } else { 0 };
        covered
    };
    lengths.take_while(is_covered).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(lengths: &[usize], mut bytes: usize, expected: (usize, usize)) {
        let whole = passed(lengths.iter().copied(), &mut bytes);
        assert_eq!((whole, bytes), expected);
    }

    #[test]
    fn whole_pieces_are_counted() {
        check(&[3, 4], 0, (0, 0));
        check(&[3, 4], 3, (1, 0));
        check(&[3, 4], 5, (1, 2));
        check(&[3, 0, 4], 7, (3, 0));
        check(&[], 0, (0, 0));
    }
}
