//! Memory that ranks expose to each other for the duration of an operation (S2): publishing by the owner,
//! access by a peer.
//!
//! An owner publishes a record of its memory ([`tutti_transport::exposure`]) in its slot of the operation.
//! Short data that is only read travels by value instead ([`super::inline_payload`]). Where the system
//! denies a peer access to the memory, the owner copies for it ([`super::served`]).
//!
//! # Safety
//! Records, tables and copied payloads lie in the slot of the operation. The slot belongs to the operation
//! until all members have left it. They are written before a flag is posted and read after it was awaited,
//! as the verifier proves for every schedule. The memory of an operation is valid until the operation is
//! over, and is withdrawn then.
#![allow(unsafe_code)]

use std::ptr::{self, NonNull};

use tutti_base::traffic::TRAFFIC;
use tutti_base::{Error, ErrorClass, Rank, Result, WorldRank};
use tutti_coll::ir::Access;
use tutti_data::copy::copy_streaming;
use tutti_sys::host_memory;
use tutti_transport::Peer;
use tutti_transport::exposure::{self, Record, Window};
use tutti_transport::single_copy::CopyError;

use super::inline_payload::Carrier;
use super::port::CommPort;
use super::served;
use crate::buffer::Buffer;
use crate::communicator::collectives::turn::BankTurn;
use crate::engine::{Exposed, Remote, copy_to_peer};

/// Smallest piece, in bytes, that is copied past the caches. Smaller ones are not worth the fence at the
/// end.
const STREAMED_BYTES: u64 = 16 << 10;

/// Memory of a peer, as this rank can reach it.
pub(in crate::collective) enum Found {
    /// A copy of the memory from the offset on, in the owner's bank.
    Carried(*const u8),
    /// The memory itself.
    Lent(Window),
}

impl CommPort<'_> {
    /// Returns the view of the slot for copying payloads.
    fn carrier(&self) -> Carrier<'_> {
        let (banks, slot) = self.banks();
        let turn = self.ticket.turn.as_ref().expect("who lends has a turn");
        let rank = self.cx.comm.rank().0;
        Carrier { banks, slot, bank_bytes: turn.bank_bytes(), rank }
    }

    /// Exposes memory of this rank to its peers.
    pub(in crate::collective) fn lend(&mut self, number: u16, memory: Exposed<'_>, access: Access) {
        let near = access == Access::Read && self.carrier().bytes(memory) >= self.cx.process.near_bytes;
        let record = if near { self.record_near(number, memory) } else { None };
        if record.is_some() || !self.carry(number, memory, access) {
            let record = record.unwrap_or_else(|| self.record(number, memory, access));
            self.carrier().lend(number, record);
            self.ticket.exposed.push(record);
        }
    }

    /// Copies memory next to the bank if that is cheaper, and returns true if it did.
    fn carry(&mut self, number: u16, memory: Exposed<'_>, access: Access) -> bool {
        let mut used = self.ticket.carried_bytes;
        let is_carried = self.carrier().carry(number, memory, access, &mut used);
        self.ticket.carried_bytes = used;
        is_carried
    }

    /// Returns the record of memory that peers can read without a system call; `None` if it is not mapped.
    fn record_near(&mut self, number: u16, memory: Exposed<'_>) -> Option<Record> {
        if !self.cx.process.exposures.borrow_mut(self.cx.lane).is_told() {
            return None;
        }
        let record = self.record(number, memory, Access::Read);
        if !record.is_wholly_near() {
            self.cx.process.exposures.borrow_mut(self.cx.lane).withdraw(&record);
            return None;
        }
        Some(record)
    }

    /// Exposes memory and returns the record to publish.
    fn record(&mut self, number: u16, memory: Exposed<'_>, access: Access) -> Record {
        let (banks, slot) = self.banks();
        let me = banks.me();
        let edges = banks.edges(slot, me, usize::from(number));
        let edges = edges.and_then(|room| NonNull::new(room.cast()));
        let access = match access {
            Access::Read => exposure::Access::Read,
            Access::Write => exposure::Access::Write,
            Access::ReadWrite => exposure::Access::ReadWrite,
        };
        let carrier = self.carrier();
        let mut exposures = self.cx.process.exposures.borrow_mut(self.cx.lane);
        // SAFETY: see the module.
        unsafe {
            match memory {
                Exposed::Run(base, bytes) => exposures.expose(base, bytes, access, edges),
                Exposed::Table(..) | Exposed::Rows(..) => exposures.expose_entries(
                    (0..memory.runs()).map(|row| memory.run(row)),
                    Some(carrier.rank),
                    carrier.table(me, number),
                    access,
                    edges,
                ),
            }
        }
    }

    /// Returns the memory that a peer has published, or one entry of it.
    pub(in crate::collective) fn find(&self, remote: Remote) -> Found {
        let carrier = self.carrier();
        if let Some(copy) = carrier.carried(self.member(remote.peer), remote) {
            return Found::Carried(copy);
        }
        let Remote { peer, slot: number, entry, .. } = remote;
        // SAFETY: the schedule has awaited a flag that the peer posted after it published.
        let record = unsafe { (&raw const (*carrier.published(self.member(peer), number)).record).read() };
        let (banks, slot) = self.banks();
        let edges = banks.edges(slot, self.member(peer), usize::from(number));
        let edges = edges.map_or(ptr::null(), |room| room.cast_const().cast());
        let local = self.local(peer);
        let mut exposures = self.cx.process.exposures.borrow_mut(self.cx.lane);
        // SAFETY: see the module.
        let window =
            unsafe { exposures.open(Peer(local), &record, edges, carrier.table(self.member(peer), number)) };
        Found::Lent(if window.has_entries() { window.entry(entry) } else { window })
    }

    /// Returns the address of a part of a window if copies should bypass the caches and the part is mapped
    /// here.
    fn streamed(&self, window: &Window, offset: u64, bytes: u64) -> Option<*mut u8> {
        let streams = self.ticket.turn.as_ref().is_some_and(BankTurn::streams);
        if streams && bytes >= STREAMED_BYTES { window.direct(offset, bytes) } else { None }
    }

    /// Copies a peer's memory into a buffer of this rank.
    pub(in crate::collective) fn fetch(&self, from: Remote, into: &Buffer) -> Result<()> {
        match self.find(from) {
            Found::Carried(copy) => {
                // SAFETY: the schedule fetches no more than was exposed.
                let run = unsafe { Buffer::bytes_at(copy.cast_mut(), into.bytes()) };
                into.copy_from(&run);
                TRAFFIC.mapped.add(into.bytes());
                Ok(())
            }
            Found::Lent(window) => into.fill_from(|position, piece| {
                let (offset, bytes) = (from.offset + position, piece.len() as u64);
                // SAFETY: the piece is this process's own; what is in place is as long.
                unsafe {
                    match self.streamed(&window, offset, bytes) {
                        Some(from) => copy_streaming(from, piece.as_mut_ptr(), piece.len()),
                        None => match window.read(offset, piece.as_mut_ptr(), bytes) {
                            Ok(()) => return Ok(()),
                            Err(error) => return self.have_read(error, from.peer, &window, offset, piece),
                        },
                    }
                }
                TRAFFIC.mapped.add(bytes);
                Ok(())
            }),
        }
    }

    /// Copies a buffer of this rank to a peer's memory.
    pub(in crate::collective) fn deliver(&self, from: &Buffer, into: Remote) -> Result<()> {
        let Found::Lent(window) = self.find(into) else { unreachable!("only what is read travels by value") };
        from.drain_to(|position, piece| {
            let (offset, bytes) = (into.offset + position, piece.len() as u64);
            // SAFETY: the piece is this process's own; the schedule gives each part of the window to one
            // peer.
            unsafe {
                if let Some(into) = self.streamed(&window, offset, bytes) {
                    copy_streaming(piece.as_ptr(), into, piece.len());
                } else if let Some(into) = window.direct(offset, bytes) {
                    copy_to_peer(piece.as_ptr(), into, piece.len());
                } else if let Err(error) = window.write(offset, piece.as_ptr(), bytes) {
                    return self.have_written(error, into.peer, &window, offset, piece);
                } else {
                    return Ok(());
                }
            }
            TRAFFIC.mapped.add(bytes);
            Ok(())
        })
    }

    /// Requests from the owner the data that could not be read. A part may have arrived already; all of it
    /// is sent again.
    #[cold]
    fn have_read(
        &self,
        error: CopyError,
        peer: u32,
        window: &Window,
        offset: u64,
        into: &mut [u8],
    ) -> Result<()> {
        self.is_refused(error, peer, (into.as_ptr() as u64, true))?;
        window.pieces_at_owner(offset, into.len() as u64, |address, done, bytes| {
            let piece = &mut into[done as usize..][..bytes as usize];
            // SAFETY: the piece is this process's own, until the copy is made.
            let piece = unsafe { Buffer::bytes_at(piece.as_mut_ptr(), bytes) };
            served::get(self.cx.lane, self.cx.process, self.world(peer), self.own_envelope(0), address, piece)
        })
    }

    /// Requests that the owner stores the data that could not be written.
    #[cold]
    fn have_written(
        &self,
        error: CopyError,
        peer: u32,
        window: &Window,
        offset: u64,
        from: &[u8],
    ) -> Result<()> {
        self.is_refused(error, peer, (from.as_ptr() as u64, false))?;
        window.pieces_at_owner(offset, from.len() as u64, |address, done, bytes| {
            let piece = &from[done as usize..][..bytes as usize];
            // SAFETY: the piece is this process's own, and is only read, until the copy is made.
            let piece = unsafe { Buffer::bytes_at(piece.as_ptr().cast_mut(), bytes) };
            served::put(self.cx.lane, self.cx.process, self.world(peer), self.own_envelope(0), address, piece)
        })
    }

    /// Handles a failed copy. A refused access method is not tried again. The memory at `own` (an address,
    /// and true if it is written) may be the cause instead.
    fn is_refused(&self, error: CopyError, peer: u32, own: (u64, bool)) -> Result<()> {
        if !error.is_of_the_way() {
            let own = host_memory::complaint(own.0, own.1);
            return Err(own.map_or_else(
                || unreachable_memory(&error, peer),
                |why| Error::new(ErrorClass::Buffer, why),
            ));
        }
        self.cx.process.exposures.borrow_mut(self.cx.lane).is_refused(Peer(self.local(peer)), error);
        Ok(())
    }

    /// Returns the rank in the world of a rank of the communicator.
    fn world(&self, rank: u32) -> WorldRank {
        self.cx.comm.group().get(Rank(rank)).expect("a schedule names ranks of its communicator")
    }

    /// Returns the local rank of a rank of the communicator, which must be on this host.
    fn local(&self, rank: u32) -> u32 {
        self.cx.process.job.local_rank(self.world(rank).0).expect("memory is lent within a host")
    }
}

/// Makes the error for memory that no access method reaches.
#[cold]
fn unreachable_memory(error: &CopyError, peer: u32) -> Error {
    let reason = format!("the buffer of rank {peer} cannot be reached: {error} (is it memory of a device?)");
    Error::new(ErrorClass::Buffer, reason)
}
