//! How communicators are made of others (MPI-5 sections 7.4 and 8.5): duplicates and parts (`create`), by
//! colour or hardware (`split`), with a topology (`topologies`), with ranks where they are near each other
//! (`reorder`).

mod color;
pub mod create;
mod reorder;
pub mod split;
pub mod topologies;
