//! Collective communication as data. An algorithm writes a schedule once; the engine then executes it, the
//! verifier proves it, the simulator times it, and the lowering compiles it for a network interface.
//!
//! Deliberately absent: I/O, clocks, unsafe code, foreign functions, tables of sizes for selection, and any
//! knowledge of how a message travels. Everything here is a function over data. The bytes are moved by
//! `core::engine`, which knows no algorithm.
//!
//! Entry points: `Shape`, `Plan::new`, `select`, `select::study`, `registry`, `verify::verify`,
//! `simulate::predict`.
//!
//! ```
//! use tutti_coll::{Collective, Environment, Plan, Shape};
//!
//! // Rank 0 of an allreduce of 1024 elements on 4 ranks, each with a core of its own.
//! let shape = Shape::new(Collective::Allreduce, 4, 0, 1024);
//! let plan = Plan::new(&shape, &Environment::flat(4, 4), None);
//! assert!(plan.schedule.instances() > 0, "{}", plan.choice.reason().text(true));
//! ```
//!
//! # Modules
//!
//! | module | content |
//! | --- | --- |
//! | `shape` | description of a collective operation at one rank, and the parameters of algorithms |
//! | `ir` | the schedule, one rank's part of an operation: steps, loops, edges, spans |
//! | `build` | `Builder`, which writes schedules |
//! | `cursor` | progress of an execution: the meaning of edges, loops and windows |
//! | `algorithms` | one file for each family, each algorithm a pure function of a `Shape` and `Params` |
//! | `generator`, `registry` | algorithms as entries with needs, parameters and costs; the list of all |
//! | `hierarchy` | ranks as nested groups by distance, with trees and rings (S3; `fixtures/topologies`) |
//! | `hierarchy::mapping` | assignment of ranks to the vertices of a communication graph |
//! | `neighbours` | neighbours of a rank in a topology |
//! | `verify` | proofs of all ranks' schedules on symbolic data, with vector clocks for shared memory |
//! | `simulate` | time of schedules on a `Model` of the machine and a `Layout` of the ranks on it |
//! | `model` | named parameters of the machine in SI units, kept as text |
//! | `work`, `cost` | work and time of algorithms in closed form |
//! | `select` | selection of an algorithm and its parameters |
//! | `explanation` | text on a choice, for users |
//! | `traffic` | bytes over the links between hosts, and the least that any algorithm needs |
//! | `lower` | schedules as programs for a network interface (S9) |
//! | `tune` | choice of algorithms inside a running program (S11) |
//! | `start` | time of a job's start and memory of a rank (Yu 2006, section 2.7; `fixtures/starts`) |
//!
//! # Algorithms
//!
//! | module of `algorithms` | data move by |
//! | --- | --- |
//! | `messages` | messages in the order of ranks |
//! | `banks` | flags and banks of one node (S1); in segments in `stream*` |
//! | `exposed` | single copies out of exposed memory of one node (S2) |
//! | `distance` | trees and rings that follow the machine (S3) |
//! | `hosts` | several hosts with levels that overlap (S4): strands of one schedule, joined by flags |
//! | `hosts::{banks, bank_moves, scan}` | few bytes: banks in a host, one message for each pair of hosts |
//! | `hosts::frames` | blocks whose lengths only two ranks know: frames, or messages if they are long |
//! | `hosts::{circulant, circulant_reduce}` | Träff's circulant graph (`circulant_graph`) |
//! | `hosts::leaders` | several leaders of a host, each with a part of the data |
//! | `hosts::exchange` | the long alltoall, host by host |
//! | `hosts::doubling` | the fewest rounds between hosts |
//! | `groups` | the two groups of an intercommunicator, by embedded schedules for one group |
//! | `neighbourhood` | the edges of a topology |
//! | `files` | exchange between ranks and windows of a file (S10) |
//!
//! A new algorithm is one function and one line in its family's `GENERATORS`; `tests/proofs.rs` then proves
//! it for 1 to 64 ranks and every root.
//!
//! # Selection
//!
//! Selection orders the algorithms by closed form and simulates those that may be the best, each only until
//! it takes longer than the best so far. It simulates up to 256 ranks of a host, or 64 on several hosts; for
//! more ranks the closed forms decide. Only properties that all ranks know are used (`Environment`).
//!
//! With `TUTTI_DETERMINISTIC` an algorithm is eligible only if its results are one expression of the operands
//! (`generator::Association`, proved by `verify_as`). Otherwise the association depends on the choice. It is
//! stable from run to run, as schedules are static.
#![forbid(unsafe_code)]

pub mod algorithms;
pub mod build;
mod coprime;
pub mod cost;
pub mod cursor;
pub mod explanation;
pub mod generator;
pub mod hierarchy;
pub mod ir;
pub mod lower;
pub mod model;
pub mod neighbours;
pub mod registry;
pub mod select;
pub mod shape;
mod show;
pub mod simulate;
pub mod start;
mod text_error;
pub mod traffic;
mod tree;
pub mod tune;
pub mod verify;
pub mod work;

pub use cost::Environment;
pub use generator::Generator;
pub use hierarchy::Hierarchy;
pub use ir::Schedule;
pub use model::Model;
pub use neighbours::Neighbours;
pub use registry::registry;
pub use select::{Choice, Plan, select};
pub use shape::{Collective, Params, Shape};
pub use text_error::TextError;
