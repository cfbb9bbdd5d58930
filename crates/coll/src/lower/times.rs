//! Time of a lowered operation: the reference machines of all ranks with a clock.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::machine::{Machine, Operation, Packet, Purpose, Verdict};
use super::program::Program;

/// Durations of the elementary actions, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// Time from a rank to its interface.
    pub call: u64,
    /// Time from an interface to another one, including the processing of the packet there.
    pub hop: u64,
    /// Time for each further packet that an interface sends at once.
    pub more: u64,
    /// Time from an interface to its rank.
    pub told: u64,
}

impl Costs {
    /// Times of the program in the kernel. Chains of 2, 4, 8 and 16 hosts of the testbed take 9.3 us plus
    /// 3.48 us a hop, within 7 %; a round trip is two calls and two ends. A step takes 72 ns.
    pub const KERNEL: Costs = Costs { call: 2330, hop: 3480, more: 72, told: 2330 };
    /// Processes that poll all the time, each on a processor of its own; half of a measured round trip.
    pub const PROCESSES: Costs = Costs { call: 0, hop: 8100, more: 1000, told: 0 };
}

/// Returns the time from the simultaneous call of all ranks until the last one has completed, in nanoseconds.
/// `programs` has the programs of all ranks; data are not simulated.
pub fn completion_ns(programs: &[Program], costs: &Costs) -> u64 {
    let none = |_: u8, _: &[u8], _: &[u8]| Vec::new();
    let machine = |program: &Program| Machine::new(program.rank, vec![program.clone()], none);
    let mut machines: Vec<Machine> = programs.iter().map(machine).collect();
    let mut free = vec![0; machines.len()];
    let mut queue = BinaryHeap::new();
    let mut waiting: Vec<Packet> = Vec::new();
    for program in programs {
        let (from, to) = (program.rank, program.rank);
        waiting.push(Packet {
            sequence: 1,
            operation: Operation::default(),
            from,
            to,
            purpose: Purpose::Enter,
            data: Vec::new(),
        });
        queue.push(Reverse((costs.call, waiting.len() - 1)));
    }
    let (mut last, mut out) = (0, Vec::new());
    while let Some(Reverse((time, number))) = queue.pop() {
        let packet = waiting[number].clone();
        let place = packet.to as usize;
        let begun = time.max(free[place]);
        if machines[place].take(&packet, &mut out) == Verdict::Complete {
            last = last.max(begun + costs.told);
        }
        free[place] = begun;
        for packet in out.drain(..) {
            waiting.push(packet);
            queue.push(Reverse((free[place] + costs.hop, waiting.len() - 1)));
            free[place] += costs.more;
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lower::lower;
    use crate::{Collective, Params, Shape, registry};

    fn check(ranks: u32, costs: &Costs, expected: u64) {
        let generator = registry()
            .iter()
            .find(|one| one.collective == Collective::Barrier && one.name == "dissemination")
            .expect("it is registered");
        let shape = |rank| Shape::new(Collective::Barrier, ranks, rank, 0);
        let schedules: Vec<_> =
            (0..ranks).map(|rank| generator.generate(&shape(rank), &Params::default())).collect();
        let programs = lower(&shape(0), &schedules).expect("it is lowered");
        assert_eq!(completion_ns(&programs, costs), expected, "{ranks} ranks");
    }

    #[test]
    fn a_barrier_takes_a_hop_a_round() {
        let costs = Costs { call: 5, hop: 100, more: 1, told: 7 };
        check(2, &costs, 112);
        check(16, &costs, 412);
        check(17, &costs, 512);
        check(1024, &costs, 1012);
    }
}
