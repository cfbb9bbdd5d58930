//! Mapped regions: every case that the module's argument names, between real processes.

use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};

use tutti_base::config::Mapped;
use tutti_sys::maps::Maps;

use crate::locality::CoreDistance;

use super::processes::{Owner, at_once, pattern, with_owner};
use super::*;

const PAGE: usize = 4096;
const MIB: usize = 1 << 20;
const ALL: [Access; 3] = [Access::Read, Access::Write, Access::ReadWrite];

/// Returns true if this kernel can do it at all.
fn possible() -> bool {
    Maps::open().is_ok()
}

fn map(bytes: usize) -> *mut u8 {
    tutti_sys::remap::map_private(bytes).unwrap()
}

fn unmap(memory: *mut u8, bytes: usize) {
    // SAFETY: memory of the test that is used no more.
    unsafe { tutti_sys::remap::unmap(memory, bytes) };
}

/// Lends `bytes` that begin `skip` bytes after a page, in every way, and expects it mapped or not.
fn check(owner: &mut Owner, skip: usize, bytes: usize, mapped: bool) {
    let memory = map(bytes + 2 * PAGE);
    for access in ALL {
        let near = owner.lend(memory.wrapping_add(skip), bytes, access);
        assert_eq!(
            near,
            mapped && possible(),
            "{skip} {bytes} {access:?} {:?}",
            owner.exposures.statistics()
        );
    }
    unmap(memory, bytes + 2 * PAGE);
}

#[test]
fn content_stays_and_each_sees_what_the_other_writes() {
    with_owner(&at_once(), |owner| {
        check(owner, 0, 64 * PAGE, true);
        check(owner, 16, 64 * PAGE, true);
        check(owner, 4095, 2 * PAGE + 1, true);
        check(owner, 1, 5 * PAGE - 2, true);
        check(owner, 1, 3 * PAGE - 2, false);
        check(owner, 0, 9 * MIB + 12_345, true);
        check(owner, 0, PAGE - 1, false);
        check(owner, 8, PAGE, false);
        check(owner, 8, 1, false);
        assert_eq!(owner.refused(PrivateReason::TooSmall), 2 * u64::from(possible()));
    });
}

#[test]
fn a_buffer_is_mapped_after_some_uses_and_never_when_that_is_off() {
    let config = Config::default().changed(|c| c.memory.map_after = 4);
    with_owner(&config, |owner| {
        let memory = map(MIB);
        let near: Vec<bool> = (0..6).map(|_| owner.lend(memory, MIB, Access::Read)).collect();
        assert_eq!(near, [false, false, false, true, true, true].map(|near| near && possible()));
    });
    with_owner(&config.changed(|c| c.memory.mapped = Mapped::Never), |owner| {
        let memory = map(MIB);
        assert!((0..30).all(|_| !owner.lend(memory, MIB, Access::ReadWrite)));
        assert!(owner.exposures.allocate(100).is_none());
    });
}

/// Long buffers are looked up at each use, short ones once.
const LENGTHS: [usize; 2] = [64 << 10, MIB];

#[test]
fn unmapped_and_mapped_again_is_never_stale() {
    for bytes in LENGTHS {
        with_owner(&at_once(), |owner| {
            let memory = map(bytes);
            for round in 0..5 {
                owner.lend(memory, bytes, Access::ReadWrite);
                owner.lend(memory, bytes, Access::Read);
                unmap(memory, bytes);
                assert!(map_at(memory, bytes));
                // SAFETY: fresh memory.
                assert!((0..bytes).all(|index| unsafe { memory.add(index).read() } == 0), "{round}");
                owner.lend(memory, bytes, Access::Read);
            }
            if possible() {
                assert!(owner.exposures.statistics().lost >= 1);
                assert!(owner.exposures.statistics().conversions >= 2);
            }
        });
    }
}

/// Maps fresh memory at addresses that nothing is mapped at; whether nothing was.
fn map_at(memory: *mut u8, bytes: usize) -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: replaces nothing.
    let got = unsafe { libc::mmap(memory.cast(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    got.cast() == memory
}

#[test]
fn the_kernel_is_asked_once() {
    // Where it does not tell, it is asked each time.
    for config in [at_once(), at_once().changed(|c| c.memory.mapped_watch = false)] {
        with_owner(&config, |owner| {
            let memory = map(16 * PAGE);
            owner.lend(memory, 16 * PAGE, Access::Read);
            let before = owner.exposures.statistics().asked;
            assert!((0..20).all(|_| owner.lend(memory, 16 * PAGE, Access::Read) == possible()));
            let asked = owner.exposures.statistics().asked - before;
            let expected = if owner.exposures.is_told() { 0 } else { 20 };
            assert!(!possible() || asked == expected, "{asked}: {:?}", owner.exposures.report());
        });
    }
}

#[test]
fn addresses_that_another_thread_gives_back_are_not_known_any_more() {
    with_owner(&at_once(), |owner| {
        let bytes = 4 * PAGE;
        for _ in 0..300 {
            let memory = map(bytes);
            owner.lend(memory, bytes, Access::Read);
            owner.lend(memory, bytes, Access::Read);
            let address = memory.expose_provenance();
            std::thread::scope(|scope| {
                scope.spawn(|| unmap(ptr::with_exposed_provenance_mut(address), bytes));
                // They are free before the call has returned. Somebody else may be faster.
                if (0..1_000_000).any(|_| map_at(memory, bytes)) {
                    owner.lend(memory, bytes, Access::Read);
                }
            });
            unmap(memory, bytes);
        }
    });
}

#[test]
fn moved_grown_split_and_protected_memory_stays_right() {
    for unit in LENGTHS {
        with_owner(&at_once(), |owner| moved_grown_split_and_protected(owner, unit));
    }
}

fn moved_grown_split_and_protected(owner: &mut Owner, unit: usize) {
    let memory = map(unit);
    owner.lend(memory, unit, Access::Read);
    // SAFETY: grows memory of the test; the old address is used no more.
    let grown: *mut u8 = unsafe { libc::mremap(memory.cast(), unit, 3 * unit, libc::MREMAP_MAYMOVE) }.cast();
    assert!(owner.holds(grown, unit));
    // SAFETY: as large as that now.
    assert!((unit..3 * unit).all(|index| unsafe { grown.add(index).read() } == 0), "what is new is zero");
    lend_all(owner, grown, 3 * unit);
    let other = map(unit);
    owner.lend(other, unit, Access::ReadWrite);
    lend_all(owner, grown, 3 * unit);

    protect(grown.wrapping_add(unit), unit, libc::PROT_READ);
    owner.lend_as_it_is(grown, 3 * unit, Access::Read);
    protect(grown.wrapping_add(unit), unit, libc::PROT_READ | libc::PROT_WRITE);
    lend_all(owner, grown, 3 * unit);
    unmap(grown.wrapping_add(2 * unit), unit);
    lend_all(owner, grown, 2 * unit);
}

fn lend_all(owner: &mut Owner, memory: *mut u8, bytes: usize) -> bool {
    let near = ALL.map(|access| owner.lend(memory, bytes, access));
    near == [true; 3]
}

fn protect(memory: *mut u8, bytes: usize, bits: i32) {
    // SAFETY: memory of the test.
    assert_eq!(unsafe { libc::mprotect(memory.cast(), bytes, bits) }, 0);
}

#[test]
fn mapped_pages_stay_where_they_are_while_peers_may_use_them() {
    with_owner(&at_once(), |owner| {
        let memory = map(4 * MIB);
        owner.lend(memory.wrapping_add(MIB), MIB, Access::Read);
        // SAFETY: memory of the test.
        let lent =
            unsafe { owner.exposures.expose(memory.wrapping_add(MIB), MIB as u64, Access::Read, None) };
        assert!(!owner.lend(memory, 4 * MIB, Access::Read));
        assert_eq!(owner.refused(PrivateReason::Busy), u64::from(possible()));
        owner.exposures.withdraw(&lent);
        assert_eq!(lend_all(owner, memory.wrapping_add(PAGE), 4 * MIB - PAGE), possible());
        let report = owner.exposures.report().join("\n");
        assert!(!possible() || report.contains("1 not mapped: part of it is mapped already"), "{report}");
    });
}

#[test]
fn a_buffer_that_has_grown_grows_in_the_object_while_peers_use_it() {
    with_owner(&at_once(), |owner| {
        let memory = map(4 * MIB);
        let expose = |owner: &mut Owner, bytes: usize| {
            // SAFETY: memory of the test.
            unsafe { owner.exposures.expose(memory, bytes as u64, Access::ReadWrite, None) }
        };
        let first = expose(owner, MIB);
        for bytes in [MIB + PAGE, 2 * MIB + 100, 4 * MIB] {
            let grown = expose(owner, bytes);
            assert_eq!(grown.offset, first.offset, "what peers have mapped stays");
            owner.exposures.withdraw(&grown);
            assert_eq!(lend_all(owner, memory, bytes), possible());
        }
        owner.exposures.withdraw(&first);
        assert_eq!(object::state().live_bytes, if possible() { 4 * MIB as u64 } else { 0 });
        assert_eq!(owner.refused(PrivateReason::Busy), 0);
    });
}

#[test]
fn what_is_remembered_of_a_buffer_is_not_shorter_than_it_has_grown() {
    let config = at_once().changed(|c| c.memory.map_after = 4);
    with_owner(&config.changed(|c| c.memory.mapped = Mapped::Auto), |owner| {
        let memory = map(50 * PAGE);
        let near_end = |owner: &mut Owner, bytes: usize| {
            // SAFETY: memory of the test.
            let record = unsafe { owner.exposures.expose(memory, bytes as u64, Access::Read, None) };
            owner.exposures.withdraw(&record);
            record.near_end
        };
        let ends: Vec<u64> =
            [32; 4].iter().chain(&[50; 6]).map(|pages| near_end(owner, pages * PAGE)).collect();
        let pages: Vec<u64> = ends.iter().map(|end| end / PAGE as u64).collect();
        let expected = [0, 0, 0, 32, 32, 32, 32, 50, 50, 50].map(|pages| pages * u64::from(possible()));
        assert_eq!(pages, expected);
    });
}

#[test]
fn a_buffer_does_not_grow_over_what_the_program_has_mapped_of_the_object() {
    with_owner(&at_once(), |owner| {
        let (memory, elsewhere) = (map(MIB), map(MIB));
        owner.lend(memory, MIB, Access::Read);
        // SAFETY: memory of the test: grown by as much, of which the new half is moved and another put in its
        // place.
        let grown: *mut u8 = unsafe {
            let grown: *mut u8 = libc::mremap(memory.cast(), MIB, 2 * MIB, libc::MREMAP_MAYMOVE).cast();
            let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
            let moved = libc::mremap(grown.add(MIB).cast(), MIB, MIB, flags, elsewhere);
            assert_eq!(moved, elsewhere.cast());
            grown
        };
        // SAFETY: memory of the test.
        (0..MIB).for_each(|at| unsafe { elsewhere.add(at).write(pattern(5, at)) });
        if map_at(grown.wrapping_add(MIB), MIB) {
            assert_eq!(lend_all(owner, grown, 2 * MIB), possible());
            assert!(owner.holds(grown, 2 * MIB));
        }
        assert!((0..MIB).all(|at| {
            // SAFETY: memory of the test.
            unsafe { elsewhere.add(at).read() == pattern(5, at) }
        }));
    });
}

#[test]
fn memory_that_is_gone_is_given_back_now_and_then() {
    with_owner(&Config::default().changed(|c| c.memory.map_after = 1), |owner| {
        let memory = map(MIB);
        owner.lend(memory, MIB, Access::Read);
        unmap(memory, MIB);
        let other = map(PAGE);
        for _ in 0..3 {
            std::thread::sleep(std::time::Duration::from_millis(1050));
            (0..1024).for_each(|_| {
                // SAFETY: memory of the test.
                let record = unsafe { owner.exposures.expose(other, 1, Access::Read, None) };
                owner.exposures.withdraw(&record);
            });
        }
        assert_eq!(object::state().live_bytes, 0);
    });
}

#[test]
fn overlapping_buffers_are_mapped_together() {
    with_owner(&at_once(), |owner| {
        let memory = map(4 * MIB);
        for (start, bytes) in [(MIB, MIB), (3 * MIB, MIB / 2), (100, 2 * MIB), (0, 4 * MIB), (7, 3 * MIB)] {
            assert_eq!(lend_all(owner, memory.wrapping_add(start), bytes), possible());
        }
    });
}

/// Lends entries of some pages each, `gap` pages after the end of one the next, and expects them mapped or
/// not.
fn check_gaps(owner: &mut Owner, gap: usize, mapped: bool) {
    const ENTRY: usize = 4 * PAGE + 100;
    let memory = map(MIB);
    // SAFETY: memory of the test.
    let bytes = unsafe { std::slice::from_raw_parts_mut(memory, MIB) };
    bytes.iter_mut().enumerate().for_each(|(index, byte)| *byte = pattern(7, index));
    let rows = (0..8).map(|entry| (memory.wrapping_add(40 + entry * (ENTRY + gap)), ENTRY as u64));
    let mut table = [Entry::default(); 8];
    // SAFETY: the table has as many rows.
    let record =
        unsafe { owner.exposures.expose_entries(rows, None, table.as_mut_ptr(), Access::Read, None) };
    owner.exposures.withdraw(&record);
    assert_eq!(record.is_near(), mapped && possible(), "{gap} {:?}", owner.exposures.statistics());
    assert!(bytes.iter().enumerate().all(|(index, &byte)| byte == pattern(7, index)));
    unmap(memory, MIB);
}

#[test]
fn gaps_move_only_where_nobody_can_be_writing_them() {
    with_owner(&at_once(), |owner| {
        check_gaps(owner, 0, true);
        check_gaps(owner, 2 * PAGE, true);
        check_gaps(owner, 6 * PAGE, false);
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
            });
            check_gaps(owner, 0, true);
            check_gaps(owner, 2 * PAGE, false);
            over.store(true, Ordering::Relaxed);
        });
        assert_eq!(owner.refused(PrivateReason::Gaps), 2 * u64::from(possible()));
    });
}

#[test]
fn memory_that_is_not_private_and_plain_is_refused_with_its_reason() {
    static CONSTANT: [u8; 64 << 10] = [0; 64 << 10];
    with_owner(&at_once(), |owner| {
        let mut stack = [0u8; 64 << 10];
        owner.lend(stack.as_mut_ptr(), stack.len(), Access::ReadWrite);
        let shared = map_file(libc::MAP_SHARED);
        owner.lend(shared, MIB, Access::ReadWrite);
        let private = map_file(libc::MAP_PRIVATE);
        owner.lend(private, MIB, Access::ReadWrite);
        let locked = map(MIB);
        protect(locked, MIB, libc::PROT_READ);
        // SAFETY: readable memory, lent for reading; the content is not checked.
        unsafe {
            for memory in [CONSTANT.as_ptr().cast_mut(), locked] {
                let record = owner.exposures.expose(memory, CONSTANT.len() as u64, Access::Read, None);
                assert!(!record.is_near());
                owner.exposures.withdraw(&record);
            }
        }
        let reasons = [
            PrivateReason::Stack,
            PrivateReason::Shared,
            PrivateReason::FileBacked,
            PrivateReason::Protected,
        ]
        .map(|one| owner.refused(one));
        assert!(!possible() || reasons.iter().all(|&count| count >= 1), "{:?}", owner.exposures.statistics());
    });
}

fn map_file(flags: i32) -> *mut u8 {
    let object = tutti_sys::memory::create_object(c"file", MIB as u64).unwrap();
    // SAFETY: a fresh mapping.
    unsafe {
        let bits = libc::PROT_READ | libc::PROT_WRITE;
        libc::mmap(ptr::null_mut(), MIB, bits, flags, object.as_raw_fd(), 0).cast()
    }
}

/// Returns true if malloc mapped this block by itself, as its header tells: blocks within an arena may begin
/// at the same offset of their page.
fn has_a_mapping_of_its_own(block: *const u8) -> bool {
    // SAFETY: the word before a block of malloc is its size with three flags.
    unsafe { block.cast::<usize>().sub(1).read() & 7 == 2 }
}

#[test]
fn what_cannot_be_locked_is_mapped_only_from_malloc() {
    with_owner(&at_once(), |owner| {
        owner.exposures.lock = false;
        let memory = map(MIB);
        assert!(!owner.lend(memory, MIB, Access::ReadWrite));
        // SAFETY: from here on large blocks get mappings of their own.
        unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, 128 << 10) };
        // SAFETY: blocks of that size; one of them is too large for what is free already.
        let blocks: Vec<*mut u8> = (0..40).map(|_| unsafe { libc::malloc(3 * MIB) }.cast()).collect();
        let own = blocks.iter().copied().find(|&block| has_a_mapping_of_its_own(block));
        let block = own.expect("40 blocks do not fit into an arena");
        let near = owner.lend(block, MIB, Access::ReadWrite);
        assert_eq!(near, possible(), "{block:?} {:?}", owner.exposures.statistics());
        assert_eq!(owner.refused(PrivateReason::Unlockable), u64::from(possible()));
        // SAFETY: allocated above.
        blocks.iter().for_each(|&block| unsafe { libc::free(block.cast()) });
    });
}

#[test]
fn discarding_mapped_memory_is_refused_by_the_kernel() {
    with_owner(&at_once(), |owner| {
        let memory = map(MIB);
        if !owner.lend(memory, MIB, Access::ReadWrite) {
            return;
        }
        for advice in [libc::MADV_DONTNEED, libc::MADV_FREE, libc::MADV_REMOVE] {
            // SAFETY: memory of the test.
            assert_eq!(unsafe { libc::madvise(memory.cast(), MIB, advice) }, -1);
        }
        assert!(owner.holds(memory, MIB));
        let (from, mut rest) = (memory as u64 - 2 * PAGE as u64, Vec::new());
        // SAFETY: memory of the test.
        let found = unsafe {
            private::discard(from, 10 * PAGE as u64, |start, bytes| {
                rest.push((start, bytes));
                Ok(())
            })
        };
        assert!(found.unwrap());
        assert_eq!(rest, [(from, 2 * PAGE as u64)]);
        // SAFETY: memory of the test.
        let byte = |index: usize| unsafe { memory.add(index).read() };
        assert!((0..8 * PAGE).all(|index| byte(index) == 0));
        assert!((8 * PAGE..MIB).any(|index| byte(index) != 0));
        assert!(owner.lend(memory, MIB, Access::ReadWrite));
        // SAFETY: nothing of the object is there.
        assert!(!unsafe { private::discard(4096, 4096, |_, _| unreachable!()) }.unwrap());
    });
}

#[test]
fn huge_pages_stay_huge_where_the_system_lets_them() {
    with_owner(&at_once(), |owner| {
        let memory = map(8 * MIB);
        // SAFETY: memory of the test.
        unsafe { libc::madvise(memory.cast(), 8 * MIB, libc::MADV_HUGEPAGE) };
        assert_eq!(lend_all(owner, memory.wrapping_add(64), 7 * MIB), possible());
    });
}

#[test]
fn threads_may_read_a_buffer_while_it_is_mapped() {
    with_owner(&at_once(), |owner| {
        let memory = map(4 * MIB);
        owner.fill(memory, 4 * MIB);
        let (stop, address) = (AtomicBool::new(false), memory as usize);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let (memory, mut rounds): (*const u64, u64) = (ptr::without_provenance(address), 0);
                let sum = || {
                    (0..4 * MIB / 8).step_by(64).fold(0u64, |sum, word| {
                        // SAFETY: memory of the test, which nobody writes now.
                        sum.wrapping_add(unsafe { memory.add(word).read_volatile() })
                    })
                };
                let first = sum();
                while !stop.load(Ordering::Relaxed) || rounds < 3 {
                    assert_eq!(sum(), first);
                    rounds += 1;
                }
            });
            for part in 0..64 {
                let piece = memory.wrapping_add(part << 16);
                // SAFETY: memory of the test, lent for reading.
                unsafe {
                    let record = owner.exposures.expose(piece, 64 << 10, Access::Read, None);
                    assert_eq!(record.is_near(), possible());
                    owner.exposures.withdraw(&record);
                    let record = owner.exposures.expose(memory, (part as u64 + 1) << 16, Access::Read, None);
                    owner.exposures.withdraw(&record);
                }
            }
            stop.store(true, Ordering::Relaxed);
            reader.join().unwrap();
        });
        let near = owner.lend_as_it_is(memory, 4 * MIB, Access::Read);
        assert_eq!(near, possible(), "{:?}", owner.exposures.statistics());
    });
}

#[test]
fn a_forked_child_has_the_memory_as_it_was_and_of_its_own() {
    with_owner(&at_once(), |owner| {
        let memory = map(2 * MIB);
        owner.lend(memory.wrapping_add(10), MIB, Access::ReadWrite);
        let block = owner.exposures.allocate(PAGE as u64 * 3);
        if let Some(block) = block {
            owner.lend(block.as_ptr(), 3 * PAGE, Access::Read);
        }
        owner.fill(memory.wrapping_add(10), MIB);
        protect(memory.wrapping_add(16 * PAGE), PAGE, libc::PROT_READ);
        let child = forked(|| {
            std::thread::sleep(std::time::Duration::from_millis(50));
            assert!(owner.holds(memory.wrapping_add(10), MIB), "as it was at the fork");
            // SAFETY: memory of this process.
            unsafe { memory.add(PAGE * 20).write_bytes(0, 100) };
            // Work without MPI, and a fork of its own.
            let sum: u64 = vec![1u64; 100_000].iter().sum();
            let status = wait_for(forked(|| assert_eq!(sum, 100_000)));
            assert_eq!(status, 0);
            // Another buffer of a process that has no regions now.
            // SAFETY: memory of this process.
            let record = unsafe { owner.exposures.expose(memory, MIB as u64, Access::Read, None) };
            assert!(!record.is_near());
        });
        assert!(owner.holds(memory.wrapping_add(10), MIB), "the child's writes are its own");
        protect(memory.wrapping_add(16 * PAGE), PAGE, libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: memory of this process; the child sleeps.
        unsafe { memory.add(PAGE * 30).write_bytes(9, 100) };
        assert_eq!(wait_for(child), 0);
        assert_eq!(owner.lend(memory.wrapping_add(10), MIB, Access::ReadWrite), possible());
        let status = std::process::Command::new("true").status().unwrap();
        assert!(status.success(), "exec and posix_spawn need nothing");
        assert_eq!(owner.lend(memory.wrapping_add(10), MIB, Access::ReadWrite), possible());
    });
}

fn forked(run: impl FnOnce()) -> i32 {
    // SAFETY: the child runs the closure and leaves by _exit.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let status = i32::from(std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err());
        // SAFETY: ends the child.
        unsafe { libc::_exit(status) };
    }
    child
}

fn wait_for(child: i32) -> i32 {
    let mut status = -1;
    // SAFETY: a child of this process.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    status
}

#[test]
fn forks_while_other_threads_write_lose_nothing() {
    with_owner(&at_once(), |owner| {
        let memory = map(MIB);
        owner.lend(memory, MIB, Access::ReadWrite);
        let (stop, address) = (AtomicBool::new(false), memory as usize);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let counter: *mut u64 = ptr::without_provenance_mut(address + MIB / 2);
                let mut count = 0u64;
                while !stop.load(Ordering::Relaxed) {
                    count += 1;
                    // SAFETY: memory of the test; only this thread uses the word.
                    unsafe {
                        counter.write_volatile(count);
                        assert_eq!(counter.read_volatile(), count);
                    }
                }
            });
            for _ in 0..20 {
                assert_eq!(wait_for(forked(|| ())), 0);
            }
            stop.store(true, Ordering::Relaxed);
            writer.join().unwrap();
        });
        assert_eq!(owner.lend(memory, MIB, Access::ReadWrite), possible());
    });
}

#[test]
fn the_limit_holds_and_what_the_program_gave_back_is_given_back() {
    let config = at_once().changed(|c| c.memory.mapped_limit = 4 << 20);
    with_owner(&config, |owner| {
        let (one, two) = (map(3 * MIB), map(3 * MIB));
        assert_eq!(owner.lend(one, 3 * MIB, Access::Read), possible());
        assert!(!owner.lend(two, 3 * MIB, Access::Read));
        assert_eq!(owner.refused(PrivateReason::Limit), u64::from(possible()));
        unmap(one, 3 * MIB);
        for _ in 0..20 {
            let memory = map(3 * MIB);
            let near = owner.lend(memory, 3 * MIB, Access::Read);
            assert_eq!(near, possible(), "{:?}", owner.exposures.statistics());
            unmap(memory, 3 * MIB);
        }
    });
}

#[test]
fn blocks_are_shared_from_the_start() {
    with_owner(&Config::default(), |owner| {
        let Some(block) = owner.exposures.allocate(100_000) else { return assert!(!possible()) };
        for skip in [0, 1, 5000] {
            assert!(lend_all(owner, block.as_ptr().wrapping_add(skip), 90_000));
        }
        // SAFETY: nobody uses it.
        assert!(unsafe { owner.exposures.free(block) });
        let again = owner.exposures.allocate(100_001);
        assert_eq!(again, Some(block), "kept for the next one");
        // SAFETY: as above; the second time it is not one.
        unsafe {
            assert!(owner.exposures.free(block));
            assert!(!owner.exposures.free(block));
        }
        let large = owner.exposures.allocate(100 << 20).unwrap();
        assert!(owner.lend(large.as_ptr(), 2 * MIB, Access::ReadWrite));
        // SAFETY: as above.
        assert!(unsafe { owner.exposures.free(large) });
        assert!(owner.exposures.allocate(2 << 30).is_none(), "beyond the limit");
    });
}

/// Buffers of random sizes come and go, some are lent, all keep their content. TUTTI_STRESS_SECONDS makes it
/// longer.
#[test]
fn buffers_come_and_go() {
    let seconds = std::env::var("TUTTI_STRESS_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(2);
    let config = Config::default().changed(|c| {
        c.memory.map_after = 2;
        c.memory.map_bytes = 4096;
        c.memory.mapped_limit = 24 << 20;
    });
    with_owner(&config, |owner| {
        let (mut random, mut buffers) = (0x2545_f491_4f6c_dd1du64, Vec::<(Vec<u8>, u32)>::new());
        let mut next = |below: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random % below as u64) as usize
        };
        let started = std::time::Instant::now();
        let mut number = 0;
        let enough = |owner: &Owner| !possible() || owner.exposures.statistics().conversions > 5;
        // A slow machine gets as many rounds as it needs to convert some.
        while started.elapsed().as_secs() < seconds || (!enough(owner) && number < 100_000) {
            if buffers.len() < 12 {
                let most = [9 << 10, 300 << 10, 3 << 20][next(3)];
                let bytes = 1 + next(most);
                number += 1;
                buffers.push(((0..bytes).map(|index| pattern(number, index)).collect(), number));
            }
            let chosen = next(buffers.len());
            let (buffer, _) = &mut buffers[chosen];
            let start = next(buffer.len());
            let bytes = if next(2) == 0 { buffer.len() } else { 1 + next(buffer.len() - start) };
            let start = if bytes == buffer.len() { 0 } else { start };
            for _ in 0..next(5) {
                owner.lend(buffer.as_mut_ptr().wrapping_add(start), bytes, ALL[next(3)]);
            }
            number += 1;
            buffer.iter_mut().enumerate().for_each(|(index, byte)| *byte = pattern(number, index));
            buffers[chosen].1 = number;
            match next(8) {
                0 => buffers[chosen].0.reserve_exact(next(1 << 20)),
                1 => assert!(vec![0u8; next(4 << 20)].iter().all(|&byte| byte == 0)),
                2 => assert_eq!(wait_for(forked(|| assert!(intact(&buffers)))), 0),
                3 | 4 => drop(buffers.swap_remove(chosen)),
                _ => assert!(intact(&buffers)),
            }
        }
        assert!(enough(owner));
    });
}

fn intact(buffers: &[(Vec<u8>, u32)]) -> bool {
    let right = |(buffer, number): &(Vec<u8>, u32)| {
        buffer.iter().enumerate().all(|(index, &byte)| byte == pattern(*number, index))
    };
    buffers.iter().all(right)
}

#[test]
fn pages_are_the_same_until_they_are_given_back_or_mapped_elsewhere() {
    with_owner(&at_once(), |owner| {
        let Some(memory) = owner.exposures.allocate(16 * PAGE as u64) else { return };
        let (start, end) = (memory.as_ptr() as u64, memory.as_ptr() as u64 + 16 * PAGE as u64);
        let known = pages(start, end, true);
        assert!(known.is_some() && pages(start + 9, end - 5, false) == known);
        let private = map(PAGE) as u64;
        assert_eq!(pages(private, private + PAGE as u64, false), None);
        // SAFETY: memory of the test, whose content it does not need.
        unsafe { advise(start, PAGE as u64, libc::MADV_DONTNEED).unwrap() };
        let given_back = pages(start, end, true);
        assert!(given_back.is_some() && given_back != known);
        // SAFETY: as above; the block is not used again.
        unsafe {
            let middle = memory.as_ptr().add(4 * PAGE);
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
            libc::mmap(middle.cast(), PAGE, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        }
        assert_eq!(pages(start, end, true), None);
        assert_eq!(pages(start, start + 4 * PAGE as u64, true), given_back);
    });
}

#[test]
fn what_far_peers_read_of_changing_memory_is_written_back_and_stays_what_it_is() {
    with_owner(&at_once(), |owner| {
        let memory = map(16 * PAGE);
        for content in 0..8u8 {
            owner.exposures.note_distance(Some(CoreDistance::Far));
            // SAFETY: memory of this test, which nobody else uses between two loans.
            unsafe { memory.write_bytes(content, 16 * PAGE) };
            // SAFETY: valid until it is unmapped below.
            let record = unsafe { owner.exposures.expose(memory, (16 * PAGE) as u64, Access::Read, None) };
            let written_back = record.written_back != 0;
            assert!(!written_back || content >= 2, "{content}");
            let can = possible() && tutti_sys::cache::can_drop_lines();
            assert!(written_back || content < 3 || !can, "{content}");
            owner.exposures.withdraw(&record);
            // SAFETY: as above.
            let is_there = unsafe { std::slice::from_raw_parts(memory, 16 * PAGE) };
            assert!(is_there.iter().all(|&byte| byte == content), "{content}");
        }
        unmap(memory, 16 * PAGE);
    });
}
