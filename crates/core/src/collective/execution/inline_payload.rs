//! Exposed memory that travels by value. Its owner copies short data that is only read next to its bank,
//! and publishes the position. That costs less than a system call of the peer, or than asking the kernel
//! whether a mapped buffer is still mapped.
//!
//! An operation without a bank of its own uses the cache line of flag 0 instead. The line holds the word
//! with the position, and the data too if they are short enough. Payload and flag then move as one line,
//! like those of a bank. Entries lie at equal distances if that wastes little memory; otherwise a table
//! lists their offsets.
//!
//! # Safety
//! The copied data and the word lie in the slot of the operation. The slot belongs to the operation until
//! all members have left it. They are written before a flag is posted and read after it was awaited, as the
//! verifier proves for every schedule. The memory of an operation is valid until the operation is over.
#![allow(unsafe_code)]

use tutti_coll::ir::Access;
use tutti_transport::banks::layout::{CARRIED_BYTES, INLINE_BYTES, RECORD_BYTES};
use tutti_transport::banks::{Banks, Slot};
use tutti_transport::exposure::{Entry, Record};

use crate::engine::{Exposed, Remote, copy_to_bank};

/// Bytes of payload after the word in the line of flag 0.
const IN_LINE: u64 = (INLINE_BYTES - size_of::<u64>()) as u64;

/// Record and word that an owner publishes where the word is not in the line of flag 0.
#[repr(C)]
pub(in crate::collective) struct Published {
    /// Record of memory that peers access in place.
    pub(in crate::collective) record: Record,
    /// Word for the exposure, 0 if the memory does not travel by value.
    word: u64,
}

const _: () = assert!(size_of::<Published>() <= RECORD_BYTES, "a record has its room");

/// Bit of the word that is set if the memory travels by value; otherwise the word is 0.
const CARRIED: u64 = 1 << 63;
/// Bit of the word that is set if the data follow it directly.
const BEHIND: u64 = 1 << 62;
/// Bit of the word that is set if a table lists the offsets of entries.
const TABLE: u64 = 1 << 61;
/// First of the 20 bits that hold the distance of entries in units of 8 bytes, 0 without entries.
const DISTANCE_SHIFT: u32 = 40;
const DISTANCE_MASK: u64 = (1 << 20) - 1;
/// Bits that hold the offset of the data from the start of the owner's payload space.
const PLACE_MASK: u64 = (1 << DISTANCE_SHIFT) - 1;

/// View of an operation's slot for copying payloads. Members are identified by their numbers in the banks.
#[derive(Clone, Copy)]
pub(in crate::collective) struct Carrier<'a> {
    pub(in crate::collective) banks: &'a Banks,
    pub(in crate::collective) slot: &'a Slot,
    /// Size of the bank of the schedule, in bytes.
    pub(in crate::collective) bank_bytes: usize,
    /// Rank of this member in its communicator, by which entries are numbered.
    pub(in crate::collective) rank: u32,
}

/// Rows of memory that are copied to equal distances.
struct Spread {
    /// Number of rows, including the own one.
    count: u32,
    /// Row that belongs to this rank itself and is not copied.
    own: Option<u32>,
    /// Sum of the bytes of all rows for other members.
    bytes: u64,
    /// Bytes of the longest row for another member.
    longest: u64,
}

impl Carrier<'_> {
    /// Returns true if the word of exposure `number` is in the line of flag 0.
    #[inline]
    fn has_line(&self, number: u16) -> bool {
        number == 0 && self.bank_bytes == 0
    }

    /// Returns the address of the word of exposure `number` of a member.
    #[inline]
    fn word(&self, member: u32, number: u16) -> *mut u64 {
        if self.has_line(number) {
            return self.banks.bank(self.slot, member).cast();
        }
        // SAFETY: the address of a field; see the module.
        unsafe { &raw mut (*self.published(member, number)).word }
    }

    /// Returns the address of what a member publishes of memory that does not travel by value.
    #[inline]
    pub(in crate::collective) fn published(&self, member: u32, number: u16) -> *mut Published {
        let records = self.banks.records(self.slot, member).cast::<Published>();
        records.wrapping_byte_add(usize::from(number) * RECORD_BYTES)
    }

    /// Returns the table of entries of an exposure.
    pub(in crate::collective) fn table(&self, member: u32, number: u16) -> *mut Entry {
        let table = self.banks.table(self.slot, member, usize::from(number));
        table.expect("memory is lent in slots that have tables").cast()
    }

    /// Returns the start of the payload space in a bank, and its size in bytes.
    #[inline]
    fn room(&self, member: u32) -> (*mut u8, u64) {
        let start = self.bank_bytes.next_multiple_of(64);
        let room = self.banks.room(self.slot).saturating_sub(start);
        (self.banks.payload(self.slot, member).wrapping_add(start), room as u64)
    }

    /// Publishes a record for exposure `number` of this member: it does not travel by value.
    pub(in crate::collective) fn lend(&self, number: u16, record: Record) {
        let me = self.banks.me();
        // SAFETY: see the module.
        unsafe {
            self.word(me, number).write(0);
            (&raw mut (*self.published(me, number)).record).write(record);
        }
    }

    /// Returns the number of bytes that are for other members.
    #[inline]
    pub(in crate::collective) fn bytes(&self, memory: Exposed<'_>) -> u64 {
        Spread::of(memory, self.rank).bytes
    }

    /// Copies memory next to the bank if that is cheaper, and returns true if it did. `used` is the number
    /// of bytes taken there.
    #[inline]
    pub(in crate::collective) fn carry(
        &self,
        number: u16,
        memory: Exposed<'_>,
        access: Access,
        used: &mut usize,
    ) -> bool {
        if access != Access::Read {
            return false;
        }
        let me = self.banks.me();
        let rows = Spread::of(memory, self.rank);
        let distance = if rows.own.is_some() { rows.longest.next_multiple_of(8) } else { rows.bytes };
        let span = distance * u64::from(rows.count);
        let word = self.word(me, number);
        let kind = CARRIED | if rows.own.is_some() { (distance / 8) << DISTANCE_SHIFT } else { 0 };
        if span <= IN_LINE && self.has_line(number) {
            // SAFETY: see the module; the line has the space.
            unsafe {
                rows.copy(memory, word.add(1).cast(), distance as usize);
                word.write(kind | BEHIND);
            }
            return true;
        }
        let (base, room) = self.room(me);
        let room = (CARRIED_BYTES as u64).min(room.saturating_sub(*used as u64));
        // SAFETY: see the module, for all of these; the space was checked.
        unsafe {
            if span <= room && (rows.own.is_none() || span <= 2 * rows.bytes + 256) {
                rows.copy(memory, base.add(*used), distance as usize);
                word.write(kind | *used as u64);
                *used += (span as usize).next_multiple_of(64);
                return true;
            }
            if rows.own.is_none() || rows.bytes > room {
                return false;
            }
            rows.copy_closely(memory, base.add(*used), self.table(me, number));
            word.write(CARRIED | TABLE | *used as u64);
        }
        *used += (rows.bytes as usize).next_multiple_of(64);
        true
    }

    /// Returns the address of the copy of a member's memory, if it travels by value. `remote` selects the
    /// entry and offset.
    #[inline]
    pub(in crate::collective) fn carried(&self, peer: u32, remote: Remote) -> Option<*const u8> {
        let Remote { slot: number, entry, offset, .. } = remote;
        let place = self.word(peer, number);
        // SAFETY: the schedule has awaited a flag that the peer posted after it wrote the word.
        let word = unsafe { place.read() };
        if word & CARRIED == 0 {
            return None;
        }
        let entries = (word >> DISTANCE_SHIFT & DISTANCE_MASK) * 8 * u64::from(entry);
        let base: *const u8 = if word & BEHIND != 0 {
            place.wrapping_add(1).cast()
        } else {
            self.room(peer).0.wrapping_add((word & PLACE_MASK) as usize)
        };
        let mut within = entries + offset;
        if word & TABLE != 0 {
            // SAFETY: the peer has written a row for each of the others.
            within += unsafe { self.table(peer, number).add(entry as usize).read() }.offset;
        }
        Some(base.wrapping_add(within as usize))
    }
}

impl Spread {
    /// Describes the rows of `memory` that rank `me` exposes.
    #[inline]
    fn of(memory: Exposed<'_>, me: u32) -> Spread {
        match memory {
            Exposed::Run(_, bytes) => Spread { count: 1, own: None, bytes, longest: bytes },
            Exposed::Rows(_, rows) => {
                let (count, own) = (rows.each.len() as u32, Some(rows.own));
                Spread { count, own, bytes: rows.bytes, longest: rows.longest }
            }
            Exposed::Table(count, entry) => {
                let others = (0..count).filter(|&row| row != me).map(|row| entry(row).1);
                let (bytes, longest) = others.fold((0, 0), |(sum, most), one| (sum + one, one.max(most)));
                Spread { count, own: Some(me), bytes, longest }
            }
        }
    }

    /// # Safety
    /// There must be space for all rows at this distance.
    #[inline]
    unsafe fn copy(&self, memory: Exposed<'_>, into: *mut u8, distance: usize) {
        let copy = |row: usize, from: *mut u8, bytes: u64| {
            // SAFETY: the promise of the caller, and of the module.
            unsafe { copy_to_bank(from, into.add(row * distance), bytes as usize) };
        };
        if let Exposed::Rows(base, rows) = memory {
            for (row, &(offset, bytes)) in rows.each.iter().enumerate() {
                if row != rows.own as usize {
                    copy(row, base.wrapping_add(offset), bytes);
                }
            }
            return;
        }
        for row in (0..self.count).filter(|&row| Some(row) != self.own) {
            let (from, bytes) = memory.run(row);
            copy(row as usize, from, bytes);
        }
    }

    /// Copies the rows one behind the other and writes their offsets into the table.
    ///
    /// # Safety
    /// There must be space for all rows, and in the table.
    #[cold]
    unsafe fn copy_closely(&self, memory: Exposed<'_>, into: *mut u8, table: *mut Entry) {
        let mut offset = 0;
        for row in (0..self.count).filter(|&row| Some(row) != self.own) {
            let (from, bytes) = memory.run(row);
            // SAFETY: the promise of the caller, and of the module.
            unsafe {
                copy_to_bank(from, into.add(offset as usize), bytes as usize);
                table.add(row as usize).write(Entry { offset, bytes });
            }
            offset += bytes;
        }
    }
}
