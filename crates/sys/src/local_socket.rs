//! Sockets between processes of one host that pass descriptors and identify the peer's user.
//!
//! Daemons and ranks trust the messages on such a socket, so this module decides who may be at its ends. A
//! socket of one user ([`Listener::bind`], [`Connection::connect`]) lies where only that user can connect
//! ([`crate::socket_names`]). Both ends ask the kernel for the other's user and reject any other. A service
//! for all users ([`Listener::bind_service`], [`Connection::connect_service`]) lies in a directory that an
//! administrator has created. A client trusts root or the owner of that directory.
//!
//! | danger | protection |
//! |---|---|
//! | another user listens under the name | directory of mode 0700; the listener's user is checked |
//! | another user connects | the directory; the user is checked before a byte is read |
//! | a descriptor whose close blocks | SO_PASSRIGHTS where no descriptors are expected; [`crate::closing`] |
//! | a user without a number in this namespace | [`crate::user::is_own`] |
//!
//! Messages keep their boundaries (SOCK_SEQPACKET).

use std::fmt;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::time::Duration;

use crate::socket_names::{self as names, Address, Bound, RawAddress};
use crate::{closing, event, guardian, user};

pub use crate::socket_names::NAME_BYTES;
pub use crate::user::own as own_user;

/// Maximum number of descriptors in one message; the kernel's own limit is 253.
pub const DESCRIPTORS: usize = 128;
/// Maximum number of connections of other users that one call of [`Listener::accept`] rejects.
const TURNED_AWAY: usize = 64;
/// Socket option of Linux 6.16 that permits or forbids messages with descriptors to this socket.
const SO_PASSRIGHTS: i32 = 83;

/// Identity of the peer as reported by the kernel, in numbers of this process's namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Process number at the time when the peer connected or started to listen; 0 if its namespace is not
    /// visible from here.
    pub pid: i32,
    /// User number of the peer.
    pub uid: u32,
}

/// Kind of messages on a listener's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carries {
    /// Bytes only: a message with descriptors is rejected.
    Bytes,
    /// Bytes and descriptors.
    Descriptors,
}

/// Number of another user whose process listens under a name: the cause of an error of kind
/// PermissionDenied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Foreign(pub u32);

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a process of user {} has taken the name", self.0)
    }
}

impl std::error::Error for Foreign {}

impl From<Foreign> for io::Error {
    fn from(foreign: Foreign) -> io::Error {
        io::Error::new(io::ErrorKind::PermissionDenied, foreign)
    }
}

/// Socket that waits for connections under a name.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
    carries: Carries,
    /// True if the listener accepts connections of all users.
    is_public: bool,
    _file: Option<Bound>,
}

/// One end of a connection.
#[derive(Debug)]
pub struct Connection {
    fd: OwnedFd,
    carries: Carries,
}

impl Listener {
    /// Listens under `name` for processes of this user.
    ///
    /// # Errors
    /// AddrInUse when another process of this user listens under the name; InvalidInput for a name that is
    /// too long.
    pub fn bind(name: &[u8], carries: Carries) -> io::Result<Listener> {
        if !names::is_name(name) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // Another process may listen in a directory that this process would not choose.
        if Connection::connect(name).is_ok() {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        for directory in names::directories() {
            if names::make_private(&directory).is_err() {
                continue;
            }
            let fd = names::new_socket()?;
            match Bound::new(fd.as_raw_fd(), directory.join(names::file_name(name)), 0o600) {
                Ok(file) => return Ok(Listener::new(fd, carries, false, Some(file))),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Err(error),
                // A full or read-only file system: the next directory may work.
                Err(_) => {}
            }
        }
        Listener::bind_abstract(name, carries)
    }

    /// Listens under `name` for processes of this user that do not see its directories, such as processes
    /// in containers with a /tmp of their own.
    ///
    /// # Errors
    /// AddrInUse when any process listens under the name, even one of another user.
    pub fn bind_abstract(name: &[u8], carries: Carries) -> io::Result<Listener> {
        let fd = names::new_socket()?;
        RawAddress::new(&names::abstract_address(name))?.bind(fd.as_raw_fd())?;
        names::listen(fd.as_raw_fd())?;
        Ok(Listener::new(fd, carries, false, None))
    }

    /// Listens under `name` for processes of all users, in a directory that an administrator has created.
    /// The caller must drop the clients' descriptors and connections by [`closing::drop_apart`].
    ///
    /// # Errors
    /// AddrInUse when another process listens under the name; PermissionDenied, with advice, without the
    /// directory.
    pub fn bind_service(directory: &Path, name: &[u8], carries: Carries) -> io::Result<Listener> {
        names::make_service(directory)?;
        let fd = names::new_socket()?;
        let file = Bound::new(fd.as_raw_fd(), directory.join(names::file_name(name)), 0o666)?;
        Ok(Listener::new(fd, carries, true, Some(file)))
    }

    fn new(fd: OwnedFd, carries: Carries, is_public: bool, file: Option<Bound>) -> Listener {
        refuse_descriptors(fd.as_fd(), carries);
        Listener { fd, carries, is_public, _file: file }
    }

    /// Returns the next connection, or `None` if there is none now. Unless this is a service, it is from a
    /// process of this user.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn accept(&self) -> io::Result<Option<Connection>> {
        for _ in 0..TURNED_AWAY {
            let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
            let (address, length) = (std::ptr::null_mut(), std::ptr::null_mut());
            // SAFETY: an open socket; null pointers mean that the peer's address is not requested.
            let fd = unsafe { libc::accept4(self.fd.as_raw_fd(), address, length, flags) };
            let fd = match check(fd) {
                // SAFETY: the descriptor was just created and has no other owner.
                Ok(fd) => unsafe { OwnedFd::from_raw_fd(fd) },
                Err(error) if is_not_yet(&error) => return Ok(None),
                Err(error) => return Err(error),
            };
            let connection = Connection { fd, carries: self.carries };
            if self.is_public || connection.is_own() {
                refuse_descriptors(connection.as_fd(), self.carries);
                return Ok(Some(connection));
            }
            closing::drop_apart(connection);
        }
        Ok(None)
    }
}

/// Tells the kernel to reject descriptors sent to a socket. Has no effect before Linux 6.16.
fn refuse_descriptors(fd: BorrowedFd<'_>, carries: Carries) {
    if carries == Carries::Bytes {
        let off = 0i32;
        let size = size_of::<i32>() as libc::socklen_t;
        // SAFETY: the number is readable for its size.
        unsafe {
            let value = (&raw const off).cast();
            libc::setsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, SO_PASSRIGHTS, value, size)
        };
    }
}

impl Connection {
    /// Connects to the process of this user that listens under `name`.
    ///
    /// # Errors
    /// ConnectionRefused when there is none. PermissionDenied, caused by [`Foreign`], when only another
    /// user's process listens. WouldBlock when the listener is busy.
    pub fn connect(name: &[u8]) -> io::Result<Connection> {
        let mut foreign = None;
        for address in names::addresses(name) {
            match Connection::connect_to(&address) {
                Ok(connection) if connection.is_own() => return Ok(connection),
                Ok(connection) => {
                    foreign = foreign.or(connection.peer().ok().map(|peer| Foreign(peer.uid)));
                    closing::drop_apart(connection);
                }
                Err(error)
                    if [io::ErrorKind::WouldBlock, io::ErrorKind::InvalidInput].contains(&error.kind()) =>
                {
                    return Err(error);
                }
                Err(_) => {}
            }
        }
        Err(foreign.map_or_else(|| io::ErrorKind::ConnectionRefused.into(), io::Error::from))
    }

    /// Connects to the service of a directory that an administrator has created.
    ///
    /// # Errors
    /// ConnectionRefused when there is none. PermissionDenied, with the reason, when the listener is
    /// neither root nor the owner of the directory. WouldBlock when it is busy.
    pub fn connect_service(directory: &Path, name: &[u8]) -> io::Result<Connection> {
        let absent = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => io::ErrorKind::ConnectionRefused.into(),
            _ => error,
        };
        let owner = names::service_owner(directory).map_err(absent)?;
        let address = Address::File(directory.join(names::file_name(name)));
        let connection = Connection::connect_to(&address).map_err(absent)?;
        let user = connection.peer()?.uid;
        if user != 0 && user != owner || !user::is_certain(user) {
            closing::drop_apart(connection);
            return Err(Foreign(user).into());
        }
        Ok(connection)
    }

    fn connect_to(address: &Address) -> io::Result<Connection> {
        let fd = names::new_socket()?;
        RawAddress::new(address)?.connect(fd.as_raw_fd())?;
        Ok(Connection { fd, carries: Carries::Descriptors })
    }

    fn is_own(&self) -> bool {
        self.peer().is_ok_and(|peer| user::is_own(peer.uid, || self.peer_process().ok()))
    }

    /// Creates both ends of a connection.
    ///
    /// # Errors
    /// The system's error: too many descriptors.
    pub fn pair() -> io::Result<(Connection, Connection)> {
        let mut ends = [0; 2];
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: `ends` has room for two descriptors.
        check(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) })?;
        // SAFETY: the call has just created the descriptors, and they have no other owner.
        let [near, far] = ends.map(|fd| Connection::new(unsafe { OwnedFd::from_raw_fd(fd) }));
        Ok((near, far))
    }

    /// Wraps an inherited descriptor.
    pub fn new(fd: OwnedFd) -> Connection {
        Connection { fd, carries: Carries::Descriptors }
    }

    /// Returns the identity of the peer.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn peer(&self) -> io::Result<Credentials> {
        let mut raw = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let mut length = size_of::<libc::ucred>() as libc::socklen_t;
        // SAFETY: the structure is writable for its length.
        check(unsafe {
            let to = (&raw mut raw).cast();
            libc::getsockopt(self.fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, to, &mut length)
        })?;
        Ok(Credentials { pid: raw.pid, uid: raw.uid })
    }

    /// Returns a descriptor that becomes readable when the peer's process ends (Linux 5.3). From Linux 6.5
    /// on the peer may be in a pid namespace of its own.
    ///
    /// # Errors
    /// The process has ended, or cannot be watched.
    pub fn peer_process(&self) -> io::Result<OwnedFd> {
        const SO_PEERPIDFD: i32 = 77;
        let mut fd: RawFd = -1;
        let mut length = size_of::<RawFd>() as libc::socklen_t;
        // SAFETY: the number is writable for its length.
        let told = check(unsafe {
            let to = (&raw mut fd).cast();
            libc::getsockopt(self.fd.as_raw_fd(), libc::SOL_SOCKET, SO_PEERPIDFD, to, &mut length)
        });
        let process = match told {
            // SAFETY: the call has just created the descriptor, and it has no other owner.
            Ok(_) => unsafe { OwnedFd::from_raw_fd(fd) },
            Err(_) => guardian::open_process(self.peer()?.pid)?,
        };
        // While the connection is open, the process number still belongs to the peer.
        if self.is_closed() { Err(io::ErrorKind::NotFound.into()) } else { Ok(process) }
    }

    /// Sends a message with descriptors. The other end receives copies of them.
    ///
    /// # Errors
    /// The system's error: the other end is closed, or (WouldBlock) does not read.
    ///
    /// # Panics
    /// If there is no byte, or more than [`DESCRIPTORS`] descriptors: a bug of the caller.
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
        let sent = unsafe { libc::sendmsg(self.fd.as_raw_fd(), &header, libc::MSG_NOSIGNAL) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Receives a message into `bytes`. Returns its length and its descriptors.
    ///
    /// # Errors
    /// WouldBlock when there is none now, UnexpectedEof when the other end is closed, InvalidData for a
    /// message that is too long.
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
        let count = unsafe { libc::recvmsg(self.fd.as_raw_fd(), &mut header, libc::MSG_CMSG_CLOEXEC) };
        if count < 0 {
            return Err(io::Error::last_os_error());
        }
        // The descriptors are taken over first, so that they are closed even if the message is invalid.
        let descriptors = descriptors_of(&header);
        if self.carries == Carries::Bytes && !descriptors.is_empty() {
            closing::drop_apart(descriptors);
            return Err(io::Error::new(io::ErrorKind::InvalidData, "descriptors where none are meant"));
        }
        match count {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ if header.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0 => {
                Err(io::Error::new(io::ErrorKind::InvalidData, "a message that is too long"))
            }
            count => Ok((count as usize, descriptors)),
        }
    }

    /// Receives a message as [`Connection::receive`] does, but waits for it up to `limit`.
    ///
    /// # Errors
    /// Errors of [`Connection::receive`]; TimedOut.
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
            event::wait_readable(&[self.fd.as_raw_fd()], left);
        }
    }

    /// Returns true if the other end has closed its side, or has ended.
    pub fn is_closed(&self) -> bool {
        let mut poll = libc::pollfd { fd: self.fd.as_raw_fd(), events: libc::POLLRDHUP, revents: 0 };
        // SAFETY: one writable structure; no waiting.
        unsafe { libc::poll(&mut poll, 1, 0) > 0 }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Returns space for one control message with [`DESCRIPTORS`], aligned as the kernel requires.
fn control_buffer() -> [u64; 2 + DESCRIPTORS * size_of::<RawFd>() / size_of::<u64>()] {
    [0; 2 + DESCRIPTORS * size_of::<RawFd>() / size_of::<u64>()]
}

fn descriptors_of(header: &libc::msghdr) -> Vec<OwnedFd> {
    let mut found = Vec::new();
    // SAFETY: the kernel has written the control messages; each of this type has descriptors that this
    // process owns now.
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
        format!("test-{what}-{}", std::process::id()).into_bytes()
    }

    /// Connects to a listener with a unique name, and returns both ends.
    fn pair(what: &str, carries: Carries) -> (Connection, Connection) {
        let listener = Listener::bind(&name(what), carries).unwrap();
        assert!(listener.accept().unwrap().is_none());
        let near = Connection::connect(&name(what)).unwrap();
        (near, listener.accept().unwrap().unwrap())
    }

    #[test]
    fn descriptors_arrive_with_their_message() {
        let (near, far) = pair("pass", Carries::Descriptors);
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
    fn descriptors_are_refused_where_none_are_meant() {
        let (near, far) = pair("bytes", Carries::Bytes);
        let bell = event::bells(1).unwrap();
        let mut bytes = [0; 8];
        // From Linux 6.16 on the kernel refuses descriptors at the sender.
        if near.send(b"x", &[bell[0].as_fd()]).is_ok() {
            assert_eq!(far.receive(&mut bytes).unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
        near.send(b"y", &[]).unwrap();
        let (count, descriptors) = far.receive(&mut bytes).unwrap();
        assert_eq!((count, descriptors.len()), (1, 0));
        // Descriptors are accepted in the other direction.
        far.send(b"z", &[bell[0].as_fd()]).unwrap();
        assert_eq!(near.receive(&mut bytes).unwrap().1.len(), 1);
    }

    #[test]
    fn a_name_is_taken_once_and_free_again() {
        let name = name("once");
        let refused = |name: &[u8]| Connection::connect(name).unwrap_err().kind();
        let bind = |name: &[u8]| Listener::bind(name, Carries::Bytes);
        assert_eq!(refused(&name), io::ErrorKind::ConnectionRefused);
        let listener = bind(&name).unwrap();
        assert_eq!(bind(&name).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(listener);
        assert!(bind(&name).is_ok());
        assert_eq!(bind(&[b'x'; NAME_BYTES + 1]).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(bind(b"").unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn a_name_without_a_directory_is_found_too() {
        let name = name("abstract");
        let listener = Listener::bind_abstract(&name, Carries::Bytes).unwrap();
        let near = Connection::connect(&name).unwrap();
        assert!(listener.accept().unwrap().is_some());
        // A name that is taken there cannot be taken again.
        assert_eq!(Listener::bind(&name, Carries::Bytes).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(near);
    }

    #[test]
    fn a_service_is_believed_where_root_alone_makes_directories() {
        let here = std::env::temp_dir().join(format!("tutti-service-{}", std::process::id()));
        let kind = |directory: &Path| Connection::connect_service(directory, b"x").unwrap_err().kind();
        assert_eq!(kind(Path::new("/run/tutti-no-such-service")), io::ErrorKind::ConnectionRefused);
        assert!(Listener::bind_service(&here, b"x", Carries::Bytes).is_err());
        if own_user() != 0 {
            return;
        }
        let directory = std::path::PathBuf::from(format!("/run/tutti-test-{}", std::process::id()));
        let listener = Listener::bind_service(&directory, b"x", Carries::Descriptors).unwrap();
        let _near = Connection::connect_service(&directory, b"x").unwrap();
        assert!(listener.accept().unwrap().is_some());
        let taken = Listener::bind_service(&directory, b"x", Carries::Descriptors).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
        drop(listener);
        std::fs::remove_dir_all(directory).unwrap();
    }
}
