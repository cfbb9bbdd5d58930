//! Parking a thread on a word of shared memory until another process wakes it.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Sleeps while `word` holds `expected`, until [`wake_all`] or `timeout`. May return early for no
/// reason; the caller looks again at what it waits for.
pub fn wait(word: &AtomicU32, expected: u32, timeout: Duration) {
    let limit = libc::timespec {
        tv_sec: timeout.as_secs().min(i32::MAX as u64) as libc::time_t,
        tv_nsec: timeout.subsec_nanos() as libc::c_long,
    };
    // SAFETY: word outlives the call; the kernel only reads it. Not FUTEX_PRIVATE: the word may lie in
    // memory shared between processes.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, expected, &limit);
    }
}

/// Wakes every thread of every process that sleeps on `word`; returns how many.
pub fn wake_all(word: &AtomicU32) -> usize {
    // SAFETY: word outlives the call; the kernel uses its address only.
    let woken = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
    usize::try_from(woken).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn wait_ends_by_wake_by_value_and_by_time() {
        static WORD: AtomicU32 = AtomicU32::new(0);
        wait(&WORD, 1, Duration::from_secs(100));
        wait(&WORD, 0, Duration::from_millis(1));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while WORD.load(Ordering::SeqCst) == 0 {
                    wait(&WORD, 0, Duration::from_secs(100));
                }
            });
            WORD.store(1, Ordering::SeqCst);
            wake_all(&WORD);
        });
    }
}
