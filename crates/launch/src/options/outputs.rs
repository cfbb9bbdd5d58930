//! Options for the input and output of ranks and for the display of a job. Their value is a list of words.

use super::row::Reading;
use crate::error::LaunchError;
use crate::request::Tagging;

/// Parses `--output LIST` in the syntax of Open MPI 5.
pub(super) fn output(reading: &mut Reading, text: &str) -> Result<(), LaunchError> {
    let request = &mut reading.request;
    let (text, modifiers) = match text.find("file=").or_else(|| text.find("dir=")) {
        Some(from) => match text[from..].find(':') {
            Some(at) => (&text[..from + at], &text[from + at + 1..]),
            None => (text, ""),
        },
        None => text.split_once(':').unwrap_or((text, "")),
    };
    for word in text.split(',') {
        match word.split_once('=').unwrap_or((word, "")) {
            ("tag" | "tag-detailed" | "tag-fullname", "") => request.tagging = Tagging::Stream,
            ("rank", "") => request.tagging = Tagging::Rank,
            ("timestamp", "") => request.timestamp = true,
            ("merge-stderr-to-stdout" | "merge", "") => request.output.is_merged = true,
            ("file", name) if !name.is_empty() => {
                let end = if name.contains("%r") { "" } else { ".%r" };
                request.output.out = Some(format!("{name}{end}.out"));
                request.output.err = Some(format!("{name}{end}.err"));
            }
            ("dir" | "directory", name) if !name.is_empty() => {
                request.output.out = Some(format!("{name}/rank.%r/stdout"));
                request.output.err = Some(format!("{name}/rank.%r/stderr"));
            }
            _ => {
                return Err(LaunchError::Invalid(
                    "tag, rank, timestamp, merge, file=NAME or dir=DIR is needed".to_string(),
                ));
            }
        }
    }
    for modifier in modifiers.split([':', ',']).filter(|modifier| !modifier.is_empty()) {
        match modifier {
            "nocopy" => request.output.is_shown = false,
            "copy" | "raw" => {}
            _ => return Err(LaunchError::Invalid(format!("modifier {modifier} is not supported"))),
        }
    }
    Ok(())
}

/// Parses `--outfile-pattern` and `--errfile-pattern`.
pub(super) fn pattern(text: &str) -> Result<String, LaunchError> {
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter == '%' && !letters.next().is_some_and(|which| "rghp%".contains(which)) {
            return Err(LaunchError::Invalid(
                "after % one of r (rank), h (host), p (number of the host), g (0), % is needed".to_string(),
            ));
        }
    }
    Ok(text.to_string())
}

/// Parses `--display LIST`.
pub(super) fn display(reading: &mut Reading, text: &str) -> Result<(), LaunchError> {
    let request = &mut reading.request;
    for word in text.split(',') {
        let (what, modifiers) = word.split_once(':').unwrap_or((word, ""));
        // Open MPI can add details to its tables. The tables of Tutti have one form.
        let known = ["", "parseable", "parsable", "physical", "hwtcpus", "devel"];
        if let Some(wrong) = modifiers.split(':').find(|modifier| !known.contains(modifier)) {
            return Err(LaunchError::Invalid(format!("modifier {wrong} is not supported")));
        }
        match what {
            "map" | "map-devel" => request.display.map = true,
            "alloc" | "allocation" => request.display.allocation = true,
            "bind" | "bindings" => request.report_bindings = true,
            _ => {
                return Err(LaunchError::Invalid(
                    "map, bind or allocation is needed (tutti info shows the machine)".to_string(),
                ));
            }
        }
    }
    Ok(())
}

/// Parses `--stdin RANK`.
pub(super) fn input(reading: &mut Reading, text: &str) -> Result<(), LaunchError> {
    reading.request.is_input_copied = text == "all";
    reading.request.input = Some(match text {
        "none" => None,
        "all" => Some(0),
        rank => Some(
            rank.parse().map_err(|_| LaunchError::Invalid("a rank, all or none is needed".to_string()))?,
        ),
    });
    Ok(())
}

/// Parses `--runtime-options LIST`.
pub(super) fn runtime(reading: &mut Reading, text: &str) -> Result<(), LaunchError> {
    for word in text.split([',', ':']) {
        let (name, value) = word.split_once('=').unwrap_or((word, "1"));
        const IGNORED: [&str; 5] =
            ["aggregate-help", "notifyerrors", "fwd-environment", "output-proctable", "max-restarts"];
        if IGNORED.contains(&name.to_ascii_lowercase().as_str()) {
            reading.ignore(&format!("--runtime-options {word}"), "a setting of Open MPI's own");
            continue;
        }
        let is_on = match value.to_ascii_lowercase().as_str() {
            "1" | "true" | "yes" => true,
            "0" | "false" | "no" => false,
            _ => return Err(LaunchError::Invalid(format!("{word}: true or false is needed"))),
        };
        match (name.to_ascii_lowercase().as_str(), is_on) {
            ("donotlaunch", _) => reading.request.is_dry = is_on,
            ("show-progress", _) => reading.request.timings = is_on,
            (
                "abort-nonzero-status"
                | "error-nonzero-status"
                | "report-state-on-timeout"
                | "get-stack-traces",
                true,
            )
            | ("recoverable" | "autorestart" | "continuous", false) => {}
            _ => return Err(LaunchError::Invalid(format!("{word}: a rank that fails ends the job"))),
        }
    }
    Ok(())
}
