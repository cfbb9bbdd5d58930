//! Functions that the standard has no more (MPI-3 removed them), or never had.
//!
//! # Safety
//! The program vouches for its pointers.
#![allow(
    missing_docs,
    clippy::missing_safety_doc,
    clippy::too_many_arguments,
    reason = "functions of the standard"
)]

use std::ffi::{c_int, c_void};

use crate::abi::{MPI_Datatype, MPI_Info, MPI_Session};
use crate::shared::kind::{Handle, LOWER_BOUND, UPPER_BOUND, answer};
use crate::shared::library::library;
use crate::shared::places::{HandlePlace, Handles};
use crate::shared::standard::{self, MPI_Aint};

/// Returns error code, lower bound and extent.
unsafe fn extent_of(datatype: MPI_Datatype) -> (c_int, MPI_Aint, MPI_Aint) {
    let (mut lower, mut extent) = (0, 0);
    // SAFETY: places for the answers.
    let code =
        unsafe { (library().MPI_Type_get_extent)(datatype.standard(), &raw mut lower, &raw mut extent) };
    (answer(code), lower, extent)
}

pub unsafe fn type_extent(datatype: MPI_Datatype, extent: *mut MPI_Aint) -> c_int {
    // SAFETY: the module's Safety section.
    unsafe {
        let (code, _, found) = extent_of(datatype);
        extent.write(found);
        code
    }
}

pub unsafe fn type_lb(datatype: MPI_Datatype, displacement: *mut MPI_Aint) -> c_int {
    // SAFETY: the module's Safety section.
    unsafe {
        let (code, lower, _) = extent_of(datatype);
        displacement.write(lower);
        code
    }
}

pub unsafe fn type_ub(datatype: MPI_Datatype, displacement: *mut MPI_Aint) -> c_int {
    // SAFETY: the module's Safety section.
    unsafe {
        let (code, lower, extent) = extent_of(datatype);
        displacement.write(lower + extent);
        code
    }
}

/// Creates a structure (MPI_Type_struct). Entries of type MPI_LB and MPI_UB are no data; they are its bounds
/// (MPI-2 section 4.1.6).
pub unsafe fn type_struct(
    count: c_int,
    lengths: *const c_int,
    displacements: *const MPI_Aint,
    types: *const MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> c_int {
    // SAFETY: the module's Safety section.
    unsafe {
        let given = Handles::new(types, count as isize);
        let number = if types.is_null() { 0 } else { usize::try_from(count).unwrap_or(0) };
        let (mut lower, mut upper) = (None, None);
        let (mut kept_lengths, mut kept_displacements, mut kept) = (Vec::new(), Vec::new(), Vec::new());
        for index in 0..number {
            match (*given.pointer().add(index), *displacements.add(index)) {
                (LOWER_BOUND, at) => lower = Some(lower.map_or(at, |lower: MPI_Aint| lower.min(at))),
                (UPPER_BOUND, at) => upper = Some(upper.map_or(at, |upper: MPI_Aint| upper.max(at))),
                (datatype, at) => {
                    kept_lengths.push(*lengths.add(index));
                    kept_displacements.push(at);
                    kept.push(datatype);
                }
            }
        }
        let mut at_newtype = HandlePlace::out(newtype);
        if lower.is_none() && upper.is_none() {
            let create = library().MPI_Type_create_struct;
            let code = create(count, lengths, displacements, given.pointer(), at_newtype.place());
            at_newtype.finish();
            return answer(code);
        }
        let mut data = 0_usize;
        let (length, at, of) = (kept_lengths.as_ptr(), kept_displacements.as_ptr(), kept.as_ptr());
        let code = (library().MPI_Type_create_struct)(kept.len() as c_int, length, at, of, &raw mut data);
        if code != 0 {
            return answer(code);
        }
        let (mut begin, mut extent) = (0, 0);
        (library().MPI_Type_get_extent)(data, &raw mut begin, &raw mut extent);
        let end = upper.unwrap_or(begin + extent);
        let begin = lower.unwrap_or(begin);
        let code = (library().MPI_Type_create_resized)(data, begin, end - begin, at_newtype.place());
        (library().MPI_Type_free)(&raw mut data);
        at_newtype.finish();
        answer(code)
    }
}

/// Does nothing, as hints may be ignored (MPI_Session_set_info, a function of a draft).
pub unsafe fn session_set_info(_session: MPI_Session, _info: MPI_Info) -> c_int {
    0
}

/// Returns 0, as memory of devices is not supported (MPIX_Query_cuda_support).
pub unsafe fn query_cuda_support() -> c_int {
    0
}

pub unsafe fn query_hip_support() -> c_int {
    0
}

pub unsafe fn query_rocm_support() -> c_int {
    0
}

pub unsafe fn query_ze_support() -> c_int {
    0
}

pub unsafe fn gpu_query_support(_gpu_type: c_int, is_supported: *mut c_int) -> c_int {
    // SAFETY: the module's Safety section.
    unsafe { is_supported.write(0) };
    0
}

/// MPI_Status_c2f and MPI_Status_f2c: a status of Fortran has the words of that of C.
macro_rules! status_copies {
    ($($name:ident)*) => {
        $(
            #[allow(missing_docs, reason = "a function of the standard")]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(from: *const c_void, to: *mut c_void) -> c_int {
                let bytes = crate::abi::MPI_Status::WORDS * std::mem::size_of::<c_int>();
                if from.is_null() || to.is_null() {
                    return crate::constants::error_out(standard::MPI_ERR_OTHER);
                }
                // SAFETY: the program vouches for both.
                unsafe { to.cast::<u8>().copy_from_nonoverlapping(from.cast(), bytes) };
                0
            }
        )*
    };
}

status_copies! {
    MPI_Status_c2f MPI_Status_f2c MPI_Status_c2f08 MPI_Status_f082c MPI_Status_f2f08 MPI_Status_f082f
    PMPI_Status_c2f PMPI_Status_f2c PMPI_Status_c2f08 PMPI_Status_f082c PMPI_Status_f2f08 PMPI_Status_f082f
}
