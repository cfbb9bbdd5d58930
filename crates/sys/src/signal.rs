//! Signals as data: masks, a descriptor to read them from, and their names.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::refusal;

/// Set of signals for masks.
#[derive(Clone, Copy)]
pub struct Mask(libc::sigset_t);

impl std::fmt::Debug for Mask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries((1..64).filter(|&signal| self.contains(signal))).finish()
    }
}

impl Mask {
    /// Returns the set without signals.
    pub fn empty() -> Mask {
        // SAFETY: sigemptyset initialises the plain C structure that it is given.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            Mask(set)
        }
    }

    /// Returns the set of all signals.
    pub fn all() -> Mask {
        let mut mask = Mask::empty();
        // SAFETY: the set is initialised.
        unsafe { libc::sigfillset(&mut mask.0) };
        mask
    }

    /// Returns the set of these signals.
    pub fn from_signals(signals: &[i32]) -> Mask {
        let mut mask = Mask::empty();
        for &signal in signals {
            // SAFETY: the set is initialised; a wrong number is refused by the call.
            unsafe { libc::sigaddset(&mut mask.0, signal) };
        }
        mask
    }

    /// Returns true if `signal` is in the set.
    pub fn contains(&self, signal: i32) -> bool {
        // SAFETY: the set is initialised.
        unsafe { libc::sigismember(&self.0, signal) == 1 }
    }

    /// Blocks these signals in this thread, in addition to those blocked already. Returns the previous
    /// mask.
    pub fn block(&self) -> Mask {
        let mut before = Mask::empty();
        // SAFETY: both sets are initialised. The call cannot fail with a valid `how`.
        unsafe { libc::sigprocmask(libc::SIG_BLOCK, &self.0, &mut before.0) };
        before
    }

    /// Makes this set the mask of this thread. Async-signal-safe.
    pub fn install(&self) {
        // SAFETY: the set is initialised.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut()) };
    }
}

/// Runs `work` and restores the handlers of all signals afterwards. Used for libraries that install
/// handlers when they are loaded.
pub fn keeping_handlers<T>(work: impl FnOnce() -> T) -> T {
    const LAST: i32 = 31;
    let before: Vec<libc::sigaction> = (1..=LAST)
        .map(|signal| {
            // SAFETY: without a new action only the old one is written; zero bytes are a valid value of it.
            unsafe {
                let mut action = std::mem::zeroed();
                libc::sigaction(signal, std::ptr::null(), &mut action);
                action
            }
        })
        .collect();
    let result = work();
    for (signal, action) in (1..=LAST).zip(&before) {
        if signal != libc::SIGKILL && signal != libc::SIGSTOP {
            // SAFETY: the action was in force before.
            unsafe { libc::sigaction(signal, action, std::ptr::null_mut()) };
        }
    }
    result
}

/// Descriptor that delivers signals. They must be blocked.
#[derive(Debug)]
pub struct SignalFd(OwnedFd);

impl SignalFd {
    /// Creates a descriptor for the signals in `mask`. Reads wait unless `nonblocking`.
    ///
    /// # Errors
    /// Errors of signalfd, for example too many descriptors.
    pub fn new(mask: &Mask, nonblocking: bool) -> io::Result<SignalFd> {
        let flags = libc::SFD_CLOEXEC | if nonblocking { libc::SFD_NONBLOCK } else { 0 };
        // SAFETY: the set is initialised.
        let fd = unsafe { libc::signalfd(-1, &mask.0, flags) };
        if fd < 0 {
            return Err(refusal::last("signalfd"));
        }
        // SAFETY: fd was just created and has no other owner.
        Ok(SignalFd(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Returns the next signal; `None` if there is none now.
    pub fn next(&self) -> Option<i32> {
        // SAFETY: an all-zero signalfd_siginfo is a valid value of that plain C structure.
        let mut info: libc::signalfd_siginfo = unsafe { std::mem::zeroed() };
        let bytes = size_of::<libc::signalfd_siginfo>();
        loop {
            // SAFETY: info is writable and as long as stated.
            let got = unsafe { libc::read(self.0.as_raw_fd(), (&raw mut info).cast(), bytes) };
            if got == bytes.cast_signed() {
                return Some(info.ssi_signo.cast_signed());
            }
            if io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
                return None;
            }
        }
    }
}

impl AsFd for SignalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Returns true if this process was started with `signal` ignored (nohup).
pub fn is_ignored(signal: i32) -> bool {
    // SAFETY: an all-zero sigaction is a valid value; the call only writes to it.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut action) == 0 && action.sa_sigaction == libc::SIG_IGN
    }
}

/// Restores the default action of SIGCHLD, so that this process can wait for its children. A program that
/// is started with SIGCHLD ignored keeps ignoring it; the kernel then removes ended children without
/// reporting them.
pub fn restore_child_signal() {
    restore_default(libc::SIGCHLD);
}

/// Restores the default action of `signal`, also for programs that this process starts. Async-signal-safe.
pub fn restore_default(signal: i32) {
    // SAFETY: the default action calls nothing of this process.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

/// Stops this process until it is continued by a signal.
pub fn stop_self() {
    // SAFETY: a plain system call.
    unsafe { libc::raise(libc::SIGSTOP) };
}

/// Returns number, name and meaning of a signal: `signal 11 SIGSEGV (segmentation fault)`.
pub fn describe(signal: i32) -> String {
    const NAMES: &[(i32, &str, &str)] = &[
        (libc::SIGHUP, "SIGHUP", "hangup"),
        (libc::SIGINT, "SIGINT", "interrupt"),
        (libc::SIGQUIT, "SIGQUIT", "quit"),
        (libc::SIGILL, "SIGILL", "illegal instruction"),
        (libc::SIGTRAP, "SIGTRAP", "trap"),
        (libc::SIGABRT, "SIGABRT", "abort"),
        (libc::SIGBUS, "SIGBUS", "bus error"),
        (libc::SIGFPE, "SIGFPE", "arithmetic exception"),
        (libc::SIGKILL, "SIGKILL", "killed"),
        (libc::SIGUSR1, "SIGUSR1", "user signal 1"),
        (libc::SIGSEGV, "SIGSEGV", "segmentation fault"),
        (libc::SIGUSR2, "SIGUSR2", "user signal 2"),
        (libc::SIGPIPE, "SIGPIPE", "broken pipe"),
        (libc::SIGALRM, "SIGALRM", "alarm"),
        (libc::SIGTERM, "SIGTERM", "terminated"),
        (libc::SIGXCPU, "SIGXCPU", "processor time limit"),
        (libc::SIGXFSZ, "SIGXFSZ", "file size limit"),
        (libc::SIGSYS, "SIGSYS", "bad system call"),
    ];
    match NAMES.iter().find(|(number, ..)| *number == signal) {
        Some((number, name, meaning)) => format!("signal {number} {name} ({meaning})"),
        None => format!("signal {signal}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_hold_what_they_are_given() {
        let mask = Mask::from_signals(&[libc::SIGUSR1, libc::SIGTERM]);
        assert_eq!(format!("{mask:?}"), format!("[{}, {}]", libc::SIGUSR1, libc::SIGTERM));
        assert!(!Mask::empty().contains(libc::SIGTERM));
    }

    #[test]
    fn a_blocked_signal_is_read_from_the_descriptor() {
        let mask = Mask::from_signals(&[libc::SIGWINCH]);
        let before = mask.block();
        let fd = SignalFd::new(&mask, true).unwrap();
        assert_eq!(fd.next(), None);
        // SAFETY: sends a blocked signal to this thread only.
        unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGWINCH) };
        assert_eq!(fd.next(), Some(libc::SIGWINCH));
        before.install();
    }

    #[test]
    fn a_signal_is_ignored_until_its_default_is_restored() {
        // SAFETY: no handler is set, and nothing in this test binary sends this signal.
        unsafe { libc::signal(libc::SIGURG, libc::SIG_IGN) };
        assert!(is_ignored(libc::SIGURG));
        restore_default(libc::SIGURG);
        assert!(!is_ignored(libc::SIGURG));
    }

    #[test]
    fn signals_have_names() {
        assert_eq!(describe(11), "signal 11 SIGSEGV (segmentation fault)");
        assert_eq!(describe(60), "signal 60");
    }
}
