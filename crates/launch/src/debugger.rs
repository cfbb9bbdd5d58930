//! Table of processes that debuggers of parallel programs read from the memory of mpirun.
//!
//! Names and types are those of the MPIR Process Acquisition Interface (MPI Forum, version 1.0). A debugger
//! that starts mpirun sets `MPIR_being_debugged` first. The ranks then wait in MPI_Init until it has attached
//! to them. `MPIR_Breakpoint` is called when all ranks are started and the table is complete; the debugger
//! stops there. A debugger that attaches to mpirun later finds the table too.
//!
//! The node knows the ranks, but a debugger controls the supervisor. Therefore the table is sent once from
//! the node to the supervisor, through a pipe.
//!
//! # Safety
//! The exported symbols are numbers, and addresses of memory that is never freed. One thread writes them
//! before it calls `MPIR_Breakpoint`.
#![allow(unsafe_code)]
#![allow(non_upper_case_globals, non_snake_case, reason = "debuggers look for these names")]

use std::ffi::{CString, c_char, c_int};
use std::hint::black_box;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

use serde::{Deserialize, Serialize};

/// Process of the job in the debugger's table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Name of the process's host.
    pub host: String,
    /// Name of the program's file.
    pub program: String,
    /// Process number on its host.
    pub pid: i32,
}

/// Table entry in the layout of MPIR_PROCDESC.
#[repr(C)]
#[derive(Debug)]
pub struct Description {
    host_name: *mut c_char,
    executable_name: *mut c_char,
    pid: c_int,
}

const SPAWNED: i32 = 1;

/// Table with an entry for each rank, in the order of ranks.
#[unsafe(no_mangle)]
pub static MPIR_proctable: AtomicPtr<Description> = AtomicPtr::new(null_mut());
/// Number of entries in the table.
#[unsafe(no_mangle)]
pub static MPIR_proctable_size: AtomicI32 = AtomicI32::new(0);
/// Nonzero if a debugger wants the ranks to wait. The debugger sets it.
#[unsafe(no_mangle)]
pub static MPIR_being_debugged: AtomicI32 = AtomicI32::new(0);
/// Reason of the call of MPIR_Breakpoint.
#[unsafe(no_mangle)]
pub static MPIR_debug_state: AtomicI32 = AtomicI32::new(0);
/// Marks mpirun as a process that is not a rank. Its presence counts, not its value.
#[unsafe(no_mangle)]
pub static MPIR_i_am_starter: AtomicI32 = AtomicI32::new(1);
/// Permits debuggers to attach to some of the ranks only. Its presence counts, not its value.
#[unsafe(no_mangle)]
pub static MPIR_partial_attach_ok: AtomicI32 = AtomicI32::new(1);

/// Does nothing. A debugger sets a breakpoint on it.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn MPIR_Breakpoint() {
    black_box(MPIR_debug_state.load(Ordering::Relaxed));
}

/// Returns true if a debugger that uses this interface has started this process.
pub fn is_here() -> bool {
    black_box((&MPIR_i_am_starter, &MPIR_partial_attach_ok));
    MPIR_being_debugged.load(Ordering::Relaxed) != 0
}

/// Returns the table as bytes, for the pipe.
pub fn encode(table: &[Entry]) -> Vec<u8> {
    postcard::to_stdvec(table).expect("plain data")
}

/// Publishes the table in `bytes`, which [`encode`] returned, to a debugger. Ignores malformed bytes.
pub fn publish(bytes: &[u8]) {
    let Ok(table) = postcard::from_bytes::<Vec<Entry>>(bytes) else { return };
    let text = |text: String| CString::new(text).unwrap_or_default().into_raw();
    let describe = |entry: Entry| Description {
        host_name: text(entry.host),
        executable_name: text(entry.program),
        pid: entry.pid,
    };
    let table: Vec<Description> = table.into_iter().map(describe).collect();
    // The table is needed until this process ends.
    let table = table.leak();
    MPIR_proctable.store(table.as_mut_ptr(), Ordering::Relaxed);
    MPIR_proctable_size.store(table.len() as i32, Ordering::Relaxed);
    MPIR_debug_state.store(SPAWNED, Ordering::Release);
    MPIR_Breakpoint();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    #[test]
    fn a_table_is_read_as_a_debugger_does() {
        publish(b"");
        assert_eq!(MPIR_debug_state.load(Ordering::Relaxed), 0);
        let entry = |host: &str, pid| Entry { host: host.into(), program: "./solver".into(), pid };
        publish(&encode(&[entry("node0", 7), entry("node1", 9)]));
        assert_eq!(
            (MPIR_proctable_size.load(Ordering::Relaxed), MPIR_debug_state.load(Ordering::Relaxed)),
            (2, SPAWNED)
        );
        // SAFETY: `publish` has stored the address of two descriptions with terminated texts.
        let (host, program, pid) = unsafe {
            let second = &*MPIR_proctable.load(Ordering::Relaxed).add(1);
            (CStr::from_ptr(second.host_name), CStr::from_ptr(second.executable_name), second.pid)
        };
        assert_eq!((host, program, pid), (c"node1", c"./solver", 9));
    }
}
