//! Numbers with a meaning of their own in arguments (MPI-5 sections 3.2.4, 3.10, 7.4.2; values of the standard
//! ABI). A test of the abi room compares them with `spec/constants.tsv`.

/// Receive from any source.
pub const ANY_SOURCE: i32 = -1;
/// Receive any tag.
pub const ANY_TAG: i32 = -2;
/// The process that is not there: communication with it does nothing.
pub const PROC_NULL: i32 = -3;
/// The caller is the root of an intercommunicator collective.
pub const ROOT: i32 = -4;
/// No value.
pub const UNDEFINED: i32 = -32766;
