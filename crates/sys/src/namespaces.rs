//! Namespaces of this process: they determine the meaning of a process number, and the access to memory of
//! others.
//!
//! A container run-time may create a user namespace and a pid namespace for each rank (`mpirun -n 4
//! apptainer exec ...`).

use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::linux::fs::MetadataExt;

/// Two namespaces of a process by their inode numbers, which are unique on a machine; 0 where the system
/// does not report them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Namespaces {
    /// Namespace of users and capabilities.
    pub user: u64,
    /// Namespace of process numbers.
    pub pid: u64,
}

impl Namespaces {
    /// Returns the namespaces of this process.
    pub fn own() -> Namespaces {
        Namespaces { user: inode("/proc/self/ns/user"), pid: inode("/proc/self/ns/pid") }
    }

    /// Returns true if a process number denotes the same process for both, as far as is known.
    pub fn share_pids(&self, other: &Namespaces) -> bool {
        self.pid == 0 || other.pid == 0 || self.pid == other.pid
    }

    /// Returns true if both have the same user namespace, as far as is known.
    pub fn share_users(&self, other: &Namespaces) -> bool {
        self.user == 0 || other.user == 0 || self.user == other.user
    }

    /// Returns a number that is equal for processes that may access each other's memory by the kernel's
    /// rules (ptrace(2), "Ptrace access mode checking"). These have equal namespaces, users, groups and
    /// permitted capabilities. Never 0.
    pub fn class(&self) -> u64 {
        let mut hash = DefaultHasher::new();
        (self.user, self.pid, own_numbers(), permitted_capabilities()).hash(&mut hash);
        hash.finish() | 1
    }
}

fn inode(path: &str) -> u64 {
    std::fs::metadata(path).map_or(0, |file| file.st_ino())
}

/// Returns the real, effective and saved user and group.
fn own_numbers() -> [u32; 6] {
    let mut numbers = [0; 6];
    let [user, effective_user, saved_user, group, effective_group, saved_group] = &mut numbers;
    // SAFETY: all places are writable; the calls have no other cause of failure.
    unsafe {
        libc::getresuid(user, effective_user, saved_user);
        libc::getresgid(group, effective_group, saved_group);
    }
    numbers
}

/// Returns the permitted capabilities, or 0 where the system does not report them. The process that is read
/// may not have more of them than the reader.
fn permitted_capabilities() -> u64 {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    #[derive(Clone, Copy, Default)]
    #[repr(C)]
    struct Sets {
        effective: u32,
        permitted: u32,
        inheritable: u32,
    }
    const VERSION: u32 = 0x2008_0522;
    let mut header = Header { version: VERSION, pid: 0 };
    let mut sets = [Sets::default(); 2];
    // SAFETY: the header is of the version for which two structures are written.
    let failed = unsafe { libc::syscall(libc::SYS_capget, &raw mut header, sets.as_mut_ptr()) };
    if failed == 0 { u64::from(sets[1].permitted) << 32 | u64::from(sets[0].permitted) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_like_itself() {
        let own = Namespaces::own();
        assert_eq!((own, own.class()), (Namespaces::own(), Namespaces::own().class()));
        assert!(own.share_pids(&own) && own.share_users(&own) && own.class() != 0);
    }

    #[test]
    fn what_is_not_known_may_be_shared() {
        let check = |one: (u64, u64), other: (u64, u64), expected: (bool, bool)| {
            let [one, other] = [one, other].map(|(user, pid)| Namespaces { user, pid });
            assert_eq!((one.share_users(&other), one.share_pids(&other)), expected);
            assert!(one == other || one.class() != other.class());
        };
        check((1, 2), (1, 2), (true, true));
        check((1, 2), (3, 2), (false, true));
        check((1, 2), (1, 3), (true, false));
        check((1, 2), (0, 3), (true, false));
        check((0, 0), (5, 3), (true, true));
    }
}
