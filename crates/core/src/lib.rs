//! MPI semantics: communicators, requests, matching, protocols, progress and the schedule engine.
//!
//! Entry points: [`lanes::enter`] returns the guard that most functions of this crate need; [`process`] the
//! process; `lifecycle::init`, `point_to_point`, `completion`, `collective`, `constructors`,
//! `intercommunicator`.
//!
//! Deliberately absent: C types, handles, raw user pointers outside [`buffer`].
//!
//! # Modules
//!
//! | module | content |
//! |---|---|
//! | `lanes` | locks: a guard (`LaneGuard`) for a lane, cells that it opens, the order of the locks |
//! | `host` | the process on its host: settings, job, rank, waiting, abort |
//! | `messenger` | messages and progress handlers of the process |
//! | `process` | the process with its library of communicators |
//! | `lifecycle` | start and end of the process in its job |
//! | `boot` | identity of the process and its job object (see below) |
//! | `buffer` | user memory, validated once: the only module with raw user pointers |
//! | `matching`, `flow`, `wire`, `context` | pure state machines: matcher, flow control, packets, contexts |
//! | `p2p` | protocols over any `Link`: eager, rendezvous, to oneself, partitioned |
//! | `point_to_point`, `partitioned` | functions behind the MPI calls that use `p2p` |
//! | `request`, `completion` | active operations, addressed by index and generation; waits for them |
//! | `progress` | progress and waits: bounded spinning, yielding, sleeping |
//! | `separation` | moves of a rank away from the processor of its partner |
//! | `progress_thread`, `repairs` | threads for progress and multicast repairs during computation |
//! | `communicator` | the object; its `collectives` has the state for collective operations |
//! | `collective` | from a user's call to an execution |
//! | `constructors`, `intercommunicator` | communicators made of others; between two groups |
//! | `engine` | execution of schedules: step by step, or compiled to straight-line code |
//! | `offload` | collectives in the kernel's packet program |
//! | `other_jobs`, `dynamic` | processes of other jobs: their numbers, and connections to them |
//! | `group`, `session`, `type_object`, `attributes`, `info`, `hints`, `names` | objects of MPI |
//! | `error_handler`, `error_codes`, `report` | errors and their reports |
//! | `events`, `tool` | contents of MPI_T; handles and C types are in the abi crate |
//! | `leaving`, `departed` | the end of MPI_Finalize; waits for ranks that have left |
//! | `trace`, `trace_file` | events of a rank under `TUTTI_TRACE`; the file that rank 0 writes |
//! | `window` | one-sided communication |
//! | `topology`, `dims` | grids, graphs and distributed graphs as pure code; balanced grids |
//!
//! `boot` has three sources of a process's identity: the environment that `mpirun` sets, another process
//! manager, or neither, for a process that is alone. Under another process manager (`starter`: `pmix`, `pmi`)
//! the ranks of a host find each other (`meeting`) and create the job object themselves (`hosted`). Under
//! Slurm they also leave a process that ends the job when a rank dies (`guardian`).
//!
//! # Invariants
//!
//! - There are no C types, and no raw user pointer outside `buffer` and the engine's memory module.
//! - No borrow is alive while a user's callback runs.
//! - A process keeps memory only for peers with which it has communicated. For unexpected messages it keeps
//!   at most `TUTTI_UNEXPECTED_BYTES` (envelopes count as 128 bytes), plus 512 bytes for each peer.
//! - Contexts are agreed by the members alone. A context is reused only when nothing of its old use is left.
//! - A stale request, of a user or in a packet, is recognised by its generation.
#![deny(unsafe_code)]

mod attached;
pub mod attributes;
pub mod boot;
pub mod buffer;
pub mod buffered;
pub mod collective;
pub mod communicator;
pub mod completion;
pub mod constructors;
pub mod context;
pub mod continuation;
pub mod departed;
pub mod dims;
pub mod dynamic;
pub mod engine;
pub mod error_codes;
pub mod error_handler;
pub mod events;
pub mod exchange;
pub mod flow;
mod followers;
pub mod group;
pub mod hang;
pub mod hardware;
pub mod hints;
pub mod host;
pub mod info;
pub mod inside;
pub mod intercommunicator;
pub mod lanes;
mod leaving;
pub mod lifecycle;
pub mod matching;
pub mod memory_kinds;
pub mod messenger;
pub mod names;
pub mod needs;
pub mod offload;
mod origin;
mod other_jobs;
pub(crate) mod other_libraries;
pub mod p2p;
pub mod partitioned;
pub mod point_to_point;
pub mod process;
pub mod progress;
pub mod progress_thread;
pub mod repairs;
pub mod report;
pub mod request;
mod request_id;
pub mod separation;
pub mod session;
pub mod single_copy;
pub mod special;
pub mod specs;
pub mod tool;
pub mod topology;
pub mod trace;
pub mod trace_file;
pub mod type_object;
pub mod window;
pub mod wire;

pub use tutti_sys::floating_point;
