//! Topology of the machine: the location of processors, the distance between two processes (S3), and the
//! hardware resource to which a process is confined (MPI-5 section 7.4.2).
//!
//! A machine is a table with a row for each processor and a column for each level; everything is a pure
//! function of it. Only [`source`] looks at the real machine: the launcher's text in the job object, /sys
//! (0.3 ms), or hwloc (loaded when requested: 2 to 40 ms). Recorded machines are in `fixtures/machines`.
//!
//! Entry points: `Machine::{local, of_job, parse, synthetic}`, [`Machine::distance`], [`Machine::location`],
//! `resource::{resource_of, unguided}`.
//!
//! Not here on purpose: I/O outside of `source`; linking to hwloc.
#![deny(unsafe_code)]

mod error;
pub mod model;
pub mod resource;
pub mod source;
pub mod text;

pub use error::TextError;
pub use model::{Distance, Level, Machine};
pub use resource::Resource;
pub use tutti_sys::cpu::ProcessorSet;
