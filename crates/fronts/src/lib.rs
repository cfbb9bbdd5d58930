//! Fronts: libraries with the ABIs that programs used before there was a standard one: `libmpi.so.12` (MPICH,
//! Intel MPI and their kin) and `libmpi.so.40` (Open MPI).
//!
//! Each front is a library of its own (`mpich`, `openmpi`). It is compiled from common entry points
//! (`shared`), which `cargo xtask generate` writes from `spec/` and `spec/fronts/`, and from its own types
//! and constants. Functions that cannot be generated from arguments and types are in `special` and `others`.
//! This crate lists the fronts; its tests check them from outside.
//!
//! A front exports the same names as `libmpi_abi.so.1`. So it takes the functions of that library from one
//! structure with a version (`tutti_interface`). Callbacks are called in the ABI of the front by a dialect
//! (`abi::dialect`), which operators, keys, error handlers and requests store.
//!
//! Fronts are installed in `PREFIX/lib/tutti/ABI`, so that they never hide another library by accident.
//! mpirun adds the folder of the ABI that a program needs to its search path. Both fronts also have the name
//! `libmpi.so`, which wheels and plugins load. Deliberately absent: semantics, state.
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
