//! Call chain of a thread in the program's language, if that is Python. The interpreter has a function that
//! writes the chain of a thread for its fault handler; it needs no lock of the interpreter. Interpreters
//! without that function are left alone.
//!
//! # Safety
//! The names have had these signatures since Python 3.7. The chain is that of the calling thread, which is
//! inside a C function and does not change it meanwhile.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int, c_void};
use std::io::Read;
use std::mem::transmute;
use std::os::fd::{AsFd, AsRawFd};

use crate::event;

/// Longest text that is read, in bytes.
const MOST_BYTES: usize = 16 << 10;

type ThisThread = unsafe extern "C" fn() -> *mut c_void;
type DumpTraceback = unsafe extern "C" fn(c_int, *mut c_void);

/// Returns up to `most` functions of this thread's Python program, the innermost first, as `solve (a.py:7)`.
/// Returns an empty list for a thread that runs no Python.
pub fn callers(most: usize) -> Vec<String> {
    let Some(text) = chain() else { return Vec::new() };
    parse(&text).take(most).collect()
}

/// Returns the text of the interpreter for this thread.
fn chain() -> Option<String> {
    let this_thread = find(c"PyGILState_GetThisThreadState")?;
    let dump = find(c"_Py_DumpTraceback")?;
    let (mut reader, writer) = event::pipe().ok()?;
    // A text that is longer than the pipe would never be read.
    event::set_nonblocking(writer.as_fd()).ok()?;
    // SAFETY: see the module's Safety section. The interpreter keeps the state of a thread while the thread
    // is inside a function that it has called.
    unsafe {
        let thread = transmute::<*mut c_void, ThisThread>(this_thread)();
        if thread.is_null() {
            return None;
        }
        transmute::<*mut c_void, DumpTraceback>(dump)(writer.as_raw_fd(), thread);
    }
    drop(writer);
    let mut text = vec![0; MOST_BYTES];
    let length = reader.read(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text[..length]).into_owned())
}

fn find(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: a terminated name.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!address.is_null()).then_some(address)
}

/// Reads lines like `  File "/home/me/a.py", line 7 in solve`.
fn parse(text: &str) -> impl Iterator<Item = String> {
    text.lines().filter_map(|line| {
        let (file, rest) = line.trim_start().strip_prefix("File \"")?.split_once("\", line ")?;
        let (number, function) = rest.split_once(" in ")?;
        Some(format!("{function} ({file}:{number})"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_interpreter_are_read() {
        let text = "Stack (most recent call first):\n  File \"/x/a.py\", line 7 in solve\n  File \"b.py\", line 9 in <module>\n";
        assert_eq!(parse(text).collect::<Vec<_>>(), ["solve (/x/a.py:7)", "<module> (b.py:9)"]);
        assert!(callers(2).is_empty(), "no Python here");
    }
}
