//! Sockets between processes of one host that pass descriptors and tell who is at the other end.
//!
//! Daemons and ranks believe what comes over such a socket, so this module decides who may be at its ends.
//! A socket of a user ([`Listener::bind`], [`Connection::connect`]) lies where only that user can connect
//! ([`crate::socket_names`]); both ends ask the kernel for the other's user and refuse any other. A service
//! for all users ([`Listener::bind_service`], [`Connection::connect_service`]) lies in a directory that an
//! administrator has made, and a client believes root or the owner of that directory.
//!
//! | danger | what is done here |
//! |---|---|
//! | another user listens under the name | directory of mode 0700; the listener's user is checked |
//! | another user connects | the directory; the user is checked before a byte is read |
//! | a descriptor that hangs its closer | SO_PASSRIGHTS where none is meant; [`crate::closing`] |
//! | a user of a namespace without a number | [`crate::user::is_own`] |
//!
//! Messages keep their bounds (SOCK_SEQPACKET).

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

/// Most descriptors in one message; the kernel's own limit is 253.
pub const DESCRIPTORS: usize = 128;
/// Connections of other users that one call of [`Listener::accept`] turns away.
const TURNED_AWAY: usize = 64;
/// Socket option of Linux 6.16: whether messages with descriptors may be sent to this socket.
const SO_PASSRIGHTS: i32 = 83;

/// Who is at the other end, as the kernel says: numbers as this process would see them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Process number when it connected or began to listen; 0 if it is in a name space that cannot be seen from here.
    pub pid: i32,
    /// User.
    pub uid: u32,
}

/// Kind of messages on a listener's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carries {
    /// Bytes. A message with descriptors is refused.
    Bytes,
    /// Bytes and descriptors.
    Descriptors,
}

/// A process of another user listens under a name: the cause of an error of kind PermissionDenied.
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

/// Waits for connections under a name.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
    carries: Carries,
    /// Whether it takes connections of all users.
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
    /// AddrInUse when a process of this user does so already; InvalidInput for a name that is too long.
    pub fn bind(name: &[u8], carries: Carries) -> io::Result<Listener> {
        if !names::is_name(name) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // It may listen in another directory than this process would take.
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
                // A full or read-only file system: the next one may do.
                Err(_) => {}
            }
        }
        Listener::bind_abstract(name, carries)
    }

    /// Listens under `name` for processes of this user that do not see its directories: in containers of
    /// which each has its own /tmp.
    ///
    /// # Errors
    /// AddrInUse when any process does so already, also another user's.
    pub fn bind_abstract(name: &[u8], carries: Carries) -> io::Result<Listener> {
        let fd = names::new_socket()?;
        RawAddress::new(&names::abstract_address(name))?.bind(fd.as_raw_fd())?;
        names::listen(fd.as_raw_fd())?;
        Ok(Listener::new(fd, carries, false, None))
    }

    /// Listens under `name` in a directory that an administrator has made, for processes of all users. What
    /// they send is to be dropped by [`closing::drop_apart`], and so are their connections.
    ///
    /// # Errors
    /// AddrInUse when another process does so already; PermissionDenied, with what to do, without the
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

    /// The next connection, of a process of this user unless this is a service; `None` when there is none
    /// now.
    ///
    /// # Errors
    /// What the system reports.
    pub fn accept(&self) -> io::Result<Option<Connection>> {
        for _ in 0..TURNED_AWAY {
            let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
            let (address, length) = (std::ptr::null_mut(), std::ptr::null_mut());
            // SAFETY: an open socket; the address of the other side, which has none, is not asked for.
            let fd = unsafe { libc::accept4(self.fd.as_raw_fd(), address, length, flags) };
            let fd = match check(fd) {
                // SAFETY: just made, and nobody else knows it.
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

/// Has the kernel refuse descriptors that are sent to a socket; before Linux 6.16 it does not know how.
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
    /// ConnectionRefused when none does; PermissionDenied, caused by [`Foreign`], when only another user's
    /// process does; WouldBlock when it is busy.
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

    /// Connects to the service of a directory that an administrator has made.
    ///
    /// # Errors
    /// ConnectionRefused when there is none; PermissionDenied, with the reason, when neither root nor the
    /// owner of the directory listens there; WouldBlock when it is busy.
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
        let [near, far] = ends.map(|fd| Connection::new(unsafe { OwnedFd::from_raw_fd(fd) }));
        Ok((near, far))
    }

    /// Of a descriptor that was inherited.
    pub fn new(fd: OwnedFd) -> Connection {
        Connection { fd, carries: Carries::Descriptors }
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
            libc::getsockopt(self.fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, to, &mut length)
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
            libc::getsockopt(self.fd.as_raw_fd(), libc::SOL_SOCKET, SO_PEERPIDFD, to, &mut length)
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
        let sent = unsafe { libc::sendmsg(self.fd.as_raw_fd(), &header, libc::MSG_NOSIGNAL) };
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
        let count = unsafe { libc::recvmsg(self.fd.as_raw_fd(), &mut header, libc::MSG_CMSG_CLOEXEC) };
        if count < 0 {
            return Err(io::Error::last_os_error());
        }
        // Taken over first: whatever is wrong with the message, they are closed.
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
            event::wait_readable(&[self.fd.as_raw_fd()], left);
        }
    }

    /// Whether the other end has closed its side, or has died.
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

    /// A connection to a listener under a name of its own, both ends.
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
        // Linux 6.16 refuses them at the sender.
        if near.send(b"x", &[bell[0].as_fd()]).is_ok() {
            assert_eq!(far.receive(&mut bytes).unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
        near.send(b"y", &[]).unwrap();
        let (count, descriptors) = far.receive(&mut bytes).unwrap();
        assert_eq!((count, descriptors.len()), (1, 0));
        // The other way they are taken.
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
        // A name that is taken there is taken.
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
