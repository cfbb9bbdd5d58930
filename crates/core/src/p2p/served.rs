//! Memory that its owner reads and writes on behalf of a peer.
//!
//! Members of a collective operation access each other's exposed memory by mappings and by system calls. The
//! system may refuse either to a member: from the start by a namespace, or during a job by a filter. An owner
//! of exposed memory stays in the operation until the others report that they have finished. So the owner can
//! serve requests: for `get` it sends the content, for `put` it stores the peer's data. Both need two copies
//! and wait until the owner is in MPI.
//!
//! | packet | reply |
//! |---|---|
//! | Get, of an area | the bytes of the area, as the data of the peer's receive |
//! | Put, of an area | Clear to send; then the data follow |
//! | either, of memory that does not exist | Missing |
//!
//! # Safety
//! A peer names memory that this process has exposed to it in an operation of both. A rank on another host,
//! or of another job, neither exposes nor names any. The memory is valid until the peer sets the flag that
//! ends its access. The peer does this after the reply. Until then no other code uses the memory in a
//! conflicting way. Memory that is not mapped is refused.
#![allow(unsafe_code)]

use tutti_base::{Error, ErrorClass, WorldRank};
use tutti_sys::remap;
use tutti_transport::{Link, Peer};

use super::{Body, Check, PointToPoint, Small, State, Stream};
use crate::buffer::Buffer;
use crate::matching::{Envelope, Pattern};
use crate::request::{Request, RequestId, Work};
use crate::wire::{Area, Packet};

impl<L: Link> PointToPoint<L> {
    /// Starts `get`: requests the content of the owner's memory. Returns the request of the receive.
    pub(crate) fn start_get(
        &mut self,
        owner: WorldRank,
        envelope: Envelope,
        address: u64,
        into: Buffer,
    ) -> RequestId {
        let Envelope { context, source, tag } = envelope;
        let area = Area { address, bytes: into.bytes() };
        let pattern = Pattern { context, source: Some(source), tag: Some(tag) };
        let receiver = self.state.insert(Request::new(receiving(pattern, into), 0));
        self.ask(owner, Packet::Get { receiver }, area);
        receiver
    }

    /// Starts the first half of `put`. The returned request is complete when all data are in the transport.
    pub(crate) fn start_put(&mut self, owner: WorldRank, address: u64, from: Buffer) -> RequestId {
        let area = Area { address, bytes: from.bytes() };
        let work = Work::Send { peer: owner.0, tag: 0, buffer: from, sent: 0 };
        let sender = self.state.insert(Request::new(work, 0));
        self.ask(owner, Packet::Put { sender }, area);
        sender
    }

    fn ask(&mut self, owner: WorldRank, packet: Packet, area: Area) {
        self.state.outbox.push_back((Peer(owner.0), Small { packet, body: Body::Area(area) }));
        self.flush();
    }
}

fn receiving(pattern: Pattern, buffer: Buffer) -> Work {
    let expected = buffer.bytes();
    Work::Receive { pattern, buffer, check: Check::Nothing, arrived: 0, expected }
}

impl State {
    /// Handles a peer's request for the data of an area.
    #[cold]
    pub(super) fn asked_to_get(&mut self, from: Peer, payload: &[u8], receiver: RequestId) {
        let Some(area) = self.named(from, payload) else { return };
        if !remap::is_there(area.address, area.bytes, false) {
            return self.answer(from, Packet::Missing { request: receiver });
        }
        let work = Work::Send { peer: from.0, tag: 0, buffer: buffer_at(area), sent: 0 };
        let sender = self.insert(Request { detached: true, ..Request::new(work, 0) });
        self.peers.get(from).streams.push_back(Stream::Message { sender, receiver });
        self.list(from);
    }

    /// Handles a peer's request to store data in an area.
    #[cold]
    pub(super) fn offered_for(&mut self, from: Peer, payload: &[u8], sender: RequestId) {
        let Some(area) = self.named(from, payload) else { return };
        if !remap::is_there(area.address, area.bytes, true) {
            return self.answer(from, Packet::Missing { request: sender });
        }
        let nothing = Pattern { context: 0, source: None, tag: None };
        let work = receiving(nothing, buffer_at(area));
        let receiver = self.insert(Request { detached: true, ..Request::new(work, 0) });
        self.answer(from, Packet::ClearToSend { sender, receiver });
    }

    /// Returns the area that a packet names.
    fn named(&mut self, from: Peer, payload: &[u8]) -> Option<Area> {
        if !self.reader.is_neighbour(from) {
            self.fail("a peer asked for memory that was not lent to it");
            return None;
        }
        Area::decode(payload).map_err(|error| self.fault = Some(error)).ok()
    }

    /// Completes a request with an error, because the owner's memory does not exist.
    #[cold]
    pub(super) fn is_missing(&mut self, request: RequestId) {
        if let Some(request) = self.requests.get_mut(request) {
            let reason = "memory that a member has lent for the operation is not mapped there";
            request.error = Some(Error::new(ErrorClass::Other, reason));
        }
        self.requests.complete_as_is(request);
    }
}

fn buffer_at(area: Area) -> Buffer {
    // SAFETY: the module's Safety section.
    unsafe { Buffer::bytes_at(std::ptr::with_exposed_provenance_mut(area.address as usize), area.bytes) }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{config, is_complete, pattern_bytes, processes, settle};
    use super::*;

    const ENVELOPE: Envelope = Envelope { context: 3, source: 1, tag: 5 };

    /// Copies `bytes` bytes from and to the memory of process 1, on behalf of process 0.
    fn check(bytes: usize) {
        let mut all = processes(2, &config());
        let (lent, taken) = (pattern_bytes(3, bytes), Buffer::owned(vec![0; bytes]));
        let address = lent.as_ptr().expose_provenance() as u64;
        let id = all[0].start_get(WorldRank(1), ENVELOPE, address, taken.clone());
        settle(&mut all);
        assert!(is_complete(&all[0], id) && taken.to_vec() == lent, "{bytes}");

        let (mut lent, data) = (vec![0u8; bytes], pattern_bytes(7, bytes));
        let address = lent.as_mut_ptr().expose_provenance() as u64;
        let id = all[0].start_put(WorldRank(1), address, Buffer::owned(data.clone()));
        settle(&mut all);
        let fence = all[0].start_get(WorldRank(1), ENVELOPE, address, Buffer::empty());
        settle(&mut all);
        assert!(is_complete(&all[0], id) && is_complete(&all[0], fence) && lent == data, "{bytes}");
        assert!(all[1].state.requests.is_empty(), "the owner keeps nothing");
    }

    #[test]
    fn an_owner_copies_for_its_peer() {
        [0, 1, 199, 200, 201, 5000, 100_000].into_iter().for_each(check);
    }

    #[test]
    fn memory_that_is_not_there_is_an_error() {
        let mut all = processes(2, &config());
        let get = all[0].start_get(WorldRank(1), ENVELOPE, 4096, Buffer::owned(vec![0; 10]));
        let put = all[0].start_put(WorldRank(1), 4096, Buffer::owned(vec![0; 10]));
        settle(&mut all);
        for id in [get, put] {
            let request = all[0].state.requests.get(id).unwrap();
            assert!(request.complete && request.error.is_some());
        }
    }
}
