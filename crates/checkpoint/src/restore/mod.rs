//! A process made again: [`plan`](mod@plan) says by which system calls, [`perform`] has a fresh process make
//! them.

#[cfg(test)]
mod model;
pub mod perform;
pub mod plan;
