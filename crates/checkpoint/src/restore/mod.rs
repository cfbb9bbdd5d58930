//! Restores a process: [`plan`](mod@plan) computes the system calls, [`perform`] has a fresh process execute
//! them.

#[cfg(test)]
mod model;
pub mod perform;
pub mod plan;
