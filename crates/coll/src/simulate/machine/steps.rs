//! Starts of the steps of a schedule: their work, or the event that they wait for.

use super::work::{Message, Task, Work};
use super::{Event, Machine};
use crate::cursor::Instance;
use crate::ir::{Access, BufferId, Division, Index, Kind, Length, Span};
use crate::simulate::prices::{Lines, Way};
use crate::simulate::resources::Server;

/// One side of a message that waits for the other.
pub(super) struct Waiting {
    pub peer: u32,
    pub lane: u16,
    pub side: Side,
}

/// Side of a message that is present, with the data to continue when the other side is there.
pub(super) enum Side {
    Arrived(Message),
    Posted(Instance),
}

/// A flag of a rank.
#[derive(Default)]
pub(super) struct Flag {
    pub value: u64,
    pub line: Server,
    /// Ranks that wait for a value, with the step to continue.
    pub waiting: Vec<(u32, u64, Instance)>,
}

/// Number of others' flags that a rank remembers to have seen.
const REMEMBERED: usize = 64;

impl Machine<'_> {
    /// Starts a step; returns true if it was complete at once.
    pub(super) fn start(&mut self, rank: u32, instance: Instance) -> bool {
        let kind = &self.schedule(rank).steps[instance.step.0 as usize].kind;
        let iteration = instance.iteration;
        let own = |work| Task { instance, work };
        self.ranks[rank as usize].wrote |= kind.writes().is_some_and(|into| into.buffer == BufferId::RECV);
        let task = match *kind {
            Kind::Send { from: ref what, .. }
            | Kind::Multicast { from: ref what, .. }
            | Kind::Recv { into: ref what, .. }
                if self.bytes(what, instance) == 0 && !what.is_signal() =>
            {
                return true;
            }
            ref kind @ (Kind::Send { .. } | Kind::Multicast { .. }) => own(self.leave(rank, kind, instance)),
            Kind::Recv { peer, lane, .. } => {
                let peer = peer.in_iteration(iteration) as u32;
                let waiting = &mut self.ranks[rank as usize].messages;
                match take(waiting, peer, lane, |side| matches!(side, Side::Arrived(_))) {
                    Some(Side::Arrived(message)) => self.received(message, instance),
                    _ => {
                        waiting.push(Waiting { peer, lane, side: Side::Posted(instance) });
                        return false;
                    }
                }
            }
            Kind::Copy { ref from, ref into } => {
                let bytes = self.bytes(from, instance);
                own(if into.buffer == BufferId::BANK { Work::Store(bytes) } else { Work::Copy(bytes) })
            }
            Kind::Reduce { ref left, .. } => own(Work::Reduce(self.bytes(left, instance))),
            Kind::Post { flag, value } => {
                own(Work::Post(flag, self.word(rank, value.in_iteration(iteration))))
            }
            Kind::Await { .. } if self.is_free(rank, instance) => return true,
            // Every flag is 0 from the beginning.
            Kind::Await { value, .. } if value.in_iteration(iteration) == 0 => return true,
            Kind::Await { peer, flag, value } => {
                let (peer, value) =
                    (peer.in_iteration(iteration) as u32, self.word(rank, value.in_iteration(iteration)));
                match self.waits(rank, instance, peer, flag, value) {
                    Some(work) => own(work),
                    None => return self.sees(rank, peer, flag, value),
                }
            }
            Kind::Expose { slot, ref what, access } => {
                let bytes = self.lent(what, instance);
                let way = self.prices.way(bytes, access == Access::Read);
                self.ranks[rank as usize].ways[usize::from(slot)] = (way, what.buffer);
                self.ranks[rank as usize].lends |= way != Way::Bank;
                own(Work::Expose(if way == Way::Bank { bytes } else { 0 }))
            }
            ref kind @ (Kind::Pack { .. } | Kind::Unpack { .. }) => own(self.frame(kind, instance)),
            ref kind @ (Kind::Pull { .. } | Kind::Combine { .. } | Kind::Push { .. }) => {
                own(self.reach(kind, instance))
            }
            Kind::FileRead { into: ref what, .. } | Kind::FileWrite { from: ref what, .. } => {
                self.use_device(rank, instance, self.bytes(what, instance));
                return false;
            }
        };
        self.ranks[rank as usize].ready.push_back(task);
        false
    }

    /// Returns the work of a rank that sends a message.
    fn leave(&self, rank: u32, kind: &Kind, instance: Instance) -> Work {
        match *kind {
            Kind::Send { peer, lane, ref from } => {
                let (to, bytes) = (peer.in_iteration(instance.iteration) as u32, self.bytes(from, instance));
                let message = Message { from: rank, to, lane, bytes, cast: false, sent: instance };
                if self.is_eager(&message) { Work::Eager(message) } else { Work::Request(message) }
            }
            Kind::Multicast { group, lane, ref from } => {
                Work::Cast { group, lane, bytes: self.bytes(from, instance) }
            }
            _ => unreachable!("only called for steps that send"),
        }
    }

    /// Returns the work of a step that accesses the memory of a peer.
    fn reach(&self, kind: &Kind, instance: Instance) -> Work {
        let peer = |peer: &Index| peer.in_iteration(instance.iteration) as u32;
        match kind {
            Kind::Pull { peer: owner, from, into } => {
                self.access(peer(owner), from.buffer, into, instance, false)
            }
            Kind::Combine { peer: owner, from, into, .. } => {
                self.access(peer(owner), from.buffer, into, instance, true)
            }
            Kind::Push { peer: owner, from, into } => {
                let mut work = self.access(peer(owner), into.buffer, from, instance, false);
                if let Work::Access { way: Way::Mapped(lines) | Way::Call(lines), .. } = &mut work {
                    *lines = Lines::Read;
                }
                work
            }
            _ => unreachable!("only called for steps that access a peer's memory"),
        }
    }

    /// Starts an access of the device. It works by itself, one access after the other, while the rank
    /// continues.
    fn use_device(&mut self, rank: u32, instance: Instance, bytes: u64) {
        let begin = self.now.max(self.ranks[rank as usize].device);
        let end = begin + if bytes == 0 { 0 } else { self.prices.device(bytes) };
        self.ranks[rank as usize].device = end;
        self.schedule_event(end, Event::Ready(rank, Task { instance, work: Work::Nothing }));
    }

    pub(super) fn bytes(&self, span: &Span, instance: Instance) -> u64 {
        span.in_iteration(instance.iteration, &self.tables).length * self.unit_bytes
    }

    /// Returns the work of writing or reading a frame.
    fn frame(&self, kind: &Kind, instance: Instance) -> Work {
        let (block, frame) = match kind {
            Kind::Pack { from, into } => (from, into),
            Kind::Unpack { from, into, .. } => (into, from),
            _ => unreachable!("only called for steps on frames"),
        };
        let held = self.bytes(block, instance);
        let held = if Kind::fits(held, self.bytes(frame, instance)) { held } else { 0 };
        let bytes = Kind::FRAME_HEADER + held;
        match kind {
            Kind::Unpack { peer, .. } => {
                let peer = peer.in_iteration(instance.iteration) as u32;
                Work::Access { peer, bytes, way: Way::Bank, combine: false, into_bank: false }
            }
            _ => Work::Store(bytes),
        }
    }

    /// Returns the content of a flag: the number of the operation and the value.
    fn word(&self, rank: u32, value: u64) -> u64 {
        u64::from(self.ranks[rank as usize].operations) << 24 | value
    }

    /// Returns the number of exposed bytes. In a buffer of blocks by a table, the own block is not used by
    /// others and does not count.
    fn lent(&self, what: &Span, instance: Instance) -> u64 {
        let bytes = self.bytes(what, instance);
        match what.length {
            Length::Blocks { division: Division::Table(_), count: 2.., .. } => {
                bytes - bytes / self.ranks.len() as u64
            }
            _ => bytes,
        }
    }

    /// Returns true if a rank in its final waits may leave at once, because no other rank uses its memory.
    fn is_free(&self, rank: u32, instance: Instance) -> bool {
        let rank = &self.ranks[rank as usize];
        instance.step >= rank.parting && !rank.lends
    }

    fn access(&self, peer: u32, theirs: BufferId, own: &Span, instance: Instance, combine: bool) -> Work {
        let owner = &self.ranks[peer as usize];
        let lines = |buffer: BufferId| match buffer {
            BufferId::RECV if owner.wrote => Lines::Fresh,
            // The buffer of a root, which only writes it again.
            BufferId::RECV => Lines::Read,
            // Temporaries have just been written by their owner.
            room if room.temporary().is_some() => Lines::Fresh,
            _ => Lines::Known,
        };
        let way = match theirs.exposure().map(|slot| owner.ways[usize::from(slot)]) {
            None => Way::Bank,
            Some((Way::Mapped(_), buffer)) => Way::Mapped(lines(buffer)),
            Some((Way::Call(_), buffer)) => Way::Call(lines(buffer)),
            Some((way, _)) => way,
        };
        let into_bank = combine && own.buffer == BufferId::BANK;
        Work::Access { peer, bytes: self.bytes(own, instance), way, combine, into_bank }
    }

    pub(super) fn is_eager(&self, message: &Message) -> bool {
        message.cast || self.prices.is_eager(self.layout, message.from, message.to, message.bytes)
    }

    /// Returns the work of a message for its receiver.
    fn received(&self, message: Message, instance: Instance) -> Task {
        let work = if self.is_eager(&message) { Work::Take(message) } else { Work::Clear(message, instance) };
        Task { instance, work }
    }

    /// Returns true if a rank knows already that a flag has a value.
    fn sees(&self, rank: u32, peer: u32, flag: u16, value: u64) -> bool {
        let this = &self.ranks[rank as usize];
        if rank == peer {
            return this.flags.get(usize::from(flag)).is_some_and(|flag| flag.value >= value);
        }
        let mut seen = this.seen.iter();
        seen.any(|&(of, number, seen)| (of, number) == (peer, flag) && seen >= value)
    }

    /// Records that a rank has seen the value of a flag.
    pub(super) fn saw(&mut self, rank: u32, peer: u32, flag: u16, value: u64) {
        let seen = &mut self.ranks[rank as usize].seen;
        match seen.iter().position(|&(of, number, _)| (of, number) == (peer, flag)) {
            Some(place) => seen[place].2 = value,
            None if seen.len() < REMEMBERED => seen.push((peer, flag, value)),
            None => {}
        }
    }

    pub(super) fn flag(&mut self, owner: u32, flag: u16) -> &mut Flag {
        let flags = &mut self.ranks[owner as usize].flags;
        if flags.len() <= usize::from(flag) {
            flags.resize_with(usize::from(flag.max(Kind::FLAGS - 1)) + 1, Flag::default);
        }
        &mut flags[usize::from(flag)]
    }

    /// Returns the first work of a wait for a flag. There is none if the value was seen already, or if it is
    /// not set yet; then the rank is recorded as waiting.
    fn waits(&mut self, rank: u32, instance: Instance, peer: u32, flag: u16, value: u64) -> Option<Work> {
        if self.sees(rank, peer, flag, value) {
            return None;
        }
        let state = self.flag(peer, flag);
        if state.value >= value {
            let known = state.value;
            self.saw(rank, peer, flag, known);
            return Some(Work::Look(peer, flag));
        }
        state.waiting.push((rank, value, instance));
        None
    }

    /// Handles a message that the network has brought to its host, whose interface may still be busy with
    /// others.
    pub(super) fn carried(&mut self, message: Message) {
        let Message { from, to, bytes, .. } = message;
        let landed = self.prices.land(self.now, self.layout, from, to, bytes);
        if landed > self.now {
            return self.schedule_event(landed, Event::Arrived(message));
        }
        self.arrived(message);
    }

    pub(super) fn arrived(&mut self, message: Message) {
        let Message { from: peer, lane, .. } = message;
        let waiting = &mut self.ranks[message.to as usize].messages;
        match take(waiting, peer, lane, |side| matches!(side, Side::Posted(_))) {
            Some(Side::Posted(instance)) => {
                let task = self.received(message, instance);
                self.give(message.to, task);
            }
            _ => waiting.push(Waiting { peer, lane, side: Side::Arrived(message) }),
        }
    }
}

/// Removes the first message of a lane that waits on the given side.
fn take(waiting: &mut Vec<Waiting>, peer: u32, lane: u16, side: fn(&Side) -> bool) -> Option<Side> {
    let found = waiting.iter().position(|one| one.peer == peer && one.lane == lane && side(&one.side))?;
    Some(waiting.remove(found).side)
}
