//! fork: the child gets the mapped memory as it was, private, at the same addresses.
//!
//! Mappings of the object are not inherited (MADV_DONTFORK). Before a fork each of them is copied to fresh private memory,
//! which is; the child moves the copy to the address, the parent drops it. So the child has the content as it was
//! at the fork, neither sees what the other writes later, and what other threads of the parent write meanwhile is not
//! lost, since they go on writing the original. vfork, posix_spawn and exec share or leave the address space and need
//! nothing. A child of a bare clone system call, which runs no handlers, has no memory at those addresses and faults at
//! the first touch: loud, not wrong.
//!
//! The cost is a copy of at most TUTTI_MAPPED_LIMIT bytes at each fork.
//!
//! # Safety
//! The lock of the account is held from before the fork until after it, in parent and child, so no conversion is under
//! way in between. Its holders never fork, never wait for other threads and take no lock but the allocator's, which the C
//! library takes for a fork after it has called the handlers: the same order. In the child nothing is allocated or
//! freed.

#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{MutexGuard, Once};

use tutti_sys::maps::Area;
use tutti_sys::remap;

use super::object::{self, Object, State};
use super::refusal::Refusal;

/// Mappings that a fork carries over.
const COPIES: usize = 16 << 10;

/// A copy of a mapping.
#[derive(Clone, Copy)]
struct Copy {
    from: *mut u8,
    to: *mut u8,
    bytes: usize,
    readable: bool,
    writable: bool,
    executable: bool,
}

/// A fork under way: from the handler before it to the one after it.
struct UnderWay {
    state: Option<MutexGuard<'static, State>>,
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
pub(super) fn install() -> Result<(), Refusal> {
    static ONCE: Once = Once::new();
    static FAILED: AtomicBool = AtomicBool::new(false);
    ONCE.call_once(|| {
        // SAFETY: as the module says.
        let installed = unsafe { remap::at_fork(before, parent, child) };
        FAILED.store(installed.is_err(), Ordering::Relaxed);
    });
    if FAILED.load(Ordering::Relaxed) { Err(Refusal::System) } else { Ok(()) }
}

unsafe extern "C" fn before() {
    let state = object::state();
    // SAFETY: the lock is held.
    let under_way = unsafe { &mut *UNDER_WAY.0.get() };
    if let Some(object) = object::existing() {
        under_way.copy_all(object, &state);
    }
    under_way.state = Some(state);
}

unsafe extern "C" fn parent() {
    // SAFETY: the lock is held, by this thread since `before`.
    let under_way = unsafe { &mut *UNDER_WAY.0.get() };
    for copy in under_way.finish() {
        // SAFETY: the copy is used by nobody here.
        unsafe { remap::unmap(copy.from, copy.bytes) };
    }
    under_way.release_room();
    drop(under_way.state.take());
}

unsafe extern "C" fn child() {
    // SAFETY: the lock is held, by this thread since `before`; the child has no other.
    let under_way = unsafe { &mut *UNDER_WAY.0.get() };
    for copy in under_way.finish() {
        // SAFETY: nothing is mapped at the target, since the mapping was not inherited.
        let moved = unsafe {
            remap::move_over(copy.from, copy.to, copy.bytes).and_then(|()| {
                if copy.readable && copy.writable && !copy.executable {
                    return Ok(());
                }
                remap::protect(copy.to, copy.bytes, copy.readable, copy.writable, copy.executable)
            })
        };
        if moved.is_err() {
            complain();
        }
    }
    under_way.release_room();
    if let Some(mut state) = under_way.state.take() {
        object::forget(&mut state);
    }
}

fn complain() {
    tutti_sys::this_process::say(
        "Tutti: fork: no memory for a copy of mapped buffers, which the child lacks (TUTTI_MAPPED=never helps)\n",
    );
}

impl UnderWay {
    fn copy_all(&mut self, object: &Object, state: &State) {
        self.count = 0;
        let Ok(room) = remap::map_private(COPIES * size_of::<Copy>()) else { return complain() };
        self.copies = room.cast();
        let Some(maps) = object.maps.as_ref() else {
            // Without the kernel's account only the library's own blocks are shared, and they stay where they are.
            for block in &state.blocks {
                self.copy(object, block.start, block.bytes, block.offset, None);
            }
            return;
        };
        let mut at = 0;
        while let Ok(Some(area)) = maps.shared_from(at) {
            at = area.end;
            // Peers' objects and other shared files are inherited or not as whoever mapped them wished.
            if object.is_mapped_in(&area) {
                self.copy(object, area.start, area.end - area.start, area.offset, Some(&area));
            }
        }
    }

    /// Copies a mapping by its content in the object: its pages may be protected.
    fn copy(&mut self, object: &Object, start: u64, bytes: u64, offset: u64, area: Option<&Area>) {
        let Some(from) = (self.count < COPIES).then(|| remap::map_private(bytes as usize).ok()).flatten()
        else {
            return complain();
        };
        // SAFETY: fresh memory of that length.
        let loaded = unsafe { remap::load(object.number(), offset, from, bytes as usize) };
        if !matches!(loaded, Ok(whole) if whole as u64 == bytes) {
            complain();
        }
        let allowed = |may: fn(&Area) -> bool, otherwise: bool| area.map_or(otherwise, may);
        let copy = Copy {
            from,
            to: std::ptr::without_provenance_mut(start as usize),
            bytes: bytes as usize,
            readable: allowed(|area| area.readable, true),
            writable: allowed(|area| area.writable, true),
            executable: allowed(|area| area.executable, false),
        };
        // SAFETY: there is room for as many.
        unsafe { self.copies.add(self.count).write(copy) };
        self.count += 1;
    }

    /// The copies, each once.
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
