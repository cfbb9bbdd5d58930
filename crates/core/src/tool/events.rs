//! What happens, for tools that want to hear of it (MPI-5 section 15.3.8).
//!
//! An event is noted where it happens, under borrows of the library's state, and told when the call is over in which it
//! happened: a callback may then call MPI. Nobody pays more than a look at a word that says that nobody listens. Events
//! that find the queue full are dropped and counted.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use tutti_sys::clock;

use super::Names;
use super::variables;

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// An algorithm was chosen: collective, algorithm, ranks, context; bytes.
    AlgorithmChosen = 0,
    /// A message came before its receive was posted: source, tag, plane of the context, messages kept; bytes.
    Unexpected = 1,
}

/// A kind of event, in words.
#[derive(Debug)]
pub struct Description {
    /// Its name.
    pub name: &'static str,
    /// What it means.
    pub doc: &'static str,
    /// The names of its elements: [`NUMBERS`] integers, then a count.
    pub elements: Names,
    /// Index into [`variables::AREAS`].
    pub area: usize,
}

/// Integers of an event; a count of bytes follows.
pub const NUMBERS: usize = 4;

/// All kinds, by number.
pub static KINDS: [Description; 2] = [
    Description {
        name: "tutti_algorithm_chosen",
        doc: "an algorithm was chosen for a collective operation; collective and algorithm are numbered as in \
              the states tutti_algorithm_*",
        elements: &["collective", "algorithm", "ranks", "context", "bytes"],
        area: 3,
    },
    Description {
        name: "tutti_unexpected_message",
        doc: "a message came before its receive was posted",
        elements: &["source", "tag", "context", "queue_length", "bytes"],
        area: 2,
    },
];

/// Something that has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What.
    pub kind: Kind,
    /// When, in nanoseconds of the monotonic clock.
    pub time_ns: u64,
    /// Its integers.
    pub numbers: [i32; NUMBERS],
    /// And its bytes.
    pub bytes: u64,
}

/// Most events that wait to be told.
const QUEUE: usize = 1024;

/// Which kinds anybody wants to hear of, a bit each.
static WANTED: AtomicU32 = AtomicU32::new(0);
/// Whether any wait to be told, or were dropped.
static WAITING: AtomicU32 = AtomicU32::new(0);
static NOTED: Mutex<Noted> = Mutex::new(Noted { events: VecDeque::new(), dropped: [0; KINDS.len()] });

#[derive(Debug)]
struct Noted {
    events: VecDeque<Event>,
    dropped: [u64; KINDS.len()],
}

/// Says which kinds anybody wants to hear of, a bit each.
pub fn want(kinds: u32) {
    WANTED.store(kinds, Ordering::Relaxed);
}

/// Whether anybody wants to hear of this.
#[inline]
pub fn is_wanted(kind: Kind) -> bool {
    WANTED.load(Ordering::Relaxed) & (1 << kind as u32) != 0
}

/// Notes an event, if anybody wants to hear of it.
#[inline]
pub fn note(kind: Kind, what: impl FnOnce() -> ([i32; NUMBERS], u64)) {
    if is_wanted(kind) {
        let (numbers, bytes) = what();
        keep(Event { kind, time_ns: now_ns(), numbers, bytes });
    }
}

#[cold]
fn keep(event: Event) {
    let mut noted = NOTED.lock().unwrap_or_else(PoisonError::into_inner);
    if noted.events.len() < QUEUE {
        noted.events.push_back(event);
    } else {
        noted.dropped[event.kind as usize] += 1;
    }
    WAITING.store(1, Ordering::Relaxed);
}

/// Whether there is anything to tell.
#[inline]
pub fn any_waiting() -> bool {
    WAITING.load(Ordering::Relaxed) != 0
}

/// Takes what there is to tell: events, and how many of each kind were dropped.
pub fn take() -> (VecDeque<Event>, [u64; KINDS.len()]) {
    let mut noted = NOTED.lock().unwrap_or_else(PoisonError::into_inner);
    WAITING.store(0, Ordering::Relaxed);
    (std::mem::take(&mut noted.events), std::mem::take(&mut noted.dropped))
}

/// The clock of events.
pub fn now_ns() -> u64 {
    clock::now_ns()
}

/// Notes the choice of an algorithm, as a state and as an event.
pub fn algorithm_chosen(
    collective: tutti_coll::Collective,
    algorithm: &str,
    ranks: u32,
    context: u32,
    bytes: u64,
) {
    let place = variables::chosen(collective, algorithm);
    let number = variables::number_of(collective) as i32;
    note(Kind::AlgorithmChosen, || ([number, place, ranks as i32, context as i32], bytes));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_wanted_is_kept_and_not_without_bound() {
        note(Kind::Unexpected, || ([1, 2, 3, 4], 5));
        assert!(!any_waiting(), "nobody listens");
        want(1 << Kind::Unexpected as u32);
        note(Kind::AlgorithmChosen, || unreachable!("nobody listens to this"));
        for number in 0..QUEUE as i32 + 3 {
            note(Kind::Unexpected, || ([number, 2, 3, 4], 5));
        }
        want(0);
        assert!(any_waiting());
        let (events, dropped) = take();
        assert_eq!((events.len(), dropped), (QUEUE, [0, 3]));
        assert!(events[0].numbers == [0, 2, 3, 4] && events[1].time_ns >= events[0].time_ns);
        assert_eq!((any_waiting(), take().0.len()), (false, 0));
    }
}
