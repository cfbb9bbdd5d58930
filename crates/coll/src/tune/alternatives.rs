//! Alternatives for an operation, out of those that give the same bits as the default.

use super::{Alternative, Attributes, CallForm, ProgressMode};
use crate::cost::Environment;
use crate::generator::Node;
use crate::select::{self, Candidate, Choice};
use crate::shape::Shape;

/// Alternative with the choice and the manner that implement it.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// Algorithm with its parameters.
    pub choice: Choice,
    /// Manner of its progress.
    pub manner: ProgressMode,
    /// Properties that the search uses.
    pub alternative: Alternative,
}

impl Proposal {
    /// Returns a text that is equal for equal proposals in any run.
    pub fn label(&self) -> String {
        format!("{} {}", self.choice.label(), self.manner)
    }
}

/// Largest number of alternatives that are tried.
const MOST: usize = 16;
/// Number of parameter sets that are tried of one algorithm.
const VARIANTS: usize = 3;
/// Number of the best algorithms by the model that are tried in other manners too.
const MANNERED: usize = 2;
/// Number of tests of the program of which one progresses an operation in the sparse manner.
const SPARSE: u32 = 8;
/// Number of uses until memory is mapped and all its pages have been touched.
const WARM_EXPOSED: u32 = 9;
/// Number of uses until the slots that are used in turn are in the caches. All slots are touched before a
/// rank tries such an algorithm although the default is another one. An operation takes 3.5 us instead of 0.8
/// as long as each has new pages.
const WARM_SHARED: u32 = 4;
/// Bytes of a page, and nanoseconds of its first touch.
const PAGE_BYTES: u64 = 4096;
const PAGE_NS: f64 = 1000.0;
/// Number of slots of small banks, and of other banks.
const SMALL_SLOTS: u64 = 128;
const LARGE_SLOTS: u64 = 16;

/// Returns the default, then the other algorithms for `shape`, the best by closed forms first. All ranks
/// get the same. Without `any_bits`, a reduction that combines in another order than the default is left
/// out, because its results have other bits.
pub fn alternatives(
    shape: &Shape,
    environment: &Environment,
    default: &Choice,
    form: CallForm,
    any_bits: bool,
) -> Vec<Proposal> {
    let common = select::common(shape, environment);
    let mut found = vec![proposal(default.clone(), ProgressMode::Plain)];
    let same_bits = |candidate: &Candidate| {
        let Candidate { generator, params, .. } = candidate;
        any_bits || generator.combines_like(params, (default.generator, &default.params), common.commutative)
    };
    let others = if form == CallForm::Nonblocking { MANNERED + 1 } else { 0 };
    for candidate in select::outlined(&common, environment) {
        let is_known = |other: &Proposal| {
            std::ptr::eq(other.choice.generator, candidate.generator)
                && other.choice.params == candidate.params
        };
        let of_algorithm =
            found.iter().filter(|other| std::ptr::eq(other.choice.generator, candidate.generator)).count();
        if is_known(&found[0]) {
            // Times of closed forms and times of simulations cannot be compared.
            found[0].alternative.prior_s = candidate.time;
        } else if found.len() < MOST - others && of_algorithm < VARIANTS && same_bits(&candidate) {
            found.push(proposal(Choice::tried(&candidate, &common, environment), ProgressMode::Plain));
        }
    }
    if default.generator.node() != Node::Shared {
        let bytes = common.bytes().clamp(1, environment.bank_bytes);
        let slots = if bytes <= PAGE_BYTES { SMALL_SLOTS } else { LARGE_SLOTS };
        let once_ns = (slots * bytes.div_ceil(PAGE_BYTES)) as f64 * PAGE_NS;
        for one in found.iter_mut().filter(|one| one.choice.generator.node() == Node::Shared) {
            one.alternative.once_ns = once_ns;
        }
    }
    if form == CallForm::Nonblocking {
        let pushed: Vec<Proposal> = found
            .iter()
            .take(MANNERED)
            .map(|one| proposal(one.choice.clone(), ProgressMode::Pushed))
            .collect();
        found.extend(pushed);
        found.push(proposal(default.clone(), ProgressMode::Sparse(SPARSE)));
    }
    found
}

/// Puts the kernel offload in front of these alternatives, as the default.
pub fn beside_kernel(mut found: Vec<Proposal>) -> Vec<Proposal> {
    let in_kernel = proposal(found[0].choice.clone(), ProgressMode::Kernel);
    found.insert(0, in_kernel);
    found
}

fn proposal(choice: Choice, manner: ProgressMode) -> Proposal {
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
