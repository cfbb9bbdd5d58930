//! Descriptors of a host's ranks: the kind of each open file, and which descriptors share one.
//!
//! Texts of the kernel (the link in /proc/PID/fd, the lines of /proc/PID/fdinfo) become an [`OpenKind`], or a
//! refusal that names the file. A descriptor from the launcher is recognised by its inode, even if the
//! program has given it another number.

use std::collections::{BTreeMap, HashMap};
use std::fs::Metadata;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use tutti_sys::cma::Pid;
use tutti_sys::{remap, tracee};

use super::areas;
use super::network::Network;
use crate::error::CheckpointError;
use crate::image::{Descriptor, OpenFile, OpenKind, Role, Timer};

/// Maximum bytes of a deleted file that is saved. After a restart it is kept in memory.
pub const MOST_DELETED: u64 = 256 << 20;
/// Suffix that the kernel adds to the link of a deleted file in /proc/PID/fd.
const DELETED: &str = " (deleted)";
/// Maximum bytes of an object's name. memfd_create(2) accepts 249.
const LONGEST_NAME: usize = 200;

/// Device and inode of a file.
pub type Identity = (u64, u64);

/// Open files and objects of a host's ranks.
#[derive(Debug, Default)]
pub struct Found {
    /// Open files, in the order in which they were found.
    pub files: Vec<OpenFile>,
    /// One descriptor of each open file: process and number.
    owners: Vec<(i32, i32)>,
    /// Indices of open files by the text of their links.
    by_link: HashMap<Vec<u8>, Vec<u32>>,
    /// Indices of shared objects, by device and inode.
    pub objects: BTreeMap<Identity, u32>,
    /// Name of each object, and a descriptor of it if a rank has it open.
    pub named: Vec<(Vec<u8>, Option<OwnedFd>)>,
    /// Contents of pipes, by inode.
    pub pipes: BTreeMap<u64, Vec<u8>>,
    /// Sockets between ranks of several hosts.
    pub network: Network,
}

impl Found {
    /// Returns the index of an object, and adds it if it is new. `holder` is a descriptor of it (process and
    /// number), if a rank has it open.
    pub fn object(&mut self, identity: Identity, link: &[u8], holder: Option<(i32, i32)>) -> u32 {
        let next = self.named.len() as u32;
        let number = *self.objects.entry(identity).or_insert(next);
        if number == next {
            let name = link.strip_prefix(b"/memfd:").unwrap_or(link);
            let name = name.strip_suffix(DELETED.as_bytes()).unwrap_or(name);
            let name = &name[name.len().saturating_sub(LONGEST_NAME)..];
            self.named.push((name.to_vec(), None));
        }
        let room = &mut self.named[number as usize].1;
        if let (true, Some((pid, fd))) = (room.is_none(), holder) {
            *room = remap::object_of(Pid(pid), fd).and_then(|object| reopen(&object)).ok();
        }
        number
    }

    /// Lists the descriptors of a process, which must be stopped.
    ///
    /// - `roles`: descriptors from the launcher, by device and inode;
    /// - `holders`: descriptors by which the process holds the kernel's packet program.
    ///
    /// # Errors
    /// Fails with a text for the user that names the descriptor that cannot be saved.
    pub fn of_process(
        &mut self,
        pid: i32,
        roles: &[(Identity, Role)],
        holders: &[i32],
    ) -> Result<Vec<Descriptor>, CheckpointError> {
        let numbers = numbers(pid)?;
        let mut found = Vec::with_capacity(numbers.len());
        for number in numbers {
            let link = std::fs::read_link(format!("/proc/{pid}/fd/{number}"));
            let link = link?.as_os_str().as_bytes().to_vec();
            let info = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{number}"));
            let info = info?;
            let flags = octal(&info, "flags:").unwrap_or(0);
            let flags_kept = flags & !libc::O_CLOEXEC;
            let is_holder = holders.contains(&number) && is_of_packet_program(&link);
            let file = if is_holder {
                // A restarted rank requests a program on its new host. Until then an eventfd occupies the
                // number.
                self.add(OpenFile { kind: OpenKind::Event(0, false), flags: flags_kept }, (pid, number))
            } else {
                self.file(pid, number, &link, &info, flags_kept, roles)?
            };
            found.push(Descriptor { number, closed_on_exec: flags & libc::O_CLOEXEC != 0, file });
        }
        let is_watcher =
            |it: &&Descriptor| matches!(self.files[it.file as usize].kind, OpenKind::Userfault(_));
        let watchers: BTreeMap<u32, i32> =
            found.iter().filter(is_watcher).map(|descriptor| (descriptor.file, descriptor.number)).collect();
        if let Some(number) = watchers.values().nth(1) {
            // The kernel does not report which of them watches which memory.
            return Err(CheckpointError::Obstacle(format!("a second userfaultfd (descriptor {number})")));
        }
        Ok(found)
    }

    /// Returns the indices of the open files that are these doorbells of this process.
    pub fn bells(&self, bells: &[BorrowedFd<'_>]) -> Vec<u32> {
        let own = std::process::id() as i32;
        let number = |bell: &BorrowedFd<'_>| {
            let is_it = |owner: &(i32, i32)| tracee::same_open_file((own, bell.as_raw_fd()), *owner);
            self.owners.iter().position(is_it).map(|at| at as u32)
        };
        bells.iter().filter_map(number).collect()
    }

    /// Returns the index of the open file of a descriptor, which is added if it is new.
    fn file(
        &mut self,
        pid: i32,
        number: i32,
        link: &[u8],
        info: &str,
        flags: i32,
        roles: &[(Identity, Role)],
    ) -> Result<u32, CheckpointError> {
        let like = self.by_link.get(link).map_or(&[][..], Vec::as_slice);
        let same =
            like.iter().find(|&&file| tracee::same_open_file(self.owners[file as usize], (pid, number)));
        if let Some(&file) = same {
            return Ok(file);
        }
        let path = format!("/proc/{pid}/fd/{number}");
        let known =
            std::fs::metadata(&path).map_err(CheckpointError::system(format!("descriptor {number}")))?;
        let identity = (known.dev(), known.ino());
        let role = roles.iter().find(|(role, _)| *role == identity).map(|(_, role)| *role);
        // A program may also open the file of its standard input itself; that one is an ordinary file.
        let is_input = |role: &Role| *role != Role::Input || !known.is_file() || is_shared(pid, number, link);
        let role = role.filter(is_input);
        let kind = match role {
            Some(role) => OpenKind::Role(role),
            None => self.kind(pid, number, link, info, flags, &known)?,
        };
        let file = self.add(OpenFile { kind, flags }, (pid, number));
        self.by_link.entry(link.to_vec()).or_default().push(file);
        Ok(file)
    }

    fn add(&mut self, file: OpenFile, owner: (i32, i32)) -> u32 {
        self.files.push(file);
        self.owners.push(owner);
        self.files.len() as u32 - 1
    }

    /// Determines the kind of an open file that is not from the launcher. Refuses, by name, a file that
    /// cannot be saved.
    fn kind(
        &mut self,
        pid: i32,
        number: i32,
        link: &[u8],
        info: &str,
        flags: i32,
        known: &Metadata,
    ) -> Result<OpenKind, CheckpointError> {
        let identity = (known.dev(), known.ino());
        let text = String::from_utf8_lossy(link).into_owned();
        let offset = decimal(info, "pos:").unwrap_or(0);
        let refused = |what: &str| Err(CheckpointError::Obstacle(format!("{what} (descriptor {number})")));
        let mut kept_bytes = || {
            let object = self.object(identity, link, Some((pid, number)));
            match self.named[object as usize].1 {
                Some(_) => Ok(OpenKind::Object { object, offset }),
                None => refused(&format!("the open file {text}, which cannot be read")),
            }
        };
        if areas::is_object(&text) {
            return kept_bytes();
        }
        if let Some(kind) = text.strip_prefix("anon_inode:") {
            return match anonymous(kind.trim_matches(['[', ']']), info) {
                Some(kind) => Ok(kind),
                None => refused(&format!("an open {}", kind.trim_matches(['[', ']']))),
            };
        }
        if let Some(own) = text.strip_prefix(&format!("/proc/{pid}/")) {
            return Ok(OpenKind::Own(own.as_bytes().to_vec()));
        }
        if is_from_outside(pid, number, link) {
            return Ok(OpenKind::Outside);
        }
        if text.starts_with("pipe:[") {
            let is_written = flags & libc::O_ACCMODE == libc::O_WRONLY;
            if !is_written {
                let held = content_of_pipe(pid, number)?;
                self.pipes.insert(identity.1, held);
            }
            return Ok(OpenKind::Pipe(identity.1, is_written));
        }
        if text.starts_with("socket:[") {
            let socket = self.network.take(pid, number, self.files.len() as u32);
            return socket.map(OpenKind::Socket).or_else(|error| refused(&error.to_string()));
        }
        if known.file_type().is_fifo() {
            return refused(&format!("the open named pipe {text}"));
        }
        if let Some(device) = text.strip_prefix("/dev/") {
            let is_harmless = ["null", "zero", "full", "random", "urandom"].contains(&device);
            if !is_harmless && !device.starts_with("shm/") {
                return refused(&format!("the open device {text}"));
            }
        }
        let name = Path::new(std::ffi::OsStr::from_bytes(link));
        match std::fs::metadata(name) {
            Ok(now) if (now.dev(), now.ino()) == identity => {
                let bytes = now.is_file().then_some(now.len());
                Ok(OpenKind::File { path: link.to_vec(), offset, bytes })
            }
            _ if text.ends_with(DELETED) => match check_deleted(known, is_on_files(pid, info)) {
                Ok(()) => kept_bytes(),
                Err(why) => refused(&format!("the open file {text}, which {why}")),
            },
            _ => refused(&format!("the open file {text}, which is not found by that name")),
        }
    }
}

/// Returns true if a link in /proc/PID/fd has the form of a descriptor that holds the kernel's packet
/// program. These are a connection with `tutti netd`, or an attachment of the program.
fn is_of_packet_program(link: &[u8]) -> bool {
    link.starts_with(b"socket:[") || link.starts_with(b"anon_inode:bpf")
}

/// Checks that a file without a name can be saved by its bytes.
///
/// # Errors
/// Fails with the reason, as a text for the user.
fn check_deleted(known: &Metadata, is_on_files: bool) -> Result<(), CheckpointError> {
    if !is_on_files {
        Err(CheckpointError::Obstacle("lies on no file system for files".to_string()))
    } else if !known.is_file() {
        Err(CheckpointError::Obstacle("is no regular file".to_string()))
    } else if known.nlink() > 0 {
        Err(CheckpointError::Obstacle("still has another name".to_string()))
    } else if known.len() > MOST_DELETED {
        Err(CheckpointError::Obstacle(format!(
            "has {} MB, of at most {} that are kept",
            known.len() >> 20,
            MOST_DELETED >> 20
        )))
    } else {
        Ok(())
    }
}

/// Returns true if the descriptor's file system has ordinary files, which are determined by their bytes.
/// Those of kernel interfaces (message queues, /proc) are not.
fn is_on_files(pid: i32, info: &str) -> bool {
    const NOT_BYTES: [&str; 11] = [
        "mqueue",
        "proc",
        "sysfs",
        "cgroup",
        "cgroup2",
        "debugfs",
        "tracefs",
        "bpf",
        "configfs",
        "securityfs",
        "hugetlbfs",
    ];
    let mounts = std::fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
    let number = field(info, "mnt_id:").unwrap_or_default();
    let mount = mounts.lines().find(|line| line.split(' ').next() == Some(number));
    let kind = mount.and_then(|line| line.split_once(" - ")?.1.split(' ').next());
    kind.is_some_and(|kind| !NOT_BYTES.contains(&kind))
}

/// Opens an object again, so that the descriptor has an offset of its own.
fn reopen(object: &OwnedFd) -> io::Result<OwnedFd> {
    std::fs::File::open(format!("/proc/self/fd/{}", object.as_raw_fd())).map(OwnedFd::from)
}

/// Returns the descriptor numbers of a process in ascending order.
fn numbers(pid: i32) -> io::Result<Vec<i32>> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd"))?;
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut numbers: Vec<i32> = names.filter_map(|name| name.parse().ok()).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

fn decimal(info: &str, name: &str) -> Option<u64> {
    field(info, name)?.parse().ok()
}

fn octal(info: &str, name: &str) -> Option<i32> {
    i32::from_str_radix(field(info, name)?, 8).ok()
}

/// Returns true if this process has the same pipe, socket or device open. Then it comes from the process that
/// started the job.
fn is_from_outside(pid: i32, number: i32, link: &[u8]) -> bool {
    let is_plain = link.starts_with(b"/") && !link.starts_with(b"/dev/");
    !is_plain && is_shared(pid, number, link)
}

/// Returns true if this process has the same open file, with the same offset.
fn is_shared(pid: i32, number: i32, link: &[u8]) -> bool {
    let own = std::process::id() as i32;
    let is_same = |&fd: &i32| {
        std::fs::read_link(format!("/proc/self/fd/{fd}")).is_ok_and(|it| it.as_os_str().as_bytes() == link)
            && tracee::same_open_file((own, fd), (pid, number))
    };
    numbers(own).is_ok_and(|numbers| numbers.iter().any(is_same))
}

/// Returns the kind of an open file without an inode of its own, such as an eventfd; None if it cannot be
/// saved.
fn anonymous(kind: &str, info: &str) -> Option<OpenKind> {
    match kind {
        "eventfd" => {
            let count = u64::from_str_radix(field(info, "eventfd-count:")?, 16).ok()?;
            let is_semaphore = decimal(info, "eventfd-semaphore:") == Some(1);
            Some(OpenKind::Event(count, is_semaphore))
        }
        "eventpoll" => {
            let watched = info.lines().filter(|line| line.starts_with("tfd:")).map(|line| {
                let words: Vec<&str> = line.split_ascii_whitespace().collect();
                let at = |name: &str| words.iter().position(|word| *word == name).map(|at| words.get(at + 1));
                let number = at("tfd:")??.parse().ok()?;
                let events = u32::from_str_radix(at("events:")??, 16).ok()?;
                let data = u64::from_str_radix(at("data:")??, 16).ok()?;
                Some((number, events, data))
            });
            watched.collect::<Option<Vec<_>>>().map(OpenKind::Poll)
        }
        "timerfd" => {
            let pair = |name: &str| {
                let text = field(info, name)?.trim_matches(['(', ')']).to_string();
                let (seconds, nanoseconds) = text.split_once(", ")?;
                Some((seconds.parse().ok()?, nanoseconds.parse().ok()?))
            };
            Some(OpenKind::Timer(Timer {
                clock: decimal(info, "clockid:")? as i32,
                ticks: decimal(info, "ticks:")?,
                value: pair("it_value:")?,
                interval: pair("it_interval:")?,
            }))
        }
        "signalfd" => u64::from_str_radix(field(info, "sigmask:")?, 16).ok().map(OpenKind::Signals),
        "userfaultfd" => {
            let features = field(info, "API:")?.split(':').nth(1)?;
            // The kernel also sets bit 31, when features were negotiated.
            u64::from_str_radix(features, 16).ok().map(|features| OpenKind::Userfault(features & !(1 << 31)))
        }
        _ => None,
    }
}

/// Returns the contents of a pipe without consuming them. All processes that use it must be stopped.
fn content_of_pipe(pid: i32, number: i32) -> io::Result<Vec<u8>> {
    let end = remap::object_of(Pid(pid), number)?;
    tutti_sys::event::peek_pipe(end.as_fd())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: &str, info: &str, expected: Option<OpenKind>) {
        assert_eq!(anonymous(kind, info), expected, "{kind}");
    }

    #[test]
    fn what_the_kernel_says_of_descriptors() {
        let event =
            "pos:\t0\nflags:\t04002\neventfd-count:               2a\neventfd-id: 3\neventfd-semaphore: 1\n";
        check("eventfd", event, Some(OpenKind::Event(42, true)));
        let poll = "pos:\t0\ntfd:        5 events:       19 data:                7  pos:0 ino:3 sdev:9\n\
                    tfd:        9 events:        4 data: ffffffffffffffff  pos:0 ino:3 sdev:9\n";
        check("eventpoll", poll, Some(OpenKind::Poll(vec![(5, 0x19, 7), (9, 4, u64::MAX)])));
        check(
            "userfaultfd",
            "pending:\t0\ntotal:\t0\nAPI:\taa:8000104e:7ffff\n",
            Some(OpenKind::Userfault(0x104e)),
        );
        let timer = Timer { clock: 1, ticks: 3, value: (0, 49406829), interval: (1, 0) };
        let text = "clockid: 1\nticks: 3\nsettime flags: 01\nit_value: (0, 49406829)\nit_interval: (1, 0)\n";
        check("timerfd", text, Some(OpenKind::Timer(timer)));
        check("signalfd", "sigmask:\t0000000000000200\n", Some(OpenKind::Signals(0x200)));
        check("inotify", "", None);
        assert_eq!(octal(event, "flags:"), Some(0o4002));
    }

    #[test]
    fn open_files_that_are_shared_are_one() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let twin = file.try_clone().unwrap();
        let other = std::fs::File::open("/proc/self/exe").unwrap();
        let mut found = Found::default();
        let pid = std::process::id() as i32;
        let mut number_of = |file: &std::fs::File| {
            let number = file.as_raw_fd();
            let link = std::fs::read_link(format!("/proc/self/fd/{number}")).unwrap();
            found.file(pid, number, link.as_os_str().as_bytes(), "pos:\t0\nflags:\t0\n", 0, &[]).unwrap()
        };
        let (first, second, third) = (number_of(&file), number_of(&twin), number_of(&other));
        assert!(first == second && first != third);
    }
}
