//! Special values of arguments (MPI-5 sections 3.2.4, 3.10, 7.4.2), with the values of the standard ABI. A
//! test of the abi crate compares them with `spec/constants.tsv`.

/// Source of a receive: any rank.
pub const ANY_SOURCE: i32 = -1;
/// Tag of a receive: any tag.
pub const ANY_TAG: i32 = -2;
/// Rank of the null process: communication with it does nothing.
pub const PROC_NULL: i32 = -3;
/// Root argument of the root in an intercommunicator collective.
pub const ROOT: i32 = -4;
/// Value of an undefined result.
pub const UNDEFINED: i32 = -32766;
