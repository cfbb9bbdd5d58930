//! All ranks of one operation, event by event.
//!
//! A rank is a processor's program: it starts what its cursor lets it, does the work that has come up, one
//! piece after the other, and gives its processor away when there is none. Pieces of work ([`Task`]) have a
//! length when they begin; what they cause elsewhere (a message arrives, a flag is seen) are events.

mod queue;
mod steps;
mod work;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::convert::Infallible;

use tutti_base::trace::{self, Action, Level};

use queue::Queue;
use steps::{Flag, Side, Waiting};
use work::{Message, Task, Work};

use super::layout::Layout;
use super::load::Load;
use super::prices::{Lines, Prices, Way};
use super::resources::{Processors, Time};
use super::series::Series;
use crate::coprime::coprime_from;
use crate::cursor::{Cursor, Instance};
use crate::ir::{BufferId, Index, Kind, Schedule, StepId, Tables};

/// What happens at some time.
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
    /// The network has brought a message to its host.
    Carried(Message),
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
    /// Until when its device is busy.
    device: Time,
    /// It has a processor and work, or waits for a processor.
    awake: bool,
    /// It has a processor and waits for work.
    spins: bool,
    /// How often it came to wait.
    rests: u32,
    /// Operations that it has done.
    operations: u32,
    /// It has done one more, and computes.
    computes: bool,
    /// So many parts it has still to compute beside its operation.
    parts: u32,
    /// Until when it moves its operation on before it computes, and whether that will wake it.
    pushes: (Time, bool),
    /// When it began its second operation.
    second_begin: Time,
    /// It may not begin another one before others have left an earlier one.
    held_back: bool,
    end: Option<Time>,
}

/// Picoseconds, in which time is counted here, in a nanosecond.
const PS_PER_NS: Time = 1000;

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
    /// As [`Prices::longest_share`].
    pub longest_share: Time,
    /// When each rank began its second operation, if there was one.
    pub second_begins: Vec<Time>,
    /// For each operation, the sums over the ranks of when they began and ended it.
    pub turns: Vec<[Time; 2]>,
    /// It was not simulated to its end, which lies beyond the last moment that was of interest.
    pub gave_up: bool,
}

/// See the module.
pub(super) struct Machine<'a> {
    series: &'a Series<'a>,
    tables: Tables<'a>,
    unit_bytes: u64,
    layout: &'a Layout,
    prices: Prices<'a>,
    now: Time,
    queue: Queue,
    ranks: Vec<Rank>,
    pools: Vec<Processors>,
    turns: Vec<[Time; 2]>,
    /// So many operations may be under way.
    slots: u32,
    /// What happens later is of no interest.
    until: Time,
    tasks: u64,
    forced: u64,
    /// What every rank did, if that is asked for.
    events: Option<Vec<trace::Event>>,
}

impl<'a> Machine<'a> {
    pub fn new(
        series: &'a Series<'a>,
        load: &'a Load,
        layout: &'a Layout,
        prices: Prices<'a>,
    ) -> Machine<'a> {
        let rank = |schedule: &Schedule| {
            let mut cursor = Cursor::default();
            cursor.reset(schedule);
            let (messages, flags, seen) = (Vec::new(), Vec::new(), Vec::new());
            let ways = [(Way::Mapped(Lines::Known), BufferId::SEND); BufferId::EXPOSURES as usize];
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
                device: 0,
                awake: true,
                spins: false,
                rests: 0,
                operations: 0,
                computes: false,
                parts: series.computes_beside().parts(),
                pushes: (series.computes_beside().pushed(), false),
                second_begin: 0,
                held_back: false,
                end: None,
            }
        };
        // All schedules that have one have the same.
        let permutation =
            series.all().map(|schedule| &schedule.permutation[..]).find(|order| !order.is_empty());
        let permutation = permutation.unwrap_or_default();
        let pools = layout.pools().iter().map(|pool| Processors::new(pool.processors, pool.ranks));
        Machine {
            series,
            tables: Tables { permutation, ..load.tables() },
            unit_bytes: load.shape().unit_bytes,
            layout,
            prices,
            now: 0,
            queue: Queue::default(),
            ranks: series.of(0).iter().map(rank).collect(),
            pools: pools.collect(),
            turns: vec![[0; 2]; series.order.len()],
            slots: slots(series, load.shape().unit_bytes),
            until: Time::MAX,
            tasks: 0,
            forced: 0,
            events: None,
        }
    }

    /// Gives up an operation that is not over then.
    pub fn until(self, until: Time) -> Self {
        Machine { until, ..self }
    }

    /// As [`Machine::run`], with what every rank did.
    pub fn run_observed(mut self) -> (Run, Vec<trace::Event>) {
        self.events = Some(Vec::new());
        self.run_on()
    }

    /// Runs to the end. Steps that nothing completes (there are none in schedules that were proved, but in
    /// loops that were cut short) are completed when nothing else happens any more.
    pub fn run(self) -> Run {
        self.run_on().0
    }

    fn run_on(mut self) -> (Run, Vec<trace::Event>) {
        // Where ranks share processors nobody says which of them run side by side; so not those that talk
        // first, which are neighbours or at distances that are powers of two.
        let ranks = self.ranks.len() as u64;
        let stride = stride(ranks);
        for place in 0..ranks {
            self.acquire((place * stride % ranks) as u32, 0);
        }
        let mut gave_up = false;
        loop {
            while let Some((time, event)) = self.queue.pop() {
                self.now = time;
                gave_up = time > self.until;
                if gave_up {
                    break;
                }
                match event {
                    Event::Ready(rank, task) => self.give(rank, task),
                    Event::Done(rank, task) => {
                        self.done(rank, task);
                        self.go(rank);
                    }
                    Event::Run(rank) => self.go(rank),
                    Event::Go(rank) => self.wake(rank),
                    Event::Yield(rank, rest) => self.yields(rank, rest),
                    Event::Carried(message) => self.carried(message),
                    Event::Arrived(message) => self.arrived(message),
                }
            }
            if gave_up || !self.force() {
                break;
            }
        }
        let ends = self.ranks.iter().map(|rank| rank.end.unwrap_or(self.now)).collect();
        let second_begins = self.ranks.iter().map(|rank| rank.second_begin).collect();
        (
            Run {
                ends,
                second_begins,
                tasks: self.tasks,
                forced: self.forced,
                work: self.prices.work,
                longest_share: self.prices.longest_share(self.layout),
                turns: self.turns,
                gave_up,
            },
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
            let is_idle = self.ranks[rank as usize].ready.is_empty();
            if is_idle && (self.computes_beside(rank) || self.again(rank)) {
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
        if matches!(task.work, Work::Request(_) | Work::Clear(..) | Work::Compute(_)) {
            return;
        }
        let Instance { step, iteration } = task.instance;
        let at = |peer: Index| peer.at(iteration) as u32;
        let schedule = self.schedule(rank);
        let (action, peer, what, lane, value) = match &schedule.steps[step.0 as usize].kind {
            Kind::Send { peer, lane, from } => (Action::Send, at(*peer), Some(from), *lane, 0),
            Kind::Multicast { group, lane, from } => {
                let first = schedule.groups[usize::from(*group)][0];
                (Action::Send, first, Some(from), *lane, 0)
            }
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
            Kind::FileRead { into, .. } => (Action::FileRead, rank, Some(into), 0, 0),
            Kind::FileWrite { from, .. } => (Action::FileWrite, rank, Some(from), 0, 0),
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

    /// What `rank` is at.
    fn schedule(&self, rank: u32) -> &'a Schedule {
        let series = self.series;
        &series.of(self.ranks[rank as usize].operations)[rank as usize]
    }

    /// A rank whose operation has nothing for it to do computes the next part of what there is beside it.
    fn computes_beside(&mut self, rank: u32) -> bool {
        let schedule = self.schedule(rank);
        let state = &mut self.ranks[rank as usize];
        if state.parts == 0 {
            return false;
        }
        let (until, is_noted) = state.pushes;
        if self.now < until && !state.cursor.finished(schedule) {
            if !is_noted {
                state.pushes = (until, true);
                self.at(until, Event::Go(rank));
            }
            return false;
        }
        state.parts -= 1;
        let instance = Instance { step: StepId(0), iteration: 0 };
        state.ready.push_back(Task { instance, work: Work::Compute(self.series.computes_beside().part()) });
        true
    }

    /// A rank that has done an operation computes, and begins the next one, if there is one and it may.
    fn again(&mut self, rank: u32) -> bool {
        let (schedule, times) = (self.schedule(rank), self.series.order.len() as u32);
        let state = &mut self.ranks[rank as usize];
        let is_over = state.held_back || state.parts == 0 && state.cursor.finished(schedule);
        if state.end.is_some() || !is_over {
            return false;
        }
        if !std::mem::take(&mut state.held_back) {
            if !std::mem::take(&mut state.computes) {
                self.turns[state.operations as usize][1] += self.now;
                let seconds = self.series.computes(rank);
                if state.operations + 1 < times && seconds > 0 {
                    state.computes = true;
                    let instance = Instance { step: StepId(0), iteration: 0 };
                    state.ready.push_back(Task { instance, work: Work::Compute(seconds) });
                    return true;
                }
            }
            state.operations += 1;
            if state.operations == times {
                state.end = Some(self.now);
            }
            self.release_held_back(rank);
        }
        if self.ranks[rank as usize].end.is_some() {
            return false;
        }
        let least = self.ranks.iter().map(|rank| rank.operations).min().unwrap_or(0);
        let state = &mut self.ranks[rank as usize];
        if state.operations >= least.saturating_add(self.slots) {
            state.held_back = true;
            return false;
        }
        self.turns[state.operations as usize][0] += self.now;
        if state.operations == 1 {
            state.second_begin = self.now;
        }
        let schedule = self.schedule(rank);
        let beside = self.series.computes_beside();
        let state = &mut self.ranks[rank as usize];
        state.cursor.reset(schedule);
        state.parting = schedule.parting();
        (state.wrote, state.lends) = (false, false);
        (state.parts, state.pushes) = (beside.parts(), (self.now + beside.pushed(), false));
        true
    }

    /// Wakes those that waited for the slowest rank, if this was it.
    fn release_held_back(&mut self, rank: u32) {
        if self.series.order.len() == 1 {
            return;
        }
        let done = self.ranks[rank as usize].operations;
        let least = self.ranks.iter().map(|rank| rank.operations).min().unwrap_or(0);
        if least < done {
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
            self.prices.work += self.prices.sleep;
            self.release(rank);
        }
    }

    fn release(&mut self, rank: u32) {
        let place = self.layout.place(rank).pool as usize;
        if let Some(next) = self.pools[place].release(rank) {
            self.at(self.now + self.switch(place), Event::Run(next));
        }
    }

    /// From one rank of a pool to another that has work: those that wait are asked in between, as they look
    /// for themselves.
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
        let schedule = self.schedule(rank);
        let mut cursor = std::mem::take(&mut self.ranks[rank as usize].cursor);
        // Moves the cursor past what is complete, which it then need not look at.
        cursor.finished(schedule);
        let started = cursor.advance(schedule, |instance| Ok::<bool, Infallible>(self.start(rank, instance)));
        started.unwrap_or_else(|never| match never {});
        self.ranks[rank as usize].cursor = cursor;
    }

    /// Completes all that is waited for; whether there was any.
    fn force(&mut self) -> bool {
        let mut stuck: Vec<(u32, Instance)> = Vec::new();
        for receiver in 0..self.ranks.len() {
            let waiting = std::mem::take(&mut self.ranks[receiver].messages);
            stuck.extend(waiting.into_iter().filter_map(|waiting| match waiting.side {
                Side::Posted(instance) => Some((receiver as u32, instance)),
                Side::Arrived(message) if self.is_eager(&message) => None,
                Side::Arrived(message) => Some((message.from, message.sent)),
            }));
            let flags = self.ranks[receiver].flags.iter_mut().flat_map(|flag| flag.waiting.drain(..));
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
fn slots(series: &Series<'_>, unit_bytes: u64) -> u32 {
    let is_large = series.all().any(|one| one.bank * unit_bytes > SMALL_BANK_BYTES);
    if is_large { LARGE_SLOTS } else { u32::MAX / 2 }
}

/// Operations that have a large bank may be so many.
const LARGE_SLOTS: u32 = 8;
/// A larger bank is one of few.
const SMALL_BANK_BYTES: u64 = 4096;

/// Without a divisor in common with `ranks`, near the golden section of it.
fn stride(ranks: u64) -> u64 {
    coprime_from((ranks * 5).div_ceil(8).max(1), ranks)
}
