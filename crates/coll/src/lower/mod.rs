//! The lowering: schedules of few messages become programs for a network interface (S9; yu-2006, chapter 6).
//! The interface then answers and forwards while the ranks compute, sleep or are stopped.
//!
//! # What a program is
//! A rank's [`Program`] has *events* (its own call; incoming messages), *areas* (memory of the size of the
//! operation's data), and *rules*. A rule waits for a set of events and then combines two areas, emits one to
//! a peer, or completes the call. [`Machine`] defines the meaning, packet by packet; the program of the
//! kernel (`crates/offload/bpf`) does the same.
//!
//! # How it comes from a schedule
//! The steps of a rank are visited in an order in which each follows all steps that it waits for, with loops
//! unrolled. Memory becomes areas in single assignment: a receive or a reduction makes a new one, a copy is
//! another name for one, a send reads one. So a message waits only for the events that its data depend on:
//! hosts forward a broadcast although their ranks have not called it. A message without data waits for
//! everything that its step waits for, including the own call, as it signals just that. Sends and receives of
//! all ranks are matched as in the engine, by peer and lane, in order.
//!
//! # What is refused
//! [`LoweringError`] names the reason. Absent: anything that knows packets' bytes, addresses or clocks.

mod machine;
mod program;
mod rotation;
pub mod times;

use std::collections::HashMap;
use std::fmt;

pub use machine::{CHANNELS, Dropped, Machine, Operation, Packet, Purpose, Record, Verdict};
pub use program::{AREAS, Action, ENTERED, EVENTS, Event, Program, RULES, Rule};
pub use rotation::{Next, Rotation};

use crate::ir::{self, BufferId, Edge, Order, Schedule, Span, StepId, Tables};
use crate::shape::{Collective, Shape};

/// Largest number of step instances of a schedule that is lowered.
const INSTANCES: u64 = 1024;

/// Reason why a schedule cannot be lowered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoweringError {
    /// A schedule has steps within a node or of a file.
    OtherSteps,
    /// Too many instances of steps, with their number.
    TooLong(u64),
    /// Too many events at one rank, with their number.
    Events(usize),
    /// Too many rules at one rank, with their number.
    Rules(usize),
    /// Too many areas at one rank, with their number.
    Areas(usize),
    /// Lengths come from tables.
    Tables,
    /// A message or an operand is not exactly one block, but several blocks or a part of one.
    Pieces,
    /// A send has no receive, or a receive no send.
    Unmatched,
}

impl fmt::Display for LoweringError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoweringError::OtherSteps => f.write_str("it has steps within a host, or on files"),
            LoweringError::TooLong(steps) => write!(f, "{steps} steps, more than {INSTANCES}"),
            LoweringError::Events(events) => write!(f, "a rank waits for {events} messages, {EVENTS} fit"),
            LoweringError::Rules(rules) => write!(f, "a rank has {rules} rules, {RULES} fit"),
            LoweringError::Areas(areas) => write!(f, "a rank keeps {areas} blocks, {AREAS} fit"),
            LoweringError::Tables => f.write_str("lengths come from tables"),
            LoweringError::Pieces => f.write_str("messages are made of several blocks, or of parts"),
            LoweringError::Unmatched => {
                f.write_str("a message is sent that nobody receives, or the other way round")
            }
        }
    }
}

impl std::error::Error for LoweringError {}

/// Lowers the schedules of all ranks to programs; `shape` is that of rank 0. The data of a rank are
/// [`Shape::count`] units of its send buffer, or of the receive buffer for a broadcast's root. The caller
/// must handle MPI_IN_PLACE.
///
/// # Errors
/// Returns the first feature or size that does not fit.
pub fn lower(shape: &Shape, schedules: &[Schedule]) -> Result<Vec<Program>, LoweringError> {
    let mut walks = Vec::with_capacity(schedules.len());
    for (rank, schedule) in (0..).zip(schedules) {
        walks.push(Walk::new(rank, shape, schedule).run()?);
    }
    let mut sends = HashMap::new();
    let mut receives = HashMap::new();
    for walk in &walks {
        sends.extend(walk.sends.iter().map(|(message, rule)| ((walk.rank, *message), *rule)));
        receives.extend(walk.receives.iter().map(|(message, event)| ((walk.rank, *message), *event)));
    }
    walks.iter().map(|walk| walk.program(&sends, &receives)).collect()
}

/// A message seen from one of its ends: the other end, the lane, and the how manieth it is there.
type Message = (u32, u16, u32);
/// A message by its end, and its number there: of a rule or an event.
type Ends = HashMap<(u32, Message), u8>;

/// Area that holds a piece of memory, and the events that its content needs.
#[derive(Clone, Copy, Debug)]
struct Definition {
    buffer: BufferId,
    start: u64,
    length: u64,
    area: u8,
    needs: u32,
}

/// Walk over one rank's steps, which becomes its program.
struct Walk<'a> {
    rank: u32,
    shape: &'a Shape,
    schedule: &'a Schedule,
    definitions: Vec<Definition>,
    areas: usize,
    /// Events so far, without the rules of their senders.
    events: Vec<Event>,
    /// Rules so far, without the events of their receivers.
    rules: Vec<Rule>,
    sends: Vec<(Message, u8)>,
    receives: Vec<(Message, u8)>,
    /// Events that precede the end of a step, by step and iteration.
    before: Vec<Vec<u32>>,
    ordinals: HashMap<(u32, u16, bool), u32>,
}

impl<'a> Walk<'a> {
    fn new(rank: u32, shape: &'a Shape, schedule: &'a Schedule) -> Walk<'a> {
        let own = Event { peer: rank, rule: 0, into: None };
        Walk {
            rank,
            shape,
            schedule,
            definitions: Vec::new(),
            areas: 0,
            events: vec![own],
            rules: Vec::new(),
            sends: Vec::new(),
            receives: Vec::new(),
            before: vec![Vec::new(); schedule.steps.len()],
            ordinals: HashMap::new(),
        }
    }

    fn run(mut self) -> Result<Walk<'a>, LoweringError> {
        let schedule = self.schedule;
        if schedule.order == Order::Program || !schedule.permutation.is_empty() {
            return Err(LoweringError::OtherSteps);
        }
        if schedule.instances() > INSTANCES {
            return Err(LoweringError::TooLong(schedule.instances()));
        }
        self.begin()?;
        let mut first = 0;
        while let Some(step) = schedule.steps.get(first) {
            let Some(number) = step.in_loop else {
                self.step(first, 0)?;
                first += 1;
                continue;
            };
            let this = schedule.loops[usize::from(number)];
            for iteration in 0..this.count {
                for step in first..first + this.steps as usize {
                    self.step(step, iteration)?;
                }
            }
            first += this.steps as usize;
        }
        self.end()
    }

    /// Defines the area of the data that the rank contributes.
    fn begin(&mut self) -> Result<(), LoweringError> {
        let buffer = match self.shape.collective {
            Collective::Barrier => return Ok(()),
            Collective::Bcast if self.rank != self.shape.root => return Ok(()),
            Collective::Bcast => BufferId::RECV,
            _ => BufferId::SEND,
        };
        let area = self.area()?;
        self.events[0].into = Some(area);
        self.define(buffer, 0, self.shape.count, area, ENTERED)
    }

    /// Adds the last rule, which completes the call.
    fn end(mut self) -> Result<Walk<'a>, LoweringError> {
        let mut needs = ENTERED;
        if self.shape.collective == Collective::Barrier {
            needs |= self.before.iter().flatten().fold(0, |all, events| all | events);
        }
        self.rules.push(Rule { needs, action: Action::Complete });
        if self.rules.len() > RULES {
            return Err(LoweringError::Rules(self.rules.len()));
        }
        Ok(self)
    }

    /// Returns the areas of the result, and the events that they need.
    fn result(&self) -> Result<(Vec<u8>, u32), LoweringError> {
        let blocks = match self.shape.collective {
            Collective::Barrier => 0,
            Collective::Allgather => u64::from(self.shape.ranks),
            _ => 1,
        };
        let (mut areas, mut needs) = (Vec::new(), 0);
        for block in 0..blocks {
            let found = self.find(BufferId::RECV, block * self.shape.count, self.shape.count)?;
            areas.push(found.area);
            needs |= found.needs;
        }
        Ok((areas, needs))
    }

    fn step(&mut self, number: usize, iteration: u32) -> Result<(), LoweringError> {
        let step = &self.schedule.steps[number];
        let before = step.after.iter().fold(ENTERED, |all, edge| all | self.events_before(*edge, iteration));
        let mut after = before;
        match step.kind {
            ir::Kind::Send { peer, lane, from } => {
                let peer = peer.in_iteration(iteration) as u32;
                let (area, needs) = match self.place(&from, iteration)? {
                    Some((_, _, 0)) => (None, 0),
                    Some((buffer, start, length)) => {
                        let found = self.find(buffer, start, length)?;
                        (Some(found.area), found.needs)
                    }
                    None => (None, before),
                };
                if needs != 0 {
                    let message = self.message(peer, lane, false);
                    self.sends.push((message, self.rules.len() as u8));
                    self.rule(needs, Action::Emit { peer, event: 0, from: area })?;
                }
            }
            ir::Kind::Recv { peer, lane, into } => {
                let (peer, place) = (peer.in_iteration(iteration) as u32, self.place(&into, iteration)?);
                if place.is_none_or(|(_, _, length)| length > 0) {
                    after |= self.receive(peer, lane, place)?;
                }
            }
            ir::Kind::Copy { from, into } => self.copy(&from, &into, iteration)?,
            ir::Kind::Reduce { left, right } => self.reduce(&left, &right, iteration)?,
            _ => return Err(LoweringError::OtherSteps),
        }
        self.before[number].push(after);
        Ok(())
    }

    fn receive(
        &mut self,
        peer: u32,
        lane: u16,
        place: Option<(BufferId, u64, u64)>,
    ) -> Result<u32, LoweringError> {
        let number = self.events.len();
        if number >= EVENTS {
            return Err(LoweringError::Events(number + 1));
        }
        let message = self.message(peer, lane, true);
        self.receives.push((message, number as u8));
        let into = place.map(|_| self.area()).transpose()?;
        self.events.push(Event { peer, rule: 0, into });
        if let (Some((buffer, start, length)), Some(area)) = (place, into) {
            self.define(buffer, start, length, area, 1 << number)?;
        }
        Ok(1 << number)
    }

    fn copy(&mut self, from: &Span, into: &Span, iteration: u32) -> Result<(), LoweringError> {
        let (from, into) = (self.place(from, iteration)?, self.place(into, iteration)?);
        let (Some(from), Some(into)) = (from, into) else { return Err(LoweringError::Pieces) };
        if into.2 == 0 {
            return Ok(());
        }
        let found = self.find(from.0, from.1, from.2)?;
        self.define(into.0, into.1, into.2, found.area, found.needs)
    }

    fn reduce(&mut self, left: &Span, right: &Span, iteration: u32) -> Result<(), LoweringError> {
        let (left, right) = (self.place(left, iteration)?, self.place(right, iteration)?);
        let (Some(left), Some(right)) = (left, right) else { return Err(LoweringError::Pieces) };
        if left.2 != right.2 {
            // Several operands at once.
            return Err(LoweringError::Pieces);
        }
        let operands = (self.find(left.0, left.1, left.2)?, self.find(right.0, right.1, right.2)?);
        let (into, needs) = (self.area()?, operands.0.needs | operands.1.needs);
        self.rule(needs, Action::Combine { left: operands.0.area, right: operands.1.area, into })?;
        self.define(right.0, right.1, right.2, into, needs)
    }

    /// Returns the bit mask of the events that precede the satisfaction of an edge.
    fn events_before(&self, edge: Edge, iteration: u32) -> u32 {
        let Edge { step: StepId(step), distance } = edge;
        let ends = &self.before[step as usize];
        if distance == Edge::WHOLE || self.schedule.iterations(edge.step) == 1 {
            return ends.iter().fold(0, |all, events| all | events);
        }
        let before = iteration.checked_sub(distance).and_then(|iteration| ends.get(iteration as usize));
        before.or(ends.last()).filter(|_| iteration >= distance).copied().unwrap_or(0)
    }

    /// Returns the range that a span denotes, or `None` for a signal.
    fn place(&self, span: &Span, iteration: u32) -> Result<Option<(BufferId, u64, u64)>, LoweringError> {
        if span.is_signal() {
            return Ok(None);
        }
        if span.uses_table() {
            return Err(LoweringError::Tables);
        }
        let range = span.in_iteration(iteration, &Tables::default());
        Ok(Some((range.buffer, range.start, range.length)))
    }

    fn find(&self, buffer: BufferId, start: u64, length: u64) -> Result<Definition, LoweringError> {
        let same = |known: &&Definition| (known.buffer, known.start, known.length) == (buffer, start, length);
        self.definitions.iter().find(same).copied().ok_or(LoweringError::Pieces)
    }

    fn define(
        &mut self,
        buffer: BufferId,
        start: u64,
        length: u64,
        area: u8,
        needs: u32,
    ) -> Result<(), LoweringError> {
        if length != self.shape.count {
            return Err(LoweringError::Pieces);
        }
        self.definitions.retain(|known| {
            known.buffer != buffer || known.start + known.length <= start || start + length <= known.start
        });
        self.definitions.push(Definition { buffer, start, length, area, needs });
        Ok(())
    }

    fn rule(&mut self, needs: u32, action: Action) -> Result<(), LoweringError> {
        self.rules.push(Rule { needs, action });
        // The last rule is still to come.
        if self.rules.len() < RULES { Ok(()) } else { Err(LoweringError::Rules(self.rules.len() + 1)) }
    }

    fn area(&mut self) -> Result<u8, LoweringError> {
        self.areas += 1;
        if self.areas > AREAS { Err(LoweringError::Areas(self.areas)) } else { Ok(self.areas as u8 - 1) }
    }

    fn message(&mut self, peer: u32, lane: u16, is_received: bool) -> Message {
        let ordinal = self.ordinals.entry((peer, lane, is_received)).or_default();
        *ordinal += 1;
        (peer, lane, *ordinal - 1)
    }

    /// Returns the program, given the numbers of the rules and events at both ends of each message.
    fn program(&self, sends: &Ends, receives: &Ends) -> Result<Program, LoweringError> {
        let other_end = |ends: &Ends, (peer, lane, ordinal): Message| {
            ends.get(&(peer, (self.rank, lane, ordinal))).copied().ok_or(LoweringError::Unmatched)
        };
        let (mut events, mut rules) = (self.events.clone(), self.rules.clone());
        for (message, event) in &self.receives {
            events[usize::from(*event)].rule = other_end(sends, *message)?;
        }
        for (message, rule) in &self.sends {
            let number = other_end(receives, *message)?;
            if let Action::Emit { event, .. } = &mut rules[usize::from(*rule)].action {
                *event = number;
            }
        }
        let (result, needs) = self.result()?;
        rules.last_mut().expect("the last rule was added").needs |= needs;
        Ok(Program { rank: self.rank, events, rules, result, areas: self.areas as u8 })
    }
}
