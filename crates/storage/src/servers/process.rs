//! The server as a process: sockets around [`Session`]s, in one thread. It moves one chunk for each ready
//! client in turn. Operations that wait for a device run in threads of their own.
//!
//! Anyone in the network can connect. A client must prove within [`PROOF`] that it knows the key of the
//! mount. At most [`MOST_UNPROVED`] clients without proof are connected; a new one replaces the oldest. If
//! no descriptor is left, the listener pauses for [`REST`]. Files are lent at a local socket of this
//! server's user.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, IoSlice, IoSliceMut, Read};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::net::sockopt;
use tutti_base::{Error, ErrorClass, PortRange, Result};
use tutti_seal::Cover;
use tutti_sys::event::{self, Event, Interest, Poller};
use tutti_sys::local_socket::{Carries, Connection, Listener};
use tutti_sys::socket;

use super::greeting::Key;
use super::root::{Lent, Root};
use super::sealed_socket::SealedSocket;
use super::session::{CHUNK_BYTES, Session};
use super::wire::{self, Reply, Token};

/// Maximum number of clients at a time; others are rejected.
const MOST_CLIENTS: usize = 4096;
/// Maximum number of connections at a time that request lent files.
const MOST_BORROWERS: usize = 256;
/// Maximum number of clients at a time that have not proved to know the key.
const MOST_UNPROVED: usize = 128;
/// Time limit for a client's proof.
const PROOF: Duration = Duration::from_secs(10);
/// Pause of the listener when a connection cannot be accepted.
const REST: Duration = Duration::from_millis(100);
/// Time of silence after which the system checks if a client's host still exists.
const SILENCE: Duration = Duration::from_secs(60);

/// Numbers of the descriptors in the poller.
const LISTENER: u64 = 0;
const LOCAL: u64 = 1;
const BELL: u64 = 2;
const LIFELINE: u64 = 3;
const FIRST_CLIENT: u64 = 16;

struct Client {
    socket: SealedSocket,
    session: Session,
    /// Received bytes that could not be processed yet.
    pending: Vec<u8>,
    out: Vec<u8>,
    sent: usize,
    interest: Interest,
    /// True after bytes arrived that the client did not send. The client was informed; later bytes are
    /// discarded.
    is_refused: bool,
}

type Results = Arc<Mutex<Vec<(u64, Result<u64>)>>>;

/// Server process; see the module.
pub struct Process {
    root: Root,
    key: Key,
    cover: Option<Cover>,
    listener: TcpListener,
    local: Listener,
    local_name: Vec<u8>,
    lent: Lent,
    poller: Poller,
    clients: BTreeMap<u64, Client>,
    /// Clients that may not have given their proof, with their deadlines; the oldest first.
    unproved: VecDeque<(u64, Instant)>,
    /// End of the listener's pause, while it pauses.
    rests_until: Option<Instant>,
    borrowers: BTreeMap<u64, Connection>,
    next: u64,
    bell: Arc<OwnedFd>,
    results: Results,
    chunk: Vec<u8>,
}

impl Process {
    /// Creates a server that listens at `interface`. Its connections to clients are protected at least by
    /// `cover`.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn new(
        root: Root,
        key: Key,
        cover: Option<Cover>,
        interface: IpAddr,
        ports: Option<PortRange>,
    ) -> io::Result<Process> {
        let listener = socket::listen(interface, ports, None)?;
        listener.set_nonblocking(true)?;
        let number = tutti_sys::process::random()?;
        let local_name = format!("io-{number:016x}").into_bytes();
        let local = Listener::bind(&local_name, Carries::Bytes)?;
        let bell = Arc::new(event::bells(1)?.remove(0));
        let poller = Poller::new()?;
        poller.add(listener.as_fd(), LISTENER, Interest::Read)?;
        poller.add(local.as_fd(), LOCAL, Interest::Read)?;
        poller.add(bell.as_fd(), BELL, Interest::Read)?;
        let (lent, results, chunk) = (root.lent(), Results::default(), vec![0; CHUNK_BYTES as usize]);
        let (clients, borrowers, next) = (BTreeMap::new(), BTreeMap::new(), FIRST_CLIENT);
        Ok(Process {
            root,
            key,
            cover,
            listener,
            local,
            local_name,
            lent,
            poller,
            clients,
            unproved: VecDeque::new(),
            rests_until: None,
            borrowers,
            next,
            bell,
            results,
            chunk,
        })
    }

    /// Returns the address at which the server listens.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Sets the key that clients must know. Called before any client has connected.
    pub fn set_key(&mut self, key: Key) {
        self.key = key;
    }

    /// Serves clients forever, or until `lifeline` is closed at its other end.
    ///
    /// # Errors
    /// Errors of the system while waiting.
    pub fn serve(&mut self, lifeline: Option<&OwnedFd>) -> io::Result<()> {
        if let Some(lifeline) = lifeline {
            self.poller.add(lifeline.as_fd(), LIFELINE, Interest::Read)?;
        }
        let mut events = Vec::new();
        loop {
            let left = self.advance()?;
            self.poller.wait(left, &mut events)?;
            for Event { token } in events.drain(..) {
                match token {
                    LISTENER => self.accept(),
                    LOCAL => self.accept_borrower(),
                    BELL => self.collect_results(),
                    LIFELINE => return Ok(()),
                    number if self.borrowers.contains_key(&number) => self.lend(number),
                    number => self.turn(number),
                }
            }
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Performs actions that are due, and returns the time until the next one.
    fn advance(&mut self) -> io::Result<Option<Duration>> {
        let now = Instant::now();
        if self.rests_until.is_some_and(|until| until <= now) {
            self.rests_until = None;
            self.poller.change(self.listener.as_fd(), LISTENER, Interest::Read)?;
        }
        let is_proved = |client: Option<&Client>| client.is_none_or(|client| client.session.is_proved());
        while let Some(&(number, until)) = self.unproved.front()
            && (until <= now || is_proved(self.clients.get(&number)))
        {
            self.unproved.pop_front();
            self.drop_unproved(number);
        }
        let deadline =
            self.unproved.front().map(|(_, until)| *until).into_iter().chain(self.rests_until).min();
        Ok(deadline.map(|until| until.saturating_duration_since(now)))
    }

    /// Closes the connection of a client without proof.
    fn drop_unproved(&mut self, number: u64) {
        if self.clients.get(&number).is_some_and(|client| !client.session.is_proved()) {
            self.clients.remove(&number);
        }
    }

    /// Makes room for one more client without proof.
    fn make_room(&mut self) {
        if self.unproved.len() >= MOST_UNPROVED {
            let clients = &self.clients;
            let is_unproved =
                |number: &u64| clients.get(number).is_some_and(|client| !client.session.is_proved());
            self.unproved.retain(|(number, _)| is_unproved(number));
        }
        while self.unproved.len() >= MOST_UNPROVED
            && let Some((number, _)) = self.unproved.pop_front()
        {
            self.drop_unproved(number);
        }
    }

    fn accept(&mut self) {
        let stream = match self.listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return;
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => return,
            Err(_) => {
                // Too many descriptors: clients with a proof are served meanwhile.
                let rests = self.poller.change(self.listener.as_fd(), LISTENER, Interest::Nothing);
                self.rests_until = rests.ok().map(|()| Instant::now() + REST);
                return;
            }
        };
        self.make_room();
        if self.clients.len() >= MOST_CLIENTS || stream.set_nonblocking(true).is_err() {
            return;
        }
        // If these calls fail, connections are only slower.
        let _ = stream.set_nodelay(true);
        let _ = sockopt::set_socket_keepalive(&stream, true);
        let _ = sockopt::set_tcp_keepidle(&stream, SILENCE);
        let number = self.number();
        if self.poller.add(stream.as_fd(), number, Interest::Read).is_err() {
            return;
        }
        let session = Session::new(number, self.key, self.local_name.clone()).with_cover(self.cover);
        let (pending, out) = (Vec::new(), Vec::new());
        let socket = SealedSocket::new(stream);
        let client =
            Client { socket, session, pending, out, sent: 0, interest: Interest::Read, is_refused: false };
        self.clients.insert(number, client);
        self.unproved.push_back((number, Instant::now() + PROOF));
    }

    fn accept_borrower(&mut self) {
        let Ok(Some(connection)) = self.local.accept() else { return };
        if self.borrowers.len() >= MOST_BORROWERS {
            return;
        }
        let number = self.number();
        if self.poller.add(connection.as_fd(), number, Interest::Read).is_ok() {
            self.borrowers.insert(number, connection);
        }
    }

    /// Sends an open file to a process on this host that presents its ticket.
    fn lend(&mut self, number: u64) {
        let Some(connection) = self.borrowers.remove(&number) else { return };
        let mut ticket = Token::default();
        let Ok((bytes, _)) = connection.receive(&mut ticket) else { return };
        let lent = self.lent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = lent.get(&ticket).filter(|_| bytes == ticket.len()) {
            // A receiver that has closed the connection does not need the file.
            let _ = connection.send(&[1], &[file.as_fd()]);
        }
    }

    fn collect_results(&mut self) {
        event::damp(self.bell.as_fd());
        let results = std::mem::take(&mut *self.results.lock().unwrap_or_else(PoisonError::into_inner));
        for (number, result) in results {
            if let Some(client) = self.clients.get_mut(&number) {
                client.session.finish(&self.root, result, &mut client.out);
                self.turn(number);
            }
        }
    }

    /// Moves one chunk for one client.
    fn turn(&mut self, number: u64) {
        let Some(client) = self.clients.get_mut(&number) else { return };
        let moved = client.turn(&mut self.root, &mut self.chunk);
        if let Some(later) = client.session.later() {
            let (results, bell) = (Arc::clone(&self.results), Arc::clone(&self.bell));
            std::thread::spawn(move || {
                let result = later();
                results.lock().unwrap_or_else(PoisonError::into_inner).push((number, result));
                event::strike(bell.as_fd());
            });
        }
        let interest = client.wants();
        let kept = moved.is_ok()
            && (interest == client.interest
                || self.poller.change(client.socket.stream.as_fd(), number, interest).is_ok());
        client.interest = interest;
        if !kept {
            client.session.leave(&mut self.root);
            self.clients.remove(&number);
        }
    }
}

impl Client {
    /// Returns the conditions to wait for on the client's socket.
    fn wants(&self) -> Interest {
        if self.is_unsent() || self.session.is_reading() {
            return Interest::Write;
        }
        if self.session.listens() { Interest::Read } else { Interest::Nothing }
    }

    fn is_unsent(&self) -> bool {
        self.sent < self.out.len() || self.socket.is_pending()
    }

    /// Moves one chunk, in or out. Any error ends the client.
    fn turn(&mut self, root: &mut Root, chunk: &mut [u8]) -> std::result::Result<(), ()> {
        if self.flush()? && self.session.produce(root, &mut self.out) {
            self.flush()?;
        } else if !self.is_unsent() && self.session.listens() {
            self.take(root, chunk)?;
            self.flush()?;
        }
        Ok(())
    }

    /// Sends pending bytes. Returns true if all are sent.
    fn flush(&mut self) -> std::result::Result<bool, ()> {
        while self.sent < self.out.len() {
            match self.socket.send(&[IoSlice::new(&self.out[self.sent..])]) {
                Ok(bytes) => self.sent += bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(_) => return Err(()),
            }
        }
        self.out.clear();
        self.sent = 0;
        self.socket.flush().map_err(drop)
    }

    /// Informs the client why it is no longer served. The connection stays until the client closes it. If
    /// it were closed now, with unread bytes, the reply would be lost.
    fn refuse(&mut self, why: &io::Error) -> std::result::Result<(), ()> {
        let error = Error::new(ErrorClass::Io, why.to_string());
        wire::put(&mut self.out, &Reply::failed(&error, 0), 0);
        self.flush()?;
        self.is_refused = true;
        self.socket.stream.shutdown(Shutdown::Write).map_err(drop)
    }

    /// Receives and processes bytes of the client.
    fn take(&mut self, root: &mut Root, chunk: &mut [u8]) -> std::result::Result<(), ()> {
        if self.is_refused {
            let read = (&self.socket.stream).read(chunk);
            return if read.is_ok_and(|bytes| bytes > 0) { Ok(()) } else { Err(()) };
        }
        if !self.pending.is_empty() {
            let taken = self.session.feed(root, &self.pending, &mut self.out).map_err(drop)?;
            self.pending.drain(..taken);
            return Ok(());
        }
        let mut bytes = 0;
        // A sealed socket returns fewer bytes at a time than there is room for.
        while bytes < chunk.len() && (bytes == 0 || self.socket.is_sealed()) {
            match self.socket.receive(&mut [IoSliceMut::new(&mut chunk[bytes..])]) {
                Ok(0) if bytes == 0 => return Err(()),
                Ok(0) => break,
                Ok(count) => bytes += count,
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) =>
                {
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::InvalidData => return self.refuse(&error),
                Err(_) => return Err(()),
            }
        }
        let taken = self.session.feed(root, &chunk[..bytes], &mut self.out).map_err(drop)?;
        match self.session.keys().filter(|_| !self.socket.is_sealed()) {
            // The client has just given its proof: later messages are sealed in both directions.
            Some(keys) => self.socket.seal(&keys, &chunk[taken..bytes]),
            None => self.pending.extend_from_slice(&chunk[taken..bytes]),
        }
        Ok(())
    }
}
