//! Input of a report: libraries, options and results.

use crate::measure::library::Library;
use crate::measure::options::{CompareOptions, Shape};
use crate::measure::results::{Goal, KILLED, Results, START, goals, goals_of_hosts};

/// Input of a report: libraries, options and results.
pub struct Input<'a> {
    /// Options of the measurement; they determine the order of operations, ranks and modes.
    pub options: &'a CompareOptions,
    /// The libraries; the first is compared with the others.
    pub libraries: &'a [Library],
    /// Measured times of all libraries.
    pub results: &'a Results,
    /// The machine, a line each.
    pub machine: Vec<String>,
}

impl Input<'_> {
    /// Returns the goals and whether they were reached.
    pub fn goals(&self) -> Vec<Goal> {
        if self.options.hosts.is_none() {
            return goals(self.results, self.subject());
        }
        let starts: Vec<String> = self.options.starts.iter().map(|shape| shape.event()).collect();
        goals_of_hosts(self.results, self.subject(), &starts)
    }

    /// Names and titles of the job events.
    pub fn events(&self) -> Vec<(String, String)> {
        if self.options.hosts.is_some() {
            let title = |shape: &Shape| {
                format!("Start of {} hosts x {} ranks (init, barrier, finalize)", shape.hosts, shape.ranks)
            };
            return self.options.starts.iter().map(|shape| (shape.event(), title(shape))).collect();
        }
        let start = format!("Start of {} ranks (init, barrier, finalize)", self.options.start_ranks);
        let killed = "End of a job after one rank was killed".to_string();
        vec![(START.to_string(), start), (KILLED.to_string(), killed)]
    }

    /// Returns the name of the library that is compared with the others.
    pub fn subject(&self) -> &str {
        &self.libraries[0].name
    }

    /// Returns true if the report compares several libraries.
    pub fn compares(&self) -> bool {
        self.libraries.len() > 1
    }
}
