//! The machine: which processors lie where, how far two processes are from one another (S3), and which
//! hardware resource a process is confined to (MPI-5 section 7.4.2).
//!
//! Entry points: [`Machine::local`], [`Machine::parse`], [`Machine::distance`],
//! [`Machine::location`], [`resource`]. A machine is a table with a row a processor; everything is a
//! pure function of it. Only [`source`] looks at the real machine.
//!
//! # What is where
//!
//! The machine as a table (a row a processor, a column a level), the distance of two processes (S3), the
//! hardware resource a process is confined to. Entry points: `Machine::{local, of_job, parse, synthetic}`,
//! `Machine::distance`, `resource::{resource_of, unguided}`. Sources: the launcher's text in the job
//! object, /sys (0.3 ms), hwloc (loaded when asked for: 2 to 40 ms), recorded machines in
//! `fixtures/machines`. Absent: I/O outside `source`; linking to hwloc.
#![deny(unsafe_code)]

pub mod model;
pub mod resource;
pub mod source;
pub mod text;

pub use model::{Distance, Level, Machine};
pub use resource::Resource;
pub use tutti_sys::cpu::ProcessorSet;
