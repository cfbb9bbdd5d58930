//! Why a program is not translated: where, which expression, what is wrong with it, and what to do.

use std::fmt;

/// A place in the user's file, both counted from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The column, in bytes.
    pub column: usize,
}

/// The one error of this crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Where; none if it is not about a place.
    pub place: Option<Place>,
    /// What, in words: the expression, what is wrong, what to do.
    pub message: String,
}

impl Refusal {
    /// One about `expression` at `place`: what is `wrong` with it, and the `remedy`.
    pub fn at(place: Place, expression: &str, wrong: &str, remedy: &str) -> Refusal {
        let expression = expression.split_whitespace().collect::<Vec<_>>().join(" ");
        let short = match expression.char_indices().nth(60) {
            Some((at, _)) => format!("{}...", &expression[..at]),
            None => expression,
        };
        Refusal { place: Some(place), message: format!("`{short}` {wrong}; {remedy}") }
    }

    /// One that is not about a place.
    pub fn general(message: impl Into<String>) -> Refusal {
        Refusal { place: None, message: message.into() }
    }

    /// As compilers print it, for the file called `path`.
    pub fn show(&self, path: &str) -> String {
        match self.place {
            Some(place) => format!("{path}:{}:{}: error: {}", place.line, place.column, self.message),
            None => format!("{path}: error: {}", self.message),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}
