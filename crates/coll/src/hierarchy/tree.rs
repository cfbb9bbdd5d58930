//! The tree of a broadcast, or upwards of a reduction: data pass each long distance only once.
//!
//! The paper sorts all pairs by distance, then whether they touch the root, then by ranks. It takes a pair if
//! the two are not connected yet (Algorithm 1). With distances from nested groups the result is a star at
//! each level: the leaders of the subgroups of a group around the leader of the group. Its weight is least,
//! and among trees of that weight its depth. A star with many rays is slow if each ray costs its centre time.
//! The leaders of a group may therefore also form a tree of any [`Form`];
//! [`Params::FLAT`](crate::Params::FLAT) is the paper's star.
//!
//! Every subtree is a range of [`Hierarchy::order`]. Where that is the order of ranks, a subtree's data are
//! consecutive and a reduction keeps its operands in order.

use super::Hierarchy;
use crate::tree::{Form, TreeNode};

/// Child of a rank in a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Child {
    /// Rank of the child in the communicator.
    pub rank: u32,
    /// Distance between parent and child.
    pub distance: u8,
    /// First position of the child's subtree `order[low..high]`.
    pub low: u32,
    /// One past the last position of the child's subtree.
    pub high: u32,
}

/// One rank's place in a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// Parent rank; `None` at the root.
    pub parent: Option<u32>,
    /// Children from left to right in [`Hierarchy::order`].
    pub children: Vec<Child>,
    /// First position of the rank's subtree `order[low..high]`. The rank comes first in it, unless it is the
    /// root.
    pub low: u32,
    /// One past the last position of the rank's subtree.
    pub high: u32,
}

impl Tree {
    /// Returns the place of `rank` in the tree under `root`.
    pub fn new(hierarchy: &Hierarchy, form: Form, root: u32, rank: u32) -> Tree {
        Tree::of_levels(hierarchy, |_| form, root, rank)
    }

    /// Returns the place of `rank` in a tree in which the form of a group depends on the distance of its
    /// subgroups.
    pub fn of_levels(hierarchy: &Hierarchy, form: impl Fn(u8) -> Form, root: u32, rank: u32) -> Tree {
        let position = hierarchy.position[rank as usize];
        let mut tree = Tree { parent: None, children: Vec::new(), low: position, high: position + 1 };
        let mut finer: Option<usize> = None;
        for (level, groups) in hierarchy.levels.iter().enumerate() {
            let group = hierarchy.range(level, hierarchy.index(level, rank));
            let star = Star::new(hierarchy, finer, group, root);
            let me = star.subgroup_at(position);
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

    /// Returns the children, the furthest first, and among these the one with the largest subtree: the order
    /// in which to feed them.
    pub fn far_first(&self) -> Vec<Child> {
        let mut children = self.children.clone();
        children.sort_by_key(|child| std::cmp::Reverse((child.distance, child.high - child.low)));
        children
    }
}

/// Subgroups of a group, whose leaders form a star or another tree.
struct Star {
    /// Position in the order at which each subgroup begins.
    starts: Vec<u32>,
    /// End of the last subgroup.
    end: u32,
    /// Index of the subgroup that contains the leader of the group.
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
            star.centre = star.subgroup_at(root);
        }
        star
    }

    /// Returns the index of the subgroup that contains a position.
    fn subgroup_at(&self, position: u32) -> u32 {
        self.starts.partition_point(|&start| start <= position) as u32 - 1
    }

    /// Returns the position at which a subgroup begins. The one after the last is allowed and gives the end.
    fn start(&self, subgroup: u32) -> u32 {
        self.starts.get(subgroup as usize).copied().unwrap_or(self.end)
    }

    /// Returns the leader of a subgroup: the root if it is a member, otherwise the first rank.
    fn leader(&self, hierarchy: &Hierarchy, subgroup: u32, root: u32) -> u32 {
        let at = hierarchy.position[root as usize];
        let holds_root = (self.start(subgroup)..self.start(subgroup + 1)).contains(&at);
        if holds_root { root } else { hierarchy.order[self.start(subgroup) as usize] }
    }
}
