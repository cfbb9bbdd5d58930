//! Durations of pieces of work: the parameters of the model in picoseconds, and the servers that copies
//! share.

use super::layout::Layout;
use super::resources::{Server, Time, time};
use crate::model::{ByDistance, DISTANCES, Model};

/// Access of a rank to memory that another exposes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reach {
    /// Mapped memory, accessed by load and store.
    Mapped,
    /// Copies by a system call.
    Call,
}

/// Access to bytes of another rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    /// In the bank of their owner.
    Bank,
    /// In exposed memory that is mapped.
    Mapped(Lines),
    /// By a system call.
    Call(Lines),
}

/// Location of the cache lines that a rank reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lines {
    /// In the reader's own cache, or unchanged since it has read them.
    Known,
    /// In the cache of their owner, who has just written them. Each line is transferred to the reader, and
    /// back when it is written again.
    Fresh,
    /// In the cache of the rank that read them last. The next writer must fetch them: a root that exposed its
    /// memory for reading, or a rank that writes into memory that its owner has read.
    Read,
}

/// Longest exposed span for reading that is sent by value, beside the bank. The exception is memory that can
/// be mapped if all ranks have processors of their own.
const CARRIED_BYTES: u64 = 32 << 10;
/// Bytes a rank has read beyond which they are no longer in its own cache.
const OWN_CACHE_BYTES: u64 = 128 << 10;
/// Bytes that arrive with a flag in one line.
const BESIDE_FLAG: u64 = 56;
const PAGE: u64 = 4096;
/// Share of a message's latency, between hosts of one machine, that is processor time at each end. No device
/// moves the message: the kernel does so on behalf of the sender, and wakes the receiver. Measured:
/// allreduce of 8 bytes on 4 such hosts and 2 processors by 12 messages 70 us, by 8 in two rounds 52, by 6 up
/// and down a tree 66.
const CARRIED_BY_PROCESSORS: f64 = 0.2;
const BETWEEN_HOSTS: usize = DISTANCES - 1;

pub(super) struct Prices<'a> {
    model: &'a Model,
    reach: Reach,
    /// True if a span that can be mapped is exposed even if it is short enough to be sent by value.
    lends_short: bool,
    /// Seconds to write a byte again that another rank has read. 0 if ranks share processors: the reader and
    /// the next writer are often on the same one.
    rewrite_byte: f64,
    pub step: Time,
    pub overhead: Time,
    pub post: Time,
    pub expose: Time,
    pub switch: Time,
    pub look: Time,
    /// Time to sleep and wake up; 0 on one host, where a rank that waits gives the processor away and polls
    /// again.
    pub sleep: Time,
    pub spin: Time,
    pub line_gap: Time,
    /// Seconds for a byte, including the share that is not found in a cache.
    byte: ByDistance,
    /// Share of the bytes that are not found in a cache.
    miss: f64,
    memories: Vec<Server>,
    /// Readers of each rank's memory.
    sources: Vec<Server>,
    /// Times until which others access the memory of a rank by system calls.
    readers: Vec<Vec<Time>>,
    /// Transfers out of the memory of a controller, and out of a board.
    links: Vec<Server>,
    boards: Vec<Server>,
    /// Network transfers out of a host, and into it.
    networks: Vec<[Server; 2]>,
    /// Work of all ranks on data and messages, and on sleeping if they share processors. Waits for shared
    /// resources are not included.
    pub work: Time,
    /// Work of each rank on messages between hosts of one machine.
    carried: Vec<Time>,
}

/// Time of an access to a device with files before its first byte. The device is a page cache in memory, or a
/// server beside it; a disk behind it is slower, but writes do not wait for the disk.
const DEVICE_ACCESS_SECONDS: f64 = 10e-6;
const DEVICE_BYTE_SECONDS: f64 = 0.5e-9;

impl<'a> Prices<'a> {
    /// Returns the time for which a device is busy with an access.
    pub fn device(&self, bytes: u64) -> Time {
        time(DEVICE_ACCESS_SECONDS + bytes as f64 * DEVICE_BYTE_SECONDS)
    }

    /// Returns the prices on this machine. `footprint` is the number of bytes that the ranks of one cache
    /// touch together.
    pub fn new(model: &'a Model, layout: &Layout, reach: Reach, footprint: f64) -> Prices<'a> {
        let several = layout.hosts() > 1;
        let miss = if footprint > model.cache_bytes { 1.0 - model.cache_bytes / footprint } else { 0.0 };
        let mut byte = model.copy_byte;
        for (byte, memory) in byte.iter_mut().zip(model.memory_byte) {
            *byte += miss * (memory - *byte).max(0.0);
        }
        let crowded = layout.crowded();
        Prices {
            model,
            reach,
            lends_short: !crowded,
            rewrite_byte: if crowded { 0.0 } else { model.rewrite_byte },
            step: time(model.step),
            overhead: time(model.message_overhead),
            post: time(model.post),
            expose: time(model.expose),
            switch: time(model.switch),
            look: time(model.look),
            sleep: if several { time(model.sleep) } else { 0 },
            spin: time(model.spin),
            line_gap: time(model.line_gap),
            byte,
            miss,
            memories: vec![Server::default(); layout.memories() as usize],
            sources: vec![Server::default(); layout.ranks() as usize],
            readers: vec![Vec::new(); layout.ranks() as usize],
            links: vec![Server::default(); layout.memories() as usize],
            boards: vec![Server::default(); layout.boards() as usize],
            networks: vec![[Server::default(); 2]; layout.hosts() as usize],
            work: 0,
            carried: vec![0; layout.ranks() as usize],
        }
    }

    /// Returns the access of others to exposed memory of `bytes` bytes.
    pub fn way(&self, bytes: u64, read_only: bool) -> Way {
        let is_mapped = self.reach == Reach::Mapped && bytes as f64 >= self.model.map_bytes;
        let may_travel = read_only && bytes <= CARRIED_BYTES;
        match (may_travel, is_mapped) {
            (true, true) if self.lends_short => Way::Mapped(Lines::Known),
            (true, _) => Way::Bank,
            (false, true) => Way::Mapped(Lines::Known),
            (false, false) => Way::Call(Lines::Known),
        }
    }

    pub fn is_eager(&self, layout: &Layout, from: u32, to: u32, bytes: u64) -> bool {
        bytes as f64 <= self.model.longest_eager(layout.distance(from, to) == BETWEEN_HOSTS)
    }

    /// Returns the latency of a message during which no processor works for it.
    pub fn latency(&self, layout: &Layout, from: u32, to: u32) -> Time {
        let idle = 1.0 - 2.0 * carried_by_processors(layout, from, to);
        time(idle * self.model.message_latency[layout.distance(from, to)])
    }

    pub fn line(&self, distance: usize) -> Time {
        time(self.model.line[distance])
    }

    /// Returns the seconds for a byte beyond those of a cache next to the rank.
    fn beyond(&self, distance: usize) -> f64 {
        (self.byte[distance] - self.model.copy_byte[0]).max(0.0)
    }

    /// Moves bytes that are in no cache through the memory controller of `owner`, and returns the time when
    /// that is done.
    fn memory(&mut self, now: Time, layout: &Layout, owner: u32, bytes: u64) -> Time {
        if self.miss == 0.0 || bytes == 0 {
            return now;
        }
        let service = time(self.miss * bytes as f64 / self.model.memory_bandwidth);
        self.memories[layout.place(owner).memory as usize].book(now, service)
    }

    /// Simulates the sender's part of a message: copying it into the transport. Returns the times when the
    /// rank is done, and when the network is done (equal if it takes no part).
    pub fn send(&mut self, now: Time, layout: &Layout, from: u32, to: u32, bytes: u64) -> (Time, Time) {
        let overhead = self.charge(layout, from, to);
        let own = now + overhead + time(bytes as f64 * (self.model.message_byte + self.beyond(0)));
        self.work += own - now;
        let end = own.max(self.memory(now, layout, from, bytes));
        // The network carries the first bytes while the others are copied, but none earlier.
        let carried = self.network(now, layout, (from, to), bytes, 0);
        (end, end.max(carried))
    }

    /// Simulates the receiver's part: copying the bytes from the sender's cache out of the transport. Returns
    /// the time when the rank is done.
    pub fn take(&mut self, now: Time, layout: &Layout, from: u32, to: u32, bytes: u64) -> Time {
        let distance = layout.distance(from, to);
        let far = match distance {
            BETWEEN_HOSTS => 0.0,
            _ => self.model.copy_byte[distance] - self.model.copy_byte[0],
        };
        let byte = self.model.message_byte + self.beyond(0) + far.max(0.0);
        let own = now + self.charge(layout, to, from) + time(bytes as f64 * byte);
        self.work += own - now;
        own.max(self.memory(now, layout, to, bytes)).max(self.link(now, layout, from, to, bytes))
    }

    /// Returns the time at which the host of `to` has received a message that the network carries until
    /// `now`. The interface takes in one message at a time.
    pub fn land(&mut self, now: Time, layout: &Layout, from: u32, to: u32, bytes: u64) -> Time {
        // The first bytes came while the last ones were on the way.
        let begin = now.saturating_sub(self.service(bytes));
        self.network(begin, layout, (to, from), bytes, 1).max(now)
    }

    /// Moves bytes from one memory controller of a host to another, and from board to board. Many pairs share
    /// these links.
    fn link(&mut self, now: Time, layout: &Layout, from: u32, to: u32, bytes: u64) -> Time {
        let (from, to) = (layout.place(from), layout.place(to));
        if from.host != to.host || from.memory == to.memory {
            return now;
        }
        let service = |bandwidth: f64| time(bytes as f64 / bandwidth);
        let end = self.links[from.memory as usize].book(now, service(self.model.link_bandwidth));
        if from.board == to.board {
            return end;
        }
        end.max(self.boards[from.board as usize].book(now, service(self.model.board_bandwidth)))
    }

    /// Returns the factor by which a system call that begins `now` to read the memory of `peer` is slowed by
    /// other readers.
    fn crowding(&mut self, now: Time, peer: u32) -> f64 {
        let readers = &mut self.readers[peer as usize];
        readers.retain(|end| *end > now);
        let more = ((readers.len() + 1) as f64 / self.model.source_readers.max(1.0)).max(1.0);
        // Twice the best number of readers take somewhat longer than twice the time: the kernel's locks move
        // between them (Chakraborty and others, Contention-aware kernel-assisted MPI collectives, 2017). A
        // square root has the same bits on every machine, unlike a general power.
        more * more.sqrt().sqrt()
    }

    /// Returns the cost of a message between two ranks at the rank `own`. If the hosts are one machine, the
    /// cost is added to the rank's work on such messages.
    fn charge(&mut self, layout: &Layout, own: u32, peer: u32) -> Time {
        if layout.distance(own, peer) != BETWEEN_HOSTS {
            return self.overhead;
        }
        let part = carried_by_processors(layout, own, peer);
        let carried = part * self.model.message_latency[BETWEEN_HOSTS];
        let cost = self.overhead + time(self.model.network_overhead + carried);
        if part > 0.0 {
            self.carried[own as usize] += cost;
        }
        cost
    }

    /// Returns the least time that messages between hosts of one machine take the rank with the most of them.
    /// Ranks that share processors and also have such messages poll for them meanwhile, so the rank has only
    /// its share of a processor.
    ///
    /// Measured with one rank on each host and 2 processors, allreduce of 8 bytes, in us. The first figure is
    /// for the least total work (all to one and back), the second for the least work of the busiest rank
    /// (recursive doubling): 4 hosts 66 and 52, 8 hosts 280 and 180, 16 hosts 700 and 610.
    pub fn longest_share(&self, layout: &Layout) -> Time {
        let pool = |rank: usize| layout.place(rank as u32).pool as usize;
        let mut carriers = vec![0; layout.pools().len()];
        for (rank, _) in self.carried.iter().enumerate().filter(|(_, carried)| **carried > 0) {
            carriers[pool(rank)] += 1;
        }
        let share = |(rank, &carried): (usize, &Time)| {
            let processors = u64::from(layout.pools()[pool(rank)].processors.max(1));
            carried * carriers[pool(rank)].max(processors) / processors
        };
        self.carried.iter().enumerate().map(share).max().unwrap_or(0)
    }

    /// Returns the time at which a request for a long message, or its reply, leaves the host of `from` if it
    /// is ready `now`. It waits behind the bytes in the interface's queue, not behind messages that are still
    /// in memory.
    pub fn leaves(&self, now: Time, layout: &Layout, from: u32, to: u32) -> Time {
        if layout.distance(from, to) != BETWEEN_HOSTS {
            return now;
        }
        let busy = self.networks[layout.place(from).host as usize][0].until();
        busy.clamp(now, now + time(self.model.network_queue))
    }

    /// Returns the time for which the network carries `bytes` bytes.
    fn service(&self, bytes: u64) -> Time {
        time(bytes as f64 / self.model.network_bandwidth)
    }

    /// Returns the time at which the interface of the first of `pair` has carried a message. Transfer begins
    /// at time `begin`; `way` is 0 for out and 1 for in. Returns `begin` if the second rank is on the same
    /// host.
    fn network(&mut self, begin: Time, layout: &Layout, pair: (u32, u32), bytes: u64, way: usize) -> Time {
        if layout.distance(pair.0, pair.1) != BETWEEN_HOSTS {
            return begin;
        }
        let service = self.service(bytes);
        self.networks[layout.place(pair.0).host as usize][way].book(begin, service)
    }

    /// Returns two latencies of a long message. The first is from its start to when the first fragment can be
    /// taken, the second from the end of its send to when the last one has been taken.
    pub fn fragments(&self, layout: &Layout, from: u32, to: u32, bytes: u64) -> (Time, Time) {
        let latency = self.latency(layout, from, to);
        let piece = (bytes as f64).min(self.model.fragment_bytes);
        let fragment = time(piece * (self.model.message_byte + self.beyond(0)));
        (latency + fragment, latency + fragment)
    }

    pub fn copy(&mut self, now: Time, layout: &Layout, rank: u32, bytes: u64) -> Time {
        let own = now + time(bytes as f64 * self.byte[0]);
        self.work += own - now;
        own.max(self.memory(now, layout, rank, bytes))
    }

    /// Writes into the rank's own bank, whose lines the peers have read last.
    pub fn store(&mut self, now: Time, layout: &Layout, rank: u32, bytes: u64) -> Time {
        let far = (self.model.bank_byte - self.model.copy_byte[0]).max(0.0);
        self.copy(now, layout, rank, bytes) + time(bytes.saturating_sub(BESIDE_FLAG) as f64 * far)
    }

    /// Returns the additional time of combining into the own bank.
    pub fn write_back(&self, bytes: u64) -> Time {
        time(bytes.saturating_sub(BESIDE_FLAG) as f64 * self.model.bank_write_back)
    }

    pub fn reduce(&mut self, now: Time, layout: &Layout, rank: u32, bytes: u64) -> Time {
        let own = now + time(bytes as f64 * (self.model.reduce_byte + self.beyond(0)));
        self.work += own - now;
        own.max(self.memory(now, layout, rank, bytes))
    }

    /// Simulates a one-sided access of the first of `pair` to the bank or the exposed memory of the second.
    pub fn access(
        &mut self,
        now: Time,
        layout: &Layout,
        pair: (u32, u32),
        bytes: u64,
        way: Way,
        combine: bool,
    ) -> Time {
        let bank = way == Way::Bank;
        let (rank, peer) = pair;
        let distance = layout.distance(rank, peer);
        if rank == peer {
            return if combine {
                self.reduce(now, layout, rank, bytes)
            } else {
                self.copy(now, layout, rank, bytes)
            };
        }
        // A bank is small and reused, so it stays in a cache. The destination of its bytes need not be in
        // one.
        let nearer = self.model.copy_byte[1];
        let byte = match bank {
            true => {
                self.model.bank_byte + (self.model.copy_byte[distance] - nearer).max(0.0) + self.beyond(0)
            }
            // The lines move there and back, as those of a bank, whose owner pays its half when it writes.
            false if matches!(way, Way::Mapped(Lines::Fresh) | Way::Call(Lines::Fresh)) => {
                let line = self.model.bank_byte - nearer;
                self.byte[distance] + 2.0 * line.max(0.0)
            }
            false => self.byte[distance],
        };
        let amount = bytes as f64;
        let rewritten = match way {
            Way::Mapped(Lines::Read) | Way::Call(Lines::Read) => {
                bytes.min(OWN_CACHE_BYTES) as f64 * self.rewrite_byte
            }
            _ => 0.0,
        };
        let called = matches!(way, Way::Call(_));
        let crowding = if called { self.crowding(now, peer) } else { 1.0 };
        let fixed = match bytes {
            _ if called => {
                let pages = bytes.div_ceil(PAGE) as f64;
                self.model.single_copy_call + pages * self.model.single_copy_page
            }
            0..=BESIDE_FLAG if bank => 0.0,
            _ if bank => self.model.line[distance],
            _ => self.model.line[distance] + self.model.expose,
        };
        let combined = match (combine, called) {
            (false, _) => 0.0,
            (true, true) => self.model.reduce_byte,
            (true, false) => self.model.reduce_byte - self.model.copy_byte[0],
        };
        let own = now + time((crowding * (fixed + rewritten + amount * (byte + combined))).max(0.0));
        self.work += own - now;
        let source = self.sources[peer as usize].book(now, time(amount / self.model.source_bandwidth));
        let memory = if bank { now } else { self.memory(now, layout, peer, bytes) };
        let end = own.max(source).max(memory).max(self.link(now, layout, peer, rank, bytes));
        if called {
            self.readers[peer as usize].push(end);
        }
        end
    }
}

/// Returns the share of a message's latency that is processor time at each end.
fn carried_by_processors(layout: &Layout, one: u32, other: u32) -> f64 {
    let (one, other) = (layout.place(one), layout.place(other));
    if one.host != other.host && one.pool == other.pool { CARRIED_BY_PROCESSORS } else { 0.0 }
}
