//! Which algorithm is best inside a running program (S11; barigou-2016, chapters 1 to 3).
//!
//! The right algorithm of a non-blocking or persistent operation depends on the computation beside it and on
//! how often the program calls MPI, which no model knows; so it is found out while the program runs.
//! Everything here is a function over data, without a clock: what the n-th operation of a unit takes comes
//! out of [`Tuner::turn`], what operations took goes into [`Tuner::record`].
//!
//! - A **unit** of tuning is a communicator, a [`UnitKey`] (collective, root, bytes, operator) and its place
//!   in the cycle of such keys that the program repeats ([`cycle`]): all of it is equal on every rank, as a
//!   call stack would not be.
//! - **Alternatives** ([`Alternative`]) are algorithms with their parameters; the first is what the model
//!   chooses. Only those that give the same bits as that one are among them ([`alternatives`]). They are
//!   asked for once the program has gone on for long enough to pay for that ([`NextStep::Provide`]).
//! - A **strategy** ([`search`]) says what is tried next: candidates in turn with halving, or one of the
//!   paper's searches (brute force, attribute by attribute, 2^k factorial).
//! - **Proof**: what comes out best takes turns with the default, and is decided on if the loop takes less
//!   time. From time to time that is proved again.
//! - **Memory** ([`learned`]): what was learned is written behind the model, and known from the first
//!   operation on when the program runs again. What another communicator has learned meanwhile
//!   ([`Tuner::hint`]) counts once all ranks have said that they know it.
//! - **Agreement**: after a fixed number of operations each rank has words to contribute
//!   ([`NextStep::Take`]); the element-wise maximum over all ranks comes back by [`Tuner::heard`]. Ranks look
//!   at nothing else, so all take the same. Some operations go on with the best so far in the meantime; only
//!   then one has to wait for the words ([`NextStep::Await`]): its beginning is put off, the call that starts
//!   it stays local.
//! - **Rehearsals** ([`rehearse`]): ranks that tune together without a job, for tests and tables.
//! - **Budget** ([`Rules`], [`Account`]): what all units of a program have lost stays below a part of the
//!   time of the program. Ranks contribute what they have measured of both. What may cost more is postponed
//!   until the program has run for longer. Units that hardly spend time in MPI are left alone.
//! - **Free turns** ([`Tuner::free_turns`]): operations that change nothing but a number, and need not ask.

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

/// How an operation is called for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CallForm {
    /// Its call returns when it is over.
    Blocking,
    /// By a request.
    Nonblocking,
    /// By a request that is started again and again.
    Persistent,
}

impl CallForm {
    /// The word for it, in texts and files.
    pub fn name(self) -> &'static str {
        match self {
            CallForm::Blocking => "blocking",
            CallForm::Nonblocking => "non-blocking",
            CallForm::Persistent => "persistent",
        }
    }
}

/// What all ranks know of an operation before they know anything of its past.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UnitKey {
    /// How it is called for.
    pub form: CallForm,
    /// The operation.
    pub collective: Collective,
    /// Its root, or 0.
    pub root: u32,
    /// Bytes of the whole ([`Shape::bytes`]), where they are equal on all ranks.
    pub bytes: u64,
    /// Bytes of an element of a reduction, or 1.
    pub unit_bytes: u64,
    /// Whether the operator commutes. An algorithm that was chosen for one that does may not suit another.
    pub commutative: bool,
}

impl UnitKey {
    /// Returns the key of an operation.
    #[inline]
    pub fn of(shape: &Shape, form: CallForm) -> UnitKey {
        use Collective as C;
        let Shape { collective, unit_bytes, commutative, .. } = *shape;
        let own = matches!(collective, C::Gatherv | C::Scatterv | C::Alltoallv);
        let root = if collective.rooted() { shape.root } else { 0 };
        let bytes = if own { 0 } else { shape.bytes() };
        UnitKey { form, collective, root, bytes, unit_bytes, commutative }
    }
}

/// What a non-blocking operation does beside its algorithm: progress as an attribute of the implementation
/// (barigou-2016, section 2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Manner {
    /// It moves on when the program calls MPI.
    Plain,
    /// The call that starts it moves it on as long as a blocking one would take: the paper's blocking version
    /// in a non-blocking set. The call stays local, as it returns after that time in any case.
    Pushed,
    /// Of so many tests of the program all but one look at what is there and move nothing on.
    Sparse(u32),
    /// The kernel's packet program does a blocking one (S9), whatever the algorithm of hosts would be.
    Kernel,
}

impl Manner {
    /// Its number among the attributes.
    fn number(self) -> u64 {
        match self {
            Manner::Plain => 1,
            Manner::Pushed => 0,
            Manner::Sparse(tests) => u64::from(tests),
            Manner::Kernel => u64::MAX,
        }
    }
}

impl std::fmt::Display for Manner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Manner::Plain => f.write_str("plain"),
            Manner::Pushed => f.write_str("pushed"),
            Manner::Sparse(tests) => write!(f, "sparse-{tests}"),
            Manner::Kernel => f.write_str("kernel"),
        }
    }
}

/// One of the ways to do an operation, as far as searching has to know.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Alternative {
    /// What it is made of; equal numbers mean the same within one set.
    pub attributes: Attributes,
    /// What the model expects, in seconds.
    pub prior_s: f64,
    /// How many operations it takes until it is as quick as it will be: memory is mapped, slots are touched.
    pub warm_up: u32,
    /// What the first of all operations that say this takes beside itself, in nanoseconds: memory is touched
    /// that nobody has touched before.
    pub once_ns: f64,
}

/// The attributes of an implementation (barigou-2016, section 2.2): algorithm, fan-out, segment and progress
/// ([`Manner`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Attributes(pub [u64; Attributes::NUMBER]);

impl Attributes {
    /// How many there are.
    pub const NUMBER: usize = 4;
}
