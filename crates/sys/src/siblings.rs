//! Whether two processes that a launcher starts can reach each other's memory, found out by trying.
//!
//! All ranks of a job must agree on it before they choose how to do a collective operation, so it is asked once,
//! by the process that starts them, for two short-lived children that stand for any two ranks: what a
//! security module, a seccomp filter or a container refuses, it refuses them too. About half a millisecond.

use std::io::{IoSliceMut, Read};
use std::os::fd::AsRawFd;

use crate::cma::{self, Pid, RemoteSegment};

/// What the children look for: any word will do that is at the same address in both.
static WORD: u64 = 0x7475_7474_6921_0a0d;

/// Whether a process can read the memory of a sibling by process_vm_readv. `false` where even that
/// cannot be found out.
pub fn can_read_each_other() -> bool {
    let Ok((mut ready, say)) = std::io::pipe() else { return false };
    let Some(owner) = child(|| {
        cma::allow_peers();
        let word = [1u8];
        // SAFETY: an open descriptor and one readable byte; pause has no preconditions.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            libc::write(say.as_raw_fd(), word.as_ptr().cast(), 1);
            libc::pause();
        }
        1
    }) else {
        return false;
    };
    drop(say);
    let up = ready.read_exact(&mut [0]).is_ok();
    let reader = up.then(|| child(|| i32::from(!reads(owner)))).flatten();
    let read = reader.is_some_and(|reader| wait(reader) == Some(0));
    // SAFETY: a child of this process that was not waited for, so the number is still its own.
    unsafe { libc::kill(owner, libc::SIGKILL) };
    wait(owner);
    read
}

/// Reads the word of a sibling.
fn reads(owner: libc::pid_t) -> bool {
    let mut word = [0u8; 8];
    let remote = [RemoteSegment { address: &raw const WORD as u64, bytes: 8 }];
    cma::read(Pid(owner), &remote, &mut [IoSliceMut::new(&mut word)]) == Ok(8)
        && u64::from_ne_bytes(word) == WORD
}

/// Starts a child that runs `body`, which may only make system calls, and exits with its result.
fn child(body: impl FnOnce() -> i32) -> Option<libc::pid_t> {
    // SAFETY: the child runs `body`, which allocates nothing and takes no lock, and exits without running destructors.
    match unsafe { libc::fork() } {
        0 => {
            let code = body();
            // SAFETY: ends the child.
            unsafe { libc::_exit(code) }
        }
        pid => (pid > 0).then_some(pid),
    }
}

/// The exit code of a child, if it exited.
fn wait(pid: libc::pid_t) -> Option<i32> {
    let mut status = 0;
    loop {
        // SAFETY: writes the status.
        let waited = unsafe { libc::waitpid(pid, &raw mut status, 0) };
        if waited == pid {
            return libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status));
        }
        if std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn siblings_answer() {
        // Either answer is right, depending on the system; it must come, and be the same again.
        assert_eq!(super::can_read_each_other(), super::can_read_each_other());
    }
}
