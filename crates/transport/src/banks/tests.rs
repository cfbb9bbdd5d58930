//! Sets of banks in real shared memory, members as threads.

use std::sync::atomic::AtomicU32 as Count;

use tutti_base::BankSizes;
use tutti_base::config::Config;
use tutti_sys::job::Plan;

use super::shelf::{Owner, Shelf};
use super::*;
use crate::waiting::{Waiter, Waiting};

fn job(ranks: u32, banks: BankSizes) -> Arc<Job> {
    let plan = Plan { banks, ..Plan::one_host(ranks) };
    Arc::new(Job::create(&plan).unwrap())
}

fn key(communicator: u64) -> RegionKey {
    RegionKey { communicator, number: 0, lowest: 0 }
}

/// Runs `member` in a thread for each member of a set of its own.
fn check(members: u32, layout: &Layout, member: impl Fn(Banks) + Sync) {
    let job = job(members, BankSizes::default());
    let ranks: Vec<u32> = (0..members).rev().collect();
    std::thread::scope(|scope| {
        for me in 0..members {
            let (job, ranks, member) = (&job, &ranks, &member);
            scope.spawn(move || member(Banks::open(job, key(3), layout, ranks, me).unwrap().unwrap()));
        }
    });
    let one = Layout { members: 1, ..*layout };
    assert!(Banks::open(&job, key(3), &one, &[0], 0).unwrap().is_some(), "all have closed it");
    assert_eq!(job.node().parked.load(Ordering::SeqCst), 0);
}

/// Waits for `look`, which is told whether the wait is about to sleep.
fn wait(banks: &mut Banks, waiter: &mut Waiter<'_>, mut look: impl FnMut(&mut Banks, bool) -> bool) {
    let job = Arc::clone(banks.region.job());
    let rank = banks.ranks[banks.me as usize];
    waiter.reset();
    while !look(banks, false) {
        waiter.pause(job.sleeper(rank, 0), || look(banks, true));
    }
}

fn byte(number: u64, member: u32, class: Class) -> u8 {
    (number * 7 + u64::from(member) * 31 + class as u64 * 3) as u8
}

/// Writes the own bank and reads those of all members. `delay` operations stay under way at odd members, and
/// end in pairs, the later one first.
fn exchange(banks: &mut Banks, waiter: &mut Waiter<'_>, number: u64, class: Class, bytes: usize) {
    wait(banks, waiter, |banks, _| banks.grant(class, number, bytes, 0).is_some());
    let slot = banks.grant(class, number, bytes, 0).expect("granted for good");
    let (me, flag) = (banks.me(), (number % 8) as u16);
    // SAFETY: the slot is granted and the bank has so many bytes, written by its owner before it posts.
    unsafe { banks.bank(&slot, me).write_bytes(byte(number, me, class), bytes) };
    banks.post(&slot, flag, 1 + number % 5);
    for peer in 0..banks.members() {
        wait(banks, waiter, |banks, sleeps| match sleeps {
            true => banks.want(&slot, peer, flag, 1 + number % 5),
            false => banks.is_reached(&slot, peer, flag, 1 + number % 5),
        });
        // SAFETY: its owner has posted and writes no more until all have left.
        let seen = unsafe { std::slice::from_raw_parts(banks.bank(&slot, peer), bytes) };
        assert!(seen.iter().all(|&seen| seen == byte(number, peer, class)), "operation {number} of {peer}");
    }
}

fn run(banks: &mut Banks, spin_us: i64, rounds: u64) {
    let config = Config::default().changed(|c| c.waiting.spin_us = spin_us);
    let waiting = Waiting::new(&config, banks.members(), 1, false);
    let mut waiter = waiting.waiter(false);
    let mut late = Vec::new();
    let sizes = [0, 8, 56, 57, 1000, 4096, 5000, 60_000];
    for round in 0..rounds {
        let bytes = sizes[round as usize * 5 % sizes.len()];
        let class = banks.layout().class_of(bytes, false).expect("it fits");
        let number = banks.begin(class);
        exchange(banks, &mut waiter, number, class, bytes);
        late.insert(0, (class, number));
        // No slot may still be needed for the next operation of its class.
        if late.len() == 2 || class == Class::Large || banks.me().is_multiple_of(2) {
            for (class, number) in late.drain(..) {
                banks.leave(class, number);
            }
        }
    }
    for (class, number) in late {
        banks.leave(class, number);
    }
}

#[test]
fn members_see_each_others_banks() {
    for members in [1, 2, 3, 5] {
        let layout = Layout::of_communicator(&BankSizes::default(), members);
        check(members, &layout, |mut banks| run(&mut banks, -1, 600));
    }
}

/// A missed wake-up costs a millisecond at first, a second after some; none of these waits spins.
#[test]
fn members_that_sleep_are_woken() {
    let layout = Layout::of_communicator(&BankSizes::default(), 4);
    check(4, &layout, |mut banks| run(&mut banks, 0, 300));
}

#[test]
fn who_is_ahead_waits_for_room() {
    let layout = Layout::of_communicator(&BankSizes::default(), 2);
    let behind = Count::new(0);
    check(2, &layout, |mut banks| {
        let class = Class::Small;
        if banks.me() == 0 {
            for number in 0..u64::from(layout.slots[0].count) {
                assert_eq!(banks.begin(class), number);
                assert!(banks.grant(class, number, 8, 0).is_some());
                banks.leave(class, number);
            }
            let number = banks.begin(class);
            assert!(banks.grant(class, number, 8, 0).is_none(), "the other has left none");
            behind.store(1, Ordering::Release);
            let waiting = Waiting::asleep(&Config::default());
            let mut waiter = waiting.waiter(false);
            wait(&mut banks, &mut waiter, |banks, _| banks.grant(class, number, 8, 0).is_some());
            assert_eq!(behind.load(Ordering::Acquire), 2);
            banks.leave(class, number);
        } else {
            while behind.load(Ordering::Acquire) == 0 {
                std::thread::yield_now();
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
            let number = banks.begin(class);
            assert!(banks.grant(class, number, 8, 0).is_some());
            behind.store(2, Ordering::Release);
            banks.leave(class, number);
        }
    });
}

#[test]
fn persistent_operations_have_their_own() {
    for bytes in [0, 8, 4096, 100_000] {
        let layout = Layout::of_persistent(&BankSizes::default(), 2, bytes, false);
        let class = layout.class_of(bytes, false).expect("made for it");
        check(2, &layout, |mut banks| {
            let waiting = Waiting::new(&Config::default(), 2, 1, false);
            let mut waiter = waiting.waiter(false);
            for _ in 0..50 {
                let number = banks.begin(class);
                exchange(&mut banks, &mut waiter, number, class, bytes);
                banks.leave(class, number);
            }
        });
    }
}

/// Two members make, use and free operations, one of them as far ahead of the other as it may be.
#[test]
fn banks_of_freed_operations_are_used_again() {
    let job = job(2, BankSizes::default());
    let config = Config::default();
    let turn = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        for me in 0..2 {
            let (job, turn, waiting) = (&job, &turn, Waiting::new(&config, 2, 1, false));
            scope.spawn(move || {
                let (mut shelf, mut waiter) = (Shelf::default(), waiting.waiter(false));
                let mut entries = std::collections::BTreeSet::new();
                for round in 0..2000 {
                    let layout = Layout::of_persistent(&BankSizes::default(), 2, round % 3 * 64, false);
                    let owner = Owner { communicator: 9, lowest: 0, digest: (round % 3) as u16 };
                    let mut banks = loop {
                        match shelf.open(job, owner, &layout, &[0, 1], me) {
                            Ok(banks) => break banks.expect("there is room"),
                            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
                        }
                        std::thread::yield_now();
                    };
                    entries.insert(banks.region.entry());
                    if round % 7 != 0 {
                        let number = banks.begin(Class::Small);
                        exchange(&mut banks, &mut waiter, number, Class::Small, round % 3 * 64);
                        banks.leave(Class::Small, number);
                    }
                    shelf.put(banks);
                    if round % 500 == 0 {
                        turn.wait();
                    }
                }
                assert!(entries.len() <= 200, "{} sets", entries.len());
            });
        }
    });
}

#[test]
fn hundreds_of_communicators_of_many_members_take_no_memory() {
    let job = job(64, Config::default().bank_sizes_for(64));
    let layout = Layout::of_communicator(&job.header().banks, 64);
    let ranks: Vec<u32> = (0..64).collect();
    let open = |context| Banks::open(&job, key(context), &layout, &ranks, context as u32 % 64).unwrap();
    let all: Vec<_> = (0..100).map(open).collect();
    assert!(all.iter().all(Option::is_some));
}

#[test]
fn places_are_distinct_and_aligned() {
    let layout = Layout::of_communicator(&BankSizes::default(), 2);
    check(2, &layout, |mut banks| {
        let number = banks.begin(Class::Large);
        let slot = banks.grant(Class::Large, number, 57, 0).expect("fresh");
        let inline = banks.grant(Class::Large, number, 56, 0).expect("fresh");
        for member in 0..2 {
            let flag = std::ptr::from_ref(banks.flag(&inline, member, 0)).cast::<u8>();
            assert_eq!(banks.bank(&inline, member), flag.wrapping_add(8).cast_mut());
            assert_eq!(flag as usize % 64, 0);
            let others: Vec<usize> =
                (1..8).map(|number| std::ptr::from_ref(banks.flag(&slot, member, number)) as usize).collect();
            assert!(others.iter().all(|address| address / 64 == flag as usize / 64 - 1));
            assert!(others.is_sorted());
            let edges = banks.edges(&slot, member, 3).expect("large");
            let table = banks.table(&slot, member, 3).expect("large");
            for place in [banks.bank(&slot, member), banks.records(&slot, member), edges, table] {
                assert_eq!(place as usize % 64, 0);
            }
        }
        banks.leave(Class::Large, number);
    });
}

/// Checks that a bank of `bytes` bytes begins at `expected` places of the payload of its slot, one after the
/// other.
fn check_places(members: u32, bytes: usize, expected: usize) {
    let layout = Layout::of_communicator(&BankSizes::default(), members);
    let job = job(members, BankSizes::default());
    let ranks: Vec<u32> = (0..members).collect();
    let banks = Banks::open(&job, key(3), &layout, &ranks, 0).unwrap().unwrap();
    let places = (0..1000).map(|number| {
        let slot = banks.slot(Class::Large, number, bytes, 0);
        let bank = banks.bank(&banks.spread(slot, number, bytes), members - 1);
        let offset = bank as usize - banks.payload(&slot, members - 1) as usize;
        assert!(
            offset + bytes <= banks.room(&slot) && offset.is_multiple_of(64),
            "{bytes} {number} {offset}"
        );
        offset
    });
    assert_eq!(places.collect::<std::collections::BTreeSet<_>>().len(), expected, "{members} {bytes}");
}

#[test]
fn long_banks_move_about_in_their_slots() {
    check_places(2, 8 << 10, 1);
    check_places(2, 16 << 10, 16);
    check_places(2, (16 << 10) + 1, 15);
    check_places(2, 30_000, 8);
    check_places(2, 32 << 10, 1);
    check_places(2, 256 << 10, 1);
    check_places(8, 16 << 10, 4);
    check_places(300, 16 << 10, 1);
}

#[test]
fn who_disagrees_is_found_out() {
    let layout = Layout::of_communicator(&BankSizes::default(), 2);
    let job = job(2, BankSizes::default());
    let mut both = [0, 1].map(|me| Banks::open(&job, key(3), &layout, &[0, 1], me).unwrap().unwrap());
    let said = |agreed| CallSignature { agreed, kind: 3, bytes: 100, turn: 7 };
    for number in 0..264 {
        let turn = both.each_mut().map(|banks| banks.begin(Class::Small));
        both[1].say(number, &said(9));
        let slots = [(0, 5), (1, 9)].map(|(me, agreed)| both[me].grant(Class::Small, turn[me], 8, agreed));
        let [mine, theirs] = slots.map(|slot| slot.expect("both have left all others"));
        assert!(!both[0].is_at_odds(&mine, 1, 0), "not posted");
        both[1].post(&theirs, 0, 1);
        assert!(!both[0].is_reached(&mine, 1, 0, 1) && both[0].is_at_odds(&mine, 1, 0));
        assert_eq!(both[0].said(1, number), Some(said(9)));
        (0..2).for_each(|me| both[me].leave(Class::Small, turn[me]));
    }
    assert_eq!((both[0].said(1, 7), both[0].said(1, 8)), (None, Some(said(9))), "256 are kept");
    assert_eq!((both[0].said(1, 264), both[1].said(0, 263)), (None, None));
    assert_eq!(both.each_ref().map(|banks| banks.untold(263)), [None, None], "only one has begun it");
    both[0].say(263, &said(9));
    assert_eq!(both.each_ref().map(|banks| banks.untold(263)), [None, None], "they agree");
    both[0].say(263, &said(5));
    assert_eq!(both.each_ref().map(|banks| banks.untold(263)), [Some(1), Some(0)]);
    both[0].was_told(7);
    both[0].was_told(263);
    assert_eq!(both.each_ref().map(|banks| banks.untold(263)), [None, None], "one was told");
    assert_eq!(both[1].said(0, 263), Some(said(5)));
    both[1].give_up(7);
    both[1].give_up(9);
    assert!(both[0].has_given_up(1, 7) && !both[0].has_given_up(1, 6) && !both[1].has_given_up(0, 7));
    both[1].give_up(u32::MAX);
    assert_eq!(
        [u32::MAX - 1, u32::MAX, 0].map(|number| both[0].has_given_up(1, number)),
        [false, true, true],
        "numbers wrap"
    );
}
