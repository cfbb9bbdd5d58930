//! Description of stopped processes: all that a checkpoint contains except the bytes of memory.
//!
//! The kernel reports most of it in /proc. Only the process itself can query the rest: signal actions,
//! timers, and the addresses that the kernel clears at the end of threads. Therefore the process is made to
//! execute single system calls. Their results go to a page that is mapped for this purpose and unmapped
//! afterwards.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use tutti_sys::kept::{self, PacketProgram, at};
use tutti_sys::{clock, pagemap::Pages};

use super::areas::{self, Listed};
use super::asker::{self, Asker};
use super::freeze::Frozen;
use super::keeper::{self, Keeper};
use super::memory::Memory;
use super::network::Network;
use super::open_files::{Found, Identity};
use crate::error::CheckpointError;
use crate::image::{Area, Backing, Handler, Host, Object, OpenFile, OpenKind, Process, Role, Thread};

const PAGE: u64 = 4096;
const GET_TID_ADDRESS: u64 = 40;
/// Feature bit of a userfaultfd that reports forks: UFFD_FEATURE_EVENT_FORK.
const EVENT_FORK: u64 = 1 << 1;
/// Name of a mapped table of a kernel program (BPF).
const PACKET_TABLE: &str = "anon_inode:bpf-map";
/// Bytes of the kernel's signal set.
const SIGNAL_SET: u64 = 8;

/// Rank of this host that is to be saved.
#[derive(Clone, Debug)]
pub struct Rank {
    /// Rank in MPI_COMM_WORLD of the job.
    pub rank: u32,
    /// Process number of the rank.
    pub pid: i32,
    /// Descriptors that the launcher gave the rank, by device and inode.
    pub roles: Vec<(Identity, Role)>,
    /// Address of the rank's record in the layout of [`tutti_sys::kept`]; 0 if it has none.
    pub words: u64,
}

/// Reason why the state of a rank cannot be saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Rank that cannot be saved.
    pub rank: u32,
    /// Obstacle, as a text for the user.
    pub what: String,
}

/// Location of the bytes of a shared object.
#[derive(Debug)]
pub enum Bytes {
    /// Descriptor of the object, open in this process.
    Open(OwnedFd),
    /// Mappings in processes, if no descriptor is open: process, address, offset, bytes.
    Mapped(Vec<(i32, u64, u64, u64)>),
}

/// Rank whose memory is to be written.
#[derive(Debug)]
pub struct Source {
    /// Description of the process, for the head of its file.
    pub process: Process,
    /// Memory of the process.
    pub memory: Memory,
    /// Page table of the process, to find the pages that it owns.
    pub pages: Pages,
    /// Memory of the copy of the process (its keeper), if it has one.
    pub kept: Option<Memory>,
    /// Addresses of mapped tables of the packet program. Their pages are in the description of the process.
    tables: Vec<u64>,
}

impl Source {
    /// Returns the page ranges of private memory in the areas for which `wanted` returns true. The process
    /// must be stopped. Each range is its first address and the first address behind.
    ///
    /// # Errors
    /// Fails if the process was killed; it would otherwise seem to have no memory.
    pub fn runs(&self, wanted: impl Fn(&Area) -> bool) -> io::Result<Vec<(u64, u64)>> {
        let mut runs = Vec::new();
        for area in &self.process.areas {
            let is_table = || self.tables.iter().any(|table| (area.start..area.end).contains(table));
            if !area.shared && !matches!(area.backing, Backing::Kernel(_)) && wanted(area) && !is_table() {
                runs.extend(self.pages.own(area.start, area.end)?);
            }
        }
        let kernel = |area: &&Area| matches!(&area.backing, Backing::Kernel(name) if name == "[vdso]");
        match self.process.areas.iter().find(kernel) {
            Some(area) => self.memory.word(area.start).map(|_| runs),
            None => Ok(runs),
        }
    }

    /// Returns the memory from which the private pages are read: that of the keeper, if there is one.
    pub fn bytes(&self) -> &Memory {
        self.kept.as_ref().unwrap_or(&self.memory)
    }

    /// Returns true if the rank has a keeper, and the keeper has the bytes of this area.
    pub fn is_kept(&self, area: &Area) -> bool {
        self.kept.is_some() && keeper::has(area)
    }
}

/// All state of a host that must be written.
#[derive(Debug)]
pub struct Captured {
    /// State that the ranks of the host share.
    pub host: Host,
    /// Locations of the bytes of the shared objects, in the order of `host.objects`.
    pub objects: Vec<Bytes>,
    /// Ranks of the host, in local order.
    pub ranks: Vec<Source>,
    /// Connections of the ranks to other hosts.
    pub network: Network,
}

impl Captured {
    /// Makes a keeper for each rank, from which its memory is then read. The keepers must live until all is
    /// written.
    ///
    /// # Errors
    /// Fails if one rank cannot be copied; then no rank has a keeper.
    pub fn keep(&mut self, frozen: &[Frozen]) -> io::Result<Vec<Keeper>> {
        let asks = |file: &OpenFile| match file.kind {
            OpenKind::Userfault(features) => features & EVENT_FORK != 0,
            _ => false,
        };
        if self.host.files.iter().any(asks) {
            // The fork would wait for the reader of that userfaultfd, which is stopped too.
            return Err(io::ErrorKind::Unsupported.into());
        }
        let keepers = self.ranks.iter().zip(frozen);
        let keepers = keepers.map(|(source, frozen)| Keeper::of_process(frozen, &source.memory));
        let keepers = keepers.collect::<io::Result<Vec<_>>>()?;
        let memories = keepers.iter().map(Keeper::memory).collect::<io::Result<Vec<_>>>()?;
        for (source, memory) in self.ranks.iter_mut().zip(memories) {
            source.kept = Some(memory);
        }
        Ok(keepers)
    }

    /// Returns to the ranks the bytes that were drained from their connections. `words` has the address of
    /// each rank's record of [`tutti_sys::kept`].
    ///
    /// # Errors
    /// Returns the first rank for which this fails. That rank must not go on.
    pub fn give_back(&mut self, frozen: &[Frozen], words: &[u64]) -> Result<(), Refused> {
        for ((source, frozen), words) in self.ranks.iter_mut().zip(frozen).zip(words) {
            let map = |memory: &Memory, bytes| Asked::map(frozen, memory, bytes);
            let given = self.network.give_back(frozen.pid, *words, map).map_err(|error| Refused {
                rank: source.process.rank,
                what: format!("bytes of its connections that cannot be given back: {error}"),
            })?;
            let Some(area) = given else { continue };
            let areas = &mut source.process.areas;
            let place = areas.partition_point(|other| other.start < area.start);
            areas.insert(place, area);
        }
        Ok(())
    }
}

/// Describes all ranks of a host, which must be stopped.
///
/// - `job_object`: device and inode of the job object;
/// - `bells`: doorbells of the ranks.
///
/// # Errors
/// Returns the first rank whose state cannot be saved, with the reason.
pub fn capture(
    number: u32,
    ranks: &[Rank],
    frozen: &[Frozen],
    job_object: Identity,
    bells: &[BorrowedFd<'_>],
) -> Result<Captured, Refused> {
    let mut found = Found::default();
    let job = found.object(job_object, b"tutti-job", None);
    let mut sources = Vec::with_capacity(ranks.len());
    let mut mapped: BTreeMap<u32, Vec<(i32, u64, u64, u64)>> = BTreeMap::new();
    let mut kernel_code = 0;
    for (rank, frozen) in ranks.iter().zip(frozen) {
        let refused = |error: CheckpointError| Refused { rank: rank.rank, what: error.to_string() };
        let (source, code) = process(rank, frozen, &mut found).map_err(refused)?;
        kernel_code = code;
        for area in &source.process.areas {
            if let Backing::Object(object) = area.backing {
                let place = (rank.pid, area.start, area.offset, area.end - area.start);
                mapped.entry(object).or_default().push(place);
            }
        }
        sources.push(source);
    }
    let mut objects = Vec::new();
    let mut bytes = Vec::new();
    for (number, (name, open)) in (0..).zip(std::mem::take(&mut found.named)) {
        let places = mapped.remove(&number).unwrap_or_default();
        let length = match &open {
            Some(open) => {
                open.try_clone().map(std::fs::File::from).and_then(|file| file.metadata()).map(|it| it.len())
            }
            None => Ok(places.iter().map(|place| place.2 + place.3).max().unwrap_or(0)),
        };
        let length = length.map_err(|error| Refused { rank: ranks[0].rank, what: error.to_string() })?;
        objects.push(Object { name, bytes: length });
        bytes.push(open.map_or(Bytes::Mapped(places), Bytes::Open));
    }
    let host = Host {
        host: number,
        machine: machine(),
        kernel_code,
        clock: (boot(), clock::now_ns()),
        ranks: ranks.iter().map(|rank| rank.rank).collect(),
        objects,
        job_object: job,
        bells: found.bells(bells),
        files: found.files,
        pipes: found.pipes.into_iter().collect(),
    };
    Ok(Captured { host, objects: bytes, ranks: sources, network: found.network })
}

/// Checks a running rank for state that cannot be saved, as far as it is visible without stopping the rank.
///
/// # Errors
/// Fails with a text for the user that names the obstacle.
pub fn foresee(pid: i32) -> Result<(), CheckpointError> {
    for tid in tutti_sys::tracee::threads(pid)? {
        let list = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/children")).unwrap_or_default();
        if let Some(child) = list.split_ascii_whitespace().next() {
            let name = std::fs::read_to_string(format!("/proc/{child}/comm")).unwrap_or_default();
            return Err(CheckpointError::Obstacle(format!(
                "a process of its own (process {child}, {})",
                name.trim()
            )));
        }
    }
    if std::fs::read_to_string(format!("/proc/{pid}/timers")).is_ok_and(|text| !text.is_empty()) {
        return Err(CheckpointError::Obstacle("a timer of its own (timer_create)".to_string()));
    }
    let filters = |pid: &str| status_of(pid).and_then(|status| status.get("Seccomp_filters").cloned());
    if filters(&pid.to_string()) != filters("self") {
        return Err(CheckpointError::Obstacle("a filter of system calls of its own (seccomp)".to_string()));
    }
    Ok(())
}

/// Returns the approximate bytes of private memory of a process, swapped pages included.
pub fn own_bytes(pid: i32) -> u64 {
    let status = status_of(&pid.to_string()).unwrap_or_default();
    let kilobytes = |name: &str| {
        let text = status.get(name)?.split_ascii_whitespace().next()?;
        text.parse::<u64>().ok()
    };
    ["RssAnon", "VmSwap"].into_iter().filter_map(kilobytes).sum::<u64>() << 10
}

fn status_of(pid: &str) -> Option<BTreeMap<String, String>> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    Some(lines.map(|(name, value)| (name.to_string(), value.trim().to_string())).collect())
}

/// Returns a text that identifies kernel, architecture and processor model.
pub fn machine() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let processors = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processors.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("");
    let model = model.trim_start_matches([' ', '\t', ':']);
    format!("Linux {} on {} {}", release.trim(), std::env::consts::ARCH, model.trim())
}

/// Returns the identifier of the machine's boot; empty if it is unknown.
pub fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_string()
}

/// Describes one rank. Returns the description, and the hash of the kernel's code in its process.
fn process(rank: &Rank, frozen: &Frozen, found: &mut Found) -> Result<(Source, u128), CheckpointError> {
    let pid = rank.pid;
    let text = CheckpointError::from;
    foresee(pid)?;
    let status = status_of(&pid.to_string())
        .ok_or_else(|| CheckpointError::Obstacle("its status in /proc cannot be read".to_string()))?;
    let listed = areas::parse(&std::fs::read_to_string(format!("/proc/{pid}/smaps")).map_err(text)?)?;
    let memory = Memory::open(pid).map_err(text)?;
    let (gadget, kernel_code) = asker::kernel_code(&listed, &memory).map_err(text)?;
    let program = packet_program(rank, &memory);
    let descriptors = found.of_process(pid, &rank.roles, &program.holders)?;
    let areas = listed.into_iter().map(|listed| settle(listed, found, &program));
    let areas = areas.collect::<Result<Vec<_>, CheckpointError>>()?;
    let table_pages = table_pages(&program, &memory).map_err(text)?;
    let asked = Asked::ask(frozen, &memory, gadget, &status).map_err(text)?;
    let link = |name: &str| std::fs::read_link(format!("/proc/{pid}/{name}")).map_err(text);
    let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).map_err(text)?;
    let arguments = arguments.strip_suffix(&[0]).unwrap_or(&arguments);
    let mask = status.get("Umask").and_then(|mask| u32::from_str_radix(mask, 8).ok());
    let process = Process {
        rank: rank.rank,
        pid,
        program: areas::identify(&link("exe")?.to_string_lossy())?,
        arguments: arguments.split(|&byte| byte == 0).map(<[u8]>::to_vec).collect(),
        directory: link("cwd")?.as_os_str().as_bytes().to_vec(),
        creation_mask: mask.unwrap_or(0o022),
        most_descriptors: most_descriptors(pid),
        bounds: bounds(pid, asked.heap_end)?,
        auxiliary: std::fs::read(format!("/proc/{pid}/auxv")).map_err(text)?,
        areas,
        threads: asked.threads,
        handlers: asked.handlers,
        timers: asked.timers,
        descriptors,
        table_pages,
    };
    let tables = program.tables.into_iter().map(|(start, _)| start).collect();
    Ok((Source { process, memory, pages: Pages::open(pid).map_err(text)?, kept: None, tables }, kernel_code))
}

/// Reads the state that a rank has of the kernel's packet program; the default if it has none.
fn packet_program(rank: &Rank, memory: &Memory) -> PacketProgram {
    let mut bytes = [0; kept::PACKET_PROGRAM_BYTES];
    let read = (rank.words != 0).then(|| memory.read(rank.words + at::PACKET_PROGRAM, &mut bytes));
    match read {
        Some(Ok(())) => kept::packet_program(&bytes),
        _ => PacketProgram::default(),
    }
}

/// Reads the pages of mapped tables that are not all zero.
///
/// The kernel may change tables while ranks stand still. The effect is the same as if packets had been sent
/// later: a rank that lacks a packet requests it again.
fn table_pages(program: &PacketProgram, memory: &Memory) -> io::Result<Vec<(u64, Vec<u8>)>> {
    let mut pages = Vec::new();
    for &(start, bytes) in &program.tables {
        for page in (start..start + bytes).step_by(PAGE as usize) {
            let mut room = vec![0; PAGE as usize];
            memory.read(page, &mut room)?;
            if room.iter().any(|byte| *byte != 0) {
                pages.push((page, room));
            }
        }
    }
    Ok(pages)
}

/// Completes a listed area: gives a shared object its number, and a file its identity.
fn settle(listed: Listed, found: &mut Found, program: &PacketProgram) -> Result<Area, CheckpointError> {
    let Listed { mut area, identity, name } = listed;
    let is_table = program.tables.iter().any(|(start, _)| *start == area.start);
    if is_table && name.starts_with(PACKET_TABLE) {
        (area.shared, area.offset, area.backing) = (false, 0, Backing::Anonymous);
    }
    match &mut area.backing {
        Backing::Object(number) => *number = found.object(identity, name.as_bytes(), None),
        Backing::File(file) => *file = areas::identify(&name)?,
        Backing::Anonymous | Backing::Kernel(_) => {}
    }
    Ok(area)
}

fn most_descriptors(pid: i32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"));
    line.and_then(|line| line.split_ascii_whitespace().next()?.parse().ok()).unwrap_or(1024)
}

/// Reads the fields of /proc/PID/stat that bound the parts of memory. They are counted from 1, as in the
/// manual page.
fn bounds(pid: i32, heap_end: u64) -> Result<[u64; 11], CheckpointError> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let after_name = text.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let fields: Vec<u64> =
        after_name.split_ascii_whitespace().map(|word| word.parse().unwrap_or(0)).collect();
    let field = |number: usize| fields.get(number - 3).copied().unwrap_or(0);
    let [code, code_end, data, data_end, heap] = [26, 27, 45, 46, 47].map(field);
    let [stack, arguments, arguments_end, environment, environment_end] = [28, 48, 49, 50, 51].map(field);
    if code == 0 {
        return Err(CheckpointError::Obstacle("the system does not say where its code lies".to_string()));
    }
    Ok([
        code,
        code_end,
        data,
        data_end,
        heap,
        heap_end,
        stack,
        arguments,
        arguments_end,
        environment,
        environment_end,
    ])
}

/// State that only the process itself can query.
struct Asked {
    threads: Vec<Thread>,
    handlers: Vec<Handler>,
    timers: [[u64; 4]; 3],
    heap_end: u64,
}

impl Asked {
    /// Makes a process map `bytes` bytes of private memory, and returns their address.
    fn map(frozen: &Frozen, memory: &Memory, bytes: u64) -> io::Result<u64> {
        let first = Asker::new(frozen.threads[0], asker::gadget(frozen.pid, memory)?, memory)?;
        let start = first.map(bytes);
        first.done()?;
        start
    }

    /// Maps a page in the process, queries the state with it, and unmaps it again.
    fn ask(
        frozen: &Frozen,
        memory: &Memory,
        gadget: u64,
        status: &BTreeMap<String, String>,
    ) -> io::Result<Asked> {
        let first = Asker::new(frozen.threads[0], gadget, memory)?;
        let result = first.map(PAGE).and_then(|room| {
            let result = Asked::query(&first, frozen, room, status);
            first.call(libc::SYS_munmap, [room, PAGE, 0, 0, 0, 0])?;
            result
        });
        // After a failure, too, the thread goes on where it was.
        first.done()?;
        result
    }

    /// Queries the state by system calls of the stopped threads. `room` is the address of a page for results.
    fn query(
        first: &Asker<'_>,
        frozen: &Frozen,
        room: u64,
        status: &BTreeMap<String, String>,
    ) -> io::Result<Asked> {
        let heap_end = first.call(libc::SYS_brk, [0; 6])?;
        let signals =
            |name: &str| status.get(name).and_then(|mask| u64::from_str_radix(mask, 16).ok()).unwrap_or(0);
        let wanted = signals("SigCgt") | signals("SigIgn");
        let mut handlers = Vec::new();
        for signal in (1..=64).filter(|signal| wanted >> (signal - 1) & 1 == 1) {
            first.call(libc::SYS_rt_sigaction, [signal, 0, room, SIGNAL_SET, 0, 0])?;
            handlers.push(Handler { signal: signal as i32, action: first.words(room)? });
        }
        let mut timers = [[0; 4]; 3];
        for (which, timer) in (0..).zip(&mut timers) {
            first.call(libc::SYS_getitimer, [which, room, 0, 0, 0, 0])?;
            *timer = first.words(room)?;
        }
        let mut threads = vec![describe(frozen.pid, first, room)?];
        for &thread in &frozen.threads[1..] {
            let asker = first.take_thread(thread)?;
            let described = describe(frozen.pid, &asker, room);
            asker.done()?;
            threads.push(described?);
        }
        Ok(Asked { threads, handlers, timers, heap_end })
    }
}

/// Describes one thread. `room` is the address of a page for results.
fn describe(pid: i32, asker: &Asker<'_>, room: u64) -> io::Result<Thread> {
    let thread = asker.thread();
    let tid = thread.tid();
    let name = std::fs::read(format!("/proc/{pid}/task/{tid}/comm")).unwrap_or_default();
    let sequences = thread.sequences();
    let extended = thread.extended()?;
    asker.call(libc::SYS_sigaltstack, [0, room, 0, 0, 0, 0])?;
    let signal_stack = asker.words(room)?;
    // Kernels without this call leave the word unchanged. The restarted C library then keeps the old thread
    // number.
    asker.memory().write(room, &0u64.to_ne_bytes())?;
    let _ = asker.call(libc::SYS_prctl, [GET_TID_ADDRESS, room, 0, 0, 0, 0]);
    Ok(Thread {
        tid,
        registers: asker.registers.0.to_vec(),
        extended,
        mask: asker.mask,
        robust: thread.robust_list(),
        cleared_at_end: asker.memory().word(room)?,
        sequences: (sequences.address, sequences.bytes, sequences.signature),
        signal_stack,
        name: name.strip_suffix(b"\n").unwrap_or(&name).to_vec(),
    })
}
