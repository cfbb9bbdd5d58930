//! Proves schedules: runs those of all ranks on symbolic data ([`value`]) against what the standard
//! asks for ([`case`]; for a barrier, [`signals`]), with sends that complete only when they are
//! received, and checks that nothing depends on timing ([`races`]).
//!
//! One execution stands for all: steps without order do not conflict, messages match by program
//! order, and what may start stays able to start; so every interleaving computes the same values and
//! none gets stuck if one does not.

mod case;
mod races;
mod signals;
mod value;

use std::fmt;

pub use case::{Case, Sums};
use signals::Signals;
use value::{Atom, Values};

use crate::cursor::{Cursor, Instance};
use crate::ir::{BufferId, Kind, Length, Range, Schedule, Span, Start, Step, Tables};
use crate::shape::Collective;

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
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Fault {}

/// No schedule uses a lane from here on; a transport may count on it.
pub const LANES: u16 = 16;

/// Checks that `schedules` (one a rank) do what `case` asks for.
///
/// # Errors
/// The first fault found.
pub fn verify(case: &Case, schedules: &[Schedule]) -> Result<(), Fault> {
    let sums: Vec<Sums> = (0..case.ranks).map(|rank| case.sums(rank)).collect();
    for (rank, schedule) in (0..).zip(schedules) {
        bounded(case, rank, schedule).map_err(|fault| fault.at(rank))?;
        races::check(schedule, &sums[rank as usize].tables()).map_err(|fault| fault.at(rank))?;
    }
    let mut machine = Machine::new(case, schedules, &sums);
    machine.run()?;
    machine.check(case)
}

fn bounded(case: &Case, rank: u32, schedule: &Schedule) -> Result<(), Fault> {
    if schedule.unit != case.collective.unit() {
        return Err(Fault::new("the unit is not that of the collective".into()));
    }
    let (units, bound) = (schedule.temporary_units(), case.temporary_bound(rank));
    if units > bound {
        return Err(Fault::new(format!("{units} units of temporaries, more than {bound}")));
    }
    if let Some(step) = schedule.steps.iter().position(|step| !whole_entries(case, step)) {
        return Err(Fault::new(format!("step {step}: a span of a buffer with a table is one entry")));
    }
    let log = u64::from(u32::BITS - case.ranks.leading_zeros());
    let degree = u64::from(case.params.radix.min(case.ranks));
    let bound = 40 + 12 * log * (degree + 1);
    if schedule.steps.len() as u64 > bound {
        return Err(Fault::new(format!("{} steps, more than {bound}", schedule.steps.len())));
    }
    Ok(())
}

/// One side of a message that waits for the other.
struct Posted {
    rank: u32,
    peer: u32,
    lane: u16,
    instance: Instance,
    range: Option<Range>,
}

/// All ranks.
struct Machine<'a> {
    schedules: &'a [Schedule],
    sums: &'a [Sums],
    values: Values,
    cursors: Vec<Cursor>,
    /// Send, receive and temporaries of every rank.
    memory: Vec<Vec<Vec<Atom>>>,
    /// By the rank that receives.
    sends: Vec<Vec<Posted>>,
    recvs: Vec<Vec<Posted>>,
    /// For a barrier.
    signals: Option<Signals>,
}

impl<'a> Machine<'a> {
    fn new(case: &Case, schedules: &'a [Schedule], sums: &'a [Sums]) -> Machine<'a> {
        let memory = (0..case.ranks).zip(schedules).map(|(rank, schedule)| {
            let mut buffers = Vec::from(case.initial(rank));
            let temporaries = schedule.temporaries.iter();
            buffers.extend(temporaries.map(|&units| vec![Atom::UNDEFINED; units as usize]));
            buffers
        });
        let cursors = schedules.iter().map(|schedule| {
            let mut cursor = Cursor::default();
            cursor.reset(schedule);
            cursor
        });
        Machine {
            schedules,
            sums,
            values: Values::new(case.ranks),
            memory: memory.collect(),
            cursors: cursors.collect(),
            sends: schedules.iter().map(|_| Vec::new()).collect(),
            recvs: schedules.iter().map(|_| Vec::new()).collect(),
            signals: (case.collective == Collective::Barrier).then(|| Signals::new(schedules.len())),
        }
    }

    fn run(&mut self) -> Result<(), Fault> {
        let mut awake: Vec<u32> = (0..self.schedules.len() as u32).rev().collect();
        while let Some(rank) = awake.pop() {
            let posted = self.advance(rank).map_err(|fault| fault.at(rank))?;
            for (receiver, sent) in posted {
                self.matches(receiver, sent, &mut awake)?;
            }
        }
        for (rank, schedule) in self.schedules.iter().enumerate() {
            if !self.cursors[rank].finished(schedule) {
                let waits = self.sends.iter().chain(&self.recvs).flatten();
                let steps: Vec<_> = waits
                    .filter(|posted| posted.rank == rank as u32)
                    .map(|posted| (posted.instance.step.0, posted.instance.iteration, posted.peer))
                    .collect();
                let what = format!("deadlock; open (step, iteration, peer): {steps:?}");
                return Err(Fault::new(what).at(rank as u32));
            }
        }
        match self.sends.iter().flatten().next() {
            Some(posted) => Err(Fault::new("sends what nobody receives".into()).at(posted.rank)),
            None => Ok(()),
        }
    }

    /// Starts what may start at `rank`. Returns, for every message posted, the rank that receives it
    /// and the one that sends it.
    fn advance(&mut self, rank: u32) -> Result<Vec<(u32, u32)>, Fault> {
        let index = rank as usize;
        let (schedule, sums) = (&self.schedules[index], &self.sums[index]);
        let Machine { values, cursors, memory, sends, recvs, .. } = self;
        let tables = sums.tables();
        let buffers = &mut memory[index];
        let mut posted = Vec::new();
        let ranks = self.schedules.len() as u64;
        cursors[index].advance(schedule, |instance| {
            let kind = &schedule.steps[instance.step.0 as usize].kind;
            let (into, peer, lane, span) = match kind {
                Kind::Send { peer, lane, from } => (false, peer, *lane, from),
                Kind::Recv { peer, lane, into } => (true, peer, *lane, into),
                Kind::Copy { from, into } => {
                    local(values, buffers, from, into, instance, &tables, |_, left, _| Some(left))?;
                    return Ok(true);
                }
                Kind::Reduce { left, right } => {
                    local(values, buffers, left, right, instance, &tables, |values, left, right| {
                        values.combine(left, right)
                    })?;
                    return Ok(true);
                }
                Kind::Post { .. } | Kind::Await { .. } | Kind::Expose { .. } => todo!(),
                Kind::Pull { .. } | Kind::Combine { .. } | Kind::Push { .. } => todo!(),
            };
            let peer = peer.at(instance.iteration);
            if peer >= ranks || peer == u64::from(rank) || lane >= LANES {
                return Err(Fault::new(format!("step {} has no such peer or lane", instance.step.0)));
            }
            let peer = peer as u32;
            let range = resolve(buffers, span, instance, into, &tables)?;
            if range.is_some_and(|range| range.length == 0) {
                return Ok(true);
            }
            let waits = Posted { rank, peer, lane, instance, range };
            if into {
                recvs[index].push(waits);
                posted.push((rank, peer));
            } else {
                sends[peer as usize].push(waits);
                posted.push((peer, rank));
            }
            Ok(false)
        })?;
        Ok(posted)
    }

    /// Completes every message from `sender` to `receiver` of which both sides are there.
    fn matches(&mut self, receiver: u32, sender: u32, awake: &mut Vec<u32>) -> Result<(), Fault> {
        let (sends, recvs) = (&mut self.sends[receiver as usize], &mut self.recvs[receiver as usize]);
        let mut seen = 0_u64;
        let mut next = 0;
        while let Some(found) = sends[next..].iter().position(|send| send.rank == sender) {
            next += found;
            let lane = sends[next].lane;
            let recv = recvs.iter().position(|recv| recv.peer == sender && recv.lane == lane);
            let (Some(recv), 0) = (recv, seen >> lane & 1) else {
                seen |= 1 << lane;
                next += 1;
                continue;
            };
            let (send, recv) = (sends.remove(next), recvs.remove(recv));
            let length = |range: Option<Range>| range.map_or(0, |range| range.length);
            if length(send.range) != length(recv.range) || send.range.is_some() != recv.range.is_some() {
                return Err(Fault::new(format!(
                    "step {} sends {:?} to rank {receiver}, whose step {} receives {:?}",
                    send.instance.step.0, send.range, recv.instance.step.0, recv.range
                ))
                .at(sender));
            }
            if let (Some(from), Some(into)) = (send.range, recv.range) {
                let data = self.memory[sender as usize][usize::from(from.buffer.0)]
                    [from.start as usize..from.end() as usize]
                    .to_vec();
                self.memory[receiver as usize][usize::from(into.buffer.0)]
                    [into.start as usize..into.end() as usize]
                    .copy_from_slice(&data);
            }
            if let Some(signals) = &mut self.signals {
                signals.message(self.schedules, (sender, send.instance), (receiver, recv.instance));
            }
            self.cursors[sender as usize].complete(send.instance);
            self.cursors[receiver as usize].complete(recv.instance);
            awake.extend([sender, receiver]);
        }
        Ok(())
    }

    fn check(&self, case: &Case) -> Result<(), Fault> {
        if let Some(signals) = &self.signals {
            signals.check(case.ranks)?;
        }
        for rank in 0..case.ranks {
            let [_, before] = case.initial(rank);
            let after = &self.memory[rank as usize][1];
            case.check(rank, &before, after, &self.values)
                .map_err(|what| Fault::new(format!("wrong result: {what}")).at(rank))?;
        }
        Ok(())
    }
}

/// The range of a span, which must lie in its buffer; `None` for a signal.
fn resolve(
    buffers: &[Vec<Atom>],
    span: &Span,
    instance: Instance,
    written: bool,
    tables: &Tables<'_>,
) -> Result<Option<Range>, Fault> {
    if span.is_signal() {
        return Ok(None);
    }
    let range = span.at(instance.iteration, tables);
    let size = buffers.get(usize::from(range.buffer.0)).map_or(0, Vec::len) as u64;
    let step = instance.step.0;
    if range.end() > size {
        return Err(Fault::new(format!("step {step} touches {range:?} of a buffer of {size}")));
    }
    if written && range.buffer == BufferId::SEND {
        return Err(Fault::new(format!("step {step} writes the send buffer")));
    }
    Ok(Some(range))
}

fn local(
    values: &mut Values,
    buffers: &mut [Vec<Atom>],
    from: &Span,
    into: &Span,
    instance: Instance,
    tables: &Tables<'_>,
    combine: impl Fn(&mut Values, Atom, Atom) -> Option<Atom>,
) -> Result<(), Fault> {
    let step = instance.step.0;
    let source = resolve(buffers, from, instance, false, tables)?;
    let target = resolve(buffers, into, instance, true, tables)?;
    let (Some(source), Some(target)) = (source, target) else {
        return Err(Fault::new(format!("step {step} works on a signal")));
    };
    if source.length != target.length || source.overlaps(&target) {
        return Err(Fault::new(format!("step {step} overlaps or differs: {source:?}, {target:?}")));
    }
    for unit in 0..source.length {
        let left = buffers[usize::from(source.buffer.0)][(source.start + unit) as usize];
        let right = &mut buffers[usize::from(target.buffer.0)][(target.start + unit) as usize];
        *right = combine(values, left, *right).ok_or_else(|| {
            Fault::new(format!("step {step} combines {} and {}", values.show(left), values.show(*right)))
        })?;
    }
    Ok(())
}

/// Whether the spans of a step that lie in a buffer given by a table are entries of it.
fn whole_entries(case: &Case, step: &Step) -> bool {
    use crate::shape::Collective as C;
    let has_table = |span: &Span| match case.collective {
        C::Gatherv | C::Allgatherv => span.buffer == BufferId::RECV,
        C::Scatterv => span.buffer == BufferId::SEND,
        C::Alltoallv => span.buffer.temporary().is_none(),
        _ => false,
    };
    [step.kind.reads(), step.kind.writes()]
        .into_iter()
        .flatten()
        .all(|span| span.is_signal() || !has_table(span) || is_entry(span))
}

fn is_entry(span: &Span) -> bool {
    match (span.start, span.length) {
        (Start::Block { division, index }, Length::Blocks { division: measured, index: same, count: 1 }) => {
            division == measured && index == same
        }
        _ => false,
    }
}
