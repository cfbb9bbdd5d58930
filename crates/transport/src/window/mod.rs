//! What the processes of a node share of a window (MPI-5 chapter 12): locks, counters, and the memory itself.
//!
//! A [`Control`] has a station a member: the lock of its memory ([`Turnstile`]), the lock under which accumulates are done
//! ([`Mutex`]), how many accesses to it have been completed, and which targets have posted it. It lies at the beginning of a
//! slot of the job object, memory that the members allocate behind it.
//!
//! # Safety
//! Stations consist of atomics, for which zero is valid, and lie inside the memory that a control keeps alive.
#![allow(unsafe_code)]

pub mod mutex;
pub mod turnstile;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tutti_sys::futex;
use tutti_sys::memory::Mapping;

use mutex::Mutex;
use turnstile::Turnstile;

/// What a member of a node says to the others.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Station {
    accumulating: Alone,
    /// The lock of the member's memory.
    pub door: Turnstile,
    /// Access epochs to the member's memory that members of the node have completed, modulo 2^32.
    pub completed: AtomicU32,
}

/// A lock in a cache line of its own.
#[derive(Debug, Default)]
#[repr(C, align(64))]
struct Alone(Mutex);

/// A lock that is held.
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
}

/// Longest sleep for a lock that is held for the few instructions of an accumulate.
const SLEEP: Duration = Duration::from_millis(100);

impl Control {
    /// Bytes that the stations of so many members take.
    pub fn bytes(members: u32) -> u64 {
        let members = u64::from(members);
        members * size_of::<Station>() as u64 + members * members * size_of::<AtomicU32>() as u64
    }

    /// At the beginning of a mapping that was all zero when the first member mapped it.
    ///
    /// # Panics
    /// If the mapping is too short: a bug of the caller.
    pub fn new(mapping: Mapping, members: u32) -> Control {
        assert!(mapping.bytes() as u64 >= Control::bytes(members));
        Control { mapping, members }
    }

    /// The station of a member.
    ///
    /// # Panics
    /// If there is no such member: a bug of the caller.
    #[inline(always)]
    pub fn station(&self, member: u32) -> &Station {
        assert!(member < self.members, "member {member} of {}", self.members);
        // SAFETY: inside the mapping, as `new` has checked; aligned, since a mapping begins with a page.
        unsafe { self.mapping.base().cast::<Station>().add(member as usize).as_ref() }
    }

    /// How often `target` has posted its memory to `origin`, modulo 2^32.
    ///
    /// # Panics
    /// If there are no such members: a bug of the caller.
    #[inline]
    pub fn posts(&self, origin: u32, target: u32) -> &AtomicU32 {
        assert!(origin < self.members && target < self.members);
        let index = origin as usize * self.members as usize + target as usize;
        // SAFETY: the table follows the stations inside the mapping, as `new` has checked.
        unsafe {
            self.mapping
                .base()
                .cast::<Station>()
                .add(self.members as usize)
                .cast::<AtomicU32>()
                .add(index)
                .as_ref()
        }
    }
}

impl Station {
    /// Runs `accumulate` while nobody else accumulates into the member's memory. `looks`: how often to look before sleeping.
    #[inline(always)]
    pub fn alone<R>(&self, looks: u32, accumulate: impl FnOnce() -> R) -> R {
        let _taken = self.take(looks);
        accumulate()
    }

    /// Nobody else accumulates into the member's memory while the result lives. Giving it back orders all that was stored before ahead
    /// of all that is loaded after it on x86, where it is a locked exchange (AMD64 manual, section 7.4.2).
    #[inline(always)]
    pub fn take(&self, looks: u32) -> Taken<'_> {
        self.accumulating.0.lock(looks, |word, value| futex::wait(word, value, SLEEP));
        Taken(&self.accumulating.0)
    }

    /// One more access epoch is complete.
    pub fn complete(&self) {
        self.completed.fetch_add(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tutti_sys::job::{Job, Plan, Slot};

    use super::*;

    fn control(job: &Arc<Job>, slot: &Slot) -> Control {
        Control::new(job.map_slot(slot.number(), Control::bytes(3)).unwrap(), 3)
    }

    #[test]
    fn members_see_one_control() {
        let job = Arc::new(Job::create(&Plan::one_host(1)).unwrap());
        let slot = Slot::take(&job).unwrap();
        let (one, other) = (control(&job, &slot), control(&job, &slot));
        one.posts(2, 1).store(5, Ordering::Relaxed);
        one.station(2).complete();
        assert_eq!(other.posts(2, 1).load(Ordering::Relaxed), 5);
        assert_eq!(other.station(2).completed.load(Ordering::Relaxed), 1);
        assert_eq!((0..3).map(|from| other.posts(from, 2).load(Ordering::Relaxed)).sum::<u32>(), 0);
        assert!(other.station(0).door.enter(one.station(0).door.ask(turnstile::Kind::Exclusive, 0)));
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
