//! Allreduce of few bytes and barrier on several hosts in the least number of rounds between hosts. Within a
//! host, data go up to a leader and down again, as in [`crate::algorithms::hosts::banks`]. Between leaders,
//! all exchange at the same time what a tree would send on its way up and again on its way down.
//!
//! Data that a leader sends remain unchanged until the operation is over: each round has its own memory for
//! its result.

use crate::algorithms::banks::{READY, RESULT};
use crate::algorithms::hosts::banks::{self, all, alone, down, up};
use crate::algorithms::hosts::levels::Edges;
use crate::algorithms::hosts::{Hosts, Sending};
use crate::algorithms::messages::exchange::Fold;
use crate::build::Builder;
use crate::generator::need::{LEVELS_ORDERED, LEVELS_SHARED};
use crate::generator::parameters::FIXED_NEAR;
use crate::generator::{Generator, entry};
use crate::hierarchy::Ignored;
use crate::ir::{BufferId, Span};
use crate::shape::Collective as C;
use crate::shape::{Params, Shape};
use crate::work;

/// Algorithms of this module, for the registry.
#[rustfmt::skip]
pub const GENERATORS: &[Generator] = &[
    entry(C::Barrier, "levels_doubling", LEVELS_SHARED, FIXED_NEAR, barrier, work::messages::barrier_dissemination),
    entry(C::Allreduce, "levels_doubling", LEVELS_ORDERED, FIXED_NEAR, allreduce, work::messages::allreduce_doubling),
];

/// Number of hosts up to which one host that all others send to takes two rounds as well, and fewer messages.
const FEW: u32 = 4;

/// Reduces: leaders exchange partial results with those at distance 1, 2, 4... If the number of hosts is no
/// power of two, some work for two.
pub fn allreduce(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    if shape.count == 0 || alone(shape, b) {
        return;
    }
    let hosts = Hosts::new(&b.hierarchy(shape.ranks, Ignored::NONE), shape.rank);
    if hosts.count() <= FEW {
        return banks::allreduce(shape, &Params { radix: Params::FLAT, ..*params }, b);
    }
    b.bank(shape.count);
    let edges = Edges::for_few(shape, params, b).within_host();
    if edges.parent.is_some() {
        let sum = up(shape, &edges, BufferId::BANK, b);
        return down(shape, &edges, RESULT, Some(sum), b);
    }
    let mut rounds = Rounds { shape, hosts: &hosts, sending: Sending::new(shape.rank) };
    let sum = rounds.place(b);
    let mut have = up(shape, &edges, sum.buffer, b);
    // The user's operand may be in the place of the result.
    if have.buffer == BufferId::RECV {
        b.copy(have, sum, &[]);
        have = sum;
    }
    let result = rounds.exchange(have, b);
    down(shape, &edges, RESULT, Some(result), b);
    rounds.sending.finish(b);
}

/// Synchronises: leaders send signals to those at distance 1, 2, 4.. after them.
pub fn barrier(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    if shape.ranks == 1 {
        return;
    }
    let hosts = Hosts::new(&b.hierarchy(shape.ranks, Ignored::NONE), shape.rank);
    if hosts.count() <= FEW {
        return banks::barrier(shape, &Params { radix: Params::FLAT, ..*params }, b);
    }
    let edges = Edges::for_few(shape, params, b).within_host();
    for child in &edges.near {
        b.wait(*child, READY, 1);
    }
    let mut sending = Sending::new(shape.rank);
    if let Some(parent) = edges.parent {
        b.post(READY, 1);
        b.wait(parent, RESULT, 1);
    } else {
        let leader = |distance| hosts.leader(hosts.neighbour(distance));
        let mut distance = 1;
        while distance < i64::from(hosts.count()) {
            sending.report(b);
            sending.send(leader(distance), 0, Span::SIGNAL);
            b.recv(leader(-distance), 0, Span::SIGNAL, &[]);
            distance *= 2;
        }
    }
    if !edges.near.is_empty() {
        b.post(RESULT, 1);
    }
    sending.finish(b);
}

/// Exchange in rounds between the leaders.
struct Rounds<'a> {
    shape: &'a Shape,
    hosts: &'a Hosts,
    sending: Sending,
}

impl Rounds<'_> {
    /// Returns a new temporary for a partial result.
    fn place(&self, b: &mut Builder) -> Span {
        all(self.shape, b.temporary(self.shape.count))
    }

    /// Combines the data of all hosts; `have` is that of this host. Returns the span of the result.
    fn exchange(&mut self, mut have: Span, b: &mut Builder) -> Span {
        let fold =
            Fold::new(&Shape { ranks: self.hosts.count(), rank: self.hosts.mine, root: 0, ..*self.shape });
        let leader = |host: u32| self.hosts.leader(host);
        let partner = fold.partner().map(leader);
        let Some(me) = fold.me() else {
            let partner = partner.expect("who does not work has somebody who does");
            let result = self.place(b);
            b.send(partner, 0, have, &[]);
            b.recv(partner, 0, result, &[]);
            return result;
        };
        if let Some(partner) = partner {
            have = self.take(partner, have, true, b);
        }
        let mut distance = 1;
        while distance < fold.size {
            let peer = leader(fold.rank(me ^ distance));
            self.sending.report(b);
            self.sending.send(peer, 0, have);
            have = self.take(peer, have, me & distance == 0, b);
            distance *= 2;
        }
        if let Some(partner) = partner {
            self.sending.report(b);
            self.sending.send(partner, 0, have);
        }
        have
    }

    /// Combines `have` with the data from `peer`. If `left` is true, `have` is the left operand.
    fn take(&self, peer: u32, have: Span, left: bool, b: &mut Builder) -> Span {
        let arrived = self.place(b);
        b.recv(peer, 0, arrived, &[]);
        if left || self.shape.commutative {
            b.reduce(have, arrived, &[]);
            return arrived;
        }
        let sum = self.place(b);
        b.copy(have, sum, &[]);
        b.reduce(arrived, sum, &[]);
        sum
    }
}
