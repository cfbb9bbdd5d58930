//! Events for tools (MPI-5 section 15.3.8).
//!
//! An event is noted when it happens, while state of the library is borrowed. It is reported at the end of
//! the MPI call, so that a callback may call MPI. Without listeners an event costs one load. Events that find
//! the queue full are dropped and counted.

pub mod chosen;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use tutti_sys::clock;

/// Names of the values of an integer, in the order of the values.
pub type Names = &'static [&'static str];

/// Kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Choice of an algorithm: collective, algorithm, ranks, context; bytes.
    AlgorithmChosen = 0,
    /// Unexpected message: source, tag, plane of the context, number of unexpected messages; bytes.
    Unexpected = 1,
}

/// Description of a kind of event.
#[derive(Debug)]
pub struct Description {
    /// Name of the kind, for tools.
    pub name: &'static str,
    /// Meaning of the kind, for users.
    pub doc: &'static str,
    /// Names of its elements: [`NUMBERS`] integers, then a count.
    pub elements: Names,
    /// Index of the area in [`chosen::AREAS`].
    pub area: usize,
}

/// Number of integers of an event. A number of bytes follows them.
pub const NUMBERS: usize = 4;

/// Descriptions of all kinds, by number.
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

/// Event that has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Kind of the event.
    pub kind: Kind,
    /// Time of the event, in nanoseconds of the monotonic clock.
    pub time_ns: u64,
    /// Integers, as the description of the kind defines.
    pub numbers: [i32; NUMBERS],
    /// Number of bytes, as the description defines.
    pub bytes: u64,
}

/// Maximum number of events that wait to be reported.
const QUEUE: usize = 1024;

/// Events of this process.
static NOTICES: Notices = Notices::new();

/// Queue of events between the library and listeners.
#[derive(Debug)]
struct Notices {
    /// Kinds that have listeners, one bit each.
    wanted: AtomicU32,
    /// Nonzero if events wait to be reported or were dropped.
    waiting: AtomicU32,
    noted: Mutex<Noted>,
}

/// Waiting events, and the number of dropped ones of each kind.
#[derive(Debug)]
struct Noted {
    events: VecDeque<Event>,
    dropped: [u64; KINDS.len()],
}

impl Notices {
    const fn new() -> Notices {
        Notices {
            wanted: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            noted: Mutex::new(Noted { events: VecDeque::new(), dropped: [0; KINDS.len()] }),
        }
    }

    fn want(&self, kinds: u32) {
        self.wanted.store(kinds, Ordering::Relaxed);
    }

    #[inline]
    fn is_wanted(&self, kind: Kind) -> bool {
        self.wanted.load(Ordering::Relaxed) & (1 << kind as u32) != 0
    }

    #[inline]
    fn note(&self, kind: Kind, what: impl FnOnce() -> ([i32; NUMBERS], u64)) {
        if self.is_wanted(kind) {
            let (numbers, bytes) = what();
            self.keep(Event { kind, time_ns: now_ns(), numbers, bytes });
        }
    }

    /// Adds an event to the queue, or counts it as dropped if the queue is full.
    #[cold]
    fn keep(&self, event: Event) {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.events.len() < QUEUE {
            noted.events.push_back(event);
        } else {
            noted.dropped[event.kind as usize] += 1;
        }
        self.waiting.store(1, Ordering::Relaxed);
    }

    #[inline]
    fn any_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) != 0
    }

    fn take(&self) -> (VecDeque<Event>, [u64; KINDS.len()]) {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiting.store(0, Ordering::Relaxed);
        (std::mem::take(&mut noted.events), std::mem::take(&mut noted.dropped))
    }
}

/// Sets the kinds that have listeners, one bit each.
pub fn want(kinds: u32) {
    NOTICES.want(kinds);
}

/// Returns true if this kind of event has listeners.
#[inline]
pub fn is_wanted(kind: Kind) -> bool {
    NOTICES.is_wanted(kind)
}

/// Notes an event if its kind has listeners.
#[inline]
pub fn note(kind: Kind, what: impl FnOnce() -> ([i32; NUMBERS], u64)) {
    NOTICES.note(kind, what);
}

/// Returns true if there may be events to report.
#[inline]
pub fn any_waiting() -> bool {
    NOTICES.any_waiting()
}

/// Makes [`any_waiting`] return true, because there is other work at the end of a call.
pub fn rouse() {
    NOTICES.waiting.store(1, Ordering::Relaxed);
}

/// Removes and returns the waiting events, and the number of dropped events of each kind.
pub fn take() -> (VecDeque<Event>, [u64; KINDS.len()]) {
    NOTICES.take()
}

/// Returns the current time of the clock of events, in nanoseconds.
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
    let place = chosen::chosen(collective, algorithm);
    let number = chosen::number_of(collective) as i32;
    note(Kind::AlgorithmChosen, || ([number, place, ranks as i32, context as i32], bytes));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_wanted_is_kept_and_not_without_bound() {
        // Of its own: other tests of this process note events too.
        let notices = Notices::new();
        notices.note(Kind::Unexpected, || ([1, 2, 3, 4], 5));
        assert!(!notices.any_waiting(), "nobody listens");
        notices.want(1 << Kind::Unexpected as u32);
        notices.note(Kind::AlgorithmChosen, || unreachable!("nobody listens to this"));
        for number in 0..QUEUE as i32 + 3 {
            notices.note(Kind::Unexpected, || ([number, 2, 3, 4], 5));
        }
        notices.want(0);
        assert!(notices.any_waiting());
        let (events, dropped) = notices.take();
        assert_eq!((events.len(), dropped), (QUEUE, [0, 3]));
        assert!(events[0].numbers == [0, 2, 3, 4] && events[1].time_ns >= events[0].time_ns);
        assert_eq!((notices.any_waiting(), notices.take().0.len()), (false, 0));
    }
}
