//! Detection of other MPI libraries in running ranks that have not called MPI_Init.
//!
//! The libraries of a program are checked before it starts ([`crate::needed`]). An interpreter loads its MPI
//! library later. If that is not Tutti's, each rank is alone in a job of one rank, without a message.
//! Therefore the list of loaded files of such ranks is read a few times, at growing intervals. Ranks that
//! have called MPI_Init check themselves (`tutti-core`).

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tutti_base::mpi_libraries::is_core_library;

use crate::needed;

/// Times of the inspections after the start of the ranks, in milliseconds.
const INSPECTIONS_MS: [u64; 9] = [50, 150, 400, 800, 1600, 3200, 6400, 12_800, 25_600];
/// Maximum number of processes that are inspected for each rank, since a script may start the program.
const PROCESSES: usize = 16;

/// Schedule of the inspections of one host's ranks.
#[derive(Debug, Default)]
pub struct InspectionSchedule {
    /// Time at which the ranks of this host were started.
    since: Option<Duration>,
    done: usize,
}

impl InspectionSchedule {
    /// Begins the schedule when the ranks of this host were started.
    pub fn begin(&mut self, now: Duration) {
        self.since = Some(now);
    }

    /// Returns the time of the next inspection.
    pub fn due(&self) -> Option<Duration> {
        Some(self.since? + Duration::from_millis(*INSPECTIONS_MS.get(self.done)?))
    }

    /// Returns true if an inspection is due, and counts it as done.
    pub fn take(&mut self, now: Duration) -> bool {
        let is_due = self.due().is_some_and(|at| at <= now);
        self.done += usize::from(is_due);
        is_due
    }

    /// Cancels the remaining inspections.
    pub fn end(&mut self) {
        self.done = INSPECTIONS_MS.len();
    }
}

/// Returns the file of another MPI library that a process or one of its descendants has loaded.
pub fn other_library(pid: i32) -> Option<PathBuf> {
    let mut processes = vec![pid];
    let mut at = 0;
    while at < processes.len().min(PROCESSES) {
        let pid = processes[at];
        let maps = std::fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
        if let Some(file) = mapped_library(&maps) {
            return Some(file);
        }
        let children =
            std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        processes.extend(children.split_whitespace().filter_map(|child| child.parse::<i32>().ok()));
        at += 1;
    }
    None
}

/// Returns the first file of another MPI library in a list of mappings (proc(5)).
fn mapped_library(maps: &[u8]) -> Option<PathBuf> {
    let files = maps.split(|byte| *byte == b'\n').filter_map(|line| {
        let start = line.iter().position(|byte| *byte == b'/')?;
        Some(Path::new(std::ffi::OsStr::from_bytes(&line[start..])))
    });
    let mut core = files.filter(|file| file.file_name().is_some_and(|name| is_core_library(name.as_bytes())));
    core.find(|file| !needed::is_own(file)).map(Path::to_path_buf)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_libraries_of_other_mpis_are_found() {
        let check = |file: &str, expected: Option<&str>| {
            let line = format!(
                "7f00-7f01 r--p 00000000 08:01 1 /lib/libc.so.6\n7f02-7f03 r-xp 00000000 08:01 2    {file}\n7f04 0 [heap]\n"
            );
            assert_eq!(mapped_library(line.as_bytes()), expected.map(PathBuf::from), "{file}");
        };
        check("/opt/libmpi.so.40.30.4", Some("/opt/libmpi.so.40.30.4"));
        check("/opt/my mpi/libmpi.so.12", Some("/opt/my mpi/libmpi.so.12"));
        check("/opt/libmpi_abi.so.1", None);
        check("/opt/libmpfr.so.6", None);
        check("", None);
    }
}
