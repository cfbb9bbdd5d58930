//! Tests of the program `mpirun` with fake ranks (`examples/fake_rank.rs`).
#![allow(clippy::unwrap_used)]

mod common;
mod endings;
mod hosts;
mod streams;
