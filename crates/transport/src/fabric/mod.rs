//! Messages between hosts.
//!
//! [`FabricLink`] is a [`Link`] whose peers are ranks of the world. Every process has a datagram endpoint;
//! frequent pairs get a connection (S6; the machines in `adaptive` decide, [`driver`] carries it out). A
//! [`carrier`] transports connections: sockets of the kernel ([`kernel`]), or connected endpoints of
//! libfabric (`connected`). Networks that reach all processes without connections are used directly
//! (`reliable`). [`select`] chooses among them.
//!
//! The address of a rank comes from a [`Directory`] when the first record to it is sent.

pub mod address;
mod buffers;
pub mod carrier;
mod connected;
mod counters;
pub mod datagrams;
pub mod driver;
mod frame;
pub mod kernel;
mod reliable;
pub mod remote;
pub mod select;
#[cfg(test)]
pub(crate) mod tests;

use std::io;
use std::net::IpAddr;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use tutti_base::config::{self, Config, Connections, Protection};
use tutti_seal::Cover;
use tutti_sys::job::{ADDRESS_BYTES, Secret};
use tutti_sys::{kept, process, this_process};

use crate::adaptive::{Mode, Settings};
use crate::directory::Directory;
use crate::link::{Full, Header, Link, Peer, Sink};
use crate::links::FarLink;
use crate::loan::{Loan, Memory};
use crate::multicast::{self, carrier::Casting};
use address::Whereabouts;
use carrier::Carrier;
use connected::Connected;
pub use counters::FabricCounters;
use datagrams::{DATAGRAM_BYTES, Datagrams};
use driver::Driver;
use kernel::{Kernel, Sealing};
use reliable::Reliable;
use select::Network;

/// Descriptors that are left to the program, at least; and what part of the others is ours.
const LEFT_TO_PROGRAM: u64 = 64;
/// Lowest limit of connections for datagrams.
const LEAST_CONTACTS: u64 = 16;

/// Identity of this process among its peers.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Rank of this process in the world.
    pub rank: u32,
    /// Ranks of the job.
    pub ranks: u32,
    /// Number that distinguishes the job from others.
    pub job_id: u64,
    /// Secret that proves membership of the job.
    pub secret: Secret,
    /// Address of the interface to use. Empty: the one that the system prefers.
    pub interface: String,
    /// True if a checkpoint of the job keeps the sockets: those of one link a process, that to the own job.
    pub is_kept: bool,
}

/// The link to the ranks of other hosts.
#[derive(Debug)]
pub struct FabricLink {
    back_end: BackEnd,
}

#[derive(Debug)]
enum BackEnd {
    Sockets(Driver<Kernel>),
    Connected(Driver<Connected>),
    Reliable(Reliable),
}

/// Calls a method of whatever back end it is.
macro_rules! each {
    ($link:expr, $back_end:ident => $call:expr) => {
        match $link {
            BackEnd::Sockets($back_end) => $call,
            BackEnd::Connected($back_end) => $call,
            BackEnd::Reliable($back_end) => $call,
        }
    };
}

impl FabricLink {
    /// Opens the endpoints and publishes their address in `directory`.
    ///
    /// # Errors
    /// The error of the system, for example that there is no such interface; InvalidInput for a setting that
    /// cannot be met.
    pub fn new(
        config: &Config,
        identity: &Identity,
        directory: Box<dyn Directory>,
    ) -> io::Result<FabricLink> {
        let restarts = kept::restarts();
        let interface = interface(&identity.interface)?;
        let fabric = permitted(&config.network.fabric, config.network.protection)?;
        let choice =
            select::choose(fabric, config.messages.remote_read, interface).map_err(io::Error::other)?;
        let back_end = match choice.network {
            Network::Sockets => {
                let silence = Duration::from_millis(config.launch.silence_ms);
                let sealing = Sealing {
                    root: kernel::root(&identity.secret.0),
                    cover: Cover::demanded_by(config.network.protection),
                };
                let ports = config.network.port_range;
                let carrier = Kernel::new(interface, ports, silence, identity.is_kept, sealing)?;
                let datagrams = Datagrams::new(interface, config.network.port_range, identity.is_kept)?;
                let own = whereabouts(&datagrams, &carrier)?;
                let settings = settings(config, identity, &own, (Kernel::SEES_REACH, directory.can_call()))?;
                BackEnd::Sockets(Driver::new(settings, own, carrier, datagrams, directory, restarts))
            }
            Network::Connected(info) => {
                let carrier = Connected::new(&info).map_err(io::Error::other)?;
                let datagrams = Datagrams::new(interface, config.network.port_range, false)?;
                let own = whereabouts(&datagrams, &carrier)?;
                let settings =
                    settings(config, identity, &own, (Connected::SEES_REACH, directory.can_call()))?;
                BackEnd::Connected(Driver::new(settings, own, carrier, datagrams, directory, restarts))
            }
            Network::Reliable(info) => {
                let link = Reliable::new(&info, identity, directory).map_err(io::Error::other)?;
                BackEnd::Reliable(link)
            }
        };
        Ok(FabricLink { back_end })
    }

    /// Returns true if somebody collects which hosts have called [`FabricLink::report_arrival`].
    pub fn collects_arrivals(&self) -> bool {
        each!(&self.back_end, back_end => back_end.collects_arrivals())
    }

    /// Reports that all ranks of this host have called MPI_Finalize.
    pub fn report_arrival(&mut self) {
        each!(&mut self.back_end, back_end => back_end.report_arrival());
    }

    /// Returns the counts so far.
    pub fn counters(&self) -> FabricCounters {
        each!(&self.back_end, back_end => back_end.counters())
    }
}

/// Returns the network to choose, with this setting and protection.
fn permitted(fabric: &str, protection: Protection) -> io::Result<&str> {
    match fabric {
        _ if !protection.is_demanded() => Ok(fabric),
        "auto" | "sockets" => Ok("sockets"),
        provider => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "TUTTI_PROTECT={} is not possible with TUTTI_FABRIC={provider}: Tutti protects only what goes \
                 by sockets; choose TUTTI_FABRIC=sockets, or TUTTI_PROTECT=auto",
                protection.name()
            ),
        )),
    }
}

/// Sets up multicast between the hosts of a job, if the settings and the interface permit it; so far by IPv4.
/// Its datagrams are authenticated, not encrypted.
pub fn casting(config: &Config, identity: &Identity) -> Option<Box<Casting>> {
    let is_off = config.collectives.multicast == config::Multicast::Off;
    if is_off || !config.network.protection.allows_readable() {
        return None;
    }
    let interface = match interface(&identity.interface) {
        Ok(IpAddr::V4(interface)) => interface,
        _ => return None,
    };
    let settings = multicast::MulticastSettings {
        job: job_number(identity),
        rank: identity.rank,
        ranks: identity.ranks,
        secret: identity.secret.0,
        window: config.collectives.multicast_window,
    };
    Some(Box::new(Casting::new(&settings, interface, identity.is_kept)))
}

/// Returns the number of the job in datagrams.
fn job_number(identity: &Identity) -> u32 {
    (identity.job_id ^ identity.job_id >> 32) as u32
}

fn interface(text: &str) -> io::Result<IpAddr> {
    if text.is_empty() {
        return Ok(datagrams::default_interface());
    }
    let refused =
        |_| io::Error::new(io::ErrorKind::InvalidInput, format!("{text:?} is no address of an interface"));
    text.parse().map_err(refused)
}

/// Returns the addresses at which others reach this process.
fn whereabouts(datagrams: &Datagrams, carrier: &impl Carrier) -> io::Result<Whereabouts> {
    let (datagrams, listen) = (datagrams.address()?, carrier.listen_address().to_vec());
    Ok(Whereabouts { datagrams, listen, host: process::host_name() })
}

fn settings(
    config: &Config,
    identity: &Identity,
    own: &Whereabouts,
    (sees_reach, can_call): (bool, bool),
) -> io::Result<Settings> {
    let mut seed = [0; 16];
    for eight in seed.chunks_exact_mut(8) {
        eight.copy_from_slice(&process::random()?.to_ne_bytes());
    }
    let limit = (this_process::descriptor_limit() / 2).saturating_sub(LEFT_TO_PROGRAM).max(1);
    let wanted =
        if config.network.max_connections == 0 { limit } else { config.network.max_connections.min(limit) };
    Ok(Settings {
        ranks: identity.ranks,
        rank: identity.rank,
        job: job_number(identity),
        secret: identity.secret.0,
        hides: Cover::demanded_by(config.network.protection) == Some(Cover::Encrypted),
        seed,
        datagram_bytes: DATAGRAM_BYTES,
        record_bytes: carrier::RECORD_BYTES,
        mode: match config.network.connections {
            Connections::Never => Mode::Never,
            Connections::OnDemand => Mode::OnDemand,
            Connections::PartiallyStatic => Mode::PartiallyStatic,
            Connections::Static => Mode::Static,
        },
        threshold_messages: config.network.connect_messages,
        threshold_bytes: config.network.connect_bytes,
        max_connections: wanted.min(1 << 16) as usize,
        max_contacts: (limit / 2).clamp(LEAST_CONTACTS, 1 << 16) as usize,
        can_call,
        sees_reach,
        // Datagrams are for payload: the name of the host is for the directory.
        address: Whereabouts { host: String::new(), ..own.clone() }.encode(ADDRESS_BYTES),
        listen_address: own.listen.clone(),
    })
}

impl Link for FabricLink {
    fn max_payload(&self) -> usize {
        each!(&self.back_end, back_end => back_end.max_payload())
    }

    #[inline]
    fn try_send_with(
        &mut self,
        to: Peer,
        header: Header,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), Full> {
        each!(&mut self.back_end, back_end => back_end.try_send_with(to, header, bytes, fill))
    }

    #[inline]
    fn has_room(&self, to: Peer, bytes: usize) -> bool {
        each!(&self.back_end, back_end => back_end.has_room(to, bytes))
    }

    fn want_room(&mut self, to: Peer, bytes: usize) -> bool {
        each!(&mut self.back_end, back_end => back_end.want_room(to, bytes))
    }

    fn is_connected(&self, to: Peer) -> bool {
        each!(&self.back_end, back_end => back_end.is_connected(to))
    }

    #[inline]
    fn poll(&mut self, sink: &mut impl Sink) -> bool {
        each!(&mut self.back_end, back_end => back_end.poll(sink))
    }

    #[inline]
    fn poll_peer(&mut self, from: Peer, sink: &mut impl Sink) -> bool {
        each!(&mut self.back_end, back_end => back_end.poll_peer(from, sink))
    }

    #[inline]
    fn pending(&self) -> bool {
        each!(&self.back_end, back_end => back_end.pending())
    }

    fn lend(&mut self, to: Peer, memory: Memory) -> Option<Loan> {
        each!(&mut self.back_end, back_end => back_end.lend(to, memory))
    }

    fn withdraw(&mut self, loan: Loan) {
        each!(&mut self.back_end, back_end => back_end.withdraw(loan));
    }

    fn returned(&mut self) -> Option<Loan> {
        each!(&mut self.back_end, back_end => back_end.returned())
    }

    fn read(&mut self, from: Peer, loan: Loan, memory: Memory, bytes: u64, token: u64) -> bool {
        each!(&mut self.back_end, back_end => back_end.read(from, loan, memory, bytes, token))
    }

    fn completed(&mut self) -> Option<u64> {
        each!(&mut self.back_end, back_end => back_end.completed())
    }

    #[inline]
    fn failure(&mut self) -> Option<(Peer, String)> {
        each!(&mut self.back_end, back_end => back_end.failure())
    }
}

impl FarLink for FabricLink {
    fn before_sleep(&mut self, descriptors: &mut Vec<RawFd>) -> (bool, Option<Instant>) {
        each!(&mut self.back_end, back_end => back_end.before_sleep(descriptors))
    }

    fn slept(&mut self, ready: &[RawFd]) {
        each!(&mut self.back_end, back_end => back_end.slept(ready));
    }

    fn is_flushed(&mut self) -> bool {
        each!(&mut self.back_end, back_end => back_end.is_flushed())
    }

    fn reopen(&mut self) {
        each!(&mut self.back_end, back_end => back_end.reopen());
    }
}
