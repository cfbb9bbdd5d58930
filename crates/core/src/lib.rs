//! MPI semantics: communicators, requests, matching, protocols, progress and the schedule engine.
//!
//! Entry points: [`lanes::enter`] gives the token that everything here asks for; [`process`] the process.
//! Deliberately absent: C types, handles, raw user pointers outside [`buffer`].
//!
//! # What is where
//!
//! MPI semantics. Entry points: `lifecycle::init`, `point_to_point`, `completion`, `collective`,
//! `constructors`, `intercommunicator`.
//!
//! | module | what |
//! |---|---|
//! | `lanes` | who is inside: a token (`LaneGuard`) for a lane, the cells it opens (`FirstLaneCell`: the first lane, `LaneCells`: each its own), the order of the locks; free below MPI_THREAD_MULTIPLE |
//! | `host`, `messenger`, `process` | what there is once, in three floors: the process on its host (settings, job, rank, waiting, abort), its messages and what goes on by itself, and with its library of communicators |
//! | `boot` | who am I: by what our launcher handed down; by another starter (`starter`: `pmix`, and `pmi` whose `wire` and `protocol` are pure), where the ranks of a host find each other (`meeting`) and make the job object themselves (`hosted`) and, under Slurm, leave a process that ends the job when a rank dies (`guardian`); or alone |
//! | `buffer` | user memory, validated once: the only module with raw user pointers; a `Run` is the usual case in two words |
//! | `matching`, `flow`, `wire`, `context` | pure state machines: the matcher, credit for what is kept unexpected (`flow` has the reasons why nothing stands still), packets, agreement on context numbers |
//! | `p2p`; `point_to_point`, `partitioned` above | eager, rendezvous, messages to oneself, messages in
//! partitions, over any `Link`; `withheld` and `pulling`: messages for which their receiver has no room, and
//! how it gets those it has posted a receive for; `cancel`: sends that their receivers have not matched are
//! taken back; `agreement`: what messages of collectives say of their operation, and operations that were
//! given up |
//! | `request`, `completion` | operations under way, addressed by index and generation; waiting for them |
//! | `progress` | moving everything forward; bounded spinning, yielding, parking (a collective that waits for
//! more ranks than there are processors gives its own away first; a message from one who runs just now is
//! waited for on the processor; of two that answer each other on one processor one moves to another,
//! `separation`); how long it looks, gives way and sleeps `transport::waiting` decides; what a rank waits for
//! |
//! | `progress_thread` | `TUTTI_PROGRESS_THREAD`: takes in messages while the program computes, so that targets on other hosts, and receivers of long messages, need not call MPI. One thread more of a process that locks as for MPI_THREAD_MULTIPLE; it calls nothing of the program's (`Activity::is_unattended`) and never spins. `repairs`: whether something that was multicast has to be looked after, which a smaller thread does |
//! | `communicator` | the object; in `collectives` what it keeps for its collective operations: executions at
//! rest and under way, its banks (`node`) and an operation's `turn` at them, what its members agree about
//! (`agreement`), who is near whom (`places`) | | `collective` | from a user's call to an execution: `replay`
//! recognises one that was done before, `nonblocking` has those behind a request, `loans` the memory that
//! ranks lend each other and `inline_payload` what of it travels by value, `port` gives banks and messages to
//! the engine, `failures` tells all members of one that has failed at one of them |
//! | `constructors`, `intercommunicator` | communicators made of others: duplicates and parts, by colour or
//! hardware, with a topology and ranks reordered; between two groups |
//! | `engine` | runs a schedule: `execution` step by step, `compiled` as straight-line code where buffers are single runs and no message is sent, `node` the steps on banks and exposed memory, `memory` where everything lies |
//! | `other_jobs`, `dynamic` | what processes of other jobs are called, and how they meet (below) |
//! | `group`, `session`, `type_object`, `attributes`, `info`, `error_handler`, `error_codes`, `names` | the
//! objects |
//! | `events`, `tool` | what MPI_T shows: events, and above them settings and counters; handles and C types
//! are the abi's |
//! | `leaving`, `departed` | the end of MPI_Finalize, and waits for ranks that have left |
//! | `trace`, `trace_file` | the record of a rank under `TUTTI_TRACE`, and how rank 0 gets them all
//! | `window` | one-sided communication: `epoch` knows what is allowed when, `memory` where a target's memory is (mapped here, in reach of the system's calls, or only by messages) and how it is read, written and combined, `access` has the operations, `sync` the synchronisations, `polls` what calls do that have nothing to wait for; `remote` and `serve` are origin and target of active messages, in the format of `wire`. A window is among the activities of progress only while it is asked for something |
//! | `topology` | grids, graphs and distributed graphs, pure; `dims`: balanced grids |
//!
//! Invariants: no C types; no raw user pointer outside `buffer` and the engine's memory module; no borrow
//! is alive while a user's callback runs; a process keeps memory only for peers it has spoken to, and at
//! most `TUTTI_UNEXPECTED_BYTES` of unexpected messages (envelopes counted as 128 bytes), plus 512 bytes a
//! peer; contexts are agreed by the members alone, and come again only where nothing is left of them; a stale
//! request (a user's or a packet's) is recognised by its generation.
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
pub mod departed;
pub mod dims;
pub mod dynamic;
pub mod engine;
pub mod error_codes;
pub mod error_handler;
pub mod events;
pub mod exchange;
pub mod flow;
pub mod group;
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
