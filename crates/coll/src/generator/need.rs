//! Conditions under which an algorithm is correct, and the reasons why it is not. Selection, `tutti info` and
//! tests check them.

use std::fmt;

use crate::hierarchy::Hierarchy;
use crate::shape::{Collective, Shape};

/// Memory that ranks of a node share. Each kind includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Node {
    /// Nothing is shared: ranks send messages.
    Any,
    /// All ranks are on one node, which gives them flags and banks (S1); see also [`Need::SeveralHosts`].
    Shared,
    /// Flags and banks, and ranks can access each other's memory (S2).
    Exposed,
}

/// Condition that an algorithm imposes on the operation, its ranks or their hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The operator commutes.
    Commutative,
    /// The number of ranks is a power of two.
    PowerOfTwo,
    /// At most [`Need::FEW`] ranks, as a schedule grows with their number.
    FewRanks,
    /// One group: an intracommunicator.
    OneGroup,
    /// The two groups of an intercommunicator.
    TwoGroups,
    /// Flags and banks of a node, [`Node::Shared`].
    Banks,
    /// Access to memory of others, [`Node::Exposed`].
    ExposedMemory,
    /// All ranks on one host.
    OneHost,
    /// Ranks on several hosts. The needs on the node hold among the ranks of each host; other hosts are
    /// reached by messages. On one host the algorithm would equal one of a node.
    SeveralHosts,
    /// Hosts hold consecutive ranks, if the operator does not commute or the result is a prefix. The operands
    /// of a host may then be combined first.
    OrderedHosts,
    /// The network copies the messages of one host to all others.
    Multicast,
    /// At most [`Need::FEW_HOSTS`] hosts, as every host receives the multicasts of every other one.
    FewHosts,
    /// At most [`Need::TURNS`] ranks. Each rank has a turn of its own, and a schedule grows with them.
    FewTurns,
}

/// Known properties of an operation when needs are judged. An unknown property counts as met.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// Shape of the operation to perform.
    pub shape: &'a Shape,
    /// Distances of the ranks, if known.
    pub hierarchy: Option<&'a Hierarchy>,
    /// Memory shared within each host, and the number of hosts, if known.
    pub hosts: Option<(Node, u32)>,
    /// True if the network copies messages to several hosts.
    pub multicast: Option<bool>,
}

/// Reason why a need is not met, to be shown to users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// For [`Need::Commutative`].
    DoesNotCommute,
    /// For [`Need::PowerOfTwo`].
    NoPowerOfTwo,
    /// For [`Need::FewRanks`].
    ManyRanks,
    /// For [`Need::OneGroup`].
    ForOneGroup,
    /// For [`Need::TwoGroups`].
    ForTwoGroups,
    /// For [`Need::Banks`].
    NothingShared,
    /// For [`Need::ExposedMemory`].
    OutOfReach,
    /// For [`Need::OneHost`].
    OnSeveralHosts,
    /// For [`Need::SeveralHosts`].
    OnOneHost,
    /// For [`Need::OrderedHosts`].
    HostsOutOfOrder,
    /// For [`Need::Multicast`].
    NoMulticast,
    /// For [`Need::FewHosts`].
    ManyHosts,
    /// For [`Need::FewTurns`].
    ManyTurns,
}

/// Needs of an algorithm for any ranks that send messages.
pub const ANY: &[Need] = &[Need::OneGroup];
/// Needs of an algorithm for the two groups of an intercommunicator.
pub const BETWEEN: &[Need] = &[Need::TwoGroups];
/// Messages, an operator that commutes.
pub const COMMUTES: &[Need] = &[Need::Commutative, Need::OneGroup];
/// Messages among a power of two.
pub const POWER: &[Need] = &[Need::PowerOfTwo, Need::OneGroup];
/// The banks of a node.
pub const SHARED: &[Need] = &[Need::OneGroup, Need::Banks, Need::OneHost];
/// The banks of a node, for few ranks.
pub const FEW: &[Need] = &[Need::FewRanks, Need::OneGroup, Need::Banks, Need::OneHost];
/// Exposed memory of a node.
pub const EXPOSED: &[Need] = &[Need::OneGroup, Need::ExposedMemory, Need::OneHost];
/// Several hosts with exposed memory.
pub const LEVELS: &[Need] = &[Need::OneGroup, Need::ExposedMemory, Need::SeveralHosts];
/// Several hosts with exposed memory, and an operator that commutes.
pub const LEVELS_COMMUTES: &[Need] =
    &[Need::Commutative, Need::OneGroup, Need::ExposedMemory, Need::SeveralHosts];
/// Several hosts with banks.
pub const LEVELS_SHARED: &[Need] = &[Need::OneGroup, Need::Banks, Need::SeveralHosts];
/// Several hosts with banks and consecutive ranks.
pub const LEVELS_ORDERED: &[Need] = &[Need::OneGroup, Need::Banks, Need::SeveralHosts, Need::OrderedHosts];
/// Several hosts with exposed memory, and multicast between them.
pub const LEVELS_MULTICAST: &[Need] =
    &[Need::OneGroup, Need::ExposedMemory, Need::SeveralHosts, Need::Multicast];
/// Few hosts with exposed memory that receive each other's multicasts, each rank in its turn.
pub const FEW_HEAR_EXPOSED: &[Need] = &[
    Need::OneGroup,
    Need::ExposedMemory,
    Need::SeveralHosts,
    Need::Multicast,
    Need::FewHosts,
    Need::FewTurns,
];
/// Few hosts with banks that receive each other's multicasts.
pub const FEW_HEAR: &[Need] =
    &[Need::OneGroup, Need::Banks, Need::SeveralHosts, Need::Multicast, Need::FewHosts];
/// Few hosts with banks and consecutive ranks that receive each other's multicasts.
pub const FEW_HEAR_ORDERED: &[Need] =
    &[Need::OneGroup, Need::Banks, Need::SeveralHosts, Need::Multicast, Need::FewHosts, Need::OrderedHosts];

impl Need {
    /// Largest number of ranks for [`Need::FewRanks`].
    pub const FEW: u32 = 16;
    /// Largest number of hosts for [`Need::FewHosts`].
    pub const FEW_HOSTS: u32 = 32;
    /// Largest number of ranks for [`Need::FewTurns`].
    pub const TURNS: u32 = 256;

    /// Returns the kind of shared memory that these needs imply.
    pub fn node(needs: &[Need]) -> Node {
        match needs {
            _ if needs.contains(&Need::ExposedMemory) => Node::Exposed,
            _ if needs.contains(&Need::Banks) => Node::Shared,
            _ => Node::Any,
        }
    }

    /// Returns what a user has to provide for it, or `None` for a condition that most calls meet.
    pub fn text(self) -> Option<&'static str> {
        match self {
            Need::Commutative => Some("a commutative operator"),
            Need::PowerOfTwo => Some("a power of two of ranks"),
            Need::FewRanks => Some("few ranks"),
            Need::FewTurns => Some("some hundred ranks at most"),
            Need::TwoGroups => Some("an intercommunicator"),
            Need::Banks => Some("shared memory"),
            Need::ExposedMemory => Some("exposed memory"),
            Need::SeveralHosts => Some("several hosts"),
            Need::OrderedHosts => Some("consecutive ranks on each host"),
            Need::Multicast => Some("multicast between hosts"),
            Need::FewHosts => Some("few hosts"),
            Need::OneGroup | Need::OneHost => None,
        }
    }

    /// Checks whether it is met, as far as the situation is known. Returns the reason if it is not.
    pub fn met(self, situation: &Situation<'_>) -> Result<(), Reason> {
        let Situation { shape, hierarchy, hosts, multicast } = *situation;
        let known = |holds: &dyn Fn(Node, u32) -> bool| hosts.is_none_or(|(node, hosts)| holds(node, hosts));
        let (met, reason) = match self {
            Need::Commutative => (shape.commutative, Reason::DoesNotCommute),
            Need::PowerOfTwo => (shape.ranks.is_power_of_two(), Reason::NoPowerOfTwo),
            Need::FewRanks => (shape.ranks <= Need::FEW, Reason::ManyRanks),
            Need::OneGroup => (shape.first_group == 0, Reason::ForOneGroup),
            Need::TwoGroups => (shape.first_group > 0, Reason::ForTwoGroups),
            Need::Banks => (known(&|node, _| node >= Node::Shared), Reason::NothingShared),
            Need::ExposedMemory => (known(&|node, _| node >= Node::Exposed), Reason::OutOfReach),
            Need::OneHost => (known(&|_, hosts| hosts <= 1), Reason::OnSeveralHosts),
            Need::SeveralHosts => (known(&|_, hosts| hosts > 1), Reason::OnOneHost),
            Need::Multicast => (multicast.unwrap_or(true), Reason::NoMulticast),
            Need::FewHosts => (known(&|_, hosts| hosts <= Need::FEW_HOSTS), Reason::ManyHosts),
            Need::FewTurns => (shape.ranks <= Need::TURNS, Reason::ManyTurns),
            Need::OrderedHosts => {
                // A prefix depends on the order of ranks even if the operator commutes.
                let prefix = matches!(shape.collective, Collective::Scan | Collective::Exscan);
                let sorted = hierarchy.is_none_or(|hierarchy| hierarchy.order().is_sorted());
                (shape.commutative && !prefix || sorted, Reason::HostsOutOfOrder)
            }
        };
        if met { Ok(()) } else { Err(reason) }
    }
}

impl Situation<'_> {
    /// Returns a situation in which only the shape is known.
    pub fn of_shape(shape: &Shape) -> Situation<'_> {
        Situation { shape, hierarchy: None, hosts: None, multicast: None }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::DoesNotCommute => "the operator does not commute",
            Reason::NoPowerOfTwo => "the number of ranks is no power of two",
            Reason::ManyRanks => return write!(f, "there are more than {} ranks", Need::FEW),
            Reason::ManyTurns => return write!(f, "there are more than {} ranks", Need::TURNS),
            Reason::ForOneGroup => "it is for one group",
            Reason::ForTwoGroups => "it is for an intercommunicator",
            Reason::NothingShared => "the ranks do not share a node's memory",
            Reason::OutOfReach => "ranks cannot get at each other's memory",
            Reason::OnSeveralHosts => "the ranks are on several hosts",
            Reason::OnOneHost => "the ranks are on one host",
            Reason::NoMulticast => "there is no multicast between the hosts, or it is not known yet",
            Reason::ManyHosts => return write!(f, "there are more than {} hosts", Need::FEW_HOSTS),
            Reason::HostsOutOfOrder => {
                "operands keep the order of ranks and hosts do not hold consecutive ranks"
            }
        })
    }
}
