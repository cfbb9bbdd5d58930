//! Model checking of the turns of banks, of flags that publish plain memory, and of the waking of those who
//! wait for either: `RUSTFLAGS="--cfg loom" cargo test -p tutti-transport --release loom_`
//!
//! # Safety
//! The checker hands out the pointers into its cells and reports every use that another could disturb.
#![allow(unsafe_code)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use tutti_base::sync::{AtomicU32, AtomicU64, Ordering, fence};

use crate::found::{Found, FoundEntry, Look};
use crate::loom_tests::{Words, model};
use crate::turns::{Turns, is_last, is_reached, word};

const MEMBERS: usize = 2;
const MOST_SLOTS: usize = 2;

/// Memory that one member of a set writes. The cells are the banks: the checker reports two accesses to one
/// of them that are not ordered.
#[derive(Default)]
struct Part {
    left: AtomicU64,
    flags_wanted: AtomicU64,
    left_wanted: AtomicU64,
    flags: [AtomicU64; MOST_SLOTS],
    banks: [UnsafeCell<u64>; MOST_SLOTS],
    bell: Words,
}

#[derive(Default)]
struct Shared {
    parts: [Part; MEMBERS],
    parked: AtomicU32,
}

impl Shared {
    fn lefts(&self) -> impl Iterator<Item = &AtomicU64> {
        self.parts.iter().map(|part| &part.left)
    }

    fn grant(&self, turns: &mut Turns, me: usize, number: u64) -> bool {
        turns.is_granted(number) || turns.look(number, self.lefts(), &self.parts[me].left_wanted)
    }

    /// Writes the own bank and says so.
    fn publish(&self, turns: &Turns, me: usize, number: u64) {
        let slot = turns.slot(number) as usize;
        self.parts[me].banks[slot].with_mut(|bank| {
            // SAFETY: see above.
            unsafe { *bank = number * 2 + me as u64 }
        });
        self.parts[me].flags[slot].store(word(number, 0, 1), Ordering::Release);
    }

    /// Returns true if `peer` has published; then its bank must hold what it wrote in this operation.
    fn see(&self, turns: &Turns, peer: usize, number: u64) -> bool {
        let slot = turns.slot(number) as usize;
        let flag = self.parts[peer].flags[slot].load(Ordering::Acquire);
        if !is_reached(flag, word(number, 0, 1)) {
            return false;
        }
        self.parts[peer].banks[slot].with(|bank| {
            // SAFETY: see above.
            assert_eq!(unsafe { *bank }, number * 2 + peer as u64, "bytes of another operation");
        });
        true
    }

    fn exchange(&self, turns: &mut Turns, me: usize, number: u64) {
        while !self.grant(turns, me, number) {
            thread::yield_now();
        }
        self.publish(turns, me, number);
        while !self.see(turns, 1 - me, number) {
            thread::yield_now();
        }
    }

    /// Leaves an operation like `Banks::leave`, with a fence before the look for sleepers.
    fn leave(&self, turns: &mut Turns, me: usize, number: u64) {
        let (before, now) = turns.leave(number, &self.parts[me].left);
        fence(Ordering::SeqCst);
        if self.parked.load(Ordering::Relaxed) == 0 {
            return;
        }
        for part in self.others(me) {
            let needs = part.left_wanted.load(Ordering::Relaxed);
            if before < needs && needs <= now && is_last(needs, self.lefts()) {
                part.bell.ring();
            }
        }
    }

    /// Wakes members like `Banks::post` after its store, with a fence.
    fn wake(&self, me: usize) {
        fence(Ordering::SeqCst);
        if self.parked.load(Ordering::Relaxed) == 0 {
            return;
        }
        for part in self.others(me) {
            if part.flags_wanted.load(Ordering::Relaxed) >> me & 1 != 0 {
                part.bell.ring();
            }
        }
    }

    fn others(&self, me: usize) -> impl Iterator<Item = &Part> {
        self.parts.iter().enumerate().filter(move |(member, _)| *member != me).map(|(_, part)| part)
    }
}

/// Exchanges the banks of two members in `operations` operations.
fn check_exchange(slots: u32, operations: u64) {
    model(move || {
        let shared = Arc::new(Shared::default());
        let run = move |shared: &Shared, me| {
            let mut turns = Turns::new(slots);
            for _ in 0..operations {
                let number = turns.begin();
                shared.exchange(&mut turns, me, number);
                shared.leave(&mut turns, me, number);
            }
        };
        let other = shared.clone();
        let thread = thread::spawn(move || run(&other, 1));
        run(&shared, 0);
        thread.join().expect("the other does not panic");
    });
}

#[test]
fn loom_banks_are_reused_when_all_have_left() {
    check_exchange(1, 2);
}

#[test]
fn loom_banks_take_turns() {
    check_exchange(2, 3);
}

/// One member only writes, the other only reads, and ends its operations in the wrong order.
#[test]
fn loom_banks_wait_for_operations_that_end_late() {
    model(|| {
        let shared = Arc::new(Shared::default());
        let writer = shared.clone();
        let thread = thread::spawn(move || {
            let mut turns = Turns::new(2);
            for _ in 0..3 {
                let number = turns.begin();
                while !writer.grant(&mut turns, 0, number) {
                    thread::yield_now();
                }
                writer.publish(&turns, 0, number);
                writer.leave(&mut turns, 0, number);
            }
        });
        let mut turns = Turns::new(2);
        let numbers = [turns.begin(), turns.begin()];
        for number in numbers.into_iter().rev() {
            while !shared.see(&turns, 0, number) {
                thread::yield_now();
            }
            shared.leave(&mut turns, 1, number);
        }
        let number = turns.begin();
        while !(shared.see(&turns, 0, number) && shared.grant(&mut turns, 1, number)) {
            thread::yield_now();
        }
        shared.leave(&mut turns, 1, number);
        thread.join().expect("the writer does not panic");
    });
}

/// A member that sleeps until a flag is posted.
#[test]
fn loom_a_post_wakes_who_wants_it() {
    model(|| {
        let shared = Arc::new(Shared::default());
        let poster = shared.clone();
        let thread = thread::spawn(move || {
            poster.publish(&Turns::new(1), 1, 0);
            poster.wake(1);
        });
        let turns = Turns::new(1);
        if !shared.see(&turns, 1, 0) {
            shared.parts[0].bell.park_counted(&shared.parked, || {
                shared.parts[0].flags_wanted.store(1 << 1, Ordering::Relaxed);
                fence(Ordering::SeqCst);
                shared.see(&turns, 1, 0)
            });
        }
        assert!(shared.see(&turns, 1, 0));
        thread.join().expect("the poster does not panic");
        assert_eq!(shared.parked.load(Ordering::Relaxed), 0);
    });
}

/// A member that sleeps for room is woken by the last of two that leave at the same time.
#[test]
fn loom_the_last_to_leave_wakes_who_wants_room() {
    model(|| {
        let lefts = Arc::new([AtomicU64::new(1), AtomicU64::new(0), AtomicU64::new(0)]);
        let sleeper = Arc::new((Words::default(), AtomicU32::new(0), AtomicU64::new(0)));
        let leavers = [1, 2].map(|me| {
            let (lefts, sleeper) = (lefts.clone(), sleeper.clone());
            thread::spawn(move || {
                let mut turns = Turns::new(1);
                turns.begin();
                turns.leave(0, &lefts[me]);
                fence(Ordering::SeqCst);
                let is_needed = sleeper.1.load(Ordering::Relaxed) != 0
                    && sleeper.2.load(Ordering::Relaxed) == 1
                    && is_last(1, lefts.iter());
                if is_needed {
                    sleeper.0.ring();
                }
            })
        });
        let mut turns = Turns::new(1);
        if !turns.look(1, lefts.iter(), &sleeper.2) {
            sleeper.0.park_counted(&sleeper.1, || turns.look(1, lefts.iter(), &sleeper.2));
        }
        assert!(turns.look(1, lefts.iter(), &sleeper.2), "woken too early, or not at all");
        for leaver in leavers {
            leaver.join().expect("a leaver does not panic");
        }
    });
}

/// Two members look for two things in a table of two entries: each is found out once, unless the table is
/// full, and who reads it reads all of it.
#[test]
fn loom_what_is_found_is_told_whole() {
    model(|| {
        let entries: Arc<[FoundEntry; 2]> = Arc::new(Default::default());
        let told = Arc::new(AtomicU64::new(0));
        let run = |entries: &[FoundEntry; 2], told: &AtomicU64, keys: [u64; 2]| {
            let found = Found::new(entries);
            for key in keys {
                match found.look([key, 0]) {
                    Look::Known(value) => assert_eq!(value, [key; 4]),
                    Look::Mine(place) => {
                        assert_eq!(told.fetch_add(1 << (8 * key), Ordering::Relaxed) >> (8 * key) & 1, 0);
                        found.tell(place, [key, 0], [key; 4]);
                    }
                    Look::Busy | Look::Full => {}
                }
            }
        };
        let other = (entries.clone(), told.clone());
        let thread = thread::spawn(move || run(&other.0, &other.1, [1, 2]));
        run(&entries, &told, [2, 1]);
        thread.join().expect("the other does not panic");
    });
}
