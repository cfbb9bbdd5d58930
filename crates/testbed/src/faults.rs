//! Faults that can be simulated: a crashed host, a cut cable, lost datagrams.

use crate::error::{Result, TestbedError};
use crate::state::Testbed;
use crate::up::{batch, feed};

/// Faults of datagrams, as percentages of all datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// Percentage of datagrams that are lost, in each direction.
    pub lost: f64,
    /// Percentage of datagrams that reach the host twice.
    pub twice: f64,
    /// Percentage of datagrams that reach the host after later ones, up to some ten milliseconds late.
    pub late: f64,
}

impl Faults {
    /// Returns the rules for nft. Duplicates are marked, so that they are not duplicated again.
    fn rules(self, port: usize) -> String {
        // The table is added first, so that deleting it is no error.
        let mut rules = format!("add table netdev loss{port}\ndelete table netdev loss{port}\n");
        if self == Faults::default() {
            return rules;
        }
        let some = |percent: f64, what: &str| match (percent * 100.0) as u32 {
            0 => String::new(),
            share => format!("meta l4proto udp numgen random mod 10000 < {share} {what}; "),
        };
        let drop = some(self.lost, "drop");
        let copy = format!("meta mark != {COPY} meta mark set {COPY} dup to \"p{port}\"");
        let beyond = some(self.twice, &copy) + &some(self.late, "meta priority set \"0001:0020\"");
        for (hook, what) in [("ingress", &drop), ("egress", &(drop.clone() + &beyond))] {
            rules += &format!(
                "table netdev loss{port} {{\nchain {hook} {{ type filter hook {hook} device \"p{port}\" priority 0; \
                 {what}}}\n}}\n"
            );
        }
        rules
    }
}

/// Mark of a datagram that is a duplicate.
const COPY: u32 = 7;

/// Returns commands for tc: a class of a port in which datagrams wait for each other, or its removal.
fn slow_class(port: usize, is_wanted: bool) -> String {
    // The class is replaced first, so that deleting it is no error.
    let none = format!("qdisc replace dev p{port} root pfifo\nqdisc delete dev p{port} root\n");
    match is_wanted {
        false => none,
        true => format!(
            "{none}qdisc add dev p{port} root handle 1: htb direct_qlen 10000 r2q 1\n\
             class add dev p{port} parent 1: classid 1:20 htb rate 10mbit burst 1600 cburst 1600 quantum 1600\n\
             qdisc add dev p{port} parent 1:20 pfifo limit 30\n"
        ),
    }
}

impl Testbed {
    /// Disconnects a host from the network.
    ///
    /// # Errors
    /// If there is no such host, or the kernel refuses.
    pub fn cut(&self, host: &str) -> Result<()> {
        batch(self.switch.number, "ip", &format!("link set p{} down\n", self.port(host)?))
    }

    /// Connects a host to the network again.
    ///
    /// # Errors
    /// Errors of [`Testbed::cut`].
    pub fn join(&self, host: &str) -> Result<()> {
        batch(self.switch.number, "ip", &format!("link set p{} up\n", self.port(host)?))
    }

    /// Simulates the crash of a host. It is disconnected first, so that no connection is closed in an
    /// orderly way. Then its processes are killed. [`Testbed::join`] connects it again, with nothing
    /// running.
    ///
    /// # Errors
    /// If there is no such host, or a process does not end.
    pub fn kill(&self, host: &str) -> Result<()> {
        self.cut(host)?;
        self.host(host)?.kill_processes()
    }

    /// Sets the future faults of datagrams (UDP) that reach or leave a host. The default ends all faults.
    ///
    /// # Errors
    /// If there is no such host, a value is no percentage, the kernel has no nftables, or datagrams would
    /// be late on a shaped port.
    pub fn spoil(&self, host: &str, faults: Faults) -> Result<()> {
        let port = self.port(host)?;
        let Faults { lost, twice, late } = faults;
        for percent in [lost, twice, late] {
            if !(0.0..=100.0).contains(&percent) {
                return Err(TestbedError::Percentage(percent));
            }
        }
        if late > 0.0 && !self.rate.is_empty() {
            return Err(TestbedError::LateOnRatedLink);
        }
        let is_any = faults != Faults::default();
        // Each datagram is treated separately, even those of one system call.
        let segments = if is_any { 1 } else { u16::MAX };
        let eth0 = format!("link set eth0 gso_max_segs {segments}\n");
        batch(self.host(host)?.holder.number, "ip", &eth0)?;
        if self.rate.is_empty() {
            batch(self.switch.number, "tc", &slow_class(port, late > 0.0))?;
        }
        feed(self.switch.number, &["nft", "-f", "-"], &faults.rules(port))
    }

    fn port(&self, host: &str) -> Result<usize> {
        let name = &self.host(host)?.name;
        Ok(self.hosts.iter().position(|host| host.name == *name).expect("it was found among them"))
    }
}
