//! Sockets that std does not make: those that connect without waiting.

use std::io;
use std::mem::size_of_val;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// An address as the kernel takes it.
enum Raw {
    V4(libc::sockaddr_in),
    V6(libc::sockaddr_in6),
}

impl Raw {
    fn new(address: SocketAddr) -> Raw {
        match address {
            SocketAddr::V4(address) => Raw::V4(libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: address.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) },
                sin_zero: [0; 8],
            }),
            SocketAddr::V6(address) => Raw::V6(libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: address.port().to_be(),
                sin6_flowinfo: address.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                sin6_scope_id: address.scope_id(),
            }),
        }
    }

    fn pass(&self) -> (*const libc::sockaddr, libc::socklen_t) {
        match self {
            Raw::V4(raw) => (std::ptr::from_ref(raw).cast(), size_of_val(raw) as libc::socklen_t),
            Raw::V6(raw) => (std::ptr::from_ref(raw).cast(), size_of_val(raw) as libc::socklen_t),
        }
    }
}

/// Sends `mine` over a connected socket of the program and receives as many bytes; waits for both.
///
/// # Errors
/// What the system reports; UnexpectedEof when the other end is closed.
pub fn swap(fd: i32, mine: &[u8]) -> io::Result<Vec<u8>> {
    let mut theirs = vec![0u8; mine.len()];
    let (mut sent, mut received) = (0, 0);
    while sent < mine.len() || received < theirs.len() {
        let events = if sent < mine.len() { libc::POLLIN | libc::POLLOUT } else { libc::POLLIN };
        let mut poll = libc::pollfd { fd, events, revents: 0 };
        // SAFETY: one writable structure.
        check(unsafe { libc::poll(&mut poll, 1, -1) })
            .or_else(|error| passing(&error).then_some(0).ok_or(error))?;
        if sent < mine.len() {
            let (left, flags) = (&mine[sent..], libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT);
            // SAFETY: the bytes are readable.
            let count = unsafe { libc::send(fd, left.as_ptr().cast(), left.len(), flags) };
            sent += moved(count)?.unwrap_or(0);
        }
        let left = &mut theirs[received..];
        // SAFETY: the bytes are writable.
        let count = unsafe { libc::recv(fd, left.as_mut_ptr().cast(), left.len(), libc::MSG_DONTWAIT) };
        received += match moved(count)? {
            Some(0) if !left.is_empty() => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => count.unwrap_or(0),
        };
    }
    Ok(theirs)
}

/// How many bytes a call has moved; `None` if it has to be made again later.
fn moved(count: isize) -> io::Result<Option<usize>> {
    if let Ok(count) = usize::try_from(count) {
        return Ok(Some(count));
    }
    let error = io::Error::last_os_error();
    if passing(&error) { Ok(None) } else { Err(error) }
}

fn passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Begins to connect to `to`, from the interface with the address `from` if one is given. The stream does not block; it can
/// be written when the connection is there, or `take_error` tells why it is not.
///
/// # Errors
/// What the system reports at once, for example too many descriptors or no route.
pub fn connect(to: SocketAddr, from: Option<IpAddr>) -> io::Result<TcpStream> {
    let family = if to.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: a plain system call.
    let fd = check(unsafe { libc::socket(family, kind, 0) })?;
    // SAFETY: fd was just created and is owned by nobody else.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    if let Some(from) = from {
        let raw = Raw::new(SocketAddr::new(from, 0));
        let (address, bytes) = raw.pass();
        // SAFETY: the address is valid for the call, with its size.
        check(unsafe { libc::bind(fd.as_raw_fd(), address, bytes) })?;
    }
    let raw = Raw::new(to);
    let (address, bytes) = raw.pass();
    // SAFETY: the address is valid for the call, with its size.
    match check(unsafe { libc::connect(fd.as_raw_fd(), address, bytes) }) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(TcpStream::from(fd)),
    }
}

fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    fn check(interface: &str) {
        let Ok(listener) = TcpListener::bind((interface, 0)) else { return };
        let address = listener.local_addr().unwrap();
        let mut stream = connect(address, Some(address.ip())).unwrap();
        let (mut other, from) = listener.accept().unwrap();
        assert_eq!(from.ip(), address.ip());
        other.write_all(b"hello").unwrap();
        stream.set_nonblocking(false).unwrap();
        let mut bytes = [0; 5];
        stream.read_exact(&mut bytes).unwrap();
        assert_eq!((&bytes, stream.take_error().unwrap().is_none()), (b"hello", true));
    }

    #[test]
    fn a_socket_connects_from_an_interface() {
        check("127.0.0.1");
        check("::1");
    }
}
