//! Cache of registrations, because the next message is often in the same memory.
//!
//! A registration holds on to pages. It may be used again only if the same addresses still show these pages:
//! the program may have unmapped them and mapped others meanwhile. No guess is made about that ([`Backing`]).
//! If a change can be detected, a registration is kept and checked again at each use. Otherwise it lives as
//! long as the loan or the read that it was made for.

use crate::exposure::Pages;

/// Contents of a range of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// Any pages: the provider looks addresses up when they are accessed. A registration holds no pages, so
    /// none can be stale.
    Addresses,
    /// Pages of this process's own object.
    Pages(Pages),
    /// Unknown pages: nothing reports when they change.
    Unknown,
}

/// Request for a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// First address of the range.
    pub start: u64,
    /// One past the last address of the range.
    pub end: u64,
    /// True if peers may read it; otherwise this process reads into it.
    pub lent: bool,
    /// Contents of the range now.
    pub backing: Backing,
}

#[derive(Debug)]
struct Entry<R> {
    of: Wanted,
    region: R,
    used: u64,
}

/// Registrations that are kept. `R` is shared with its users, so an evicted registration lives while it is
/// used.
#[derive(Debug)]
pub struct Registrations<R> {
    entries: Vec<Entry<R>>,
    most: usize,
    most_bytes: u64,
    uses: u64,
    /// Not found, and found.
    counts: (u64, u64),
}

impl<R: Clone> Registrations<R> {
    /// Keeps at most so many registrations and bytes.
    pub fn new(most: usize, most_bytes: u64) -> Registrations<R> {
        Registrations { entries: Vec::new(), most, most_bytes, uses: 0, counts: (0, 0) }
    }

    /// Returns a registration that covers the request. Drops registrations that turn out to be stale.
    pub fn find(&mut self, wanted: &Wanted) -> Option<R> {
        self.uses += 1;
        let overlaps = |of: &Wanted| of.start < wanted.end && wanted.start < of.end;
        self.entries.retain(|entry| !overlaps(&entry.of) || entry.of.backing == wanted.backing);
        let covers = |of: &Wanted| of.start <= wanted.start && wanted.end <= of.end && of.lent == wanted.lent;
        let Some(entry) = self.entries.iter_mut().find(|entry| covers(&entry.of)) else {
            self.counts.0 += 1;
            return None;
        };
        entry.used = self.uses;
        self.counts.1 += 1;
        Some(entry.region.clone())
    }

    /// Keeps a registration that was made, if it can be told when it becomes stale.
    pub fn keep(&mut self, of: Wanted, region: &R) {
        let bytes = of.end - of.start;
        if of.backing == Backing::Unknown || bytes > self.most_bytes {
            return;
        }
        while self.entries.len() >= self.most || self.bytes() + bytes > self.most_bytes {
            let oldest = self.entries.iter().enumerate().min_by_key(|(_, entry)| entry.used);
            let Some((place, _)) = oldest else { break };
            self.entries.swap_remove(place);
        }
        self.entries.push(Entry { of, region: region.clone(), used: self.uses });
    }

    /// Throws all out: a provider had no room for one more.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// Returns true if nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the number of misses and of hits.
    pub fn counts(&self) -> (u64, u64) {
        self.counts
    }

    fn bytes(&self) -> u64 {
        self.entries.iter().map(|entry| entry.of.end - entry.of.start).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    const KNOWN: Backing = Backing::Pages(Pages { shift: 70, generation: 1 });

    fn wanted(start: u64, end: u64, backing: Backing) -> Wanted {
        Wanted { start, end, lent: true, backing }
    }

    /// Checks whether the registration of `first` serves `second`.
    fn check(first: Wanted, second: Wanted, expected: bool) {
        let mut kept = Registrations::new(4, 1000);
        kept.keep(first, &Rc::new(()));
        assert_eq!(kept.find(&second).is_some(), expected, "{first:?} {second:?}");
        assert_eq!(kept.counts(), if expected { (0, 1) } else { (1, 0) });
    }

    #[test]
    fn a_registration_serves_what_has_not_changed() {
        let first = wanted(100, 200, KNOWN);
        check(first, first, true);
        check(first, wanted(120, 130, KNOWN), true);
        check(first, wanted(99, 130, KNOWN), false);
        check(first, wanted(120, 201, KNOWN), false);
        check(first, Wanted { lent: false, ..first }, false);
        check(first, wanted(100, 200, Backing::Pages(Pages { shift: 71, generation: 1 })), false);
        check(first, wanted(100, 200, Backing::Pages(Pages { shift: 70, generation: 2 })), false);
        check(first, wanted(100, 200, Backing::Unknown), false);
        let unknown = wanted(100, 200, Backing::Unknown);
        check(unknown, unknown, false);
        let addresses = wanted(100, 200, Backing::Addresses);
        check(addresses, addresses, true);
    }

    #[test]
    fn what_is_stale_is_thrown_out_but_stays_while_it_is_used() {
        let (mut kept, region) = (Registrations::new(4, 1000), Rc::new(()));
        kept.keep(wanted(100, 200, KNOWN), &region);
        kept.keep(wanted(300, 400, KNOWN), &region);
        let used = kept.find(&wanted(100, 200, KNOWN)).unwrap();
        assert!(kept.find(&wanted(150, 160, Backing::Unknown)).is_none());
        assert_eq!((Rc::strong_count(&used), kept.entries.len()), (3, 1));
        kept.clear();
        assert!(kept.is_empty() && Rc::strong_count(&used) == 2);
    }

    #[test]
    fn the_least_used_make_room() {
        let (mut kept, region) = (Registrations::new(3, 1000), Rc::new(()));
        for start in [0, 100, 200] {
            kept.keep(wanted(start, start + 50, KNOWN), &region);
        }
        assert!(kept.find(&wanted(0, 50, KNOWN)).is_some() && kept.find(&wanted(200, 250, KNOWN)).is_some());
        kept.keep(wanted(300, 350, KNOWN), &region);
        assert!(kept.find(&wanted(100, 150, KNOWN)).is_none() && kept.find(&wanted(0, 50, KNOWN)).is_some());
        kept.keep(wanted(1000, 1940, KNOWN), &region);
        assert!(kept.bytes() <= 1000 && kept.find(&wanted(1000, 1940, KNOWN)).is_some());
        kept.keep(wanted(2000, 4000, KNOWN), &region);
        assert!(kept.find(&wanted(2000, 4000, KNOWN)).is_none());
    }
}
