//! Algorithms by messages, in the order of ranks: they know no machine, and are right on any.

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
