//! At the root: what comes up is decided by the policy, and what it decides goes down.

use std::io::Read;
use std::os::fd::AsFd;

use super::Node;
use crate::policy;
use crate::tree::daemon::Event;
use crate::tree::message::{Phase, Up};

impl Node {
    /// What goes up at the root ends here.
    pub(super) fn decide_up(&mut self, up: Up) {
        let now = self.now();
        let shape = self.daemon.shape();
        let Some(root) = &mut self.root else { return };
        let mut actions = Vec::new();
        match up {
            Up::Exits(exits) => root.exits(&exits, now, &mut actions),
            Up::Refused(refusal) => root.refused(refusal, now, &mut actions),
            Up::Lost(loss) => root.lost(&loss, shape, now, &mut actions),
            Up::Signal(signal) => root.policy.handle(policy::Event::Signal(signal), now, &mut actions),
            Up::Reached(phase) => {
                root.reached(phase, now);
                if phase == Phase::Joined {
                    self.open_input();
                }
            }
            Up::InputTaken(bytes) => self.input_taken(bytes as usize),
            // These are for neighbours.
            Up::Output(..) | Up::Ask(_) | Up::Table(_) | Up::Processors(_) => {}
        }
        self.obey(actions);
    }

    pub(super) fn decide(&mut self, event: policy::Event) {
        let now = self.now();
        let Some(root) = &mut self.root else { return };
        let mut actions = Vec::new();
        root.policy.handle(event, now, &mut actions);
        self.obey(actions);
    }

    pub(super) fn obey(&mut self, actions: Vec<policy::Action>) {
        for action in actions {
            match action {
                policy::Action::SignalAll(signal) => self.events.push_back(Event::SignalAll(signal)),
                policy::Action::ReportWaits => self.events.push_back(Event::ReportAll),
                policy::Action::Tell(notice) => {
                    let text = self.root.as_ref().and_then(|root| root.tell(&notice));
                    if let Some(text) = text {
                        self.outputs.say(&text, self.now());
                    }
                }
            }
        }
    }

    pub(super) fn read_control(&mut self) {
        if !self.has_control {
            return;
        }
        let mut signals = [0; 64];
        match self.given.control.read(&mut signals) {
            Ok(0) => {
                self.has_control = false;
                self.hurry = true;
                self.spawned.user_ends();
                let _ = self.poller.remove(self.given.control.as_fd());
                self.decide(policy::Event::SupervisorLost);
                if self.root.is_none() {
                    self.events.push_back(Event::Quit);
                }
            }
            Ok(count) => {
                for &signal in &signals[..count] {
                    let ends = [libc::SIGINT, libc::SIGTERM].contains(&signal.into());
                    if ends || [libc::SIGHUP, libc::SIGQUIT].contains(&signal.into()) {
                        self.spawned.user_ends();
                    }
                    // Nobody runs, but a slow reader keeps us: the user wants to leave.
                    let is_alone = self.root.as_ref().is_some_and(|root| root.policy.running() == 0);
                    self.hurry |= is_alone && ends;
                    self.events.push_back(Event::Signal(signal.into()));
                }
            }
            Err(_) => {}
        }
    }
}
