//! Text of a report for the user: at most [`MOST_LINES`] lines for any number of ranks.

use std::collections::BTreeMap;

use crate::card::{Kind, Mode, Need, Wait};
use crate::finding::{Cause, Certainty, Finding, Link};
use crate::ranks::Ranks;

/// Maximum number of lines of a report.
pub const MOST_LINES: usize = 15;
/// Maximum number of different waits that a chain shows.
const MOST_LINKS: usize = 4;

/// Returns the lines of a report, without the name of the program that prints them. `advice` is its last
/// line.
pub fn lines(findings: &[Finding], advice: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for finding in findings {
        let of_it = lines_of(finding);
        if lines.len() + of_it.len() + 2 > MOST_LINES {
            lines.push("further ranks wait in the same way".to_string());
            break;
        }
        lines.extend(of_it);
    }
    if !advice.is_empty() {
        lines.push(format!("  {advice}"));
    }
    lines
}

fn lines_of(finding: &Finding) -> Vec<String> {
    let mut lines = vec![headline(finding)];
    let links = group_links(&finding.chain);
    let count = links.len();
    lines.extend(links.into_iter().take(MOST_LINKS).map(|line| format!("  {line}")));
    if count > MOST_LINKS {
        lines.push(format!("  and {} further waits of the same chain", count - MOST_LINKS));
    }
    lines.extend(finding.remarks.iter().take(2).map(|remark| format!("  {remark}")));
    let most = 3;
    for (ranks, wait) in finding.others.iter().take(most) {
        lines.push(format!("  {ranks} {} for them{}", waits_in(ranks.len(), wait), place_of(wait)));
    }
    if finding.others.len() > most {
        let left: Ranks = finding.others[most..].iter().flat_map(|(ranks, _)| ranks.iter()).collect();
        lines.push(format!("  {left} wait for them too"));
    }
    lines
}

/// Returns the line that names the cause.
fn headline(finding: &Finding) -> String {
    let members: Ranks = finding.chain.iter().map(|link| link.rank).collect();
    let doubt = match finding.certainty {
        Certainty::Certain => "",
        Certainty::Likely => " unless another thread or a message under way releases them",
        Certainty::Possible => "",
    };
    match &finding.cause {
        Cause::Deadlock if members.len() == 1 => {
            format!("deadlock: {members} waits for itself and cannot go on{doubt}")
        }
        Cause::Deadlock => format!("deadlock: {members} wait for each other and cannot go on{doubt}"),
        Cause::Left(left) => {
            let have = if left.len() == 1 { "has" } else { "have" };
            format!("{members} cannot go on{doubt}: {left} {have} called MPI_Finalize or ended")
        }
        Cause::Computing(computing) => {
            let (is, are) = if computing.len() == 1 { ("is", "it") } else { ("are", "them") };
            format!("hint: {computing} {is} outside MPI, and other ranks wait for {are}")
        }
    }
}

/// Returns a line for each different wait of a chain, with all ranks that wait in this way.
fn group_links(chain: &[Link]) -> Vec<String> {
    let mut groups: BTreeMap<String, Vec<&Link>> = BTreeMap::new();
    let mut order: Vec<String> = Vec::new();
    for link in chain {
        let key = format!("{}|{}|{}", link.wait.function, link.wait.place, describe(&link.need, ""));
        let group = groups.entry(key.clone()).or_default();
        if group.is_empty() {
            order.push(key);
        }
        group.push(link);
    }
    let line = |key: &String| {
        let links = groups.get(key).map_or(&[][..], |links| links);
        let ranks: Ranks = links.iter().map(|link| link.rank).collect();
        let partners: Ranks = match links {
            [link] if link.need.mode == Mode::All && link.need.by.len() > 1 => Ranks::one(link.next),
            [link] => link.need.by.clone(),
            _ => Ranks::default(),
        };
        let Link { wait, need, .. } = links[0];
        let partners = if links.len() > 1 { "another of them".to_string() } else { partners.to_string() };
        let what = describe(need, &partners);
        format!("{ranks} {}{what}{}", waits_in(ranks.len(), wait), place_of(wait))
    };
    order.iter().map(line).collect()
}

/// Returns `waits in MPI_Recv`.
fn waits_in(ranks: usize, wait: &Wait) -> String {
    let waits = if ranks == 1 { "waits" } else { "wait" };
    match (wait.function.as_str(), wait.text.as_str()) {
        ("", "") => waits.to_string(),
        ("", text) => format!("{waits} in {text}"),
        (function, _) => format!("{waits} in {function}"),
    }
}

fn place_of(wait: &Wait) -> String {
    if wait.place.is_empty() { String::new() } else { format!(", at {}", wait.place) }
}

/// Describes the event of a need, which `partners` can cause.
fn describe(need: &Need, partners: &str) -> String {
    let Need { object, operation, number, bytes, .. } = need;
    let tag = need.tag.map_or("any tag".to_string(), |tag| format!("tag {tag}"));
    let within = if object.is_empty() { String::new() } else { format!(", {object}") };
    match need.kind {
        Kind::Receive if need.mode == Mode::Any && need.by.len() > 1 => {
            format!(" for a message (any source, {tag}{within})")
        }
        Kind::Receive => format!(" for a message of {partners} ({tag}{within})"),
        Kind::Send => format!(" for a receive by {partners} ({tag}, {bytes} bytes{within})"),
        Kind::Collective => format!(" for {partners} ({operation}{within}, operation {number})"),
        Kind::Lock => format!(" for the lock that {partners} holds ({object})"),
        Kind::Post => format!(" for MPI_Win_post by {partners} ({object})"),
        Kind::Complete => format!(" for MPI_Win_complete by {partners} ({object})"),
        Kind::Partition => format!(" for partitions of {partners} ({tag}{within})"),
        Kind::Answer => format!(" for an answer of {partners}{within}"),
        Kind::Outside => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::card::{Card, Message};
    use crate::finding::judge;
    use crate::graph::RankStatus;

    fn waiting(function: &str, need: Need) -> RankStatus {
        let (function, place) = (function.to_string(), "main (a.c:7)".to_string());
        let needs = vec![need];
        let wait = Wait { function, place, text: String::new(), mode: Mode::All, needs, is_cut: false };
        let called = vec![(0, 3)];
        RankStatus::Waiting(Card { waits: vec![wait], called, ..Card::default() })
    }

    fn world(need: Need) -> Need {
        Need { object: "MPI_COMM_WORLD".to_string(), ..need }
    }

    fn receive(from: u32, tag: i32) -> RankStatus {
        let need = Need::new(Kind::Receive, Ranks::one(from), Mode::Any);
        waiting("MPI_Recv", world(Need { tag: Some(tag), ..need }))
    }

    fn barrier(size: u32) -> RankStatus {
        let need = Need::new(Kind::Collective, (0..size).collect(), Mode::All);
        let RankStatus::Waiting(mut card) =
            waiting("MPI_Barrier", world(Need { number: 3, operation: "barrier".to_string(), ..need }))
        else {
            unreachable!("just made")
        };
        card.called = vec![(0, 4)];
        RankStatus::Waiting(card)
    }

    fn check(ranks: &[RankStatus], expected: &[&str]) {
        let lines = lines(&judge(ranks), "");
        assert_eq!(lines, expected, "{lines:#?}");
        assert!(lines.len() <= MOST_LINES);
    }

    #[test]
    fn a_tag_that_differs_is_named_first() {
        let RankStatus::Waiting(mut card) = receive(1, 7) else { unreachable!("just made") };
        let object = "MPI_COMM_WORLD".to_string();
        card.arrived = vec![Message { peer: 1, context: 0, object, tag: 8 }];
        check(
            &[RankStatus::Waiting(card), barrier(4), barrier(4), barrier(4)],
            &[
                "deadlock: ranks 0, 1 wait for each other and cannot go on",
                "  rank 0 waits in MPI_Recv for a message of rank 1 (tag 7, MPI_COMM_WORLD), at main (a.c:7)",
                "  rank 1 waits in MPI_Barrier for rank 0 (barrier, MPI_COMM_WORLD, operation 3), at main (a.c:7)",
                "  tags differ: rank 0 receives tag 7, rank 1 has sent tag 8, in MPI_COMM_WORLD",
                "  rank 0 has not called the barrier of MPI_COMM_WORLD for which rank 1 waits",
                "  ranks 2, 3 wait in MPI_Barrier for them, at main (a.c:7)",
            ],
        );
    }

    #[test]
    fn a_large_ring_is_a_few_lines() {
        let ring: Vec<RankStatus> = (0..1000).map(|rank| receive((rank + 1) % 1000, 3)).collect();
        check(
            &ring,
            &[
                "deadlock: ranks 0-999 wait for each other and cannot go on",
                "  ranks 0-999 wait in MPI_Recv for a message of another of them (tag 3, MPI_COMM_WORLD), at main (a.c:7)",
                "  all of them receive first, so none of them sends",
            ],
        );
        let tags: Vec<RankStatus> = (0..50).map(|rank| receive((rank + 1) % 50, rank as i32)).collect();
        let lines = lines(&judge(&tags), "advice");
        assert!(lines.len() <= MOST_LINES && lines.last().unwrap() == "  advice", "{lines:#?}");
    }

    #[test]
    fn ranks_that_have_left_or_compute_are_named() {
        check(
            &[receive(1, 3), RankStatus::Left],
            &[
                "rank 0 cannot go on: rank 1 has called MPI_Finalize or ended",
                "  rank 0 waits in MPI_Recv for a message of rank 1 (tag 3, MPI_COMM_WORLD), at main (a.c:7)",
            ],
        );
        check(
            &[barrier(3), RankStatus::Computing, barrier(3)],
            &[
                "hint: rank 1 is outside MPI, and other ranks wait for it",
                "  rank 0 waits in MPI_Barrier for rank 1 (barrier, MPI_COMM_WORLD, operation 3), at main (a.c:7)",
                "  rank 1 has not called the barrier of MPI_COMM_WORLD for which rank 0 waits",
                "  rank 2 waits in MPI_Barrier for them, at main (a.c:7)",
            ],
        );
        check(&[RankStatus::Computing, RankStatus::Computing], &[]);
    }

    #[test]
    fn independent_deadlocks_are_separate() {
        let lines = lines(&judge(&[receive(1, 1), receive(0, 1), receive(3, 1), receive(2, 1)]), "");
        assert_eq!(lines.iter().filter(|line| line.starts_with("deadlock")).count(), 2, "{lines:#?}");
    }
}
