//! Handles as integers (MPI-5 section 19.3.4), and arithmetic on addresses (section 4.1.5).

use std::ffi::c_int;

use crate::handles;
use crate::kind::{Kind, Stored};
use crate::types::{MPI_Aint, Raw};

/// MPI_X_toint.
pub fn to_int<K: Kind>(raw: Raw<K>) -> c_int {
    handles::to_int(raw)
}

/// MPI_X_fromint.
pub fn from_int<K: Stored>(number: c_int) -> Raw<K> {
    handles::from_int(number)
}

/// MPI_Aint_add.
pub fn aint_add(base: MPI_Aint, disp: MPI_Aint) -> MPI_Aint {
    base.wrapping_add(disp)
}

/// MPI_Aint_diff.
pub fn aint_diff(addr1: MPI_Aint, addr2: MPI_Aint) -> MPI_Aint {
    addr1.wrapping_sub(addr2)
}
