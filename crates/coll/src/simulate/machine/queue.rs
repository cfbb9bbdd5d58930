//! Queue of future events.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Event;
use crate::simulate::resources::Time;

/// Future events, ordered by time and then by insertion. The heap moves its items, so they are small, and the
/// events are stored beside it.
#[derive(Default)]
pub(super) struct Queue {
    /// Time, sequence, place in `events`.
    heap: BinaryHeap<Reverse<(Time, u32, u32)>>,
    events: Vec<Event>,
    free: Vec<u32>,
    sequence: u32,
}

impl Queue {
    pub fn push(&mut self, time: Time, event: Event) {
        let place = match self.free.pop() {
            Some(place) => {
                self.events[place as usize] = event;
                place
            }
            None => {
                self.events.push(event);
                self.events.len() as u32 - 1
            }
        };
        self.sequence += 1;
        self.heap.push(Reverse((time, self.sequence, place)));
    }

    pub fn pop(&mut self) -> Option<(Time, Event)> {
        let Reverse((time, _, place)) = self.heap.pop()?;
        self.free.push(place);
        Some((time, self.events[place as usize]))
    }

    /// Returns true if something happens until `time`.
    pub fn until(&self, time: Time) -> bool {
        self.heap.peek().is_some_and(|Reverse((next, ..))| *next <= time)
    }
}
