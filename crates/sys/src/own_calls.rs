//! Detection of code that makes system calls by an instruction of its own, such as run-time systems of
//! languages and some allocators. No table of functions can redirect it ([`crate::interpose`]).
//!
//! The code of loaded objects is searched for the instruction after one that loads a number into its
//! register. Code that computes the number, or that is generated while the program runs, is not found.
//!
//! # Safety
//! The code of an object is read while the loader keeps it mapped ([`interpose::each_object`]).

use std::sync::{Mutex, PoisonError};

use crate::interpose;

/// Maximum length of code that is searched, in bytes. Larger objects would have to be read from files that
/// the program may never touch.
const MOST_BYTES: usize = 64 << 20;
/// Maximum number of bytes between the instruction that sets the number and the system call.
const DISTANCE: usize = 64;
const PAGE: usize = 4096;
/// Prefixes of the names of sanitizers. Their calls concern their own memory, and children that execute
/// another program.
const SANITIZERS: [&[u8]; 4] = [b"libasan", b"libtsan", b"liblsan", b"libubsan"];

/// Code that was searched so far.
struct Seen {
    /// Addresses of the first bytes of the searched segments, sorted.
    starts: Vec<usize>,
    has_any: bool,
}

static SEEN: Mutex<Seen> = Mutex::new(Seen { starts: Vec::new(), has_any: false });

/// Returns true if code of this process outside the C library makes any of these system calls directly.
/// Searches the objects that were loaded since the last call.
pub fn are_there(numbers: &[i64]) -> bool {
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    interpose::each_object(|file, code| {
        if SANITIZERS.iter().any(|name| file.starts_with(name)) {
            return;
        }
        let start = code.as_ptr().addr();
        if let Err(place) = seen.starts.binary_search(&start) {
            seen.starts.insert(place, start);
            seen.has_any |= code.len() <= MOST_BYTES && makes_any(code, numbers);
        }
    });
    seen.has_any
}

/// Returns true if the code makes any of these calls.
fn makes_any(code: &[u8], numbers: &[i64]) -> bool {
    let mut at = 0;
    // The search goes page by page; the first byte of a page may belong to an instruction that began on the
    // page before.
    while at < code.len() {
        let end = (at + PAGE).min(code.len());
        let from = at.saturating_sub(1);
        let calls = code[from..end].windows(2).enumerate().filter(|(_, two)| two == b"\x0f\x05");
        for (place, _) in calls {
            let before = &code[(from + place).saturating_sub(DISTANCE)..from + place];
            if number_in(before).is_some_and(|number| numbers.contains(&number)) {
                return true;
            }
        }
        at = end;
    }
    false
}

/// Returns the number that the last such instruction loads into the register: `mov eax, N` or `mov rax, N`.
fn number_in(code: &[u8]) -> Option<i64> {
    const MOST: u32 = 1024;
    let number = |at: usize| {
        let bytes = code.get(at..at + 4)?;
        let number = u32::from_le_bytes(bytes.try_into().expect("four bytes"));
        (number < MOST).then_some(i64::from(number))
    };
    (0..code.len()).rev().find_map(|at| match code[at..] {
        [0xb8, ..] => number(at + 1),
        [0x48, 0xc7, 0xc0, ..] => number(at + 3),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(code: &[u8], expected: bool) {
        assert_eq!(makes_any(code, &[57, 28]), expected, "{code:x?}");
    }

    #[test]
    fn calls_are_found_by_their_number() {
        check(b"\xb8\x39\x00\x00\x00\x0f\x05\xc3", true);
        check(b"\x48\xc7\xc0\x1c\x00\x00\x00\x48\x89\xf7\x0f\x05", true);
        check(b"\xb8\x39\x00\x00\x00\xc3\xb8\x01\x00\x00\x00\x0f\x05", false);
        check(b"\xb8\x39\x00\x00\x00\xc3", false);
        check(b"\x0f\x05", false);
        check(b"", false);
        let mut long = vec![0x90; 3 * PAGE];
        long[2 * PAGE - 3..2 * PAGE + 4].copy_from_slice(b"\xb8\x39\x00\x00\x00\x0f\x05");
        check(&long, true);
        long[2 * PAGE - 6..2 * PAGE + 1].copy_from_slice(b"\xb8\x39\x00\x00\x00\x0f\x05");
        check(&long[..2 * PAGE + 1], true);
    }

    #[test]
    fn this_process_is_looked_through() {
        assert!(!are_there(&[1023]));
        assert!(!are_there(&[1023]));
    }
}
