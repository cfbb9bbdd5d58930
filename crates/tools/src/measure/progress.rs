//! Progress of a long measurement on standard error, with an estimate of the time left: a bar on a terminal,
//! a line for each stage elsewhere.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Estimate of the time left, from the steps done so far. Every round has the same steps.
pub struct Estimate {
    /// Seconds planned for each step of a round.
    planned: Vec<f64>,
    /// Seconds that each step took last.
    taken: Vec<Option<f64>>,
    /// Rounds in which each step is still to come.
    left: Vec<u32>,
}

impl Estimate {
    /// Estimates `rounds` rounds of steps; `planned` is the time of each in seconds.
    pub fn new(planned: Vec<f64>, rounds: u32) -> Estimate {
        let steps = planned.len();
        Estimate { planned, taken: vec![None; steps], left: vec![rounds; steps] }
    }

    /// Counts a step as done.
    fn finish(&mut self, step: usize, seconds: f64) {
        self.taken[step] = Some(seconds);
        self.left[step] = self.left[step].saturating_sub(1);
    }

    /// Returns the seconds left. Steps not seen yet are scaled by how far the others have missed their plan.
    pub fn seconds_left(&self) -> f64 {
        let known =
            self.taken.iter().zip(&self.planned).filter_map(|(taken, planned)| Some(((*taken)?, planned)));
        let (taken, planned) = known.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let scale = if planned > 0.0 { taken / planned } else { 1.0 };
        let each = |step: usize| self.taken[step].unwrap_or(self.planned[step] * scale);
        (0..self.planned.len()).map(|step| f64::from(self.left[step]) * each(step)).sum()
    }

    fn steps_left(&self) -> u64 {
        self.left.iter().map(|rounds| u64::from(*rounds)).sum()
    }
}

/// Progress on standard error, from the first step to the last.
pub struct Progress {
    estimate: Estimate,
    bar: ProgressBar,
}

impl Progress {
    /// Shows the progress of the steps of `estimate`.
    pub fn new(estimate: Estimate) -> Progress {
        let bar = ProgressBar::with_draw_target(Some(estimate.steps_left()), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("[{elapsed}] {bar:30} {pos}/{len} {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(Duration::from_secs(1));
        Progress { estimate, bar }
    }

    /// Does step `step` of a round, called `name`.
    pub fn step<T>(&mut self, step: usize, name: &str, work: impl FnOnce() -> T) -> T {
        self.bar.set_message(format!("{}, {name}", self.time_left()));
        let begin = Instant::now();
        let answer = work();
        self.estimate.finish(step, begin.elapsed().as_secs_f64());
        self.bar.inc(1);
        answer
    }

    /// Prints a line above the bar.
    pub fn note(&self, line: &str) {
        self.bar.suspend(|| eprintln!("{line}"));
    }

    /// Reports the end of a stage, if no bar is shown.
    pub fn stage_done(&self, name: &str) {
        if self.bar.is_hidden() {
            eprintln!("{name}; {}", self.time_left());
        }
    }

    fn time_left(&self) -> String {
        format!("{} left", duration(self.estimate.seconds_left()))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Returns a time for people, rounded: 40 s, 12 min.
pub fn duration(seconds: f64) -> String {
    match seconds {
        _ if seconds < 99.5 => format!("{seconds:.0} s"),
        _ if seconds < 5970.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.1} h", seconds / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_learns_from_the_steps_done() {
        let mut estimate = Estimate::new(vec![1.0, 2.0, 3.0], 2);
        assert_eq!((estimate.seconds_left(), estimate.steps_left()), (12.0, 6));
        // Twice the plan: so are those not seen yet.
        estimate.finish(0, 2.0);
        assert_eq!(estimate.seconds_left(), 2.0 + 2.0 * 4.0 + 2.0 * 6.0);
        estimate.finish(1, 1.0);
        estimate.finish(2, 1.0);
        assert_eq!((estimate.seconds_left(), estimate.steps_left()), (4.0, 3));
        (0..3).for_each(|step| estimate.finish(step, 1.0));
        assert_eq!(estimate.seconds_left(), 0.0);
        // More than planned does no harm.
        estimate.finish(0, 1.0);
        assert_eq!(estimate.steps_left(), 0);
        assert_eq!(Estimate::new(Vec::new(), 3).seconds_left(), 0.0);
    }

    #[test]
    fn times_left_are_rounded() {
        assert_eq!([0.2, 40.0, 150.0, 7200.0].map(duration), ["0 s", "40 s", "2 min", "2.0 h"]);
    }
}
