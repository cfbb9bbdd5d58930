//! Model checking of the ring and of the doorbell:
//! `RUSTFLAGS="--cfg loom" cargo test -p tutti-transport --release loom_`
//!
//! The kernel's side of a futex is modelled by a lock and a condition; a lost wake-up is then a deadlock,
//! which fails the test. Where the waker has a full fence, no time limit is
//! needed; without one, the sleeper's time limit ends the sleep.

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use tutti_base::sync::{AtomicU32, AtomicU64, Ordering, fence};

use crate::bell::Bell;
use crate::link::Header;
use crate::ring::{INLINE_BYTES, Ring, RingControl, RingSlot};

const SLOTS: usize = 2;
const UNIT: usize = 64;
const UNITS: usize = 2;

/// A ring of two slots and two units of payload. Cells stand for what is not atomic in life: the checker
/// reports two accesses to one of them that are not ordered.
#[derive(Default)]
struct Shared {
    control: RingControl,
    slots: [RingSlot; SLOTS],
    inline: [UnsafeCell<()>; SLOTS],
    payload: [UnsafeCell<()>; UNITS],
    announced: AtomicU64,
    sender_bell: Words,
    receiver_bell: Words,
}

#[derive(Default)]
pub(crate) struct Words {
    sleeping: AtomicU32,
    futex: AtomicU32,
    polled: AtomicU32,
    struck: AtomicU32,
    parked: AtomicU32,
    queue: Mutex<()>,
    /// Notified for those who sleep on the futex.
    woken: Condvar,
    /// Notified for those who sleep on the descriptor.
    readable: Condvar,
}

impl Words {
    fn bell(&self) -> Bell<'_> {
        Bell { sleeping: &self.sleeping, futex: &self.futex, polled: &self.polled }
    }

    /// Sleeps like [`Words::park`], on a descriptor that ringing makes ready.
    fn park_polling(&self, mut pending: impl FnMut() -> bool) {
        let announced = self.bell().announce(&self.parked);
        if !pending() && self.bell().polls(&announced) {
            let mut queue = self.queue.lock().expect("no thread panics");
            if self.struck.load(Ordering::Acquire) == 0 {
                queue = self.readable.wait(queue).expect("no thread panics");
            }
            drop(queue);
            self.bell().polls_no_more();
        }
        self.bell().withdraw(announced);
    }

    /// Sleeps until rung, unless `pending`.
    fn park(&self, pending: impl FnMut() -> bool) {
        self.park_counted(&self.parked, pending);
    }

    /// Sleeps until rung, unless `pending`, and is counted in `parked` of the node.
    pub(crate) fn park_counted(&self, parked: &AtomicU32, mut pending: impl FnMut() -> bool) {
        let announced = self.bell().announce(parked);
        if !pending() {
            let mut queue = self.queue.lock().expect("no thread panics");
            if self.futex.load(Ordering::Acquire) == announced.ticket {
                queue = self.woken.wait(queue).expect("no thread panics");
            }
            drop(queue);
        }
        self.bell().withdraw(announced);
    }

    pub(crate) fn ring(&self) {
        self.bell().ring(|_, wakes| {
            if wakes.descriptor {
                self.struck.store(1, Ordering::Release);
                drop(self.queue.lock().expect("no thread panics"));
                self.readable.notify_all();
            }
            if wakes.futex {
                drop(self.queue.lock().expect("no thread panics"));
                self.woken.notify_all();
            }
        });
    }

    fn sleepers(&self) -> u32 {
        self.sleeping.load(Ordering::SeqCst) & 0xff
    }
}

impl Shared {
    fn ring(&self) -> Ring<'_> {
        Ring::new(&self.control, &self.slots, (UNITS * UNIT) as u64)
    }

    fn try_send(&self, number: u64, bytes: usize) -> bool {
        let Some(place) = self.ring().reserve(bytes) else { return false };
        if bytes <= INLINE_BYTES {
            self.inline[number as usize % SLOTS].with_mut(|_| ());
        } else {
            self.payload[place.offset() / UNIT].with_mut(|_| ());
        }
        if self.ring().publish(place, Header([number; 3]), bytes) {
            self.announced.fetch_or(1, Ordering::Release);
        }
        true
    }

    /// Takes a record if there is one; it must be number `number`.
    fn try_receive(&self, number: u64) -> bool {
        let Some(record) = self.ring().peek() else { return false };
        assert_eq!(record.header, Header([number; 3]));
        if record.bytes <= INLINE_BYTES {
            self.inline[number as usize % SLOTS].with(|_| ());
        } else {
            self.payload[record.offset() / UNIT].with(|_| ());
        }
        self.ring().take(&record);
        self.ring().publish_freed();
        true
    }
}

/// Checks every execution with up to three preemptions. More take hours and rarely find anything.
pub(crate) fn model(test: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(test);
}

fn check_order(sizes: &'static [usize]) {
    model(move || {
        let shared = Arc::new(Shared::default());
        let sender = shared.clone();
        let thread = thread::spawn(move || {
            for (number, &bytes) in sizes.iter().enumerate() {
                while !sender.try_send(number as u64, bytes) {
                    thread::yield_now();
                }
            }
        });
        for number in 0..sizes.len() as u64 {
            while !shared.try_receive(number) {
                thread::yield_now();
            }
        }
        thread.join().expect("the sender does not panic");
        assert!(shared.ring().peek().is_none() && !shared.ring().pending());
    });
}

#[test]
fn loom_records_arrive_in_order_inline() {
    check_order(&[8, 0, 32, 8]);
}

#[test]
fn loom_records_arrive_in_order_from_the_byte_ring() {
    check_order(&[64, 40, 64]);
}

#[test]
fn loom_records_arrive_in_order_mixed() {
    check_order(&[64, 8, 64]);
}

/// The first record, its announcement and the doorbell, with a fence in the waker.
#[test]
fn loom_first_contact_wakes_a_sleeper() {
    model(|| {
        let shared = Arc::new(Shared::default());
        let sender = shared.clone();
        let thread = thread::spawn(move || {
            assert!(sender.try_send(0, 8));
            fence(Ordering::SeqCst);
            sender.receiver_bell.ring();
        });
        let pending = || shared.announced.load(Ordering::Acquire) != 0 && shared.ring().pending();
        if !pending() {
            shared.receiver_bell.park(pending);
        }
        assert!(shared.try_receive(0));
        thread.join().expect("the sender does not panic");
        assert_eq!(shared.receiver_bell.sleepers(), 0);
    });
}

/// A sender that sleeps for lack of room is woken when there is some, with a fence in the receiver.
#[test]
fn loom_room_wakes_a_sender() {
    model(|| {
        let shared = Arc::new(Shared::default());
        assert!(shared.try_send(0, 8) && shared.try_send(1, 8));
        let receiver = shared.clone();
        let thread = thread::spawn(move || {
            assert!(receiver.try_receive(0));
            fence(Ordering::SeqCst);
            if receiver.ring().grant() {
                receiver.sender_bell.ring();
            }
        });
        if !shared.ring().has_room(8) {
            shared.sender_bell.park(|| shared.ring().want_room(8));
        }
        assert!(shared.try_send(2, 8));
        thread.join().expect("the receiver does not panic");
    });
}

/// Two threads of one process sleep; one ring wakes both.
#[test]
fn loom_one_ring_wakes_all_threads() {
    model(|| {
        let words = Arc::new((Words::default(), AtomicU32::new(0)));
        let sleepers = [(); 2].map(|()| {
            let words = words.clone();
            thread::spawn(move || {
                words.0.park(|| words.1.load(Ordering::Acquire) != 0);
                assert_eq!(words.1.load(Ordering::Acquire), 1);
            })
        });
        words.1.store(1, Ordering::Release);
        fence(Ordering::SeqCst);
        words.0.ring();
        for sleeper in sleepers {
            sleeper.join().expect("a sleeper does not panic");
        }
        assert_eq!(words.0.sleepers(), 0);
    });
}

/// A thread that sleeps on descriptors is woken like one that sleeps on the futex, beside one that does.
#[test]
fn loom_a_ring_wakes_who_polls() {
    model(|| {
        let words = Arc::new((Words::default(), AtomicU32::new(0)));
        let sleeper = words.clone();
        let thread = thread::spawn(move || {
            sleeper.0.park_polling(|| sleeper.1.load(Ordering::Acquire) != 0);
            assert_eq!(sleeper.1.load(Ordering::Acquire), 1);
        });
        words.1.store(1, Ordering::Release);
        fence(Ordering::SeqCst);
        words.0.ring();
        thread.join().expect("a sleeper does not panic");
        assert_eq!((words.0.sleepers(), words.0.polled.load(Ordering::SeqCst)), (0, 0));
    });
}

/// A ring wakes a thread on the descriptor and another on the futex.
#[test]
fn loom_a_ring_wakes_who_polls_and_who_does_not() {
    model(|| {
        let words = Arc::new((Words::default(), AtomicU32::new(0)));
        let sleepers = [true, false].map(|polls| {
            let words = words.clone();
            thread::spawn(move || {
                let pending = || words.1.load(Ordering::Acquire) != 0;
                if polls {
                    words.0.park_polling(pending);
                } else {
                    words.0.park(pending);
                }
                assert_eq!(words.1.load(Ordering::Acquire), 1);
            })
        });
        words.1.store(1, Ordering::Release);
        fence(Ordering::SeqCst);
        words.0.ring();
        for sleeper in sleepers {
            sleeper.join().expect("a sleeper does not panic");
        }
        assert_eq!((words.0.sleepers(), words.0.polled.load(Ordering::SeqCst)), (0, 0));
    });
}

/// The handshake as it runs: no fence in the waker, a time limit on the sleep.
#[test]
fn loom_a_missed_ring_costs_one_time_limit() {
    model(|| {
        let words = Arc::new((Words::default(), AtomicU32::new(0)));
        let waker = words.clone();
        let thread = thread::spawn(move || {
            waker.1.store(1, Ordering::Release);
            waker.0.ring();
        });
        while words.1.load(Ordering::Acquire) == 0 {
            let announced = words.0.bell().announce(&words.0.parked);
            if words.1.load(Ordering::Acquire) == 0
                && words.0.futex.load(Ordering::Acquire) == announced.ticket
            {
                thread::yield_now(); // the time limit
            }
            words.0.bell().withdraw(announced);
        }
        thread.join().expect("the waker does not panic");
        assert_eq!(words.0.sleepers(), 0);
    });
}
