//! Description of one setting: type, scope, audience and text.

use std::fmt;

use super::typed::Config;

/// Type of a setting's value.
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
    /// Free text; the string describes its syntax.
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

/// Processes that read a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Only mpirun, before processes exist.
    Launcher,
    /// Each process, independently of others.
    Process,
    /// All processes of a job, which have to have the same value.
    Job,
}

/// Readers that a setting concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// People who run programs.
    User,
    /// People who develop Tutti or look for a fault in it.
    Developer,
}

/// One row of the registry.
#[derive(Clone, Copy)]
pub struct Setting {
    /// Name of the environment variable.
    pub name: &'static str,
    /// Type of the value.
    pub kind: ValueKind,
    /// Processes that read the setting, and whether their values must be equal.
    pub scope: Scope,
    /// Readers to whom `tutti info` shows the setting.
    pub audience: Audience,
    /// Description of the effect, for `tutti info` and the guide.
    pub doc: &'static str,
    pub(super) set: fn(&mut Config, &str) -> std::result::Result<(), String>,
    pub(super) show: fn(&Config) -> String,
}

impl Setting {
    /// Returns the value in `config`, as it would be written in the environment.
    pub fn show(&self, config: &Config) -> String {
        (self.show)(config)
    }
}
