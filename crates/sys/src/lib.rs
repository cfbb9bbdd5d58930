//! Every raw system call and foreign function, typed on the way out.
//!
//! Rooms above this one see owned descriptors, mappings and results; they never see a `libc` type.
//! Each unsafe block says SAFETY and the invariant. Deliberately absent: policy. What to do about a
//! failed call is decided above.

pub mod cache;
pub mod cgroup;
pub mod clock;
pub mod cma;
pub mod cpu;
pub mod directory;
pub mod event;
pub mod fabric;
pub mod file;
pub mod files;
pub mod futex;
pub mod guardian;
pub mod hwloc;
pub mod interface;
pub mod job;
pub mod knem;
pub mod letter;
pub mod local_socket;
pub mod maps;
pub mod memory;
pub mod namespaces;
pub mod pmix;
pub mod process;
pub mod refusal;
pub mod regions;
pub mod remap;
pub mod signal;
pub mod socket;
pub mod spawning;
pub mod this_process;
pub mod userfault;
pub mod xpmem;
