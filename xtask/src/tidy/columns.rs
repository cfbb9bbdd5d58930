//! The test that lines of comments or prose end before a column, so that they can be read beside code.
//! rustfmt checks code. Tables, code in documents, and addresses cannot be broken.

use std::path::Path;

/// Last column of a line.
pub const COLUMNS: usize = 110;

/// Returns the number of lines of comment or prose in a file that are too long; 0 for generated files.
pub fn wide(root: &Path, path: &str) -> usize {
    let Some(kind) = Kind::from_path(path) else { return 0 };
    let text = std::fs::read_to_string(root.join(path)).unwrap_or_default();
    count(kind, &text)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Comments that begin with `//`, or with `*` in a block.
    Slashes,
    /// Comments that begin with `#`.
    Hash,
    Markdown,
}

impl Kind {
    fn from_path(path: &str) -> Option<Kind> {
        if path.contains("generated") || path.starts_with("fixtures/") {
            return None;
        }
        match path.rsplit('.').next()? {
            "rs" | "c" | "h" | "cc" => Some(Kind::Slashes),
            "py" | "sh" | "toml" => Some(Kind::Hash),
            "md" => Some(Kind::Markdown),
            _ => None,
        }
    }
}

fn count(kind: Kind, text: &str) -> usize {
    let mut in_code = false;
    let is_wide = |line: &&str| {
        let start = line.trim_start();
        in_code ^= kind == Kind::Markdown && start.starts_with("```");
        let prose = match kind {
            Kind::Slashes => ["//", "/*", "* "].iter().any(|mark| start.starts_with(mark)),
            Kind::Hash => start.starts_with('#'),
            Kind::Markdown => !in_code && !start.starts_with('|') && !line.starts_with("    "),
        };
        let table = start.trim_start_matches(['/', '!', '#', '*', ' ']).starts_with('|');
        prose && !table && !start.contains("://") && line.chars().count() > COLUMNS
    };
    text.lines().filter(is_wide).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: Kind, line: &str, expected: usize) {
        let long = line.replace("..", &"word ".repeat(30));
        assert_eq!(count(kind, &long), expected, "{long}");
    }

    #[test]
    fn prose_is_measured_and_nothing_else() {
        check(Kind::Slashes, "    /// ..", 1);
        check(Kind::Slashes, "    let it = \"..\";", 0);
        check(Kind::Slashes, "//! | .. |", 0);
        check(Kind::Slashes, "// short", 0);
        check(Kind::Slashes, "// https://somewhere ..", 0);
        check(Kind::Hash, "# ..", 1);
        check(Kind::Hash, "x = '..'", 0);
        check(Kind::Markdown, "..", 1);
        check(Kind::Markdown, "| .. |", 0);
        check(Kind::Markdown, "```\n..\n```", 0);
        check(Kind::Markdown, "    command ..", 0);
    }
}
