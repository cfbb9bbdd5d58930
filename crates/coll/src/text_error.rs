//! Error of texts that this crate reads: models, corrections, measured starts.

use std::fmt;

/// Reason why a text cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TextError {
    /// A line without a value behind the name.
    NoValue(String),
    /// A name that no parameter of the model has.
    UnknownParameter(String),
    /// A word that is not a finite number of at least 0.
    Negative(String),
    /// A word that is not a number.
    NotANumber(String),
    /// A number that is out of range.
    TooLarge(String),
    /// A correction with another number of words than expected.
    CorrectionForm,
    /// A name that no collective operation has.
    UnknownCollective(String),
    /// A line of a table of runs that begins with an unknown word, or has another number of words.
    RunForm,
    /// A run with fewer ranks than hosts, or whose measure is not positive.
    RunValues,
    /// A word that is none of the possible ones.
    UnknownWord {
        /// The word.
        word: String,
        /// Possible words.
        expected: String,
    },
    /// Error in a line of a text.
    Line {
        /// Number of the line, beginning with 1.
        number: usize,
        /// Error in the line.
        source: Box<TextError>,
    },
}

impl TextError {
    /// Adds the number of the line.
    pub(crate) fn in_line(self, number: usize) -> TextError {
        TextError::Line { number, source: Box::new(self) }
    }
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use TextError as E;
        match self {
            E::NoValue(line) => write!(f, "{line:?} has no value"),
            E::UnknownParameter(name) => write!(f, "no parameter is named {name:?}"),
            E::Negative(word) => write!(f, "{word:?} is not a number of at least 0"),
            E::NotANumber(word) => write!(f, "{word:?} is not a number"),
            E::TooLarge(word) => write!(f, "{word:?} is too large"),
            E::CorrectionForm => f.write_str("a correction is: collective algorithm ranks class factor"),
            E::UnknownCollective(name) => write!(f, "{name:?} is no collective"),
            E::RunForm => f.write_str("not \"time SCHEME HOSTS RANKS SECONDS\" or the like"),
            E::RunValues => f.write_str("hosts, at least as many ranks, and a positive measure are expected"),
            E::UnknownWord { word, expected } => write!(f, "{word:?} is none of {expected}"),
            E::Line { number, source } => write!(f, "line {number}: {source}"),
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
