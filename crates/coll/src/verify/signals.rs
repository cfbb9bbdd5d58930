//! Specification of a barrier: no rank is done before every rank has begun. Every step carries the set of
//! ranks whose beginning precedes it, by edges and messages only, not by the time at which it happened.

use std::collections::HashMap;

use super::Fault;
use crate::cursor::Instance;
use crate::ir::{Edge, Schedule};

/// Set of ranks as a bit mask.
type Ranks = Box<[u64]>;

/// The knowledge of every step that was part of a message.
#[derive(Debug)]
pub(super) struct Signals {
    words: usize,
    known: HashMap<(u32, Instance), Ranks>,
}

impl Signals {
    pub fn new(ranks: usize) -> Signals {
        Signals { words: ranks.div_ceil(64), known: HashMap::new() }
    }

    /// Records a message; all that its sender waited for has been recorded before.
    pub fn message(&mut self, schedules: &[Schedule], sender: (u32, Instance), receiver: (u32, Instance)) {
        let sent = self.before(schedules, sender);
        let mut received = self.before(schedules, receiver);
        join(&mut received, &sent);
        self.known.insert(sender, sent);
        self.known.insert(receiver, received);
    }

    /// Checks that every rank has received signals that depend on all others.
    pub fn check(&self, ranks: u32) -> Result<(), Fault> {
        let mut all: Vec<Ranks> = (0..ranks).map(|rank| self.only(rank)).collect();
        self.known.iter().for_each(|((rank, _), known)| join(&mut all[*rank as usize], known));
        for (rank, all) in (0..).zip(all) {
            let heard: u32 = all.iter().map(|word| word.count_ones()).sum();
            if heard != ranks {
                return Err(
                    Fault::new(format!("leaves the barrier after {heard} of {ranks} entered")).at_rank(rank)
                );
            }
        }
        Ok(())
    }

    fn only(&self, rank: u32) -> Ranks {
        let mut ranks = vec![0; self.words];
        ranks[rank as usize / 64] |= 1 << (rank % 64);
        ranks.into()
    }

    fn before(&self, schedules: &[Schedule], (rank, instance): (u32, Instance)) -> Ranks {
        let schedule = &schedules[rank as usize];
        let mut ranks = self.only(rank);
        for edge in &schedule.steps[instance.step.0 as usize].after {
            let count = schedule.iterations(edge.step);
            let iterations = match edge.distance {
                Edge::WHOLE => 0..count,
                distance if instance.iteration < distance => continue,
                distance => {
                    let iteration = (instance.iteration - distance).min(count - 1);
                    iteration..iteration + 1
                }
            };
            for iteration in iterations {
                if let Some(known) = self.known.get(&(rank, Instance { step: edge.step, iteration })) {
                    join(&mut ranks, known);
                }
            }
        }
        ranks
    }
}

fn join(into: &mut Ranks, from: &Ranks) {
    into.iter_mut().zip(from).for_each(|(into, from)| *into |= from);
}
