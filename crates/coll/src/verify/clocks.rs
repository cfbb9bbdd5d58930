//! Order of events by vector clocks, where every strand of a rank is one thread of events: its part of the
//! schedule in program order. A thread's clock tells how much of every thread precedes it. Flags and messages
//! carry clocks.
//!
//! A thread that awaits a value learns the clock of the first post that reached it, however late it checks.
//! That is the least that any timing guarantees.

use std::rc::Rc;

use super::Fault;
use crate::cursor::Instance;
use crate::ir::Kind;

/// The strand of a rank, numbered over all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Thread(pub u32);

/// A rank that waits for a flag.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiter {
    pub rank: u32,
    pub thread: Thread,
    pub instance: Instance,
    pub flag: u16,
    pub value: u64,
}

/// A value of a flag, and the clock of its thread then.
#[derive(Debug)]
struct Posted {
    value: u64,
    thread: Thread,
    clock: Rc<[u32]>,
}

/// The clocks and flags of all ranks.
#[derive(Debug)]
pub(super) struct Clocks {
    /// Entry r of the clock of thread s: s comes after the events of r that are of this epoch or before.
    clocks: Vec<Box<[u32]>>,
    /// The first thread of each rank, and one past the last of all.
    firsts: Vec<u32>,
    /// Posts by rank and flag, in their order.
    flags: Vec<Vec<Vec<Posted>>>,
    /// Waiting threads, by the rank whose flag they await.
    waiting: Vec<Vec<Waiter>>,
}

impl Clocks {
    /// Returns clocks with all threads in their first epoch, without any order. `strands` are the numbers of
    /// strands of each rank.
    pub fn new(strands: impl Iterator<Item = u32>) -> Clocks {
        let mut firsts = vec![0];
        for strands in strands {
            firsts.push(firsts[firsts.len() - 1] + strands);
        }
        let (ranks, threads) = (firsts.len() - 1, firsts[firsts.len() - 1]);
        let clock = |thread: u32| (0..threads).map(|other| u32::from(thread == other)).collect();
        Clocks {
            clocks: (0..threads).map(clock).collect(),
            firsts,
            flags: (0..ranks).map(|_| Vec::new()).collect(),
            waiting: (0..ranks).map(|_| Vec::new()).collect(),
        }
    }

    /// Returns the thread of a rank's strand.
    pub fn thread(&self, rank: u32, strand: usize) -> Thread {
        Thread(self.firsts.get(rank as usize).map_or(0, |first| first + strand as u32))
    }

    /// Returns the present epoch of `thread`.
    pub fn epoch(&self, thread: Thread) -> u32 {
        self.clocks[thread.0 as usize][thread.0 as usize]
    }

    /// Returns true if `thread` comes after the events of `other` in `epoch`.
    pub fn knows(&self, thread: Thread, other: Thread, epoch: u32) -> bool {
        self.clocks[thread.0 as usize][other.0 as usize] >= epoch
    }

    /// Returns true if some strand of `rank` comes after what `other` did in `epoch`: the rank leaves when
    /// all its strands have ended.
    pub fn leaves_after(&self, rank: u32, other: Thread, epoch: u32) -> bool {
        self.threads(rank).any(|thread| self.knows(thread, other, epoch))
    }

    /// Returns the number of ranks whose events precede those of `rank`, including itself.
    pub fn heard(&self, rank: u32) -> u32 {
        let heard = |other: u32| {
            self.threads(rank).any(|thread| self.threads(other).any(|other| self.knows(thread, other, 1)))
        };
        (0..self.flags.len() as u32).map(|other| u32::from(heard(other))).sum()
    }

    fn threads(&self, rank: u32) -> impl Iterator<Item = Thread> + use<> {
        (self.firsts[rank as usize]..self.firsts[rank as usize + 1]).map(Thread)
    }

    /// Orders the receiver of a message after the earlier events of its sender. The reverse does not hold,
    /// since a message may have been sent long before it is received.
    pub fn message(&mut self, sender: Thread, receiver: Thread) {
        let clock = self.publish(sender);
        join(&mut self.clocks[receiver.0 as usize], &clock);
    }

    /// Sets a flag. Returns the waiters whose waits are over.
    pub fn post(&mut self, rank: u32, thread: Thread, flag: u16, value: u64) -> Result<Vec<Waiter>, Fault> {
        if flag >= Kind::ALL_FLAGS || value >= Kind::VALUES {
            return Err(Fault::new(format!("posts {value} to flag {flag}, out of bounds")));
        }
        let clock = self.publish(thread);
        let flags = &mut self.flags[rank as usize];
        if flags.len() <= usize::from(flag) {
            flags.resize_with(usize::from(flag) + 1, Vec::new);
        }
        let posts = &mut flags[usize::from(flag)];
        let before = posts.last().map_or(0, |post| post.value);
        let foreign = posts.last().is_some_and(|post| post.thread != thread);
        if foreign {
            return Err(Fault::new(format!("posts to flag {flag}, which is another strand's")));
        }
        if value <= before {
            return Err(Fault::new(format!("posts {value} to flag {flag}, which is {before}")));
        }
        posts.push(Posted { value, thread, clock: clock.clone() });
        let (ready, waiting) = std::mem::take(&mut self.waiting[rank as usize])
            .into_iter()
            .partition(|waiter| waiter.flag == flag && waiter.value <= value);
        self.waiting[rank as usize] = waiting;
        let ready: Vec<Waiter> = ready;
        ready.iter().for_each(|waiter| join(&mut self.clocks[waiter.thread.0 as usize], &clock));
        Ok(ready)
    }

    /// Waits for a flag of `peer`. Returns true if the value has been reached already.
    pub fn wait(&mut self, peer: u32, waiter: Waiter) -> Result<bool, Fault> {
        let Waiter { flag, value, .. } = waiter;
        let within_reach = flag < Kind::FLAGS || peer == waiter.rank && flag < Kind::ALL_FLAGS;
        if !within_reach || value >= Kind::VALUES {
            return Err(Fault::new(format!("awaits {value} of flag {flag}, out of bounds")));
        }
        if value == 0 {
            return Ok(true);
        }
        let posts = self.flags[peer as usize].get(usize::from(flag)).map_or(&[][..], Vec::as_slice);
        let Some(first) = posts.get(posts.partition_point(|post| post.value < value)) else {
            self.waiting[peer as usize].push(waiter);
            return Ok(false);
        };
        join(&mut self.clocks[waiter.thread.0 as usize], &first.clock);
        Ok(true)
    }

    /// Returns all waiting threads, each with the owner of the flag.
    pub fn waiters(&self) -> impl Iterator<Item = (u32, &Waiter)> {
        (0..).zip(&self.waiting).flat_map(|(peer, waiting)| waiting.iter().map(move |waiter| (peer, waiter)))
    }

    /// Returns a thread's clock for publication. The thread's later events belong to a new epoch.
    fn publish(&mut self, thread: Thread) -> Rc<[u32]> {
        let number = thread.0 as usize;
        let clock = &mut self.clocks[number];
        let published = Rc::from(&**clock);
        clock[number] += 1;
        published
    }
}

fn join(into: &mut [u32], from: &[u32]) {
    into.iter_mut().zip(from).for_each(|(into, from)| *into = (*into).max(*from));
}
