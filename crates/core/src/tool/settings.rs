//! Settings as control variables (MPI-5 section 15.3.6).
//!
//! Values are fixed when the process starts. Until MPI_Init or the first session they can be written, with
//! the same effect as the environment. TUTTI_TUNE can be written later too. TUTTI_CHECKPOINT can be written
//! only later: it is not a setting, but a request to the launcher.

use std::sync::{Mutex, PoisonError};

use tutti_base::config::{CONTROL_VARIABLES, Checkpoint, Config, ConfigError, ValueKind};
use tutti_sys::spawning;

use super::Names;
use crate::collective::hints;

/// Type of a control variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// Non-negative count or size.
    Count,
    /// Number with a sign.
    Number,
    /// Integer that stands for one of these words.
    Word(Names),
    /// Text of any form.
    Text,
}

/// Setting that can be written at any time, see [`hints::set_tune`].
const TUNE: &str = "TUTTI_TUNE";

/// Setting that requests a checkpoint while the process runs ([`keep`]).
const CHECKPOINT: &str = "TUTTI_CHECKPOINT";

/// Names and values that were written so far.
static WRITTEN: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());

fn written() -> Vec<(String, String)> {
    WRITTEN.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Returns the settings for the start of a process: those of the environment, then those written by a tool.
///
/// # Errors
/// An error for a wrong value or an unknown setting.
pub fn at_start() -> Result<Config, ConfigError> {
    Config::from_variables(std::env::vars_os(), written().into_iter())
}

/// Returns the type of a setting.
pub fn type_of(index: usize) -> Type {
    match CONTROL_VARIABLES[index].kind {
        ValueKind::Size | ValueKind::Count | ValueKind::Milliseconds => Type::Count,
        ValueKind::Microseconds => Type::Number,
        ValueKind::Words(words) => Type::Word(words),
        ValueKind::Text(_) => Type::Text,
    }
}

/// Returns the value of a setting as text. `config` has the settings of the process if it has started.
///
/// # Errors
/// An error for a wrong value in the environment.
pub fn show(index: usize, config: Option<&Config>) -> Result<String, ConfigError> {
    let setting = &CONTROL_VARIABLES[index];
    match config {
        Some(config) => {
            Ok(setting.show(&config.clone().changed(|c| c.collectives.tune = hints::tune_of(config))))
        }
        None => at_start().map(|config| setting.show(&config)),
    }
}

/// Returns true if a setting can be written while the process runs.
pub fn is_always_writable(index: usize) -> bool {
    [TUNE, CHECKPOINT].contains(&CONTROL_VARIABLES[index].name)
}

/// Returns true if writing a setting requests a checkpoint.
pub fn asks_for_checkpoint(index: usize) -> bool {
    CONTROL_VARIABLES[index].name == CHECKPOINT
}

/// Requests a checkpoint from the launcher of this job and host: `now` or `stop`. The checkpoint begins soon,
/// and this function does not wait for it. The request of one rank is enough.
///
/// # Errors
/// A message for the user if there is no such launcher.
pub fn keep(job_id: u64, host: u32, value: &str) -> Result<(), String> {
    let stops = value == Checkpoint::Stop.name();
    if value == Checkpoint::No.name() {
        return Ok(());
    }
    spawning::ask_for_checkpoint(job_id, host, stops).map_err(|error| {
        format!("{CHECKPOINT}: no mpirun of Tutti keeps this process ({error}); start it with that")
    })
}

/// Writes a setting, given as text.
///
/// # Errors
/// An error for an invalid value. Nothing is written then.
pub fn write(index: usize, value: &str) -> Result<(), ConfigError> {
    let pair = (CONTROL_VARIABLES[index].name.to_string(), value.to_string());
    let config = Config::from_pairs(std::iter::once(pair.clone()))?;
    if pair.0 == TUNE {
        hints::set_tune(config.collectives.tune);
    }
    let mut written = WRITTEN.lock().unwrap_or_else(PoisonError::into_inner);
    written.retain(|(name, _)| *name != pair.0);
    written.push(pair);
    Ok(())
}

#[cfg(test)]
mod tests {
    use tutti_base::config::{SETTINGS, Scope};

    use super::*;

    fn check(name: &str, expected: (Type, Scope)) {
        let index = CONTROL_VARIABLES.iter().position(|setting| setting.name == name).unwrap();
        let got = (type_of(index), CONTROL_VARIABLES[index].scope);
        match (got.0, expected.0) {
            (Type::Word(got), Type::Word(expected)) => assert_eq!(got, expected, "{name}"),
            (got, expected) => assert_eq!(got, expected, "{name}"),
        }
        assert_eq!(got.1, expected.1, "{name}");
    }

    #[test]
    fn settings_have_types_and_scopes() {
        check("TUTTI_EAGER_BYTES", (Type::Count, Scope::Job));
        check("TUTTI_SPIN_US", (Type::Number, Scope::Process));
        check("TUTTI_EXPLAIN", (Type::Word(&["0", "1", "all"]), Scope::Process));
        check("TUTTI_MAPPED", (Type::Word(&["auto", "always", "never"]), Scope::Job));
        check("TUTTI_DEBUG", (Type::Text, Scope::Job));
        check("TUTTI_ALGORITHM", (Type::Text, Scope::Job));
        check("TUTTI_AGENT", (Type::Text, Scope::Launcher));
        check("TUTTI_CHECKPOINT", (Type::Word(&["no", "now", "stop"]), Scope::Process));
    }

    #[test]
    fn every_word_can_be_written() {
        for (index, setting) in SETTINGS.iter().enumerate() {
            let Type::Word(words) = type_of(index) else { continue };
            for word in words {
                let pair = (setting.name.to_string(), (*word).to_string());
                let config = Config::from_pairs(std::iter::once(pair)).unwrap();
                assert_eq!(setting.show(&config), *word, "{}", setting.name);
            }
        }
        assert!(write(0, "no number").is_err());
    }
}
