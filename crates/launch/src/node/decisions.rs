//! Decisions at the root: reports that come up are handled by the policy, and its actions go down.

use std::io::{Read, Write};
use std::os::fd::AsFd;

use super::Node;
use crate::debugger;
use crate::policy;
use crate::tree::daemon::Event;
use crate::tree::message::{Phase, Up};

impl Node {
    /// Handles a report that has come up to the root.
    pub(super) fn decide_up(&mut self, up: Up) {
        let now = self.now();
        let shape = self.daemon.shape();
        let Some(root) = &mut self.root else { return };
        let mut actions = Vec::new();
        match up {
            Up::Processes(started) => root.started(&started),
            Up::Exits(exits) => root.exits(&exits, now, &mut actions),
            Up::Refused(refusal) => root.refused(refusal, now, &mut actions),
            Up::Lost(loss) => root.lost(&loss, shape, now, &mut actions),
            Up::Signal(signal) => root.policy.handle(policy::Event::Signal(signal), now, &mut actions),
            Up::Reached(phase) => {
                root.reached(phase, now);
                match phase {
                    Phase::Joined => self.begin_restart(),
                    Phase::Started => {
                        // Input is opened now, because a restored rank has no room for it before.
                        self.open_input();
                        self.has_started();
                        self.show_processes();
                    }
                    Phase::Initialised | Phase::Drained => {}
                }
            }
            Up::Checkpoint(report) => self.checkpoint_reported(*report),
            Up::Wanted(stops) => self.want_checkpoint(stops),
            Up::InputTaken(bytes) => self.input_taken(bytes as usize),
            // The following reports are for neighbouring daemons.
            Up::Output(..) | Up::Ask(_) | Up::Table(_) | Up::Call(_) | Up::Processors(_) => {}
            Up::Arrived(_) => {}
            Up::LongWait => self.hear_long_wait(),
            Up::Cards(request, cards) => self.hear_cards(request, &cards),
        }
        self.obey(actions);
    }

    /// Shows the processes to debuggers and to the user, when all ranks are started.
    fn show_processes(&mut self) {
        let now = self.now();
        let Some(root) = &self.root else { return };
        let table = root.table();
        if let Some(lines) = root.waits_for_debugger(&table) {
            self.outputs.say(&lines, now);
        }
        if let Some(mut pipe) = self.given.table.take() {
            // A supervisor that has ended needs no table.
            let _ = pipe.write_all(&debugger::encode(&table));
        }
    }

    pub(super) fn decide(&mut self, event: policy::Event) {
        let now = self.now();
        let Some(root) = &mut self.root else { return };
        let mut actions = Vec::new();
        root.policy.handle(event, now, &mut actions);
        self.obey(actions);
    }

    /// Executes actions of the policy.
    pub(super) fn obey(&mut self, actions: Vec<policy::Action>) {
        for action in actions {
            match action {
                policy::Action::SignalAll(signal) => self.events.push_back(Event::SignalAll(signal)),
                policy::Action::ReportWaits(which) => self.events.push_back(Event::Report(which)),
                policy::Action::Tell(notice) => {
                    let text = self.root.as_mut().and_then(|root| root.tell(&notice));
                    if let Some(text) = text {
                        self.outputs.say(&text, self.now());
                    }
                }
            }
        }
    }

    /// Reads signals from the pipe of the supervisor. Its end means that the supervisor is gone.
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
                    if self.checkpoints.is_asked_by(signal.into()) {
                        self.begin_checkpoint(false, true);
                        continue;
                    }
                    let ends = [libc::SIGINT, libc::SIGTERM].contains(&signal.into());
                    if ends || [libc::SIGHUP, libc::SIGQUIT].contains(&signal.into()) {
                        self.spawned.user_ends();
                    }
                    // No rank runs, but a slow reader of the output delays the end, and the user wants to
                    // leave.
                    let is_alone = self.root.as_ref().is_some_and(|root| root.policy.running() == 0);
                    self.hurry |= is_alone && ends;
                    self.events.push_back(Event::Signal(signal.into()));
                }
            }
            Err(_) => {}
        }
    }
}
