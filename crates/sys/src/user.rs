//! The user of this process, and checks if another process belongs to the same user.
//!
//! In a user namespace that maps few users, the kernel shows every unmapped one as the same number (65534,
//! according to /proc/sys/kernel/overflowuid). Two different users then look equal, so equality proves
//! nothing.

use std::os::fd::BorrowedFd;

use crate::process;

/// Number of users that a complete namespace maps.
const ALL_USERS: u64 = u32::MAX as u64;
/// Default number of the kernel for users that are not mapped.
const OVERFLOW_USER: u32 = 65534;

/// Returns the effective user of this process.
pub fn own() -> u32 {
    // SAFETY: no preconditions.
    unsafe { libc::geteuid() }
}

/// Returns the number of this process's user in the parent namespace. It is the same inside and outside a
/// namespace of one user (`unshare --map-root-user`).
pub fn own_outside() -> u32 {
    outside(&map(), own())
}

/// Returns true if the program has other rights than its caller: set-user-ID, set-group-ID or file
/// capabilities (AT_SECURE, getauxval(3)). Its environment then comes from a user with fewer rights.
pub fn is_privileged_program() -> bool {
    // SAFETY: no preconditions.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Returns a variable of the environment; `None` in a privileged program, as secure_getenv(3) does.
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|_| !is_privileged_program())
}

/// Returns true if `user`, a number from the kernel for a peer or a file's owner, denotes one certain user.
/// The number of unmapped users does not.
pub fn is_certain(user: u32) -> bool {
    user != overflow_user() || maps_all(&map())
}

/// Returns true if a peer with the number `user` is a process of this process's user. `process` returns a
/// descriptor of the peer (pidfd); it is called where the number alone proves nothing. Then the proof is
/// that this process may send it a signal.
pub fn is_own<F: std::os::fd::AsFd>(user: u32, process: impl FnOnce() -> Option<F>) -> bool {
    user == own() && (is_certain(user) || process().is_some_and(|process| may_signal(process.as_fd())))
}

fn may_signal(process: BorrowedFd<'_>) -> bool {
    process::kill_by(process, 0)
}

fn overflow_user() -> u32 {
    let told = std::fs::read_to_string("/proc/sys/kernel/overflowuid");
    told.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(OVERFLOW_USER)
}

/// Returns the user map of this namespace (user_namespaces(7)). Each line has a first user inside, its
/// number outside, and a count.
fn map() -> String {
    std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default()
}

fn ranges(map: &str) -> impl Iterator<Item = [u64; 3]> {
    map.lines().filter_map(|line| {
        let mut numbers = line.split_whitespace().map(|word| word.parse().ok());
        Some([numbers.next()??, numbers.next()??, numbers.next()??])
    })
}

fn maps_all(map: &str) -> bool {
    ranges(map).map(|[.., count]| count).sum::<u64>() >= ALL_USERS
}

fn outside(map: &str, user: u32) -> u32 {
    let inside = u64::from(user);
    let found =
        ranges(map).find(|[first, _, count]| (*first..first.saturating_add(*count)).contains(&inside));
    found.and_then(|[first, outside, _]| u32::try_from(outside + inside - first).ok()).unwrap_or(user)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(map: &str, user: u32, expected: (u32, bool)) {
        assert_eq!((outside(map, user), maps_all(map)), expected, "{map:?}");
    }

    #[test]
    fn maps_tell_which_users_are_certain() {
        check("         0          0 4294967295\n", 1000, (1000, true));
        check("0 1000 1\n", 0, (1000, false));
        check("0 100000 65536\n1000 5 1\n", 1001, (101_001, false));
        check("0 1000 1\n", 65534, (65534, false));
        check("", 7, (7, false));
    }

    #[test]
    fn this_process_is_its_own_users() {
        let none = || None::<std::os::fd::OwnedFd>;
        assert!(is_own(own(), none) && !is_own(own() + 1, none));
        // SAFETY: a system call with plain numbers.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, std::process::id(), 0) };
        assert!(fd >= 0);
        // SAFETY: just opened.
        let process: std::os::fd::OwnedFd = unsafe { std::os::fd::FromRawFd::from_raw_fd(fd as i32) };
        assert!(may_signal(std::os::fd::AsFd::as_fd(&process)));
    }
}
