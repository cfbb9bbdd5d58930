//! Exposed memory, and memory that was exposed until a fork, in the role of the private memory that the
//! program expects.
//!
//! | memory | mapped from | how it is known |
//! |---|---|---|
//! | shared | the object of this process, shared | identity of the object |
//! | kept | a retired object, private ([`super::fork`]) | name of the mapping |
//!
//! The kernel does not treat either as private memory without a file. Hence calls of the program on such
//! memory are performed here ([`super::calls`]). [`discard`] makes it read as zero. [`make_plain`] turns it
//! into memory without a file, with the same content, at the same addresses; then the kernel does the rest.
//!
//! # Safety
//! Ranges are those that the program has named in a call that may change them. Nothing is allocated: such a
//! call may come out of the program's allocator. Nothing relies on the earlier location of the memory
//! (`object`).

#![allow(unsafe_code)]

use std::io;

use tutti_sys::maps::{Area, Maps};
use tutti_sys::remap::{self, OwnMemory, PageRights};

use super::fork;
use super::object::{self, MAPPING_NAME};
use super::record::PAGE_BYTES;

/// State of a part of the memory; see the table above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Shared,
    Kept,
}

/// Part of a mapping.
#[derive(Clone, Copy, Debug)]
struct Part {
    kind: Kind,
    start: u64,
    end: u64,
    rights: PageRights,
}

/// Use of memory by other threads while it is made plain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meanwhile {
    /// The memory may be read by other threads.
    Read,
    /// The memory is being moved, and no thread uses it. It becomes one mapping with its surroundings.
    Untouched,
}

/// Calls `work` with each part of `start..end` that is exposed or was.
fn each_part(start: u64, end: u64, mut work: impl FnMut(Part) -> io::Result<()>) -> io::Result<()> {
    let of_object = object::existing();
    // A child of fork, and a process between two objects, have to ask anew.
    let own;
    let maps: &Maps = match of_object.and_then(|object| object.maps) {
        Some(maps) => maps,
        None => {
            own = Maps::open()?;
            &own
        }
    };
    let mut at = start;
    // Ends: each area lies above the one before.
    while let Some((area, is_named)) = maps.file_from(at, MAPPING_NAME)?.filter(|(area, _)| area.start < end)
    {
        at = area.end;
        if !is_named {
            continue;
        }
        let kind = if area.shared { Kind::Shared } else { Kind::Kept };
        work(part(&area, kind, start, end))?;
    }
    Ok(())
}

fn part(area: &Area, kind: Kind, start: u64, end: u64) -> Part {
    Part { kind, start: area.start.max(start), end: area.end.min(end), rights: fork::rights(area) }
}

/// Returns true if any of `start..end` is exposed or was.
pub(super) fn holds(start: u64, end: u64) -> bool {
    let mut found = false;
    object::has_been()
        && each_part(start, end, |_| {
            found = true;
            Err(io::ErrorKind::Interrupted.into())
        })
        .map_or(found, |()| false)
}

/// Returns true if any of `start..end` is shared with peers.
pub(super) fn holds_shared(start: u64, end: u64) -> bool {
    let mut found = false;
    let looked = object::has_been().then(|| {
        each_part(start, end, |part| {
            found |= part.kind == Kind::Shared;
            Ok(())
        })
    });
    looked.is_some_and(|looked| looked.is_ok()) && found
}

/// Makes what is exposed of `start..end`, or was, read as zero, and calls `rest(start, bytes)` for each part
/// in between; false, and nothing done, if there is none.
///
/// # Errors
/// The first of `rest`, or of the system, after all parts were tried.
///
/// # Safety
/// The program has asked for it: it does not need what is there.
pub(super) unsafe fn discard(
    start: u64,
    bytes: u64,
    mut rest: impl FnMut(u64, u64) -> io::Result<()>,
) -> io::Result<bool> {
    let Some(end) = start.checked_add(bytes).filter(|_| object::has_been()) else { return Ok(false) };
    let (mut done, mut found, mut result) = (start, false, Ok(()));
    let looked = each_part(start, end, |part| {
        found = true;
        let before = std::mem::replace(&mut result, Ok(()));
        let between = if part.start > done { rest(done, part.start - done) } else { Ok(()) };
        done = part.end;
        // SAFETY: the caller's promise.
        result = before.and(between).and(unsafe { discard_part(&part) });
        Ok(())
    });
    if found && done < end {
        result = result.and(rest(done, end - done));
    }
    looked.and(result).map(|()| found)
}

/// # Safety
/// Nobody needs what is there.
unsafe fn discard_part(part: &Part) -> io::Result<()> {
    let (from, bytes) = (address(part.start), (part.end - part.start) as usize);
    if part.kind == Kind::Shared && part.rights.write {
        // SAFETY: the caller's promise.
        let given_back = object::giving_back(|| unsafe { remap::discard_mapped(from, bytes, true) });
        // It fails where a fork has made it private meanwhile.
        if given_back.is_ok() {
            return Ok(());
        }
    }
    // SAFETY: as above.
    unsafe { remap::map_zeros_over(from, bytes, part.rights) }
}

/// Makes what is exposed of `start..end`, or was, memory without a file, with the same content.
///
/// # Errors
/// What the system reports; what was made plain by then stays so.
///
/// # Safety
/// Nobody writes the memory meanwhile, and peers are not lent it for being written.
pub(super) unsafe fn make_plain(start: u64, end: u64, meanwhile: Meanwhile) -> io::Result<()> {
    if !object::has_been() {
        return Ok(());
    }
    let Some(_state) = object::state_soon() else { return Err(remap::try_again()) };
    let mut memory = None;
    each_part(start, end, |part| {
        if memory.is_none() {
            memory = Some(OwnMemory::open()?);
        }
        let memory = memory.as_ref().expect("it was just opened");
        // SAFETY: the caller's promise.
        unsafe { make_part_plain(memory, &part, meanwhile) }
    })
}

/// # Safety
/// As [`make_plain`].
unsafe fn make_part_plain(memory: &OwnMemory, part: &Part, meanwhile: Meanwhile) -> io::Result<()> {
    let bytes = (part.end - part.start) as usize;
    let copy = remap::map_private(bytes)?;
    // SAFETY: fresh memory of that length; the caller's promise for the part.
    let done = unsafe { fill(memory, part, copy).and_then(|()| replace(part, copy, meanwhile)) };
    if done.is_err() || meanwhile == Meanwhile::Untouched {
        // SAFETY: known here only; where it was moved away it is not mapped any more.
        unsafe { remap::unmap(copy, bytes) };
    }
    done
}

/// # Safety
/// `copy` is fresh memory of the length of the part.
unsafe fn fill(memory: &OwnMemory, part: &Part, copy: *mut u8) -> io::Result<()> {
    let bytes = (part.end - part.start) as usize;
    // SAFETY: the caller's promise.
    let copied = unsafe { memory.copy(part.start, copy, bytes)? };
    if copied == bytes { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// # Safety
/// As [`make_plain`]; `copy` has the content of the part.
unsafe fn replace(part: &Part, copy: *mut u8, meanwhile: Meanwhile) -> io::Result<()> {
    let (to, bytes) = (address(part.start), (part.end - part.start) as usize);
    // SAFETY: the caller's promise.
    unsafe {
        match meanwhile {
            Meanwhile::Read => {
                remap::protect(copy, bytes, part.rights)?;
                remap::move_over(copy, to, bytes)
            }
            Meanwhile::Untouched => {
                remap::map_zeros_over(to, bytes, PageRights::BOTH)?;
                std::ptr::copy_nonoverlapping(copy, to, bytes);
                match part.rights {
                    PageRights::BOTH => Ok(()),
                    rights => remap::protect(to, bytes, rights),
                }
            }
        }
    }
}

/// Keeps what is exposed of `start..end`, or was, locked, and calls `rest(start, end)` for each part in
/// between.
///
/// # Errors
/// The last of `rest`.
pub(super) fn around(
    start: u64,
    end: u64,
    mut rest: impl FnMut(u64, u64) -> io::Result<()>,
) -> io::Result<()> {
    let (mut done, mut result) = (start, Ok(()));
    // Where the kernel does not say, nothing is exposed.
    let _ = each_part(start, end, |part| {
        if part.start > done {
            result = rest(done, part.start);
        }
        done = part.end;
        Ok(())
    });
    if done < end {
        result = rest(done, end);
    }
    result
}

/// Locks all that is exposed, or was.
pub(super) fn lock_all() {
    // Best effort, as when it was exposed.
    let _ = each_part(0, u64::MAX, |part| {
        let _ = remap::lock(address(part.start), (part.end - part.start) as usize);
        Ok(())
    });
}

fn address(address: u64) -> *mut u8 {
    std::ptr::without_provenance_mut(address as usize)
}

/// Returns the pages of `bytes` bytes from `start`: from the first to behind the last. `None` if they do not
/// begin on a page, which the kernel refuses.
pub(super) fn pages_of(start: u64, bytes: u64) -> Option<(u64, u64)> {
    let end = start.checked_add(bytes)?.checked_next_multiple_of(PAGE_BYTES)?;
    start.is_multiple_of(PAGE_BYTES).then_some((start, end))
}
