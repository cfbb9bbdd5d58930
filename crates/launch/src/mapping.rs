//! Assignment of ranks to hosts, as pure functions.
//!
//! A job may have more ranks than slots. Then every host gets its slots again. The ranks of a host stay
//! consecutive, unless they are assigned in turn.

use tutti_base::Placement;
use tutti_base::placement::Run;

use crate::request::Across;

/// Maps `ranks` ranks to hosts with the given slots, numbered by `rank_by` if there is one. Returns the hosts
/// that have ranks, as indices into `slots`, and the placement in terms of them.
///
/// # Panics
/// Panics without a rank or a slot. The callers have checked both.
pub fn map(ranks: u32, slots: &[u32], across: Across, rank_by: Option<Across>) -> (Vec<usize>, Placement) {
    let runs_by = |across, slots: &[u32]| match across {
        Across::Slot => fill(ranks, slots),
        Across::Node => deal(ranks, slots),
    };
    let runs = runs_by(across, slots);
    match rank_by {
        // The number of ranks of each host stays; only their numbering changes.
        Some(order) if order != across => {
            let mut counts = vec![0; slots.len()];
            runs.iter().for_each(|&(host, ranks)| counts[host] += ranks);
            place(runs_by(order, &counts))
        }
        _ => place(runs),
    }
}

/// Maps each rank to its given host. Returns the same as [`map`].
///
/// # Panics
/// Without a rank.
pub fn assign(host_of: &[usize]) -> (Vec<usize>, Placement) {
    place(host_of.iter().map(|&host| (host, 1)).collect())
}

fn place(runs: Vec<(usize, u32)>) -> (Vec<usize>, Placement) {
    let mut used: Vec<usize> = runs.iter().map(|&(host, _)| host).collect();
    used.sort_unstable();
    used.dedup();
    let number = |host: usize| used.binary_search(&host).expect("collected from these runs") as u32;
    let runs = runs.into_iter().map(|(host, ranks)| Run { host: number(host), ranks });
    let placement = Placement::from_runs(runs).expect("each host of it has a rank");
    (used, placement)
}

/// Fills all slots of a host, then those of the next host.
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

/// Assigns one rank to each host in turn. Full hosts are skipped until all are full.
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

    /// Checks a mapping. `expected` has the hosts of the ranks, as indices into `slots`.
    fn check(ranks: u32, slots: &[u32], across: Across, expected: &[usize]) {
        check_by(ranks, slots, across, None, expected);
    }

    fn check_by(ranks: u32, slots: &[u32], across: Across, rank_by: Option<Across>, expected: &[usize]) {
        let (used, placement) = map(ranks, slots, across, rank_by);
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

    #[test]
    fn numbers_may_follow_another_order_than_the_mapping() {
        check_by(5, &[3, 3], Across::Slot, Some(Across::Node), &[0, 1, 0, 1, 0]);
        check_by(4, &[3, 3], Across::Node, Some(Across::Slot), &[0, 0, 1, 1]);
        check_by(2, &[3, 3], Across::Slot, Some(Across::Slot), &[0, 0]);
    }

    #[test]
    fn ranks_run_where_it_is_said() {
        let (used, placement) = assign(&[2, 0, 2]);
        let got: Vec<usize> = placement.places().map(|place| used[place.host as usize]).collect();
        assert_eq!((used, got), (vec![0, 2], vec![2, 0, 2]));
    }
}
