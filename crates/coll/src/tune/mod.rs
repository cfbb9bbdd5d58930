//! Choice of the best algorithm inside a running program (S11; barigou-2016, chapters 1 to 3).
//!
//! The best algorithm of a non-blocking or persistent operation depends on the computation beside it and on
//! how often the program calls MPI. No model knows this, so it is found while the program runs. Everything
//! here is a function over data, without a clock: [`Tuner::turn`] decides how the next operation of a unit is
//! done, and [`Tuner::record`] takes the measured times.
//!
//! - A **unit** of tuning is a communicator, a [`UnitKey`] (collective, root, bytes, operator) and its place
//!   in the cycle of such keys that the program repeats ([`cycle`]). All of it is equal on every rank, which
//!   a call stack would not be.
//! - **Alternatives** ([`Alternative`]) are algorithms with their parameters; the first is the choice of the
//!   model. All of them give the same bits as the first ([`alternatives`]). They are requested once the
//!   program has run long enough to pay for them ([`NextStep::Provide`]).
//! - A **strategy** ([`search`]) selects the next alternatives to try: candidates in turn with halving, or
//!   one of the paper's searches (brute force, attribute by attribute, 2^k factorial).
//! - **Proof**: the best alternative is compared with the default in turns, and replaces it if
//!   the loop takes less time. The proof is repeated from time to time.
//! - **Memory** ([`learned`]): results are written behind the model, and used from the first operation on
//!   when the program runs again. Results of another communicator ([`Tuner::hint`]) count once all ranks have
//!   reported that they know them.
//! - **Agreement**: after a fixed number of operations each rank contributes words ([`NextStep::Take`]). The
//!   element-wise maximum over all ranks is returned to [`Tuner::heard`]. Ranks use nothing else, so all make
//!   the same decisions. Some operations continue with the best alternative so far. Only then one has to wait
//!   for the words ([`NextStep::Await`]): its beginning is postponed, and the call that starts it stays
//!   local.
//! - **Rehearsals** ([`rehearse`]): ranks that tune together without a job, for tests and tables.
//! - **Budget** ([`Rules`], [`Account`]): the losses of all units of a program stay below a part of its time.
//!   Ranks contribute measurements of both. Alternatives that may cost more are postponed until the program
//!   has run for longer. Units that hardly spend time in MPI are left alone.
//! - **Free turns** ([`Tuner::free_turns`]): operations that change nothing but a number, and can skip
//!   [`Tuner::turn`].

mod alternatives;
pub mod cycle;
pub mod learned;
mod proof;
pub mod rehearse;
pub mod search;
pub mod statistics;
mod step;
#[cfg(test)]
mod tests;
mod tuner;

pub use alternatives::{Proposal, alternatives, beside_kernel};
pub use step::{Account, Decision, NextStep, Rules, Sample};
pub use tuner::Tuner;

use crate::shape::{Collective, Shape};

/// Form in which the program calls an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CallForm {
    /// A blocking call, which returns when the operation is complete.
    Blocking,
    /// A non-blocking call that returns a request.
    Nonblocking,
    /// A persistent request that is started again and again.
    Persistent,
}

impl CallForm {
    /// Returns its name, in texts and files.
    pub fn name(self) -> &'static str {
        match self {
            CallForm::Blocking => "blocking",
            CallForm::Nonblocking => "non-blocking",
            CallForm::Persistent => "persistent",
        }
    }
}

/// Properties of an operation that are equal on all ranks and do not depend on earlier operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UnitKey {
    /// Form of its call.
    pub form: CallForm,
    /// Collective operation that is called.
    pub collective: Collective,
    /// Root of the operation, or 0 if it has none.
    pub root: u32,
    /// Bytes of the whole operation ([`Shape::bytes`]) if they are equal on all ranks, otherwise 0.
    pub bytes: u64,
    /// Bytes of an element of a reduction, or 1.
    pub unit_bytes: u64,
    /// True if the operator commutes. An algorithm that was chosen for such an operator may not suit another.
    pub commutative: bool,
    /// True if the operator needs all operands at once ([`Shape::together`]).
    pub together: bool,
}

impl UnitKey {
    /// Returns the key of an operation.
    #[inline]
    pub fn new(shape: &Shape, form: CallForm) -> UnitKey {
        use Collective as C;
        let Shape { collective, unit_bytes, commutative, together, .. } = *shape;
        let own = matches!(collective, C::Gatherv | C::Scatterv | C::Alltoallv);
        let root = if collective.rooted() { shape.root } else { 0 };
        let bytes = if own { 0 } else { shape.bytes() };
        UnitKey { form, collective, root, bytes, unit_bytes, commutative, together }
    }
}

/// Behaviour of an operation beside its algorithm: progress as an attribute of the implementation
/// (barigou-2016, section 2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ProgressMode {
    /// Progress happens when the program calls MPI.
    Plain,
    /// The call that starts the operation progresses it for as long as a blocking call would take: the
    /// paper's blocking version in a non-blocking set. The call stays local, as it returns after that time in
    /// any case.
    Pushed,
    /// One of this many tests of the program progresses the operation; the others only check its completion.
    Sparse(u32),
    /// The kernel's packet program performs the blocking operation (S9), instead of an algorithm of the
    /// hosts.
    Kernel,
}

impl ProgressMode {
    /// Returns its number among the attributes.
    fn number(self) -> u64 {
        match self {
            ProgressMode::Plain => 1,
            ProgressMode::Pushed => 0,
            ProgressMode::Sparse(tests) => u64::from(tests),
            ProgressMode::Kernel => u64::MAX,
        }
    }
}

impl std::fmt::Display for ProgressMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ProgressMode::Plain => f.write_str("plain"),
            ProgressMode::Pushed => f.write_str("pushed"),
            ProgressMode::Sparse(tests) => write!(f, "sparse-{tests}"),
            ProgressMode::Kernel => f.write_str("kernel"),
        }
    }
}

/// Properties of an alternative that a search uses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Alternative {
    /// Algorithm, fan-out, segment and progress as numbers; equal numbers are equal values within one set.
    pub attributes: Attributes,
    /// Time that the model predicts, in seconds.
    pub prior_s: f64,
    /// Number of operations until it reaches its final speed: memory is mapped, slots are touched.
    pub warm_up: u32,
    /// Additional time of the first operation among all alternatives with this value, in nanoseconds: it
    /// touches memory for the first time.
    pub once_ns: f64,
}

/// Attributes of an implementation (barigou-2016, section 2.2): algorithm, fan-out, segment and progress
/// ([`ProgressMode`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Attributes(pub [u64; Attributes::NUMBER]);

impl Attributes {
    /// Number of attributes of an implementation.
    pub const NUMBER: usize = 4;
}
