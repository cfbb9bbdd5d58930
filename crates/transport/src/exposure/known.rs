//! Addresses of mapped buffers, remembered as long as nothing has changed. Asking the kernel at each use
//! would take half a microsecond. It is asked once, and reports changes from then on.
//!
//! # Why this is exact
//! The place of a buffer was found by asking the kernel while the mapping was watched already. It counts as
//! known only while the count of changes is the same. The mapping of a buffer can change in these ways:
//! - *munmap, mmap over it, mremap, brk*: the kernel tells the watcher, and the call returns only after the
//!   count has changed. As long as it has not returned, another thread may be given the addresses: in a
//!   process with several threads the kernel is asked whether such a call is under way
//!   ([`Watcher::is_changing`]) before the count is looked at. A process with one thread cannot be in such a
//!   call.
//! - *mprotect*: changes no page. The owner reads a byte of each page before it lends them, so whatever would
//!   become of a program that reads its buffer there (a fault, a handler that fills the page) becomes of it
//!   now. Only memory that is lent for being read is remembered.
//! - *madvise that discards*: as for all mapped memory (`calls`).
//! - *fork*: the child has no object ([`Object::is_current`]). The parent's mappings become private by mmap
//!   over them, of which the kernel tells, and the object is not current any more.
//! - *shmat with SHM_REMAP, and remap_file_pages*: the kernel tells of neither. Before the first the memory
//!   is made plain (`calls`), of which it tells; the second is refused.
//!
//! # Safety
//! Pages are read that the caller exposes: they are readable, or the program is wrong.

#![allow(unsafe_code)]

use std::ptr;

use tutti_sys::userfault::{self, Watcher};

use super::count::Count;
use super::object::{Object, ObjectRange};
use super::record::PAGE_BYTES;
use crate::buffers::{BUFFERS, place};

/// Longer buffers are looked up each time: that costs less than to read of all their pages, and little in
/// comparison.
const MOST_BYTES: u64 = 64 * PAGE_BYTES;

/// Mapped buffers found earlier, and the watcher that reports changes.
#[derive(Debug)]
pub(super) struct Known {
    hearing: Hearing,
    buffers: Box<[Buffer; BUFFERS]>,
}

#[derive(Debug)]
enum Hearing {
    /// No watcher was tried so far.
    Untried,
    /// Reason why there is no watcher.
    Deaf(String),
    On(Watcher, &'static Count),
}

/// A buffer and what the count was when it was looked up.
#[derive(Clone, Copy, Debug)]
struct Buffer {
    start: u64,
    bytes: u64,
    count: u64,
    place: ObjectRange,
}

impl Known {
    /// Knows nothing; hears of changes if `watches`.
    pub(super) fn new(watches: bool) -> Known {
        let nowhere = ObjectRange { start: 0, end: 0, offset: 0, map_offset: 0, map_bytes: 0 };
        let nothing = Buffer { start: 0, bytes: 0, count: 0, place: nowhere };
        let hearing = match watches {
            true => Hearing::Untried,
            false => Hearing::Deaf("mapped_watch=0".into()),
        };
        Known { hearing, buffers: Box::new([nothing; BUFFERS]) }
    }

    /// Returns true if the kernel tells of changes, as far as is known.
    #[inline]
    pub(super) fn is_told(&self) -> bool {
        !matches!(self.hearing, Hearing::Deaf(_))
    }

    /// Returns a line about the watcher, for people.
    pub(super) fn report(&self) -> String {
        match &self.hearing {
            Hearing::Untried | Hearing::On(..) => "the kernel tells of changes of mapped memory".into(),
            Hearing::Deaf(why) => format!("the kernel is asked for mapped memory at each use: {why}"),
        }
    }

    /// Returns the place of a buffer that is lent for reading, if it is known. Reads a byte of each page.
    #[inline]
    pub(super) fn place(&self, start: u64, bytes: u64) -> Option<ObjectRange> {
        let Hearing::On(watcher, count) = &self.hearing else { return None };
        let buffer = &self.buffers[place(start)];
        let is_it = buffer.start == start && buffer.bytes == bytes && bytes > 0;
        if !is_it || is_changing(watcher) || !count.is(buffer.count) {
            return None;
        }
        touch(buffer.place.start, buffer.place.end);
        Some(buffer.place)
    }

    /// Forgets all buffers: more memory was mapped, which the kernel does not report.
    #[cold]
    pub(super) fn forget(&mut self) {
        self.buffers.iter_mut().for_each(|buffer| buffer.bytes = 0);
    }

    /// Remembers where a buffer was just found, if its mapping can be watched.
    #[cold]
    pub(super) fn keep(&mut self, object: &Object, start: u64, bytes: u64, found: ObjectRange) {
        if bytes > MOST_BYTES {
            return;
        }
        if let Hearing::Untried = self.hearing {
            self.hearing = Hearing::begin();
        }
        let Hearing::On(watcher, counts) = &self.hearing else { return };
        let Some(count) = counts.now() else { return };
        // All of the mapping: a part would split it.
        let first = found.start - (found.offset - found.map_offset);
        // What was not watched may be something else by now: so it is looked up again.
        let is_watched = watcher.register(first, found.map_bytes).is_ok();
        if is_watched
            && object.find(start, bytes, false) == Some(found)
            && !is_changing(watcher)
            && counts.is(count)
        {
            self.buffers[place(start)] = Buffer { start, bytes, count, place: found };
        }
    }
}

impl Hearing {
    fn begin() -> Hearing {
        let count: &'static Count = Box::leak(Box::new(Count::new()));
        match Watcher::start(count.word()) {
            Ok(watcher) => Hearing::On(watcher, count),
            Err(error) => Hearing::Deaf(error.to_string()),
        }
    }
}

/// Returns true if another thread may be changing what is watched.
#[inline]
fn is_changing(watcher: &Watcher) -> bool {
    !userfault::is_single_threaded() && watcher.is_changing()
}

/// Reads of each page.
#[inline]
fn touch(start: u64, end: u64) {
    let mut at = start;
    while at < end {
        let byte: *const u8 = ptr::with_exposed_provenance(at as usize);
        // SAFETY: the module's Safety section.
        let _ = unsafe { byte.read_volatile() };
        at = (at | (PAGE_BYTES - 1)) + 1;
    }
}
