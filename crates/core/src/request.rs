//! Requests: started operations, in a table addressed by index and generation.
//!
//! The generation detects a [`RequestId`] whose slot was freed or reused: a user's stale handle, or one in a
//! peer's packet. Completion is a flag in the slot. The code that completes a request does not know the
//! waiters.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tutti_base::{Error, ErrorClass, Result, WorldRank};

use crate::attached::Attached;
use crate::buffer::Buffer;
use crate::followers::Followers;
use crate::lanes::{Lane, LaneGuard};
use crate::matching::{Envelope, LANE_BITS, Pattern};
use crate::request_id::{GENERATIONS, LANE_SHIFT, MOST};
use crate::specs::{Check, ReceiveSpec, SendSpec};

pub use crate::request_id::{RequestId, Retired, Status};

/// State of one request.
#[derive(Debug)]
pub struct Request {
    /// Operation behind the request.
    pub work: Work,
    /// True once the operation is complete.
    pub complete: bool,
    /// Status of the completed operation.
    pub status: Status,
    /// Reason of its failure, if it failed.
    pub error: Option<Error>,
    /// Context (not plane) of its communicator, for the error handler.
    pub context: u32,
    /// True if the user has freed the request or never had a handle of it. The slot is freed upon completion.
    pub detached: bool,
    /// True if MPI_Cancel may be called for it: for messages between two processes and generalised requests.
    pub is_cancellable: bool,
    /// State for starting a persistent request again; None for others.
    pub persistent: Option<Box<Persistent>>,
}

/// State of a persistent request, which can be started repeatedly.
#[derive(Debug)]
pub struct Persistent {
    /// True from the start until the user has seen the completion.
    pub active: bool,
    /// Operation that a start performs.
    pub template: Template,
    /// Communicator of its messages, which keeps it alive: starts are possible after it is freed (MPI-5,
    /// 7.4.3).
    pub keeps: Option<Arc<dyn Any + Send + Sync>>,
}

impl Persistent {
    /// Returns the operation to its request, so that it can be started again.
    #[inline]
    fn give_back(&mut self, operation: Arc<dyn Restart>) {
        if let Template::Collective(place) = &mut self.template {
            debug_assert!(place.is_none(), "an operation is started once at a time");
            // The old value is None, so no drop is needed.
            std::mem::forget(place.replace(operation));
        }
    }
}

/// Operation that the start of a persistent request performs.
#[derive(Clone, Debug)]
pub enum Template {
    /// Communication with `MPI_PROC_NULL`.
    Nothing,
    /// Send with the mode and buffer of a [`SendSpec`].
    Send(SendSpec),
    /// Send of a copy in the attached buffer.
    BufferedSend(SendSpec, Arc<Attached>),
    /// Receive into the buffer of a `ReceiveSpec`.
    Receive(ReceiveSpec),
    /// Either side of a partitioned message.
    Partitioned,
    /// Collective operation, started through its [`Restart`]; None during the start.
    Collective(Option<Arc<dyn Restart>>),
}

/// Persistent collective operation. It has its own reference to the process, as requests are a lower layer.
pub trait Restart: Send + Sync + std::fmt::Debug {
    /// Starts the operation for `request`.
    fn restart(self: Arc<Self>, held: &LaneGuard, request: RequestId) -> Restarted;

    /// Starts the operation if it can finish at once, without messages and without foreign code. Returns true
    /// if it has finished. Otherwise [`Restart::restart`] follows in the same call and continues from this
    /// attempt.
    fn fast_path(&self, _: &LaneGuard) -> bool {
        false
    }

    /// Releases resources for other operations, when the request is freed.
    fn retire(self: Arc<Self>, held: &LaneGuard);
}

/// Outcome of the start of a persistent collective operation. The operation is passed by value and returned,
/// since counting references costs as much as a small operation.
#[derive(Debug)]
pub enum Restarted {
    /// The operation has finished, perhaps with an error.
    Over(Arc<dyn Restart>, Option<Error>),
    /// The operation cannot be started.
    Refused(Arc<dyn Restart>, Error),
    /// The operation is active. It has been returned to its request and will complete it.
    UnderWay,
}

/// Ranks for which an operation waits.
#[derive(Debug, Default)]
pub struct Awaited {
    /// Sources of messages, as ranks of messages of the communicator.
    pub sources: Vec<u32>,
    /// World ranks of the receivers of unfinished sends.
    pub peers: Vec<WorldRank>,
}

/// Operation behind a request.
#[derive(Debug)]
pub enum Work {
    /// No operation, or one that other code completes (a schedule, the user).
    Other,
    /// Collective operation that a progress handler runs: its name, and its root if it has one.
    Collective(&'static str, Option<u32>),
    /// A send to `peer` (world rank).
    Send {
        /// World rank of the receiver.
        peer: u32,
        /// Tag of the message, for diagnosis.
        tag: i32,
        /// User's buffer with the data.
        buffer: Buffer,
        /// Bytes passed to the transport so far, after the receiver has requested them.
        sent: u64,
    },
    /// Receive of one message.
    Receive {
        /// Pattern that the message must match.
        pattern: Pattern,
        /// Buffer for the message.
        buffer: Buffer,
        /// Check of the sender's signature.
        check: Check,
        /// Bytes that have arrived.
        arrived: u64,
        /// Length of the complete message in bytes, once it is matched.
        expected: u64,
    },
    /// Partitioned message, to or from another process.
    Partitioned {
        /// True for the sending side.
        sends: bool,
        /// World rank of the receiver; None for the receiving side.
        peer: Option<u32>,
    },
    /// Generalised request, which the user completes.
    Generalised(Arc<dyn Generalised>),
}

impl Work {
    /// Returns true if dropping the value does nothing.
    #[inline]
    fn owns_nothing(&self) -> bool {
        match self {
            Work::Other => true,
            Work::Receive { buffer, check, .. } => buffer.owns_nothing() && !matches!(check, Check::Type(_)),
            _ => false,
        }
    }
}

/// Callbacks of a generalised request (MPI-5 section 13.2).
pub trait Generalised: Send + Sync + std::fmt::Debug {
    /// Calls the user's query function, which fills in the status.
    ///
    /// # Errors
    /// The code that the user's callback returned.
    fn query(&self) -> Result<Status>;
    /// Calls the user's free function when the request is freed.
    ///
    /// # Errors
    /// The code that the user's callback returned.
    fn free(&self) -> Result<()>;
    /// Calls the user's cancel function, passing whether the request is complete.
    ///
    /// # Errors
    /// The code that the user's callback returned.
    fn cancel(&self, complete: bool) -> Result<()>;
}

/// Table of all requests of a process, or of one of its lanes.
#[derive(Debug)]
pub struct RequestTable {
    /// True if a request was completed, or an unexpected message queued, since waiting threads were last
    /// woken.
    pub news: bool,
    /// Number of times that waiting threads were woken.
    pub told: u64,
    /// Continuations of requests.
    pub(crate) followers: Followers,
    /// Number of the lane, at its position in ids.
    base: u32,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Request behind [`RequestId::DONE`], which is always complete.
    done: Request,
}

impl Default for RequestTable {
    fn default() -> RequestTable {
        let done = Request::completed(Status::EMPTY, 0);
        let (followers, slots, free) = (Followers::default(), Vec::new(), Vec::new());
        RequestTable { news: false, told: 0, followers, base: 0, slots, free, done }
    }
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    request: Option<Request>,
}

impl Request {
    /// Returns the request of an operation that has just been started.
    #[inline]
    pub fn new(work: Work, context: u32) -> Request {
        Request {
            is_cancellable: !matches!(work, Work::Collective(..)),
            work,
            complete: false,
            status: Status::EMPTY,
            error: None,
            context,
            detached: false,
            persistent: None,
        }
    }

    /// Returns the request of a started operation that MPI_Cancel does not support: of files, windows and
    /// collectives.
    pub fn uncancellable(context: u32) -> Request {
        Request { is_cancellable: false, ..Request::new(Work::Other, context) }
    }

    /// Returns the request of an operation that was complete at once.
    pub fn completed(status: Status, context: u32) -> Request {
        Request { complete: true, status, ..Request::new(Work::Other, context) }
    }

    /// Returns the buffer of a receive, or None for other requests.
    #[inline]
    pub(crate) fn target(&mut self) -> Option<&Buffer> {
        match &self.work {
            Work::Receive { buffer, .. } => Some(buffer),
            _ => None,
        }
    }

    /// Marks the request complete, with the error that it already has, if any. Returns true if it is
    /// detached, so that the caller must remove it.
    #[inline]
    pub(crate) fn conclude(&mut self) -> bool {
        self.complete = true;
        if self.work.owns_nothing() {
            // There is nothing to drop, and the call of the drop function would cost time.
            std::mem::forget(std::mem::replace(&mut self.work, Work::Other));
        } else if !matches!(self.work, Work::Generalised(_)) {
            self.work = Work::Other;
        }
        self.detached
    }

    /// Returns true for a persistent request that is not started. Users see such a request as null.
    #[inline]
    pub fn is_inactive(&self) -> bool {
        self.persistent.as_ref().is_some_and(|persistent| !persistent.active)
    }
}

/// Number of requests reserved for the library's own use, for blocking operations when the program can get no
/// more.
const RESERVE: usize = 1 << 16;

/// Number of requests of a lane beyond which a program gets no more.
static LIMIT: AtomicUsize = AtomicUsize::new(MOST - RESERVE);

/// True while at least one lane has as many requests as it may have.
static IS_FULL: AtomicBool = AtomicBool::new(false);

/// Limits the table of a lane to `requests` plus 65536, for tests. 0 changes nothing.
pub fn wrap_after(requests: u64) {
    if requests > 0 {
        LIMIT.store(RESERVE + requests as usize, Ordering::Relaxed);
    }
}

/// Checks that a program may start one more request.
///
/// # Errors
/// `NoMem` if the table is full.
#[inline]
pub fn check_room() -> Result<()> {
    if IS_FULL.load(Ordering::Relaxed) { Err(too_many()) } else { Ok(()) }
}

#[cold]
fn too_many() -> Error {
    let most = LIMIT.load(Ordering::Relaxed);
    let reason = format!("{most} requests exist, and there is room for no more; complete or free some");
    Error::new(ErrorClass::NoMem, reason)
}

impl RequestTable {
    /// Returns the empty table of a lane.
    pub fn in_lane(lane: Lane) -> RequestTable {
        RequestTable { base: lane.number() << LANE_SHIFT, ..RequestTable::default() }
    }

    /// Returns the slot of a request. It is out of range if the request belongs to another lane.
    #[inline]
    fn place(&self, id: RequestId) -> usize {
        (id.index ^ self.base) as usize
    }

    /// Clears the flag for a full table if removals have made room.
    #[cold]
    fn note_room(&self) {
        let count = self.slots.len() - self.free.len();
        IS_FULL.store(count >= LIMIT.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Adds a request and returns its id.
    #[inline]
    pub fn insert(&mut self, request: Request) -> RequestId {
        let index = self.free.pop().unwrap_or_else(|| {
            assert!(self.slots.len() < MOST, "{MOST} requests at a time are what there is room for");
            if self.slots.len() + 1 >= LIMIT.load(Ordering::Relaxed) {
                IS_FULL.store(true, Ordering::Relaxed);
            }
            self.slots.push(Slot { generation: 1, request: None });
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[index as usize];
        slot.request = Some(request);
        RequestId { index: self.base | index, generation: slot.generation }
    }

    /// Looks up a request by its id.
    #[inline]
    pub fn get(&self, id: RequestId) -> Option<&Request> {
        let slot = self.slots.get(self.place(id))?;
        slot.request.as_ref().filter(|_| slot.generation == id.generation)
    }

    /// Looks up a request for modification.
    #[inline]
    pub fn get_mut(&mut self, id: RequestId) -> Option<&mut Request> {
        let place = self.place(id);
        let slot = self.slots.get_mut(place)?;
        slot.request.as_mut().filter(|_| slot.generation == id.generation)
    }

    /// Removes a request and invalidates its id.
    #[inline]
    pub fn remove(&mut self, id: RequestId) -> Option<Request> {
        let place = self.place(id);
        let slot = self.slots.get_mut(place).filter(|slot| slot.generation == id.generation)?;
        let request = slot.request.take()?;
        self.retire(place);
        self.followers.forget(id);
        Some(request)
    }

    /// Retires a completed request that has no error and no remaining work, which is the usual case. It is
    /// removed, or becomes inactive if it is persistent. Returns None for other requests.
    #[inline]
    pub fn retire_plain(&mut self, id: RequestId) -> Option<Retired> {
        let place = self.place(id);
        let slot = self.slots.get_mut(place).filter(|slot| slot.generation == id.generation)?;
        let request = slot.request.as_mut()?;
        let is_plain = request.complete && request.error.is_none() && matches!(request.work, Work::Other);
        if !is_plain || request.is_inactive() {
            return None;
        }
        let status = request.status;
        if let Some(persistent) = &mut request.persistent {
            persistent.active = false;
            request.status = Status::EMPTY;
            return Some(Retired { status, persistent: true });
        }
        // There is nothing to drop.
        std::mem::forget(slot.request.take());
        self.retire(place);
        Some(Retired { status, persistent: false })
    }

    /// Removes an existing request without moving it, as the move would cost more than everything else here.
    #[inline]
    pub fn drop_in_place(&mut self, id: RequestId) {
        debug_assert!(self.get(id).is_some(), "a request that is there");
        let place = self.place(id);
        self.slots[place].request = None;
        self.retire(place);
    }

    /// Invalidates the ids of a slot and marks it as free.
    #[inline]
    fn retire(&mut self, place: usize) {
        let slot = &mut self.slots[place];
        slot.generation = (slot.generation + 1) % GENERATIONS;
        slot.generation = slot.generation.max(1);
        self.free.push(place as u32);
        if IS_FULL.load(Ordering::Relaxed) {
            self.note_room();
        }
    }

    /// Begins the start of a persistent request. Returns its operation if it is a collective; the caller
    /// returns it by [`RequestTable::started`] or [`RequestTable::under_way`].
    ///
    /// # Errors
    /// `Request` for one that is unknown, not persistent, or active.
    #[inline]
    pub fn begin(&mut self, id: RequestId) -> Result<Option<Arc<dyn Restart>>> {
        let request = self.user(id)?;
        let Some(persistent) = &mut request.persistent else {
            return Err(wrong("the request is not persistent"));
        };
        if persistent.active {
            return Err(wrong("the persistent request is active already"));
        }
        persistent.active = true;
        request.complete = false;
        request.error = None;
        request.status = Status::EMPTY;
        if !matches!(request.work, Work::Other) {
            request.work = Work::Other;
        }
        Ok(match &mut persistent.template {
            Template::Collective(operation) => operation.take(),
            _ => None,
        })
    }

    /// Starts a persistent collective operation that can finish at once. Returns true if it has finished.
    /// Otherwise the caller continues with [`RequestTable::begin`].
    #[inline]
    pub fn fast_path(&mut self, id: RequestId, held: &LaneGuard) -> bool {
        let Ok(request) = self.user(id) else { return false };
        let Some(persistent) = &mut request.persistent else { return false };
        let Template::Collective(Some(operation)) = &persistent.template else { return false };
        let is_plain = request.error.is_none() && matches!(request.work, Work::Other);
        if persistent.active || !is_plain || !operation.fast_path(held) {
            return false;
        }
        persistent.active = true;
        request.complete = true;
        self.news = true;
        true
    }

    /// Records the outcome of the start of a persistent collective operation, unless it is active.
    ///
    /// # Errors
    /// The reason for which the start was refused.
    #[inline]
    pub fn started(&mut self, id: RequestId, restarted: Restarted) -> Result<()> {
        let (operation, error, refusal) = match restarted {
            Restarted::Over(operation, error) => (operation, error, None),
            Restarted::Refused(operation, error) => (operation, None, Some(error)),
            Restarted::UnderWay => return Ok(()),
        };
        if let Some(request) = self.get_mut(id)
            && let Some(persistent) = &mut request.persistent
        {
            persistent.active = refusal.is_none();
            persistent.give_back(operation);
            request.complete = true;
            if error.is_some() {
                request.error = error;
            }
            self.news = true;
        }
        refusal.map_or(Ok(()), Err)
    }

    /// Records that a persistent collective operation is active; `work` describes it.
    pub fn under_way(&mut self, id: RequestId, operation: Arc<dyn Restart>, work: Work) {
        if let Some(request) = self.get_mut(id)
            && let Some(persistent) = &mut request.persistent
        {
            persistent.give_back(operation);
            request.work = work;
        }
    }

    /// Marks a request complete, with or without an error. A detached request is removed.
    #[inline]
    pub fn complete(&mut self, id: RequestId, error: Option<Error>) {
        let Some(request) = self.get_mut(id) else { return };
        if error.is_some() || request.error.is_some() {
            request.error = error;
        }
        let is_detached = request.conclude();
        self.concluded(id, is_detached);
    }

    /// Notes that a request was concluded, and removes it if it is detached. Its continuation becomes ready.
    #[inline]
    pub(crate) fn concluded(&mut self, id: RequestId, is_detached: bool) {
        self.news = true;
        if !self.followers.is_idle() {
            self.followers.complete(id);
        }
        if is_detached {
            self.remove(id);
        }
    }

    /// Marks a request complete, with the error that it already has, if any.
    #[inline]
    pub fn complete_as_is(&mut self, id: RequestId) {
        self.news = true;
        let Some(request) = self.get_mut(id) else { return };
        let is_detached = request.conclude();
        self.concluded(id, is_detached);
    }

    /// Returns the id of the request in this slot, if there is one now.
    pub fn id_at(&self, index: u32) -> Option<RequestId> {
        let done = [RequestId::DONE, RequestId::DONE_UNCANCELLABLE].into_iter().find(|id| id.index == index);
        if done.is_some() {
            return done;
        }
        let id = RequestId { index, generation: 0 };
        let slot = self.slots.get(self.place(id)).filter(|slot| slot.request.is_some())?;
        Some(RequestId { generation: slot.generation, ..id })
    }

    /// Returns the ranks for which operations wait whose messages have the context and tag of `envelope`. The
    /// lane in the tag is ignored. `context` is that of their communicator. Scans all requests.
    #[cold]
    pub fn awaited(&self, context: u32, envelope: Envelope) -> Awaited {
        let is_its = |tag: i32| tag & !((1 << LANE_BITS) - 1) == envelope.tag;
        let mut awaited = Awaited::default();
        let requests = self.slots.iter().filter_map(|slot| slot.request.as_ref());
        for request in requests.filter(|request| !request.complete && request.context == context) {
            match &request.work {
                Work::Receive { pattern, .. }
                    if pattern.context == envelope.context && pattern.tag.is_some_and(is_its) =>
                {
                    awaited.sources.extend(pattern.source);
                }
                Work::Send { peer, tag, .. } if is_its(*tag) => awaited.peers.push(WorldRank(*peer)),
                _ => {}
            }
        }
        awaited
    }

    /// Returns all requests that are not complete. Scans the whole table.
    pub fn incomplete(&self) -> impl Iterator<Item = (RequestId, &Request)> {
        let entries = (0..).zip(&self.slots);
        entries.filter_map(|(place, slot)| {
            let request = slot.request.as_ref().filter(|request| !request.complete)?;
            Some((RequestId { index: self.base | place, generation: slot.generation }, request))
        })
    }

    /// Returns the number of requests.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Returns the number of requests of which a user has a handle.
    pub fn held_by_users(&self) -> usize {
        let requests = self.slots.iter().filter_map(|slot| slot.request.as_ref());
        requests.filter(|request| !request.detached).count()
    }

    /// Returns true if the table has no request.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the request of a user's handle.
    ///
    /// # Errors
    /// `Request` for an id that was freed or never issued.
    #[inline]
    pub fn user(&mut self, id: RequestId) -> Result<&mut Request> {
        if id.is_done() {
            return Ok(&mut self.done);
        }
        self.get_mut(id).ok_or_else(unknown)
    }
}

#[cold]
fn unknown() -> Error {
    wrong("the request is not (or no longer) known")
}

#[cold]
fn wrong(reason: &'static str) -> Error {
    Error::new(ErrorClass::Request, reason)
}

/// Outcome of a request.
#[derive(Debug)]
pub struct Finished {
    /// Status of a successful request, or its error.
    pub result: Result<Status>,
    /// Status, also after a failure (a truncated receive has one).
    pub status: Status,
    /// True if the request is persistent, so that its handle stays valid.
    pub persistent: bool,
    /// Context of its communicator, for the error handler.
    pub context: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_id_is_recognised() {
        let mut table = RequestTable::default();
        let first = table.insert(Request::new(Work::Other, 0));
        table.remove(first).unwrap();
        let second = table.insert(Request::new(Work::Other, 0));
        assert_eq!(first.index, second.index);
        assert!(table.get(first).is_none() && table.get(second).is_some());
        assert!(table.get(RequestId::from_bits(0)).is_none());
        assert!(table.remove(RequestId::from_bits(u64::MAX)).is_none());
        assert_eq!(RequestId::from_bits(second.to_bits()), second);
        assert!(second.to_bits() >= 1 << 32);
    }

    #[test]
    fn generations_come_again_without_zero() {
        let mut table = RequestTable::default();
        let first = table.insert(Request::new(Work::Other, 0));
        table.slots[0].generation = GENERATIONS - 1;
        let last = RequestId { generation: GENERATIONS - 1, ..first };
        table.remove(last).unwrap();
        let next = table.insert(Request::new(Work::Other, 0));
        assert_eq!((next.index, next.generation), (first.index, 1));
        assert!(table.get(last).is_none() && table.get(next).is_some());
        assert_eq!(RequestId::from_bits(next.to_bits()), next);
    }

    #[test]
    fn what_is_done_stays_so() {
        let mut table = RequestTable::default();
        assert!(table.user(RequestId::DONE).unwrap().complete && table.get(RequestId::DONE).is_none());
        assert!(table.remove(RequestId::DONE).is_none() && table.user(RequestId::DONE).unwrap().complete);
        for done in [RequestId::DONE, RequestId::DONE_UNCANCELLABLE] {
            assert_eq!((table.id_at(done.index), done.is_done(), done.lane()), (Some(done), true, None));
        }
        assert!(!RequestId::from_bits(u64::MAX).is_done() && !RequestId::from_bits(0).is_done());
        assert!(table.is_empty());
    }

    #[test]
    fn only_what_has_nothing_to_say_is_seen_off() {
        let mut table = RequestTable::default();
        let status = Status { source: 3, ..Status::EMPTY };
        let plain = table.insert(Request::completed(status, 0));
        let failed = table.insert(Request { error: Some(unknown()), ..Request::completed(status, 0) });
        let running = table.insert(Request::new(Work::Other, 0));
        let persistent = Persistent { active: true, template: Template::Nothing, keeps: None };
        let started = Request { persistent: Some(Box::new(persistent)), ..Request::completed(status, 0) };
        let started = table.insert(started);
        let ids = [plain, failed, running, RequestId::DONE, plain, started, started];
        let [over, kept] = [false, true].map(|persistent| Some(Retired { status, persistent }));
        assert_eq!(ids.map(|id| table.retire_plain(id)), [over, None, None, None, None, kept, None]);
        assert_eq!(table.len(), 3);
    }

    #[test]
    fn a_detached_request_goes_with_its_completion() {
        let mut table = RequestTable::default();
        let id = table.insert(Request { detached: true, ..Request::new(Work::Other, 0) });
        table.complete(id, None);
        assert!(table.is_empty());
    }
}
