//! Collective communication as data: a schedule is written once by an algorithm, and then moved
//! (engine), proved (verifier), timed (simulator) or compiled (lowering). See DESIGN.md, section 1.
//!
//! Deliberately absent: I/O, clocks, unsafe code, foreign functions, and any knowledge of how a
//! message travels. Everything here is a function over data.
#![forbid(unsafe_code)]

pub mod algorithms;
pub mod build;
pub mod cost;
mod cost_node;
pub mod cursor;
pub mod hierarchy;
pub mod ir;
pub mod model;
pub mod neighbours;
pub mod registry;
pub mod select;
pub mod shape;
mod show;
pub mod simulate;
pub mod start;
pub mod traffic;
pub mod verify;

pub use cost::Environment;
pub use hierarchy::Hierarchy;
pub use ir::Schedule;
pub use model::Model;
pub use neighbours::Neighbours;
pub use registry::{Generator, registry};
pub use select::{Choice, Plan, select};
pub use shape::{Collective, Params, Shape};
