//! Connections of a program to the servers of a mount, and errands over several of them at a time.
//!
//! There is one connection a server and process, used by one errand at a time. An errand is a request with
//! what it sends or receives; errands of several servers are under way together, and their bytes go straight
//! from and to the program's memory.
//!
//! **Who is gone.** A killed server is told by its system at once, or when it is next spoken to. A host that
//! has vanished says nothing: while nothing comes, something is sent, and what the other system does not
//! acknowledge, though it was sent again twice, means that it is gone. On a busy host the second time may
//! come late: then a second of waiting would be over, so that once is enough after most of it without any
//! acknowledgement. A server that is only busy has a system that acknowledges.
//!
//! **Checkpoints.** A process that has a server for itself is not stopped ([`Critical`]), so no errand is
//! under way in a checkpoint. A process that is made from one finds its connections closed, learns where the
//! servers are now, connects, and opens its files again by their names when it needs them.

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

/// A connection has to be there, and the greeting over, after this time.
const CONNECT: Duration = Duration::from_millis(800);
/// While nothing comes for so long, something is sent.
const SILENCE: Duration = Duration::from_millis(100);
/// Who lends a file has to do so within this time; otherwise its bytes are asked for.
const LEND: Duration = Duration::from_millis(500);
/// What is sent again so often without an answer goes to nobody.
const REPETITIONS: u32 = 2;
/// The same of what is sent again once, where nothing was acknowledged for so long.
const UNHEARD: Duration = Duration::from_millis(700);
/// Pieces of memory in one call.
const PIECES: usize = 256;

/// How a program finds its servers.
#[derive(Clone, Debug)]
pub enum Source {
    /// By a mount file, which is read again when a server is gone.
    File(PathBuf),
    /// By its text.
    Text(String),
}

/// See the module.
#[derive(Debug)]
pub struct Client {
    source: Source,
    mount: Mount,
    /// Whether open files are asked for.
    borrows: bool,
    /// Least protection of what is sent and received.
    cover: Option<Cover>,
    peers: Vec<Mutex<Peer>>,
}

/// A server, for one caller alone.
#[derive(Debug)]
pub struct Engaged<'a> {
    peer: MutexGuard<'a, Peer>,
    /// Shared by all servers that are engaged together.
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

/// One server.
#[derive(Debug)]
pub struct Peer {
    server: Server,
    key: Key,
    link: Option<Link>,
    /// Restarts of this process ([`kept::restarts`]) when the server was looked for last.
    restarts: u32,
    /// How often a connection was made: files are open at one connection.
    pub epoch: u64,
}

#[derive(Debug)]
struct Link {
    socket: SealedSocket,
    local: Vec<u8>,
}

/// What an errand moves.
#[derive(Debug)]
pub enum Data<'a> {
    /// Nothing.
    None,
    /// To the server.
    Out(Vec<&'a [u8]>),
    /// From it.
    In(Vec<&'a mut [u8]>),
}

/// A request to one server, and what became of it.
#[derive(Debug)]
pub struct Errand<'a> {
    /// Which server.
    pub server: usize,
    head: Vec<u8>,
    sent: usize,
    data: Data<'a>,
    /// Bytes of the data that were moved: of `In` those that are there.
    pub moved: u64,
    /// Header and message that come in.
    input: Vec<u8>,
    /// Bytes of a payload that are still to come.
    payload: u64,
    /// The reply, or what went wrong.
    pub outcome: Option<Result<Reply>>,
    heard: Option<Instant>,
    /// When it was last looked whether the other system answers.
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
            // mpirun starts the servers of a job again when it restarts the job.
            Source::Text(text) => {
                kept::servers().map_or_else(|| Mount::parse(text), |text| of_restart(&text))
            }
        }
    }
}

/// Reads what a restart says of the servers: their secret in a line of its own, then where they are.
fn of_restart(text: &str) -> Result<Mount> {
    let wrong = || Error::new(ErrorClass::BadFile, "the restart does not say where the io-servers are");
    let (secret, rest) = text.split_once('\n').ok_or_else(wrong)?;
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let secret: Option<Vec<u8>> = secret.as_bytes().chunks(2).map(byte).collect();
    let secret: [u8; 32] = secret.and_then(|secret| secret.try_into().ok()).ok_or_else(wrong)?;
    Mount::parse(&mount::with_key(rest, &Key::of_secret(&secret)))
}

impl Client {
    /// For the servers of a mount; connections are made when they are needed.
    ///
    /// # Errors
    /// As [`Mount::read`]; `Io` while servers have not entered themselves.
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

    /// What the mount says.
    pub fn mount(&self) -> &Mount {
        &self.mount
    }

    /// How many servers there are.
    pub fn servers(&self) -> usize {
        self.peers.len()
    }

    /// One server, for this caller alone.
    pub fn peer(&self, server: usize) -> Engaged<'_> {
        self.engage([server]).remove(0)
    }

    /// All of them, in their order, so that two callers never wait for each other.
    pub fn all(&self) -> Vec<Engaged<'_>> {
        self.engage(0..self.peers.len())
    }

    /// Locks some servers, in ascending order, for this caller alone.
    pub fn engage(&self, servers: impl IntoIterator<Item = usize>) -> Vec<Engaged<'_>> {
        let mut critical = Some(Critical::enter());
        let servers = servers.into_iter().map(|server| Engaged {
            peer: self.peers[server].lock().unwrap_or_else(PoisonError::into_inner),
            _critical: critical.take(),
        });
        servers.collect()
    }

    /// Makes sure that there is a connection.
    ///
    /// # Errors
    /// `Io`, naming the server; `Access` where one of the two does not know the key.
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
            // Told once; who calls again looks for it again.
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

    /// The open file of a ticket, where the server runs on this host and is this user's. `identity` is the
    /// file's device and inode, as the server says over the connection on which both ends have proved that
    /// they know the key.
    pub fn borrow(&self, peer: &Peer, ticket: &Token, identity: (u64, u64)) -> Option<OwnedFd> {
        let link = peer.link.as_ref().filter(|_| self.borrows)?;
        // Names of another host mean nothing here: nobody listens, or it is not the one.
        let connection = local_socket::Connection::connect(&link.local).ok()?;
        connection.send(ticket, &[]).ok()?;
        let mut answer = [0];
        let (_, mut files) = connection.receive_within(&mut answer, LEND).ok()?;
        let file = files.pop()?;
        let found = rustix::fs::fstat(&file).ok()?;
        ((found.st_dev, found.st_ino) == identity).then_some(file)
    }
}

/// Connects to a server, and proves that both know the key. The two agree on `cover`, or on more.
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

/// Asks one thing of a socket that waits. With `keys`, the reply is sealed, and all that follows.
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
    /// Its name.
    pub fn name(&self) -> &str {
        &self.server.name
    }

    /// Whether there is a connection, as far as the last errand knows.
    pub fn is_connected(&self) -> bool {
        self.link.is_some()
    }

    /// An error of this server.
    pub fn error(&self, class: ErrorClass, why: &str) -> Error {
        Error::new(class, gone(&self.server, &why).to_string())
    }

    /// Sends something to which there is no reply.
    ///
    /// # Errors
    /// `Io`, naming the server.
    pub fn tell(&mut self, request: &Request) -> Result<()> {
        let (mut errand, begun) = (Errand::new(0, request, Data::None), Instant::now());
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

    /// One request and its reply.
    ///
    /// # Errors
    /// What the server reports, `Io` for one that is gone, both naming it.
    pub fn ask(&mut self, request: &Request) -> Result<Reply> {
        let mut errands = [Errand::new(0, request, Data::None)];
        run(&mut [self], &mut errands);
        let [errand] = errands;
        errand.outcome.expect("an errand that was run has an outcome")
    }
}

fn is_not_yet(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Whether the other system does not answer any more, of which so long something was wanted.
fn is_silent(link: &Link, waited: Duration) -> bool {
    socket::path(link.socket.stream.as_fd()).is_ok_and(|path| {
        let unheard = path.unheard.min(waited);
        path.unacknowledged > 0
            && (path.repetitions >= REPETITIONS || path.repetitions > 0 && unheard >= UNHEARD)
    })
}

/// Does errands, all at the same time; each finds its outcome in itself. `peers` has those of the errands, in
/// the same order.
pub fn run(peers: &mut [&mut Peer], errands: &mut [Errand<'_>]) {
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

impl<'a> Errand<'a> {
    /// A request to a server with what it moves.
    pub fn new(server: usize, request: &Request, data: Data<'a>) -> Errand<'a> {
        let payload = match &data {
            Data::Out(pieces) => pieces.iter().map(|piece| piece.len() as u64).sum(),
            Data::None | Data::In(_) => 0,
        };
        let mut head = Vec::new();
        wire::put(&mut head, request, payload);
        let (input, outcome) = (Vec::new(), None);
        let (heard, looked) = (None, None);
        Errand { server, head, sent: 0, data, moved: 0, input, payload: 0, outcome, heard, looked }
    }

    fn has_more_to_send(&self) -> bool {
        self.sent < self.head.len() || matches!(&self.data, Data::Out(pieces) if !pieces.is_empty())
    }

    /// Moves what can be moved now.
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
                // A few bytes, of which the system takes all or none.
                let _ = link.socket.send(&[IoSlice::new(&nothing)]);
            }
        }
    }

    /// Sends what the system takes; whether it took something.
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

    /// Receives what is there; whether something was.
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

    /// Looks at a message that is complete.
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

/// How many pieces of these lengths `bytes` covers; what is left of it.
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
