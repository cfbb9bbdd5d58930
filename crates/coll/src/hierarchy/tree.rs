//! The tree of a broadcast, or upwards of a reduction: no data pass a long way twice.
//!
//! The paper sorts all pairs by distance, then whether they touch the root, then by ranks, and takes a pair
//! if the two are not connected yet (Algorithm 1). Where distances come from nested groups that gives, level
//! by level, a star of the leaders of the subgroups of every group around the leader of the group: least
//! weight, and of those least depth. A star of many is slow where each of its rays costs the centre
//! something, so the leaders of a group may also form a tree of any [`Form`]:
//! [`Params::FLAT`](crate::Params::FLAT) is the paper's.
//!
//! Every subtree is a range of [`Hierarchy::order`]. Where that is the order of ranks, a subtree's data are
//! consecutive and a reduction keeps its operands in order.

use super::Hierarchy;
use crate::tree::{Form, TreeNode};

/// A child of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Child {
    /// The child.
    pub rank: u32,
    /// How far it is.
    pub distance: u8,
    /// Its subtree is `order[low..high]`.
    pub low: u32,
    /// See `low`.
    pub high: u32,
}

/// One rank's place in a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// `None` at the root.
    pub parent: Option<u32>,
    /// From left to right in [`Hierarchy::order`].
    pub children: Vec<Child>,
    /// Its subtree is `order[low..high]`; it comes first in it, unless it is the root.
    pub low: u32,
    /// See `low`.
    pub high: u32,
}

impl Tree {
    /// The place of `rank` in the tree under `root`.
    pub fn new(hierarchy: &Hierarchy, form: Form, root: u32, rank: u32) -> Tree {
        Tree::of_levels(hierarchy, |_| form, root, rank)
    }

    /// The same, where the form of a group depends on the distance of its subgroups.
    pub fn of_levels(hierarchy: &Hierarchy, form: impl Fn(u8) -> Form, root: u32, rank: u32) -> Tree {
        let position = hierarchy.position[rank as usize];
        let mut tree = Tree { parent: None, children: Vec::new(), low: position, high: position + 1 };
        let mut finer: Option<usize> = None;
        for (level, groups) in hierarchy.levels.iter().enumerate() {
            let group = hierarchy.range(level, hierarchy.index(level, rank));
            let star = Star::new(hierarchy, finer, group, root);
            let me = star.of(position);
            let node = TreeNode::new(form(groups.distance), star.starts.len() as u32, star.centre, false, me);
            for part in node.left.iter().chain(&node.right) {
                for child in 0..part.count {
                    let first = part.first + child * part.size;
                    let (low, high) = (star.start(first), star.start(first + part.size));
                    let rank = hierarchy.order[low as usize];
                    tree.children.push(Child { rank, distance: groups.distance, low, high });
                }
            }
            (tree.low, tree.high) =
                (tree.low.min(star.start(node.low)), tree.high.max(star.start(node.high)));
            if let Some(parent) = node.parent {
                tree.parent = Some(star.leader(hierarchy, parent, root));
                break;
            }
            finer = Some(level);
        }
        tree.children.sort_by_key(|child| child.low);
        tree
    }

    /// The children, the furthest first, and of those the one with the largest subtree: the order in which to
    /// feed them.
    pub fn far_first(&self) -> Vec<Child> {
        let mut children = self.children.clone();
        children.sort_by_key(|child| std::cmp::Reverse((child.distance, child.high - child.low)));
        children
    }
}

/// The subgroups of a group.
struct Star {
    /// Where each begins in the order.
    starts: Vec<u32>,
    /// The end of the last.
    end: u32,
    /// Which of them has the leader of the group.
    centre: u32,
}

impl Star {
    fn new(hierarchy: &Hierarchy, finer: Option<usize>, group: std::ops::Range<usize>, root: u32) -> Star {
        let (start, end) = (group.start as u32, group.end as u32);
        let starts: Vec<u32> = match finer {
            None => (start..end).collect(),
            Some(finer) => {
                let all = &hierarchy.levels[finer].starts;
                let inside = all.partition_point(|&at| at < start)..all.partition_point(|&at| at < end);
                all[inside].to_vec()
            }
        };
        let mut star = Star { starts, end, centre: 0 };
        let root = hierarchy.position[root as usize];
        if (start..end).contains(&root) {
            star.centre = star.of(root);
        }
        star
    }

    /// Which subgroup holds a position.
    fn of(&self, position: u32) -> u32 {
        self.starts.partition_point(|&start| start <= position) as u32 - 1
    }

    /// Where a subgroup begins; defined for the one after the last too.
    fn start(&self, subgroup: u32) -> u32 {
        self.starts.get(subgroup as usize).copied().unwrap_or(self.end)
    }

    /// The leader of a subgroup.
    fn leader(&self, hierarchy: &Hierarchy, subgroup: u32, root: u32) -> u32 {
        let at = hierarchy.position[root as usize];
        let holds_root = (self.start(subgroup)..self.start(subgroup + 1)).contains(&at);
        if holds_root { root } else { hierarchy.order[self.start(subgroup) as usize] }
    }
}
