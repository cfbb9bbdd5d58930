//! Making private memory shared in place: the whole pages of a buffer move into the object of this process.
//!
//! # Why this is safe
//! *Writes during a conversion.* A buffer is converted inside an MPI call to which the program has
//! lent it: until the operation ends nobody may write it, except the operation itself (MPI-5 sections 2.4.2,
//! 3.7, 6.2). Only pages that lie in the buffer as a whole are moved, so nothing else is on them; the partial
//! pages at both ends stay. Hence between the copy of a page and its replacement nobody writes it:
//! - not the program, on any thread, by that rule;
//! - not a peer in this operation, which has not seen the record yet;
//! - not a peer in another operation under way (process_vm_writev, or a store to an earlier region): that
//!   operation would have been lent the same bytes for writing, and overlapping buffers of pending operations
//!   may only be read.
//!
//! *Gaps between entries.* The gaps of a buffer given by counts and displacements were not lent. They
//! move with it only where nobody else can write them at that moment: this process has one thread (kernel
//! threads that work for it count), which has blocked all signals; nothing else of it is lent; and it has no
//! io_uring or context of aio whose completion might write them.
//!
//! *Reads during a conversion.* Threads of the program may read the buffer, and so may peers in other
//! operations that only read, by address. The replacement is one mremap: a thread that touches the addresses
//! meanwhile waits for it in the page fault, and finds the same content.
//!
//! *Growth.* A buffer that has grown since it was converted grows in the object too. The new part goes behind
//! the converted one, if nothing ever was at that place ([`super::object::State::is_unused`]). In other cases
//! pages that are mapped already (an overlap with a buffer converted before) are moved, and regions are given
//! back, only while nothing of this process is exposed: no peer has a window then.
//!
//! *Effects on the program.* Calls that treat shared memory differently from private memory are redirected to
//! this library, which performs them as on private memory ([`super::calls`]). In addition, the pages are
//! locked (mlock2 with ONFAULT). The kernel then refuses all discarding with an error (EINVAL), as for any
//! locked memory. Hence a system call that code makes without the C library does not fail silently. If
//! RLIMIT_MEMLOCK is too low, only memory of the C library's own malloc is converted. It discards free memory
//! only (malloc_trim, the tops of thread arenas) and clears for calloc whatever it has had in use before.
//! Memory with attributes of its own is refused. A hint for huge pages is set anew; the name of an anonymous
//! mapping is lost.
//!
//! Unmapping, splitting and protecting need no handling: nothing here relies on the earlier location of the
//! memory (`object`).
//!
//! *Failures.* Everything that can fail is done before the replacement. A failed replacement is repeated in
//! another way. If that fails too, the process ends, for its memory is gone (the kernel has no room for one
//! more mapping).
//!
//! # Safety
//! As above.

#![allow(unsafe_code)]

use tutti_sys::maps::{Area, Maps};
use tutti_sys::signal::Mask;
use tutti_sys::{device, remap, this_process, userfault};

use super::calls;
use super::object::{HUGE_BYTES, MAPPING_NAME, Object, state, threads};
use super::record::PAGE_BYTES;
use super::refusal::PrivateReason;

/// Bytes that are moved at once: the memory that a conversion needs in addition, and a whole huge page.
const PIECE_BYTES: u64 = HUGE_BYTES;
/// Mappings that a buffer may consist of before its conversion; afterwards it is one.
const AREAS: usize = 4096;
/// Number of pages whose NUMA node is checked.
const SAMPLES: u64 = 16;

/// Limits of conversions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Fewest bytes in whole pages.
    pub(super) at_least: u64,
    /// Most bytes of all regions together.
    pub(super) limit: u64,
    /// True if no peer uses any region, so that memory which the program has unmapped may be given back.
    pub(super) idle: bool,
    /// True if some of the bytes lie in gaps that were not lent.
    pub(super) gaps: bool,
    /// False in tests that behave as if pages could not be locked.
    pub(super) lock: bool,
}

/// Makes the whole pages of a buffer shared; returns how many bytes that are.
///
/// # Safety
/// The buffer is valid memory, lent by an MPI call of this thread.
pub(super) unsafe fn convert(
    object: &Object,
    address: u64,
    bytes: u64,
    bounds: Bounds,
) -> Result<u64, PrivateReason> {
    let start = address.next_multiple_of(PAGE_BYTES);
    let end = (address + bytes) / PAGE_BYTES * PAGE_BYTES;
    // Neither is it worth a mapping of which most uses do not profit.
    if end <= start || end - start < bounds.at_least || (end - start) * 2 < bytes {
        return Err(PrivateReason::TooSmall);
    }
    check_program(start, end)?;
    let mut state = state();
    check_object(object)?;
    let maps = object.maps.ok_or(PrivateReason::NoQuery)?;
    let grown = end_of_mapped(object, maps, start, end)
        .filter(|&(from, offset)| state.is_unused(object, offset, end - from));
    let from = grown.map_or(start, |(from, _)| from);
    check_areas(object, maps, from, end, bounds.idle)?;
    // Until the pages have moved; see the module.
    let _alone = if bounds.gaps { Some(Alone::new(bounds.idle)?) } else { None };
    // Memory that the program has locked must stay locked.
    let locked_by_program = check_process()? > state.locked_bytes;
    let in_malloc = object.plain_malloc && !locked_by_program && is_from_malloc(maps, address, start, from);
    check_device(from, end)?;
    check_nodes(from, end)?;
    let bytes = end - from;
    if state.live_bytes + bytes > bounds.limit && bounds.idle {
        state.sweep(object);
    }
    if state.live_bytes + bytes > bounds.limit {
        return Err(PrivateReason::Limit);
    }
    let offset = match grown {
        Some((_, offset)) => {
            state.extend(offset, bytes);
            offset
        }
        None => state.take_slot(start, bytes)?,
    };
    // SAFETY: checked above: private or own memory, whole pages of a lent buffer.
    let moved = unsafe { move_in(object, from, bytes, offset, in_malloc, bounds.lock) };
    if moved.is_ok() {
        state.locked_bytes += bytes;
    }
    match moved {
        Ok(()) => Ok(bytes),
        Err((0, refusal)) => {
            match grown {
                Some(_) => state.retract(object, offset, bytes),
                None => state.free_slot(object, offset, bytes),
            }
            Err(refusal)
        }
        // The first part is shared, the rest is as it was; both are right.
        Err((part, _)) => {
            state.live_bytes -= bytes - part;
            Ok(part)
        }
    }
}

/// Checks that calls of the program that concern the memory are intercepted, and that it has no attribute
/// that it would lose.
fn check_program(start: u64, end: u64) -> Result<(), PrivateReason> {
    match () {
        () if tutti_sys::calls::are_made_past_this() => Err(PrivateReason::OwnCalls),
        () if calls::is_special(start, end) => Err(PrivateReason::Special),
        () => Ok(()),
    }
}

/// Checks that memory can be moved to the object, under the lock of the account.
fn check_object(object: &Object) -> Result<(), PrivateReason> {
    match () {
        // A fork in another thread has retired it.
        () if !object.is_current() && object.is_own() => Err(PrivateReason::Busy),
        () if !object.is_current() => Err(PrivateReason::Forked),
        // A file of the program in its place would be written.
        () if !object.is_intact() => Err(PrivateReason::NoObject),
        () => Ok(()),
    }
}

/// Finds the private end of a buffer that has grown since it was converted. Returns the address where it
/// begins and the offset in the object directly behind the converted part.
fn end_of_mapped(object: &Object, maps: &Maps, start: u64, end: u64) -> Option<(u64, u64)> {
    let place = object.find(start, end - start, true)?;
    let from = place.end;
    let grown = place.start == start && from < end && from.is_multiple_of(PAGE_BYTES);
    let private = || maps.shared_from(from).is_ok_and(|area| area.is_none_or(|area| area.start >= end));
    (grown && private()).then(|| (from, place.offset + (from - start)))
}

/// Proof that the calling thread is the only one of this process and is not interrupted.
struct Alone {
    signals: Mask,
}

impl Alone {
    fn new(idle: bool) -> Result<Alone, PrivateReason> {
        const LAST_SIGNAL: i32 = 64;
        let maps = std::fs::read_to_string("/proc/self/maps").map_err(|_| PrivateReason::System)?;
        let ring = |_, target: &str| target.contains("io_uring");
        if !idle || threads() != 1 || maps.contains("/[aio]") || has_descriptor(ring)? {
            return Err(PrivateReason::Gaps);
        }
        Ok(Alone { signals: Mask::from_signals(&(1..=LAST_SIGNAL).collect::<Vec<_>>()).block() })
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        self.signals.install();
    }
}

/// Returns true if this process has a descriptor of that kind.
fn has_descriptor(kind: impl Fn(i32, &str) -> bool) -> Result<bool, PrivateReason> {
    let descriptors = std::fs::read_dir("/proc/self/fd").map_err(|_| PrivateReason::System)?;
    let is = |entry: std::fs::DirEntry| {
        let target = std::fs::read_link(entry.path());
        let fd = entry.file_name().to_str().and_then(|number| number.parse().ok()).unwrap_or(-1);
        target.is_ok_and(|target| target.to_str().is_some_and(|target| kind(fd, target)))
    };
    Ok(descriptors.flatten().any(is))
}

/// # Errors
/// How many bytes were moved, and why no more.
///
/// # Safety
/// As [`convert`]; the pages may be moved.
unsafe fn move_in(
    object: &Object,
    start: u64,
    bytes: u64,
    offset: u64,
    in_malloc: bool,
    lock: bool,
) -> Result<(), (u64, PrivateReason)> {
    let target: *mut u8 = std::ptr::without_provenance_mut(start as usize);
    let huge = bytes >= HUGE_BYTES && remap::has_huge_pages(target, bytes as usize);
    let alias = remap::map(object.fd(), offset, bytes as usize).map_err(|_| (0, PrivateReason::System))?;
    let locked = lock && remap::lock(alias, bytes as usize).is_ok();
    let mut done = 0;
    let mut result = Ok(());
    if !locked && !in_malloc {
        result = Err((0, PrivateReason::Unlockable));
    }
    while result.is_ok() && done < bytes {
        let piece = (bytes - done).min(PIECE_BYTES - (start + done) % PIECE_BYTES);
        // SAFETY: the caller's promise; pieces lie inside the buffer and the alias.
        let moved = unsafe {
            move_piece(object, target.add(done as usize), alias.add(done as usize), offset + done, piece)
        };
        match moved {
            Ok(()) => done += piece,
            Err(refusal) => result = Err((done, refusal)),
        }
    }
    if done < bytes {
        // SAFETY: the part of the alias that was not moved; nobody else knows it.
        unsafe { remap::unmap(alias.add(done as usize), (bytes - done) as usize) };
    }
    if huge {
        remap::collapse(target, done as usize);
    }
    result
}

/// # Safety
/// As [`move_in`]: `alias` maps the object at `offset`.
unsafe fn move_piece(
    object: &Object,
    target: *mut u8,
    alias: *mut u8,
    offset: u64,
    bytes: u64,
) -> Result<(), PrivateReason> {
    let length = bytes as usize;
    // Where files have a limit, a write beyond it would end the program (SIGXFSZ), whatever the file.
    let stored = match this_process::file_limit() {
        // SAFETY: readable memory, as the areas showed.
        None => unsafe { remap::store(object.fd(), offset, target, length) },
        Some(_) => remap::OwnMemory::open().and_then(|memory| {
            // SAFETY: the alias is as long, and known to nobody.
            unsafe { memory.copy(target as u64, alias, length) }
        }),
    };
    if !stored.is_ok_and(|stored| stored == length) {
        return Err(PrivateReason::System);
    }
    remap::populate(alias, length);
    // SAFETY: the alias is known to nobody; the target's content is stored, and nobody writes it (module).
    if unsafe { remap::move_over(alias, target, length) }.is_ok() {
        return Ok(());
    }
    // The kernel may have unmapped the target before it failed. The alias may be there still, or not.
    // SAFETY: as before.
    if unsafe { remap::map_over(object.fd(), offset, target, length) }.is_err() {
        tutti_sys::this_process::say(
            "Tutti: out of memory mappings while a buffer was mapped; the job cannot go on\n",
        );
        std::process::abort();
    }
    // SAFETY: nobody knows the alias.
    unsafe { remap::unmap(alias, length) };
    Ok(())
}

/// Checks that all of `start..end` is private anonymous memory that may be moved, or in the object already.
fn check_areas(object: &Object, maps: &Maps, start: u64, end: u64, idle: bool) -> Result<(), PrivateReason> {
    let on_stack = 0u8;
    let stack = &raw const on_stack as u64;
    let mut at = start;
    for _ in 0..AREAS {
        let (area, name) =
            maps.named_at(at).map_err(|_| PrivateReason::System)?.ok_or(PrivateReason::NotMapped)?;
        check_area(object, &area, &name, stack)?;
        if area.shared && !idle {
            return Err(PrivateReason::Busy);
        }
        at = area.end;
        if at >= end {
            return Ok(());
        }
    }
    Err(PrivateReason::Fragmented)
}

fn check_area(object: &Object, area: &Area, name: &str, stack: u64) -> Result<(), PrivateReason> {
    // Of an earlier object, private since a fork.
    let is_kept = !area.shared && name.as_bytes() == MAPPING_NAME;
    let own = object.is_mapped_in(area) || is_kept;
    match () {
        () if (area.start..area.end).contains(&stack) || name.starts_with("[stack") => {
            Err(PrivateReason::Stack)
        }
        () if area.page_bytes != PAGE_BYTES => Err(PrivateReason::HugeTlb),
        () if area.shared && !own => Err(PrivateReason::Shared),
        () if area.inode != 0 && !own => Err(PrivateReason::FileBacked),
        () if !area.readable || !area.writable || area.executable => Err(PrivateReason::Protected),
        () if own || name.is_empty() || name == "[heap]" || name.starts_with("[anon:") => Ok(()),
        () => Err(PrivateReason::Special),
    }
}

/// Checks that nothing in this process may hold on to pages that are about to be replaced. Returns how many
/// bytes are locked.
fn check_process() -> Result<u64, PrivateReason> {
    let held = this_process::held_memory().ok_or(PrivateReason::System)?;
    if held.pinned > 0 {
        return Err(PrivateReason::Pinned);
    }
    if has_descriptor(|fd, target| target == "anon_inode:[userfaultfd]" && !userfault::is_watcher(fd))? {
        return Err(PrivateReason::Userfault);
    }
    Ok(held.locked)
}

/// Checks that no device driver knows some of the memory and holds on to its pages.
fn check_device(start: u64, end: u64) -> Result<(), PrivateReason> {
    let is_known = |address: u64| device::kind(address) != device::MemoryKind::Unknown;
    let step = ((end - start) / SAMPLES).next_multiple_of(PAGE_BYTES).max(PAGE_BYTES) as usize;
    let is_held = device::has_driver() && (start..end).step_by(step).any(is_known);
    if is_held { Err(PrivateReason::Pinned) } else { Ok(()) }
}

/// Checks that the pages are on the node of this thread, where new ones would be.
fn check_nodes(start: u64, end: u64) -> Result<(), PrivateReason> {
    if !std::path::Path::new("/sys/devices/system/node/node1").exists() {
        return Ok(());
    }
    let fresh = 0u8;
    let here = remap::node_of(&raw const fresh as u64);
    let step = ((end - start) / SAMPLES).next_multiple_of(PAGE_BYTES).max(PAGE_BYTES);
    let elsewhere = |address: u64| {
        let node = remap::node_of(address);
        node.is_some() && node != here
    };
    if (start..end).step_by(step as usize).any(elsewhere) { Err(PrivateReason::Spread) } else { Ok(()) }
}

/// Returns true if the C library's malloc is known to have given this memory: it is in its main heap, or has
/// the header of a block that it maps by itself. What is before `from` may be mapped already.
fn is_from_malloc(maps: &Maps, address: u64, start: u64, from: u64) -> bool {
    const HEADER_BYTES: u64 = 16;
    const MAPPED: u64 = 2;
    let Ok(Some((area, name))) = maps.named_at(from) else { return false };
    if name == "[heap]" {
        return true;
    }
    let in_one_piece = from > start || address - HEADER_BYTES >= area.start;
    if address % PAGE_BYTES != HEADER_BYTES || !in_one_piece {
        return false;
    }
    let header: *const u64 = std::ptr::without_provenance((address - 8) as usize);
    // SAFETY: on the same page as the buffer's first byte, which is readable.
    let size = unsafe { header.read_volatile() };
    let whole = size & !7;
    size & 7 == MAPPED
        && whole.is_multiple_of(PAGE_BYTES)
        && (start..=area.end).contains(&(address - HEADER_BYTES + whole))
}
