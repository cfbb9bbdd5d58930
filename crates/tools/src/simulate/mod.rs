//! Simulations in place of measurements: recorded machines, clusters of the papers, distributions of ranks
//! over hosts, the start of jobs, and the order of ranks.

pub mod cluster;
pub mod machines;
pub mod reorder;
pub mod spread;
pub mod start;
