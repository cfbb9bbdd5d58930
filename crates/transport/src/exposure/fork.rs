//! Handling of fork: the child gets exposed memory as it was, private, at the same addresses.
//!
//! Mappings of the object are not inherited (MADV_DONTFORK). Before a fork they are made private in place:
//! the same pages of the object, mapped private (MAP_PRIVATE) in the parent. Then the kernel does the same as
//! at every fork: both processes see the content, and each gets a page of its own when it writes one. The
//! object is retired at the same time ([`object::retire`]). Parent and child share its pages, so no process
//! stores into it any more. The pages are freed when the last process has unmapped them. Buffers that are
//! used again are exposed again, in a new object. A fork costs one system call a mapping, and no copy.
//!
//! Peers that read exposed memory go on reading the retired object, which contains what the owner has
//! exposed: the owner does not write that memory until the exposure ends. Memory that peers may write cannot
//! be retired, since the owner would not see their stores. While there is such an exposure (an operation of
//! another thread, a window), or a device has registered memory, mappings stay. Each is copied to fresh
//! private memory, which the child moves to the address and the parent drops. Other threads of the parent go
//! on writing the original meanwhile.
//!
//! vfork, posix_spawn and exec share or leave the address space and need nothing. The handlers run around
//! `fork` by pthread_atfork, and around other calls that create children by [`super::calls`].
//!
//! # Safety
//! The lock of the account is held from before the fork until after it, in parent and child, so no conversion
//! is under way in between. Its holders never fork, never wait for other threads and take no lock except the
//! allocator's. The C library takes that lock for a fork after it has called the handlers: the same order.
//! Nothing is allocated or freed here.

#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use tutti_sys::maps::Area;
use tutti_sys::remap::{self, OwnMemory, PageRights};
use tutti_sys::{device, this_process};

use super::loans::Gate;
use super::object::{self, Locked, Object, State};
use super::refusal::PrivateReason;

/// Mappings that a fork carries over as copies.
const COPIES: usize = 16 << 10;

/// Loans of this process for being written.
pub(super) static GATE: Gate = Gate::new();
/// True if pages of the object were registered with a device by this library.
static HAS_REGISTERED: AtomicBool = AtomicBool::new(false);

/// A copy of a mapping.
#[derive(Clone, Copy)]
struct Copy {
    from: *mut u8,
    to: *mut u8,
    bytes: usize,
    rights: PageRights,
}

/// A fork under way: from the handler before it to the one after it.
struct UnderWay {
    state: Option<Locked>,
    /// Room for [`COPIES`].
    copies: *mut Copy,
    count: usize,
}

struct Shared(UnsafeCell<UnderWay>);

// SAFETY: only used by the thread that holds the lock of the account.
unsafe impl Sync for Shared {}

static UNDER_WAY: Shared =
    Shared(UnsafeCell::new(UnderWay { state: None, copies: std::ptr::null_mut(), count: 0 }));

/// Has the handlers called at every fork of this process.
pub(super) fn install() -> Result<(), PrivateReason> {
    static ONCE: Once = Once::new();
    static FAILED: AtomicBool = AtomicBool::new(false);
    ONCE.call_once(|| {
        // SAFETY: as the module says.
        let installed = unsafe { remap::at_fork(before, parent, child) };
        FAILED.store(installed.is_err(), Ordering::Relaxed);
    });
    if FAILED.load(Ordering::Relaxed) { Err(PrivateReason::System) } else { Ok(()) }
}

/// Notes that a device holds pages of the object: they must stay this process's.
pub(super) fn note_registration() {
    HAS_REGISTERED.store(true, Ordering::Relaxed);
}

/// The handler before a fork.
pub(super) unsafe extern "C" fn before() {
    let mut state = object::state();
    // SAFETY: the lock is held.
    let under_way = unsafe { &mut *UNDER_WAY.0.get() };
    if let Some(object) = object::existing()
        && !make_all_private(object, &mut state)
    {
        under_way.copy_all(object, &state);
    }
    under_way.state = Some(state);
}

/// The handler after a fork, in the parent.
pub(super) unsafe extern "C" fn parent() {
    // SAFETY: the lock is held, by this thread since `before`.
    let under_way = unsafe { &mut *UNDER_WAY.0.get() };
    for copy in under_way.finish() {
        // SAFETY: the copy is used by nobody here.
        unsafe { remap::unmap(copy.from, copy.bytes) };
    }
    under_way.release_room();
    drop(under_way.state.take());
}

/// The handler after a fork, in the child.
pub(super) unsafe extern "C" fn child() {
    // SAFETY: the lock is held, by this thread since `before`; the child has no other.
    let under_way = unsafe { &mut *UNDER_WAY.0.get() };
    for copy in under_way.finish() {
        // SAFETY: nothing is mapped at the target, since the mapping was not inherited.
        let moved = unsafe {
            remap::move_over(copy.from, copy.to, copy.bytes).and_then(|()| match copy.rights {
                PageRights::BOTH => Ok(()),
                rights => remap::protect(copy.to, copy.bytes, rights),
            })
        };
        if moved.is_err() {
            complain();
        }
    }
    under_way.release_room();
    GATE.forget();
    if let Some(mut state) = under_way.state.take() {
        object::forget(&mut state);
    }
}

fn complain() {
    this_process::say(
        "Tutti: fork: no memory for a copy of mapped buffers, which the child lacks (TUTTI_MAPPED=never helps)\n",
    );
}

/// Access rights of an area.
pub(super) fn rights(area: &Area) -> PageRights {
    PageRights { read: area.readable, write: area.writable, execute: area.executable }
}

/// Makes all mappings of the object private in place and retires it; false if that is not possible, and
/// nothing was done.
fn make_all_private(object: &Object, state: &mut State) -> bool {
    let is_held = || HAS_REGISTERED.load(Ordering::Relaxed) || device::knows_driver();
    let is_pinned = || this_process::held_memory().is_none_or(|held| held.pinned > 0);
    if is_held() || is_pinned() || !object.is_intact() || !GATE.close() {
        return false;
    }
    let (mut done, mut failed) = (0, 0);
    each_mapping(object, state, |start, bytes, offset, rights| {
        // What has failed once is out of memory.
        if failed == 0 && make_private(object, (start, bytes), offset, rights, state.locked_bytes > 0) {
            done += 1;
        } else {
            failed += 1;
        }
    });
    if done > 0 {
        object::retire(state, object);
    }
    GATE.open();
    if done > 0 && failed > 0 {
        complain();
    }
    done > 0 || failed == 0
}

fn make_private(
    object: &Object,
    (start, bytes): (u64, u64),
    offset: u64,
    rights: PageRights,
    lock: bool,
) -> bool {
    let to: *mut u8 = std::ptr::without_provenance_mut(start as usize);
    // SAFETY: a mapping of these bytes of the object, as the kernel has just said, or a block of them.
    let mapped = unsafe { remap::map_private_over(object.fd(), offset, (to, bytes as usize), rights) };
    if lock {
        // Best effort: a call that discards, and passes by this library, is refused.
        let _ = remap::lock(to, bytes as usize);
    }
    mapped.is_ok()
}

/// Calls `work` with the address, the bytes, the offset and the rights of each mapping of the object.
fn each_mapping(object: &Object, state: &State, mut work: impl FnMut(u64, u64, u64, PageRights)) {
    let Some(maps) = object.maps else {
        // Without the kernel's account only the library's own blocks are shared, and they stay where they
        // are.
        for block in &state.blocks {
            work(block.start, block.bytes, block.offset, PageRights::BOTH);
        }
        return;
    };
    let mut at = 0;
    while let Ok(Some(area)) = maps.shared_from(at) {
        at = area.end;
        // Peers' objects and other shared files are inherited or not as whoever mapped them wished.
        if object.is_mapped_in(&area) {
            work(area.start, area.end - area.start, area.offset, rights(&area));
        }
    }
}

impl UnderWay {
    fn copy_all(&mut self, object: &Object, state: &State) {
        self.count = 0;
        let Ok(room) = remap::map_private(COPIES * size_of::<Copy>()) else { return complain() };
        self.copies = room.cast();
        // The content of the object is the faster way, and cannot be had if its descriptor is lost.
        let is_intact = object.is_intact();
        let Ok(memory) = OwnMemory::open() else { return complain() };
        each_mapping(object, state, |start, bytes, offset, rights| {
            self.copy((start, bytes), rights, |into| {
                // SAFETY: `copy` passes fresh memory of that length.
                unsafe {
                    match is_intact {
                        true => remap::load(object.number(), offset, into, bytes as usize),
                        false => memory.copy(start, into, bytes as usize),
                    }
                }
            });
        });
    }

    /// Copies a mapping, whose pages may be protected, by `load`.
    fn copy(
        &mut self,
        (start, bytes): (u64, u64),
        rights: PageRights,
        load: impl FnOnce(*mut u8) -> std::io::Result<usize>,
    ) {
        let Some(from) = (self.count < COPIES).then(|| remap::map_private(bytes as usize).ok()).flatten()
        else {
            return complain();
        };
        if !matches!(load(from), Ok(whole) if whole as u64 == bytes) {
            complain();
        }
        let to = std::ptr::without_provenance_mut(start as usize);
        // SAFETY: there is room for as many.
        unsafe { self.copies.add(self.count).write(Copy { from, to, bytes: bytes as usize, rights }) };
        self.count += 1;
    }

    /// Returns the copies, each once.
    fn finish(&mut self) -> impl Iterator<Item = Copy> + use<> {
        let (copies, count) = (self.copies, std::mem::take(&mut self.count));
        // SAFETY: so many were written; the room is released after they were read.
        (0..count).map(move |index| unsafe { copies.add(index).read() })
    }

    fn release_room(&mut self) {
        let room = std::mem::replace(&mut self.copies, std::ptr::null_mut());
        if !room.is_null() {
            // SAFETY: made in `copy_all`, used no more.
            unsafe { remap::unmap(room.cast(), COPIES * size_of::<Copy>()) };
        }
    }
}
