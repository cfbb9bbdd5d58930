//! Record of exposed memory, as its owner publishes it: plain data, small enough for two cache lines.

use std::mem::size_of;

use tutti_sys::cma::Pid;

use crate::single_copy::Lent;

/// Accesses that peers may make to exposed memory until the operation ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Peers read it. The owner only reads it too.
    Read,
    /// Each peer writes its own part.
    Write,
    /// Peers read and write, in the order that the operation defines.
    ReadWrite,
}

/// Bytes of a page, the grain in which memory can be shared.
pub const PAGE_BYTES: u64 = 4096;

/// Memory for an owner's copies of the partial pages at the two ends of a buffer that is mapped and only
/// read.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct EdgeRoom {
    /// Bytes before the first whole page, from the beginning.
    pub head: [u8; PAGE_BYTES as usize],
    /// Bytes after the last whole page.
    pub tail: [u8; PAGE_BYTES as usize],
}

/// A row of a table that divides exposed memory: an entry of a collective with counts and displacements,
/// or a run of a buffer that is not contiguous.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Entry {
    /// Bytes between the first exposed byte and this entry.
    pub offset: u64,
    /// Length of this entry.
    pub bytes: u64,
}

/// Meaning of offsets into the exposed bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum RecordLayout {
    /// Offsets count from the first byte to the last.
    Whole = 0,
    /// Offsets count within an entry of the table, which the peer names.
    Entries = 1,
    /// Offsets count through the entries of the table in order, as if they were contiguous.
    Runs = 2,
}

/// Exposed memory, as its owner publishes it and peers find it ([`super::Exposures::open`]).
///
/// Only numbers; the owner writes it to memory that its peers read, and posts a flag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Record {
    /// Address of the first byte in its owner's memory.
    pub(super) address: u64,
    /// Length, gaps between entries included.
    pub(super) bytes: u64,
    /// The owner's process.
    pub(super) pid: i32,
    /// A [`RecordLayout`].
    pub(super) layout: u32,
    /// Rows of the table.
    pub(super) entries: u32,
    /// Nonzero if the edge memory contains the ends.
    pub(super) edges: u32,
    /// Number of the [`super::BackEnd`] that reaches the memory where it is not mapped.
    pub(super) by: u32,
    /// Number of the memory that the owner writes back at withdrawal ([`crate::locality`]). Peers ignore it.
    pub(super) written_back: u32,
    /// Key of this memory for the back end (0 if the address suffices).
    pub(super) key: u64,
    /// Range of the bytes that are in the owner's shared object: `near_start..near_end`.
    pub(super) near_start: u64,
    pub(super) near_end: u64,
    /// Offset in the object of the first of these bytes.
    pub(super) offset: u64,
    /// Part of the object that the owner has mapped there.
    pub(super) map_offset: u64,
    pub(super) map_bytes: u64,
    /// Identity of the object: inode, device (major and minor number), and descriptor in the owner's process.
    pub(super) inode: u64,
    pub(super) device: (u32, u32),
    pub(super) object: i32,
    /// Nonzero if peers may write.
    pub(super) writable: u32,
    /// Number of the object among those that the owner has had.
    pub(super) sequence: u32,
    /// Flag bits: [`SETTLED`] and [`GATED`].
    pub(super) flags: u32,
}

/// Nothing else of the owner is lent: no peer uses anything of an earlier object.
pub(super) const SETTLED: u32 = 1;
/// The loan has passed the gate ([`super::loans::Gate`]); nothing to peers.
pub(super) const GATED: u32 = 2;

const _: () = assert!(size_of::<Record>() <= 128, "the room that an operation has for a record");

impl Record {
    /// Number of words in [`Record::words`].
    pub const WORDS: usize = 14;

    /// Returns the record as numbers, for a message to peers on the same node. The memory must be contiguous
    /// and without edges.
    pub fn words(&self) -> [u64; Record::WORDS] {
        debug_assert!(self.layout() == RecordLayout::Whole && self.edges == 0);
        [
            self.address,
            self.bytes,
            u64::from(self.pid.cast_unsigned()),
            self.by.into(),
            self.key,
            self.near_start,
            self.near_end,
            self.offset,
            self.map_offset,
            self.map_bytes,
            self.inode,
            u64::from(self.device.0) << 32 | u64::from(self.device.1),
            u64::from(self.object.cast_unsigned()),
            u64::from(self.sequence) << 32
                | u64::from(self.flags & SETTLED) << 1
                | u64::from(self.writable & 1),
        ]
    }

    /// Decodes a record from numbers; `None` if they are no record of mapped memory.
    pub fn from_words(words: [u64; Record::WORDS]) -> Option<Record> {
        let [
            address,
            bytes,
            pid,
            by,
            key,
            near_start,
            near_end,
            offset,
            map_offset,
            map_bytes,
            inode,
            device,
            object,
            last,
        ] = words;
        let is_right = near_start <= near_end && near_end <= bytes;
        is_right.then_some(Record {
            address,
            bytes,
            pid: (pid as u32).cast_signed(),
            by: by as u32,
            key,
            near_start,
            near_end,
            offset,
            map_offset,
            map_bytes,
            inode,
            device: ((device >> 32) as u32, device as u32),
            object: (object as u32).cast_signed(),
            writable: last as u32 & 1,
            flags: last as u32 >> 1 & SETTLED,
            sequence: (last >> 32) as u32,
            ..Record::default()
        })
    }

    /// Returns the length of the exposed memory, including gaps between entries.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the process number of the owner.
    pub fn pid(&self) -> Pid {
        Pid(self.pid)
    }

    /// Returns the memory in the form that the back end uses.
    pub(super) fn lent(&self) -> Lent {
        Lent { pid: self.pid(), key: self.key, address: self.address, bytes: self.bytes }
    }

    /// Returns the inode and device of the object, which are the same for all of its descriptors.
    pub(super) fn identity(&self) -> (u64, (u32, u32)) {
        (self.inode, self.device)
    }

    /// Returns true if the owner has exposed nothing else.
    pub(super) fn is_settled(&self) -> bool {
        self.flags & SETTLED != 0
    }

    /// Returns true if a peer that maps the object reaches all of the memory: the unmapped ends are in the
    /// edge memory.
    pub fn is_wholly_near(&self) -> bool {
        self.is_near() && (self.edges != 0 || self.near_start == 0 && self.near_end == self.bytes)
    }

    /// Returns address and length of all the memory, at its owner.
    pub(super) fn piece(&self) -> (*mut u8, u64) {
        (std::ptr::without_provenance_mut(self.address as usize), self.bytes)
    }

    /// Returns true if part of it can be mapped.
    pub(super) fn is_near(&self) -> bool {
        self.near_start < self.near_end
    }

    /// Returns the meaning of offsets into the memory.
    pub(super) fn layout(&self) -> RecordLayout {
        match self.layout {
            1 => RecordLayout::Entries,
            2 => RecordLayout::Runs,
            _ => RecordLayout::Whole,
        }
    }
}
