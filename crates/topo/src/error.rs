//! Error of a text that describes a machine or a list of processors.

use std::fmt;

/// Reason why a text is not a machine or a list of numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TextError {
    /// A machine without a processor.
    NoProcessor,
    /// A line with another number of fields than expected.
    FieldCount {
        /// Number of fields of the line.
        found: usize,
        /// Number of columns.
        expected: usize,
    },
    /// A word that is not a number.
    NotANumber(String),
    /// A part of a list that is neither a number nor an ascending range.
    NotARange(String),
    /// A processor in two lines.
    Repeated(u32),
    /// Error in a line of a text.
    Line {
        /// Number of the line, beginning with 1.
        number: usize,
        /// Error in the line.
        source: Box<TextError>,
    },
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TextError::NoProcessor => f.write_str("a machine has at least one processor"),
            TextError::FieldCount { found, expected } => write!(f, "{found} fields instead of {expected}"),
            TextError::NotANumber(word) => write!(f, "{word:?} is not a number"),
            TextError::NotARange(part) => write!(f, "{part:?} is not a number or a range such as 0-3"),
            TextError::Repeated(number) => write!(f, "processor {number} appears twice"),
            TextError::Line { number, source } => write!(f, "line {number}: {source}"),
        }
    }
}

impl std::error::Error for TextError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            TextError::Line { source, .. } => Some(&**source),
            _ => None,
        }
    }
}
