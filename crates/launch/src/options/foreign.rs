//! Options of other launchers, from the table of `spec/launchers.tsv`: words of `mpirun`'s own in their
//! place, a line that says why they mean nothing, or a refusal. Parameters of Open MPI (`--mca NAME VALUE`)
//! are looked up the same way.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::Path;

use tutti_sys::files;

use super::row::Reading;
use crate::generated::foreign::{OPTIONS, PARAMETERS};

/// What becomes of an option.
#[derive(Clone, Copy, Debug)]
pub enum Verdict {
    /// `mpirun` has it under the same name.
    Same,
    /// These words stand in its place; `{1}` is its first value.
    Translated(&'static [&'static str]),
    /// It means nothing here, for this reason.
    Ignored(&'static str),
    /// It would have to do something that is not done here: the reason, and what to do instead.
    Refused(&'static str),
}

/// An option or a parameter of another launcher.
#[derive(Debug)]
pub struct Foreign {
    /// Its names. Of a parameter: `NAME`, `BEGIN*` or `NAME=VALUE`.
    pub names: &'static [&'static str],
    /// What its values are called.
    pub values: &'static [&'static str],
    /// What becomes of it.
    pub verdict: Verdict,
    /// Values with which the tests run it.
    pub tries: &'static str,
}

/// Longest file of parameters, in bytes.
const PARAMETER_FILE_BYTES: u64 = 1 << 20;

/// The option of this name that `mpirun` itself does not have.
pub fn find(name: &str) -> Option<&'static Foreign> {
    OPTIONS.iter().find(|row| !matches!(row.verdict, Verdict::Same) && row.names.contains(&name))
}

/// Names of options that another launcher has, for hints.
pub fn names() -> impl Iterator<Item = &'static str> {
    OPTIONS.iter().flat_map(|row| row.names.iter().copied())
}

/// What becomes of the option `text` with these values. Words that stand in its place go in front of `rest`.
///
/// # Errors
/// Fails with the reason of the refusal.
pub(super) fn take(
    reading: &mut Reading,
    row: &Foreign,
    text: &str,
    values: &[String],
    rest: &mut VecDeque<OsString>,
) -> Result<(), String> {
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
        Verdict::Refused(reason) => Err(format!("option {text} is not one of Tutti's: {reason}")),
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

/// A parameter of Open MPI.
///
/// # Errors
/// Fails with the reason of the refusal.
pub(super) fn parameter(
    reading: &mut Reading,
    name: &str,
    value: &str,
    rest: &mut VecDeque<OsString>,
) -> Result<(), String> {
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
        Some(Verdict::Refused(reason)) => Err(reason.to_string()),
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

/// Parameters in a file, a line each: `NAME = VALUE`.
///
/// # Errors
/// If it cannot be read, or a parameter is refused.
pub(super) fn parameter_files(
    reading: &mut Reading,
    names: &str,
    rest: &mut VecDeque<OsString>,
) -> Result<(), String> {
    for file in names.split(',') {
        let bytes = files::read(Path::new(file), PARAMETER_FILE_BYTES).map_err(|error| error.to_string())?;
        let Ok(text) = String::from_utf8(bytes) else {
            reading.ignore(&format!("file {file}"), "it does not hold parameters of Open MPI");
            continue;
        };
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (name, value) =
                line.split_once('=').ok_or_else(|| format!("{file}: {line}: not NAME = VALUE"))?;
            parameter(reading, name.trim(), value.trim(), rest)?;
        }
    }
    Ok(())
}
