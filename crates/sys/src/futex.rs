//! Sleeping on a word of shared memory until another process wakes the thread.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Sleeps while `word` holds `expected`, until [`wake_all`] or `timeout`. May return early for no reason,
/// so the caller checks its condition again.
pub fn wait(word: &AtomicU32, expected: u32, timeout: Duration) {
    let limit = libc::timespec {
        tv_sec: timeout.as_secs().min(i32::MAX as u64) as libc::time_t,
        tv_nsec: timeout.subsec_nanos() as libc::c_long,
    };
    // SAFETY: word outlives the call; the kernel only reads it. FUTEX_PRIVATE is not set, because the word
    // may lie in memory shared between processes.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, expected, &limit);
    }
}

/// Maximum number of words of [`wait_any`] (the kernel's limit is higher).
const MOST_WORDS: usize = 8;

/// The kernel's `struct futex_waitv`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Waited {
    value: u64,
    address: u64,
    flags: u32,
    reserved: u32,
}

/// Flag `FUTEX2_SIZE_U32`: a word of 32 bits that may be shared between processes.
const WORD_OF_32_BITS: u32 = 2;
/// Length of a sleep on the first word alone, where the kernel (before 5.16) cannot wait for several words.
const WITHOUT_SEVERAL: Duration = Duration::from_micros(500);

/// Sleeps while each word holds its expected value, until [`wake_all`] on one of them or `timeout`. May
/// return early, like [`wait`]. Takes at most 8 words.
pub fn wait_any<'a>(words: impl Iterator<Item = (&'a AtomicU32, u32)>, timeout: Duration) {
    let mut waited = [Waited { value: 0, address: 0, flags: WORD_OF_32_BITS, reserved: 0 }; MOST_WORDS];
    let (mut count, mut first) = (0, None);
    for (place, (word, expected)) in waited.iter_mut().zip(words) {
        (place.value, place.address) = (expected.into(), word.as_ptr() as u64);
        first = first.or(Some((word, expected)));
        count += 1;
    }
    if let Some((word, expected)) = first.filter(|_| count == 1) {
        return wait(word, expected, timeout);
    }
    let until_ns = crate::clock::now_ns() + timeout.as_nanos().min(1 << 60) as u64;
    let until = libc::timespec {
        tv_sec: (until_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (until_ns % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: the words outlive the call and the kernel only reads them; array and time lie on the stack.
    let slept = unsafe {
        libc::syscall(
            libc::SYS_futex_waitv,
            waited.as_ptr(),
            count,
            0,
            &raw const until,
            libc::CLOCK_MONOTONIC,
        )
    };
    let is_unknown = slept < 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ENOSYS);
    if let Some((word, expected)) = first.filter(|_| is_unknown) {
        wait(word, expected, timeout.min(WITHOUT_SEVERAL));
    }
}

/// Wakes every thread of every process that sleeps on `word`. Returns their number.
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
    fn a_wait_on_several_ends_by_each_by_value_and_by_time() {
        static WORDS: [AtomicU32; 3] = [const { AtomicU32::new(0) }; 3];
        let all = |last| WORDS.iter().zip([0, 0, last]);
        wait_any(all(0).take(1), Duration::from_millis(1));
        wait_any(all(1), Duration::from_secs(100));
        wait_any(all(0), Duration::from_millis(1));
        for word in &WORDS {
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while word.load(Ordering::SeqCst) == 0 {
                        wait_any(all(0), Duration::from_secs(100));
                    }
                });
                word.store(1, Ordering::SeqCst);
                wake_all(word);
            });
            word.store(0, Ordering::SeqCst);
        }
    }

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
