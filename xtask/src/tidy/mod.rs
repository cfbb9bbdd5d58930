//! The tidy test: rules of STYLE.md and ARCHITECTURE.md that a program can check.

mod allowed;
mod arrows;
mod circles;
mod columns;
mod decisions;
mod floors;
mod glossary;
mod imports;
mod measurements;
mod picture;
mod scan;
mod sources;
mod table;
mod walks;

use std::path::Path;
use std::process::Command;

use crate::wording;

/// Runs all checks and returns all complaints. With `lower`, improvements are recorded in
/// `xtask/floors.txt`.
pub fn run(root: &Path, lower: bool) -> Result<(), Vec<String>> {
    let mut complaints = crate::generate::check(root).err().unwrap_or_default();
    let files = tracked_files(root)?;
    complaints.extend(arrows::check(root)?);
    complaints.extend(sources::check(root, &files)?);
    complaints.extend(entries(root)?);
    complaints.extend(walks::check(root)?);
    complaints.extend(decisions::check(root, &files)?);
    complaints.extend(glossary::check(root, &files)?);
    complaints.extend(measurements::check(root, &files)?);
    complaints.extend(picture::check(root, lower)?);
    complaints.extend(floors::check(root, &files, lower)?);
    complaints.extend(wording::check(root, &files, lower)?);
    if complaints.is_empty() { Ok(()) } else { Err(complaints) }
}

/// Prints the imports between the files of a crate.
pub fn imports(root: &Path, name: &str) -> Result<(), Vec<String>> {
    print!("{}", floors::imports(root, &tracked_files(root)?, name)?);
    Ok(())
}

/// Prints texts that a reader cannot understand alone, of some areas or of all.
pub fn list_wording(root: &Path, areas: &[&str]) -> Result<(), Vec<String>> {
    print!("{}", wording::list(root, &tracked_files(root)?, areas));
    Ok(())
}

/// Returns the files under version control, relative to the root.
fn tracked_files(root: &Path) -> Result<Vec<String>, Vec<String>> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .map_err(|error| vec![format!("git ls-files: {error}")])?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter(|path| root.join(path).is_file()).map(str::to_string).collect())
}

/// Checks that ARCHITECTURE.md has an entry for each crate.
fn entries(root: &Path) -> Result<Vec<String>, Vec<String>> {
    let text = read(root, "ARCHITECTURE.md")?;
    let missing = |name: &&&str| !text.lines().any(|line| line == format!("### {name}"));
    let names: Vec<&str> = arrows::ALLOWED.iter().map(|(name, _)| *name).collect();
    let exists = |name: &&&str| root.join("crates").join(name).is_dir();
    let complaint = |name: &&str| format!("ARCHITECTURE.md: no entry `### {name}`");
    Ok(names.iter().filter(exists).filter(missing).map(complaint).collect())
}

fn read(root: &Path, path: &str) -> Result<String, Vec<String>> {
    std::fs::read_to_string(root.join(path)).map_err(|error| vec![format!("{path}: {error}")])
}
