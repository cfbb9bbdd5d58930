//! Model of processors and a scheduler on which waits run by the policy. Ranks that share a processor take
//! turns; each look, hand-over and wake-up costs time; others may compute for whole slices.

use tutti_base::config::Config;

use super::{Contention, Limits, Phases, Step};

/// Cost of looks, hand-overs of the processor and wake-ups, and the slice of a computing thread.
const LOOK_NS: u64 = 500;
const VAIN_YIELD_NS: u64 = 300;
const SWITCH_NS: u64 = 1_500;
const WAKE_NS: u64 = 5_000;
const SLICE_NS: u64 = 3_000_000;
/// Cost of sending a message.
const SEND_NS: u64 = 5_000;

/// Rank that waits for the token.
#[derive(Debug)]
struct Rank {
    processor: usize,
    phases: Phases,
    /// Time since which the rank gives its processor away, if it does.
    gave_ns: Option<u64>,
    sleeps: bool,
}

/// A token goes round among ranks, rank `i` on processor `i % processors`, each of which sees its host as if
/// it had it alone. On the last processor `hogs` compute.
#[derive(Debug)]
struct World {
    ranks: Vec<Rank>,
    limits: Limits,
    contention: Vec<Contention>,
    /// Time of each processor, followed by whose turn it is there.
    clocks: Vec<u64>,
    turns: Vec<usize>,
    hogs: usize,
    holder: usize,
    sent_ns: u64,
    hops: u64,
    /// Processor time of waits.
    spent_ns: u64,
}

impl World {
    fn new(ranks: usize, processors: usize, hogs: usize) -> World {
        let limits = Limits::new(&Config::default(), 1, processors as u32, true);
        let rank =
            |rank| Rank { processor: rank % processors, phases: Phases::new(), gave_ns: None, sleeps: false };
        World {
            ranks: (0..ranks).map(rank).collect(),
            contention: (0..ranks).map(|_| Contention::new(&limits)).collect(),
            limits,
            clocks: vec![1_000_000_000; processors],
            turns: vec![0; processors],
            hogs,
            holder: 0,
            sent_ns: 0,
            hops: 0,
            spent_ns: 0,
        }
    }

    /// Runs one step of the next rank in turn, on the processor whose clock is furthest back.
    fn step(&mut self) {
        let processor = (0..self.clocks.len()).min_by_key(|at| self.clocks[*at]).expect("there is one");
        let here: Vec<usize> =
            (0..self.ranks.len()).filter(|rank| self.ranks[*rank].processor == processor).collect();
        let computing = if processor + 1 == self.clocks.len() { self.hogs } else { 0 };
        let turn = self.turns[processor] % (here.len() + computing).max(1);
        let Some(&rank) = here.get(turn) else {
            self.clocks[processor] += if computing > 0 { SLICE_NS } else { LOOK_NS };
            self.turns[processor] = turn + 1;
            return;
        };
        let now = self.clocks[processor];
        if self.ranks[rank].sleeps {
            // It sleeps on: another has the turn, unless it is woken.
            let is_woken = self.holder == rank && self.sent_ns <= now;
            self.ranks[rank].sleeps = !is_woken;
            self.clocks[processor] += if is_woken { WAKE_NS } else { LOOK_NS };
            self.turns[processor] = if is_woken { turn } else { turn + 1 };
            return;
        }
        if let Some(gave_ns) = self.ranks[rank].gave_ns.take() {
            self.ranks[rank].phases.given(&self.contention[rank], gave_ns, now);
        }
        self.look(rank, turn, here.len() + computing > 1);
    }

    fn look(&mut self, rank: usize, turn: usize, has_others: bool) {
        let processor = self.ranks[rank].processor;
        self.clocks[processor] += LOOK_NS;
        self.spent_ns += LOOK_NS;
        let now = self.clocks[processor];
        if self.holder == rank && self.sent_ns <= now {
            self.clocks[processor] += SEND_NS;
            self.ranks[rank].phases.restart();
            (self.holder, self.sent_ns) = ((rank + 1) % self.ranks.len(), self.clocks[processor]);
            self.hops += 1;
            return;
        }
        let is_shared = self.contention[rank].is_shared();
        match self.ranks[rank].phases.next(&self.limits, is_shared, || now) {
            Step::Look => {}
            Step::Yield => {
                self.ranks[rank].gave_ns = Some(now);
                self.clocks[processor] += if has_others { SWITCH_NS } else { VAIN_YIELD_NS };
                self.turns[processor] = turn + 1;
            }
            Step::Sleep(_) => {
                self.ranks[rank].sleeps = true;
                self.turns[processor] = turn + 1;
            }
        }
    }
}

/// Checks that the microseconds a hop are within `expected` if these ranks pass a token round for a tenth of
/// a second.
fn check(ranks: usize, processors: usize, hogs: usize, expected: std::ops::Range<u64>) {
    let mut world = World::new(ranks, processors, hogs);
    while world.clocks.iter().min() < Some(&1_100_000_000) {
        world.step();
    }
    let hop_us = 100_000 / world.hops;
    assert!(expected.contains(&hop_us), "{ranks} ranks, {processors} processors, {hogs} hogs: {hop_us} us");
}

#[test]
fn hosts_that_share_their_processors_find_that_out() {
    check(2, 2, 0, 5..8);
    // Without what was observed each waits for 20 us before it gives its processor away.
    check(4, 2, 0, 5..15);
    check(8, 2, 0, 5..25);
    check(16, 2, 0, 5..50);
}

#[test]
fn beside_who_computes_no_more_than_his_slices_is_lost() {
    check(2, 2, 1, 5..20);
    check(4, 2, 1, 5..800);
}

#[test]
fn who_waits_for_long_sleeps() {
    let mut world = World::new(2, 2, 0);
    // Nobody sends anything.
    world.sent_ns = u64::MAX;
    while world.clocks.iter().min() < Some(&1_500_000_000) {
        world.step();
    }
    assert!(world.hops == 0 && world.spent_ns < 3_000_000, "{} us", world.spent_ns / 1000);
}
