//! What operations of this process can choose from, and what earlier runs know of them: found once for all
//! communicators whose members lie alike.

use std::collections::HashMap;
use std::sync::Arc;

use tutti_coll::Environment;
use tutti_coll::generator::Node;
use tutti_coll::simulate::{Layout, Reach};
use tutti_coll::tune::cycle::Place;
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
pub(crate) struct KindOfCall {
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

impl KindOfCall {
    /// Returns the kind of an operation on so many ranks in this environment.
    pub fn new(
        key: UnitKey,
        ranks: u32,
        (environment, whose): (&Environment, Whose),
        in_kernel: bool,
    ) -> KindOfCall {
        let Environment { node, reach, multicast, ref layout, .. } = *environment;
        KindOfCall { key, ranks, node, reach, multicast, layout: whose.address(layout), in_kernel }
    }
}

/// A unit of any communicator of so many ranks, whose layout has this address.
type Everywhere = (Place, u32, usize);

/// See the module.
#[derive(Debug, Default)]
pub struct Repertoire {
    alternatives: HashMap<KindOfCall, Arc<[Proposal]>>,
    /// What earlier runs have found best, by label; with the layout, whose address is in use while it is
    /// here.
    known: HashMap<Everywhere, (Arc<Layout>, Option<&'static str>)>,
}

impl Repertoire {
    /// Returns the alternatives of a kind of operation, the default first.
    pub(crate) fn alternatives(&self, kind: &KindOfCall) -> Option<Arc<[Proposal]>> {
        self.alternatives.get(kind).cloned()
    }

    /// Keeps the alternatives of a kind of operation.
    pub(crate) fn keep(&mut self, kind: KindOfCall, proposals: Vec<Proposal>) -> Arc<[Proposal]> {
        if self.alternatives.len() >= MOST {
            self.alternatives.clear();
        }
        let proposals: Arc<[Proposal]> = proposals.into();
        self.alternatives.insert(kind, Arc::clone(&proposals));
        proposals
    }

    /// Returns the label that is known from earlier runs, if it was looked for.
    pub(crate) fn label(&self, unit: &Everywhere) -> Option<Option<&'static str>> {
        self.known.get(unit).map(|(_, label)| *label)
    }

    /// Keeps the label that is known from earlier runs.
    pub(crate) fn note(&mut self, unit: Everywhere, layout: Arc<Layout>, label: Option<&'static str>) {
        if self.known.len() >= MOST {
            self.known.clear();
        }
        self.known.insert(unit, (layout, label));
    }
}
