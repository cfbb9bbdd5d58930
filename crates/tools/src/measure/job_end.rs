//! The beginning and the end of a job: start-up of many ranks, and the end after a rank was killed.

use crate::measure::library::Library;
use crate::measure::run::{self, End};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

/// Ranks of the job in which one is killed.
pub const VICTIM_RANKS: u32 = 4;

/// Milliseconds from the start of the launcher to its end, for init, barrier, finalize.
///
/// # Errors
/// Fails if the job failed.
pub fn start(library: &Library, program: &Path, ranks: u32, timeout: Duration) -> Result<f64, String> {
    let outcome = run::run(&mut library.command(ranks, program), timeout)?;
    match outcome.end {
        End::Exit(0) => Ok(outcome.elapsed.as_secs_f64() * 1e3),
        end => Err(format!("start of {ranks} ranks: {end:?} {}", last(&outcome.errors))),
    }
}

/// Milliseconds from the death of rank 1 to the end of the launcher.
///
/// # Errors
/// Fails if the job does not reach that point, or does not end.
pub fn killed(library: &Library, program: &Path, note: &Path, timeout: Duration) -> Result<f64, String> {
    let _ = std::fs::remove_file(note);
    let outcome = run::run(library.command(VICTIM_RANKS, program).arg(note), timeout)?;
    if outcome.end == End::TimedOut {
        return Err("the job went on after a rank was killed".to_string());
    }
    let died = std::fs::read_to_string(note)
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .map(|nanoseconds| UNIX_EPOCH + Duration::from_nanos(nanoseconds))
        .ok_or_else(|| format!("no rank was killed: {}", last(&outcome.errors)))?;
    let after = outcome.ended.duration_since(died).map_err(|_| "the clock went backwards".to_string())?;
    Ok(after.as_secs_f64() * 1e3)
}

/// Returns the last line that is not empty.
pub fn last(lines: &[String]) -> &str {
    lines.iter().rev().map(|line| line.trim()).find(|line| !line.is_empty()).unwrap_or("")
}
