//! Files of a checkpoint that this host is writing, and progress messages of a long write.
//!
//! Another thread writes. With keepers it reports twice: when ranks may go on, and when all is written.
//! Without keepers both reports come at the end.

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
use tutti_checkpoint::write::{self, FileOptions, KnownFiles, Written};
use tutti_sys::event;
use tutti_sys::signal::Mask;

/// Time of writing after which the user gets a progress message, and the interval of further ones.
const FIRST_WORD: Duration = Duration::from_secs(2);
const NEXT_WORD: Duration = Duration::from_secs(5);

/// Rate of the disk of this host, and decisions that depend on it.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Last estimate of the disk's rate, in bytes per second.
    disk_rate: Option<f64>,
    /// Bytes of this host in the last set.
    last_bytes: Option<u64>,
    /// True if the current set is written from copies of the ranks.
    pub(super) forks: bool,
}

/// Report of the writing thread.
#[derive(Debug)]
enum Said {
    /// Ranks no longer need to stand still.
    Stood,
    /// All files are written, or writing has failed.
    Written(io::Result<Written>),
}

/// Write in progress, and the thread that performs it.
#[derive(Debug)]
pub(super) struct Writing {
    pub(super) order: Order,
    /// True if the result of the latest order is still to be reported.
    is_awaited: bool,
    has_stood: bool,
    outcome: Option<io::Result<Written>>,
    /// Connections of the ranks of this host.
    connections: Vec<ConnectionEnd>,
    said: Receiver<Said>,
    /// Event descriptor that the thread signals after each report.
    pub(super) bell: OwnedFd,
    pub(super) progress: Progress,
}

/// Blocks of each file, by file name.
pub(super) type Blocks = Vec<(String, Vec<Block>)>;

impl Writing {
    /// Begins the write of an order, in another thread.
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

    /// Continues the write with a further order.
    pub(super) fn goes_on(&mut self, order: &Order) {
        (self.order, self.is_awaited) = (order.clone(), true);
    }

    /// Returns the result of the order in progress, if it is finished. The blocks are present if the whole
    /// write is finished.
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

    /// Receives the reports of the thread.
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

/// Arguments of the writing thread.
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
    /// Writes all files, and reports to the node.
    fn run(self) {
        let Task { captured, folder, known, packing, done, bell, says } = self;
        let say = |said| {
            // If the receiver is gone, the set was abandoned.
            let _ = says.send(said);
            event::strike(bell.as_fd());
        };
        let manner = FileOptions { folder: &folder, known: &known, packing, done: &done };
        let written = write::write(&captured, &manner, &mut || say(Said::Stood));
        say(Said::Written(written));
    }
}

impl Pace {
    /// Decides, before any rank is stopped, whether this host writes from copies of its ranks. `bytes` is the
    /// size of their private memory.
    pub(super) fn chooses(&mut self, said: pace::Writing, folder: &Path, host: u32, bytes: u64) -> bool {
        // If the probe fails, writing will fail too and report the reason.
        self.disk_rate = self.disk_rate.or_else(|| pace::probe(folder, host).ok());
        let written = self.last_bytes.unwrap_or(bytes);
        let disk_rate = self.disk_rate.unwrap_or(f64::INFINITY);
        self.forks = pace::forks(said, Load { bytes, written, disk_rate, free: pace::free_memory() });
        self.forks
    }

    /// Returns the rule by which blocks are packed.
    pub(super) fn packing(&self, said: Packed) -> Packing {
        said.packing(self.disk_rate)
    }

    fn has_seen(&mut self, written: &Written) {
        self.disk_rate = pace::refined(self.disk_rate, written.bytes(), written.waited, written.took);
        self.last_bytes = Some(written.bytes());
    }
}

/// Progress of a write.
#[derive(Debug)]
pub(super) struct Progress {
    /// Number of bytes that are written, and approximate number of all.
    done: Arc<AtomicU64>,
    expected: u64,
    begun: Duration,
    /// Time of the next progress message.
    pub(super) told: Duration,
}

impl Progress {
    /// Creates the progress of a write that begins now.
    pub(super) fn new(done: Arc<AtomicU64>, expected: u64, now: Duration) -> Progress {
        Progress { done, expected, begun: now, told: now + FIRST_WORD }
    }

    /// Returns a progress message, if it is due.
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

    /// Checks the progress messages of a write of 10 GB that began at second 1. Each case has a time in
    /// seconds, and the GB written by then.
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
