//! Settings for checks of programs and for reports about them.

/// The error handler of MPI_COMM_WORLD and MPI_COMM_SELF, and of errors without an object, from the start
/// (MPI-5 section 9.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitialErrorHandler {
    /// MPI_ERRORS_ARE_FATAL.
    Fatal,
    /// MPI_ERRORS_ABORT.
    Abort,
    /// MPI_ERRORS_RETURN.
    Return,
}

impl InitialErrorHandler {
    /// Names of the info key `mpi_initial_errhandler` (MPI-5 section 11.8.4).
    pub const NAMES: [(&str, InitialErrorHandler); 3] = [
        ("mpi_errors_are_fatal", InitialErrorHandler::Fatal),
        ("mpi_errors_abort", InitialErrorHandler::Abort),
        ("mpi_errors_return", InitialErrorHandler::Return),
    ];

    pub(super) fn name(self) -> &'static str {
        InitialErrorHandler::NAMES.iter().find(|entry| entry.1 == self).map_or("", |entry| entry.0)
    }
}

/// Watch for hangs by the launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HangWatch {
    /// Time in milliseconds for which a rank waits before the launcher asks why; 0: it never asks.
    pub after_ms: u64,
    /// Whether a job is ended whose hang is proved.
    pub aborts: bool,
}

impl HangWatch {
    /// Watch of a job without settings.
    pub const DEFAULT: HangWatch = HangWatch { after_ms: 5000, aborts: false };
    /// Shortest and longest time in milliseconds: a tenth of a second and a day.
    const RANGE_MS: std::ops::RangeInclusive<u64> = 100..=86_400_000;

    /// Parses `5`, `0.5`, `off`, `abort` or `abort:20`.
    pub(super) fn parse(text: &str) -> Result<HangWatch, String> {
        let (aborts, seconds) = match text.split_once(':') {
            None if text == "off" => return Ok(HangWatch { after_ms: 0, aborts: false }),
            None if text == "abort" => return Ok(HangWatch { aborts: true, ..HangWatch::DEFAULT }),
            Some(("abort", seconds)) => (true, seconds),
            _ => (false, text),
        };
        let after_ms = milliseconds(seconds).filter(|time| HangWatch::RANGE_MS.contains(time));
        let wrong = || "seconds from 0.1 on, off, abort, or abort:SECONDS".to_string();
        Ok(HangWatch { after_ms: after_ms.ok_or_else(wrong)?, aborts })
    }
}

/// Parses seconds with up to three decimals: `5`, `0.25`. Ranks must not compute with floating point here:
/// the program may have unmasked its exceptions.
fn milliseconds(text: &str) -> Option<u64> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let are_digits = [whole, decimals].iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
    if !are_digits || !(1..=3).contains(&decimals.len()) {
        return None;
    }
    let scale = 10u64.pow(3 - decimals.len() as u32);
    whole.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(decimals.parse::<u64>().ok()? * scale)
}

impl std::fmt::Display for HangWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            HangWatch { after_ms: 0, .. } => f.write_str("off"),
            HangWatch { after_ms, aborts } => {
                let (seconds, rest) = (after_ms / 1000, after_ms % 1000);
                let decimals = format!("{rest:03}");
                let decimals = decimals.trim_end_matches('0');
                let point = if decimals.is_empty() { "" } else { "." };
                write!(f, "{}{seconds}{point}{decimals}", if aborts { "abort:" } else { "" })
            }
        }
    }
}

/// Settings for checks of programs and for reports about them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnosis {
    /// Compare the datatypes of sender and receiver (debugging).
    pub check_types: bool,
    /// Check also what takes time in proportion to the length of lists: whether received blocks overlap. What
    /// handles, pointers, counts, ranks, roots, tags, graphs are worth is always checked.
    pub check_arguments: bool,
    /// Whether a crashing rank prints its backtrace.
    pub backtrace: bool,
    /// Whether MPI_Finalize reports objects that were not freed.
    pub report_leaks: bool,
    /// The error handler that communicators have from the start.
    pub initial_error_handler: InitialErrorHandler,
    /// Watch for hangs by the launcher.
    pub hang: HangWatch,
    /// Whether the job prints counters of the traffic with other hosts.
    pub counters: bool,
    /// The file for the trace of all ranks; empty: none.
    pub trace: String,
    /// Most events of a rank in a trace.
    pub trace_events: u64,
    /// Range of counters that wrap around, for tests; 0: the full range.
    pub wrap_after: u64,
}

impl Default for Diagnosis {
    fn default() -> Diagnosis {
        Diagnosis {
            check_types: false,
            check_arguments: false,
            backtrace: true,
            report_leaks: false,
            initial_error_handler: InitialErrorHandler::Fatal,
            hang: HangWatch::DEFAULT,
            counters: false,
            trace: String::new(),
            trace_events: 100_000,
            wrap_after: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_is_what_it_shows() {
        for (text, after_ms, aborts) in [
            ("5", 5000, false),
            ("0.5", 500, false),
            ("off", 0, false),
            ("abort", 5000, true),
            ("abort:20", 20_000, true),
        ] {
            let watch = HangWatch::parse(text).unwrap();
            assert_eq!(watch, HangWatch { after_ms, aborts });
            assert_eq!(HangWatch::parse(&watch.to_string()), Ok(watch));
        }
        for wrong in ["", "0", "-1", "abort:", "on", "1e9", "nan"] {
            assert!(HangWatch::parse(wrong).is_err(), "{wrong}");
        }
    }
}
