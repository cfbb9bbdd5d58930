//! Symbolic values. A unit of memory holds an [`Atom`]: the number of an element, and the ordered list of
//! ranks whose contributions were combined into it. Lists are interned as runs of consecutive ranks, so a
//! value is two words however many ranks it contains.

use std::collections::HashMap;
use std::ops::Range;

use crate::generator::Association;

/// The value of one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Atom {
    /// Number of the list of contributors in [`Values`].
    pub list: u32,
    /// Number of the element in the operands.
    pub element: u32,
}

impl Atom {
    /// Content of a unit that no rank has written.
    pub const UNDEFINED: Atom = Atom { list: u32::MAX, element: u32::MAX };

    /// Returns the header of a frame with a block of `length` units.
    pub fn length(length: u64) -> Atom {
        Atom { list: u32::MAX - 1, element: length as u32 }
    }
}

/// Ranks `from..to`, in this order.
type Run = (u32, u32);

/// Lists of contributors in one verification.
#[derive(Debug)]
pub struct Values {
    lists: Vec<Box<[Run]>>,
    numbers: HashMap<Box<[Run]>, u32>,
    joined: HashMap<(u32, u32), u32>,
    /// Last pair of joined lists, and the result, as the units of a span mostly have one list.
    last: Option<((u32, u32), u32)>,
    association: Association,
    /// True if equal contributors in equal order are distinguished by their association.
    keeps_trees: bool,
}

impl Values {
    /// Returns the lists of `ranks` ranks. The list that contains only rank r has number r.
    pub fn new(ranks: u32) -> Values {
        let mut values = Values {
            lists: Vec::new(),
            numbers: HashMap::new(),
            joined: HashMap::new(),
            last: None,
            association: Association::Free,
            keeps_trees: false,
        };
        (0..ranks).for_each(|rank| {
            values.number(Box::new([(rank, rank + 1)]));
        });
        values
    }

    /// Sets the only association in which operands may be combined afterwards.
    pub fn associate(&mut self, association: Association) {
        self.association = association;
    }

    /// Distinguishes values by their association from now on: two atoms are equal only if they are one
    /// expression.
    pub fn keep_trees(&mut self) {
        self.keeps_trees = true;
    }

    /// Returns the value of element `element` of the operand of `rank`.
    pub fn own(rank: u32, element: u64) -> Atom {
        Atom { list: rank, element: element as u32 }
    }

    /// Returns `left op right`, or `None` if one is undefined, the elements differ, or the association is not
    /// the required one.
    pub fn combine(&mut self, left: Atom, right: Atom) -> Option<Atom> {
        let is_partial = self.association == Association::Together && !self.is_single(right);
        if is_partial { None } else { self.combine_at_once(left, right) }
    }

    /// Returns `left op right` as [`Values::combine`] does, where `right` may be a partial result of the same
    /// step.
    pub fn combine_at_once(&mut self, left: Atom, right: Atom) -> Option<Atom> {
        if left == Atom::UNDEFINED || right == Atom::UNDEFINED || left.element != right.element {
            return None;
        }
        let allowed = match self.association {
            Association::FromRight | Association::Together => self.is_single(left),
            Association::FromLeft => self.is_single(right),
            Association::FromRightIfFlat | Association::Free => true,
        };
        if !allowed {
            return None;
        }
        Some(Atom { list: self.join(left.list, right.list), element: left.element })
    }

    /// Returns true if a value is the operand of one rank. An undefined value is none.
    fn is_single(&self, atom: Atom) -> bool {
        matches!(self.lists.get(atom.list as usize).map(|runs| &**runs), Some([(from, to)]) if *to == from + 1)
    }

    /// Returns true if the list is exactly `ranks`, in this order unless `commutative`.
    pub fn is_of(&self, list: u32, ranks: &Range<u32>, commutative: bool) -> bool {
        let Some(runs) = self.lists.get(list as usize) else { return false };
        if !commutative || runs.len() == 1 {
            return **runs == [(ranks.start, ranks.end)];
        }
        let mut sorted = runs.to_vec();
        sorted.sort_unstable();
        let mut next = ranks.start;
        sorted.iter().all(|&(from, to)| std::mem::replace(&mut next, to) == from) && next == ranks.end
    }

    /// Returns the list in a form for messages.
    pub fn show(&self, atom: Atom) -> String {
        match self.lists.get(atom.list as usize) {
            None => "undefined".to_string(),
            Some(runs) => format!("element {} of {runs:?}", atom.element),
        }
    }

    fn join(&mut self, left: u32, right: u32) -> u32 {
        if let Some((pair, number)) = self.last
            && pair == (left, right)
        {
            return number;
        }
        let number = match self.joined.get(&(left, right)) {
            Some(&number) => number,
            None => self.join_new(left, right),
        };
        self.last = Some(((left, right), number));
        number
    }

    fn join_new(&mut self, left: u32, right: u32) -> u32 {
        let mut runs = self.lists[left as usize].to_vec();
        for &run in &self.lists[right as usize] {
            match runs.last_mut() {
                Some(last) if last.1 == run.0 => last.1 = run.1,
                _ => runs.push(run),
            }
        }
        let number = self.number(runs.into());
        self.joined.insert((left, right), number);
        number
    }

    fn number(&mut self, runs: Box<[Run]>) -> u32 {
        if let Some(&number) = self.numbers.get(&runs).filter(|_| !self.keeps_trees) {
            return number;
        }
        let number = self.lists.len() as u32;
        self.lists.push(runs.clone());
        self.numbers.insert(runs, number);
        number
    }
}
