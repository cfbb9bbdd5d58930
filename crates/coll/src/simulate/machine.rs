//! Simulation of all ranks of one operation, event by event.
//!
//! A rank is a program on a processor. It starts the steps that its cursor allows, does the resulting work
//! piece by piece, and releases its processor when there is none. The length of a piece of work ([`Task`]) is
//! known when it begins. Its effects elsewhere (a message arrives, a flag is seen) are events.

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

/// Event at a point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A rank has received a piece of work.
    Ready(u32, Task),
    /// A rank has finished a piece of work.
    Done(u32, Task),
    /// A rank has been given a processor.
    Run(u32),
    /// A rank that had to wait for others may begin its next operation.
    Go(u32),
    /// A rank has waited so long since its rest of this number that it releases its processor.
    Yield(u32, u32),
    /// The network has carried a message to its receiver's host.
    Carried(Message),
    /// A message, or the request for one, has arrived at its receiver.
    Arrived(Message),
}

/// State of one rank in the simulation.
struct Rank {
    cursor: Cursor,
    ready: VecDeque<Task>,
    /// Messages to it of which one side is present, in order of arrival.
    messages: Vec<Waiting>,
    /// Flags of the rank; empty before the first one is used.
    flags: Vec<Flag>,
    /// Access to each exposed span by peers, and the buffer that contains the span.
    ways: [(Way, BufferId); BufferId::EXPOSURES as usize],
    /// True if a span that it exposed is not sent by value.
    lends: bool,
    /// First of the final steps that wait for the users of its memory.
    parting: StepId,
    /// True if it has written to its receive buffer in this operation.
    wrote: bool,
    /// Values of others' flags that it has seen.
    seen: Vec<(u32, u16, u64)>,
    /// Time until which the network is busy with the rank's current message.
    carried: Time,
    /// Time until which its device is busy.
    device: Time,
    /// True if it has a processor and work, or waits for a processor.
    awake: bool,
    /// True if it has a processor and waits for work.
    spins: bool,
    /// Number of times that it began to wait.
    rests: u32,
    /// Number of operations that it has completed.
    operations: u32,
    /// True while it computes after one more completed operation.
    computes: bool,
    /// Number of parts that it still has to compute beside its operation.
    parts: u32,
    /// Time until which it progresses its operation before it computes, and whether an event for that time
    /// exists.
    pushes: (Time, bool),
    /// Time at which it began its second operation.
    second_begin: Time,
    /// True if it may not begin another operation before others have left an earlier one.
    held_back: bool,
    end: Option<Time>,
}

/// Picoseconds, the unit of time in the simulation, in a nanosecond.
const PS_PER_NS: Time = 1000;

/// Result of a simulated run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// Time at which each rank completed its last operation.
    pub ends: Vec<Time>,
    /// Number of simulated pieces of work.
    pub tasks: u64,
    /// Number of waits that nothing ended, in a run that was cut short.
    pub forced: u64,
    /// Work of all ranks on data and messages.
    pub work: Time,
    /// Result of [`Prices::longest_share`] for this run.
    pub longest_share: Time,
    /// Time at which each rank began its second operation, if there was one.
    pub second_begins: Vec<Time>,
    /// Sums over the ranks of the begin and end times of each operation.
    pub turns: Vec<[Time; 2]>,
    /// True if the run was stopped early, because its end lies beyond the time limit.
    pub gave_up: bool,
}

/// Simulated machine with all ranks; see the module's documentation.
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
    /// Number of operations that may be under way.
    slots: u32,
    /// Time limit; a run that exceeds it is stopped.
    until: Time,
    tasks: u64,
    forced: u64,
    /// Trace of the actions of all ranks, if requested.
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
        // All schedules that have a permutation have the same one.
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
            ranks: series.schedules(0).iter().map(rank).collect(),
            pools: pools.collect(),
            turns: vec![[0; 2]; series.order.len()],
            slots: slots(series, load.shape().unit_bytes),
            until: Time::MAX,
            tasks: 0,
            forced: 0,
            events: None,
        }
    }

    /// Sets the time limit after which a run is stopped.
    pub fn until(self, until: Time) -> Self {
        Machine { until, ..self }
    }

    /// Runs like [`Machine::run`], and returns the actions of all ranks too.
    pub fn run_observed(mut self) -> (Run, Vec<trace::Event>) {
        self.events = Some(Vec::new());
        self.run_on()
    }

    /// Runs to the end. A wait that nothing ends is completed when no other event is left. Proved schedules
    /// have no such waits, except those whose loops were cut short.
    pub fn run(self) -> Run {
        self.run_on().0
    }

    fn run_on(mut self) -> (Run, Vec<trace::Event>) {
        // If ranks share processors, it is not determined which of them run side by side. Here they are
        // chosen so that first partners do not: these are neighbours, or at distances that are powers of two.
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

    fn schedule_event(&mut self, time: Time, event: Event) {
        self.queue.push(time, event);
    }

    fn acquire(&mut self, rank: u32, now: Time) {
        let place = self.layout.place(rank).pool as usize;
        let switch = self.switch(place);
        if let Some(time) = self.pools[place].acquire(rank, now, switch) {
            self.schedule_event(time, Event::Run(rank));
        }
    }

    /// Gives a rank a piece of work.
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
            return self.schedule_event(self.now, Event::Run(rank));
        }
        self.acquire(rank, self.now);
    }

    /// Continues a rank that has a processor, until another event comes before the end of its work.
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
                return self.schedule_event(end, Event::Done(rank, task));
            }
            self.now = end;
            self.done(rank, task);
        }
    }

    /// Records a piece of work that lasts until `end`.
    fn observe(&mut self, rank: u32, task: Task, end: Time) {
        if matches!(task.work, Work::Request(_) | Work::Clear(..) | Work::Compute(_)) {
            return;
        }
        let Instance { step, iteration } = task.instance;
        let at = |peer: Index| peer.in_iteration(iteration) as u32;
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
            Kind::Post { flag, value } => (Action::Post, rank, None, *flag, value.in_iteration(iteration)),
            Kind::Await { peer, flag, value } => {
                (Action::Await, at(*peer), None, *flag, value.in_iteration(iteration))
            }
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

    /// Returns the schedule of the current operation of `rank`.
    fn schedule(&self, rank: u32) -> &'a Schedule {
        let series = self.series;
        &series.schedules(self.ranks[rank as usize].operations)[rank as usize]
    }

    /// Starts the next part of the computation beside an operation if that has no work for the rank. Returns
    /// false if no part can start.
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
                self.schedule_event(until, Event::Go(rank));
            }
            return false;
        }
        state.parts -= 1;
        let instance = Instance { step: StepId(0), iteration: 0 };
        state.ready.push_back(Task { instance, work: Work::Compute(self.series.computes_beside().part()) });
        true
    }

    /// Starts the computation after an operation, and then the next operation if there is one and the rank
    /// may begin it. Returns false if the rank has nothing to do.
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

    /// Wakes the ranks that waited for the slowest rank, if it was this one.
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
                self.schedule_event(self.now, Event::Go(other));
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
        // The processor goes to others once this rank has polled in vain for some time.
        state.spins = true;
        self.schedule_event(self.now + self.prices.spin, Event::Yield(rank, rest));
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
            self.schedule_event(self.now + self.switch(place), Event::Run(next));
        }
    }

    /// Returns the time of a switch to another rank of a pool that has work. Waiting ranks are scheduled in
    /// between, as they poll for messages themselves.
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

    /// Starts all steps of a rank that may start.
    fn advance(&mut self, rank: u32) {
        let schedule = self.schedule(rank);
        let mut cursor = std::mem::take(&mut self.ranks[rank as usize].cursor);
        // Moves the cursor past completed steps, which need not be examined again.
        cursor.finished(schedule);
        let started = cursor.advance(schedule, |instance| Ok::<bool, Infallible>(self.start(rank, instance)));
        started.unwrap_or_else(|never| match never {});
        self.ranks[rank as usize].cursor = cursor;
    }

    /// Completes all waits; returns true if there were any.
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
            self.schedule_event(self.now, Event::Ready(rank, Task { instance, work: Work::Nothing }));
        }
        !stuck.is_empty()
    }
}

/// Returns the number of operations with these schedules that may be under way: the number of slots for their
/// banks.
fn slots(series: &Series<'_>, unit_bytes: u64) -> u32 {
    let is_large = series.all().any(|one| one.bank * unit_bytes > SMALL_BANK_BYTES);
    if is_large { LARGE_SLOTS } else { u32::MAX / 2 }
}

/// Number of slots for large banks.
const LARGE_SLOTS: u32 = 8;
/// Bytes above which a bank is large.
const SMALL_BANK_BYTES: u64 = 4096;

/// Returns a number near the golden section of `ranks` that has no divisor in common with it.
fn stride(ranks: u64) -> u64 {
    coprime_from((ranks * 5).div_ceil(8).max(1), ranks)
}
