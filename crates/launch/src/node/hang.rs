//! State of the watch for hangs: this host's part of the collections, and at the root the inquiry
//! ([`crate::hang`]).

use std::path::PathBuf;
use std::time::Duration;

use tutti_sys::process;

use crate::hang::Inquest;
use crate::request::Request;
use crate::tree::message::JobInfo;

/// State of the watch.
#[derive(Debug, Default)]
pub(super) struct HangWatch {
    /// Length of a long wait, once the ranks are started and unless the watch is off.
    pub(super) after: Option<Duration>,
    pub(super) is_off: bool,
    /// Time of the next look at the ranks.
    pub(super) next: Duration,
    /// For each local rank, the start of its last long wait that was reported.
    pub(super) known: Vec<u64>,
    /// Request that waits for cards, and the time at which it takes what is there.
    pub(super) collecting: Option<(u32, Duration)>,
    /// Inquiry of the root.
    pub(super) inquest: Option<Inquest>,
    pub(super) file: Option<PathBuf>,
    pub(super) aborts: bool,
}

impl HangWatch {
    /// Creates the watch of the root.
    pub(super) fn at_root(request: &Request, job: &JobInfo) -> HangWatch {
        let after = time_of(job);
        let ranks = job.runs.iter().map(|&(_, ranks)| ranks as usize).sum();
        let start = process::random().unwrap_or_default() as u32;
        let inquest = after.map(|after| Inquest::new(ranks, after).counting_from(start));
        HangWatch {
            inquest,
            file: request.hang_report.clone(),
            aborts: job.hang_aborts,
            ..HangWatch::default()
        }
    }

    /// Returns the time of the next look.
    pub(super) fn deadline(&self) -> Option<Duration> {
        let look = (!self.is_off).then_some(self.next);
        let inquest = self.inquest.as_ref().and_then(Inquest::deadline);
        look.into_iter().chain(inquest).min()
    }
}

/// Returns the length of a long wait in a job, unless the watch is off.
pub(super) fn time_of(job: &JobInfo) -> Option<Duration> {
    (job.hang_ms > 0).then(|| Duration::from_millis(job.hang_ms))
}
