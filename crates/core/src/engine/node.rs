//! Steps within a node: from ranges of a schedule to memory of this process and of its neighbours.
//!
//! All memory that other ranks read is packed ([`super::memory`]), so a peer's range is an address and a
//! length. Elements without gaps are combined in place, in a bank or in mapped exposed memory. Elements with
//! gaps pass through a scratch buffer of a few pages that stays in the cache. So does memory that only the
//! kernel can reach.
//!
//! # Safety
//! The same as for [`super::memory`]. The verifier has shown that the ranges lie inside their buffers and
//! that flags order the accesses of different ranks. It has also shown that a step's operands are disjoint or
//! equal.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::mem::MaybeUninit;

use tutti_base::traffic::TRAFFIC;
use tutti_base::{Error, ErrorClass, Result};
use tutti_coll::ir::{Access, BufferId, Kind, Range};

use super::copies::copy_to_bank;
use super::memory::{Bindings, Line};
use super::port::{Exposed, NodePort, Remote};
use crate::buffer::Buffer;

/// Length of the scratch buffer for one operand, in bytes.
const PIECE: usize = 16 << 10;

thread_local! {
    /// Buffer for fetched pieces, kept for later use. Otherwise malloc would map new memory each time, with a
    /// fault for every page.
    static FETCHED: Cell<Vec<MaybeUninit<u128>>> = const { Cell::new(Vec::new()) };
}

impl Bindings {
    /// Copies one range to another.
    #[inline]
    pub(super) fn copy(&mut self, from: &Range, into: &Range) {
        let (from, target) = (self.buffer(from), self.buffer(into));
        match (into.buffer, from.run()) {
            (BufferId::BANK, Some(run)) => {
                let bank = target.start();
                // SAFETY: the module's Safety section; a bank is one run.
                unsafe { copy_to_bank(run.as_ptr(), bank, run.len()) };
            }
            _ => {
                target.copy_from(&from);
            }
        }
    }

    /// Computes `right = left op right`, where `left` holds one operand or several.
    pub(super) fn reduce(&mut self, left: &Range, right: &Range) {
        let reducer = self.reducer.as_ref().expect("a reduction has its operator before it starts");
        let element = reducer.datatype();
        let typed = [left, right].map(|range| {
            let (place, start) = self.find(range);
            (place.is_packed(), place.element(start, element))
        });
        if self.dense || !typed[0].0 && !typed[1].0 {
            let operands = left.length.checked_div(right.length).unwrap_or(1);
            // SAFETY: the module's Safety section: both ranges lie in their buffers and are disjoint.
            return unsafe { reducer.apply_rows(typed[0].1, operands, typed[1].1, right.length) };
        }
        let packed = self.buffer(left).to_vec();
        let bytes = (right.length as usize * element.size() as usize).max(1);
        packed.chunks(bytes).rev().for_each(|row| self.combine_with_gaps(row.as_ptr(), right, right));
    }

    /// Exposes a range to the other ranks. With `whole` it exposes the complete buffer, by its entries if it
    /// has any.
    ///
    /// # Errors
    /// The errors of the port.
    pub(super) fn expose<P: NodePort>(
        &mut self,
        port: &mut P,
        slot: u16,
        (what, whole): (&Range, bool),
        access: Access,
    ) -> Result<()> {
        if whole && let Some((count, entry)) = self.entries(what.buffer) {
            return port.expose(slot, Exposed::Table(count, &entry), access);
        }
        let buffer = self.buffer(what);
        port.expose(slot, Exposed::Run(buffer.start(), buffer.bytes()), access)
    }

    /// Copies a range of a peer to an own range.
    ///
    /// # Errors
    /// The errors of the port.
    #[inline]
    pub(super) fn pull<P: NodePort>(
        &mut self,
        port: &mut P,
        peer: u32,
        from: &Range,
        into: &Range,
    ) -> Result<()> {
        let into = self.buffer(into);
        if from.buffer == BufferId::BANK {
            let offset = from.start as usize * self.unit_bytes();
            // SAFETY: the module's Safety section: a range of the peer's bank.
            let from = unsafe { Buffer::bytes_at(port.bank(peer).wrapping_add(offset), into.bytes()) };
            into.copy_from(&from);
            TRAFFIC.mapped.add(into.bytes());
            return Ok(());
        }
        port.pull(self.remote(peer, from), &into)
    }

    /// Writes a frame: the length of a range, and its content if it fits.
    pub(super) fn pack(&mut self, from: &Range, into: &Range) {
        let length = from.length.to_le_bytes();
        // SAFETY: the bytes live until the copy is made.
        let header = unsafe { Buffer::bytes_at(length.as_ptr().cast_mut(), Kind::FRAME_HEADER) };
        self.buffer(&Range { length: Kind::FRAME_HEADER, ..*into }).copy_from(&header);
        if from.length > 0 && Kind::fits(from.length, into.length) {
            self.copy(from, &into.held(from.length));
        }
    }

    /// Reads the content of the frame `from` in the bank of `peer`.
    ///
    /// # Errors
    /// `Truncate` if the frame's length differs from that of `into`.
    pub(super) fn unpack<P: NodePort>(
        &mut self,
        port: &mut P,
        peer: u32,
        from: &Range,
        into: &Range,
    ) -> Result<()> {
        let place = port.bank(peer).wrapping_add(from.start as usize);
        // SAFETY: the module's Safety section: a frame lies in the peer's bank.
        let sent = u64::from_le_bytes(unsafe { place.cast::<[u8; 8]>().read() });
        let expected = into.length;
        if sent != expected {
            let reason = format!(
                "a block of {expected} bytes is expected where one of {sent} bytes was sent to this rank"
            );
            return Err(Error::new(ErrorClass::Truncate, reason));
        }
        if expected > 0 && Kind::fits(expected, from.length) {
            self.pull(port, peer, &from.held(expected), into)?;
        }
        Ok(())
    }

    /// Copies an own range to memory that a peer has exposed.
    ///
    /// # Errors
    /// The errors of the port.
    pub(super) fn push<P: NodePort>(
        &mut self,
        port: &mut P,
        peer: u32,
        from: &Range,
        into: &Range,
    ) -> Result<()> {
        port.push(&self.buffer(from), self.remote(peer, into))
    }

    /// Computes `into = from op with`, where `from` is a range of a peer.
    ///
    /// # Errors
    /// The errors of the port.
    #[inline]
    pub(super) fn combine<P: NodePort>(
        &mut self,
        port: &mut P,
        peer: u32,
        from: &Range,
        with: &Range,
        into: &Range,
    ) -> Result<()> {
        if from.buffer == BufferId::BANK {
            let left = port.bank(peer).wrapping_add(from.start as usize * self.unit_bytes());
            TRAFFIC.mapped.add(into.length * self.unit_bytes() as u64);
            self.combine_packed(left, with, into);
            return Ok(());
        }
        let remote = self.remote(peer, from);
        let bytes = into.length * self.unit_bytes() as u64;
        match port.direct(remote, bytes) {
            Some(left) => {
                self.combine_packed(left, with, into);
                Ok(())
            }
            None => self.combine_fetched(port, remote, with, into),
        }
    }

    /// Returns the location of a range in memory that a peer has exposed.
    fn remote(&self, peer: u32, range: &Range) -> Remote {
        let slot = range.buffer.exposure().expect("what is not in a bank is exposed");
        Remote { peer, slot, entry: range.block, offset: range.start * self.unit_bytes() as u64 }
    }

    /// Computes `into = left op with`, where `left` has packed elements.
    #[inline]
    fn combine_packed(&mut self, left: *const u8, with: &Range, into: &Range) {
        if !self.dense {
            return self.combine_with_gaps(left, with, into);
        }
        let reducer = self.reducer.as_ref().expect("a reduction has its operator before it starts");
        let address = |range: &Range| {
            let (place, start) = self.find(range);
            place.element(start, reducer.datatype())
        };
        let (with, out) = (address(with), address(into));
        // SAFETY: the module's Safety section.
        unsafe {
            if with == out {
                reducer.apply(left, out, into.length);
            } else {
                reducer.apply_into(left, with, out, into.length);
            }
        }
    }

    /// Does the same as [`Bindings::combine_packed`] in pieces, with elements unpacked to a scratch buffer.
    #[cold]
    fn combine_with_gaps(&mut self, left: *const u8, with: &Range, into: &Range) {
        let reducer = self.reducer.clone().expect("a reduction has its operator before it starts");
        let element = reducer.datatype();
        let size = element.size() as usize;
        let (low, high) = element.span(1).unwrap_or((0, 0));
        let reach = element.extent().unsigned_abs().max((high - low) as u64).max(1);
        let step = (PIECE as u64 / reach).clamp(1, into.length.max(1));
        let (low, high) = element.span(step).unwrap_or((0, 0));
        let lines = ((high - low) as usize).div_ceil(Line::BYTES);
        let origin = self.scratch(2 * lines).wrapping_offset(-low as isize);
        let origins = [origin, origin.wrapping_add(lines * Line::BYTES)];
        let mut done = 0;
        while done < into.length {
            let count = step.min(into.length - done);
            let part = |range: &Range| Range { start: range.start + done, length: count, ..*range };
            // SAFETY: the scratch holds `step` elements at each origin; `left` holds all elements packed.
            unsafe {
                let bytes = count * size as u64;
                let fetched = Buffer::bytes_at(left.cast_mut().wrapping_add(done as usize * size), bytes);
                let unpacked = origins.map(|origin| Buffer::part(origin, count, element, 0, bytes));
                unpacked[0].copy_from(&fetched);
                unpacked[1].copy_from(&self.buffer(&part(with)));
                reducer.apply(origins[0], origins[1], count);
                self.buffer(&part(into)).copy_from(&unpacked[1]);
            }
            done += count;
        }
    }

    /// Does the same as [`Bindings::combine_packed`] with a `left` that is fetched in pieces.
    fn combine_fetched<P: NodePort>(
        &mut self,
        port: &mut P,
        left: Remote,
        with: &Range,
        into: &Range,
    ) -> Result<()> {
        let size = self.unit_bytes().max(1) as u64;
        in_pieces(port, left, into.length, size, |fetched, done, count| {
            let part = |range: &Range| Range { start: range.start + done, length: count, ..*range };
            self.combine_packed(fetched, &part(with), &part(into));
        })
    }

    /// Returns scratch memory of this many cache lines, which is kept for later use.
    fn scratch(&mut self, lines: usize) -> *mut u8 {
        if self.scratch.len() < lines {
            self.scratch.resize(lines, MaybeUninit::uninit());
        }
        self.scratch.as_mut_ptr().cast()
    }
}

/// Fetches `count` elements of `size` bytes from `from` in pieces. Calls `use_piece` with the address of a
/// piece, its first element and its number of elements.
///
/// # Errors
/// The errors of the port.
pub(super) fn in_pieces<P: NodePort>(
    port: &mut P,
    from: Remote,
    count: u64,
    size: u64,
    mut use_piece: impl FnMut(*const u8, u64, u64),
) -> Result<()> {
    // The kernel's fixed cost calls for larger pieces than the first-level cache does.
    let step = (8 * PIECE as u64 / size).clamp(1, count.max(1));
    let lines = ((step * size) as usize).div_ceil(size_of::<u128>());
    // The buffer is taken out during the loop, since a user's operator may call this function again.
    let mut fetched = FETCHED.take();
    if fetched.len() < lines {
        fetched.resize(lines, MaybeUninit::uninit());
    }
    let base = fetched.as_mut_ptr().cast::<u8>();
    let mut done = 0;
    let mut result = Ok(());
    while result.is_ok() && done < count {
        let piece = step.min(count - done);
        // SAFETY: the vector has room for `step` elements and lives to the end of this function.
        let room = unsafe { Buffer::bytes_at(base, piece * size) };
        result = port.pull(Remote { offset: from.offset + done * size, ..from }, &room);
        if result.is_ok() {
            use_piece(base, done, piece);
        }
        done += piece;
    }
    FETCHED.set(fetched);
    result
}
