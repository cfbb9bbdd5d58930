//! How far the execution of a schedule is, and which steps may start. The one place that gives the
//! edges, loops and windows of the intermediate representation their meaning; the engine, the
//! verifier and the simulator all run on it.

use crate::ir::{Edge, Loop, Schedule, StepId};

/// One run of a step: the step and the iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Instance {
    /// The step.
    pub step: StepId,
    /// The iteration; 0 outside of loops.
    pub iteration: u32,
}

/// What is known of one step.
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
    steps: Vec<Progress>,
    /// All steps before this one are complete.
    first: usize,
    /// Something was completed since the last scan.
    stale: bool,
}

impl Cursor {
    /// Puts the cursor at the beginning of `schedule`.
    pub fn reset(&mut self, schedule: &Schedule) {
        self.steps.clear();
        self.steps.resize(schedule.steps.len(), Progress::default());
        self.first = 0;
        self.stale = true;
    }

    /// Whether every step of `schedule` is complete.
    pub fn finished(&mut self, schedule: &Schedule) -> bool {
        while self.first < self.steps.len()
            && self.steps[self.first].done == schedule.iterations(StepId(self.first as u32))
        {
            self.first += 1;
        }
        self.first == self.steps.len()
    }

    /// Records that an instance, started before, is complete.
    pub fn complete(&mut self, instance: Instance) {
        self.steps[instance.step.0 as usize].complete(instance.iteration);
        self.stale = true;
    }

    /// Starts every instance that may start: `start` tells whether it was complete at once.
    ///
    /// # Errors
    /// The first error of `start`, which ends the execution.
    pub fn advance<E>(
        &mut self,
        schedule: &Schedule,
        mut start: impl FnMut(Instance) -> Result<bool, E>,
    ) -> Result<(), E> {
        if !self.stale {
            return Ok(());
        }
        self.stale = false;
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

    /// One pass over the body of a loop; whether another one may find more to start.
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

    fn holds(&self, schedule: &Schedule, edge: Edge, iteration: u32) -> bool {
        let before = &self.steps[edge.step.0 as usize];
        let count = schedule.iterations(edge.step);
        if edge.distance == Edge::WHOLE || count == 1 && edge.distance == 0 {
            return before.done == count;
        }
        iteration < edge.distance || before.is_done((iteration - edge.distance).min(count - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
