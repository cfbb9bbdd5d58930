//! Alternatives of this process's operations, and the best of them by earlier runs. Communicators whose
//! members have the same layout share them.

use std::collections::HashMap;
use std::sync::Arc;

use tutti_coll::Environment;
use tutti_coll::generator::Node;
use tutti_coll::simulate::{Layout, Reach};
use tutti_coll::tune::cycle::CyclePlace;
use tutti_coll::tune::{Proposal, UnitKey};

use super::choices::Whose;

/// Maximum number of entries of a table. A full table is cleared.
const MOST: usize = 1024;

/// Alternatives of an operation, and the best one known so far.
#[derive(Clone, Debug)]
pub(crate) struct Best {
    /// Alternatives; the first is the default.
    pub proposals: Arc<[Proposal]>,
    /// Index of the best.
    pub number: usize,
}

impl Best {
    /// Returns the best alternative, or `None` for the default, which needs no proposal.
    #[inline]
    pub fn proposal(&self) -> Option<&Proposal> {
        self.proposals.get(self.number).filter(|_| self.number > 0)
    }
}

/// Key of an operation's alternatives: the operation and everything else that determines them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct KindOfCall {
    key: UnitKey,
    ranks: u32,
    node: Node,
    reach: Reach,
    multicast: bool,
    /// Address of the layout. The alternatives keep the layout alive, so the address stays valid.
    layout: usize,
    /// True if the kernel offload runs the operation by default.
    pub in_kernel: bool,
}

impl KindOfCall {
    /// Creates the key of an operation on this number of ranks in this environment.
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

/// Key of a unit in all communicators of one size and layout: place, ranks, address of the layout.
type Everywhere = (CyclePlace, u32, usize);

/// Alternatives and results of earlier runs, by operation.
#[derive(Debug, Default)]
pub struct Repertoire {
    alternatives: HashMap<KindOfCall, Arc<[Proposal]>>,
    /// Label of the best alternative by earlier runs, or `None` if there is none. The layout is kept alive,
    /// because its address is part of the key.
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

    /// Returns the noted label of the best alternative by earlier runs. The outer `None` means that none
    /// was noted yet, the inner one that earlier runs know none.
    pub(crate) fn label(&self, unit: &Everywhere) -> Option<Option<&'static str>> {
        self.known.get(unit).map(|(_, label)| *label)
    }

    /// Notes the label of the best alternative by earlier runs.
    pub(crate) fn note(&mut self, unit: Everywhere, layout: Arc<Layout>, label: Option<&'static str>) {
        if self.known.len() >= MOST {
            self.known.clear();
        }
        self.known.insert(unit, (layout, label));
    }
}
