//! Causes of a hang: a cycle of waits, ranks that have left, calls that do not match, a rank that computes.
//!
//! [`judge`] first looks for ranks that are stuck for certain, then for those that seem so, then for ranks
//! outside waits for which others wait. It returns the first of these that it finds.

use std::collections::BTreeMap;

use crate::card::{Card, Kind, Message, Need, Wait};
use crate::graph::{self, Called, RankStatus, Rigour};
use crate::ranks::Ranks;

/// Maximum number of findings of one judgement.
const MOST_FINDINGS: usize = 3;

/// Certainty of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certainty {
    /// No rank outside waits can release the stuck ranks.
    Certain,
    /// The ranks are stuck unless another thread, or a message under way, releases them.
    Likely,
    /// Ranks wait for others that may go on any time.
    Possible,
}

/// Cause of a hang.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Each rank of the chain waits for the next one, and the last for the first.
    Deadlock,
    /// The last rank of the chain waits for ranks that have left.
    Left(Ranks),
    /// The ranks of the chain wait for ranks outside waits.
    Computing(Ranks),
}

/// Rank of a chain of waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Rank of the world that waits.
    pub rank: u32,
    /// Wait of the rank.
    pub wait: Wait,
    /// Event that the wait needs from the next rank of the chain.
    pub need: Need,
    /// Next rank of the chain.
    pub next: u32,
}

/// Result of a judgement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Certainty of the finding.
    pub certainty: Certainty,
    /// Cause of the hang.
    pub cause: Cause,
    /// Chain of ranks that explains the cause.
    pub chain: Vec<Link>,
    /// Differences between calls that should match, as sentences.
    pub remarks: Vec<String>,
    /// Further ranks that wait for the chain, directly or indirectly, grouped by their waits.
    pub others: Vec<(Ranks, Wait)>,
}

/// Returns the causes of a hang; none if no rank waits for another one. `ranks` has the state of each rank of
/// the job.
pub fn judge(ranks: &[RankStatus]) -> Vec<Finding> {
    for (rigour, certainty) in [(Rigour::Proof, Certainty::Certain), (Rigour::Guess, Certainty::Likely)] {
        let stuck = graph::stuck(ranks, rigour);
        if stuck.contains(&true) {
            return explain_all(ranks, stuck, certainty);
        }
    }
    find_computing(ranks).into_iter().collect()
}

/// Returns a finding for each independent cause, up to [`MOST_FINDINGS`].
fn explain_all(ranks: &[RankStatus], mut stuck: Vec<bool>, certainty: Certainty) -> Vec<Finding> {
    let mut findings = Vec::new();
    while findings.len() < MOST_FINDINGS && stuck.contains(&true) {
        let (cause, chain) = match graph::shortest_cycle(ranks, &stuck) {
            Some(cycle) => (Cause::Deadlock, links_of(ranks, &stuck, &cycle)),
            None => match find_left(ranks, &stuck) {
                Some((left, link)) => (Cause::Left(left), vec![link]),
                None => break,
            },
        };
        let members: Vec<u32> = chain.iter().map(|link| link.rank).collect();
        let waiting = dependents(ranks, &stuck, &members);
        let remarks = remarks_on(ranks, &chain);
        let others = grouped(ranks, &waiting);
        findings.push(Finding { certainty, cause, chain, remarks, others });
        members.iter().chain(&waiting).for_each(|rank| stuck[*rank as usize] = false);
    }
    findings
}

/// Returns the links of a cycle.
fn links_of(ranks: &[RankStatus], stuck: &[bool], cycle: &[u32]) -> Vec<Link> {
    let next = cycle.iter().cycle().skip(1);
    let link = |(&rank, &next): (&u32, &u32)| {
        let edges = graph::edges(ranks, stuck, rank);
        let need = edges.into_iter().find(|(by, _)| *by == next).map(|(_, need)| need)?;
        link(ranks, rank, need, next)
    };
    cycle.iter().zip(next).filter_map(link).collect()
}

/// Returns a link of a chain.
fn link(ranks: &[RankStatus], rank: u32, need: &Need, next: u32) -> Option<Link> {
    let card = ranks.get(rank as usize)?.card()?;
    let wait = card.waits.iter().find(|wait| wait.needs.contains(need))?;
    Some(Link { rank, wait: wait.clone(), need: need.clone(), next })
}

/// Returns a stuck rank that waits for ranks that have left, and those.
fn find_left(ranks: &[RankStatus], stuck: &[bool]) -> Option<(Ranks, Link)> {
    (0..ranks.len() as u32).filter(|rank| stuck[*rank as usize]).find_map(|rank| {
        let edges = graph::edges(ranks, stuck, rank);
        let left: Ranks = edges
            .iter()
            .map(|(by, _)| *by)
            .filter(|by| ranks.get(*by as usize) == Some(&RankStatus::Left))
            .collect();
        let first = left.iter().next()?;
        let need = edges.into_iter().find(|(by, _)| *by == first).map(|(_, need)| need)?;
        Some((left, link(ranks, rank, need, first)?))
    })
}

/// Returns the stuck ranks that wait for `members`, directly or through others.
fn dependents(ranks: &[RankStatus], stuck: &[bool], members: &[u32]) -> Vec<u32> {
    let mut reached = vec![false; ranks.len()];
    members.iter().for_each(|rank| reached[*rank as usize] = true);
    loop {
        let mut has_changed = false;
        for rank in 0..ranks.len() {
            if stuck[rank] && !reached[rank] {
                let edges = graph::edges(ranks, stuck, rank as u32);
                reached[rank] = edges.into_iter().any(|(by, _)| reached[by as usize]);
                has_changed |= reached[rank];
            }
        }
        if !has_changed {
            break;
        }
    }
    (0..ranks.len() as u32).filter(|rank| reached[*rank as usize] && !members.contains(rank)).collect()
}

/// Groups ranks by their first wait: function and place of the program.
fn grouped(ranks: &[RankStatus], members: &[u32]) -> Vec<(Ranks, Wait)> {
    let mut groups: BTreeMap<(String, String), (Vec<u32>, Wait)> = BTreeMap::new();
    for &rank in members {
        let Some(wait) = ranks[rank as usize].card().and_then(|card| card.waits.first()) else { continue };
        let key = (wait.function.clone(), wait.place.clone());
        groups.entry(key).or_insert_with(|| (Vec::new(), wait.clone())).0.push(rank);
    }
    let mut groups: Vec<(Ranks, Wait)> =
        groups.into_values().map(|(members, wait)| (members.into_iter().collect(), wait)).collect();
    groups.sort_by_key(|(members, _)| std::cmp::Reverse(members.len()));
    groups
}

/// Returns the ranks outside waits for which others wait, as a possible cause.
fn find_computing(ranks: &[RankStatus]) -> Option<Finding> {
    let is_outside =
        |rank: u32| matches!(ranks.get(rank as usize), Some(RankStatus::Computing | RankStatus::Unknown(_)));
    let mut awaited: BTreeMap<u32, usize> = BTreeMap::new();
    let mut chain = Vec::new();
    let mut waiting = Vec::new();
    for rank in 0..ranks.len() as u32 {
        let Some(card) = ranks[rank as usize].card() else { continue };
        waiting.push(rank);
        for need in card.needs() {
            // A receive from any source names nobody.
            let outside: Vec<u32> = need.by.iter().filter(|by| is_outside(*by)).collect();
            for &by in &outside {
                *awaited.entry(by).or_default() += 1;
            }
            if chain.is_empty()
                && let Some(&next) = outside.first()
            {
                chain.extend(link(ranks, rank, need, next));
            }
        }
    }
    let most = awaited.values().copied().max()?;
    let computing = awaited.into_iter().filter(|(_, count)| *count == most).map(|(rank, _)| rank).collect();
    let first = chain.first().map(|link: &Link| link.rank);
    waiting.retain(|rank| Some(*rank) != first);
    let (remarks, others) = (remarks_on(ranks, &chain), grouped(ranks, &waiting));
    Some(Finding {
        certainty: Certainty::Possible,
        cause: Cause::Computing(computing),
        chain,
        remarks,
        others,
    })
}

/// Returns sentences about calls of a chain that should match and do not, the most telling first.
fn remarks_on(ranks: &[RankStatus], chain: &[Link]) -> Vec<String> {
    let all = |kind: Kind| chain.len() > 1 && chain.iter().all(|link| link.need.kind == kind);
    let mut remarks: Vec<(bool, String)> = chain.iter().filter_map(|link| remark_on(ranks, link)).collect();
    let is_mismatch = remarks.iter().any(|(is_mismatch, _)| *is_mismatch);
    if all(Kind::Receive) && !is_mismatch {
        remarks.push((true, "all of them receive first, so none of them sends".to_string()));
    }
    if all(Kind::Send) && !is_mismatch {
        let reason = "all of them send first, and messages of this length wait for their receives; MPI_Sendrecv or \
                      MPI_Isend does not";
        remarks.push((true, reason.to_string()));
    }
    let first = chain.first().map(|link| link.need.context);
    if all(Kind::Collective) && chain.iter().any(|link| Some(link.need.context) != first) {
        let reason =
            "they call collective operations of several communicators in another order, or leave one out";
        remarks.push((true, reason.to_string()));
    }
    remarks.sort_by_key(|(is_mismatch, _)| !is_mismatch);
    let mut remarks: Vec<String> = remarks.into_iter().map(|(_, remark)| remark).collect();
    remarks.dedup();
    remarks
}

/// Returns a sentence about a link, and whether it names a mismatch of two calls.
fn remark_on(ranks: &[RankStatus], link: &Link) -> Option<(bool, String)> {
    let card_of = |rank: u32| ranks.get(rank as usize).and_then(RankStatus::card);
    let Link { rank, need, next, .. } = link;
    match need.kind {
        Kind::Receive => {
            let sent = sent_to(card_of(*rank)?, card_of(*next), *rank, need);
            sent.into_iter().find_map(|message| difference(need, &message, *rank)).map(|text| (true, text))
        }
        Kind::Send => {
            let receives = card_of(*next)?.needs().filter(|other| other.kind == Kind::Receive);
            let mut from_us = receives.filter(|other| other.by.contains(*rank));
            let difference = from_us.find_map(|other| difference(other, &message_of(need, *rank), *next));
            difference.map(|text| (true, text))
        }
        Kind::Collective => {
            let is_late = graph::has_called(ranks, *next, need) == Called::No;
            is_late.then(|| {
                let Need { operation, object, .. } = need;
                (
                    false,
                    format!(
                        "rank {next} has not called the {operation} of {object} for which rank {rank} waits"
                    ),
                )
            })
        }
        Kind::Lock => Some((true, format!("rank {next} holds the lock of {}", need.object))),
        Kind::Post => Some((true, format!("rank {next} has not called MPI_Win_post for {}", need.object))),
        Kind::Complete => {
            Some((true, format!("rank {next} has not called MPI_Win_complete for {}", need.object)))
        }
        Kind::Partition => {
            Some((true, format!("rank {next} has not made all partitions ready, or not started")))
        }
        Kind::Answer | Kind::Outside => None,
    }
}

/// Returns the messages that a receive might have been meant for: those that have arrived, and those that the
/// sender still offers.
fn sent_to(card: &Card, sender: Option<&Card>, receiver: u32, need: &Need) -> Vec<Message> {
    let arrived = card.arrived.iter().filter(|message| need.by.contains(message.peer)).cloned();
    let peer = need.by.iter().next().filter(|_| need.by.len() == 1);
    let sends = sender.into_iter().flat_map(Card::needs).filter(|other| other.kind == Kind::Send);
    let offered = sends.filter(|other| other.by.contains(receiver)).zip(peer.into_iter().cycle());
    arrived.chain(offered.map(|(send, peer)| message_of(send, peer))).collect()
}

/// Returns the message of a send.
fn message_of(need: &Need, sender: u32) -> Message {
    let Need { context, tag, ref object, .. } = *need;
    Message { peer: sender, context, tag: tag.unwrap_or(0), object: object.clone() }
}

/// Returns the difference between a receive of `receiver` and a message that does not match it.
fn difference(need: &Need, message: &Message, receiver: u32) -> Option<String> {
    let Message { peer, context, tag, object } = message;
    let is_other_tag = need.tag.is_some_and(|wanted| wanted != *tag);
    let is_other_context = need.context != *context;
    let wanted = need.tag.map_or("any tag".to_string(), |tag| format!("tag {tag}"));
    match (is_other_tag, is_other_context) {
        (true, false) => Some(format!(
            "tags differ: rank {receiver} receives {wanted}, rank {peer} has sent tag {tag}, in {object}"
        )),
        (false, true) => Some(format!(
            "communicators differ: rank {receiver} receives in {}, rank {peer} has sent in {object} ({wanted})",
            need.object
        )),
        (true, true) => Some(format!(
            "rank {receiver} receives {wanted} in {}, rank {peer} has sent tag {tag} in {object}",
            need.object
        )),
        (false, false) => None,
    }
}
