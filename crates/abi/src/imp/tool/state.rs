//! State of the tool interface, except listeners, which the end of each call runs ([`crate::listeners`]).

use tutti_core::lanes::FirstLaneCell;
use tutti_core::tool::variables::Variable;

use crate::slots::Slots;

/// Objects that tools have created.
#[derive(Debug)]
pub(super) struct Tool {
    /// Number of initialisations of the interface without a finalisation.
    pub(super) users: u32,
    pub(super) controls: Slots<usize>,
    pub(super) sessions: Slots<()>,
    pub(super) handles: Slots<Handle>,
}

pub(super) static TOOL: FirstLaneCell<Tool> = FirstLaneCell::new(Tool {
    users: 0,
    controls: Slots::new(1),
    sessions: Slots::new(2),
    handles: Slots::new(3),
});

/// A performance variable as one session sees it.
#[derive(Debug)]
pub(super) struct Handle {
    pub(super) session: usize,
    pub(super) variable: &'static Variable,
    /// The value when it was started; `None` while it is stopped.
    pub(super) since: Option<u64>,
    /// Value that was counted before the last start.
    pub(super) counted: u64,
}

impl Handle {
    pub(super) fn value(&self, now: u64) -> u64 {
        match (self.variable.class.is_counted(), self.since) {
            (false, _) => now,
            (true, None) => self.counted,
            (true, Some(since)) => self.counted.wrapping_add(now.wrapping_sub(since)),
        }
    }

    pub(super) fn set(&mut self, value: u64, now: u64) {
        self.counted = value;
        self.since = self.since.map(|_| now);
    }

    pub(super) fn start(&mut self, now: u64) {
        self.since.get_or_insert(now);
    }

    pub(super) fn stop(&mut self, now: u64) {
        self.counted = self.value(now);
        self.since = None;
    }
}
