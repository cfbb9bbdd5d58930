//! Waiting for several descriptors at once (epoll, poll), and creation of descriptors that do not block.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use crate::refusal;

/// Conditions to report for a descriptor. Errors and hang-up are always reported; remove the descriptor to
/// suspend them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Data can be read.
    Read,
    /// Data can be written without waiting.
    Write,
    /// Reading or writing is possible.
    Both,
    /// Errors and hang-up only.
    Nothing,
}

/// Report that one descriptor is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Number under which the descriptor was added.
    pub token: u64,
}

/// Set of descriptors to wait for (an epoll instance).
#[derive(Debug)]
pub struct Poller(OwnedFd);

impl Poller {
    /// Creates a set without descriptors.
    ///
    /// # Errors
    /// Errors of epoll_create1.
    pub fn new() -> io::Result<Poller> {
        // SAFETY: a plain system call.
        let fd = check("epoll_create1", unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: fd was just created and has no other owner.
        Ok(Poller(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Adds a descriptor under a number.
    ///
    /// # Errors
    /// PermissionDenied for a regular file, which is always ready.
    pub fn add(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, token, interest)
    }

    /// Changes the conditions to report for a descriptor.
    ///
    /// # Errors
    /// NotFound if it was never added.
    pub fn change(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, token, interest)
    }

    /// Removes a descriptor. The kernel removes a closed descriptor without duplicates by itself.
    ///
    /// # Errors
    /// NotFound if it was never added.
    pub fn remove(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd, 0, Interest::Read)
    }

    /// Waits until a descriptor is ready or `timeout` is over (`None`: no limit). Appends the ready
    /// descriptors to `events`.
    ///
    /// # Errors
    /// Errors of epoll_wait. An interruption by a signal is no error: it ends the wait early.
    pub fn wait(&self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        const AT_ONCE: usize = 64;
        // Rounded up to milliseconds, so that the caller does not spin in the last one.
        let limit = timeout.map_or(-1, |time| time.as_micros().div_ceil(1000).min(i32::MAX as u128) as i32);
        let mut ready = [libc::epoll_event { events: 0, u64: 0 }; AT_ONCE];
        // SAFETY: ready has room for AT_ONCE events.
        let count =
            unsafe { libc::epoll_wait(self.0.as_raw_fd(), ready.as_mut_ptr(), AT_ONCE as i32, limit) };
        match check("epoll_wait", count) {
            Ok(count) => {
                let ready = ready.iter().take(usize::try_from(count).unwrap_or(0));
                events.extend(ready.map(|event| Event { token: event.u64 }));
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn control(&self, operation: i32, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        let wanted = match interest {
            Interest::Read => libc::EPOLLIN,
            Interest::Write => libc::EPOLLOUT,
            Interest::Both => libc::EPOLLIN | libc::EPOLLOUT,
            Interest::Nothing => 0,
        };
        let mut event = libc::epoll_event { events: wanted.cast_unsigned(), u64: token };
        // SAFETY: both descriptors are open; the kernel copies the event.
        let done = unsafe { libc::epoll_ctl(self.0.as_raw_fd(), operation, fd.as_raw_fd(), &mut event) };
        check("epoll_ctl", done)?;
        Ok(())
    }
}

impl AsFd for Poller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Makes reads and writes of an open file return instead of waiting. This affects all who share the open
/// file (after dup or fork), so use it for descriptors of our own only.
///
/// # Errors
/// Errors of fcntl.
pub fn set_nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: plain system calls on an open descriptor.
    unsafe {
        let flags = check("fcntl", libc::fcntl(fd.as_raw_fd(), libc::F_GETFL))?;
        check("fcntl", libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK))?;
    }
    Ok(())
}

/// Returns a duplicate of `fd` with a number above the three standard descriptors, closed on exec.
///
/// # Errors
/// Errors of fcntl, for example too many descriptors.
pub fn duplicate_above_stdio(fd: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    // SAFETY: a plain system call on an open descriptor.
    let copy = check("fcntl", unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 3) })?;
    // SAFETY: copy was just created and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Creates a pipe: its reading and its writing end, closed on exec.
///
/// # Errors
/// Too many descriptors.
pub fn pipe() -> io::Result<(io::PipeReader, io::PipeWriter)> {
    io::pipe().map_err(|error| refusal::with_call("pipe2", error))
}

/// Returns the number of unread bytes in a pipe or a socket. Either end of a pipe may be passed.
///
/// # Errors
/// Errors of the system.
pub fn waiting_bytes(fd: BorrowedFd<'_>) -> io::Result<usize> {
    let mut waiting: libc::c_int = 0;
    // SAFETY: waiting is writable.
    check("ioctl", unsafe { libc::ioctl(fd.as_raw_fd(), libc::FIONREAD, &mut waiting) })?;
    Ok(usize::try_from(waiting).unwrap_or(0))
}

/// Returns true if a pipe or socket is empty and stays so, because its writers have closed it.
pub fn has_ended(fd: BorrowedFd<'_>) -> bool {
    let mut watched = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLRDHUP, revents: 0 };
    // SAFETY: one entry, as stated; the kernel writes only into it.
    let is_told = unsafe { libc::poll(&mut watched, 1, 0) == 1 };
    is_told
        && watched.revents & (libc::POLLHUP | libc::POLLRDHUP) != 0
        && waiting_bytes(fd).is_ok_and(|waiting| waiting == 0)
}

/// Returns the content of a pipe without removing it. `end` is the reading end.
///
/// # Errors
/// Errors of the system.
pub fn peek_pipe(end: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
    use std::io::Read;
    let held = waiting_bytes(end)?;
    if held == 0 {
        return Ok(Vec::new());
    }
    let (mut reader, writer) = pipe()?;
    // SAFETY: plain system calls on open descriptors. If the copy cannot be made large enough, it holds
    // less, which is detected below.
    let copied = unsafe {
        libc::fcntl(writer.as_raw_fd(), libc::F_SETPIPE_SZ, held.clamp(4096, i32::MAX as usize) as i32);
        let flags = libc::SPLICE_F_NONBLOCK;
        libc::tee(end.as_raw_fd(), writer.as_raw_fd(), held, flags)
    };
    if copied != held as isize {
        return Err(io::Error::other(format!("a pipe with {held} bytes cannot be copied")));
    }
    drop(writer);
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn check(call: &'static str, result: i32) -> io::Result<i32> {
    if result < 0 { Err(refusal::last(call)) } else { Ok(result) }
}

/// Creates `count` counters to sleep on (eventfd), closed on exec.
///
/// # Errors
/// Too many descriptors.
pub fn bells(count: u32) -> io::Result<Vec<OwnedFd>> {
    let make = |_| {
        // SAFETY: a plain system call.
        let fd = check("eventfd", unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        // SAFETY: fd was just created and has no other owner.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    };
    (0..count).map(make).collect()
}

/// Creates a counter (eventfd) that starts at `count`. Of `flags`, only O_NONBLOCK is used.
///
/// # Errors
/// Too many descriptors.
pub fn counter(count: u64, is_semaphore: bool, flags: i32) -> io::Result<OwnedFd> {
    let kind = if is_semaphore { libc::EFD_SEMAPHORE } else { 0 };
    let flags = libc::EFD_CLOEXEC | kind | flags & libc::O_NONBLOCK;
    // SAFETY: a plain system call.
    let fd = check("eventfd", unsafe { libc::eventfd(0, flags) })?;
    // SAFETY: fd was just created and has no other owner.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    if count > 0 {
        let bytes = count.to_ne_bytes();
        // SAFETY: eight readable bytes. The counter is empty and takes them.
        unsafe { libc::write(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) };
    }
    Ok(fd)
}

/// Creates a timerfd. `value` is the time until its next expiration and `interval` the time between
/// expirations, in seconds and nanoseconds. `ticks` expirations have not been read yet. Of `flags`, only
/// O_NONBLOCK is used.
///
/// # Errors
/// Errors of the system: no such clock.
pub fn timer(
    clock: i32,
    ticks: u64,
    value: (i64, i64),
    interval: (i64, i64),
    flags: i32,
) -> io::Result<OwnedFd> {
    /// TFD_IOC_SET_TICKS, in kernels that are built with checkpoint support.
    const SET_TICKS: libc::c_ulong = 0x4008_5400;
    let flags = libc::TFD_CLOEXEC | flags & libc::O_NONBLOCK;
    // SAFETY: a plain system call.
    let fd = check("timerfd_create", unsafe { libc::timerfd_create(clock, flags) })?;
    // SAFETY: fd was just created and has no other owner.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let time = |(seconds, nanoseconds)| libc::timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    let arm = |value| {
        let times = libc::itimerspec { it_interval: time(interval), it_value: time(value) };
        // SAFETY: the times are readable.
        check("timerfd_settime", unsafe {
            libc::timerfd_settime(fd.as_raw_fd(), 0, &times, std::ptr::null_mut())
        })
    };
    // For a timer that has expired, the kernel starts the next interval when it is read.
    arm(if ticks > 0 && value == (0, 0) { interval } else { value })?;
    if ticks > 0 {
        // SAFETY: the count is readable.
        let is_set = unsafe { libc::ioctl(fd.as_raw_fd(), SET_TICKS, &ticks) == 0 };
        if !is_set {
            // The timer expires at once: it is readable as before, though the count may differ.
            arm((0, 1))?;
        }
    }
    Ok(fd)
}

/// Creates a signalfd for the signals of a kernel bit mask. Of `flags`, only O_NONBLOCK is used.
///
/// # Errors
/// Errors of the system.
pub fn signals(mask: u64, flags: i32) -> io::Result<OwnedFd> {
    let flags = libc::SFD_CLOEXEC | flags & libc::O_NONBLOCK;
    // SAFETY: the kernel reads the eight bytes of its own signal set.
    let fd = unsafe { libc::syscall(libc::SYS_signalfd4, -1, &mask, size_of_val(&mask), flags) };
    let fd = check("signalfd4", fd as i32)?;
    // SAFETY: fd was just created and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Creates an empty epoll instance as a plain descriptor.
///
/// # Errors
/// Too many descriptors.
pub fn poll_instance() -> io::Result<OwnedFd> {
    // SAFETY: a plain system call.
    let fd = check("epoll_create1", unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
    // SAFETY: fd was just created and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Returns true if a descriptor is no file, pipe or socket, as is the case for a bell. A program may have
/// put a file of its own in its place.
fn is_bell(bell: BorrowedFd<'_>) -> bool {
    // SAFETY: an all-zero stat is a valid value of that plain C structure, and writable.
    let mode = unsafe {
        let mut status: libc::stat = std::mem::zeroed();
        (libc::fstat(bell.as_raw_fd(), &mut status) == 0).then_some(status.st_mode)
    };
    mode.is_some_and(|mode| mode & libc::S_IFMT == 0)
}

/// Makes a bell readable. Returns false, without effect, if the descriptor is something else.
pub fn strike(bell: BorrowedFd<'_>) -> bool {
    if !is_bell(bell) {
        return false;
    }
    let one = 1u64.to_ne_bytes();
    // SAFETY: eight readable bytes. A full counter rejects the write, and is readable already.
    unsafe { libc::write(bell.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    true
}

/// Makes a bell not readable again. Returns false, without effect, if the descriptor is something else.
pub fn damp(bell: BorrowedFd<'_>) -> bool {
    if !is_bell(bell) {
        return false;
    }
    let mut count = [0u8; 8];
    // SAFETY: eight writable bytes. Reading a counter of 0 has no effect.
    unsafe { libc::read(bell.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    true
}

/// Waits until one of the descriptors is readable or the timeout expires. A number that is no open
/// descriptor ends the wait.
pub fn wait_readable(descriptors: &[RawFd], timeout: Duration) {
    wait_for(descriptors, libc::POLLIN, timeout);
}

/// Waits until one of the descriptors is writable or broken, or the timeout expires. A connection that is
/// being established becomes writable when it succeeds or fails.
pub fn wait_writable(descriptors: &[RawFd], timeout: Duration) {
    wait_for(descriptors, libc::POLLOUT, timeout);
}

/// Waits until one of `readable` can be read, one of `writable` can be written, or the timeout expires.
/// Returns the descriptors that are ready or broken.
pub fn wait_ready(readable: &[RawFd], writable: &[RawFd], timeout: Duration) -> Vec<RawFd> {
    let watch = |events| move |&fd: &RawFd| libc::pollfd { fd, events, revents: 0 };
    let readable = readable.iter().map(watch(libc::POLLIN));
    wait_until(readable.chain(writable.iter().map(watch(libc::POLLOUT))).collect(), timeout)
}

/// Returns true if one of the descriptors can be read without waiting. One system call.
pub fn is_any_readable(descriptors: &[RawFd]) -> bool {
    !descriptors.is_empty() && !wait_ready(descriptors, &[], Duration::ZERO).is_empty()
}

fn wait_for(descriptors: &[RawFd], events: libc::c_short, timeout: Duration) {
    wait_until(descriptors.iter().map(|&fd| libc::pollfd { fd, events, revents: 0 }).collect(), timeout);
}

fn wait_until(mut watched: Vec<libc::pollfd>, timeout: Duration) -> Vec<RawFd> {
    let limit = libc::timespec {
        tv_sec: timeout.as_secs().min(i32::MAX as u64) as libc::time_t,
        tv_nsec: timeout.subsec_nanos() as libc::c_long,
    };
    // SAFETY: the array has as many entries as stated; the kernel writes only into it.
    let count =
        unsafe { libc::ppoll(watched.as_mut_ptr(), watched.len() as libc::nfds_t, &limit, std::ptr::null()) };
    // After an interruption by a signal, the array says nothing.
    let ready = watched.iter().filter(|entry| count > 0 && entry.revents != 0);
    ready.map(|entry| entry.fd).collect()
}

/// Returns true if a read of the descriptor would not wait.
pub fn is_readable(fd: BorrowedFd<'_>) -> bool {
    is_ready(fd, libc::POLLIN)
}

/// Returns true if a write would find room or an error now.
pub fn is_writable(fd: BorrowedFd<'_>) -> bool {
    is_ready(fd, libc::POLLOUT)
}

fn is_ready(fd: BorrowedFd<'_>, events: libc::c_short) -> bool {
    let mut watched = libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 };
    // SAFETY: one entry, as stated; the kernel writes only into it.
    unsafe { libc::poll(&mut watched, 1, 0) == 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn a_pipe_is_ready_when_it_has_bytes() {
        let (mut reader, mut writer) = io::pipe().unwrap();
        let poller = Poller::new().unwrap();
        poller.add(reader.as_fd(), 7, Interest::Read).unwrap();
        let mut events = Vec::new();
        poller.wait(Some(Duration::ZERO), &mut events).unwrap();
        assert_eq!(events, []);
        writer.write_all(b"x").unwrap();
        poller.wait(None, &mut events).unwrap();
        assert_eq!(events, [Event { token: 7 }]);
        set_nonblocking(reader.as_fd()).unwrap();
        let mut bytes = [0; 4];
        assert_eq!(reader.read(&mut bytes).unwrap(), 1);
        assert_eq!(reader.read(&mut bytes).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        poller.remove(reader.as_fd()).unwrap();
    }

    #[test]
    fn a_regular_file_is_refused() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let error = Poller::new().unwrap().add(file.as_fd(), 0, Interest::Read).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert!(duplicate_above_stdio(file.as_fd()).unwrap().as_raw_fd() > 2);
    }

    #[test]
    fn a_struck_bell_is_readable_until_it_is_damped() {
        let made = bells(2).unwrap();
        let long = Duration::from_secs(100);
        strike(made[1].as_fd());
        wait_readable(&[made[0].as_raw_fd(), made[1].as_raw_fd()], long);
        damp(made[1].as_fd());
        damp(made[1].as_fd());
        wait_readable(&[made[0].as_raw_fd(), made[1].as_raw_fd()], Duration::from_millis(1));
        strike(made[0].as_fd());
        wait_readable(&[made[0].as_raw_fd()], long);
    }
}
