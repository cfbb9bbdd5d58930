//! Ports (MPI-5 section 11.9.1): local sockets, and in a job of several hosts sockets of the network too.
//!
//! The name of a port says where it is and holds a key that nobody guesses. On a host both sides are of the
//! same user ([`tutti_sys::local_socket`]); between hosts each proves that it knows the key ([`line`]).

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

/// What the names of ports begin with.
const SCHEME: &str = "tutti";
/// How long a look at a port takes before it asks whether it should go on.
const LOOK: Duration = Duration::from_secs(3600);

/// An open port.
#[derive(Debug)]
pub struct OpenPort {
    listener: Listener,
    /// For those on other hosts.
    far: Option<TcpListener>,
    name: String,
    /// LaneGuard by who waits for somebody to come; others who do have their turn after it.
    acceptor: Mutex<Acceptor>,
}

/// Where those on other hosts find a port: at this address, on a port of the range, if one is set.
pub type Place = (IpAddr, Option<PortRange>);

/// Why nobody came.
#[derive(Debug)]
pub enum Failed {
    /// The system refuses something.
    System(io::Error),
    /// What was watched meanwhile has said this, or has ended without a word.
    Told(Vec<u8>),
}

impl OpenPort {
    /// Opens one; those on other hosts find it at `place`, if one is given.
    ///
    /// # Errors
    /// What the system reports.
    pub fn open(place_on_network: Option<Place>) -> io::Result<OpenPort> {
        let (place, key) = (process::random()?, process::random()?);
        let socket = socket_name(place);
        // What roots say to each other is little, and has to pass every path.
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

    /// What connects find it by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits for somebody to connect who knows the name; or until `watched`, if given, says something or ends.
    ///
    /// # Errors
    /// [`Failed`].
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

    /// Takes in all who have come.
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

/// What proves over the network that somebody knows the name of a port.
fn secret(place: u64, key: u64) -> [u8; 32] {
    let mut secret = [0; 32];
    secret[..8].copy_from_slice(&key.to_le_bytes());
    secret[8..16].copy_from_slice(&place.to_le_bytes());
    secret
}

/// Where ports of this process are on the network; `None` in a job of one host, which is not in it.
fn place(process: &Process) -> Option<Place> {
    interface(process).map(|interface| (interface, process.config.network.port_range))
}

/// The address at which other hosts reach this process; `None` in a job of one host, which is not in the network.
pub(super) fn interface(process: &Process) -> Option<IpAddr> {
    let header = process.job.header();
    let named = || header.interface().parse().unwrap_or_else(|_| datagrams::default_interface());
    header.has_other_hosts().then(named)
}

fn socket_name(place: u64) -> Vec<u8> {
    format!("port-{place:016x}").into_bytes()
}

/// Connects to a port.
///
/// # Errors
/// InvalidInput when `name` is no name of a port, ConnectionRefused when there is none, PermissionDenied when it is
/// another user's.
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

/// Connects to a socket; waits where thousands do so already.
///
/// # Errors
/// What the system reports, ConnectionRefused when nobody listens there.
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

/// Waits until somebody may have connected.
pub(super) fn wait_at(listener: &Listener) {
    event::wait_readable(&[listener.as_fd().as_raw_fd()], LOOK);
}

/// Connects to a port, and goes on with communication meanwhile. All members of `comm`, if it is given, have
/// to call this operation.
///
/// # Errors
/// Of `class`: why it cannot be reached.
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

/// A connection between two leaders that can speak to one another by `swap`.
///
/// # Errors
/// `Comm` when there is none.
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
    // Without a port the other side is told no name, and fails too.
    let port = OpenPort::open(place(process)).map_err(|error| failed(error.to_string()));
    swap(held, port.as_ref().map_or_else(|_| Vec::new(), |port| port.name().as_bytes().to_vec()))?;
    let port = port?;
    let came = wait_for(held, process, "the leader of the other group", move || port.accept(None));
    came.map_err(|error| failed(error.to_string()))?.map_err(|why| failed(format!("{why:?}")))
}

/// MPI_Comm_accept.
///
/// # Errors
/// `OpenPort` when this process, the root, has not opened the port, or the others cannot be met.
pub fn accept(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Communicator,
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

/// MPI_Comm_connect.
///
/// # Errors
/// `OpenPort` when nobody listens there, or the others cannot be met.
pub fn connect_from(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Communicator,
    root: Rank,
    name: impl FnOnce() -> Result<Vec<u8>>,
) -> Result<Arc<Communicator>> {
    let line = (comm.rank() == root).then(|| {
        let name = name()?;
        reach(held, process, &String::from_utf8_lossy(&name), Some(comm), ErrorClass::Port)
    });
    meet(held, process, comm, root, line, (Part::Connects, ErrorClass::Port))
}

/// Bytes that processes swap which join: the name of a port, on which host it is, each ended by a zero.
const JOIN_BYTES: usize = 256;

/// MPI_Comm_join: `None` where the process at the other end of the socket is on another host and cannot be reached there. Both ends swap ports; whose name
/// is the greater waits at its own.
///
/// # Errors
/// `OpenPort` when the socket carries nothing, or the processes cannot meet.
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
    // Names of ports that other hosts reach have further parts.
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

/// MPI_Open_port.
///
/// # Errors
/// `OpenPort` when the system refuses it.
pub fn open(held: &LaneGuard, process: &Process) -> Result<String> {
    let port = OpenPort::open(place(process))
        .map_err(|error| Error::new(ErrorClass::Port, format!("no port can be opened: {error}")))?;
    let name = port.name().to_string();
    super::known(process).borrow_mut(held).ports.insert(name.clone().into_bytes(), Arc::new(port));
    Ok(name)
}

/// MPI_Close_port.
///
/// # Errors
/// `OpenPort` when this process has not opened it.
pub fn close(held: &LaneGuard, process: &Process, name: &[u8]) -> Result<()> {
    match super::known(process).borrow_mut(held).ports.remove(name) {
        Some(_) => Ok(()),
        None => Err(not_open(name)),
    }
}

/// The port of this name.
///
/// # Errors
/// `OpenPort` when this process has not opened it.
pub fn find(held: &LaneGuard, process: &Process, name: &[u8]) -> Result<Arc<OpenPort>> {
    super::known(process).borrow(held).ports.get(name).cloned().ok_or_else(|| not_open(name))
}

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

    /// Somebody else comes, and somebody who knows the name.
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
            // All come while nobody is let in yet, and each is served.
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
