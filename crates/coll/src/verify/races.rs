//! Check for races within a rank: two unordered executions of steps do not touch the same memory (unless both
//! read), and do not use one lane towards one peer.
//!
//! The loops are unrolled, and every instance gets the set of instances that are complete before it starts.
//! Together with deterministic matching this makes the outcome of one execution that of all.

use super::Fault;
use crate::cursor::Instance;
use crate::ir::{Edge, Kind, Range, Schedule, StepId, Tables};

/// Instances of a schedule in program order, and the predecessors of each.
struct Order {
    instances: Vec<Instance>,
    /// For each step, index of its first instance, and distance between instances of consecutive iterations.
    place: Vec<(usize, usize)>,
    words: usize,
    /// Sets of `words` words for each instance: bit b is set if instance b is complete before it starts.
    before: Vec<u64>,
}

impl Order {
    fn new(schedule: &Schedule) -> Order {
        let mut order = Order { instances: Vec::new(), place: Vec::new(), words: 0, before: Vec::new() };
        let mut step = 0;
        while step < schedule.steps.len() {
            let (steps, count) = match schedule.steps[step].in_loop {
                None => (1, 1),
                Some(number) => {
                    let this = schedule.loops[usize::from(number)];
                    (this.steps as usize, this.count)
                }
            };
            let first = order.instances.len();
            order.place.extend((0..steps).map(|offset| (first + offset, steps)));
            order.instances.extend((0..count).flat_map(|iteration| {
                (step..step + steps).map(move |step| Instance { step: StepId(step as u32), iteration })
            }));
            step += steps;
        }
        order.words = order.instances.len().div_ceil(64);
        order.before = vec![0; order.words * order.instances.len()];
        order
    }

    fn number(&self, step: StepId, iteration: u32) -> usize {
        let (first, apart) = self.place[step.0 as usize];
        first + iteration as usize * apart
    }

    fn comes_after(&mut self, instance: usize, earlier: usize) {
        let (head, tail) = self.before.split_at_mut(instance * self.words);
        let source = &head[earlier * self.words..(earlier + 1) * self.words];
        tail[..self.words].iter_mut().zip(source).for_each(|(into, from)| *into |= from);
        tail[earlier / 64] |= 1 << (earlier % 64);
    }

    fn fill(&mut self, schedule: &Schedule) -> Result<(), Fault> {
        // Instances that are complete when an iteration of the present loop may start, and the next one to
        // complete.
        let mut complete = vec![0; self.words];
        let mut next = 0;
        for number in 0..self.instances.len() {
            let Instance { step, iteration } = self.instances[number];
            let this = &schedule.steps[step.0 as usize];
            if let Some(in_loop) = this.in_loop {
                let this = schedule.loops[usize::from(in_loop)];
                let first = self.number(StepId(this.first), 0);
                if number == first {
                    complete.fill(0);
                    next = first;
                }
                let end = first + ((iteration + 1).saturating_sub(this.window) * this.steps) as usize;
                for earlier in std::mem::replace(&mut next, end)..end {
                    complete[earlier / 64] |= 1 << (earlier % 64);
                    let before = &self.before[earlier * self.words..];
                    complete.iter_mut().zip(before).for_each(|(into, from)| *into |= from);
                }
                let before = &mut self.before[number * self.words..];
                before.iter_mut().zip(&complete).for_each(|(into, from)| *into |= from);
            }
            for edge in &this.after {
                self.follow(schedule, number, edge)?;
            }
        }
        Ok(())
    }

    fn follow(&mut self, schedule: &Schedule, number: usize, edge: &Edge) -> Result<(), Fault> {
        let iteration = self.instances[number].iteration;
        let count = schedule.iterations(edge.step);
        let wanted = match edge.distance {
            Edge::WHOLE => 0..count,
            distance if iteration < distance => return Ok(()),
            distance => {
                let other = (iteration - distance).min(count - 1);
                other..other + 1
            }
        };
        for other in wanted {
            let earlier = self.number(edge.step, other);
            if earlier >= number {
                return Err(Fault::new(format!("an edge to step {} leads forward", edge.step.0)));
            }
            // An instance that is known already adds nothing: its predecessors are known too.
            if self.before[number * self.words + earlier / 64] >> (earlier % 64) & 1 == 0 {
                self.comes_after(number, earlier);
            }
        }
        Ok(())
    }

    /// Calls `visit` with every pair of instances that nothing orders, the later first.
    fn unordered(&self, mut visit: impl FnMut(usize, usize) -> Result<(), Fault>) -> Result<(), Fault> {
        for later in 0..self.instances.len() {
            let before = &self.before[later * self.words..(later + 1) * self.words];
            for (number, word) in before.iter().enumerate().take(later / 64 + 1) {
                let mut open = !word;
                if number == later / 64 {
                    open &= (1 << (later % 64)) - 1;
                }
                while open != 0 {
                    visit(later, number * 64 + open.trailing_zeros() as usize)?;
                    open &= open - 1;
                }
            }
        }
        Ok(())
    }
}

/// The memory and the lane that an instance uses.
struct Uses {
    reads: Option<Range>,
    writes: Option<Range>,
    /// Direction (true for sending), peer and lane of a message.
    lane: Option<(bool, u64, u16)>,
}

impl Uses {
    fn new(kind: &Kind, iteration: u32, tables: &Tables<'_>) -> Uses {
        let range = |span: Option<&crate::ir::Span>| {
            span.filter(|span| !span.is_signal())
                .map(|span| span.in_iteration(iteration, tables))
                .filter(|range| range.length > 0)
        };
        let (reads, writes) = (range(kind.reads()), range(kind.writes()));
        let silent = reads.is_none() && writes.is_none();
        let lane = match kind {
            Kind::Send { peer, lane, from } if from.is_signal() || !silent => {
                Some((true, peer.in_iteration(iteration), *lane))
            }
            // One entry for all members: two groups that use one lane must not have a member in common.
            Kind::Multicast { group, lane, from } if from.is_signal() || !silent => {
                Some((true, u64::MAX - u64::from(*group), *lane))
            }
            Kind::Recv { peer, lane, into } if into.is_signal() || !silent => {
                Some((false, peer.in_iteration(iteration), *lane))
            }
            _ => None,
        };
        Uses { reads, writes, lane }
    }

    fn conflicts(&self, other: &Uses) -> bool {
        let overlap = |one: &Option<Range>, two: &Option<Range>| match (one, two) {
            (Some(one), Some(two)) => one.overlaps(two),
            _ => false,
        };
        overlap(&self.writes, &other.writes)
            || overlap(&self.writes, &other.reads)
            || overlap(&self.reads, &other.writes)
    }
}

/// Checks one rank's schedule for races.
pub(super) fn check(schedule: &Schedule, tables: &Tables<'_>) -> Result<(), Fault> {
    let mut order = Order::new(schedule);
    order.fill(schedule)?;
    let uses: Vec<Uses> = order
        .instances
        .iter()
        .map(|instance| Uses::new(&schedule.steps[instance.step.0 as usize].kind, instance.iteration, tables))
        .collect();
    order.unordered(|later, earlier| {
        let (one, two) = (&uses[earlier], &uses[later]);
        let what = if one.conflicts(two) {
            "touch the same memory"
        } else if one.lane.is_some()
            && one.lane == two.lane
            && order.instances[earlier].step != order.instances[later].step
        {
            "use one lane to one peer"
        } else {
            return Ok(());
        };
        let (one, two) = (order.instances[earlier], order.instances[later]);
        Err(Fault::new(format!(
            "steps {} (iteration {}) and {} (iteration {}) are not ordered and {what}",
            one.step.0, one.iteration, two.step.0, two.iteration
        )))
    })
}
