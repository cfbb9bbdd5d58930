//! Requests that wait for peers, and inquiries whether these have left MPI: see [`super::departures`].

use std::collections::BTreeSet;

use tutti_base::Error;
use tutti_transport::Peer;

use super::State;
use crate::matching::Pattern;
use crate::request::{RequestId, Work};
use crate::wire::Packet;

/// Maximum number of peers on other hosts to which one wait sends inquiries.
pub const MOST_ASKED: usize = 16;

/// Rank whose action completes a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AwaitedSide {
    /// Sender of a message with this pattern.
    Sender(Pattern),
    /// Receiver of a message.
    Receiver(Peer),
}

impl State {
    /// Handles the inquiry of a peer that waits for this process.
    #[cold]
    pub(super) fn asked_for_presence(&mut self, from: Peer) {
        if self.departures.is_leaving {
            self.answer(from, Packet::Absent);
        }
    }

    /// Notes that a peer has left.
    #[cold]
    pub(super) fn is_told_absent(&mut self, from: Peer) {
        self.departures.absent.insert(from);
        // Threads that wait for it check again.
        self.requests.news = true;
    }

    /// Sends inquiries to peers of other hosts, whether they have left.
    #[cold]
    pub fn ask_for_presence(&mut self, peers: impl Iterator<Item = Peer>) {
        let asked: BTreeSet<Peer> = peers.take(MOST_ASKED).collect();
        asked.into_iter().for_each(|peer| self.answer(peer, Packet::Presence));
    }

    /// Returns the requests that wait for another rank, with that rank's side. Receives that have matched a
    /// message are not included.
    #[cold]
    pub fn waiting_requests(&self) -> Vec<(RequestId, AwaitedSide)> {
        let incomplete = self.requests.incomplete();
        let partners = incomplete.filter_map(|(id, request)| {
            let partner = match &request.work {
                Work::Receive { pattern, .. } if self.matcher.is_posted(*pattern, &id) => {
                    AwaitedSide::Sender(*pattern)
                }
                Work::Send { peer, .. } => AwaitedSide::Receiver(Peer(*peer)),
                _ => return None,
            };
            Some((id, partner))
        });
        partners.collect()
    }

    /// Returns true if a receive has matched a message whose data are under way.
    #[cold]
    pub fn is_receiving(&self) -> bool {
        self.requests.incomplete().any(|(id, request)| match &request.work {
            Work::Receive { pattern, .. } => !self.matcher.is_posted(*pattern, &id),
            _ => false,
        })
    }

    /// Ends a request of [`State::waiting_requests`] with an error because the other rank has left.
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
