//! Regions of shared memory that processes of a node find by a key, without a message: the memory for
//! collectives (S1) of a communicator.
//!
//! The members of a group ask for a region when they first need it, each at its own time. The first request
//! decides: it takes room in the area, or is refused if there is none. The table remembers the answer, so
//! that all members get the same. Every member closes the region that it opened; after the last one the
//! pages are freed and the room can be reused. A key is used for one sequence of operations in which all
//! its members take part. So all members open and close the region, and a late member still finds it after
//! others have closed it.
//!
//! Regions of persistent operations come and go by millions, and mapping and clearing one takes tens of
//! microseconds. So a member may *release* a region instead and keep its mapping. Once all members have
//! released it, the region is idle. The next key of the same communicator with the same form gets it, with
//! its content.
//!
//! | state of an entry | found by | next state |
//! |---|---|---|
//! | live: a key names it | its key | idle, spent or free, once all members have released it |
//! | idle: released by all, dropped by none | its communicator and form | live under another key; spent, when a member drops it |
//! | spent: released by all, dropped by some | members that still have it mapped | free, when the last one drops it |
//!
//! A process makes one request for each communicator or persistent operation. So one lock guards table and
//! rooms: the C library's lock between processes, which sleeps, is fair enough, and needs no proof of ours.
//! If a process is killed while it holds the lock, the job ends, as everywhere in MPI. The guarded data,
//! without lock or mapping, are [`Table`].

use std::cell::UnsafeCell;
use std::io;
use std::sync::Arc;

use crate::job::Job;
use crate::memory::{self, Mapping};

/// Unit of allocation of the area, in bytes.
pub const GRANULE: u64 = 64 << 10;
/// Maximum number of regions on a node at a time. Only half of the entries can have room. The others are
/// for refusals, which last until all members have asked.
pub const ENTRIES: usize = 1 << 16;

/// Name of a region, which the members of a group know without communication. No key is used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct RegionKey {
    /// Serial number of the communicator. Groups without a common member may have equal numbers.
    pub communicator: u64,
    /// 0 for the communicator itself; k for its k-th persistent operation. Below [`IDLE`].
    pub number: u64,
    /// Lowest world rank of the members on this node.
    pub lowest: u32,
}

/// Bit in the number of a key under which idle regions of a form are found.
const IDLE: u64 = 1 << 63;

/// Request for a region; all members make the same request.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Key of the region, the same at all members.
    pub key: RegionKey,
    /// Number of members, each of which asks once.
    pub members: u32,
    /// Length of the region, in bytes.
    pub bytes: u64,
    /// Layout of the content, a number below 2^63. An idle region is reused for a key of the same form;
    /// with form 0, regions are never reused.
    pub form: u64,
    /// Region that all members must have opened before this one, so that no member runs ahead without
    /// bound.
    pub behind: Option<RegionKey>,
}

/// Answer to a request ([`Region::ask`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Region to be mapped, or to be found among those that the caller has released.
    Granted(Grant),
    /// No region, for all members.
    Refused,
    /// No answer yet, because other members must come first. The caller asks again.
    Ahead,
}

/// Permission to use a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Index of the region's entry, by which released regions are recognised.
    pub entry: u32,
    room: u32,
}

impl RegionKey {
    /// Returns the preferred index of the key. Neighbours stay neighbours: communicators count upwards, so
    /// that a page of the table serves many.
    fn home(self, places: usize) -> usize {
        let mixed = self
            .communicator
            .wrapping_add(u64::from(self.lowest).wrapping_mul(0x9e37_79b1))
            .wrapping_add(self.number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40);
        mixed as usize & (places - 1)
    }

    /// Returns the key of idle regions with this communicator and form.
    fn idle(self, form: u64) -> RegionKey {
        RegionKey { number: IDLE | form, ..self }
    }
}

/// Entry of a requested region. All zero: unused.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Entry {
    key: RegionKey,
    form: u64,
    /// Number of members; 0 in a free entry.
    members: u32,
    /// Number of members that have opened the region under its present key.
    opened: u32,
    /// Number of these that have released it (or were refused).
    released: u32,
    /// Number of processes that have it mapped.
    holders: u32,
    /// First granule of its room; [`REFUSED`] if it has none.
    room: u32,
    granules: u32,
    /// Index of the next idle entry of its form, or of the next free one, plus 1.
    next: u32,
    state: u32,
}

/// States of an entry.
const LIVE: u32 = 0;
const IDLING: u32 = 1;
/// Live, but already dropped by a member, so that the entry will not become idle.
const LEAVING: u32 = 2;
const SPENT: u32 = 3;

const REFUSED: u32 = u32::MAX;
const EMPTY: Entry = Entry {
    key: RegionKey { communicator: 0, number: 0, lowest: 0 },
    form: 0,
    members: 0,
    opened: 0,
    released: 0,
    holders: 0,
    room: 0,
    granules: 0,
    next: 0,
    state: LIVE,
};

/// Result of [`Table::open`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opened {
    /// The region has room, in this entry.
    Room(Grant),
    /// The area had no room when the first member asked.
    Refused,
    /// Requests of other members have another size or number of members: a bug, or different settings.
    Differs,
    /// No answer yet: others must come first, or no entry is free.
    Ahead,
}

/// Counters of the table. All zero in an empty one.
#[derive(Debug, Default)]
#[repr(C)]
struct Counts {
    /// Number of entries in use.
    used: u32,
    /// Number of entries that were ever used.
    touched: u32,
    /// Index of the first free one of these, plus 1.
    free: u32,
}

/// Entries and bits of taken granules. Borrowed from shared memory while the lock is held.
struct Table<'a> {
    /// Indices of entries, plus 1, by key; 0: empty. A power of two larger than the number of entries, so
    /// that every search ends.
    index: &'a mut [u32],
    entries: &'a mut [Entry],
    counts: &'a mut Counts,
    /// One bit for each granule.
    taken: &'a mut [u64],
    granules: u32,
}

impl Table<'_> {
    /// Returns the position of `key` in the index, or the empty position for it.
    fn find(&self, key: RegionKey) -> usize {
        let mut place = key.home(self.index.len());
        while self.index[place] != 0 && self.entries[self.index[place] as usize - 1].key != key {
            place = (place + 1) & (self.index.len() - 1);
        }
        place
    }

    /// Returns the entry of a key, if it has one.
    fn entry_of(&self, key: RegionKey) -> Option<usize> {
        (self.index[self.find(key)] as usize).checked_sub(1)
    }

    /// Opens the region of `wanted`. `has` returns true if the caller still has an entry's region mapped.
    fn open(&mut self, wanted: &Wanted, granules: u32, has: impl FnOnce(u32) -> bool) -> Opened {
        let is_open = |entry: usize| self.entries[entry].opened >= self.entries[entry].members;
        if !wanted.behind.and_then(|key| self.entry_of(key)).is_none_or(is_open) {
            return Opened::Ahead;
        }
        let known = self.entry_of(wanted.key);
        let Some(place) = known.or_else(|| self.begin(wanted, granules)) else { return Opened::Ahead };
        let entry = &mut self.entries[place];
        if (entry.members, entry.granules, entry.form) != (wanted.members, granules, wanted.form) {
            return Opened::Differs;
        }
        entry.opened += 1;
        if entry.room == REFUSED {
            self.release(place); // who is refused has nothing to close later
            return Opened::Refused;
        }
        let grant = Grant { entry: place as u32, room: entry.room };
        if !has(grant.entry) {
            entry.holders += 1;
        }
        Opened::Room(grant)
    }

    /// Creates the entry of a key that has none. Returns `None` if no entry is free.
    fn begin(&mut self, wanted: &Wanted, granules: u32) -> Option<usize> {
        let idle = self.find(wanted.key.idle(wanted.form));
        let place = match (self.index[idle] as usize).checked_sub(1) {
            Some(place) if wanted.form != 0 => {
                self.replace(idle, self.entries[place].next);
                let entry = &mut self.entries[place];
                (entry.key, entry.opened, entry.released, entry.state) = (wanted.key, 0, 0, LIVE);
                place
            }
            _ => {
                let place = self.free_entry()?;
                let has_room = self.counts.used as usize <= self.entries.len() / 2;
                let room = if has_room { self.take(granules) } else { None };
                let &Wanted { key, members, form, .. } = wanted;
                let room = room.unwrap_or(REFUSED);
                self.entries[place] = Entry { key, form, members, room, granules, ..EMPTY };
                place
            }
        };
        let slot = self.find(wanted.key);
        self.index[slot] = place as u32 + 1;
        Some(place)
    }

    fn free_entry(&mut self) -> Option<usize> {
        let place = match (self.counts.free as usize).checked_sub(1) {
            Some(place) => {
                self.counts.free = self.entries[place].next;
                place
            }
            None if (self.counts.touched as usize) < self.entries.len() => {
                self.counts.touched += 1;
                self.counts.touched as usize - 1
            }
            None => return None,
        };
        self.counts.used += 1;
        Some(place)
    }

    /// Records that one more member has released an entry. If no process has the region any more, returns
    /// the room to free: first granule and number of granules.
    fn release(&mut self, place: usize) -> Option<(u32, u32)> {
        let entry = &mut self.entries[place];
        assert!(entry.released < entry.opened, "a region is released that is not open");
        entry.released += 1;
        if entry.released < entry.members {
            return None;
        }
        let (key, idle, state) = (entry.key, entry.key.idle(entry.form), entry.state);
        let slot = self.find(key);
        self.replace(slot, 0);
        if self.entries[place].holders == 0 {
            return self.free(place);
        }
        let entry = &mut self.entries[place];
        if state == LEAVING || entry.form == 0 {
            entry.state = SPENT;
            return None;
        }
        (entry.key, entry.state) = (idle, IDLING);
        let slot = self.find(idle);
        self.entries[place].next = std::mem::replace(&mut self.index[slot], place as u32 + 1);
        None
    }

    /// Records that a member has unmapped a region, which it may have released before. Returns the room to
    /// free, like [`Table::release`].
    fn close(&mut self, place: usize, is_released: bool) -> Option<(u32, u32)> {
        let entry = &mut self.entries[place];
        assert!(entry.holders > 0, "a region is closed that nobody has");
        entry.holders -= 1;
        match entry.state {
            LIVE => entry.state = LEAVING,
            IDLING => self.unlink(place),
            _ => {}
        }
        if !is_released {
            return self.release(place);
        }
        let entry = &self.entries[place];
        if entry.state == SPENT && entry.holders == 0 { self.free(place) } else { None }
    }

    /// Changes an idle entry into a spent one.
    fn unlink(&mut self, place: usize) {
        let (key, next) = (self.entries[place].key, self.entries[place].next);
        self.entries[place].state = SPENT;
        let slot = self.find(key);
        if self.index[slot] as usize == place + 1 {
            return self.replace(slot, next);
        }
        let mut before = self.index[slot] as usize - 1;
        while self.entries[before].next as usize != place + 1 {
            before = self.entries[before].next as usize - 1;
        }
        self.entries[before].next = next;
    }

    /// Frees an entry and returns its room.
    fn free(&mut self, place: usize) -> Option<(u32, u32)> {
        let Entry { room, granules, .. } = self.entries[place];
        self.entries[place] = Entry { next: self.counts.free, ..EMPTY };
        self.counts.free = place as u32 + 1;
        self.counts.used -= 1;
        (room != REFUSED).then_some((room, granules))
    }

    /// Stores another entry with the same key in a position of the index. With 0, empties the position and
    /// moves up later entries that would not be found otherwise.
    fn replace(&mut self, mut hole: usize, with: u32) {
        self.index[hole] = with;
        if with != 0 {
            return;
        }
        let mask = self.index.len() - 1;
        let mut next = hole;
        loop {
            next = (next + 1) & mask;
            let Some(entry) = (self.index[next] as usize).checked_sub(1) else { return };
            let wanted = self.entries[entry].key.home(self.index.len());
            let is_reached_through_hole = next.wrapping_sub(wanted) & mask >= next.wrapping_sub(hole) & mask;
            if is_reached_through_hole {
                self.index[hole] = self.index[next];
                self.index[next] = 0;
                hole = next;
            }
        }
    }

    /// Takes the first sequence of `granules` free granules. Returns its first granule.
    fn take(&mut self, granules: u32) -> Option<u32> {
        let (mut start, mut free) = (0, 0);
        let mut granule = 0;
        while granule < self.granules && free < granules {
            let word = self.taken[granule as usize / 64];
            if word == u64::MAX && granule.is_multiple_of(64) {
                granule += 64;
                free = 0;
                continue;
            }
            let is_free = word >> (granule % 64) & 1 == 0;
            if free == 0 {
                start = granule;
            }
            free = if is_free { free + 1 } else { 0 };
            granule += 1;
        }
        if free < granules {
            return None;
        }
        self.mark(start, granules);
        Some(start)
    }

    /// Inverts the bits of a room.
    fn mark(&mut self, start: u32, granules: u32) {
        for granule in start..start + granules {
            self.taken[granule as usize / 64] ^= 1 << (granule % 64);
        }
    }
}

/// First page of the table in the job object: lock and counters. Index, entries and bits follow; see
/// [`table_bytes`].
#[repr(C, align(64))]
struct Head {
    lock: UnsafeCell<libc::pthread_mutex_t>,
    counts: UnsafeCell<Counts>,
}

const HEAD_BYTES: usize = 4096;
const INDEX: usize = 2 * ENTRIES;
const INDEX_BYTES: usize = INDEX * size_of::<u32>();
const ENTRIES_BYTES: usize = ENTRIES * size_of::<Entry>();

/// Returns the length of the table in bytes for an area of `area_bytes`, a multiple of [`GRANULE`].
pub(crate) fn table_bytes(area_bytes: u64) -> u64 {
    (HEAD_BYTES + INDEX_BYTES + ENTRIES_BYTES) as u64 + (area_bytes / GRANULE).div_ceil(64) * 8
}

/// Initialises the lock of a table in fresh memory.
///
/// # Safety
/// `head` is page aligned and followed by [`table_bytes`] of zeros; nothing else uses it yet.
pub(crate) unsafe fn initialise(head: *mut u8) -> io::Result<()> {
    let mut attributes = std::mem::MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
    // SAFETY: the attributes are initialised by the first call and destroyed by the last; the mutex lies in
    // memory that nothing else uses, at an address aligned for it.
    unsafe {
        check(libc::pthread_mutexattr_init(attributes.as_mut_ptr()))?;
        check(libc::pthread_mutexattr_setpshared(attributes.as_mut_ptr(), libc::PTHREAD_PROCESS_SHARED))?;
        let lock = UnsafeCell::raw_get(&raw const (*head.cast::<Head>()).lock);
        check(libc::pthread_mutex_init(lock, attributes.as_ptr()))?;
        check(libc::pthread_mutexattr_destroy(attributes.as_mut_ptr()))
    }
}

fn check(status: libc::c_int) -> io::Result<()> {
    if status == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(status)) }
}

/// Runs `work` while no other process of the node runs such work or uses the table of `job`.
pub(crate) fn alone<R>(job: &Job, work: impl FnOnce() -> R) -> io::Result<R> {
    locked(job, |_| work())
}

/// Runs `work` on the table of `job`, holding the node's lock.
fn locked<R>(job: &Job, work: impl FnOnce(&mut Table<'_>) -> R) -> io::Result<R> {
    let (base, area_bytes) = job.region_table();
    let granules = (area_bytes / GRANULE) as u32;
    let head = base.cast::<Head>();
    let lock = UnsafeCell::raw_get(
        // SAFETY: the table lies inside the mapping of the job, page aligned; only an address is taken.
        unsafe { &raw const (*head.as_ptr()).lock },
    );
    // SAFETY: the creator of the job initialised it, and it is never destroyed.
    check(unsafe { libc::pthread_mutex_lock(lock) })?;
    // SAFETY: `table_bytes` has reserved space for all of them, and any bytes are valid for their plain
    // numbers. While the lock is held, no other process has a reference to them.
    let mut table = unsafe {
        let index = base.add(HEAD_BYTES).cast::<u32>();
        let entries = base.add(HEAD_BYTES + INDEX_BYTES).cast::<Entry>();
        let taken = base.add(HEAD_BYTES + INDEX_BYTES + ENTRIES_BYTES).cast::<u64>();
        Table {
            index: std::slice::from_raw_parts_mut(index.as_ptr(), INDEX),
            entries: std::slice::from_raw_parts_mut(entries.as_ptr(), ENTRIES),
            counts: &mut *UnsafeCell::raw_get(&raw const (*head.as_ptr()).counts),
            taken: std::slice::from_raw_parts_mut(taken.as_ptr(), granules.div_ceil(64) as usize),
            granules,
        }
    };
    let result = work(&mut table);
    // SAFETY: locked above by this thread; the table's references are not used any more.
    check(unsafe { libc::pthread_mutex_unlock(lock) })?;
    Ok(result)
}

/// Mapped region. It is closed when dropped.
#[derive(Debug)]
pub struct Region {
    job: Arc<Job>,
    entry: u32,
    is_released: bool,
    mapping: Option<Mapping>,
}

impl Region {
    /// Opens the region of `key`, which `members` processes share, with at least `bytes`. Its memory is
    /// zero when the first one opens it. Returns `None` if there was no room; then this holds for all
    /// members, and each of them asks only once. A member opens a key once and never again after it has
    /// closed it.
    ///
    /// # Errors
    /// Errors of [`Region::ask`] and [`Region::map`]. WouldBlock if other members must come first; then the
    /// caller asks again.
    pub fn open(job: &Arc<Job>, key: RegionKey, members: u32, bytes: u64) -> io::Result<Option<Region>> {
        let wanted = Wanted { key, members, bytes, form: 0, behind: None };
        match Region::ask(job, &wanted, |_| false)? {
            Answer::Granted(grant) => Region::map(job, grant, bytes).map(Some),
            Answer::Refused => Ok(None),
            Answer::Ahead => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Requests a region. `has` returns true for an entry whose region the caller has released and not
    /// dropped. A granted region must be mapped, or taken again by [`Region::retake`].
    ///
    /// # Errors
    /// InvalidInput when other members made a different request. The members do not agree about errors, so
    /// the caller must treat one as fatal.
    pub fn ask(job: &Arc<Job>, wanted: &Wanted, has: impl FnOnce(u32) -> bool) -> io::Result<Answer> {
        assert!(wanted.members > 0 && wanted.bytes > 0, "a region of nothing, or for nobody");
        assert!((wanted.key.number | wanted.form) < IDLE, "numbers of regions that nobody counts to");
        let granules =
            u32::try_from(wanted.bytes.div_ceil(GRANULE)).map_err(|_| io::ErrorKind::InvalidInput)?;
        match locked(job, |table| table.open(wanted, granules, has))? {
            Opened::Room(grant) => Ok(Answer::Granted(grant)),
            Opened::Refused => Ok(Answer::Refused),
            Opened::Ahead => Ok(Answer::Ahead),
            Opened::Differs => Err(error(io::ErrorKind::InvalidInput, "members disagree about the size")),
        }
    }

    /// Maps `bytes` of the granted region.
    ///
    /// # Errors
    /// The error of mmap; fatal, as for [`Region::ask`].
    pub fn map(job: &Arc<Job>, grant: Grant, bytes: u64) -> io::Result<Region> {
        let offset = job.regions_offset() + u64::from(grant.room) * GRANULE;
        let object = job.object()?;
        memory::reserve(object, offset, bytes)?;
        let mapping = Mapping::range(object, offset, bytes as usize)?;
        let (job, entry) = (Arc::clone(job), grant.entry);
        Ok(Region { job, entry, is_released: false, mapping: Some(mapping) })
    }

    /// Returns the index of the entry, by which a released region is recognised.
    pub fn entry(&self) -> u32 {
        self.entry
    }

    /// Releases the region for reuse under another key, once all members have released it.
    ///
    /// # Errors
    /// Errors of the lock.
    pub fn release(&mut self) -> io::Result<()> {
        assert!(!self.is_released, "a region is released twice");
        self.is_released = true;
        let nothing = locked(&self.job, |table| table.release(self.entry as usize))?;
        debug_assert!(nothing.is_none(), "this member still has it");
        Ok(())
    }

    /// Uses a released region again, after it was granted.
    pub fn retake(&mut self, grant: Grant) {
        assert!(self.is_released && self.entry == grant.entry, "another region was granted");
        self.is_released = false;
    }

    /// Returns the memory of the region, page aligned.
    pub fn mapping(&self) -> &Mapping {
        self.mapping.as_ref().expect("mapped until dropped")
    }

    /// Returns the job in whose memory the region lies.
    pub fn job(&self) -> &Arc<Job> {
        &self.job
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        self.mapping = None;
        // If the lock or freeing the pages fails, the room stays taken, which does no harm to others.
        let closed = locked(&self.job, |table| table.close(self.entry as usize, self.is_released));
        let Ok(Some((room, granules))) = closed else { return };
        let offset = self.job.regions_offset() + u64::from(room) * GRANULE;
        let punch = |object| memory::punch(object, offset, u64::from(granules) * GRANULE);
        if self.job.object().and_then(punch).is_ok() {
            let _ = locked(&self.job, |table| table.mark(room, granules));
        }
    }
}

fn error(kind: io::ErrorKind, what: &str) -> io::Error {
    io::Error::new(kind, format!("shared memory of collectives: {what}"))
}

#[cfg(test)]
mod tests;
