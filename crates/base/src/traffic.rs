//! Counters of the data that a process has moved, by path. They are the source of `TUTTI_COUNTERS` and of the
//! performance variables of MPI_T.
//!
//! Counters are always active, so a count costs a load, an addition and a store. It writes no cache line of
//! another process, and it needs no locked instruction unless several threads may call the library
//! ([`share`]). From then on each thread counts in one of several places, so that the cache line of a counter
//! stays on one processor. Counters may be read at any time.

use std::cell::Cell;
use std::fmt::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// True if several threads may count at the same time.
static SHARED: AtomicBool = AtomicBool::new(false);
/// Number of places in each counter.
const PLACES: usize = 8;
/// Number of threads that have counted.
static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Index of this thread's place in each counter; [`PLACES`] before the thread's first count.
    static PLACE: Cell<usize> = const { Cell::new(PLACES) };
}

/// Makes all counters safe for several threads.
pub fn share() {
    SHARED.store(true, Ordering::Relaxed);
}

/// Counter whose value is the sum of its places.
#[derive(Debug, Default)]
pub struct Counter([Place; PLACES]);

#[derive(Debug, Default)]
#[repr(align(128))]
struct Place(AtomicU64);

/// Returns the index of this thread's place in each counter, and assigns one at the first call.
fn place() -> usize {
    PLACE.with(|place| {
        if place.get() == PLACES {
            place.set(THREADS.fetch_add(1, Ordering::Relaxed) % PLACES);
        }
        place.get()
    })
}

impl Counter {
    /// Adds `more` to the counter.
    #[inline]
    pub fn add(&self, more: u64) {
        if SHARED.load(Ordering::Relaxed) {
            self.add_at(place(), more);
        } else {
            self.add_alone(more);
        }
    }

    /// Adds `more` by a plain load and store: only one thread counts.
    #[inline]
    fn add_alone(&self, more: u64) {
        let count = &self.0[0].0;
        count.store(count.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }

    #[inline]
    fn add_at(&self, place: usize, more: u64) {
        self.0[place].0.fetch_add(more, Ordering::Relaxed);
    }

    /// Raises the counter to `value` if it is smaller.
    #[inline]
    pub fn raise(&self, value: u64) {
        let most = &self.0[0].0;
        if value > most.load(Ordering::Relaxed) {
            most.store(value, Ordering::Relaxed);
        }
    }

    /// Returns the sum of all places.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.iter().map(|place| place.0.load(Ordering::Relaxed)).fold(0, u64::wrapping_add)
    }

    const fn new() -> Counter {
        Counter([const { Place(AtomicU64::new(0)) }; PLACES])
    }
}

/// Transfers on one path: their number and their payload.
#[derive(Debug, Default)]
pub struct Way {
    /// Number of messages or accesses.
    pub transfers: Counter,
    /// Payload of the transfers in bytes.
    pub bytes: Counter,
}

impl Way {
    /// Counts one transfer of `bytes` bytes.
    #[inline]
    pub fn add(&self, bytes: u64) {
        self.add_all(1, bytes);
    }

    /// Counts several at once.
    #[inline]
    pub fn add_all(&self, transfers: u64, bytes: u64) {
        if SHARED.load(Ordering::Relaxed) {
            let place = place();
            self.transfers.add_at(place, transfers);
            self.bytes.add_at(place, bytes);
        } else {
            self.transfers.add_alone(transfers);
            self.bytes.add_alone(bytes);
        }
    }

    const fn new() -> Way {
        Way { transfers: Counter::new(), bytes: Counter::new() }
    }
}

/// All counters of a process, except those of its links to other hosts.
#[derive(Debug)]
pub struct Traffic {
    /// Messages of the rank to itself.
    pub own: Way,
    /// Records to ranks of this host through shared memory, those of protocols included.
    pub ring: Way,
    /// Copies from and to private memory of ranks of this host, by the kernel or a device.
    pub single_copy: Way,
    /// Loads and stores in memory that ranks of this host share: banks, associated data, mapped buffers.
    pub mapped: Way,
    /// Records to other hosts, those of protocols included.
    pub network: Way,
    /// Messages that came before their receive was posted.
    pub unexpected: Way,
    /// Messages that waited at the sender for room at the receiver, or for its request.
    pub withheld: Way,
    /// The most messages that were kept at a time for receives to come.
    pub most_kept: Counter,
    /// Algorithms chosen for collective operations.
    pub choices: Counter,
    /// Accesses that read from files, and the bytes read.
    pub file_reads: Way,
    /// Accesses that wrote to files, and the bytes written.
    pub file_writes: Way,
    /// Accesses of all members in which they exchanged data.
    pub file_exchanges: Counter,
    /// Duration of these exchanges in nanoseconds. Messages and windows of the file overlap.
    pub file_exchange_ns: Counter,
    /// Time in nanoseconds that devices and servers took, summed over all threads.
    pub file_ns: Counter,
    /// Requests to io-servers, and the bytes of files that went with them, either way.
    pub server_requests: Way,
    /// Number of times that a request waited for a credit of an io-server.
    pub server_waits: Counter,
    /// Bytes that were copied directly from or to files of io-servers on this host.
    pub server_near_bytes: Counter,
    /// Number of times that this rank moved to another processor, away from a rank whose message it awaited.
    pub moves: Counter,
}

/// Counters of this process.
pub static TRAFFIC: Traffic = Traffic {
    own: Way::new(),
    ring: Way::new(),
    single_copy: Way::new(),
    mapped: Way::new(),
    network: Way::new(),
    unexpected: Way::new(),
    withheld: Way::new(),
    most_kept: Counter::new(),
    choices: Counter::new(),
    file_reads: Way::new(),
    file_writes: Way::new(),
    file_exchanges: Counter::new(),
    file_exchange_ns: Counter::new(),
    file_ns: Counter::new(),
    server_requests: Way::new(),
    server_waits: Counter::new(),
    server_near_bytes: Counter::new(),
    moves: Counter::new(),
};

/// Names of the paths of messages and pieces of collectives, from the nearest to the farthest.
pub const LEVELS: [&str; 5] = ["self", "ring", "single_copy", "mapped", "network"];

/// Counts of one process, or the sums of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Transfers and bytes on each of [`LEVELS`].
    pub levels: [(u64, u64); LEVELS.len()],
}

impl Totals {
    /// Length of encoded counts in bytes.
    pub const BYTES: usize = LEVELS.len() * 16;

    /// Returns the counts of this process so far.
    pub fn now() -> Totals {
        let ways = [&TRAFFIC.own, &TRAFFIC.ring, &TRAFFIC.single_copy, &TRAFFIC.mapped, &TRAFFIC.network];
        Totals { levels: ways.map(|way| (way.transfers.get(), way.bytes.get())) }
    }

    /// Returns the sums of the counts of `self` and `other`.
    pub fn plus(&self, other: &Totals) -> Totals {
        let mut levels = self.levels;
        for (one, other) in levels.iter_mut().zip(&other.levels) {
            *one = (one.0 + other.0, one.1 + other.1);
        }
        Totals { levels }
    }

    /// Encodes the counts as little-endian words, for [`Totals::decode`].
    pub fn encode(&self) -> [u8; Totals::BYTES] {
        let mut bytes = [0; Totals::BYTES];
        let words = self.levels.iter().flat_map(|&(transfers, bytes)| [transfers, bytes]);
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Decodes the result of [`Totals::encode`]; missing bytes count as 0.
    pub fn decode(bytes: &[u8]) -> Totals {
        let mut words = bytes
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().expect("a chunk of eight has eight bytes")));
        let mut next = || words.next().unwrap_or(0);
        Totals { levels: [(); LEVELS.len()].map(|()| (next(), next())) }
    }
}

impl fmt::Display for Totals {
    /// Formats the counts as `self=MESSAGES/BYTES ring=...`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (name, (transfers, bytes))) in LEVELS.iter().zip(&self.levels).enumerate() {
            if number > 0 {
                f.write_char(' ')?;
            }
            write!(f, "{name}={transfers}/{bytes}")?;
        }
        Ok(())
    }
}

/// Returns the counts of accesses to files as text for users, or `None` if the process has accessed no file.
pub fn of_files() -> Option<String> {
    let count = |way: &Way| format!("{} {}", way.transfers.get(), way.bytes.get());
    let (reads, writes) = (&TRAFFIC.file_reads, &TRAFFIC.file_writes);
    if reads.transfers.get() + writes.transfers.get() == 0 {
        return None;
    }
    let us = |ns: &Counter| ns.get() / 1000;
    Some(format!(
        "read {} written {} exchanged {} exchange_us {} file_us {} server_requests {} near_bytes {} credit_waits {}",
        count(reads),
        count(writes),
        TRAFFIC.file_exchanges.get(),
        us(&TRAFFIC.file_exchange_ns),
        us(&TRAFFIC.file_ns),
        count(&TRAFFIC.server_requests),
        TRAFFIC.server_near_bytes.get(),
        TRAFFIC.server_waits.get()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_travel_and_add_up() {
        let one = Totals { levels: [(1, 10), (2, 20), (3, 30), (4, 40), (5, 50)] };
        assert_eq!(Totals::decode(&one.encode()), one);
        assert_eq!(Totals::decode(&[]), Totals::default());
        let both = one.plus(&one).to_string();
        assert_eq!(both, "self=2/20 ring=4/40 single_copy=6/60 mapped=8/80 network=10/100");
    }

    #[test]
    fn threads_count_together() {
        share();
        let way = Way::default();
        std::thread::scope(|scope| {
            for _ in 0..PLACES + 3 {
                scope.spawn(|| (0..100).for_each(|_| way.add(8)));
            }
        });
        let transfers = 100 * (PLACES as u64 + 3);
        assert_eq!((way.transfers.get(), way.bytes.get()), (transfers, 8 * transfers));
    }

    #[test]
    fn a_high_water_mark_does_not_fall() {
        let traffic = Counter::new();
        for value in [3, 7, 2] {
            traffic.raise(value);
        }
        assert_eq!(traffic.get(), 7);
    }
}
