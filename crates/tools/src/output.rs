//! Output of the commands, and the folder for their files.

use std::convert::Infallible;
use std::io::Write;
use std::path::PathBuf;

/// Folder for reports and measured programs unless the user names one.
pub const FOLDER: &str = "~/.cache/tutti/report";

/// Reads the name of a folder, in which a leading `~/` is the user's home. Without a home it is the folder
/// for temporary files.
///
/// # Errors
/// None: the type is that of clap's parsers.
pub fn folder(text: &str) -> Result<PathBuf, Infallible> {
    Ok(match text.strip_prefix("~/") {
        Some(rest) => std::env::var_os("HOME").map_or_else(std::env::temp_dir, PathBuf::from).join(rest),
        None => PathBuf::from(text),
    })
}

/// Prints `text`; a reader that has gone (`tutti info | head`) is no error.
pub fn show(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}
