//! Reports of errors. Every line names the process, so that `mpirun` can merge equal reports of several
//! ranks.

use tutti_sys::{backtrace, speaker};

use crate::boot;

/// Maximum number of the program's functions in a report: the caller, its caller, and further ones.
const MOST_CALLERS: usize = 4;

/// Returns the name of this process with which lines begin: `rank 3: `. It is empty for a process that no
/// launcher has started and that has not called MPI_Init.
pub fn prefix() -> String {
    let name = speaker::name().or_else(boot::name_before_joining);
    name.map_or(String::new(), |name| format!("{name}: "))
}

/// Joins the lines of a report, each with the name of this process.
pub fn join(lines: &[String]) -> String {
    let prefix = prefix();
    lines.iter().map(|line| format!("tutti: {prefix}{line}")).collect::<Vec<_>>().join("\n")
}

/// Returns the functions of the program that have called into the library, the innermost first.
pub fn callers() -> Vec<String> {
    backtrace::callers(MOST_CALLERS)
}
