//! Which host each rank runs on. Pure.
//!
//! More ranks than slots is a normal way to run: then every host gets its slots again, and the ranks of a host stay neighbours
//! unless they are dealt out in turn.

use tutti_base::Placement;
use tutti_base::placement::Run;

use crate::request::Across;

/// Maps `ranks` to hosts with so many slots each. Returns the hosts that have ranks, as indices into `slots`, and where each rank runs, in terms of
/// them.
///
/// # Panics
/// Without a rank or a slot: who lists hosts made sure of both.
pub fn map(ranks: u32, slots: &[u32], across: Across) -> (Vec<usize>, Placement) {
    let runs = match across {
        Across::Slot => fill(ranks, slots),
        Across::Node => deal(ranks, slots),
    };
    let mut used: Vec<usize> = runs.iter().map(|&(host, _)| host).collect();
    used.sort_unstable();
    used.dedup();
    let number = |host: usize| used.binary_search(&host).expect("collected from these runs") as u32;
    let runs = runs.into_iter().map(|(host, ranks)| Run { host: number(host), ranks });
    let placement = Placement::from_runs(runs).expect("each host of it has a rank");
    (used, placement)
}

/// All slots of a host, then the next host.
fn fill(ranks: u32, slots: &[u32]) -> Vec<(usize, u32)> {
    let total: u64 = slots.iter().map(|&slots| u64::from(slots)).sum();
    let (rounds, mut rest) = (u64::from(ranks) / total, u64::from(ranks) % total);
    let mut runs = Vec::new();
    for (host, &slots) in slots.iter().enumerate() {
        let more = rest.min(u64::from(slots));
        rest -= more;
        let count = rounds * u64::from(slots) + more;
        if count > 0 {
            runs.push((host, count as u32));
        }
    }
    runs
}

/// A rank a host in turn, leaving out hosts that are full until all are.
fn deal(ranks: u32, slots: &[u32]) -> Vec<(usize, u32)> {
    let mut free = slots.to_vec();
    let mut runs = Vec::new();
    let mut left = ranks;
    while left > 0 {
        if free.iter().all(|&free| free == 0) {
            free = slots.to_vec();
        }
        for (host, free) in free.iter_mut().enumerate().filter(|(_, free)| **free > 0) {
            if left == 0 {
                break;
            }
            *free -= 1;
            left -= 1;
            runs.push((host, 1));
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `expected` are the hosts of the ranks, as indices into `slots`.
    fn check(ranks: u32, slots: &[u32], across: Across, expected: &[usize]) {
        let (used, placement) = map(ranks, slots, across);
        let got: Vec<usize> = placement.places().map(|place| used[place.host as usize]).collect();
        assert_eq!(got, expected, "{ranks} ranks on {slots:?}");
    }

    #[test]
    fn by_slot_hosts_are_filled() {
        check(3, &[2, 2], Across::Slot, &[0, 0, 1]);
        check(2, &[2, 2], Across::Slot, &[0, 0]);
        check(8, &[2, 2], Across::Slot, &[0, 0, 0, 0, 1, 1, 1, 1]);
        check(5, &[1, 3], Across::Slot, &[0, 0, 1, 1, 1]);
        check(3, &[1, 1], Across::Slot, &[0, 0, 1]);
    }

    #[test]
    fn by_node_ranks_go_in_turn() {
        check(4, &[2, 2], Across::Node, &[0, 1, 0, 1]);
        check(4, &[1, 3], Across::Node, &[0, 1, 1, 1]);
        check(6, &[1, 2], Across::Node, &[0, 1, 1, 0, 1, 1]);
        check(1, &[1, 3], Across::Node, &[0]);
    }
}
