//! Interpreters that look for libraries elsewhere than the dynamic loader.
//!
//! R is started by a script that puts its own folders before LD_LIBRARY_PATH. In distributions these include
//! folders of the system. A module of R that loads another MPI library (Rmpi) would get the installed one,
//! and each rank would be alone. If R_LD_LIBRARY_PATH is set, the script uses its folders instead
//! (`etc/ldpaths` of R).

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Environment variable with the folders that R's script searches.
pub const R_LIBRARY_PATH: &str = "R_LD_LIBRARY_PATH";
/// Maximum bytes of a script that are read.
const LOOKED_AT: u64 = 64 << 10;

/// Returns the value that R_LD_LIBRARY_PATH needs if `command`, found in `path`, is R or a script for it.
/// These are `folders`, then R's own folder.
pub fn r_library_path(command: &OsStr, path: &OsStr, folders: &[PathBuf]) -> Option<OsString> {
    let file = find(command, path)?;
    let name = file.file_name()?;
    let interpreter = if name == "R" || name == "Rscript" { file } else { r_of_script(&file, path)? };
    let home = home(&interpreter.with_file_name("R"))?;
    let all: Vec<OsString> =
        folders.iter().cloned().chain([home.join("lib")]).map(PathBuf::into_os_string).collect();
    Some(all.join(OsStr::new(":")))
}

/// Returns the file of a command, which is a path or is found in `path`.
fn find(command: &OsStr, path: &OsStr) -> Option<PathBuf> {
    if command.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(command));
    }
    std::env::split_paths(path).map(|folder| folder.join(command)).find(|file| file.is_file())
}

/// Returns the Rscript that the first line of a script names.
fn r_of_script(file: &Path, path: &OsStr) -> Option<PathBuf> {
    let first = lines(file)?.next()?;
    let words: Vec<&str> = first.strip_prefix("#!")?.split_whitespace().collect();
    let named = words.into_iter().find(|word| Path::new(word).file_name() == Some(OsStr::new("Rscript")))?;
    find(OsStr::new(named), path)
}

/// Returns R's folder, which its start-up script contains.
fn home(script: &Path) -> Option<PathBuf> {
    lines(script)?.find_map(|line| line.strip_prefix("R_HOME_DIR=").map(PathBuf::from))
}

/// Returns the lines in the first bytes of a text file. A binary file has none.
fn lines(file: &Path) -> Option<impl Iterator<Item = String>> {
    let text = BufReader::new(std::fs::File::open(file).ok()?.take(LOOKED_AT));
    Some(text.lines().map_while(Result::ok))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a folder with the files of an installed R, and a script for it.
    fn folder() -> PathBuf {
        let folder = std::env::temp_dir().join(format!("tutti-interpreters-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("R"), "#!/bin/sh\n# R\nR_HOME_DIR=/opt/R\nexec true\n").unwrap();
        std::fs::write(folder.join("Rscript"), [0x7f, b'E', b'L', b'F', 0xff]).unwrap();
        std::fs::write(folder.join("sum"), "#!/usr/bin/env Rscript\n").unwrap();
        std::fs::write(folder.join("other"), "#!/usr/bin/env python3\n").unwrap();
        folder
    }

    fn check(folder: &Path, command: &str, expected: Option<&str>) {
        let fronts = [PathBuf::from("/t/lib"), PathBuf::from("/t/front")];
        let got = r_library_path(OsStr::new(command), folder.as_os_str(), &fronts);
        assert_eq!(got.as_deref(), expected.map(OsStr::new), "{command}");
    }

    #[test]
    fn r_finds_our_libraries_before_the_systems() {
        let folder = folder();
        let script = folder.join("sum").display().to_string();
        for command in ["R", "Rscript", "sum", &script] {
            check(&folder, command, Some("/t/lib:/t/front:/opt/R/lib"));
        }
        for command in ["other", "nowhere", "/nowhere/Rscript"] {
            check(&folder, command, None);
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
