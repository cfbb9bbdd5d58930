//! Name of this process in messages. It may be a rank, a process forked by a rank, or a job of its own that
//! a rank has started. The text is returned by [`name`].
//!
//! # Safety
//! The handler of forks calls only functions that signal-safety(7) lists.
#![allow(unsafe_code)]

use std::os::unix::fs::MetadataExt;
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicI64, Ordering};

/// Maximum number of processes between a rank and its launcher that are searched: shells, debuggers,
/// wrappers.
const MOST_ANCESTORS: usize = 64;
/// Name of the launcher's process that starts ranks, in /proc/PID/comm.
pub const LAUNCHER_NAME: &std::ffi::CStr = c"tutti-node";

/// Rank of this process in its job; -1 before it is known.
static RANK: AtomicI64 = AtomicI64::new(-1);
/// Rank that has started this process as a job of its own; -1 if there is none.
static STARTER: AtomicI64 = AtomicI64::new(-1);
/// Process number of the rank that this process was forked from; 0 in the rank itself.
static FORKED_FROM: AtomicI32 = AtomicI32::new(0);

/// Records the rank of this process, and that later copies of it are not ranks.
pub fn set_rank(rank: u32) {
    static WATCH: Once = Once::new();
    RANK.store(rank.into(), Ordering::Relaxed);
    WATCH.call_once(|| {
        // SAFETY: the handler lives as long as the library, which is never unloaded once MPI runs. If it
        // cannot be registered, copies are named like ranks.
        unsafe { libc::pthread_atfork(None, None, Some(note_fork)) };
    });
}

/// Records that this process, a job of its own, was started by a rank of another job.
pub fn set_starter(rank: u32) {
    STARTER.store(rank.into(), Ordering::Relaxed);
}

/// Runs in the copy that fork(2) has created.
extern "C" fn note_fork() {
    // SAFETY: a plain system call.
    let parent = unsafe { libc::getppid() };
    // In a copy of a copy, the first origin is kept.
    let _ = FORKED_FROM.compare_exchange(0, parent, Ordering::Relaxed, Ordering::Relaxed);
}

/// Kills the rank that this process was forked from, if it is still the parent.
pub fn end_origin() {
    let origin = FORKED_FROM.load(Ordering::Relaxed);
    // SAFETY: plain system calls.
    unsafe {
        if origin > 1 && origin == libc::getppid() {
            libc::kill(origin, libc::SIGKILL);
        }
    }
}

/// Returns the name of this process in messages; `None` before its rank is known.
pub fn name() -> Option<String> {
    name_of(std::process::id())
}

/// Returns the name of process `pid`, on whose behalf this copy of it reports. It is `rank 3`, `process 77
/// (forked by rank 3)` or `process 77 (a job of its own, started by rank 3)`.
pub fn name_of(pid: u32) -> Option<String> {
    let known = |number: &AtomicI64| Some(number.load(Ordering::Relaxed)).filter(|number| *number >= 0);
    let forked = FORKED_FROM.load(Ordering::Relaxed) != 0;
    match (known(&STARTER), known(&RANK)?) {
        (Some(starter), _) => Some(format!("process {pid} (a job of its own, started by rank {starter})")),
        (None, rank) if forked => Some(format!("process {pid} (forked by rank {rank})")),
        (None, rank) => Some(format!("rank {rank}")),
    }
}

/// Returns the ancestor of this process that has joined the job as a rank, if there is one. `job_fd` is the
/// number of the descriptor that the launcher has passed to the rank.
pub fn joined_ancestor(job_fd: i32) -> Option<i32> {
    let launcher = LAUNCHER_NAME.to_bytes();
    let mut process = std::process::id() as i32;
    for _ in 0..MOST_ANCESTORS {
        process = parent(process)?;
        let name = std::fs::read(format!("/proc/{process}/comm")).ok()?;
        if process <= 1 || name.trim_ascii() == launcher {
            return None;
        }
        if has_joined(process, job_fd) {
            return Some(process);
        }
    }
    None
}

/// Returns the parent of a process.
fn parent(process: i32) -> Option<i32> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

/// Returns true if a process has mapped the job object that it inherited.
fn has_joined(process: i32, job_fd: i32) -> bool {
    let Ok(object) = std::fs::metadata(format!("/proc/{process}/fd/{job_fd}")) else { return false };
    let inode = object.ino().to_string();
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
    // Columns: addresses, permissions, offset, device, inode, name.
    maps.lines().any(|line| {
        let mut words = line.split_ascii_whitespace();
        let is_shared = words.nth(1).is_some_and(|permissions| permissions.ends_with('s'));
        is_shared && words.nth(2) == Some(&inode)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{self, Mapping};
    use std::os::fd::{AsFd, AsRawFd};

    #[test]
    fn a_process_that_has_joined_is_known_by_its_mapping() {
        let object = memory::create_object(c"job", 8192).unwrap();
        let (own, number) = (std::process::id() as i32, object.as_raw_fd());
        assert!(!has_joined(own, number));
        let mapping = Mapping::range(object.as_fd(), 0, 4096).unwrap();
        assert!(has_joined(own, number));
        drop(mapping);
        assert!(!has_joined(own, number));
    }

    #[test]
    fn a_child_knows_its_parent() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert_eq!(parent(child.id() as i32), Some(std::process::id() as i32));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(parent(i32::MAX), None);
        assert_eq!(joined_ancestor(i32::MAX), None);
    }
}
