//! Steps of the watch for hangs: looks at the ranks of this host, collections, and at the root reports.

use std::time::Duration;

use super::Node;
use super::hang::time_of;
use crate::hang::Step;
use crate::policy;
use crate::tree::daemon::Event;
use crate::tree::message::RankCard;

/// Time that waiting ranks have to publish their cards. They look for a request every 100 ms; on a busy
/// machine and with places of the program it takes longer.
const PUBLISHING: Duration = Duration::from_secs(2);
/// Time between two looks at the cards while they are published.
const MOMENT: Duration = Duration::from_millis(20);

impl Node {
    /// Looks at the ranks of this host, and performs what is due.
    pub(super) fn watch_hangs(&mut self) {
        let now = self.now();
        if let Some((request, until)) = self.hangs.collecting {
            let is_complete = self.ranks.as_ref().is_none_or(|ranks| ranks.have_answered(request));
            if is_complete || until <= now {
                self.hangs.collecting = None;
                let cards = self.ranks.as_ref().map(|ranks| ranks.cards(request)).unwrap_or_default();
                self.events.push_back(Event::Cards(request, cards));
            } else {
                self.hangs.next = now + MOMENT;
            }
        }
        if self.hangs.next <= now {
            self.look_for_long_waits(now);
        }
        let step = self.hangs.inquest.as_mut().and_then(|inquest| inquest.tick(now));
        self.take_hang_step(step);
    }

    /// Reports ranks that have begun to wait for long since the last look.
    fn look_for_long_waits(&mut self, now: Duration) {
        if self.hangs.after.is_none() && self.ranks.is_some() {
            self.hangs.after = self.daemon.job().and_then(|job| time_of(job));
            self.hangs.is_off = self.hangs.after.is_none();
        }
        let (Some(after), Some(ranks)) = (self.hangs.after, &self.ranks) else {
            self.hangs.next = now + Duration::from_secs(1);
            return;
        };
        self.hangs.next = now + (after / 8).clamp(MOMENT, Duration::from_millis(500));
        let waits = ranks.long_waits(after);
        if waits.iter().any(|since_ns| *since_ns != 0 && !self.hangs.known.contains(since_ns)) {
            self.events.push_back(Event::LongWait);
        }
        self.hangs.known = waits;
    }

    /// Begins to collect the states of the ranks of this host.
    pub(super) fn collect_cards(&mut self, request: u32) {
        self.ranks.iter().for_each(|ranks| ranks.request_cards(request));
        let now = self.now();
        self.hangs.collecting = Some((request, now + PUBLISHING));
        self.hangs.next = now + MOMENT;
    }

    /// Handles at the root that a rank has begun to wait for long.
    pub(super) fn hear_long_wait(&mut self) {
        let now = self.now();
        let step = self.hangs.inquest.as_mut().and_then(|inquest| inquest.long_wait(now));
        self.take_hang_step(step);
    }

    /// Handles the states of all ranks at the root.
    pub(super) fn hear_cards(&mut self, request: u32, cards: &[RankCard]) {
        let now = self.now();
        let step = self.hangs.inquest.as_mut().and_then(|inquest| inquest.cards(request, cards, now));
        self.take_hang_step(step);
    }

    fn take_hang_step(&mut self, step: Option<Step>) {
        match step {
            None => {}
            Some(Step::Collect(request)) => self.events.push_back(Event::Collect(request)),
            Some(Step::Report(report)) => {
                let text: String = report.lines.iter().map(|line| format!("mpirun: {line}\n")).collect();
                self.outputs.say(&text, self.now());
                if let Some(file) = &self.hangs.file
                    && let Err(error) = std::fs::write(file, &report.json)
                {
                    let text = format!("mpirun: cannot write {}: {error}\n", file.display());
                    self.outputs.say(&text, self.now());
                }
                if report.is_proved && self.hangs.aborts {
                    self.decide(policy::Event::Hang);
                }
            }
        }
    }
}
