//! Prefix reductions of few bytes on several hosts, each of which holds consecutive ranks. Within a host they
//! use banks; between hosts, one message for each pair in each of log2 rounds.
//!
//! The leader of a host, its first rank, combines the operands of the host, and learns the sum of all hosts
//! before it in rounds. After round k it knows the sum of the 2^k hosts that end with its own, and that sum
//! without its own host. The other ranks of the host combine the operands of the ranks before them meanwhile,
//! and add the leader's sum.

use crate::algorithms::banks::{READY, RESULT, offer};
use crate::algorithms::hosts::Hosts;
use crate::algorithms::own;
use crate::build::{self, Builder};
use crate::generator::need::LEVELS_ORDERED;
use crate::generator::parameters::FIXED_NEAR;
use crate::generator::{Generator, entry};
use crate::hierarchy::Ignored;
use crate::ir::{BufferId, Index, Span};
use crate::shape::Collective as C;
use crate::shape::{Collective, Params, Shape};
use crate::work;

/// Algorithms of this module, for the registry.
#[rustfmt::skip]
pub const GENERATORS: &[Generator] = &[
    entry(C::Scan, "levels_bank", LEVELS_ORDERED, FIXED_NEAR, scan, work::messages::scan_doubling),
    entry(C::Exscan, "levels_bank", LEVELS_ORDERED, FIXED_NEAR, scan, work::messages::scan_doubling),
];

/// Computes inclusive or exclusive prefixes. Ranks must be in their own order host by host.
pub fn scan(shape: &Shape, _: &Params, b: &mut Builder) {
    b.in_program_order();
    let (mine, result) = (whole(shape, own(shape)), whole(shape, BufferId::RECV));
    let exclusive = shape.collective == Collective::Exscan;
    if shape.count == 0 {
        return;
    }
    if shape.ranks == 1 {
        if !exclusive && mine != result {
            b.copy(mine, result, &[]);
        }
        return;
    }
    let hosts = Hosts::new(&b.hierarchy(shape.ranks, Ignored::WITHIN_NODE), shape.rank);
    let place = Place { shape, exclusive, mine, result, hosts };
    b.bank(2 * shape.count);
    if place.hosts.leads() { place.lead(b) } else { place.follow(b) }
}

fn whole(shape: &Shape, buffer: BufferId) -> Span {
    build::range(buffer, 0, shape.count)
}

struct Place<'a> {
    shape: &'a Shape,
    exclusive: bool,
    mine: Span,
    result: Span,
    hosts: Hosts,
}

impl Place<'_> {
    /// Returns the operand of a member, in its bank.
    fn operand(&self) -> Span {
        whole(self.shape, BufferId::BANK)
    }

    /// Returns the sum of all hosts before, which is in the bank of a leader behind its operand.
    fn before(&self) -> Span {
        build::range(BufferId::BANK, self.shape.count, self.shape.count)
    }

    /// Combines into `sum` the operands of the `count` members that end before rank `end`, and then `from`.
    fn fold(&self, end: u32, count: u32, sum: Span, from: Option<Span>, b: &mut Builder) {
        let mut left = count;
        if from.is_none() && count > 0 {
            b.wait(end - 1, READY, 1);
            b.pull(end - 1, self.operand(), sum);
            left -= 1;
        } else if let Some(from) = from.filter(|from| *from != sum) {
            // The first operand is combined directly from `from`.
            if count == 0 {
                b.copy(from, sum, &[]);
            } else {
                b.wait(end - 1, READY, 1);
                b.combine(end - 1, self.operand(), from, sum);
                left -= 1;
            }
        }
        let next = i64::from(end) - 1 - i64::from(count - left);
        b.each(Index::linear(next, -1), left, |member, b| {
            b.wait(member, READY, 1);
            b.combine(member, self.operand(), sum, sum);
        });
    }

    /// Writes the part of a member of a host that is not its leader.
    fn follow(&self, b: &mut Builder) {
        // The last rank has no successor that reads its operand.
        if self.shape.rank + 1 < self.shape.ranks {
            offer(self.mine, self.operand(), b);
        }
        let from = (!self.exclusive).then_some(self.mine);
        self.fold(self.shape.rank, self.hosts.number, self.result, from, b);
        if self.hosts.mine > 0 {
            let leader = self.hosts.leader(self.hosts.mine);
            b.wait(leader, RESULT, 1);
            b.combine(leader, self.before(), self.result, self.result);
        }
    }

    /// Writes the part of the first member of a host, its leader.
    fn lead(&self, b: &mut Builder) {
        let (host, count) = (self.hosts.mine, self.hosts.count());
        let size = self.hosts.size(host);
        if size > 1 {
            offer(self.mine, self.operand(), b);
        }
        // The last host has no successor that needs its sum.
        let sum = (host + 1 < count).then(|| {
            let sum = whole(self.shape, b.temporary(self.shape.count));
            self.fold(self.shape.rank + size, size - 1, sum, None, b);
            if size > 1 {
                b.reduce(self.mine, sum, &[]);
            } else {
                b.copy(self.mine, sum, &[]);
            }
            sum
        });
        self.exchange(sum, b);
        if host > 0 && size > 1 {
            b.post(RESULT, 1);
        }
        match (self.exclusive, host > 0) {
            (true, true) => {
                b.copy(self.before(), self.result, &[]);
            }
            (true, false) => {}
            (false, _) => {
                if self.mine != self.result {
                    b.copy(self.mine, self.result, &[]);
                }
                if host > 0 {
                    b.reduce(self.before(), self.result, &[]);
                }
            }
        }
    }

    /// Writes the rounds between leaders. `sum` begins as that of the own host.
    fn exchange(&self, sum: Option<Span>, b: &mut Builder) {
        let (host, count) = (self.hosts.mine, self.hosts.count());
        let mut room = None;
        let mut distance = 1;
        while distance < count {
            if let Some(sum) = sum.filter(|_| host + distance < count) {
                b.send(self.hosts.leader(host + distance), 0, sum, &[]);
            }
            if host >= distance {
                let from = self.hosts.leader(host - distance);
                let arrived = if distance == 1 {
                    self.before()
                } else {
                    *room.get_or_insert_with(|| whole(self.shape, b.temporary(self.shape.count)))
                };
                b.recv(from, 0, arrived, &[]);
                if let Some(sum) = sum.filter(|_| host + 2 * distance < count) {
                    b.reduce(arrived, sum, &[]);
                }
                if distance > 1 {
                    b.reduce(arrived, self.before(), &[]);
                }
            }
            distance *= 2;
        }
    }
}
