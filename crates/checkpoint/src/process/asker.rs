//! Stopped thread that is made to execute system calls, by means of a `syscall` instruction in the code that
//! the kernel maps into every process.

use std::io;

use tutti_sys::tracee::{Registers, SYSCALL, Tracee};
use xxhash_rust::xxh3::xxh3_128;

use super::areas::{self, Listed};
use super::memory::Memory;
use crate::image::{READ, WRITE};

const ALL_SIGNALS: u64 = u64::MAX;

/// Stopped thread that executes system calls on request.
pub struct Asker<'a> {
    thread: Tracee,
    /// Registers that the thread gets back afterwards.
    pub registers: Registers,
    /// Signal mask that the thread gets back afterwards.
    pub mask: u64,
    gadget: u64,
    memory: &'a Memory,
}

impl<'a> Asker<'a> {
    /// Takes a stopped thread, whose process has a `syscall` instruction at address `gadget`, and blocks its
    /// signals.
    ///
    /// # Errors
    /// Fails if the thread has ended.
    pub fn new(thread: Tracee, gadget: u64, memory: &'a Memory) -> io::Result<Asker<'a>> {
        let (registers, mask) = (thread.registers()?, thread.mask()?);
        thread.set_mask(ALL_SIGNALS)?;
        Ok(Asker { thread, registers, mask, gadget, memory })
    }

    /// Takes another stopped thread of the same process.
    ///
    /// # Errors
    /// Fails if the thread has ended.
    pub fn take_thread(&self, thread: Tracee) -> io::Result<Asker<'a>> {
        Asker::new(thread, self.gadget, self.memory)
    }

    /// Takes the copy that [`Asker::fork`] returned. The copy never runs the program, so it keeps these
    /// registers for its calls only.
    pub fn of_copy(&self, thread: Tracee) -> Asker<'a> {
        let Asker { registers, mask, gadget, memory, .. } = *self;
        Asker { thread, registers, mask, gadget, memory }
    }

    /// Returns the stopped thread.
    pub fn thread(&self) -> Tracee {
        self.thread
    }

    /// Returns the memory of the thread's process.
    pub fn memory(&self) -> &'a Memory {
        self.memory
    }

    /// Makes the thread execute a system call, and returns its result.
    ///
    /// # Errors
    /// Returns the error of the call.
    pub fn call(&self, number: i64, arguments: [u64; 6]) -> io::Result<u64> {
        self.thread.call(&self.registers, self.gadget, number, arguments)
    }

    /// Makes the thread map `bytes` bytes of private memory, and returns their address.
    ///
    /// # Errors
    /// Returns the error of the call.
    pub fn map(&self, bytes: u64) -> io::Result<u64> {
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
        self.call(libc::SYS_mmap, [0, bytes, u64::from(READ | WRITE), flags, u64::MAX, 0])
    }

    /// Makes the thread fork a copy of its process. The copy is stopped, and is a child of the process's
    /// parent.
    ///
    /// # Errors
    /// Returns the error of the call.
    pub fn fork(&self) -> io::Result<Tracee> {
        self.thread.fork(&self.registers, self.gadget)
    }

    /// Reads the words that a call has left at address `room`.
    ///
    /// # Errors
    /// Fails if no memory is mapped there.
    pub fn words<const N: usize>(&self, room: u64) -> io::Result<[u64; N]> {
        let mut words = [0; N];
        for (index, word) in words.iter_mut().enumerate() {
            *word = self.memory.word(room + 8 * index as u64)?;
        }
        Ok(words)
    }

    /// Gives the thread its registers and signal mask back.
    ///
    /// # Errors
    /// Fails if the thread has ended.
    pub fn done(self) -> io::Result<()> {
        self.thread.set_registers(&self.registers)?;
        self.thread.set_mask(self.mask)
    }
}

/// Returns the address of a `syscall` instruction in a process.
///
/// # Errors
/// Fails if the kernel's code in the process has none, or if the process may not be inspected.
pub fn gadget(pid: i32, memory: &Memory) -> io::Result<u64> {
    let listing = std::fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let listed = areas::parse(&listing).map_err(io::Error::other)?;
    kernel_code(&listed, memory).map(|(gadget, _)| gadget)
}

/// Finds a `syscall` instruction in the code that the kernel maps into every process (vdso). Returns its
/// address, and the hash of that code.
///
/// # Errors
/// Fails if no such code is mapped, or if it has no such instruction.
pub fn kernel_code(listed: &[Listed], memory: &Memory) -> io::Result<(u64, u128)> {
    let code = listed.iter().find(|listed| listed.name == "[vdso]");
    let area = &code.ok_or_else(|| io::Error::other("the kernel maps no code into it (vdso)"))?.area;
    let mut bytes = vec![0; (area.end - area.start) as usize];
    memory.read(area.start, &mut bytes)?;
    let at = bytes.windows(2).position(|pair| *pair == SYSCALL);
    let at = at.ok_or_else(|| io::Error::other("the kernel's code in it makes no system call"))?;
    Ok((area.start + at as u64, xxh3_128(&bytes)))
}
