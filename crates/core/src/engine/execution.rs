//! Execution of a schedule: starts the steps whose predecessors are complete, and polls outstanding messages.
//!
//! # Safety
//! [`Execution::restart`] passes its caller's promise about memory to [`Bindings`].
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::sync::Arc;

use tutti_base::{Error, Result};
use tutti_coll::cursor::{Cursor, Instance};
use tutti_coll::ir::{Kind, Length, Order, Range, Span, Start};
use tutti_coll::{Plan, Schedule, Shape};
use tutti_data::Reducer;

use super::compiled::{Program, Reached};
use super::memory::Bindings;
use super::observed::Observed;
use super::port::{NodePort, Port, Started};
use crate::buffer::Buffer;
use crate::trace;

/// Progress of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecutionStatus {
    /// All steps are complete, and the memory belongs to the user again.
    Done,
    /// Some message or flag is outstanding.
    Pending,
}

/// Number of bytes moved between two polls of the network, each of which takes a few microseconds.
const BYTES_BETWEEN_LOOKS: u64 = 128 << 10;

/// Executions of a plan, one after another. `H` is the port's [`Port::Handle`].
#[derive(Debug)]
pub struct Execution<H> {
    plan: Arc<Plan>,
    bindings: Bindings,
    cursor: Cursor,
    flying: Vec<(Instance, H)>,
    /// Steps of strands that move data, in the order in which they became ready. They are executed one at a
    /// time, so that no strand delays the messages of others.
    moves: VecDeque<Instance>,
    /// Number of bytes that these steps have moved since the network was polled.
    moved_bytes: u64,
    /// True once a schedule in program order may use its flags and its bank.
    granted: bool,
    /// Multicasts for which there was no room.
    stalled: Vec<Instance>,
    /// Flags of the node that are awaited, at most one for each strand.
    waiting: Vec<Waiting>,
    /// Private flags of this rank, with numbers from `Kind::FLAGS` upwards.
    private: Vec<u64>,
    /// Compiled schedule, if it can be compiled.
    program: Option<Program>,
    compiled: bool,
    next: usize,
    /// True if the program was compiled for the tables that are bound.
    tabled: bool,
    /// True if the schedule must not be compiled.
    stepwise: bool,
    /// Start times of the execution and of its active steps, for a trace.
    observed: Observed,
}

/// Awaited flag of a peer.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    instance: Instance,
    peer: u32,
    flag: u16,
    value: u64,
}

/// Outcome of the start of a step.
enum Begun<H> {
    Done,
    Flying(H),
    /// Outstanding operation of several messages.
    Several(Vec<H>),
    /// No room for now; the start must be repeated.
    Stalled,
    Waiting(Waiting),
}

impl<H> Execution<H> {
    /// Returns an execution of `plan` that is not started. Its memory must be bound first.
    pub fn new(plan: Arc<Plan>) -> Execution<H> {
        let Shape { rank, unit_bytes, .. } = plan.shape;
        let program = Program::new(&plan.schedule, rank, unit_bytes as usize, None);
        Execution::with(plan, program)
    }

    /// Returns an execution of `plan` that is never compiled.
    pub fn stepwise(plan: Arc<Plan>) -> Execution<H> {
        Execution { stepwise: true, ..Execution::with(plan, None) }
    }

    /// Returns an execution that uses `program` if possible, and the schedule otherwise.
    fn with(plan: Arc<Plan>, program: Option<Program>) -> Execution<H> {
        let bindings = Bindings::new(&plan.schedule, program.is_some());
        let cursor = Cursor::default();
        let posted = plan.schedule.steps.iter().map(|step| match step.kind {
            Kind::Post { flag, .. } => usize::from(flag) + 1,
            _ => 0,
        });
        let private = posted.max().unwrap_or(0).saturating_sub(usize::from(Kind::FLAGS));
        Execution {
            plan,
            bindings,
            cursor,
            flying: Vec::new(),
            moves: VecDeque::new(),
            moved_bytes: 0,
            granted: false,
            stalled: Vec::new(),
            waiting: Vec::new(),
            private: vec![0; private],
            program,
            compiled: false,
            next: 0,
            tabled: false,
            stepwise: false,
            observed: Observed::default(),
        }
    }

    /// Returns the plan of this execution.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Returns the bindings, whose memory is bound before the start.
    pub fn bindings(&mut self) -> &mut Bindings {
        assert!(self.flying.is_empty(), "a running execution keeps its memory");
        if std::mem::take(&mut self.tabled) {
            self.program = None;
        }
        &mut self.bindings
    }

    /// Resets the execution to its beginning. The next [`Execution::progress`] starts the first steps.
    pub fn start(&mut self) {
        assert!(self.flying.is_empty(), "one run ends before the next starts");
        (self.granted, self.next) = (false, 0);
        self.compiled = self.program.is_some() && self.bindings.is_flat();
        if !self.compiled {
            self.private.fill(0);
            self.cursor.reset(&self.plan.schedule);
            self.bindings.begin();
        }
    }

    /// Starts an execution again with the same memory.
    #[inline]
    pub fn start_again(&mut self) {
        if self.compiled {
            (self.granted, self.next) = (false, 0);
        } else {
            self.start();
        }
    }

    /// Binds other memory to a compiled execution and starts it. Returns false if it is not compiled, or an
    /// address is null.
    ///
    /// # Safety
    /// The same as for [`Bindings::bind`].
    #[inline]
    pub unsafe fn restart(&mut self, send: *mut u8, recv: *mut u8) -> bool {
        (self.granted, self.next) = (false, 0);
        // SAFETY: the caller's promise.
        self.compiled && unsafe { self.bindings.rebind([send, recv]) }
    }

    /// Compiles an execution whose tables are likely to be used again. `given` has the user's addresses, null
    /// without a buffer. Returns true if it is compiled, now or before.
    #[cold]
    pub fn compile(&mut self, given: [*mut u8; 2]) -> bool {
        if !self.compiled && !self.stepwise && self.flying.is_empty() {
            let Shape { rank, unit_bytes, .. } = self.plan.shape;
            let lookup = self.bindings.flatten_entries(given);
            let program = lookup.and_then(|lookup| {
                Program::new(&self.plan.schedule, rank, unit_bytes as usize, Some(lookup))
            });
            if program.is_some() {
                (self.program, self.compiled, self.tabled) = (program, true, true);
            }
        }
        self.compiled
    }

    /// Returns true if it is compiled, so that [`Execution::fast_path`] can run it.
    #[inline]
    pub fn is_compiled(&self) -> bool {
        self.compiled
    }

    /// Returns true if it calls a reduction function of the user.
    pub fn calls_user(&self) -> bool {
        self.bindings.flat().1.is_some_and(Reducer::calls_user)
    }

    /// Runs a compiled execution within the node as far as possible, if its flags and bank are granted. The
    /// port never fails. A light port leaves some instructions to another port. The caller leaves the
    /// operation.
    #[inline(always)]
    pub fn fast_path<P: NodePort>(&mut self, port: &mut P) -> ExecutionStatus {
        self.bindings.bind_bank_of_program(port.bank(self.plan.shape.rank));
        let program = self.program.as_ref().expect("a compiled execution has its program");
        let (bases, reducer) = self.bindings.flat();
        match program.run(0, bases, reducer, port) {
            Ok(Reached::End) => ExecutionStatus::Done,
            Ok(Reached::Flag(next)) => {
                (self.granted, self.next) = (true, next);
                ExecutionStatus::Pending
            }
            Err(_) => unreachable!("a light port does not fail"),
        }
    }

    /// Performs all steps that need no waiting.
    ///
    /// # Errors
    /// The first error of the port. The execution then ends, and outstanding operations are cancelled.
    pub fn progress<P: Port<Handle = H>>(&mut self, port: &mut P) -> Result<ExecutionStatus> {
        let result = if self.compiled { self.run_program(port) } else { self.step(port) };
        if result.is_err() {
            self.abandon(port);
        }
        result
    }

    /// Cancels all outstanding operations.
    pub fn abandon<P: Port<Handle = H>>(&mut self, port: &mut P) {
        self.flying.drain(..).for_each(|(_, handle)| port.cancel(handle));
        self.waiting.clear();
        self.stalled.clear();
        self.moves.clear();
        if std::mem::take(&mut self.granted) {
            port.leave();
        }
    }

    /// Continues the compiled program.
    #[inline(always)]
    fn run_program<P: Port<Handle = H>>(&mut self, port: &mut P) -> Result<ExecutionStatus> {
        let local = self.plan.schedule.order == Order::Program;
        if local && !self.granted {
            if !port.granted() {
                return Ok(ExecutionStatus::Pending);
            }
            self.granted = true;
            self.bindings.bind_bank_of_program(port.bank(self.plan.shape.rank));
        }
        let program = self.program.as_ref().expect("a compiled execution has its program");
        let (bases, reducer) = self.bindings.flat();
        match program.run(self.next, bases, reducer, port)? {
            Reached::Flag(next) => {
                self.next = next;
                Ok(ExecutionStatus::Pending)
            }
            Reached::End => {
                if local {
                    port.leave();
                    self.granted = false;
                }
                Ok(ExecutionStatus::Done)
            }
        }
    }

    /// Continues the schedule step by step.
    fn step<P: Port<Handle = H>>(&mut self, port: &mut P) -> Result<ExecutionStatus> {
        let local = self.plan.schedule.order == Order::Program;
        if local && !self.ready(port) {
            return Ok(ExecutionStatus::Pending);
        }
        if trace::is_on() {
            self.observed.begin();
        }
        self.land(port)?;
        loop {
            while self.advance(port)? && self.look(port) {}
            if self.move_some(port)? {
                self.land(port)?;
                self.look(port);
                continue;
            }
            // A message may have been complete at once or have arrived meanwhile. No other code checks before
            // the process sleeps.
            if !self.land(port)? {
                break;
            }
        }
        let Execution { plan, bindings, cursor, observed, .. } = self;
        let schedule = &plan.schedule;
        if !cursor.finished(schedule) {
            return Ok(ExecutionStatus::Pending);
        }
        if trace::is_on() {
            observed.end(plan, port);
        }
        if local {
            bindings.finish();
            port.leave();
            self.granted = false;
        }
        Ok(ExecutionStatus::Done)
    }

    /// Completes messages that have arrived or were sent. Returns true if there were any.
    fn land<P: Port<Handle = H>>(&mut self, port: &mut P) -> Result<bool> {
        let stalled = !self.stalled.is_empty() && self.try_again(port)?;
        let (mut next, before) = (0, self.flying.len());
        while next < self.flying.len() {
            if port.done(&mut self.flying[next].1)? {
                let (instance, _) = self.flying.swap_remove(next);
                // A multicast may consist of several messages.
                let casts = !self.plan.schedule.groups.is_empty();
                if casts && self.flying.iter().any(|(other, _)| *other == instance) {
                    continue;
                }
                self.cursor.complete(instance);
                if trace::is_on() {
                    self.observed.over(&self.plan, &self.bindings, instance, port);
                }
            } else {
                next += 1;
            }
        }
        Ok(self.flying.len() < before || stalled)
    }

    /// Starts the multicasts for which there was no room before. Returns true if at least one was started.
    #[cold]
    fn try_again<P: Port<Handle = H>>(&mut self, port: &mut P) -> Result<bool> {
        let before = self.stalled.len();
        for instance in std::mem::take(&mut self.stalled) {
            let Execution { plan, bindings, cursor, flying, private, stalled, observed, .. } = self;
            match begin(&plan.schedule, instance, (bindings, private), port)? {
                Begun::Stalled => stalled.push(instance),
                Begun::Several(handles) => {
                    flying.extend(handles.into_iter().map(|handle| (instance, handle)));
                }
                Begun::Done => {
                    cursor.complete(instance);
                    if trace::is_on() {
                        observed.over(plan, bindings, instance, port);
                    }
                }
                Begun::Flying(_) | Begun::Waiting(_) => unreachable!("it is a multicast"),
            }
        }
        Ok(self.stalled.len() < before)
    }

    /// Starts all steps that can start. Returns true if strands wait for flags, which other strands of this
    /// rank may have set meanwhile.
    fn advance<P: Port<Handle = H>>(&mut self, port: &mut P) -> Result<bool> {
        let Execution { plan, bindings, cursor, flying, waiting, private, observed, moves, stalled, .. } =
            self;
        let schedule = &plan.schedule;
        let has_strands = !schedule.strands.is_empty();
        cursor.advance(schedule, |instance| {
            if has_strands && schedule.steps[instance.step.0 as usize].kind.moves() {
                moves.push_back(instance);
                return Ok(false);
            }
            let since = trace::since();
            let begun = begin(schedule, instance, (bindings, private), port)?;
            if since != 0 {
                observed.started(instance, since);
                if matches!(begun, Begun::Done) {
                    observed.over(plan, bindings, instance, port);
                }
            }
            match begun {
                Begun::Done => Ok::<bool, Error>(true),
                Begun::Flying(handle) => {
                    flying.push((instance, handle));
                    Ok(false)
                }
                Begun::Several(handles) => {
                    flying.extend(handles.into_iter().map(|handle| (instance, handle)));
                    Ok(false)
                }
                Begun::Stalled => {
                    stalled.push(instance);
                    Ok(false)
                }
                Begun::Waiting(flag) => {
                    waiting.push(flag);
                    Ok(false)
                }
            }
        })?;
        Ok(has_strands && !waiting.is_empty())
    }

    /// Executes the oldest step that moves data for a strand. Returns false if there is none.
    fn move_some<P: Port<Handle = H>>(&mut self, port: &mut P) -> Result<bool> {
        let Some(instance) = self.moves.pop_front() else { return Ok(false) };
        let Execution { plan, bindings, cursor, private, observed, moved_bytes, .. } = self;
        let since = trace::since();
        let begun = begin(&plan.schedule, instance, (bindings, private), port)?;
        debug_assert!(matches!(begun, Begun::Done), "who moves data waits for nobody");
        if since != 0 {
            observed.started(instance, since);
            observed.over(plan, bindings, instance, port);
        }
        cursor.complete(instance);
        let written = plan.schedule.steps[instance.step.0 as usize].kind.writes();
        let units =
            written.map_or(0, |span| span.in_iteration(instance.iteration, &bindings.tables()).length);
        *moved_bytes += units * plan.shape.unit_bytes;
        if *moved_bytes >= BYTES_BETWEEN_LOOKS {
            *moved_bytes = 0;
            port.look_around();
        }
        Ok(true)
    }

    /// Returns true if a schedule in program order has its bank and can continue.
    #[inline]
    fn ready<P: Port<Handle = H>>(&mut self, port: &mut P) -> bool {
        if !self.granted {
            if !port.granted() {
                return false;
            }
            self.granted = true;
            let me = self.plan.shape.rank;
            self.bindings.bind_bank(port.bank(me));
        }
        // A schedule of one strand that waits for a flag has no other step to execute.
        self.waiting.is_empty() || self.look(port) || !self.plan.schedule.strands.is_empty()
    }

    /// Completes the waits for flags that are set. Returns true if there were any.
    #[inline]
    fn look<P: Port<Handle = H>>(&mut self, port: &mut P) -> bool {
        let before = self.waiting.len();
        let Execution { cursor, private, observed, plan, bindings, waiting, .. } = self;
        waiting.retain(|&Waiting { instance, peer, flag, value }| {
            let over = is_reached(private, port, peer, flag, value);
            if over {
                cursor.complete(instance);
                if trace::is_on() {
                    observed.over(plan, bindings, instance, port);
                }
            }
            !over
        });
        waiting.len() < before
    }
}

/// Executes a step, or starts it.
#[inline]
fn begin<P: Port>(
    schedule: &Schedule,
    instance: Instance,
    (bindings, private): (&mut Bindings, &mut [u64]),
    port: &mut P,
) -> Result<Begun<P::Handle>> {
    let kind = &schedule.steps[instance.step.0 as usize].kind;
    let iteration = instance.iteration;
    if let Kind::Post { .. }
    | Kind::Await { .. }
    | Kind::Expose { .. }
    | Kind::Pull { .. }
    | Kind::Combine { .. }
    | Kind::Push { .. }
    | Kind::Pack { .. }
    | Kind::Unpack { .. } = kind
    {
        return within_node(kind, instance, (bindings, private), port);
    }
    if let Kind::Multicast { group, lane, from } = kind {
        return multicast(&schedule.groups[usize::from(*group)], *lane, (from, iteration), bindings, port);
    }
    Ok(match message_or_local(kind, iteration, bindings, port)? {
        Started::Done => Begun::Done,
        Started::Pending(handle) => Begun::Flying(handle),
    })
}

/// Sends one payload to a group by multicast, and by single messages to members that multicast does not
/// reach.
fn multicast<P: Port>(
    group: &[u32],
    lane: u16,
    (from, iteration): (&Span, u32),
    bindings: &mut Bindings,
    port: &mut P,
) -> Result<Begun<P::Handle>> {
    let buffer = if from.is_signal() {
        Buffer::empty()
    } else {
        let range = from.in_iteration(iteration, &bindings.tables());
        if range.length == 0 {
            return Ok(Begun::Done);
        }
        bindings.buffer(&range)
    };
    let mut rest = Vec::new();
    if !port.multicast(group, lane, &buffer, &mut rest)? {
        return Ok(Begun::Stalled);
    }
    let mut handles = Vec::new();
    for peer in rest {
        match port.send(peer, lane, buffer.clone())? {
            Started::Done => {}
            Started::Pending(handle) => handles.push(handle),
        }
    }
    Ok(if handles.is_empty() { Begun::Done } else { Begun::Several(handles) })
}

/// Returns true if a neighbour's flag, or a private one, has reached `value`.
#[inline]
fn is_reached<P: NodePort>(private: &[u64], port: &mut P, peer: u32, flag: u16, value: u64) -> bool {
    // Every flag is 0 at first, even if its owner has not started.
    if value == 0 {
        return true;
    }
    match flag.checked_sub(Kind::FLAGS) {
        Some(own) => private[usize::from(own)] >= value,
        None => port.reached(peer, flag, value),
    }
}

/// Executes a step that involves the memory or the flags of a neighbour.
#[inline]
fn within_node<P: Port>(
    kind: &Kind,
    instance: Instance,
    (bindings, private): (&mut Bindings, &mut [u64]),
    port: &mut P,
) -> Result<Begun<P::Handle>> {
    let iteration = instance.iteration;
    let at = |span: &Span, bindings: &Bindings| {
        let range = span.in_iteration(iteration, &bindings.tables());
        // A block of exposed memory is a part of it; an entry exists only if its owner has a table.
        let entry = span.buffer.exposure().is_none() || matches!(span.start, Start::Entry(_));
        if entry { range } else { Range { block: 0, ..range } }
    };
    match kind {
        Kind::Post { flag, value } => match flag.checked_sub(Kind::FLAGS) {
            Some(own) => private[usize::from(own)] = value.in_iteration(iteration),
            None => port.post(*flag, value.in_iteration(iteration)),
        },
        Kind::Await { peer, flag, value } => {
            let (peer, value) = (peer.in_iteration(iteration) as u32, value.in_iteration(iteration));
            let free = instance.step >= bindings.parting && !port.lends();
            if !free && !is_reached(private, port, peer, *flag, value) {
                return Ok(Begun::Waiting(Waiting { instance, peer, flag: *flag, value }));
            }
        }
        Kind::Expose { slot, what, access } => {
            let whole = !matches!(what.length, Length::Blocks { count: 1, .. });
            bindings.expose(port, *slot, (&at(what, bindings), whole), *access)?;
        }
        Kind::Pull { peer, from, into } => {
            let (from, into) = (at(from, bindings), at(into, bindings));
            if into.length > 0 {
                bindings.pull(port, peer.in_iteration(iteration) as u32, &from, &into)?;
            }
        }
        Kind::Combine { peer, from, with, into } => {
            let (from, into) = (at(from, bindings), at(into, bindings));
            let with = at(with, bindings);
            if into.length > 0 {
                bindings.combine(port, peer.in_iteration(iteration) as u32, &from, &with, &into)?;
            }
        }
        Kind::Push { peer, from, into } => {
            let (from, into) = (at(from, bindings), at(into, bindings));
            if from.length > 0 {
                bindings.push(port, peer.in_iteration(iteration) as u32, &from, &into)?;
            }
        }
        Kind::Pack { from, into } => bindings.pack(&at(from, bindings), &at(into, bindings)),
        Kind::Unpack { peer, from, into } => {
            let (from, into) = (at(from, bindings), at(into, bindings));
            bindings.unpack(port, peer.in_iteration(iteration) as u32, &from, &into)?;
        }
        Kind::Send { .. } | Kind::Recv { .. } | Kind::Copy { .. } | Kind::Reduce { .. } => {
            unreachable!("steps that need no neighbour")
        }
        Kind::Multicast { .. } | Kind::FileRead { .. } | Kind::FileWrite { .. } => {
            unreachable!("steps that need no neighbour")
        }
    }
    Ok(Begun::Done)
}

/// Executes or starts a step that sends or receives a message, moves local data, or accesses a file.
fn message_or_local<P: Port>(
    kind: &Kind,
    iteration: u32,
    bindings: &mut Bindings,
    port: &mut P,
) -> Result<Started<P::Handle>> {
    let message = |span: &Span| -> Option<Buffer> {
        if span.is_signal() {
            return Some(Buffer::empty());
        }
        let range = span.in_iteration(iteration, &bindings.tables());
        (range.length > 0).then(|| bindings.buffer(&range))
    };
    let local = |from: &Span, into: &Span| -> Option<(Range, Range)> {
        let tables = bindings.tables();
        let (from, into) = (from.in_iteration(iteration, &tables), into.in_iteration(iteration, &tables));
        (from.length > 0).then_some((from, into))
    };
    match kind {
        Kind::Send { peer, lane, from } => {
            if let Some(buffer) = message(from) {
                return port.send(peer.in_iteration(iteration) as u32, *lane, buffer);
            }
        }
        Kind::Recv { peer, lane, into } => {
            if let Some(buffer) = message(into) {
                return port.recv(peer.in_iteration(iteration) as u32, *lane, buffer);
            }
        }
        Kind::Copy { from, into } => {
            if let Some((from, into)) = local(from, into) {
                bindings.copy(&from, &into);
            }
        }
        Kind::Reduce { left, right } => {
            if let Some((left, right)) = local(left, right) {
                bindings.reduce(&left, &right);
            }
        }
        Kind::FileRead { into: what, window } | Kind::FileWrite { from: what, window } => {
            if let Some(buffer) = message(what) {
                let write = matches!(kind, Kind::FileWrite { .. });
                return port.file(window.in_iteration(iteration) as u32, write, buffer);
            }
        }
        Kind::Multicast { .. } => unreachable!("it may be several messages"),
        Kind::Post { .. } | Kind::Await { .. } | Kind::Expose { .. } => unreachable!("steps within a node"),
        Kind::Pull { .. } | Kind::Combine { .. } | Kind::Push { .. } => unreachable!("steps within a node"),
        Kind::Pack { .. } | Kind::Unpack { .. } => unreachable!("steps on the bank"),
    }
    Ok(Started::Done)
}
