//! Slots: memory that a program requests while the job runs, namely that of windows (MPI-5 chapter 12).
//!
//! The job object is sparse, so its far end costs nothing. It is divided into slots of 2^47 bytes, as much
//! as a process can address; the first holds the areas of the launcher. A process takes a slot and sends
//! its number to the processes that will map it. When it is not used any more, that process drops it, which
//! frees its pages.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Job;
use crate::memory::{self, Mapping};

pub(super) const SLOT_SHIFT: u32 = 47;
const OBJECT_BYTES: u64 = 1 << 62;
/// Number of words with the bits of taken slots.
pub(super) const WORDS: usize = 504;

/// Bits of taken slots. The slot with the launcher's areas is never given out.
#[derive(Debug)]
#[repr(C)]
pub struct Slots([AtomicU64; WORDS]);

/// Slot that this process has taken. Dropping it frees the slot and its pages.
#[derive(Debug)]
pub struct Slot {
    job: Arc<Job>,
    number: u32,
}

impl Slots {
    /// Takes a free slot and returns its number; `None` if all are taken.
    fn take(&self) -> Option<u32> {
        for (index, word) in self.0.iter().enumerate() {
            let mut now = word.load(Ordering::Relaxed);
            // A bounded loop: each failure means that another process has changed one of the 64 bits.
            while now != u64::MAX {
                let bit = now.trailing_ones();
                match word.compare_exchange_weak(now, now | 1 << bit, Ordering::AcqRel, Ordering::Relaxed) {
                    Ok(_) => return Some(index as u32 * 64 + bit + 1),
                    Err(other) => now = other,
                }
            }
        }
        None
    }

    fn give_back(&self, number: u32) {
        let bit = number - 1;
        self.0[bit as usize / 64].fetch_and(!(1 << (bit % 64)), Ordering::AcqRel);
    }
}

impl Slot {
    /// Takes a slot whose memory is zero.
    ///
    /// # Errors
    /// StorageFull when all slots are taken; the system's error for an object of this size.
    pub fn take(job: &Arc<Job>) -> io::Result<Slot> {
        let number = job.take_slot()?;
        Ok(Slot { job: Arc::clone(job), number })
    }

    /// Returns the number by which other processes map the slot.
    pub fn number(&self) -> u32 {
        self.number
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.job.give_slot_back(self.number);
    }
}

impl Job {
    /// Takes a slot. All generations of a node take their slots from the first object.
    pub(super) fn take_slot(&self) -> io::Result<u32> {
        memory::grow(self.object()?, OBJECT_BYTES)?;
        self.first().node().slots.take().ok_or_else(|| io::ErrorKind::StorageFull.into())
    }

    /// Frees a slot and its pages.
    pub(super) fn give_slot_back(&self, number: u32) {
        // A slot whose pages remain must not be reused, because a new owner expects zeros.
        let punch = |object| memory::punch(object, u64::from(number) << SLOT_SHIFT, 1 << SLOT_SHIFT);
        if self.object().and_then(punch).is_ok() {
            self.first().node().slots.give_back(number);
        }
    }

    /// Maps the first `bytes` of a slot that is taken, at a multiple of `alignment`, a power of two.
    ///
    /// # Errors
    /// Errors of mmap; no space where a file replaces the memory object; InvalidInput for an invalid number
    /// or length.
    pub fn map_slot_aligned(&self, number: u32, bytes: u64, alignment: u64) -> io::Result<Mapping> {
        let length = usize::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
        if number == 0 || number as usize > WORDS * 64 || bytes > 1 << SLOT_SHIFT {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let start = u64::from(number) << SLOT_SHIFT;
        let object = self.object()?;
        memory::reserve(object, start, bytes)?;
        let alignment = usize::try_from(alignment).map_err(|_| io::ErrorKind::InvalidInput)?;
        Mapping::aligned_range(object, start, length, alignment)
    }

    /// Maps the first `bytes` of a slot that is taken, at any page.
    ///
    /// # Errors
    /// Errors of [`Job::map_slot_aligned`].
    pub fn map_slot(&self, number: u32, bytes: u64) -> io::Result<Mapping> {
        self.map_slot_aligned(number, bytes, 1)
    }
}

const _: () = assert!(WORDS * 64 < (OBJECT_BYTES >> SLOT_SHIFT) as usize);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Plan;

    #[test]
    fn slots_are_shared_and_read_as_zero_when_taken_again() {
        let job = Arc::new(Job::create(&Plan::one_host(2)).unwrap());
        let other = Job::attach(job.fd().try_clone_to_owned().unwrap()).unwrap();
        for _ in 0..3 {
            let (one, two) = (Slot::take(&job).unwrap(), Slot::take(&job).unwrap());
            assert_eq!((one.number(), two.number()), (1, 2));
            let here = job.map_slot(two.number(), 3 << 20).unwrap();
            let there = other.map_slot(two.number(), 3 << 20).unwrap();
            // SAFETY: both mappings have so many bytes and nothing else uses them.
            unsafe {
                assert_eq!(there.base().add(2 << 20).read(), 0);
                here.base().add(2 << 20).write(7);
                assert_eq!(there.base().add(2 << 20).read(), 7);
            }
        }
        for alignment in [1 << 13, 1 << 21, 1 << 28] {
            let slot = Slot::take(&job).unwrap();
            let here = job.map_slot_aligned(slot.number(), 5000, alignment).unwrap();
            assert!(here.base().as_ptr().addr().is_multiple_of(alignment as usize));
            // SAFETY: the mapping has so many bytes and nothing else uses it.
            unsafe { here.base().add(4999).write(7) };
        }
        assert!(job.map_slot(0, 1).is_err() && job.map_slot(1, 1 << 48).is_err());
    }

    #[test]
    fn they_are_many_but_not_endless() {
        let job = Arc::new(Job::create(&Plan::one_host(1)).unwrap());
        let all: Vec<u32> = std::iter::from_fn(|| job.node().slots.take()).collect();
        assert_eq!(all.len(), WORDS * 64);
        job.node().slots.give_back(70);
        assert_eq!(job.node().slots.take(), Some(70));
    }
}
