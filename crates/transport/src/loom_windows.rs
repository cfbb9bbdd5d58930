//! Model checking of the locks of windows, and of what ends loans: `RUSTFLAGS="--cfg loom" cargo test -p
//! tutti-transport --release loom_`
//!
//! # Safety
//! The checker hands out the pointers into its cells and reports every use that another could disturb.
#![allow(unsafe_code)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use crate::active::{LogTail, Tally};
use crate::loans::Loans;
use crate::loom_tests::model;
use crate::mutex::Mutex;
use crate::turnstile::{Kind, Turnstile};

#[test]
fn loom_accumulates_are_alone() {
    model(|| {
        let shared = Arc::new((Mutex::default(), UnsafeCell::new(0)));
        let work = |shared: &(Mutex, UnsafeCell<i32>)| {
            shared.0.lock(0, |_, _| thread::yield_now());
            shared.1.with_mut(|count| {
                // SAFETY: see above.
                unsafe { *count += 1 }
            });
            shared.0.unlock(|_| ());
        };
        let other = Arc::clone(&shared);
        let one = thread::spawn(move || work(&other));
        work(&shared);
        one.join().unwrap();
        shared.1.with(|count| {
            // SAFETY: see above.
            assert_eq!(unsafe { *count }, 2)
        });
    });
}

/// Checks two threads that take the lock in these ways; an exclusive one writes, a shared one reads.
fn check(kinds: [Kind; 2]) {
    model(move || {
        let shared = Arc::new((Turnstile::default(), UnsafeCell::new(0)));
        let work = |shared: &(Turnstile, UnsafeCell<i32>), kind| {
            let ticket = shared.0.ask(kind, 0);
            while !shared.0.enter(ticket) {
                thread::yield_now();
            }
            match kind {
                Kind::Exclusive => shared.1.with_mut(|count| {
                    // SAFETY: see above.
                    unsafe { *count += 1 }
                }),
                Kind::Shared => shared.1.with(|count| {
                    // SAFETY: see above.
                    assert!(unsafe { *count } < 3)
                }),
            }
            shared.0.leave(ticket);
        };
        let threads: Vec<_> = kinds[1..]
            .iter()
            .map(|&kind| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || work(&shared, kind))
            })
            .collect();
        work(&shared, kinds[0]);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn loom_who_is_exclusive_is_alone() {
    // Of three threads there are too many interleavings.
    check([Kind::Exclusive, Kind::Exclusive]);
    check([Kind::Shared, Kind::Exclusive]);
    check([Kind::Exclusive, Kind::Shared]);
}

#[test]
fn loom_memory_moves_after_the_last_loan_has_ended() {
    model(|| {
        let shared = Arc::new((Loans::default(), UnsafeCell::new(0)));
        shared.0.begin();
        let other = Arc::clone(&shared);
        let reader = thread::spawn(move || {
            other.1.with(|memory| {
                // SAFETY: see above.
                assert_eq!(unsafe { *memory }, 0)
            });
            other.0.end();
        });
        shared.0.begin();
        if shared.0.is_only_one() {
            shared.1.with_mut(|memory| {
                // SAFETY: see above.
                unsafe { *memory = 1 }
            });
        }
        shared.0.end();
        reader.join().unwrap();
    });
}

/// Memory that a target and its origins share, with a log of two records.
#[derive(Default)]
struct Epoch {
    posts: [Tally; 2],
    completed: Tally,
    room: LogTail,
    log: [UnsafeCell<u32>; 2],
}

const RECORD: u32 = 8;

fn wait(tally: &Tally, until: u32) {
    while tally.now() != until {
        thread::yield_now();
    }
}

impl Epoch {
    /// Runs an origin, which leaves a record in each of `epochs` epochs.
    fn be_origin(&self, me: usize, epochs: u32) {
        for epoch in 1..=epochs {
            wait(&self.posts[me], epoch);
            let place = self.room.take(RECORD, 2 * RECORD).expect("the log was cleared before the post");
            self.log[(place / RECORD) as usize].with_mut(|record| {
                // SAFETY: see above.
                unsafe { *record = 10 * epoch + me as u32 }
            });
            self.completed.count();
        }
    }

    /// Posts to the first `origins`.
    fn post(&self, origins: usize) {
        self.posts[..origins].iter().for_each(Tally::count);
    }

    /// Returns the sum of the records that the `origins` have left when `completed` epochs are completed in
    /// all.
    fn collect(&self, origins: usize, completed: u32) -> u32 {
        wait(&self.completed, completed);
        assert_eq!(self.room.taken(), origins as u32 * RECORD);
        let read = |record: &UnsafeCell<u32>| {
            record.with(|record| {
                // SAFETY: see above.
                unsafe { *record }
            })
        };
        let sum = self.log[..origins].iter().map(read).sum();
        self.room.clear();
        sum
    }
}

#[test]
fn loom_a_target_finds_what_one_origin_has_left_epoch_by_epoch() {
    model(|| {
        let shared = Arc::new(Epoch::default());
        let other = Arc::clone(&shared);
        let origin = thread::spawn(move || other.be_origin(0, 2));
        for (epoch, sum) in [(1, 10), (2, 20)] {
            shared.post(1);
            assert_eq!(shared.collect(1, epoch), sum);
        }
        origin.join().unwrap();
    });
}

#[test]
fn loom_a_target_finds_what_two_origins_have_left() {
    model(|| {
        let shared = Arc::new(Epoch::default());
        // Origins that wait too have too many interleavings.
        shared.post(2);
        let origins = [0, 1].map(|me| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.be_origin(me, 1))
        });
        assert_eq!(shared.collect(2, 2), 10 + 11);
        origins.into_iter().for_each(|origin| origin.join().unwrap());
    });
}
