//! What a setting is.

use std::fmt;

use super::typed::Config;

/// What the value of a setting is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// Bytes, as 65536, 64K or 1M.
    Size,
    /// A number that is not negative.
    Count,
    /// A time.
    Milliseconds,
    /// A time; negative: by the machine.
    Microseconds,
    /// One of these words.
    Words(&'static [&'static str]),
    /// What this says.
    Text(&'static str),
}

impl fmt::Display for ValueKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueKind::Size => f.write_str("size"),
            ValueKind::Count => f.write_str("count"),
            ValueKind::Milliseconds => f.write_str("milliseconds"),
            ValueKind::Microseconds => f.write_str("microseconds"),
            ValueKind::Words(words) => f.write_str(&words.join(" | ")),
            ValueKind::Text(text) => f.write_str(text),
        }
    }
}

/// Who reads a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Only mpirun, before there is a process.
    Launcher,
    /// Each process for itself.
    Process,
    /// All processes of a job, which have to have the same value.
    Job,
}

/// Whom a setting is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Who runs programs.
    User,
    /// Who works on Tutti or looks for a fault in it.
    Developer,
}

/// One row of the registry.
#[derive(Clone, Copy)]
pub struct Setting {
    /// Name of the environment variable.
    pub name: &'static str,
    /// What a value is.
    pub kind: ValueKind,
    /// Who reads it, and who must agree on it.
    pub scope: Scope,
    /// Whom `tutti info` shows it to.
    pub audience: Audience,
    /// What it does.
    pub doc: &'static str,
    pub(super) set: fn(&mut Config, &str) -> std::result::Result<(), String>,
    pub(super) show: fn(&Config) -> String,
}

impl Setting {
    /// The value in `config`, as it would be written in the environment.
    pub fn show(&self, config: &Config) -> String {
        (self.show)(config)
    }
}
