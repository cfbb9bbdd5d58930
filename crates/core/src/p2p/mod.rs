//! Point-to-point messages: eager, rendezvous by stream or single copy, and the messages to oneself.
//!
//! [`PointToPoint`] joins a [`Link`] with [`State`], which is a pure state machine: packets and starts of
//! operations come in, completions happen in the request table, and packets to send go to `outbox`. Files:
//! `outgoing` is the sender's half, `incoming` the receiver's, `withheld` and `pulling` what both do where the receiver has no room
//! ([`crate::flow`]), `cancel` takes sends back, `partitioned` both halves of messages in partitions, `remote` what the link reads by
//! itself, `multicast` what goes to several at once, `served` what its owner reads and writes for a peer,
//! `user` what the MPI functions call.
//!
//! | message | protocol |
//! |---|---|
//! | up to `TUTTI_EAGER_BYTES` (`TUTTI_CONNECTED_EAGER_BYTES`), window open | eager: header and payload in one packet |
//! | the same, synchronous mode | eager, then Done when it is matched |
//! | longer, or no room for its payload | RendezvousRequest; then the receiver reads it through the link, which tells both; or by single copy and says Done; or says ClearToSend and the sender streams Data |
//! | no room for that either | the sender keeps it until there is, or until a receive for it is posted: `withheld` |
//! | to oneself | matched at once; kept in the matcher as a copy (short) or as the sender's request (long) |
//!
//! The receiver decides between reading and stream, so no agreement between processes is needed.

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

/// A message that no receive was posted for.
#[allow(missing_docs, reason = "the fields are what their types say")]
#[derive(Debug)]
pub enum Message {
    /// All of it is here.
    Eager { from: Peer, payload: Box<[u8]>, signature: Signature, sync: Option<RequestId> },
    /// All of it is here; it was multicast.
    Multicast { from: Peer, payload: Box<[u8]>, signature: Signature },
    /// It waits at its sender. It is counted unless it came by a claim, or is of a plane that is not.
    RendezvousRequest {
        from: Peer,
        offer: RendezvousRequest,
        signature: Signature,
        sender: RequestId,
        is_counted: bool,
    },
    /// It waits in this process.
    Local { sender: RequestId },
    /// Not a message but a channel for messages in partitions.
    Announced { from: Peer, offer: RendezvousRequest, signature: Signature, sender: RequestId },
}

/// Sizes that steer the protocols.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Longest eager message.
    pub eager_bytes: u64,
    /// The same to a peer on another host that is connected.
    pub connected_eager_bytes: u64,
    /// Piece of a stream.
    pub fragment_bytes: usize,
    /// Bound on what is kept for receives that are not posted.
    pub unexpected_bytes: u64,
    /// Number of processes of the own job: those beyond are of others, which may have other settings.
    pub own_peers: u64,
    /// Shortest message that is read through the link.
    pub remote_read_bytes: u64,
    /// Whether datatypes are compared.
    pub check_types: bool,
}

/// The messages of one process.
#[derive(Debug)]
pub struct PointToPoint<L> {
    /// The transport.
    pub link: L,
    /// The protocols.
    pub state: State,
}

/// The protocols of one process: everything but the transport.
#[derive(Debug)]
pub struct State {
    /// All requests of the process.
    pub requests: RequestTable,
    /// A packet that makes no sense came in: the job cannot go on.
    pub fault: Option<Error>,
    matcher: Matcher<RequestId, Message>,
    me: Peer,
    limits: Limits,
    reader: Reader,
    remote: Remote,
    peers: PeerTable,
    channels: partitioned::Channels,
    outbox: VecDeque<(Peer, Small)>,
    /// Peers with a backlog or a stream, and those whose withheld messages may go on.
    busy: Vec<Peer>,
    /// What may be granted beyond the windows that peers begin with.
    reserve: Reserve,
    pulling: Pulling,
    /// A peer whose distance is to be found out while something is waited for, and in how many waits at most.
    watched: Option<(Peer, u8)>,
    /// Collective operations that members have given up.
    pub failed_operations: agreement::FailedOperations,
    /// Payload of the messages that were multicast and are kept.
    multicast_bytes: u64,
    /// Contexts in which messages of one-sided communication were kept ([`State::next_call`]).
    calls: Vec<u32>,
    /// What members ask that wait for long in a collective operation.
    inquiries: Vec<Notice>,
    /// Peers that have left MPI.
    pub departures: departures::Departures,
}

/// What progress has found beside messages.
#[derive(Debug)]
pub enum Notice {
    /// Why the job cannot go on.
    Fault(String),
    /// Which peer cannot be reached any more, and why: the job cannot go on.
    Lost(String),
    /// Windows have active messages to do ([`State::next_call`]).
    Calls,
    /// A member waits for long in the operation of the envelope, and asks what this process takes it for.
    Inquiry {
        /// Who asks.
        from: WorldRank,
        /// Of its messages.
        envelope: Envelope,
        /// What it takes the operation for.
        signature: Signature,
    },
}

/// What is kept about a process that was spoken to.
#[derive(Debug)]
struct PeerState {
    send_window: SendWindow,
    receive_window: ReceiveWindow,
    backlog: VecDeque<Queued>,
    streams: VecDeque<Stream>,
    listed: bool,
    stores: PeerStores,
    /// Of long messages, once there were some.
    ways: Option<Box<PathChoice>>,
    /// The last long message that was offered to it.
    offered: Option<RequestId>,
    /// What it has no room for.
    withheld: Option<Box<Withheld>>,
}

/// A packet that found the transport full, in order behind others to the same peer.
#[derive(Debug)]
enum Queued {
    Small(Small),
    /// The eager send behind a request: its payload is still in the user's buffer.
    Eager(Packet, RequestId),
}

/// A packet with a payload of a few words at most.
#[derive(Clone, Debug)]
struct Small {
    packet: Packet,
    body: Body,
}

/// The payload of a small packet.
#[derive(Clone, Debug)]
enum Body {
    Nothing,
    RendezvousRequest(RendezvousRequest),
    Claim(Claim),
    Area(Area),
}

#[derive(Debug)]
enum Stream {
    /// A message that the receiver asked for.
    Message { sender: RequestId, receiver: RequestId },
    /// Partitions that are ready.
    Partitions { sender: RequestId },
}

/// Peers by number; memory exists for blocks of peers that were spoken to.
#[derive(Debug)]
struct PeerTable {
    blocks: Vec<Option<Box<PeerBlock>>>,
    window_bytes: u64,
    own: u64,
}

/// Waits in which it is looked how far a peer is, at most: it may not be running.
const WATCHES: u8 = 2;
/// The window between processes of different jobs to begin with: both must take the same.
const FOREIGN_WINDOW_BYTES: u64 = 16 << 10;
const PEER_BLOCK: usize = 64;
type PeerBlock = [Option<Box<PeerState>>; PEER_BLOCK];

impl Limits {
    /// From the settings, for a link that takes payloads of at most `max_payload` and a job of `peers`.
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

    /// The same for one of several lanes, which share what is bounded.
    #[must_use]
    pub fn shared_by(self, lanes: u32) -> Limits {
        Limits { unexpected_bytes: self.unexpected_bytes / u64::from(lanes.max(1)), ..self }
    }
}

impl<L: Link> PointToPoint<L> {
    /// A process that has not spoken to anybody.
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

    /// The same in a lane: its requests are known by it.
    #[must_use]
    pub fn in_lane(mut self, lane: Lane) -> PointToPoint<L> {
        self.state.requests = RequestTable::in_lane(lane);
        self
    }

    /// Longest payload that this process hands to any link.
    pub fn longest_payload(&self) -> usize {
        let Limits { eager_bytes, fragment_bytes, .. } = self.state.limits;
        fragment_bytes.max(eager_bytes as usize)
    }

    /// Takes in what has arrived and sends what could not be sent before; whether anything happened.
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
    /// nothing to report. False where a look at memory cannot tell.
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

    /// What makes the next waits look how far `peer` is, if it is of this host.
    #[cold]
    fn watch_of(link: &L, peer: Peer) -> Option<(Peer, u8)> {
        link.has_come(peer).map(|_| (peer, WATCHES))
    }

    /// Looks for a few microseconds whether something comes from the peer that is watched, and how far it is then; whether
    /// something has come.
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

    /// What was found that the caller has to act upon.
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

    /// Whether progress would find something to do; asked before a process goes to sleep.
    pub fn pending(&mut self) -> bool {
        !self.state.outbox.is_empty()
            || self.state.is_called()
            || self.state.remote.is_ready()
            || self.link.pending()
            || self.can_send()
    }

    /// Whether all that was started has been handed to the transport, for peers that are not gone.
    pub fn is_idle_but_for(&self, gone: impl Fn(Peer) -> bool) -> bool {
        let waiting = self.state.outbox.iter().map(|(peer, _)| peer).chain(&self.state.busy);
        waiting.chain(self.state.remote.peers()).all(|peer| gone(*peer))
    }

    /// Whether all that was started has been handed to the transport.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.state.outbox.is_empty() && self.state.busy.is_empty() && self.state.remote.is_idle()
    }

    /// Whether there is room now for what waits for it; otherwise the transport will ring when there is.
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
    /// A packet without payload.
    fn bare(packet: Packet) -> Small {
        Small { packet, body: Body::Nothing }
    }
}

impl Body {
    fn wire_bytes(&self) -> usize {
        match self {
            Body::Nothing => 0,
            Body::RendezvousRequest(offer) => offer.wire_bytes(),
            Body::Claim(_) => Claim::WIRE_BYTES,
            Body::Area(_) => Area::WIRE_BYTES,
        }
    }

    /// Hands it to `send`.
    fn encoded<R>(&self, send: impl FnOnce(&[u8]) -> R) -> R {
        match self {
            Body::Nothing => send(&[]),
            Body::RendezvousRequest(offer) => offer.encoded(send),
            Body::Claim(claim) => send(&claim.encode()),
            Body::Area(area) => send(&area.encode()),
        }
    }
}

/// Whether what the receiver keeps of a message of this context has a bound: what is sent to a window is taken in as it comes.
fn is_counted(context: u32) -> bool {
    !ContextId::is_of(context, Plane::OneSided)
}

impl PeerTable {
    /// All peers that were spoken to.
    fn all(&self) -> Vec<Peer> {
        let blocks =
            self.blocks.iter().enumerate().filter_map(|(number, block)| Some((number, block.as_ref()?)));
        let met = blocks.flat_map(|(number, block)| {
            let places = block.iter().enumerate().filter(|(_, peer)| peer.is_some());
            places.map(move |(place, _)| Peer((number * PEER_BLOCK + place) as u32))
        });
        met.collect()
    }

    #[inline]
    fn get(&mut self, peer: Peer) -> &mut PeerState {
        let (block, place) = (peer.0 as usize / PEER_BLOCK, peer.0 as usize % PEER_BLOCK);
        if matches!(self.blocks.get(block), Some(Some(peers)) if peers[place].is_some()) {
            // Looked at twice in the text only: nothing comes between.
            self.met(block, place)
        } else {
            self.meet(peer);
            self.met(block, place)
        }
    }

    /// A peer that was spoken to.
    #[inline(always)]
    fn met(&mut self, block: usize, place: usize) -> &mut PeerState {
        let peers = self.blocks[block].as_mut().expect("there is a block, as was looked at");
        peers[place].as_mut().expect("the peer is in it, as was looked at")
    }

    /// Makes room for a peer that was not spoken to yet.
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
    /// Keeps a message that no receive was posted for; another thread may probe for it.
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

    /// Messages that are kept for receives to come.
    pub fn kept(&self) -> usize {
        self.matcher.kept()
    }

    /// The program's receives that have matched no message, and the messages that no receive has matched.
    pub fn unmatched(&self) -> (Vec<Pattern>, Vec<Envelope>) {
        let is_users = |context| ContextId::is_of(context, Plane::PointToPoint);
        let receives = self.matcher.posted_anywhere().filter(|pattern| is_users(pattern.context));
        let kept = self.matcher.kept_anywhere().map(|(envelope, _)| envelope);
        (receives.collect(), kept.filter(|envelope| is_users(envelope.context)).collect())
    }

    /// Whether [`State::next_call`] has one.
    #[inline]
    pub fn is_called(&self) -> bool {
        !self.calls.is_empty()
    }

    /// A context (with plane) in which messages of one-sided communication were kept since it was last given;
    /// some come more than once.
    pub fn next_call(&mut self) -> Option<u32> {
        self.calls.pop()
    }

    /// Nothing more is said to `peer`: should they meet again, both begin anew.
    pub fn forget_peer(&mut self, peer: Peer) {
        let (block, place) = (peer.0 as usize / PEER_BLOCK, peer.0 as usize % PEER_BLOCK);
        if let Some(Some(block)) = self.peers.blocks.get_mut(block) {
            block[place] = None;
        }
        self.outbox.retain(|(to, _)| *to != peer);
        self.busy.retain(|to| *to != peer);
        self.pulling.forget_peer(peer);
    }

    /// A request that a schedule or the library itself completes.
    pub fn insert(&mut self, request: Request) -> RequestId {
        self.requests.insert(request)
    }
}
