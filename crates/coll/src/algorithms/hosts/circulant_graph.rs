//! The circulant-graph broadcast (Träff, "Optimal broadcast schedules in logarithmic time with applications
//! to broadcast, reduction, all-broadcast and all-reduction", 2023). It sends n blocks to all of p processes
//! in n - 1 + ceil(log2 p) rounds, in each of which every process sends and receives one block. That is the
//! least possible, for any p and any n.
//!
//! In round i, with k = i mod q and q = ceil(log2 p), process r sends to r + skip(k) and receives from r -
//! skip(k). The pattern of blocks repeats every q rounds with numbers higher by q. So a schedule is q loops,
//! one for each neighbour. Numbers below 0 denote blocks that do not exist, and numbers above n - 1 the last
//! block. With that, every process gets every block exactly once.

use crate::ir::Index;

/// A process's part: relative to the root, which is process 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Circulant {
    processes: u32,
    /// The process, counted from the root.
    me: u32,
    /// `skip(k)` for `k` in `0..=q`; the last one is the number of processes.
    skips: Vec<u32>,
    /// For each `k`, the block that arrives in the first q rounds.
    receives: Vec<i64>,
    /// For each `k`, the block that leaves in the first q rounds.
    sends: Vec<i64>,
}

/// Blocks that pass over one edge, turn by turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Passing {
    /// Number of the block in the first turn; that of each further turn is higher by q.
    base: i64,
    /// Difference between the block numbers of two consecutive turns.
    step: i64,
    blocks: u64,
    /// Number of the first turn that exists.
    begin: u64,
    /// Number of turns, including those before `begin`.
    turns: u64,
}

impl Circulant {
    /// Returns the part of process `me` of `processes`, at least 2.
    pub fn new(processes: u32, me: u32) -> Circulant {
        let skips = skips(processes);
        let q = skips.len() - 1;
        let receives = receive_schedule(&skips, me);
        let send = |k: usize| match (me + skips[k]) % processes {
            // The root has all blocks.
            0 => -(q as i64),
            to => receive_schedule(&skips, to)[k],
        };
        let sends = (0..q).map(send).collect();
        Circulant { processes, me, receives, sends, skips }
    }

    /// Returns the number of neighbours in each direction.
    pub fn degree(&self) -> usize {
        self.receives.len()
    }

    /// Returns the receiver of round `k`, or `None` if that is the root.
    pub fn receiver(&self, k: usize) -> Option<u32> {
        Some((self.me + self.skips[k]) % self.processes).filter(|to| *to != 0)
    }

    /// Returns the sender of round `k`, or `None` at the root.
    pub fn sender(&self, k: usize) -> Option<u32> {
        (self.me != 0).then(|| (self.me + self.processes - self.skips[k]) % self.processes)
    }

    /// Returns the received blocks, out of `blocks`, of rounds `k`.
    pub fn received(&self, k: usize, blocks: u64) -> Passing {
        self.passing(self.receives[k], k, blocks)
    }

    /// Returns the sent blocks, out of `blocks`, of rounds `k`.
    pub fn sent(&self, k: usize, blocks: u64) -> Passing {
        self.passing(self.sends[k], k, blocks)
    }

    /// Returns the rounds that receive the blocks sent in rounds `k`, and the number of turns before. Must
    /// not be called at the root.
    pub fn origin(&self, k: usize) -> (usize, u64) {
        let q = self.degree() as i64;
        let of = |block: i64| self.receives.iter().position(|received| *received == block);
        let same = of(self.sends[k]).map(|origin| (origin, 0));
        same.or_else(|| of(self.sends[k] + q).map(|origin| (origin, 1)))
            .expect("what a process sends has come before: section 2 of the paper, condition 4")
    }

    fn passing(&self, first: i64, k: usize, blocks: u64) -> Passing {
        let q = self.degree() as u64;
        // Rounds before the first one make their number a multiple of q.
        let virtual_rounds = (q - (blocks - 1) % q) % q;
        let turns = (blocks - 1 + q + virtual_rounds) / q;
        let begin = u64::from((k as u64) < virtual_rounds);
        Passing { base: first - virtual_rounds as i64, step: q as i64, blocks, begin, turns }
    }
}

impl Passing {
    /// Returns the number of turns.
    pub fn turns(&self) -> u64 {
        self.turns
    }

    /// Returns the block of a turn, if any.
    pub fn block(&self, turn: u64) -> Option<u64> {
        if turn < self.begin {
            return None;
        }
        let number = u64::try_from(self.base + self.step * turn as i64).ok()?;
        Some(number.min(self.blocks - 1))
    }

    /// Returns the number of blocks in the turns before `turn`.
    pub fn before(&self, turn: u64) -> u64 {
        turn - self.first().min(turn)
    }

    /// Returns the difference between the block numbers of consecutive turns.
    pub fn step(&self) -> i64 {
        self.step
    }

    /// Returns the number of blocks up to the turn `back` before `turn`, which must have a block.
    pub fn count_at(&self, turn: Index, back: u64) -> Index {
        Index { base: turn.base - back as i64 + 1 - self.first() as i64, ..turn }
    }

    /// Returns the first turn that has a block.
    fn first(&self) -> u64 {
        (0..self.turns).find(|turn| self.block(*turn).is_some()).unwrap_or(self.turns)
    }

    /// Returns the turns that have a block, in runs `(first turn, count)`. Within a run, block numbers grow
    /// by the step.
    pub fn runs(&self) -> Vec<(u64, u64)> {
        let (first, last) = (self.first(), self.turns.saturating_sub(1));
        if first >= self.turns {
            return Vec::new();
        }
        // Only the last turn may have a number that denotes the last block.
        let mut runs = Vec::new();
        if first < last {
            runs.push((first, last - first));
        }
        runs.push((last, 1));
        runs
    }
}

/// Returns the skips: `skip(q)` is the number of processes, and each one before is half of it, rounded up.
fn skips(processes: u32) -> Vec<u32> {
    let mut skips = vec![processes];
    while skips[skips.len() - 1] > 1 {
        skips.push(skips[skips.len() - 1].div_ceil(2));
    }
    skips.reverse();
    skips
}

/// Returns the smallest `k` of the skips whose canonical sum is `process`; q for the root.
fn base_block(skips: &[u32], process: u32) -> usize {
    let mut sum = 0;
    for k in (0..skips.len() - 1).rev() {
        if sum + skips[k] == process {
            return k;
        }
        if sum + skips[k] < process {
            sum += skips[k];
        }
    }
    skips.len() - 1
}

/// Returns the blocks that `process` receives in the first q rounds.
fn receive_schedule(skips: &[u32], process: u32) -> Vec<i64> {
    let q = skips.len() - 1;
    let own = base_block(skips, process);
    let mut search = Search {
        skips,
        process: i64::from(process) + i64::from(skips[q]),
        // From the largest down.
        free: (0..=q).rev().filter(|e| *e != own).collect(),
        found: Vec::with_capacity(q),
    };
    let bound = 2 * i64::from(skips[q]);
    search.descend(0, bound, q);
    let number = |e: usize| if e == q { own as i64 } else { e as i64 - q as i64 };
    search.found.into_iter().map(number).collect()
}

/// The depth-first search for the processes whose blocks each round brings: paths of skips, the largest
/// first.
struct Search<'a> {
    skips: &'a [u32],
    process: i64,
    /// Skips that no round has been given, from the largest down.
    free: Vec<usize>,
    found: Vec<usize>,
}

impl Search<'_> {
    fn skip(&self, k: usize) -> i64 {
        i64::from(self.skips[k])
    }

    /// Searches depth first from the process `at`, to processes below `bound`, by free skips up to `largest`.
    fn descend(&mut self, at: i64, mut bound: i64, largest: usize) {
        let rounds = self.skips.len() - 1;
        let mut next = Some(largest);
        while let Some(most) = next {
            let Some(e) = self.free.iter().copied().find(|free| *free <= most) else { return };
            let reached = at + self.skip(e);
            let reach = |search: &Self, more: usize| search.process - search.skip(search.found.len() + more);
            if self.found.len() < rounds && reached <= reach(self, 0) && reached < bound {
                if reached <= reach(self, 1) {
                    self.descend(reached, bound, e);
                }
                if self.found.len() >= rounds || at > reach(self, 1) {
                    return;
                }
                bound = reached;
                self.found.push(e);
                self.free.retain(|free| *free != e);
            }
            next = e.checked_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays all rounds, every process at once.
    fn check(processes: u32, blocks: u64) {
        let all: Vec<Circulant> = (0..processes).map(|me| Circulant::new(processes, me)).collect();
        let q = all[0].degree();
        let mut have = vec![vec![false; blocks as usize]; processes as usize];
        have[0].fill(true);
        let turns = all[0].received(0, blocks).turns();
        for (turn, k) in (0..turns).flat_map(|turn| (0..q).map(move |k| (turn, k))) {
            let came = |me: u32| -> Option<(u32, u64)> {
                let from = all[me as usize].sender(k)?;
                let block = all[me as usize].received(k, blocks).block(turn);
                assert_eq!(block, all[from as usize].sent(k, blocks).block(turn), "{processes} {me} {k}");
                Some((from, block?))
            };
            let moved: Vec<_> = (1..processes).filter_map(|me| Some((me, came(me)?))).collect();
            for &(_, (from, block)) in &moved {
                assert!(have[from as usize][block as usize], "{processes}, {blocks}: {from} has no {block}");
            }
            for (me, (_, block)) in moved {
                assert!(!std::mem::replace(&mut have[me as usize][block as usize], true), "twice");
            }
        }
        assert!(have.iter().flatten().all(|here| *here), "{processes}, {blocks}");
        // n - 1 + q rounds.
        assert!(turns * (q as u64) < blocks + 2 * q as u64);
    }

    #[test]
    fn every_block_comes_once_from_who_has_it() {
        for processes in (2..70).chain([127, 128, 129, 500]) {
            for blocks in [1, 2, 3, 7, 20] {
                check(processes, blocks);
            }
        }
    }
}
