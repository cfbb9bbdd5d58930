//! The report: tables on the terminal, figures in a file, and a page with plots.

mod html;
mod input;
mod summary;
pub mod svg;
mod text;
mod words;

use crate::measure::library::Library;
use crate::measure::machine;
use crate::measure::options::CompareOptions;
use crate::measure::results::Results;
use input::Input;
use std::path::Path;

pub use words::{size, time};

/// Prints the tables; writes `report.txt`, `report.html` and `figures.tsv` into the output directory.
///
/// # Errors
/// Fails if a file cannot be written.
pub fn write(options: &CompareOptions, libraries: &[Library], results: &Results) -> Result<(), String> {
    let mut machine = machine::describe();
    machine.extend(results.kept_awake.then(|| crate::measure::awake::NOTE.to_string()));
    let input = Input { options, libraries, results, machine };
    let tables = text::tables(&input);
    crate::output::show(&tables);
    save(&options.out.join("report.txt"), &tables)?;
    save(&options.out.join("figures.tsv"), &text::figures(results))?;
    save(&options.out.join("report.html"), &html::page(&input))?;
    crate::output::show(&format!("\nreport: {}\n", options.out.join("report.html").display()));
    Ok(())
}

fn save(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
