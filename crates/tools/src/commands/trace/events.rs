//! A trace: all events of all ranks, and when anything is done.

use tutti_base::trace::{self, Action, Event, Level};

/// All events of all ranks, and where these are.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Events in the order of their start times.
    pub events: Vec<Event>,
    /// The host of each rank.
    pub hosts: Vec<u32>,
}

/// Returns the start of the first event and the end of the last.
pub fn span(events: &[Event]) -> (u64, u64) {
    let first = events.iter().map(|event| event.start_ns).min().unwrap_or(0);
    (first, events.iter().map(|event| event.end_ns).max().unwrap_or(first))
}

/// Returns the intervals in which a host works at a level, in order and without overlaps. Waiting is not
/// work.
pub fn busy(trace: &Trace, host: u32, level: Level) -> Vec<(u64, u64)> {
    let is_work = |event: &&Event| {
        trace::group(event) >= 2
            && event.level == level
            && trace.hosts[event.rank as usize] == host
            && !matches!(event.action, Action::Await | Action::Post)
    };
    let mut times: Vec<(u64, u64)> =
        trace.events.iter().filter(is_work).map(|event| (event.start_ns, event.end_ns)).collect();
    times.sort_unstable();
    let mut merged: Vec<(u64, u64)> = Vec::new();
    for (start, end) in times {
        match merged.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => merged.push((start, end)),
        }
    }
    merged
}
