//! Traffic over the links between hosts: that of an operation's schedules, and the least that any algorithm
//! needs.
//!
//! The bounds count payload over all hosts' links, each byte once. Data may be forwarded, combined and kept,
//! but not compressed. The bounds of movements are the bytes that must enter each host. Those of reductions
//! count, for each element, the transfers without which a rank that needs the result cannot know all
//! operands.

use crate::ir::{Kind, Schedule, StepId, Tables};
use crate::shape::{Collective, Shape};
use crate::simulate::{Layout, Load};

/// Bytes of an operation, by how far they go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes from one rank of a host to another: messages, and accesses to each other's memory.
    pub node_bytes: u64,
    /// Bytes from one host to another.
    pub link_bytes: u64,
    /// Largest number of bytes that enter or leave a host.
    pub busiest_bytes: u64,
}

/// Returns the bytes that `schedules`, one for each rank, move for `load` on `layout`.
pub fn count_bytes(schedules: &[Schedule], load: &Load, layout: &Layout) -> Traffic {
    let host = |rank: u32| layout.place(rank).host;
    let hosts = layout.hosts() as usize;
    let (mut traffic, mut ways) = (Traffic::default(), vec![(0, 0); hosts]);
    for (rank, schedule) in (0..).zip(schedules) {
        let tables = Tables { permutation: &schedule.permutation, ..load.tables() };
        for (number, step) in (0..).zip(&schedule.steps) {
            if let Kind::Multicast { group, from, .. } = &step.kind {
                for iteration in 0..schedule.iterations(StepId(number)) {
                    let bytes = from.in_iteration(iteration, &tables).length * load.shape().unit_bytes;
                    let members = &schedule.groups[usize::from(*group)];
                    let mut others: Vec<u32> = members.iter().map(|&member| host(member)).collect();
                    traffic.node_bytes +=
                        bytes * others.iter().filter(|&&other| other == host(rank)).count() as u64;
                    others.sort_unstable();
                    others.dedup();
                    others.retain(|&other| other != host(rank));
                    // One payload leaves the host, and the network brings one to each of the others.
                    traffic.link_bytes += bytes * others.len() as u64;
                    ways[host(rank) as usize].0 += if others.is_empty() { 0 } else { bytes };
                    others.iter().for_each(|&other| ways[other as usize].1 += bytes);
                }
                continue;
            }
            let (peer, span) = match &step.kind {
                Kind::Send { peer, from, .. } | Kind::Push { peer, from, .. } => (peer, from),
                Kind::Pull { peer, into, .. } | Kind::Combine { peer, into, .. } => (peer, into),
                Kind::Unpack { peer, from, .. } => (peer, from),
                _ => continue,
            };
            for iteration in 0..schedule.iterations(StepId(number)) {
                let peer = peer.in_iteration(iteration) as u32;
                let bytes = span.in_iteration(iteration, &tables).length * load.shape().unit_bytes;
                if host(rank) == host(peer) {
                    traffic.node_bytes += bytes;
                } else {
                    traffic.link_bytes += bytes;
                    ways[host(rank) as usize].0 += bytes;
                    ways[host(peer) as usize].1 += bytes;
                }
            }
        }
    }
    traffic.busiest_bytes = ways.iter().map(|&(out, into): &(u64, u64)| out.max(into)).max().unwrap_or(0);
    traffic
}

/// Returns the least number of bytes that cross the links between hosts in the operation of which `shape` is
/// any rank's part. Rank `r` is on host `host(r)`. Blocks that may differ are assumed to be equal, see
/// [`Load`].
pub fn least_link_bytes(shape: &Shape, host: impl Fn(u32) -> u32) -> u64 {
    use Collective as C;
    let load = Load::new(shape);
    let shape = load.shape();
    let ranks = u64::from(shape.ranks);
    let mut on_host = std::collections::BTreeMap::<u32, u64>::new();
    (0..shape.ranks).for_each(|rank| *on_host.entry(host(rank)).or_default() += 1);
    let others = on_host.len() as u64 - 1;
    let here = on_host.get(&host(shape.root)).copied().unwrap_or(ranks);
    let (all, pairs) = (shape.bytes(), on_host.values().map(|count| count * (ranks - count)).sum::<u64>());
    match shape.collective {
        // The program chooses who sends to whom.
        C::NeighborAllgather | C::NeighborAllgatherv | C::NeighborAlltoall | C::NeighborAlltoallv => 0,
        // The program also chooses the bytes of each rank.
        C::FileRead | C::FileWrite => 0,
        C::Barrier => 0,
        // Every other host must receive, or send, as many bytes as the result has.
        C::Bcast | C::Reduce => others * all,
        C::Gather | C::Gatherv | C::Scatter | C::Scatterv => (ranks - here) * all,
        C::Allgather => others * ranks * all,
        C::Allgatherv => others * all,
        C::Alltoall | C::Alltoallv => pairs * all,
        // Before one host knows an element of the result, each other one must have sent something of it.
        // Afterwards each other host must receive it.
        C::Allreduce => 2 * others * all,
        C::ReduceScatter => others * all,
        C::ReduceScatterBlock => others * ranks * all,
        // Ranks after one of another host must receive its prefix.
        C::Scan | C::Exscan => {
            let first = (0..shape.ranks).find(|&rank| host(rank) != host(0)).unwrap_or(shape.ranks);
            let later = on_host.keys().filter(|&&one| (first..shape.ranks).any(|rank| host(rank) == one));
            let back = (first..shape.ranks).any(|rank| host(rank) == host(0));
            later.filter(|&&one| one != host(0)).count() as u64 * all + u64::from(back) * all
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::Node;
    use crate::select::study;
    use crate::{Environment, Model};
    use std::sync::Arc;

    /// Checks the bound for blocks of 100 bytes and root 1, with the given hosts of the ranks.
    fn check(collective: Collective, hosts: &[u32], expected: u64) {
        let shape = Shape { root: 1, ..Shape::new(collective, hosts.len() as u32, 0, 100) };
        let got = least_link_bytes(&shape, |rank| hosts[rank as usize]);
        assert_eq!(got, expected, "{collective} on {hosts:?}");
    }

    #[test]
    fn bounds_depend_on_who_is_where() {
        use Collective as C;
        for collective in Collective::ALL {
            check(collective, &[0, 0, 0], 0);
        }
        check(C::Bcast, &[0, 0, 1, 1, 2], 200);
        check(C::Reduce, &[0, 1, 0, 1], 100);
        check(C::Allreduce, &[0, 0, 1, 1, 2, 2], 400);
        check(C::Gather, &[0, 0, 1, 1, 1], 300);
        check(C::Scatter, &[0, 1, 1, 1], 100);
        check(C::Allgather, &[0, 0, 1, 1], 400);
        check(C::Alltoall, &[0, 0, 1], 400);
        check(C::ReduceScatterBlock, &[0, 0, 1, 1], 400);
        check(C::Scan, &[0, 0, 1, 1], 100);
        check(C::Scan, &[0, 1, 0, 1], 200);
    }

    /// Returns the link traffic of the selected algorithm divided by the lower bound, for large messages on
    /// four hosts with four ranks each.
    fn excess(collective: Collective, count: u64, hosts: &[u32]) -> f64 {
        let layout = Arc::new(Layout::across(hosts, 4));
        let shape = Shape { unit_bytes: 8, ..Shape::new(collective, hosts.len() as u32, 0, count) };
        let shape = match collective {
            Collective::Bcast | Collective::Allgather => Shape { count: count * 8, unit_bytes: 1, ..shape },
            _ => shape,
        };
        let environment = Environment {
            node: Node::Exposed,
            ..Environment::on_hosts(layout.clone(), Arc::new(Model::default()))
        };
        let best = study(&shape, &environment, None).remove(0);
        let load = Load::new(&shape);
        let write =
            |rank| best.generator.generate_on(&load.shape_of(rank), &best.params, Some(layout.hierarchy()));
        let schedules: Vec<Schedule> = (0..shape.ranks).map(write).collect();
        let sent = count_bytes(&schedules, &load, &layout).link_bytes;
        let least = least_link_bytes(&shape, |rank| layout.place(rank).host);
        println!("{collective} {count}: {} {} sends {sent}, least {least}", best.generator.name, best.params);
        sent as f64 / least as f64
    }

    #[test]
    fn large_messages_cross_the_links_once() {
        use Collective as C;
        let by_node: Vec<u32> = (0..16).map(|rank| rank / 4).collect();
        let by_core: Vec<u32> = (0..16).map(|rank| rank % 4).collect();
        for hosts in [by_node, by_core] {
            for collective in [C::Bcast, C::Reduce, C::Allreduce, C::Allgather] {
                for count in [1 << 17, 1 << 20] {
                    let excess = excess(collective, count, &hosts);
                    assert!((1.0..=1.05).contains(&excess), "{collective} of {count}: {excess} of the bound");
                }
            }
        }
    }
}
