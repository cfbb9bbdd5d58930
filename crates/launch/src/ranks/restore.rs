//! Restart of the ranks of a host from a checkpoint: first the objects that they share, then each rank, which
//! stays stopped.
//!
//! This process fills objects and opens files. Each rank inherits its open files and moves them to their old
//! numbers. Descriptors from the launcher (outputs, input, inquiries) are new, at the old numbers.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, PipeReader, PipeWriter, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use tutti_checkpoint::image::blocks::{BLOCK, Block, FileRecord, Reader};
use tutti_checkpoint::image::{Host, OpenFile, OpenKind, Process as Image, Role, Timer};
use tutti_checkpoint::process::capture;
use tutti_checkpoint::process::memory::Memory;
use tutti_checkpoint::restore::perform::{self, Restored};
use tutti_checkpoint::restore::plan::Inherited;
use tutti_checkpoint::sets::{Directory, Manifest};
use tutti_checkpoint::write::{host_file, rank_file};
use tutti_sys::job::Job;
use tutti_sys::kept::{self, at};
use tutti_sys::memory;
use tutti_sys::process::{self, Spawn};
use tutti_sys::signal::Mask;
use tutti_sys::tracee;
use tutti_sys::{clock, event};

use super::{Process, Ranks, Refused, Surroundings, refuse_system, strings, terminated};
use crate::inquiries::Inquiries;
use crate::outcome::STATUS_DAMAGED;
use crate::output::{Outputs, Stream};
use crate::output_files::Files;
use crate::program::HostJob;
use crate::request::RestartFiles;
use crate::sockets::Sockets;
use crate::tree::message::Restart;

/// Result of a restart: ranks that were restored from a set.
#[derive(Debug)]
pub struct Made {
    /// Restored ranks of the host.
    pub ranks: Ranks,
    /// Processes of the ranks, which are still stopped.
    pub stopped: Vec<Restored>,
    /// Names and blocks of the files that were read, for the next checkpoint.
    pub files: Vec<(String, Vec<Block>)>,
}

/// Open files and objects of a host's ranks, opened again, by index.
struct Opened {
    files: BTreeMap<u32, OwnedFd>,
    objects: BTreeMap<u32, OwnedFd>,
}

/// Data from which a rank is restored.
struct Content<'a> {
    host: &'a Host,
    image: Reader,
    opened: &'a Opened,
}

/// Checkpoint set from which the ranks of this host are restored.
struct Set {
    folder: Directory,
    number: u64,
    manifest: Manifest,
    files: RestartFiles,
}

impl Set {
    fn open(restart: &Restart) -> io::Result<Set> {
        let folder = Directory::new(Path::new(OsStr::from_bytes(&restart.directory)));
        let manifest = folder.manifest_to_restart(restart.set, restart.allows_others)?;
        Ok(Set { folder, number: restart.set, manifest, files: restart.files })
    }

    fn record(&self, name: &str) -> io::Result<&FileRecord> {
        let found = self.manifest.files.iter().find(|file| file.name == name);
        found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("the set has no {name}")))
    }

    fn reader(&self, name: &str) -> io::Result<Reader> {
        let reader = Reader::open(self.folder.path(), self.number, self.record(name)?)?;
        reader.fetch();
        Ok(reader)
    }
}

impl Ranks {
    /// Restores the ranks of a host, which stay stopped. `network` has their sockets. `speak` is called now
    /// and then, so that heartbeats are sent during a long restart.
    ///
    /// # Errors
    /// Fails if the set is damaged, if this machine differs, or if a system call fails.
    pub fn restore(
        job: HostJob,
        restart: &Restart,
        network: &Sockets,
        surroundings: &Surroundings<'_>,
        outputs: &mut Outputs,
        speak: &mut dyn FnMut(),
    ) -> Result<Made, Refused> {
        let set = Set::open(restart).map_err(|error| damaged(restart, &error.to_string()))?;
        let damaged = |what: &str| damaged(restart, what);
        let text = |error: io::Error| damaged(&error.to_string());
        let reader = set.reader(&host_file(job.host)).map_err(text)?;
        let host: Host = postcard::from_bytes(&reader.head).map_err(|_| damaged("a host cannot be read"))?;
        let here = capture::machine();
        if host.machine != here {
            return Err(damaged(&format!("it is of {}, and here is {here}", host.machine)));
        }
        let world = job.world.clone();
        let reader_of = |local: u32| {
            let rank = world.get(local as usize)?;
            Some(set.reader(&rank_file(*rank)).map_err(|error| format!("rank {rank}: {error}")))
        };
        let mut next = reader_of(0);
        let opened = Opened::open(&host, &reader, &set, network, speak)
            .map_err(|error| damaged(&format!("what the ranks share: {error}")))?;
        let object = opened.objects.get(&host.job_object).ok_or_else(|| damaged("it has no job object"))?;
        let object = object.try_clone().and_then(Job::attach);
        let object = object.map_err(|error| damaged(&format!("the job object: {error}")))?;
        let count = job.world.len();
        if host.ranks != job.world || object.header().local_ranks as usize != count {
            return Err(damaged("its ranks are not those of the job"));
        }
        if !host.bells.is_empty() {
            let bells = host.bells.iter().map(|file| opened.files.get(file).map(OwnedFd::try_clone));
            let bells: Option<io::Result<Vec<OwnedFd>>> = bells.collect();
            object.set_bells(bells.ok_or_else(|| damaged("it has no bells"))?.map_err(text)?);
        }
        let mut ranks = Ranks {
            job,
            object,
            host_name: process::host_name(),
            bindings: vec![None; count],
            processes: Vec::with_capacity(count),
            by_pid: Default::default(),
            inquiries: Inquiries::default(),
            files: Files::of_restart(),
            descriptors: None,
            killings: surroundings.killings,
        };
        let mut stopped = Vec::with_capacity(count);
        let mut files = vec![(host_file(host.host), reader.blocks)];
        for local in 0..count as u32 {
            // The disk fetches the file of the next rank while this one is restored.
            let image = std::mem::replace(&mut next, reader_of(local + 1));
            let image = image.expect("there are as many as ranks").map_err(|what| damaged(&what))?;
            let content = Content { host: &host, image, opened: &opened };
            let made = ranks.restore_one(local, content, surroundings, outputs, speak);
            let (rank, file) = made.map_err(|what| damaged(&what))?;
            stopped.push(rank);
            files.push(file);
        }
        let here = (capture::boot(), clock::now_ns());
        let shift_ns = kept::shifted((&host.clock.0, host.clock.1), (&here.0, here.1));
        let told =
            [(at::HOSTS, kept::hosts(&network.hosts)), (at::SERVERS, kept::told_servers(&restart.servers))];
        ranks.renumber(shift_ns, &told).map_err(|error| refuse_system(&error, count))?;
        Ok(Made { ranks, stopped, files })
    }

    /// Restores one rank: starts a process of its program, and turns it into the process of the image.
    fn restore_one(
        &mut self,
        local: u32,
        content: Content<'_>,
        surroundings: &Surroundings<'_>,
        outputs: &mut Outputs,
        speak: &mut dyn FnMut(),
    ) -> Result<(Restored, (String, Vec<Block>)), String> {
        let Content { host, image: reader, opened } = content;
        let rank = self.job.world[local as usize];
        let named = |what: String| format!("rank {rank}: {what}");
        let text = |error: io::Error| format!("rank {rank}: {error}");
        let image: Image = postcard::from_bytes(&reader.head).map_err(|error| named(error.to_string()))?;
        let given = self.give(local, &image, host, surroundings, outputs).map_err(text)?;
        let mut inherited = Inherited::default();
        let mut lent: Vec<BorrowedFd<'_>> = Vec::new();
        for descriptor in &image.descriptors {
            let file = descriptor.file;
            let fd = match &host.files.get(file as usize).ok_or("it has no such open file")?.kind {
                OpenKind::Role(role) => given.end_for(*role),
                _ => opened.files.get(&file).map(AsFd::as_fd),
            };
            if let (Some(fd), false) = (fd, inherited.files.contains_key(&file)) {
                inherited.files.insert(file, fd.as_raw_fd());
                lent.push(fd);
            }
        }
        for (&object, fd) in &opened.objects {
            inherited.objects.insert(object, fd.as_raw_fd());
            lent.push(fd.as_fd());
        }
        let roles = given.identities().map_err(text)?;
        let pid = start(&image, lent, surroundings.mask).map_err(text)?;
        match perform::restore(pid, &image, host, &reader, &inherited, speak) {
            Ok(made) => {
                self.processes.push(Process { pid, running: true, roles });
                self.by_pid.insert(pid, local);
                Ok((made, (rank_file(rank), reader.blocks)))
            }
            Err(what) => {
                tracee::end(pid);
                Err(named(what.to_string()))
            }
        }
    }

    /// Opens the descriptors that the launcher gives a rank.
    fn give(
        &mut self,
        local: u32,
        image: &Image,
        host: &Host,
        surroundings: &Surroundings<'_>,
        outputs: &mut Outputs,
    ) -> io::Result<RankDescriptors> {
        let rank = self.job.world[local as usize];
        let has = |wanted: Role| {
            let files = image.descriptors.iter().filter_map(|it| host.files.get(it.file as usize));
            files.into_iter().any(|file| file.kind == OpenKind::Role(wanted))
        };
        let mut given = RankDescriptors { ends: Vec::new() };
        for (role, stream) in [(Role::Output, Stream::Out), (Role::Error, Stream::Err)] {
            let end =
                self.open_output(stream, rank, outputs).map_err(|error| io::Error::other(error.reason))?;
            given.ends.push((role, end));
        }
        if has(Role::Input) {
            let input = match surroundings.input.filter(|_| self.job.info.manner.input == Some(rank)) {
                Some(input) => input.try_clone_to_owned()?,
                None => File::open("/dev/null")?.into(),
            };
            given.ends.push((Role::Input, input));
        }
        if let Some(end) = self.open_inquiry()? {
            given.ends.push((Role::Inquiry, end.as_fd().try_clone_to_owned()?));
        }
        Ok(given)
    }

    /// Informs every rank of the new process numbers of the others, and of the shift of its clock. `told` has
    /// further bytes, by offset in the rank's record.
    fn renumber(&self, shift_ns: u64, told: &[(u64, Vec<u8>)]) -> io::Result<()> {
        let locals = 0..self.processes.len() as u32;
        let known = locals.clone().zip(&self.processes).filter_map(|(local, process)| {
            let (record, _) = self.object.kept(local);
            (record != 0).then_some((record, process.pid))
        });
        let bytes = kept::renumbered(&known.collect::<Vec<_>>());
        for (local, process) in locals.zip(&self.processes) {
            let (record, address) = self.object.kept(local);
            if record != 0 {
                let memory = Memory::open(process.pid)?;
                memory.write(address + at::NUMBERS, &bytes)?;
                told.iter().try_for_each(|(place, bytes)| memory.write(address + place, bytes))?;
                let mut restarts = [0; 4];
                memory.read(address + at::RESTARTS, &mut restarts)?;
                let restarts = u32::from_ne_bytes(restarts).wrapping_add(1);
                memory.write(address + at::RESTARTS, &restarts.to_ne_bytes())?;
                let shift_ns = memory.word(address + at::SHIFT)?.wrapping_add(shift_ns);
                memory.write(address + at::SHIFT, &shift_ns.to_ne_bytes())?;
            }
        }
        self.object.has_moved();
        Ok(())
    }
}

/// Descriptors that the launcher gives one rank.
struct RankDescriptors {
    ends: Vec<(Role, OwnedFd)>,
}

impl RankDescriptors {
    fn end_for(&self, wanted: Role) -> Option<BorrowedFd<'_>> {
        self.ends.iter().find(|(role, _)| *role == wanted).map(|(_, end)| end.as_fd())
    }

    fn identities(&self) -> io::Result<Vec<((u64, u64), Role)>> {
        self.ends.iter().map(|(role, end)| Ok((super::inode(end.as_fd())?, *role))).collect()
    }
}

fn damaged(restart: &Restart, what: &str) -> Refused {
    let directory = OsStr::from_bytes(&restart.directory).display();
    let reason = format!("checkpoint {} of {directory} cannot be used: {what}", restart.set);
    Refused { status: STATUS_DAMAGED, reason }
}

/// Starts a fresh process of the image's program, stopped before its first instruction.
fn start(image: &Image, lent: Vec<BorrowedFd<'_>>, mask: Mask) -> io::Result<i32> {
    let null = File::open("/dev/null")?;
    let arguments = image.arguments.iter().map(Vec::as_slice);
    let spawn = Spawn {
        program: terminated(&image.program.path)?,
        arguments: strings(arguments)?,
        environment: Vec::new(),
        directory: None,
        stdio: [null.as_fd(); 3],
        inherit: lent,
        processors: None,
        mask,
        descriptors: None,
        is_traced: true,
    };
    process::spawn(&spawn).map_err(|error| {
        let path = OsStr::from_bytes(&image.program.path).display();
        io::Error::new(error.error.kind(), format!("{path}: {}", error.error))
    })
}

impl Opened {
    /// Creates and fills the shared objects and pipes, and opens all files.
    fn open(
        host: &Host,
        reader: &Reader,
        set: &Set,
        network: &Sockets,
        speak: &mut dyn FnMut(),
    ) -> io::Result<Opened> {
        let mut opened = Opened { files: BTreeMap::new(), objects: BTreeMap::new() };
        for (number, object) in (0..).zip(&host.objects) {
            let fd = memory::create_object(&terminated(&object.name)?, object.bytes).map_err(|error| {
                io::Error::new(error.kind(), format!("an object of {} bytes: {error}", object.bytes))
            })?;
            opened.objects.insert(number, fd);
        }
        let files: BTreeMap<u32, File> = opened
            .objects
            .iter()
            .map(|(&number, fd)| Ok((number, File::from(fd.try_clone()?))))
            .collect::<io::Result<_>>()?;
        let mut room = vec![0; BLOCK as usize];
        for (number, block) in reader.blocks.iter().enumerate() {
            if number.is_multiple_of(perform::BLOCKS_A_WORD) {
                speak();
            }
            let wrong = || io::Error::new(io::ErrorKind::InvalidData, "a block of no object");
            let room = room.get_mut(..block.bytes as usize).ok_or_else(wrong)?;
            reader.read(block, room)?;
            let file = files.get(&block.space).ok_or_else(wrong)?;
            let bytes = host.objects[block.space as usize].bytes;
            let length = room.len().min(bytes.saturating_sub(block.start) as usize);
            file.write_all_at(&room[..length], block.start)
                .map_err(|error| io::Error::new(error.kind(), format!("object {}: {error}", block.space)))?;
        }
        let mut pipes = BTreeMap::new();
        for (number, held) in &host.pipes {
            let (reader, mut writer) = event::pipe()?;
            writer.write_all(held)?;
            pipes.insert(*number, (reader, writer));
        }
        for (number, file) in (0..).zip(&host.files) {
            let open = match file.kind {
                OpenKind::Socket(kind) => network.open(number, kind, file.flags).map(Some),
                _ => opened.open_file(file, &pipes, set),
            };
            let named = |error: io::Error| {
                io::Error::new(error.kind(), format!("open file {number} ({file:?}): {error}"))
            };
            if let Some(fd) = open.map_err(named)? {
                opened.files.insert(number, fd);
            }
        }
        Ok(opened)
    }

    /// Opens one file. None for a file that the process opens itself, or that the launcher provides.
    fn open_file(
        &self,
        file: &OpenFile,
        pipes: &BTreeMap<u64, (PipeReader, PipeWriter)>,
        set: &Set,
    ) -> io::Result<Option<OwnedFd>> {
        let fd = match &file.kind {
            OpenKind::Role(_) | OpenKind::Userfault(_) | OpenKind::Own(_) | OpenKind::Socket(_) => {
                return Ok(None);
            }
            OpenKind::File { path, offset, bytes } => {
                let path = PathBuf::from(OsStr::from_bytes(path));
                reopen(&path, file.flags, *offset, *bytes, set.files)
                    .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?
            }
            OpenKind::Object { object, offset } => {
                let object = self.objects.get(object).ok_or(io::ErrorKind::InvalidData)?;
                let path = PathBuf::from(format!("/proc/self/fd/{}", object.as_raw_fd()));
                // A deleted file may have these flags, with which an object cannot be opened.
                let flags = file.flags & !(libc::O_TMPFILE | libc::O_DIRECT | libc::O_NOFOLLOW);
                reopen(&path, flags, *offset, None, RestartFiles::Keep)?
            }
            OpenKind::Outside => reopen(Path::new("/dev/null"), file.flags, 0, None, RestartFiles::Keep)?,
            OpenKind::Event(count, is_semaphore) => event::counter(*count, *is_semaphore, file.flags)?,
            OpenKind::Poll(_) => event::poll_instance()?,
            OpenKind::Timer(Timer { clock, ticks, value, interval }) => {
                event::timer(*clock, *ticks, *value, *interval, file.flags)?
            }
            OpenKind::Signals(mask) => event::signals(*mask, file.flags)?,
            OpenKind::Pipe(number, is_written) => {
                let pipe = pipes.get(number).ok_or_else(|| {
                    io::Error::new(io::ErrorKind::Unsupported, "a pipe whose other end nobody has")
                })?;
                let end: BorrowedFd<'_> = if *is_written { pipe.1.as_fd() } else { pipe.0.as_fd() };
                end.try_clone_to_owned()?
            }
        };
        Ok(Some(fd))
    }
}

/// Opens a file again at its old offset. Bytes that were appended since the checkpoint are cut off, unless
/// `policy` says otherwise.
fn reopen(
    path: &Path,
    flags: i32,
    offset: u64,
    bytes: Option<u64>,
    policy: RestartFiles,
) -> io::Result<OwnedFd> {
    let mode = flags & libc::O_ACCMODE;
    let once = libc::O_CREAT | libc::O_EXCL | libc::O_TRUNC | libc::O_ACCMODE;
    let mut file = OpenOptions::new()
        .read(mode != libc::O_WRONLY)
        .write(mode != libc::O_RDONLY)
        .custom_flags(flags & !once)
        .open(path)?;
    if let (Some(bytes), true) = (bytes, mode != libc::O_RDONLY) {
        let now = file.metadata()?.len();
        let refused = |what: String| Err(io::Error::new(io::ErrorKind::InvalidData, what));
        match policy {
            _ if now == bytes => {}
            RestartFiles::Keep => {}
            RestartFiles::Truncate if now > bytes => file.set_len(bytes)?,
            RestartFiles::Truncate => {
                return refused(format!("it has {now} bytes, and had {bytes} at the checkpoint"));
            }
            RestartFiles::Refuse => {
                return refused(format!(
                    "it has {now} bytes, and had {bytes} at the checkpoint (--restart-files=truncate cuts it back)"
                ));
            }
        }
    }
    if offset > 0 {
        file.seek(SeekFrom::Start(offset))?;
    }
    Ok(file.into())
}
