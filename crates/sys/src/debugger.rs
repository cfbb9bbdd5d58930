//! The gate at which a rank of `mpirun --debug` waits for its debugger.
//!
//! The gate's name is that of the MPIR Process Acquisition Interface (MPI Forum, version 1.0, section 8). A
//! debugger of parallel programs finds the process in the launcher's table and sets the variable. Any other
//! debugger opens the gate by attaching: the kernel reports the number of the tracing process.

use std::ffi::c_int;
use std::fs;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;
use std::time::Duration;

/// Environment variable that is set for ranks that must wait for a debugger.
pub const ENV_GATE: &str = "TUTTI_JOB_GATE";

/// Time between two checks of the gate.
const PAUSE: Duration = Duration::from_millis(20);

/// The gate: open when it is not 0. A debugger writes the variable.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "debuggers look for this name")]
pub static MPIR_debug_gate: AtomicI32 = AtomicI32::new(0);
const _: () = assert!(size_of::<AtomicI32>() == size_of::<c_int>());

/// Waits until the gate is opened or a debugger is attached. Returns at once if `ENV_GATE` is not set.
pub fn wait_at_gate() {
    if std::env::var_os(ENV_GATE).is_none() {
        return;
    }
    while MPIR_debug_gate.load(Ordering::Relaxed) == 0 && !is_traced() {
        thread::sleep(PAUSE);
    }
}

/// Returns true if a debugger is attached to this process.
fn is_traced() -> bool {
    tracer(&fs::read_to_string("/proc/self/status").unwrap_or_default()) != 0
}

/// Returns the number of the process that traces the described process (proc_pid_status(5)), or 0 if there
/// is none.
fn tracer(status: &str) -> u32 {
    let line = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_traces_is_read() {
        assert_eq!(tracer("Name:\tsolver\nPid:\t7\nTracerPid:\t42\n"), 42);
        assert_eq!(tracer("TracerPid:\t0\n"), 0);
        assert_eq!(tracer(""), 0);
    }
}
