//! Daemons of children: their messages, and the socket on which they connect.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::Node;
use crate::connections::Heard;
use crate::error::LaunchError;
use crate::program::HostJob;
use crate::root::placement_of;
use crate::tree::daemon::Event;
use crate::tree::link::Pace;
use crate::tree::message::{Down, JobInfo};
use tutti_base::PortRange;
use tutti_sys::interface;

impl Node {
    /// Handles events of the connections with parent and children.
    pub(super) fn hear(&mut self, heard: Vec<Heard>) {
        for word in heard {
            match word {
                Heard::Joined(child) => {
                    self.know_address(child);
                    self.add_streams(child);
                    self.trust_agent(child);
                    self.events.push_back(Event::Joined(child));
                }
                Heard::Up(child, up) => self.events.push_back(Event::Up(child, up)),
                Heard::Down(down) => {
                    if let Down::Plan(info) = &down {
                        self.learn(info);
                    }
                    self.events.push_back(Event::Down(down));
                }
                Heard::Lost(child, cause) => {
                    self.silence_agent(child);
                    self.events.push_back(Event::Lost(child, cause));
                }
                Heard::ParentLost(_) => self.events.push_back(Event::ParentLost),
            }
            self.drain_events();
        }
    }

    /// Takes the address to which a child has connected as the address of this host, if none is known. Then
    /// starts the ranks that wait for it.
    fn know_address(&mut self, child: u32) {
        if self.interface.is_empty()
            && let Some(address) = self.connections.own_address(child)
        {
            self.interface = address.to_string();
        }
        if std::mem::take(&mut self.is_start_deferred) {
            self.start_here(None);
        }
    }

    /// Handles all events in the order of their arrival.
    pub(super) fn drain_events(&mut self) {
        while let Some(event) = self.events.pop_front() {
            let mut actions = Vec::new();
            self.daemon.handle(event, self.now(), &mut actions);
            actions.into_iter().for_each(|action| self.perform(action));
        }
    }

    /// Derives from the plan what this host must start.
    fn learn(&mut self, info: &JobInfo) {
        let info = Arc::new(info.clone());
        self.connections.set_pace(pace(&info));
        if let Some(address) =
            Some(&info.interface).filter(|text| !text.is_empty()).and_then(|text| interface::named(text))
        {
            self.interface = address.to_string();
        }
        let host = info.daemon_of.iter().position(|&daemon| daemon == self.daemon.number());
        let Some((host, placement)) = host.zip(placement_of(&info)) else { return };
        match HostJob::new(info, placement, host as u32, false) {
            Ok(here) => self.here = Some(here),
            Err(refusal) => {
                let event = Event::Refused { status: refusal.status, reason: refusal.reason };
                self.events.push_back(event);
            }
        }
    }

    /// Opens the listening sockets for children, once.
    pub(super) fn listen(&mut self, job: &JobInfo) -> Result<(), LaunchError> {
        if !self.listening.is_empty() {
            return Ok(());
        }
        let children = self.daemon.shape().children(self.daemon.number());
        let names: Vec<&str> = children.map(|child| job.names[child as usize].as_str()).collect();
        // Children can reach this host where the parent reached it. Looking up their names could take long.
        let own = self.interface.parse().ok().filter(|_| self.root.is_none() && job.interface.is_empty());
        let addresses = match own {
            Some(own) => vec![own],
            None => interface::addresses(&job.interface, &names, &|names| {
                eprintln!(
                    "mpirun: waiting for the name server to tell where {names} is; --interface NAME makes the question needless"
                );
            })?,
        };
        let ports = job.ports.and_then(|(low, high)| PortRange::new(low, high));
        let listening = self.connections.listen(&addresses, ports, &self.poller);
        self.listening = listening.map_err(LaunchError::system("cannot listen"))?;
        let own = addresses.first().filter(|address| !IpAddr::is_unspecified(address));
        if let Some(address) = own.filter(|_| self.interface.is_empty()) {
            self.interface = address.to_string();
        }
        self.connections.set_pace(pace(job));
        Ok(())
    }
}

fn pace(job: &JobInfo) -> Pace {
    let (interval, limit) = job.pace_ms;
    Pace { interval: Duration::from_millis(interval.max(1)), limit: Duration::from_millis(limit.max(1)) }
}
