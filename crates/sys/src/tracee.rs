//! Threads of other processes, stopped and looked at from outside (ptrace). No privilege is needed for those
//! of the same user that descend from this process, which is what a daemon's ranks are.
//!
//! A stopped thread can be made to run single system calls ([`Tracee::call`]): its registers are set, the
//! instruction at an address that holds `syscall` is stepped over, and whoever is done gives the thread its
//! own registers back. The kernel takes the tracer to be a thread, so all of this is for the thread that has
//! attached. All numbers are those of Linux on x86-64; elsewhere nothing can be attached.

use std::io;
use std::ptr::null_mut;
use std::time::Duration;

use crate::refusal;

/// Words of the general registers: `struct user_regs_struct`.
pub const REGISTER_WORDS: usize = 27;
const EXTENDED_BYTES: usize = 16 << 10;
const NT_PRSTATUS: usize = 1;
const NT_X86_XSTATE: usize = 0x202;
const GET_RSEQ: u32 = 0x420f;
const EVENT_STOP: i32 = 128;
/// Of a system call that begins anew when its signal has been dealt with: ERESTARTSYS to ERESTARTNOHAND,
/// ERESTART_RESTARTBLOCK.
const RESTARTED: [i64; 4] = [-512, -513, -514, -516];
/// Pause between two looks whether a killed process has ended.
const LOOK: Duration = Duration::from_micros(50);
/// Stops of a thread that stands still already.
const MOST_STOPS: u32 = 16;
/// The instruction `syscall`.
pub const SYSCALL: [u8; 2] = [0x0f, 0x05];

/// The general registers of a stopped thread, by the indices of `struct user_regs_struct`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers(pub [u64; REGISTER_WORDS]);

/// Indices into [`Registers`].
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
    /// As they have to be in a new thread that goes on where the old one stood: a system call that was
    /// interrupted is begun anew.
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

    /// The address of the next instruction.
    pub fn instruction(&self) -> u64 {
        self.0[index::RIP]
    }

    /// With another stack.
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

/// What a thread does, as its tracer sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It stands still.
    Stopped,
    /// It stands still with a signal that it is about to get.
    Signalled(i32),
    /// It stands still in the middle of starting a thread.
    Starting,
    /// It runs, or waits in the kernel.
    Running,
    /// It has ended.
    Ended,
}

/// Restartable sequences of a thread, as it has registered them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Sequences {
    /// Address; 0: none.
    pub address: u64,
    /// Bytes.
    pub bytes: u32,
    /// What stands before handlers.
    pub signature: u32,
    flags: u32,
    padding: u32,
}

/// A thread that this one traces. Dropping it changes nothing: see [`Tracee::detach`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tracee(i32);

impl Tracee {
    /// Attaches to a thread, which goes on; threads that it starts are attached and stopped.
    ///
    /// # Errors
    /// What ptrace reports: ESRCH if it is gone, EPERM if it may not be traced.
    pub fn seize(tid: i32) -> io::Result<Tracee> {
        ptrace(libc::PTRACE_SEIZE, tid, 0, libc::PTRACE_O_TRACECLONE as usize)?;
        Ok(Tracee(tid))
    }

    /// A child that has asked to be traced and has just become another program.
    ///
    /// # Errors
    /// If it ended instead.
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

    /// A thread that one of a traced process has started.
    pub fn started(tid: i32) -> Tracee {
        Tracee(tid)
    }

    /// Its number.
    pub fn tid(self) -> i32 {
        self.0
    }

    /// Tells it to stop soon.
    ///
    /// # Errors
    /// ESRCH if it is gone.
    pub fn interrupt(self) -> io::Result<()> {
        ptrace(libc::PTRACE_INTERRUPT, self.0, 0, 0)
    }

    /// What it does now.
    pub fn look(self) -> Seen {
        self.ask(libc::WNOHANG).unwrap_or(Seen::Ended)
    }

    /// Waits until it stands still or has ended.
    ///
    /// # Errors
    /// If it is no thread that this one traces.
    pub fn wait(self) -> io::Result<Seen> {
        self.ask(0)
    }

    /// Returns the state of the thread. Its end is never taken here, only its stops: the end of a rank is for
    /// [`crate::process::reap`], and a rank whose end nobody reports would be waited for without end. A
    /// thread may be killed between the look for an end and that for a stop, so the second must not take ends
    /// either.
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
                // It runs; or it stood still a moment ago and has been killed.
                (0, 0) if flags & libc::WNOHANG != 0 => return Ok(Seen::Running),
                (0, 0) => {}
                (EVENT_STOP, _) | (0, libc::SIGTRAP) => return Ok(Seen::Stopped),
                (0, signal) => return Ok(Seen::Signalled(signal)),
                _ => return Ok(Seen::Starting),
            }
        }
    }

    /// Calls waitid for this thread. All of the result is 0 if WNOHANG is set and there is nothing to report.
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

    /// Lets it go on, with the signal that it was about to get.
    ///
    /// # Errors
    /// ESRCH if it is gone.
    pub fn resume(self, signal: i32) -> io::Result<()> {
        ptrace(libc::PTRACE_CONT, self.0, 0, signal as usize)
    }

    /// Lets it go on without this tracer.
    ///
    /// # Errors
    /// ESRCH if it is gone.
    pub fn detach(self) -> io::Result<()> {
        ptrace(libc::PTRACE_DETACH, self.0, 0, 0)
    }

    /// The general registers.
    ///
    /// # Errors
    /// ESRCH if it does not stand still.
    pub fn registers(self) -> io::Result<Registers> {
        let mut registers = Registers([0; REGISTER_WORDS]);
        let mut room =
            libc::iovec { iov_base: registers.0.as_mut_ptr().cast(), iov_len: size_of_val(&registers.0) };
        ptrace(libc::PTRACE_GETREGSET, self.0, NT_PRSTATUS, (&raw mut room).addr())?;
        Ok(registers)
    }

    /// Sets them.
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

    /// The registers of floating point and vectors, as the processor keeps them (XSAVE).
    ///
    /// # Errors
    /// ESRCH if it does not stand still.
    pub fn extended(self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0u8; EXTENDED_BYTES];
        let mut room = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        ptrace(libc::PTRACE_GETREGSET, self.0, NT_X86_XSTATE, (&raw mut room).addr())?;
        bytes.truncate(room.iov_len);
        Ok(bytes)
    }

    /// Sets them.
    ///
    /// # Errors
    /// EINVAL where the processor has others.
    pub fn set_extended(self, bytes: &[u8]) -> io::Result<()> {
        let mut room = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        ptrace(libc::PTRACE_SETREGSET, self.0, NT_X86_XSTATE, (&raw mut room).addr())
    }

    /// The signals that it blocks.
    ///
    /// # Errors
    /// ESRCH if it does not stand still.
    pub fn mask(self) -> io::Result<u64> {
        let mut mask = 0u64;
        ptrace(libc::PTRACE_GETSIGMASK, self.0, size_of::<u64>(), (&raw mut mask).addr())?;
        Ok(mask)
    }

    /// Sets them.
    ///
    /// # Errors
    /// ESRCH if it does not stand still.
    pub fn set_mask(self, mask: u64) -> io::Result<()> {
        ptrace(libc::PTRACE_SETSIGMASK, self.0, size_of::<u64>(), (&raw const mask).addr())
    }

    /// Its restartable sequences; none on kernels that do not say.
    pub fn sequences(self) -> Sequences {
        let mut found = Sequences::default();
        // SAFETY: found has the size that is stated.
        let bytes = unsafe { libc::ptrace(GET_RSEQ, self.0, size_of::<Sequences>(), &raw mut found) };
        if bytes > 0 { found } else { Sequences::default() }
    }

    /// Head and bytes of its list of robust mutexes.
    pub fn robust_list(self) -> (u64, u64) {
        let (mut head, mut bytes) = (0u64, 0u64);
        // SAFETY: both words are writable.
        unsafe { libc::syscall(libc::SYS_get_robust_list, self.0, &raw mut head, &raw mut bytes) };
        (head, bytes)
    }

    /// Has it run a system call; `gadget` is the address of a `syscall` instruction, `base` its registers
    /// otherwise. Its signals must be blocked.
    ///
    /// # Errors
    /// What the call reports, or that the thread is gone.
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

    /// Steps over the instruction at `gadget`. A stop that was asked for earlier, while the thread was slow
    /// to stop, comes before it: nothing has been called then.
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

    /// Has it start a thread that shares everything with it and stops at once; returns that thread, on a
    /// stack that ends at `stack`.
    ///
    /// # Errors
    /// As [`Tracee::call`].
    pub fn start_thread(self, base: &Registers, gadget: u64, stack: u64) -> io::Result<Tracee> {
        let flags = libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_FILES | libc::CLONE_SIGHAND;
        self.clone_with(base, gadget, flags | libc::CLONE_THREAD | libc::CLONE_SYSVSEM, stack)
    }

    /// Has it fork: returns the copy, which stands still, is a child of its parent (CLONE_PARENT), and is
    /// killed when this tracer ends.
    ///
    /// # Errors
    /// As [`Tracee::call`].
    pub fn fork(self, base: &Registers, gadget: u64) -> io::Result<Tracee> {
        // The copy has the options from its first moment on.
        let options = libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_EXITKILL;
        ptrace(libc::PTRACE_SETOPTIONS, self.0, 0, options as usize)?;
        let copy = self.clone_with(base, gadget, libc::CLONE_PARENT, 0);
        ptrace(libc::PTRACE_SETOPTIONS, self.0, 0, libc::PTRACE_O_TRACECLONE as usize)?;
        copy
    }

    fn clone_with(self, base: &Registers, gadget: u64, flags: i32, stack: u64) -> io::Result<Tracee> {
        let arguments = [flags as u64, stack, 0, 0, 0, 0];
        self.set_registers(&base.for_call(gadget, libc::SYS_clone, arguments))?;
        // The stop of the clone event comes before the call returns; a step then ends it.
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
    // SAFETY: every request passes addresses of values that outlive the call, as long as its kind says, or
    // plain numbers.
    match unsafe { libc::ptrace(request, tid, address, data) } {
        0.. => Ok(()),
        _ => Err(refusal::last("ptrace")),
    }
}

/// Whether two descriptors, of two processes or of one, are the same open file.
pub fn same_open_file(one: (i32, i32), other: (i32, i32)) -> bool {
    const KCMP_FILE: libc::c_int = 0;
    // SAFETY: plain numbers.
    unsafe { libc::syscall(libc::SYS_kcmp, one.0, other.0, KCMP_FILE, one.1, other.1) == 0 }
}

/// The threads of a process.
///
/// # Errors
/// If there is no such process.
pub fn threads(pid: i32) -> io::Result<Vec<i32>> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task"))?;
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    Ok(names.filter_map(|name| name.parse().ok()).collect())
}

/// Sleeps this thread; for looking again.
pub fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Kills a process and waits for its end. The kernel reports the end of a process only once its tracer has
/// taken those of all its threads that it traces.
pub fn end(pid: i32) {
    crate::process::kill(pid, libc::SIGKILL);
    let take = |tid: i32, flags: i32| {
        // SAFETY: no status is asked for.
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

    /// A child that sleeps, stopped in the kernel, is made to ask for its number, and goes on sleeping.
    #[test]
    fn a_stopped_thread_makes_calls_and_goes_on() {
        let pid = sleeper();
        // It has to be in the kernel: its next instruction is behind a `syscall` then.
        std::thread::sleep(Duration::from_millis(50));
        let Ok(child) = Tracee::seize(pid) else { return end(pid) };
        child.interrupt().unwrap();
        assert_eq!(child.wait().unwrap(), Seen::Stopped);
        let (before, mask) = (child.registers().unwrap(), child.mask().unwrap());
        child.set_mask(u64::MAX).unwrap();
        let gadget = before.instruction() - SYSCALL.len() as u64;
        assert_eq!(child.call(&before, gadget, libc::SYS_getpid, [0; 6]).unwrap(), pid as u64);
        // A stop that is still to come does not pass for the call.
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

    /// A thread is killed while its tracer looks at it, in the middle of a look more often than not.
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
