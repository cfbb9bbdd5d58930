//! Agents that start the daemons of children: their output and their end.
//!
//! Output of an agent before its daemon has joined is shown only if the daemon never joins, since a
//! successful login prints banners and warnings. Later output comes from the daemon itself and is shown.
//! Output about the end of the connection is dropped, as that end is reported anyway.

use std::io::{self, PipeReader, Read};
use std::net::SocketAddr;
use std::os::fd::AsFd;

use tutti_sys::event::{self, Interest};
use tutti_sys::process::{self, Exit};

use super::{Node, TOKEN_AGENTS};
use crate::agent;
use crate::outcome::STATUS_USAGE;
use crate::tree::daemon::{self, Event};
use crate::tree::message::Cause;

/// Maximum bytes of an agent's output that are kept.
const MOST_WORDS: usize = 16 << 10;

/// Process that starts the daemon of a child.
#[derive(Debug)]
pub(super) struct Agent {
    pid: i32,
    is_running: bool,
    pipe: Option<PipeReader>,
    /// Output that is not shown yet.
    held: Vec<u8>,
    /// True once the daemon of the child has joined.
    is_trusted: bool,
}

impl Node {
    /// Starts the agent of a child, after this daemon listens for connections.
    pub(super) fn start_agent(&mut self, child: u32) {
        let Some(job) = self.daemon.job().cloned() else { return };
        if let Err(error) = self.listen(&job) {
            let reason = error.to_string();
            self.events.push_back(Event::Refused { status: STATUS_USAGE, reason });
            return;
        }
        let name = &job.names[child as usize];
        let parents: Vec<String> = self.listening.iter().map(SocketAddr::to_string).collect();
        let arguments = ["--daemon", &child.to_string(), "--parent", &parents.join(",")].map(str::to_string);
        let started =
            agent::start(&job.agent, name, &job.launcher, &arguments, &self.given.secret, self.given.mask);
        match started {
            Ok((pid, said)) => {
                let is_watched = event::set_nonblocking(said.as_fd()).is_ok()
                    && self.poller.add(said.as_fd(), TOKEN_AGENTS + u64::from(child), Interest::Read).is_ok();
                let pipe = is_watched.then_some(said);
                let agent = Agent { pid, is_running: true, pipe, held: Vec::new(), is_trusted: false };
                self.agents.insert(child, agent);
            }
            Err(error) => {
                let cause = Cause::NoAgent(error.error.to_string());
                self.events.push_back(Event::Lost(child, cause));
            }
        }
        let now = self.now();
        self.root.iter_mut().for_each(|root| root.called(now));
    }

    /// Reads the output of an agent.
    pub(super) fn read_agent(&mut self, child: u32) {
        let Some(agent) = self.agents.get_mut(&child) else { return };
        let Some(pipe) = &mut agent.pipe else { return };
        let mut bytes = [0; 4096];
        match pipe.read(&mut bytes) {
            Ok(0) => agent.pipe = None,
            Ok(count) => {
                let room = MOST_WORDS.saturating_sub(agent.held.len());
                agent.held.extend_from_slice(&bytes[..count.min(room)]);
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(_) => agent.pipe = None,
        }
        if agent.is_trusted {
            self.show_words(child);
        }
    }

    /// Prints the kept output of an agent, line by line.
    fn show_words(&mut self, child: u32) {
        let Some(agent) = self.agents.get_mut(&child) else { return };
        let held = std::mem::take(&mut agent.held);
        let name = self.daemon.job().map_or("", |job| &job.names[child as usize]).to_string();
        for line in String::from_utf8_lossy(&held).lines() {
            self.outputs.say(&format!("{name}: {line}\n"), self.clock.now(self.start.elapsed()));
        }
    }

    /// Records that the daemon of a child has joined.
    pub(super) fn trust_agent(&mut self, child: u32) {
        let is_verbose = self.daemon.job().is_some_and(|job| job.manner.verbose);
        if is_verbose {
            self.show_words(child);
        }
        if let Some(agent) = self.agents.get_mut(&child) {
            agent.is_trusted = true;
            agent.held.clear();
        }
    }

    /// Drops further output of an agent, since its daemon is lost or was ordered to leave.
    pub(super) fn silence_agent(&mut self, child: u32) {
        if let Some(agent) = self.agents.get_mut(&child) {
            agent.pipe = None;
            agent.held.clear();
        }
    }

    /// Kills the agent of a child and closes the child's connection. Prints the agent's output if the child
    /// did not join.
    pub(super) fn stop_agent(&mut self, child: u32) {
        let is_late = self.agents.get(&child).is_some_and(|agent| !agent.is_trusted) && !self.is_killed;
        if is_late {
            self.show_words(child);
        }
        self.silence_agent(child);
        if let Some(agent) = self.agents.get(&child).filter(|agent| agent.is_running) {
            process::kill_group(agent.pid, libc::SIGKILL);
        }
        self.connections.drop_child(child);
    }

    /// Handles the ends of processes that may be agents.
    pub(super) fn end_agents(&mut self, exits: &[(i32, Exit)]) {
        for &(pid, exit) in exits {
            let found = self.agents.iter_mut().find(|(_, agent)| agent.pid == pid);
            let Some((&child, agent)) = found else { continue };
            agent.is_running = false;
            // Once the daemon has joined, the end of its connection reports its end.
            if self.daemon.expects(child) {
                self.read_agent(child);
                self.show_words(child);
                self.events.push_back(Event::Lost(child, Cause::Agent(daemon::ending(exit))));
            }
        }
    }

    /// Returns the process numbers of the running agents.
    pub(super) fn running_agents(&self) -> Vec<i32> {
        self.agents.values().filter(|agent| agent.is_running).map(|agent| agent.pid).collect()
    }
}
