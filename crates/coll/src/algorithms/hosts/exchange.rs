//! Alltoall of long blocks on several hosts, in which each host sends to one host at a time and receives from
//! one. No two hosts compete for a link, wherever the ranks are placed.
//!
//! In turn t the ranks of a host send to those of the host t places after it. A turn has as many steps as the
//! largest host has ranks. In each step every rank has at most one partner to send to and one to receive
//! from, and both sides count alike. So steps can run in their order with messages that need no buffering.
//! Two are under way at a time, and beside them the ranks of a host exchange the blocks within it.

use crate::algorithms::hosts::{Hosts, each_rank};
use crate::algorithms::own;
use crate::build::{self, Builder};
use crate::generator::need::LEVELS_SHARED;
use crate::generator::parameters::ASKS;
use crate::generator::{Generator, entry};
use crate::hierarchy::Ignored;
use crate::ir::{BufferId, Division, Kind};
use crate::shape::Collective as C;
use crate::shape::{Params, Shape};
use crate::work;

/// Algorithms of this module, for the registry.
#[rustfmt::skip]
pub const GENERATORS: &[Generator] = &[
    entry(C::Alltoall, "levels", LEVELS_SHARED, ASKS, alltoall, work::messages::spread),
];

/// Number of messages to other hosts under way, for each rank and direction.
const STREAMS: u32 = 2;
/// Private flag: the data to send are saved, so received data may be written.
const READY: u16 = Kind::FLAGS;

/// Exchanges blocks host by host; see the module's documentation.
pub fn alltoall(shape: &Shape, _: &Params, b: &mut Builder) {
    b.in_program_order();
    if shape.count == 0 {
        return;
    }
    let total = shape.count * u64::from(shape.ranks);
    let blocks = Division::Regular { size: shape.count, total };
    let mut from = own(shape);
    if shape.in_place {
        let copy = b.temporary(total);
        b.copy(build::range(from, 0, total), build::range(copy, 0, total), &[]);
        b.post(READY, 1);
        from = copy;
    } else {
        let mine = |buffer| build::block(buffer, blocks, shape.rank);
        b.copy(mine(from), mine(BufferId::RECV), &[]);
    }
    let hosts = Hosts::new(&b.hierarchy(shape.ranks, Ignored::NONE), shape.rank);
    let exchange = Exchange { shape, hosts: &hosts, from, blocks };
    for sends in [true, false] {
        exchange.strand(&exchange.local(sends), sends, b);
        for stream in 0..STREAMS {
            exchange.strand(&exchange.across(stream, sends), sends, b);
        }
    }
}

struct Exchange<'a> {
    shape: &'a Shape,
    hosts: &'a Hosts,
    from: BufferId,
    blocks: Division,
}

impl Exchange<'_> {
    /// Returns the partner in step `step` of the turn of `host`, if there is one.
    fn partner(&self, host: u32, step: u32, sends: bool) -> Option<u32> {
        let steps = self.hosts.largest();
        let number = self.hosts.number + if sends { step } else { steps - step };
        self.hosts.members(host).get((number % steps) as usize).copied()
    }

    /// Returns the partners on the own host.
    fn local(&self, sends: bool) -> Vec<u32> {
        (1..self.hosts.largest()).filter_map(|step| self.partner(self.hosts.mine, step, sends)).collect()
    }

    /// Returns the partners on other hosts of one stream.
    fn across(&self, stream: u32, sends: bool) -> Vec<u32> {
        let steps = self.hosts.largest();
        let all = (stream..(self.hosts.count() - 1) * steps).step_by(STREAMS as usize);
        let host = |turn: i64| self.hosts.neighbour(if sends { turn } else { -turn });
        all.filter_map(|step| self.partner(host(i64::from(step / steps) + 1), step % steps, sends)).collect()
    }

    /// Writes a strand of messages, with a loop for each run of partners at equal distances.
    fn strand(&self, partners: &[u32], sends: bool, b: &mut Builder) {
        if partners.is_empty() {
            return;
        }
        b.strand();
        if self.shape.in_place {
            b.wait(self.shape.rank, READY, 1);
        }
        let steps: Vec<(u32, u32)> = partners.iter().copied().zip(0..).collect();
        each_rank(&steps, b, |peer, _, b| {
            if sends {
                b.send(peer, 0, build::block(self.from, self.blocks, peer), &[]);
            } else {
                b.recv(peer, 0, build::block(BufferId::RECV, self.blocks, peer), &[]);
            }
        });
    }
}
