//! The engine's port for one collective operation on one communicator: its messages and its slot in the
//! banks of the node.

use std::fmt::Debug;

use tutti_base::Result;
use tutti_base::trace::Level;
use tutti_base::traffic::TRAFFIC;
use tutti_coll::ir::Access;

use super::loans::Found;
use crate::buffer::Buffer;
use crate::collective::context::CommContext;
use crate::communicator::collectives::Ticket;
use crate::completion;
use crate::engine::{Exposed, NodePort, Port, Remote, Started};
use crate::lanes::LaneGuard;
use crate::matching::{Envelope, Pattern};
use crate::messenger::Messenger;
use crate::p2p::agreement::LANE_BITS;
use crate::p2p::{Check, Mode, ReceiveSpec, SendSpec};
use crate::request::{Request, RequestId, Work};
use crate::{repairs, trace};
use tutti_transport::Peer;
use tutti_transport::banks::{Banks, Slot};
use tutti_transport::locality;

/// Panic message: only a schedule that owns a slot takes steps within the node.
const NO_TURN: &str = "a schedule within a node has its turn";

/// Position of a window's bytes in the file.
pub trait Windows: Send + Sync + Debug {
    /// Starts to write the data that ranks have given for a window, or to read the data they requested. In
    /// memory the ranks' data follow one another.
    ///
    /// # Errors
    /// Returns the reason if the access cannot be started.
    fn start(
        &self,
        held: &LaneGuard,
        messenger: &Messenger,
        window: u32,
        write: bool,
        memory: Buffer,
    ) -> Result<RequestId>;
}

/// Connection between the engine and one operation of a communicator.
#[derive(Debug)]
pub struct CommPort<'a> {
    pub(in crate::collective) cx: CommContext<'a>,
    pub(in crate::collective) ticket: &'a mut Ticket,
    /// Banks of the node, for a schedule that uses them.
    banks: Option<&'a mut Banks>,
    /// Number of polls of a flag before giving up.
    patience: u32,
    /// File windows of an operation on a file.
    windows: Option<&'a dyn Windows>,
}

impl<'a> CommPort<'a> {
    /// Makes the port of the operation that holds `ticket`, with `banks` if the operation has a slot.
    #[inline]
    pub fn new(cx: CommContext<'a>, ticket: &'a mut Ticket, banks: Option<&'a mut Banks>) -> CommPort<'a> {
        debug_assert_eq!(ticket.tag & ((1 << LANE_BITS) - 1), 0);
        CommPort { cx, ticket, banks, patience: 0, windows: None }
    }

    /// Sets the number of polls of a flag after the first. A caller without other work passes more than 0.
    #[inline]
    pub fn looking(self, looks: u32) -> CommPort<'a> {
        CommPort { patience: looks, ..self }
    }

    /// Adds the windows of an operation on a file.
    pub(in crate::collective) fn on(self, windows: &'a dyn Windows) -> CommPort<'a> {
        CommPort { windows: Some(windows), ..self }
    }

    /// Returns the banks of the operation and its slot in them.
    #[inline]
    pub(in crate::collective) fn banks(&self) -> (&Banks, &Slot) {
        let (Some(banks), Some(turn)) = (&self.banks, &self.ticket.turn) else { unreachable!("{NO_TURN}") };
        (banks, turn.slot())
    }

    /// Returns the number of a rank of the communicator among the members of the banks.
    #[inline]
    pub(in crate::collective) fn member(&self, rank: u32) -> u32 {
        match self.cx.comm.collectives.node.numbers(self.cx.process, self.cx.comm) {
            None => rank,
            Some(numbers) => numbers[rank as usize],
        }
    }

    /// Polls a flag for a few microseconds from time to time, as `NodePort::reached` does, and measures the
    /// peer's distance.
    #[inline]
    fn watches(&self, member: u32, flag: u16, value: u64) -> bool {
        let to_lender = || self.lends() && self.cx.process.exposures.borrow_mut(self.cx.lane).is_due();
        let is_due = locality::is_due() || to_lender();
        is_due && self.observe_distance(member, flag, value)
    }

    /// Polls a flag for a few microseconds and measures the peer's distance; returns true if the flag has
    /// come.
    #[cold]
    fn observe_distance(&self, member: u32, flag: u16, value: u64) -> bool {
        let (banks, slot) = self.banks();
        let observed = locality::observe_reader(|| banks.is_reached(slot, member, flag, value));
        self.cx.process.exposures.borrow_mut(self.cx.lane).note_distance(observed.distance);
        observed.came
    }

    /// Withdraws all memory that was exposed for the operation.
    #[cold]
    fn withdraw(&mut self) {
        for record in self.ticket.exposed.drain(..) {
            self.cx.process.exposures.borrow_mut(self.cx.lane).withdraw(&record);
        }
    }

    /// Returns the envelope of a message of the operation.
    pub(in crate::collective) fn envelope(&self, source: u32, lane: u16) -> Envelope {
        let its = &self.cx.comm.collectives;
        let (context, source) = (self.cx.comm.context().plane(its.plane()), its.name(source));
        Envelope { context, source, tag: self.ticket.tag | i32::from(lane) }
    }

    /// Returns the envelope of a message from this rank.
    pub(in crate::collective) fn own_envelope(&self, lane: u16) -> Envelope {
        self.envelope(self.cx.comm.number(self.cx.comm.rank(), false), lane)
    }
}

impl Port for CommPort<'_> {
    type Handle = RequestId;

    #[inline]
    fn send(&mut self, peer: u32, lane: u16, buffer: Buffer) -> Result<Started<RequestId>> {
        let envelope = self.own_envelope(lane);
        let peer = self.cx.comm.process(peer).expect("a schedule names ranks of its communicator");
        let spec =
            SendSpec { buffer, peer, envelope, mode: Mode::Standard, signature: self.ticket.signature };
        let mut messages = self.cx.process.messages.borrow_mut(self.cx.lane);
        if messages.send_now(&spec) {
            return Ok(Started::Done);
        }
        let id = messages.state.insert(Request::new(Work::Other, self.cx.comm.context().0));
        messages.start_refused(id, spec);
        Ok(Started::Pending(id))
    }

    fn multicast(&mut self, group: &[u32], lane: u16, buffer: &Buffer, rest: &mut Vec<u32>) -> Result<bool> {
        let envelope = self.own_envelope(lane);
        let world =
            |rank: &u32| self.cx.comm.process(*rank).expect("a schedule names ranks of its communicator").0;
        let to: Vec<Peer> = group.iter().map(|rank| Peer(world(rank))).collect();
        let mut left = Vec::new();
        let mut messages = self.cx.process.messages.borrow_mut(self.cx.lane);
        let sent = messages.multicast(&to, envelope, self.ticket.signature, buffer, &mut left);
        rest.extend(to.iter().zip(group).filter(|(peer, _)| left.contains(peer)).map(|(_, rank)| *rank));
        if sent && left.len() < to.len() {
            repairs::want();
        }
        Ok(sent)
    }

    #[inline]
    fn recv(&mut self, peer: u32, lane: u16, buffer: Buffer) -> Result<Started<RequestId>> {
        let Envelope { context, source, tag } = self.envelope(peer, lane);
        let pattern = Pattern { context, source: Some(source), tag: Some(tag) };
        let from = self.cx.comm.process(peer).map(|world| Peer(world.0));
        let spec = ReceiveSpec { buffer, pattern, from, check: Check::Accord(self.ticket.signature) };
        let mut messages = self.cx.process.messages.borrow_mut(self.cx.lane);
        // A message that has arrived already needs no request.
        if messages.may_receive_directly(&spec)
            && let Some(finished) = messages.receive_directly(&spec)
        {
            return finished.result.map(|_| Started::Done);
        }
        let id = messages.state.insert(Request::new(Work::Other, self.cx.comm.context().0));
        messages.start_receive(id, spec);
        Ok(Started::Pending(id))
    }

    #[inline]
    fn done(&mut self, id: &mut RequestId) -> Result<bool> {
        {
            let mut messages = self.cx.process.messages.borrow_mut(self.cx.lane);
            if !messages.state.requests.user(*id)?.complete {
                return Ok(false);
            }
        }
        completion::finish(self.cx.lane, self.cx.process, *id).result.map(|_| true)
    }

    fn file(&mut self, window: u32, write: bool, memory: Buffer) -> Result<Started<RequestId>> {
        let windows = self.windows.expect("an operation on a file has its windows");
        windows.start(self.cx.lane, self.cx.process, window, write, memory).map(Started::Pending)
    }

    fn look_around(&mut self) {
        self.cx.process.messages.borrow_mut(self.cx.lane).progress();
    }

    fn cancel(&mut self, id: RequestId) {
        let mut messages = self.cx.process.messages.borrow_mut(self.cx.lane);
        messages.state.cancel(id);
        let requests = &mut messages.state.requests;
        let Some(request) = requests.get_mut(id) else { return };
        if request.complete {
            requests.remove(id);
            return;
        }
        request.detached = true;
        match &mut request.work {
            // The data of a message in transit are discarded.
            Work::Receive { buffer, .. } => *buffer = Buffer::empty(),
            // The memory belongs to the user again, but the receiver may still expect its content.
            Work::Send { buffer, .. } => *buffer = Buffer::owned(buffer.to_vec()),
            _ => {}
        }
    }
}

impl NodePort for CommPort<'_> {
    #[inline]
    fn granted(&mut self) -> bool {
        let (Some(banks), Some(turn)) = (&mut self.banks, &mut self.ticket.turn) else {
            unreachable!("{NO_TURN}")
        };
        turn.grant(banks)
    }

    #[inline]
    fn post(&mut self, flag: u16, value: u64) {
        let (banks, slot) = self.banks();
        banks.post(slot, flag, value);
    }

    #[inline]
    fn reached(&mut self, peer: u32, flag: u16, value: u64) -> bool {
        let member = self.member(peer);
        if self.watches(member, flag, value) {
            return true;
        }
        let (banks, slot) = self.banks();
        for _ in 0..=self.patience {
            if banks.is_reached(slot, member, flag, value) {
                return true;
            }
            std::hint::spin_loop();
        }
        if banks.is_at_odds(slot, member, flag) {
            self.ticket.agreement.is_at_odds_with(member);
            return false;
        }
        let came = self.cx.process.is_about_to_sleep() && banks.want(slot, member, flag, value);
        if !came {
            self.ticket.patience.awaited = Some(peer);
        }
        came
    }

    #[inline]
    fn bank(&mut self, peer: u32) -> *mut u8 {
        let member = self.member(peer);
        let (banks, slot) = self.banks();
        banks.bank(slot, member)
    }

    fn expose(&mut self, number: u16, memory: Exposed<'_>, access: Access) -> Result<()> {
        self.lend(number, memory, access);
        Ok(())
    }

    #[inline]
    fn lends(&self) -> bool {
        !self.ticket.exposed.is_empty()
    }

    fn direct(&mut self, from: Remote, bytes: u64) -> Option<*const u8> {
        let found = match self.find(from) {
            Found::Carried(copy) => Some(copy),
            Found::Lent(window) => window.direct(from.offset, bytes).map(<*mut u8>::cast_const),
        };
        if found.is_some() {
            TRAFFIC.mapped.add(bytes);
        }
        found
    }

    fn pull(&mut self, from: Remote, into: &Buffer) -> Result<()> {
        self.fetch(from, into)
    }

    fn push(&mut self, from: &Buffer, into: Remote) -> Result<()> {
        self.deliver(from, into)
    }

    fn mark(&self) -> u64 {
        let plane = self.cx.comm.context().plane(self.cx.comm.collectives.plane());
        u64::from(plane) << 32 | u64::from(self.ticket.tag as u32)
    }

    fn whereabouts(&self, peer: u32) -> (u32, Level) {
        let world = self.cx.comm.process(peer).expect("a schedule names ranks of its communicator").0;
        (world, trace::level_of(world))
    }

    #[inline]
    fn leave(&mut self) {
        if !self.ticket.exposed.is_empty() {
            self.withdraw();
        }
        if let (Some(banks), Some(turn)) = (&mut self.banks, &self.ticket.turn) {
            turn.leave(banks);
        }
        self.ticket.turn = None;
    }
}
