//! Fronts: libraries with the ABIs that programs used before there was a standard one.
//!
//! Each front is a library of its own (`mpich`, `openmpi`). It is compiled from common entry points
//! (`shared`), which `cargo xtask generate` writes from `spec/` and `spec/fronts/`, and from its own types
//! and constants. Fronts are installed in folders of their own, so that they never hide another library by
//! accident. This crate lists them; its tests check them from outside.
//!
//! # What is where
//!
//! Libraries for programs that were built for other ABIs: `libmpi.so.12` (MPICH, Intel MPI and their kin)
//! and `libmpi.so.40` (Open MPI). Generated from `spec/` and `spec/fronts/` (constants by meaning, objects,
//! what arguments mean) into entry points that both share (`shared`), compiled against the types of each
//! (`mpich`, `openmpi`); what arguments and types do not tell is in `special` and `others`. A front takes
//! the functions of `libmpi_abi.so.1` as one structure (`tutti_interface`, by version), since it exports
//! the same names; callbacks are called in its ABI by a dialect (`abi::dialect`) that operators, keys,
//! error handlers and requests remember. Installed in `PREFIX/lib/tutti/ABI`, where mpirun lets programs
//! look. Both answer to `libmpi.so`, by which wheels and plugins ask; mpirun puts the folder of the ABI
//! first that the program needs. Absent: semantics, state.
#![deny(unsafe_code)]

/// Names of one front library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Front {
    /// Folder of the front below `PREFIX/lib/tutti`.
    pub folder: &'static str,
    /// The name under which programs ask for it.
    pub soname: &'static str,
    /// Further names of the library in programs.
    pub also: &'static [&'static str],
}

/// All fronts that are built.
pub const FRONTS: &[Front] = &[
    Front {
        folder: "mpich",
        soname: "libmpi.so.12",
        also: &["libmpich.so.12", "libmpicxx.so.12", "libmpichcxx.so.12", "libmpi.so", "libmpich.so"],
    },
    Front { folder: "openmpi", soname: "libmpi.so.40", also: &["libmpi_cxx.so.40", "libmpi.so"] },
];
