//! Peers that have left MPI while this process waits for them.
//!
//! The job object shows the departure of a peer on this host. For a peer on another host, this process sends
//! a Presence packet. The peer replies with Absent only if it has left. The reply follows all its messages,
//! so a receive without a message by then will never get one.

use std::collections::BTreeSet;

use tutti_base::{Error, Result};
use tutti_transport::Peer;

use crate::matching::Pattern;

/// Time between two checks for peers that have left, in nanoseconds.
const STEP_NS: u64 = 500_000_000;

/// Number of checks after which a program counts as waiting if it calls MPI_Iprobe with one pattern only: 10
/// s.
const POLLED_LOOKS: u32 = 20;

/// Shortest and longest time between two inquiries to peers of other hosts, in nanoseconds.
const ASK_NS: std::ops::RangeInclusive<u64> = 500_000_000..=8_000_000_000;

/// Peers that are known to have left, and whether this process has.
#[derive(Debug, Default)]
pub struct Departures {
    /// Peers of other hosts that have left.
    pub(super) absent: BTreeSet<Peer>,
    /// True if this process has left MPI, so that it replies to inquiries of its peers.
    pub is_leaving: bool,
    /// Time of the next check, in nanoseconds.
    next_ns: u64,
    /// Time of the next inquiry, and the interval to the one after it.
    next_ask_ns: u64,
    ask_step_ns: u64,
    /// Patterns of the active blocking probes.
    probes: Vec<Pattern>,
    /// Probes that were abandoned, with the reasons.
    vain_probes: Vec<(Pattern, Error)>,
    /// Pattern of the last MPI_Iprobe if it has found nothing, and the number of such calls.
    polled: Option<Pattern>,
    polls: u32,
    /// The same values at the last check, and the number of checks since which only that pattern was used.
    seen: (Option<Pattern>, u32),
    looks: u32,
    /// Time of the next check by a test that finds nothing.
    next_test_ns: u64,
}

impl Departures {
    /// Returns true if a check is due.
    pub fn is_due(&mut self, now_ns: u64) -> bool {
        let is_due = now_ns >= self.next_ns;
        if is_due {
            self.next_ns = now_ns + STEP_NS;
        }
        is_due
    }

    /// Returns true if an inquiry to peers of other hosts is due. Inquiries become rarer.
    pub fn may_ask(&mut self, now_ns: u64) -> bool {
        let is_due = now_ns >= self.next_ask_ns;
        if is_due {
            self.ask_step_ns = (2 * self.ask_step_ns).clamp(*ASK_NS.start(), *ASK_NS.end());
            self.next_ask_ns = now_ns + self.ask_step_ns;
        }
        is_due
    }

    /// Returns true if a test that finds nothing must check.
    pub fn is_test_due(&mut self, now_ns: u64) -> bool {
        let is_due = now_ns >= self.next_test_ns;
        if is_due {
            self.next_test_ns = now_ns + STEP_NS;
        }
        is_due
    }

    /// Notes a probe that does not wait.
    ///
    /// # Errors
    /// The reason for which it will never find a message.
    #[inline]
    pub fn polled(&mut self, pattern: Pattern, is_found: bool) -> Result<()> {
        if is_found {
            self.polled = None;
            return Ok(());
        }
        self.polled = Some(pattern);
        self.polls = self.polls.wrapping_add(1);
        if self.vain_probes.is_empty() { Ok(()) } else { self.take_vain_probe(pattern).map_or(Ok(()), Err) }
    }

    /// Returns the pattern with which the program has called MPI_Iprobe in vain for long, without any other
    /// pattern. It is called at each check.
    pub fn polled_for_long(&mut self) -> Option<Pattern> {
        let is_same = self.polled.is_some() && self.polled == self.seen.0 && self.polls != self.seen.1;
        self.looks = if is_same { self.looks + 1 } else { 0 };
        self.seen = (self.polled, self.polls);
        self.polled.filter(|_| self.looks >= POLLED_LOOKS)
    }

    /// Begins a blocking probe.
    pub fn begin_probe(&mut self, pattern: Pattern) {
        self.probes.push(pattern);
    }

    /// Ends a blocking probe.
    pub fn end_probe(&mut self, pattern: Pattern) {
        if let Some(place) = self.probes.iter().position(|probe| *probe == pattern) {
            self.probes.swap_remove(place);
        }
    }

    /// Returns the patterns of the active blocking probes.
    pub fn probes(&self) -> &[Pattern] {
        &self.probes
    }

    /// Abandons a blocking probe.
    pub fn give_up_probe(&mut self, pattern: Pattern, error: Error) {
        self.vain_probes.push((pattern, error));
    }

    /// Removes and returns the reason for which the probe with this pattern was abandoned, if it was.
    pub fn take_vain_probe(&mut self, pattern: Pattern) -> Option<Error> {
        let place = self.vain_probes.iter().position(|(probe, _)| *probe == pattern)?;
        Some(self.vain_probes.swap_remove(place).1)
    }

    /// Returns true if a peer of another host has reported that it has left.
    pub fn has(&self, peer: Peer) -> bool {
        self.absent.contains(&peer)
    }
}

#[cfg(test)]
mod tests {
    use tutti_base::ErrorClass;

    use super::*;

    #[test]
    fn a_pattern_that_is_polled_alone_for_long_is_a_wait() {
        let pattern = |tag| Pattern { context: 8, source: Some(1), tag: Some(tag) };
        let mut departures = Departures::default();
        let mut look = |patterns: &[i32]| {
            patterns.iter().for_each(|tag| departures.polled(pattern(*tag), false).expect("not given up"));
            departures.polled_for_long()
        };
        let first = (0..100).find(|_| look(&[1, 1]).is_some());
        assert_eq!(first, Some(POLLED_LOOKS));
        assert_eq!(look(&[1]), Some(pattern(1)));
        assert_eq!((look(&[]), look(&[1])), (None, None), "it has done something else");
        assert!((0..100).all(|step| look(&[1, step % 2]).is_none()));
    }

    #[test]
    fn looks_are_seldom() {
        let mut departures = Departures::default();
        let looks = (0..100).filter(|tenth| departures.is_due(1 + tenth * STEP_NS / 10)).count();
        assert_eq!(looks, 10);
        let asks: Vec<u64> = (1..80).filter(|half| departures.may_ask(half * STEP_NS)).collect();
        assert_eq!(asks, [1, 2, 4, 8, 16, 32, 48, 64]);
    }

    #[test]
    fn a_probe_that_was_given_up_is_told_once() {
        let mut departures = Departures::default();
        let pattern = |source| Pattern { context: 8, source: Some(source), tag: None };
        departures.begin_probe(pattern(1));
        departures.begin_probe(pattern(2));
        departures.give_up_probe(pattern(2), Error::new(ErrorClass::Other, "gone"));
        assert!(departures.take_vain_probe(pattern(1)).is_none());
        assert!(departures.take_vain_probe(pattern(2)).is_some());
        assert!(departures.take_vain_probe(pattern(2)).is_none());
        departures.end_probe(pattern(1));
        assert_eq!(departures.probes(), [pattern(2)]);
    }
}
