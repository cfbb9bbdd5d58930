//! Owner of exposed memory in a process of its own, and a peer that checks the memory.

use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};

use tutti_base::config::Mapped;
use tutti_sys::memory::{Mapping, create_object};

use super::*;

/// Memory that both see.
#[repr(C)]
struct Board {
    /// Odd: the owner has lent something; even: the peer is done with it.
    turn: AtomicU32,
    seed: u32,
    access: u32,
    /// The peer's: how the window looked.
    near: u32,
    record: Record,
    edges: EdgeRoom,
}

/// Handle of the owner's process.
pub struct Owner {
    board: *mut Board,
    pub exposures: Exposures,
    seed: u32,
}

/// Returns byte `index` of the pattern `seed`.
pub fn pattern(seed: u32, index: usize) -> u8 {
    ((index as u32).wrapping_mul(2_654_435_761).wrapping_add(seed.wrapping_mul(97)) >> 13) as u8
}

/// Returns settings that convert at the first use.
pub fn at_once() -> Config {
    Config::default().changed(|c| {
        c.memory.mapped = Mapped::Always;
        c.memory.map_bytes = 4096;
    })
}

/// Runs `owner` in a forked process whose loans this one checks.
pub fn with_owner(config: &Config, owner: impl FnOnce(&mut Owner)) {
    let object = create_object(c"board", size_of::<Board>() as u64).unwrap();
    let mapping = Mapping::of_object(object.as_fd()).unwrap();
    let board: *mut Board = mapping.base().as_ptr().cast();
    // Before the fork, so that all that a process has once is there: what another thread is about to make at
    // the moment of the fork would never be ready in the child.
    let mut exposures = Exposures::new(config);
    fork::install().unwrap();
    // SAFETY: the child runs the closure and leaves by _exit.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: attributes of this process.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        let run = || owner(&mut Owner { board, exposures: Exposures::new(config), seed: 0 });
        let status = i32::from(catch_unwind(AssertUnwindSafe(run)).is_err());
        // SAFETY: ends the child.
        unsafe { libc::_exit(status) };
    }
    assert!(child > 0);
    let mut turn = 0;
    let status = loop {
        // SAFETY: the board is mapped; all-zero is valid for it.
        let now = unsafe { (*board).turn.load(Ordering::Acquire) };
        if now > turn && now % 2 == 1 {
            turn = now + 1;
            // SAFETY: the owner waits.
            unsafe { answer(&mut exposures, board) };
            // SAFETY: as before.
            unsafe { (*board).turn.store(turn, Ordering::Release) };
        }
        let mut status = 0;
        // SAFETY: a child of this process that nobody else waits for.
        if unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == child {
            break status;
        }
        std::thread::yield_now();
    };
    assert_eq!(status, 0, "the owner failed, see above");
}

/// Checks what is lent, in pieces; then writes it if it may.
///
/// # Safety
/// The owner has filled the board and waits.
unsafe fn answer(exposures: &mut Exposures, board: *mut Board) {
    // SAFETY: the caller's promise.
    let (record, seed, access) = unsafe { ((*board).record, (*board).seed, (*board).access) };
    // SAFETY: the edges belong to the record.
    let window = unsafe { exposures.open(Peer(3), &record, &raw const (*board).edges, ptr::null()) };
    let bytes = window.bytes() as usize;
    if access != Access::Write as u32 {
        let whole = read(&window, 0, bytes);
        if let Some(wrong) = (0..bytes).find(|&index| whole[index] != pattern(seed, index)) {
            panic!("byte {wrong} of {bytes}: {} instead of {}", whole[wrong], pattern(seed, wrong));
        }
        for (start, end) in [(0, bytes / 2), (bytes / 3, bytes), (bytes.saturating_sub(5000), bytes)] {
            assert!(read(&window, start as u64, end - start) == whole[start..end]);
        }
        if let Some(direct) = window.direct(bytes as u64 / 2, 1) {
            // SAFETY: mapped memory of the owner.
            assert_eq!(unsafe { direct.read() }, whole[bytes / 2]);
        }
    }
    if access != Access::Read as u32 {
        let mine: Vec<u8> = (0..bytes).map(|index| pattern(seed + 1, index)).collect();
        let half = bytes / 2;
        // SAFETY: as long as stated; the owner allows it.
        unsafe {
            window.write(0, mine.as_ptr(), half as u64).unwrap();
            window.write(half as u64, mine[half..].as_ptr(), (bytes - half) as u64).unwrap();
        }
    }
    // SAFETY: the owner waits.
    unsafe { (*board).near = u32::from(window.direct(bytes as u64 / 2, 1).is_some()) };
}

impl Owner {
    /// Fills the memory, lends it, checks what the peer wrote; whether the peer worked in place.
    pub fn lend(&mut self, memory: *mut u8, bytes: usize, access: Access) -> bool {
        self.fill(memory, bytes);
        self.lend_as_it_is(memory, bytes, access)
    }

    /// Fills the memory with the next pattern.
    pub fn fill(&mut self, memory: *mut u8, bytes: usize) {
        self.seed += 10;
        // SAFETY: memory of the test.
        (0..bytes).for_each(|index| unsafe { memory.add(index).write(pattern(self.seed, index)) });
    }

    /// Lends memory that holds the pattern.
    pub fn lend_as_it_is(&mut self, memory: *mut u8, bytes: usize, access: Access) -> bool {
        // SAFETY: the board is mapped.
        let edges = ptr::NonNull::new(unsafe { &raw mut (*self.board).edges }).unwrap();
        // SAFETY: memory of the test, which waits until the peer is done.
        let record = unsafe { self.exposures.expose(memory, bytes as u64, access, Some(edges)) };
        // SAFETY: the peer waits for its turn.
        unsafe {
            (*self.board).record = record;
            (*self.board).seed = self.seed;
            (*self.board).access = access as u32;
            let turn = &(*self.board).turn;
            let mine = turn.load(Ordering::Relaxed) + 1;
            turn.store(mine, Ordering::Release);
            while turn.load(Ordering::Acquire) == mine {
                std::thread::yield_now();
            }
        }
        self.exposures.withdraw(&record);
        if access != Access::Read {
            self.seed += 1;
        }
        assert!(self.holds(memory, bytes), "{access:?}: what the peer wrote");
        // SAFETY: the peer is done.
        unsafe { (*self.board).near == 1 }
    }

    /// Returns true if the memory holds the last pattern.
    pub fn holds(&self, memory: *const u8, bytes: usize) -> bool {
        // SAFETY: memory of the test.
        (0..bytes).all(|index| unsafe { memory.add(index).read() } == pattern(self.seed, index))
    }

    /// Returns the number of refusals for this reason.
    pub fn refused(&self, refusal: PrivateReason) -> u64 {
        self.exposures.statistics().refused[refusal as usize]
    }
}
