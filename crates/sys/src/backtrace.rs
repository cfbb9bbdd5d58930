//! The call chain of a thread: functions, files and lines. Reports of crashes and of fatal errors show it.
//!
//! The standard library walks the stack and looks up names and lines. Its text with addresses is parsed here,
//! as its frames cannot be read otherwise. A return address points behind the call, so the library looks up
//! the byte before each address. Where a signal interrupted a function, that is one byte too early, which at
//! -O1 is often another line: [`interrupted`] looks such an address up exactly.
//!
//! # Safety
//! The caller vouches for the context of a signal handler. The stack of an interrupted function is read only
//! where it is mapped.
#![allow(unsafe_code)]

use std::backtrace::Backtrace;
use std::ffi::c_void;
use std::fmt;

use crate::host_memory;
use crate::this_process::loaded_at;

/// One function of a call chain. A function that the compiler inlined has the address of its caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The return address into the function, or the address at which it was interrupted.
    address: usize,
    /// Name of the function, if the program has it.
    name: Option<String>,
    /// File, line and column, if the program was compiled with them.
    place: Option<String>,
}

impl fmt::Display for Frame {
    /// Shows `main at ./a.c:7:5`, `main` or `libfoo.so.1+0x1234`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => f.write_str(name)?,
            None => f.write_str(&object(self.address))?,
        }
        self.place.iter().try_for_each(|place| write!(f, " at {place}"))
    }
}

impl Frame {
    /// Returns the name of the function; empty if it is not known.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    /// Returns `main (a.c:7)`, without a line `main (a.out+0x1234)`.
    fn brief(&self) -> String {
        match (&self.name, &self.place) {
            (Some(name), Some(place)) => format!("{name} ({})", without_column(place)),
            (Some(name), None) => format!("{name} ({})", object(self.address)),
            (None, _) => object(self.address),
        }
    }
}

/// Returns the call chain of this thread, the innermost function first.
pub fn capture() -> Vec<Frame> {
    let mut frames = parse(&format!("{:#}", Backtrace::force_capture()));
    let is_start = |frame: &Frame| frame.name().starts_with("__libc_start") || frame.name() == "start_thread";
    frames.truncate(frames.iter().position(is_start).unwrap_or(frames.len()));
    frames
}

/// Returns up to `most` functions of the program that led into this library, the innermost first. Only
/// functions whose file and line are known are listed. If there are none, the list has the innermost
/// function alone.
pub fn callers(most: usize) -> Vec<String> {
    program_call(most).1
}

/// Returns the MPI function that the program has called, if its name is known, and the functions of the
/// program as [`callers`] does.
pub fn program_call(most: usize) -> (Option<String>, Vec<String>) {
    let own = loaded_at(callers as fn(usize) -> Vec<String> as usize);
    let is_of_mpi = |frame: &&Frame| {
        loaded_at(frame.address).is_none_or(|loaded| {
            own.as_ref().is_some_and(|own| own.base == loaded.base) || loaded.name().starts_with("libmpi")
        })
    };
    let frames = capture();
    let inside = frames.iter().take_while(is_of_mpi).count();
    let (inside, outside) = frames.split_at(inside);
    let is_function =
        |frame: &&Frame| ["MPI_", "PMPI_", "mpi_"].iter().any(|start| frame.name().starts_with(start));
    let function = inside.iter().rev().find(is_function).map(Frame::name);
    // The forms with large counts are the same functions.
    let function = function.map(|name| name.strip_suffix("_c").unwrap_or(name).to_string());
    (function, shown(outside, most))
}

/// Returns the frames that are shown to users: those whose file and line are known, or the first one.
fn shown(outside: &[Frame], most: usize) -> Vec<String> {
    let known = outside.iter().filter(|frame| frame.place.is_some());
    let shown: Vec<String> = known.map(|frame| frame.brief()).take(most).collect();
    if shown.is_empty() { outside.first().map(Frame::brief).into_iter().collect() } else { shown }
}

/// Returns the call chain that a signal interrupted; the interrupted function is the first. `None` where the
/// layout of the context is not known, or the stack cannot be walked.
///
/// # Safety
/// `context` is the one that this thread's signal handler was given, and nothing else uses it.
pub unsafe fn interrupted(context: *mut c_void) -> Option<Vec<Frame>> {
    // SAFETY: the caller's promise.
    let registers = unsafe { registers_of(context) }?;
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    // SAFETY: the places lie in the context, which the caller vouches for.
    unsafe {
        let at = *registers.program_counter;
        if !host_memory::is_code(&maps, at as u64) {
            // The call led to an address that is no code. The calling function is the one to show.
            registers.return_to_caller(&maps)?;
            return chain_from(capture(), *registers.program_counter);
        }
        let chain = chain_from(capture(), at)?;
        *registers.program_counter = at + 1;
        let exact = capture().into_iter().filter(|frame| frame.address == at + 1).collect::<Vec<_>>();
        *registers.program_counter = at;
        if exact.is_empty() {
            return Some(chain);
        }
        let callers = chain.into_iter().skip_while(|frame| frame.address == at);
        Some(exact.into_iter().chain(callers).collect())
    }
}

/// Returns the part of a chain that begins at `address`.
fn chain_from(mut chain: Vec<Frame>, address: usize) -> Option<Vec<Frame>> {
    let first = chain.iter().position(|frame| frame.address == address)?;
    Some(chain.split_off(first))
}

/// Pointers to registers in the context of a signal handler.
struct Registers {
    program_counter: *mut usize,
    /// The stack pointer, on processors whose calls leave the return address on the stack.
    stack_pointer: Option<*mut usize>,
    /// The register with the return address, on processors that keep it in a register.
    link: Option<*mut usize>,
}

impl Registers {
    /// Undoes the call that has just been made, so that the caller is the current function.
    ///
    /// # Safety
    /// The places are those of a context.
    unsafe fn return_to_caller(&self, maps: &str) -> Option<()> {
        // SAFETY: the caller's promise; the stack is read where it is mapped.
        unsafe {
            if let Some(link) = self.link {
                *self.program_counter = *link;
                return Some(());
            }
            let stack_pointer = self.stack_pointer?;
            let top = *stack_pointer;
            host_memory::complaint_in(maps, top as u64, false).is_none().then_some(())?;
            *self.program_counter = (top as *const usize).read_unaligned();
            *stack_pointer = top + size_of::<usize>();
            Some(())
        }
    }
}

/// # Safety
/// `context` is that of a signal handler.
#[cfg(target_arch = "x86_64")]
unsafe fn registers_of(context: *mut c_void) -> Option<Registers> {
    let context = context.cast::<libc::ucontext_t>();
    // SAFETY: the caller's promise; registers have the width of usize.
    let register = |number: libc::c_int| unsafe {
        (&raw mut (*context).uc_mcontext.gregs[number as usize]).cast::<usize>()
    };
    Some(Registers {
        program_counter: register(libc::REG_RIP),
        stack_pointer: Some(register(libc::REG_RSP)),
        link: None,
    })
}

/// # Safety
/// `context` is that of a signal handler.
#[cfg(target_arch = "aarch64")]
unsafe fn registers_of(context: *mut c_void) -> Option<Registers> {
    const LINK: usize = 30;
    let context = context.cast::<libc::ucontext_t>();
    // SAFETY: the caller's promise; registers have the width of usize.
    unsafe {
        Some(Registers {
            program_counter: (&raw mut (*context).uc_mcontext.pc).cast(),
            stack_pointer: None,
            link: Some((&raw mut (*context).uc_mcontext.regs[LINK]).cast()),
        })
    }
}

/// # Safety
/// None is needed.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
unsafe fn registers_of(_context: *mut c_void) -> Option<Registers> {
    None
}

/// Returns `libfoo.so.1+0x1234` for an address.
fn object(address: usize) -> String {
    match loaded_at(address) {
        Some(loaded) => format!("{}+{:#x}", loaded.name(), address.saturating_sub(loaded.base)),
        None => format!("{address:#x}"),
    }
}

/// Removes the column of `./a.c:7:5`.
fn without_column(place: &str) -> &str {
    let ends_in_number = |text: &str| text.rsplit(':').next().is_some_and(|end| end.parse::<u32>().is_ok());
    match place.rsplit_once(':') {
        Some((before, _)) if ends_in_number(place) && ends_in_number(before) => before,
        _ => place,
    }
}

/// Reads the standard library's text with addresses.
fn parse(text: &str) -> Vec<Frame> {
    let mut frames: Vec<Frame> = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(place) = line.strip_prefix("at ") {
            frames.last_mut().into_iter().for_each(|frame| frame.place = Some(place.to_string()));
            continue;
        }
        let numbered = line.split_once(": ").filter(|(number, _)| number.parse::<u32>().is_ok());
        let addressed =
            numbered.and_then(|(_, rest)| rest.trim_start().strip_prefix("0x")?.split_once(" - "));
        let (address, name) = match addressed {
            Some((address, name)) => (usize::from_str_radix(address.trim(), 16).unwrap_or(0), name),
            // An inlined function: it has the address of the line before.
            None => (frames.last().map_or(0, |frame| frame.address), line),
        };
        let name = (name != "<unknown>").then(|| without_hash(name).to_string());
        frames.push(Frame { address, name, place: None });
    }
    frames
}

/// Removes the hash that the compiler appends to names of Rust functions.
fn without_hash(name: &str) -> &str {
    match name.rsplit_once("::h") {
        Some((before, hash)) if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            before
        }
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_the_standard_library_is_read() {
        let text = "   0:           0x4011d6 - tutti_sys::backtrace::capture::h0123456789abcdef\n                               at /x/backtrace.rs:7:5\n   \
                    1:     0x7f00deadbeef - <unknown>\n   2:     0x55d0c0a1b2c3 - inner\n                               at /tmp/a.c:7:5\n                           \
                    main\n                               at /tmp/a.c:9\n";
        let frame = |address, name: &str, place: &str| Frame {
            address,
            name: Some(name.to_string()).filter(|name| !name.is_empty()),
            place: Some(place.to_string()).filter(|place| !place.is_empty()),
        };
        let expected = [
            frame(0x4011d6, "tutti_sys::backtrace::capture", "/x/backtrace.rs:7:5"),
            frame(0x7f00_dead_beef, "", ""),
            frame(0x55d0_c0a1_b2c3, "inner", "/tmp/a.c:7:5"),
            frame(0x55d0_c0a1_b2c3, "main", "/tmp/a.c:9"),
        ];
        let frames = parse(text);
        assert_eq!(frames, expected);
        assert_eq!(frames[2].to_string(), "inner at /tmp/a.c:7:5");
        assert_eq!(
            (frames[2].brief(), frames[3].brief()),
            ("inner (/tmp/a.c:7)".into(), "main (/tmp/a.c:9)".into())
        );
        assert_eq!(chain_from(frames, 0x55d0_c0a1_b2c3).map(|chain| chain.len()), Some(2));
    }

    #[test]
    fn this_thread_has_a_chain() {
        let frames = capture();
        assert!(frames.iter().any(|frame| frame.name().contains("this_thread_has_a_chain")), "{frames:?}");
        // The whole test is in one file, so no caller is outside.
        assert!(callers(4).iter().all(|caller| !caller.contains("this_thread_has_a_chain")));
    }
}
