//! Fields of statuses (MPI-5 sections 3.2.5, 5.1.11, 13.3).

use std::ffi::c_int;

use tutti_base::{Error, ErrorClass, Result};
use tutti_data::Datatype as Layout;

use super::memory::count as items;
use crate::entry::Call;
use crate::generated::constants::MPI_UNDEFINED;
use crate::handles::kind::Datatype;
use crate::scope::{CountOut, In, Out};
use crate::status::{StatusIn, StatusOut};

fn count_or_undefined(count: Option<u64>) -> i64 {
    count.and_then(|count| i64::try_from(count).ok()).unwrap_or(MPI_UNDEFINED.into())
}

/// Returns the number of received items, if it is whole (MPI_Get_count).
pub fn get_count(_call: &mut Call, status: StatusIn, datatype: In<Datatype>, count: CountOut) -> Result<()> {
    let bytes = status.get()?.bytes();
    count.set(count_or_undefined(datatype.get()?.data().complete_items(bytes)))
}

/// Returns the number of received basic elements (MPI_Get_elements).
pub fn get_elements(
    _call: &mut Call,
    status: StatusIn,
    datatype: In<Datatype>,
    count: CountOut,
) -> Result<()> {
    let bytes = status.get()?.bytes();
    count.set(count_or_undefined(datatype.get()?.data().element_count(bytes)))
}

/// Sets the number of basic elements in a status (MPI_Status_set_elements).
pub fn set_elements(_call: &mut Call, status: StatusOut, datatype: In<Datatype>, count: i64) -> Result<()> {
    let elements = items(count, "count")?;
    let bytes = bytes_of_elements(datatype.get()?.data(), elements).ok_or_else(|| {
        Error::new(ErrorClass::Count, format!("argument count: {count} elements are too many bytes"))
    })?;
    status.change(|status| status.set_bytes(bytes))
}

/// Returns the packed bytes of the first `elements` basic items of an array of `layout`.
fn bytes_of_elements(layout: &Layout, elements: u64) -> Option<u64> {
    let (size, each) = (layout.size() as u64, layout.elements() as u64);
    if size == 0 || each == 0 {
        return Some(0);
    }
    let rest = elements % each;
    let within = (0..size).find(|bytes| layout.element_count(*bytes) == Some(rest))?;
    (elements / each).checked_mul(size)?.checked_add(within)
}

/// Sets whether a status reports a cancelled operation (MPI_Status_set_cancelled).
pub fn set_cancelled(_call: &mut Call, status: StatusOut, flag: c_int) -> Result<()> {
    status.change(|status| status.set_cancelled(flag != 0))
}

/// Returns whether a status reports a cancelled operation (MPI_Test_cancelled).
pub fn test_cancelled(_call: &mut Call, status: StatusIn, flag: Out<c_int>) -> Result<()> {
    flag.set_flag(status.get()?.cancelled())
}

/// Returns the source in a status (MPI_Status_get_source).
pub fn get_source(_call: &mut Call, status: StatusIn, source: Out<c_int>) -> Result<()> {
    source.set(status.get()?.source)
}

/// Returns the tag in a status (MPI_Status_get_tag).
pub fn get_tag(_call: &mut Call, status: StatusIn, tag: Out<c_int>) -> Result<()> {
    tag.set(status.get()?.tag)
}

/// Returns the error code in a status (MPI_Status_get_error).
pub fn get_error(_call: &mut Call, status: StatusIn, error: Out<c_int>) -> Result<()> {
    error.set(status.get()?.error)
}

/// Sets the source in a status (MPI_Status_set_source).
pub fn set_source(_call: &mut Call, status: StatusOut, source: c_int) -> Result<()> {
    status.change(|status| status.source = source)
}

/// Sets the tag in a status (MPI_Status_set_tag).
pub fn set_tag(_call: &mut Call, status: StatusOut, tag: c_int) -> Result<()> {
    status.change(|status| status.tag = tag)
}

/// Sets the error code in a status (MPI_Status_set_error).
pub fn set_error(_call: &mut Call, status: StatusOut, error: c_int) -> Result<()> {
    status.change(|status| status.error = error)
}
