//! Files with the costs of a machine: their names, and whether they have costs at all. `tutti_coll::Model`
//! reads the costs themselves.

use std::path::{Path, PathBuf};

/// First word of lines that tuning at run time has written. They are not costs.
pub const LEARNED: &str = "learned";

/// Returns the name of the file for a kind of machine (`tutti_sys::machine_kind`).
pub fn file_name(machine_kind: &str) -> String {
    format!("MODEL-{machine_kind}")
}

/// Returns the path of the file that an administrator ships with the installation at `prefix`.
pub fn shipped_path(prefix: &Path, machine_kind: &str) -> PathBuf {
    prefix.join("share/tutti").join(file_name(machine_kind))
}

/// Returns the part of a line that is read: no comment, and no line of [`LEARNED`] results. Empty if nothing
/// is left.
pub fn content(line: &str) -> &str {
    let content = line.split('#').next().unwrap_or("").trim();
    if content.split(' ').next() == Some(LEARNED) { "" } else { content }
}

/// Returns true if a text contains costs, beside comments and results of tuning at run time.
pub fn has_costs(text: &str) -> bool {
    text.lines().any(|line| !content(line).is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_learned_lines_are_not_costs() {
        let check = |text, expected| assert_eq!(has_costs(text), expected, "{text}");
        check("", false);
        check("# measured on n1\n\n", false);
        check("learned a b c\n\nlearned d e f\n", false);
        check("learned a b c\nline.1 4e-8\n", true);
        check("learned fft blocking allreduce 0 8 0 2@1-00 ring plain\n", false);
        check("# measured on n1\nswitch 2e-6 # seconds\n", true);
    }

    #[test]
    fn a_shipped_file_is_in_share() {
        let path = shipped_path(Path::new("/opt/tutti"), "EPYC_8_6.1");
        assert_eq!(path, Path::new("/opt/tutti/share/tutti/MODEL-EPYC_8_6.1"));
    }
}
