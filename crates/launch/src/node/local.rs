//! Ranks of this host: their start, their inquiries, their ends.

use std::io;
use std::os::fd::AsFd;

use tutti_sys::event::Interest;
use tutti_sys::process::{self, Exit, Reaped};
use tutti_sys::refusal;
use tutti_sys::this_process;

use super::{DRAIN, Node, TOKEN_INQUIRIES, input};
use crate::inquiries::Inquired;
use crate::outcome::STATUS_USAGE;
use crate::program::HostJob;
use crate::ranks::{Ranks, Refused, Surroundings};
use crate::sockets::Sockets;
use crate::sweep;
use crate::tree::daemon::Event;
use crate::tree::handshake;
use crate::tree::message::Phase;

impl Node {
    /// Starts the ranks of this host, unless they are restored later or their address is not known yet.
    pub(super) fn start_ranks(&mut self) {
        // Ranks of a restart are restored in a phase of its own, when all hosts have joined.
        if self.here.as_ref().is_some_and(|here| here.info.restart.is_some()) {
            return;
        }
        // Other hosts get the address of these ranks. If no name determines it, it is known when a child has
        // connected.
        self.is_start_deferred = self.interface.is_empty() && self.daemon.expects_any() && !self.is_killed;
        if !self.is_start_deferred {
            self.start_here(None);
        }
    }

    /// Starts the ranks of this host, or restores them with the sockets in `network`. Returns true on
    /// success; a failure is reported to the root.
    pub(super) fn start_here(&mut self, network: Option<&Sockets>) -> bool {
        let Some(here) = self.here.take().filter(|_| !self.is_killed) else { return false };
        match self.start_these(here, network) {
            Ok(()) => {
                self.events.push_back(Event::Processors(this_process::processors()));
                self.events.extend(self.ranks.as_ref().map(|ranks| Event::Processes(ranks.started())));
                self.events.push_back(Event::Reached(Phase::Started));
                self.watch_inquiries();
                true
            }
            Err(Refused { status, reason }) => {
                self.events.push_back(Event::Refused { status, reason });
                false
            }
        }
    }

    /// Starts or restores the ranks, with the pipes for their input.
    fn start_these(&mut self, here: HostJob, network: Option<&Sockets>) -> Result<(), Refused> {
        let reads = here.info.input_host() == Some(here.host);
        let system = |error: io::Error| Refused {
            status: STATUS_USAGE,
            reason: format!("cannot start the job: {}", refusal::explain(&error)),
        };
        let is_passed_on = reads && (self.root.is_none() || self.checkpoints.counts_input());
        let is_copied = here.info.manner.is_input_copied;
        let count = if is_copied { here.world.len() } else { usize::from(is_passed_on) };
        let targets: io::Result<Vec<_>> = (0..count).map(|_| input::Target::new(is_copied)).collect();
        let (passed_on, targets): (Vec<_>, Vec<_>) = targets.map_err(system)?.into_iter().unzip();
        self.input_targets = targets;
        let own_input = self.root.is_some().then(|| self.given.input.as_fd());
        let input = passed_on.first().map(AsFd::as_fd).or(own_input);
        let copies = if is_copied { passed_on.iter().map(AsFd::as_fd).collect() } else { Vec::new() };
        let surroundings = Surroundings {
            interface: &self.interface,
            secret: handshake::derive(&self.given.secret, "ranks"),
            input: input.filter(|_| reads),
            copies,
            mask: self.given.mask,
            killings: self.given.killings,
        };
        let now = self.now();
        if let Some((restart, network)) = here.info.restart.clone().zip(network) {
            let (start, clock, connections) = (self.start, &self.clock, &mut self.connections);
            let mut speak = || connections.speak(clock.now(start.elapsed()));
            let outputs = &mut self.outputs;
            let made = Ranks::restore(here, &restart, network, &surroundings, outputs, &mut speak)?;
            self.spawned.listen(&made.ranks, &self.poller);
            self.ranks = Some(made.ranks);
            self.checkpoints.restored(made.stopped, restart.set, made.files);
            return Ok(());
        }
        let mut ranks = Ranks::new(here, &surroundings, &mut self.outputs)?;
        // The socket must exist before any rank runs. A rank that does not find it concludes that there is no
        // launcher.
        self.spawned.listen(&ranks, &self.poller);
        let result = ranks.start(&surroundings, &mut self.outputs, now);
        self.inspections.begin(now);
        self.ranks = Some(ranks);
        result
    }

    fn watch_inquiries(&mut self) {
        let Some(ranks) = &self.ranks else { return };
        for (local, end) in ranks.inquiry_ends() {
            // A rank that cannot be watched gets no reply, and reports that it waits for one.
            let _ = self.poller.add(end, TOKEN_INQUIRIES + u64::from(local), Interest::Read);
        }
    }

    /// Handles the inquiries of a rank.
    pub(super) fn read_inquiry(&mut self, local: u32) {
        let Some(ranks) = &mut self.ranks else { return };
        for word in ranks.inquired(local) {
            self.events.push_back(match word {
                Inquired::Ask(ask) => Event::Ask(local, ask),
                Inquired::Has(generation, address) => Event::Published(local, generation, address),
                Inquired::Call(to) => Event::Call(local, to),
                Inquired::Arrived(generation) => Event::Arrived(generation),
            });
        }
    }

    pub(super) fn reap(&mut self) {
        while self.child_signals.next().is_some() {}
        let mut exits = Vec::new();
        while let Reaped::Ended(pid, exit) = process::reap() {
            exits.push((pid, exit));
        }
        self.take_exits(&exits);
    }

    /// Handles the ends of processes: ranks, agents, or the `mpirun` of spawned jobs.
    fn take_exits(&mut self, exits: &[(i32, Exit)]) {
        if let Some(ranks) = &mut self.ranks {
            let ended = ranks.ended(exits);
            for exit in &ended {
                self.events.extend(ranks.local_of(exit.rank).map(Event::RankEnded));
            }
            if !ended.is_empty() {
                self.events.push_back(Event::Exits(ended));
            }
        }
        self.end_agents(exits);
        self.end_spawned(exits);
    }

    /// Detects that the ranks of this host, and at the root those of the job, have ended.
    pub(super) fn watch_for_end(&mut self) {
        let is_started = self.ranks.is_some() || self.is_killed || self.daemon.is_over();
        let no_rank_runs = self.ranks.as_ref().is_none_or(|ranks| ranks.running() == 0);
        let has_none = self.daemon.job().is_some() && self.daemon.host().is_none();
        let given_up = self.root.as_ref().is_some_and(|root| root.policy.running() == 0);
        let is_over = (no_rank_runs && (is_started || has_none) || given_up) && !self.spawned.any();
        if is_over && self.swept_at.is_none() {
            let ended = sweep::sweep_but(&self.running_agents());
            self.take_exits(&ended);
            self.swept_at = Some(self.now());
        }
        let Some(since) = self.swept_at else { return };
        if since + DRAIN <= self.now() {
            self.outputs.close_sources(self.now());
        }
        if !self.is_drained && !self.daemon.awaits_output() && self.outputs.is_finished() {
            self.is_drained = true;
            self.events.push_back(Event::Reached(Phase::Drained));
        }
        let Some(root) = &self.root else { return };
        let is_enough = self.hurry || root.is_drained() || root.policy.has_resigned();
        let may_end = is_enough && !self.spawned.any();
        if root.policy.running() == 0 && may_end && !self.daemon.is_over() {
            eprint!("{}{}", root.explain().unwrap_or_default(), root.exit_codes());
            if self.prints_timings {
                eprint!("{}", root.timings(self.connections.refused()));
            }
            self.events.push_back(Event::Quit);
        }
    }
}
