//! What is simulated instead of measured: machines that were recorded, the papers' clusters, how ranks are
//! spread over them, the start of jobs and the order of ranks.

pub mod cluster;
pub mod machines;
pub mod reorder;
pub mod spread;
pub mod start;
