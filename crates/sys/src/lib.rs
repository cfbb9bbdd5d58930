//! Every raw system call and foreign function, typed on the way out.
//!
//! Rooms above this one see owned descriptors, mappings and results; they never see a `libc` type.
//! Each unsafe block says SAFETY and the invariant. Deliberately absent: policy. What to do about a
//! failed call is decided above.
//!
//! # What is where
//!
//! Every raw system call and foreign function, typed on the way out. Entry points: `job::Job` (the one
//! shared memory object of a node and job; it says where every rank of the job runs and holds the secret of
//! the job), `directory` (how a rank asks its daemon for the address of another), `regions::Region` (memory
//! of a communicator, found by key without a message), `job::Slot` (room in the job object for the memory
//! of windows: the object is sparse, so slots of 2^47 bytes cost nothing), `memory`, `futex`, `fabric`
//! (libfabric, loaded when asked for: `Query`, `Domain`, `Endpoint`, queues with descriptors),
//! `pmix::Client` (loaded where a PMIx server started the process), `local_socket` (passes descriptors
//! between processes of a host and decides who may be at the other end; `socket_names` has where sockets
//! lie, `closing` closes what strangers have sent, `letter` makes messages of any length of that,
//! `spawning` is the order that a rank gives its launcher), `user` (whether a peer is this user's,
//! AT_SECURE), `interface` (by which addresses hosts reach each other), `guardian` (a process that watches
//! others and outlives its maker), `refusal` (errors with the name of the call, and what to do about them),
//! `files` (files that users name, read and written where others can write too), `backtrace` and `speaker`
//! (call chains and the name of a process, for messages), `floating_point` (work that leaves no trace in
//! the program's floating-point environment), `own_thread` (threads of the library), `cgroup` (limits, and
//! who was killed for lack of memory), `maps` and `userfault::Watcher` (what addresses are mapped to, and
//! the kernel's word when that changes), `interpose` and `calls` (functions in the place of the C
//! library's, for calls of the program that concern exposed memory), `device` (whether an address is memory
//! of a device), `bpf` (tables and attachments of kernel programs). Absent: policy.

mod arithmetic_exception;
pub mod backtrace;
pub mod bpf;
pub mod cache;
pub mod calls;
pub mod cgroup;
pub mod clock;
pub mod closing;
pub mod cma;
pub mod cpu;
pub mod crash;
pub mod debugger;
pub mod device;
pub mod directory;
pub mod event;
pub mod fabric;
pub mod file;
pub mod files;
pub mod floating_point;
pub mod futex;
pub mod guardian;
pub mod host_memory;
pub mod hwloc;
pub mod interface;
pub mod interpose;
pub mod job;
pub mod kept;
pub mod kept_socket;
pub mod knem;
pub mod letter;
pub mod loaded;
pub mod local_socket;
pub mod machine_kind;
pub mod maps;
pub mod memory;
pub mod multicast;
pub mod namespaces;
pub mod own_calls;
pub mod own_thread;
pub mod pagemap;
pub mod pmix;
pub mod process;
pub mod refusal;
pub mod regions;
pub mod remap;
pub mod signal;
pub mod socket;
pub mod socket_names;
pub mod spawning;
pub mod speaker;
pub mod this_process;
pub mod tracee;
pub mod user;
pub mod userfault;
pub mod xpmem;
