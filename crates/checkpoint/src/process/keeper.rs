//! Keepers: copies of ranks, from which memory is written while the ranks go on (copy on write).
//!
//! A stopped rank is made to fork from outside. The copy is a child of the daemon, not of the rank
//! (CLONE_PARENT). Thus no rank sees it, gets its signals or can wait for it. It executes three calls, each
//! stepped by the tracer:
//!
//! 1. It requests to be killed when the daemon ends.
//! 2. It closes all descriptors, so that no pipe, connection or lock stays open for it.
//! 3. It sets its name.
//!
//! From then on it is stopped, and never runs code of the program. It is killed when its [`Keeper`] is
//! dropped, or when the daemon ends (PTRACE_O_EXITKILL, PR_SET_PDEATHSIG). When memory is scarce, it is
//! killed before all other processes.
//!
//! Areas that a fork leaves out (MADV_DONTFORK, MADV_WIPEONFORK) and shared memory are not in it. They are
//! written before the ranks go on.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use tutti_sys::{guardian, process};

use super::asker::{self, Asker};
use super::freeze::Frozen;
use super::memory::Memory;
use crate::image::Area;

const PAGE: u64 = 4096;
/// Name of the copy's process, terminated with a zero byte, for ps(1).
const NAME: &[u8; 16] = b"tutti-keeper\0\0\0\0";

/// Copy of a rank. Its process is killed when the value is dropped.
#[derive(Debug)]
pub struct Keeper {
    process: OwnedFd,
    pid: i32,
}

impl Keeper {
    /// Copies a stopped process.
    ///
    /// # Errors
    /// Returns the error of a system call, for lack of memory or too many processes.
    pub fn of_process(frozen: &Frozen, memory: &Memory) -> io::Result<Keeper> {
        let first = Asker::new(frozen.threads[0], asker::gadget(frozen.pid, memory)?, memory)?;
        let made = first.map(PAGE).and_then(|room| {
            let made = memory.write(room, NAME).and_then(|()| Keeper::fork(&first, room));
            first.call(libc::SYS_munmap, [room, PAGE, 0, 0, 0, 0])?;
            made
        });
        first.done()?;
        let keeper = made?;
        // The kernel's out-of-memory killer takes the copy first, and spares the ranks.
        let _ = std::fs::write(format!("/proc/{}/oom_score_adj", keeper.pid), "1000");
        Ok(keeper)
    }

    /// Forks the copy and makes its three calls. `room` is the address of its name in the process.
    fn fork(first: &Asker<'_>, room: u64) -> io::Result<Keeper> {
        let copy = first.fork()?;
        let pid = copy.tid();
        let process = guardian::open_process(pid).inspect_err(|_| {
            process::kill(pid, libc::SIGKILL);
        })?;
        let keeper = Keeper { process, pid };
        let copy = first.of_copy(copy);
        let kill = libc::SIGKILL as u64;
        copy.call(libc::SYS_prctl, [libc::PR_SET_PDEATHSIG as u64, kill, 0, 0, 0, 0])?;
        copy.call(libc::SYS_close_range, [0, u64::from(u32::MAX), 0, 0, 0, 0])?;
        copy.call(libc::SYS_prctl, [libc::PR_SET_NAME as u64, room, 0, 0, 0, 0])?;
        Ok(keeper)
    }

    /// Opens the memory of the copy. It cannot be read when the copy is gone.
    ///
    /// # Errors
    /// Fails if the copy is gone.
    pub fn memory(&self) -> io::Result<Memory> {
        Memory::of_this_alone(self.pid)
    }

    /// Returns the process number of the copy.
    pub fn pid(&self) -> i32 {
        self.pid
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // The daemon reaps the copy like all of its children.
        process::kill_by(self.process.as_fd(), libc::SIGKILL);
    }
}

/// Returns true if a keeper has the bytes of an area.
pub fn has(area: &Area) -> bool {
    !area.advice.no_fork && !area.advice.wiped_on_fork
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::WRITE;
    use crate::process::{areas, freeze};
    use std::process::Command;
    use std::time::{Duration, Instant};
    use tutti_sys::pagemap::Pages;

    struct Child(std::process::Child);

    impl Drop for Child {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// Returns the ranges of private pages that a process may write.
    fn pages(pid: i32) -> Vec<(u64, u64)> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        let pages = Pages::open(pid).unwrap();
        let areas = areas::parse(&text).unwrap().into_iter().map(|listed| listed.area);
        let areas = areas.filter(|area| area.protection & WRITE != 0 && !area.shared);
        areas.flat_map(|area| pages.own(area.start, area.end).unwrap()).collect()
    }

    fn content(memory: &Memory, pages: &[(u64, u64)]) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        for &(start, end) in pages {
            let mut room = vec![0; (end - start) as usize];
            memory.read(start, &mut room)?;
            all.extend(room);
        }
        Ok(all)
    }

    fn field(pid: i32, name: &str) -> String {
        let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim_start_matches([':', '\t', ' ']).to_string()
    }

    fn until(what: impl Fn() -> bool) {
        let begun = Instant::now();
        while !what() {
            assert!(begun.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn a_keeper_has_what_was_while_its_process_goes_on() {
        let loops = "i=0; while :; do i=$((i+1)); done";
        // Restartable sequences are disabled, as the kernel writes the number of the processor there.
        let mut command = Command::new("sh");
        command.args(["-c", loops]).env("GLIBC_TUNABLES", "glibc.pthread.rseq=0");
        let child = Child(command.spawn().unwrap());
        let pid = child.0.id() as i32;
        std::thread::sleep(Duration::from_millis(100));
        let Ok(frozen) = freeze::freeze(&[pid], |_| false) else { return };
        let memory = Memory::open(pid).unwrap();
        let keeper = Keeper::of_process(&frozen[0], &memory).unwrap();
        let kept = keeper.memory().unwrap();
        let pages = pages(pid);
        let before = content(&memory, &pages).unwrap();
        freeze::thaw(frozen);
        until(|| content(&memory, &pages).unwrap() != before);
        assert!(content(&kept, &pages).unwrap() == before && !before.is_empty());
        // The copy is a child of this process alone, has no open files and is stopped.
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        assert_eq!(children, "");
        assert_eq!(field(keeper.pid(), "PPid"), std::process::id().to_string());
        assert_eq!(field(keeper.pid(), "Name"), "tutti-keeper");
        assert!(field(keeper.pid(), "State").starts_with('t'), "{}", field(keeper.pid(), "State"));
        assert_eq!(std::fs::read_dir(format!("/proc/{}/fd", keeper.pid())).unwrap().count(), 0);
        process::kill(keeper.pid(), libc::SIGCONT);
        std::thread::sleep(Duration::from_millis(20));
        assert!(content(&kept, &pages).unwrap() == before);
        drop(keeper);
        until(|| content(&kept, &pages).is_err());
        assert!(content(&memory, &pages).is_ok());
    }
}
