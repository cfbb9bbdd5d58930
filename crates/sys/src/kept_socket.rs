//! Sockets between ranks as seen by the daemon that takes a checkpoint: their kinds, and the data in them.
//!
//! A rank marks the sockets that its transport can restore, in the socket itself. So no table of
//! descriptors must be correct at the moment when a rank is stopped. The mark is a receive timeout, which
//! has no effect on a socket that never waits. Connections that a listener accepts inherit its mark.

use std::io;
use std::mem::size_of_val;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::refusal;
use crate::socket::{self, SAFE_SEGMENT_BYTES};

/// The mark: a receive timeout in seconds that no program would choose.
const MARK_S: libc::time_t = 70_417_713;
/// Mark of sockets that their owners create again after a restart.
const RENEWED_S: libc::time_t = MARK_S + 1;
/// Number of bytes that are read at once.
const PIECE: usize = 256 << 10;

/// Kind of a marked socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptKind {
    /// Socket for datagrams.
    Datagrams,
    /// Socket that listens for connections.
    Listener,
    /// TCP connection with its two ends.
    Connection {
        /// Address of this end.
        local: SocketAddr,
        /// Address of the other end.
        peer: SocketAddr,
        /// True if the connection sends short segments only.
        is_narrow: bool,
    },
    /// Connection that is not established yet, or not any more.
    Unconnected,
}

fn option<T>(fd: BorrowedFd<'_>, name: libc::c_int, mut value: T) -> io::Result<T> {
    let mut size = size_of_val(&value) as libc::socklen_t;
    let room = std::ptr::from_mut(&mut value).cast();
    // SAFETY: the value is writable for its size, and any bytes are one of the plain types requested here.
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
/// The system's error, if `fd` is no socket.
pub fn mark(fd: BorrowedFd<'_>) -> io::Result<()> {
    let time = libc::timeval { tv_sec: MARK_S, tv_usec: 0 };
    set(fd, libc::SOL_SOCKET, libc::SO_RCVTIMEO, &time)
}

/// Marks a socket that never waits as one that a restart omits, because its owner creates another one.
///
/// # Errors
/// The system's error, if `fd` is no socket.
pub fn mark_as_renewed(fd: BorrowedFd<'_>) -> io::Result<()> {
    let time = libc::timeval { tv_sec: RENEWED_S, tv_usec: 0 };
    set(fd, libc::SOL_SOCKET, libc::SO_RCVTIMEO, &time)
}

/// Returns true if the owner of a socket creates another one after a restart.
pub fn is_renewed(fd: BorrowedFd<'_>) -> bool {
    let none = libc::timeval { tv_sec: 0, tv_usec: 0 };
    option(fd, libc::SO_RCVTIMEO, none).is_ok_and(|time| time.tv_sec == RENEWED_S)
}

/// Returns true if a socket is marked.
pub fn is_marked(fd: BorrowedFd<'_>) -> bool {
    let none = libc::timeval { tv_sec: 0, tv_usec: 0 };
    option(fd, libc::SO_RCVTIMEO, none).is_ok_and(|time| time.tv_sec == MARK_S)
}

/// Returns the kind of a marked socket.
///
/// # Errors
/// Errors of the system.
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

/// Describes a socket that is not marked, for the user: its kind and the other end.
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

/// Returns the name of the other end of a Unix socket, if it has one. An abstract name begins with `@`.
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

/// Returns the local address of a socket.
///
/// # Errors
/// Errors of the system.
pub fn address(fd: BorrowedFd<'_>) -> io::Result<SocketAddr> {
    UdpSocket::from(fd.try_clone_to_owned()?).local_addr()
}

/// Reads all that has arrived on a connection, without waiting, and acknowledges it at once. Returns false
/// if the connection has ended.
///
/// # Errors
/// Lack of memory in the kernel. A broken connection is no error: it has ended.
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
    // The other end cannot distinguish unacknowledged bytes from bytes in transit.
    let _ = set(fd, libc::IPPROTO_TCP, libc::TCP_QUICKACK, &1i32);
    Ok(true)
}

/// Reads some of the data that has arrived. MSG_DONTWAIT is needed: a connection that its rank has just
/// accepted would wait for as long as the mark says.
fn receive(fd: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<usize> {
    let room = bytes.as_mut_ptr().cast();
    // SAFETY: the bytes are writable for their length.
    let got = unsafe { libc::recv(fd.as_raw_fd(), room, bytes.len(), libc::MSG_DONTWAIT) };
    usize::try_from(got).map_err(|_| io::Error::last_os_error())
}

/// Returns the number of bytes sent on a connection that are not acknowledged.
pub fn unacknowledged(fd: BorrowedFd<'_>) -> u64 {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the number is writable.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if result == 0 { u64::from(bytes.max(0).cast_unsigned()) } else { 0 }
}

/// Returns a connection whose other end is closed. It replaces a connection that the other side never had.
///
/// # Errors
/// Errors of the system.
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
        // There are no bytes, and a blocking read would wait.
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
