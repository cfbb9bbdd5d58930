//! The files of a server, which lie beneath one directory, whatever links are in it.
//!
//! Names are resolved by openat2 with RESOLVE_BENEATH, so neither `..` nor a link leads out. In a *scratch*
//! directory a file `NAME` has this server's stripes. At one of the servers `NAME.tutti` is the manifest
//! with the striping of the file. A manifest is written under another name, synced and renamed, and the
//! directory is synced. So it exists completely or not at all, even if the server is killed. In a *forward*
//! directory there are only the files of the shared file system.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{self, AtFlags, Mode as Bits, OFlags, RenameFlags, ResolveFlags};
use tutti_base::{Error, ErrorClass, Result};

use super::greeting::token;
use super::mount::Mode;
use super::session::{Opened, Store};
use super::wire::{Entry, Make, Token};
use crate::amode::Amode;
use crate::fault::failed;
use crate::posix::Posix;

/// Suffix of the names of manifests; files of programs must not have it.
const MANIFEST: &str = ".tutti";
/// Suffix of the names of manifests while they are written.
const NEW: &str = ".tutti.new";
/// File that identifies the directory, so that a replacement is noticed.
const IDENTITY: &str = "server.tutti";
/// Maximum length of a manifest in bytes.
const MOST_MANIFEST_BYTES: u64 = 64 << 10;
/// Maximum length of a name in bytes.
const MOST_NAME_BYTES: usize = 4000;
/// Maximum number of files in one reply to a list request.
const MOST_ENTRIES: usize = 256;
/// Maximum depth of nested directories.
const MOST_DEPTH: usize = 64;

/// Open files that are lent, by their tickets.
pub type Lent = Arc<Mutex<BTreeMap<Token, OwnedFd>>>;

/// Directory with the files of a server; see the module.
#[derive(Debug)]
pub struct Root {
    directory: OwnedFd,
    path: PathBuf,
    mode: Mode,
    verifier: u64,
    /// Files that are being created, with the number of the client.
    making: BTreeMap<String, u64>,
    lent: Lent,
}

#[cold]
fn wrong(class: ErrorClass, name: &str, why: &str) -> Error {
    Error::new(class, format!("file {name:?}: {why}"))
}

fn system(what: &str, name: &str) -> impl FnOnce(rustix::io::Errno) -> Error {
    let what = format!("cannot {what} {name:?}");
    move |error| failed(&what, &io::Error::from(error))
}

/// Returns a name of a program if it is valid: relative, of plain components.
fn checked(name: &str) -> Result<&str> {
    let name = name.trim_start_matches('/');
    let is_plain = |part: &str| !part.is_empty() && part != "." && part != ".." && part.len() < 250;
    let why = match name {
        "" => "it is empty",
        _ if name.len() > MOST_NAME_BYTES || name.contains('\0') => "it is too long, or has a null character",
        _ if !name.split('/').all(is_plain) => "components must be neither empty nor . or .., nor too long",
        _ if name.ends_with(MANIFEST) || name.ends_with(NEW) => "this ending is for manifests",
        _ => return Ok(name),
    };
    Err(wrong(ErrorClass::BadFile, name, why))
}

fn parts(name: &str) -> (&str, &str) {
    name.rsplit_once('/').unwrap_or((".", name))
}

/// Returns a hash of a text (FNV-1a).
fn number_of(text: &[u8]) -> u64 {
    text.iter().fold(0xcbf2_9ce4_8422_2325, |number, byte| {
        (number ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

impl Root {
    /// Opens an existing directory.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn new(path: &Path, mode: Mode) -> Result<Root> {
        let name = path.display().to_string();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = fs::open(path, flags, Bits::empty()).map_err(system("open the directory", &name))?;
        let (making, lent) = (BTreeMap::new(), Lent::default());
        let mut root = Root { directory, path: path.to_path_buf(), mode, verifier: 0, making, lent };
        root.verifier = root.identify()?;
        Ok(root)
    }

    /// Returns the table of open files for lending.
    pub fn lent(&self) -> Lent {
        Arc::clone(&self.lent)
    }

    /// Returns the verifier. It changes when the host is restarted or the directory is replaced: data that
    /// were not synced are lost then. If only the server is restarted, it does not change, because
    /// acknowledged data are not lost.
    fn identify(&self) -> Result<u64> {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let status = fs::fstat(&self.directory).map_err(system("look at", "the directory"))?;
        let place = format!("{boot} {} {}", status.st_dev, status.st_ino);
        if self.mode == Mode::Forward {
            return Ok(number_of(place.as_bytes()));
        }
        let identity = match self.text(IDENTITY)? {
            Some(identity) => identity,
            None => {
                let fresh = format!("{:032x}\n", u128::from_ne_bytes(token()?));
                self.write_whole(IDENTITY, &fresh, true)?;
                fresh
            }
        };
        Ok(number_of(format!("{place} {identity}").as_bytes()))
    }

    fn open_beneath(&self, name: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let bits = if flags.contains(OFlags::CREATE) { Bits::from_raw_mode(0o666) } else { Bits::empty() };
        // If a rename happens elsewhere in the tree, the kernel gives up a path with `..`. A few attempts
        // are enough (openat2(2)).
        for _ in 0..8 {
            match fs::openat2(&self.directory, name, flags | OFlags::CLOEXEC, bits, resolve) {
                Err(rustix::io::Errno::AGAIN) => {}
                result => return result,
            }
        }
        Err(rustix::io::Errno::AGAIN)
    }

    /// Returns the directory of a name; creates it if `make` is set.
    fn parent(&self, name: &str, make: bool) -> Result<OwnedFd> {
        let (parent, _) = parts(name);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let mut path = String::new();
        for part in parent.split('/').filter(|_| make && parent != ".") {
            let above = if path.is_empty() { ".".to_string() } else { path.clone() };
            let above = self.open_beneath(&above, flags).map_err(system("open the directory of", name))?;
            match fs::mkdirat(&above, part, Bits::from_raw_mode(0o777)) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(system("make the directory of", name)(error)),
            }
            path = if path.is_empty() { part.to_string() } else { format!("{path}/{part}") };
        }
        self.open_beneath(parent, flags).map_err(system("open the directory of", name))
    }

    /// Reads a short text beneath the directory; `None` if there is none.
    fn text(&self, name: &str) -> Result<Option<String>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = match self.open_beneath(name, flags) {
            Ok(file) => File::from(file),
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(error) => return Err(system("open", name)(error)),
        };
        let mut text = String::new();
        let read = file.take(MOST_MANIFEST_BYTES).read_to_string(&mut text);
        read.map_err(|error| failed(&format!("cannot read {name:?}"), &error))?;
        Ok(Some(text))
    }

    /// Writes a text atomically: it exists completely or not at all.
    fn write_whole(&self, name: &str, text: &str, replaces: bool) -> Result<()> {
        let what = |step: &str| format!("cannot {step} {name:?}");
        let parent = self.parent(name, true)?;
        let (_, last) = parts(name);
        let fresh = format!("{}{NEW}", last.trim_end_matches(MANIFEST));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = fs::openat(&parent, &fresh, flags, Bits::from_raw_mode(0o666));
        let mut file = File::from(file.map_err(system("make", name))?);
        file.write_all(text.as_bytes()).map_err(|error| failed(&what("write"), &error))?;
        file.sync_all().map_err(|error| failed(&what("sync"), &error))?;
        let how = if replaces { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
        fs::renameat_with(&parent, &fresh, &parent, last, how).map_err(system("name", name))?;
        fs::fsync(&parent).map_err(system("sync the directory of", name))
    }

    fn unlink(&self, name: &str) -> Result<()> {
        let parent = self.parent(name, false)?;
        fs::unlinkat(&parent, parts(name).1, AtFlags::empty()).map_err(system("delete", name))
    }

    /// Adds the names of all files in a directory, manifests included.
    fn collect(&self, below: &Path, depth: usize, names: &mut BTreeSet<String>) -> Result<()> {
        let what = |error: &io::Error| failed(&format!("cannot list {}", below.display()), error);
        for entry in std::fs::read_dir(self.path.join(below)).map_err(|error| what(&error))? {
            let entry = entry.map_err(|error| what(&error))?;
            let kind = entry.file_type().map_err(|error| what(&error))?;
            let name = below.join(entry.file_name());
            if kind.is_dir() && depth < MOST_DEPTH {
                self.collect(&name, depth + 1, names)?;
            } else if let Some(name) = name.to_str().filter(|_| kind.is_file()) {
                names.insert(name.to_string());
            }
        }
        Ok(())
    }

    fn entry(&self, name: &str, names: &BTreeSet<String>) -> Result<Entry> {
        let bytes = self.path.join(name).symlink_metadata().ok().filter(|status| status.is_file());
        let manifest = format!("{name}{MANIFEST}");
        let manifest = if names.contains(&manifest) { self.text(&manifest)? } else { None };
        Ok(Entry {
            name: name.to_string(),
            bytes: bytes.map(|status| status.len()),
            manifest,
            is_left_over: names.contains(&format!("{name}{NEW}")),
        })
    }
}

impl Store for Root {
    fn look(&mut self, client: u64, name: &str, make: Make) -> Result<Option<String>> {
        let name = checked(name)?;
        if self.mode == Mode::Forward {
            return Ok(None);
        }
        let found = self.text(&format!("{name}{MANIFEST}"))?;
        match (found, make) {
            (Some(_), Make::Exclusive) => Err(wrong(ErrorClass::FileExists, name, "it is there")),
            (Some(text), _) => Ok(Some(text)),
            (None, Make::No) => Err(wrong(ErrorClass::NoSuchFile, name, "no such file at the io-servers")),
            (None, _) => match *self.making.entry(name.to_string()).or_insert(client) {
                own if own == client => Ok(None),
                _ => Err(wrong(ErrorClass::FileInUse, name, "another program is making it")),
            },
        }
    }

    fn commit(&mut self, client: u64, name: &str, text: &str) -> Result<()> {
        let name = checked(name)?;
        if self.making.get(name) != Some(&client) {
            return Err(wrong(ErrorClass::FileInUse, name, "it is not being made by this program"));
        }
        let written = self.write_whole(&format!("{name}{MANIFEST}"), text, false);
        self.making.remove(name);
        written
    }

    fn open(&mut self, name: &str, read: bool, write: bool, make: Make) -> Result<Opened> {
        let name = checked(name)?;
        let access = match (read, write) {
            (_, false) => OFlags::RDONLY,
            (false, true) => OFlags::WRONLY,
            (true, true) => OFlags::RDWR,
        };
        let how = match make {
            Make::No => OFlags::empty(),
            Make::IfMissing => OFlags::CREATE,
            Make::Exclusive => OFlags::CREATE | OFlags::EXCL,
            Make::Empty => OFlags::CREATE | OFlags::TRUNC,
        };
        if make != Make::No && self.mode == Mode::Scratch {
            self.parent(name, true)?;
        }
        // Opening a pipe would wait for its other end.
        let opened =
            self.open_beneath(name, access | how | OFlags::NONBLOCK).map_err(system("open", name))?;
        let status = fs::fstat(&opened).map_err(system("look at", name))?;
        if fs::FileType::from_raw_mode(status.st_mode) != fs::FileType::RegularFile {
            return Err(wrong(ErrorClass::BadFile, name, "it is no plain file"));
        }
        let lent = opened.try_clone().map_err(|error| failed(&format!("cannot lend {name:?}"), &error))?;
        let driver =
            Posix::from_file(File::from(opened), PathBuf::from(name), Amode::for_existing(read, write))?;
        let ticket = token()?;
        self.lent.lock().unwrap_or_else(PoisonError::into_inner).insert(ticket, lent);
        Ok(Opened { driver: Arc::new(driver), ticket, identity: (status.st_dev, status.st_ino) })
    }

    fn close(&mut self, ticket: &Token) {
        self.lent.lock().unwrap_or_else(PoisonError::into_inner).remove(ticket);
    }

    fn delete(&mut self, name: &str) -> Result<()> {
        let name = checked(name)?;
        if self.mode == Mode::Forward {
            return self.unlink(name);
        }
        // Without its manifest a file does not exist any more, even if parts of it remain.
        let manifest = self.unlink(&format!("{name}{MANIFEST}"));
        let part = self.unlink(name);
        match (manifest, part) {
            (Err(error), Err(_)) => Err(error),
            _ => Ok(()),
        }
    }

    fn list(&mut self, after: &str) -> Result<Vec<Entry>> {
        let mut names = BTreeSet::new();
        self.collect(Path::new(""), 0, &mut names)?;
        names.remove(IDENTITY);
        let plain = |name: &String| {
            let name = name.strip_suffix(NEW).or_else(|| name.strip_suffix(MANIFEST)).unwrap_or(name);
            name.to_string()
        };
        let files: BTreeSet<String> = names.iter().map(plain).collect();
        let wanted = files.iter().filter(|name| name.as_str() > after).take(MOST_ENTRIES);
        wanted.map(|name| self.entry(name, &names)).collect()
    }

    fn leave(&mut self, client: u64) {
        self.making.retain(|_, maker| *maker != client);
    }

    fn verifier(&self) -> u64 {
        self.verifier
    }
}

impl AsFd for Root {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Directory of one test, which is removed when it is dropped.
    struct Temporary(PathBuf);

    impl Temporary {
        fn new(name: &str) -> Temporary {
            let path = std::env::temp_dir().join(format!("tutti-root-{}-{name}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            std::fs::create_dir_all(path.join("root")).unwrap();
            Temporary(path)
        }

        fn root(&self) -> Root {
            Root::new(&self.0.join("root"), Mode::Scratch).unwrap()
        }
    }

    impl Drop for Temporary {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn check(name: &str, expected: std::result::Result<&str, ErrorClass>) {
        assert_eq!(checked(name).map_err(|error| error.class), expected, "{name:?}");
    }

    #[test]
    fn names_that_lead_out_are_refused() {
        check("/a/b\nc", Ok("a/b\nc"));
        for bad in ["", "/", "a/../b", "..", "a//b", "./a", "x.tutti", "a/x.tutti.new", "a\0b"] {
            check(bad, Err(ErrorClass::BadFile));
        }
    }

    #[test]
    fn links_do_not_lead_out() {
        let place = Temporary::new("links");
        std::fs::write(place.0.join("secret"), "x").unwrap();
        std::os::unix::fs::symlink("../secret", place.0.join("root/up")).unwrap();
        std::os::unix::fs::symlink(place.0.join("secret"), place.0.join("root/away")).unwrap();
        std::os::unix::fs::symlink(&place.0, place.0.join("root/directory")).unwrap();
        let mut root = place.root();
        for name in ["up", "away", "directory/secret"] {
            let refused = root.open(name, true, true, Make::IfMissing);
            assert!(refused.is_err(), "{name}");
        }
    }

    #[test]
    fn a_file_is_there_once_its_manifest_is() {
        let place = Temporary::new("manifest");
        let mut root = place.root();
        let class = |result: Result<Option<String>>| result.map_err(|error| error.class);
        assert_eq!(class(root.look(1, "a/b", Make::No)), Err(ErrorClass::NoSuchFile));
        assert_eq!(class(root.look(1, "a/b", Make::IfMissing)), Ok(None));
        assert_eq!(class(root.look(2, "a/b", Make::IfMissing)), Err(ErrorClass::FileInUse));
        root.leave(1);
        assert_eq!(class(root.look(2, "a/b", Make::IfMissing)), Ok(None));
        assert!(root.commit(1, "a/b", "text").is_err());
        root.open("a/b", true, true, Make::Empty).unwrap();
        root.commit(2, "a/b", "text").unwrap();
        assert_eq!(class(root.look(1, "a/b", Make::No)), Ok(Some("text".to_string())));
        assert_eq!(class(root.look(1, "a/b", Make::Exclusive)), Err(ErrorClass::FileExists));
        let entries = root.list("").unwrap();
        assert_eq!(entries.len(), 1);
        assert_eq!((entries[0].name.as_str(), entries[0].bytes), ("a/b", Some(0)));
        root.delete("a/b").unwrap();
        assert_eq!(class(root.look(1, "a/b", Make::No)), Err(ErrorClass::NoSuchFile));
    }

    #[test]
    fn another_directory_in_its_place_is_noticed() {
        let place = Temporary::new("identity");
        let before = place.root().verifier();
        assert_eq!(place.root().verifier(), before);
        std::fs::remove_file(place.0.join("root").join(IDENTITY)).unwrap();
        assert_ne!(place.root().verifier(), before);
    }
}
