//! Reasons why a program is not translated: position, expression, problem and remedy.

use std::fmt;

/// A place in the user's file, both counted from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourcePosition {
    /// Line number, beginning with 1.
    pub line: usize,
    /// The column, in bytes.
    pub column: usize,
}

/// The one error of this crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// Position in the file, if the problem has one.
    pub place: Option<SourcePosition>,
    /// Message for the user: the expression, the problem and the remedy.
    pub message: String,
}

impl Unsupported {
    /// Returns a refusal of `expression` at `place`: `wrong` describes the problem, `remedy` the solution.
    pub fn at_place(place: SourcePosition, expression: &str, wrong: &str, remedy: &str) -> Unsupported {
        let expression = expression.split_whitespace().collect::<Vec<_>>().join(" ");
        let short = match expression.char_indices().nth(60) {
            Some((at, _)) => format!("{}...", &expression[..at]),
            None => expression,
        };
        Unsupported { place: Some(place), message: format!("`{short}` {wrong}; {remedy}") }
    }

    /// Returns a refusal that concerns no position.
    pub fn general(message: impl Into<String>) -> Unsupported {
        Unsupported { place: None, message: message.into() }
    }

    /// Formats the refusal like a compiler's error in the file `path`.
    pub fn show(&self, path: &str) -> String {
        match self.place {
            Some(place) => format!("{path}:{}:{}: error: {}", place.line, place.column, self.message),
            None => format!("{path}: error: {}", self.message),
        }
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}
