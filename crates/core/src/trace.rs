//! Trace of a program (`TUTTI_TRACE`). Each rank records its calls, messages and the steps of its schedules,
//! up to a bound. At MPI_Finalize rank 0 collects all records and writes the file ([`crate::trace_file`]).
//!
//! Without a trace, each MPI call and each step costs a load of one byte. Compiled schedules need no such
//! load, since no schedule is compiled under a trace. Clocks of other hosts are compared by round trips at
//! the end.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tutti_base::ContextId;
use tutti_base::ids::Plane;
use tutti_base::trace::{Action, Event, Level};
use tutti_sys::clock;
use tutti_sys::job::Job;
use tutti_transport::Peer;

use crate::request_id::Status;
use crate::specs::SendSpec;

static ON: AtomicBool = AtomicBool::new(false);
static JOB: OnceLock<Arc<Job>> = OnceLock::new();
static RANK: AtomicU32 = AtomicU32::new(0);
static MOST: AtomicU64 = AtomicU64::new(0);
static RECORD: Mutex<Record> = Mutex::new(Record { events: Vec::new(), lost: 0 });

/// Recorded events, and the number of lost ones.
#[derive(Debug)]
struct Record {
    events: Vec<Event>,
    lost: u64,
}

/// Returns true if events are recorded.
#[inline]
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Returns the current time in nanoseconds if events are recorded, otherwise 0.
#[inline]
pub fn since() -> u64 {
    if is_on() { clock::now_ns() } else { 0 }
}

/// Starts to record, for at most `most` events.
pub fn begin(job: Arc<Job>, rank: u32, most: u64) {
    let _ = JOB.set(job);
    RANK.store(rank, Ordering::Relaxed);
    MOST.store(most, Ordering::Relaxed);
    ON.store(true, Ordering::Relaxed);
}

/// Returns an event of this rank that has lasted from `start_ns` until now.
pub fn event(action: Action, start_ns: u64) -> Event {
    let rank = RANK.load(Ordering::Relaxed);
    Event {
        rank,
        action,
        level: Level::Own,
        peer: rank,
        bytes: 0,
        key: 0,
        value: 0,
        start_ns,
        end_ns: clock::now_ns(),
        name: Cow::Borrowed(""),
    }
}

/// Records an event, or counts it as lost if the bound is reached.
#[cold]
pub fn record(event: Event) {
    let mut record = RECORD.lock().unwrap_or_else(PoisonError::into_inner);
    if (record.events.len() as u64) < MOST.load(Ordering::Relaxed) {
        record.events.push(event);
    } else {
        record.lost += 1;
    }
}

/// Records an MPI call that started at `start_ns`.
#[cold]
pub fn call(function: &'static str, start_ns: u64) {
    if is_on() {
        record(Event { name: Cow::Borrowed(function), ..event(Action::Call, start_ns) });
    }
}

/// Records a message that the user has sent or started to send.
#[cold]
pub fn sent(spec: &SendSpec) {
    let plane = spec.envelope.context;
    if is_users(plane) {
        let peer = spec.peer.0;
        let (level, bytes) = (level_of(peer), spec.buffer.bytes());
        let value = spec.envelope.tag as u64;
        record(Event {
            peer,
            level,
            bytes,
            value,
            key: plane.into(),
            ..event(Action::Send, clock::now_ns())
        });
    }
}

/// Records a receive that has got its message.
#[cold]
pub fn received(from: Peer, plane: u32, status: &Status) {
    if !is_users(plane) {
        return;
    }
    let (peer, level) = (from.0, level_of(from.0));
    let (bytes, value) = (status.bytes, status.tag as u64);
    let received = event(Action::Receive, clock::now_ns());
    record(Event { peer, level, bytes, value, key: plane.into(), ..received });
}

/// Returns true if messages in this plane of a context are the user's own.
fn is_users(plane: u32) -> bool {
    ContextId::of_plane(plane).plane(Plane::PointToPoint) == plane
}

/// Returns the distance level of a rank in the world.
pub fn level_of(world: u32) -> Level {
    let Some(job) = JOB.get() else { return Level::Own };
    match job.header().world_size {
        _ if world == RANK.load(Ordering::Relaxed) => Level::Own,
        // Connected processes of other jobs are on the same host.
        size if world >= size || job.local_rank(world).is_some() => Level::Node,
        _ => Level::Network,
    }
}

/// Stops recording. Returns the events, and the number of lost ones.
pub(crate) fn end() -> (Vec<Event>, u64) {
    ON.store(false, Ordering::Relaxed);
    let record = &mut *RECORD.lock().unwrap_or_else(PoisonError::into_inner);
    (std::mem::take(&mut record.events), std::mem::take(&mut record.lost))
}
