//! PMI, the older Process Management Interface, over a socket that the starter hands down: version 2 (Slurm's
//! `--mpi=pmi2`) and version 1 (Hydra, the launcher of MPICH and Intel MPI). Each request has one answer, in order.
//!
//! [`wire`] turns messages into bytes and back, [`protocol`] says what they mean in either version; both are pure.
//! [`client`] moves the bytes. Written from what the starters answer and from the documents of MPICH and Slurm.

pub mod client;
pub mod mapping;
pub mod protocol;
pub mod starter;
pub mod wire;
