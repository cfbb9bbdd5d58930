//! Records through the job's shared memory object.
//!
//! Each receiver has an inbox: announcements (a bit a sender that has ever sent, and above 64 senders a
//! summary of the words that have bits), then a ring from every sender, most of which never get a page. A
//! process polls the senders that announced themselves and no others. The algorithm of a ring is in
//! [`crate::ring`]; this file puts it over memory, moves payloads and rings doorbells.
//!
//! # Safety
//! - The inboxes lie inside the mapping that the link keeps alive ([`Job`]), start at page boundaries and
//!   held zeros before the first record; `RingControl`, `RingSlot` and the announcements consist of atomics,
//!   for
//!   which any bytes are valid.
//! - Ring (r, s) is sent into only by the link of rank s and polled only by that of rank r, and there is one
//!   link a rank: `ShmLink::new` claims the rank in its inbox. Between reserve and publish the payload
//!   belongs to the sender alone, between peek and take to the receiver alone.
//! - Offsets read from the ring are checked against its size before they are used.
#![allow(unsafe_code)]

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use tutti_base::sync::{AtomicU64, Ordering};
use tutti_sys::job::{self, Doorbell, Job};
use tutti_sys::{event, futex};

use crate::bell::Bell;
use crate::link::{Full, Header, Link, Peer, Sink, Verdict};
use crate::ring::{INLINE_BYTES, Ring, RingControl, RingRecord, RingSlot};
use crate::watch::bell_is_lost;

/// Payloads for whose successor the cache lines are fetched early. For shorter ones it costs more than it
/// saves, longer ones are streams, whose lines have left the receiver's cache (measured by
/// `examples/pingpong`).
const OWNED_EARLY: std::ops::RangeInclusive<usize> = 2049..=8192;

/// Prefetches the cache lines that will contain the next payload of this size. The receiver's processor
/// still holds them from the previous round, and stores that wait for them would delay the record.
#[inline]
#[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables, reason = "there is no such instruction"))]
fn own_early(start: *mut u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    for offset in (0..bytes).step_by(64) {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        // SAFETY: a prefetch reads and writes nothing and does not fault, wherever it points.
        unsafe { _mm_prefetch::<_MM_HINT_ET0>(start.wrapping_add(offset).cast()) };
    }
}

/// Most records that one poll hands over from one peer.
const RECORDS_PER_POLL: usize = 32;
/// Words before the announcements of senders: one cache line, of the summary and the claim.
const SUMMARY_WORDS: usize = 8;
/// The last of these words: 1 while a link of the inbox's owner exists.
const CLAIM_WORD: usize = SUMMARY_WORDS - 1;
/// Most ranks that the announcements can tell apart.
const MAX_RANKS: u32 = (CLAIM_WORD * 64 * 64) as u32;
/// Offset of the slots in a ring: after the page of its control words.
const SLOTS_OFFSET: usize = 4096;

/// A [`Link`] between the processes that share a job object.
#[derive(Debug)]
pub struct ShmLink {
    job: Arc<Job>,
    /// First byte of the inbox of local rank 0; the others follow at `inbox_stride`.
    inboxes: NonNull<u8>,
    inbox_stride: usize,
    /// Offset in an inbox of the ring from sender 0; the others follow at `ring_stride`.
    rings_offset: usize,
    ring_stride: usize,
    /// Offset in a ring of the payload.
    payload_offset: usize,
    payload_bytes: usize,
    slots: usize,
    ranks: u32,
    rank: u32,
    lane: u32,
    max_payload: usize,
    /// In a bridge: the location of each of its ranks.
    homes: Option<Box<[Home]>>,
}

/// Location of a rank of a bridge: the job object that has its doorbell, and its local rank in that job.
#[derive(Clone, Debug)]
pub struct Home {
    /// Object of the rank's own job.
    pub job: Arc<Job>,
    /// Local rank in that job.
    pub local: u32,
}

// SAFETY: the pointer points into the mapping owned by `job`, which may be used from any thread.
unsafe impl Send for ShmLink {}

impl ShmLink {
    /// Opens the link of local rank `rank` in `job`, in the first lane.
    ///
    /// # Errors
    /// As [`ShmLink::in_lane`].
    pub fn new(job: Arc<Job>, rank: u32) -> io::Result<ShmLink> {
        ShmLink::in_lane(job, rank, 0)
    }

    /// Opens the link of local rank `rank` in a lane of `job`. Lanes share nothing.
    ///
    /// # Errors
    /// InvalidData when the job object states sizes that no ring can have; AlreadyExists when there is a
    /// link of this rank in the lane, in this process or another.
    pub fn in_lane(job: Arc<Job>, rank: u32, lane: u32) -> io::Result<ShmLink> {
        let header = *job.header();
        let slots = header.ring_slots as usize;
        let sane = rank < header.local_ranks
            && lane < header.lanes
            && header.local_ranks <= MAX_RANKS
            && slots.is_power_of_two()
            && header.ring_bytes.is_multiple_of(4096)
            && header.ring_bytes > 0;
        if !sane {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the job object has impossible rings"));
        }
        let ring_stride = job::ring_stride(&header) as usize;
        let payload_bytes = header.ring_bytes as usize;
        let link = ShmLink {
            inboxes: job.inbox(lane, 0),
            inbox_stride: job::inbox_bytes(&header) as usize,
            rings_offset: job::announce_bytes(&header) as usize,
            ring_stride,
            payload_offset: ring_stride - payload_bytes,
            payload_bytes,
            slots,
            ranks: header.local_ranks,
            rank,
            lane,
            max_payload: Ring::max_payload(header.ring_bytes),
            homes: None,
            job,
        };
        if link.announcement(rank, CLAIM_WORD).swap(1, Ordering::AcqRel) != 0 {
            std::mem::forget(link); // dropping it would withdraw the claim of the other
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "this rank has a link already"));
        }
        Ok(link)
    }

    /// Opens the link of rank `rank` in a bridge: a job object of nothing but rings, between processes of
    /// several jobs. A process sleeps in one place only, so `homes` contains the location of each rank of the
    /// bridge.
    ///
    /// # Errors
    /// As [`ShmLink::new`].
    ///
    /// # Panics
    /// If there is not a home for each: a bug of the caller.
    pub fn bridge(object: Arc<Job>, rank: u32, homes: Box<[Home]>) -> io::Result<ShmLink> {
        assert_eq!(homes.len(), object.header().local_ranks as usize, "a home a rank");
        let mut link = ShmLink::new(object, rank)?;
        link.homes = Some(homes);
        Ok(link)
    }

    /// Returns the job object that carries this link.
    pub fn job(&self) -> &Arc<Job> {
        &self.job
    }

    /// Returns the local rank of this process.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Returns the doorbell of this process, for waiting.
    pub fn doorbell(&self) -> &Doorbell {
        self.job.block(self.rank).doorbell_of(self.lane)
    }

    /// Returns the first byte of the ring from `sender` to `receiver`.
    #[inline]
    fn ring_base(&self, receiver: u32, sender: u32) -> NonNull<u8> {
        assert!(receiver < self.ranks && sender < self.ranks, "no such local rank");
        let offset =
            receiver as usize * self.inbox_stride + self.rings_offset + sender as usize * self.ring_stride;
        // SAFETY: both ranks exist, so the offset lies in the ring area of the mapping.
        unsafe { self.inboxes.add(offset) }
    }

    #[inline]
    fn ring(&self, base: NonNull<u8>) -> Ring<'_> {
        // SAFETY: base comes from ring_base, so RingControl and the slots lie there, page aligned, in a
        // mapping that outlives self; they are atomics, valid whatever they hold.
        let (control, slots) = unsafe {
            let slots = base.add(SLOTS_OFFSET).cast::<RingSlot>();
            (base.cast::<RingControl>().as_ref(), std::slice::from_raw_parts(slots.as_ptr(), self.slots))
        };
        Ring::new(control, slots, self.payload_bytes as u64)
    }

    /// Returns the first byte of a payload of `bytes` at `offset` of the byte ring.
    #[inline]
    fn payload(&self, base: NonNull<u8>, offset: usize, bytes: usize) -> NonNull<u8> {
        let inside = offset <= self.payload_bytes && bytes <= self.payload_bytes - offset;
        assert!(inside, "a payload outside its ring: shared memory was overwritten");
        // SAFETY: just checked to lie inside the ring's payload.
        unsafe { base.add(self.payload_offset + offset) }
    }

    /// Returns announcement word `index` of `receiver`'s inbox: the summary first, then the senders.
    #[inline]
    fn announcement(&self, receiver: u32, index: usize) -> &AtomicU64 {
        debug_assert!(index < SUMMARY_WORDS + (self.ranks as usize).div_ceil(64));
        // SAFETY: announce_bytes gives the summary's 64 bytes and a bit a rank, rounded up to pages.
        unsafe {
            let inbox = self.inboxes.add(receiver as usize * self.inbox_stride);
            inbox.cast::<AtomicU64>().add(index).as_ref()
        }
    }

    /// Tells `receiver` that this process has begun to send to it.
    #[cold]
    fn announce(&self, receiver: u32) {
        let word = self.rank as usize / 64;
        let senders = self.announcement(receiver, SUMMARY_WORDS + word);
        senders.fetch_or(1 << (self.rank % 64), Ordering::Release);
        if self.ranks > 64 {
            let summary = self.announcement(receiver, word / 64);
            summary.fetch_or(1 << (word % 64), Ordering::Release);
        }
    }

    /// Calls `visit` for every sender that has announced itself, until it says true; says whether any
    /// did.
    #[inline]
    fn any_sender(&self, mut visit: impl FnMut(u32) -> bool) -> bool {
        if self.ranks <= 64 {
            return self.any_in_word(0, &mut visit);
        }
        let words = (self.ranks as usize).div_ceil(64);
        (0..words.div_ceil(64)).any(|index| {
            bits(self.announcement(self.rank, index).load(Ordering::Acquire))
                .any(|bit| self.any_in_word(index as u32 * 64 + bit, &mut visit))
        })
    }

    #[inline]
    fn any_in_word(&self, word: u32, visit: &mut impl FnMut(u32) -> bool) -> bool {
        let senders = self.announcement(self.rank, SUMMARY_WORDS + word as usize).load(Ordering::Acquire);
        bits(senders).any(|bit| visit(word * 64 + bit))
    }

    /// Hands over what one sender sent.
    #[inline]
    fn drain(&self, from: u32, sink: &mut impl Sink) -> bool {
        let base = self.ring_base(self.rank, from);
        let ring = self.ring(base);
        let mut taken = false;
        for _ in 0..RECORDS_PER_POLL {
            let Some(record) = ring.peek() else { break };
            let payload = self.received(base, &record);
            if sink.arrived(Peer(from), record.header, payload) == Verdict::Left {
                ring.hold();
                break;
            }
            ring.take(&record);
            taken = true;
            if ring.owes() {
                self.release(&ring, from);
            }
        }
        if taken {
            self.release(&ring, from);
        }
        taken
    }

    #[inline]
    fn received<'a>(&'a self, base: NonNull<u8>, record: &RingRecord<'a>) -> &'a [u8] {
        let start = if record.bytes <= INLINE_BYTES {
            record.slot().inline.as_ptr().cast::<u8>()
        } else {
            self.payload(base, record.offset(), record.bytes).as_ptr()
        };
        // SAFETY: start has record.bytes behind it in the slot or, as just checked, in the byte ring;
        // the sender wrote them before it published and leaves them alone until they are freed.
        unsafe { std::slice::from_raw_parts(start, record.bytes) }
    }

    #[inline]
    fn release(&self, ring: &Ring<'_>, from: u32) {
        ring.publish_freed();
        if ring.grant() {
            self.wake(from);
        }
    }

    #[inline]
    fn wake(&self, peer: u32) {
        match &self.homes {
            None => ring_doorbell(&self.job, peer, self.lane),
            // Processes of several jobs communicate in the first lane.
            Some(homes) => ring_doorbell(&homes[peer as usize].job, homes[peer as usize].local, 0),
        }
    }
}

impl Drop for ShmLink {
    fn drop(&mut self) {
        self.announcement(self.rank, CLAIM_WORD).store(0, Ordering::Release);
    }
}

impl Link for ShmLink {
    #[inline]
    fn max_payload(&self) -> usize {
        self.max_payload
    }

    #[inline]
    fn try_send_with(
        &mut self,
        to: Peer,
        header: Header,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), Full> {
        assert!(bytes <= self.max_payload && to.0 != self.rank, "a record that no link takes");
        let base = self.ring_base(to.0, self.rank);
        let ring = self.ring(base);
        let place = ring.reserve(bytes).ok_or(Full)?;
        let start = if bytes <= INLINE_BYTES {
            ring.slot_of(&place).inline.as_ptr().cast_mut().cast::<u8>()
        } else {
            self.payload(base, place.offset(), bytes).as_ptr()
        };
        // SAFETY: start has `bytes` behind it, and until publish they belong to this call alone: the
        // receiver has freed them and has not been told of them again.
        fill(unsafe { std::slice::from_raw_parts_mut(start, bytes) });
        if ring.publish(place, header, bytes) {
            self.announce(to.0);
        }
        self.wake(to.0);
        if OWNED_EARLY.contains(&bytes) {
            own_early(start.wrapping_add(bytes.next_multiple_of(64)), bytes);
        }
        Ok(())
    }

    fn has_room(&self, to: Peer, bytes: usize) -> bool {
        self.ring(self.ring_base(to.0, self.rank)).has_room(bytes)
    }

    fn want_room(&mut self, to: Peer, bytes: usize) -> bool {
        self.ring(self.ring_base(to.0, self.rank)).want_room(bytes)
    }

    #[inline]
    fn poll(&mut self, sink: &mut impl Sink) -> bool {
        let mut taken = false;
        self.any_sender(|from| {
            taken |= self.drain(from, sink);
            false
        });
        taken
    }

    #[inline]
    fn poll_peer(&mut self, from: Peer, sink: &mut impl Sink) -> bool {
        let announced = self.announcement(self.rank, SUMMARY_WORDS + from.0 as usize / 64);
        announced.load(Ordering::Acquire) >> (from.0 % 64) & 1 != 0 && self.drain(from.0, sink)
    }

    fn has_come(&self, from: Peer) -> Option<bool> {
        Some(self.ring(self.ring_base(self.rank, from.0)).pending())
    }

    #[inline]
    fn is_quiet(&self) -> bool {
        !self.any_sender(|from| self.ring(self.ring_base(self.rank, from)).has_record())
    }

    #[inline]
    fn pending(&self) -> bool {
        self.any_sender(|from| self.ring(self.ring_base(self.rank, from)).pending())
    }
}

/// Wakes the threads of local rank `rank` of `job` that sleep in `lane`. Call after making the work visible
/// that they wait for.
#[inline]
pub fn ring_doorbell(job: &Job, rank: u32, lane: u32) {
    bell(job.block(rank).doorbell_of(lane)).ring(|word, wakes| {
        if wakes.futex {
            futex::wake_all(word);
        }
        if wakes.descriptor
            && let Some(bell) = job.bell(rank)
            && !event::strike(bell)
        {
            bell_is_lost();
        }
    });
}

/// Returns the words of a doorbell.
#[inline]
pub fn bell(doorbell: &Doorbell) -> Bell<'_> {
    Bell { sleeping: &doorbell.sleeping, futex: &doorbell.futex, polled: &doorbell.polled }
}

/// Returns the positions of the ones in `word`.
#[inline]
fn bits(mut word: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = (word != 0).then(|| word.trailing_zeros())?;
        word &= word - 1;
        Some(bit)
    })
}
