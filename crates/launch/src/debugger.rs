//! The table of processes that debuggers of parallel programs read out of mpirun.
//!
//! Names and types are those of the MPIR Process Acquisition Interface (MPI Forum, version 1.0). A debugger
//! that starts mpirun sets `MPIR_being_debugged` first; the ranks then wait in MPI_Init until it has
//! attached to them. It stops in `MPIR_Breakpoint`, which is called when all ranks are started and the
//! table is complete. One that attaches to mpirun later finds the table as well.
//!
//! The node knows the ranks, but the process that a debugger has in hand is the supervisor: the table goes
//! from one to the other through a pipe, once.
//!
//! # Safety
//! The exported symbols are numbers and addresses of memory that is never given back; one thread writes them,
//! before it calls `MPIR_Breakpoint`.
#![allow(unsafe_code)]
#![allow(non_upper_case_globals, non_snake_case, reason = "debuggers look for these names")]

use std::ffi::{CString, c_char, c_int};
use std::hint::black_box;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

use serde::{Deserialize, Serialize};

/// A process of the job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its host.
    pub host: String,
    /// Its program.
    pub program: String,
    /// Its number there.
    pub pid: i32,
}

/// MPIR_PROCDESC.
#[repr(C)]
#[derive(Debug)]
pub struct Description {
    host_name: *mut c_char,
    executable_name: *mut c_char,
    pid: c_int,
}

const SPAWNED: i32 = 1;

/// One description a rank, in their order.
#[unsafe(no_mangle)]
pub static MPIR_proctable: AtomicPtr<Description> = AtomicPtr::new(null_mut());
/// How many.
#[unsafe(no_mangle)]
pub static MPIR_proctable_size: AtomicI32 = AtomicI32::new(0);
/// A debugger sets it that wants the ranks to wait.
#[unsafe(no_mangle)]
pub static MPIR_being_debugged: AtomicI32 = AtomicI32::new(0);
/// Why MPIR_Breakpoint is called.
#[unsafe(no_mangle)]
pub static MPIR_debug_state: AtomicI32 = AtomicI32::new(0);
/// mpirun is not a rank itself: that the name is there says so.
#[unsafe(no_mangle)]
pub static MPIR_i_am_starter: AtomicI32 = AtomicI32::new(1);
/// A debugger may attach to some of the ranks only: that the name is there says so.
#[unsafe(no_mangle)]
pub static MPIR_partial_attach_ok: AtomicI32 = AtomicI32::new(1);

/// Where a debugger stops.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn MPIR_Breakpoint() {
    black_box(MPIR_debug_state.load(Ordering::Relaxed));
}

/// Whether a debugger has started this process as one of its interface does.
pub fn is_here() -> bool {
    black_box((&MPIR_i_am_starter, &MPIR_partial_attach_ok));
    MPIR_being_debugged.load(Ordering::Relaxed) != 0
}

/// The table as bytes.
pub fn encode(table: &[Entry]) -> Vec<u8> {
    postcard::to_stdvec(table).expect("plain data")
}

/// Shows a debugger the table that [`encode`] has made; nothing happens if it is none.
pub fn publish(bytes: &[u8]) {
    let Ok(table) = postcard::from_bytes::<Vec<Entry>>(bytes) else { return };
    let text = |text: String| CString::new(text).unwrap_or_default().into_raw();
    let describe = |entry: Entry| Description {
        host_name: text(entry.host),
        executable_name: text(entry.program),
        pid: entry.pid,
    };
    let table: Vec<Description> = table.into_iter().map(describe).collect();
    // Until this process ends.
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
