//! Where everything lies in the banks of a set.
//!
//! Each member has a part, which only it writes and which it touches first, so that its pages are on its own node of
//! memory. A part:
//!
//! | what | bytes |
//! |---|---|
//! | operations left, small, then large; each in a line of its own | 2 x 64 |
//! | what the member waits for, written only before it sleeps; whether it has given up | 128 |
//! | what it has said about its latest operations | 2048 |
//! | a head for each small slot: a line of flags 1 to 7, then a line of flag 0 and the inline bank | 128 |
//! | the same for each large slot | 128 |
//! | exposure records of each slot, small then large | 512 |
//! | page edges of exposures of each large slot | 32768 |
//! | tables of exposures of each large slot: 16 bytes a row, a row a member or 64 | 4096 and more |
//! | payload of each slot, small then large | as configured |
//! | what is known ([`super::found`]), in the part of the first member | 4096 |
//!
//! What small operations use comes first and close together: a communicator that has only had those takes two pages a member.
//! Parts begin 128 bytes further into a page from member to member, and payloads do not follow each other at
//! multiples of a page, so that equal places of different members do not compete for one set of a cache. The last page of
//! a part is not the first of the next.

use tutti_base::BankSizes;

use super::found::{ENTRIES, Entry};

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
/// Banks of persistent operations up to this get as many slots as those of communicators.
const FEW_BYTES: usize = 1024;
/// A table has at least so many rows.
const FEWEST_ROWS: usize = 64;

pub(super) const WAITS_OFFSET: usize = 128;
pub(super) const SAID_OFFSET: usize = 256;
pub(super) const SAID_BYTES: usize = 2048;
pub(super) const CONTROL_BYTES: usize = SAID_OFFSET + SAID_BYTES;
pub(super) const HEAD_BYTES: usize = 128;
const FOUND_BYTES: usize = ENTRIES * size_of::<Entry>();
const PAGE: usize = 4096;
/// What a part begins further into a page than the one before it.
const COLOUR_BYTES: usize = 128;

/// A size of slots. Operations of either class are numbered by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Many slots of some kilobytes.
    Small = 0,
    /// Few slots of many, and room for page edges.
    Large = 1,
}

/// The slots of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots {
    /// How many: a power of two up to 64, or 0.
    pub count: u32,
    /// Payload bytes of each.
    pub payload: usize,
}

/// What the members of a set agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// How many members.
    pub members: u32,
    /// By [`Class`].
    pub slots: [Slots; 2],
}

/// Offsets in a part, in bytes; by class where there are two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Places {
    pub heads: [usize; 2],
    pub records: [usize; 2],
    pub edges: usize,
    pub tables: usize,
    /// Of one exposure.
    pub table_bytes: usize,
    pub payloads: [usize; 2],
    pub payload_stride: [usize; 2],
    pub found: usize,
    /// From part to part.
    pub stride: usize,
    /// Of all parts.
    pub bytes: usize,
}

impl Layout {
    /// The set of a communicator with `members` members on this node.
    pub fn of_communicator(sizes: &BankSizes, members: u32) -> Layout {
        let small = Slots { count: sizes.small_slots, payload: sizes.small_bytes as usize };
        let large = Slots { count: sizes.large_slots, payload: sizes.large_bytes_for(members) as usize };
        Layout { members, slots: [small, large] }
    }

    /// The set of one persistent operation whose bank has `bytes` bytes: slots of the class that `sizes` gives such a bank. With
    /// few slots every start looks how far the others are, which costs a small operation as much as itself.
    pub fn of_persistent(sizes: &BankSizes, members: u32, bytes: usize) -> Layout {
        let none = Slots { count: 0, payload: 0 };
        let is_small = bytes as u64 <= sizes.small_bytes;
        let many = if bytes <= FEW_BYTES { sizes.small_slots } else { 16 };
        let some = Slots { count: if is_small { many } else { 2 }, payload: bytes.next_multiple_of(64) };
        Layout { members, slots: if is_small { [some, none] } else { [none, some] } }
    }

    /// The class whose slots have room for a bank of `bytes` bytes; the smaller one if both have.
    #[inline]
    pub fn class_of(&self, bytes: usize) -> Option<Class> {
        let fits = |slots: Slots| slots.count > 0 && bytes <= slots.payload;
        let [small, large] = self.slots;
        if fits(small) {
            return Some(Class::Small);
        }
        if fits(large) { Some(Class::Large) } else { None }
    }

    pub(super) fn places(&self) -> Places {
        let counts = self.slots.map(|slots| slots.count as usize);
        let [small, large] = counts;
        let heads = [CONTROL_BYTES, CONTROL_BYTES + small * HEAD_BYTES];
        let records = heads[1] + large * HEAD_BYTES;
        let records = [records, records + small * RECORDS * RECORD_BYTES];
        let edges = records[1] + large * RECORDS * RECORD_BYTES;
        let payload_stride = self.slots.map(|slots| apart(slots.payload));
        let tables = edges + large * RECORDS * EDGE_BYTES;
        let table_bytes = (self.rows() * ROW_BYTES).next_multiple_of(64);
        let payloads = tables + large * RECORDS * table_bytes;
        let payloads = [payloads, payloads + small * payload_stride[0]];
        let found = payloads[1] + large * payload_stride[1];
        let used = found + FOUND_BYTES;
        let stride = used.next_multiple_of(PAGE) + PAGE + COLOUR_BYTES;
        let bytes = stride * self.members as usize;
        Places { heads, records, edges, tables, table_bytes, payloads, payload_stride, found, stride, bytes }
    }

    /// Rows of the table of an exposure, in large slots: one a member, and never less than 64.
    #[inline]
    pub fn rows(&self) -> usize {
        FEWEST_ROWS.max(self.members as usize)
    }
}

/// A distance of at least `bytes`, in whole pairs of lines, that is not a multiple of a page.
fn apart(bytes: usize) -> usize {
    let distance = bytes.next_multiple_of(128);
    if distance.is_multiple_of(PAGE) { distance + 128 } else { distance }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Every byte of every slot of every member belongs to one purpose, and pages to one member.
    fn check(layout: Layout) {
        let places = layout.places();
        let mut ranges = Vec::new();
        for member in 0..layout.members as usize {
            let part = member * places.stride;
            ranges.push((part, CONTROL_BYTES));
            ranges.push((part + places.found, FOUND_BYTES));
            for class in 0..2 {
                let slots = layout.slots[class];
                for slot in 0..slots.count as usize {
                    ranges.push((part + places.heads[class] + slot * HEAD_BYTES, HEAD_BYTES));
                    let records = RECORDS * RECORD_BYTES;
                    ranges.push((part + places.records[class] + slot * records, records));
                    let payload = places.payloads[class] + slot * places.payload_stride[class];
                    ranges.push((part + payload, slots.payload));
                    if class == Class::Large as usize {
                        let edges = RECORDS * EDGE_BYTES;
                        ranges.push((part + places.edges + slot * edges, edges));
                        let tables = RECORDS * places.table_bytes;
                        ranges.push((part + places.tables + slot * tables, tables));
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
    }

    #[test]
    fn nothing_overlaps() {
        let sizes = BankSizes::default();
        for members in [1, 2, 3, 64, 300] {
            check(Layout::of_communicator(&sizes, members));
            for bytes in [0, 1, 4096, 100_000] {
                check(Layout::of_persistent(&sizes, members, bytes));
            }
        }
    }

    #[test]
    fn banks_go_where_they_fit() {
        let layout = Layout::of_communicator(&BankSizes::default(), 2);
        let classes = [0, 4096, 4097, 256 << 10, (256 << 10) + 1].map(|bytes| layout.class_of(bytes));
        let (small, large) = (Some(Class::Small), Some(Class::Large));
        assert_eq!(classes, [small, small, large, large, None]);
        assert_eq!(Layout::of_persistent(&BankSizes::default(), 2, 5000).class_of(1), large);
    }
}
