//! Report of a crash: the signal, the address, and the place in the program.
//!
//! A signal handler may neither allocate nor lock. So the handler only makes a child, which has a copy of
//! the memory. In the child, the standard library looks up the names and lines of functions, and the report
//! is written. If the crash happened in the middle of an allocation, the child hangs; it is killed after
//! [`PATIENCE_MS`]. Then the handlers are those of the system again, so that the process dies of its signal
//! and leaves its core file.
//!
//! # Safety
//! Between the signal and the child the handler calls only what signal-safety(7) lists.

use std::ffi::{c_int, c_void};
use std::fmt::Write;
use std::mem::zeroed;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::arithmetic_exception::Exception;
use crate::backtrace::{self, Frame};
use crate::{host_memory, signal, speaker};

/// Maximum time for the child to write the report, in milliseconds.
const PATIENCE_MS: i64 = 3000;
/// Size of the stack of the handler and of the child in bytes. Only pages that are touched cost memory.
const STACK_BYTES: usize = 512 << 10;
const MOST_FRAMES: usize = 64;
const CRASHES: [c_int; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGABRT, libc::SIGILL, libc::SIGFPE];

static IS_TOLD: AtomicBool = AtomicBool::new(false);

/// Installs signal handlers that report a crash of this process on standard error. Signals that the program handles or ignores
/// are left alone.
pub fn tell() {
    lend_stack();
    for signal in CRASHES {
        // SAFETY: zero bytes are a valid value of the plain C structure, the handler has the type that
        // SA_SIGINFO asks for.
        unsafe {
            let mut action: libc::sigaction = zeroed();
            if libc::sigaction(signal, null(), &mut action) != 0 || action.sa_sigaction != libc::SIG_DFL {
                continue;
            }
            let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = crashed;
            action.sa_sigaction = handler as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaction(signal, &action, null_mut());
        }
    }
}

/// Gives this thread a stack for the handler, so that an overflow of the thread's own stack is reported
/// too. The memory is never freed.
fn lend_stack() {
    // SAFETY: a new private mapping, which is given to the kernel for this thread if it has none.
    unsafe {
        let mut present: libc::stack_t = zeroed();
        if libc::sigaltstack(null(), &mut present) != 0 || present.ss_flags & libc::SS_DISABLE == 0 {
            return;
        }
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let memory = libc::mmap(null_mut(), STACK_BYTES, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        if memory != libc::MAP_FAILED {
            let stack = libc::stack_t { ss_sp: memory, ss_flags: 0, ss_size: STACK_BYTES };
            libc::sigaltstack(&stack, null_mut());
        }
    }
}

extern "C" fn crashed(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid structure. Its address is meaningful for signals that the kernel
    // itself sent (a positive code).
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    let is_first = !IS_TOLD.swap(true, Ordering::Relaxed);
    // SAFETY: system calls only, except in the child, which is a process of its own.
    unsafe {
        if is_first {
            // The raw system call avoids the handlers that fork(3) runs: they would lock.
            let child = libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) as libc::pid_t;
            if child == 0 {
                write_all(&story(signal, code, (code > 0).then_some(address), call_chain(context)));
                libc::_exit(0);
            }
            await_child(child);
        } else {
            // Another thread writes the report.
            libc::poll(null_mut(), 0, PATIENCE_MS as c_int);
        }
        let mut action: libc::sigaction = zeroed();
        action.sa_sigaction = libc::SIG_DFL;
        libc::sigaction(signal, &action, null_mut());
        if code <= 0 {
            // The signal was sent by a process, so it does not occur again when the handler returns.
            libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::syscall(libc::SYS_gettid), signal);
        }
    }
}

/// Waits for the child and kills it after `PATIENCE_MS`.
///
/// # Safety
/// `child` is a child of this process, or negative.
unsafe fn await_child(child: libc::pid_t) {
    const PAUSE_MS: i64 = 5;
    for waited_ms in (0..=PATIENCE_MS).step_by(PAUSE_MS as usize) {
        // SAFETY: the caller's promise; system calls alone.
        unsafe {
            if child < 0 || libc::waitpid(child, null_mut(), libc::WNOHANG) != 0 {
                return;
            }
            if waited_ms == PATIENCE_MS {
                libc::kill(child, libc::SIGKILL);
                libc::waitpid(child, null_mut(), 0);
            }
            libc::poll(null_mut(), 0, PAUSE_MS as c_int);
        }
    }
}

/// Returns the call chain that the signal interrupted. If it cannot be read from the context, it is derived
/// from the handler's own chain.
///
/// # Safety
/// As [`backtrace::interrupted`].
unsafe fn call_chain(context: *mut c_void) -> Vec<Frame> {
    // SAFETY: the caller's promise.
    unsafe { backtrace::interrupted(context) }.unwrap_or_else(|| {
        let mut frames = backtrace::capture();
        // Skips the handler and the frame by which the kernel called it.
        let own = frames.iter().position(|frame| frame.name().contains("crash::crashed"));
        frames.drain(..own.map_or(0, |place| place + 2).min(frames.len()));
        frames
    })
}

/// Returns the text of the report. Every line names the process, because `mpirun` shows equal reports of
/// several ranks only once.
fn story(signal: c_int, code: c_int, address: Option<usize>, frames: Vec<Frame>) -> String {
    // This is a child of the process that crashed.
    let pid = std::os::unix::process::parent_id();
    let speaker = speaker::name_of(pid).unwrap_or_else(|| format!("process {pid}"));
    let mut text = format!("tutti: {speaker}: {}", signal::describe(signal));
    // Writing to a string does not fail. SIGSEGV and SIGBUS report an address of data, the other signals
    // one of code.
    let data = address.filter(|_| signal == libc::SIGSEGV || signal == libc::SIGBUS);
    if let Some(data) = data {
        let _ = write!(text, " at address {data:#x}");
    }
    let exception = Exception::from_code(code).filter(|_| signal == libc::SIGFPE);
    if let Some(exception) = exception {
        let _ = write!(text, ": {}", exception.name());
    }
    text.push_str("; it was here (TUTTI_BACKTRACE=0: nothing is said):\n");
    let complaint = data.and_then(|address| buffer_complaint(&frames, address));
    if let Some(complaint) =
        complaint.or_else(|| exception?.complaint(called(frames.iter().map(Frame::name))))
    {
        let _ = writeln!(text, "tutti: {speaker}: {complaint}");
    }
    for (number, frame) in frames.iter().take(MOST_FRAMES).enumerate() {
        let _ = writeln!(text, "tutti: {speaker}: {number:3}  {frame}");
    }
    text
}

/// Returns the problem with a buffer passed to an MPI function, if the crash was inside such a function.
fn buffer_complaint(frames: &[Frame], address: usize) -> Option<String> {
    let function = called(frames.iter().map(Frame::name))?;
    // The mappings of the crashed process are read: mappings of devices are not in the child.
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", std::os::unix::process::parent_id())).ok()?;
    let complaint = host_memory::complaint_in(&maps, address as u64, true)?;
    Some(format!("{function} was given memory that it cannot use: {complaint}"))
}

/// Returns the outermost MPI function in the chain: the one that the program called.
fn called<'n>(names: impl DoubleEndedIterator<Item = &'n str>) -> Option<&'n str> {
    let is_of_mpi = |name: &&str| name.starts_with("MPI_") || name.starts_with("PMPI_");
    names.rev().find(is_of_mpi).map(|name| name.trim_start_matches('P'))
}

fn write_all(text: &str) {
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        // SAFETY: bytes of a slice.
        let written = unsafe { libc::write(libc::STDERR_FILENO, rest.as_ptr().cast(), rest.len()) };
        if written <= 0 {
            return;
        }
        rest = &rest[written as usize..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_function_that_the_program_called_is_found() {
        let names = ["copy::run", "PMPI_Send", "halo", "main"];
        assert_eq!(called(names.into_iter()), Some("MPI_Send"));
        assert_eq!(called(names[2..].iter().copied()), None);
    }
}
