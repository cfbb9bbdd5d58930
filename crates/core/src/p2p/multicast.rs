//! Messages to several peers at once (S8).
//!
//! A message that the link does not multicast is sent to each peer as an ordinary message. So is a message
//! that the link hands back. A receiver keeps unexpected multicasts up to a part of `TUTTI_UNEXPECTED_BYTES`.
//! It leaves further ones with the link. The link makes the sender wait and finally send them as ordinary
//! messages.

use tutti_base::WorldRank;
use tutti_transport::{Link, Peer, Verdict};

use super::{Message, Mode, PointToPoint, SendSpec, State};
use crate::buffer::Buffer;
use crate::flow::eager_cost;
use crate::matching::Envelope;
use crate::request::{Request, Work};
use crate::wire::{Packet, Signature};

/// Divisor of `TUTTI_UNEXPECTED_BYTES` that gives the bound for multicast messages.
const PART: u64 = 8;

/// Returns the number of bytes that a message counts while it is kept.
pub(super) fn cost(payload: &[u8]) -> u64 {
    eager_cost(payload.len() as u64)
}

impl<L: Link> PointToPoint<L> {
    /// Sends a message to several peers. Peers that need a single message are added to `rest`. Returns false
    /// if there is no room now. Messages of one envelope keep their order on all paths.
    pub fn multicast(
        &mut self,
        to: &[Peer],
        envelope: Envelope,
        signature: Signature,
        buffer: &Buffer,
        rest: &mut Vec<Peer>,
    ) -> bool {
        self.send_handed_back();
        for peer in to {
            let towards = self.state.peers.get(*peer);
            let holds = towards.withheld.as_ref().is_some_and(|withheld| withheld.holds(envelope));
            if holds || !towards.backlog.is_empty() {
                return false;
            }
        }
        let header = Packet::Multicast { envelope, signature }.encode();
        let fill = |room: &mut [u8]| {
            buffer.pack(0, room);
        };
        self.link.multicast(to, header, buffer.bytes() as usize, fill, rest).is_ok()
    }

    /// Sends the messages that the link has handed back.
    #[inline]
    pub(super) fn send_handed_back(&mut self) {
        while let Some((peer, header, payload)) = self.link.handed_back() {
            self.send_instead(peer, Packet::decode(header), payload);
        }
    }

    /// Sends a message that the link has handed back to one receiver as an ordinary message.
    #[cold]
    fn send_instead(&mut self, peer: Peer, packet: tutti_base::Result<Packet>, payload: Vec<u8>) {
        let Ok(Packet::Multicast { envelope, signature }) = packet else {
            return self.state.fail("the link has handed back what was never sent");
        };
        let buffer = Buffer::owned(payload);
        let (peer, mode) = (WorldRank(peer.0), Mode::Standard);
        let request = Request { detached: true, ..Request::new(Work::Other, envelope.context) };
        let id = self.state.insert(request);
        self.start_send(id, SendSpec { buffer, peer, envelope, mode, signature });
    }
}

impl State {
    /// Handles a message that was multicast. Without room it is left with the link, unless `keep` is true.
    pub(super) fn multicast(
        &mut self,
        from: Peer,
        envelope: Envelope,
        signature: Signature,
        payload: &[u8],
        keep: bool,
    ) -> Verdict {
        if let Some(receive) = self.matcher.arrive(envelope) {
            self.deliver_eager(receive, from, envelope, signature, payload);
            return Verdict::Taken;
        }
        let bytes = self.multicast_bytes + cost(payload);
        if !keep && bytes > self.limits.unexpected_bytes / PART {
            return Verdict::Left;
        }
        self.multicast_bytes = bytes;
        self.push_unexpected(envelope, Message::Multicast { from, payload: payload.into(), signature });
        Verdict::Taken
    }
}
