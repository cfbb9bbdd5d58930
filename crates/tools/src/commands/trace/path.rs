//! Critical path of a trace: a chain of events up to the last one, each of which delayed the next.
//!
//! An event waits for the previous event of its rank, and possibly for the other side: the send of a received
//! message, or the setting of an awaited flag. The later of both is its cause.

use std::collections::HashMap;

use tutti_base::trace::{Action, Event, group};

/// Key that both sides of a message share: sender, receiver, key, value.
type Pair = (u32, u32, u64, u64);

/// Returns the indices of the events on the critical path, from its beginning to its end.
pub fn critical(events: &[Event]) -> Vec<usize> {
    let steps: Vec<usize> = (0..events.len()).filter(|&place| group(&events[place]) >= 2).collect();
    let causes = causes(events, &steps);
    let mut of_rank: HashMap<u32, Vec<usize>> = HashMap::new();
    let mut by_end = steps.clone();
    by_end.sort_by_key(|&place| (events[place].end_ns, events[place].start_ns));
    by_end.iter().for_each(|&place| of_rank.entry(events[place].rank).or_default().push(place));
    let mut path = Vec::new();
    let mut next = by_end.last().copied();
    while let Some(place) = next {
        path.push(place);
        let event = &events[place];
        let earlier = |&other: &usize| {
            let other = &events[other];
            (other.start_ns, other.end_ns) < (event.start_ns, event.end_ns)
        };
        let own = &of_rank[&event.rank];
        let until = own.partition_point(|&other| events[other].end_ns <= event.start_ns);
        let before = own[..until].iter().rev().copied().find(|other| *other != place && earlier(other));
        let cause = causes.get(&place).copied().filter(earlier);
        next = match (before, cause) {
            (Some(before), Some(cause)) if events[before].end_ns > events[cause].start_ns => Some(before),
            (before, cause) => cause.or(before),
        };
    }
    path.reverse();
    path
}

/// Returns for receives and waits the event of the other side that ended them.
fn causes(events: &[Event], steps: &[usize]) -> HashMap<usize, usize> {
    let mut sends: HashMap<Pair, Vec<usize>> = HashMap::new();
    let mut posts: HashMap<(u32, u64), Vec<usize>> = HashMap::new();
    for &place in steps {
        let event = &events[place];
        match event.action {
            Action::Send => {
                sends.entry((event.rank, event.peer, event.key, event.value)).or_default().push(place);
            }
            Action::Post => posts.entry((event.rank, event.key)).or_default().push(place),
            _ => {}
        }
    }
    let mut received: HashMap<Pair, usize> = HashMap::new();
    let mut causes = HashMap::new();
    for &place in steps {
        let event = &events[place];
        let cause = match event.action {
            Action::Receive => {
                let pair = (event.peer, event.rank, event.key, event.value);
                let number = received.entry(pair).or_default();
                *number += 1;
                sends.get(&pair).and_then(|sends| sends.get(*number - 1)).copied()
            }
            Action::Await => posts
                .get(&(event.peer, event.key))
                .and_then(|posts| posts.iter().find(|&&post| events[post].value >= event.value))
                .copied(),
            _ => None,
        };
        causes.extend(cause.map(|cause| (place, cause)));
    }
    causes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::borrow::Cow;
    use tutti_base::trace::Level;

    /// Events as `rank action peer start end`, in the order of their starts; the places on the path.
    fn check(text: &str, expected: &[usize]) {
        let event = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let number = |place: usize| words[place].parse::<u64>().unwrap();
            Event {
                rank: number(0) as u32,
                action: Action::parse(words[1]).unwrap(),
                level: Level::Node,
                peer: number(2) as u32,
                bytes: 0,
                key: 7,
                value: 0,
                start_ns: number(3),
                end_ns: number(4),
                name: Cow::Borrowed(""),
            }
        };
        let events: Vec<Event> = text.split(", ").map(event).collect();
        assert_eq!(critical(&events), expected, "{text}");
    }

    #[test]
    fn the_later_reason_counts() {
        check("0 copy 0 0 5", &[0]);
        // Rank 1 waits for the message.
        check(
            "0 copy 0 0 50, 1 copy 1 0 5, 0 send 1 50 60, 1 receive 0 60 70, 1 copy 1 70 80",
            &[0, 2, 3, 4],
        );
        // The message waits for rank 1.
        check("0 send 1 0 10, 1 copy 1 0 90, 1 receive 0 90 95", &[1, 2]);
        // A flag.
        check("0 copy 0 0 30, 1 await 0 1 41, 0 post 0 30 31, 1 copy 1 41 50", &[1, 3]);
        // The second message to the second receive.
        check("0 send 1 0 5, 1 receive 0 6 8, 0 send 1 20 25, 1 receive 0 26 28", &[0, 2, 3]);
        check("0 call 0 0 9, 0 send 1 1 2", &[1]);
    }
}
