//! Offsets of all memory in the banks of a set.
//!
//! Each member has a part, which only it writes and which it touches first, so that its pages are on its own
//! node of memory. A part:
//!
//! | what | bytes |
//! |---|---|
//! | operations left, by [`Class`]; each in a line of its own | 3 x 64 |
//! | what the member waits for, written only before it sleeps; whether it has given up | 64 |
//! | what it has said about its latest operations | 4096 |
//! | a head a slot, class by class: a line of flags 1 to 7, a line of flag 0 and the inline bank | 128 |
//! | exposure records of each slot, class by class | 512 |
//! | page edges of exposures of each slot that lends | 32768 |
//! | tables of exposures of each slot that lends: 16 bytes a row, a row a member or 64 | 4096 and more |
//! | payload of each slot, class by class | as configured |
//! | what is known ([`super::found`]), in the part of the first member | 4096 |
//!
//! What small operations use comes first and close together: a communicator that has only had those takes six
//! pages a member. Parts begin 128 bytes further into a page from member to member, and payloads do not
//! follow each other at multiples of a page, so that equal places of different members do not compete for one
//! set of a cache; a KiB lies between them. The last page of a part is not the first of the next.

use tutti_base::BankSizes;

use super::found::{ENTRIES, FoundEntry};

/// Bytes of a bank that lie in the line of flag 0: payload and flag move together.
pub const INLINE_BYTES: usize = 56;
/// Exposure records of a slot.
pub const RECORDS: usize = 4;
/// Bytes of an exposure record.
pub const RECORD_BYTES: usize = 128;
/// Bytes of the page edges of one exposure: two pages.
pub const EDGE_BYTES: usize = 2 * PAGE;
/// Bytes of a row of the table of an exposure.
pub const ROW_BYTES: usize = 16;
/// Highest number of bytes that one member passes by value in one operation.
pub const CARRIED_BYTES: usize = 32 << 10;
/// Limit of all banks of a persistent operation together, unless it has only two slots.
const PERSISTENT_BYTES: usize = 256 << 10;
/// Gap from the end of a payload to the next. A processor that reads a payload in sequence prefetches what
/// follows. Without the gap, that would be the lines that the owner is writing for the next operation. 1 KiB
/// from adjacent slots took 138 ns; with this gap 98 ns.
const GAP_BYTES: usize = 1024;
/// Highest number of slots of the class that exposes memory.
const MOST_LENDING: u32 = 64;
/// Lowest number of rows of a table.
const FEWEST_ROWS: usize = 64;

pub(super) const WAITS_OFFSET: usize = CLASSES * 64;
pub(super) const SAID_OFFSET: usize = 256;
pub(super) const SAID_BYTES: usize = 4096;
pub(super) const CONTROL_BYTES: usize = SAID_OFFSET + SAID_BYTES;
pub(super) const HEAD_BYTES: usize = 128;
const FOUND_BYTES: usize = ENTRIES * size_of::<FoundEntry>();
const PAGE: usize = 4096;
/// Distance within a page from the beginning of one part to that of the next.
const COLOUR_BYTES: usize = 128;

/// Number of slot classes.
pub const CLASSES: usize = 3;

/// Purpose of a slot. Operations of each class are numbered separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Many slots of some kilobytes.
    Small = 0,
    /// Fewer slots that expose memory as well, with room for tables, page edges, and data passed by value.
    Lending = 1,
    /// Few slots of large banks, which also expose memory.
    Large = 2,
}

impl Class {
    /// All classes in the order of their numbers.
    pub const ALL: [Class; CLASSES] = [Class::Small, Class::Lending, Class::Large];

    /// Returns true if slots of this class have tables and room for page edges.
    #[inline]
    pub fn lends(self) -> bool {
        self != Class::Small
    }
}

/// Number and size of the slots of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots {
    /// Number of slots: a power of two up to 128, or 0.
    pub count: u32,
    /// Payload bytes of each slot.
    pub payload: usize,
}

/// Sizes on which the members of a set agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Number of members of the set.
    pub members: u32,
    /// Slots of each class, indexed by [`Class`].
    pub slots: [Slots; CLASSES],
}

/// Offsets in a part, in bytes. Arrays are indexed by class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Places {
    pub heads: [usize; CLASSES],
    /// Offset at which the last head ends.
    pub heads_end: usize,
    pub records: [usize; CLASSES],
    /// Offsets of page edges, by class. Slots that do not expose memory have none.
    pub edges: [usize; CLASSES],
    pub tables: [usize; CLASSES],
    /// Bytes of the table of one exposure.
    pub table_bytes: usize,
    pub payloads: [usize; CLASSES],
    pub payload_stride: [usize; CLASSES],
    pub found: usize,
    /// Distance from one part to the next.
    pub stride: usize,
    /// Bytes of all parts together.
    pub bytes: usize,
}

impl Layout {
    /// Returns the layout of a communicator with `members` members on this node.
    pub fn of_communicator(sizes: &BankSizes, members: u32) -> Layout {
        let small = Slots { count: sizes.small_slots, payload: sizes.small_bytes as usize };
        let lending = Slots { count: lending_slots(sizes), payload: small.payload + CARRIED_BYTES };
        let large = Slots { count: sizes.large_slots, payload: sizes.large_bytes_for(members) as usize };
        Layout { members, slots: [small, lending, large] }
    }

    /// Returns the layout for one persistent operation whose bank has `bytes` bytes. `lends` is true if the
    /// operation may expose memory. The number of slots is that of its class in a communicator. With few
    /// slots every start checks the progress of the others, which costs as much as a small operation itself.
    /// Where ranks share processors, few slots also keep ranks that wait for nobody from running ahead: each
    /// slot less means more switches between processes.
    pub fn of_persistent(sizes: &BankSizes, members: u32, bytes: usize, lends: bool) -> Layout {
        let mut layout = Layout { members, slots: [Slots { count: 0, payload: 0 }; CLASSES] };
        let is_small = bytes as u64 <= sizes.small_bytes;
        let affordable =
            1 << (PERSISTENT_BYTES / bytes.max(1)).clamp(2, BankSizes::MAX_SLOTS as usize).ilog2();
        let (class, count) = match (is_small, lends) {
            (true, false) => (Class::Small, sizes.small_slots.min(affordable)),
            // What they carry is seldom much.
            (true, true) => (Class::Lending, lending_slots(sizes)),
            (false, _) => (Class::Large, sizes.large_slots.min(affordable)),
        };
        let carried = if lends { CARRIED_BYTES } else { 0 };
        layout.slots[class as usize] = Slots { count, payload: bytes.next_multiple_of(64) + carried };
        layout
    }

    /// Returns the smallest class whose slots have room for a bank of `bytes` bytes and, if `lends`, for
    /// exposing memory.
    #[inline]
    pub fn class_of(&self, bytes: usize, lends: bool) -> Option<Class> {
        let fits = |class: Class| {
            let Slots { count, payload } = self.slots[class as usize];
            // Beside a bank there is always room for what travels by value, but where a bank is large.
            let carried = if class == Class::Lending { CARRIED_BYTES } else { 0 };
            count > 0 && bytes + carried <= payload
        };
        // What lends nothing leaves the slots that lend to others.
        let classes = if lends { &Class::ALL[1..] } else { &[Class::Small, Class::Large][..] };
        classes.iter().copied().find(|&class| fits(class))
    }

    /// Returns the form of a region with this layout. Sets of one class, as those of
    /// [`Layout::of_persistent`], have equal forms if and only if they have equal layouts and members. Other
    /// sets have form 0.
    pub(super) fn form(&self) -> u64 {
        let used = |class: &&Class| self.slots[**class as usize].count > 0;
        let (Some(class), 1) = (Class::ALL.iter().find(used), Class::ALL.iter().filter(used).count()) else {
            return 0;
        };
        let Slots { count, payload } = self.slots[*class as usize];
        debug_assert!(payload.is_multiple_of(64), "payloads are whole lines");
        (payload as u64 / 64) << 16 | u64::from(count) << 2 | *class as u64
    }

    pub(super) fn places(&self) -> Places {
        let counts = self.slots.map(|slots| slots.count as usize);
        let lending = Class::ALL.map(|class| if class.lends() { counts[class as usize] } else { 0 });
        let table_bytes = (self.rows() * ROW_BYTES).next_multiple_of(64);
        let payload_stride = self.slots.map(|slots| apart(slots.payload));
        let (heads, heads_end) = follow(CONTROL_BYTES, counts, [HEAD_BYTES; CLASSES]);
        let (records, end) = follow(heads_end, counts, [RECORDS * RECORD_BYTES; CLASSES]);
        let (edges, end) = follow(end, lending, [RECORDS * EDGE_BYTES; CLASSES]);
        let (tables, end) = follow(end, lending, [RECORDS * table_bytes; CLASSES]);
        let (payloads, found) = follow(end, counts, payload_stride);
        let used = found + FOUND_BYTES;
        assert!(u32::try_from(used).is_ok(), "places in a part are 32 bits: {self:?}");
        let stride = used.next_multiple_of(PAGE) + PAGE + COLOUR_BYTES;
        let bytes = stride * self.members as usize;
        Places {
            heads,
            heads_end,
            records,
            edges,
            tables,
            table_bytes,
            payloads,
            payload_stride,
            found,
            stride,
            bytes,
        }
    }

    /// Rows of the table of an exposure, in slots that lend: one a member, and never less than 64.
    #[inline]
    pub fn rows(&self) -> usize {
        FEWEST_ROWS.max(self.members as usize)
    }
}

/// Slots that lend memory: those who wait for memory of others do not run ahead of them.
fn lending_slots(sizes: &BankSizes) -> u32 {
    sizes.small_slots.min(MOST_LENDING)
}

/// Returns the offsets of the slots of each class if they follow each other from `start`, and the end. A
/// class has `counts` slots of `bytes` bytes.
fn follow(start: usize, counts: [usize; CLASSES], bytes: [usize; CLASSES]) -> ([usize; CLASSES], usize) {
    let mut end = start;
    let starts = std::array::from_fn(|class| {
        let start = end;
        end += counts[class] * bytes[class];
        start
    });
    (starts, end)
}

/// Returns a distance that leaves [`GAP_BYTES`] behind `bytes`, in whole pairs of lines, and is not a
/// multiple of a page.
fn apart(bytes: usize) -> usize {
    let distance = (bytes + GAP_BYTES).next_multiple_of(128);
    if distance.is_multiple_of(PAGE) { distance + 128 } else { distance }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Checks that every byte of every slot of every member belongs to one purpose, and pages to one member.
    fn check(layout: Layout) {
        let places = layout.places();
        let mut ranges = Vec::new();
        for member in 0..layout.members as usize {
            let part = member * places.stride;
            ranges.push((part, CONTROL_BYTES));
            ranges.push((part + places.found, FOUND_BYTES));
            for lender in Class::ALL {
                let (class, slots) = (lender as usize, layout.slots[lender as usize]);
                for slot in 0..slots.count as usize {
                    ranges.push((part + places.heads[class] + slot * HEAD_BYTES, HEAD_BYTES));
                    let records = RECORDS * RECORD_BYTES;
                    ranges.push((part + places.records[class] + slot * records, records));
                    let payload = places.payloads[class] + slot * places.payload_stride[class];
                    ranges.push((part + payload, slots.payload));
                    if lender.lends() {
                        let edges = RECORDS * EDGE_BYTES;
                        ranges.push((part + places.edges[class] + slot * edges, edges));
                        let tables = RECORDS * places.table_bytes;
                        ranges.push((part + places.tables[class] + slot * tables, tables));
                    }
                }
            }
        }
        ranges.sort_unstable();
        for pair in ranges.windows(2) {
            assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{layout:?}: {pair:?}");
            assert!(pair[1].0.is_multiple_of(64), "{layout:?}: {pair:?}");
            let is_next_part = pair[0].0 / places.stride != pair[1].0 / places.stride;
            assert!(!is_next_part || (pair[0].0 + pair[0].1 - 1) / PAGE < pair[1].0 / PAGE, "{layout:?}");
        }
        let last = ranges.last().expect("there is a member");
        assert!(last.0 + last.1 <= places.bytes);
        assert_eq!(places.stride % PAGE, COLOUR_BYTES);
        for (slots, stride) in layout.slots.iter().zip(places.payload_stride) {
            assert!(stride >= slots.payload + GAP_BYTES, "{layout:?}");
        }
    }

    #[test]
    fn nothing_overlaps() {
        let sizes = BankSizes::default();
        for members in [1, 2, 3, 64, 300] {
            check(Layout::of_communicator(&sizes, members));
            for bytes in [0, 1, 4096, 100_000] {
                check(Layout::of_persistent(&sizes, members, bytes, false));
                check(Layout::of_persistent(&sizes, members, bytes, true));
            }
        }
    }

    fn check_class(layout: &Layout, bytes: usize, lends: bool, expected: Option<Class>) {
        assert_eq!(layout.class_of(bytes, lends), expected, "{bytes} bytes, lends: {lends}");
    }

    #[test]
    fn banks_go_where_they_fit() {
        use Class::{Large, Lending, Small};
        let layout = Layout::of_communicator(&BankSizes::default(), 2);
        let kib = 1 << 10;
        for (bytes, one, lending) in [
            (0, Some(Small), Some(Lending)),
            (4 * kib, Some(Small), Some(Lending)),
            (4 * kib + 1, Some(Large), Some(Large)),
            (256 * kib, Some(Large), Some(Large)),
            (256 * kib + 1, None, None),
        ] {
            check_class(&layout, bytes, false, one);
            check_class(&layout, bytes, true, lending);
        }
        for (bytes, lends, expected) in
            [(100, false, Small), (100, true, Lending), (5000, false, Large), (5000, true, Large)]
        {
            let layout = Layout::of_persistent(&BankSizes::default(), 2, bytes, lends);
            check_class(&layout, bytes, lends, Some(expected));
        }
    }
}
