//! All ranks of one operation, event by event.
//!
//! A rank is a processor's program: it starts what its cursor lets it, does the work that has come up, one piece after the
//! other, and gives its processor away when there is none. Pieces of work ([`Task`]) have a length when they begin; what
//! they cause elsewhere (a message arrives, a flag is seen) are events.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::convert::Infallible;

use tutti_base::trace::{self, Action, Level};

use super::layout::Layout;
use super::load::Load;
use super::prices::{Prices, Way};
use super::resources::{Processors, Server, Time};
use crate::cursor::{Cursor, Instance};
use crate::ir::{Access, BufferId, Division, Index, Kind, Length, Schedule, Span, StepId, Tables};
use crate::model::DISTANCES;

/// A piece of work of one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Work {
    /// What has no work any more: a flag was seen.
    Nothing,
    /// Sends a message that needs no handshake.
    Eager(Message),
    /// Asks whether a long message may come.
    Request(Message),
    /// Takes a message that has arrived.
    Take(Message),
    /// Answers a request.
    Clear(Message, Instance),
    /// Sends a long message to the step of its receiver.
    Data(Message, Instance),
    /// Takes a long message, which ends not before this.
    Fetch(Message, Time),
    /// Copies bytes.
    Copy(u64),
    /// Copies bytes into the own bank.
    Store(u64),
    /// Combines bytes.
    Reduce(u64),
    /// Sets a flag.
    Post(u16, u64),
    /// Reads the flag of a rank, set before.
    Look(u32, u16),
    /// Publishes memory, so many bytes of which travel by value.
    Expose(u64),
    /// Moves bytes from or to another's bank or memory, or combines them with own ones.
    Access { peer: u32, bytes: u64, way: Way, combine: bool, into_bank: bool },
}

/// A message, by the sender's step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Message {
    from: u32,
    to: u32,
    lane: u16,
    bytes: u64,
    sent: Instance,
}

/// A piece of work and the step that is complete after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Task {
    instance: Instance,
    work: Work,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A rank has work.
    Ready(u32, Task),
    /// A rank has done its work.
    Done(u32, Task),
    /// A rank has a processor.
    Run(u32),
    /// A rank that had to wait for others may begin its next operation.
    Go(u32),
    /// A rank has waited for so long (since its rest of this number) that it gives its processor away.
    Yield(u32, u32),
    /// A message, or the request for one, has arrived.
    Arrived(Message),
}

/// What one rank is at.
struct Rank {
    cursor: Cursor,
    ready: VecDeque<Task>,
    /// Messages to it of which one side is there, in the order in which that came.
    messages: Vec<Waiting>,
    /// Its flags; none before the first is used.
    flags: Vec<Flag>,
    /// How others get at what it has exposed as this number, and of which buffer that is a part.
    ways: [(Way, BufferId); BufferId::EXPOSURES as usize],
    /// What it has exposed does not all travel by value.
    lends: bool,
    /// From here on it waits for those who use its memory.
    parting: StepId,
    /// It has written to its receive buffer in this operation.
    wrote: bool,
    /// The values of others' flags that it has seen.
    seen: Vec<(u32, u16, u64)>,
    /// Until when the network is busy with the message that the rank is at.
    carried: Time,
    /// It has a processor and work, or waits for a processor.
    awake: bool,
    /// It has a processor and waits for work.
    spins: bool,
    /// How often it came to wait.
    rests: u32,
    /// Operations that it has done.
    operations: u32,
    /// It may not begin another one before others have left an earlier one.
    held_back: bool,
    end: Option<Time>,
}

/// One side of a message that waits for the other.
struct Waiting {
    peer: u32,
    lane: u16,
    side: Side,
}

enum Side {
    Arrived(Message),
    Posted(Instance),
}

/// A flag of a rank.
#[derive(Default)]
struct Flag {
    value: u64,
    line: Server,
    /// Who waits for which value.
    waiting: Vec<(u32, u64, Instance)>,
}

/// Picoseconds, in which time is counted here, in a nanosecond.
const PS_PER_NS: Time = 1000;

/// So many flags of others a rank remembers to have seen.
const REMEMBERED: usize = 64;

/// What is still to happen, in the order of time, then of becoming known. The heap moves its items about, so they are
/// small, and the events lie beside it.
#[derive(Default)]
struct Queue {
    /// Time, sequence, place in `events`.
    heap: BinaryHeap<Reverse<(Time, u32, u32)>>,
    events: Vec<Event>,
    free: Vec<u32>,
    sequence: u32,
}

impl Queue {
    fn push(&mut self, time: Time, event: Event) {
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

    fn pop(&mut self) -> Option<(Time, Event)> {
        let Reverse((time, _, place)) = self.heap.pop()?;
        self.free.push(place);
        Some((time, self.events[place as usize]))
    }

    /// Whether something happens until `time`.
    fn until(&self, time: Time) -> bool {
        self.heap.peek().is_some_and(|Reverse((next, ..))| *next <= time)
    }
}

/// How an operation went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// When each rank was done.
    pub ends: Vec<Time>,
    /// Pieces of work.
    pub tasks: u64,
    /// Waits that nothing ended, in a run that was cut short.
    pub forced: u64,
    /// Work of all ranks on data and messages.
    pub work: Time,
}

/// See the module.
pub(super) struct Machine<'a> {
    schedules: &'a [Schedule],
    tables: Tables<'a>,
    unit_bytes: u64,
    layout: &'a Layout,
    prices: Prices<'a>,
    now: Time,
    queue: Queue,
    ranks: Vec<Rank>,
    pools: Vec<Processors>,
    /// How often the operation is done, each rank beginning again as soon as it may.
    times: u32,
    /// So many operations may be under way.
    slots: u32,
    tasks: u64,
    forced: u64,
    /// What every rank did, if that is asked for.
    events: Option<Vec<trace::Event>>,
}

impl<'a> Machine<'a> {
    pub fn new(
        schedules: &'a [Schedule],
        load: &'a Load,
        layout: &'a Layout,
        prices: Prices<'a>,
        times: u32,
    ) -> Machine<'a> {
        let rank = |schedule: &Schedule| {
            let mut cursor = Cursor::default();
            cursor.reset(schedule);
            let (messages, flags, seen) = (Vec::new(), Vec::new(), Vec::new());
            let ways = [(Way::Mapped, BufferId::SEND); BufferId::EXPOSURES as usize];
            Rank {
                cursor,
                ready: VecDeque::new(),
                messages,
                flags,
                ways,
                lends: false,
                parting: schedule.parting(),
                wrote: false,
                seen,
                carried: 0,
                awake: true,
                spins: false,
                rests: 0,
                operations: 0,
                held_back: false,
                end: None,
            }
        };
        // All schedules that have one have the same.
        let permutation =
            schedules.iter().map(|schedule| &schedule.permutation[..]).find(|order| !order.is_empty());
        let permutation = permutation.unwrap_or_default();
        let pools = layout.pools().iter().map(|pool| Processors::new(pool.processors, pool.ranks));
        Machine {
            schedules,
            tables: Tables { permutation, ..load.tables() },
            unit_bytes: load.shape().unit_bytes,
            layout,
            prices,
            now: 0,
            queue: Queue::default(),
            ranks: schedules.iter().map(rank).collect(),
            pools: pools.collect(),
            times,
            slots: slots(schedules, load.shape().unit_bytes),
            tasks: 0,
            forced: 0,
            events: None,
        }
    }

    /// As [`Machine::run`], with what every rank did.
    pub fn run_observed(mut self) -> (Run, Vec<trace::Event>) {
        self.events = Some(Vec::new());
        self.run_on()
    }

    /// Runs to the end. Steps that nothing completes (there are none in schedules that were proved, but in loops
    /// that were cut short) are completed when nothing else happens any more.
    pub fn run(self) -> Run {
        self.run_on().0
    }

    fn run_on(mut self) -> (Run, Vec<trace::Event>) {
        // Where ranks share processors nobody says which of them run side by side; so not those that talk first, which are
        // neighbours or at distances that are powers of two.
        let ranks = self.schedules.len() as u64;
        let stride = stride(ranks);
        for place in 0..ranks {
            self.acquire((place * stride % ranks) as u32, 0);
        }
        loop {
            while let Some((time, event)) = self.queue.pop() {
                self.now = time;
                match event {
                    Event::Ready(rank, task) => self.give(rank, task),
                    Event::Done(rank, task) => {
                        self.done(rank, task);
                        self.go(rank);
                    }
                    Event::Run(rank) => self.go(rank),
                    Event::Go(rank) => self.wake(rank),
                    Event::Yield(rank, rest) => self.yields(rank, rest),
                    Event::Arrived(message) => self.arrived(message),
                }
            }
            if !self.force() {
                break;
            }
        }
        let ends = self.ranks.iter().map(|rank| rank.end.unwrap_or(self.now)).collect();
        (
            Run { ends, tasks: self.tasks, forced: self.forced, work: self.prices.work },
            self.events.unwrap_or_default(),
        )
    }

    fn at(&mut self, time: Time, event: Event) {
        self.queue.push(time, event);
    }

    fn acquire(&mut self, rank: u32, now: Time) {
        let place = self.layout.place(rank).pool as usize;
        let switch = self.switch(place);
        if let Some(time) = self.pools[place].acquire(rank, now, switch) {
            self.at(time, Event::Run(rank));
        }
    }

    /// Something to do for a rank.
    fn give(&mut self, rank: u32, task: Task) {
        let state = &mut self.ranks[rank as usize];
        state.ready.push_back(task);
        self.wake(rank);
    }

    fn wake(&mut self, rank: u32) {
        let state = &mut self.ranks[rank as usize];
        if state.awake {
            return;
        }
        state.awake = true;
        if std::mem::take(&mut state.spins) {
            return self.at(self.now, Event::Run(rank));
        }
        self.acquire(rank, self.now);
    }

    /// A rank that has a processor goes on until something else happens before it is done.
    fn go(&mut self, rank: u32) {
        loop {
            self.advance(rank);
            if self.ranks[rank as usize].ready.is_empty() && self.again(rank) {
                continue;
            }
            let Some(task) = self.ranks[rank as usize].ready.pop_front() else {
                return self.rest(rank);
            };
            let end = self.begin(rank, task);
            self.tasks += 1;
            if self.events.is_some() {
                self.observe(rank, task, end.max(self.ranks[rank as usize].carried));
            }
            if self.queue.until(end) {
                return self.at(end, Event::Done(rank, task));
            }
            self.now = end;
            self.done(rank, task);
        }
    }

    /// Notes a piece of work that lasts until `end`.
    fn observe(&mut self, rank: u32, task: Task, end: Time) {
        if matches!(task.work, Work::Request(_) | Work::Clear(..)) {
            return;
        }
        let Instance { step, iteration } = task.instance;
        let at = |peer: Index| peer.at(iteration) as u32;
        let schedules = self.schedules;
        let (action, peer, what, lane, value) = match &schedules[rank as usize].steps[step.0 as usize].kind {
            Kind::Send { peer, lane, from } => (Action::Send, at(*peer), Some(from), *lane, 0),
            Kind::Recv { peer, lane, into } => (Action::Receive, at(*peer), Some(into), *lane, 0),
            Kind::Copy { into, .. } => (Action::Copy, rank, Some(into), 0, 0),
            Kind::Pack { into, .. } => (Action::Copy, rank, Some(into), 0, 0),
            Kind::Unpack { peer, from, .. } => (Action::Pull, at(*peer), Some(from), 0, 0),
            Kind::Reduce { right, .. } => (Action::Reduce, rank, Some(right), 0, 0),
            Kind::Post { flag, value } => (Action::Post, rank, None, *flag, value.at(iteration)),
            Kind::Await { peer, flag, value } => (Action::Await, at(*peer), None, *flag, value.at(iteration)),
            Kind::Expose { what, .. } => (Action::Expose, rank, Some(what), 0, 0),
            Kind::Pull { peer, into, .. } => (Action::Pull, at(*peer), Some(into), 0, 0),
            Kind::Push { peer, from, .. } => (Action::Push, at(*peer), Some(from), 0, 0),
            Kind::Combine { peer, into, .. } => (Action::Combine, at(*peer), Some(into), 0, 0),
        };
        let bytes = what.filter(|what| !what.is_signal()).map_or(0, |what| self.bytes(what, task.instance));
        let host = |rank: u32| self.layout.place(rank).host;
        let level = match peer {
            _ if peer == rank => Level::Own,
            _ if host(peer) == host(rank) => Level::Node,
            _ => Level::Network,
        };
        let (start_ns, end_ns) = (self.now / PS_PER_NS, end / PS_PER_NS);
        let (key, name) = (u64::from(lane), Cow::Borrowed(""));
        let event = trace::Event { rank, action, level, peer, bytes, key, value, start_ns, end_ns, name };
        self.events.get_or_insert_default().push(event);
    }

    /// A rank that has done an operation begins the next one, if there is one and it may.
    fn again(&mut self, rank: u32) -> bool {
        let schedule = &self.schedules[rank as usize];
        let state = &mut self.ranks[rank as usize];
        if state.end.is_some() || !(state.held_back || state.cursor.finished(schedule)) {
            return false;
        }
        if !std::mem::take(&mut state.held_back) {
            state.operations += 1;
            if state.operations == self.times {
                state.end = Some(self.now);
            }
            self.release_held_back(rank);
        }
        let least = self.ranks.iter().map(|rank| rank.operations).min().unwrap_or(0);
        let state = &mut self.ranks[rank as usize];
        if state.end.is_some() {
            return false;
        }
        if state.operations >= least + self.slots {
            state.held_back = true;
            return false;
        }
        state.cursor.reset(schedule);
        (state.wrote, state.lends) = (false, false);
        true
    }

    /// Wakes those that waited for the slowest rank, if this was it.
    fn release_held_back(&mut self, rank: u32) {
        let done = self.ranks[rank as usize].operations;
        let least = self.ranks.iter().map(|rank| rank.operations).min().unwrap_or(0);
        if self.times == 1 || least < done {
            return;
        }
        for other in 0..self.ranks.len() as u32 {
            if self.ranks[other as usize].held_back {
                self.at(self.now, Event::Go(other));
            }
        }
    }

    fn rest(&mut self, rank: u32) {
        let state = &mut self.ranks[rank as usize];
        state.awake = false;
        let (ended, rest) = (state.end.is_some(), state.rests + 1);
        state.rests = rest;
        if ended || !self.pools[self.layout.place(rank).pool as usize].is_crowded() {
            return self.release(rank);
        }
        // Others get the processor once this one has looked in vain for some time.
        state.spins = true;
        self.at(self.now + self.prices.spin, Event::Yield(rank, rest));
    }

    fn yields(&mut self, rank: u32, rest: u32) {
        let state = &mut self.ranks[rank as usize];
        if state.spins && state.rests == rest {
            state.spins = false;
            self.release(rank);
        }
    }

    fn release(&mut self, rank: u32) {
        let place = self.layout.place(rank).pool as usize;
        if let Some(next) = self.pools[place].release(rank) {
            self.at(self.now + self.switch(place), Event::Run(next));
        }
    }

    /// From one rank of a pool to another that has work: those that wait are asked in between, as they look for themselves.
    fn switch(&self, pool: usize) -> Time {
        let processors = &self.pools[pool];
        if !processors.is_crowded() || self.prices.look == 0 {
            return self.prices.switch;
        }
        let waits = |rank: &Rank| !rank.awake && !rank.spins && rank.end.is_none();
        let waiting = (0..)
            .zip(&self.ranks)
            .filter(|(rank, state)| self.layout.place(*rank).pool as usize == pool && waits(state));
        let looks = waiting.count() as u64 / u64::from(self.layout.pools()[pool].processors.max(1));
        self.prices.switch + looks * self.prices.look
    }

    /// Starts what may start.
    fn advance(&mut self, rank: u32) {
        let schedule = &self.schedules[rank as usize];
        let mut cursor = std::mem::take(&mut self.ranks[rank as usize].cursor);
        // Moves the cursor past what is complete, which it then need not look at.
        cursor.finished(schedule);
        let started = cursor.advance(schedule, |instance| Ok::<bool, Infallible>(self.start(rank, instance)));
        started.unwrap_or_else(|never| match never {});
        self.ranks[rank as usize].cursor = cursor;
    }

    fn bytes(&self, span: &Span, instance: Instance) -> u64 {
        span.at(instance.iteration, &self.tables).length * self.unit_bytes
    }

    /// Starts a step; whether it was complete at once.
    fn start(&mut self, rank: u32, instance: Instance) -> bool {
        let kind = &self.schedules[rank as usize].steps[instance.step.0 as usize].kind;
        let iteration = instance.iteration;
        let own = |work| Task { instance, work };
        let task = match *kind {
            Kind::Send { peer, lane, ref from } => {
                let bytes = self.bytes(from, instance);
                if bytes == 0 && !from.is_signal() {
                    return true;
                }
                let message =
                    Message { from: rank, to: peer.at(iteration) as u32, lane, bytes, sent: instance };
                own(if self.is_eager(&message) { Work::Eager(message) } else { Work::Request(message) })
            }
            Kind::Recv { peer, lane, ref into } => {
                if self.bytes(into, instance) == 0 && !into.is_signal() {
                    return true;
                }
                let peer = peer.at(iteration) as u32;
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
                self.ranks[rank as usize].wrote |= into.buffer == BufferId::RECV;
                own(if into.buffer == BufferId::BANK { Work::Store(bytes) } else { Work::Copy(bytes) })
            }
            Kind::Reduce { ref left, .. } => own(Work::Reduce(self.bytes(left, instance))),
            Kind::Post { flag, value } => own(Work::Post(flag, self.word(rank, value.at(iteration)))),
            Kind::Await { .. } if self.is_free(rank, instance) => return true,
            // Every flag is 0 from the beginning.
            Kind::Await { value, .. } if value.at(iteration) == 0 => return true,
            Kind::Await { peer, flag, value } => {
                let (peer, value) = (peer.at(iteration) as u32, self.word(rank, value.at(iteration)));
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
            Kind::Pull { peer, ref from, ref into } => {
                own(self.access(peer.at(iteration) as u32, from.buffer, into, instance, false))
            }
            ref kind @ (Kind::Pack { .. } | Kind::Unpack { .. }) => own(self.frame(rank, kind, instance)),
            Kind::Combine { peer, ref from, ref into, .. } => {
                own(self.access(peer.at(iteration) as u32, from.buffer, into, instance, true))
            }
            Kind::Push { peer, ref from, ref into } => {
                let mut work = self.access(peer.at(iteration) as u32, into.buffer, from, instance, false);
                if let Work::Access { way: way @ Way::Fresh, .. } = &mut work {
                    *way = Way::Mapped;
                }
                own(work)
            }
        };
        self.ranks[rank as usize].ready.push_back(task);
        false
    }

    /// What it is to write or to read a frame.
    fn frame(&mut self, rank: u32, kind: &Kind, instance: Instance) -> Work {
        let (block, frame) = match kind {
            Kind::Pack { from, into } => (from, into),
            Kind::Unpack { from, into, .. } => (into, from),
            _ => unreachable!("the steps on frames"),
        };
        let held = self.bytes(block, instance);
        let held = if Kind::fits(held, self.bytes(frame, instance)) { held } else { 0 };
        let bytes = Kind::FRAME_HEADER + held;
        match kind {
            Kind::Unpack { peer, .. } => {
                self.ranks[rank as usize].wrote |= block.buffer == BufferId::RECV;
                let peer = peer.at(instance.iteration) as u32;
                Work::Access { peer, bytes, way: Way::Bank, combine: false, into_bank: false }
            }
            _ => Work::Store(bytes),
        }
    }

    /// What a flag holds: the number of the operation and the value.
    fn word(&self, rank: u32, value: u64) -> u64 {
        u64::from(self.ranks[rank as usize].operations) << 24 | value
    }

    /// Bytes that are lent: of blocks by a table, the own one is for none of the others.
    fn lent(&self, what: &Span, instance: Instance) -> u64 {
        let bytes = self.bytes(what, instance);
        match what.length {
            Length::Blocks { division: Division::Table(_), count: 2.., .. } => {
                bytes - bytes / self.schedules.len() as u64
            }
            _ => bytes,
        }
    }

    /// Whether a rank that only waits for those who use its memory may leave: nobody does.
    fn is_free(&self, rank: u32, instance: Instance) -> bool {
        let rank = &self.ranks[rank as usize];
        instance.step >= rank.parting && !rank.lends
    }

    fn access(&self, peer: u32, theirs: BufferId, own: &Span, instance: Instance, combine: bool) -> Work {
        let owner = &self.ranks[peer as usize];
        let way = match theirs.exposure().map(|slot| owner.ways[usize::from(slot)]) {
            None => Way::Bank,
            Some((Way::Mapped, BufferId::RECV)) if owner.wrote => Way::Fresh,
            Some((way, _)) => way,
        };
        let into_bank = combine && own.buffer == BufferId::BANK;
        Work::Access { peer, bytes: self.bytes(own, instance), way, combine, into_bank }
    }

    fn is_eager(&self, message: &Message) -> bool {
        self.prices.is_eager(self.layout, message.from, message.to, message.bytes)
    }

    /// The work that a message makes for who receives it.
    fn received(&self, message: Message, instance: Instance) -> Task {
        let work = if self.is_eager(&message) { Work::Take(message) } else { Work::Clear(message, instance) };
        Task { instance, work }
    }

    /// Whether a rank knows already that a flag has a value.
    fn sees(&self, rank: u32, peer: u32, flag: u16, value: u64) -> bool {
        let this = &self.ranks[rank as usize];
        if rank == peer {
            return this.flags.get(usize::from(flag)).is_some_and(|flag| flag.value >= value);
        }
        let mut seen = this.seen.iter();
        seen.any(|&(of, number, seen)| (of, number) == (peer, flag) && seen >= value)
    }

    /// A rank has seen the value of a flag.
    fn saw(&mut self, rank: u32, peer: u32, flag: u16, value: u64) {
        let seen = &mut self.ranks[rank as usize].seen;
        match seen.iter().position(|&(of, number, _)| (of, number) == (peer, flag)) {
            Some(place) => seen[place].2 = value,
            None if seen.len() < REMEMBERED => seen.push((peer, flag, value)),
            None => {}
        }
    }

    fn flag(&mut self, owner: u32, flag: u16) -> &mut Flag {
        let flags = &mut self.ranks[owner as usize].flags;
        if flags.len() <= usize::from(flag) {
            flags.resize_with(usize::from(flag.max(Kind::FLAGS - 1)) + 1, Flag::default);
        }
        &mut flags[usize::from(flag)]
    }

    /// What waiting for a flag begins with: nothing if it was seen already or if it is not set yet (then the rank is
    /// noted there).
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

    fn arrived(&mut self, message: Message) {
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

    /// A rank begins with a piece of work. Returns when it will be done.
    fn begin(&mut self, rank: u32, task: Task) -> Time {
        let now = self.now + self.prices.step;
        let prices = &mut self.prices;
        match task.work {
            Work::Nothing => now,
            Work::Eager(message) => {
                let (own, end) = prices.send(now, self.layout, message.from, message.to, message.bytes);
                self.ranks[rank as usize].carried = end;
                own
            }
            Work::Take(message) => prices.take(now, self.layout, message.from, message.to, message.bytes).1,
            Work::Request(_) | Work::Clear(..) => now + prices.overhead,
            Work::Data(message, recv) => {
                let (own, end) = prices.send(now, self.layout, message.from, message.to, message.bytes);
                let (first, last) = prices.fragments(self.layout, message.from, message.to, message.bytes);
                let fetch = Task { instance: recv, work: Work::Fetch(message, end + last) };
                self.at(now + first, Event::Ready(message.to, fetch));
                self.ranks[rank as usize].carried = end;
                own
            }
            Work::Fetch(message, end) => {
                let (own, carried) = prices.take(now, self.layout, message.from, message.to, message.bytes);
                if self.layout.distance(message.from, message.to) < DISTANCES - 1 {
                    return own.max(end);
                }
                self.ranks[rank as usize].carried = carried.max(end);
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

    /// What a piece of work causes when it is done. What the network still has to carry keeps no rank from other work.
    fn done(&mut self, rank: u32, task: Task) {
        let carried = std::mem::take(&mut self.ranks[rank as usize].carried).max(self.now);
        match task.work {
            Work::Data(..) | Work::Fetch(..) if carried > self.now => {
                let over = Task { instance: task.instance, work: Work::Nothing };
                return self.at(carried, Event::Ready(rank, over));
            }
            Work::Eager(message) | Work::Request(message) => {
                let latency = self.prices.latency(self.layout.distance(message.from, message.to));
                self.at(carried + latency, Event::Arrived(message));
                if matches!(task.work, Work::Request(_)) {
                    return;
                }
            }
            Work::Clear(message, recv) => {
                let latency = self.prices.latency(self.layout.distance(message.from, message.to));
                let data = Task { instance: message.sent, work: Work::Data(message, recv) };
                return self.at(self.now + latency, Event::Ready(message.from, data));
            }
            Work::Post(flag, value) => self.posted(rank, flag, value),
            _ => {}
        }
        self.ranks[rank as usize].cursor.complete(task.instance);
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
            self.at(seen + line, Event::Ready(rank, Task { instance, work: Work::Nothing }));
        }
    }

    /// Completes all that is waited for; whether there was any.
    fn force(&mut self) -> bool {
        let mut stuck: Vec<(u32, Instance)> = Vec::new();
        let (prices, layout) = (&self.prices, self.layout);
        let is_eager = |message: &Message| prices.is_eager(layout, message.from, message.to, message.bytes);
        for (receiver, rank) in (0..).zip(&mut self.ranks) {
            stuck.extend(rank.messages.drain(..).filter_map(|waiting| match waiting.side {
                Side::Posted(instance) => Some((receiver, instance)),
                Side::Arrived(message) if is_eager(&message) => None,
                Side::Arrived(message) => Some((message.from, message.sent)),
            }));
            let flags = rank.flags.iter_mut().flat_map(|flag| flag.waiting.drain(..));
            stuck.extend(flags.map(|(rank, _, instance)| (rank, instance)));
        }
        self.forced += stuck.len() as u64;
        for &(rank, instance) in &stuck {
            self.at(self.now, Event::Ready(rank, Task { instance, work: Work::Nothing }));
        }
        !stuck.is_empty()
    }
}

/// How many operations with these schedules may be under way: as many as there are slots for their banks.
fn slots(schedules: &[Schedule], unit_bytes: u64) -> u32 {
    let is_large = schedules.iter().any(|one| one.bank * unit_bytes > SMALL_BANK_BYTES);
    if is_large { LARGE_SLOTS } else { u32::MAX / 2 }
}

/// Operations that have a large bank may be so many.
const LARGE_SLOTS: u32 = 8;
/// A larger bank is one of few.
const SMALL_BANK_BYTES: u64 = 4096;

/// Without a divisor in common with `ranks`, near the golden section of it.
fn stride(ranks: u64) -> u64 {
    let divisor = |mut one: u64, mut two: u64| {
        while two > 0 {
            (one, two) = (two, one % two);
        }
        one
    };
    let least = (ranks * 5).div_ceil(8).max(1);
    (least..)
        .find(|&stride| divisor(stride, ranks) == 1)
        .expect("numbers that follow each other have none in common")
}

/// The first message of a lane that waits on this side.
fn take(waiting: &mut Vec<Waiting>, peer: u32, lane: u16, side: fn(&Side) -> bool) -> Option<Side> {
    let found = waiting.iter().position(|one| one.peer == peer && one.lane == lane && side(&one.side))?;
    Some(waiting.remove(found).side)
}
