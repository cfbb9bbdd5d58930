//! What happens before what, where every rank is one thread of events: its schedule in program order. A rank's
//! vector clock says how much of every rank it comes after; flags and messages carry clocks.
//!
//! Whoever awaits a value learns what the first post that reached it knew, however late he looks: the least that
//! any timing gives him.

use std::rc::Rc;

use super::Fault;
use crate::cursor::Instance;
use crate::ir::Kind;

/// A rank that waits for a flag.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiter {
    pub rank: u32,
    pub instance: Instance,
    pub flag: u16,
    pub value: u64,
}

/// A value of a flag, and the clock of its rank then.
#[derive(Debug)]
struct Posted {
    value: u64,
    clock: Rc<[u32]>,
}

/// The clocks and flags of all ranks.
#[derive(Debug)]
pub(super) struct Clocks {
    /// Entry r of the clock of rank s: s comes after the events of r that are of this epoch or before.
    clocks: Vec<Box<[u32]>>,
    /// Posts by rank and flag, in their order.
    flags: Vec<[Vec<Posted>; Kind::FLAGS as usize]>,
    /// By the rank that posts.
    waiting: Vec<Vec<Waiter>>,
}

impl Clocks {
    /// All ranks are in their first epoch; nobody has heard of another.
    pub fn new(ranks: usize) -> Clocks {
        let clock = |rank: usize| (0..ranks).map(|other| u32::from(rank == other)).collect();
        Clocks {
            clocks: (0..ranks).map(clock).collect(),
            flags: (0..ranks).map(|_| Default::default()).collect(),
            waiting: (0..ranks).map(|_| Vec::new()).collect(),
        }
    }

    /// The present epoch of `rank`.
    pub fn epoch(&self, rank: u32) -> u32 {
        self.clocks[rank as usize][rank as usize]
    }

    /// Whether `rank` comes after what `other` did in `epoch`.
    pub fn knows(&self, rank: u32, other: u32, epoch: u32) -> bool {
        self.clocks[rank as usize][other as usize] >= epoch
    }

    /// How many ranks `rank` has heard of, itself included.
    pub fn heard(&self, rank: u32) -> u32 {
        self.clocks[rank as usize].iter().map(|epoch| u32::from(*epoch > 0)).sum()
    }

    /// A message: the receiver comes after all that the sender did before. Not the other way round, since a
    /// message may have been sent long before it is received.
    pub fn message(&mut self, sender: u32, receiver: u32) {
        let clock = self.publish(sender);
        join(&mut self.clocks[receiver as usize], &clock);
    }

    /// Sets a flag. Returns who need not wait any more.
    pub fn post(&mut self, rank: u32, flag: u16, value: u64) -> Result<Vec<Waiter>, Fault> {
        if flag >= Kind::FLAGS || value >= Kind::VALUES {
            return Err(Fault::new(format!("posts {value} to flag {flag}, out of bounds")));
        }
        let clock = self.publish(rank);
        let posts = &mut self.flags[rank as usize][usize::from(flag)];
        let before = posts.last().map_or(0, |post| post.value);
        if value <= before {
            return Err(Fault::new(format!("posts {value} to flag {flag}, which is {before}")));
        }
        posts.push(Posted { value, clock: clock.clone() });
        let (ready, waiting) = std::mem::take(&mut self.waiting[rank as usize])
            .into_iter()
            .partition(|waiter| waiter.flag == flag && waiter.value <= value);
        self.waiting[rank as usize] = waiting;
        let ready: Vec<Waiter> = ready;
        ready.iter().for_each(|waiter| join(&mut self.clocks[waiter.rank as usize], &clock));
        Ok(ready)
    }

    /// Waits for a flag of `peer`: whether there is nothing to wait for.
    pub fn wait(&mut self, peer: u32, waiter: Waiter) -> Result<bool, Fault> {
        let Waiter { flag, value, .. } = waiter;
        if flag >= Kind::FLAGS || value >= Kind::VALUES {
            return Err(Fault::new(format!("awaits {value} of flag {flag}, out of bounds")));
        }
        if value == 0 {
            return Ok(true);
        }
        let posts = &self.flags[peer as usize][usize::from(flag)];
        let Some(first) = posts.get(posts.partition_point(|post| post.value < value)) else {
            self.waiting[peer as usize].push(waiter);
            return Ok(false);
        };
        join(&mut self.clocks[waiter.rank as usize], &first.clock);
        Ok(true)
    }

    /// Who waits, and whose flag he waits for.
    pub fn waiters(&self) -> impl Iterator<Item = (u32, &Waiter)> {
        (0..).zip(&self.waiting).flat_map(|(peer, waiting)| waiting.iter().map(move |waiter| (peer, waiter)))
    }

    /// What a rank knows when it lets others know; what it does next is of another epoch.
    fn publish(&mut self, rank: u32) -> Rc<[u32]> {
        let clock = &mut self.clocks[rank as usize];
        let published = Rc::from(&**clock);
        clock[rank as usize] += 1;
        published
    }
}

fn join(into: &mut [u32], from: &[u32]) {
    into.iter_mut().zip(from).for_each(|(into, from)| *into = (*into).max(*from));
}
