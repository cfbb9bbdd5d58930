//! What can go wrong on purpose: a host that crashes, a cable that is cut, datagrams that get lost.

use crate::state::Testbed;
use crate::up::{batch, feed};

/// What may happen to datagrams, in percent of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// They get lost, on their way to the host and on that from it.
    pub lost: f64,
    /// They reach the host twice.
    pub twice: f64,
    /// They reach the host behind those that left after them: up to some ten milliseconds late.
    pub late: f64,
}

impl Faults {
    /// For nft. Duplicates are marked, so that there are no more of them.
    fn rules(self, port: usize) -> String {
        // Adding it first makes deleting it no error.
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

/// For tc: a class of a port in which datagrams wait for each other, or none.
fn slow_class(port: usize, is_wanted: bool) -> String {
    // Replacing it first makes deleting it no error.
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
    /// Pulls the plug of a host's network.
    ///
    /// # Errors
    /// No such host, or the kernel refuses.
    pub fn cut(&self, host: &str) -> Result<(), String> {
        batch(self.switch.number, "ip", &format!("link set p{} down\n", self.port(host)?))
    }

    /// Puts it in again.
    ///
    /// # Errors
    /// As [`Testbed::cut`].
    pub fn join(&self, host: &str) -> Result<(), String> {
        batch(self.switch.number, "ip", &format!("link set p{} up\n", self.port(host)?))
    }

    /// A host crashes: it falls silent first, so that no connection says goodbye, and then its processes are gone.
    /// [`Testbed::join`] brings it back with nothing running.
    ///
    /// # Errors
    /// No such host, or a process does not end.
    pub fn kill(&self, host: &str) -> Result<(), String> {
        self.cut(host)?;
        self.host(host)?.kill_processes()
    }

    /// What happens from now on to datagrams (UDP) that reach or leave a host; no faults end that.
    ///
    /// # Errors
    /// No such host, not percentages, the kernel has no nftables, or some are to be late on a shaped port.
    pub fn spoil(&self, host: &str, faults: Faults) -> Result<(), String> {
        let port = self.port(host)?;
        let Faults { lost, twice, late } = faults;
        for percent in [lost, twice, late] {
            if !(0.0..=100.0).contains(&percent) {
                return Err(format!("{percent} is not between 0 and 100 percent"));
            }
        }
        if late > 0.0 && !self.rate.is_empty() {
            return Err("on links with a rate datagrams cannot be late".into());
        }
        let is_any = faults != Faults::default();
        // Each datagram has its own fate, and not all of a call to the system the same.
        let segments = if is_any { 1 } else { u16::MAX };
        let eth0 = format!("link set eth0 gso_max_segs {segments}\n");
        batch(self.host(host)?.holder.number, "ip", &eth0)?;
        if self.rate.is_empty() {
            batch(self.switch.number, "tc", &slow_class(port, late > 0.0))?;
        }
        feed(self.switch.number, &["nft", "-f", "-"], &faults.rules(port))
    }

    fn port(&self, host: &str) -> Result<usize, String> {
        let name = &self.host(host)?.name;
        Ok(self.hosts.iter().position(|host| host.name == *name).expect("it was found among them"))
    }
}
