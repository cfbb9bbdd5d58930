//! Algorithms by messages, in the order of ranks. They do not depend on the machine, and are correct on any.

pub mod allgather;
pub mod allreduce;
pub mod alltoall;
pub mod barrier;
pub mod bcast;
pub mod exchange;
pub mod gather;
pub mod reduce;
pub mod reduce_scatter;
pub mod scan;
pub mod together;
