//! Ports (MPI-5 section 11.9.1): local sockets, and in a job of several hosts sockets of the network too.
//!
//! The name of a port contains its address and a key that cannot be guessed. On a host both sides belong to
//! the same user ([`tutti_sys::local_socket`]). Between hosts each side proves that it knows the key
//! ([`line`]).

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tutti_base::{Error, ErrorClass, PortRange, Rank, Result};
use tutti_sys::letter;
use tutti_sys::local_socket::{Carries, Connection, Listener};
use tutti_sys::socket::{self, SAFE_SEGMENT_BYTES};
use tutti_sys::{event, process};

use super::acceptor::Acceptor;
use super::background::{wait_beside, wait_for};
use super::line::{self, Line};
use super::meeting::{Part, meet};
use tutti_transport::fabric::datagrams;

use crate::communicator::Communicator;
use crate::lanes::LaneGuard;
use crate::process::Process;

/// First part of the names of ports.
const SCHEME: &str = "tutti";
/// Longest single wait at a port, after which the wait is started again.
const LOOK: Duration = Duration::from_secs(3600);

/// An open port, at which other processes can connect.
#[derive(Debug)]
pub struct OpenPort {
    /// Socket for connections from this host.
    listener: Listener,
    /// Socket for connections from other hosts.
    far: Option<TcpListener>,
    /// Name by which others find the port.
    name: String,
    /// Locked by the thread that waits for a connection; further ones wait for the lock.
    acceptor: Mutex<Acceptor>,
}

/// Network address of a port for other hosts, and the range of port numbers, if one is set.
pub type Place = (IpAddr, Option<PortRange>);

/// Reason why no connection was accepted.
#[derive(Debug)]
pub enum Failed {
    /// An error of the system.
    System(io::Error),
    /// Message of the watched connection; empty if it ended without one.
    Told(Vec<u8>),
}

impl OpenPort {
    /// Opens a port. Other hosts can connect to it at `place_on_network`, if one is given.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn open(place_on_network: Option<Place>) -> io::Result<OpenPort> {
        let (place, key) = (process::random()?, process::random()?);
        let socket = socket_name(place);
        // Roots exchange little data, which must pass every network path.
        let listen = |(interface, ports)| socket::listen(interface, ports, Some(SAFE_SEGMENT_BYTES));
        let far = place_on_network.map(listen).transpose()?;
        let mut name = format!("{SCHEME}:{place:016x}:{key:016x}");
        if let Some(far) = &far {
            far.set_nonblocking(true)?;
            name += &format!(":{}", far.local_addr()?);
        }
        let acceptor = Mutex::new(Acceptor::new(key, secret(place, key)));
        Ok(OpenPort { listener: Listener::bind(&socket, Carries::Descriptors)?, far, name, acceptor })
    }

    /// Returns the name by which other processes find it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits until a process connects that knows the name, or until `watched` sends a message or ends.
    ///
    /// # Errors
    /// Returns [`Failed`], the reason why no connection was accepted.
    pub fn accept(&self, watched: Option<&Connection>) -> std::result::Result<Line, Failed> {
        let mut acceptor = self.acceptor.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            self.open_door(&mut acceptor).map_err(Failed::System)?;
            if let Some(line) = acceptor.admit() {
                return Ok(line);
            }
            let all =
                [Some(self.listener.as_fd()), self.far.as_ref().map(AsFd::as_fd), watched.map(AsFd::as_fd)];
            let own = all.iter().flatten().map(AsRawFd::as_raw_fd);
            let descriptors: Vec<_> = own.chain(acceptor.descriptors()).collect();
            let left = acceptor.deadline().map(|until| until.saturating_duration_since(Instant::now()));
            event::wait_readable(&descriptors, left.unwrap_or(LOOK));
            if let Some(watched) = watched.filter(|watched| event::is_readable(watched.as_fd())) {
                let said = letter::receive(watched).map(|letter| letter.bytes).unwrap_or_default();
                return Err(Failed::Told(said));
            }
        }
    }

    /// Accepts all waiting connections.
    fn open_door(&self, acceptor: &mut Acceptor) -> io::Result<()> {
        while let Some(connection) = self.listener.accept()? {
            acceptor.near(connection);
        }
        let Some(far) = &self.far else { return Ok(()) };
        loop {
            match far.accept() {
                Ok((stream, _)) => acceptor.far(stream),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Returns the secret by which connections over the network prove that they know the name of a port.
fn secret(place: u64, key: u64) -> [u8; 32] {
    let mut secret = [0; 32];
    secret[..8].copy_from_slice(&key.to_le_bytes());
    secret[8..16].copy_from_slice(&place.to_le_bytes());
    secret
}

/// Returns the network address for ports of this process; `None` in a job of one host, which uses no
/// network.
fn place(process: &Process) -> Option<Place> {
    interface(process).map(|interface| (interface, process.config.network.port_range))
}

/// Returns the address at which other hosts reach this process; `None` in a job of one host, which uses no
/// network.
pub(super) fn interface(process: &Process) -> Option<IpAddr> {
    let header = process.job.header();
    let named = || header.interface().parse().unwrap_or_else(|_| datagrams::default_interface());
    header.has_other_hosts().then(named)
}

/// Returns the name of a port's local socket.
fn socket_name(place: u64) -> Vec<u8> {
    format!("port-{place:016x}").into_bytes()
}

/// Connects to the port with this name.
///
/// # Errors
/// Returns InvalidInput if `name` is no name of a port, and ConnectionRefused if the port does not exist.
/// Returns PermissionDenied if it belongs to another user.
pub fn connect(name: &str) -> io::Result<Line> {
    let hexadecimal = |text: Option<&str>| {
        text.filter(|text| text.len() == 16).and_then(|text| u64::from_str_radix(text, 16).ok())
    };
    let mut parts = name.splitn(4, ':');
    let found = (parts.next(), hexadecimal(parts.next()), hexadecimal(parts.next()));
    let (Some(SCHEME), Some(place), Some(key)) = found else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let far: Option<SocketAddr> =
        parts.next().map(str::parse).transpose().map_err(|_| io::ErrorKind::InvalidInput)?;
    let connection = match (connect_to(&socket_name(place)), far) {
        (Err(error), Some(far)) if error.kind() == io::ErrorKind::ConnectionRefused => {
            return line::connect(far, &secret(place, key)).map(Line::Far);
        }
        (near, _) => near?,
    };
    letter::send(&connection, &key.to_le_bytes(), &[])?;
    Ok(Line::Near(connection))
}

/// Connects to a socket. Retries while its queue of connections is full.
///
/// # Errors
/// Returns the system's error; ConnectionRefused if no process listens there.
pub(super) fn connect_to(socket: &[u8]) -> io::Result<Connection> {
    let mut pause = Duration::from_millis(1);
    loop {
        match Connection::connect(socket) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(pause),
            other => return other,
        }
        pause = (pause * 2).min(Duration::from_millis(100));
    }
}

/// Waits until a process may have connected.
pub(super) fn wait_at(listener: &Listener) {
    event::wait_readable(&[listener.as_fd().as_raw_fd()], LOOK);
}

/// Connects to a port, and continues communication meanwhile. All members of `comm`, if it is given, must
/// call this operation.
///
/// # Errors
/// Returns an error of `class` with the reason if it cannot be reached.
pub(super) fn reach(
    held: &mut LaneGuard,
    process: &Process,
    name: &str,
    comm: Option<&Communicator>,
    class: ErrorClass,
) -> Result<Line> {
    let wanted = name.to_string();
    let reached = wait_beside(held, process, "a port to connect to", comm, move || connect(&wanted));
    reached.and_then(|reached| reached).map_err(|error| {
        let why = match error.kind() {
            io::ErrorKind::InvalidInput => "which is no name of a port".to_string(),
            io::ErrorKind::ConnectionRefused => "where nobody listens".to_string(),
            _ => format!("which cannot be reached: {error}"),
        };
        Error::new(class, format!("argument port_name is {name:?}, {why}"))
    })
}

/// Connects two leaders that can exchange data by `swap`.
///
/// # Errors
/// Returns `Comm` if no connection can be made.
pub fn connect_leaders(
    held: &mut LaneGuard,
    process: &Process,
    accepts: bool,
    mut swap: impl FnMut(&mut LaneGuard, Vec<u8>) -> Result<Vec<u8>>,
) -> Result<Line> {
    let failed = |why: String| Error::new(ErrorClass::Comm, format!("the groups cannot meet: {why}"));
    if !accepts {
        let name = swap(held, Vec::new())?;
        return reach(held, process, &String::from_utf8_lossy(&name), None, ErrorClass::Comm);
    }
    // Without a port the other side gets no name, and fails too.
    let port = OpenPort::open(place(process)).map_err(|error| failed(error.to_string()));
    swap(held, port.as_ref().map_or_else(|_| Vec::new(), |port| port.name().as_bytes().to_vec()))?;
    let port = port?;
    let came = wait_for(held, process, "the leader of the other group", move || port.accept(None));
    came.map_err(|error| failed(error.to_string()))?.map_err(|why| failed(format!("{why:?}")))
}

/// Accepts a connection at a port (MPI_Comm_accept).
///
/// # Errors
/// Returns `OpenPort` if this process, the root, has not opened the port, or the others cannot be met.
pub fn accept(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    root: Rank,
    name: impl FnOnce() -> Result<Vec<u8>>,
) -> Result<Arc<Communicator>> {
    let line = (comm.rank() == root).then(|| {
        let port = name().and_then(|name| find(held, process, &name))?;
        let came =
            wait_beside(held, process, "MPI_Comm_accept, for somebody who connects", Some(comm), move || {
                port.accept(None)
            });
        let failed = |why: String| Error::new(ErrorClass::Port, format!("nobody can connect: {why}"));
        match came {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(why)) => Err(failed(format!("{why:?}"))),
            Err(error) => Err(failed(error.to_string())),
        }
    });
    meet(held, process, comm, root, line, (Part::Accepts, ErrorClass::Port))
}

/// Connects to a port (MPI_Comm_connect).
///
/// # Errors
/// Returns `OpenPort` if no process listens there, or the others cannot be met.
pub fn connect_from(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    root: Rank,
    name: impl FnOnce() -> Result<Vec<u8>>,
) -> Result<Arc<Communicator>> {
    let line = (comm.rank() == root).then(|| {
        let name = name()?;
        reach(held, process, &String::from_utf8_lossy(&name), Some(comm), ErrorClass::Port)
    });
    meet(held, process, comm, root, line, (Part::Connects, ErrorClass::Port))
}

/// Size of the data that joining processes exchange: the name of a port and the identity of its host, each
/// ended by a zero.
const JOIN_BYTES: usize = 256;

/// Connects to the process at the other end of a socket (MPI_Comm_join). Both ends exchange names of ports,
/// and the one with the greater name accepts at its own. Returns `None` if the other process is on another
/// host and cannot be reached there.
///
/// # Errors
/// Returns `OpenPort` if the socket carries no data, or the processes cannot meet.
pub fn join(held: &mut LaneGuard, process: &Process, fd: i32) -> Result<Option<Arc<Communicator>>> {
    let failed = |error: io::Error| Error::new(ErrorClass::Port, format!("argument fd is {fd}: {error}"));
    let port = OpenPort::open(place(process)).map_err(failed)?;
    let is_far = port.far.is_some();
    let host = tutti_sys::this_process::host_identity();
    let mut words = [port.name().as_bytes(), &[0], &host, &[0]].concat();
    words.resize(words.len().max(JOIN_BYTES), 0);
    words.truncate(JOIN_BYTES);
    let mine = words.clone();
    let swapped = wait_for(held, process, "MPI_Comm_join, for the other end of the socket", move || {
        tutti_sys::socket::swap(fd, &mine)
    });
    let theirs = swapped.and_then(|swapped| swapped).map_err(failed)?;
    let part = |words: &[u8], at: usize| words.split(|byte| *byte == 0).nth(at).map(<[u8]>::to_vec);
    let (own, other) = (part(&words, 0).unwrap_or_default(), part(&theirs, 0).unwrap_or_default());
    // Names of ports with a network address have a fourth part.
    let both_far = is_far && other.iter().filter(|byte| **byte == b':').count() > 2;
    if part(&words, 1) != part(&theirs, 1) && !both_far {
        return Ok(None);
    }
    let myself = Arc::clone(&process.library.myself);
    if own < other {
        return connect_from(held, process, &myself, Rank(0), || Ok(other)).map(Some);
    }
    super::known(process).borrow_mut(held).ports.insert(own.clone(), Arc::new(port));
    let met = accept(held, process, &myself, Rank(0), || Ok(own.clone()));
    super::known(process).borrow_mut(held).ports.remove(&own);
    met.map(Some)
}

/// Opens a port (MPI_Open_port).
///
/// # Errors
/// Returns `OpenPort` if the system refuses it.
pub fn open(held: &LaneGuard, process: &Process) -> Result<String> {
    let port = OpenPort::open(place(process))
        .map_err(|error| Error::new(ErrorClass::Port, format!("no port can be opened: {error}")))?;
    let name = port.name().to_string();
    super::known(process).borrow_mut(held).ports.insert(name.clone().into_bytes(), Arc::new(port));
    Ok(name)
}

/// Closes a port (MPI_Close_port).
///
/// # Errors
/// Returns `OpenPort` if this process has not opened it.
pub fn close(held: &LaneGuard, process: &Process, name: &[u8]) -> Result<()> {
    match super::known(process).borrow_mut(held).ports.remove(name) {
        Some(_) => Ok(()),
        None => Err(not_open(name)),
    }
}

/// Returns the open port of this name.
///
/// # Errors
/// Returns `OpenPort` if this process has not opened it.
pub fn find(held: &LaneGuard, process: &Process, name: &[u8]) -> Result<Arc<OpenPort>> {
    super::known(process).borrow(held).ports.get(name).cloned().ok_or_else(|| not_open(name))
}

/// Makes the error for a port that this process has not opened.
fn not_open(name: &[u8]) -> Error {
    let reason = format!(
        "argument port_name is {}, which this process has not opened by MPI_Open_port",
        name.escape_ascii()
    );
    Error::new(ErrorClass::Port, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn check(name: &str, expected: io::ErrorKind) {
        assert_eq!(connect(name).map(drop).map_err(|error| error.kind()), Err(expected), "{name}");
    }

    /// Connects a process without the name, then one that knows it.
    fn check_port(port: &OpenPort) {
        let name = port.name();
        let (start, rest) = name.split_at(name.find(':').unwrap() + 18);
        let (key, end) = rest.split_at(16);
        let other = format!("{start}{:016x}{end}", u64::from_str_radix(key, 16).unwrap() ^ 1);
        std::thread::scope(|scope| {
            scope.spawn(|| drop(connect(&other)));
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(20));
                connect(name).unwrap().send(b"hello", &[]).unwrap();
            });
            assert_eq!(port.accept(None).unwrap().receive().unwrap().bytes, b"hello");
        });
    }

    #[test]
    fn a_name_leads_to_its_port_and_nothing_else_does() {
        let port = OpenPort::open(None).unwrap();
        let name = port.name().to_string();
        check_port(&port);
        drop(port);
        check(&name, io::ErrorKind::ConnectionRefused);
        check("", io::ErrorKind::InvalidInput);
        check("tutti:12:34", io::ErrorKind::InvalidInput);
        check("tcp:0000000000000000:0000000000000000", io::ErrorKind::InvalidInput);
        check("tutti:0000000000000000:0000000000000000:nowhere", io::ErrorKind::InvalidInput);
    }

    #[test]
    fn a_port_is_found_from_other_hosts() {
        let mut port = OpenPort::open(Some((HERE, None))).unwrap();
        // Another host has no socket of that name.
        let elsewhere = format!("elsewhere-{}", &port.name[..port.name.len().min(60)]);
        port.listener = Listener::bind(elsewhere.as_bytes(), Carries::Descriptors).unwrap();
        check_port(&port);
    }

    #[test]
    fn who_says_nothing_keeps_nobody_waiting() {
        let port = OpenPort::open(Some((HERE, None))).unwrap();
        let name = port.name().to_string();
        let to = port.far.as_ref().unwrap().local_addr().unwrap();
        let silent: Vec<_> = (0..50).map(|_| std::net::TcpStream::connect(to).unwrap()).collect();
        let near: Vec<_> = (0..50).map(|_| connect_to(&near_socket(&name)).unwrap()).collect();
        std::thread::scope(|scope| {
            // All connect before the first accept, and each is served.
            for number in 0..3u8 {
                let name = &name;
                scope.spawn(move || match number {
                    0 => connect(name).unwrap().send(&[number], &[]).unwrap(),
                    _ => {
                        let (place, key) = place_and_key(name);
                        let line = line::connect(to, &secret(place, key)).unwrap();
                        Line::Far(line).send(&[number], &[]).unwrap();
                    }
                });
            }
            let mut came: Vec<u8> =
                (0..3).map(|_| port.accept(None).unwrap().receive().unwrap().bytes[0]).collect();
            came.sort_unstable();
            assert_eq!(came, [0, 1, 2]);
        });
        drop((silent, near));
    }

    fn place_and_key(name: &str) -> (u64, u64) {
        let mut numbers = name.split(':').skip(1).map(|part| u64::from_str_radix(part, 16).unwrap());
        (numbers.next().unwrap(), numbers.next().unwrap())
    }

    fn near_socket(name: &str) -> Vec<u8> {
        socket_name(place_and_key(name).0)
    }
}
