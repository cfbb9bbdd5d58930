//! Collective communication as data: a schedule is written once by an algorithm, and then moved
//! (engine), proved (verifier), timed (simulator) or compiled (lowering).
//!
//! Deliberately absent: I/O, clocks, unsafe code, foreign functions, and any knowledge of how a
//! message travels. Everything here is a function over data.
//!
//! # What is where
//!
//! Collectives as data. `ir` is the schedule (one rank's part: steps, loops, edges, spans);
//! `build::Builder` writes it; `algorithms` has one file a family, each a pure function of a `Shape` and
//! `Params`; `cursor` gives edges, loops and windows their meaning, for the engine as for the verifier;
//! `hierarchy` has the ranks as nested groups by distance, and the trees and rings made of them (S3; golden
//! files in `fixtures/topologies`), on which the algorithms called hierarchical run; `algorithms::banks`
//! are those on flags and banks of one node (S1), `stream*` of them in segments, `exposed` those by a
//! single copy (S2), `distance` those on the trees of S3, `hosts` those on several hosts whose levels
//! overlap (S4): strands of one schedule, joined by flags (`hosts::{banks, bank_moves, scan}` those of few
//! bytes, through banks and one message a pair of hosts; `frames` those whose blocks have lengths that only
//! two ranks know: in frames that say so, or from rank to rank where they are long; `circulant` on Träff's
//! circulant graph, whose schedules `circulant` makes, and `circulant_reduce` the reductions on it;
//! `leaders` those in which several leaders of a host have a part each, `exchange` the long alltoall, host
//! by host, `doubling` what takes the fewest rounds; `hosts` says who is on which); `groups` has the
//! algorithms for the two groups of an intercommunicator, made of schedules for one group that are embedded
//! in the whole, `neighbourhood` those along the edges of a topology, `files` the exchange between ranks
//! and windows of a file; `hierarchy::mapping` finds out who should take which vertex of a graph; `verify`
//! proves all ranks' schedules on symbolic data, what ranks of a node share under vector clocks; `simulate`
//! times them on a `Model` of the machine (named parameters in SI units, kept as text) and a `Layout` of
//! the ranks on it, one operation or several in a row (`Series`: each rank goes on when it is done with one
//! and has computed); `traffic` counts what schedules send over the links between hosts and says the least
//! that any algorithm must; `cost` says in closed form what an algorithm costs (one for several hosts:
//! leaders across, the ranks of a host within); `start` how long a job takes to start and what memory a
//! rank needs, from a model (Yu 2006, section 2.7) fitted to runs (`fixtures/starts`); `registry` joins the
//! lists of all families; `select` orders them by closed form and simulates those that may be the best,
//! each only until it takes longer than the best so far (up to 256 ranks of a host, on several hosts up to
//! 64: beyond, the closed forms stand), on what all ranks know (`Environment`). Entry points: `Shape`,
//! `Plan::new`, `select`, `select::study`, `registry`, `verify::verify`, `simulate::predict`. A new
//! algorithm is one function and one line in its family's `GENERATORS`; `tests/proofs.rs` then proves it
//! for 1 to 64 ranks and every root. With `TUTTI_DETERMINISTIC` only algorithms are taken whose results are
//! one expression of the operands (`generator::Association`, proved by `verify_as`); otherwise the
//! association depends on what was chosen, and so is stable from run to run, as schedules are static. The
//! bytes are moved by `core::engine`, which knows no algorithm. Absent: I/O, clocks, unsafe code, FFI,
//! tables of sizes for selection.
#![forbid(unsafe_code)]

pub mod algorithms;
pub mod build;
mod coprime;
pub mod cost;
pub mod cursor;
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
