//! Which ways there are to do an operation, of those that give the same bits as the default.

use super::{Alternative, Attributes, CallForm, Manner};
use crate::cost::Environment;
use crate::generator::{Association, Node};
use crate::select::{self, Candidate, Choice};
use crate::shape::Shape;

/// An alternative with what it takes to do it.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// What is to be done.
    pub choice: Choice,
    /// How it moves on.
    pub manner: Manner,
    /// What searching knows of it.
    pub alternative: Alternative,
}

impl Proposal {
    /// It in a word, equal for equal proposals in any run.
    pub fn label(&self) -> String {
        format!("{} {}", self.choice.label(), self.manner)
    }
}

/// More than so many are not tried.
const MOST: usize = 16;
/// Lengths of segments that are tried of one algorithm.
const VARIANTS: usize = 3;
/// So many of the best algorithms by the model are tried in other manners too.
const MANNERED: usize = 2;
/// Of so many tests one moves operations on, where fewer are tried.
const SPARSE: u32 = 8;
/// Uses until memory is mapped and all its pages have been there.
const WARM_EXPOSED: u32 = 9;
/// Uses until the slots that are taken in turn are in the caches. Who tries such an algorithm where the
/// default is another has all slots touched before: an operation takes 3.5 us instead of 0.8 as long as each
/// has new pages.
const WARM_SHARED: u32 = 4;
/// Bytes of a page, and what it costs to have it for the first time.
const PAGE_BYTES: u64 = 4096;
const PAGE_NS: f64 = 1000.0;
/// Slots of small banks, and of others.
const SMALL_SLOTS: u64 = 128;
const LARGE_SLOTS: u64 = 16;

/// The default first, then what else suits `shape`, the best by the model first; all ranks get the same. A
/// reduction that combines in another order than the default gives other bits, and is left out unless
/// `any_bits`.
pub fn alternatives(
    shape: &Shape,
    environment: &Environment,
    default: &Choice,
    form: CallForm,
    any_bits: bool,
) -> Vec<Proposal> {
    let common = select::common(shape, environment);
    let mut found = vec![proposal(default.clone(), Manner::Plain)];
    let reduces = Association::of(shape.collective).is_some();
    let same_bits = |candidate: &Candidate| {
        let association = candidate.generator.association;
        let free = association == Association::Free;
        let same_algorithm = std::ptr::eq(candidate.generator, default.generator)
            && candidate.params.radix == default.params.radix;
        any_bits
            || !reduces
            || same_algorithm
            || !free
                && candidate.generator.is_canonical(&candidate.params)
                && default.generator.is_canonical(&default.params)
    };
    let best_of_each = select::candidates(&common, environment);
    let variants = |candidate: &Candidate| {
        select::variants(candidate.generator, &common, environment).into_iter().take(VARIANTS)
    };
    let all = best_of_each.iter().copied().chain(best_of_each.iter().flat_map(variants));
    let others = if form == CallForm::Nonblocking { MANNERED + 1 } else { 0 };
    for candidate in all.filter(same_bits) {
        let known = |other: &Proposal| {
            std::ptr::eq(other.choice.generator, candidate.generator)
                && other.choice.params == candidate.params
        };
        if found.len() < MOST - others && !found.iter().any(known) {
            found.push(proposal(Choice::tried(&candidate, &common, environment), Manner::Plain));
        }
    }
    if default.generator.node() != Node::Shared {
        let bytes = shape.bytes().clamp(1, environment.bank_bytes);
        let slots = if bytes <= PAGE_BYTES { SMALL_SLOTS } else { LARGE_SLOTS };
        let once_ns = (slots * bytes.div_ceil(PAGE_BYTES)) as f64 * PAGE_NS;
        for one in found.iter_mut().filter(|one| one.choice.generator.node() == Node::Shared) {
            one.alternative.once_ns = once_ns;
        }
    }
    if form == CallForm::Nonblocking {
        let pushed: Vec<Proposal> =
            found.iter().take(MANNERED).map(|one| proposal(one.choice.clone(), Manner::Pushed)).collect();
        found.extend(pushed);
        found.push(proposal(default.clone(), Manner::Sparse(SPARSE)));
    }
    found
}

/// What the kernel does instead of this.
pub fn in_kernel(default: &Choice) -> Proposal {
    proposal(default.clone(), Manner::Kernel)
}

fn proposal(choice: Choice, manner: Manner) -> Proposal {
    let (generator, params) = (choice.generator, choice.params);
    let algorithm = select::number_of(generator);
    let attributes = Attributes([algorithm, u64::from(params.radix), params.segment, manner.number()]);
    let warm_up = match generator.node() {
        Node::Any => 1,
        Node::Shared => WARM_SHARED,
        Node::Exposed => WARM_EXPOSED,
    };
    let alternative = Alternative { attributes, prior_s: choice.time, warm_up, once_ns: 0.0 };
    Proposal { choice, manner, alternative }
}
