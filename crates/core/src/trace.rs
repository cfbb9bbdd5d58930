//! The trace of a whole program (`TUTTI_TRACE`): each rank records its calls, messages and the steps of its schedules, up to a
//! bound, and at MPI_Finalize all records go to rank 0, which writes the file.
//!
//! When it is off it costs a look at a byte in each call of MPI and in each step; schedules that are compiled are not looked
//! at at all, since under a trace none is compiled. Clocks of other hosts are compared by round trips at the end.

use std::borrow::Cow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use tutti_base::ids::Plane;
use tutti_base::trace::{self, Action, Event, Exchange, Level};
use tutti_base::{ContextId, Rank, Result, WorldRank};
use tutti_sys::{clock, files};
use tutti_transport::Peer;

use crate::collective::broadcast_bytes;
use crate::exchange::{exchange, swap};
use crate::giant::Held;
use crate::p2p::SendSpec;
use crate::process::{self, Process};
use crate::request::Status;

static ON: AtomicBool = AtomicBool::new(false);
static RANK: AtomicU32 = AtomicU32::new(0);
static MOST: AtomicU64 = AtomicU64::new(0);
static RECORD: Mutex<Record> = Mutex::new(Record { events: Vec::new(), lost: 0 });

/// Round trips to a host whose clock is compared.
const TRIPS: usize = 8;
/// Tag of the messages at the end.
const TAG: i32 = 1;

#[derive(Debug)]
struct Record {
    events: Vec<Event>,
    lost: u64,
}

/// Whether anything is recorded.
#[inline]
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// The time, if anything is recorded; else 0.
#[inline]
pub fn since() -> u64 {
    if is_on() { clock::now_ns() } else { 0 }
}

/// From now on everything is recorded, at most so many events.
pub fn begin(rank: u32, most: u64) {
    RANK.store(rank, Ordering::Relaxed);
    MOST.store(most, Ordering::Relaxed);
    ON.store(true, Ordering::Relaxed);
}

/// A thing that this rank did until now, since `start_ns`.
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

/// Records.
#[cold]
pub fn record(event: Event) {
    let mut record = RECORD.lock().unwrap_or_else(PoisonError::into_inner);
    if (record.events.len() as u64) < MOST.load(Ordering::Relaxed) {
        record.events.push(event);
    } else {
        record.lost += 1;
    }
}

/// Records a call that began at `start_ns`.
#[cold]
pub fn call(function: &'static str, start_ns: u64) {
    if is_on() {
        record(Event { name: Cow::Borrowed(function), ..event(Action::Call, start_ns) });
    }
}

/// The user has sent a message, or has begun to.
#[cold]
pub fn sent(process: &Process, spec: &SendSpec) {
    let plane = spec.envelope.context;
    if is_users(plane) {
        let peer = spec.peer.0;
        let (level, bytes) = (level_of(process, peer), spec.buffer.bytes());
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

/// A receive has got its message.
#[cold]
pub fn received(from: Peer, plane: u32, status: &Status) {
    let Some(process) = process::process().filter(|_| is_users(plane)) else { return };
    let (peer, level) = (from.0, level_of(process, from.0));
    let (bytes, value) = (status.bytes, status.tag as u64);
    let received = event(Action::Receive, clock::now_ns());
    record(Event { peer, level, bytes, value, key: plane.into(), ..received });
}

/// Whether messages of this plane of a context are the user's own.
fn is_users(plane: u32) -> bool {
    ContextId::of_plane(plane).plane(Plane::PointToPoint) == plane
}

/// How far a rank of the world is.
pub fn level_of(process: &Process, world: u32) -> Level {
    let world = WorldRank(world);
    match process.local_rank(world) {
        _ if world == process.rank => Level::Own,
        // Processes of other jobs meet within a host.
        Some(_) => Level::Node,
        None if process.is_foreign(world) => Level::Node,
        None => Level::Network,
    }
}

/// Brings all records together; rank 0 writes them. All ranks of the world call it when they are about to leave.
///
/// # Errors
/// What went wrong with a message.
pub fn collect(held: &mut Held, process: &Process) -> Result<()> {
    if !is_on() {
        return Ok(());
    }
    ON.store(false, Ordering::Relaxed);
    let mut record = std::mem::replace(
        &mut *RECORD.lock().unwrap_or_else(PoisonError::into_inner),
        Record { events: Vec::new(), lost: 0 },
    );
    if record.lost > 0 {
        eprintln!(
            "Tutti: rank {}: {} events did not fit into the trace (TUTTI_TRACE_EVENTS)",
            process.rank, record.lost
        );
    }
    let hosts = hosts(process);
    let (offset, origin) = clocks(held, process, &hosts)?;
    let mut text = String::new();
    let host = hosts[process.rank.0 as usize];
    trace::write_rank(&mut record.events, host, i128::from(origin) + i128::from(offset), &mut text);
    let world = &process.world;
    if process.rank.0 != 0 {
        return exchange(held, process, world, Rank(0), TAG, text.into_bytes()).map(drop);
    }
    let mut ranks = vec![text];
    for rank in 1..world.size() {
        let theirs = exchange(held, process, world, Rank(rank), TAG, Vec::new())?;
        ranks.push(String::from_utf8_lossy(&theirs).into_owned());
    }
    let names: Vec<String> =
        (0..=hosts.iter().copied().max().unwrap_or(0)).map(|host| format!("host {host}")).collect();
    let path = &process.config.trace;
    if let Err(error) = files::write(Path::new(path), trace::whole(&ranks, &names).as_bytes()) {
        eprintln!("Tutti: the trace cannot be written to {path}: {error}");
    }
    Ok(())
}

/// The number of the host of each rank.
fn hosts(process: &Process) -> Vec<u32> {
    (0..process.world_size()).map(|rank| process.job.place(rank).host).collect()
}

/// By how much this host's clock is ahead of that of rank 0, and when the trace began by the latter.
fn clocks(held: &mut Held, process: &Process, hosts: &[u32]) -> Result<(i64, u64)> {
    let world = &process.world;
    let others = hosts.iter().copied().max().unwrap_or(0) + 1;
    let mut offsets = vec![0i64; others as usize];
    for host in (0..others).filter(|host| *host != hosts[0]) {
        let Some(first) = hosts.iter().position(|other| *other == host) else { continue };
        let partner = match process.rank.0 {
            0 => Rank(first as u32),
            me if me as usize == first => Rank(0),
            _ => continue,
        };
        // Each message says when it was sent, and when the one before it came.
        let (mut exchanges, mut got_ns): (Vec<Exchange>, u64) = (Vec::new(), 0);
        for _ in 0..=TRIPS {
            let sent_ns = clock::now_ns();
            let mine = [sent_ns, got_ns].map(u64::to_le_bytes).concat();
            let theirs = swap(held, process, world, partner, TAG, mine, 16)?;
            let (answered_ns, reached_ns) = (word(&theirs, 0), word(&theirs, 1));
            if let Some(last) = exchanges.last_mut() {
                *last = Exchange { reached_ns, ..*last };
            }
            got_ns = clock::now_ns();
            exchanges.push(Exchange { sent_ns, reached_ns: 0, answered_ns, got_ns });
        }
        // When the last one came, nobody has told.
        exchanges.pop();
        offsets[host as usize] = trace::clock_offset_ns(&exchanges);
    }
    let mut data: Vec<u8> = offsets.iter().flat_map(|offset| offset.to_le_bytes()).collect();
    data.extend(process.started_ns.to_le_bytes());
    broadcast_bytes(held, process, world, Rank(0), &mut data)?;
    Ok((word(&data, hosts[process.rank.0 as usize] as usize) as i64, word(&data, others as usize)))
}

/// Word number `place` of what came.
fn word(bytes: &[u8], place: usize) -> u64 {
    let word = bytes.get(place * 8..place * 8 + 8).and_then(|bytes| bytes.try_into().ok());
    word.map_or(0, u64::from_le_bytes)
}
