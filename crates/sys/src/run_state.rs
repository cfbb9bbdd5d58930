//! State of another process in the scheduler: whether it runs, is stopped, or is traced by a debugger.

use std::fs;

/// State of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunState {
    /// The process runs or sleeps.
    Active,
    /// A signal has stopped the process (SIGSTOP, a terminal).
    Stopped,
    /// A debugger is attached to the process.
    Traced,
    /// The process does not exist, or has ended.
    Ended,
}

/// Returns the state of a process, from /proc.
pub fn run_state(pid: i32) -> RunState {
    let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else { return RunState::Ended };
    parse(&status)
}

fn parse(status: &str) -> RunState {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let is_traced = field("TracerPid:").is_some_and(|tracer| tracer != "0");
    match field("State:").and_then(|state| state.chars().next()) {
        Some('t') => RunState::Traced,
        _ if is_traced => RunState::Traced,
        Some('T') => RunState::Stopped,
        Some('Z' | 'X') => RunState::Ended,
        _ => RunState::Active,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_those_of_the_kernel() {
        let check = |state: &str, tracer: u32, expected| {
            assert_eq!(parse(&format!("Name:\tx\nState:\t{state}\nTracerPid:\t{tracer}\n")), expected);
        };
        check("S (sleeping)", 0, RunState::Active);
        check("T (stopped)", 0, RunState::Stopped);
        check("t (tracing stop)", 7, RunState::Traced);
        check("S (sleeping)", 7, RunState::Traced);
        check("Z (zombie)", 0, RunState::Ended);
        assert_eq!(run_state(std::process::id() as i32), RunState::Active);
        assert_eq!(run_state(-1), RunState::Ended);
    }
}
