//! Hosts of recorded machines, joined by a network, on which operations are simulated.

use tutti_coll::Environment;
use tutti_coll::model::{DISTANCES, Model};
use tutti_coll::simulate::Binding;
use tutti_topo::Machine;

use crate::simulate::spread::{NeighbourOrder, Spread};

/// Hosts of one kind, joined by a network.
#[derive(Clone, Copy)]
pub struct Cluster {
    /// Name for the table.
    pub name: &'static str,
    /// Text of the recorded machine.
    pub machine: &'static str,
    /// Number of hosts in the cluster.
    pub hosts: u32,
    /// Ranks on each, a core each.
    pub ranks_per_host: u32,
    /// Ranks are dealt out like cards, so that neighbours are on different hosts.
    pub by_node: bool,
    /// Network between the hosts.
    pub network: Network,
}

/// Performance of a network for each host.
#[derive(Clone, Copy)]
pub struct Network {
    /// Bytes a second, each way.
    pub bandwidth: f64,
    /// Seconds from host to host.
    pub latency: f64,
    /// Seconds of a processor for a message.
    pub overhead: f64,
}

/// The paper's machine of 8 NUMA nodes with 6 cores each, on 2 boards.
pub const BOARDS: &str = include_str!("../../../../fixtures/machines/boards-2x4x6.txt");
/// Recorded machine: a current server.
pub const SERVER: &str = include_str!("../../../../fixtures/machines/epyc-2x64-nps4.txt");

/// Gigabit Ethernet by TCP.
const GIGABIT: Network = Network { bandwidth: 117e6, latency: 25e-6, overhead: 5e-6 };
/// InfiniBand of 20 Gbit/s on the wire, 16 of data.
const INFINIBAND: Network = Network { bandwidth: 1.5e9, latency: 2e-6, overhead: 0.5e-6 };
/// A network of today by an interface of its own.
const HUNDRED_GIGABIT: Network = Network { bandwidth: 12e9, latency: 1.5e-6, overhead: 0.3e-6 };

/// The 32 hosts of 24 cores of ma-2012-hierknem (section IV.A), whose hosts are one board of the machine
/// above.
pub const STREMI: Cluster = Cluster {
    name: "stremi",
    machine: BOARDS,
    hosts: 32,
    ranks_per_host: 24,
    by_node: false,
    network: GIGABIT,
};
/// Cluster of the same hosts with InfiniBand.
pub const PARAPLUIE: Cluster = Cluster { name: "parapluie", network: INFINIBAND, ..STREMI };
/// Cluster with the same number of ranks on current servers.
pub const SERVERS: Cluster = Cluster { name: "servers", machine: SERVER, network: HUNDRED_GIGABIT, ..STREMI };

impl Cluster {
    /// Returns the number of ranks in the cluster.
    pub fn ranks(&self) -> u32 {
        self.hosts * self.ranks_per_host
    }

    /// Returns the default costs of machines with the costs of this network.
    pub fn model(&self) -> Model {
        let Network { bandwidth, latency, overhead } = self.network;
        let mut model =
            Model { network_bandwidth: bandwidth, network_overhead: overhead, ..Model::default() };
        model.message_latency[DISTANCES - 1] = latency;
        model
    }

    /// Returns the environment for selection and simulation. If `share`, all hosts share the processors of
    /// one machine.
    ///
    /// # Errors
    /// Fails if the recorded machine cannot be read.
    pub fn environment(&self, model: Model, share: bool) -> Result<Environment, String> {
        let machine =
            Machine::parse(self.machine).map_err(|error| format!("a recorded machine: {error:?}"))?;
        let map_by = if self.by_node { NeighbourOrder::Node } else { NeighbourOrder::Core };
        let spread = Spread { hosts: self.hosts, hosts_share: share, map_by, multicast: false };
        Ok(spread.environment(&machine, &Binding::Compact, self.ranks(), model))
    }
}
