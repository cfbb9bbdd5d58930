//! Ring between one sender and one receiver: 64-byte slots for records, a byte ring for payloads that do not
//! fit into a slot. This is the algorithm over shared words; it touches no payload.
//!
//! - A slot's first word holds the lap on which it was last written, and the payload's length. The
//!   receiver knows which lap it expects, so one load tells whether a record is there, and memory that
//!   was zero to begin with is an empty ring: nothing is ever cleared.
//! - A payload of up to [`INLINE_BYTES`] lies in the slot, beside the lap: one cache line moves. A longer
//!   one takes contiguous bytes of the byte ring, which are freed in the order in which they were taken;
//!   a record says where its payload lies and how far the ring is free once it is consumed.
//! - A byte ring that is long enough is cut into two lanes. Short payloads stay in the first, which stays
//!   in the caches of both sides: their latency counts. Long ones go round a lane larger than a
//!   processor's own cache, because storing over lines that the receiver's cache still holds is several
//!   times slower than storing over lines that have left it (measured by `examples/pingpong`).
//! - The sender remembers how much it has seen freed and looks again only when that is used up. The
//!   receiver publishes what it freed at the end of each poll, and during it whenever an eighth of the
//!   long lane has gathered, so a sender cannot wait for room that is there.
//! - Each side keeps its own counters in a cache line of the ring's control page. A process therefore
//!   allocates nothing for a peer, and a pair that never talks has no pages.
//!
//! Entry points: [`Ring::reserve`], [`Ring::publish`]; [`Ring::peek`], [`Ring::take`],
//! [`Ring::publish_freed`]. Exactly one thread at a time sends and one receives.

use tutti_base::sync::{AtomicU32, AtomicU64, Ordering, fence};

use crate::link::Header;

/// Payload bytes that fit into a slot.
pub const INLINE_BYTES: usize = 32;
/// Payloads start at multiples of this, in bytes.
const PAYLOAD_ALIGN: u64 = 64;
/// Longest payload for the lane of short ones.
const SHORT_BYTES: usize = 512;
/// Length of that lane, and the shortest byte ring that has one.
const SHORT_LANE: u64 = 32 << 10;
const CUT_FROM: u64 = 128 << 10;
const LANES: usize = 2;

/// One record. Zero is an empty slot.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct RingSlot {
    /// Lap in the upper half, payload length in the lower.
    state: AtomicU64,
    header: [AtomicU64; 3],
    /// The payload itself, or its offset and the end of its allocation.
    pub(crate) inline: [AtomicU64; INLINE_BYTES / 8],
}

/// Counters of one ring: four groups by who writes them, 128 bytes apart because processors fetch cache
/// lines in pairs. Zero is an empty ring.
#[derive(Debug, Default)]
#[repr(C)]
pub struct RingControl {
    sender: SenderWords,
    receiver: ReceiverWords,
    freed: FreedWords,
    wish: WishWord,
}

/// Read and written by the sender only.
#[derive(Debug, Default)]
#[repr(C, align(128))]
struct SenderWords {
    /// Records sent.
    sent: AtomicU64,
    /// Records known to be consumed.
    seen_records: AtomicU64,
    lanes: [LaneWords; LANES],
}

/// Progress of the sender in one lane of the byte ring.
#[derive(Debug, Default)]
#[repr(C)]
struct LaneWords {
    /// Bytes ever allocated, including those skipped at the lane's end.
    allocated: AtomicU64,
    /// Bytes of these that are known to be free again.
    seen: AtomicU64,
    /// Offset in the lane of the next payload.
    offset: AtomicU64,
}

/// Read and written by the receiver only.
#[derive(Debug, Default)]
#[repr(C, align(128))]
struct ReceiverWords {
    /// Records consumed by the receiver.
    taken: AtomicU64,
    /// Freed bytes of each lane.
    freed: [AtomicU64; LANES],
    /// Published part of the freed bytes of long payloads.
    published: AtomicU64,
    /// Nonzero while the first record was left by its owner.
    held: AtomicU32,
}

/// Written by the receiver, read by the sender when what it has seen is used up.
#[derive(Debug, Default)]
#[repr(C, align(128))]
struct FreedWords {
    records: AtomicU64,
    bytes: [AtomicU64; LANES],
}

/// Written by a sender that is about to sleep for lack of room, cleared by the receiver.
#[derive(Debug, Default)]
#[repr(C, align(128))]
struct WishWord {
    room: AtomicU32,
}

/// A view of one ring.
#[derive(Clone, Copy, Debug)]
pub struct Ring<'a> {
    control: &'a RingControl,
    slots: &'a [RingSlot],
    short_lane: u64,
    long_lane: u64,
}

/// Memory for one record, not yet visible to the receiver.
#[derive(Debug)]
#[must_use = "a record is visible only once published"]
pub struct Reservation {
    sequence: u64,
    /// Offset of the payload in the byte ring, start of its lane, and end of the allocation; for payloads
    /// that are not inline.
    offset: u64,
    lane_start: u64,
    end: u64,
}

/// A record that has arrived.
#[derive(Debug)]
pub struct RingRecord<'a> {
    /// Header that the sender has passed.
    pub header: Header,
    /// Length of the payload.
    pub bytes: usize,
    slot: &'a RingSlot,
    sequence: u64,
}

impl<'a> Ring<'a> {
    /// Creates a view of the ring over `control` and `slots`, a power of two of them, with `payload_bytes` of
    /// byte ring.
    #[inline]
    pub fn new(control: &'a RingControl, slots: &'a [RingSlot], payload_bytes: u64) -> Ring<'a> {
        debug_assert!(slots.len().is_power_of_two());
        let short_lane = if payload_bytes >= CUT_FROM { SHORT_LANE } else { 0 };
        Ring { control, slots, short_lane, long_lane: payload_bytes - short_lane }
    }

    /// Returns the longest payload that always finds room in an empty ring of `payload_bytes`, wherever it
    /// starts.
    pub fn max_payload(payload_bytes: u64) -> usize {
        let lane = if payload_bytes >= CUT_FROM { payload_bytes - SHORT_LANE } else { payload_bytes };
        let half = lane / 2 / PAYLOAD_ALIGN * PAYLOAD_ALIGN;
        half.min(u64::from(u32::MAX) / 2) as usize
    }

    /// Reserves room for a record of `bytes`; None if the ring is full. Reserving again without publishing
    /// returns the same room.
    #[inline]
    pub fn reserve(&self, bytes: usize) -> Option<Reservation> {
        match self.place(bytes) {
            Some(place) => Some(place),
            None => {
                look_again(self.control);
                self.place(bytes)
            }
        }
    }

    /// Makes a record visible. What the caller wrote as payload becomes visible with it. Returns true
    /// for the first record of the ring, of which the receiver knows nothing yet.
    #[inline]
    pub fn publish(&self, place: Reservation, header: Header, bytes: usize) -> bool {
        let sender = &self.control.sender;
        let slot = self.slot(place.sequence);
        for (word, value) in slot.header.iter().zip(header.0) {
            word.store(value, Ordering::Relaxed);
        }
        if bytes > INLINE_BYTES {
            slot.inline[0].store(place.offset, Ordering::Relaxed);
            slot.inline[1].store(place.end, Ordering::Relaxed);
            let lane = &sender.lanes[self.lane(bytes)];
            lane.allocated.store(place.end, Ordering::Relaxed);
            lane.offset.store(place.offset - place.lane_start + padded(bytes), Ordering::Relaxed);
        }
        let state = u64::from(self.lap(place.sequence)) << 32 | bytes as u64;
        slot.state.store(state, Ordering::Release);
        sender.sent.store(place.sequence + 1, Ordering::Relaxed);
        place.sequence == 0
    }

    /// Returns the slot of a reserved place, for writing an inline payload.
    #[inline]
    pub fn slot_of(&self, place: &Reservation) -> &'a RingSlot {
        self.slot(place.sequence)
    }

    /// Returns true if a record of `bytes` would find room, as far as the receiver has published.
    pub fn has_room(&self, bytes: usize) -> bool {
        self.reserve(bytes).is_some()
    }

    /// Returns the result of [`Ring::has_room`]. If there is no room, the receiver learns of the request by
    /// [`Ring::grant`].
    pub fn want_room(&self, bytes: usize) -> bool {
        if self.has_room(bytes) {
            return true;
        }
        self.control.wish.room.store(1, Ordering::Relaxed);
        // Between the wish and the second look: either this look sees what was freed, or the receiver
        // sees the wish after freeing, except while its store is still on the way (see `bell`).
        fence(Ordering::SeqCst);
        self.has_room(bytes)
    }

    /// Returns the next record, if one has arrived.
    #[inline]
    pub fn peek(&self) -> Option<RingRecord<'a>> {
        let sequence = self.control.receiver.taken.load(Ordering::Relaxed);
        let slot = self.slot(sequence);
        let state = slot.state.load(Ordering::Acquire);
        if (state >> 32) as u32 != self.lap(sequence) {
            return None;
        }
        let header = Header(std::array::from_fn(|index| slot.header[index].load(Ordering::Relaxed)));
        Some(RingRecord { header, bytes: state as u32 as usize, slot, sequence })
    }

    /// Consumes the record that [`Ring::peek`] gave. Its payload may be overwritten once this is
    /// published.
    #[inline]
    pub fn take(&self, record: &RingRecord<'_>) {
        let receiver = &self.control.receiver;
        receiver.taken.store(record.sequence + 1, Ordering::Relaxed);
        if receiver.held.load(Ordering::Relaxed) != 0 {
            receiver.held.store(0, Ordering::Relaxed);
        }
        if record.bytes > INLINE_BYTES {
            let end = record.slot.inline[1].load(Ordering::Relaxed);
            receiver.freed[self.lane(record.bytes)].store(end, Ordering::Relaxed);
        }
    }

    /// Returns true if so many bytes were freed since the last [`Ring::publish_freed`] that the sender should
    /// know before the end of this poll.
    #[inline]
    pub fn owes(&self) -> bool {
        let receiver = &self.control.receiver;
        let owed = receiver.freed[1].load(Ordering::Relaxed) - receiver.published.load(Ordering::Relaxed);
        owed >= self.long_lane / 8
    }

    /// Lets the sender use what was taken so far.
    #[inline]
    pub fn publish_freed(&self) {
        let receiver = &self.control.receiver;
        for (published, freed) in self.control.freed.bytes.iter().zip(&receiver.freed) {
            published.store(freed.load(Ordering::Relaxed), Ordering::Release);
        }
        self.control.freed.records.store(receiver.taken.load(Ordering::Relaxed), Ordering::Release);
        receiver.published.store(receiver.freed[1].load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Returns true if the sender wishes to be woken now that there is room; true once for each wish. Call
    /// after [`Ring::publish_freed`].
    #[inline]
    pub fn grant(&self) -> bool {
        let wish = &self.control.wish.room;
        wish.load(Ordering::Relaxed) != 0 && wish.swap(0, Ordering::AcqRel) != 0
    }

    /// Notes that the first record was left by its owner, until one is taken.
    #[inline]
    pub fn hold(&self) {
        self.control.receiver.held.store(1, Ordering::Relaxed);
    }

    /// Returns true if a record has arrived that its owner has not left.
    #[inline]
    pub fn pending(&self) -> bool {
        self.has_record() && self.control.receiver.held.load(Ordering::Relaxed) == 0
    }

    /// Returns true if a record has arrived.
    #[inline]
    pub fn has_record(&self) -> bool {
        let sequence = self.control.receiver.taken.load(Ordering::Relaxed);
        let state = self.slot(sequence).state.load(Ordering::Acquire);
        (state >> 32) as u32 == self.lap(sequence)
    }

    /// Returns a place as far as the sender has seen the receiver free.
    #[inline]
    fn place(&self, bytes: usize) -> Option<Reservation> {
        let sender = &self.control.sender;
        let sequence = sender.sent.load(Ordering::Relaxed);
        if sequence - sender.seen_records.load(Ordering::Relaxed) >= self.slots.len() as u64 {
            return None;
        }
        if bytes <= INLINE_BYTES {
            return Some(Reservation { sequence, offset: 0, lane_start: 0, end: 0 });
        }
        let lane = &sender.lanes[self.lane(bytes)];
        let (lane_start, lane_bytes) = match self.lane(bytes) {
            0 => (0, self.short_lane),
            _ => (self.short_lane, self.long_lane),
        };
        let (mut offset, mut skipped) = (lane.offset.load(Ordering::Relaxed), 0);
        let padded = padded(bytes);
        if offset + padded > lane_bytes {
            (skipped, offset) = (lane_bytes - offset, 0);
        }
        let end = lane.allocated.load(Ordering::Relaxed) + skipped + padded;
        let fits = end - lane.seen.load(Ordering::Relaxed) <= lane_bytes;
        fits.then_some(Reservation { sequence, offset: lane_start + offset, lane_start, end })
    }

    /// Returns the lane of a payload that is not inline.
    #[inline]
    fn lane(&self, bytes: usize) -> usize {
        usize::from(bytes > SHORT_BYTES || self.short_lane == 0)
    }

    #[inline]
    fn slot(&self, sequence: u64) -> &'a RingSlot {
        &self.slots[sequence as usize & (self.slots.len() - 1)]
    }

    /// Returns the lap on which record `sequence` travels: 1 at first. It may wrap: only the lap before it is
    /// ever seen in its place.
    #[inline]
    fn lap(&self, sequence: u64) -> u32 {
        ((sequence >> self.slots.len().trailing_zeros()) + 1) as u32
    }
}

impl Reservation {
    /// Returns the offset of the payload in the byte ring; meaningless for an inline payload.
    #[inline]
    pub fn offset(&self) -> usize {
        self.offset as usize
    }
}

impl<'a> RingRecord<'a> {
    /// Returns the slot, which contains an inline payload.
    #[inline]
    pub fn slot(&self) -> &'a RingSlot {
        self.slot
    }

    /// Returns the offset of the payload in the byte ring; meaningless for an inline payload.
    #[inline]
    pub fn offset(&self) -> usize {
        self.slot.inline[0].load(Ordering::Relaxed) as usize
    }
}

/// Reads what the receiver has published since. Not a method of the view, so that the view stays in
/// registers.
#[cold]
fn look_again(control: &RingControl) {
    let (sender, freed) = (&control.sender, &control.freed);
    sender.seen_records.store(freed.records.load(Ordering::Acquire), Ordering::Relaxed);
    for (lane, freed) in sender.lanes.iter().zip(&freed.bytes) {
        lane.seen.store(freed.load(Ordering::Acquire), Ordering::Relaxed);
    }
}

#[inline]
fn padded(bytes: usize) -> u64 {
    (bytes as u64).next_multiple_of(PAYLOAD_ALIGN)
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<RingSlot>() == 64 && size_of::<RingControl>() <= 4096);
