//! Broadcast and reduction on several hosts by several leaders of each ([`Params::radix`]), for networks, or
//! ranks of a host together, that are faster than one processor. A leader is responsible for a part of the
//! data, and forms a tree of hosts ([`Params::fan_out`]) with the leaders of the same number. Within its host
//! it does for its part what the single leader of [`crate::algorithms::hosts::levels`] does for all data.
//!
//! In a reduction, leaders combine the operands of the ranks of the host, each its part, side by side. The
//! root takes the parts from the leaders of its host. In a broadcast, the leaders of the root's host take
//! their parts from the root.

use crate::algorithms::hosts::Hosts;
use crate::algorithms::hosts::levels::{
    self, COMBINED, DONE, DOWN, Edges, HERE, MOST_FAR, PARTIAL, READY, Segments, Source, UP,
};
use crate::algorithms::hosts::reduce::{Up, is_alone};
use crate::algorithms::hosts::slices::SlicePlace;
use crate::algorithms::own;
use crate::build::{self, Builder};
use crate::generator::need::{LEVELS, LEVELS_COMMUTES};
use crate::generator::parameters::LEADERS_TREE;
use crate::generator::{Generator, entry, sliced};
use crate::hierarchy::Ignored;
use crate::ir::{Access, BufferId};
use crate::shape::Collective as C;
use crate::shape::{Params, Shape};
use crate::tree::{Form, TreeNode};
use crate::work;

/// Algorithms of this module, for the registry.
#[rustfmt::skip]
pub const GENERATORS: &[Generator] = &[
    entry(C::Bcast, "levels_leaders", LEVELS, LEADERS_TREE, bcast, work::messages::bcast_leaders),
    sliced(entry(C::Reduce, "levels_leaders", LEVELS_COMMUTES, LEADERS_TREE, reduce, work::messages::reduce_leaders)),
];

/// Reduces to the root, each leader its part.
pub fn reduce(shape: &Shape, params: &Params, b: &mut Builder) {
    if is_alone(shape, b) {
        return;
    }
    let team = Team::new(shape, params, b);
    let collects = team.place.host == team.root_host;
    let edges = team.edges(true);
    let segments = team.part(team.place.number);
    let up = team.leads().then(|| Up::of_segments(segments, shape, &edges, shape.is_root(), b));
    if !edges.near.is_empty() {
        let own = own(shape);
        let access = if own == BufferId::SEND { Access::Read } else { Access::ReadWrite };
        b.expose(UP, build::range(own, 0, shape.count), access);
        let gives = up.as_ref().filter(|_| collects && !shape.is_root());
        if let Some(up) = gives {
            b.expose(DOWN, build::range(up.sum(), 0, shape.count), Access::ReadWrite);
        }
        b.post(READY, 1);
        // The root waits for the leaders anyway when it fetches their parts.
        for (_, leader) in team.other_leaders().filter(|_| !shape.is_root()) {
            b.wait(leader, COMBINED, 1);
        }
        if gives.is_some() {
            b.wait(shape.root, DONE, 1);
        }
    }
    if let Some(up) = up {
        up.write(true, b);
    }
    if shape.is_root() && team.other_leaders().next().is_some() {
        b.strand();
        team.fetch(PARTIAL, b);
        b.post(DONE, 1);
    }
}

/// Broadcasts from the root, each leader its part.
pub fn bcast(shape: &Shape, params: &Params, b: &mut Builder) {
    b.in_program_order();
    if shape.count == 0 || shape.ranks == 1 {
        return;
    }
    let team = Team::new(shape, params, b);
    let from_root = team.place.host == team.root_host;
    let others = team.place.members.len() > 1;
    if others && (shape.is_root() || team.leads() && !from_root) {
        let access = if shape.is_root() { Access::Read } else { Access::ReadWrite };
        b.expose(DOWN, build::range(BufferId::RECV, 0, shape.count), access);
        b.post(READY, 1);
        team.place.each_other(b, |member, b| b.wait(member, DONE, 1));
    }
    if team.leads() {
        levels::down(team.part(team.place.number), &team.edges(false), Source::Given, b);
    }
    if !others || shape.is_root() {
        return;
    }
    b.strand();
    if from_root {
        team.take_from_root(b);
    } else {
        team.fetch(HERE, b);
    }
    b.post(DONE, 1);
}

/// A rank among the leaders.
struct Team<'a> {
    shape: &'a Shape,
    params: &'a Params,
    place: SlicePlace,
    hosts: Hosts,
    root_host: u32,
}

impl Team<'_> {
    fn new<'a>(shape: &'a Shape, params: &'a Params, b: &Builder) -> Team<'a> {
        let hierarchy = b.hierarchy(shape.ranks, Ignored::NONE);
        let hosts = Hosts::new(&hierarchy, shape.rank);
        let place = SlicePlace::new(&hierarchy, shape.rank, params.radix);
        let root_host = hosts.host_of(shape.root);
        Team { shape, params, place, hosts, root_host }
    }

    fn leads(&self) -> bool {
        self.place.number < self.place.leaders
    }

    fn other_leaders(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.place.others().filter(|(number, _)| *number < self.place.leaders)
    }

    /// Returns the segments of the part of a leader.
    fn part(&self, leader: u32) -> Segments {
        Segments::of_part(self.shape.count, self.params, (leader, self.place.leaders))
    }

    /// Returns the neighbours of a leader: those of its number on other hosts, and with `whole` all other
    /// ranks of its host.
    fn edges(&self, whole: bool) -> Edges {
        let number = self.place.number;
        let leader = |host: u32| self.hosts.members(host).get(number as usize).copied();
        let form = Form::Kary(self.params.downwards().radix.min(MOST_FAR));
        let node = TreeNode::new(form, self.place.hosts, self.root_host, true, self.place.host);
        let groups = node.left.iter().chain(&node.right);
        let children = groups
            .flat_map(|group| (0..group.count).map(|child| node.heads(*group).in_iteration(child) as u32));
        let near: Vec<u32> = self.place.others().filter(|_| whole).map(|(_, member)| member).collect();
        Edges {
            me: self.shape.rank,
            root: self.shape.root,
            parent: node.parent.and_then(leader),
            parent_is_near: false,
            near_leaves: vec![true; near.len()],
            near,
            far: children.filter_map(leader).collect(),
            children: Vec::new(),
            position: 0,
        }
    }

    /// Fetches the parts of the other leaders of the host, as flags from `flags` on count their segments.
    fn fetch(&self, flags: u16, b: &mut Builder) {
        for (_, leader) in self.other_leaders() {
            b.wait(leader, READY, 1);
        }
        let Segments { turns, streams, .. } = self.part(0);
        b.repeat(turns, 1, |b| {
            for (number, leader) in self.other_leaders() {
                for stream in 0..streams {
                    b.wait(leader, flags + stream as u16, Segments::count());
                    let into = self.part(number).segment(stream, BufferId::RECV);
                    b.pull(leader, build::same(BufferId::exposed(DOWN), into), into);
                }
            }
        });
    }

    /// Takes all parts from the root, the own one first, as others wait for it.
    fn take_from_root(&self, b: &mut Builder) {
        let root = self.shape.root;
        b.wait(root, READY, 1);
        let own = self.place.number;
        let parts = (0..self.place.leaders).filter(|part| *part != own);
        for part in self.leads().then_some(own).into_iter().chain(parts) {
            let segments = self.part(part);
            b.repeat(segments.turns, 1, |b| {
                for stream in 0..segments.streams {
                    let into = segments.segment(stream, BufferId::RECV);
                    b.pull(root, build::same(BufferId::exposed(DOWN), into), into);
                    if part == own {
                        b.post(HERE + stream as u16, Segments::count());
                    }
                }
            });
        }
    }
}
