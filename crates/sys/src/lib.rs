//! Raw system calls and foreign functions, with typed results.
//!
//! Crates above this one see owned descriptors, mappings and results; they never see a `libc` type. Each
//! unsafe block states its invariant after SAFETY. There is deliberately no policy here: the caller decides
//! what to do about a failed call.
//!
//! # Contents
//!
//! - shared memory of a node: `job::Job` (places of all ranks, secret of the job), `job::Slot` (memory of
//!   windows: the object is sparse, so slots of 2^47 bytes cost nothing), `regions::Region` (memory of a
//!   communicator, found by key without a message), `memory`, `futex`
//! - network: `fabric` (libfabric, loaded on request: `Query`, `Domain`, `Endpoint`, queues with
//!   descriptors), `socket`, `multicast`, `interface` (addresses by which hosts reach each other)
//! - processes of a host: `local_socket` (passes descriptors and checks the peer's user), `socket_names`
//!   (paths of sockets), `closing` (closes descriptors of strangers), `letter` (messages of any length),
//!   `spawning` (order of a rank to its launcher), `directory` (requests of a rank to its daemon)
//! - start and end: `pmix::Client` (where a PMIx server started the process), `process`, `this_process`,
//!   `guardian` (watches other processes and outlives its maker), `user` (identity of a peer's user,
//!   AT_SECURE)
//! - memory of the program: `maps` and `userfault::Watcher` (mappings and their changes), `remap`,
//!   `interpose` and `calls` (replacements of C library functions that concern exposed memory), `device`
//!   (detection of device memory)
//! - limits and errors: `cgroup` (limits, kills for lack of memory), `refusal` (errors with the name of the
//!   call and advice), `files` (files that users name), `backtrace` and `speaker` (call chains and process
//!   names in messages)
//! - other: `floating_point` (work outside the program's floating-point environment), `own_thread` (threads
//!   of the library), `bpf` (tables and attachments of kernel programs)

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
pub mod python;
pub mod refusal;
pub mod regions;
pub mod remap;
pub mod run_state;
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
