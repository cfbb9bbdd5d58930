//! Sockets between ranks, as the daemon sees them that keeps a job: which they are, and what they hold.
//!
//! A rank marks those that its transport knows how to go on with, in the socket itself: no table of
//! descriptors has to be right at the moment when a rank is stopped. The mark is how long a receive would
//! wait, which of a socket that never waits means nothing; whoever a listener accepts has its mark.

use std::io;
use std::mem::size_of_val;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::refusal;
use crate::socket::{self, SAFE_SEGMENT_BYTES};

/// The mark: seconds that nobody means.
const MARK_S: libc::time_t = 70_417_713;
/// The same of sockets that their owners make again.
const RENEWED_S: libc::time_t = MARK_S + 1;
/// Bytes taken at once.
const PIECE: usize = 256 << 10;

/// What a marked socket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptKind {
    /// For datagrams.
    Datagrams,
    /// It listens.
    Listener,
    /// A connection.
    Connection {
        /// Its address here.
        local: SocketAddr,
        /// And there.
        peer: SocketAddr,
        /// It sends short segments only.
        is_narrow: bool,
    },
    /// A connection that does not exist yet, or any more.
    Unconnected,
}

fn option<T>(fd: BorrowedFd<'_>, name: libc::c_int, mut value: T) -> io::Result<T> {
    let mut size = size_of_val(&value) as libc::socklen_t;
    let room = std::ptr::from_mut(&mut value).cast();
    // SAFETY: the value is writable for its size, and any bytes are one of the plain types asked for here.
    match unsafe { libc::getsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, name, room, &mut size) } {
        0 => Ok(value),
        _ => Err(io::Error::last_os_error()),
    }
}

fn set<T>(fd: BorrowedFd<'_>, level: libc::c_int, name: libc::c_int, value: &T) -> io::Result<()> {
    let size = size_of_val(value) as libc::socklen_t;
    // SAFETY: the value is readable for its size.
    match unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, std::ptr::from_ref(value).cast(), size) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Marks a socket that never waits.
///
/// # Errors
/// What the system reports: it is no socket.
pub fn mark(fd: BorrowedFd<'_>) -> io::Result<()> {
    let time = libc::timeval { tv_sec: MARK_S, tv_usec: 0 };
    set(fd, libc::SOL_SOCKET, libc::SO_RCVTIMEO, &time)
}

/// Marks a socket that never waits as one that a restart does without: its owner makes another one.
///
/// # Errors
/// What the system reports: it is no socket.
pub fn mark_as_renewed(fd: BorrowedFd<'_>) -> io::Result<()> {
    let time = libc::timeval { tv_sec: RENEWED_S, tv_usec: 0 };
    set(fd, libc::SOL_SOCKET, libc::SO_RCVTIMEO, &time)
}

/// Returns true if the owner of a socket makes another one after a restart.
pub fn is_renewed(fd: BorrowedFd<'_>) -> bool {
    let none = libc::timeval { tv_sec: 0, tv_usec: 0 };
    option(fd, libc::SO_RCVTIMEO, none).is_ok_and(|time| time.tv_sec == RENEWED_S)
}

/// Whether a socket is marked.
pub fn is_marked(fd: BorrowedFd<'_>) -> bool {
    let none = libc::timeval { tv_sec: 0, tv_usec: 0 };
    option(fd, libc::SO_RCVTIMEO, none).is_ok_and(|time| time.tv_sec == MARK_S)
}

/// What a marked socket is.
///
/// # Errors
/// What the system reports.
pub fn kind(fd: BorrowedFd<'_>) -> io::Result<KeptKind> {
    if option(fd, libc::SO_TYPE, 0)? == libc::SOCK_DGRAM {
        return Ok(KeptKind::Datagrams);
    }
    if option(fd, libc::SO_ACCEPTCONN, 0)? != 0 {
        return Ok(KeptKind::Listener);
    }
    let stream = TcpStream::from(fd.try_clone_to_owned()?);
    let Ok(peer) = stream.peer_addr() else { return Ok(KeptKind::Unconnected) };
    let is_narrow = socket::segment_bytes(fd).is_ok_and(|bytes| bytes <= SAFE_SEGMENT_BYTES);
    Ok(KeptKind::Connection { local: stream.local_addr()?, peer, is_narrow })
}

/// Describes a socket that is not marked, for the user: its kind, and the other end.
pub fn describe(fd: BorrowedFd<'_>) -> String {
    let kind = option(fd, libc::SO_TYPE, 0).unwrap_or(0);
    match option(fd, libc::SO_DOMAIN, 0).unwrap_or(0) {
        libc::AF_UNIX => match peer_name(fd) {
            Some(name) => format!("Unix socket to {name}"),
            None => "Unix socket".to_string(),
        },
        libc::AF_INET | libc::AF_INET6 if kind == libc::SOCK_STREAM => match self::kind(fd) {
            Ok(KeptKind::Connection { peer, .. }) => format!("TCP to {peer}"),
            Ok(KeptKind::Listener) => {
                address(fd).map_or_else(|_| "TCP".to_string(), |at| format!("TCP, listens at {at}"))
            }
            _ => "TCP, not connected".to_string(),
        },
        libc::AF_INET | libc::AF_INET6 if kind == libc::SOCK_DGRAM => "UDP".to_string(),
        libc::AF_INET | libc::AF_INET6 => "raw IP".to_string(),
        libc::AF_NETLINK => "netlink".to_string(),
        libc::AF_PACKET => "packets of an interface".to_string(),
        libc::AF_VSOCK => "vsock".to_string(),
        domain => format!("address family {domain}"),
    }
}

/// Returns the name of the other end of a Unix socket, if it has one; `@` stands before an abstract name.
pub fn peer_name(fd: BorrowedFd<'_>) -> Option<String> {
    use std::os::linux::net::SocketAddrExt;
    let stream = std::os::unix::net::UnixStream::from(fd.try_clone_to_owned().ok()?);
    let peer = stream.peer_addr().ok()?;
    match (peer.as_pathname(), peer.as_abstract_name()) {
        (Some(path), _) => Some(path.display().to_string()),
        (None, Some(name)) => Some(format!("@{}", String::from_utf8_lossy(name))),
        (None, None) => None,
    }
}

/// Where a socket is reached.
///
/// # Errors
/// What the system reports.
pub fn address(fd: BorrowedFd<'_>) -> io::Result<SocketAddr> {
    UdpSocket::from(fd.try_clone_to_owned()?).local_addr()
}

/// Takes all that has arrived on a connection, and does not wait: false: nothing comes any more. What has
/// been taken is acknowledged at once.
///
/// # Errors
/// Out of memory in the kernel; a connection that broke has only come to its end.
pub fn drain(fd: BorrowedFd<'_>, into: &mut Vec<u8>) -> io::Result<bool> {
    loop {
        let before = into.len();
        into.resize(before + PIECE, 0);
        let got = receive(fd, &mut into[before..]);
        into.truncate(before + *got.as_ref().unwrap_or(&0));
        match got {
            Ok(0) => return Ok(false),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) if refusal::errno(&error) == Some(libc::ENOBUFS) => return Err(error),
            Err(_) => return Ok(false),
        }
    }
    // What is not acknowledged looks to the other end as if it were on its way.
    let _ = set(fd, libc::IPPROTO_TCP, libc::TCP_QUICKACK, &1i32);
    Ok(true)
}

/// Some of what has arrived. A connection that its rank has just accepted would wait, with the mark for ever.
fn receive(fd: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<usize> {
    let room = bytes.as_mut_ptr().cast();
    // SAFETY: the bytes are writable for their length.
    let got = unsafe { libc::recv(fd.as_raw_fd(), room, bytes.len(), libc::MSG_DONTWAIT) };
    usize::try_from(got).map_err(|_| io::Error::last_os_error())
}

/// Bytes that were sent on a connection and are not acknowledged.
pub fn unacknowledged(fd: BorrowedFd<'_>) -> u64 {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the number is writable.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if result == 0 { u64::from(bytes.max(0).cast_unsigned()) } else { 0 }
}

/// A connection whose other end is closed: what comes of one that the other side never had.
///
/// # Errors
/// What the system reports.
pub fn closed_connection() -> io::Result<TcpStream> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
    let stream = TcpStream::connect(listener.local_addr()?)?;
    drop(listener.accept()?);
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::os::fd::AsFd;

    use super::*;
    use crate::local_socket::{Carries, Connection, Listener};

    #[test]
    fn sockets_are_described() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        assert_eq!(describe(listener.as_fd()), format!("TCP, listens at {at}"));
        let stream = TcpStream::connect(at).unwrap();
        assert_eq!(describe(stream.as_fd()), format!("TCP to {at}"));
        assert_eq!(describe(UdpSocket::bind("127.0.0.1:0").unwrap().as_fd()), "UDP");
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(describe(one.as_fd()), "Unix socket");
        let name = format!("tutti-kept-socket-{}", std::process::id());
        let _listener = Listener::bind(name.as_bytes(), Carries::Bytes).unwrap();
        let connection = Connection::connect(name.as_bytes()).unwrap();
        let described = describe(connection.as_fd());
        assert!(described.starts_with("Unix socket to ") && described.contains(&name), "{described}");
    }

    #[test]
    fn marks_are_in_the_socket_and_pass_to_who_is_accepted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(!is_marked(listener.as_fd()));
        mark_as_renewed(listener.as_fd()).unwrap();
        assert!(is_renewed(listener.as_fd()) && !is_marked(listener.as_fd()));
        mark(listener.as_fd()).unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let accepted = listener.accept().unwrap().0;
        assert!(is_marked(accepted.as_fd()) && is_marked(listener.as_fd()) && !is_marked(stream.as_fd()));
        assert_eq!(kind(listener.as_fd()).unwrap(), KeptKind::Listener);
        assert_eq!(address(listener.as_fd()).unwrap(), listener.local_addr().unwrap());
        let (local, peer) = (stream.peer_addr().unwrap(), stream.local_addr().unwrap());
        assert_eq!(kind(accepted.as_fd()).unwrap(), KeptKind::Connection { local, peer, is_narrow: false });
        let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_eq!(kind(datagrams.as_fd()).unwrap(), KeptKind::Datagrams);
        let mut got = Vec::new();
        // Nothing is there, and a read would wait.
        assert!(drain(accepted.as_fd(), &mut got).unwrap() && got.is_empty());
        stream.write_all(b"all of it").unwrap();
        while got.len() < 9 {
            assert!(drain(accepted.as_fd(), &mut got).unwrap());
        }
        assert_eq!((&got[..], unacknowledged(stream.as_fd())), (&b"all of it"[..], 0));
        drop(stream);
        while drain(accepted.as_fd(), &mut got).unwrap() {}
        assert_eq!(got.len(), 9);
        let mut closed = closed_connection().unwrap();
        assert_eq!(closed.read(&mut [0; 9]).unwrap(), 0);
    }
}
