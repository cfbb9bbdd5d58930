//! Reads of remote memory under way, as a pure state machine.
//!
//! A read is cut into operations of bounded length, of which a bounded number is under way; several reads
//! take turns. Each operation reads from one run of the lender's memory into as many runs of the own as the
//! provider takes at once. Where the lender's memory consists of several runs, a list of them is read first,
//! like any memory.

use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::sync::{Arc, Mutex, PoisonError};

use crate::loan::{Loan, Memory, Pieces};

/// Bytes of a run in a list: its address and its length. The key of their memory and a zero come before the
/// runs.
const RUN_BYTES: u64 = 16;

/// Limits of a provider for read operations.
#[derive(Clone, Copy, Debug)]
pub struct ReadLimits {
    /// Runs of the own memory in one operation.
    pub runs: usize,
    /// Longest operation in bytes.
    pub operation_bytes: u64,
    /// Highest number of operations at the same time.
    pub operations: usize,
}

/// One contiguous part of the lender's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Address in the form that the lender's registration uses.
    pub address: u64,
    /// Length of the run in bytes.
    pub bytes: u64,
}

/// Starter of read operations at the provider.
pub trait Port<P, R> {
    /// Begins to read from `remote` (address and key at `from`) into the runs, in memory registered as
    /// `region`. Returns false if there is no room now.
    ///
    /// # Errors
    /// It cannot be read.
    fn read(
        &mut self,
        from: P,
        runs: &mut [IoSliceMut<'_>],
        region: Option<&R>,
        remote: (u64, u64),
        operation: u32,
    ) -> Result<bool, String>;
}

/// Bytes that are read, and where they lie on both sides.
#[derive(Debug)]
struct Leg<R> {
    memory: Memory,
    region: Option<R>,
    key: u64,
    /// Runs of the lender that are still to be read.
    runs: VecDeque<Run>,
    position: u64,
    bytes: u64,
}

#[derive(Debug)]
struct Reading<P, R> {
    number: u64,
    from: P,
    loan: Loan,
    token: u64,
    leg: Leg<R>,
    /// While a list is read: the list, and the read that it describes.
    list: Option<(Arc<List>, Leg<R>)>,
    under_way: usize,
    failed: bool,
}

/// Memory for a list of runs.
#[derive(Debug)]
pub struct List(Mutex<Vec<u8>>);

impl List {
    /// Allocates memory for the list of a loan of `runs` runs.
    pub fn with_room(runs: u64) -> Arc<List> {
        Arc::new(List(Mutex::new(vec![0; ((runs + 1) * RUN_BYTES) as usize])))
    }

    /// Builds the list of these runs of the memory `key`.
    pub fn from_runs(key: u64, runs: impl Iterator<Item = Run>) -> Arc<List> {
        let words = [key, 0].into_iter().chain(runs.flat_map(|run| [run.address, run.bytes]));
        Arc::new(List(Mutex::new(words.flat_map(u64::to_le_bytes).collect())))
    }

    /// Returns the key and the runs; `None` if they are not runs of at least `bytes`.
    fn runs(&self, bytes: u64) -> Option<(u64, VecDeque<Run>)> {
        let list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (words, _) = list.as_chunks::<8>();
        let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
        let (key, _) = (words.next()?, words.next()?);
        let runs: VecDeque<Run> =
            std::iter::from_fn(|| Some(Run { address: words.next()?, bytes: words.next()? })).collect();
        let whole = runs.iter().try_fold(0u64, |sum, run| sum.checked_add(run.bytes))?;
        (whole >= bytes && runs.iter().all(|run| run.bytes > 0)).then_some((key, runs))
    }

    /// Returns the address of the list.
    pub fn address(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_ptr() as u64
    }
}

impl Pieces for List {
    fn bytes(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len() as u64
    }

    fn read(&self, position: u64, bytes: u64, use_memory: &mut dyn FnMut(&[IoSlice<'_>])) {
        let list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        use_memory(&[IoSlice::new(&list[position as usize..][..bytes as usize])]);
    }

    fn write(&self, position: u64, bytes: u64, use_memory: &mut dyn FnMut(&mut [IoSliceMut<'_>])) {
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        use_memory(&mut [IoSliceMut::new(&mut list[position as usize..][..bytes as usize])]);
    }
}

/// The own memory of a read: the list of the lender's runs if there is one, and the message.
#[derive(Debug)]
pub struct Target<R> {
    /// List of the lender's runs to be read first, with its registration if the provider needs one.
    pub list: Option<(Arc<List>, Option<R>)>,
    /// Memory to read into, with its registration if the provider needs one.
    pub memory: (Memory, Option<R>),
    /// Length of the message.
    pub bytes: u64,
}

/// All reads of a process. `P` names a peer, `R` is a registration of own memory.
#[derive(Debug)]
pub struct Reads<P, R> {
    limits: ReadLimits,
    readings: VecDeque<Reading<P, R>>,
    last: u64,
    /// Number of the read to which each operation belongs.
    operations: Vec<Option<u64>>,
    free: Vec<u32>,
    /// Tokens of completed reads.
    completed: VecDeque<u64>,
    /// Completed loans whose lenders have not been notified.
    done: VecDeque<(P, Loan)>,
    failures: Vec<(P, String)>,
}

impl<P: Copy + PartialEq, R> Reads<P, R> {
    /// Creates a state without any reads.
    pub fn new(limits: ReadLimits) -> Reads<P, R> {
        Reads {
            limits,
            readings: VecDeque::new(),
            last: 0,
            operations: vec![None; limits.operations],
            free: (0..limits.operations as u32).rev().collect(),
            completed: VecDeque::new(),
            done: VecDeque::new(),
            failures: Vec::new(),
        }
    }

    /// Plans a read of memory that `from` has lent.
    pub fn begin(&mut self, from: P, loan: Loan, target: Target<R>, token: u64) {
        self.last += 1;
        let leg = |(memory, region): (Memory, Option<R>), bytes, runs| Leg {
            memory,
            region,
            key: loan.key,
            runs,
            position: 0,
            bytes,
        };
        let whole = |bytes| VecDeque::from([Run { address: loan.address, bytes }]);
        let Target { list, memory, bytes } = target;
        let (leg, list) = match list {
            None => (leg(memory, bytes, whole(bytes)), None),
            Some((list, region)) => {
                let (first, length) = (Arc::clone(&list) as Memory, list.bytes());
                let then = leg(memory, bytes, VecDeque::new());
                (leg((first, region), length, whole(length)), Some((list, then)))
            }
        };
        let (number, under_way, failed) = (self.last, 0, false);
        self.readings.push_back(Reading { number, from, loan, token, leg, list, under_way, failed });
    }

    /// Begins operations, as many as find room. True if any was begun.
    pub fn step(&mut self, port: &mut impl Port<P, R>) -> bool {
        let (mut any, mut idle) = (false, 0);
        while idle < self.readings.len() && !self.free.is_empty() {
            let Some(mut reading) = self.readings.pop_front() else { break };
            let begun = self.post(&mut reading, port);
            let over = reading.failed && reading.under_way == 0;
            if !over {
                self.readings.push_back(reading);
            }
            match begun {
                Begun::One => (any, idle) = (true, 0),
                Begun::NoRoom => break,
                Begun::Nothing => idle += usize::from(!over),
            }
        }
        any
    }

    fn post(&mut self, reading: &mut Reading<P, R>, port: &mut impl Port<P, R>) -> Begun {
        let (leg, from) = (&mut reading.leg, reading.from);
        let Some(run) = leg.runs.front_mut() else { return Begun::Nothing };
        let length = run.bytes.min(leg.bytes - leg.position).min(self.limits.operation_bytes);
        let Some(&operation) = self.free.last().filter(|_| length > 0 && !reading.failed) else {
            return Begun::Nothing;
        };
        let (mut covered, mut result) = (0, Ok(false));
        let (region, remote, most) = (leg.region.as_ref(), (run.address, leg.key), self.limits.runs);
        leg.memory.write(leg.position, length, &mut |runs| {
            let count = runs.len().min(most);
            covered = runs[..count].iter().map(|run| run.len() as u64).sum();
            result = port.read(from, &mut runs[..count], region, remote, operation);
        });
        match result {
            Ok(true) => {}
            Ok(false) => return Begun::NoRoom,
            Err(why) => {
                reading.failed = true;
                self.failures.push((from, why));
                return Begun::Nothing;
            }
        }
        self.free.pop();
        self.operations[operation as usize] = Some(reading.number);
        reading.under_way += 1;
        leg.position += covered;
        run.address += covered;
        run.bytes -= covered;
        if run.bytes == 0 {
            leg.runs.pop_front();
        }
        Begun::One
    }

    /// Notes the end of an operation.
    pub fn ended(&mut self, operation: u32, result: Result<(), String>) {
        let Some(number) = self.operations.get_mut(operation as usize).and_then(Option::take) else { return };
        self.free.push(operation);
        let Some(place) = self.readings.iter().position(|reading| reading.number == number) else { return };
        let reading = &mut self.readings[place];
        reading.under_way -= 1;
        if let Err(why) = result
            && !std::mem::replace(&mut reading.failed, true)
        {
            self.failures.push((reading.from, why));
        }
        if reading.under_way > 0 || !reading.failed && reading.leg.position < reading.leg.bytes {
            return;
        }
        if reading.failed {
            self.readings.remove(place);
            return;
        }
        let Some((list, mut then)) = reading.list.take() else {
            self.completed.push_back(reading.token);
            self.done.push_back((reading.from, reading.loan));
            self.readings.remove(place);
            return;
        };
        match list.runs(then.bytes) {
            Some((key, runs)) => {
                (then.key, then.runs) = (key, runs);
                reading.leg = then;
            }
            None => {
                self.failures.push((reading.from, "the list of its memory is none".to_string()));
                self.readings.remove(place);
            }
        }
    }

    /// Drops all reads from `from`, which is gone.
    pub fn gone(&mut self, from: P) {
        self.readings.retain(|reading| reading.from != from);
        self.done.retain(|done| done.0 != from);
    }

    /// Returns true if a read from `from` is under way, or its lender was not notified of the end.
    pub fn reads_from(&self, from: P) -> bool {
        self.readings.iter().any(|reading| reading.from == from) || self.done.iter().any(|d| d.0 == from)
    }

    /// Returns true if no read is under way.
    pub fn is_idle(&self) -> bool {
        self.readings.is_empty()
    }

    /// Returns the token of a completed read.
    pub fn completed(&mut self) -> Option<u64> {
        self.completed.pop_front()
    }

    /// Returns true if there is such a token.
    pub fn has_completed(&self) -> bool {
        !self.completed.is_empty()
    }

    /// Returns a lender that is to be notified of a completed read, with the loan.
    pub fn untold(&self) -> Option<(P, Loan)> {
        self.done.front().copied()
    }

    /// Notes that the lender of [`Reads::untold`] was notified.
    pub fn told(&mut self) {
        self.done.pop_front();
    }

    /// Returns true if all was told.
    pub fn is_told(&self) -> bool {
        self.done.is_empty()
    }

    /// Returns the failures of reads since the last call.
    pub fn take_failures(&mut self) -> Vec<(P, String)> {
        std::mem::take(&mut self.failures)
    }
}

/// Entry points for fuzzers, here so that ordinary tests run them too. Not part of the interface.
#[cfg(any(test, fuzzing))]
pub mod fuzz {
    use super::*;

    /// Decodes `input` as the list of a loan. An accepted list covers the requested bytes and encodes to the
    /// same input.
    pub fn lists(input: &[u8]) {
        let list = List(Mutex::new(input.to_vec()));
        for bytes in [0, 1, 1 << 20, u64::MAX] {
            let Some((key, runs)) = list.runs(bytes) else { continue };
            assert!(runs.iter().map(|run| u128::from(run.bytes)).sum::<u128>() >= u128::from(bytes));
            let again = List::from_runs(key, runs.into_iter());
            let again = again.0.lock().unwrap_or_else(PoisonError::into_inner);
            assert_eq!((&again[..8], &again[16..]), (&input[..8], &input[16..again.len()]));
        }
    }
}

enum Begun {
    One,
    NoRoom,
    Nothing,
}

/// Returns the runs of memory, in order, joined where they touch; `None` for more than `most`.
pub fn runs_of(memory: &Memory, most: usize) -> Option<Vec<Run>> {
    let (mut runs, mut position): (Vec<Run>, u64) = (Vec::new(), 0);
    while position < memory.bytes() {
        let mut covered = 0;
        memory.read(position, memory.bytes() - position, &mut |slices| {
            for slice in slices {
                let (address, bytes) = (slice.as_ptr() as u64, slice.len() as u64);
                covered += bytes;
                match runs.last_mut() {
                    Some(last) if last.address + last.bytes == address => last.bytes += bytes,
                    _ if bytes > 0 => runs.push(Run { address, bytes }),
                    _ => {}
                }
            }
        });
        position += covered;
        if covered == 0 || runs.len() > most {
            return None;
        }
    }
    Some(runs)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::loan::tests::InRuns;

    /// Remote memory, and operations that are moved when they end.
    struct Net {
        remote: Vec<u8>,
        room: usize,
        begun: Vec<(u32, u32)>,
        longest: usize,
        broken: bool,
    }

    impl Port<u32, ()> for Net {
        fn read(
            &mut self,
            from: u32,
            runs: &mut [IoSliceMut<'_>],
            _: Option<&()>,
            (mut address, key): (u64, u64),
            operation: u32,
        ) -> Result<bool, String> {
            assert_eq!(key, 9);
            if self.broken {
                return Err("broken".to_string());
            }
            if self.begun.len() >= self.room {
                return Ok(false);
            }
            self.longest = self.longest.max(runs.iter().map(|run| run.len()).sum());
            for run in runs {
                let bytes = run.len();
                run.copy_from_slice(&self.remote[address as usize..][..bytes]);
                address += bytes as u64;
            }
            self.begun.push((operation, from));
            Ok(true)
        }
    }

    fn net(remote: Vec<u8>) -> Net {
        Net { remote, room: 3, begun: Vec::new(), longest: 0, broken: false }
    }

    fn bytes(count: usize) -> Vec<u8> {
        (0..count).map(|i| (i * 7 % 251) as u8).collect()
    }

    const LIMITS: ReadLimits = ReadLimits { runs: 3, operation_bytes: 100, operations: 4 };

    fn loan(address: u64, runs: u64) -> Loan {
        Loan { name: 5, address, key: 9, runs }
    }

    /// Reads `message` in these remote runs into own runs of `own` bytes; `order` says which operation ends
    /// next.
    fn check(lengths: &[usize], own: usize, order: &[usize]) {
        let whole: usize = lengths.iter().sum();
        let message = bytes(whole);
        let (mut remote, mut runs, mut at) = (vec![0xee; 13], Vec::new(), 0);
        for &length in lengths {
            runs.push(Run { address: remote.len() as u64, bytes: length as u64 });
            remote.extend_from_slice(&message[at..at + length]);
            remote.extend_from_slice(&[0xdd; 5]);
            at += length;
        }
        let listed = remote.len() as u64;
        remote.extend_from_slice(&List::from_runs(9, runs.iter().copied()).0.lock().unwrap());
        let mut reads: Reads<u32, ()> = Reads::new(LIMITS);
        let memories = [InRuns::new(vec![0; whole], own, 7), InRuns::new(vec![0; whole], own + 1, 7)];
        for (token, memory) in memories.iter().enumerate() {
            let list = (runs.len() > 1).then(|| (List::with_room(runs.len() as u64), None));
            let loan = loan(if list.is_some() { listed } else { runs[0].address }, runs.len() as u64);
            let target = Target { list, memory: (memory.clone(), None), bytes: whole as u64 };
            reads.begin(token as u32 + 1, loan, target, token as u64);
        }
        let mut net = net(remote);
        let mut order = order.iter().cycle();
        while !reads.is_idle() {
            reads.step(&mut net);
            assert!(net.begun.len() <= 3 && net.longest <= 100 && reads.take_failures().is_empty());
            let place = order.next().unwrap() % net.begun.len();
            let (operation, from) = net.begun.swap_remove(place);
            assert!(reads.reads_from(from));
            reads.ended(operation, Ok(()));
        }
        let mut told = Vec::new();
        while let Some((from, loan)) = reads.untold() {
            told.push((from, loan.name));
            reads.told();
        }
        told.sort_unstable();
        let mut tokens = [reads.completed(), reads.completed()];
        tokens.sort_unstable();
        assert_eq!((told, tokens, reads.completed()), (vec![(1, 5), (2, 5)], [Some(0), Some(1)], None));
        assert!(memories.iter().all(|memory| *memory.bytes.lock().unwrap() == message), "{lengths:?} {own}");
    }

    proptest! {
        #[test]
        fn lists_are_taken_for_what_they_are(
            input in prop::collection::vec(any::<u8>(), 0..100),
            low in prop::collection::vec((any::<u64>(), 0u64..1 << 20), 0..9),
        ) {
            fuzz::lists(&input);
            let runs = low.into_iter().map(|(address, bytes)| Run { address, bytes });
            fuzz::lists(&List::from_runs(3, runs).0.lock().unwrap());
        }

        #[test]
        fn memory_in_any_runs_is_read_whole(
            lengths in prop::collection::vec(1usize..300, 1..6),
            own in 1usize..200,
            order in prop::collection::vec(0usize..4, 1..9),
        ) {
            check(&lengths, own, &order);
        }
    }

    fn one(reads: &mut Reads<u32, ()>, count: usize, list: Option<Arc<List>>) {
        let memory = (InRuns::new(vec![0; count], count, 1) as Memory, None);
        let runs = list.as_ref().map_or(1, |list| list.bytes() / RUN_BYTES - 1);
        let target = Target { list: list.map(|list| (list, None)), memory, bytes: count as u64 };
        reads.begin(1, loan(0, runs), target, 3);
    }

    #[test]
    fn what_fails_is_said_once_and_its_memory_kept_to_the_end() {
        let (mut reads, mut net) = (Reads::new(LIMITS), net(bytes(1000)));
        one(&mut reads, 1000, None);
        reads.step(&mut net);
        reads.ended(net.begun[0].0, Err("lost".to_string()));
        assert!(!reads.is_idle() && reads.take_failures() == [(1, "lost".to_string())]);
        reads.ended(net.begun[1].0, Err("lost".to_string()));
        reads.ended(net.begun[2].0, Ok(()));
        reads.ended(net.begun[2].0, Ok(()));
        assert!(reads.is_idle() && reads.take_failures().is_empty() && reads.completed().is_none());
        net.broken = true;
        one(&mut reads, 10, None);
        reads.step(&mut net);
        assert!(reads.is_idle() && reads.take_failures() == [(1, "broken".to_string())]);
    }

    #[test]
    fn a_list_that_is_none_ends_the_read() {
        let runs = |bytes: &[u64]| bytes.iter().map(|&bytes| Run { address: 0, bytes }).collect::<Vec<_>>();
        for (lengths, good) in
            [(&[4, 6][..], true), (&[4, 5], false), (&[10, 0], false), (&[9, u64::MAX], false)]
        {
            let remote = List::from_runs(9, runs(lengths).into_iter()).0.lock().unwrap().clone();
            let (mut reads, mut net) = (Reads::new(LIMITS), net(remote));
            one(&mut reads, 10, Some(List::with_room(2)));
            reads.step(&mut net);
            reads.ended(net.begun[0].0, Ok(()));
            assert_eq!((reads.is_idle(), reads.take_failures().is_empty()), (!good, good), "{lengths:?}");
        }
    }

    #[test]
    fn a_peer_that_is_gone_is_not_read() {
        let (mut reads, mut net) = (Reads::new(LIMITS), net(bytes(1000)));
        one(&mut reads, 1000, None);
        reads.step(&mut net);
        reads.gone(1);
        assert!(reads.is_idle() && !reads.reads_from(1));
        net.begun.iter().for_each(|&(operation, _)| reads.ended(operation, Ok(())));
        assert_eq!((reads.completed(), reads.free.len()), (None, LIMITS.operations));
    }

    #[test]
    fn runs_that_touch_are_one() {
        let memory: Memory = InRuns::new(bytes(1000), 10, 3);
        let runs = runs_of(&memory, 4).unwrap();
        assert_eq!(runs.iter().map(|run| run.bytes).collect::<Vec<_>>(), [1000]);
        assert_eq!(runs_of(&memory, 0), None);
        assert_eq!(runs_of(&(InRuns::new(Vec::new(), 1, 1) as Memory), 4), Some(Vec::new()));
    }
}
