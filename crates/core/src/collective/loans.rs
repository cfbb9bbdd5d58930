//! Memory that ranks lend each other for the time of an operation (S2): what an owner publishes, what a peer finds.
//!
//! An owner publishes a record of its memory ([`tutti_transport::exposure`]) in its slot of the operation. What is short and only
//! read travels by value instead: its owner copies it beside the bank and says where, which costs less than the
//! system call of a peer, or than asking the kernel whether a mapped buffer still is one.
//!
//! # Safety
//! Records, tables and what is carried lie in the slot of the operation, which is this operation's until all have left it; they
//! are written before a flag is posted and read after it was awaited, as the verifier has shown of every schedule. The
//! memory of an operation is valid until it is over, and is withdrawn then.
#![allow(unsafe_code)]

use std::ptr::{self, NonNull};

use tutti_base::{Error, ErrorClass, Rank, Result};
use tutti_coll::ir::Access;
use tutti_transport::Peer;
use tutti_transport::banks::layout::RECORD_BYTES;
use tutti_transport::exposure::{self, EdgeRoom, Entry, Record, Window};
use tutti_transport::single_copy::CopyError;

use super::port::CommPort;
use crate::buffer::Buffer;
use crate::engine::{Exposed, Remote, copy_to_bank};

/// What travels by value at the most where the memory can be mapped: copying this costs what a look at the mapping does.
const CARRIED_BYTES: u64 = 32 << 10;

/// What an owner publishes.
#[derive(Clone, Copy)]
#[repr(C)]
struct Published {
    record: Record,
    /// 0, or one more than where in the owner's bank the memory is that travels by value; and [`ENTRIES`].
    carried: u64,
}

/// What travels by value has entries.
const ENTRIES: u64 = 1 << 63;

const _: () = assert!(size_of::<Published>() <= RECORD_BYTES, "a record has its room");

/// What a peer finds.
pub(super) enum Found {
    /// A copy of the memory, in the owner's bank.
    Carried(*const u8),
    /// The memory itself.
    Lent(Window),
}

impl Found {
    /// The address of a part, if it can be read in place.
    pub(super) fn direct(&self, offset: u64, bytes: u64) -> Option<*const u8> {
        match self {
            Found::Carried(base) => Some(base.wrapping_add(offset as usize)),
            Found::Lent(window) => window.direct(offset, bytes).map(<*mut u8>::cast_const),
        }
    }
}

impl CommPort<'_> {
    fn published(&self, member: u32, number: u16) -> *mut Published {
        let (banks, slot) = self.banks();
        let records = banks.records(slot, self.member(member)).cast::<Published>();
        records.wrapping_byte_add(usize::from(number) * RECORD_BYTES)
    }

    fn table(&self, member: u32, number: u16) -> *mut Entry {
        let (banks, slot) = self.banks();
        let table = banks.table(slot, self.member(member), usize::from(number));
        table.expect("memory is lent in large slots, which have tables").cast()
    }

    /// Where what travels by value begins in a bank, and how much room there is in all.
    fn carrier(&self, member: u32) -> (*mut u8, usize) {
        let (banks, slot) = self.banks();
        let turn = self.ticket.turn.as_ref().expect("who lends has a turn");
        let start = turn.bank_bytes().next_multiple_of(64);
        let room = banks.layout().slots[turn.class() as usize].payload.saturating_sub(start);
        (banks.payload(slot, self.member(member)).wrapping_add(start), room)
    }

    /// Publishes own memory.
    pub(super) fn lend(&mut self, number: u16, memory: Exposed<'_>, access: Access) {
        let me = self.comm.rank().0;
        let (table, place) = (self.table(me, number), self.published(me, number));
        let rows: Vec<(*mut u8, u64)>;
        let (run, entries) = match memory {
            Exposed::Run(base, bytes) => ([(base, bytes)], false),
            Exposed::Table(all) => {
                rows = all.collect();
                if self.carry(&rows, true, access, table, place) {
                    return;
                }
                return self.publish(place, access, number, |exposures, access, edges| {
                    // SAFETY: see the module.
                    unsafe { exposures.expose_entries(rows.iter().copied(), table, access, edges) }
                });
            }
        };
        if !self.carry(&run, entries, access, table, place) {
            let [(base, bytes)] = run;
            self.publish(place, access, number, |exposures, access, edges| {
                // SAFETY: see the module.
                unsafe { exposures.expose(base, bytes, access, edges) }
            });
        }
    }

    fn publish(
        &mut self,
        place: *mut Published,
        access: Access,
        number: u16,
        lend: impl FnOnce(&mut exposure::Exposures, exposure::Access, Option<NonNull<EdgeRoom>>) -> Record,
    ) {
        let (banks, slot) = self.banks();
        let edges = banks.edges(slot, banks.me(), usize::from(number));
        let edges = edges.and_then(|room| NonNull::new(room.cast()));
        let access = match access {
            Access::Read => exposure::Access::Read,
            Access::Write => exposure::Access::Write,
            Access::ReadWrite => exposure::Access::ReadWrite,
        };
        let record = lend(&mut self.process.exposures.borrow_mut(self.held), access, edges);
        // SAFETY: see the module.
        unsafe { place.write(Published { record, carried: 0 }) };
        self.ticket.exposed.push(record);
    }

    /// Copies memory beside the bank if that is the better way; whether it was.
    fn carry(
        &mut self,
        rows: &[(*mut u8, u64)],
        entries: bool,
        access: Access,
        table: *mut Entry,
        place: *mut Published,
    ) -> bool {
        let me = self.comm.rank().0;
        // The own entry is for none of the others.
        let is_own = |row: usize| entries && row == me as usize;
        let bytes: u64 = rows.iter().enumerate().map(|(row, run)| if is_own(row) { 0 } else { run.1 }).sum();
        let (base, room) = self.carrier(me);
        let first = self.ticket.carried_bytes;
        if access != Access::Read || bytes > CARRIED_BYTES || first + bytes as usize > room {
            return false;
        }
        let mut next = first;
        for (row, &(from, length)) in rows.iter().enumerate() {
            if is_own(row) {
                continue;
            }
            // SAFETY: see the module; the room was looked at.
            unsafe {
                copy_to_bank(from, base.add(next), length as usize);
                if entries {
                    table.add(row).write(Entry { offset: (next - first) as u64, bytes: length });
                }
            }
            next += length as usize;
        }
        self.ticket.carried_bytes = next.next_multiple_of(64);
        let kind = if entries { ENTRIES } else { 0 };
        let published = Published { record: Record::default(), carried: kind | (1 + first as u64) };
        // SAFETY: see the module.
        unsafe { place.write(published) };
        true
    }

    /// What a peer has published, or the entry of it.
    pub(super) fn find(&self, remote: Remote) -> Found {
        let Remote { peer, slot: number, entry, .. } = remote;
        // SAFETY: the schedule has awaited a flag that the peer posted after it published.
        let Published { record, carried } = unsafe { self.published(peer, number).read() };
        let table = self.table(peer, number);
        if carried != 0 {
            let base = self.carrier(peer).0.wrapping_add((carried & !ENTRIES) as usize - 1);
            if carried & ENTRIES == 0 {
                return Found::Carried(base);
            }
            // SAFETY: the peer has written a row for each rank.
            let Entry { offset, .. } = unsafe { table.add(entry as usize).read() };
            debug_assert_ne!(entry, peer, "what a rank keeps is no other's");
            return Found::Carried(base.wrapping_add(offset as usize));
        }
        let (banks, slot) = self.banks();
        let edges = banks.edges(slot, self.member(peer), usize::from(number));
        let edges = edges.map_or(ptr::null(), |room| room.cast_const().cast());
        let world = self.comm.group().get(Rank(peer)).expect("a schedule names ranks of its communicator");
        let local = self.process.job.local_rank(world.0).expect("memory is lent within a host");
        let mut exposures = self.process.exposures.borrow_mut(self.held);
        // SAFETY: see the module.
        let window = unsafe { exposures.open(Peer(local), &record, edges, table) };
        Found::Lent(if window.has_entries() { window.entry(entry) } else { window })
    }

    /// Copies a peer's memory.
    pub(super) fn fetch(&self, from: Remote, into: &Buffer) -> Result<()> {
        match self.find(from) {
            Found::Carried(base) => {
                // SAFETY: the schedule fetches no more than was lent.
                let run = unsafe {
                    Buffer::bytes_at(base.wrapping_add(from.offset as usize).cast_mut(), into.bytes())
                };
                into.copy_from(&run);
                Ok(())
            }
            Found::Lent(window) => into
                .fill_from(|position, piece| {
                    // SAFETY: the piece is this process's own.
                    unsafe { window.read(from.offset + position, piece.as_mut_ptr(), piece.len() as u64) }
                })
                .map_err(|error| unreachable_memory(&error, from)),
        }
    }

    /// Copies to a peer's memory.
    pub(super) fn deliver(&self, from: &Buffer, into: Remote) -> Result<()> {
        let Found::Lent(window) = self.find(into) else { unreachable!("only what is read travels by value") };
        from.drain_to(|position, piece| {
            // SAFETY: the piece is this process's own; the schedule gives each part of the window to one peer.
            unsafe { window.write(into.offset + position, piece.as_ptr(), piece.len() as u64) }
        })
        .map_err(|error| unreachable_memory(&error, into))
    }
}

#[cold]
fn unreachable_memory(error: &CopyError, remote: Remote) -> Error {
    let peer = remote.peer;
    let reason =
        format!("the memory of rank {peer} cannot be reached: {error}; TUTTI_SINGLE_COPY=never avoids that");
    Error::new(ErrorClass::Other, reason)
}
