//! The one shared object of a process, which holds all its mapped memory, and the account of what is in it.
//!
//! The object is a memfd of 2^62 bytes, without pages but those in use. It is divided into slots of 2^47
//! bytes, as much as a process can address: whatever the program does to a mapping (mremap may grow it over
//! the file beyond what was moved there), it can never reach another slot, and what it grows into reads as
//! zero, as grown private memory would.
//!
//! Nothing here says where in this process a slot is mapped. The program may unmap, move, split and protect
//! its memory as it likes; the kernel is asked at every use ([`Object::find`]), or tells of changes
//! ([`super::known`]).
//!
//! An object is retired when a process forks ([`super::fork`]): what it holds belongs to parent and child as
//! it was, so nobody stores into it any more. What is converted afterwards goes to a new object.
//!
//! # Safety
//! Pages are given back ([`State::sweep`]) only where no mapping of this process shows them any more and no
//! peer uses them. Mappings are found by walking the address space upwards, in several system calls; one that
//! another thread moves downwards meanwhile (mremap) may be missed, so in a process with several threads a
//! range counts as gone only if two walks, apart in time, have both missed it, and it existed at the first.

#![allow(unsafe_code)]

use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use tutti_sys::kept;
use tutti_sys::maps::{Area, Maps};
use tutti_sys::signal::Mask;
use tutti_sys::{memory, remap, this_process, userfault};

use super::fork;
use super::record::PAGE_BYTES;
use super::refusal::PrivateReason;

/// Bytes of a slot: all that a process can address.
const SLOT_SHIFT: u32 = 47;
const OBJECT_BYTES: u64 = 1 << 62;
/// Slots in use at most: each is a mapping of this process and may part another one in two, of which a
/// process may have 65530 by default (vm.max_map_count).
const SLOTS: usize = 8192;
/// The size of a huge page: offsets agree with addresses modulo this, so that pages can be put together.
pub(super) const HUGE_BYTES: u64 = 2 << 20;
/// Mappings that one buffer may consist of and still be found: more make it slower than they help.
const AREAS: usize = 16;
/// Time between two walks that both have to miss a range before it is given back.
const WALKS_APART: Duration = Duration::from_millis(20);

/// Name of the mappings of all objects of this kind, as the kernel has it.
pub(super) const MAPPING_NAME: &[u8] = b"/memfd:tutti-mapped (deleted)";
/// Most steps that a call of the program waits for the account, and their length.
const PATIENCE: u32 = 1000;
const STEP: Duration = Duration::from_millis(1);

/// The object. One a process at a time; made at the first use. Its description is never destroyed.
#[derive(Debug)]
pub(super) struct Object {
    /// Closed (-1) once the object is retired. Used under the lock of the account.
    fd: AtomicI32,
    /// The process that made it.
    pid: u32,
    identity: (u64, (u32, u32)),
    pub(super) maps: Option<&'static Maps>,
    /// True if malloc is the C library's.
    pub(super) plain_malloc: bool,
}

/// Memory that the library made shared from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) start: u64,
    pub(super) bytes: u64,
    pub(super) offset: u64,
    /// Key of the object that holds the block ([`Object::key`]).
    pub(super) object: usize,
}

/// Contents of the object.
#[derive(Debug)]
pub(super) struct State {
    slots: Vec<Slot>,
    /// Bytes in use as far as known. Memory that the program has unmapped since the last sweep is included.
    pub(super) live_bytes: u64,
    /// Bytes that were ever locked for being mapped.
    pub(super) locked_bytes: u64,
    pub(super) blocks: Vec<Block>,
    /// Ranges of the object that the last walk found mapped, followed by the time of that walk.
    seen: Vec<(u64, u64)>,
    walked: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Bytes from its beginning that may hold pages; 0: free.
    extent: u64,
    born: Instant,
}

/// Location of exposed memory in the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ObjectRange {
    /// First address, and one past the last, that are mapped from the object without a break.
    pub(super) start: u64,
    pub(super) end: u64,
    /// Offset of `start` in the object.
    pub(super) offset: u64,
    /// The mapping that contains it, which a peer should map as a whole: offset and length in the object.
    pub(super) map_offset: u64,
    pub(super) map_bytes: u64,
}

/// Number of times that pages of the object were given back. A holder of pages (a registration) compares it
/// to detect that.
static GIVEN_BACK: AtomicU64 = AtomicU64::new(0);
static OBJECT: AtomicPtr<Object> = AtomicPtr::new(std::ptr::null_mut());
static STATE: Mutex<State> = Mutex::new(State::NEW);
/// True if this process, or an ancestor of it, has ever had an object.
static HAS_BEEN: AtomicBool = AtomicBool::new(false);

/// Guard of the locked state. Signals are blocked meanwhile, so that a handler may fork.
pub(super) struct Locked {
    // Dropped before the signals are given back.
    state: MutexGuard<'static, State>,
    _signals: Blocked,
}

/// Guard that blocks signals as long as it lives.
struct Blocked(Mask);

impl Blocked {
    fn new() -> Blocked {
        Blocked(Mask::all().block())
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        self.0.install();
    }
}

impl Deref for Locked {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for Locked {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

/// Returns the locked state. A fork waits for the lock, so its holder must neither fork nor call anything
/// that might.
pub(super) fn state() -> Locked {
    let signals = Blocked::new();
    // A panic under the lock is a bug that ends the process; the state stays usable for its end.
    Locked { state: STATE.lock().unwrap_or_else(PoisonError::into_inner), _signals: signals }
}

/// Returns the locked state for a call of the program that may come from inside of its memory allocator.
/// `None` if another thread does not release it, which may itself wait for the allocator.
pub(super) fn state_soon() -> Option<Locked> {
    let signals = Blocked::new();
    for _ in 0..PATIENCE {
        match STATE.try_lock() {
            Ok(state) => return Some(Locked { state, _signals: signals }),
            Err(TryLockError::Poisoned(error)) => {
                return Some(Locked { state: error.into_inner(), _signals: signals });
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(STEP),
        }
    }
    None
}

/// Returns true if some memory of this process may be mapped from an object.
#[inline]
pub(super) fn has_been() -> bool {
    HAS_BEEN.load(Ordering::Relaxed)
}

/// Returns the object of this process, if there is one already.
pub(super) fn existing() -> Option<&'static Object> {
    // SAFETY: null, or an object that is never destroyed.
    unsafe { OBJECT.load(Ordering::Acquire).as_ref() }
}

/// Pages of the object at a range of addresses. The addresses show the same pages as long as this value is
/// equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pages {
    /// Offset in the object that address 0 would have if it were part of the mapping.
    pub shift: u64,
    /// Number of times that pages of the object had been given back.
    pub generation: u64,
}

/// Returns the pages of this process's object that make up all of `start..end` now. `None` if any of it is
/// other memory, or cannot be read (written).
pub fn pages(start: u64, end: u64, writing: bool) -> Option<Pages> {
    let object = existing()?;
    // Before the look: what is given back after it is seen the next time.
    let generation = GIVEN_BACK.load(Ordering::Acquire);
    let (start, end) = (start / PAGE_BYTES * PAGE_BYTES, end.checked_next_multiple_of(PAGE_BYTES)?);
    let place = object.find(start, end.checked_sub(start)?, writing)?;
    let whole = place.start == start && place.end == end;
    if whole {
        fork::note_registration();
    }
    whole.then_some(Pages { shift: place.offset.wrapping_sub(start), generation })
}

/// Gives back pages of the object; they read as zero afterwards.
///
/// # Errors
/// The error of the system.
///
/// # Safety
/// Nobody needs what they hold.
pub(super) unsafe fn give_back(object: &Object, offset: u64, bytes: u64) -> std::io::Result<()> {
    if !object.is_intact() {
        // A file of the program has taken its place.
        return Err(remap::lost_descriptor());
    }
    // SAFETY: the caller's promise.
    giving_back(|| unsafe { remap::discard(object.fd(), offset, bytes) })
}

/// Counts around `work`, which gives back pages of the object.
pub(super) fn giving_back<R>(work: impl FnOnce() -> R) -> R {
    GIVEN_BACK.fetch_add(1, Ordering::AcqRel);
    let result = work();
    GIVEN_BACK.fetch_add(1, Ordering::AcqRel);
    result
}

/// Forgets the object: in a child of fork, which has none of it mapped as the parent has. The memory of its
/// account is left alone, since nothing may be freed there.
pub(super) fn forget(state: &mut State) {
    OBJECT.store(std::ptr::null_mut(), Ordering::Release);
    std::mem::forget(std::mem::replace(state, State::NEW));
}

/// Retires the object: nothing of it is mapped shared any more. Its pages live as long as somebody has them
/// mapped. Frees no memory, as a fork may come out of the allocator.
pub(super) fn retire(state: &mut State, object: &Object) {
    OBJECT.store(std::ptr::null_mut(), Ordering::Release);
    // As if all of it had been given back: whatever is registered of it is looked up anew.
    GIVEN_BACK.fetch_add(2, Ordering::AcqRel);
    state.slots.clear();
    state.blocks.clear();
    state.seen.clear();
    (state.live_bytes, state.walked) = (0, None);
    let fd = object.fd.swap(-1, Ordering::Relaxed);
    // SAFETY: the descriptor was the object's, which is the only one to have it and does not any more.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
}

impl Object {
    /// Returns the object of this process.
    ///
    /// # Errors
    /// The reason if there is none.
    pub(super) fn of_process() -> Result<&'static Object, PrivateReason> {
        if let Some(object) = existing() {
            return Ok(object);
        }
        // Before the lock is taken: a fork holds the list of its handlers while it waits for the lock.
        fork::install()?;
        let plain_malloc = remap::malloc_is_the_c_library_s();
        let _state = state();
        if let Some(object) = existing() {
            return Ok(object);
        }
        let fd = memory::create_object(c"tutti-mapped", OBJECT_BYTES).map_err(|_| PrivateReason::NoObject)?;
        let fd = this_process::out_of_the_way(fd);
        let identity = remap::identity(fd.as_fd()).map_err(|_| PrivateReason::NoObject)?;
        let (fd, pid) = (AtomicI32::new(fd.into_raw_fd()), std::process::id());
        let object = Object { fd, pid, identity, maps: maps(pid), plain_malloc };
        let object = Box::leak(Box::new(object));
        OBJECT.store(object, Ordering::Release);
        HAS_BEEN.store(true, Ordering::Release);
        Ok(object)
    }

    /// Returns a key that no other object of this process has had, also after a restart.
    pub(super) fn key(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Returns true if the process that made it is this one.
    pub(super) fn is_own(&self) -> bool {
        self.pid == std::process::id()
    }

    /// Returns true if its descriptor still stands for it: a program may have put a file of its own in its
    /// place.
    pub(super) fn is_intact(&self) -> bool {
        self.number() >= 0 && remap::identity(self.fd()).is_ok_and(|identity| identity == self.identity())
    }

    /// Returns true if this is the object of this process, not that of a parent.
    pub(super) fn is_current(&self) -> bool {
        std::ptr::eq(OBJECT.load(Ordering::Relaxed), self)
    }

    /// Returns the descriptor. The object is current, and the caller holds the lock of the account.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: it is closed only under the lock, when the object is retired.
        unsafe { BorrowedFd::borrow_raw(self.number()) }
    }

    /// Returns the number of the descriptor, for peers. They check the object that they find by it.
    pub(super) fn number(&self) -> i32 {
        self.fd.load(Ordering::Relaxed)
    }

    /// Returns the inode and the device of the object. In a rank restored from a checkpoint another object
    /// has taken its place.
    pub(super) fn identity(&self) -> (u64, (u32, u32)) {
        if kept::has_restarted() && self.number() >= 0 {
            return remap::identity(self.fd()).unwrap_or(self.identity);
        }
        self.identity
    }

    /// Returns true if an area is a mapping of this object.
    pub(super) fn is_mapped_in(&self, area: &Area) -> bool {
        area.shared && (area.inode, area.device) == self.identity()
    }

    /// Returns the first part of `address..address + bytes` that is mapped from this object now.
    pub(super) fn find(&self, address: u64, bytes: u64, writing: bool) -> Option<ObjectRange> {
        let maps = self.maps?;
        let end = address + bytes;
        let usable = |area: &Area| {
            self.is_mapped_in(area) && area.start < end && area.readable && (area.writable || !writing)
        };
        let first = maps.shared_from(address).ok()?.filter(usable)?;
        let start = address.max(first.start);
        let (offset, map_offset) = (first.offset + (start - first.start), first.offset);
        let mut last = first;
        for _ in 0..AREAS {
            // The rest of a page is left to the edges rather than asked for.
            if last.end + PAGE_BYTES > end {
                break;
            }
            let next = maps.shared_from(last.end).ok()?.filter(usable);
            let follows =
                |area: &Area| area.start == last.end && area.offset == last.offset + (last.end - last.start);
            match next.filter(follows) {
                Some(area) => last = area,
                None => break,
            }
        }
        let map_bytes = last.end - first.start;
        Some(ObjectRange { start, end: end.min(last.end), offset, map_offset, map_bytes })
    }
}

impl State {
    const NEW: State = State {
        slots: Vec::new(),
        live_bytes: 0,
        locked_bytes: 0,
        blocks: Vec::new(),
        seen: Vec::new(),
        walked: None,
    };

    /// Takes a free slot for `bytes` of memory at `address`; returns where in the object the memory goes.
    pub(super) fn take_slot(&mut self, address: u64, bytes: u64) -> Result<u64, PrivateReason> {
        let lead = address % HUGE_BYTES;
        let slot = Slot { extent: lead + bytes, born: Instant::now() };
        let number = match self.slots.iter().position(|slot| slot.extent == 0) {
            Some(free) => free,
            None if self.slots.len() + 1 < SLOTS => {
                self.slots.push(slot);
                self.slots.len() - 1
            }
            None => return Err(PrivateReason::Slots),
        };
        self.slots[number] = slot;
        self.live_bytes += bytes;
        Ok(((number as u64) << SLOT_SHIFT) + lead)
    }

    /// Returns true if nothing was ever at `offset..offset + bytes`, behind the mapped part of a slot. Then
    /// the range belongs neither to the memory for which the slot was taken or extended, nor to a mapping
    /// that the program has grown.
    pub(super) fn is_unused(&self, object: &Object, offset: u64, bytes: u64) -> bool {
        let number = slot_of(offset);
        let extent_end = ((number as u64) << SLOT_SHIFT) + self.slots[number].extent;
        let is_block = self.blocks.iter().any(|block| slot_of(block.offset) == number);
        let is_elsewhere = |&(from, to): &(u64, u64)| to <= offset || offset + bytes <= from;
        // A mapping that another thread moves meanwhile would have to be missed twice.
        let mut walks = 0..if threads() > 1 { 2 } else { 1 };
        let unseen = |_| walk(object).is_some_and(|mapped| mapped.iter().all(is_elsewhere));
        !is_block && offset >= extent_end && walks.all(unseen)
    }

    /// Takes `bytes` unused bytes at `offset`, to extend the memory before them.
    pub(super) fn extend(&mut self, offset: u64, bytes: u64) {
        let number = slot_of(offset);
        let extent = offset + bytes - ((number as u64) << SLOT_SHIFT);
        // A sweep since it was found unused may have seen more of the slot.
        let extent = extent.max(self.slots[number].extent);
        self.slots[number] = Slot { extent, born: Instant::now() };
        self.live_bytes += bytes;
    }

    /// Gives back by what a slot was extended last, of which nothing is mapped. It is not extended there
    /// again.
    pub(super) fn retract(&mut self, object: &Object, offset: u64, bytes: u64) {
        // SAFETY: nothing of it is mapped, says the caller. A failure leaves pages behind, below the slot's
        // extent, that nobody sees.
        let _ = unsafe { give_back(object, offset, bytes) };
        self.live_bytes = self.live_bytes.saturating_sub(bytes);
    }

    /// Gives back a slot that nothing was mapped from, or is any more.
    pub(super) fn free_slot(&mut self, object: &Object, offset: u64, bytes: u64) {
        let number = slot_of(offset);
        let extent = self.slots[number].extent;
        // SAFETY: nothing of the slot is mapped, says the caller.
        let given_back = unsafe { give_back(object, (number as u64) << SLOT_SHIFT, extent) };
        self.live_bytes = self.live_bytes.saturating_sub(bytes);
        // Pages that could not be given back must not show up in a region to come.
        if given_back.is_ok() {
            self.slots[number].extent = 0;
        }
    }

    /// Gives back pages that are no longer mapped in this process. No peer may be using any of the object.
    pub(super) fn sweep(&mut self, object: &Object) {
        let Some(mapped) = walk(object) else { return };
        let now = Instant::now();
        let mut keep = mapped.clone();
        if threads() > 1 {
            let earlier = self.walked.filter(|&walked| now - walked >= WALKS_APART);
            if self.walked.is_none() || earlier.is_some() {
                self.walked = Some(now);
                keep.append(&mut std::mem::replace(&mut self.seen, mapped));
            }
            let Some(earlier) = earlier else { return };
            self.keep_young(earlier, &mut keep);
        }
        keep.extend(self.blocks.iter().map(|block| (block.offset, block.offset + block.bytes)));
        keep.sort_unstable();
        self.live_bytes = 0;
        for number in 0..self.slots.len() {
            self.sweep_slot(object, number, &keep);
        }
    }

    fn keep_young(&self, earlier: Instant, keep: &mut Vec<(u64, u64)>) {
        let base = |number: usize| (number as u64) << SLOT_SHIFT;
        let young = self.slots.iter().enumerate().filter(|(_, slot)| slot.born >= earlier);
        keep.extend(young.map(|(number, slot)| (base(number), base(number) + slot.extent)));
    }

    fn sweep_slot(&mut self, object: &Object, number: usize, keep: &[(u64, u64)]) {
        let start = (number as u64) << SLOT_SHIFT;
        if self.slots[number].extent == 0 {
            return;
        }
        // A mapping that the program has grown reaches beyond the extent.
        let inside = || keep.iter().copied().filter(|&(from, _)| slot_of(from) == number);
        let extent = inside().map(|(_, to)| to - start).max().unwrap_or(0).max(self.slots[number].extent);
        let end = start + extent;
        let (mut at, mut kept, mut clean) = (start, 0, true);
        for (from, to) in inside().chain([(end, end)]) {
            if from > at {
                // SAFETY: no mapping shows this range, and no peer uses it.
                clean &= unsafe { give_back(object, at, from - at) }.is_ok();
            }
            kept += to.saturating_sub(from.max(at));
            at = at.max(to);
        }
        self.slots[number].extent = if kept == 0 && clean { 0 } else { extent };
        self.live_bytes += kept;
    }
}

/// Returns the address space of this process, whose number is `pid`. It is opened once.
fn maps(pid: u32) -> Option<&'static Maps> {
    static MAPS: OnceLock<(u32, Option<Maps>)> = OnceLock::new();
    let (of, maps) = MAPS.get_or_init(|| (pid, Maps::open().ok()));
    if *of == pid {
        return maps.as_ref();
    }
    // A child of fork that uses MPI by itself.
    Maps::open().ok().map(|maps| &*Box::leak(Box::new(maps)))
}

/// Returns the slot that contains a byte of the object.
pub(super) fn slot_of(offset: u64) -> usize {
    (offset >> SLOT_SHIFT) as usize
}

/// Ranges of the object that are mapped in this process; `None` when that cannot be told.
fn walk(object: &Object) -> Option<Vec<(u64, u64)>> {
    let maps = object.maps?;
    let (mut found, mut at) = (Vec::new(), 0);
    // Ends: each area lies above the one before, and there are finitely many (vm.max_map_count).
    while let Some(area) = maps.shared_from(at).ok()? {
        if object.is_mapped_in(&area) {
            found.push((area.offset, area.offset + (area.end - area.start)));
        }
        at = area.end;
    }
    Some(found)
}

/// Returns the number of threads of this process, except for the one that reads changes. If the number cannot
/// be determined, it is at its maximum.
pub(super) fn threads() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Threads:"));
    let all: Option<usize> = line.and_then(|count| count.trim().parse().ok());
    all.map_or(usize::MAX, |all| all.saturating_sub(userfault::threads()))
}

const _: () = assert!(HUGE_BYTES.is_multiple_of(PAGE_BYTES) && SLOTS as u64 <= OBJECT_BYTES >> SLOT_SHIFT);
