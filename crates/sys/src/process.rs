//! Starting, reaping and ending of processes, and queries of a process about itself.
//!
//! [`spawn`] does not copy the launcher's address space. The child borrows it (CLONE_VM), and the launcher
//! sleeps until the child has executed its program (CLONE_VFORK). The function posix_spawn does the same,
//! but lacks some steps: death with the parent, binding, inherited descriptors.

use std::ffi::{CStr, CString};
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::ptr::null_mut;

use crate::cpu::{self, ProcessorSet};
use crate::own_thread;
use crate::refusal;
use crate::signal::{self, Mask};

/// Size of the stack that a child has between clone and exec, in bytes.
const CHILD_STACK_BYTES: usize = 64 << 10;

/// Parameters of a child. Every string and descriptor is prepared, so that the child allocates nothing.
#[derive(Debug)]
pub struct Spawn<'a> {
    /// File of the program to execute.
    pub program: CString,
    /// Arguments, the name of the program first.
    pub arguments: Vec<CString>,
    /// Environment in the form `NAME=VALUE`.
    pub environment: Vec<CString>,
    /// Working directory, if it is another one.
    pub directory: Option<CString>,
    /// Standard input, output and error.
    pub stdio: [BorrowedFd<'a>; 3],
    /// Descriptors that keep their numbers in the child.
    pub inherit: Vec<BorrowedFd<'a>>,
    /// Processors the child may run on, if it is bound.
    pub processors: Option<ProcessorSet>,
    /// Signal mask of the child.
    pub mask: Mask,
    /// Limit on open descriptors of the child, if it is not that of this process.
    pub descriptors: Option<DescriptorLimit>,
    /// True if the child is traced by this thread and stops before the first instruction of its program;
    /// see [`crate::tracee::Tracee::executed`].
    pub is_traced: bool,
}

/// Limit on the open descriptors of a process.
#[derive(Clone, Copy, Debug)]
pub struct DescriptorLimit(libc::rlimit);

impl DescriptorLimit {
    /// Raises the limit of this process to `wanted` descriptors, as far as it is permitted. Returns the
    /// previous limit, for its children, if the limit was changed. Programs that use select(2) do not
    /// expect more descriptors than usual.
    pub fn raise(wanted: u64) -> Option<DescriptorLimit> {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: limit is writable.
        let known = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } == 0;
        if !known || limit.rlim_cur >= wanted || limit.rlim_cur == limit.rlim_max {
            return None;
        }
        let raised = libc::rlimit { rlim_cur: wanted.min(limit.rlim_max), rlim_max: limit.rlim_max };
        // SAFETY: raised is initialised.
        let done = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raised) } == 0;
        done.then_some(DescriptorLimit(limit))
    }
}

/// Step of starting a process, up to exec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Creates the process (clone).
    Create,
    /// Creates its process group.
    Group,
    /// Ties its life to that of its parent.
    Lifeline,
    /// Binds it to processors.
    Bind,
    /// Enters its working directory.
    Directory,
    /// Connects its descriptors.
    Descriptors,
    /// Executes its program.
    Execute,
}

impl Step {
    /// Adds the name of the call to the error of a step, where the system itself refuses, not a file.
    fn named(self, error: io::Error) -> io::Error {
        match self {
            Step::Create => refusal::with_call("clone", error),
            Step::Group => refusal::with_call("setpgid", error),
            Step::Lifeline => refusal::with_call("prctl", error),
            Step::Bind => refusal::with_call("sched_setaffinity", error),
            Step::Descriptors => refusal::with_call("dup2", error),
            Step::Directory | Step::Execute => error,
        }
    }
}

/// Failure to start a process.
#[derive(Debug)]
pub struct SpawnError {
    /// The step that failed.
    pub step: Step,
    /// Error that the system reported.
    pub error: io::Error,
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.step, self.error)
    }
}

impl std::error::Error for SpawnError {}

/// Pointers that the child uses; all of them stay valid while the parent sleeps in clone.
struct Start {
    program: *const libc::c_char,
    arguments: *const *const libc::c_char,
    environment: *const *const libc::c_char,
    directory: *const libc::c_char,
    stdio: [RawFd; 3],
    inherit: *const [RawFd],
    processors: *const ProcessorSet,
    mask: Mask,
    descriptors: *const DescriptorLimit,
    parent: libc::pid_t,
    is_traced: bool,
    failure: Option<(Step, i32)>,
}

/// Starts a process in a process group of its own. The kernel kills it when the calling thread ends.
///
/// All signals that have handlers must be blocked: the child shares this memory until it executes its
/// program.
///
/// # Errors
/// The failed step and its error; then there is no process.
pub fn spawn(spawn: &Spawn<'_>) -> Result<i32, SpawnError> {
    let arguments = pointers(&spawn.arguments);
    let environment = pointers(&spawn.environment);
    let inherit: Vec<RawFd> = spawn.inherit.iter().map(AsRawFd::as_raw_fd).collect();
    let mut start = Start {
        program: spawn.program.as_ptr(),
        arguments: arguments.as_ptr(),
        environment: environment.as_ptr(),
        directory: spawn.directory.as_deref().map_or(std::ptr::null(), CStr::as_ptr),
        stdio: spawn.stdio.map(|fd| fd.as_raw_fd()),
        inherit: std::ptr::from_ref(inherit.as_slice()),
        processors: spawn.processors.as_ref().map_or(std::ptr::null(), std::ptr::from_ref),
        mask: spawn.mask,
        descriptors: spawn.descriptors.as_ref().map_or(std::ptr::null(), std::ptr::from_ref),
        parent: std::process::id().cast_signed(),
        is_traced: spawn.is_traced,
        failure: None,
    };
    let mut stack = vec![0u128; CHILD_STACK_BYTES / 16];
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: the child runs `child` on a stack of its own, which lives until clone returns, and clone
    // returns only when the child has executed or ended (CLONE_VFORK); `start` outlives it likewise.
    let pid = unsafe {
        let top = stack.as_mut_ptr().add(stack.len()).cast();
        libc::clone(child, top, flags, (&raw mut start).cast())
    };
    if pid < 0 {
        return Err(SpawnError { step: Step::Create, error: Step::Create.named(io::Error::last_os_error()) });
    }
    // SAFETY: start is alive; the child, which wrote through a pointer to it, has ended or executed.
    match unsafe { (&raw const start.failure).read_volatile() } {
        None => Ok(pid),
        Some((step, errno)) => {
            // SAFETY: pid is our child, which has called _exit; nothing else reaps it.
            unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
            Err(SpawnError { step, error: step.named(io::Error::from_raw_os_error(errno)) })
        }
    }
}

/// Starts `program` with an option and the number of a descriptor that it inherits, in this process's
/// environment and with `stdio` as its standard streams. The kernel kills it when the calling thread ends;
/// a thread of this process reaps it.
///
/// # Errors
/// Errors of the system.
pub fn start_helper(
    program: &std::path::Path,
    option: &str,
    lent: BorrowedFd<'_>,
    stdio: [BorrowedFd<'_>; 3],
) -> io::Result<()> {
    let text = |bytes: &[u8]| CString::new(bytes).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
    let program = text(program.as_os_str().as_bytes())?;
    let arguments =
        vec![program.clone(), text(option.as_bytes())?, text(lent.as_raw_fd().to_string().as_bytes())?];
    let variables =
        std::env::vars_os().map(|(name, value)| text(&[name.as_bytes(), b"=", value.as_bytes()].concat()));
    let environment = variables.collect::<io::Result<_>>()?;
    let mask = Mask::all().block();
    let inherit = vec![lent];
    let (directory, processors, descriptors) = (None, None, None);
    let started = spawn(&Spawn {
        program,
        arguments,
        environment,
        directory,
        stdio,
        inherit,
        processors,
        mask,
        descriptors,
        is_traced: false,
    });
    mask.install();
    let pid = started.map_err(|error| error.error)?;
    own_thread::spawn("tutti-helper", move || {
        let _ = reap_with(pid, 0);
    })
    .map(drop)
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect()
}

extern "C" fn child(start: *mut libc::c_void) -> libc::c_int {
    // SAFETY: spawn passes a Start that nothing else touches while the child runs.
    let start = unsafe { &mut *start.cast::<Start>() };
    // SAFETY: the pointers in start are valid; see become_program.
    let step = unsafe { become_program(start) };
    start.failure = Some((step, io::Error::last_os_error().raw_os_error().unwrap_or(0)));
    // SAFETY: _exit runs no destructor of the memory that is shared with the parent.
    unsafe { libc::_exit(127) }
}

/// Performs the steps up to exec. Returns only when a step failed, with that step; errno has the reason.
///
/// # Safety
/// Every pointer in `start` is valid. Runs in the parent's memory: only async-signal-safe calls.
unsafe fn become_program(start: &Start) -> Step {
    // SAFETY: plain system calls on numbers and on pointers that the caller vouches for.
    unsafe {
        if libc::setpgid(0, 0) < 0 {
            return Step::Group;
        }
        if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) < 0 || libc::getppid() != start.parent {
            return Step::Lifeline;
        }
        // Rust programs ignore SIGPIPE. A program with SIGCHLD ignored cannot wait for its children.
        signal::restore_default(libc::SIGPIPE);
        signal::restore_default(libc::SIGCHLD);
        if start.processors.as_ref().is_some_and(|set| cpu::set_affinity(set).is_err()) {
            return Step::Bind;
        }
        if !start.directory.is_null() && libc::chdir(start.directory) < 0 {
            return Step::Directory;
        }
        for (target, &source) in (0..).zip(&start.stdio) {
            // Rust opens the three standard descriptors at start if they are closed. So every source is
            // above 2, and no target overwrites a later source.
            if libc::dup2(source, target) < 0 {
                return Step::Descriptors;
            }
        }
        for &fd in &*start.inherit {
            if libc::fcntl(fd, libc::F_SETFD, 0) < 0 {
                return Step::Descriptors;
            }
        }
        if let Some(limit) = start.descriptors.as_ref() {
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit.0);
        }
        start.mask.install();
        if start.is_traced && libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) < 0 {
            return Step::Execute;
        }
        libc::execve(start.program, start.arguments, start.environment);
    }
    Step::Execute
}

/// End of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The process returned from main or called exit, with this status.
    Code(i32),
    /// A signal killed the process.
    Signal {
        /// Number of the signal.
        number: i32,
        /// True if the process left a core file.
        core: bool,
    },
}

/// Result of [`reap`] and `reap_one`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaped {
    /// End of this child, which is removed now.
    Ended(i32, Exit),
    /// Children exist, but none has ended.
    Nothing,
    /// The process has no children.
    NoChildren,
}

/// Reaps one child that has ended, whichever, without waiting.
pub fn reap() -> Reaped {
    reap_with(-1, libc::WNOHANG)
}

/// Waits until any child ends, and reaps it.
pub fn reap_one() -> Reaped {
    reap_with(-1, 0)
}

fn reap_with(which: i32, flags: i32) -> Reaped {
    let mut status = 0;
    loop {
        // SAFETY: status is writable.
        let pid = unsafe { libc::waitpid(which, &mut status, flags) };
        if pid == 0 {
            return Reaped::Nothing;
        }
        // A thread that this process traces was stopped, which is no end.
        if pid > 0 && !libc::WIFSTOPPED(status) {
            return Reaped::Ended(pid, decode(status));
        }
        if pid > 0 {
            continue;
        }
        if io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
            return Reaped::NoChildren;
        }
    }
}

fn decode(status: i32) -> Exit {
    if libc::WIFSIGNALED(status) {
        Exit::Signal { number: libc::WTERMSIG(status), core: libc::WCOREDUMP(status) }
    } else {
        Exit::Code(libc::WEXITSTATUS(status))
    }
}

/// Runs `run` in a copy of this process and ends the copy with the returned status.
///
/// # Errors
/// The error of fork; Unsupported if this process has several threads, because a copy would have only one.
pub fn fork(run: impl FnOnce() -> u8) -> io::Result<i32> {
    struct NoReturn;
    impl Drop for NoReturn {
        fn drop(&mut self) {
            std::process::abort();
        }
    }
    let threads = std::fs::read_dir("/proc/self/task").map_err(|error| {
        io::Error::new(error.kind(), format!("/proc is needed and cannot be read: {error}"))
    })?;
    if threads.count() != 1 {
        return Err(io::ErrorKind::Unsupported.into());
    }
    // SAFETY: the process has one thread, so the copy has all of its state, and no lock is held.
    let pid = unsafe { libc::fork() };
    if pid < 0 {
        return Err(refusal::last("fork"));
    }
    if pid == 0 {
        let guard = NoReturn;
        let code = run();
        std::mem::forget(guard);
        // SAFETY: ends the copy without running the exit handlers of the original.
        unsafe { libc::_exit(i32::from(code)) }
    }
    Ok(pid)
}

/// Sends a signal to a process. Returns false if there is none or it belongs to another user.
pub fn kill(pid: i32, signal: i32) -> bool {
    assert!(pid > 1, "kill of process {pid}");
    // SAFETY: a plain system call.
    unsafe { libc::kill(pid, signal) == 0 }
}

/// Sends a signal to the process of a descriptor (pidfd_open), never to one that has reused its number.
/// Returns false if it has ended.
pub fn kill_by(process: BorrowedFd<'_>, signal: i32) -> bool {
    // SAFETY: a plain system call; no information is sent with the signal.
    let sent = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            process.as_raw_fd(),
            signal,
            null_mut::<libc::siginfo_t>(),
            0,
        )
    };
    sent == 0
}

/// Returns true if there is a process with this number, of any user.
pub fn is_alive(pid: i32) -> bool {
    assert!(pid > 1, "a look at process {pid}");
    // SAFETY: a plain system call that sends nothing.
    unsafe { libc::kill(pid, 0) == 0 || *libc::__errno_location() != libc::ESRCH }
}

/// Sends a signal to every process of the group that `leader` created.
pub fn kill_group(leader: i32, signal: i32) -> bool {
    assert!(leader > 1, "kill of group {leader}");
    // SAFETY: a plain system call.
    unsafe { libc::kill(-leader, signal) == 0 }
}

/// Makes orphaned descendants of this process its children, so that none escapes.
///
/// # Errors
/// Errors of prctl.
pub fn adopt_orphans() -> io::Result<()> {
    // SAFETY: a plain system call.
    match unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(refusal::last("prctl")),
    }
}

/// Returns the number of the process that started this one.
pub fn parent() -> u32 {
    // SAFETY: a plain system call.
    unsafe { libc::getppid() }.cast_unsigned()
}

/// Moves this process into a process group of its own.
pub fn lead_group() {
    // SAFETY: a plain system call. It fails only for the leader of a session, which has its own group.
    unsafe { libc::setpgid(0, 0) };
}

/// Moves this process into a Unix session of its own, without a terminal. It must not lead a process group.
/// Where the kernel shares processors by session (CONFIG_SCHED_AUTOGROUP), all its processes together get
/// the share of another session. The nice value, which applied within the old session, becomes that of the
/// new session.
pub fn lead_session() {
    // SAFETY: plain system calls. The first fails only for the leader of a group.
    let (is_leader, nice) = unsafe { (libc::setsid() > 0, libc::getpriority(libc::PRIO_PROCESS, 0)) };
    debug_assert!(is_leader, "the leader of a process group cannot make a session");
    if nice != 0 {
        // Kernels that do not share by session have no such file.
        let _ = std::fs::write("/proc/self/autogroup", nice.to_string());
    }
}

/// Sets the short name of this thread, which ps and killall show.
pub fn set_name(name: &CStr) {
    // SAFETY: name is a terminated string; the kernel copies at most 16 bytes.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// Returns the children of this process, adopted ones included.
pub fn children() -> Vec<i32> {
    let me = std::process::id();
    let list = std::fs::read_to_string(format!("/proc/self/task/{me}/children"));
    let text = list.unwrap_or_else(|_| scan_for_children(me));
    text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// Finds the children by reading /proc, for kernels without the list of children.
fn scan_for_children(parent: u32) -> String {
    let mut found = String::new();
    let Ok(entries) = std::fs::read_dir("/proc") else { return found };
    for name in entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
        let Ok(text) = std::fs::read_to_string(format!("/proc/{name}/stat")) else { continue };
        let after_name = text.rsplit(") ").next().unwrap_or("");
        if after_name.split(' ').nth(1).is_some_and(|field| field.parse() == Ok(parent)) {
            found.push_str(&name);
            found.push(' ');
        }
    }
    found
}

/// Returns the name of this host.
pub fn host_name() -> String {
    let mut bytes = [0u8; 256];
    // SAFETY: the last byte stays zero, so the result is terminated.
    unsafe { libc::gethostname(bytes.as_mut_ptr().cast(), bytes.len() - 1) };
    CStr::from_bytes_until_nul(&bytes)
        .map_or_else(|_| String::new(), |name| name.to_string_lossy().into_owned())
}

/// Returns names and addresses of the network interfaces of this host that are up.
pub fn interfaces() -> Vec<(String, IpAddr)> {
    let mut found = Vec::new();
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: first is writable; on success it is a list that must be freed.
    if unsafe { libc::getifaddrs(&mut first) } != 0 {
        return found;
    }
    let mut next = first;
    // SAFETY: every pointer of the list is valid until freeifaddrs, or null.
    while let Some(interface) = unsafe { next.as_ref() } {
        next = interface.ifa_next;
        let is_up = interface.ifa_flags & libc::IFF_UP as libc::c_uint != 0;
        // SAFETY: as above; the family determines the structure of an address.
        let address = unsafe {
            match interface.ifa_addr.as_ref().map(|address| i32::from(address.sa_family)) {
                Some(libc::AF_INET) => {
                    let address = interface.ifa_addr.cast::<libc::sockaddr_in>().read_unaligned();
                    Some(IpAddr::from(address.sin_addr.s_addr.to_ne_bytes()))
                }
                Some(libc::AF_INET6) => {
                    let address = interface.ifa_addr.cast::<libc::sockaddr_in6>().read_unaligned();
                    Some(IpAddr::from(address.sin6_addr.s6_addr))
                }
                _ => None,
            }
        };
        if let (true, Some(address)) = (is_up, address) {
            // SAFETY: the name is a terminated string of the list.
            let name = unsafe { CStr::from_ptr(interface.ifa_name) };
            found.push((name.to_string_lossy().into_owned(), address));
        }
    }
    // SAFETY: the list came from getifaddrs and is used no more.
    unsafe { libc::freeifaddrs(first) };
    found
}

/// Returns a random number that cannot be guessed.
///
/// # Errors
/// Errors of getrandom.
pub fn random() -> io::Result<u64> {
    let mut bytes = [0u8; 8];
    // SAFETY: the kernel writes at most 8 bytes.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if got == 8 { Ok(u64::from_ne_bytes(bytes)) } else { Err(refusal::last("getrandom")) }
}

/// Returns true if `fd` is a terminal in whose foreground this process is not: reading would stop it.
pub fn is_background(fd: BorrowedFd<'_>) -> bool {
    // SAFETY: plain system calls on an open descriptor.
    let (foreground, own) = unsafe { (libc::tcgetpgrp(fd.as_raw_fd()), libc::getpgrp()) };
    foreground >= 0 && foreground != own
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    fn start(program: &str, arguments: &[&str], processors: Option<ProcessorSet>) -> Result<i32, SpawnError> {
        let null = std::fs::File::open("/dev/null").unwrap();
        let c = |text: &str| CString::new(text).unwrap();
        spawn(&Spawn {
            program: c(program),
            arguments: [program].iter().chain(arguments).map(|text| c(text)).collect(),
            environment: vec![c("GREETING=hello")],
            directory: Some(c("/")),
            stdio: [null.as_fd(), null.as_fd(), null.as_fd()],
            inherit: Vec::new(),
            processors,
            mask: Mask::empty(),
            descriptors: None,
            is_traced: false,
        })
    }

    fn check_exit(script: &str, expected: Exit) {
        let first = cpu::affinity().unwrap().iter().next().unwrap();
        let pid = start("/bin/sh", &["-c", script], Some([first].into_iter().collect())).unwrap();
        assert_eq!(reap_with(pid, 0), Reaped::Ended(pid, expected), "{script}");
    }

    #[test]
    fn a_child_has_what_it_was_given() {
        check_exit("test $GREETING = hello && test $PWD = / && exit 7", Exit::Code(7));
        check_exit("kill -9 $$", Exit::Signal { number: 9, core: false });
        check_exit("test $(nproc) = 1", Exit::Code(0));
        check_exit("test $(cut -d' ' -f5 /proc/$$/stat) = $$", Exit::Code(0));
    }

    #[test]
    fn a_failed_start_says_where_and_leaves_nothing() {
        let error = start("/no/such/program", &[], None).unwrap_err();
        assert_eq!((error.step, error.error.kind()), (Step::Execute, io::ErrorKind::NotFound));
        let error = start("/bin/sh", &[], Some(ProcessorSet::new())).unwrap_err();
        assert_eq!(error.step, Step::Bind);
    }

    #[test]
    fn children_are_found_without_the_list() {
        let pid = start("/bin/sleep", &["100"], None).unwrap();
        assert!(scan_for_children(std::process::id()).contains(&pid.to_string()));
        assert!(kill_group(pid, libc::SIGKILL));
        assert_eq!(reap_with(pid, 0), Reaped::Ended(pid, Exit::Signal { number: 9, core: false }));
    }

    #[test]
    fn what_a_process_knows_about_itself() {
        assert!(!host_name().is_empty());
        assert_ne!(random().unwrap(), random().unwrap());
    }
}
