//! Shortest path of a message to a blocking receive: from the transport into the user's buffer, without a
//! request and without the matcher.
//!
//! It is possible while no receive is posted and no message is unexpected. Then the first arriving message
//! that fits is the one that this receive gets by the matching rules. All other packets are handled as usual.

use tutti_base::ContextId;
use tutti_transport::{Header, Link, Peer, Sink, Verdict};

use super::incoming::Arrival;
use super::status::status_of;
use super::{Check, PointToPoint, ReceiveSpec, State};
use crate::matching::Envelope;
use crate::request::{Finished, RequestId, Status};
use crate::trace;
use crate::wire::{Packet, Signature};

/// Blocking receive that takes its message on arrival.
struct Direct<'a> {
    state: &'a mut State,
    spec: &'a ReceiveSpec,
    finished: Option<Finished>,
}

impl<L: Link> PointToPoint<L> {
    /// Returns true if this receive may take its message on arrival.
    #[inline]
    pub fn may_receive_directly(&self, spec: &ReceiveSpec) -> bool {
        self.state.matcher.is_empty()
            && !matches!(spec.check, Check::Type(_))
            && spec.from != Some(self.state.me)
    }

    /// Polls once for the message of a blocking receive. Returns None if it has not arrived, or cannot be
    /// received in this way ([`PointToPoint::may_receive_directly`] is then false).
    #[inline]
    pub fn receive_directly(&mut self, spec: &ReceiveSpec) -> Option<Finished> {
        let quiet = self.is_idle();
        let mut direct = Direct { state: &mut self.state, spec, finished: None };
        match spec.from {
            Some(from) if quiet => self.link.poll_peer(from, &mut direct),
            _ => self.link.poll(&mut direct),
        };
        let finished = direct.finished;
        if finished.is_none() && self.state.watched.is_some() {
            self.watch();
        }
        if !self.is_idle() {
            self.flush();
        }
        finished
    }
}

/// Returns envelope and signature of a complete message, and the send request that waits for Done. Returns
/// None for other packets.
#[inline]
fn whole_message(header: Header) -> Option<(Envelope, Signature, Option<RequestId>)> {
    if let Some((envelope, signature)) = Packet::decode_eager(header) {
        return Some((envelope, signature, None));
    }
    match Packet::decode(header) {
        Ok(Packet::Eager { envelope, signature, sync }) => Some((envelope, signature, sync)),
        _ => None,
    }
}

impl Sink for Direct<'_> {
    #[inline]
    fn arrived(&mut self, from: Peer, header: Header, payload: &[u8]) -> Verdict {
        let is_open = self.finished.is_none() && self.state.matcher.is_empty();
        let wanted = |(envelope, _, _): &(Envelope, _, _)| is_open && self.spec.pattern.fits(*envelope);
        let Some((envelope, signature, sync)) = whole_message(header).filter(wanted) else {
            return self.state.arrived(from, header, payload);
        };
        let (bytes, capacity) = (payload.len() as u64, self.spec.buffer.bytes());
        self.spec.buffer.unpack(0, payload);
        let status: Status = status_of(envelope, bytes.min(capacity));
        let arrival = Arrival { envelope, bytes, signature };
        let result = arrival.complaint(&self.spec.check, capacity).map_or(Ok(status), Err);
        self.finished = Some(Finished {
            result,
            status,
            persistent: false,
            context: ContextId::of_plane(envelope.context).0,
        });
        if trace::is_on() {
            trace::received(from, envelope.context, &status);
        }
        self.state.eager_done(from, payload.len(), sync);
        Verdict::Taken
    }
}
