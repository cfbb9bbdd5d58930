//! Runs a schedule: starts the steps that may start, asks after the messages under way.

use std::sync::Arc;

use tutti_base::Result;
use tutti_coll::Plan;
use tutti_coll::cursor::{Cursor, Instance};
use tutti_coll::ir::{Kind, Range, Span};

use super::memory::Bindings;
use super::port::{Port, Started};
use crate::buffer::Buffer;

/// How far an execution is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// All steps are complete; the memory is the user's again.
    Done,
    /// Some message is under way.
    Pending,
}

/// One run after another of a plan. `H` is the port's [`Port::Handle`].
#[derive(Debug)]
pub struct Execution<H> {
    plan: Arc<Plan>,
    bindings: Bindings,
    cursor: Cursor,
    flying: Vec<(Instance, H)>,
}

impl<H> Execution<H> {
    /// A run of `plan`, not started; bind its memory first.
    pub fn new(plan: Arc<Plan>) -> Execution<H> {
        let bindings = Bindings::new(&plan.schedule);
        Execution { plan, bindings, cursor: Cursor::default(), flying: Vec::new() }
    }

    /// What it runs.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Its memory, to be bound before it starts.
    pub fn bindings(&mut self) -> &mut Bindings {
        assert!(self.flying.is_empty(), "a running execution keeps its memory");
        &mut self.bindings
    }

    /// Goes (back) to the beginning; the next [`Execution::progress`] starts the first steps.
    pub fn start(&mut self) {
        assert!(self.flying.is_empty(), "one run ends before the next starts");
        self.cursor.reset(&self.plan.schedule);
    }

    /// Does what can be done without waiting.
    ///
    /// # Errors
    /// The first error of the port. The execution is then over: what was under way is cancelled.
    pub fn progress<P: Port<Handle = H>>(&mut self, port: &mut P) -> Result<Status> {
        let result = self.step(port);
        if result.is_err() {
            self.abandon(port);
        }
        result
    }

    /// Cancels what is under way.
    pub fn abandon<P: Port<Handle = H>>(&mut self, port: &mut P) {
        self.flying.drain(..).for_each(|(_, handle)| port.cancel(handle));
    }

    fn step<P: Port<Handle = H>>(&mut self, port: &mut P) -> Result<Status> {
        let mut next = 0;
        while next < self.flying.len() {
            if port.done(&mut self.flying[next].1)? {
                let (instance, _) = self.flying.swap_remove(next);
                self.cursor.complete(instance);
            } else {
                next += 1;
            }
        }
        let Execution { plan, bindings, cursor, flying } = self;
        let schedule = &plan.schedule;
        cursor.advance(schedule, |instance| {
            let kind = &schedule.steps[instance.step.0 as usize].kind;
            match begin(kind, instance.iteration, bindings, port)? {
                Started::Done => Ok(true),
                Started::Pending(handle) => {
                    flying.push((instance, handle));
                    Ok(false)
                }
            }
        })?;
        Ok(if cursor.finished(schedule) { Status::Done } else { Status::Pending })
    }
}

fn begin<P: Port>(
    kind: &Kind,
    iteration: u32,
    bindings: &mut Bindings,
    port: &mut P,
) -> Result<Started<P::Handle>> {
    let message = |span: &Span| -> Option<Buffer> {
        if span.is_signal() {
            return Some(Buffer::empty());
        }
        let range = span.at(iteration, &bindings.tables());
        (range.length > 0).then(|| bindings.buffer(&range))
    };
    let local = |from: &Span, into: &Span| -> Option<(Range, Range)> {
        let tables = bindings.tables();
        let (from, into) = (from.at(iteration, &tables), into.at(iteration, &tables));
        (from.length > 0).then_some((from, into))
    };
    match kind {
        Kind::Send { peer, lane, from } => {
            if let Some(buffer) = message(from) {
                return port.send(peer.at(iteration) as u32, *lane, buffer);
            }
        }
        Kind::Recv { peer, lane, into } => {
            if let Some(buffer) = message(into) {
                return port.recv(peer.at(iteration) as u32, *lane, buffer);
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
        Kind::Post { .. } | Kind::Await { .. } | Kind::Expose { .. } => todo!(),
        Kind::Pull { .. } | Kind::Combine { .. } | Kind::Push { .. } => todo!(),
    }
    Ok(Started::Done)
}
