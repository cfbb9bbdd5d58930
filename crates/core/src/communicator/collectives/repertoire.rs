//! What operations of this process can choose from, and what earlier runs know of them: found once for all
//! communicators whose members lie alike.

use std::collections::HashMap;
use std::sync::Arc;

use tutti_coll::Environment;
use tutti_coll::generator::Node;
use tutti_coll::simulate::{Layout, Reach};
use tutti_coll::tune::{Proposal, UnitKey};

use super::choices::Whose;

/// More are forgotten all at once.
const MOST: usize = 1024;

/// Alternatives of an operation, and which of them is the best as far as that is known.
#[derive(Clone, Debug)]
pub(crate) struct Best {
    /// The default first.
    pub proposals: Arc<[Proposal]>,
    /// Number of the best.
    pub number: usize,
}

impl Best {
    /// Returns the best, unless it is the default, which needs no proposal.
    #[inline]
    pub fn proposal(&self) -> Option<&Proposal> {
        self.proposals.get(self.number).filter(|_| self.number > 0)
    }
}

/// An operation and what its choice depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Kind {
    key: UnitKey,
    ranks: u32,
    node: Node,
    reach: Reach,
    multicast: bool,
    /// Address of the layout, which the alternatives keep alive.
    layout: usize,
    /// Whether the kernel does it by default.
    pub in_kernel: bool,
}

impl Kind {
    /// Returns the kind of an operation on so many ranks in this environment.
    pub fn new(
        key: UnitKey,
        ranks: u32,
        (environment, whose): (&Environment, Whose),
        in_kernel: bool,
    ) -> Kind {
        let Environment { node, reach, multicast, .. } = *environment;
        Kind { key, ranks, node, reach, multicast, layout: whose.layout(environment), in_kernel }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Repertoire {
    alternatives: HashMap<Kind, Arc<[Proposal]>>,
    /// What earlier runs have found best; with the layout, whose address tells kinds apart.
    known: HashMap<Kind, (Arc<Layout>, Option<Best>)>,
}

impl Repertoire {
    /// Returns the alternatives of a kind of operation, the default first.
    pub(crate) fn alternatives(&self, kind: &Kind) -> Option<Arc<[Proposal]>> {
        self.alternatives.get(kind).cloned()
    }

    /// Keeps the alternatives of a kind of operation.
    pub(crate) fn keep(&mut self, kind: Kind, proposals: Vec<Proposal>) -> Arc<[Proposal]> {
        if self.alternatives.len() >= MOST {
            self.alternatives.clear();
        }
        let proposals: Arc<[Proposal]> = proposals.into();
        self.alternatives.insert(kind, Arc::clone(&proposals));
        proposals
    }

    /// Returns what is known from earlier runs, if it was looked for.
    pub(crate) fn known(&self, kind: &Kind) -> Option<Option<Best>> {
        self.known.get(kind).map(|(_, best)| best.clone())
    }

    /// Keeps what is known from earlier runs of members that lie as `layout` says.
    pub(crate) fn note(&mut self, kind: Kind, layout: Arc<Layout>, best: Option<Best>) {
        if self.known.len() >= MOST {
            self.known.clear();
        }
        self.known.insert(kind, (layout, best));
    }
}
