//! Refusals by the system: the refused call, and advice for the user.
//!
//! "Operation not permitted" does not help a user in a container: others have set the filter, and must be
//! told what to allow. Therefore the indispensable calls put their names into the error, and every layer
//! keeps it.

use std::fmt;
use std::io;

/// Refused call inside an [`io::Error`].
#[derive(Debug)]
struct Refused {
    call: &'static str,
    errno: i32,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.call, io::Error::from_raw_os_error(self.errno))
    }
}

impl std::error::Error for Refused {}

/// Returns the last error of this thread, with the name of `call`.
pub fn last(call: &'static str) -> io::Error {
    with_call(call, io::Error::last_os_error())
}

/// Adds the name of `call` to `error`. An error that has a name already, or does not come from the system,
/// is returned unchanged.
pub fn with_call(call: &'static str, error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(errno) => io::Error::new(error.kind(), Refused { call, errno }),
        None => error,
    }
}

/// Returns the number of the system's error, with or without the name of a call.
pub fn errno(error: &io::Error) -> Option<i32> {
    error.raw_os_error().or_else(|| refused(error).map(|refused| refused.errno))
}

/// Returns the name of the refused call, if the error has one.
pub fn call(error: &io::Error) -> Option<&'static str> {
    refused(error).map(|refused| refused.call)
}

/// Returns true if the error is that a descriptor was not open.
pub fn is_of_closed(error: &io::Error) -> bool {
    errno(error) == Some(libc::EBADF)
}

fn refused(error: &io::Error) -> Option<&Refused> {
    error.get_ref()?.downcast_ref()
}

/// Returns the error with advice, in one sentence.
pub fn explain(error: &io::Error) -> String {
    let Some(errno) = errno(error) else { return error.to_string() };
    let advice = advise(call(error), errno, limit);
    format!("{error}{advice}")
}

/// Limit of a process that [`limit`] can look up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    AddressSpace,
    FileLength,
    Descriptors,
    Processes,
}

/// Returns a limit of this process; `None` if it is unlimited.
fn limit(which: Limit) -> Option<u64> {
    let resource = match which {
        Limit::AddressSpace => libc::RLIMIT_AS,
        Limit::FileLength => libc::RLIMIT_FSIZE,
        Limit::Descriptors => libc::RLIMIT_NOFILE,
        Limit::Processes => libc::RLIMIT_NPROC,
    };
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is writable.
    let known = unsafe { libc::getrlimit(resource, &mut limit) } == 0;
    (known && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

fn advise(call: Option<&str>, errno: i32, limit: impl Fn(Limit) -> Option<u64>) -> String {
    match (errno, call) {
        (libc::EPERM | libc::ENOSYS, Some(call)) => format!(
            "; a filter of system calls (seccomp) of a container, a sandbox or a service manager refuses it, or the kernel lacks it: \
             allow {call} there"
        ),
        (libc::ENOMEM, _) => match limit(Limit::AddressSpace) {
            Some(bytes) => format!(
                "; the address space of a process is limited to {} MiB (ulimit -v): Tutti reserves more than it uses, so lift that \
                 limit, and limit memory by a control group instead",
                bytes >> 20
            ),
            None => "; the system or the control group has no memory left".to_string(),
        },
        (libc::EFBIG, _) => match limit(Limit::FileLength) {
            Some(bytes) => format!(
                "; the length of a file, and with it that of shared memory, is limited to {} KiB (ulimit -f): lift that limit",
                bytes >> 10
            ),
            None => String::new(),
        },
        (libc::EMFILE, _) => match limit(Limit::Descriptors) {
            Some(number) => format!("; a process may have {number} descriptors open: raise ulimit -n"),
            None => String::new(),
        },
        (libc::EAGAIN, Some("fork" | "clone" | "pthread_create")) => match limit(Limit::Processes) {
            Some(number) => format!(
                "; the user may have {number} processes and threads: raise ulimit -u, or the limit of the control group (pids.max)"
            ),
            None => "; the control group has no room for another process or thread: raise its pids.max"
                .to_string(),
        },
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(call: Option<&'static str>, errno: i32, limited: Option<u64>, expected: &[&str]) {
        let text = advise(call, errno, |_| limited);
        assert!(expected.iter().all(|part| text.contains(part)), "{text}");
        assert_eq!(text.is_empty(), expected.is_empty(), "{text}");
    }

    #[test]
    fn advice_names_the_call_or_the_limit() {
        check(Some("memfd_create"), libc::EPERM, None, &["seccomp", "allow memfd_create"]);
        check(Some("prctl"), libc::ENOSYS, None, &["allow prctl"]);
        check(None, libc::EPERM, None, &[]);
        check(Some("mmap"), libc::ENOMEM, Some(500 << 20), &["500 MiB (ulimit -v)"]);
        check(Some("mmap"), libc::ENOMEM, None, &["no memory left"]);
        check(Some("ftruncate"), libc::EFBIG, Some(1 << 20), &["1024 KiB (ulimit -f)"]);
        check(Some("pipe"), libc::EMFILE, Some(16), &["16 descriptors", "ulimit -n"]);
        check(Some("fork"), libc::EAGAIN, Some(40), &["40 processes", "ulimit -u"]);
        check(Some("fork"), libc::EAGAIN, None, &["pids.max"]);
        check(Some("read"), libc::EIO, None, &[]);
    }

    #[test]
    fn a_named_error_keeps_kind_and_number() {
        let error = with_call("epoll_create1", io::Error::from_raw_os_error(libc::EPERM));
        assert_eq!((error.kind(), errno(&error)), (io::ErrorKind::PermissionDenied, Some(libc::EPERM)));
        assert!(explain(&error).starts_with("epoll_create1: Operation not permitted (os error 1); a filter"));
        let again = with_call("other", error);
        assert!(again.to_string().starts_with("epoll_create1"));
        assert_eq!(explain(&io::Error::other("words")), "words");
    }
}
