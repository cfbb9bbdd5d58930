//! Values of options: numbers, times, signals, names.

use std::ffi::OsString;
use std::time::Duration;

use super::row::Reading;
use crate::error::LaunchError;

/// Maximum number of ranks of a job: far above the capacity of one machine, and below an overflow.
pub const MAXIMUM_RANKS: u32 = 65536;

pub(super) fn count(text: &str) -> Result<u32, LaunchError> {
    let number = text.parse().ok().filter(|number| (1..=MAXIMUM_RANKS).contains(number));
    number.ok_or_else(|| LaunchError::Invalid(format!("a number from 1 to {MAXIMUM_RANKS} is needed")))
}

/// Parses a time in seconds, or with a unit s, m or h.
pub(super) fn time(text: &str) -> Result<Duration, LaunchError> {
    let wrong = || LaunchError::Invalid("a time above 0 is needed, as 90s, 10m, 2h".to_string());
    let (number, unit) = match text.char_indices().next_back() {
        Some((at, 's')) => (&text[..at], 1.0),
        Some((at, 'm')) => (&text[..at], 60.0),
        Some((at, 'h')) => (&text[..at], 3600.0),
        _ => (text, 1.0),
    };
    let seconds = number.parse::<f64>().map_err(|_| wrong())? * unit;
    Duration::try_from_secs_f64(seconds).ok().filter(|time| !time.is_zero()).ok_or_else(wrong)
}

pub(super) fn absolute(path: &str) -> Result<OsString, LaunchError> {
    std::path::absolute(path).map(OsString::from).map_err(LaunchError::from)
}

/// Signals that may request a checkpoint from mpirun.
const SIGNALS: &[(&str, i32)] = &[
    ("HUP", libc::SIGHUP),
    ("INT", libc::SIGINT),
    ("QUIT", libc::SIGQUIT),
    ("USR1", libc::SIGUSR1),
    ("USR2", libc::SIGUSR2),
    ("TERM", libc::SIGTERM),
];

pub(super) fn signal(text: &str) -> Result<i32, LaunchError> {
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let known = SIGNALS.iter().find(|(known, number)| *known == name || number.to_string() == name);
    known.map(|(_, number)| *number).ok_or_else(|| {
        let names: Vec<&str> = SIGNALS.iter().map(|(name, _)| *name).collect();
        LaunchError::Invalid(format!("one of {} is needed", names.join(", ")))
    })
}

pub(super) fn variable(name: &str, value: &str) -> Result<(String, String), LaunchError> {
    if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
        return Err(LaunchError::Invalid("not the name of a variable".to_string()));
    }
    Ok((name.to_string(), value.to_string()))
}

pub(super) fn export(reading: &mut Reading, values: &[String]) -> Result<(), LaunchError> {
    match values[0].split_once('=') {
        Some((name, value)) => reading.program.environment.push(variable(name, value)?),
        None => reading.program.exported.push(variable(&values[0], "")?.0),
    }
    Ok(())
}

/// Parses names of variables, each of which may end with `*`.
pub(super) fn names(list: &str) -> Result<Vec<String>, LaunchError> {
    let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
    names.map(|name| variable(name, "").map(|(name, _)| name)).collect()
}

/// Parses a name, which must not be empty.
pub(super) fn some(text: &str) -> Result<String, LaunchError> {
    if text.trim().is_empty() {
        Err(LaunchError::Invalid("it is empty".to_string()))
    } else {
        Ok(text.to_string())
    }
}
