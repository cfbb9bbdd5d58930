//! Progress of the execution of a schedule, and the steps that may start. No other module interprets the
//! order, edges, loops and windows of the intermediate representation: the engine, the verifier and the
//! simulator all use the cursor.
//!
//! A schedule of [`Order::Edges`] has many instances under way. One of [`Order::Program`] has a single one in
//! each strand. Its cursor is a position in the program for each strand, and advancing it costs a few
//! instructions a step.

use crate::ir::{Edge, Loop, Order, Schedule, StepId};

/// Execution of a step in one iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instance {
    /// Step of the schedule that runs.
    pub step: StepId,
    /// Number of the iteration; 0 outside of loops.
    pub iteration: u32,
}

/// Progress of one step: the iterations that were started and completed.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// Iterations `0..started` have been started.
    started: u32,
    /// Iterations `0..done` are complete.
    done: u32,
    /// Bit k: iteration `done + 1 + k` is complete too (bit for `done` itself is never set).
    ahead: u64,
}

impl Progress {
    fn is_done(&self, iteration: u32) -> bool {
        if iteration < self.done {
            return true;
        }
        let distance = iteration - self.done;
        distance > 0 && distance <= Loop::MAX_WINDOW && self.ahead >> (distance - 1) & 1 == 1
    }

    fn complete(&mut self, iteration: u32) {
        if iteration > self.done {
            self.ahead |= 1 << (iteration - self.done - 1);
            return;
        }
        let run = self.ahead.trailing_ones();
        self.done += 1 + run;
        self.ahead = if run >= 63 { 0 } else { self.ahead >> (run + 1) };
    }
}

/// The state of one execution. Reused from run to run without allocation.
#[derive(Clone, Debug, Default)]
pub struct Cursor {
    /// Progress of each step; empty in program order.
    steps: Vec<Progress>,
    /// All steps before this one are complete; not used in program order.
    first: usize,
    /// Empty but in program order.
    strands: Vec<Strand>,
    /// Something was completed since the last scan.
    stale: bool,
}

/// A place in a strand.
#[derive(Clone, Copy, Debug)]
struct Strand {
    /// The next step to run or the one that runs.
    step: usize,
    /// One past the last step of the strand.
    end: usize,
    /// Iteration of the current step.
    iteration: u32,
    /// State of the current instance.
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The instance has not been started.
    Next,
    /// The instance is under way.
    Started,
    /// Complete, and not yet passed.
    Over,
}

impl Cursor {
    /// Puts the cursor at the beginning of `schedule`.
    pub fn reset(&mut self, schedule: &Schedule) {
        self.steps.clear();
        self.strands.clear();
        self.first = 0;
        self.stale = true;
        if schedule.order == Order::Edges {
            self.steps.resize(schedule.steps.len(), Progress::default());
            return;
        }
        let ends = schedule.strands.iter().copied().chain([schedule.steps.len() as u32]);
        let mut step = 0;
        for end in ends {
            let end = end as usize;
            self.strands.push(Strand { step, end, iteration: 0, stage: Stage::Next });
            step = end;
        }
    }

    /// Returns true if every step of `schedule` is complete.
    pub fn finished(&mut self, schedule: &Schedule) -> bool {
        if schedule.order == Order::Program {
            return self.strands.iter_mut().all(|strand| strand.settle(schedule));
        }
        while self.first < self.steps.len()
            && self.steps[self.first].done == schedule.iterations(StepId(self.first as u32))
        {
            self.first += 1;
        }
        self.first == self.steps.len()
    }

    /// Records that an instance, started before, is complete.
    pub fn complete(&mut self, instance: Instance) {
        self.stale = true;
        let step = instance.step.0 as usize;
        if let Some(progress) = self.steps.get_mut(step) {
            progress.complete(instance.iteration);
            return;
        }
        let strand = self.strands.iter_mut().find(|strand| step < strand.end).expect("a step has a strand");
        debug_assert_eq!((strand.step, strand.iteration), (step, instance.iteration));
        strand.stage = Stage::Over;
    }

    /// Starts every instance that may start; `start` returns whether it was complete at once.
    pub fn advance<E>(
        &mut self,
        schedule: &Schedule,
        mut start: impl FnMut(Instance) -> Result<bool, E>,
    ) -> Result<(), E> {
        if !self.stale {
            return Ok(());
        }
        self.stale = false;
        if schedule.order == Order::Program {
            return self.strands.iter_mut().try_for_each(|strand| strand.run(schedule, &mut start));
        }
        let mut step = self.first;
        while step < self.steps.len() {
            match schedule.steps[step].in_loop {
                None => {
                    if self.steps[step].started == 0 && self.satisfied(schedule, step, 0) {
                        self.start(step, 0, &mut start)?;
                    }
                    step += 1;
                }
                Some(number) => {
                    let this = schedule.loops[usize::from(number)];
                    while self.advance_loop(schedule, &this, &mut start)? {}
                    step = (this.first + this.steps) as usize;
                }
            }
        }
        Ok(())
    }

    /// Starts steps in one pass over the body of a loop. Returns true if another pass may find more to start.
    fn advance_loop<E>(
        &mut self,
        schedule: &Schedule,
        this: &Loop,
        start: &mut impl FnMut(Instance) -> Result<bool, E>,
    ) -> Result<bool, E> {
        let body = this.first as usize..(this.first + this.steps) as usize;
        let complete = self.steps[body.clone()].iter().map(|step| step.done).min().unwrap_or(0);
        let limit = this.count.min(complete.saturating_add(this.window));
        let mut completed = false;
        for step in body {
            while self.steps[step].started < limit && self.satisfied(schedule, step, self.steps[step].started)
            {
                let iteration = self.steps[step].started;
                completed |= self.start(step, iteration, start)?;
            }
        }
        Ok(completed)
    }

    fn start<E>(
        &mut self,
        step: usize,
        iteration: u32,
        start: &mut impl FnMut(Instance) -> Result<bool, E>,
    ) -> Result<bool, E> {
        self.steps[step].started = iteration + 1;
        let complete = start(Instance { step: StepId(step as u32), iteration })?;
        if complete {
            self.steps[step].complete(iteration);
        }
        Ok(complete)
    }

    fn satisfied(&self, schedule: &Schedule, step: usize, iteration: u32) -> bool {
        schedule.steps[step].after.iter().all(|edge| self.holds(schedule, *edge, iteration))
    }

    /// Returns true if the dependency `edge` does not keep iteration `iteration` of its step from starting.
    ///
    /// The edge requires all iterations of the earlier step ([`Edge::WHOLE`]), or the one `edge.distance`
    /// iterations before this one. If there is no such early iteration, the edge holds. If the earlier step
    /// has fewer iterations, its last one counts.
    fn holds(&self, schedule: &Schedule, edge: Edge, iteration: u32) -> bool {
        let before = &self.steps[edge.step.0 as usize];
        let count = schedule.iterations(edge.step);
        if edge.distance == Edge::WHOLE || count == 1 && edge.distance == 0 {
            return before.done == count;
        }
        iteration < edge.distance || before.is_done((iteration - edge.distance).min(count - 1))
    }
}

impl Strand {
    /// Runs one instance after the other, until one is not complete at once.
    fn run<E>(
        &mut self,
        schedule: &Schedule,
        start: &mut impl FnMut(Instance) -> Result<bool, E>,
    ) -> Result<(), E> {
        while !self.settle(schedule) && self.stage == Stage::Next {
            self.stage = Stage::Started;
            if start(Instance { step: StepId(self.step as u32), iteration: self.iteration })? {
                self.stage = Stage::Over;
            }
        }
        Ok(())
    }

    /// Moves from a completed instance to the next one to run. Returns true at the end of the strand.
    #[inline]
    fn settle(&mut self, schedule: &Schedule) -> bool {
        if self.stage == Stage::Over {
            self.stage = Stage::Next;
            self.pass(schedule);
        }
        // Skip loops without iterations.
        while self.step < self.end {
            match schedule.steps[self.step].in_loop.map(|number| &schedule.loops[usize::from(number)]) {
                Some(this) if this.count == 0 => self.step = (this.first + this.steps) as usize,
                _ => return false,
            }
        }
        true
    }

    /// Goes past the present instance.
    #[inline]
    fn pass(&mut self, schedule: &Schedule) {
        let next = self.step + 1;
        if let Some(number) = schedule.steps[self.step].in_loop {
            let this = &schedule.loops[usize::from(number)];
            if next < (this.first + this.steps) as usize {
                self.step = next;
                return;
            }
            if self.iteration + 1 < this.count {
                self.step = this.first as usize;
                self.iteration += 1;
                return;
            }
        }
        (self.step, self.iteration) = (next, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::Builder;
    use crate::ir::Unit;

    /// Runs a program of steps (`Some`: a loop of so many steps and iterations) in which every `pending`th
    /// instance is not complete at once.
    fn check(parts: &[Option<(u32, u32)>], pending: usize, expected: &[(u32, u32)]) {
        let mut builder = Builder::new(Unit::Byte);
        builder.in_program_order();
        for part in parts {
            match part {
                None => {
                    builder.post(0, 1);
                }
                Some((steps, _)) => {
                    builder.repeat(2, 1, |builder| {
                        (0..*steps).for_each(|_| {
                            builder.post(0, 1);
                        })
                    });
                }
            }
        }
        let mut schedule = builder.finish();
        let counts = parts.iter().flatten().map(|(_, count)| *count);
        schedule.loops.iter_mut().zip(counts).for_each(|(this, count)| this.count = count);
        let mut cursor = Cursor::default();
        for _ in 0..2 {
            cursor.reset(&schedule);
            let (mut seen, mut flying) = (Vec::new(), None);
            while !cursor.finished(&schedule) {
                let advanced = cursor.advance(&schedule, |instance| {
                    assert_eq!(flying, None, "one instance at a time");
                    seen.push((instance.step.0, instance.iteration));
                    let complete = seen.len() % pending != 0;
                    flying = (!complete).then_some(instance);
                    Ok::<_, ()>(complete)
                });
                assert_eq!(advanced, Ok(()));
                assert!(flying.is_none() || !cursor.finished(&schedule));
                if let Some(instance) = flying.take() {
                    cursor.complete(instance);
                }
            }
            assert_eq!(seen, expected);
        }
    }

    #[test]
    fn program_order() {
        for pending in 1..9 {
            check(&[], pending, &[]);
            check(&[Some((2, 0))], pending, &[]);
            check(&[None, None], pending, &[(0, 0), (1, 0)]);
            check(
                &[Some((1, 0)), None, Some((2, 3)), Some((1, 0)), Some((1, 2)), None, Some((3, 0))],
                pending,
                &[(1, 0), (2, 0), (3, 0), (2, 1), (3, 1), (2, 2), (3, 2), (5, 0), (5, 1), (6, 0)],
            );
        }
    }

    #[test]
    fn strands_run_side_by_side() {
        let mut builder = Builder::new(Unit::Byte);
        builder.in_program_order();
        builder.strand();
        builder.post(0, 1);
        builder.repeat(2, 1, |builder| {
            builder.post(0, 1);
        });
        builder.strand();
        builder.post(0, 1);
        builder.strand();
        let schedule = builder.finish();
        assert_eq!(
            (schedule.strands.as_slice(), schedule.strand(StepId(1)), schedule.strand(StepId(2))),
            (&[2][..], 0, 1)
        );
        let mut cursor = Cursor::default();
        cursor.reset(&schedule);
        let mut rounds = Vec::new();
        while !cursor.finished(&schedule) {
            let mut round = Vec::new();
            cursor
                .advance(&schedule, |instance| {
                    round.push(instance);
                    Ok::<_, ()>(false)
                })
                .unwrap();
            round.iter().for_each(|instance| cursor.complete(*instance));
            rounds
                .push(round.iter().map(|instance| (instance.step.0, instance.iteration)).collect::<Vec<_>>());
        }
        assert_eq!(rounds, [vec![(0, 0), (2, 0)], vec![(1, 0)], vec![(1, 1)]]);
    }

    #[test]
    fn iterations_complete_in_any_order() {
        let mut progress = Progress::default();
        for iteration in [3, 1, 63, 0] {
            progress.complete(iteration);
        }
        assert_eq!((progress.done, progress.is_done(3), progress.is_done(2)), (2, true, false));
        progress.complete(2);
        assert_eq!(progress.done, 4);
        assert!(progress.is_done(63) && !progress.is_done(62));
        (4..63).for_each(|iteration| progress.complete(iteration));
        assert_eq!(progress.done, 64);
        assert_eq!(progress.ahead, 0);
    }
}
