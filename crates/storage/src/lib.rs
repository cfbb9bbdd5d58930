//! What files lie on (S10; Yu 2006, chapter 7): one trait, and what implements it.
//!
//! | module | what |
//! |---|---|
//! | [`driver`] | the trait: bytes between memory and places of one open file |
//! | [`posix`], [`stream`] | file systems of the system, and what has no places |
//! | [`servers`] | files striped over `tutti io-server`s: protocol, server, driver |
//! | [`simulated`] | a file in memory that fails from a seed, for tests of what is above |
//! | [`hints`], [`together`] | what programs say about a file, and by which rules ranks access it together |
//! | [`amode`], [`fault`] | access modes, and what the system reports as classes of MPI |
//!
//! Programs use it below `io`; `tutti io-server` and `tutti io` use it without MPI. Deliberately absent: MPI,
//! views, communication of ranks.
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
