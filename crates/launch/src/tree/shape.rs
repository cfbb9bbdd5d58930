//! Shape of the tree of daemons: arithmetic on their numbers.

use std::ops::Range;

/// First hop from a daemon towards another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hop {
    /// No hop: the destination is this daemon.
    Here,
    /// Up to the parent.
    Parent,
    /// Down to this child.
    Child(u32),
}

/// Complete tree in level order: the children of `d` are `d * radix + 1 ..= d * radix + radix`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    daemons: u32,
    radix: u32,
}

impl Shape {
    /// Creates a tree of `daemons` daemons; radix 0 makes it a star.
    pub fn new(daemons: u32, radix: u32) -> Shape {
        let most = daemons.saturating_sub(1).max(1);
        Shape { daemons, radix: if radix == 0 { most } else { radix.min(most) } }
    }

    /// Returns the number of daemons.
    pub fn daemons(self) -> u32 {
        self.daemons
    }

    /// Returns the parent of `daemon`, which starts it; None for the root.
    pub fn parent(self, daemon: u32) -> Option<u32> {
        Some(daemon.checked_sub(1)? / self.radix)
    }

    /// Returns the children of `daemon`, which it starts.
    pub fn children(self, daemon: u32) -> Range<u32> {
        let child = |number: u64| u32::try_from(number).unwrap_or(u32::MAX).min(self.daemons);
        let first = u64::from(daemon) * u64::from(self.radix) + 1;
        child(first)..child(first + u64::from(self.radix))
    }

    /// Returns the first hop of a message from `from` to `to`.
    pub fn hop(self, from: u32, to: u32) -> Hop {
        if from == to {
            return Hop::Here;
        }
        let mut at = to;
        while let Some(parent) = self.parent(at) {
            if parent == from {
                return Hop::Child(at);
            }
            at = parent;
        }
        Hop::Parent
    }

    /// Returns `daemon` and all daemons below it.
    pub fn subtree(self, daemon: u32) -> Vec<u32> {
        let mut members = vec![daemon];
        let mut next = 0;
        while let Some(&member) = members.get(next) {
            members.extend(self.children(member));
            next += 1;
        }
        members
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(daemons: u32, radix: u32, depth: u32) {
        let shape = Shape::new(daemons, radix);
        let mut whole = shape.subtree(0);
        whole.sort_unstable();
        assert_eq!(whole, (0..daemons).collect::<Vec<_>>(), "each daemon is started once");
        let mut deepest = 0;
        for daemon in 1..daemons {
            let parent = shape.parent(daemon).unwrap();
            assert!(shape.children(parent).contains(&daemon));
            assert_eq!(shape.hop(parent, daemon), Hop::Child(daemon));
            assert_eq!(shape.hop(daemon, parent), Hop::Parent);
            let (mut at, mut hops) = (daemon, 0);
            while let Some(up) = shape.parent(at) {
                assert_eq!(shape.hop(up, daemon), Hop::Child(at));
                (at, hops) = (up, hops + 1);
            }
            deepest = deepest.max(hops);
        }
        assert_eq!(deepest, depth, "{daemons} daemons, radix {radix}");
    }

    #[test]
    fn trees_are_complete_and_routes_lead_home() {
        check(1, 4, 0);
        check(2, 4, 1);
        check(300, 0, 1);
        check(300, 2, 8);
        check(300, 16, 3);
        check(17, 16, 1);
        check(18, 1, 17);
    }

    #[test]
    fn siblings_meet_above() {
        let shape = Shape::new(15, 2);
        assert_eq!(shape.hop(3, 4), Hop::Parent);
        assert_eq!(shape.hop(1, 6), Hop::Parent);
        assert_eq!(shape.hop(2, 13), Hop::Child(6));
        assert_eq!(shape.hop(5, 5), Hop::Here);
        assert_eq!(Shape::new(u32::MAX, 1 << 20).children(u32::MAX - 1), u32::MAX..u32::MAX);
    }
}
