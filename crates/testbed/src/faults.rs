//! What can go wrong on purpose: a host that crashes, a cable that is cut, datagrams that get lost.

use crate::state::Testbed;
use crate::up::{batch, feed};

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

    /// Loses so many percent of the datagrams (UDP) that reach or leave a host from now on; 0 ends that.
    ///
    /// # Errors
    /// No such host, not a percentage, or the kernel has no nftables.
    pub fn lose(&self, host: &str, percent: f64) -> Result<(), String> {
        let port = self.port(host)?;
        if !(0.0..=100.0).contains(&percent) {
            return Err(format!("{percent} is not between 0 and 100 percent"));
        }
        // Adding it first makes deleting it no error.
        let mut rules = format!("add table netdev loss{port}\ndelete table netdev loss{port}\n");
        if percent > 0.0 {
            let drop =
                format!("meta l4proto udp numgen random mod 10000 < {} drop;", (percent * 100.0) as u32);
            let chain = |hook| {
                format!("chain {hook} {{ type filter hook {hook} device \"p{port}\" priority 0; {drop} }}\n")
            };
            rules += &format!("table netdev loss{port} {{\n{}{}}}\n", chain("ingress"), chain("egress"));
        }
        feed(self.switch.number, &["nft", "-f", "-"], &rules)
    }

    fn port(&self, host: &str) -> Result<usize, String> {
        let name = &self.host(host)?.name;
        Ok(self.hosts.iter().position(|host| host.name == *name).expect("it was found among them"))
    }
}
