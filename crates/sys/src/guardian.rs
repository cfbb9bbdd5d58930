//! Guardian processes: a guardian watches other processes and acts when one ends, even after the process
//! that started it is gone.
//!
//! A guardian is a copy of the process that starts it, which may have any number of threads. So it makes
//! only system calls and allocates nothing. wait(2) does not find it as a child, and its end sends no
//! signal. It keeps only the descriptors passed to it and standard error, so that it does not keep pipes of
//! others open.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use crate::signal::Mask;

/// Returns a descriptor that becomes readable when process `pid` ends.
///
/// # Errors
/// The system's error: there is no such process, or the kernel lacks the call (before Linux 5.3).
pub fn open_process(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: a system call with plain numbers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just made the descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// Starts a guardian and returns its process number. It calls `ended` with the index of each of `processes`
/// that ends. The guardian ends when all have ended, or when `ended` returns false. `ended` must not
/// allocate: the copy may have been made while another thread was allocating.
///
/// # Errors
/// Errors of the system.
pub fn start(
    processes: &[OwnedFd],
    keep: &[BorrowedFd<'_>],
    ended: impl Fn(usize) -> bool,
) -> io::Result<i32> {
    let mut polled: Vec<libc::pollfd> = processes
        .iter()
        .map(|process| libc::pollfd { fd: process.as_raw_fd(), events: libc::POLLIN, revents: 0 })
        .collect();
    let mut kept: Vec<u32> = [libc::STDERR_FILENO]
        .into_iter()
        .chain(processes.iter().map(AsRawFd::as_raw_fd))
        .chain(keep.iter().map(AsRawFd::as_raw_fd))
        .map(|fd| fd as u32)
        .collect();
    kept.sort_unstable();
    // All signals are blocked, so that no handler of the program runs in the copy.
    let before = Mask::all().block();
    // SAFETY: a copy of this thread with its own memory (no flags, no stack, no signal at its end). It only
    // makes system calls and ends without running destructors or exit handlers.
    let pid = unsafe { libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) };
    if pid == 0 {
        crate::process::set_name(c"tutti-guardian");
        if close_others(&kept) {
            watch(&mut polled, ended);
        }
        crate::this_process::exit_now(0);
    }
    let result = if pid < 0 { Err(io::Error::last_os_error()) } else { Ok(pid as i32) };
    before.install();
    result
}

/// Program and arguments, prepared so that they can be executed without allocation.
#[derive(Debug)]
pub struct Command {
    words: Vec<CString>,
    pointers: Vec<*const libc::c_char>,
}

impl Command {
    /// Prepares the program `words[0]`, which is searched in PATH.
    ///
    /// # Panics
    /// If there are no words.
    pub fn new(words: Vec<CString>) -> Command {
        assert!(!words.is_empty(), "a program has a name");
        let ends = [std::ptr::null()];
        let pointers = words.iter().map(|word| word.as_ptr()).chain(ends).collect();
        Command { words, pointers }
    }

    /// Executes the program in place of this process, with no input and its output discarded, except
    /// errors. Returns only if it cannot be executed.
    pub fn become_it(&self) {
        // SAFETY: names and arguments are terminated strings that live in `words`; the list of them ends with null.
        unsafe {
            let nothing = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
            libc::dup2(nothing, libc::STDIN_FILENO);
            libc::dup2(nothing, libc::STDOUT_FILENO);
            libc::execvp(self.words[0].as_ptr(), self.pointers.as_ptr());
        }
    }
}

/// Closes all descriptors except `kept`, which is sorted. Returns false where the kernel cannot (before
/// Linux 5.9).
fn close_others(kept: &[u32]) -> bool {
    let close = |first: u32, last: u32| {
        // SAFETY: a system call with plain numbers; nothing of this process uses the descriptors any more.
        first > last || unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } == 0
    };
    let mut next = 0;
    for &fd in kept {
        if fd > 0 && !close(next, fd - 1) {
            return false;
        }
        next = fd + 1;
    }
    close(next, u32::MAX)
}

fn watch(polled: &mut [libc::pollfd], ended: impl Fn(usize) -> bool) {
    let mut running = polled.len();
    while running > 0 {
        // SAFETY: the array is writable and of the stated length. Every signal that can be blocked is.
        let found = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, -1) };
        if found < 0 && io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
            return;
        }
        for (index, process) in polled.iter_mut().enumerate() {
            if found > 0 && process.revents != 0 {
                // poll(2) skips descriptors below 0.
                (process.fd, process.revents) = (-1, 0);
                running -= 1;
                if !ended(index) {
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::process::Child;

    use super::*;
    use crate::memory;

    fn children(count: usize) -> Vec<Child> {
        (0..count).map(|_| std::process::Command::new("sleep").arg("100").spawn().unwrap()).collect()
    }

    fn end(child: &mut Child) {
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Checks the output of a guardian of three processes: a byte for each that ends, in the order of their
    /// ends.
    fn check(order: &[usize], last: usize, expected: &[u8]) {
        let mut watched = children(3);
        let processes: Vec<_> =
            watched.iter().map(|child| open_process(child.id() as i32).unwrap()).collect();
        let (mut read, write) = io::pipe().unwrap();
        let started = start(&processes, &[write.as_fd()], |index| {
            (&write).write_all(&[index as u8]).unwrap();
            index != last
        });
        assert!(started.unwrap() > 0);
        drop(write);
        let mut said = Vec::new();
        for (&index, count) in order.iter().zip(1..) {
            end(&mut watched[index]);
            if count <= expected.len() {
                let mut byte = [0];
                read.read_exact(&mut byte).unwrap();
                said.extend(byte);
            }
        }
        // The guardian's copy of the pipe's end is the last one.
        read.read_to_end(&mut said).unwrap();
        assert_eq!(said, expected);
    }

    #[test]
    fn ends_are_told_in_their_order() {
        check(&[1, 0, 2], 9, &[1, 0, 2]);
    }

    #[test]
    fn it_stops_when_it_is_told_to() {
        check(&[2, 0, 1], 2, &[2]);
    }

    #[test]
    fn it_may_become_a_program() {
        let check = |words: &[&std::ffi::CStr], expected: &str| {
            let mut watched = children(1);
            let process = open_process(watched[0].id() as i32).unwrap();
            let (mut read, write) = io::pipe().unwrap();
            memory::set_inheritable(write.as_fd(), true).unwrap();
            let command = Command::new(words.iter().map(|&word| word.into()).collect());
            // The descriptor number of the pipe is the last argument of the script.
            let words =
                [&command.words[..], &[CString::new(write.as_raw_fd().to_string()).unwrap()]].concat();
            let command = Command::new(words);
            start(&[process], &[write.as_fd()], |_| {
                command.become_it();
                (&write).write_all(b"none").is_err()
            })
            .unwrap();
            drop(write);
            end(&mut watched[0]);
            let mut said = String::new();
            read.read_to_string(&mut said).unwrap();
            assert!(said.starts_with(expected), "{said:?}");
        };
        check(&[c"sh", c"-c", c"echo to $1 >/dev/fd/$1; echo nowhere", c"sh"], "to");
        check(&[c"no-such-program-of-tutti"], "none");
    }

    #[test]
    fn only_a_process_can_be_opened() {
        assert!(open_process(i32::MAX).is_err() && open_process(std::process::id() as i32).is_ok());
    }
}
