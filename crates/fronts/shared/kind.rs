//! Kinds of handles, and values for integers that are no constant of their domain.

use std::ffi::c_int;

use crate::constants::{MPI_ERR_ARG, MPI_ERR_LASTCODE, MPI_ERR_OTHER};
use crate::shared::standard;

/// Numbers below are predefined handles of the standard ABI.
pub const FIRST_DYNAMIC: usize = 0x1000;
/// Handle that is invalid for every kind. The library refuses it with the message for uninitialised handles.
pub const INVALID: usize = 1 << 40;
/// The datatypes MPI_LB and MPI_UB, which MPI-3 removed: known to MPI_Type_struct alone, no handles for the library.
pub const LOWER_BOUND: usize = 0xff0;
/// The datatype MPI_UB, like [`LOWER_BOUND`].
pub const UPPER_BOUND: usize = 0xff1;
/// An integer that is in no domain.
pub const NOTHING: c_int = -0x4000_0000;
/// An offset that is in no domain.
pub const NOTHING_FAR: i64 = i64::MIN;
/// Bit without a meaning, for unknown flags.
const UNKNOWN_FLAG: c_int = 1 << 30;

/// A kind of handle.
pub trait Kind: Copy + 'static {
    /// The number of the null handle of the standard ABI.
    const NULL: usize;
    /// Name of the kind, as in `MPI_Comm`.
    const NAME: &'static str;
}

/// A handle of the front's ABI.
pub trait Handle: Copy {
    /// Converts the handle to the standard ABI.
    fn standard(self) -> usize;
    /// Converts a handle of the standard ABI.
    fn foreign(standard: usize) -> Self;
    /// Converts the handle to an integer of Fortran.
    fn fortran(self) -> c_int;
    /// Converts an integer of Fortran to a handle.
    fn from_fortran(number: c_int) -> Self;
}

macro_rules! kinds {
    ($($name:ident)*) => {
        $(
            #[allow(missing_docs, reason = "kinds are named as in the standard")]
            #[derive(Clone, Copy, Debug)]
            pub enum $name {}
        )*
    };
}

kinds! { Comm Group Datatype Op Request Info Errhandler Win File Session Message }

/// Flags of the front's ABI in the standard one.
pub fn flags_in(pairs: &[(c_int, c_int)], flags: c_int) -> c_int {
    let known = pairs.iter().fold(0, |all, pair| all | pair.0);
    let unknown = if flags & !known == 0 { 0 } else { UNKNOWN_FLAG };
    pairs.iter().filter(|pair| flags & pair.0 != 0).fold(unknown, |all, pair| all | pair.1)
}

/// Flags of the standard ABI in the front's.
pub fn flags_out(pairs: &[(c_int, c_int)], flags: c_int) -> c_int {
    pairs.iter().filter(|pair| flags & pair.1 != 0).fold(0, |all, pair| all | pair.0)
}

/// The bit that puts codes which the program has added above the last one of the ABI, where that is high.
const ADDED: c_int = if MPI_ERR_LASTCODE > standard::MPI_ERR_LASTCODE { MPI_ERR_LASTCODE + 1 } else { 0 };

/// Marks numbers in the place of error codes which mean nothing in the front's ABI: the library knows none of them, and in a
/// status they come back as they were.
const MEANINGLESS: c_int = 1 << 28;

/// Returns the class in the front's ABI of a code that other_error_in has marked: a class that the standard
/// lacks, for example of failed processes.
pub fn own_class(code: c_int) -> Option<c_int> {
    const LAST: c_int = 127;
    let class = code & !MEANINGLESS;
    (code != class && class <= LAST && class < MPI_ERR_LASTCODE).then_some(class)
}

/// Translates a program's error code without an equal class in the standard. Codes that the program has added
/// keep their number; others are marked as meaningless.
pub fn other_error_in(code: c_int) -> c_int {
    match code & !ADDED {
        added if added > standard::MPI_ERR_LASTCODE => added,
        _ if code < 0 => code,
        _ if code == MPI_ERR_LASTCODE => standard::MPI_ERR_LASTCODE,
        _ => code | MEANINGLESS,
    }
}

/// Translates an error code for which the front's ABI has no class.
pub fn other_error_out(code: c_int) -> c_int {
    match code {
        code if code < 0 => code,
        code if code & MEANINGLESS != 0 => code & !MEANINGLESS,
        code if code > standard::MPI_ERR_LASTCODE => code | ADDED,
        standard::MPI_ERR_LASTCODE => MPI_ERR_LASTCODE,
        // Older ABIs call a wrong handle of an error handler an argument.
        standard::MPI_ERR_ERRHANDLER => MPI_ERR_ARG,
        _ => MPI_ERR_OTHER,
    }
}

/// Translates the error code of a function to the front's ABI.
#[inline(always)]
pub fn answer(code: c_int) -> c_int {
    if code == 0 { 0 } else { failed(code) }
}

#[cold]
fn failed(code: c_int) -> c_int {
    crate::constants::error_out(code)
}
