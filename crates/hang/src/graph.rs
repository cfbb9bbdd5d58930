//! Wait-for graph: the ranks that no rank outside waits can release, and a shortest cycle among them.
//!
//! A rank is *free* if it computes, or if its wait may end once free ranks have done what they can. The free
//! ranks are the least set with this property, and all others are stuck. A rank that has left is neither: it
//! releases nobody.
//!
//! In doubt a rank is free. That holds for a rank without a card, for a wait that is not understood, and for
//! a collective operation that all members have called.

use std::collections::VecDeque;

use crate::card::{Card, Kind, Mode, Need, Wait};

/// State of a rank at the time of the collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RankStatus {
    /// The rank is outside waits: it computes, or does I/O.
    Computing,
    /// The rank does not run, or something else prevents a decision: the reason as words ("stopped").
    Unknown(String),
    /// The rank waits in MPI.
    Waiting(Card),
    /// The rank is through with MPI, or has ended.
    Left,
}

impl RankStatus {
    /// Returns the card of a waiting rank.
    pub fn card(&self) -> Option<&Card> {
        match self {
            RankStatus::Waiting(card) => Some(card),
            _ => None,
        }
    }
}

/// Strictness of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rigour {
    /// Ranks with other threads, or with messages of the network that may be under way, count as free.
    Proof,
    /// All waiting ranks count as their waits alone suggest.
    Guess,
}

/// Returns for each rank whether it is stuck.
pub fn stuck(ranks: &[RankStatus], rigour: Rigour) -> Vec<bool> {
    let is_quiet = rigour == Rigour::Guess || is_network_quiet(ranks);
    let mut free: Vec<bool> = ranks.iter().map(|rank| !is_bound(rank, rigour, is_quiet)).collect();
    for (free, rank) in free.iter_mut().zip(ranks) {
        *free &= *rank != RankStatus::Left;
    }
    // Each pass frees at least one rank, so there are at most as many passes as ranks.
    loop {
        let mut has_changed = false;
        for rank in 0..ranks.len() {
            let Some(card) = ranks[rank].card().filter(|_| !free[rank]) else { continue };
            if card.waits.iter().any(|wait| may_end(ranks, &free, wait)) {
                free[rank] = true;
                has_changed = true;
            }
        }
        if !has_changed {
            break;
        }
    }
    ranks.iter().zip(free).map(|(rank, free)| rank.card().is_some() && !free).collect()
}

/// Returns true if only its waits keep this rank. `is_quiet` is true if no message of the network is under
/// way.
fn is_bound(rank: &RankStatus, rigour: Rigour, is_quiet: bool) -> bool {
    let Some(card) = rank.card().filter(|card| !card.is_transferring) else { return false };
    rigour == Rigour::Guess || !card.has_other_threads && (card.network.is_none() || is_quiet)
}

/// Returns true if all ranks wait, and have received as many records of the network as they have sent. The
/// counts of other ranks are unknown.
fn is_network_quiet(ranks: &[RankStatus]) -> bool {
    let counts = ranks.iter().map(|rank| rank.card().and_then(|card| card.network));
    let sum = |sum: (u64, u64), counts: Option<(u64, u64)>| {
        counts.map(|(sent, received)| (sum.0.wrapping_add(sent), sum.1.wrapping_add(received)))
    };
    counts.into_iter().try_fold((0, 0), sum).is_some_and(|(sent, received)| sent == received)
}

/// Returns true if the free ranks may end a wait.
fn may_end(ranks: &[RankStatus], free: &[bool], wait: &Wait) -> bool {
    if wait.needs.is_empty() {
        return true;
    }
    let mut needs = wait.needs.iter();
    let may_come = |need: &Need| may_come(ranks, free, need);
    match wait.mode {
        // A need that was left out may be the one that comes.
        Mode::Any => wait.is_cut || needs.any(may_come),
        Mode::All => needs.all(may_come),
    }
}

/// Returns true if the free ranks may cause the event of a need.
fn may_come(ranks: &[RankStatus], free: &[bool], need: &Need) -> bool {
    let is_free = |rank: u32| free.get(rank as usize).is_none_or(|free| *free);
    match need.kind {
        Kind::Outside => true,
        _ if need.by.is_empty() => true,
        Kind::Answer => match need.mode {
            Mode::Any => need.by.iter().any(|rank| !has_left(ranks, rank)),
            Mode::All => !need.by.iter().any(|rank| has_left(ranks, rank)),
        },
        Kind::Collective => {
            if need.by.iter().any(|rank| has_called(ranks, rank, need) == Called::Unknown) {
                return true;
            }
            let mut late =
                need.by.iter().filter(|rank| has_called(ranks, *rank, need) == Called::No).peekable();
            // When all members have called it, progress alone ends it.
            late.peek().is_none()
                || match need.mode {
                    Mode::Any => late.any(is_free),
                    Mode::All => late.all(is_free),
                }
        }
        _ => match need.mode {
            Mode::Any => need.by.iter().any(is_free),
            Mode::All => need.by.iter().all(is_free),
        },
    }
}

fn has_left(ranks: &[RankStatus], rank: u32) -> bool {
    ranks.get(rank as usize) == Some(&RankStatus::Left)
}

/// Answer to the question whether a rank has called a collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Called {
    /// The rank has called it.
    Yes,
    /// The rank has not called it yet.
    No,
    /// The rank waits, and its card does not have the communicator.
    Unknown,
}

/// Returns whether a rank has called the collective operation of a need. A rank without a card has not, as
/// far as this function knows.
pub fn has_called(ranks: &[RankStatus], rank: u32, need: &Need) -> Called {
    let Some(card) = ranks.get(rank as usize).and_then(RankStatus::card) else { return Called::No };
    match card.called_on(need.context) {
        None => Called::Unknown,
        // Counts wrap around. A member is at most half of their range behind.
        Some(called) if called.wrapping_sub(need.number.wrapping_add(1)) > u32::MAX / 2 => Called::No,
        Some(_) => Called::Yes,
    }
}

/// Returns the ranks for which a stuck rank waits and that are stuck too or have left, with the need.
pub fn edges<'c>(ranks: &'c [RankStatus], stuck: &[bool], rank: u32) -> Vec<(u32, &'c Need)> {
    let needs = ranks.get(rank as usize).and_then(RankStatus::card).into_iter().flat_map(Card::needs);
    let mut edges = Vec::new();
    for need in needs {
        for by in need.by.iter() {
            let is_stuck = stuck.get(by as usize).copied().unwrap_or(false);
            let is_awaited = need.kind != Kind::Collective || has_called(ranks, by, need) == Called::No;
            if (is_stuck || has_left(ranks, by)) && is_awaited {
                edges.push((by, need));
            }
        }
    }
    edges
}

/// Returns a shortest cycle among the stuck ranks: each waits for the next one, and the last for the first.
/// A rank that waits for itself is a cycle of one. Returns None if all waits lead to ranks that have left.
pub fn shortest_cycle(ranks: &[RankStatus], stuck: &[bool]) -> Option<Vec<u32>> {
    /// Maximum number of ranks from which a cycle is searched; the search from each visits all waits.
    const MOST_STARTS: usize = 512;
    let next: Vec<Vec<u32>> = (0..ranks.len() as u32)
        .map(|rank| match stuck[rank as usize] {
            true => edges(ranks, stuck, rank)
                .into_iter()
                .map(|(by, _)| by)
                .filter(|by| stuck[*by as usize])
                .collect(),
            false => Vec::new(),
        })
        .collect();
    let starts = (0..ranks.len() as u32).filter(|rank| stuck[*rank as usize]).take(MOST_STARTS);
    let mut best: Option<Vec<u32>> = None;
    for start in starts {
        let most = best.as_ref().map_or(usize::MAX, |best| best.len() - 1);
        if let Some(cycle) = cycle_through(&next, start).filter(|cycle| cycle.len() <= most) {
            best = Some(cycle);
        }
        if best.as_ref().is_some_and(|best| best.len() <= 2) {
            break;
        }
    }
    best
}

/// Returns a shortest cycle through `start`, by breadth-first search.
fn cycle_through(next: &[Vec<u32>], start: u32) -> Option<Vec<u32>> {
    let mut before: Vec<Option<u32>> = vec![None; next.len()];
    let mut queue = VecDeque::from([start]);
    while let Some(rank) = queue.pop_front() {
        for &by in &next[rank as usize] {
            if by == start {
                let mut cycle = vec![rank];
                while *cycle.last()? != start {
                    cycle.push(before[*cycle.last()? as usize]?);
                }
                cycle.reverse();
                return Some(cycle);
            }
            if before[by as usize].is_none() {
                before[by as usize] = Some(rank);
                queue.push_back(by);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranks::Ranks;
    use proptest::prelude::*;

    fn waiting(mode: Mode, needs: Vec<Need>) -> RankStatus {
        let text = String::new;
        let wait = Wait { function: text(), place: text(), text: text(), mode, needs, is_cut: false };
        RankStatus::Waiting(Card { waits: vec![wait], ..Card::default() })
    }

    fn for_rank(rank: u32) -> RankStatus {
        waiting(Mode::All, vec![Need::new(Kind::Receive, Ranks::one(rank), Mode::Any)])
    }

    fn collective(context: u32, number: u32, size: u32, called: &[(u32, u32)]) -> RankStatus {
        let need = Need { context, number, ..Need::new(Kind::Collective, (0..size).collect(), Mode::All) };
        let RankStatus::Waiting(card) = waiting(Mode::All, vec![need]) else { unreachable!("just made") };
        RankStatus::Waiting(Card { called: called.to_vec(), ..card })
    }

    fn check(ranks: &[RankStatus], expected: &[u32], cycle: Option<&[u32]>) {
        let stuck = stuck(ranks, Rigour::Proof);
        let numbers: Vec<u32> =
            (0..).zip(&stuck).filter(|(_, stuck)| **stuck).map(|(rank, _)| rank).collect();
        assert_eq!((&numbers[..], shortest_cycle(ranks, &stuck).as_deref()), (expected, cycle));
    }

    #[test]
    fn a_ring_is_stuck_and_what_waits_for_it() {
        let ring = [for_rank(1), for_rank(2), for_rank(0), for_rank(1), RankStatus::Computing, for_rank(4)];
        check(&ring, &[0, 1, 2, 3], Some(&[0, 1, 2]));
        check(&[for_rank(0)], &[0], Some(&[0]));
        check(&[for_rank(1), RankStatus::Left], &[0], None);
        check(&[for_rank(1), RankStatus::Unknown("stopped".to_string())], &[], None);
    }

    #[test]
    fn one_free_rank_is_enough_for_any_and_not_for_all() {
        let both = |mode| {
            let needs = [1, 2].map(|rank| Need::new(Kind::Receive, Ranks::one(rank), Mode::Any));
            waiting(mode, needs.to_vec())
        };
        check(&[both(Mode::Any), for_rank(0), RankStatus::Computing], &[], None);
        check(&[both(Mode::All), for_rank(0), RankStatus::Computing], &[0, 1], Some(&[0, 1]));
    }

    #[test]
    fn barriers_in_another_order_are_a_cycle() {
        let one = collective(1, 0, 2, &[(1, 1), (2, 0)]);
        let two = collective(2, 0, 2, &[(1, 0), (2, 1)]);
        check(&[one, two], &[0, 1], Some(&[0, 1]));
        // Both have called it: its messages are under way.
        let same = [collective(1, 0, 2, &[(1, 1)]), collective(1, 0, 2, &[(1, 1)])];
        check(&same, &[], None);
        let wraps = [collective(1, u32::MAX, 2, &[(1, 0)]), collective(1, u32::MAX, 2, &[(1, 0)])];
        check(&wraps, &[], None);
    }

    #[test]
    fn nothing_is_proved_of_ranks_that_may_do_more() {
        let RankStatus::Waiting(card) = for_rank(1) else { unreachable!("just made") };
        let doubtful = [
            Card { has_other_threads: true, ..card.clone() },
            Card { network: Some((5, 4)), ..card.clone() },
        ];
        for card in doubtful {
            let ranks = [RankStatus::Waiting(card), for_rank(0)];
            check(&ranks, &[], None);
            assert_eq!(stuck(&ranks, Rigour::Guess), [true, true]);
        }
        let ranks = [RankStatus::Waiting(Card { is_transferring: true, ..card.clone() }), for_rank(0)];
        assert_eq!(stuck(&ranks, Rigour::Guess), [false, false]);
        // One rank has received what the other has sent.
        let of_host = |network, rank| match for_rank(rank) {
            RankStatus::Waiting(card) => RankStatus::Waiting(Card { network: Some(network), ..card }),
            other => other,
        };
        check(&[of_host((5, 4), 1), of_host((4, 5), 0)], &[0, 1], Some(&[0, 1]));
        check(&[of_host((5, 4), 1), of_host((4, 5), 0), RankStatus::Computing], &[], None);
        let answers = |rank| waiting(Mode::All, vec![Need::new(Kind::Answer, Ranks::one(rank), Mode::All)]);
        check(&[answers(1), answers(0)], &[], None);
        check(&[waiting(Mode::All, Vec::new()), for_rank(0)], &[], None);
    }

    fn any_standing(ranks: u32) -> impl Strategy<Value = RankStatus> {
        let mode = prop_oneof![Just(Mode::All), Just(Mode::Any)];
        let by =
            proptest::collection::vec(0..ranks, 1..4).prop_map(|ranks| ranks.into_iter().collect::<Ranks>());
        let need = (by, mode.clone()).prop_map(|(by, mode)| Need::new(Kind::Receive, by, mode));
        let wait =
            (mode, proptest::collection::vec(need, 1..4)).prop_map(|(mode, needs)| waiting(mode, needs));
        prop_oneof![1 => Just(RankStatus::Computing), 1 => Just(RankStatus::Left), 6 => wait]
    }

    /// Returns the union of all sets of waiting ranks none of which can be released from outside the set. It
    /// tries all sets.
    fn by_brute_force(ranks: &[RankStatus]) -> Vec<bool> {
        let mut union = 0u32;
        for set in 0u32..1 << ranks.len() {
            let is_in = |rank: u32| set >> rank & 1 == 1;
            let can_act = |rank: u32| !is_in(rank) && ranks[rank as usize] != RankStatus::Left;
            let holds = |need: &Need| match need.mode {
                Mode::Any => need.by.iter().filter(|rank| can_act(*rank)).count() > 0,
                Mode::All => need.by.iter().filter(|rank| can_act(*rank)).count() == need.by.len(),
            };
            let keeps = |rank: u32| {
                ranks[rank as usize].card().is_some_and(|card| {
                    let wait = &card.waits[0];
                    let count = wait.needs.iter().filter(|need| holds(need)).count();
                    count < if wait.mode == Mode::Any { 1 } else { wait.needs.len() }
                })
            };
            if (0..ranks.len() as u32).filter(|rank| is_in(*rank)).all(keeps) {
                union |= set;
            }
        }
        (0..ranks.len()).map(|rank| union >> rank & 1 == 1).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// Compares the stuck ranks with a search of all sets of ranks, and checks each wait of the cycle.
        #[test]
        fn the_stuck_ranks_are_those_of_a_brute_force_search(
            ranks in (1u32..8).prop_flat_map(|size| proptest::collection::vec(any_standing(size), size as usize)),
        ) {
            let found = stuck(&ranks, Rigour::Proof);
            prop_assert_eq!(&found, &by_brute_force(&ranks));
            let cycle = shortest_cycle(&ranks, &found);
            for (place, &rank) in cycle.iter().flatten().enumerate() {
                let cycle = cycle.as_ref().unwrap();
                let next = cycle[(place + 1) % cycle.len()];
                prop_assert!(found[rank as usize]);
                prop_assert!(edges(&ranks, &found, rank).iter().any(|(by, _)| *by == next));
            }
            let has_left = ranks.contains(&RankStatus::Left);
            prop_assert!(cycle.is_some() || has_left || !found.contains(&true));
        }
    }
}
