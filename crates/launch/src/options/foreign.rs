//! Options of other launchers, from the table `spec/launchers.tsv`. Each is replaced by options of `mpirun`,
//! ignored with a reason, or refused. Parameters of Open MPI (`--mca NAME VALUE`) are handled in the same
//! way.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::Path;

use tutti_sys::files;

use super::row::Reading;
use crate::error::LaunchError;
use crate::generated::foreign::{OPTIONS, PARAMETERS};

/// Treatment of an option of another launcher.
#[derive(Clone, Copy, Debug)]
pub enum Verdict {
    /// Option that `mpirun` has under the same name.
    Same,
    /// Words that replace the option; `{1}` stands for its first value.
    Translated(&'static [&'static str]),
    /// Reason why the option has no effect.
    Ignored(&'static str),
    /// Reason of the refusal, and the alternative. The option would need a function that Tutti lacks.
    Refused(&'static str),
}

/// Option or parameter of another launcher.
#[derive(Debug)]
pub struct Foreign {
    /// Names of the option. For a parameter: `NAME`, `BEGIN*` or `NAME=VALUE`.
    pub names: &'static [&'static str],
    /// Names of its values, for messages.
    pub values: &'static [&'static str],
    /// Treatment of the option by `mpirun`.
    pub verdict: Verdict,
    /// Values with which the tests pass it.
    pub tries: &'static str,
}

/// Maximum bytes of a file of parameters.
const PARAMETER_FILE_BYTES: u64 = 1 << 20;

/// Returns the option of this name, if `mpirun` itself does not have it.
pub fn find(name: &str) -> Option<&'static Foreign> {
    OPTIONS.iter().find(|row| !matches!(row.verdict, Verdict::Same) && row.names.contains(&name))
}

/// Returns the names of options of other launchers, for hints.
pub fn names() -> impl Iterator<Item = &'static str> {
    OPTIONS.iter().flat_map(|row| row.names.iter().copied())
}

/// Applies the option `text` with these values. Words that replace it are put in front of `rest`.
///
/// # Errors
/// Fails with the reason of the refusal.
pub(super) fn take(
    reading: &mut Reading,
    row: &Foreign,
    text: &str,
    values: &[String],
    rest: &mut VecDeque<OsString>,
) -> Result<(), LaunchError> {
    match row.verdict {
        Verdict::Same => Ok(()),
        Verdict::Translated(words) => {
            put(words, values, rest);
            Ok(())
        }
        Verdict::Ignored(reason) => {
            reading.ignore([text, &values.join(" ")].join(" ").trim_end(), reason);
            Ok(())
        }
        Verdict::Refused(reason) => {
            Err(LaunchError::Invalid(format!("option {text} is not one of Tutti's: {reason}")))
        }
    }
}

fn put(words: &[&str], values: &[String], rest: &mut VecDeque<OsString>) {
    for word in words.iter().rev() {
        let numbered = (1..).zip(values);
        let word =
            numbered.fold(word.to_string(), |word, (at, value)| word.replace(&format!("{{{at}}}"), value));
        rest.push_front(word.into());
    }
}

/// Applies a parameter of Open MPI.
///
/// # Errors
/// Fails with the reason of the refusal.
pub(super) fn parameter(
    reading: &mut Reading,
    name: &str,
    value: &str,
    rest: &mut VecDeque<OsString>,
) -> Result<(), LaunchError> {
    let is_it = |pattern: &str| match (pattern.strip_suffix('*'), pattern.split_once('=')) {
        (Some(begin), _) => name.starts_with(begin),
        (None, Some((only, of))) => name == only && value == of,
        (None, None) => pattern == name,
    };
    let shown = format!("--mca {name} {value}");
    let row = PARAMETERS.iter().find(|row| row.names.iter().any(|pattern| is_it(pattern)));
    match row.map(|row| row.verdict) {
        Some(Verdict::Translated(words)) => {
            let is_switch = words.iter().all(|word| !word.contains("{1}"));
            if !is_switch || !["0", "false", "no"].contains(&value) {
                put(words, &[value.to_string()], rest);
            }
            Ok(())
        }
        Some(Verdict::Refused(reason)) => Err(LaunchError::Invalid(reason.to_string())),
        Some(Verdict::Ignored(reason)) => {
            reading.ignore(&shown, reason);
            Ok(())
        }
        Some(Verdict::Same) | None => {
            reading.ignore(
                &shown,
                "no parameter of Open MPI that is known here: tutti info lists Tutti's settings",
            );
            Ok(())
        }
    }
}

/// Applies the parameters in a file, which has a line `NAME = VALUE` for each.
///
/// # Errors
/// Fails if the file cannot be read, or if a parameter is refused.
pub(super) fn parameter_files(
    reading: &mut Reading,
    names: &str,
    rest: &mut VecDeque<OsString>,
) -> Result<(), LaunchError> {
    for file in names.split(',') {
        let bytes = files::read(Path::new(file), PARAMETER_FILE_BYTES)?;
        let Ok(text) = String::from_utf8(bytes) else {
            reading.ignore(&format!("file {file}"), "it does not hold parameters of Open MPI");
            continue;
        };
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (name, value) = line
                .split_once('=')
                .ok_or_else(|| LaunchError::Invalid(format!("{file}: {line}: not NAME = VALUE")))?;
            parameter(reading, name.trim(), value.trim(), rest)?;
        }
    }
    Ok(())
}
