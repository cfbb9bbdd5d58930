//! Comparison of lowered schedules, on interfaces with every fault, with the schedules themselves.

use std::collections::{HashMap, VecDeque};
use std::fmt::Write;

use tutti_coll::cursor::{Cursor, Instance};
use tutti_coll::ir::{BufferId, Kind as Step, Schedule, Span, Tables};
use tutti_coll::lower::{
    self, ENTERED, LoweringError, Machine, Operation, Packet, Program, Purpose, Verdict, lower,
};
use tutti_coll::{Collective, Params, Shape, registry};

/// Bytes of a block.
const BYTES: u64 = 8;

/// Combines two operands, neither associatively nor commutatively: the result shows the whole expression.
fn combine(_: u8, left: &[u8], right: &[u8]) -> Vec<u8> {
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("blocks are words"));
    let mixed = word(left).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ word(right).rotate_left(23);
    mixed.wrapping_mul(0xbf58_476d_1ce4_e5b9).to_le_bytes().to_vec()
}

fn operand(rank: u32) -> Vec<u8> {
    (u64::from(rank) + 1).wrapping_mul(0x0123_4567_89ab_cdef).to_le_bytes().to_vec()
}

fn shape(collective: Collective, ranks: u32, root: u32, rank: u32) -> Shape {
    // A unit is a byte, or an element of as many bytes.
    let (count, unit_bytes) = match collective {
        Collective::Barrier => (0, 1),
        Collective::Allreduce => (1, BYTES),
        _ => (BYTES, 1),
    };
    Shape { root, unit_bytes, ..Shape::new(collective, ranks, rank, count) }
}

fn schedules(collective: Collective, name: &str, ranks: u32, root: u32, params: Params) -> Vec<Schedule> {
    let generator = registry()
        .iter()
        .find(|generator| generator.collective == collective && generator.name == name)
        .expect("the test names a registered algorithm");
    (0..ranks).map(|rank| generator.generate(&shape(collective, ranks, root, rank), &params)).collect()
}

/// All ranks of hosts, with their memories and messages.
struct Hosts<'a> {
    schedules: &'a [Schedule],
    memories: Vec<HashMap<(BufferId, u64), Vec<u8>>>,
    messages: HashMap<(u32, u32, u16), VecDeque<Vec<u8>>>,
    /// Receives that have been started.
    waiting: Vec<Vec<Instance>>,
}

fn place(span: &Span, iteration: u32) -> (BufferId, u64) {
    let range = span.in_iteration(iteration, &Tables::default());
    (range.buffer, range.start)
}

impl Hosts<'_> {
    /// Ends a receive whose message is there.
    fn is_received(&mut self, rank: u32, instance: Instance) -> bool {
        let step = &self.schedules[rank as usize].steps[instance.step.0 as usize];
        let Step::Recv { peer, lane, into } = step.kind else { unreachable!("only receives wait") };
        let way = (peer.in_iteration(instance.iteration) as u32, rank, lane);
        let Some(data) = self.messages.entry(way).or_default().pop_front() else { return false };
        if !into.is_signal() {
            self.memories[rank as usize].insert(place(&into, instance.iteration), data);
        }
        true
    }

    /// Starts a step; returns true if it is complete at once.
    fn start(&mut self, rank: u32, instance: Instance) -> Result<bool, ()> {
        let (at, memory) = (instance.iteration, &mut self.memories[rank as usize]);
        match &self.schedules[rank as usize].steps[instance.step.0 as usize].kind {
            Step::Send { peer, lane, from } => {
                let data = if from.is_signal() { Vec::new() } else { memory[&place(from, at)].clone() };
                self.messages.entry((rank, peer.in_iteration(at) as u32, *lane)).or_default().push_back(data);
            }
            Step::Recv { .. } => {
                self.waiting[rank as usize].push(instance);
                return Ok(false);
            }
            Step::Copy { from, into } => {
                memory.insert(place(into, at), memory[&place(from, at)].clone());
            }
            Step::Reduce { left, right } => {
                let value = combine(0, &memory[&place(left, at)], &memory[&place(right, at)]);
                memory.insert(place(right, at), value);
            }
            other => unreachable!("{other:?} is not of messages"),
        }
        Ok(true)
    }
}

/// Runs the schedules on hosts, and returns the blocks of each rank's result.
fn by_hosts(collective: Collective, root: u32, schedules: &[Schedule]) -> Vec<Vec<Vec<u8>>> {
    let ranks = schedules.len() as u32;
    let count = shape(collective, ranks, root, 0).count;
    let (memories, waiting) = (vec![HashMap::new(); schedules.len()], vec![Vec::new(); schedules.len()]);
    let mut hosts = Hosts { schedules, memories, messages: HashMap::new(), waiting };
    let mut cursors = vec![Cursor::default(); schedules.len()];
    for (rank, cursor) in (0..).zip(&mut cursors) {
        cursor.reset(&schedules[rank as usize]);
        let buffer = if collective == Collective::Bcast { BufferId::RECV } else { BufferId::SEND };
        if collective != Collective::Bcast || rank == root {
            hosts.memories[rank as usize].insert((buffer, 0), operand(rank));
        }
    }
    for _ in 0..10 * ranks * ranks + 100 {
        for (rank, cursor) in (0..).zip(&mut cursors) {
            for instance in std::mem::take(&mut hosts.waiting[rank as usize]) {
                if hosts.is_received(rank, instance) {
                    cursor.complete(instance);
                } else {
                    hosts.waiting[rank as usize].push(instance);
                }
            }
            let advanced = cursor.advance(&schedules[rank as usize], |instance| hosts.start(rank, instance));
            assert_eq!(advanced, Ok(()));
        }
    }
    let ended = cursors.iter_mut().zip(schedules).all(|(cursor, schedule)| cursor.finished(schedule));
    assert!(ended, "the hosts get stuck");
    let blocks = match collective {
        Collective::Barrier => 0,
        Collective::Allgather => u64::from(ranks),
        _ => 1,
    };
    let result = |memory: &HashMap<_, Vec<u8>>| {
        (0..blocks).map(|block| memory[&(BufferId::RECV, block * count)].clone()).collect()
    };
    hosts.memories.iter().map(result).collect()
}

/// Numbers from a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides.max(1) as u64) as usize
    }
}

/// Interfaces, and packets on their way between them.
struct Network {
    machines: Vec<Machine>,
    packets: Vec<Packet>,
    dice: Dice,
    /// Percentage of packets that are lost, and of those that arrive twice.
    loss: usize,
}

impl Network {
    fn new(programs: &[Vec<Program>], loss: usize, seed: u64) -> Network {
        let of = |rank: usize| programs.iter().map(|all| all[rank].clone()).collect();
        let machines = (0..programs[0].len()).map(|rank| Machine::new(rank as u32, of(rank), combine));
        Network { machines: machines.collect(), packets: Vec::new(), dice: Dice(seed | 1), loss }
    }

    fn call(&self, rank: u32, sequence: u32, program: u8, root: Option<u32>, is_barrier: bool) -> Packet {
        let gives = !is_barrier && root.is_none_or(|root| root == rank);
        let bytes = if is_barrier { 0 } else { BYTES as u16 };
        let operation = Operation { program, operator: 0, bytes };
        let data = if gives { operand(rank) } else { Vec::new() };
        Packet { sequence, operation, from: rank, to: rank, purpose: Purpose::Enter, data }
    }

    fn take(&mut self, packet: &Packet) -> Verdict {
        let mut out = Vec::new();
        let verdict = self.machines[packet.to as usize].take(packet, &mut out);
        for packet in out {
            if self.dice.roll(100) < self.loss {
                continue;
            }
            if self.dice.roll(100) < self.loss {
                self.packets.push(packet.clone());
            }
            self.packets.push(packet);
        }
        verdict
    }

    /// Delivers in any order until nothing is on its way.
    fn settle(&mut self) {
        while !self.packets.is_empty() {
            let next = self.dice.roll(self.packets.len());
            let packet = self.packets.swap_remove(next);
            self.take(&packet);
        }
    }

    /// Makes the `callers` request messages until the operation is over for all of them.
    fn finish(&mut self, calls: &[Packet]) {
        for _ in 0..2000 {
            self.settle();
            let open: Vec<Packet> = calls
                .iter()
                .filter(|call| self.machines[call.to as usize].record(call.sequence).done != call.sequence)
                .flat_map(|call| self.machines[call.to as usize].overdue(call))
                .collect();
            if open.is_empty() {
                return;
            }
            for packet in open {
                // Questions travel, and get lost, as all that travels; a call is local.
                if packet.purpose == Purpose::Enter || self.dice.roll(100) >= self.loss {
                    self.take(&packet);
                }
            }
        }
        panic!("an operation does not end");
    }
}

/// Checks that the results of all ranks equal those of the hosts, without and with faults.
fn check(collective: Collective, name: &str, ranks: u32, root: u32, params: Params) {
    let what = format!("{collective} {name}, {ranks} ranks, root {root}");
    let schedules = schedules(collective, name, ranks, root, params);
    let programs = lower(&shape(collective, ranks, root, 0), &schedules);
    let programs = programs.unwrap_or_else(|refusal| panic!("{what}: {refusal}"));
    let expected = by_hosts(collective, root, &schedules);
    let is_barrier = collective == Collective::Barrier;
    let rooted = collective.rooted().then_some(root);
    for (loss, seed) in [(0, 1), (0, 2), (10, 3), (30, 4)] {
        let mut network = Network::new(std::slice::from_ref(&programs), loss, seed + u64::from(ranks) * 77);
        let mut calls: Vec<Packet> =
            (0..ranks).map(|rank| network.call(rank, 1, 0, rooted, is_barrier)).collect();
        let last = network.dice.roll(calls.len());
        let late = calls.swap_remove(last);
        for call in &calls {
            network.take(call);
        }
        network.settle();
        let is_over = |machine: &Machine| machine.record(1).done == 1;
        if is_barrier || collective == Collective::Allreduce {
            assert!(
                !network.machines.iter().any(is_over) || ranks == 1,
                "{what}: over before all have called"
            );
        }
        network.take(&late);
        calls.push(late);
        network.finish(&calls);
        for (machine, (program, expected)) in network.machines.iter().zip(programs.iter().zip(&expected)) {
            let areas = &machine.record(1).areas;
            let result: Vec<_> =
                program.result.iter().map(|area| areas[usize::from(*area)].clone()).collect();
            assert_eq!(&result, expected, "{what}, rank {}", program.rank);
        }
    }
}

#[test]
fn results_are_those_of_the_hosts() {
    let flat = Params { radix: Params::FLAT, ..Params::default() };
    for ranks in 1..=24 {
        check(Collective::Barrier, "dissemination", ranks, 0, Params::default());
        check(Collective::Barrier, "tree", ranks, 0, Params::default());
        check(Collective::Allreduce, "recursive_doubling", ranks, 0, Params::default());
        for root in 0..ranks {
            check(Collective::Bcast, "knomial", ranks, root, Params::default());
            check(Collective::Bcast, "kary", ranks, root, flat);
            check(Collective::Bcast, "kary", ranks, root, Params { radix: 1, ..Params::default() });
        }
    }
    for ranks in 1..=16 {
        check(Collective::Allgather, "ring", ranks, 0, Params::default());
        check(Collective::Allgather, "spread", ranks, 0, Params::default());
    }
    for ranks in [33, 64, 100] {
        check(Collective::Barrier, "dissemination", ranks, 0, Params::default());
        check(Collective::Bcast, "knomial", ranks, ranks / 2, Params::default());
    }
}

/// Only the root calls a broadcast, and it reaches every interface. A rank that waits receives it although
/// all ranks between are stopped.
#[test]
fn a_broadcast_needs_nobody_between() {
    for ranks in [2, 5, 8, 16, 24] {
        let schedules = schedules(Collective::Bcast, "knomial", ranks, 1, Params::default());
        let programs = lower(&shape(Collective::Bcast, ranks, 1, 0), &schedules).expect("it is lowered");
        for loss in [0, 20] {
            let mut network = Network::new(std::slice::from_ref(&programs), loss, 5);
            let calls = [1, 0].map(|rank| network.call(rank, 1, 0, Some(1), false));
            for call in &calls {
                network.take(call);
            }
            network.finish(&calls);
            let missed = network.machines.iter().filter(|machine| machine.record(1).arrived == 0).count();
            assert!(loss > 0 || missed == 0, "{missed} of {ranks} were not reached");
        }
    }
}

/// Once all ranks have called a barrier, it completes for two running ranks without the others.
#[test]
fn a_barrier_ends_for_those_who_still_run() {
    for ranks in [3, 8, 13] {
        let schedules = schedules(Collective::Barrier, "dissemination", ranks, 0, Params::default());
        let programs = lower(&shape(Collective::Barrier, ranks, 0, 0), &schedules).expect("it is lowered");
        let mut network = Network::new(std::slice::from_ref(&programs), 30, 9);
        let calls: Vec<_> = (0..ranks).map(|rank| network.call(rank, 1, 0, None, true)).collect();
        for call in &calls {
            network.take(call);
        }
        network.finish(&calls[..2]);
    }
}

/// Many operations in a row with all faults at once: records are reused, and old packets arrive late.
#[test]
fn records_rotate() {
    let ranks = 6;
    let lowered = |collective, name: &str, root| {
        let schedules = schedules(collective, name, ranks, root, Params::default());
        lower(&shape(collective, ranks, root, 0), &schedules).expect("it is lowered")
    };
    let programs = [
        lowered(Collective::Barrier, "dissemination", 0),
        lowered(Collective::Allreduce, "recursive_doubling", 0),
        lowered(Collective::Bcast, "knomial", 4),
    ];
    let mut network = Network::new(&programs, 10, 11);
    let sum = by_hosts(
        Collective::Allreduce,
        0,
        &schedules(Collective::Allreduce, "recursive_doubling", ranks, 0, Params::default()),
    );
    let mut old: Vec<Packet> = Vec::new();
    for sequence in 1..=200 {
        let program = network.dice.roll(programs.len());
        let root = (program == 2).then_some(4);
        let calls: Vec<Packet> =
            (0..ranks).map(|rank| network.call(rank, sequence, program as u8, root, program == 0)).collect();
        for call in &calls {
            network.take(call);
            old.extend(network.packets.iter().take(2).cloned());
        }
        if !old.is_empty() {
            let place = network.dice.roll(old.len());
            let packet = old.swap_remove(place);
            network.packets.push(packet);
        }
        network.finish(&calls);
        for (rank, machine) in network.machines.iter().enumerate() {
            let expected = [Vec::new(), sum[rank][0].clone(), operand(4)][program].clone();
            let record = machine.record(sequence);
            let area = programs[program][rank].result.first();
            let result = area.map_or(Vec::new(), |area| record.areas[usize::from(*area)].clone());
            assert_eq!((record.done, result), (sequence, expected), "operation {sequence}");
        }
    }
    assert!(!old.is_empty());
}

fn refused(collective: Collective, name: &str, ranks: u32, params: Params, expected: LoweringError) {
    let schedules = schedules(collective, name, ranks, 0, params);
    assert_eq!(lower(&shape(collective, ranks, 0, 0), &schedules), Err(expected));
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let segments = Params { segment: 2, ..Params::default() };
    refused(Collective::Barrier, "spread", 40, Params::default(), LoweringError::Rules(33));
    refused(Collective::Bcast, "knomial", 4, segments, LoweringError::Pieces);
    refused(Collective::Bcast, "scatter_ring", 4, Params::default(), LoweringError::Pieces);
    refused(Collective::Allreduce, "rabenseifner", 4, Params::default(), LoweringError::Pieces);
    refused(Collective::Allgather, "bruck", 4, Params::default(), LoweringError::Pieces);
    refused(Collective::Allgather, "ring", 20, Params::default(), LoweringError::Areas(17));
    refused(Collective::Barrier, "flags_tree", 4, Params::default(), LoweringError::OtherSteps);
    let mut broken = schedules(Collective::Barrier, "dissemination", 2, 0, Params::default());
    broken[1].steps.retain(|step| !matches!(step.kind, Step::Recv { .. }));
    let shape = shape(Collective::Barrier, 2, 0, 0);
    assert_eq!(lower(&shape, &broken), Err(LoweringError::Unmatched));
}

/// A member with a different operation is noticed, and changes nothing.
#[test]
fn members_who_disagree_are_told() {
    let schedules = schedules(Collective::Barrier, "dissemination", 2, 0, Params::default());
    let programs = lower(&shape(Collective::Barrier, 2, 0, 0), &schedules).expect("it is lowered");
    let mut network = Network::new(&[programs.clone(), programs], 0, 1);
    let calls = [network.call(0, 1, 0, None, true), network.call(1, 1, 1, None, true)];
    for call in &calls {
        network.take(call);
    }
    network.settle();
    for machine in &network.machines {
        let record = machine.record(1);
        assert_eq!((record.disputed, record.done, record.arrived), (1, 0, ENTERED));
    }
}

#[test]
fn programs_are_as_recorded() {
    let mut text = String::new();
    let mut add = |collective, name: &str, ranks, root| {
        let schedules = schedules(collective, name, ranks, root, Params::default());
        let programs = lower::lower(&shape(collective, ranks, root, 0), &schedules).expect("it is lowered");
        writeln!(text, "{collective} {name}, {ranks} ranks, root {root}").expect("a string takes everything");
        for program in programs {
            write!(text, "\nrank {}\n{program}", program.rank).expect("a string takes everything");
        }
        text.push('\n');
    };
    add(Collective::Barrier, "dissemination", 5, 0);
    add(Collective::Bcast, "knomial", 6, 1);
    add(Collective::Allreduce, "recursive_doubling", 5, 0);
    add(Collective::Allgather, "ring", 3, 0);
    tutti_golden::check("lowered/programs.txt", &text);
}
