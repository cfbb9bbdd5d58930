//! Checks of single files: length, length of functions, headers, unsafe code, paths of a machine.

use std::path::Path;

use super::allowed::Allowed;

const FILE_LINES: usize = 1000;
const FUNCTION_LINES: usize = 70;
/// Crates that may have unsafe code anywhere.
const UNSAFE_ROOMS: &[&str] = &["crates/sys/", "crates/abi/", "crates/fronts/"];
/// Paths of development machines, written in two parts, so that this file does not contain them.
const MACHINE_PATHS: &[&str] = &[concat!("/wo", "rk/"), concat!("/ro", "ot/")];

/// Checks every file under version control.
pub fn check(root: &Path, files: &[String]) -> Result<Vec<String>, Vec<String>> {
    let allowed = Allowed::read(root)?;
    let mut complaints = Vec::new();
    for path in files {
        // Binary files are skipped.
        let Ok(text) = std::fs::read_to_string(root.join(path)) else { continue };
        complaints.extend(machine_paths(path, &text));
        if path.ends_with(".rs") {
            complaints.extend(rust_file(path, &text, &allowed));
        }
    }
    complaints.extend(allowed.leftovers());
    Ok(complaints)
}

fn machine_paths(path: &str, text: &str) -> Vec<String> {
    let found = |line: &&str| MACHINE_PATHS.iter().any(|machine| line.contains(machine));
    let hits = text.lines().enumerate().filter(|(_, line)| found(line));
    hits.map(|(at, _)| format!("{path}:{}: a path of this machine", at + 1)).collect()
}

fn rust_file(path: &str, text: &str, allowed: &Allowed) -> Vec<String> {
    let mut complaints = Vec::new();
    if !text.starts_with("//!") {
        complaints.push(format!("{path}: does not begin with a //! comment that says why it is there"));
    }
    let free = UNSAFE_ROOMS.iter().any(|room| path.starts_with(room)) || path.starts_with("xtask/");
    let says_safety =
        text.lines().take_while(|line| line.starts_with("//!")).any(|line| line == "//! # Safety");
    if !free && text.contains("allow(unsafe_code)") && !says_safety {
        complaints.push(format!("{path}: allows unsafe code and has no `# Safety` header"));
    }
    let is_root = path.starts_with("crates/") && path.ends_with("src/lib.rs");
    if is_root && !free && !text.contains("deny(unsafe_code)") && !text.contains("forbid(unsafe_code)") {
        complaints.push(format!("{path}: does not deny unsafe_code"));
    }
    if path.contains("/generated/") {
        return complaints;
    }
    let lines = text.lines().count();
    if lines > FILE_LINES && !allowed.permits(path) {
        complaints.push(format!("{path}: {lines} lines (at most {FILE_LINES})"));
    }
    for (name, at, lines) in functions(text).into_iter().filter(|(_, _, lines)| *lines > FUNCTION_LINES) {
        if !allowed.permits(&format!("{path}::{name}")) {
            complaints.push(format!("{path}:{at}: fn {name} has {lines} lines (at most {FUNCTION_LINES})"));
        }
    }
    complaints
}

/// Returns name, first line and number of lines of each function. Relies on rustfmt: a function ends with
/// the brace that has the indentation of its first line.
fn functions(text: &str) -> Vec<(String, usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else { continue };
        let indent = &line[..line.len() - line.trim_start().len()];
        let (body_end, declaration_end) = (format!("{indent}}}"), format!("{indent})"));
        let ends =
            |line: &&str| **line == body_end || line.starts_with(&declaration_end) && line.ends_with(';');
        let one_line = line.ends_with(['}', ';']);
        let length = if one_line { Some(0) } else { lines[at..].iter().position(ends) }.map_or(1, |n| n + 1);
        found.push((name, at + 1, length));
    }
    found
}

fn function_name(line: &str) -> Option<String> {
    let mut words = line.trim_start().split(' ').skip_while(|word| {
        word.starts_with("pub") || ["const", "async", "unsafe", "extern", "\"C\""].contains(word)
    });
    if words.next()? != "fn" {
        return None;
    }
    let name: String =
        words.next()?.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect();
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(&str, usize, usize)]) {
        let got = functions(text);
        let got: Vec<(&str, usize, usize)> =
            got.iter().map(|(name, at, n)| (name.as_str(), *at, *n)).collect();
        assert_eq!(got, expected);
    }

    #[test]
    fn functions_are_measured() {
        check("fn one() {}\n", &[("one", 1, 1)]);
        check(
            "impl X {\n    pub(crate) unsafe fn two(\n        a: u8,\n    ) {\n        a;\n    }\n}\n",
            &[("two", 2, 5)],
        );
        check("    fn three();\n", &[("three", 1, 1)]);
        check("    fn four(\n        a: u8,\n    ) -> u8;\n    }\n", &[("four", 1, 3)]);
        check("// fn none() {\n", &[]);
    }
}
