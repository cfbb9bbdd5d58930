//! Banks: the control and scratch memory of a communicator on its node (S1, Graham and Shipman, section 3).
//!
//! Each member has flags, which it sets and others await, and a bank: scratch memory that it writes and
//! others read. An operation uses one slot of them, chosen by its number. [`turns`] explains when a slot may
//! be used again, and [`layout`] the offsets. The memory is a region of the job object that the members find
//! without messages ([`Region`]). It is taken at the first use and given back when all members have closed.
//! If there is no room, it is refused to all members alike, and they send messages.
//!
//! # Waiting and waking
//! A rank that waits for long sleeps on the doorbell of its process. A member that posts or leaves pays one
//! load if nobody on the node sleeps (`NodeBlock::parked`). Otherwise it looks for members that wait for it.
//! Before a member sleeps, [`Banks::want`] publishes whose flags it awaits, and a refused [`Banks::grant`]
//! publishes which count it needs. Hence on crowded processors a post wakes only the ranks concerned. All
//! these words are written before the sleep is announced and read after the flag is stored. The argument of
//! [`crate::bell`] therefore covers them: either the waker sees them, or the sleeper, which looks twice, sees
//! the flag.
//!
//! # Safety
//! - All offsets come from one [`Layout`], whose parts lie inside the region; the region stays mapped while
//!   the value lives.
//! - The memory that references point to consists of atomics only, valid whatever it holds: control words and
//!   heads. A slot of another set cannot lead outside: [`Banks::flag`] checks the place. Payload is handed
//!   out as pointers: what is read and written through them, in which order, is the caller's promise, for
//!   which `turns` gives the rules.
#![allow(unsafe_code)]

pub mod found;
pub mod layout;
mod said;
pub mod shelf;
pub mod turns;

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use tutti_base::sync::{AtomicU32, AtomicU64, Ordering};
use tutti_sys::job::Job;
use tutti_sys::regions::{Region, RegionKey};
use tutti_sys::remap;

use found::{ENTRIES, Found, FoundEntry};
use layout::{
    CLASSES, CONTROL_BYTES, EDGE_BYTES, HEAD_BYTES, INLINE_BYTES, Places, RECORD_BYTES, RECORDS, WAITS_OFFSET,
};
pub use layout::{Class, Layout, Slots};
pub use said::CallSignature;
use turns::Turns;

use crate::shm::ring_doorbell;

/// Bytes of a line.
const LINE: usize = 64;
/// Banks longer than the first length and shorter than the second move within their slots
/// ([`Banks::spread`]).
const SPREAD_BYTES: [usize; 2] = [8 << 10, 32 << 10];
/// Limit of the payload of all members together for the above: the share of a cache that they may take.
const ALL_BYTES: usize = 8 << 20;
/// Offset in a head of the line with flag 0 and the inline bank.
const FIRST_FLAG: usize = LINE;

/// One member's view of a set of banks.
#[derive(Debug)]
pub struct Banks {
    parts: Parts,
    /// Offset at which the last head of the last member begins.
    last_head: usize,
    parked: NonNull<AtomicU32>,
    me: u32,
    turns: [Turns; CLASSES],
    /// Bytes of the banks whose memory is populated in all slots, by [`Class`].
    populated: [usize; CLASSES],
    /// Number of exposures of each slot whose page edges and tables are populated, by class.
    populated_exposures: [usize; CLASSES],
    places: Places,
    layout: Layout,
    /// The local rank of each member.
    ranks: Box<[u32]>,
    region: Region,
}

// SAFETY: the pointers lead into mappings that `region` and its job keep alive, valid in every thread.
unsafe impl Send for Banks {}
// SAFETY: as above; what a shared reference allows are loads and stores of atomics, and taking addresses.
unsafe impl Sync for Banks {}

/// The parts of all members.
#[derive(Clone, Copy, Debug)]
struct Parts {
    /// First byte of the part of member 0.
    base: NonNull<u8>,
    /// Distance from one part to the next.
    stride: usize,
    members: u32,
}

/// Location of one operation's memory in a set. Plain numbers, valid for the set that granted them.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// Flag word of this operation with value 0.
    tag: u64,
    // Offsets in a part.
    head: u32,
    bank: u32,
    class: Class,
    /// Index of the slot in its class.
    place: u8,
}

/// Needs that a member publishes before it sleeps, in its own part.
#[repr(C)]
struct Waits {
    /// Bit i: a flag of a member whose number is i modulo 64.
    flags: AtomicU64,
    /// Count of operations left that the member needs of all members, by class; 0 if none.
    left: [AtomicU64; CLASSES],
    /// Not 0: from which operation on it uses the set no more, see [`Banks::give_up`].
    gave_up: AtomicU64,
}

impl Banks {
    /// Opens the set of `key`. `ranks` are the local ranks of its members, in their order, `me` is the
    /// caller's place among them. `None`: refused, for all members; each asks once.
    ///
    /// # Errors
    /// As [`Region::open`]; all but WouldBlock are fatal, since the members do not agree about errors.
    pub fn open(
        job: &Arc<Job>,
        key: RegionKey,
        layout: &Layout,
        ranks: &[u32],
        me: u32,
    ) -> io::Result<Option<Banks>> {
        let members = layout.members;
        let are_there = ranks.iter().all(|&rank| rank < job.header().local_ranks);
        assert!(ranks.len() == members as usize && me < members && are_there, "members that are not there");
        let bytes = layout.places().bytes as u64;
        let Some(region) = Region::open(job, key, members, bytes)? else { return Ok(None) };
        Ok(Some(Banks::from_region(region, layout, ranks, me)))
    }

    /// Makes the set that lies in a region.
    fn from_region(region: Region, layout: &Layout, ranks: &[u32], me: u32) -> Banks {
        let (members, places) = (layout.members, layout.places());
        let last_in_part = places.heads_end - HEAD_BYTES;
        let parts = Parts { base: region.mapping().base(), stride: places.stride, members };
        // What this member has left there counts on, if the region was used before.
        let turns = |class: Class| {
            let left = parts.left(me, class).load(Ordering::Relaxed);
            Turns::resume(layout.slots[class as usize].count, left)
        };
        let banks = Banks {
            parts,
            last_head: last_in_part + (members as usize - 1) * places.stride,
            parked: NonNull::from(&region.job().node().parked),
            me,
            turns: Class::ALL.map(turns),
            populated: [0; CLASSES],
            populated_exposures: [0; CLASSES],
            places,
            layout: *layout,
            ranks: ranks.into(),
            region,
        };
        banks.touch();
        banks
    }

    /// Returns the number of operations that this member has left, of all classes. All members have the same
    /// while none is under way.
    pub fn left(&self) -> u64 {
        self.turns.iter().map(Turns::left).sum()
    }

    /// Returns true if no operation is under way at this member and the member is in step with the others.
    fn is_at_rest(&self) -> bool {
        self.turns.iter().all(Turns::is_idle) && self.given_up(self.me).is_none()
    }

    /// Returns the sizes on which the members agreed.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the table of results that members have found for all.
    pub fn found(&self) -> Found<'_> {
        let entries = self.address_in_part(0, self.places.found).cast::<FoundEntry>();
        // SAFETY: inside the part of the first member, which is 64-aligned as all its parts are; atomics,
        // valid as zeros.
        Found::new(unsafe { std::slice::from_raw_parts(entries, ENTRIES) })
    }

    /// Returns the index of this process among the members.
    #[inline]
    pub fn me(&self) -> u32 {
        self.me
    }

    /// Returns the number of members.
    #[inline]
    pub fn members(&self) -> u32 {
        self.parts.members
    }

    /// Returns the number of the next operation of `class`. Every operation that begins is granted once and
    /// left once.
    #[inline]
    pub fn begin(&mut self, class: Class) -> u64 {
        self.turns[class as usize].begin()
    }

    /// Returns the slot of operation `number` if all members have left the operation that used it before. Its
    /// bank has `bytes` bytes at every member; its flags carry `agreed` ([`turns::word`]). The caller repeats
    /// a refused call, also from the `pending` of a wait: the refusal publishes the count that it needs.
    #[inline]
    pub fn grant(&mut self, class: Class, number: u64, bytes: usize, agreed: u16) -> Option<Slot> {
        if self.turns[class as usize].is_granted(number) || self.look(class, number) {
            let slot = self.slot(class, number, bytes, agreed);
            if turns::is_stale(number) {
                // A copy: what is only here stays in registers.
                self.clear(slot);
            }
            Some(slot)
        } else {
            None
        }
    }

    /// Returns the slot with its bank further back in its payload, depending on the number. Then it takes
    /// long until the same lines are used again. Lines that have left the caches of their readers are written
    /// at once: 16 KiB take 0.8 us instead of 3. For slots whose payload contains only the bank. All members
    /// get the same offset.
    #[inline]
    pub fn spread(&self, slot: Slot, number: u64, bytes: usize) -> Slot {
        let [least, most] = SPREAD_BYTES;
        if bytes <= least || bytes >= most {
            return slot;
        }
        let Slots { count, payload } = self.layout.slots[slot.class as usize];
        let distance = bytes.next_multiple_of(128);
        let most = ALL_BYTES / (self.parts.members as usize * count as usize * distance);
        let places = (payload / distance).min(most).max(1) as u64;
        let place = number / u64::from(count) % places;
        Slot { bank: slot.bank + place as u32 * distance as u32, ..slot }
    }

    /// Has the own memory now that operations with banks of so many bytes use in all slots of `class`, which
    /// else comes page by page as slots are written for the first time.
    pub fn populate(&mut self, class: Class, bytes: usize) {
        let (place, Slots { count, payload }) = (class as usize, self.layout.slots[class as usize]);
        if bytes <= INLINE_BYTES || bytes <= self.populated[place] {
            return;
        }
        self.populated[place] = bytes;
        let is_most = 2 * bytes >= payload;
        self.populate_each(
            self.places.payloads[place],
            self.places.payload_stride[place],
            count,
            bytes,
            is_most,
        );
    }

    /// Populates page edges and tables, for operations that expose memory this often.
    pub fn populate_exposures(&mut self, class: Class, exposures: usize) {
        let (place, count) = (class as usize, self.layout.slots[class as usize].count);
        let exposures = exposures.min(RECORDS);
        if !class.lends() || exposures <= self.populated_exposures[place] {
            return;
        }
        self.populated_exposures[place] = exposures;
        let Places { edges, tables, table_bytes, .. } = self.places;
        for (first, bytes) in [(edges[place], EDGE_BYTES), (tables[place], table_bytes)] {
            self.populate_each(first, RECORDS * bytes, count, exposures * bytes, 2 * exposures >= RECORDS);
        }
    }

    /// Populates pieces of the own part: `bytes` of each of `count` pieces that begin `stride` bytes apart,
    /// the first at `first`. If that is most of the memory, populates all of it at once.
    fn populate_each(&self, first: usize, stride: usize, count: u32, bytes: usize, is_most: bool) {
        let (pieces, length) = if is_most { (1, count as usize * stride) } else { (count as usize, bytes) };
        for piece in 0..pieces {
            remap::populate_written(self.address_in_part(self.me, first + piece * stride), length);
        }
    }

    /// Notes that operation `number` has ended here: this member no longer reads or writes its memory.
    #[inline]
    pub fn leave(&mut self, class: Class, number: u64) {
        let parts = self.parts;
        let (before, now) = self.turns[class as usize].leave(number, parts.left(self.me, class));
        if parts.waits(self.me).flags.load(Ordering::Relaxed) != 0 {
            self.forget_waits();
        }
        if self.is_anyone_parked() {
            self.wake_for_room(class, before, now);
        }
    }

    /// Returns flag `flag` of `member`, a word in the format of [`turns::word`].
    #[inline]
    pub fn flag(&self, slot: &Slot, member: u32, flag: u16) -> &AtomicU64 {
        let head = slot.head as usize + member as usize * self.parts.stride;
        assert!(head <= self.last_head, "a slot or a member of another set");
        // Flags 1 to 7 are words 1 to 7 of the head, flag 0 is word 8.
        let index = (usize::from(flag).wrapping_sub(1) & 7) + 1;
        // SAFETY: the head lies inside the region, 8-aligned, and its words at `index` are only used as
        // atomics.
        unsafe { self.parts.base.add(head + index * size_of::<u64>()).cast().as_ref() }
    }

    /// Sets the own flag `flag` to `value`; what this thread wrote before is visible to who sees it. Wakes
    /// who sleeps until then.
    #[inline]
    pub fn post(&self, slot: &Slot, flag: u16, value: u64) {
        debug_assert!(value < 1 << 24, "a flag overflows");
        self.flag(slot, self.me, flag).store(slot.tag | value, Ordering::Release);
        if self.is_anyone_parked() {
            self.wake_for_flag();
        }
    }

    /// Returns true if flag `flag` of `member` is at least `value`.
    #[inline]
    pub fn is_reached(&self, slot: &Slot, member: u32, flag: u16, value: u64) -> bool {
        turns::is_reached(self.flag(slot, member, flag).load(Ordering::Acquire), slot.tag | value)
    }

    /// Fetches the line in which `member` will set flag `flag` of the next operation of the class. For who
    /// finds a flag set at its first look: its owner is ahead, so that the next one is set too, and its line
    /// comes while this operation ends.
    #[inline]
    pub fn look_ahead(&self, slot: &Slot, member: u32, flag: u16) {
        let heads = self.places.heads[slot.class as usize];
        let next = (u32::from(slot.place) + 1) & self.layout.slots[slot.class as usize].count.wrapping_sub(1);
        let line = if flag == 0 { FIRST_FLAG } else { 0 };
        let line = self.address_in_part(member, heads + next as usize * HEAD_BYTES + line);
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: a prefetch reads and writes nothing and does not fault, wherever it points.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = line;
    }

    /// Returns true if `member` has set a flag that is not reached in this operation, which it takes for
    /// another one: the flag will never be reached.
    #[inline]
    pub fn is_at_odds(&self, slot: &Slot, member: u32, flag: u16) -> bool {
        turns::is_at_odds(self.flag(slot, member, flag).load(Ordering::Acquire), slot.tag)
    }

    /// Returns the result of [`Banks::is_reached`], and publishes that this member waits for the flag. For
    /// the `pending` of a wait, which runs before sleeping. A sleeper that has not called it is not woken.
    pub fn want(&self, slot: &Slot, member: u32, flag: u16, value: u64) -> bool {
        let flags = &self.parts.waits(self.me).flags;
        let wanted = flags.load(Ordering::Relaxed) | 1 << (member % 64);
        flags.store(wanted, Ordering::Relaxed);
        // Announcing the sleep orders this for the wait's first look; the second comes later anyway.
        tutti_base::sync::fence(Ordering::SeqCst);
        self.is_reached(slot, member, flag, value)
    }

    /// Returns the bank of `member`: as many bytes as the grant allowed, 64-aligned, or 8-aligned up to 56
    /// bytes.
    #[inline]
    pub fn bank(&self, slot: &Slot, member: u32) -> *mut u8 {
        self.address_in_part(member, slot.bank as usize)
    }

    /// Returns all payload of a slot of `member`, 64-aligned. A bank of more than 56 bytes is its beginning.
    #[inline]
    pub fn payload(&self, slot: &Slot, member: u32) -> *mut u8 {
        let class = slot.class as usize;
        let payload =
            self.places.payloads[class] + usize::from(slot.place) * self.places.payload_stride[class];
        self.address_in_part(member, payload)
    }

    /// Returns the payload bytes of a slot.
    #[inline]
    pub fn room(&self, slot: &Slot) -> usize {
        self.layout.slots[slot.class as usize].payload
    }

    /// Returns the exposure records of `member`: 4 of 128 bytes, 64-aligned.
    #[inline]
    pub fn records(&self, slot: &Slot, member: u32) -> *mut u8 {
        let within = usize::from(slot.place) * RECORDS * RECORD_BYTES;
        self.address_in_part(member, self.places.records[slot.class as usize] + within)
    }

    /// Returns the memory for the page edges of exposure `number` of `member`: 8192 bytes, 64-aligned. None
    /// in small slots.
    pub fn edges(&self, slot: &Slot, member: u32, number: usize) -> Option<*mut u8> {
        assert!(number < RECORDS, "exposure {number}");
        let within = (usize::from(slot.place) * RECORDS + number) * EDGE_BYTES;
        slot.class
            .lends()
            .then(|| self.address_in_part(member, self.places.edges[slot.class as usize] + within))
    }

    /// Returns the memory for the table of exposure `number` of `member`: [`Layout::rows`] rows of 16 bytes,
    /// 64-aligned. None in small slots.
    pub fn table(&self, slot: &Slot, member: u32, number: usize) -> Option<*mut u8> {
        assert!(number < RECORDS, "exposure {number}");
        let within = (usize::from(slot.place) * RECORDS + number) * self.places.table_bytes;
        slot.class
            .lends()
            .then(|| self.address_in_part(member, self.places.tables[slot.class as usize] + within))
    }

    /// Returns the address at `offset` in the part of `member`.
    #[inline]
    fn address_in_part(&self, member: u32, offset: usize) -> *mut u8 {
        self.parts.base.as_ptr().wrapping_add(offset + member as usize * self.parts.stride)
    }

    #[inline]
    fn slot(&self, class: Class, number: u64, bytes: usize, agreed: u16) -> Slot {
        let (index, places) = (class as usize, &self.places);
        debug_assert!(bytes <= self.layout.slots[index].payload, "a bank that does not fit");
        let place = self.turns[index].slot(number) as usize;
        let head = places.heads[index] + place * HEAD_BYTES;
        let bank = if bytes <= INLINE_BYTES {
            head + FIRST_FLAG + size_of::<u64>()
        } else {
            places.payloads[index] + place * places.payload_stride[index]
        };
        let tag = turns::word(number, agreed, 0);
        Slot { tag, head: head as u32, bank: bank as u32, class, place: place as u8 }
    }

    /// Clears the own flags of a slot, which is granted: nobody awaits any of them before this member posts.
    #[cold]
    fn clear(&self, slot: Slot) {
        for flag in 0..8 {
            self.flag(&slot, self.me, flag).store(0, Ordering::Relaxed);
        }
    }

    /// Reads the counters of all members.
    #[cold]
    #[inline(never)]
    fn look(&mut self, class: Class, number: u64) -> bool {
        let parts = self.parts;
        let wanted = &parts.waits(self.me).left[class as usize];
        self.turns[class as usize].look(number, parts.lefts(class), wanted)
    }

    /// Has the pages of the own control words and heads now, near this process.
    fn touch(&self) {
        for offset in (CONTROL_BYTES..self.places.heads_end).step_by(HEAD_BYTES) {
            // SAFETY: the first word of a head, which is no flag, or of the control words; in the own part.
            let word: &AtomicU64 =
                unsafe { self.parts.base.add(self.me as usize * self.parts.stride + offset).cast().as_ref() };
            word.store(0, Ordering::Relaxed);
        }
        let left = self.parts.left(self.me, Class::Small);
        left.store(left.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    #[inline]
    fn is_anyone_parked(&self) -> bool {
        // As in `Bell::ring`: the compiler must not move the load before the stores.
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
        // SAFETY: in the job object, which the region keeps mapped.
        unsafe { self.parked.as_ref() }.load(Ordering::Relaxed) != 0
    }

    #[cold]
    #[inline(never)]
    fn wake_for_flag(&self) {
        for member in (0..self.parts.members).filter(|&member| member != self.me) {
            if self.parts.waits(member).flags.load(Ordering::Relaxed) >> (self.me % 64) & 1 != 0 {
                self.ring(member);
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn wake_for_room(&self, class: Class, before: u64, now: u64) {
        for member in (0..self.parts.members).filter(|&member| member != self.me) {
            let needs = self.parts.waits(member).left[class as usize].load(Ordering::Relaxed);
            if before < needs && needs <= now && turns::is_last(needs, self.parts.lefts(class)) {
                self.ring(member);
            }
        }
    }

    /// Clears the published needs once no operation is under way. Earlier, another thread may sleep for one.
    #[cold]
    fn forget_waits(&self) {
        if self.turns.iter().all(Turns::is_idle) {
            self.parts.waits(self.me).flags.store(0, Ordering::Relaxed);
        }
    }

    fn ring(&self, member: u32) {
        ring_doorbell(self.region.job(), self.ranks[member as usize], 0);
    }
}

impl Parts {
    /// Returns the count of operations of `class` that `member` has left.
    #[inline]
    fn left(&self, member: u32, class: Class) -> &AtomicU64 {
        debug_assert!(member < self.members);
        // SAFETY: a part begins with these lines, one a class; callers ask for members that exist.
        unsafe { self.base.add(member as usize * self.stride + class as usize * LINE).cast().as_ref() }
    }

    #[inline]
    fn lefts(&self, class: Class) -> impl Iterator<Item = &AtomicU64> {
        (0..self.members).map(move |member| self.left(member, class))
    }

    #[inline]
    fn waits(&self, member: u32) -> &Waits {
        debug_assert!(member < self.members);
        // SAFETY: inside the control words of a part, atomics; callers ask for members that exist.
        unsafe { self.base.add(member as usize * self.stride + WAITS_OFFSET).cast().as_ref() }
    }
}

#[cfg(test)]
mod tests;
