//! Contents of a checkpoint. For each host: shared objects and open files. For each rank: memory, and the
//! state of its process in the kernel.
//!
//! All of it is plain data. Each file of an image is a [`blocks`] file. It has blocks of at most 64 KiB, each
//! with a hash, and an index behind them. The head of the index describes the process or host.
//!
//! The file of a rank holds its own memory, by address. The file of a host holds the shared objects, by
//! object and offset. [`sets`](crate::sets) manages the files of all hosts and ranks, and the manifest.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

pub mod blocks;
pub mod packing;

/// Protection bit of an area: bytes may be read.
pub const READ: u8 = 1;
/// Protection bit of an area: bytes may be written.
pub const WRITE: u8 = 2;
/// Protection bit of an area: bytes may be executed.
pub const EXECUTE: u8 = 4;

/// Object behind an area of memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Backing {
    /// Memory of the process alone, without a file.
    Anonymous,
    /// File that must not have changed when the job is restarted.
    File(FileIdentity),
    /// Shared object of the host, by its index.
    Object(u32),
    /// Code or data that the kernel maps into every process, by its name.
    Kernel(String),
}

/// Identity of a mapped file, to detect that it has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileIdentity {
    /// Path of the file at the checkpoint.
    pub path: Vec<u8>,
    /// Bytes of the whole file.
    pub bytes: u64,
    /// Time of the last modification, in nanoseconds since 1970.
    pub changed_ns: i64,
}

/// Flags and advice that the kernel has for an area (mmap(2), madvise(2)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advice {
    /// Area that grows downwards, such as a stack.
    pub grows_down: bool,
    /// No swap space is reserved for the area.
    pub no_reserve: bool,
    /// A child of fork does not get the area.
    pub no_fork: bool,
    /// A child of fork finds zeros in the area.
    pub wiped_on_fork: bool,
    /// Area that core files leave out.
    pub no_dump: bool,
    /// Huge pages are preferred for the area.
    pub huge: bool,
    /// Huge pages are excluded for the area.
    pub no_huge: bool,
    /// Pages of the area are locked in memory.
    pub locked: bool,
    /// Events that the process's userfaultfd receives. Bit 0: missing pages. Bit 1: write protection.
    pub watched: u8,
}

/// Mapped area of the addresses of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Area {
    /// First address of the area.
    pub start: u64,
    /// First address behind the area.
    pub end: u64,
    /// Sum of the bits [`READ`], [`WRITE`], [`EXECUTE`].
    pub protection: u8,
    /// True if writes change the backing object rather than a private copy (MAP_SHARED).
    pub shared: bool,
    /// Offset of the area in the backing object.
    pub offset: u64,
    /// Object that is mapped.
    pub backing: Backing,
    /// Advice and flags of the area.
    pub advice: Advice,
}

/// State of a thread, for its restart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    /// Thread number at the checkpoint.
    pub tid: i32,
    /// General registers, as ptrace(2) returns them.
    pub registers: Vec<u64>,
    /// Registers of floating point and vectors.
    pub extended: Vec<u8>,
    /// Signals that the thread blocks, as a bit mask.
    pub mask: u64,
    /// Address of the head, and bytes, of the list of robust mutexes.
    pub robust: (u64, u64),
    /// Address that the kernel clears when the thread ends (set_tid_address(2)); 0 if none.
    pub cleared_at_end: u64,
    /// Registration of restartable sequences: address (0 if none), bytes, signature.
    pub sequences: (u64, u32, u32),
    /// Alternate signal stack, as the kernel reports it: address, flags, bytes.
    pub signal_stack: [u64; 3],
    /// Name of the thread.
    pub name: Vec<u8>,
}

/// Kind and state of an open file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OpenKind {
    /// File or directory with a path.
    File {
        /// Path at the checkpoint.
        path: Vec<u8>,
        /// File offset in bytes.
        offset: u64,
        /// Length of the file, if it is a regular one. A restart cuts the file back to it.
        bytes: Option<u64>,
    },
    /// Shared object of the host.
    Object {
        /// Index of the object in `Host::objects`.
        object: u32,
        /// File offset in bytes.
        offset: u64,
    },
    /// Descriptor that the launcher provides to each rank.
    Role(Role),
    /// Eventfd: its count, and whether reads decrement by one (EFD_SEMAPHORE).
    Event(u64, bool),
    /// Epoll instance: list of descriptor, events and data.
    Poll(Vec<(i32, u32, u64)>),
    /// File in the process's own folder of /proc, by its name there.
    Own(Vec<u8>),
    /// Userfaultfd, with its feature bits.
    Userfault(u64),
    /// Descriptor that the launcher inherited when it was started, and that every rank inherits from it. It
    /// does not belong to the job.
    Outside,
    /// End of a pipe between threads or ranks: number of the pipe, and true for the end that is written.
    Pipe(u64, bool),
    /// Socket between ranks of several hosts.
    Socket(Socket),
    /// Timerfd and its state.
    Timer(Timer),
    /// Signalfd, with the signals that it accepts as the kernel's bit mask.
    Signals(u64),
}

/// State of a timerfd. Times are seconds and nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timer {
    /// Number of the clock, as in clock_gettime(2).
    pub clock: i32,
    /// Expirations that were not read yet.
    pub ticks: u64,
    /// Time until the next expiration; zeros if the timer is disarmed.
    pub value: (i64, i64),
    /// Time between expirations; zeros if the timer expires once.
    pub interval: (i64, i64),
}

/// Socket between ranks of several hosts. Connections are stored empty, since the bytes that they held are in
/// the memory of the receiving rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Socket {
    /// Datagram socket. Datagrams in it are lost, as datagrams may be.
    Datagrams,
    /// Stream socket that listens.
    Listener,
    /// Connected stream socket.
    Connection(Ends),
    /// Stream socket that is not yet connected, or no longer.
    Unconnected,
}

/// Addresses of both ends of a connection. The record of the other end has them swapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ends {
    /// Address of this end.
    pub local: SocketAddr,
    /// Address of the other end.
    pub peer: SocketAddr,
    /// True if the connection sends short segments only.
    pub is_narrow: bool,
}

/// End of a connection between hosts, in the list of all connections of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionEnd {
    /// Number of the host of this end.
    pub host: u32,
    /// Index of the open file on that host.
    pub file: u32,
    /// Addresses of the connection.
    pub ends: Ends,
}

/// Purpose of a descriptor that the launcher provides to each rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Role {
    /// Standard input of the rank.
    Input,
    /// Standard output of the rank.
    Output,
    /// Standard error of the rank.
    Error,
    /// Connection on which the rank sends inquiries to its daemon.
    Inquiry,
}

/// Open file description. Several descriptors of several ranks may share it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenFile {
    /// Kind and state of the file.
    pub kind: OpenKind,
    /// Flags as in open(2).
    pub flags: i32,
}

/// Descriptor of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Descriptor {
    /// Number of the descriptor in its process.
    pub number: i32,
    /// True if exec closes the descriptor.
    pub closed_on_exec: bool,
    /// Index of the open file in `Host::files`.
    pub file: u32,
}

/// Action of a process on a signal, as the kernel stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handler {
    /// Number of the signal.
    pub signal: i32,
    /// Words of `struct kernel_sigaction`: handler, flags, restorer, mask.
    pub action: [u64; 4],
}

/// State of a rank's process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Rank in MPI_COMM_WORLD of its job.
    pub rank: u32,
    /// Process number at the checkpoint.
    pub pid: i32,
    /// Identity of the program's file.
    pub program: FileIdentity,
    /// Program name and arguments.
    pub arguments: Vec<Vec<u8>>,
    /// Path of the working directory.
    pub directory: Vec<u8>,
    /// Mask of the modes of new files (umask(2)).
    pub creation_mask: u32,
    /// Limit on open descriptors (RLIMIT_NOFILE).
    pub most_descriptors: u64,
    /// Bounds of code, data, heap, stack, arguments and environment: the fields of `struct prctl_mm_map` up
    /// to the end of the environment.
    pub bounds: [u64; 11],
    /// Auxiliary vector, as bytes of /proc/PID/auxv.
    pub auxiliary: Vec<u8>,
    /// Mapped areas, by address.
    pub areas: Vec<Area>,
    /// Threads. The first is the initial thread of the process.
    pub threads: Vec<Thread>,
    /// Signal actions that differ from the default.
    pub handlers: Vec<Handler>,
    /// Interval timers: real, virtual, profiling. Each has its interval and its remaining time, in seconds
    /// and microseconds.
    pub timers: [[u64; 4]; 3],
    /// Open descriptors, by number.
    pub descriptors: Vec<Descriptor>,
    /// Pages of mapped tables of the kernel's packet program: address, and bytes of those that are not all
    /// zero. After a restart they are plain memory until the rank has such tables again.
    pub table_pages: Vec<(u64, Vec<u8>)>,
}

/// Shared object of the ranks of a host, such as a memfd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Object {
    /// Name that was given to memfd_create(2).
    pub name: Vec<u8>,
    /// Bytes of the object.
    pub bytes: u64,
}

/// State that the ranks of a host share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Number of the host in the job.
    pub host: u32,
    /// Kernel and processor. An image can be restored only on machines with the same ones.
    pub machine: String,
    /// Hash of the code that the kernel maps into every process (vdso).
    pub kernel_code: u128,
    /// Identifier of the machine's boot, and the monotonic clock when all ranks were stopped, in nanoseconds.
    pub clock: (String, u64),
    /// Ranks of the host, in local order.
    pub ranks: Vec<u32>,
    /// Shared objects, which areas and files refer to by index.
    pub objects: Vec<Object>,
    /// Index of the job object in `objects`.
    pub job_object: u32,
    /// Open files, which descriptors refer to by index.
    pub files: Vec<OpenFile>,
    /// Indices of the open files that are the doorbells of the ranks, in local order; empty in a job of one
    /// host.
    pub bells: Vec<u32>,
    /// Contents of pipes: number of the pipe, bytes.
    pub pipes: Vec<(u64, Vec<u8>)>,
}
