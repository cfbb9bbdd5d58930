//! Files of this host that are being written, and what a user is told of a long write.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tutti_checkpoint::coordination::Order;
use tutti_checkpoint::image::ConnectionEnd;
use tutti_checkpoint::write::Written;

/// After which time of writing a user is told how far it is, and how often then.
const FIRST_WORD: Duration = Duration::from_secs(2);
const NEXT_WORD: Duration = Duration::from_secs(5);

/// Bytes on their way to a disk.
#[derive(Debug)]
pub(super) struct Writing {
    pub(super) order: Order,
    /// Of the ranks of this host.
    pub(super) connections: Vec<ConnectionEnd>,
    pub(super) thread: JoinHandle<io::Result<Written>>,
    /// Rung when the thread is done.
    pub(super) bell: OwnedFd,
    pub(super) progress: Progress,
}

/// How far it is.
#[derive(Debug)]
pub(super) struct Progress {
    /// Bytes that are written, and about how many will be.
    done: Arc<AtomicU64>,
    expected: u64,
    begun: Duration,
    /// When to say next how far it is.
    pub(super) told: Duration,
}

impl Progress {
    /// Of a write that begins now.
    pub(super) fn new(done: Arc<AtomicU64>, expected: u64, now: Duration) -> Progress {
        Progress { done, expected, begun: now, told: now + FIRST_WORD }
    }

    /// What to say, if it is time.
    pub(super) fn word(&mut self, set: u64, now: Duration) -> Option<String> {
        if now < self.told {
            return None;
        }
        self.told = now + NEXT_WORD;
        let (done, all) = (self.done.load(Ordering::Relaxed) as f64, self.expected as f64);
        let rate = done / now.saturating_sub(self.begun).as_secs_f64().max(1e-3);
        let left = match rate {
            rate if rate >= 1.0 => format!("{:.0} s left", (all - done).max(0.0) / rate),
            _ => "nothing is written yet".to_string(),
        };
        let (done, all, rate) = (done / 1e9, all.max(done) / 1e9, rate / 1e9);
        let text = format!("{done:.1} of {all:.1} GB of this host, {rate:.2} GB/s, {left}");
        Some(format!("mpirun: checkpoint {set}: {text}\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said at these seconds of a write of 10 GB that began at second 1, when so many GB are written.
    fn check(moments: &[(u64, u64)], expected: &[Option<&str>]) {
        let done = Arc::new(AtomicU64::new(0));
        let mut progress = Progress::new(Arc::clone(&done), 10_000_000_000, Duration::from_secs(1));
        let said: Vec<Option<String>> = moments
            .iter()
            .map(|&(second, written)| {
                done.store(written * 1_000_000_000, Ordering::Relaxed);
                progress.word(7, Duration::from_secs(second))
            })
            .collect();
        let expected: Vec<Option<String>> =
            expected.iter().map(|text| text.map(|text| format!("mpirun: checkpoint 7: {text}\n"))).collect();
        assert_eq!(said, expected);
    }

    #[test]
    fn a_long_write_is_told_of_now_and_then() {
        check(
            &[(2, 1), (3, 2), (5, 4), (8, 7), (13, 11)],
            &[
                None,
                Some("2.0 of 10.0 GB of this host, 1.00 GB/s, 8 s left"),
                None,
                Some("7.0 of 10.0 GB of this host, 1.00 GB/s, 3 s left"),
                Some("11.0 of 11.0 GB of this host, 0.92 GB/s, 0 s left"),
            ],
        );
        check(&[(3, 0)], &[Some("0.0 of 10.0 GB of this host, 0.00 GB/s, nothing is written yet")]);
    }
}
