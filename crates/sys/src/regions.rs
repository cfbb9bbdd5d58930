//! Regions of shared memory that processes of a node find by a key, without a message: the memory of collectives
//! (S1) of a communicator.
//!
//! The members of a group ask for a region when they first need it, each at its own time. The first to ask
//! decides: it takes room in the area, or none if there is none, and the table remembers the answer, so that all members
//! get the same one. Every member closes what it opened; when the last one has, the pages are given back to the
//! system and the room may be had by others. Since a key is used for one sequence of operations that all its members
//! take part in, a region that one opened is opened, and then closed, by all: a member that comes
//! after others have closed finds it still there.
//!
//! A process asks once a communicator, so table and rooms are guarded by one lock, that of the C library for
//! processes (it sleeps, it is fair enough, and it is not ours to prove). Who is killed inside it takes the job with
//! it, as everywhere in MPI. [`Table`] is what is guarded, plain data without a lock or a mapping.

use std::cell::UnsafeCell;
use std::io;
use std::sync::Arc;

use crate::job::Job;
use crate::memory::{self, Mapping};

/// Room is given in pieces of so many bytes.
pub const GRANULE: u64 = 64 << 10;
/// Regions that can exist at a time on a node.
pub const ENTRIES: usize = 1 << 16;

/// What members of one group know without asking each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct RegionKey {
    /// The communicator's context. Groups without a common member may have the same.
    pub context: u32,
    /// The lowest world rank of those members that are on this node.
    pub lowest: u32,
    /// 0: of the communicator; k: of its k-th persistent operation.
    pub number: u32,
}

impl RegionKey {
    /// Neighbours stay neighbours: contexts count upwards, so that a page of the table serves many.
    fn home(self, entries: usize) -> usize {
        let mixed = self
            .context
            .wrapping_add(self.lowest.wrapping_mul(0x9e37_79b1))
            .wrapping_add(self.number.wrapping_mul(0x85eb_ca77));
        mixed as usize & (entries - 1)
    }
}

/// A region that somebody has asked for. All zero: none.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Entry {
    key: RegionKey,
    /// How many will ask; 0 in an empty entry.
    members: u32,
    /// How many have closed it (or were refused).
    closed: u32,
    /// First granule of its room, [`REFUSED`] if it has none.
    room: u32,
    granules: u32,
}

const REFUSED: u32 = u32::MAX;
const EMPTY: Entry = Entry {
    key: RegionKey { context: 0, lowest: 0, number: 0 },
    members: 0,
    closed: 0,
    room: 0,
    granules: 0,
};

/// What [`Table::open`] found or decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opened {
    /// A room that begins at this granule.
    Room(u32),
    /// There was no room when the first member asked.
    Refused,
    /// Others asked for another size or for another number of members: a bug, or different settings.
    Differs,
    /// No entry is free.
    Full,
}

/// The entries and which granules are taken. Borrowed from shared memory while the lock is held.
struct Table<'a> {
    /// A power of two; at least one is always empty, so that every search ends.
    entries: &'a mut [Entry],
    /// One more than are used, at most `entries.len() - 1`.
    used: &'a mut u32,
    /// A bit a granule.
    taken: &'a mut [u64],
    granules: u32,
}

impl Table<'_> {
    /// Where `key` is, or the empty place where it would be.
    fn place(&self, key: RegionKey) -> usize {
        let mut place = key.home(self.entries.len());
        while self.entries[place].members != 0 && self.entries[place].key != key {
            place = (place + 1) & (self.entries.len() - 1);
        }
        place
    }

    fn open(&mut self, key: RegionKey, members: u32, granules: u32) -> Opened {
        let place = self.place(key);
        if self.entries[place].members == 0 {
            if *self.used as usize + 1 >= self.entries.len() {
                return Opened::Full;
            }
            *self.used += 1;
            let room = self.take(granules).unwrap_or(REFUSED);
            self.entries[place] = Entry { key, members, closed: 0, room, granules };
        }
        let entry = self.entries[place];
        if entry.members != members || entry.granules != granules {
            return Opened::Differs;
        }
        if entry.room == REFUSED {
            self.close(key); // who is refused has nothing to close later
            return Opened::Refused;
        }
        Opened::Room(entry.room)
    }

    /// One more member is done. The room to give back, first granule and number, if it was the last.
    fn close(&mut self, key: RegionKey) -> Option<(u32, u32)> {
        let place = self.place(key);
        let entry = &mut self.entries[place];
        assert!(entry.members != 0, "a region is closed that nobody opened");
        entry.closed += 1;
        if entry.closed < entry.members {
            return None;
        }
        let (room, granules) = (entry.room, entry.granules);
        self.remove(place);
        (room != REFUSED).then_some((room, granules))
    }

    /// Empties a place and moves up those behind it that have a right to it.
    fn remove(&mut self, mut hole: usize) {
        let mask = self.entries.len() - 1;
        let mut next = hole;
        loop {
            next = (next + 1) & mask;
            let entry = self.entries[next];
            if entry.members == 0 {
                break;
            }
            let wanted = entry.key.home(self.entries.len());
            let is_reached_through_hole = next.wrapping_sub(wanted) & mask >= next.wrapping_sub(hole) & mask;
            if is_reached_through_hole {
                self.entries[hole] = entry;
                hole = next;
            }
        }
        self.entries[hole] = EMPTY;
        *self.used -= 1;
    }

    /// The first room of `granules` free ones in a row.
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

    /// Turns over the bits of a room.
    fn mark(&mut self, start: u32, granules: u32) {
        for granule in start..start + granules {
            self.taken[granule as usize / 64] ^= 1 << (granule % 64);
        }
    }
}

/// What lies in the job object: the lock and the small numbers; entries and bits follow, see [`table_bytes`].
#[repr(C, align(64))]
struct Head {
    lock: UnsafeCell<libc::pthread_mutex_t>,
    used: UnsafeCell<u32>,
}

const HEAD_BYTES: usize = 4096;
const ENTRIES_BYTES: usize = ENTRIES * size_of::<Entry>();

/// Bytes of the table for an area of `area_bytes`, a multiple of [`GRANULE`].
pub(crate) fn table_bytes(area_bytes: u64) -> u64 {
    HEAD_BYTES as u64 + ENTRIES_BYTES as u64 + (area_bytes / GRANULE).div_ceil(64) * 8
}

/// Prepares the lock of a table in fresh memory.
///
/// # Safety
/// `head` is page aligned, has [`table_bytes`] of zeros behind it, and nobody else uses it yet.
pub(crate) unsafe fn initialise(head: *mut u8) -> io::Result<()> {
    let mut attributes = std::mem::MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
    // SAFETY: the attributes are initialised by the first call and destroyed by the last; the mutex lies in
    // memory that nobody else uses, at an address aligned for it.
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

/// Runs `work` on the table of `job`, alone on the node.
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
    // SAFETY: `table_bytes` made room for all three; any bytes are valid for their plain numbers; while the
    // lock is held nobody else, of any process, has a reference to them.
    let mut table = unsafe {
        let entries = base.add(HEAD_BYTES).cast::<Entry>();
        let taken = base.add(HEAD_BYTES + ENTRIES_BYTES).cast::<u64>();
        Table {
            entries: std::slice::from_raw_parts_mut(entries.as_ptr(), ENTRIES),
            used: &mut *UnsafeCell::raw_get(&raw const (*head.as_ptr()).used),
            taken: std::slice::from_raw_parts_mut(taken.as_ptr(), granules.div_ceil(64) as usize),
            granules,
        }
    };
    let result = work(&mut table);
    // SAFETY: locked above by this thread; the table's references are not used any more.
    check(unsafe { libc::pthread_mutex_unlock(lock) })?;
    Ok(result)
}

/// A region, mapped. Closed when dropped.
#[derive(Debug)]
pub struct Region {
    job: Arc<Job>,
    key: RegionKey,
    mapping: Option<Mapping>,
}

impl Region {
    /// Opens the region of `key`, which `members` processes share, at least `bytes` long. All zero when the first one
    /// opens it. `None` if there was no room for it: then so it is for all members, and each of them asks only
    /// once. A member opens a key once and never again after it has closed it.
    ///
    /// # Errors
    /// StorageFull when 65535 regions exist on this node; InvalidInput when other members asked for something else;
    /// what mmap reports. The members do not agree about errors, so the caller must treat one as fatal.
    pub fn open(job: &Arc<Job>, key: RegionKey, members: u32, bytes: u64) -> io::Result<Option<Region>> {
        assert!(members > 0 && bytes > 0, "a region of nothing, or for nobody");
        let granules = u32::try_from(bytes.div_ceil(GRANULE)).map_err(|_| io::ErrorKind::InvalidInput)?;
        let room = match locked(job, |table| table.open(key, members, granules))? {
            Opened::Room(room) => room,
            Opened::Refused => return Ok(None),
            Opened::Differs => {
                return Err(error(io::ErrorKind::InvalidInput, "members disagree about the size"));
            }
            Opened::Full => {
                return Err(error(io::ErrorKind::StorageFull, "65535 regions exist on this node"));
            }
        };
        let offset = job.regions_offset() + u64::from(room) * GRANULE;
        let object = job.object()?;
        memory::reserve(object, offset, bytes)?;
        let mapping = Mapping::range(object, offset, bytes as usize)?;
        Ok(Some(Region { job: Arc::clone(job), key, mapping: Some(mapping) }))
    }

    /// The memory, aligned to pages.
    pub fn mapping(&self) -> &Mapping {
        self.mapping.as_ref().expect("mapped until dropped")
    }

    /// The job it lies in.
    pub fn job(&self) -> &Arc<Job> {
        &self.job
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        self.mapping = None;
        // A lock that cannot be had, or pages that cannot be given back, leave the room taken: no harm to others.
        let Ok(Some((room, granules))) = locked(&self.job, |table| table.close(self.key)) else { return };
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
mod tests {
    use std::collections::HashMap;
    use std::sync::Barrier;

    use tutti_base::BankSizes;

    use super::*;
    use crate::job::Plan;

    fn key(context: u32) -> RegionKey {
        RegionKey { context, lowest: 0, number: 0 }
    }

    /// Runs `test` on a table of 8 entries and `granules` granules.
    fn check(granules: u32, test: impl FnOnce(&mut Table<'_>)) {
        let (mut entries, mut used, mut taken) = ([EMPTY; 8], 0, vec![0; granules.div_ceil(64) as usize]);
        test(&mut Table { entries: &mut entries, used: &mut used, taken: &mut taken, granules });
    }

    #[test]
    fn members_meet_and_the_last_one_frees() {
        check(100, |table| {
            assert_eq!(table.open(key(5), 3, 70), Opened::Room(0));
            assert_eq!(table.open(key(6), 1, 30), Opened::Room(70));
            assert_eq!(table.close(key(5)), None);
            assert_eq!(table.open(key(5), 3, 70), Opened::Room(0));
            assert_eq!(table.open(key(5), 3, 71), Opened::Differs);
            assert_eq!(table.open(key(5), 2, 70), Opened::Differs);
            assert_eq!(table.close(key(5)), None);
            assert_eq!(table.open(key(5), 3, 70), Opened::Room(0));
            assert_eq!(table.close(key(5)), Some((0, 70)));
            assert_eq!(table.take(10), None, "not free before its pages are given back");
            table.mark(0, 70);
            assert_eq!(table.open(key(7), 1, 10), Opened::Room(0));
            assert_eq!(table.open(key(8), 1, 60), Opened::Room(10));
        });
    }

    #[test]
    fn a_refusal_is_the_same_for_all_even_when_room_appears() {
        check(10, |table| {
            assert_eq!(table.open(key(1), 1, 10), Opened::Room(0));
            assert_eq!(table.open(key(2), 2, 1), Opened::Refused);
            assert_eq!(table.close(key(1)), Some((0, 10)));
            table.mark(0, 10);
            assert_eq!(table.open(key(2), 2, 1), Opened::Refused);
            assert_eq!(*table.used, 0, "all who asked know");
            assert_eq!(table.open(key(3), 2, 11), Opened::Refused);
        });
    }

    #[test]
    fn a_full_table_says_so() {
        check(100, |table| {
            for context in 0..7 {
                assert_eq!(table.open(key(context * 8), 1, 1), Opened::Room(context));
            }
            assert_eq!(table.open(key(99), 1, 1), Opened::Full);
            assert_eq!(table.open(key(48), 1, 1), Opened::Room(6));
        });
    }

    /// Against a map, with keys that share few homes.
    #[test]
    fn entries_are_found_whatever_was_removed() {
        check(64, |table| {
            let mut model: HashMap<u32, u32> = HashMap::new();
            let mut random = 12345u32;
            for _ in 0..20_000 {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let context = (random >> 16) % 12 * 3;
                if let Some(room) = model.remove(&context) {
                    assert_eq!(table.open(key(context), 1, 2), Opened::Room(room));
                    assert_eq!(table.close(key(context)), Some((room, 2)));
                    table.mark(room, 2);
                } else if model.len() < 7 {
                    let Opened::Room(room) = table.open(key(context), 1, 2) else { panic!("there is room") };
                    assert!(!model.values().any(|&other| other == room), "a room is given to one");
                    model.insert(context, room);
                }
            }
        });
    }

    fn job(area_bytes: u64) -> Arc<Job> {
        let plan = Plan {
            processors: 2,
            banks: BankSizes { area_bytes, ..BankSizes::default() },
            ..Plan::one_host(1)
        };
        Arc::new(Job::create(&plan).unwrap())
    }

    #[test]
    fn a_region_is_shared_then_gone() {
        let job = job(10 * GRANULE);
        let again = Arc::new(Job::attach(job.fd().try_clone_to_owned().unwrap()).unwrap());
        for round in 0..30 {
            let one = Region::open(&job, key(round), 2, 3 * GRANULE - 5).unwrap().unwrap();
            let two = Region::open(&again, key(round), 2, 3 * GRANULE - 5).unwrap().unwrap();
            let end = one.mapping().bytes() - 1;
            // SAFETY: both mappings are that long and nobody else uses them.
            unsafe {
                assert_eq!(two.mapping().base().add(end).read(), 0, "fresh in round {round}");
                one.mapping().base().add(end).write(9);
                drop(one);
                assert_eq!(two.mapping().base().add(end).read(), 9, "still there for the other");
            }
        }
        assert!(Region::open(&job, key(99), 1, 11 * GRANULE).unwrap().is_none());
        assert!(Region::open(&job, key(99), 1, 10 * GRANULE).unwrap().is_some(), "all room is back");
    }

    #[test]
    fn no_area_means_refusal() {
        assert!(Region::open(&job(0), key(1), 1, 1).unwrap().is_none());
    }

    /// Four members each open and close many regions in an area that holds few: what one is refused all are,
    /// what one wrote the others see, and in the end all room is back.
    #[test]
    fn members_agree_under_stress() {
        const MEMBERS: u32 = 4;
        const ROUNDS: u32 = 400;
        let job = job(5 * GRANULE);
        let refused: Vec<_> = (0..ROUNDS).map(|_| std::sync::atomic::AtomicU32::new(0)).collect();
        let start = Barrier::new(MEMBERS as usize);
        std::thread::scope(|scope| {
            for member in 0..MEMBERS {
                let (job, refused, start) = (&job, &refused, &start);
                scope.spawn(move || {
                    start.wait();
                    let mut open = Vec::new();
                    for round in 0..ROUNDS {
                        match Region::open(job, key(round * 65536), MEMBERS, 2 * GRANULE).unwrap() {
                            None => {
                                refused[round as usize].fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                            }
                            Some(region) => {
                                // SAFETY: each member writes a byte of its own.
                                let before = unsafe {
                                    let byte = region.mapping().base().add(member as usize);
                                    let before = byte.read();
                                    byte.write(1);
                                    before
                                };
                                assert_eq!(before, 0, "pages of an earlier region");
                                open.push(region);
                            }
                        }
                        if round % (3 + member) == 0 {
                            open.clear();
                        }
                    }
                });
            }
        });
        for count in refused {
            let count = count.into_inner();
            assert!(count == 0 || count == MEMBERS, "{count} of {MEMBERS} were refused");
        }
        assert!(Region::open(&job, key(1), 1, 5 * GRANULE).unwrap().is_some(), "all room is back");
    }
}
