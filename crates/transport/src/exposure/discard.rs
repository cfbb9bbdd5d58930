//! madvise of a program that discards: on memory that is mapped, its pages are given back, so that it reads as zero, as
//! the program expects of its private memory.
//!
//! The kernel itself refuses that (the pages are locked, see `convert`); so a call that does not come this way fails, and is
//! not silently without effect.
//!
//! # Safety
//! Ranges that are not of the object go to the kernel as they were given.

#![allow(unsafe_code)]

use tutti_sys::remap;

use super::object;
use super::record::PAGE_BYTES;

/// madvise, as the program means it.
///
/// # Errors
/// What the system reports.
///
/// # Safety
/// As for madvise.
pub unsafe fn advise(start: u64, bytes: u64, advice: i32) -> std::io::Result<()> {
    // SAFETY: the caller's promise, here and below.
    let kernel = |start: u64, bytes: u64| unsafe { remap::advise(start, bytes, advice) };
    // Addresses that the kernel refuses are left to it.
    if !remap::discards(advice) || !start.is_multiple_of(PAGE_BYTES) {
        return kernel(start, bytes);
    }
    let whole = bytes.checked_next_multiple_of(PAGE_BYTES).unwrap_or(bytes);
    // SAFETY: as above.
    match unsafe { discard(start, whole, kernel) } {
        Ok(false) => kernel(start, bytes),
        other => other.map(|_| ()),
    }
}

/// Discards what is mapped of the object in `start..start + bytes`, and calls `rest(start, bytes)` for each part that
/// is not; false, and nothing done, if there is no mapped memory in it.
///
/// # Errors
/// The first of `rest`, or of the system, after all parts were tried.
///
/// # Safety
/// The program has asked for it: it does not need what is there.
pub(super) unsafe fn discard(
    start: u64,
    bytes: u64,
    mut rest: impl FnMut(u64, u64) -> std::io::Result<()>,
) -> std::io::Result<bool> {
    let Some(object) = object::existing() else { return Ok(false) };
    let (Some(maps), Some(end)) = (object.maps.as_ref(), start.checked_add(bytes)) else { return Ok(false) };
    let (mut at, mut done, mut found, mut result) = (start, start, false, Ok(()));
    // Ends: each area lies above the one before.
    while let Some(area) = maps.shared_from(at)?.filter(|area| area.start < end) {
        at = area.end;
        if !object.is_mapped_in(&area) {
            continue;
        }
        found = true;
        let (from, to) = (area.start.max(start), area.end.min(end));
        if from > done {
            result = result.and(rest(done, from - done));
        }
        // SAFETY: the caller's promise; pages of this program's own memory.
        let given_back = unsafe { object::give_back(object, area.offset + (from - area.start), to - from) };
        result = result.and(given_back);
        done = to;
    }
    if found && done < end {
        result = result.and(rest(done, end - done));
    }
    result.map(|()| found)
}
