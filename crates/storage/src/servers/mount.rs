//! The mount file: a text with the addresses of servers. It has mode 0600, because it contains the key.
//! Servers enter themselves when they start.
//!
//! ```text
//! tutti io 1
//! key 000102030405060708090a0b0c0d0e0f
//! mode scratch
//! stripe 1048576
//! servers 2
//! server 0 10.0.0.1:40001 n1:/scratch/me
//! server 1 10.0.0.2:40001 n2:/scratch/me
//! ```
//!
//! `servers` is the expected number of servers; files can be opened once all have started. A restarted
//! server finds its line by its name.

use std::fmt::{self, Write as _};
use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FlockOperation, OFlags};
use tutti_base::{Error, ErrorClass, Result};

use super::greeting::Key;
use super::stripes::Stripes;
use crate::fault::failed;

/// First line of the file.
const FIRST: &str = "tutti io 1";
/// Maximum length of the text in bytes.
const MOST_BYTES: u64 = 1 << 20;
/// Maximum number of servers of a mount.
const MOST_SERVERS: u32 = 4096;

/// Use of files by the servers of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// All servers write their stripes into files of a shared file system.
    Forward,
    /// Each server has its stripes in a file of its own.
    Scratch,
}

/// Server of a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Address at which the server listens.
    pub address: SocketAddr,
    /// Host and directory, for messages and to find the line again.
    pub name: String,
}

/// Content of a mount file; see the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Secret key that both ends prove to know.
    pub key: Key,
    /// Use of files by the servers.
    pub mode: Mode,
    /// Stripe length of new files in bytes.
    pub stripe_bytes: u64,
    /// Servers by number; `None` for those that have not started yet.
    pub servers: Vec<Option<Server>>,
}

impl Mode {
    /// Returns the mode with this name.
    pub fn parse(text: &str) -> Option<Mode> {
        match text {
            "forward" => Some(Mode::Forward),
            "scratch" => Some(Mode::Scratch),
            _ => None,
        }
    }

    /// Returns the name of the mode.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Forward => "forward",
            Mode::Scratch => "scratch",
        }
    }
}

#[cold]
fn wrong(why: impl Into<String>) -> Error {
    Error::new(ErrorClass::BadFile, why.into())
}

impl Mount {
    /// Returns a mount with a new key and no servers yet.
    ///
    /// # Errors
    /// `BadFile` for invalid numbers.
    pub fn new(mode: Mode, stripe_bytes: u64, servers: u32) -> Result<Mount> {
        if Stripes::new(stripe_bytes, servers).is_none() || servers > MOST_SERVERS {
            return Err(wrong(format!(
                "{servers} servers with stripes of {stripe_bytes} bytes make no sense"
            )));
        }
        Ok(Mount { key: Key::random()?, mode, stripe_bytes, servers: vec![None; servers as usize] })
    }

    /// Parses the text of a mount file.
    ///
    /// # Errors
    /// `BadFile`, naming the line.
    pub fn parse(text: &str) -> Result<Mount> {
        let (mut key, mut mode, mut stripe_bytes, mut count) = (None, None, 0, 0);
        let mut entries = Vec::new();
        let mut lines = text.lines();
        if lines.next() != Some(FIRST) {
            return Err(wrong(format!("the first line is not {FIRST:?}")));
        }
        for line in lines.filter(|line| !line.trim().is_empty()) {
            let bad = || wrong(format!("the line {line:?} makes no sense"));
            let (word, value) = line.split_once(' ').ok_or_else(bad)?;
            match word {
                "key" => key = Some(Key::parse(value).ok_or_else(|| wrong("the key makes no sense"))?),
                "mode" => mode = Some(Mode::parse(value).ok_or_else(bad)?),
                "stripe" => stripe_bytes = value.parse().map_err(|_| bad())?,
                "servers" => count = value.parse().map_err(|_| bad())?,
                "server" => entries.push(entry(value).ok_or_else(bad)?),
                _ => return Err(bad()),
            }
        }
        let (Some(key), Some(mode)) = (key, mode) else { return Err(wrong("key or mode are missing")) };
        if Stripes::new(stripe_bytes, count).is_none() || count > MOST_SERVERS {
            return Err(wrong("stripe or servers are missing or make no sense"));
        }
        let mut servers = vec![None; count as usize];
        for (number, server) in entries {
            let place =
                servers.get_mut(number).ok_or_else(|| wrong(format!("there is no server {number}")))?;
            *place = Some(server);
        }
        Ok(Mount { key, mode, stripe_bytes, servers })
    }

    /// Returns the text of the mount file.
    pub fn text(&self) -> String {
        let mut text = format!(
            "{FIRST}\nkey {}\nmode {}\nstripe {}\nservers {}\n",
            self.key.text(),
            self.mode.name(),
            self.stripe_bytes,
            self.servers.len()
        );
        let there =
            self.servers.iter().enumerate().filter_map(|(number, server)| Some((number, server.as_ref()?)));
        for (number, Server { address, name }) in there {
            let _ = writeln!(text, "server {number} {address} {}", name.replace('\n', " "));
        }
        text
    }

    /// Reads a mount file.
    ///
    /// # Errors
    /// Errors of the system; `Access` for a file that others can read or that belongs to another user;
    /// `BadFile` for an invalid text.
    pub fn read(path: &Path) -> Result<Mount> {
        let what = || format!("cannot read the mount file {}", path.display());
        // Opening a pipe would wait for its other end.
        let nonblock = OFlags::NONBLOCK.bits() as i32;
        let file = OpenOptions::new().read(true).custom_flags(nonblock).open(path);
        let file = file.map_err(|error| failed(&what(), &error))?;
        let status = file.metadata().map_err(|error| failed(&what(), &error))?;
        check_owner(&status).map_err(|why| Error::new(ErrorClass::Access, format!("{}: {why}", what())))?;
        if status.mode() & 0o077 != 0 {
            let why = format!(
                "{}: others can read it (mode {:o}), and it has the key",
                what(),
                status.mode() & 0o777
            );
            return Err(Error::new(ErrorClass::Access, why));
        }
        let mut text = String::new();
        file.take(MOST_BYTES).read_to_string(&mut text).map_err(|error| failed(&what(), &error))?;
        Mount::parse(&text).map_err(|error| Error::new(error.class, format!("{}: {error}", what())))
    }

    /// Returns the striping of new files.
    pub fn stripes(&self) -> Stripes {
        Stripes::new(self.stripe_bytes, self.servers.len() as u32).expect("checked when it was made")
    }

    /// Enters a server and returns its number: the previous one, or a free one.
    ///
    /// # Errors
    /// `BadFile` if the expected number of servers have entered themselves already.
    pub fn enter(&mut self, server: Server) -> Result<usize> {
        let is_it = |place: &Option<Server>| place.as_ref().is_some_and(|other| other.name == server.name);
        let before = self.servers.iter().position(is_it);
        let place = before.or_else(|| self.servers.iter().position(Option::is_none));
        let place = place.ok_or_else(|| {
            wrong(format!(
                "all {} servers are there already, none of them {}",
                self.servers.len(),
                server.name
            ))
        })?;
        self.servers[place] = Some(server);
        Ok(place)
    }

    /// Enters a server into a mount file, which the first server creates. Returns the new content and the
    /// server's number.
    ///
    /// # Errors
    /// Errors of the system, of [`Mount::read`] and of [`Mount::enter`].
    pub fn enter_file(
        path: &Path,
        fresh: impl FnOnce() -> Result<Mount>,
        server: Server,
    ) -> Result<(Mount, usize)> {
        let what = || format!("cannot write the mount file {}", path.display());
        let system = |error: io::Error| failed(&what(), &error);
        let lock_path = with_ending(path, "lock");
        let nofollow = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
        let mut options = OpenOptions::new();
        options.create(true).write(true).truncate(false).mode(0o600).custom_flags(nofollow);
        let locked_by = |why: String| {
            Error::new(ErrorClass::Access, format!("{}: {}: {why}", what(), lock_path.display()))
        };
        let lock = options.open(&lock_path).map_err(|error| locked_by(error.to_string()))?;
        check_owner(&lock.metadata().map_err(system)?)
            .map_err(|untrusted| locked_by(untrusted.to_string()))?;
        rustix::fs::flock(&lock, FlockOperation::LockExclusive).map_err(|error| system(error.into()))?;
        let mut mount = if path.exists() { Mount::read(path)? } else { fresh()? };
        let place = mount.enter(server)?;
        // The name is random, so that no other process can have created the file, which gets the key.
        let number = tutti_sys::process::random().map_err(system)?;
        let new = with_ending(path, &format!("{number:016x}"));
        let file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&new);
        let mut file = file.map_err(system)?;
        let written = file.write_all(mount.text().as_bytes()).and_then(|()| file.sync_all());
        let done = written.and_then(|()| std::fs::rename(&new, path));
        if done.is_err() {
            // Nothing more can be done about it.
            let _ = std::fs::remove_file(&new);
        }
        done.map_err(system)?;
        Ok((mount, place))
    }
}

/// Reason why a file is not trusted.
#[derive(Debug)]
enum Untrusted {
    NotAFile,
    OtherOwner { owner: u32, own: u32 },
}

impl fmt::Display for Untrusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Untrusted::NotAFile => f.write_str("it is not a file"),
            Untrusted::OtherOwner { owner, own } => {
                write!(f, "it is a file of user {owner}, not of user {own}")
            }
        }
    }
}

/// Checks that a file belongs to this user or to root.
///
/// # Errors
/// The reason for which the file is not trusted.
fn check_owner(status: &std::fs::Metadata) -> std::result::Result<(), Untrusted> {
    let own = tutti_sys::user::own();
    if !status.is_file() {
        return Err(Untrusted::NotAFile);
    }
    if status.uid() != own && status.uid() != 0 {
        return Err(Untrusted::OtherOwner { owner: status.uid(), own });
    }
    Ok(())
}

/// Returns the text of a mount file whose lines after the key are `rest`.
pub fn with_key(rest: &str, key: &Key) -> String {
    format!("{FIRST}\nkey {}\n{rest}", key.text())
}

fn with_ending(path: &Path, ending: &str) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}

/// Parses the rest of a line after `server`.
fn entry(value: &str) -> Option<(usize, Server)> {
    let mut words = value.splitn(3, ' ');
    let number = words.next()?.parse().ok()?;
    let address = words.next()?.parse().ok()?;
    Some((number, Server { address, name: words.next()?.to_string() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(port: u16, name: &str) -> Server {
        Server { address: SocketAddr::from(([127, 0, 0, 1], port)), name: name.to_string() }
    }

    #[test]
    fn a_mount_survives() {
        let mut mount = Mount::new(Mode::Scratch, 1 << 20, 3).unwrap();
        assert_eq!(mount.enter(server(1, "a:/x y")).unwrap(), 0);
        assert_eq!(mount.enter(server(2, "b:/x")).unwrap(), 1);
        assert_eq!(Mount::parse(&mount.text()).unwrap(), mount);
        assert_eq!(mount.enter(server(9, "a:/x y")).unwrap(), 0);
        assert_eq!(mount.enter(server(3, "c:/x")).unwrap(), 2);
        assert!(mount.enter(server(4, "d:/x")).is_err());
    }

    fn check(text: &str, expected: &str) {
        let error = Mount::parse(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let head = "tutti io 1\nkey 000102030405060708090a0b0c0d0e0f\nmode scratch\n";
        check("hello", "first line");
        check(&format!("{head}stripe x\n"), "stripe x");
        check(&format!("{head}stripe 1\nservers 1\nserver 1 127.0.0.1:5 a\n"), "no server 1");
        check(&format!("{head}stripe 0\nservers 1\n"), "stripe or servers");
        check("tutti io 1\nkey 12\n", "key");
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        let path = std::env::temp_dir().join(format!("tutti-mount-{}", std::process::id()));
        let fresh = || Mount::new(Mode::Forward, 4096, 2);
        let (mount, place) = Mount::enter_file(&path, fresh, server(1, "a")).unwrap();
        assert_eq!((Mount::read(&path).unwrap(), place), (mount, 0));
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        std::fs::set_permissions(&path, open).unwrap();
        assert_eq!(Mount::read(&path).unwrap_err().class, ErrorClass::Access);
        std::fs::remove_file(with_ending(&path, "lock")).unwrap();
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn the_key_goes_into_no_file_that_was_there() {
        let folder = std::env::temp_dir().join(format!("tutti-mount-links-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let (path, other) = (folder.join("mount"), folder.join("other"));
        std::fs::write(&other, "").unwrap();
        let enter = || Mount::enter_file(&path, || Mount::new(Mode::Forward, 4096, 2), server(1, "a"));
        // A stranger could create such links.
        std::os::unix::fs::symlink(&other, with_ending(&path, "new")).unwrap();
        enter().unwrap();
        assert_eq!(std::fs::read(&other).unwrap(), b"");
        std::fs::remove_file(with_ending(&path, "lock")).unwrap();
        std::os::unix::fs::symlink(&other, with_ending(&path, "lock")).unwrap();
        assert_eq!(enter().unwrap_err().class, ErrorClass::Access);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
