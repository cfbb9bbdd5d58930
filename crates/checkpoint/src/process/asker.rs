//! A thread that stands still and is made to make system calls, in the code that the kernel maps into every
//! process.

use std::io;

use tutti_sys::tracee::{Registers, SYSCALL, Tracee};
use xxhash_rust::xxh3::xxh3_128;

use super::areas::{self, Listed};
use super::memory::Memory;
use crate::image::{READ, WRITE};

const ALL_SIGNALS: u64 = u64::MAX;

/// A thread that is made to ask.
pub struct Asker<'a> {
    thread: Tracee,
    /// What it has when it is done.
    pub registers: Registers,
    /// The signals that it blocks then.
    pub mask: u64,
    gadget: u64,
    memory: &'a Memory,
}

impl<'a> Asker<'a> {
    /// A thread, whose process has a `syscall` instruction at `gadget`.
    ///
    /// # Errors
    /// If it has ended.
    pub fn new(thread: Tracee, gadget: u64, memory: &'a Memory) -> io::Result<Asker<'a>> {
        let (registers, mask) = (thread.registers()?, thread.mask()?);
        thread.set_mask(ALL_SIGNALS)?;
        Ok(Asker { thread, registers, mask, gadget, memory })
    }

    /// Another thread of the same process.
    ///
    /// # Errors
    /// If it has ended.
    pub fn beside(&self, thread: Tracee) -> io::Result<Asker<'a>> {
        Asker::new(thread, self.gadget, self.memory)
    }

    /// The copy that [`Asker::fork`] has made: it never gets back what it had.
    pub fn of_copy(&self, thread: Tracee) -> Asker<'a> {
        let Asker { registers, mask, gadget, memory, .. } = *self;
        Asker { thread, registers, mask, gadget, memory }
    }

    /// The thread.
    pub fn thread(&self) -> Tracee {
        self.thread
    }

    /// The memory of its process.
    pub fn memory(&self) -> &'a Memory {
        self.memory
    }

    /// Has it make a call.
    ///
    /// # Errors
    /// What the call reports.
    pub fn call(&self, number: i64, arguments: [u64; 6]) -> io::Result<u64> {
        self.thread.call(&self.registers, self.gadget, number, arguments)
    }

    /// Has it map so many bytes of its own memory: where.
    ///
    /// # Errors
    /// What the call reports.
    pub fn map(&self, bytes: u64) -> io::Result<u64> {
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
        self.call(libc::SYS_mmap, [0, bytes, u64::from(READ | WRITE), flags, u64::MAX, 0])
    }

    /// Has it fork a copy of its process, which is a child of its parent and stands still.
    ///
    /// # Errors
    /// What the call reports.
    pub fn fork(&self) -> io::Result<Tracee> {
        self.thread.fork(&self.registers, self.gadget)
    }

    /// Words that a call has left at `room`.
    ///
    /// # Errors
    /// If nothing is mapped there.
    pub fn words<const N: usize>(&self, room: u64) -> io::Result<[u64; N]> {
        let mut words = [0; N];
        for (index, word) in words.iter_mut().enumerate() {
            *word = self.memory.word(room + 8 * index as u64)?;
        }
        Ok(words)
    }

    /// Gives it back what it had.
    ///
    /// # Errors
    /// If it has ended.
    pub fn done(self) -> io::Result<()> {
        self.thread.set_registers(&self.registers)?;
        self.thread.set_mask(self.mask)
    }
}

/// The address of a `syscall` instruction in a process.
///
/// # Errors
/// If the kernel maps none into it, or it cannot be looked at.
pub fn gadget(pid: i32, memory: &Memory) -> io::Result<u64> {
    let listing = std::fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let listed = areas::parse(&listing).map_err(io::Error::other)?;
    kernel_code(&listed, memory).map(|(gadget, _)| gadget)
}

/// The address of a `syscall` instruction in the code that the kernel maps into every process, and the hash
/// of that code.
///
/// # Errors
/// If there is none.
pub fn kernel_code(listed: &[Listed], memory: &Memory) -> io::Result<(u64, u128)> {
    let code = listed.iter().find(|listed| listed.name == "[vdso]");
    let area = &code.ok_or_else(|| io::Error::other("the kernel maps no code into it (vdso)"))?.area;
    let mut bytes = vec![0; (area.end - area.start) as usize];
    memory.read(area.start, &mut bytes)?;
    let at = bytes.windows(2).position(|pair| *pair == SYSCALL);
    let at = at.ok_or_else(|| io::Error::other("the kernel's code in it makes no system call"))?;
    Ok((area.start + at as u64, xxh3_128(&bytes)))
}
