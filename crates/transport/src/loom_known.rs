//! Model checking of what is remembered about watched memory: `RUSTFLAGS="--cfg loom" cargo test -p
//! tutti-transport --release loom_`
//!
//! The kernel's part follows its source. A change is announced before it happens, and its message comes
//! afterwards. The changing thread goes on when the message has been read; only then nothing is changing any
//! more.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use loom::thread;

use crate::count::Count;
use crate::loom_tests::model;

struct Kernel {
    changing: AtomicU64,
    /// Memory at the address: 0 is what was remembered.
    mapped: AtomicU64,
    /// True while a message waits to be read.
    told: AtomicBool,
    read: AtomicBool,
    count: Count,
}

impl Kernel {
    fn new() -> Arc<Kernel> {
        Arc::new(Kernel {
            changing: AtomicU64::new(0),
            mapped: AtomicU64::new(0),
            told: AtomicBool::new(false),
            read: AtomicBool::new(false),
            count: Count::new(),
        })
    }

    /// Unmaps the memory, like munmap.
    fn unmap(&self) {
        self.changing.fetch_add(1, Ordering::AcqRel);
        self.mapped.store(1, Ordering::Release);
        self.told.store(true, Ordering::Release);
        while !self.read.load(Ordering::Acquire) {
            thread::yield_now();
        }
        self.changing.fetch_sub(1, Ordering::AcqRel);
    }

    /// Reads one message, like the watcher.
    fn watch(&self) {
        while !self.told.load(Ordering::Acquire) {
            thread::yield_now();
        }
        self.count.step();
        self.read.store(true, Ordering::Release);
        self.count.step();
    }

    /// Returns true if the remembered fact holds, as a process with several threads checks it.
    fn is_known(&self, count: u64) -> bool {
        self.changing.load(Ordering::Acquire) == 0 && self.count.is(count)
    }
}

#[test]
fn loom_addresses_that_were_given_to_another_thread_are_not_known() {
    model(|| {
        let kernel = Kernel::new();
        let count = kernel.count.now().unwrap();
        let (one, other) = (Arc::clone(&kernel), Arc::clone(&kernel));
        let unmapper = thread::spawn(move || one.unmap());
        let watcher = thread::spawn(move || other.watch());
        // A thread that has got the addresses, in any way, uses them.
        if kernel.mapped.load(Ordering::Acquire) == 1 {
            assert!(!kernel.is_known(count));
        }
        unmapper.join().unwrap();
        watcher.join().unwrap();
        assert!(!kernel.is_known(count));
    });
}

#[test]
fn loom_who_has_unmapped_alone_need_not_ask() {
    model(|| {
        let kernel = Kernel::new();
        let count = kernel.count.now().unwrap();
        let other = Arc::clone(&kernel);
        let watcher = thread::spawn(move || other.watch());
        kernel.unmap();
        assert!(!kernel.count.is(count));
        watcher.join().unwrap();
    });
}
