//! Storage for files (S10; Yu 2006, chapter 7): one trait and its implementations.
//!
//! | module | content |
//! |---|---|
//! | [`driver`] | the trait: moves bytes between memory and offsets of one open file |
//! | [`posix`], [`stream`] | files of mounted file systems, and files without offsets |
//! | [`servers`] | files striped over `tutti io-server`s: protocol, server, driver |
//! | [`simulated`] | a file in memory with simulated failures, for tests of higher layers |
//! | [`hints`], [`together`] | hints of programs, and rules for collective access |
//! | [`amode`], [`fault`] | access modes, and conversion of system errors to classes of MPI |
//!
//! The crate `io` uses it for MPI programs; `tutti io-server` and `tutti io` use it without MPI.
//! Deliberately absent: MPI, views, communication between ranks.
#![deny(unsafe_code)]

pub mod amode;
pub mod driver;
pub mod fault;
pub mod hints;
pub mod posix;
pub mod servers;
pub mod simulated;
pub mod stream;
pub mod together;

pub use amode::Amode;
pub use driver::{Driver, Moved, Views};
pub use posix::Posix;
pub use simulated::Simulated;
pub use stream::Stream;
