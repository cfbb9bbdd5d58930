//! Model checking of the locks of windows, and of what ends loans: `RUSTFLAGS="--cfg loom" cargo test -p tutti-transport --release loom_`
//!
//! # Safety
//! The checker hands out the pointers into its cells and reports every use that another could disturb.
#![allow(unsafe_code)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

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

/// Two threads that lock for these purposes; an exclusive one writes, a shared one reads.
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
