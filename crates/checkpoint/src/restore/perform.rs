//! Execution of a plan in a fresh process, from outside (ptrace). No library is loaded into the process.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use tutti_sys::tracee::{Registers, SYSCALL, Tracee};

use xxhash_rust::xxh3::xxh3_128;

use super::plan::{self, Argument, CODE_BYTES, Call, DATA_BYTES, Expected, Inherited, Step, Workplace};
use crate::error::CheckpointError;
use crate::image::blocks::{BLOCK, Reader};
use crate::image::{Area, Backing, EXECUTE, Host, Process, READ, Thread, WRITE};
use crate::process::areas;
use crate::process::memory::Memory;

const ALL_SIGNALS: u64 = u64::MAX;
/// Blocks that are read between two reports of progress: 16 MiB.
pub const BLOCKS_A_WORD: usize = 256;
/// Blocks that a thread takes at a time: 1 MiB.
const BLOCKS_A_TURN: usize = 16;
/// Maximum threads that fill memory. More would wait for each other at the page tables of the process.
const MOST_THREADS: usize = 4;

/// Restored process that is still stopped.
#[derive(Debug)]
pub struct Restored {
    /// Number of the process.
    pub pid: i32,
    threads: Vec<(Tracee, u64)>,
}

impl Restored {
    /// Lets all threads of the process go on, with their signal masks.
    ///
    /// # Errors
    /// Fails if the process was killed meanwhile.
    pub fn thaw(self) -> io::Result<()> {
        for (thread, mask) in self.threads {
            thread.set_mask(mask)?;
            thread.detach()?;
        }
        Ok(())
    }
}

/// Turns the process `pid` into the state of its image. The process must be a traced child that has just
/// executed the image's program.
///
/// - `inherited`: numbers at which the process has inherited open files and objects;
/// - `reader`: source of the bytes of memory;
/// - `speak`: called now and then, to report progress.
///
/// # Errors
/// Fails if this machine differs from the image, if the image is damaged, or if a system call fails. The
/// caller must then kill the process.
pub fn restore(
    pid: i32,
    image: &Process,
    host: &Host,
    reader: &Reader,
    inherited: &Inherited,
    speak: &mut dyn FnMut(),
) -> Result<Restored, CheckpointError> {
    let text = CheckpointError::from;
    let main = Tracee::executed(pid).map_err(text)?;
    let listing = std::fs::read_to_string(format!("/proc/{pid}/smaps")).map_err(text)?;
    let own: Vec<Area> = areas::parse(&listing)?.into_iter().map(|listed| listed.area).collect();
    let workplace = Workplace::find(&image.areas, &own)
        .ok_or_else(|| CheckpointError::Changed("its addresses leave no gap".to_string()))?;
    let steps = plan::plan(image, host, &own, inherited, workplace)?;
    check_files(image)?;
    let mut stage = Stage::set(main, pid, &own, workplace, host.kernel_code)?;
    for step in &steps {
        match step {
            Step::Call(call) => stage.call(call)?,
            Step::Fill => {
                fill(&stage.memory, reader, speak).map_err(text)?;
                let mut pages = image.table_pages.iter();
                pages.try_for_each(|(start, bytes)| stage.memory.write(*start, bytes)).map_err(text)?;
            }
        }
    }
    stage.make_threads(image)
}

/// Checks that private mapped files have not changed since the checkpoint.
fn check_files(image: &Process) -> Result<(), CheckpointError> {
    let mapped = image.areas.iter().filter_map(|area| match &area.backing {
        Backing::File(file) if !area.shared => Some(file),
        _ => None,
    });
    for file in mapped {
        let path = String::from_utf8_lossy(&file.path);
        if areas::identify(&path)? != *file {
            return Err(CheckpointError::Changed(format!(
                "the file {path} has changed since the checkpoint"
            )));
        }
    }
    Ok(())
}

/// Writes all blocks of a rank's memory. Several threads share the work, as most of the time goes to page
/// faults. One thread took 0.52 s for 512 MB, while reading the files took 0.27 s.
fn fill(memory: &Memory, reader: &Reader, speak: &mut dyn FnMut()) -> io::Result<()> {
    let filling = Filling { memory, reader, next: AtomicUsize::new(0) };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let helpers = processors.min(MOST_THREADS).min(reader.blocks.len().div_ceil(BLOCKS_A_WORD)).max(1) - 1;
    std::thread::scope(|scope| {
        let helpers: Vec<_> = (0..helpers).map(|_| scope.spawn(|| filling.go_on(&mut || ()))).collect();
        let own = filling.go_on(speak);
        let others = helpers.into_iter().map(|helper| helper.join().expect("a copy does not panic"));
        others.fold(own, io::Result::and)
    })
}

/// Blocks that threads take from a common counter.
struct Filling<'a> {
    memory: &'a Memory,
    reader: &'a Reader,
    /// Index of the first block that no thread has taken.
    next: AtomicUsize,
}

impl Filling<'_> {
    /// Writes blocks until none is left.
    fn go_on(&self, speak: &mut dyn FnMut()) -> io::Result<()> {
        let mut room = vec![0; BLOCK as usize];
        let blocks = &self.reader.blocks;
        loop {
            let first = self.next.fetch_add(BLOCKS_A_TURN, Ordering::Relaxed);
            let Some(left) = blocks.get(first..).filter(|left| !left.is_empty()) else { return Ok(()) };
            speak();
            for block in &left[..left.len().min(BLOCKS_A_TURN)] {
                let room = room
                    .get_mut(..block.bytes as usize)
                    .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a block is too long"))?;
                self.reader.read(block, room)?;
                self.memory.write(block.start, room)?;
            }
        }
    }
}

/// Stopped process in which the calls of a plan are executed.
struct Stage {
    main: Tracee,
    pid: i32,
    registers: Registers,
    memory: Memory,
    workplace: Workplace,
    results: Vec<u64>,
}

impl Stage {
    /// Maps the pages for the calls, after a check that the kernel maps the same code as in the image.
    fn set(
        main: Tracee,
        pid: i32,
        own: &[Area],
        workplace: Workplace,
        code: u128,
    ) -> Result<Stage, CheckpointError> {
        let text = CheckpointError::from;
        let memory = Memory::open(pid).map_err(text)?;
        let registers = main.registers().map_err(text)?;
        main.set_mask(ALL_SIGNALS).map_err(text)?;
        let (gadget, found) = kernel_call(own, &memory).ok_or_else(|| {
            CheckpointError::Changed("the kernel maps no code into processes here".to_string())
        })?;
        if found != code {
            return Err(CheckpointError::Changed(
                "the kernel here is another: it maps other code into processes".to_string(),
            ));
        }
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE) as u64;
        for (address, bytes, protection) in
            [(workplace.start, CODE_BYTES, READ | EXECUTE), (workplace.data(), DATA_BYTES, READ | WRITE)]
        {
            let arguments = [address, bytes, protection.into(), flags, u64::MAX, 0];
            main.call(&registers, gadget, libc::SYS_mmap, arguments).map_err(text)?;
        }
        memory.write(workplace.start, &SYSCALL).map_err(text)?;
        Ok(Stage { main, pid, registers, memory, workplace, results: Vec::new() })
    }

    fn call(&mut self, call: &Call) -> Result<(), CheckpointError> {
        let result = self.call_by(self.main, self.registers, call)?;
        self.results.push(result);
        Ok(())
    }

    /// Executes a call in a thread and checks its result. Bytes among the arguments are copied to the process
    /// first.
    fn call_by(&self, thread: Tracee, registers: Registers, call: &Call) -> Result<u64, CheckpointError> {
        let mut room = self.workplace.data();
        let mut arguments = [0; 6];
        for (place, argument) in arguments.iter_mut().zip(&call.arguments) {
            *place = match argument {
                Argument::Number(number) => *number,
                Argument::Result(back) => self.results[self.results.len() - back],
                Argument::Bytes(bytes) => {
                    if room + bytes.len() as u64 > self.workplace.data() + DATA_BYTES {
                        return Err(CheckpointError::Changed(format!(
                            "{}: its arguments are too long",
                            call.what
                        )));
                    }
                    self.memory.write(room, bytes).map_err(CheckpointError::system(&*call.what))?;
                    let address = room;
                    room += (bytes.len() as u64).next_multiple_of(16);
                    address
                }
            };
        }
        let result = thread.call(&registers, self.workplace.start, call.number, arguments);
        match (result, call.expected) {
            (Ok(result), Expected::Exactly(expected)) if result != expected => {
                Err(CheckpointError::Changed(format!("{}: {result:#x} instead of {expected:#x}", call.what)))
            }
            (Ok(result), _) => Ok(result),
            (Err(_), Expected::Any) => Ok(0),
            (Err(error), _) => Err(CheckpointError::system(&*call.what)(error)),
        }
    }

    /// Creates the threads, restores the state of each, and unmaps the pages of the calls.
    fn make_threads(self, image: &Process) -> Result<Restored, CheckpointError> {
        let text = CheckpointError::from;
        let other = |what: &str| CheckpointError::Changed(what.to_string());
        let stack = self.workplace.data() + DATA_BYTES;
        let mut threads = Vec::with_capacity(image.threads.len());
        for (index, thread) in image.threads.iter().enumerate() {
            let made = match index {
                0 => self.main,
                _ => self
                    .main
                    .start_thread(&self.registers, self.workplace.start, stack)
                    .map_err(CheckpointError::system("a thread cannot be started"))?,
            };
            made.set_mask(ALL_SIGNALS).map_err(text)?;
            let registers = made.registers().map_err(text)?;
            for call in plan::of_thread(thread) {
                self.call_by(made, registers, &call)?;
            }
            self.renumber(thread, made.tid()).map_err(text)?;
            self.give_mutexes(image, thread.tid, made.tid()).map_err(text)?;
            threads.push((made, thread.mask));
        }
        for (address, bytes) in [(self.workplace.data(), DATA_BYTES), (self.workplace.start, CODE_BYTES)] {
            let call = Call {
                what: "munmap".to_string(),
                number: libc::SYS_munmap,
                arguments: vec![Argument::Number(address), Argument::Number(bytes)],
                expected: Expected::Success,
            };
            self.call_by(self.main, self.registers, &call)?;
        }
        for ((made, _), thread) in threads.iter().zip(&image.threads) {
            let words = thread.registers[..]
                .try_into()
                .map_err(|_| other("its registers are not those of this processor"))?;
            made.set_registers(&Registers(words).resumed_elsewhere()).map_err(text)?;
            made.set_extended(&thread.extended)
                .map_err(|_| other("the processor here has other registers than that of the image"))?;
        }
        Ok(Restored { pid: self.pid, threads })
    }

    /// Stores the new number of a thread where the C library keeps it. That is the address that the kernel
    /// clears when the thread ends.
    fn renumber(&self, thread: &Thread, tid: i32) -> io::Result<()> {
        if thread.cleared_at_end == 0 {
            return Ok(());
        }
        let mut word = [0; 4];
        self.memory.read(thread.cleared_at_end, &mut word)?;
        if i32::from_ne_bytes(word) == thread.tid {
            self.memory.write(thread.cleared_at_end, &tid.to_ne_bytes())?;
        }
        Ok(())
    }
}

impl Stage {
    /// Makes a thread the owner of the recursive mutexes of the C library and its loader that it held. They
    /// store the thread number of the owner. Without this, a thread that was in dlopen or dl_iterate_phdr
    /// could not unlock the loader.
    fn give_mutexes(&self, image: &Process, tid: i32, now: i32) -> io::Result<()> {
        let is_own = |area: &&Area| match &area.backing {
            Backing::File(file) => area.protection & WRITE != 0 && !area.shared && is_of_libc(&file.path),
            _ => false,
        };
        for area in image.areas.iter().filter(is_own) {
            let mut bytes = vec![0; (area.end - area.start) as usize];
            self.memory.read(area.start, &mut bytes)?;
            for owner in owners(&bytes, tid) {
                self.memory.write(area.start + owner as u64, &now.to_ne_bytes())?;
            }
        }
        Ok(())
    }
}

/// Returns true if a path is that of the C library or of its loader.
fn is_of_libc(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    [&b"ld-linux"[..], b"ld-2", b"libc.so", b"libc-2"].iter().any(|start| name.starts_with(start))
}

/// Returns the offsets of the words that hold `tid` as the owner of a locked recursive mutex of glibc. A
/// mutex has these words: lock (1, or 2 with waiters), count, owner, users (1), kind (1).
fn owners(bytes: &[u8], tid: i32) -> Vec<usize> {
    const OWNER: usize = 2;
    let words: Vec<i32> = bytes.as_chunks::<4>().0.iter().map(|word| i32::from_ne_bytes(*word)).collect();
    let is_held = |window: &[i32]| match window {
        [1 | 2, count, owner, 1, 1] => *count > 0 && *owner == tid,
        _ => false,
    };
    let held = words.windows(5).enumerate().filter(|(_, window)| is_held(window));
    held.map(|(place, _)| (place + OWNER) * 4).collect()
}

/// Returns the address of a `syscall` instruction in the code that the kernel maps, and the hash of that
/// code.
fn kernel_call(own: &[Area], memory: &Memory) -> Option<(u64, u128)> {
    let area = own.iter().find(|area| matches!(&area.backing, Backing::Kernel(name) if name == "[vdso]"))?;
    let mut bytes = vec![0; (area.end - area.start) as usize];
    memory.read(area.start, &mut bytes).ok()?;
    let at = bytes.windows(2).position(|pair| *pair == SYSCALL)?;
    Some((area.start + at as u64, xxh3_128(&bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recursive_mutexes_of_a_thread_are_found() {
        let check = |words: &[i32], expected: &[usize]| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            assert_eq!(owners(&bytes, 77), expected, "{words:?}");
        };
        check(&[0, 1, 1, 77, 1, 1, 0], &[12]);
        check(&[2, 3, 77, 1, 1, 2, 1, 77, 1, 1], &[8, 28]);
        check(&[1, 1, 78, 1, 1], &[]);
        check(&[0, 1, 77, 1, 1], &[]);
        check(&[1, 1, 77, 1, 0], &[]);
        check(&[], &[]);
        let paths = ["/lib64/ld-linux-x86-64.so.2", "/lib/libc.so.6", "/lib/libcrypt.so.1", "ld-linux"];
        assert_eq!(paths.map(|path| is_of_libc(path.as_bytes())), [true, true, false, true]);
    }
}
