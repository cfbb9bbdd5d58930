//! Information about the ABI and about Fortran's types (MPI-5 section 20.5).
//!
//! Fortran's sizes are those of its usual compilers on this machine, fixed when the library was built: the
//! functions that set them refuse.

use std::ffi::c_int;

use tutti_base::{Error, ErrorClass, Result};
use tutti_core::info::Info as Entries;
use tutti_core::lanes::FirstLaneCell;
use tutti_data::Datatype as Layout;

use crate::entry::Call;
use crate::generated::constants::*;
use crate::handles::kind::Info;
use crate::scope::{Address, HandleOut, In, Out};
use crate::types::{MPI_Aint, MPI_Count, MPI_Datatype, MPI_Offset};

/// Types of Fortran whose size is reported.
const SIZES: &[(&str, MPI_Datatype)] = &[
    ("logical", MPI_LOGICAL),
    ("integer", MPI_INTEGER),
    ("real", MPI_REAL),
    ("double_precision", MPI_DOUBLE_PRECISION),
];

/// Types that a compiler may have or not.
const OPTIONAL: &[(&str, MPI_Datatype)] = &[
    ("logical1", MPI_LOGICAL1),
    ("logical2", MPI_LOGICAL2),
    ("logical4", MPI_LOGICAL4),
    ("logical8", MPI_LOGICAL8),
    ("logical16", MPI_LOGICAL16),
    ("integer1", MPI_INTEGER1),
    ("integer2", MPI_INTEGER2),
    ("integer4", MPI_INTEGER4),
    ("integer8", MPI_INTEGER8),
    ("integer16", MPI_INTEGER16),
    ("real2", MPI_REAL2),
    ("real4", MPI_REAL4),
    ("real8", MPI_REAL8),
    ("real16", MPI_REAL16),
    ("complex4", MPI_COMPLEX4),
    ("complex8", MPI_COMPLEX8),
    ("complex16", MPI_COMPLEX16),
    ("complex32", MPI_COMPLEX32),
    ("double_complex", MPI_DOUBLE_COMPLEX),
];

fn layout(datatype: MPI_Datatype) -> Option<&'static Layout> {
    Layout::predefined(datatype.bits() as u32)
}

/// Returns an info object with the sizes of the ABI's types (MPI_Abi_get_info).
pub fn get_info(_call: &mut Call, info: HandleOut<Info>) -> Result<()> {
    let mut entries = Entries::default();
    entries.set("mpi_aint_size", size_of::<MPI_Aint>().to_string())?;
    entries.set("mpi_count_size", size_of::<MPI_Count>().to_string())?;
    entries.set("mpi_offset_size", size_of::<MPI_Offset>().to_string())?;
    info.create(FirstLaneCell::new(entries)).map(drop)
}

/// Returns an info object with the sizes of Fortran's types (MPI_Abi_get_fortran_info).
pub fn get_fortran_info(_call: &mut Call, info: HandleOut<Info>) -> Result<()> {
    let mut entries = Entries::default();
    for (name, datatype) in SIZES {
        let size = layout(*datatype).map_or(0, Layout::size);
        entries.set(format!("mpi_{name}_size"), size.to_string())?;
    }
    for (name, datatype) in OPTIONAL {
        let supported = layout(*datatype).is_some();
        entries.set(format!("mpi_{name}_supported"), supported.to_string())?;
    }
    info.create(FirstLaneCell::new(entries)).map(drop)
}

fn fixed() -> Error {
    Error::new(ErrorClass::Abi, "the sizes and logical values of Fortran are set already")
}

/// Sets the sizes of Fortran's types (MPI_Abi_set_fortran_info).
pub fn set_fortran_info(_call: &mut Call, info: In<Info>) -> Result<()> {
    info.get()?;
    Err(fixed())
}

/// Returns Fortran's representation of true (1) and false (0), in an integer of the size of a logical
/// (MPI_Abi_get_fortran_booleans).
pub fn get_fortran_booleans(
    _call: &mut Call,
    logical_size: c_int,
    logical_true: Address,
    logical_false: Address,
    is_set: Out<c_int>,
) -> Result<()> {
    if ![1, 2, 4, 8, 16].contains(&logical_size) {
        let reason = format!("argument logical_size is {logical_size}; it must be 1, 2, 4, 8 or 16");
        return Err(Error::new(ErrorClass::Arg, reason));
    }
    let bytes = logical_size as usize;
    for (place, value, name) in [(logical_true, 1u128, "logical_true"), (logical_false, 0, "logical_false")] {
        place.store_bytes(&value.to_ne_bytes()[..bytes], name)?;
    }
    is_set.set_flag(true)
}

/// Sets Fortran's representation of true and false (MPI_Abi_set_fortran_booleans).
pub fn set_fortran_booleans(
    _call: &mut Call,
    _logical_size: c_int,
    _logical_true: Address,
    _logical_false: Address,
) -> Result<()> {
    Err(fixed())
}
