//! Point-to-point messages: eager, rendezvous by stream or single copy, and messages of a process to itself.
//!
//! [`PointToPoint`] joins a [`Link`] with [`State`], which is a pure state machine. Its inputs are packets
//! and starts of operations. Its outputs are completions in the request table and packets in `outbox`.
//!
//! | file | content |
//! |---|---|
//! | `outgoing` | the sender's half |
//! | `incoming` | the receiver's half |
//! | `withheld`, `pulling` | both halves of messages for which the receiver has no room ([`crate::flow`]) |
//! | `cancel` | cancellation of sends |
//! | `partitioned` | both halves of partitioned messages |
//! | `remote` | messages that the link reads by itself (RDMA) |
//! | `multicast` | messages to several receivers at once |
//! | `served` | memory that its owner reads and writes on behalf of a peer |
//!
//! | message | protocol |
//! |---|---|
//! | up to `TUTTI_EAGER_BYTES` (`TUTTI_CONNECTED_EAGER_BYTES`) | eager: header and payload in one packet |
//! | the same, synchronous mode | eager, then Done when it is matched |
//! | longer, or no room for its payload | RendezvousRequest, then a transfer that the receiver chooses |
//! | no room for the request either | `withheld` by the sender until there is room or a matching receive |
//! | to oneself | matched at once; if unexpected, kept as a copy (short) or as the sender's request (long) |
//!
//! The receiver of a rendezvous request chooses the transfer, so no agreement between processes is needed:
//!
//! - it reads the data through the link, which informs both processes;
//! - it reads them by single copy and sends Done;
//! - it sends ClearToSend and the sender streams Data packets.

pub mod absent;
pub mod agreement;
#[cfg(test)]
mod bounded_tests;
mod cancel;
pub mod departures;
mod direct;
mod incoming;
mod multicast;
mod outgoing;
pub mod partitioned;
mod path_choice;
mod pulling;
mod remote;
pub mod served;
mod status;
#[cfg(test)]
mod tests;
mod withheld;

use std::collections::VecDeque;

use tutti_base::ids::Plane;
use tutti_base::traffic::TRAFFIC;
use tutti_base::{ContextId, Error, WorldRank};
use tutti_transport::locality::{self, PeerStores};
use tutti_transport::{Link, Peer};

use crate::events::{self, Kind};
use crate::flow::{ReceiveWindow, Reserve, SendWindow, initial_window};
use crate::lanes::Lane;
use crate::matching::{Envelope, Matcher, Pattern};
use crate::request::{Request, RequestId, RequestTable};
use crate::single_copy::Reader;
pub use crate::specs::{Check, Mode, ReceiveSpec, SendSpec};
use crate::wire::{Area, Claim, Packet, RendezvousRequest, Signature};
use path_choice::PathChoice;
use pulling::Pulling;
use remote::Remote;
use withheld::Withheld;

/// Unexpected message: a message that has arrived before its receive was posted.
#[allow(missing_docs, reason = "the fields are what their types say")]
#[derive(Debug)]
pub enum Message {
    /// Message whose payload has arrived completely.
    Eager { from: Peer, payload: Box<[u8]>, signature: Signature, sync: Option<RequestId> },
    /// Message whose payload has arrived completely, by multicast.
    Multicast { from: Peer, payload: Box<[u8]>, signature: Signature },
    /// Message whose payload waits at its sender. Its envelope is counted against the receive window, unless
    /// it came by a claim or its plane is not counted.
    RendezvousRequest {
        from: Peer,
        offer: RendezvousRequest,
        signature: Signature,
        sender: RequestId,
        is_counted: bool,
    },
    /// Message of this process to itself; its payload is still in the send buffer.
    Local { sender: RequestId },
    /// Announcement of a channel for partitioned messages; it is not a message itself.
    Announced { from: Peer, offer: RendezvousRequest, signature: Signature, sender: RequestId },
}

/// Sizes at which the protocols change, and bounds on memory.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Length of the longest eager message, in bytes.
    pub eager_bytes: u64,
    /// Length of the longest eager message to a connected peer on another host, in bytes.
    pub connected_eager_bytes: u64,
    /// Largest payload of one packet of a stream, in bytes.
    pub fragment_bytes: usize,
    /// Bound on the memory for unexpected messages, in bytes.
    pub unexpected_bytes: u64,
    /// Number of processes of the own job. Peers beyond it belong to other jobs, which may have other
    /// settings.
    pub own_peers: u64,
    /// Length of the shortest message that is read through the link, in bytes; `u64::MAX` if none is.
    pub remote_read_bytes: u64,
    /// True if the datatypes of sender and receiver are compared.
    pub check_types: bool,
}

/// Point-to-point messages of one process, or of one of its lanes.
#[derive(Debug)]
pub struct PointToPoint<L> {
    /// Transport that carries the packets.
    pub link: L,
    /// State of the protocols, without the transport.
    pub state: State,
}

/// State of the protocols of one process, without the transport.
#[derive(Debug)]
pub struct State {
    /// Requests of this process (or lane).
    pub requests: RequestTable,
    /// Error of an invalid packet that arrived. The job cannot continue.
    pub fault: Option<Error>,
    matcher: Matcher<RequestId, Message>,
    me: Peer,
    limits: Limits,
    reader: Reader,
    remote: Remote,
    peers: PeerTable,
    channels: partitioned::Channels,
    outbox: VecDeque<(Peer, Small)>,
    /// Peers with a backlog or a stream, and peers whose withheld messages may continue.
    busy: Vec<Peer>,
    /// Bytes that may be granted to peers beyond their initial windows.
    reserve: Reserve,
    pulling: Pulling,
    /// Peer whose distance is to be measured while this process waits, and the number of waits left for that.
    watched: Option<(Peer, u8)>,
    /// Collective operations that members have abandoned.
    pub failed_operations: agreement::FailedOperations,
    /// Bytes of unexpected messages that came by multicast.
    multicast_bytes: u64,
    /// Contexts in which active messages of windows have arrived ([`State::next_call`]).
    calls: Vec<u32>,
    /// Inquiries of members that have waited long in a collective operation.
    inquiries: Vec<Notice>,
    /// Peers that have left MPI.
    pub departures: departures::Departures,
}

/// Events other than messages that progress reports to its caller.
#[derive(Debug)]
pub enum Notice {
    /// Reason for which the job cannot continue.
    Fault(String),
    /// Peer that has become unreachable, and the reason. The job cannot continue.
    Lost(String),
    /// Active messages for windows have arrived ([`State::next_call`]).
    Calls,
    /// A member has waited long in a collective operation and requests this process's signature of it.
    Inquiry {
        /// Rank that sent the inquiry.
        from: WorldRank,
        /// Envelope of the operation's messages.
        envelope: Envelope,
        /// Signature of the operation at the sender of the inquiry.
        signature: Signature,
    },
}

/// State kept for a process with which messages were exchanged.
#[derive(Debug)]
struct PeerState {
    send_window: SendWindow,
    receive_window: ReceiveWindow,
    backlog: VecDeque<Queued>,
    streams: VecDeque<Stream>,
    listed: bool,
    stores: PeerStores,
    /// Measurements for the choice of a path for long messages; None before the first long message.
    ways: Option<Box<PathChoice>>,
    /// Last long message that was offered to this peer.
    offered: Option<RequestId>,
    /// Messages for which this peer has no room.
    withheld: Option<Box<Withheld>>,
}

/// Packet that found the transport full, queued in order behind others to the same peer.
#[derive(Debug)]
enum Queued {
    Small(Small),
    /// Eager send of a request. Its payload is still in the user's buffer.
    Eager(Packet, RequestId),
}

/// Packet with a payload of a few words at most.
#[derive(Clone, Debug)]
struct Small {
    packet: Packet,
    body: Body,
}

/// Payload of a small packet.
#[derive(Clone, Debug)]
enum Body {
    Nothing,
    RendezvousRequest(RendezvousRequest),
    Claim(Claim),
    Area(Area),
}

/// Long transfer in several packets to a peer.
#[derive(Debug)]
enum Stream {
    /// Message that the receiver has requested.
    Message { sender: RequestId, receiver: RequestId },
    /// Partitions that are ready to be sent.
    Partitions { sender: RequestId },
}

/// Peers by number. Memory is allocated by blocks that contain at least one known peer.
#[derive(Debug)]
struct PeerTable {
    blocks: Vec<Option<Box<PeerBlock>>>,
    window_bytes: u64,
    own: u64,
}

/// Maximum number of waits that measure the distance of a peer. The peer may not be running, so one may fail.
const WATCHES: u8 = 2;
/// Initial window between processes of different jobs, in bytes. It is constant because both must use the
/// same.
const FOREIGN_WINDOW_BYTES: u64 = 16 << 10;
const PEER_BLOCK: usize = 64;
type PeerBlock = [Option<Box<PeerState>>; PEER_BLOCK];

impl Limits {
    /// Returns the limits from the settings, for a link with payloads of at most `max_payload` bytes and a
    /// job of `peers` processes.
    pub fn new(config: &tutti_base::config::Config, max_payload: usize, peers: u64) -> Limits {
        let eager_bytes = config.messages.eager_bytes.min(max_payload as u64);
        Limits {
            eager_bytes,
            connected_eager_bytes: config.messages.connected_eager_bytes.min(max_payload as u64),
            fragment_bytes: (config.messages.fragment_bytes.max(64) as usize).min(max_payload),
            unexpected_bytes: config.messages.unexpected_bytes,
            own_peers: peers,
            remote_read_bytes: match config.messages.remote_read_bytes {
                0 => u64::MAX,
                bytes => bytes,
            },
            check_types: config.diagnosis.check_types,
        }
    }

    /// Returns the limits of one of several lanes, which share the memory for unexpected messages.
    #[must_use]
    pub fn shared_by(self, lanes: u32) -> Limits {
        Limits { unexpected_bytes: self.unexpected_bytes / u64::from(lanes.max(1)), ..self }
    }
}

impl<L: Link> PointToPoint<L> {
    /// Returns the messages of a process that has not communicated with any peer.
    pub fn new(link: L, me: Peer, limits: Limits, reader: Reader) -> PointToPoint<L> {
        let longest_eager = limits.eager_bytes.max(limits.connected_eager_bytes);
        let window_bytes = initial_window(limits.unexpected_bytes, limits.own_peers);
        let state = State {
            requests: RequestTable::default(),
            fault: None,
            matcher: Matcher::default(),
            me,
            limits,
            reader,
            peers: PeerTable { blocks: Vec::new(), window_bytes, own: limits.own_peers },
            reserve: Reserve::new(limits.unexpected_bytes, longest_eager),
            pulling: Pulling::default(),
            remote: Remote::new(limits.remote_read_bytes),
            channels: partitioned::Channels::default(),
            outbox: VecDeque::new(),
            busy: Vec::new(),
            watched: None,
            failed_operations: agreement::FailedOperations::default(),
            multicast_bytes: 0,
            calls: Vec::new(),
            inquiries: Vec::new(),
            departures: departures::Departures::default(),
        };
        PointToPoint { link, state }
    }

    /// Assigns these messages to a lane; the numbers of its requests contain the lane.
    #[must_use]
    pub fn in_lane(mut self, lane: Lane) -> PointToPoint<L> {
        self.state.requests = RequestTable::in_lane(lane);
        self
    }

    /// Returns the length of the longest payload that this process passes to any link, in bytes.
    pub fn longest_payload(&self) -> usize {
        let Limits { eager_bytes, fragment_bytes, .. } = self.state.limits;
        fragment_bytes.max(eager_bytes as usize)
    }

    /// Processes arrived packets and sends what could not be sent before. Returns true if anything happened.
    #[inline]
    pub fn progress(&mut self) -> bool {
        let mut arrived = self.link.poll(&mut self.state);
        self.send_handed_back();
        if !arrived && self.state.watched.is_some() && self.watch() {
            arrived = self.link.poll(&mut self.state);
        }
        let answered = self.flush();
        arrived || answered
    }

    /// Returns true if [`PointToPoint::progress`] would find nothing to do and [`PointToPoint::notice`]
    /// nothing to report. Returns false if loads from memory are not enough to know this.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        let State { watched, fault, inquiries, .. } = &self.state;
        self.is_idle()
            && watched.is_none()
            && fault.is_none()
            && inquiries.is_empty()
            && !self.state.is_called()
            && self.link.is_quiet()
    }

    /// Returns the peer to watch during the next waits, or None if `peer` is on another host.
    #[cold]
    fn watch_of(link: &L, peer: Peer) -> Option<(Peer, u8)> {
        link.has_come(peer).map(|_| (peer, WATCHES))
    }

    /// Polls for a few microseconds for data from the watched peer, and measures its distance if data come.
    /// Returns true if data have come.
    #[cold]
    fn watch(&mut self) -> bool {
        let Some((peer, watches)) = self.state.watched.take() else { return false };
        let link = &self.link;
        let observed = locality::observe(|| link.has_come(peer) == Some(true));
        match observed.distance {
            Some(distance) => self.state.peers.get(peer).stores.note(distance),
            None => self.state.watched = (watches > 1).then_some((peer, watches - 1)),
        }
        observed.came
    }

    /// Returns the next event that the caller must handle.
    #[inline]
    pub fn notice(&mut self) -> Option<Notice> {
        let lost = |(peer, reason): (Peer, String)| format!("rank {} cannot be reached: {reason}", peer.0);
        let fault = self.state.fault.take().map(|error| Notice::Fault(error.message.to_string()));
        let fault = fault.or_else(|| self.link.failure().map(lost).map(Notice::Lost));
        if self.state.is_called() {
            return fault.or(Some(Notice::Calls));
        }
        if self.state.inquiries.is_empty() { fault } else { fault.or_else(|| self.inquiry()) }
    }

    #[cold]
    fn inquiry(&mut self) -> Option<Notice> {
        self.state.inquiries.pop()
    }

    /// Returns true if progress would find something to do. It is called before a process sleeps.
    pub fn pending(&mut self) -> bool {
        !self.state.outbox.is_empty()
            || self.state.is_called()
            || self.state.remote.is_ready()
            || self.link.pending()
            || self.can_send()
    }

    /// Returns true if all started operations are in the transport, ignoring peers for which `gone` is true.
    pub fn is_idle_but_for(&self, gone: impl Fn(Peer) -> bool) -> bool {
        let waiting = self.state.outbox.iter().map(|(peer, _)| peer).chain(&self.state.busy);
        waiting.chain(self.state.remote.peers()).all(|peer| gone(*peer))
    }

    /// Returns true if all started operations are in the transport.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.state.outbox.is_empty() && self.state.busy.is_empty() && self.state.remote.is_idle()
    }

    /// Returns true if a queued packet can be sent now. Otherwise the transport notifies this process when
    /// there is room.
    fn can_send(&mut self) -> bool {
        let fragment = self.state.limits.fragment_bytes;
        let (link, peers) = (&mut self.link, &mut self.state.peers);
        let mut any = false;
        for &peer in &self.state.busy {
            let bytes = match peers.get(peer).backlog.front() {
                Some(Queued::Small(small)) => small.body.wire_bytes(),
                Some(Queued::Eager(_, id)) => self.state.requests.get(*id).map_or(0, outgoing::payload_bytes),
                None => fragment,
            };
            any |= link.want_room(peer, bytes);
        }
        any
    }
}

impl Small {
    /// Returns a packet without payload.
    fn bare(packet: Packet) -> Small {
        Small { packet, body: Body::Nothing }
    }
}

impl Body {
    /// Returns the length of the encoded payload in bytes.
    fn wire_bytes(&self) -> usize {
        match self {
            Body::Nothing => 0,
            Body::RendezvousRequest(offer) => offer.wire_bytes(),
            Body::Claim(_) => Claim::WIRE_BYTES,
            Body::Area(_) => Area::WIRE_BYTES,
        }
    }

    /// Passes the encoded payload to `send`.
    fn encoded<R>(&self, send: impl FnOnce(&[u8]) -> R) -> R {
        match self {
            Body::Nothing => send(&[]),
            Body::RendezvousRequest(offer) => offer.encoded(send),
            Body::Claim(claim) => send(&claim.encode()),
            Body::Area(area) => send(&area.encode()),
        }
    }
}

/// Returns true if unexpected messages of this context count against the receive window. Messages of
/// one-sided communication do not, since the window processes them as they arrive.
fn is_counted(context: u32) -> bool {
    !ContextId::is_of(context, Plane::OneSided)
}

impl PeerTable {
    /// Returns all known peers.
    fn all(&self) -> Vec<Peer> {
        let blocks =
            self.blocks.iter().enumerate().filter_map(|(number, block)| Some((number, block.as_ref()?)));
        let met = blocks.flat_map(|(number, block)| {
            let places = block.iter().enumerate().filter(|(_, peer)| peer.is_some());
            places.map(move |(place, _)| Peer((number * PEER_BLOCK + place) as u32))
        });
        met.collect()
    }

    /// Returns the state of a peer, which is allocated if necessary.
    #[inline]
    fn get(&mut self, peer: Peer) -> &mut PeerState {
        let (block, place) = (peer.0 as usize / PEER_BLOCK, peer.0 as usize % PEER_BLOCK);
        if matches!(self.blocks.get(block), Some(Some(peers)) if peers[place].is_some()) {
            // The second lookup is removed by the compiler: nothing can change between the two.
            self.met(block, place)
        } else {
            self.meet(peer);
            self.met(block, place)
        }
    }

    /// Returns a known peer.
    #[inline(always)]
    fn met(&mut self, block: usize, place: usize) -> &mut PeerState {
        let peers = self.blocks[block].as_mut().expect("there is a block, as was looked at");
        peers[place].as_mut().expect("the peer is in it, as was looked at")
    }

    /// Allocates the state of a peer that is not known yet.
    #[cold]
    fn meet(&mut self, peer: Peer) {
        let (block, place) = (peer.0 as usize / PEER_BLOCK, peer.0 as usize % PEER_BLOCK);
        if block >= self.blocks.len() {
            self.blocks.resize_with(block + 1, || None);
        }
        let window = if u64::from(peer.0) < self.own { self.window_bytes } else { FOREIGN_WINDOW_BYTES };
        let block = self.blocks[block].get_or_insert_with(|| Box::new([const { None }; PEER_BLOCK]));
        block[place].get_or_insert_with(|| {
            Box::new(PeerState {
                send_window: SendWindow::new(window),
                receive_window: ReceiveWindow::new(window),
                backlog: VecDeque::new(),
                streams: VecDeque::new(),
                listed: false,
                stores: PeerStores::default(),
                ways: None,
                offered: None,
                withheld: None,
            })
        });
    }
}

impl State {
    /// Keeps an unexpected message. The request table is marked as changed, as another thread may probe for
    /// it.
    fn push_unexpected(&mut self, envelope: Envelope, message: Message) {
        if self.failed_operations.of(envelope.context, envelope.tag).is_some() {
            return self.throw_away(message);
        }
        let bytes = self.bytes_of(&message);
        self.requests.news = true;
        if ContextId::is_of(envelope.context, Plane::OneSided) && self.calls.last() != Some(&envelope.context)
        {
            self.calls.push(envelope.context);
        }
        self.matcher.push_unexpected(envelope, message);
        TRAFFIC.unexpected.add(bytes);
        let kept = self.matcher.kept();
        TRAFFIC.most_kept.raise(kept as u64);
        events::note(Kind::Unexpected, || {
            ([envelope.source as i32, envelope.tag, envelope.context as i32, kept as i32], bytes)
        });
    }

    /// Returns the number of unexpected messages.
    pub fn kept(&self) -> usize {
        self.matcher.kept()
    }

    /// Returns the program's unmatched receives and its unexpected messages.
    pub fn unmatched(&self) -> (Vec<Pattern>, Vec<Envelope>) {
        let is_users = |context| ContextId::is_of(context, Plane::PointToPoint);
        let receives = self.matcher.posted_anywhere().filter(|pattern| is_users(pattern.context));
        let kept = self.matcher.kept_anywhere().map(|(envelope, _)| envelope);
        (receives.collect(), kept.filter(|envelope| is_users(envelope.context)).collect())
    }

    /// Returns true if [`State::next_call`] would return a context.
    #[inline]
    pub fn is_called(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Removes and returns a context (with plane) in which active messages of a window have arrived. A
    /// context may be returned more than once.
    pub fn next_call(&mut self) -> Option<u32> {
        self.calls.pop()
    }

    /// Forgets all state of `peer`. If the two communicate again, both start with fresh state.
    pub fn forget_peer(&mut self, peer: Peer) {
        let (block, place) = (peer.0 as usize / PEER_BLOCK, peer.0 as usize % PEER_BLOCK);
        if let Some(Some(block)) = self.peers.blocks.get_mut(block) {
            block[place] = None;
        }
        self.outbox.retain(|(to, _)| *to != peer);
        self.busy.retain(|to| *to != peer);
        self.pulling.forget_peer(peer);
    }

    /// Adds a request that a schedule or the library itself completes.
    pub fn insert(&mut self, request: Request) -> RequestId {
        self.requests.insert(request)
    }
}
