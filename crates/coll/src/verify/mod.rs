//! Proofs of schedules. Those of all ranks run on symbolic data ([`value`], [`memory`]) and are compared with
//! the standard's specification ([`case`]; for a barrier, [`signals`]). Sends complete only when they are
//! received. The verifier also checks that nothing depends on timing ([`races`] within a rank, [`accesses`]
//! between ranks).
//!
//! # One execution stands for all
//! *Messages.* Unordered steps do not conflict, messages match by program order, and a step that may start
//! remains able to start. So every interleaving computes the same values, and none deadlocks if one does not.
//!
//! *Memory that ranks share*, in schedules of program order. A rank is a single thread of events, and its
//! next event depends only on being allowed to continue. It may continue when it awaits a flag that has
//! reached a value. A flag belongs to one rank and only grows, so a rank that may continue always may. Hence
//! every interleaving runs the same events, each rank's in the same order, and deadlocks if one does.
//!
//! The content that an event reads is the same too. An await orders the rank after the *first* post that
//! suffices. In every interleaving that post comes before the await returns; a later one may also be there,
//! and adds order but removes none. So the order by vector clocks ([`clocks`]) that is checked here holds in
//! all interleavings. It orders any two conflicting accesses to a unit. Therefore a read sees the last write
//! before it in that order, which is the same in every interleaving, and by induction along the order its
//! value is the same. On the machine, a post releases and an await acquires, which makes that order the one
//! of the memory model.
//!
//! *Leaving.* A rank's own memory belongs to its caller again when it leaves. So at the end all accesses of
//! others to its exposed memory must precede its last event. Banks are exempt: the next user of a bank waits
//! until all ranks have left.

mod accesses;
mod case;
mod clocks;
mod files;
mod groups;
mod machine;
mod memory;
mod neighbourhood;
mod races;
mod signals;
#[cfg(test)]
mod tests;
mod value;

use std::fmt;

pub use case::{Case, Pattern, Sums};
use machine::Machine;
use value::{Atom, Values};

use crate::cursor::Instance;
use crate::generator::Association;
use crate::hierarchy::Hierarchy;
use crate::ir::{BufferId, Kind, Length, Loop, Order, Schedule, Span, Start, Step, Table};

/// Fault of a schedule, as a text for users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    what: String,
}

impl Fault {
    fn new(what: String) -> Fault {
        Fault { what }
    }

    fn at_rank(self, rank: u32) -> Fault {
        Fault::new(format!("rank {rank}: {}", self.what))
    }

    fn in_step(self, instance: Instance) -> Fault {
        Fault::new(format!("step {} (iteration {}): {}", instance.step.0, instance.iteration, self.what))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Fault {}

/// Checks that `schedules`, one for each rank, implement `case`.
///
/// # Errors
/// Returns the first fault found.
///
/// # Examples
/// ```
/// use tutti_coll::verify::{Case, Pattern, verify};
/// use tutti_coll::{Collective, Params, registry};
///
/// let params = Params::default();
/// let (collective, ranks, pattern) = (Collective::Bcast, 5, Pattern::Whole);
/// let case =
///     Case { collective, ranks, root: 2, count: 16, commutative: true, in_place: false, params, pattern };
/// let known = |one: &&tutti_coll::Generator| one.collective == collective && one.name == "knomial";
/// let knomial = registry().iter().find(known).expect("it is registered");
/// let schedules: Vec<_> = (0..ranks).map(|rank| knomial.generate(&case.shape(rank), &params)).collect();
/// assert_eq!(verify(&case, &schedules), Ok(()));
/// ```
pub fn verify(case: &Case, schedules: &[Schedule]) -> Result<(), Fault> {
    verify_as(case, schedules, Association::Free)
}

/// Checks that `schedules` implement `case`, and combine operands in the order of `association`. With an
/// operator that does not commute, every element of the result is then one fixed expression, whatever the
/// arithmetic of the computer.
///
/// # Errors
/// Returns the first fault found.
pub fn verify_as(case: &Case, schedules: &[Schedule], association: Association) -> Result<(), Fault> {
    verify_on(case, schedules, association, None)
}

/// Checks like [`verify_as`], for ranks on several hosts: only ranks of one host can access each other's
/// flags and memory.
///
/// # Errors
/// Returns the first fault found.
pub fn verify_on(
    case: &Case,
    schedules: &[Schedule],
    association: Association,
    hosts: Option<&Hierarchy>,
) -> Result<(), Fault> {
    let sums: Vec<Sums> = (0..case.ranks)
        .zip(schedules)
        .map(|(rank, schedule)| case.sums(rank).with_permutation_of(schedule))
        .collect();
    for (rank, schedule) in (0..).zip(schedules) {
        bounded(case, rank, schedule).map_err(|fault| fault.at_rank(rank))?;
        if schedule.order == Order::Edges {
            races::check(schedule, &sums[rank as usize].tables()).map_err(|fault| fault.at_rank(rank))?;
        }
        if (schedule.order, schedule.bank) != (schedules[0].order, schedules[0].bank) {
            return Err(
                Fault::new("differs from rank 0 in its order or the size of the bank".into()).at_rank(rank)
            );
        }
    }
    let mut machine = Machine::new(case, schedules, &sums, hosts);
    machine.values.associate(association);
    machine.run()?;
    machine.check()
}

/// The expressions that results are, of several algorithms for as many ranks: where they are equal, so are
/// the bits, whatever the numbers of a computer are.
#[derive(Debug)]
pub struct Expressions(Values);

/// Expressions of the elements of all ranks' results; to be compared with those of the same [`Expressions`].
#[derive(Debug, PartialEq, Eq)]
pub struct Results(Vec<Vec<Atom>>);

impl Expressions {
    /// Returns an empty set of expressions for `ranks` ranks.
    pub fn new(ranks: u32) -> Expressions {
        let mut values = Values::new(ranks);
        values.keep_trees();
        Expressions(values)
    }

    /// Returns the results of `schedules`, which are proved first.
    ///
    /// # Errors
    /// The first fault found.
    pub fn results_of(
        &mut self,
        case: &Case,
        schedules: &[Schedule],
        hosts: Option<&Hierarchy>,
    ) -> Result<Results, Fault> {
        verify_on(case, schedules, Association::Free, hosts)?;
        let sums: Vec<Sums> = (0..case.ranks)
            .zip(schedules)
            .map(|(rank, schedule)| case.sums(rank).with_permutation_of(schedule))
            .collect();
        let mut machine = Machine::new(case, schedules, &sums, hosts);
        std::mem::swap(&mut machine.values, &mut self.0);
        let result = machine.run();
        let results = (0..case.ranks).map(|rank| machine.result(rank).to_vec()).collect();
        std::mem::swap(&mut machine.values, &mut self.0);
        result.map(|()| Results(results))
    }
}

fn bounded(case: &Case, rank: u32, schedule: &Schedule) -> Result<(), Fault> {
    if schedule.unit != case.collective.unit() {
        return Err(Fault::new("the unit is not that of the collective".into()));
    }
    let (units, bound) = (schedule.temporary_units(), case.temporary_bound(rank));
    if units > bound {
        return Err(Fault::new(format!("{units} units of temporaries, more than {bound}")));
    }
    let bound = case.bank_bound();
    if schedule.bank > bound {
        return Err(Fault::new(format!("a bank of {} units, more than {bound}", schedule.bank)));
    }
    let local = schedule.bank > 0 || schedule.steps.iter().any(|step| is_local(&step.kind));
    if schedule.order == Order::Edges && local {
        return Err(Fault::new("steps within a node need program order".into()));
    }
    if !are_strands(schedule) {
        return Err(Fault::new(format!("strands begin at invalid steps: {:?}", schedule.strands)));
    }
    if schedule.order == Order::Program && schedule.steps.iter().any(|step| !step.after.is_empty()) {
        return Err(Fault::new("there are no edges in program order".into()));
    }
    if let Some(step) = schedule.steps.iter().position(|step| !whole_entries(case, step)) {
        return Err(Fault::new(format!("step {step}: a span of a buffer with a table is one entry")));
    }
    // A rank may communicate with each other rank of its host one by one, if their ranks follow no rule.
    let neighbours = if schedule.strands.is_empty() { 0 } else { case.ranks };
    let bound = most_steps(case, rank, neighbours);
    if schedule.steps.len() as u64 > bound {
        return Err(Fault::new(format!("{} steps, more than {bound}", schedule.steps.len())));
    }
    Ok(())
}

/// Returns the largest number of steps that a schedule may have. It is proportional to the logarithm of the
/// number of ranks, plus some for each of the `neighbours` that a rank communicates with one by one.
pub fn most_steps(case: &Case, rank: u32, neighbours: u32) -> u64 {
    let log = u64::from(u32::BITS - case.ranks.leading_zeros());
    let degree = u64::from(case.params.radix.min(case.ranks));
    let edges = case.neighbours(rank);
    let edges = (edges.sources.len() + edges.destinations.len()) as u64;
    // In an operation on a file, aggregators communicate with all ranks, and all ranks with the aggregators.
    let members = if case.collective.is_of_files() { 2 * u64::from(case.ranks) } else { 0 };
    40 + 12 * log * (degree + 1) + 4 * u64::from(neighbours) + edges + members
}

/// Returns true if strands begin at steps, one after the other, and outside of loops.
fn are_strands(schedule: &Schedule) -> bool {
    let mut last = 0;
    schedule.strands.iter().all(|first| {
        let within = |this: &Loop| this.first < *first && *first < this.first + this.steps;
        let ascends = last < *first && (*first as usize) < schedule.steps.len();
        last = *first;
        ascends && schedule.order == Order::Program && !schedule.loops.iter().any(within)
    })
}

/// Returns true if a step is one for ranks that share a node.
fn is_local(kind: &Kind) -> bool {
    match kind {
        Kind::Send { .. } | Kind::Recv { .. } | Kind::Copy { .. } | Kind::Reduce { .. } => false,
        Kind::Multicast { .. } | Kind::FileRead { .. } | Kind::FileWrite { .. } => false,
        Kind::Post { .. } | Kind::Await { .. } | Kind::Expose { .. } => true,
        Kind::Pull { .. } | Kind::Combine { .. } | Kind::Push { .. } => true,
        Kind::Pack { .. } | Kind::Unpack { .. } => true,
    }
}

/// Returns the table that describes a buffer, if its blocks lie anywhere.
fn table_of(case: &Case, buffer: BufferId) -> Option<Table> {
    use crate::shape::Collective as C;
    match (case.collective, buffer) {
        (
            C::Gatherv | C::Allgatherv | C::Alltoallv | C::NeighborAllgatherv | C::NeighborAlltoallv,
            BufferId::RECV,
        ) => Some(Table::Recv),
        (C::Scatterv | C::Alltoallv | C::NeighborAlltoallv, BufferId::SEND) => Some(Table::Send),
        _ => None,
    }
}

/// Returns true if the spans of a step that lie in a buffer given by a table are entries of it.
fn whole_entries(case: &Case, step: &Step) -> bool {
    let spans = [step.kind.reads(), step.kind.writes()];
    spans
        .into_iter()
        .flatten()
        .all(|span| span.is_signal() || table_of(case, span.buffer).is_none() || is_entry(span))
}

/// Returns true if a span is an entry of a table, or a part of one.
fn is_entry(span: &Span) -> bool {
    match (span.start, span.length) {
        (Start::Block { division, index }, Length::Blocks { division: measured, index: same, count: 1 }) => {
            division == measured && index == same
        }
        (Start::Permuted { division, index }, Length::Permuted { division: measured, index: same }) => {
            division == measured && index == same
        }
        (Start::Part { division, index, part, parts }, Length::Part { .. }) => {
            span.length == Length::Part { division, index, part, parts }
        }
        (Start::Block { division, index }, Length::Beyond { division: measured, index: same, .. }) => {
            division == measured && index == same
        }
        _ => false,
    }
}
