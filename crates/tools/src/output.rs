//! Output of the commands.

use std::io::Write;

/// Prints `text`; a reader that has gone (`tutti info | head`) is no error.
pub fn show(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}
