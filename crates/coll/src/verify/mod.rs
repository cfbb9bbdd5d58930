//! Proves schedules: runs those of all ranks on symbolic data ([`value`], [`memory`]) against what the
//! standard asks for ([`case`]; for a barrier, [`signals`]), with sends that complete only when they are
//! received, and checks that nothing depends on timing ([`races`] within a rank, [`accesses`] between ranks).
//!
//! # One execution stands for all
//! *Messages.* Steps without order do not conflict, messages match by program order, and what may start stays
//! able to start; so every interleaving computes the same values and none gets stuck if one does not.
//!
//! *Memory that ranks share*, in schedules of program order. A rank is a single thread of events, and what it
//! does next depends on nothing but that it may go on. It may when it awaits a flag that has reached a value;
//! a flag belongs to one rank and only grows, so that once it may go on it always may. Hence every
//! interleaving runs the same events, each rank's in the same order, and gets stuck where one does. What an
//! event reads is the same too: an await orders the rank after the *first* post that suffices, which in every
//! interleaving comes before the await returns (a later one may be there as well, and orders more, never
//! less). So the order by vector clocks ([`clocks`]) that is checked here holds in all interleavings. Any two
//! conflicting accesses to a unit are ordered by it; therefore the write that a read sees is the last one
//! before it in that order, the same one in every interleaving, and by induction along the order, so is its
//! value. On the machine, a post releases and an await acquires, which makes that order the one of the memory
//! model.
//!
//! *Leaving.* A rank's own memory belongs to its caller again when it leaves. So at the end all accesses of
//! others to what it exposed come before its last event. Banks are exempt: who uses one next waits until all
//! have left.

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

/// Why schedules are wrong, for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    what: String,
}

impl Fault {
    fn new(what: String) -> Fault {
        Fault { what }
    }

    fn at(self, rank: u32) -> Fault {
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

/// Checks that `schedules` (one a rank) do what `case` asks for.
///
/// # Errors
/// The first fault found.
pub fn verify(case: &Case, schedules: &[Schedule]) -> Result<(), Fault> {
    verify_as(case, schedules, Association::Free)
}

/// Checks that `schedules` do what `case` asks for, and combine operands as `association` says: with an
/// operator that does not commute, every element of the result is then one expression, whatever the numbers
/// of a computer are.
///
/// # Errors
/// The first fault found.
pub fn verify_as(case: &Case, schedules: &[Schedule], association: Association) -> Result<(), Fault> {
    verify_on(case, schedules, association, None)
}

/// The same, for ranks of several hosts: flags and memory are in reach of those of one host only.
///
/// # Errors
/// The first fault found.
pub fn verify_on(
    case: &Case,
    schedules: &[Schedule],
    association: Association,
    hosts: Option<&Hierarchy>,
) -> Result<(), Fault> {
    let sums: Vec<Sums> =
        (0..case.ranks).zip(schedules).map(|(rank, schedule)| case.sums(rank).with(schedule)).collect();
    for (rank, schedule) in (0..).zip(schedules) {
        bounded(case, rank, schedule).map_err(|fault| fault.at(rank))?;
        if schedule.order == Order::Edges {
            races::check(schedule, &sums[rank as usize].tables()).map_err(|fault| fault.at(rank))?;
        }
        if (schedule.order, schedule.bank) != (schedules[0].order, schedules[0].bank) {
            return Err(
                Fault::new("differs from rank 0 in its order or the size of the bank".into()).at(rank)
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
    /// For so many ranks.
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
        let sums: Vec<Sums> =
            (0..case.ranks).zip(schedules).map(|(rank, schedule)| case.sums(rank).with(schedule)).collect();
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
        return Err(Fault::new(format!("has no such strands: {:?}", schedule.strands)));
    }
    if schedule.order == Order::Program && schedule.steps.iter().any(|step| !step.after.is_empty()) {
        return Err(Fault::new("there are no edges in program order".into()));
    }
    if let Some(step) = schedule.steps.iter().position(|step| !whole_entries(case, step)) {
        return Err(Fault::new(format!("step {step}: a span of a buffer with a table is one entry")));
    }
    // A rank may deal with each neighbour on its host, one by one where their ranks follow no rule.
    let neighbours = if schedule.strands.is_empty() { 0 } else { case.ranks };
    let bound = most_steps(case, rank, neighbours);
    if schedule.steps.len() as u64 > bound {
        return Err(Fault::new(format!("{} steps, more than {bound}", schedule.steps.len())));
    }
    Ok(())
}

/// The most steps that a schedule may have: as the logarithm of the number of ranks, and some for each of the
/// `neighbours` that a rank deals with one by one.
pub fn most_steps(case: &Case, rank: u32, neighbours: u32) -> u64 {
    let log = u64::from(u32::BITS - case.ranks.leading_zeros());
    let degree = u64::from(case.params.radix.min(case.ranks));
    let edges = case.neighbours(rank);
    let edges = (edges.sources.len() + edges.destinations.len()) as u64;
    // Of a file, each has to do with those that access it, and these with all.
    let members = if case.collective.is_of_files() { 2 * u64::from(case.ranks) } else { 0 };
    40 + 12 * log * (degree + 1) + 4 * u64::from(neighbours) + edges + members
}

/// Whether strands begin at steps, one after the other, and outside of loops.
fn are_strands(schedule: &Schedule) -> bool {
    let mut last = 0;
    schedule.strands.iter().all(|first| {
        let within = |this: &Loop| this.first < *first && *first < this.first + this.steps;
        let ascends = last < *first && (*first as usize) < schedule.steps.len();
        last = *first;
        ascends && schedule.order == Order::Program && !schedule.loops.iter().any(within)
    })
}

/// Whether a step is one for ranks that share a node.
fn is_local(kind: &Kind) -> bool {
    match kind {
        Kind::Send { .. } | Kind::Recv { .. } | Kind::Copy { .. } | Kind::Reduce { .. } => false,
        Kind::Multicast { .. } | Kind::FileRead { .. } | Kind::FileWrite { .. } => false,
        Kind::Post { .. } | Kind::Await { .. } | Kind::Expose { .. } => true,
        Kind::Pull { .. } | Kind::Combine { .. } | Kind::Push { .. } => true,
        Kind::Pack { .. } | Kind::Unpack { .. } => true,
    }
}

/// The table that describes a buffer, if its blocks lie anywhere.
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

/// Whether the spans of a step that lie in a buffer given by a table are entries of it.
fn whole_entries(case: &Case, step: &Step) -> bool {
    let spans = [step.kind.reads(), step.kind.writes()];
    spans
        .into_iter()
        .flatten()
        .all(|span| span.is_signal() || table_of(case, span.buffer).is_none() || is_entry(span))
}

/// Whether a span is an entry of a table, or a part of one.
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
