//! Names of local sockets: paths at which the processes of one user find each other, and other users cannot
//! connect.
//!
//! A socket in the abstract namespace has no owner. Any user of the host can take its name first, connect
//! to it, and send descriptors to it. Therefore the sockets of a user are files in a directory of mode
//! 0700. Both sides derive the directory from the user alone, since their environments may differ (a rank
//! under Slurm, a shell). [`directories`] lists the candidates. A listener uses the first that it can; a
//! client searches all of them.
//!
//! | candidate | reason |
//! |---|---|
//! | `/tmp/tutti-UID` | lives as long as the host; shared by all sessions of the user |
//! | `$XDG_RUNTIME_DIR/tutti`, `/run/user/UID/tutti` | others cannot create it; removed with the last session |
//! | the abstract name `tutti-UID-NAME` | used if there is no directory |
//!
//! The names of files begin with a number of the host and its network namespace, as directories can be
//! shared. A killed listener leaves a file, which the next listener removes ([`Bound::new`]).
//!
//! The socket of a service for all users ([`make_service`], [`service_owner`]) lies in a directory that
//! only root or the service's user can write.

use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

use crate::user;

/// Longest name of a socket, in bytes.
pub const NAME_BYTES: usize = 80;
/// Bits of a mode that permit writing by others.
const OTHERS_WRITE: u32 = 0o022;
/// Pause between attempts to lock a directory; below, the maximum number of attempts.
const LOCK_PAUSE: Duration = Duration::from_millis(1);
const LOCK_ATTEMPTS: u32 = 2000;
/// Maximum number of files in one cleanup of a directory.
const SWEPT: usize = 256;

/// Address of a local socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// Path of a file.
    File(PathBuf),
    /// Name in the abstract namespace, which belongs to the network namespace.
    Abstract(Vec<u8>),
}

/// Returns the directories for sockets of this user, the preferred one first.
pub fn directories() -> Vec<PathBuf> {
    let number = user::own_outside();
    let mut found = vec![PathBuf::from(format!("/tmp/tutti-{number}"))];
    // The environment of a privileged program comes from another user.
    let named = std::env::var_os("XDG_RUNTIME_DIR").filter(|_| !user::is_privileged_program());
    let named = named.map(PathBuf::from).filter(|path| path.is_absolute());
    let usual = PathBuf::from(format!("/run/user/{number}"));
    for session in named.into_iter().chain([usual]).map(|path| path.join("tutti")) {
        if !found.contains(&session) {
            found.push(session);
        }
    }
    found
}

/// Returns the possible addresses of a socket of this user, the preferred one first. Directories that
/// others could have created are left out.
///
/// The list is empty for a name that is too long or would lead out of a directory.
pub fn addresses(name: &[u8]) -> Vec<Address> {
    if !is_name(name) {
        return Vec::new();
    }
    let usable = directories().into_iter().filter(|directory| is_private(directory));
    let file = |directory: PathBuf| Address::File(directory.join(file_name(name)));
    usable.map(file).chain([abstract_address(name)]).collect()
}

/// Returns true if `name` is valid for a socket. A peer may have sent it.
pub fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.len() <= NAME_BYTES && !name.iter().any(|byte| [0, b'/'].contains(byte))
}

/// Returns the abstract address of a socket of this user.
pub fn abstract_address(name: &[u8]) -> Address {
    Address::Abstract([format!("tutti-{}-", user::own_outside()).as_bytes(), name].concat())
}

/// Returns the name of a socket's file: start of the host's boot number, network namespace, name. Processes
/// of one host and network namespace get the same name; others that share the directory get another one.
pub fn file_name(name: &[u8]) -> PathBuf {
    PathBuf::from(std::ffi::OsStr::from_bytes(&[host_prefix().as_bytes(), name].concat()))
}

/// Returns the prefix of files of this host and network namespace.
fn host_prefix() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let network = std::fs::metadata("/proc/self/ns/net").map_or(0, |file| file.ino());
    format!("{}-{network}-", boot.get(..8).unwrap_or_default())
}

/// Creates a directory of this user if it is missing.
///
/// # Errors
/// PermissionDenied, with the reason, if it belongs to another user or others can enter it. Errors of
/// mkdir.
pub fn make_private(directory: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ if is_private(directory) => {}
        _ => {
            let why = format!("{} is not a directory of this user with mode 0700", directory.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
    }
    static SWEEP: Once = Once::new();
    SWEEP.call_once(|| sweep(directory));
    Ok(())
}

fn is_private(directory: &Path) -> bool {
    directory.symlink_metadata().is_ok_and(|found| {
        let is_ours = found.uid() == user::own() && user::is_certain(found.uid());
        found.is_dir() && is_ours && found.mode() & 0o077 == 0
    })
}

/// Creates the directory of a service for all users, if this process belongs to root and the directory is
/// missing.
///
/// # Errors
/// PermissionDenied, with advice, if the directory belongs to another user or others can write there.
pub fn make_service(directory: &Path) -> io::Result<()> {
    let own = user::own();
    let is_missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    let mut owner = service_owner(directory);
    if own == 0 && owner.as_ref().is_err_and(is_missing) {
        DirBuilder::new().mode(0o755).create(directory)?;
        owner = service_owner(directory);
    }
    match owner {
        Ok(owner) if owner == own => {
            sweep(directory);
            Ok(())
        }
        Err(error) if !is_missing(&error) => Err(error),
        _ => {
            let why = format!(
                "{0} is not a directory of user {own}; an administrator makes it: install -d -m 755 -o USER {0}",
                directory.display()
            );
            Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
        }
    }
}

/// Returns the user to whom an administrator has assigned a service, by giving that user the directory of
/// its socket. Only root can create or replace the directory.
///
/// # Errors
/// NotFound without such a directory; PermissionDenied, with the reason, where another user could have
/// created it.
pub fn service_owner(directory: &Path) -> io::Result<u32> {
    let refuse = |path: &Path, why: &str| {
        Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("{} {why}", path.display())))
    };
    for above in directory.ancestors().skip(1) {
        let found = above.symlink_metadata()?;
        if !found.is_dir() || found.uid() != 0 || found.mode() & OTHERS_WRITE != 0 {
            return refuse(above, "is not a directory that root alone can write");
        }
    }
    let found: Metadata = directory.symlink_metadata()?;
    if !found.is_dir() || found.mode() & OTHERS_WRITE != 0 || !user::is_certain(found.uid()) {
        return refuse(directory, "is not a directory of one known user that others cannot write");
    }
    Ok(found.uid())
}

/// File of a listening socket, which is removed with this value.
#[derive(Debug)]
pub struct Bound {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Bound {
    /// Binds a socket to a file with these mode bits and listens. The file of a dead socket is replaced.
    ///
    /// # Errors
    /// AddrInUse if another socket listens there; errors of the system.
    pub fn new(fd: RawFd, path: PathBuf, mode: u32) -> io::Result<Bound> {
        let address = RawAddress::new(&Address::File(path.clone()))?;
        let directory = path.parent().expect("a socket's file lies in a directory");
        // Before it listens, a socket cannot be distinguished from a dead one.
        let _lock = lock(directory, LOCK_ATTEMPTS)?;
        let mut bound = address.bind(fd);
        if bound.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse) && is_dead(&path) {
            std::fs::remove_file(&path)?;
            bound = address.bind(fd);
        }
        bound?;
        let found = path.symlink_metadata()?;
        let bound = Bound { path, device: found.dev(), inode: found.ino() };
        std::fs::set_permissions(&bound.path, Permissions::from_mode(mode))?;
        listen(fd)?;
        Ok(bound)
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        let is_same = |found: Metadata| (found.dev(), found.ino()) == (self.device, self.inode);
        if self.path.symlink_metadata().is_ok_and(is_same) {
            // A later listener removes a file that stays.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Listens with a backlog that is large enough for all processes of a large host.
///
/// # Errors
/// Errors of listen.
pub fn listen(fd: RawFd) -> io::Result<()> {
    const BACKLOG: i32 = 4096;
    // SAFETY: a plain system call.
    check(unsafe { libc::listen(fd, BACKLOG) })
}

/// Returns true if `path` is the file of a socket without a listener.
fn is_dead(path: &Path) -> bool {
    let is_socket = path.symlink_metadata().is_ok_and(|found| found.file_type().is_socket());
    let connected = || -> io::Result<()> {
        let fd = new_socket()?;
        RawAddress::new(&Address::File(path.to_path_buf()))?.connect(fd.as_raw_fd())
    };
    is_socket && connected().is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

/// Removes files of sockets whose processes were killed: those of this host and network namespace that the
/// kernel does not list. Trial connections are no alternative, because a live listener would take them for
/// clients.
fn sweep(directory: &Path) {
    let Ok(_lock) = lock(directory, 1) else { return };
    let (Ok(entries), Ok(listed)) = (directory.read_dir(), std::fs::read("/proc/net/unix")) else { return };
    let start = host_prefix();
    for entry in entries.flatten().take(SWEPT) {
        let name = entry.file_name();
        let is_socket = entry.file_type().is_ok_and(|kind| kind.is_socket());
        if is_socket && name.as_bytes().starts_with(start.as_bytes()) && !lists(&listed, name.as_bytes()) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Returns true if the kernel's list has a socket whose path ends with this name.
fn lists(listed: &[u8], name: &[u8]) -> bool {
    let ending = [b"/", name].concat();
    listed.split(|byte| *byte == b'\n').any(|line| line.ends_with(&ending))
}

/// Takes the lock of a directory, under which sockets are bound and dead files removed. Closing the file
/// releases it. Other users cannot open the file, so they cannot hold the lock.
fn lock(directory: &Path, attempts: u32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).write(true).truncate(false).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    let file = options.open(directory.join(".lock"))?;
    for attempt in 0..attempts {
        if attempt > 0 {
            std::thread::sleep(LOCK_PAUSE);
        }
        // SAFETY: an open descriptor.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
            return Ok(file);
        }
    }
    Err(io::ErrorKind::WouldBlock.into())
}

/// Creates a socket that keeps message boundaries and does not block.
///
/// # Errors
/// Errors of socket.
pub fn new_socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no preconditions.
    let fd = unsafe { libc::socket(libc::AF_UNIX, kind, 0) };
    check(fd)?;
    // SAFETY: the descriptor was just created and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Address in the system's format.
pub struct RawAddress {
    address: libc::sockaddr_un,
    length: libc::socklen_t,
    /// Directory of a file whose path is too long: the address leads through this descriptor.
    _directory: Option<OwnedFd>,
}

impl RawAddress {
    /// Converts an address, and keeps the directory open that it leads through.
    ///
    /// # Errors
    /// InvalidInput for a name that is too long; errors of opening the directory.
    pub fn new(address: &Address) -> io::Result<RawAddress> {
        let (bytes, directory) = match address {
            Address::Abstract(name) => ([&[0], &name[..]].concat(), None),
            Address::File(path) => short_path(path)?,
        };
        // SAFETY: an all-zero address is a valid value of that plain C structure.
        let mut raw: libc::sockaddr_un = unsafe { std::mem::zeroed() };
        raw.sun_family = libc::AF_UNIX as libc::sa_family_t;
        // A path ends with a zero byte.
        if bytes.len() >= raw.sun_path.len() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        for (to, from) in raw.sun_path.iter_mut().zip(&bytes) {
            *to = *from as libc::c_char;
        }
        let length = std::mem::offset_of!(libc::sockaddr_un, sun_path) + bytes.len();
        let length = length + usize::from(matches!(address, Address::File(_)));
        Ok(RawAddress { address: raw, length: length as libc::socklen_t, _directory: directory })
    }

    /// Binds the socket `fd` to the address.
    ///
    /// # Errors
    /// Errors of bind.
    pub fn bind(&self, fd: RawFd) -> io::Result<()> {
        // SAFETY: the address is readable for its length.
        check(unsafe { libc::bind(fd, (&raw const self.address).cast(), self.length) })
    }

    /// Connects the socket `fd` to the address.
    ///
    /// # Errors
    /// Errors of connect.
    pub fn connect(&self, fd: RawFd) -> io::Result<()> {
        // SAFETY: the address is readable for its length.
        check(unsafe { libc::connect(fd, (&raw const self.address).cast(), self.length) })
    }
}

/// Returns a path that fits into an address (108 bytes, unix(7)), and the open directory that it leads
/// through if it had to be shortened.
fn short_path(path: &Path) -> io::Result<(Vec<u8>, Option<OwnedFd>)> {
    const MOST: usize = 107;
    let bytes = path.as_os_str().as_bytes();
    if bytes.len() <= MOST {
        return Ok((bytes.to_vec(), None));
    }
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let directory = std::ffi::CString::new(directory.as_os_str().as_bytes())?;
    // SAFETY: a terminated path.
    let fd = unsafe { libc::open(directory.as_ptr(), libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC) };
    check(fd)?;
    // SAFETY: the descriptor was just opened and has no other owner.
    let directory = unsafe { OwnedFd::from_raw_fd(fd) };
    let start = format!("/proc/self/fd/{fd}/");
    Ok(([start.as_bytes(), name.as_bytes()].concat(), Some(directory)))
}

fn check(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(what: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("tutti-names-{what}-{}", std::process::id()));
            std::fs::create_dir(&path).unwrap();
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn kind(result: io::Result<impl Sized>) -> Option<io::ErrorKind> {
        result.err().map(|error| error.kind())
    }

    #[test]
    fn directories_that_others_enter_are_refused() {
        let folder = Folder::new("private");
        let check = |mode: u32, expected| {
            let path = folder.0.join(format!("{mode:o}"));
            DirBuilder::new().create(&path).unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert_eq!(kind(make_private(&path)), expected, "{mode:o}");
        };
        check(0o700, None);
        check(0o711, Some(io::ErrorKind::PermissionDenied));
        check(0o770, Some(io::ErrorKind::PermissionDenied));
        std::os::unix::fs::symlink(folder.0.join("700"), folder.0.join("link")).unwrap();
        assert_eq!(kind(make_private(&folder.0.join("link"))), Some(io::ErrorKind::PermissionDenied));
        assert_eq!(kind(make_private(&folder.0.join("new"))), None);
        // Any user who may write in /tmp may have created it.
        assert_eq!(kind(service_owner(&folder.0)), Some(io::ErrorKind::PermissionDenied));
        assert_eq!(service_owner(Path::new("/proc")).ok(), Some(0));
    }

    #[test]
    fn a_file_is_taken_once_and_replaced_when_dead() {
        let folder = Folder::new("bound");
        // The rules apply also if the path does not fit into an address.
        let long = folder.0.join("long".repeat(30));
        std::fs::create_dir(&long).unwrap();
        for path in [folder.0.join("short"), long.join("short")] {
            let bind = |fd: &OwnedFd| Bound::new(fd.as_raw_fd(), path.clone(), 0o600);
            let (one, other) = (new_socket().unwrap(), new_socket().unwrap());
            let bound = bind(&one).unwrap();
            assert!(!is_dead(&path));
            assert_eq!(kind(bind(&other)), Some(io::ErrorKind::AddrInUse));
            // Without the destructor it is like the file of a killed process.
            std::mem::forget(bound);
            drop(one);
            assert!(is_dead(&path));
            drop(bind(&other).unwrap());
            assert!(!path.exists());
        }
    }

    #[test]
    fn a_sweep_leaves_what_lives() {
        let folder = Folder::new("sweep");
        // The rules apply also if the path does not fit into an address.
        let long = folder.0.join("long".repeat(30));
        std::fs::create_dir(&long).unwrap();
        for folder in [&folder.0, &long] {
            let bind = |name: PathBuf| {
                let fd = new_socket().unwrap();
                let bound = Bound::new(fd.as_raw_fd(), folder.join(name), 0o600).unwrap();
                (fd, bound)
            };
            let (live, _bound) = bind(file_name(b"live"));
            let (dead, killed) = bind(file_name(b"dead"));
            let (elsewhere, unknown) = bind("another-host-dead".into());
            std::mem::forget((killed, unknown));
            drop((dead, elsewhere));
            std::fs::write(folder.join(file_name(b"file")), "no socket").unwrap();
            sweep(folder);
            let left = |name: PathBuf| folder.join(name).exists();
            let found =
                [file_name(b"live"), file_name(b"dead"), file_name(b"file"), "another-host-dead".into()];
            assert_eq!(found.map(left), [true, false, true, true]);
            // The live listener has seen no connection.
            let null = std::ptr::null_mut();
            // SAFETY: an open socket that does not wait.
            assert!(unsafe { libc::accept(live.as_raw_fd(), null, std::ptr::null_mut()) } < 0);
        }
    }

    #[test]
    fn names_lead_nowhere_else() {
        for name in [&b""[..], b"../x", b"x/y", b"x\0y", &[b'x'; NAME_BYTES + 1]] {
            assert!(addresses(name).is_empty(), "{name:?}");
        }
        assert!(!addresses(&[b'x'; NAME_BYTES]).is_empty());
    }

    #[test]
    fn names_differ_by_network_and_user() {
        let name = file_name(b"port-5");
        let network = std::fs::metadata("/proc/self/ns/net").unwrap().ino().to_string();
        assert!(name.to_str().unwrap().ends_with(&format!("-{network}-port-5")), "{name:?}");
        assert!(directories()[0].ends_with(format!("tutti-{}", user::own_outside())));
    }
}
