//! Hosts that a request may use, and the agent that reaches them.

use std::cmp::Reverse;
use std::path::Path;
use std::process::Command;

use tutti_base::config::Config;
use tutti_sys::{cpu, files, process};
use tutti_topo::Machine;
use tutti_topo::model::Level;

use super::HOST_FILE_BYTES;
use crate::agent;
use crate::allocation::agents::{self, AgentChoice};
use crate::allocation::{self, Allocation, PerHost, Surroundings};
use crate::error::LaunchError;
use crate::hosts::{self, Host};
use crate::report::Shown;
use crate::request::{Assignment, MapBy, Request};
use crate::tree::message::JobInfo;

/// Access to the environment of this process.
struct Own;

impl Surroundings for Own {
    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok().filter(|value| !value.trim().is_empty())
    }

    fn read(&self, file: &str) -> Result<String, LaunchError> {
        read_hosts(file)
    }

    fn output(&self, command: &[&str]) -> Result<String, LaunchError> {
        let [program, arguments @ ..] = command else {
            return Err(LaunchError::Invalid("no command".to_string()));
        };
        let shown = command.join(" ");
        let done = Command::new(program).args(arguments).output();
        let done = done.map_err(LaunchError::system(&shown))?;
        if !done.status.success() {
            return Err(LaunchError::Invalid(format!(
                "{shown}: {}",
                String::from_utf8_lossy(&done.stderr).trim()
            )));
        }
        Ok(String::from_utf8_lossy(&done.stdout).into_owned())
    }

    fn has_program(&self, name: &str) -> bool {
        agent::find(name.as_bytes()).is_some()
    }
}

/// Hosts that a request may use, and the agent that reaches them.
pub(super) struct Hosts {
    pub(super) hosts: Vec<Host>,
    /// True if the hosts are named by an option or a variable; otherwise the list is this machine alone.
    pub(super) are_named: bool,
    /// Name of the variable that names them, or the command line, for `--display allocation`.
    source: String,
    /// Hosts that the environment names.
    allocation: Option<Allocation>,
    /// Ranks on each host that a variable requests.
    per_host: Option<PerHost>,
    /// Command of the agent, once it is chosen.
    agent: Vec<String>,
    /// Lines of text for the user.
    notes: Vec<String>,
}

impl Hosts {
    /// Returns the hosts that the request or the environment names, or this one.
    ///
    /// # Errors
    /// Fails if a list of hosts cannot be parsed.
    pub(super) fn find(request: &Request) -> Result<Hosts, LaunchError> {
        let mut listed = named_hosts(request)?;
        let mut source = "the command line".to_string();
        if listed.is_empty() {
            let mut files = Vec::new();
            for name in &request.default_host_files {
                files.push((name.clone(), read_hosts(name)?));
            }
            listed = hosts::listed(&[], &files)?;
        }
        let has_file = matches!(request.assignment, Assignment::RankFile(_) | Assignment::Sequence(Some(_)));
        let is_free = listed.is_empty() && !has_file;
        let allocation = match allocation::find(&Own) {
            // A restart takes the hosts of its set, if no others are named.
            Err(reason) if is_free && request.checkpoints.restart.is_none() => return Err(reason),
            found => found.unwrap_or_default(),
        };
        let mut notes = Vec::new();
        let (hosts, are_named) = match &allocation {
            _ if !listed.is_empty() => (listed, true),
            Some(found) => {
                source.clone_from(&found.source);
                notes.extend(found.notes.iter().filter(|_| !has_file).cloned());
                (found.hosts.clone(), true)
            }
            None => {
                source = "no one: this host alone".to_string();
                (vec![hosts::own(1)], false)
            }
        };
        // Slots on the command line take precedence over the variable.
        let has_slots = !request.host_files.is_empty() || request.hosts.iter().any(|host| host.contains(':'));
        let per_host = allocation::per_host(&Own)?.filter(|_| !has_slots);
        let hosts = Hosts { hosts, are_named, source, allocation, per_host, agent: Vec::new(), notes };
        hosts.chosen(request)
    }

    /// Applies the options that exclude and sort hosts.
    fn chosen(mut self, request: &Request) -> Result<Hosts, LaunchError> {
        if request.is_not_here {
            let own = process::host_name();
            self.hosts.retain(|host| host.name != own);
            if self.hosts.is_empty() {
                return Err(LaunchError::Invalid(
                    "no host is left but this one, on which no ranks are to run".to_string(),
                ));
            }
        }
        match request.hosts_ascending {
            Some(true) => self.hosts.sort_by_key(|host| host.slots),
            Some(false) => self.hosts.sort_by_key(|host| Reverse(host.slots)),
            None => {}
        }
        Ok(self)
    }

    /// Returns the slots of each host.
    pub(super) fn slots(&self, request: &Request) -> Vec<u32> {
        // All hosts of a job are assumed to be alike, as other hosts cannot be queried yet.
        let units = |level| Machine::local().count(level).max(1) as u32;
        let by_unit = || {
            let (ranks, unit) = request.per_unit?;
            let level = match unit {
                MapBy::Core => Level::Core,
                MapBy::L2 => Level::L2,
                MapBy::L3 => Level::L3,
                MapBy::Numa => Level::Numa,
                MapBy::Package => Level::Package,
            };
            Some(ranks.saturating_mul(units(level)))
        };
        let by_variable = || match self.per_host? {
            PerHost::Ranks(ranks) => Some(ranks),
            PerHost::Processors => Some(cpu::usable_processors() as u32),
            PerHost::Cores => Some(units(Level::Core)),
        };
        let per_host = request.per_node.or_else(by_unit).or_else(by_variable);
        self.hosts.iter().map(|host| per_host.unwrap_or(host.slots)).collect()
    }

    /// Chooses the agent of the job, and the number of children of each daemon.
    ///
    /// # Errors
    /// Fails if the command line names an unknown agent.
    pub(super) fn reach(
        &mut self,
        request: &Request,
        config: &Config,
        info: &mut JobInfo,
    ) -> Result<(), LaunchError> {
        let said = AgentChoice {
            command: request.agent.as_deref(),
            name: request.launcher.as_deref(),
            setting: &config.launch.agent,
        };
        let agent = agents::choose(said, &Own, self.allocation.as_ref())?;
        let usual = if agent.is_central { 0 } else { config.launch.launch_radix.min(u32::MAX.into()) as u32 };
        info.radix = request.radix.unwrap_or(usual);
        info.agent.clone_from(&agent.words);
        // In a job on one host no agent is called.
        if info.names.len() > 1 {
            self.notes.extend(agent.notes);
        }
        self.agent = agent.words;
        Ok(())
    }

    /// Returns the hosts and notes in the form that is shown to the user.
    pub(super) fn shown(self) -> Shown {
        Shown { hosts: self.hosts, source: self.source, agent: self.agent.join(" "), notes: self.notes }
    }
}

/// Returns the hosts of `--host` and `--hostfile`.
fn named_hosts(request: &Request) -> Result<Vec<Host>, LaunchError> {
    let mut files = Vec::new();
    for name in &request.host_files {
        files.push((name.clone(), read_hosts(name)?));
    }
    let listed = hosts::listed(&request.hosts, &files)?;
    match files.first() {
        Some((name, _)) if listed.is_empty() => Err(LaunchError::Invalid(format!(
            "host file {name} names no host: a line is NAME, NAME:SLOTS or NAME slots=SLOTS; without \
             --hostfile the job runs here"
        ))),
        _ => Ok(listed),
    }
}

/// Reads a host file, which may be a pipe.
pub(super) fn read_hosts(name: &str) -> Result<String, LaunchError> {
    files::read_text_or_pipe(Path::new(name), HOST_FILE_BYTES)
        .map_err(LaunchError::system(format!("host file {name}")))
}
