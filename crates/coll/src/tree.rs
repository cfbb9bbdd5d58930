//! Trees whose subtrees are ranges of consecutive ranks, headed by their first rank.
//!
//! A node's range without itself is cut into pieces, each again a tree. So the data of a subtree are
//! consecutive blocks (gather and scatter need no reordering). A reduction that combines pieces from right to
//! left keeps the order of ranks. Equal pieces form groups, so that a loop can visit them: a flat tree is one
//! group.

use crate::ir::Index;

/// Rule by which a range of ranks is cut into subtrees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Into at most this number of pieces of nearly equal size; 1 is a chain, [`crate::Params::FLAT`] is
    /// flat.
    Kary(u32),
    /// Into pieces whose sizes are powers of the radix, for 2 the binomial tree: latency-optimal when
    /// a node sends to its children one after the other.
    Knomial(u32),
}

/// `count` subtrees of `size` ranks each, side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// The head of the first, before rotation.
    pub first: u32,
    /// Number of ranks of each subtree.
    pub size: u32,
    /// Number of subtrees, at least 1.
    pub count: u32,
}

/// One rank's place in a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeNode {
    /// The parent, a rank; `None` at the root.
    pub parent: Option<u32>,
    /// First rank of the subtree `low..high`, before rotation. Both are 0 for [`TreeNode::from_children`].
    pub low: u32,
    /// One past the last rank of the subtree.
    pub high: u32,
    /// Children whose ranks are below the node's: only at the root. From left to right.
    pub left: Vec<Group>,
    /// Children whose ranks are above the node's. From left to right, large subtrees first.
    pub right: Vec<Group>,
    ranks: u32,
    rotation: u32,
}

impl TreeNode {
    /// Returns the place of `rank` in the tree of `ranks` ranks under `root`. With `rotate` the tree is that
    /// of root 0 around the ring of ranks. The root then has fewer children, but a subtree may wrap around.
    pub fn new(form: Form, ranks: u32, root: u32, rotate: bool, rank: u32) -> TreeNode {
        let rotation = if rotate { root } else { 0 };
        let (root, me) = (root - rotation, (rank + ranks - rotation) % ranks);
        let mut node = TreeNode {
            parent: None,
            low: 0,
            high: ranks,
            left: Vec::new(),
            right: Vec::new(),
            ranks,
            rotation,
        };
        if me == root {
            (node.left, node.right) = split_root(form, ranks, root);
            return node;
        }
        let (left, right) = split_root(form, ranks, root);
        let mut groups = if me < root { left } else { right };
        let mut parent = root;
        loop {
            let group = groups.iter().find(|group| me < group.first + group.size * group.count);
            let group = *group.expect("the groups of a node cover its range");
            let head = group.first + (me - group.first) / group.size * group.size;
            let (low, high) = if form == Form::Kary(1) {
                parent = if me == head { parent } else { me - 1 };
                (me, head + group.size)
            } else {
                (head, head + group.size)
            };
            groups = split(form, low + 1, high);
            if low == me {
                node.parent = Some((parent + rotation) % ranks);
                (node.low, node.high, node.right) = (low, high, groups);
                return node;
            }
            parent = low;
        }
    }

    /// Returns the place of a rank in a tree of `ranks` ranks that the caller has made. Children `(rank,
    /// size)` are below or above the rank in the order of operands, from left to right.
    pub fn from_children(
        parent: Option<u32>,
        ranks: u32,
        left: &[(u32, u32)],
        right: &[(u32, u32)],
    ) -> TreeNode {
        TreeNode { parent, low: 0, high: 0, left: grouped(left), right: grouped(right), ranks, rotation: 0 }
    }

    /// Returns the peers that head the subtrees of a group, from left to right.
    pub fn heads(&self, group: Group) -> Index {
        let first = i64::from(group.first + self.rotation);
        Index::cyclic(first % i64::from(self.ranks), i64::from(group.size), self.ranks)
    }

    /// Returns the peers that head the subtrees of a group, from right to left.
    pub fn heads_backwards(&self, group: Group) -> Index {
        let last = group.first + (group.count - 1) * group.size + self.rotation;
        Index::cyclic(i64::from(last % self.ranks), -i64::from(group.size), self.ranks)
    }

    /// Returns all groups, large subtrees first: the order in which to feed them.
    pub fn by_size(&self) -> Vec<Group> {
        let mut groups: Vec<Group> = self.left.iter().chain(&self.right).copied().collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.size));
        groups
    }

    /// Returns the number of children.
    pub fn degree(&self) -> u32 {
        self.left.iter().chain(&self.right).map(|group| group.count).sum()
    }
}

/// Merges children `(rank, size)` that are side by side into groups.
fn grouped(children: &[(u32, u32)]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for &(rank, size) in children {
        match groups.last_mut() {
            Some(last) if last.size == size && last.first + last.count * size == rank => last.count += 1,
            _ => groups.push(Group { first: rank, size, count: 1 }),
        }
    }
    groups
}

fn split_root(form: Form, ranks: u32, root: u32) -> (Vec<Group>, Vec<Group>) {
    let (left, right) = (root, ranks - root - 1);
    let Form::Kary(radix) = form else {
        return (split(form, 0, root), split(form, root + 1, ranks));
    };
    let radix = radix.clamp(1, ranks.max(2) - 1);
    let share = (u64::from(radix) * u64::from(left)).div_ceil(u64::from(left + right).max(1)) as u32;
    let share = if right == 0 { radix } else { share.min(radix.saturating_sub(1)).max(1) };
    let rest = if left == 0 { radix } else { radix.saturating_sub(share).max(1) };
    (split(Form::Kary(share), 0, root), split(Form::Kary(rest), root + 1, ranks))
}

/// Cuts ranks `low..high` into pieces.
fn split(form: Form, low: u32, high: u32) -> Vec<Group> {
    let length = high - low;
    let mut groups = Vec::new();
    if length == 0 {
        return groups;
    }
    let mut first = low;
    let mut push = |size: u32, count: u32| {
        if count > 0 {
            groups.push(Group { first, size, count });
            first += size * count;
        }
    };
    match form {
        Form::Kary(radix) => {
            let pieces = radix.clamp(1, length);
            let (size, larger) = (length / pieces, length % pieces);
            push(size + 1, larger);
            push(size, pieces - larger);
        }
        Form::Knomial(radix) => {
            let radix = u64::from(radix.max(2));
            let mut size = 1_u64;
            while size * radix <= u64::from(length) {
                size *= radix;
            }
            let mut rest = u64::from(length);
            while size > 0 {
                push(size as u32, (rest / size) as u32);
                rest %= size;
                size /= radix;
            }
        }
    }
    groups
}

/// Returns the length of the longest path from the root, and the most children of a node, of a tree over
/// `ranks` ranks.
pub fn dimensions(form: Form, ranks: u32) -> (u32, u32) {
    let log = |radix: u32| {
        let (mut depth, mut reach) = (0, 1_u64);
        while reach < u64::from(ranks) {
            reach *= u64::from(radix);
            depth += 1;
        }
        depth
    };
    match form {
        Form::Kary(1) => (ranks - 1, 1),
        Form::Kary(radix) if radix >= ranks - 1 => (1, ranks - 1),
        Form::Kary(radix) => (log(radix), radix),
        Form::Knomial(radix) => (log(radix.max(2)), log(radix.max(2)) * (radix.max(2) - 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(form: Form, ranks: u32, root: u32, rotate: bool) {
        let nodes: Vec<TreeNode> =
            (0..ranks).map(|rank| TreeNode::new(form, ranks, root, rotate, rank)).collect();
        let mut parents = vec![None; ranks as usize];
        for (rank, node) in (0..).zip(&nodes) {
            for group in node.left.iter().chain(&node.right) {
                for child in 0..group.count {
                    let head = node.heads(*group).in_iteration(child);
                    assert_eq!(head, node.heads_backwards(*group).in_iteration(group.count - 1 - child));
                    assert_eq!(parents[head as usize].replace(rank), None);
                    let low = group.first + child * group.size;
                    let other = &nodes[head as usize];
                    assert_eq!((other.low, other.high), (low, low + group.size));
                }
            }
        }
        let found: Vec<_> = nodes.iter().map(|node| node.parent).collect();
        assert_eq!(found, parents, "{form:?} {ranks} {root} {rotate}");
    }

    #[test]
    fn parents_and_children_agree() {
        for ranks in 1..40 {
            for root in 0..ranks {
                for radix in [1, 2, 3, 5, u32::MAX] {
                    for rotate in [false, true] {
                        check(Form::Kary(radix), ranks, root, rotate);
                        check(Form::Knomial(radix.max(2)), ranks, root, rotate);
                    }
                }
            }
        }
    }

    #[test]
    fn binomial_at_any_root_of_a_power_of_two() {
        for root in 0..16 {
            assert_eq!(TreeNode::new(Form::Knomial(2), 16, root, false, root).degree(), 4);
        }
    }
}
