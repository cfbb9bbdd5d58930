//! Sockets between processes of one host that pass descriptors and tell who is at the other end.
//!
//! Their names are abstract: no file, gone with the last descriptor, whoever is killed. Anybody on the host may use such a name,
//! so both sides ask the kernel who the other is ([`Connection::peer`]). Messages keep their bounds (SOCK_SEQPACKET).

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use crate::{event, guardian};

/// Most descriptors in one message; the kernel's own limit is 253.
pub const DESCRIPTORS: usize = 128;
/// Longest name, in bytes.
pub const NAME_BYTES: usize = 100;
const BACKLOG: i32 = 4096;

/// Who is at the other end, as the kernel says: numbers as this process would see them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Process number when it connected or began to listen; 0 if it is in a name space that cannot be seen from here.
    pub pid: i32,
    /// User.
    pub uid: u32,
}

/// Waits for connections under a name.
#[derive(Debug)]
pub struct Listener(OwnedFd);

/// One end of a connection.
#[derive(Debug)]
pub struct Connection(OwnedFd);

impl Listener {
    /// Listens under `name`.
    ///
    /// # Errors
    /// AddrInUse when somebody does so already; InvalidInput for a name that is too long.
    pub fn bind(name: &[u8]) -> io::Result<Listener> {
        let fd = socket()?;
        let (address, length) = address(name)?;
        // SAFETY: the address is readable for its length.
        check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length) })?;
        // SAFETY: an open socket.
        check(unsafe { libc::listen(fd.as_raw_fd(), BACKLOG) })?;
        Ok(Listener(fd))
    }

    /// The next connection; `None` when there is none now.
    ///
    /// # Errors
    /// What the system reports.
    pub fn accept(&self) -> io::Result<Option<Connection>> {
        let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: an open socket; the address of the other side, which has none, is not asked for.
        let fd =
            unsafe { libc::accept4(self.0.as_raw_fd(), std::ptr::null_mut(), std::ptr::null_mut(), flags) };
        match check(fd) {
            // SAFETY: just made, and nobody else knows it.
            Ok(fd) => Ok(Some(Connection(unsafe { OwnedFd::from_raw_fd(fd) }))),
            Err(error) if is_not_yet(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Connection {
    /// Connects to who listens under `name`.
    ///
    /// # Errors
    /// ConnectionRefused when nobody does, WouldBlock when it is busy.
    pub fn connect(name: &[u8]) -> io::Result<Connection> {
        let fd = socket()?;
        let (address, length) = address(name)?;
        // SAFETY: the address is readable for its length.
        check(unsafe { libc::connect(fd.as_raw_fd(), (&raw const address).cast(), length) })?;
        Ok(Connection(fd))
    }

    /// Both ends of a connection.
    ///
    /// # Errors
    /// What the system reports: too many descriptors.
    pub fn pair() -> io::Result<(Connection, Connection)> {
        let mut ends = [0; 2];
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: `ends` has room for two descriptors.
        check(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) })?;
        // SAFETY: the call has just made them, and nobody else knows them.
        let [near, far] = ends.map(|fd| Connection(unsafe { OwnedFd::from_raw_fd(fd) }));
        Ok((near, far))
    }

    /// Of a descriptor that was inherited.
    pub fn new(fd: OwnedFd) -> Connection {
        Connection(fd)
    }

    /// Who is at the other end.
    ///
    /// # Errors
    /// What the system reports.
    pub fn peer(&self) -> io::Result<Credentials> {
        let mut raw = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let mut length = size_of::<libc::ucred>() as libc::socklen_t;
        // SAFETY: the structure is writable for its length.
        check(unsafe {
            let to = (&raw mut raw).cast();
            libc::getsockopt(self.0.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, to, &mut length)
        })?;
        Ok(Credentials { pid: raw.pid, uid: raw.uid })
    }

    /// A descriptor that is readable when the process at the other end has ended (Linux 5.3); it may be in a pid namespace of its own
    /// where the kernel tells by the socket alone (Linux 6.5).
    ///
    /// # Errors
    /// That it has ended, or cannot be watched.
    pub fn peer_process(&self) -> io::Result<OwnedFd> {
        const SO_PEERPIDFD: i32 = 77;
        let mut fd: RawFd = -1;
        let mut length = size_of::<RawFd>() as libc::socklen_t;
        // SAFETY: the number is writable for its length.
        let told = check(unsafe {
            let to = (&raw mut fd).cast();
            libc::getsockopt(self.0.as_raw_fd(), libc::SOL_SOCKET, SO_PEERPIDFD, to, &mut length)
        });
        let process = match told {
            // SAFETY: the call has just made it, and nobody else knows it.
            Ok(_) => unsafe { OwnedFd::from_raw_fd(fd) },
            Err(_) => guardian::open_process(self.peer()?.pid)?,
        };
        // The number was its own as long as the connection is there.
        if self.is_closed() { Err(io::ErrorKind::NotFound.into()) } else { Ok(process) }
    }

    /// Sends a message of some bytes with descriptors, of which the other end gets copies.
    ///
    /// # Errors
    /// What the system reports: the other end is gone, or (WouldBlock) does not read.
    ///
    /// # Panics
    /// With no byte, or more than [`DESCRIPTORS`]: a bug of the caller.
    pub fn send(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        assert!(!bytes.is_empty() && descriptors.len() <= DESCRIPTORS);
        let raw: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
        let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        let mut control = control_buffer();
        // SAFETY: an all-zero header is a valid value of that plain C structure.
        let mut header: libc::msghdr = unsafe { zeroed() };
        header.msg_iov = &mut part;
        header.msg_iovlen = 1;
        if !raw.is_empty() {
            header.msg_control = control.as_mut_ptr().cast();
            // SAFETY: the buffer has room for DESCRIPTORS of them, so the first control message fits.
            unsafe {
                header.msg_controllen = libc::CMSG_SPACE(size_of_val(&raw[..]) as u32) as usize;
                let first = libc::CMSG_FIRSTHDR(&header);
                (*first).cmsg_level = libc::SOL_SOCKET;
                (*first).cmsg_type = libc::SCM_RIGHTS;
                (*first).cmsg_len = libc::CMSG_LEN(size_of_val(&raw[..]) as u32) as usize;
                let data = libc::CMSG_DATA(first);
                data.copy_from_nonoverlapping(raw.as_ptr().cast(), size_of_val(&raw[..]));
            }
        }
        // SAFETY: the header points to memory that lives through the call.
        let sent = unsafe { libc::sendmsg(self.0.as_raw_fd(), &header, libc::MSG_NOSIGNAL) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Receives a message into `bytes`; its length, and the descriptors that came with it.
    ///
    /// # Errors
    /// WouldBlock when there is none now, UnexpectedEof when the other end is gone, InvalidData for a message that is longer.
    pub fn receive(&self, bytes: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
        let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        let mut control = control_buffer();
        // SAFETY: an all-zero header is a valid value of that plain C structure.
        let mut header: libc::msghdr = unsafe { zeroed() };
        header.msg_iov = &mut part;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control);
        // SAFETY: the header points to memory that is writable through the call.
        let count = unsafe { libc::recvmsg(self.0.as_raw_fd(), &mut header, libc::MSG_CMSG_CLOEXEC) };
        if count < 0 {
            return Err(io::Error::last_os_error());
        }
        // Taken over first: whatever is wrong with the message, they are closed.
        let descriptors = descriptors_of(&header);
        match count {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ if header.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0 => {
                Err(io::Error::new(io::ErrorKind::InvalidData, "a message that is too long"))
            }
            count => Ok((count as usize, descriptors)),
        }
    }

    /// As [`Connection::receive`], and waits for it, but no longer than `limit`.
    ///
    /// # Errors
    /// As [`Connection::receive`]; TimedOut.
    pub fn receive_within(&self, bytes: &mut [u8], limit: Duration) -> io::Result<(usize, Vec<OwnedFd>)> {
        let start = std::time::Instant::now();
        loop {
            match self.receive(bytes) {
                Err(error) if is_not_yet(&error) => {}
                other => return other,
            }
            let left = limit.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            event::wait_readable(&[self.0.as_raw_fd()], left);
        }
    }

    /// Whether the other end has closed its side, or has died.
    pub fn is_closed(&self) -> bool {
        let mut poll = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLRDHUP, revents: 0 };
        // SAFETY: one writable structure; no waiting.
        unsafe { libc::poll(&mut poll, 1, 0) > 0 }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The user this process acts for.
pub fn own_user() -> u32 {
    // SAFETY: no preconditions.
    unsafe { libc::geteuid() }
}

/// Room for one control message with [`DESCRIPTORS`], aligned as the kernel wants it.
fn control_buffer() -> [u64; 2 + DESCRIPTORS * size_of::<RawFd>() / size_of::<u64>()] {
    [0; 2 + DESCRIPTORS * size_of::<RawFd>() / size_of::<u64>()]
}

fn descriptors_of(header: &libc::msghdr) -> Vec<OwnedFd> {
    let mut found = Vec::new();
    // SAFETY: the kernel has written the control messages; each of this type holds descriptors that are ours now.
    unsafe {
        let mut next = libc::CMSG_FIRSTHDR(header);
        while let Some(message) = next.as_ref() {
            if message.cmsg_level == libc::SOL_SOCKET && message.cmsg_type == libc::SCM_RIGHTS {
                let bytes = message.cmsg_len - libc::CMSG_LEN(0) as usize;
                let data = libc::CMSG_DATA(next).cast::<RawFd>();
                for index in 0..bytes / size_of::<RawFd>() {
                    found.push(OwnedFd::from_raw_fd(data.add(index).read_unaligned()));
                }
            }
            next = libc::CMSG_NXTHDR(header, next);
        }
    }
    found
}

fn socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no preconditions.
    let fd = check(unsafe { libc::socket(libc::AF_UNIX, kind, 0) })?;
    // SAFETY: just made, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn address(name: &[u8]) -> io::Result<(libc::sockaddr_un, libc::socklen_t)> {
    if name.is_empty() || name.len() > NAME_BYTES {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: an all-zero address is a valid value of that plain C structure.
    let mut address: libc::sockaddr_un = unsafe { zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    // The zero before the name makes it abstract.
    for (to, from) in address.sun_path[1..].iter_mut().zip(name) {
        *to = *from as libc::c_char;
    }
    let length = std::mem::offset_of!(libc::sockaddr_un, sun_path) + 1 + name.len();
    Ok((address, length as libc::socklen_t))
}

fn is_not_yet(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(what: &str) -> Vec<u8> {
        format!("tutti-test-{what}-{}", std::process::id()).into_bytes()
    }

    #[test]
    fn descriptors_arrive_with_their_message() {
        let name = name("pass");
        let listener = Listener::bind(&name).unwrap();
        assert!(listener.accept().unwrap().is_none());
        let near = Connection::connect(&name).unwrap();
        let far = listener.accept().unwrap().unwrap();
        let me = Credentials { pid: std::process::id() as i32, uid: own_user() };
        assert_eq!((near.peer().unwrap(), far.peer().unwrap()), (me, me));
        let bells = event::bells(DESCRIPTORS as u32).unwrap();
        let lent: Vec<_> = bells.iter().map(AsFd::as_fd).collect();
        far.send(b"these", &lent).unwrap();
        let mut bytes = [0; 8];
        let (count, descriptors) = near.receive_within(&mut bytes, Duration::from_secs(5)).unwrap();
        assert_eq!((&bytes[..count], descriptors.len()), (&b"these"[..], DESCRIPTORS));
        far.send(b"a long message", &[]).unwrap();
        assert_eq!(near.receive(&mut bytes).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert!(!near.is_closed());
        drop(far);
        assert!(near.is_closed());
        assert_eq!(near.receive(&mut bytes).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_name_is_taken_once_and_free_again() {
        let name = name("once");
        let refused = |name: &[u8]| Connection::connect(name).unwrap_err().kind();
        assert_eq!(refused(&name), io::ErrorKind::ConnectionRefused);
        let listener = Listener::bind(&name).unwrap();
        assert_eq!(Listener::bind(&name).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(listener);
        assert!(Listener::bind(&name).is_ok());
        assert_eq!(refused(&[b'x'; NAME_BYTES + 1]), io::ErrorKind::InvalidInput);
    }
}
