//! Model checking of the gate between loans and forks: `RUSTFLAGS="--cfg loom" cargo test -p tutti-transport
//! --release loom_`
//!
//! A fork closes the gate, makes memory private and opens the gate. A loan that finds memory shared may rely
//! on it until it ends.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

use crate::loans::Gate;
use crate::loom_tests::model;

struct Memory {
    gate: Gate,
    is_shared: AtomicBool,
}

impl Memory {
    /// Exposes memory of the owner. Returns true if peers were to write the memory by their mapping.
    fn lend(&self) -> bool {
        let stays = self.gate.begin();
        let is_near = stays && self.is_shared.load(Ordering::Relaxed);
        if is_near {
            thread::yield_now();
            assert!(self.is_shared.load(Ordering::Relaxed), "peers store where the owner does not see it");
        }
        self.gate.end();
        is_near
    }

    /// Forks. Returns true if memory became private.
    fn fork(&self) -> bool {
        let may = self.gate.close();
        if may {
            self.is_shared.store(false, Ordering::Relaxed);
            self.gate.open();
        }
        may
    }
}

fn memory() -> Arc<Memory> {
    Arc::new(Memory { gate: Gate::new(), is_shared: AtomicBool::new(true) })
}

#[test]
fn loom_what_peers_write_stays_shared() {
    model(|| {
        let memory = memory();
        let other = Arc::clone(&memory);
        let lender = thread::spawn(move || (other.lend(), other.lend()));
        let was_private = memory.fork();
        let (first, second) = lender.join().expect("no thread panics");
        assert!(was_private || first || second, "a fork waits for a loan only");
        assert!(!memory.gate.has_loans());
        if was_private {
            assert!(!memory.lend(), "what is private stays so");
        }
    });
}

#[test]
fn loom_two_lenders_and_a_fork() {
    model(|| {
        let memory = memory();
        let (one, two) = (Arc::clone(&memory), Arc::clone(&memory));
        let one = thread::spawn(move || one.lend());
        let two = thread::spawn(move || two.lend());
        memory.fork();
        one.join().expect("no thread panics");
        two.join().expect("no thread panics");
        assert!(memory.fork() && !memory.lend());
    });
}
