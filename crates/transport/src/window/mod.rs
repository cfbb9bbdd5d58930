//! Control memory that the processes of a node share for a window (MPI-5 chapter 12): locks, counters, and
//! the memory itself.
//!
//! A [`Control`] has a station for each member: the lock of its memory ([`Turnstile`]), the lock of
//! accumulates ([`Mutex`]), and the number of completed accesses to it. It also has a table of the posts of
//! targets to origins and, for memory that the others cannot map, a log for each member ([`active`]). It lies
//! at the beginning of a slot of the job object, followed by the memory that the members allocate. Only
//! memory that is touched takes space.
//!
//! # Safety
//! Stations and tallies consist of atomics, for which zero is valid, and lie inside the memory that a control
//! keeps alive. A record of a log is written by the origin that took the room for it, and read by the target
//! when that is done.
#![allow(unsafe_code)]

pub mod active;
pub mod mutex;
pub mod turnstile;

use std::time::Duration;

use tutti_sys::futex;
use tutti_sys::memory::Mapping;

use active::{LogTail, Tally};
use mutex::Mutex;
use turnstile::Turnstile;

/// Control words that a member of a node shares with the others.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Station {
    accumulating: Alone,
    /// Lock of the member's memory.
    pub door: Turnstile,
    /// Number of access epochs to the member's memory that members of the node have completed.
    pub completed: Tally,
    /// Number of bytes of its log that are in use.
    logged: LogTail,
}

/// Lock in a cache line of its own.
#[derive(Debug, Default)]
#[repr(C, align(64))]
struct Alone(Mutex);

/// Guard of a lock that is held.
#[derive(Debug)]
#[must_use = "it is held as long as this lives"]
pub struct Taken<'a>(&'a Mutex);

impl Drop for Taken<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.unlock(|word| {
            futex::wake_all(word);
        });
    }
}

/// The stations of the members on a node.
#[derive(Debug)]
pub struct Control {
    mapping: Mapping,
    members: u32,
    has_logs: bool,
}

/// Bytes of the log of a member: some thousand short puts an epoch.
const LOG_BYTES: u32 = 64 << 10;
/// Before the data of a record: an offset and a length, of 64 bits each. Records begin at multiples of eight
/// bytes.
const HEAD_BYTES: usize = 16;
const PAGE_BYTES: u64 = 4096;

/// Longest sleep for a lock that is held for the few instructions of an accumulate.
const SLEEP: Duration = Duration::from_millis(100);

impl Control {
    /// Bytes that the stations of so many members take, and their logs if they have any.
    pub fn bytes(members: u32, has_logs: bool) -> u64 {
        let logs = if has_logs { u64::from(members) * u64::from(LOG_BYTES) } else { 0 };
        Control::log_start(members) + logs
    }

    fn log_start(members: u32) -> u64 {
        let members = u64::from(members);
        let tallies = members * members * size_of::<Tally>() as u64;
        (members * size_of::<Station>() as u64 + tallies).next_multiple_of(PAGE_BYTES)
    }

    /// Creates the control at the beginning of a mapping that was all zero when the first member mapped it.
    ///
    /// # Panics
    /// If the mapping is too short: a bug of the caller.
    pub fn new(mapping: Mapping, members: u32, has_logs: bool) -> Control {
        assert!(mapping.bytes() as u64 >= Control::bytes(members, has_logs));
        Control { mapping, members, has_logs }
    }

    /// Returns the station of a member.
    ///
    /// # Panics
    /// If there is no such member: a bug of the caller.
    #[inline(always)]
    pub fn station(&self, member: u32) -> &Station {
        assert!(member < self.members, "member {member} of {}", self.members);
        // SAFETY: inside the mapping, as `new` has checked; aligned, since a mapping begins with a page.
        unsafe { self.mapping.base().cast::<Station>().add(member as usize).as_ref() }
    }

    /// Returns the count of times that `target` has posted its memory to `origin`.
    ///
    /// # Panics
    /// If there are no such members: a bug of the caller.
    #[inline]
    pub fn posts(&self, origin: u32, target: u32) -> &Tally {
        assert!(origin < self.members && target < self.members);
        let index = origin as usize * self.members as usize + target as usize;
        // SAFETY: the table follows the stations inside the mapping, as `new` has checked.
        unsafe {
            self.mapping
                .base()
                .cast::<Station>()
                .add(self.members as usize)
                .cast::<Tally>()
                .add(index)
                .as_ref()
        }
    }

    /// Leaves a put of `bytes` at `offset` to the target, `fill` writing the data: false, and nothing done,
    /// where there is no room. To be called between a post of the target that was awaited and the completion
    /// that is counted for it.
    #[inline]
    pub fn log(&self, target: u32, offset: u64, bytes: usize, fill: impl FnOnce(&mut [u8])) -> bool {
        if !self.has_logs || bytes > LOG_BYTES as usize - HEAD_BYTES {
            return false;
        }
        let room = (HEAD_BYTES + bytes).next_multiple_of(8);
        let Some(start) = self.station(target).logged.take(room as u32, LOG_BYTES) else { return false };
        // SAFETY: the room was taken by this origin and lies inside the log; nobody else looks at it before
        // the epoch is complete.
        let record = unsafe {
            let start = self.log_of(target).add(start as usize);
            std::slice::from_raw_parts_mut(start, HEAD_BYTES + bytes)
        };
        let (head, data) = record.split_at_mut(HEAD_BYTES);
        head[..8].copy_from_slice(&offset.to_ne_bytes());
        head[8..].copy_from_slice(&(bytes as u64).to_ne_bytes());
        fill(data);
        true
    }

    /// Takes the puts that were left to a member, as offset and data. To be called by it, when all are done
    /// that it has posted to.
    ///
    /// # Panics
    /// If a peer has left what makes no sense.
    #[inline]
    pub fn take_logged(&self, member: u32, mut put: impl FnMut(u64, &[u8])) {
        let room = &self.station(member).logged;
        let taken = room.taken() as usize;
        if taken == 0 || !self.has_logs {
            return;
        }
        assert!(taken <= LOG_BYTES as usize, "a log is as long as it is");
        // SAFETY: inside the mapping; all origins are done, says the caller.
        let mut left = unsafe { std::slice::from_raw_parts(self.log_of(member), taken) };
        while let Some((head, rest)) = left.split_at_checked(HEAD_BYTES) {
            let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|byte| head[at + byte]));
            let (data, _) = rest.split_at_checked(word(8) as usize).expect("a record as an origin leaves it");
            put(word(0), data);
            left = rest.get(data.len().next_multiple_of(8)..).unwrap_or(&[]);
        }
        room.clear();
    }

    /// Returns the address of the log of a member.
    fn log_of(&self, member: u32) -> *mut u8 {
        let start = Control::log_start(self.members) + u64::from(member) * u64::from(LOG_BYTES);
        self.mapping.base().as_ptr().wrapping_add(start as usize)
    }
}

impl Station {
    /// Runs `accumulate` while nobody else accumulates into the member's memory. `looks` is the number of
    /// looks before sleeping.
    #[inline(always)]
    pub fn alone<R>(&self, looks: u32, accumulate: impl FnOnce() -> R) -> R {
        let _taken = self.take(looks);
        accumulate()
    }

    /// Takes the lock of accumulates into the member's memory, held while the result lives. On x86 its
    /// release orders all stores before it ahead of all loads after it, where it is a locked exchange (AMD64
    /// manual, section 7.4.2).
    #[inline(always)]
    pub fn take(&self, looks: u32) -> Taken<'_> {
        self.accumulating.0.lock(looks, |word, value| futex::wait(word, value, SLEEP));
        Taken(&self.accumulating.0)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use tutti_sys::job::{Job, Plan, Slot};

    use super::*;

    fn control(job: &Arc<Job>, slot: &Slot) -> Control {
        Control::new(job.map_slot(slot.number(), Control::bytes(3, true)).unwrap(), 3, true)
    }

    #[test]
    fn members_see_one_control() {
        let job = Arc::new(Job::create(&Plan::one_host(1)).unwrap());
        let slot = Slot::take(&job).unwrap();
        let (one, other) = (control(&job, &slot), control(&job, &slot));
        (0..5).for_each(|_| one.posts(2, 1).count());
        one.station(2).completed.count();
        assert_eq!(other.posts(2, 1).now(), 5);
        assert_eq!(other.station(2).completed.now(), 1);
        assert_eq!((0..3).map(|from| other.posts(from, 2).now()).sum::<u32>(), 0);
        assert!(other.station(0).door.enter(one.station(0).door.ask(turnstile::Kind::Exclusive, 0)));
    }

    /// Checks that member 1 finds `expected` puts. Two origins alternately log puts of these lengths; for the
    /// remaining ones the log has no room.
    fn check_log(lengths: &[usize], expected: usize) {
        let job = Arc::new(Job::create(&Plan::one_host(1)).unwrap());
        let slot = Slot::take(&job).unwrap();
        let (one, other) = (control(&job, &slot), control(&job, &slot));
        for round in 0..2 {
            let mut left = Vec::new();
            for (number, &bytes) in lengths.iter().enumerate() {
                let (origin, value) = (if number % 2 == 0 { &one } else { &other }, (number + round) as u8);
                if origin.log(1, number as u64 * 100, bytes, |data| data.fill(value)) {
                    left.push((number as u64 * 100, vec![value; bytes]));
                }
            }
            let mut found = Vec::new();
            one.take_logged(1, |offset, data| found.push((offset, data.to_vec())));
            assert_eq!((found.len(), found), (expected, left));
            for member in [0, 2] {
                one.take_logged(member, |_, _| panic!("nothing was left there"));
            }
        }
    }

    #[test]
    fn puts_that_are_left_are_found_as_far_as_there_is_room() {
        check_log(&[], 0);
        check_log(&[8, 0, 1, 2048, 13, 8], 6);
        check_log(&[LOG_BYTES as usize - 16, 0], 1);
        check_log(&[LOG_BYTES as usize - 15, 0], 1);
        check_log(&[40_000, 30_000, 20_000, 6000, 5, 4], 4);
        check_log(&[8; 3000], LOG_BYTES as usize / 24);
    }

    #[test]
    fn accumulates_do_not_mix() {
        let job = Arc::new(Job::create(&Plan::one_host(1)).unwrap());
        let slot = Slot::take(&job).unwrap();
        let control = control(&job, &slot);
        let count = &AtomicU32::new(0);
        std::thread::scope(|scope| {
            for looks in [0, 0, 10, 100] {
                let station = control.station(1);
                scope.spawn(move || {
                    for _ in 0..5000 {
                        // Not one instruction: what others do between them is lost.
                        station.alone(looks, || {
                            count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed)
                        });
                    }
                });
            }
        });
        assert_eq!(count.load(Ordering::Relaxed), 20_000);
    }
}
