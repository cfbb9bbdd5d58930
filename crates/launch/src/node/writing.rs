//! Files of this host that are being written, and what a user is told of a long write.
//!
//! Another thread writes. With keepers it says twice how far it is: when ranks may go on, and when all is
//! written; without, both come at the end.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::Duration;

use tutti_checkpoint::coordination::{Order, Phase, Summary};
use tutti_checkpoint::image::ConnectionEnd;
use tutti_checkpoint::image::blocks::Block;
use tutti_checkpoint::image::packing::Packing;
use tutti_checkpoint::pace::{self, Load, Packed};
use tutti_checkpoint::process::capture::Captured;
use tutti_checkpoint::write::{self, KnownFiles, Manner, Written};
use tutti_sys::event;
use tutti_sys::signal::Mask;

/// After which time of writing a user is told how far it is, and how often then.
const FIRST_WORD: Duration = Duration::from_secs(2);
const NEXT_WORD: Duration = Duration::from_secs(5);

/// How fast this host writes, and what it makes of it.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Bytes that the disk takes a second, as was seen last.
    disk_rate: Option<f64>,
    /// Bytes of the last set.
    last_bytes: Option<u64>,
    /// Whether the set under way is written from copies.
    pub(super) forks: bool,
}

/// What the thread that writes says.
#[derive(Debug)]
enum Said {
    /// Ranks need not stand still any more.
    Stood,
    /// All is written, or cannot be.
    Written(io::Result<Written>),
}

/// Bytes on their way to a disk.
#[derive(Debug)]
pub(super) struct Writing {
    pub(super) order: Order,
    /// Whether somebody waits for what was ordered last.
    is_awaited: bool,
    has_stood: bool,
    outcome: Option<io::Result<Written>>,
    /// Of the ranks of this host.
    connections: Vec<ConnectionEnd>,
    said: Receiver<Said>,
    /// Rung when the thread has said something.
    pub(super) bell: OwnedFd,
    pub(super) progress: Progress,
}

/// The blocks of files, by name.
pub(super) type Blocks = Vec<(String, Vec<Block>)>;

impl Writing {
    /// Begins what is ordered, in another thread.
    ///
    /// # Errors
    /// Fails if a system call fails.
    pub(super) fn begin(
        order: &Order,
        captured: Captured,
        known: KnownFiles,
        packing: Packing,
        now: Duration,
    ) -> io::Result<Writing> {
        let bell = event::bells(1)?.remove(0);
        let (done, expected) = (Arc::new(AtomicU64::new(0)), write::expected_bytes(&captured));
        let connections = captured.network.connections(captured.host.host);
        let (says, said) = channel();
        let folder = PathBuf::from(OsStr::from_bytes(&order.folder));
        let (count, twin) = (Arc::clone(&done), bell.try_clone()?);
        let task = Task { captured, folder, known, packing, done: count, bell: twin, says };
        let mask = Mask::all().block();
        let thread = std::thread::Builder::new().name("tutti-writer".to_string()).spawn(|| task.run());
        mask.install();
        thread?;
        let progress = Progress::new(done, expected, now);
        let (order, is_awaited, has_stood, outcome) = (order.clone(), true, false, None);
        Ok(Writing { order, is_awaited, has_stood, outcome, connections, said, bell, progress })
    }

    /// More is ordered of what has begun.
    pub(super) fn goes_on(&mut self, order: &Order) {
        (self.order, self.is_awaited) = (order.clone(), true);
    }

    /// Of the order that is waited for, if it is done: what came of it, and what was written, if that is all.
    pub(super) fn look(&mut self, pace: &mut Pace) -> Option<(Result<Summary, io::Error>, Option<Blocks>)> {
        self.hear();
        if !self.is_awaited {
            return None;
        }
        let has_failed = matches!(self.outcome, Some(Err(_)));
        if self.order.phase == Phase::Fork && self.has_stood && !has_failed {
            self.is_awaited = false;
            return Some((Ok(Summary::default()), None));
        }
        Some(match self.outcome.take()? {
            Ok(written) => {
                let connections = std::mem::take(&mut self.connections);
                pace.has_seen(&written);
                let summary = Summary { files: written.records, connections, ..Summary::default() };
                (Ok(summary), Some(written.blocks))
            }
            Err(error) => (Err(error), Some(Vec::new())),
        })
    }

    /// Takes what the thread has said.
    fn hear(&mut self) {
        event::damp(self.bell.as_fd());
        loop {
            match self.said.try_recv() {
                Ok(Said::Stood) => self.has_stood = true,
                Ok(Said::Written(result)) => self.outcome = Some(result),
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => {
                    self.outcome.get_or_insert_with(|| Err(io::Error::other("the writer has failed")));
                    return;
                }
            }
        }
    }
}

/// What the thread needs.
struct Task {
    captured: Captured,
    folder: PathBuf,
    known: KnownFiles,
    packing: Packing,
    done: Arc<AtomicU64>,
    bell: OwnedFd,
    says: Sender<Said>,
}

impl Task {
    fn run(self) {
        let Task { captured, folder, known, packing, done, bell, says } = self;
        let say = |said| {
            // Whoever does not want to hear it any more has given the set up.
            let _ = says.send(said);
            event::strike(bell.as_fd());
        };
        let manner = Manner { folder: &folder, known: &known, packing, done: &done };
        let written = write::write(&captured, &manner, &mut || say(Said::Stood));
        say(Said::Written(written));
    }
}

impl Pace {
    /// Before anything stops: whether this host would rather write from copies of its ranks, which have so
    /// many bytes of their own.
    pub(super) fn chooses(&mut self, said: pace::Writing, folder: &Path, host: u32, bytes: u64) -> bool {
        // What stands in the way of it stands in the way of writing too, which says so.
        self.disk_rate = self.disk_rate.or_else(|| pace::probe(folder, host).ok());
        let written = self.last_bytes.unwrap_or(bytes);
        let disk_rate = self.disk_rate.unwrap_or(f64::INFINITY);
        self.forks = pace::forks(said, Load { bytes, written, disk_rate, free: pace::free_memory() });
        self.forks
    }

    /// When blocks are packed.
    pub(super) fn packing(&self, said: Packed) -> Packing {
        said.packing(self.disk_rate)
    }

    fn has_seen(&mut self, written: &Written) {
        self.disk_rate = pace::refined(self.disk_rate, written.bytes(), written.waited, written.took);
        self.last_bytes = Some(written.bytes());
    }
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
