//! PMI, the older Process Management Interface, over a socket that the starter hands down. There are
//! version 2 (Slurm's `--mpi=pmi2`) and version 1 (Hydra, the launcher of MPICH and Intel MPI). Each
//! request has one answer, in order.
//!
//! [`wire`] converts messages to bytes and back. [`protocol`] defines their meaning in either version; both
//! are pure. [`client`] moves the bytes. Written from the answers of real starters and the documents of
//! MPICH and Slurm.

pub mod client;
pub mod mapping;
pub mod protocol;
pub mod starter;
pub mod wire;
