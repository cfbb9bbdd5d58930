//! Collection of the states of all ranks, up the tree of daemons. Each daemon gets one request, and sends one
//! message to its parent when this host and all children have answered. A later request replaces an earlier
//! one.

use std::collections::BTreeSet;

use super::message::RankCard;

/// Collection that is under way, if any.
#[derive(Debug, Default)]
pub struct Collection {
    request: u32,
    /// Children that have not answered. None stands for this host.
    missing: BTreeSet<Option<u32>>,
    cards: Vec<RankCard>,
}

impl Collection {
    /// Begins a collection from these sources.
    pub fn begin(&mut self, request: u32, sources: impl Iterator<Item = Option<u32>>) {
        *self = Collection { request, missing: sources.collect(), cards: Vec::new() };
    }

    /// Takes the answer of a source. Returns the number of the request and all answers, if it was the last
    /// one.
    pub fn take(
        &mut self,
        source: Option<u32>,
        request: u32,
        cards: Vec<RankCard>,
    ) -> Option<(u32, Vec<RankCard>)> {
        if request != self.request || !self.missing.remove(&source) {
            return None;
        }
        self.cards.extend(cards);
        self.finish()
    }

    /// Records that a child is lost. Returns what [`Collection::take`] does.
    pub fn lose(&mut self, child: u32) -> Option<(u32, Vec<RankCard>)> {
        if self.missing.remove(&Some(child)) { self.finish() } else { None }
    }

    fn finish(&mut self) -> Option<(u32, Vec<RankCard>)> {
        self.missing.is_empty().then(|| (self.request, std::mem::take(&mut self.cards)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::message::Seen;

    #[test]
    fn a_collection_ends_with_its_last_source() {
        let card = |rank| RankCard { rank, seen: Seen::Computing };
        let mut collection = Collection::default();
        assert_eq!(collection.take(None, 0, Vec::new()), None);
        collection.begin(7, [None, Some(1), Some(2)].into_iter());
        assert_eq!(collection.take(Some(1), 7, vec![card(1)]), None);
        assert_eq!(collection.take(Some(1), 7, vec![card(1)]), None, "it has answered");
        assert_eq!(collection.take(Some(2), 6, vec![card(2)]), None, "of an earlier request");
        assert_eq!(collection.take(None, 7, vec![card(0)]), None);
        assert_eq!(collection.lose(2), Some((7, vec![card(1), card(0)])));
        assert_eq!(collection.lose(2), None);
    }
}
