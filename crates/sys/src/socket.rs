//! Sockets that std does not create: those that connect without waiting, those on ports of a range, and
//! those that send short segments only.

use std::io::{self, IoSlice};
use std::mem::{size_of_val, zeroed};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use tutti_base::PortRange;

use crate::{event, process};

/// Payload of a segment that passes every path, in bytes: IPv4 guarantees 576 bytes with headers (RFC 9293,
/// section 3.7.1).
pub const SAFE_SEGMENT_BYTES: u32 = 536;
/// Maximum number of pieces in one call (IOV_MAX).
const MOST_PIECES: usize = 1024;
/// Maximum number of connections that wait at a listener for acceptance; the system may have a lower bound.
const BACKLOG: i32 = 4096;

/// Address in the kernel's format.
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

/// Sends `mine` over a connected socket of the program and receives as many bytes. Waits for both.
///
/// # Errors
/// The system's error; UnexpectedEof when the other end is closed.
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

/// Sends pieces over a connection, as many as the system accepts now, and returns the number of bytes, which
/// is 0 if the socket has no room. Unlike std, it never raises SIGPIPE when the other end is closed. The
/// signal would end the user's program; std raises it when it sends more than one piece.
///
/// # Errors
/// The system's error.
#[inline]
pub fn send(stream: BorrowedFd<'_>, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
    // SAFETY: an all-zero header is a valid value of that plain C structure.
    let mut header: libc::msghdr = unsafe { zeroed() };
    // An IoSlice is an iovec, as std guarantees; the system only reads it.
    header.msg_iov = pieces.as_ptr().cast_mut().cast();
    header.msg_iovlen = pieces.len().min(MOST_PIECES);
    loop {
        // SAFETY: the header points to pieces that live through the call.
        let count = unsafe { libc::sendmsg(stream.as_raw_fd(), &header, libc::MSG_NOSIGNAL) };
        if let Ok(count) = usize::try_from(count) {
            return Ok(count);
        }
        let error = io::Error::last_os_error();
        match error.kind() {
            io::ErrorKind::WouldBlock => return Ok(0),
            io::ErrorKind::Interrupted => {}
            _ => return Err(error),
        }
    }
}

/// Returns the number of bytes that a call has moved; `None` if the call must be repeated later.
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

/// Listens at `interface`, on a port of `ports` if given. Accepted connections use segments of at most
/// `segment_bytes`, if given.
///
/// # Errors
/// The system's error; AddrInUse, with advice for the user, when no port of the range is free.
pub fn listen(
    interface: IpAddr,
    ports: Option<PortRange>,
    segment_bytes: Option<u32>,
) -> io::Result<TcpListener> {
    let listener = on_a_port(interface, ports, TcpListener::bind)?;
    if let Some(bytes) = segment_bytes {
        limit_segments(&listener, bytes)?;
    }
    // std listens with a shorter queue; this one has room for all ranks of a large job, which may connect
    // at once.
    // SAFETY: a plain system call on an open descriptor.
    check(unsafe { libc::listen(listener.as_raw_fd(), BACKLOG) })?;
    Ok(listener)
}

/// Returns true if an error means that a descriptor is no socket any more, because it was closed.
pub fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBADF | libc::ENOTSOCK))
}

/// Creates a socket for datagrams at `interface`, on a port of `ports` if given.
///
/// # Errors
/// Errors of [`listen`].
pub fn datagrams(interface: IpAddr, ports: Option<PortRange>) -> io::Result<UdpSocket> {
    on_a_port(interface, ports, UdpSocket::bind)
}

/// Makes a socket send datagrams without a checksum (RFC 768 allows that over IPv4). For datagrams that
/// have a tag of their own and are changed in transit.
///
/// # Errors
/// Errors of the system.
pub fn omit_checksums(socket: &UdpSocket) -> io::Result<()> {
    let yes: libc::c_int = 1;
    let size = size_of_val(&yes) as libc::socklen_t;
    let value = std::ptr::from_ref(&yes).cast();
    // SAFETY: the value is readable for its size.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_NO_CHECK, value, size) })?;
    Ok(())
}

/// Returns true if `other` is a socket for datagrams over IPv4 (UDP) in the network namespace of `own`.
/// Before Linux 5.14 the system does not report the namespace, and the result is false.
pub fn is_udp_beside(other: BorrowedFd<'_>, own: BorrowedFd<'_>) -> bool {
    /// Socket option SO_NETNS_COOKIE: a unique number of the network namespace.
    const NETWORK: libc::c_int = 71;
    let network = option(other, NETWORK, 0u64);
    let is = |name, value: libc::c_int| option(other, name, 0) == Some(value);
    is(libc::SO_DOMAIN, libc::AF_INET)
        && is(libc::SO_TYPE, libc::SOCK_DGRAM)
        && is(libc::SO_PROTOCOL, libc::IPPROTO_UDP)
        && network.is_some()
        && network == option(own, NETWORK, 0u64)
}

/// Returns an option of a socket; `None` if it has none of that name and size.
fn option<T: Copy>(socket: BorrowedFd<'_>, name: libc::c_int, mut value: T) -> Option<T> {
    let mut size = size_of::<T>() as libc::socklen_t;
    let room = std::ptr::from_mut(&mut value).cast();
    // SAFETY: the value is writable for its size, and a plain number for the options requested here.
    let told = unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, name, room, &mut size) };
    (told == 0 && size as usize == size_of::<T>()).then_some(value)
}

/// Binds to any port, or to one of the range. Processes start at random ports of the range, so that they
/// rarely collide.
fn on_a_port<S>(
    interface: IpAddr,
    ports: Option<PortRange>,
    bind: impl Fn(SocketAddr) -> io::Result<S>,
) -> io::Result<S> {
    let Some(ports) = ports else { return bind(SocketAddr::new(interface, 0)) };
    for port in ports.beginning_anywhere(process::random()?) {
        match bind(SocketAddr::new(interface, port)) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            bound => return bound,
        }
    }
    let reason = format!(
        "every port of {ports} (TUTTI_PORT_RANGE) is in use at {interface}: a host needs two for each rank, and one \
         more where it starts other hosts"
    );
    Err(io::Error::new(io::ErrorKind::AddrInUse, reason))
}

/// Limits the segments of TCP to `bytes` in both directions. Applies to a socket that is not connected yet,
/// or to the connections that a listener accepts.
fn limit_segments(socket: &impl AsRawFd, bytes: u32) -> io::Result<()> {
    let bytes = bytes as libc::c_int;
    let size = size_of_val(&bytes) as libc::socklen_t;
    let value = std::ptr::from_ref(&bytes).cast();
    // SAFETY: the value is readable for its size.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_MAXSEG, value, size) })?;
    Ok(())
}

/// Returns the payload of a segment on this connection at present, in bytes.
///
/// # Errors
/// The system's error, if it is no TCP connection.
pub fn segment_bytes(stream: BorrowedFd<'_>) -> io::Result<u32> {
    let mut bytes: libc::c_int = 0;
    let mut size = size_of_val(&bytes) as libc::socklen_t;
    let value = std::ptr::from_mut(&mut bytes).cast();
    // SAFETY: the value is writable for its size.
    check(unsafe {
        libc::getsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_MAXSEG, value, &mut size)
    })?;
    Ok(u32::try_from(bytes).unwrap_or(0))
}

/// State of the path to the other end, as known to TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// Number of segments in transit that are not acknowledged.
    pub unacknowledged: u32,
    /// Number of unanswered retransmissions of the first of them.
    pub repetitions: u32,
    /// Time since the last acknowledgement.
    pub unheard: Duration,
}

/// Returns the state of the path to the other end of a connection.
///
/// # Errors
/// The system's error, if it is no TCP connection.
pub fn path(stream: BorrowedFd<'_>) -> io::Result<Path> {
    // SAFETY: plain numbers, for which zero is a value.
    let mut info: libc::tcp_info = unsafe { zeroed() };
    let mut size = size_of_val(&info) as libc::socklen_t;
    let value = std::ptr::from_mut(&mut info).cast();
    // SAFETY: the value is writable for its size.
    check(unsafe {
        libc::getsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, value, &mut size)
    })?;
    Ok(Path {
        unacknowledged: info.tcpi_unacked,
        repetitions: info.tcpi_retransmits.into(),
        unheard: Duration::from_millis(info.tcpi_last_ack_recv.into()),
    })
}

/// Connects to `to` and waits at most `time`. The stream blocks.
///
/// # Errors
/// The system's error; TimedOut.
pub fn connect_within(to: SocketAddr, segment_bytes: Option<u32>, time: Duration) -> io::Result<TcpStream> {
    let (stream, until) = (connect(to, None, segment_bytes)?, Instant::now() + time);
    while !event::is_writable(std::os::fd::AsFd::as_fd(&stream)) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, format!("no answer for {time:?}")));
        }
        event::wait_writable(&[stream.as_raw_fd()], left);
    }
    if let Some(error) = stream.take_error()? {
        return Err(error);
    }
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Starts to connect to `to`, from the interface with the address `from` if given, by segments of at most
/// `segment_bytes` if given. The stream does not block. It becomes writable when the connection is
/// established or has failed; `take_error` returns the reason.
///
/// # Errors
/// Immediate errors of the system, for example too many descriptors or no route.
pub fn connect(to: SocketAddr, from: Option<IpAddr>, segment_bytes: Option<u32>) -> io::Result<TcpStream> {
    let family = if to.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: a plain system call.
    let fd = check(unsafe { libc::socket(family, kind, 0) })?;
    // SAFETY: fd was just created and has no other owner.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    if let Some(bytes) = segment_bytes {
        limit_segments(&fd, bytes)?;
    }
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
    use std::net::Ipv4Addr;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn who_sends_pieces_to_a_closed_end_gets_an_error() {
        let listener = TcpListener::bind((HERE, 0)).unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let pieces = [IoSlice::new(b"two "), IoSlice::new(b"pieces")];
        assert_eq!(send(stream.as_fd(), &pieces).unwrap(), 10);
        drop(listener.accept().unwrap());
        drop(listener);
        let sent = (0..100).map(|_| {
            std::thread::sleep(Duration::from_millis(1));
            send(stream.as_fd(), &pieces)
        });
        assert!(sent.into_iter().any(|sent| sent.is_err()));
    }

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn check(interface: &str) {
        let Ok(listener) = TcpListener::bind((interface, 0)) else { return };
        let address = listener.local_addr().unwrap();
        let mut stream = connect(address, Some(address.ip()), None).unwrap();
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

    #[test]
    fn sockets_are_on_ports_of_the_range_until_all_are_in_use() {
        // Finds two consecutive free ports. Others may take them meanwhile; then the test tries again.
        for _ in 0..100 {
            let free = TcpListener::bind((HERE, 0)).unwrap().local_addr().unwrap().port();
            let Some(ports) = PortRange::new(free, free.saturating_add(1)) else { continue };
            let taken: Vec<_> = (0..2).map_while(|_| listen(HERE, Some(ports), None).ok()).collect();
            let mut numbers: Vec<u16> = taken.iter().map(|it| it.local_addr().unwrap().port()).collect();
            numbers.sort_unstable();
            if numbers != [free, free + 1] {
                continue;
            }
            let error = listen(HERE, Some(ports), None).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
            assert!(error.to_string().contains(&format!("{free}-{}", free + 1)), "{error}");
            let other = datagrams(HERE, Some(ports));
            assert!(other.is_ok_and(|it| numbers.contains(&it.local_addr().unwrap().port())));
            return;
        }
        panic!("no two neighbouring ports were free");
    }

    #[test]
    fn segments_are_as_short_as_is_said() {
        let listener = listen(HERE, None, Some(SAFE_SEGMENT_BYTES)).unwrap();
        let address = listener.local_addr().unwrap();
        for said in [None, Some(SAFE_SEGMENT_BYTES)] {
            let stream = connect_within(address, said, Duration::from_secs(10)).unwrap();
            let (mut other, _) = listener.accept().unwrap();
            // Each end has informed the other of its limit.
            for end in [&stream, &other] {
                assert!(segment_bytes(end.as_fd()).unwrap() <= SAFE_SEGMENT_BYTES, "{said:?}");
            }
            other.write_all(b"x").unwrap();
            (&stream).read_exact(&mut [0]).unwrap();
            assert_eq!(path(other.as_fd()).unwrap().repetitions, 0);
        }
        drop(listener);
        assert!(connect_within(address, None, Duration::from_secs(10)).is_err());
    }
}
