//! Pieces of work: their durations, and their effects when they are done.

use super::{Event, Machine};
use crate::cursor::Instance;
use crate::model::DISTANCES;
use crate::simulate::prices::Way;
use crate::simulate::resources::Time;

/// A piece of work of one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Work {
    /// No work is left, for example after a flag was seen.
    Nothing,
    /// Computes for this time between two operations, or beside one.
    Compute(Time),
    /// Sends a message that needs no handshake.
    Eager(Message),
    /// Requests permission to send a long message.
    Request(Message),
    /// Sends one payload to all members of a group, which reserve space for it.
    Cast { group: u16, lane: u16, bytes: u64 },
    /// Takes a message that has arrived.
    Take(Message),
    /// Grants the request for a long message.
    Clear(Message, Instance),
    /// Sends a long message to the step of its receiver.
    Data(Message, Instance),
    /// Takes a long message; the work does not end before this time.
    Fetch(Message, Time),
    /// Copies bytes in own memory.
    Copy(u64),
    /// Copies bytes into the own bank.
    Store(u64),
    /// Combines bytes in own memory.
    Reduce(u64),
    /// Sets a flag to a value.
    Post(u16, u64),
    /// Reads the flag of a rank, set before.
    Look(u32, u16),
    /// Exposes memory, of which this number of bytes is sent by value.
    Expose(u64),
    /// Moves bytes from or to another's bank or memory, or combines them with own ones.
    Access { peer: u32, bytes: u64, way: Way, combine: bool, into_bank: bool },
}

/// A message, by the sender's step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Message {
    pub from: u32,
    pub to: u32,
    pub lane: u16,
    pub bytes: u64,
    /// True if it belongs to a multicast, which has no handshake.
    pub cast: bool,
    pub sent: Instance,
}

/// A piece of work and the step that is complete after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Task {
    pub instance: Instance,
    pub work: Work,
}

impl Machine<'_> {
    /// Begins a piece of work of a rank, and returns the time of its end.
    pub(super) fn begin(&mut self, rank: u32, task: Task) -> Time {
        let now = self.now + self.prices.step;
        let prices = &mut self.prices;
        match task.work {
            Work::Nothing => now,
            Work::Compute(long) => now + long,
            Work::Eager(message) => {
                let (own, end) = prices.send(now, self.layout, message.from, message.to, message.bytes);
                self.ranks[rank as usize].carried = end;
                own
            }
            Work::Cast { group, bytes, .. } => {
                let members =
                    &self.series.schedules(self.ranks[rank as usize].operations)[rank as usize].groups;
                let far = |to: &&u32| self.layout.distance(rank, **to) == DISTANCES - 1;
                let members = &members[usize::from(group)];
                let to = members.iter().find(far).unwrap_or(&members[0]);
                let (own, end) = prices.send(now, self.layout, rank, *to, bytes);
                self.ranks[rank as usize].carried = end;
                own
            }
            Work::Take(message) => {
                let Message { from, to, bytes, .. } = message;
                prices.take(now, self.layout, from, to, bytes)
            }
            Work::Request(_) | Work::Clear(..) => now + prices.overhead,
            Work::Data(message, recv) => {
                let (own, end) = prices.send(now, self.layout, message.from, message.to, message.bytes);
                let (first, last) = prices.fragments(self.layout, message.from, message.to, message.bytes);
                let fetch = Task { instance: recv, work: Work::Fetch(message, end + last) };
                self.schedule_event(now + first, Event::Ready(message.to, fetch));
                self.ranks[rank as usize].carried = end;
                own
            }
            Work::Fetch(message, end) => {
                let own = prices.take(now, self.layout, message.from, message.to, message.bytes);
                if self.layout.distance(message.from, message.to) < DISTANCES - 1 {
                    return own.max(end);
                }
                let landed = prices.land(now, self.layout, message.from, message.to, message.bytes);
                self.ranks[rank as usize].carried = own.max(landed).max(end);
                own
            }
            Work::Copy(bytes) => prices.copy(now, self.layout, rank, bytes),
            Work::Store(bytes) => prices.store(now, self.layout, rank, bytes),
            Work::Reduce(bytes) => prices.reduce(now, self.layout, rank, bytes),
            Work::Post(..) => now + prices.post,
            Work::Look(peer, flag) => {
                let (gap, line) = (prices.line_gap, prices.line(self.layout.distance(rank, peer)));
                self.flag(peer, flag).line.book(now, gap) - gap + line
            }
            Work::Expose(0) => now + prices.expose,
            Work::Expose(bytes) => prices.store(now + prices.post, self.layout, rank, bytes),
            Work::Access { peer, bytes, way, combine, into_bank } => {
                let end = prices.access(now, self.layout, (rank, peer), bytes, way, combine);
                if into_bank { end + prices.write_back(bytes) } else { end }
            }
        }
    }

    /// Applies the effects of a piece of work that is done. A rank may do other work while the network still
    /// carries its data.
    pub(super) fn done(&mut self, rank: u32, task: Task) {
        let carried = std::mem::take(&mut self.ranks[rank as usize].carried).max(self.now);
        match task.work {
            Work::Data(..) | Work::Fetch(..) if carried > self.now => {
                let over = Task { instance: task.instance, work: Work::Nothing };
                return self.schedule_event(carried, Event::Ready(rank, over));
            }
            Work::Eager(message) => self.send_off(carried, message),
            Work::Cast { group, lane, bytes } => {
                let members = &self.schedule(rank).groups[usize::from(group)];
                for &to in members {
                    let message = Message { from: rank, to, lane, bytes, cast: true, sent: task.instance };
                    self.send_off(carried, message);
                }
            }
            Work::Request(message) => {
                let latency = self.prices.latency(self.layout, message.from, message.to);
                let leaves = self.prices.leaves(carried, self.layout, message.from, message.to);
                return self.schedule_event(leaves + latency, Event::Arrived(message));
            }
            Work::Clear(message, recv) => {
                let latency = self.prices.latency(self.layout, message.from, message.to);
                let leaves = self.prices.leaves(self.now, self.layout, message.to, message.from);
                let data = Task { instance: message.sent, work: Work::Data(message, recv) };
                return self.schedule_event(leaves + latency, Event::Ready(message.from, data));
            }
            Work::Post(flag, value) => self.posted(rank, flag, value),
            // The clearance of a message is no step of a schedule.
            Work::Compute(_) => return,
            _ => {}
        }
        self.ranks[rank as usize].cursor.complete(task.instance);
    }

    /// Sends a message without handshake, which leaves its host at `carried`.
    fn send_off(&mut self, carried: Time, message: Message) {
        let is_brought = self.layout.distance(message.from, message.to) == DISTANCES - 1;
        let event = if is_brought { Event::Carried(message) } else { Event::Arrived(message) };
        self.schedule_event(carried + self.prices.latency(self.layout, message.from, message.to), event);
    }

    fn posted(&mut self, owner: u32, flag: u16, value: u64) {
        let (now, gap) = (self.now, self.prices.line_gap);
        let state = self.flag(owner, flag);
        state.value = value;
        let mut woken = Vec::new();
        state.waiting.retain(|&(rank, wanted, instance)| {
            if wanted <= value {
                woken.push((rank, state.line.book(now, gap) - gap, instance));
            }
            wanted > value
        });
        for (rank, seen, instance) in woken {
            self.saw(rank, owner, flag, value);
            let line = self.prices.line(self.layout.distance(owner, rank));
            self.schedule_event(seen + line, Event::Ready(rank, Task { instance, work: Work::Nothing }));
        }
    }
}
