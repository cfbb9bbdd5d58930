//! What is kept of a job: of each host its shared objects and open files, of each rank its memory and what
//! the kernel knows of its process.
//!
//! All of it is plain data. A file of an image is a [`blocks`] file: blocks of at most 64 KiB with a hash
//! each, and behind them an index, with a head that says what the blocks are of. The file of a rank has the
//! blocks of its own memory, by address; the file of a host those of the shared objects, by object and
//! offset. [`sets`](crate::sets) has the files of all hosts and ranks and the manifest.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

pub mod blocks;
pub mod packing;

/// Bytes that may be read.
pub const READ: u8 = 1;
/// Bytes that may be written.
pub const WRITE: u8 = 2;
/// Bytes that may be executed.
pub const EXECUTE: u8 = 4;

/// What is mapped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Backing {
    /// Memory of the process alone.
    Anonymous,
    /// A file, that must be what it was.
    File(FileIdentity),
    /// An object of the host, by its index.
    Object(u32),
    /// What the kernel maps into every process, by its name.
    Kernel(String),
}

/// A file that is mapped, as it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileIdentity {
    /// Its path.
    pub path: Vec<u8>,
    /// Bytes.
    pub bytes: u64,
    /// When it was changed last, in nanoseconds since 1970.
    pub changed_ns: i64,
}

/// What the kernel has been advised about an area.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advice {
    /// It grows downwards: a stack.
    pub grows_down: bool,
    /// No memory is set aside for it.
    pub no_reserve: bool,
    /// A child of fork does not get it.
    pub no_fork: bool,
    /// A child of fork finds it empty.
    pub wiped_on_fork: bool,
    /// It is not part of core files.
    pub no_dump: bool,
    /// Huge pages are wanted.
    pub huge: bool,
    /// Huge pages are not wanted.
    pub no_huge: bool,
    /// Its pages stay in memory.
    pub locked: bool,
    /// Changes of it are told to the process's userfaultfd: bit 0 missing pages, bit 1 write protection.
    pub watched: u8,
}

/// An area of a process's addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Area {
    /// First address.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// [`READ`], [`WRITE`], [`EXECUTE`].
    pub protection: u8,
    /// Whether writing changes what is mapped.
    pub shared: bool,
    /// Offset in what is mapped.
    pub offset: u64,
    /// What is mapped.
    pub backing: Backing,
    /// Advice.
    pub advice: Advice,
}

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    /// Its number.
    pub tid: i32,
    /// General registers.
    pub registers: Vec<u64>,
    /// Registers of floating point and vectors.
    pub extended: Vec<u8>,
    /// Signals that it blocks.
    pub mask: u64,
    /// Head and bytes of the list of robust mutexes.
    pub robust: (u64, u64),
    /// Where the kernel writes when the thread ends; 0: nowhere.
    pub cleared_at_end: u64,
    /// Restartable sequences: address (0: none), bytes, signature.
    pub sequences: (u64, u32, u32),
    /// Alternate stack of signals, as the kernel has it.
    pub signal_stack: [u64; 3],
    /// Name.
    pub name: Vec<u8>,
}

/// What an open file is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OpenKind {
    /// A file with a path.
    File {
        /// Its path.
        path: Vec<u8>,
        /// Offset.
        offset: u64,
        /// Bytes, of a regular file.
        bytes: Option<u64>,
    },
    /// An object of the host.
    Object {
        /// Its index.
        object: u32,
        /// Offset.
        offset: u64,
    },
    /// What the launcher gives a rank.
    Role(Role),
    /// An eventfd: its count, and whether it counts down one by one.
    Event(u64, bool),
    /// An epoll instance: descriptor, events, data.
    Poll(Vec<(i32, u32, u64)>),
    /// What the system says of the process itself, by the name in its folder of /proc.
    Own(Vec<u8>),
    /// A userfaultfd with these features.
    Userfault(u64),
    /// What the launcher itself has from whoever started it, and every rank with it: nothing of the job's.
    Outside,
    /// An end of a pipe between threads or ranks: the pipe's number, whether it is the end that is written.
    Pipe(u64, bool),
    /// A socket between ranks of several hosts.
    Socket(Socket),
    /// A timerfd.
    Timer(Timer),
    /// A signalfd, with the signals that it takes as the kernel's bit mask.
    Signals(u64),
}

/// A timerfd. Times are seconds and nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timer {
    /// Number of its clock, as clock_gettime(2) has it.
    pub clock: i32,
    /// Expirations that were not read yet.
    pub ticks: u64,
    /// Time until the next expiration; zeros: there is none.
    pub value: (i64, i64),
    /// Time between expirations; zeros: there is one.
    pub interval: (i64, i64),
}

/// A socket between ranks of several hosts. Connections are empty: what they held is in the memory of who
/// reads them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Socket {
    /// For datagrams: those that it held are lost, as datagrams may be.
    Datagrams,
    /// It listens.
    Listener,
    /// A connection.
    Connection(Ends),
    /// A connection that does not exist yet, or any more.
    Unconnected,
}

/// The addresses that a connection had: its other end has them the other way round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ends {
    /// Here.
    pub local: SocketAddr,
    /// There.
    pub peer: SocketAddr,
    /// It sends short segments only.
    pub is_narrow: bool,
}

/// An end of a connection between hosts, in the list of all of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionEnd {
    /// The host.
    pub host: u32,
    /// The open file there.
    pub file: u32,
    /// Its addresses.
    pub ends: Ends,
}

/// What the launcher gives a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Role {
    /// Standard input.
    Input,
    /// Standard output.
    Output,
    /// Standard error.
    Error,
    /// The way on which the rank asks its daemon.
    Inquiry,
}

/// An open file, which several descriptors of several ranks may share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenFile {
    /// What it is.
    pub kind: OpenKind,
    /// Its flags, as open(2) takes them.
    pub flags: i32,
}

/// A descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Descriptor {
    /// Its number.
    pub number: i32,
    /// Whether it is closed on exec.
    pub closed_on_exec: bool,
    /// The open file of the host, by index.
    pub file: u32,
}

/// What a process does about a signal, as the kernel has it: handler, flags, restorer, mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handler {
    /// The signal.
    pub signal: i32,
    /// `struct kernel_sigaction`.
    pub action: [u64; 4],
}

/// A rank's process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Rank in the world.
    pub rank: u32,
    /// Process number.
    pub pid: i32,
    /// The program's file.
    pub program: FileIdentity,
    /// Name and arguments.
    pub arguments: Vec<Vec<u8>>,
    /// Working directory.
    pub directory: Vec<u8>,
    /// Mask of the modes of new files.
    pub creation_mask: u32,
    /// Most open descriptors.
    pub most_descriptors: u64,
    /// Bounds of code, data, heap, stack, arguments, environment: `struct prctl_mm_map` up to the
    /// environment's end.
    pub bounds: [u64; 11],
    /// Auxiliary vector.
    pub auxiliary: Vec<u8>,
    /// Areas, by address.
    pub areas: Vec<Area>,
    /// Threads; the first is that which the process began with.
    pub threads: Vec<Thread>,
    /// Signals that are not left to the kernel.
    pub handlers: Vec<Handler>,
    /// Interval timers: real, virtual, profiling; each interval and rest in seconds and microseconds.
    pub timers: [[u64; 4]; 3],
    /// Descriptors, by number.
    pub descriptors: Vec<Descriptor>,
    /// Pages of the mapped tables of the kernel's packet program: address and bytes of those that are not
    /// all zeros. After a restart they are memory, until the rank has such tables again.
    pub table_pages: Vec<(u64, Vec<u8>)>,
}

/// A shared object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Object {
    /// Its name, as memfd_create has it.
    pub name: Vec<u8>,
    /// Bytes.
    pub bytes: u64,
}

/// What ranks of a host share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Its number in the job.
    pub host: u32,
    /// Kernel and processor: images go to others of the same kind only.
    pub machine: String,
    /// Hash of the code that the kernel maps into every process.
    pub kernel_code: u128,
    /// Boot of the machine, and the monotonic clock when all stood still, in nanoseconds.
    pub clock: (String, u64),
    /// Ranks, in local order.
    pub ranks: Vec<u32>,
    /// Shared objects.
    pub objects: Vec<Object>,
    /// Which of them is the job object.
    pub job_object: u32,
    /// Open files.
    pub files: Vec<OpenFile>,
    /// The open files that are the bells of the ranks, in local order, where there are other hosts.
    pub bells: Vec<u32>,
    /// What is in pipes: number, bytes.
    pub pipes: Vec<(u64, Vec<u8>)>,
}
