//! Tracing of other processes' threads (ptrace): they are stopped, inspected and made to run system calls.
//! No privilege is needed for descendants of this process with the same user, such as the ranks of a
//! daemon.
//!
//! A stopped thread can be made to run single system calls ([`Tracee::call`]). Its registers are set, and
//! the instruction `syscall` at a given address is executed in a single step. Afterwards the caller
//! restores the thread's registers. In the kernel, the tracer is a thread, so only the thread that has
//! attached can do this. All numbers are those of Linux on x86-64; on other processors attaching fails.

use std::io;
use std::ptr::null_mut;
use std::time::Duration;

use crate::refusal;

/// Number of general registers: words of `struct user_regs_struct`.
pub const REGISTER_WORDS: usize = 27;
const EXTENDED_BYTES: usize = 16 << 10;
const NT_PRSTATUS: usize = 1;
const NT_X86_XSTATE: usize = 0x202;
const GET_RSEQ: u32 = 0x420f;
const EVENT_STOP: i32 = 128;
/// Results of a system call that restarts after its signal has been handled: ERESTARTSYS to ERESTARTNOHAND,
/// ERESTART_RESTARTBLOCK.
const RESTARTED: [i64; 4] = [-512, -513, -514, -516];
/// Pause between two checks if a killed process has ended.
const LOOK: Duration = Duration::from_micros(50);
/// Maximum number of pending stops that a single step skips.
const MOST_STOPS: u32 = 16;
/// Code of the instruction `syscall`.
pub const SYSCALL: [u8; 2] = [0x0f, 0x05];

/// General registers of a stopped thread, in the order of `struct user_regs_struct`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers(pub [u64; REGISTER_WORDS]);

/// Indices of registers in [`Registers`].
mod index {
    pub const R10: usize = 7;
    pub const R9: usize = 8;
    pub const R8: usize = 9;
    pub const RAX: usize = 10;
    pub const RDX: usize = 12;
    pub const RSI: usize = 13;
    pub const RDI: usize = 14;
    pub const ORIG_RAX: usize = 15;
    pub const RIP: usize = 16;
    pub const RSP: usize = 19;
}

impl Registers {
    /// Returns the registers for a new thread that continues where the old one stopped: an interrupted
    /// system call is restarted.
    pub fn resumed_elsewhere(mut self) -> Registers {
        let registers = &mut self.0;
        if registers[index::ORIG_RAX].cast_signed() >= 0
            && RESTARTED.contains(&registers[index::RAX].cast_signed())
        {
            registers[index::RAX] = registers[index::ORIG_RAX];
            registers[index::RIP] -= SYSCALL.len() as u64;
        }
        registers[index::ORIG_RAX] = u64::MAX;
        self
    }

    /// Returns the address of the next instruction.
    pub fn instruction(&self) -> u64 {
        self.0[index::RIP]
    }

    /// Returns the registers with another stack pointer.
    pub fn on_stack(mut self, top: u64) -> Registers {
        self.0[index::RSP] = top;
        self
    }

    fn for_call(mut self, gadget: u64, number: i64, arguments: [u64; 6]) -> Registers {
        let places = [index::RDI, index::RSI, index::RDX, index::R10, index::R8, index::R9];
        for (place, argument) in places.into_iter().zip(arguments) {
            self.0[place] = argument;
        }
        self.0[index::RAX] = number.cast_unsigned();
        self.0[index::ORIG_RAX] = u64::MAX;
        self.0[index::RIP] = gadget;
        self
    }
}

/// State of a thread as seen by its tracer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The thread is stopped.
    Stopped,
    /// The thread is stopped before it receives this signal.
    Signalled(i32),
    /// The thread is stopped while it creates a thread.
    Starting,
    /// The thread runs, or waits in the kernel.
    Running,
    /// The thread has ended.
    Ended,
}

/// Restartable sequences that a thread has registered (rseq(2)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Sequences {
    /// Address of the structure; 0 if there is none.
    pub address: u64,
    /// Length of the structure in bytes.
    pub bytes: u32,
    /// Signature that precedes abort handlers in the code.
    pub signature: u32,
    flags: u32,
    padding: u32,
}

/// Thread that this one traces. Dropping it changes nothing: see [`Tracee::detach`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tracee(i32);

impl Tracee {
    /// Attaches to a thread without stopping it. Threads that it creates are attached and stopped.
    ///
    /// # Errors
    /// The error of ptrace: ESRCH if the thread has ended, EPERM if it may not be traced.
    pub fn seize(tid: i32) -> io::Result<Tracee> {
        ptrace(libc::PTRACE_SEIZE, tid, 0, libc::PTRACE_O_TRACECLONE as usize)?;
        Ok(Tracee(tid))
    }

    /// Takes over a child that has requested tracing and has just executed its program.
    ///
    /// # Errors
    /// If the child ended instead.
    pub fn executed(pid: i32) -> io::Result<Tracee> {
        let tracee = Tracee(pid);
        match tracee.wait()? {
            Seen::Stopped | Seen::Signalled(_) => {}
            seen => {
                return Err(io::Error::other(format!("a process to restore into has not stopped: {seen:?}")));
            }
        }
        let options = libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_EXITKILL;
        ptrace(libc::PTRACE_SETOPTIONS, pid, 0, options as usize)?;
        Ok(tracee)
    }

    /// Takes over a thread that a traced process has created.
    pub fn started(tid: i32) -> Tracee {
        Tracee(tid)
    }

    /// Returns the number of the thread.
    pub fn tid(self) -> i32 {
        self.0
    }

    /// Requests the thread to stop soon.
    ///
    /// # Errors
    /// ESRCH if the thread has ended.
    pub fn interrupt(self) -> io::Result<()> {
        ptrace(libc::PTRACE_INTERRUPT, self.0, 0, 0)
    }

    /// Returns the present state of the thread.
    pub fn look(self) -> Seen {
        self.ask(libc::WNOHANG).unwrap_or(Seen::Ended)
    }

    /// Waits until the thread is stopped or has ended.
    ///
    /// # Errors
    /// If this thread does not trace it.
    pub fn wait(self) -> io::Result<Seen> {
        self.ask(0)
    }

    /// Returns the state of the thread. Only stops are consumed here, never its end: that is for
    /// [`crate::process::reap`], which would otherwise wait for the rank forever. A thread may be killed
    /// between the two system calls, so the second must not consume an end either.
    fn ask(self, flags: i32) -> io::Result<Seen> {
        loop {
            let found = self.wait_id(libc::WEXITED | libc::WSTOPPED | libc::WNOWAIT | flags)?;
            if [libc::CLD_EXITED, libc::CLD_KILLED, libc::CLD_DUMPED].contains(&found.si_code) {
                return Ok(Seen::Ended);
            }
            let stop = self.wait_id(libc::WSTOPPED | libc::WNOHANG)?;
            // SAFETY: the kernel fills in this field for each state of a child; otherwise it is 0.
            let status = unsafe { stop.si_status() };
            match (status >> 8, status & 0xff) {
                // The thread runs; or it was stopped a moment ago and has been killed.
                (0, 0) if flags & libc::WNOHANG != 0 => return Ok(Seen::Running),
                (0, 0) => {}
                (EVENT_STOP, _) | (0, libc::SIGTRAP) => return Ok(Seen::Stopped),
                (0, signal) => return Ok(Seen::Signalled(signal)),
                _ => return Ok(Seen::Starting),
            }
        }
    }

    /// Calls waitid for this thread. The result is all 0 if WNOHANG is set and there is nothing to report.
    fn wait_id(self, flags: i32) -> io::Result<libc::siginfo_t> {
        // SAFETY: an all-zero value is a valid one of that plain C structure.
        let mut found: libc::siginfo_t = unsafe { std::mem::zeroed() };
        loop {
            let which = self.0.cast_unsigned();
            // SAFETY: found is writable.
            if unsafe { libc::waitid(libc::P_PID, which, &mut found, flags | libc::__WALL) } == 0 {
                return Ok(found);
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }

    /// Continues the thread, with the signal that it was about to receive (0: none).
    ///
    /// # Errors
    /// ESRCH if the thread has ended.
    pub fn resume(self, signal: i32) -> io::Result<()> {
        ptrace(libc::PTRACE_CONT, self.0, 0, signal as usize)
    }

    /// Continues the thread without this tracer.
    ///
    /// # Errors
    /// ESRCH if the thread has ended.
    pub fn detach(self) -> io::Result<()> {
        ptrace(libc::PTRACE_DETACH, self.0, 0, 0)
    }

    /// Returns the general registers.
    ///
    /// # Errors
    /// ESRCH if the thread is not stopped.
    pub fn registers(self) -> io::Result<Registers> {
        let mut registers = Registers([0; REGISTER_WORDS]);
        let mut room =
            libc::iovec { iov_base: registers.0.as_mut_ptr().cast(), iov_len: size_of_val(&registers.0) };
        ptrace(libc::PTRACE_GETREGSET, self.0, NT_PRSTATUS, (&raw mut room).addr())?;
        Ok(registers)
    }

    /// Sets the general registers.
    ///
    /// # Errors
    /// EIO for values that no thread may have.
    pub fn set_registers(self, registers: &Registers) -> io::Result<()> {
        let mut room = libc::iovec {
            iov_base: registers.0.as_ptr().cast_mut().cast(),
            iov_len: size_of_val(&registers.0),
        };
        ptrace(libc::PTRACE_SETREGSET, self.0, NT_PRSTATUS, (&raw mut room).addr())
    }

    /// Returns the registers of floating point and vectors, in the processor's format (XSAVE).
    ///
    /// # Errors
    /// ESRCH if the thread is not stopped.
    pub fn extended(self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0u8; EXTENDED_BYTES];
        let mut room = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        ptrace(libc::PTRACE_GETREGSET, self.0, NT_X86_XSTATE, (&raw mut room).addr())?;
        bytes.truncate(room.iov_len);
        Ok(bytes)
    }

    /// Sets the registers of floating point and vectors.
    ///
    /// # Errors
    /// EINVAL if this processor has other registers.
    pub fn set_extended(self, bytes: &[u8]) -> io::Result<()> {
        let mut room = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        ptrace(libc::PTRACE_SETREGSET, self.0, NT_X86_XSTATE, (&raw mut room).addr())
    }

    /// Returns the mask of signals that the thread blocks.
    ///
    /// # Errors
    /// ESRCH if the thread is not stopped.
    pub fn mask(self) -> io::Result<u64> {
        let mut mask = 0u64;
        ptrace(libc::PTRACE_GETSIGMASK, self.0, size_of::<u64>(), (&raw mut mask).addr())?;
        Ok(mask)
    }

    /// Sets the mask of blocked signals.
    ///
    /// # Errors
    /// ESRCH if the thread is not stopped.
    pub fn set_mask(self, mask: u64) -> io::Result<()> {
        ptrace(libc::PTRACE_SETSIGMASK, self.0, size_of::<u64>(), (&raw const mask).addr())
    }

    /// Returns the thread's restartable sequences; none on kernels that do not report them.
    pub fn sequences(self) -> Sequences {
        let mut found = Sequences::default();
        // SAFETY: found has the size that is stated.
        let bytes = unsafe { libc::ptrace(GET_RSEQ, self.0, size_of::<Sequences>(), &raw mut found) };
        if bytes > 0 { found } else { Sequences::default() }
    }

    /// Returns head and length in bytes of the thread's list of robust mutexes.
    pub fn robust_list(self) -> (u64, u64) {
        let (mut head, mut bytes) = (0u64, 0u64);
        // SAFETY: both words are writable.
        unsafe { libc::syscall(libc::SYS_get_robust_list, self.0, &raw mut head, &raw mut bytes) };
        (head, bytes)
    }

    /// Makes the thread run a system call. `gadget` is the address of a `syscall` instruction, `base` has
    /// the other registers. The thread's signals must be blocked.
    ///
    /// # Errors
    /// The error of the system call, or ESRCH if the thread has ended.
    pub fn call(self, base: &Registers, gadget: u64, number: i64, arguments: [u64; 6]) -> io::Result<u64> {
        self.set_registers(&base.for_call(gadget, number, arguments))?;
        match self.step(gadget)? {
            Seen::Stopped => {}
            Seen::Signalled(signal) => {
                return Err(io::Error::other(format!(
                    "signal {signal} in the middle of system call {number}"
                )));
            }
            Seen::Starting | Seen::Running | Seen::Ended => {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
        }
        let result = self.registers()?.0[index::RAX].cast_signed();
        match result {
            -4095..=-1 => Err(io::Error::from_raw_os_error(-result as i32)),
            _ => Ok(result.cast_unsigned()),
        }
    }

    /// Executes the instruction at `gadget` in a single step. A stop that was requested earlier may come
    /// first, before the instruction is executed; then the step is repeated.
    fn step(self, gadget: u64) -> io::Result<Seen> {
        for _ in 0..MOST_STOPS {
            ptrace(libc::PTRACE_SINGLESTEP, self.0, 0, 0)?;
            let seen = self.wait()?;
            if seen != Seen::Stopped || self.registers()?.instruction() != gadget {
                return Ok(seen);
            }
        }
        Err(io::Error::other("it stops again and again"))
    }

    /// Makes the thread create another one that shares everything with it, on a stack that ends at `stack`.
    /// Returns the new thread, which is stopped.
    ///
    /// # Errors
    /// Errors of [`Tracee::call`].
    pub fn start_thread(self, base: &Registers, gadget: u64, stack: u64) -> io::Result<Tracee> {
        let flags = libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_FILES | libc::CLONE_SIGHAND;
        self.clone_with(base, gadget, flags | libc::CLONE_THREAD | libc::CLONE_SYSVSEM, stack)
    }

    /// Makes the process fork. Returns the copy, which is stopped. It is a child of the process's parent
    /// (CLONE_PARENT) and is killed when this tracer ends.
    ///
    /// # Errors
    /// Errors of [`Tracee::call`].
    pub fn fork(self, base: &Registers, gadget: u64) -> io::Result<Tracee> {
        // The copy inherits the options at its creation.
        let options = libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_EXITKILL;
        ptrace(libc::PTRACE_SETOPTIONS, self.0, 0, options as usize)?;
        let copy = self.clone_with(base, gadget, libc::CLONE_PARENT, 0);
        ptrace(libc::PTRACE_SETOPTIONS, self.0, 0, libc::PTRACE_O_TRACECLONE as usize)?;
        copy
    }

    fn clone_with(self, base: &Registers, gadget: u64, flags: i32, stack: u64) -> io::Result<Tracee> {
        let arguments = [flags as u64, stack, 0, 0, 0, 0];
        self.set_registers(&base.for_call(gadget, libc::SYS_clone, arguments))?;
        // The stop for the clone event comes before the call returns; a further step completes it.
        if self.step(gadget)? != Seen::Starting {
            let result = self.registers()?.0[index::RAX].cast_signed();
            return Err(io::Error::from_raw_os_error(-result as i32));
        }
        let mut started = 0usize;
        ptrace(libc::PTRACE_GETEVENTMSG, self.0, 0, (&raw mut started).addr())?;
        ptrace(libc::PTRACE_SINGLESTEP, self.0, 0, 0)?;
        self.wait()?;
        let result = self.registers()?.0[index::RAX].cast_signed();
        if result <= 0 {
            return Err(io::Error::from_raw_os_error(-result as i32));
        }
        let thread = Tracee(i32::try_from(started).map_err(|_| io::ErrorKind::InvalidData)?);
        thread.wait()?;
        Ok(thread)
    }
}

fn ptrace(request: libc::c_uint, tid: i32, address: usize, data: usize) -> io::Result<()> {
    if !cfg!(target_arch = "x86_64") {
        return Err(io::ErrorKind::Unsupported.into());
    }
    // SAFETY: every request passes plain numbers, or addresses of values that outlive the call and have the
    // length of its kind.
    match unsafe { libc::ptrace(request, tid, address, data) } {
        0.. => Ok(()),
        _ => Err(refusal::last("ptrace")),
    }
}

/// Returns true if two descriptors are the same open file. Each is given by a process and a number.
pub fn same_open_file(one: (i32, i32), other: (i32, i32)) -> bool {
    const KCMP_FILE: libc::c_int = 0;
    // SAFETY: plain numbers.
    unsafe { libc::syscall(libc::SYS_kcmp, one.0, other.0, KCMP_FILE, one.1, other.1) == 0 }
}

/// Returns the numbers of the threads of a process.
///
/// # Errors
/// If there is no such process.
pub fn threads(pid: i32) -> io::Result<Vec<i32>> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task"))?;
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    Ok(names.filter_map(|name| name.parse().ok()).collect())
}

/// Sleeps between two checks of a thread's state.
pub fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Kills a process and waits for its end. The kernel reports the end of a process only after its tracer has
/// reaped all its traced threads.
pub fn end(pid: i32) {
    crate::process::kill(pid, libc::SIGKILL);
    let take = |tid: i32, flags: i32| {
        // SAFETY: a null pointer means that no status is requested.
        unsafe { libc::waitpid(tid, null_mut(), libc::__WALL | flags) }
    };
    while take(pid, libc::WNOHANG) >= 0 {
        let others = threads(pid).unwrap_or_default().into_iter().filter(|&tid| tid != pid);
        others.for_each(|tid| {
            take(tid, libc::WNOHANG);
        });
        pause(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process;

    /// Stops a sleeping child, makes it ask for its process number, and lets it continue to sleep.
    #[test]
    fn a_stopped_thread_makes_calls_and_goes_on() {
        let pid = sleeper();
        // The child must be in the kernel: then its next instruction is after a `syscall`.
        std::thread::sleep(Duration::from_millis(50));
        let Ok(child) = Tracee::seize(pid) else { return end(pid) };
        child.interrupt().unwrap();
        assert_eq!(child.wait().unwrap(), Seen::Stopped);
        let (before, mask) = (child.registers().unwrap(), child.mask().unwrap());
        child.set_mask(u64::MAX).unwrap();
        let gadget = before.instruction() - SYSCALL.len() as u64;
        assert_eq!(child.call(&before, gadget, libc::SYS_getpid, [0; 6]).unwrap(), pid as u64);
        // A stop that is still pending is not mistaken for the end of the call.
        child.interrupt().unwrap();
        assert_eq!(child.call(&before, gadget, libc::SYS_getpid, [0; 6]).unwrap(), pid as u64);
        let wrong = child.call(&before, gadget, libc::SYS_close, [9999, 0, 0, 0, 0, 0]);
        assert_eq!(wrong.unwrap_err().raw_os_error(), Some(libc::EBADF));
        child.set_registers(&before).unwrap();
        child.set_mask(mask).unwrap();
        assert_eq!(child.registers().unwrap(), before);
        assert_ne!(before.resumed_elsewhere(), before);
        child.detach().unwrap();
        assert!(process::is_alive(pid) && threads(pid).unwrap() == [pid]);
        end(pid);
    }

    /// Starts a copy of this process that sleeps.
    fn sleeper() -> i32 {
        // SAFETY: the child calls nothing but sleep.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            loop {
                // SAFETY: a plain system call.
                unsafe { libc::sleep(100) };
            }
        }
        pid
    }

    /// Kills a thread while its tracer checks its state, usually in the middle of a check.
    #[test]
    fn the_end_of_a_traced_thread_is_left_to_who_reaps() {
        for round in 0..200 {
            let pid = sleeper();
            let Ok(child) = Tracee::seize(pid) else { return end(pid) };
            if round % 2 == 0 {
                child.interrupt().unwrap();
                assert_eq!(child.wait().unwrap(), Seen::Stopped);
            }
            process::kill(pid, libc::SIGKILL);
            while child.look() != Seen::Ended {}
            let mut status = 0;
            // SAFETY: status is writable.
            let reaped = unsafe { libc::waitpid(pid, &mut status, libc::WNOHANG) };
            assert!(reaped == pid && libc::WTERMSIG(status) == libc::SIGKILL, "round {round}: {reaped}");
        }
    }

    #[test]
    fn a_process_with_traced_threads_can_be_ended() {
        let pid = sleeper();
        std::thread::sleep(Duration::from_millis(50));
        let Ok(child) = Tracee::seize(pid) else { return end(pid) };
        child.interrupt().unwrap();
        child.wait().unwrap();
        let before = child.registers().unwrap();
        let gadget = before.instruction() - SYSCALL.len() as u64;
        child.start_thread(&before, gadget, before.0[index::RSP] - 4096).unwrap();
        assert_eq!(threads(pid).unwrap().len(), 2);
        end(pid);
        assert!(!process::is_alive(pid));
    }
}
