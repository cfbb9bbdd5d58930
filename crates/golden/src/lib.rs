//! Golden files: the output of a test is compared with a text in `fixtures/`. A difference is reported with
//! its first line and the command that writes the file again. Read the changes before you commit them.
//!
//! Absent: anything that is not for tests.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

/// Environment variable that is set to write the files instead of comparing.
const BLESS: &str = "TUTTI_BLESS";

/// Returns the path of a file in `fixtures/`.
pub fn path(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(file)
}

/// Compares `text` with `fixtures/FILE`, or writes the file if the environment variable is set.
///
/// # Panics
///
/// If they differ, with the first different line.
#[track_caller]
pub fn check(file: &str, text: &str) {
    let path = path(file);
    if std::env::var_os(BLESS).is_some() {
        let folder = path.parent().expect("a fixture lies in a folder");
        std::fs::create_dir_all(folder).expect("fixtures can be written");
        std::fs::write(&path, text).expect("fixtures can be written");
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    if let Some(difference) = difference(&golden, text) {
        panic!(
            "fixtures/{file}: {difference}\nif that is meant: {BLESS}=1 cargo test -p THIS_CRATE, and read git diff"
        );
    }
}

/// Describes the first line that differs; returns `None` if there is none.
fn difference(golden: &str, text: &str) -> Option<String> {
    let (mut old, mut new) = (golden.split('\n'), text.split('\n'));
    for line in 1.. {
        match (old.next(), new.next()) {
            (None, None) => return None,
            (old, new) if old == new => {}
            (old, new) => {
                let shown =
                    |line: Option<&str>| line.map_or("nothing".to_string(), |line| format!("`{line}`"));
                return Some(format!("line {line} was {}, now it is {}", shown(old), shown(new)));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tells(golden: &str, text: &str, expected: Option<&str>) {
        assert_eq!(difference(golden, text).as_deref(), expected);
    }

    #[test]
    fn the_first_line_that_differs_is_told() {
        tells("a\nb\n", "a\nb\n", None);
        tells("a\nb\n", "a\nc\nd\n", Some("line 2 was `b`, now it is `c`"));
        tells("a\n", "a\nb\n", Some("line 2 was ``, now it is `b`"));
        tells("a", "a\nb", Some("line 2 was nothing, now it is `b`"));
    }
}
