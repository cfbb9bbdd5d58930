//! Requests: operations that have been started, in a table addressed by index and generation.
//!
//! A [`RequestId`] whose slot was reused or freed is recognised, whoever holds it: a user's stale handle, or a
//! packet of a peer. Completion is a flag in the slot; who completes a request knows nothing of who waits.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tutti_base::{Error, ErrorClass, Result, WorldRank};

use crate::attached::Attached;
use crate::buffer::Buffer;
use crate::lanes::{Lane, LaneGuard};
use crate::matching::{Envelope, LANE_BITS, Pattern};
use crate::request_id::{GENERATIONS, LANE_SHIFT, MOST};
use crate::specs::{Check, ReceiveSpec, SendSpec};

pub use crate::request_id::{RequestId, Retired, Status};

/// A request.
#[derive(Debug)]
pub struct Request {
    /// What is being done.
    pub work: Work,
    /// Whether it is over.
    pub complete: bool,
    /// What it reports once it is over.
    pub status: Status,
    /// Why it failed, if it did.
    pub error: Option<Error>,
    /// Context (not plane) of its communicator, for the error handler.
    pub context: u32,
    /// Freed by the user (or never seen by one): its slot goes with its completion.
    pub detached: bool,
    /// Whether MPI_Cancel may be called for it: a message between two processes, or a generalised request.
    pub is_cancellable: bool,
    /// For persistent requests: how to start it again.
    pub persistent: Option<Box<Persistent>>,
}

/// A persistent request can be started again and again.
#[derive(Debug)]
pub struct Persistent {
    /// Between a start and its completion seen by the user.
    pub active: bool,
    /// What a start does.
    pub template: Template,
    /// Keeps the communicator of messages: they may be started when it is freed (MPI-5, 7.4.3).
    pub keeps: Option<Arc<dyn Any + Send + Sync>>,
}

impl Persistent {
    /// Its operation can be started again.
    #[inline]
    fn give_back(&mut self, operation: Arc<dyn Restart>) {
        if let Template::Collective(place) = &mut self.template {
            debug_assert!(place.is_none(), "an operation is started once at a time");
            // Nothing is to be dropped.
            std::mem::forget(place.replace(operation));
        }
    }
}

/// What starting a persistent request does.
#[derive(Clone, Debug)]
pub enum Template {
    /// Communication with `MPI_PROC_NULL`.
    Nothing,
    /// A send: see [`SendSpec`].
    Send(SendSpec),
    /// A send of a copy in the attached buffer.
    BufferedSend(SendSpec, Arc<Attached>),
    /// A receive.
    Receive(ReceiveSpec),
    /// Either side of a message in partitions.
    Partitioned,
    /// A collective operation, started through its [`Restart`]; `None` while it is being started.
    Collective(Option<Arc<dyn Restart>>),
}

/// A persistent collective operation. It knows the process by itself: requests are below it.
pub trait Restart: Send + Sync + std::fmt::Debug {
    /// Starts it behind `request`.
    fn restart(self: Arc<Self>, held: &LaneGuard, request: RequestId) -> Restarted;

    /// Starts it where its request is, if it can be done at once without messages and without foreign code; whether it is over then.
    /// If not, [`Restart::restart`] follows in the same call, and goes on with what was begun here.
    fn fast_path(&self, _: &LaneGuard) -> bool {
        false
    }

    /// Gives back what other operations can reuse, when the request is freed.
    fn retire(self: Arc<Self>, held: &LaneGuard);
}

/// What became of a persistent collective operation that was to be started. Counting its holders costs as much as a small
/// operation, so it is handed over and given back.
#[derive(Debug)]
pub enum Restarted {
    /// It is over, perhaps with an error.
    Over(Arc<dyn Restart>, Option<Error>),
    /// It cannot be started.
    Refused(Arc<dyn Restart>, Error),
    /// It completes its request when it is over, and has been given back to it.
    UnderWay,
}

/// Whom an operation waits for.
#[derive(Debug, Default)]
pub struct Awaited {
    /// Sources of messages, as ranks of messages of the communicator.
    pub sources: Vec<u32>,
    /// Receivers of messages.
    pub peers: Vec<WorldRank>,
}

/// The operation behind a request.
#[derive(Debug)]
pub enum Work {
    /// Nothing left to do, or completed by somebody else (a schedule, the user).
    Other,
    /// A collective operation, moved by an activity: its name and its root, if it has one.
    Collective(&'static str, Option<u32>),
    /// A send to `peer` (world rank).
    Send {
        /// World rank of the receiver.
        peer: u32,
        /// Tag, for people who ask.
        tag: i32,
        /// What is sent.
        buffer: Buffer,
        /// Bytes handed to the transport so far, once the receiver asked for them.
        sent: u64,
    },
    /// A receive.
    Receive {
        /// What it asked for.
        pattern: Pattern,
        /// Where it goes.
        buffer: Buffer,
        /// What is to be compared with the sender's signature.
        check: Check,
        /// Bytes that have arrived.
        arrived: u64,
        /// Bytes of the whole message, once it is matched.
        expected: u64,
    },
    /// A message in partitions, to or from `peer` (world rank; of receives it is not told).
    Partitioned {
        /// Whether it goes out.
        sends: bool,
        /// World rank of the receiver.
        peer: Option<u32>,
    },
    /// A generalised request: the user completes it.
    Generalised(Arc<dyn Generalised>),
}

impl Work {
    /// Whether nothing happens when it is dropped.
    #[inline]
    fn owns_nothing(&self) -> bool {
        match self {
            Work::Other => true,
            Work::Receive { buffer, check, .. } => buffer.owns_nothing() && !matches!(check, Check::Type(_)),
            _ => false,
        }
    }
}

/// The callbacks of a generalised request (MPI-5 section 13.2).
pub trait Generalised: Send + Sync + std::fmt::Debug {
    /// Fills in the status.
    ///
    /// # Errors
    /// The code that the user's callback returned.
    fn query(&self) -> Result<Status>;
    /// The request is freed.
    ///
    /// # Errors
    /// The code that the user's callback returned.
    fn free(&self) -> Result<()>;
    /// The user asks for cancellation.
    ///
    /// # Errors
    /// The code that the user's callback returned.
    fn cancel(&self, complete: bool) -> Result<()>;
}

/// All requests of this process.
#[derive(Debug)]
pub struct RequestTable {
    /// Something was completed (or kept by the matcher) that another thread may sleep for.
    pub news: bool,
    /// How often threads were told of news.
    pub told: u64,
    /// The lane of the table, as it stands in ids.
    base: u32,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// What [`RequestId::DONE`] names.
    done: Request,
}

impl Default for RequestTable {
    fn default() -> RequestTable {
        let done = Request::completed(Status::EMPTY, 0);
        RequestTable { news: false, told: 0, base: 0, slots: Vec::new(), free: Vec::new(), done }
    }
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    request: Option<Request>,
}

impl Request {
    /// An operation that has just been started.
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

    /// An operation that has just been started and that MPI_Cancel is not for: of files, windows and
    /// collectives.
    pub fn uncancellable(context: u32) -> Request {
        Request { is_cancellable: false, ..Request::new(Work::Other, context) }
    }

    /// An operation that was over at once.
    pub fn completed(status: Status, context: u32) -> Request {
        Request { complete: true, status, ..Request::new(Work::Other, context) }
    }

    /// Where a receive puts its message.
    #[inline]
    pub(crate) fn target(&mut self) -> Option<&Buffer> {
        match &self.work {
            Work::Receive { buffer, .. } => Some(buffer),
            _ => None,
        }
    }

    /// Marks it complete, with the error that it has noted already if any; whether nobody will see it off.
    #[inline]
    pub(crate) fn conclude(&mut self) -> bool {
        self.complete = true;
        if self.work.owns_nothing() {
            // Nothing is to be dropped, which would be a call.
            std::mem::forget(std::mem::replace(&mut self.work, Work::Other));
        } else if !matches!(self.work, Work::Generalised(_)) {
            self.work = Work::Other;
        }
        self.detached
    }

    /// Whether a user would see it as null: a persistent request that is not started.
    #[inline]
    pub fn is_inactive(&self) -> bool {
        self.persistent.as_ref().is_some_and(|persistent| !persistent.active)
    }
}

/// Requests that the library may need when a program can get no more: those of blocking operations.
const RESERVE: usize = 1 << 16;

/// Requests of a lane after which a program gets no more.
static LIMIT: AtomicUsize = AtomicUsize::new(MOST - RESERVE);

/// True while some lane has as many requests as it may have.
static IS_FULL: AtomicBool = AtomicBool::new(false);

/// Has the table of a lane be full after so many requests and 65536, for tests. 0 changes nothing.
pub fn wrap_after(requests: u64) {
    if requests > 0 {
        LIMIT.store(RESERVE + requests as usize, Ordering::Relaxed);
    }
}

/// Checks that a program may have one more request.
///
/// # Errors
/// `NoMem` if it has as many as there may be.
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
    /// The table of a lane.
    pub fn in_lane(lane: Lane) -> RequestTable {
        RequestTable { base: lane.number() << LANE_SHIFT, ..RequestTable::default() }
    }

    /// Where a request is in this table, if it is one of its lane.
    #[inline]
    fn place(&self, id: RequestId) -> usize {
        (id.index ^ self.base) as usize
    }

    /// Notes that a request has gone where there was no room.
    #[cold]
    fn note_room(&self) {
        let count = self.slots.len() - self.free.len();
        IS_FULL.store(count >= LIMIT.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Adds a request.
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

    /// Looks up a request.
    #[inline]
    pub fn get(&self, id: RequestId) -> Option<&Request> {
        let slot = self.slots.get(self.place(id))?;
        slot.request.as_ref().filter(|_| slot.generation == id.generation)
    }

    /// Looks up a request to change it.
    #[inline]
    pub fn get_mut(&mut self, id: RequestId) -> Option<&mut Request> {
        let place = self.place(id);
        let slot = self.slots.get_mut(place)?;
        slot.request.as_mut().filter(|_| slot.generation == id.generation)
    }

    /// Removes a request; its id is dead from now on.
    #[inline]
    pub fn remove(&mut self, id: RequestId) -> Option<Request> {
        let place = self.place(id);
        let slot = self.slots.get_mut(place).filter(|slot| slot.generation == id.generation)?;
        let request = slot.request.take()?;
        self.retire(place);
        Some(request)
    }

    /// Sees off a request that is over and has nothing to say but its status, as most: it goes, or becomes inactive. `None` for
    /// others.
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
        // Nothing is to be dropped.
        std::mem::forget(slot.request.take());
        self.retire(place);
        Some(Retired { status, persistent: false })
    }

    /// Removes a request that is there, where it is: moving one out costs more than all else here.
    #[inline]
    pub fn drop_in_place(&mut self, id: RequestId) {
        debug_assert!(self.get(id).is_some(), "a request that is there");
        let place = self.place(id);
        self.slots[place].request = None;
        self.retire(place);
    }

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

    /// Begins a start of a persistent request: what is to be started if it is a collective operation, which [`RequestTable::started`]
    /// or [`RequestTable::under_way`] gives back.
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

    /// Starts a persistent collective operation that can be done at once, where it is; whether it is over. For all others
    /// [`RequestTable::begin`] follows.
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

    /// A persistent collective operation was started and is not under way.
    ///
    /// # Errors
    /// Why it was refused.
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

    /// A persistent collective operation is under way, and `work` says what it is.
    pub fn under_way(&mut self, id: RequestId, operation: Arc<dyn Restart>, work: Work) {
        if let Some(request) = self.get_mut(id)
            && let Some(persistent) = &mut request.persistent
        {
            persistent.give_back(operation);
            request.work = work;
        }
    }

    /// Marks a request complete, with an error or without. A detached one goes at once.
    #[inline]
    pub fn complete(&mut self, id: RequestId, error: Option<Error>) {
        let Some(request) = self.get_mut(id) else { return };
        if error.is_some() || request.error.is_some() {
            request.error = error;
        }
        let is_detached = request.conclude();
        self.news = true;
        if is_detached {
            self.remove(id);
        }
    }

    /// Marks a request complete, with the error that it has noted already if any.
    #[inline]
    pub fn complete_as_is(&mut self, id: RequestId) {
        self.news = true;
        let Some(request) = self.get_mut(id) else { return };
        if request.conclude() {
            self.remove(id);
        }
    }

    /// The request in this slot, if there is one now.
    pub fn id_at(&self, index: u32) -> Option<RequestId> {
        let done = [RequestId::DONE, RequestId::DONE_UNCANCELLABLE].into_iter().find(|id| id.index == index);
        if done.is_some() {
            return done;
        }
        let id = RequestId { index, generation: 0 };
        let slot = self.slots.get(self.place(id)).filter(|slot| slot.request.is_some())?;
        Some(RequestId { generation: slot.generation, ..id })
    }

    /// Whom the operations wait for whose messages have the context and, but for the lane, the tag of
    /// `envelope`; `context` is that of their communicator. Looks at all requests.
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

    /// All requests that are not complete. Looks at the whole table.
    pub fn incomplete(&self) -> impl Iterator<Item = (RequestId, &Request)> {
        let entries = (0..).zip(&self.slots);
        entries.filter_map(|(place, slot)| {
            let request = slot.request.as_ref().filter(|request| !request.complete)?;
            Some((RequestId { index: self.base | place, generation: slot.generation }, request))
        })
    }

    /// How many requests there are.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// How many of them a user has a handle of.
    pub fn held_by_users(&self) -> usize {
        let requests = self.slots.iter().filter_map(|slot| slot.request.as_ref());
        requests.filter(|request| !request.detached).count()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The request behind a user's handle.
    ///
    /// # Errors
    /// `Request` for an id that was freed or never given out.
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

/// How a request ended.
#[derive(Debug)]
pub struct Finished {
    /// What it reports, or why it failed.
    pub result: Result<Status>,
    /// The status even if it failed (a truncated receive has one).
    pub status: Status,
    /// Its handle stays valid: it is persistent.
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
