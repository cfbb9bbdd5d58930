//! Mappings of the objects of peers in this process. Callers have verified that the peer's process number is
//! right.
//!
//! A peer that forks has another object afterwards. The mappings of the earlier one are dropped as soon as
//! the peer publishes that nothing of it is exposed any more ([`Record`], `SETTLED`).
//!
//! # Safety
//! A mapping is never removed while this process has windows of it, that is until [`Peers`] is dropped or its
//! owner says so: one that has become too short is kept beside its successor. It shows the peer's object,
//! whose pages are the peer's memory as long as the peer says so in a record; a page that was given back
//! reads as zero and is no fault.

#![allow(unsafe_code)]

use std::os::fd::{AsFd, OwnedFd};

use tutti_base::traffic::TRAFFIC;
use tutti_sys::remap;

use super::object::slot_of;
use super::record::{PAGE_BYTES, Record};
use super::window::Window;
use crate::Peer;
use crate::single_copy::{CopyError, Lent, Pid};

/// Mappings of one peer's memory, those included that were replaced by longer ones.
const MAPPINGS: usize = 2048;

/// Number of objects of one peer that are kept open beside the latest, as long as something of them may be
/// exposed.
const EARLIER: usize = 16;

/// Mappings of the memory of all peers.
#[derive(Debug, Default)]
pub struct Peers(Vec<Option<Box<OfPeer>>>);

/// Mappings of one peer's memory: of its latest object, and of earlier ones.
#[derive(Debug)]
struct OfPeer {
    latest: Opened,
    earlier: Vec<Opened>,
}

/// Mappings of one object.
#[derive(Debug)]
struct Opened {
    pid: Pid,
    identity: (u64, (u32, u32)),
    sequence: u32,
    /// `None`: it could not be opened, and is not tried again.
    object: Option<OwnedFd>,
    slots: Vec<Option<View>>,
    replaced: Vec<View>,
    mappings: usize,
}

/// A part of an object, mapped.
#[derive(Debug)]
struct View {
    base: *mut u8,
    offset: u64,
    bytes: u64,
}

// SAFETY: a mapping is valid in every thread.
unsafe impl Send for View {}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: mapped by `View::new`; windows end before.
        unsafe { remap::unmap(self.base, self.bytes as usize) };
    }
}

impl Peers {
    /// Hands the first `wanted` bytes of a message that `peer` has lent ([`super::Exposures::lend_message`])
    /// to `take`, with their positions: what is mapped as it lies there, the two ends as the system reads
    /// them.
    ///
    /// # Errors
    /// Why the system refused; part of the message may have been handed over.
    pub fn read(
        &mut self,
        peer: Peer,
        record: &Record,
        wanted: u64,
        mut take: impl FnMut(u64, &[u8]),
    ) -> Result<(), CopyError> {
        let near = self.near(peer, record).ok_or(CopyError::Gone)?;
        let whole = Window::of_process(record.pid());
        let window = Window { lent: Lent { address: record.address, ..whole.lent }, ..whole };
        let (start, end) = (record.near_start.min(wanted), record.near_end.min(wanted));
        let mut edge = [0; PAGE_BYTES as usize];
        for (from, to) in [(0, start), (end, wanted)].into_iter().filter(|(from, to)| from < to) {
            let edge = edge.get_mut(..(to - from) as usize).ok_or(CopyError::Fault)?;
            // SAFETY: memory of this function, as long as it says.
            unsafe { window.read(from, edge.as_mut_ptr(), to - from)? };
            take(from, edge);
        }
        let length = (end - start) as usize;
        // SAFETY: mapped, until this value is dropped; the peer does not write it until it is told that the
        // message is here.
        take(start, unsafe { std::slice::from_raw_parts(near, length) });
        TRAFFIC.mapped.add(length as u64);
        Ok(())
    }

    /// Returns the address in this process of the mapped part of a peer's record. `None` if it cannot be
    /// mapped here.
    #[inline]
    pub(super) fn near(&mut self, peer: Peer, record: &Record) -> Option<*mut u8> {
        let index = peer.0 as usize;
        if let Some(Some(of_peer)) = self.0.get(index)
            && of_peer.latest.is_of(record)
            && let Some(Some(view)) = of_peer.latest.slots.get(slot_of(record.map_offset))
            && let Some(base) = view.address_of(record)
        {
            return Some(base);
        }
        self.map(index, record)
    }

    #[cold]
    fn map(&mut self, index: usize, record: &Record) -> Option<*mut u8> {
        if index >= self.0.len() {
            self.0.resize_with(index + 1, || None);
        }
        let of_peer = &mut self.0[index];
        // Another process has taken the rank's place (a restart): windows of the one before have ended.
        if of_peer.as_ref().is_none_or(|of_peer| of_peer.latest.pid != record.pid()) {
            *of_peer = Some(Box::new(OfPeer { latest: Opened::new(record), earlier: Vec::new() }));
        }
        of_peer.as_mut().and_then(|of_peer| of_peer.opened(record)).and_then(|opened| opened.map(record))
    }
}

impl OfPeer {
    /// Returns the object of a record; `None` if there are too many.
    fn opened(&mut self, record: &Record) -> Option<&mut Opened> {
        if record.is_settled() {
            self.earlier.retain(|opened| opened.sequence >= record.sequence);
        }
        if self.latest.is_of(record) {
            return Some(&mut self.latest);
        }
        if let Some(index) = self.earlier.iter().position(|opened| opened.is_of(record)) {
            return Some(&mut self.earlier[index]);
        }
        let opened = Opened::new(record);
        if self.latest.sequence == record.sequence {
            // Made anew by a restart: windows of the one before have ended.
            self.latest = opened;
            return Some(&mut self.latest);
        }
        if self.earlier.len() >= EARLIER {
            return None;
        }
        let is_later = record.sequence > self.latest.sequence;
        let earlier = if is_later { std::mem::replace(&mut self.latest, opened) } else { opened };
        if !(is_later && record.is_settled()) {
            self.earlier.push(earlier);
        }
        if is_later { Some(&mut self.latest) } else { self.earlier.last_mut() }
    }
}

impl Opened {
    #[inline]
    fn is_of(&self, record: &Record) -> bool {
        self.pid == record.pid() && self.identity == record.identity()
    }

    fn new(record: &Record) -> Opened {
        let object = remap::object_of(record.pid(), record.object)
            .ok()
            .filter(|object| remap::identity(object.as_fd()).is_ok_and(|found| found == record.identity()));
        Opened {
            pid: record.pid(),
            identity: record.identity(),
            sequence: record.sequence,
            object,
            slots: Vec::new(),
            replaced: Vec::new(),
            mappings: 0,
        }
    }

    fn map(&mut self, record: &Record) -> Option<*mut u8> {
        let object = self.object.as_ref().filter(|_| self.mappings < MAPPINGS)?;
        let slot = slot_of(record.map_offset);
        if slot >= self.slots.len() {
            self.slots.resize_with(slot + 1, || None);
        }
        let (mut start, mut end) = (record.map_offset, record.map_offset + record.map_bytes);
        if let Some(view) = &self.slots[slot] {
            (start, end) = (start.min(view.offset), end.max(view.offset + view.bytes));
        }
        // The program may have put a file of its own in the place of the descriptor.
        if remap::identity(object.as_fd()).ok()? != self.identity {
            return None;
        }
        let base = remap::map(object.as_fd(), start, (end - start) as usize).ok()?;
        self.mappings += 1;
        // Loads fault in sixteen pages at a time, stores each page by itself.
        if record.writable != 0 {
            remap::populate(base, (end - start) as usize);
        }
        let view = View { base, offset: start, bytes: end - start };
        let place = view.address_of(record);
        self.replaced.extend(self.slots[slot].replace(view));
        place
    }
}

impl View {
    /// Returns the address of the mapped part of the record, if this view contains all of it.
    #[inline]
    fn address_of(&self, record: &Record) -> Option<*mut u8> {
        let bytes = record.near_end - record.near_start;
        let skip = record.offset.checked_sub(self.offset)?;
        (skip + bytes <= self.bytes).then(|| self.base.wrapping_add(skip as usize))
    }
}
