//! Distribution of ranks over hosts, for simulation, and for the selection of a job on such hosts.

use std::sync::Arc;

use clap::Args;
use tutti_base::Machines;
use tutti_coll::generator::Node;
use tutti_coll::simulate::{Binding, Layout, Reach};
use tutti_coll::{Environment, Model};
use tutti_topo::{Level, Machine};

/// Distribution of ranks over hosts, as a user specifies it.
#[derive(Args, Clone, Debug)]
pub struct Spread {
    /// Hosts of one kind, joined by a network.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub hosts: u32,
    /// The hosts are one machine, as containers of it are: they share its processors.
    #[arg(long)]
    pub hosts_share: bool,
    /// Mapping of ranks to hosts: neighbours on the same host (core), or round robin (node)
    #[arg(long, default_value = "core")]
    pub map_by: NeighbourOrder,
    /// The network between them delivers a copy of each packet to all: reliable multicast works
    #[arg(long)]
    pub multicast: bool,
}

/// Place of neighbouring ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum NeighbourOrder {
    /// On the same host.
    Core,
    /// On different hosts, round robin.
    Node,
}

impl Spread {
    /// Returns the number of hosts, at most the number of ranks.
    fn hosts_for(&self, ranks: u32) -> u32 {
        self.hosts.clamp(1, ranks.max(1))
    }

    /// Returns the host of each of `ranks` ranks.
    pub fn hosts_of(&self, ranks: u32) -> Vec<u32> {
        let hosts = self.hosts_for(ranks);
        let host = |rank| match self.map_by {
            NeighbourOrder::Core => rank / ranks.div_ceil(hosts),
            NeighbourOrder::Node => rank % hosts,
        };
        (0..ranks).map(host).collect()
    }

    /// Returns the machine of each host, with `processors` processors.
    pub fn machines(&self, processors: u32) -> Machines {
        if self.hosts_share {
            Machines::shared(self.hosts, processors)
        } else {
            Machines::apart(self.hosts, processors)
        }
    }

    /// Returns the environment of `ranks` ranks on hosts like `machine`, whose ranks access each other's
    /// memory.
    pub fn environment(&self, machine: &Machine, binding: &Binding, ranks: u32, model: Model) -> Environment {
        let hosts = self.hosts_for(ranks);
        let cores = machine.count(Level::Core).max(1) as u32;
        let layout = match (self.hosts_share, self.map_by) {
            // Ranks on other hosts are laid out like in a job, where their binding is unknown.
            (true, _) => Layout::on_machines(&self.hosts_of(ranks), &self.machines(cores)),
            (false, NeighbourOrder::Core) => Layout::bound(machine, binding, ranks, hosts),
            (false, NeighbourOrder::Node) => Layout::dealt(machine, binding, ranks, hosts),
        };
        Environment {
            cores: (cores / layout.hosts_on_machine()).max(1),
            ranks_on_node: ranks.div_ceil(hosts),
            oversubscribed: layout.crowded(),
            node: Node::Exposed,
            reach: Reach::Mapped,
            multicast: self.multicast,
            layout: Arc::new(layout),
            model: Arc::new(model),
            ..Environment::flat(ranks, 1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAPTOP: &str = include_str!("../../../../fixtures/machines/laptop-4x2.txt");

    fn check(hosts: u32, map_by: NeighbourOrder, ranks: u32, expected: &[u32]) {
        let spread = |hosts_share| Spread { hosts, hosts_share, map_by, multicast: false };
        assert_eq!(spread(false).hosts_of(ranks), expected);
        let machine = Machine::parse(LAPTOP).expect("it is right");
        let most = |share| {
            let environment = spread(share).environment(&machine, &Binding::Compact, ranks, Model::default());
            let on: Vec<u32> = (0..ranks).map(|rank| environment.layout.place(rank).host).collect();
            assert_eq!(on, expected);
            environment.layout.hosts_on_machine()
        };
        let several = expected.iter().max().map_or(1, |last| last + 1);
        assert_eq!((most(false), most(true)), (1, several));
    }

    #[test]
    fn ranks_are_side_by_side_or_dealt_out() {
        check(2, NeighbourOrder::Core, 5, &[0, 0, 0, 1, 1]);
        check(2, NeighbourOrder::Node, 5, &[0, 1, 0, 1, 0]);
        check(9, NeighbourOrder::Core, 3, &[0, 1, 2]);
        check(1, NeighbourOrder::Node, 3, &[0, 0, 0]);
    }
}
