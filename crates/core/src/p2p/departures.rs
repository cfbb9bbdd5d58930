//! Peers that have left MPI while this process waits for them.
//!
//! A peer of this host shows in the job object that it has left. A peer of another host is asked
//! ([`Packet::Presence`]); it answers only when it has left ([`Packet::Absent`]). The answer follows all of
//! its messages, so that a receive which has not got its message by then never will.

use std::collections::BTreeSet;

use tutti_base::Error;
use tutti_transport::Peer;

use super::State;
use crate::matching::Pattern;
use crate::request::{RequestId, Work};
use crate::wire::Packet;

/// Time between two looks for peers that have left, in nanoseconds.
const STEP_NS: u64 = 500_000_000;

/// Most peers of other hosts that are asked at a time.
const ASKED: usize = 16;

/// Peers that are known to have left, and whether this process has.
#[derive(Debug, Default)]
pub struct Departures {
    /// Peers of other hosts that have said so.
    absent: BTreeSet<Peer>,
    /// This process has left MPI, and says so if it is asked.
    pub is_leaving: bool,
    /// When to look again.
    next_ns: u64,
    /// Patterns of the blocking probes that are under way.
    probes: Vec<Pattern>,
    /// Blocking probes that were given up, and why.
    vain_probes: Vec<(Pattern, Error)>,
}

/// The partner that an incomplete request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partner {
    /// The sender of a message.
    Sender(Pattern),
    /// The receiver of a message.
    Receiver(Peer),
}

impl Departures {
    /// Returns true if it is time to look.
    pub fn is_due(&mut self, now_ns: u64) -> bool {
        let is_due = now_ns >= self.next_ns;
        if is_due {
            self.next_ns = now_ns + STEP_NS;
        }
        is_due
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

    /// Patterns of the blocking probes that are under way.
    pub fn probes(&self) -> &[Pattern] {
        &self.probes
    }

    /// Gives a blocking probe up.
    pub fn give_up_probe(&mut self, pattern: Pattern, error: Error) {
        self.vain_probes.push((pattern, error));
    }

    /// Why the blocking probe with this pattern was given up, if it was.
    pub fn take_vain_probe(&mut self, pattern: Pattern) -> Option<Error> {
        let place = self.vain_probes.iter().position(|(probe, _)| *probe == pattern)?;
        Some(self.vain_probes.swap_remove(place).1)
    }

    /// Returns true if a peer of another host has said that it has left.
    pub fn has(&self, peer: Peer) -> bool {
        self.absent.contains(&peer)
    }
}

impl State {
    /// A peer waits for this process.
    #[cold]
    pub(super) fn asked_for_presence(&mut self, from: Peer) {
        if self.departures.is_leaving {
            self.answer(from, Packet::Absent);
        }
    }

    /// A peer has left.
    #[cold]
    pub(super) fn is_told_absent(&mut self, from: Peer) {
        self.departures.absent.insert(from);
        // Threads that wait for it look again.
        self.requests.news = true;
    }

    /// Asks peers of other hosts whether they have left.
    #[cold]
    pub fn ask_for_presence(&mut self, peers: impl Iterator<Item = Peer>) {
        let asked: BTreeSet<Peer> = peers.take(ASKED).collect();
        asked.into_iter().for_each(|peer| self.answer(peer, Packet::Presence));
    }

    /// Requests that wait for somebody, with their partners. Receives that have got their message are left
    /// out.
    #[cold]
    pub fn waiting_requests(&self) -> Vec<(RequestId, Partner)> {
        let incomplete = self.requests.incomplete();
        let partners = incomplete.filter_map(|(id, request)| {
            let partner = match &request.work {
                Work::Receive { pattern, .. } if self.matcher.is_posted(*pattern, &id) => {
                    Partner::Sender(*pattern)
                }
                Work::Send { peer, .. } => Partner::Receiver(Peer(*peer)),
                _ => return None,
            };
            Some((id, partner))
        });
        partners.collect()
    }

    /// Ends a request of [`State::waiting_requests`] with an error, as its partner has left.
    #[cold]
    pub fn give_up(&mut self, id: RequestId, error: Error) {
        let Some(request) = self.requests.get(id) else { return };
        match &request.work {
            Work::Receive { pattern, .. } => {
                let pattern = *pattern;
                if !self.matcher.cancel(pattern, &id) {
                    return;
                }
            }
            Work::Send { .. } => self.remote.give_back(id),
            _ => return,
        }
        self.requests.complete(id, Some(error));
    }
}
