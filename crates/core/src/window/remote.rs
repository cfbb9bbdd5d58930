//! The origin's half of active messages: messages on their way and outstanding replies.
//!
//! The origin's data are copied into the message, so its buffer may be reused at once. The number of bytes
//! that wait for the transport is bounded, and so is the number of outstanding replies. A flush requests a
//! reply after all earlier messages, so operations need no acknowledgement of their own.

use std::collections::{BTreeSet, VecDeque};

use tutti_base::Result;
use tutti_base::ids::Plane;
use tutti_hang::Kind;
use tutti_transport::window::turnstile::{Kind as LockKind, Ticket};

use super::access::{Aim, basic};
use super::memory::{PIECE_BYTES, Update, packed_granule};
use super::serve::Incoming;
use super::wire::{Active, WindowRequestKind};
use super::{Lock, Window};
use crate::buffer::Buffer;
use crate::completion;
use crate::lanes::LaneGuard;
use crate::matching::{Envelope, Numbered};
use crate::messenger::Messenger;
use crate::needs;
use crate::p2p::{Mode, SendSpec};
use crate::process::Process;
use crate::progress::wait_until;
use crate::request::{Request, RequestId, Work};

/// State of the active messages of a window.
#[derive(Debug, Default)]
pub(super) struct Remote {
    next: u64,
    /// Outstanding replies, by number.
    pending: Numbered<u64, Pending>,
    /// Number of outstanding replies of each target.
    awaited: Numbered<u32, u32>,
    /// Targets that may not have executed all messages.
    dirty: BTreeSet<u32>,
    /// Messages that may still wait for the transport, with their lengths in bytes.
    sending: VecDeque<(RequestId, u64)>,
    sending_bytes: u64,
    /// Requests that several replies complete, by number.
    wholes: Numbered<u64, Whole>,
    /// Posts that came by message and were not awaited yet, by target.
    pub posts: Numbered<u32, u32>,
    /// Number of completed access epochs that were reported by message, modulo 2^32.
    pub completed: u32,
    /// Arriving messages, for the target's half.
    pub incoming: VecDeque<Incoming>,
    /// Origins in the queue of the own lock: rank, number of the reply, ticket.
    pub queue: Vec<(u32, u64, Ticket)>,
    /// Origins that hold the own lock.
    pub holding: Numbered<u32, Ticket>,
}

/// Reply that is outstanding.
#[derive(Debug)]
struct Pending {
    target: u32,
    /// Buffer and position for the data of the reply.
    data: Option<(Buffer, u64)>,
    whole: Option<u64>,
}

/// Request that several replies complete.
#[derive(Debug)]
struct Whole {
    left: u32,
    request: RequestId,
}

/// Maximum number of bytes of messages that wait for the transport, and maximum number of outstanding
/// replies.
const SENDING_BYTES: u64 = 4 << 20;
const PENDING: usize = 256;

impl Remote {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Registers an outstanding reply and returns its number. `whole` is the request of which it is a part.
    fn expect(&mut self, target: u32, data: Option<(Buffer, u64)>, whole: Option<u64>) -> u64 {
        let number = self.number();
        *self.awaited.entry(target).or_insert(0) += 1;
        if let Some(whole) = whole.and_then(|whole| self.wholes.get_mut(&whole)) {
            whole.left += 1;
        }
        self.pending.insert(number, Pending { target, data, whole });
        number
    }

    /// Handles a reply. Returns the request that it completes, if any. Returns None for an unknown reply.
    pub fn answered(&mut self, number: u64, data: &[u8]) -> Option<Option<RequestId>> {
        let Pending { target, data: place, whole } = self.pending.remove(&number)?;
        if let Some((buffer, position)) = place {
            buffer.unpack(position, data);
        }
        if let Some(awaited) = self.awaited.get_mut(&target) {
            *awaited -= 1;
        }
        Some(whole.and_then(|whole| self.part_done(whole)))
    }

    /// Counts a part of a request as complete. Returns the request if it was the last part.
    fn part_done(&mut self, number: u64) -> Option<RequestId> {
        let whole = self.wholes.get_mut(&number)?;
        whole.left -= 1;
        if whole.left > 0 {
            return None;
        }
        self.wholes.remove(&number).map(|whole| whole.request)
    }

    /// Returns true if a target (or all, if None) has executed all messages and sent all replies.
    #[inline(always)]
    pub(super) fn is_done(&self, target: Option<u32>) -> bool {
        self.is_idle()
            || target.is_some_and(|target| !self.dirty.contains(&target) && self.is_answered(Some(target)))
    }

    /// Returns true if a target (or all, if None) has sent all replies.
    pub(super) fn is_answered(&self, target: Option<u32>) -> bool {
        match target {
            Some(target) => self.awaited.get(&target).is_none_or(|awaited| *awaited == 0),
            None => self.pending.is_empty(),
        }
    }

    /// Returns true if all targets have executed all messages and sent all replies.
    #[inline(always)]
    pub(super) fn is_idle(&self) -> bool {
        self.dirty.is_empty() && self.pending.is_empty()
    }
}

impl Window {
    /// Sends a message to a member, without waiting.
    pub(super) fn send(&self, held: &LaneGuard, messenger: &Messenger, rank: u32, message: Vec<u8>) {
        let bytes = message.len() as u64;
        let envelope =
            Envelope { context: self.comm.context().plane(Plane::OneSided), source: self.rank(), tag: 0 };
        let spec = SendSpec {
            buffer: Buffer::owned(message),
            peer: self.world(rank),
            envelope,
            mode: Mode::Standard,
            signature: 0,
        };
        // Active messages use the first lane, whose holder runs the progress handlers.
        let mut messages = messenger.messages.borrow_mut(held);
        let id = messages.state.insert(Request::new(Work::Other, self.comm.context().0));
        messages.start_send(id, spec);
        drop(messages);
        let mut remote = self.remote.borrow_mut(held);
        remote.sending.push_back((id, bytes));
        remote.sending_bytes += bytes;
        drop(remote);
        self.retire(held, messenger);
    }

    /// Forgets messages that the transport has accepted.
    fn retire(&self, held: &LaneGuard, messenger: &Messenger) {
        let mut remote = self.remote.borrow_mut(held);
        while let Some(&(id, bytes)) = remote.sending.front() {
            if !completion::is_complete(held, messenger, id).unwrap_or(true) {
                break;
            }
            completion::finish(held, messenger, id);
            remote.sending.pop_front();
            remote.sending_bytes -= bytes;
        }
    }

    /// Waits until there is room for one more message and one more reply.
    fn make_room(&self, held: &mut LaneGuard, process: &Process) {
        let has_room = |held: &LaneGuard| {
            self.retire(held, process);
            let remote = self.remote.borrow(held);
            remote.sending_bytes < SENDING_BYTES && remote.pending.len() < PENDING
        };
        if !has_room(held) {
            wait_until(
                held,
                process,
                &|| format!("one-sided operations of {} to be sent", self.describe()),
                has_room,
            );
        }
    }

    /// Sends a message without data. If `answered` is true, a reply is expected.
    pub(super) fn tell(
        &self,
        held: &mut LaneGuard,
        process: &Process,
        rank: u32,
        kind: WindowRequestKind,
        answered: bool,
    ) {
        self.make_room(held, process);
        let reply = if answered { self.remote.borrow_mut(held).expect(rank, None, None) } else { 0 };
        self.send(held, process, rank, Active::bare(kind, reply).encode(0, |_| ()));
    }

    /// Waits for all replies of a target, or of all targets.
    #[inline(always)]
    pub(super) fn await_answers(
        &self,
        held: &mut LaneGuard,
        process: &Process,
        rank: Option<u32>,
        what: &str,
    ) {
        if !self.remote.borrow(held).is_idle() {
            self.await_busy(held, process, rank, what);
        }
    }

    fn await_busy(&self, held: &mut LaneGuard, process: &Process, rank: Option<u32>, what: &str) {
        if self.remote.borrow(held).is_answered(rank) {
            return;
        }
        let who = rank.map_or("its targets".to_string(), |rank| format!("rank {rank}"));
        let what = || {
            let targets = rank.map(|rank| self.world(rank));
            needs::note(|| needs::of_all(Kind::Answer, self.describe(), targets));
            format!("{what} of {}: an answer of {who}", self.describe())
        };
        wait_until(held, process, &what, |held| self.remote.borrow(held).is_answered(rank));
    }

    /// Waits until a target (or all) has executed all messages.
    #[inline(always)]
    pub(super) fn flush_messages(
        &self,
        held: &mut LaneGuard,
        process: &Process,
        rank: Option<u32>,
        what: &str,
    ) {
        if !self.remote.borrow(held).is_idle() {
            self.flush_busy(held, process, rank, what);
        }
    }

    fn flush_busy(&self, held: &mut LaneGuard, process: &Process, rank: Option<u32>, what: &str) {
        let targets: Vec<u32> = {
            let mut remote = self.remote.borrow_mut(held);
            match rank {
                None => std::mem::take(&mut remote.dirty).into_iter().collect(),
                Some(rank) => remote.dirty.take(&rank).into_iter().collect(),
            }
        };
        for target in targets {
            self.tell(held, process, target, WindowRequestKind::Flush, true);
        }
        self.await_answers(held, process, rank, what);
    }

    /// Takes the lock of a target on another host, before the first access to it in an epoch of
    /// MPI_Win_lock_all.
    fn lock_late(&self, held: &mut LaneGuard, process: &Process, rank: u32) {
        if self.epochs.borrow(held).lacks_lock(rank) && self.members[rank as usize].station.is_none() {
            self.lock_by_message(held, process, rank, LockKind::Shared);
            self.epochs.borrow_mut(held).locked(rank, Lock::Message);
        }
    }

    /// Takes the lock of a target on another host.
    pub(super) fn lock_by_message(&self, held: &mut LaneGuard, process: &Process, rank: u32, kind: LockKind) {
        let kind = match kind {
            LockKind::Shared => WindowRequestKind::LockShared,
            LockKind::Exclusive => WindowRequestKind::LockExclusive,
        };
        self.tell(held, process, rank, kind, true);
        self.await_answers(held, process, Some(rank), "MPI_Win_lock");
    }

    /// Sends the active messages of a put.
    pub(super) fn put_by_message(
        &self,
        held: &mut LaneGuard,
        process: &Process,
        aim: &Aim<'_>,
        origin: &Buffer,
    ) -> Result<()> {
        self.lock_late(held, process, aim.rank);
        aim.spot.each_piece(PIECE_BYTES, 1, |position, bytes, runs| {
            self.make_room(held, process);
            let message =
                Active { runs, ..Active::bare(WindowRequestKind::Put, 0) }.encode(bytes as usize, |room| {
                    origin.pack(position, room);
                });
            self.remote.borrow_mut(held).dirty.insert(aim.rank);
            self.send(held, process, aim.rank, message);
            Ok(())
        })
    }

    /// Sends the active messages of a get. Returns its request.
    pub(super) fn get_by_message(
        &self,
        held: &mut LaneGuard,
        process: &Process,
        aim: &Aim<'_>,
        origin: &Buffer,
        by_request: bool,
    ) -> Result<RequestId> {
        self.lock_late(held, process, aim.rank);
        let whole = self.begin(held, process, by_request);
        aim.spot.each_piece(PIECE_BYTES, 1, |position, _, runs| {
            self.make_room(held, process);
            let reply =
                self.remote.borrow_mut(held).expect(aim.rank, Some((origin.clone(), position)), whole);
            let message = Active { runs, ..Active::bare(WindowRequestKind::Get, reply) }.encode(0, |_| ());
            self.send(held, process, aim.rank, message);
            Ok(())
        })?;
        Ok(self.begun(held, process, whole))
    }

    /// Sends the active messages of an accumulate. Returns its request.
    pub(super) fn update_by_message(
        &self,
        held: &mut LaneGuard,
        process: &Process,
        aim: &Aim<'_>,
        update: &Update<'_>,
        by_request: bool,
    ) -> Result<RequestId> {
        let basic = basic(update.op, aim.spot.datatype)?;
        let Some(code) = basic.code() else {
            let reason =
                "argument target_datatype: a type made by a program's pair cannot go to another host";
            return Err(tutti_base::Error::new(tutti_base::ErrorClass::UnsupportedOperation, reason));
        };
        self.lock_late(held, process, aim.rank);
        let fetches = update.result.is_some();
        let whole = self.begin(held, process, by_request && fetches);
        let kind = if fetches { WindowRequestKind::Fetch } else { WindowRequestKind::Accumulate };
        aim.spot.each_piece(PIECE_BYTES, packed_granule(aim.spot.datatype), |position, bytes, runs| {
            self.make_room(held, process);
            let mut remote = self.remote.borrow_mut(held);
            let reply = match update.result {
                Some(result) => remote.expect(aim.rank, Some((result.clone(), position)), whole),
                None => 0,
            };
            remote.dirty.insert(aim.rank);
            drop(remote);
            let op = update.op.code().unwrap_or(0);
            let active = Active { op, basic: code, runs, ..Active::bare(kind, reply) };
            let data = if update.origin.is_some() { bytes as usize } else { 0 };
            let message = active.encode(data, |room| {
                update.origin.map(|origin| origin.pack(position, room));
            });
            self.send(held, process, aim.rank, message);
            Ok(())
        })?;
        Ok(self.begun(held, process, whole))
    }

    /// Sends the active message of a compare-and-swap.
    pub(super) fn swap_by_message(
        &self,
        held: &mut LaneGuard,
        process: &Process,
        aim: &Aim<'_>,
        [origin, compare, result]: [&Buffer; 3],
    ) -> Result<()> {
        self.lock_late(held, process, aim.rank);
        self.make_room(held, process);
        let bytes = aim.spot.bytes() as usize;
        let runs = aim.spot.runs_of_one();
        let mut remote = self.remote.borrow_mut(held);
        let reply = remote.expect(aim.rank, Some((result.clone(), 0)), None);
        remote.dirty.insert(aim.rank);
        drop(remote);
        let message =
            Active { runs, ..Active::bare(WindowRequestKind::Swap, reply) }.encode(2 * bytes, |room| {
                compare.pack(0, &mut room[..bytes]);
                origin.pack(0, &mut room[bytes..]);
            });
        self.send(held, process, aim.rank, message);
        Ok(())
    }

    /// Creates the request of an operation of several messages if `by_request` is true. It counts as one
    /// outstanding part until [`Window::begun`].
    fn begin(&self, held: &LaneGuard, process: &Process, by_request: bool) -> Option<u64> {
        let request = by_request.then(|| {
            let request = Request::uncancellable(self.comm.context().0);
            process.messages.borrow_mut(held).state.insert(request)
        })?;
        let mut remote = self.remote.borrow_mut(held);
        let number = remote.number();
        remote.wholes.insert(number, Whole { left: 1, request });
        Some(number)
    }

    /// Notes that all parts of an operation were sent, and returns its request.
    fn begun(&self, held: &LaneGuard, process: &Process, whole: Option<u64>) -> RequestId {
        let Some(number) = whole else { return RequestId::DONE_UNCANCELLABLE };
        let mut remote = self.remote.borrow_mut(held);
        let request = remote.wholes.get(&number).map(|whole| whole.request);
        let over = remote.part_done(number);
        drop(remote);
        if let Some(over) = over {
            process.messages.borrow_mut(held).state.requests.complete(over, None);
        }
        request.unwrap_or(RequestId::DONE_UNCANCELLABLE)
    }

    /// Returns the name of the window for diagnosis.
    pub(super) fn describe(&self) -> String {
        let held = crate::lanes::enter();
        match self.name.borrow(&held).as_bytes() {
            [] => format!("a window of {} ranks", self.members.len()),
            name => format!("window {}", String::from_utf8_lossy(name)),
        }
    }
}
