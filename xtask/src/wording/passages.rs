//! The passages of a file that a reader sees alone: documentation comments, names, paragraphs of documents.

/// Kind of a passage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassageKind {
    /// Documentation of a public item in Rust.
    PublicItem,
    /// Documentation of other items: of Rust, a docstring in Python, a comment before a function in C.
    Item,
    /// Name of a function in Rust.
    FunctionName,
    /// Name of a public type in Rust.
    TypeName,
    /// Paragraph of a document in Markdown.
    Document,
}

/// Piece of text, with the number of its first line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passage {
    pub line: usize,
    pub text: String,
    pub place: PassageKind,
}

/// Returns the passages of a file by its kind; none for unknown kinds and generated files.
pub fn passages(path: &str, text: &str) -> Vec<Passage> {
    let is_skipped = |part: &str| ["generated", "fixtures", "spec", "target", "build"].contains(&part);
    if path.split('/').any(is_skipped) {
        return Vec::new();
    }
    match path.rsplit('.').next() {
        Some("rs") => {
            let mut found = documentation(text);
            if !path.contains("/tests") && !path.ends_with("tests.rs") {
                found.extend(names(text));
            }
            found
        }
        Some("md") => paragraphs(text),
        Some("py") => docstrings(text),
        Some("c" | "h" | "cc") => block_comments(text),
        _ => Vec::new(),
    }
}

/// Returns outer documentation comments of Rust, each up to the first list, heading, table, example or
/// empty line.
fn documentation(text: &str) -> Vec<Passage> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let comment = lines[at..].iter().take_while(|line| line.starts_with("///")).count();
        if comment == 0 {
            at += 1;
            continue;
        }
        let parts = lines[at..at + comment].iter().map(|line| line[3..].trim());
        let is_prose =
            |part: &&str| !part.is_empty() && !part.starts_with(['#', '-', '|']) && !part.starts_with("```");
        let head: Vec<&str> = parts.take_while(is_prose).collect();
        let item = lines[at + comment..].iter().find(|line| !line.starts_with("#["));
        let is_public = item.is_some_and(|item| item.starts_with("pub "));
        if !head.is_empty() {
            let place = if is_public { PassageKind::PublicItem } else { PassageKind::Item };
            found.push(Passage { line: at + 1, text: head.join(" "), place });
        }
        at += comment;
    }
    found
}

/// Returns names of functions and of public types in Rust.
fn names(text: &str) -> Vec<Passage> {
    let name = |line: &str| {
        let mut words = line.split_whitespace().peekable();
        let is_public = words.next_if(|word| word.starts_with("pub")).is_some();
        while words.next_if(|word| ["const", "unsafe", "async", "extern", "\"C\""].contains(word)).is_some() {
        }
        let place = match words.next()? {
            "fn" => PassageKind::FunctionName,
            "struct" | "enum" | "trait" | "type" if is_public => PassageKind::TypeName,
            _ => return None,
        };
        let word = words.next()?;
        let end = word.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(word.len());
        Some((word[..end].to_string(), place))
    };
    let mut found = Vec::new();
    let mut is_conversion = false;
    for (at, line) in text.lines().enumerate() {
        // The standard library names the function of an implementation of `From`.
        is_conversion =
            if line.trim_start().starts_with("impl") { line.contains("From<") } else { is_conversion };
        if let Some((text, place)) = name(line).filter(|(text, _)| !is_conversion || text != "from") {
            found.push(Passage { line: at + 1, text, place });
        }
    }
    found
}

/// Returns true if a line of Markdown begins an item of a list.
fn begins_item(line: &str) -> bool {
    let text = line.trim_start();
    let number = text.trim_start_matches(|letter: char| letter.is_ascii_digit());
    text.starts_with("- ") || text.starts_with("* ") || number.len() < text.len() && number.starts_with(". ")
}

/// Returns paragraphs and list items of Markdown, without headings, tables and code.
fn paragraphs(text: &str) -> Vec<Passage> {
    let mut found = Vec::new();
    let mut paragraph: Vec<&str> = Vec::new();
    let (mut is_code, mut begin) = (false, 0);
    for (at, line) in text.lines().chain([""]).enumerate() {
        let is_fence = line.starts_with("```");
        is_code ^= is_fence;
        let is_prose = !is_code
            && !is_fence
            && !line.starts_with(['#', '|'])
            && !line.starts_with("    ")
            && !line.trim().is_empty();
        if !paragraph.is_empty() && (!is_prose || begins_item(line)) {
            found.push(Passage { line: begin, text: paragraph.join(" "), place: PassageKind::Document });
            paragraph.clear();
        }
        if is_prose {
            begin = if paragraph.is_empty() { at + 1 } else { begin };
            paragraph.push(line.trim());
        }
    }
    found
}

/// Returns the first paragraph of each Python docstring.
fn docstrings(text: &str) -> Vec<Passage> {
    const QUOTES: &str = "\"\"\"";
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let Some(first) = lines[at].strip_prefix(QUOTES) else {
            at += 1;
            continue;
        };
        let is_one_line = first.contains(QUOTES);
        let end =
            lines[at + 1..].iter().position(|line| line.contains(QUOTES)).map_or(lines.len(), |n| at + 1 + n);
        let end = if is_one_line { at } else { end };
        let body = [first].into_iter().chain(lines[at + 1..].iter().copied().take(end - at));
        let head: Vec<&str> =
            body.take_while(|line| !line.is_empty()).map(|line| line.trim_end_matches(QUOTES)).collect();
        found.push(Passage {
            line: at + 1,
            text: head.join(" ").trim().to_string(),
            place: PassageKind::Item,
        });
        at = end + 1;
    }
    found.retain(|passage| !passage.text.is_empty());
    found
}

/// Returns comments of C in `/* */` that begin in the first column: they document the function or file
/// below.
fn block_comments(text: &str) -> Vec<Passage> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for at in 0..lines.len() {
        if !lines[at].starts_with("/*") {
            continue;
        }
        let length = lines[at..].iter().position(|line| line.contains("*/")).map_or(1, |last| last + 1);
        let clean = |line: &&str| {
            let line = line.trim().trim_start_matches("/*").trim_end_matches("*/");
            line.trim().trim_start_matches('*').trim().to_string()
        };
        let head: Vec<String> = lines[at..at + length]
            .iter()
            .map(clean)
            .skip_while(String::is_empty)
            .take_while(|line| !line.is_empty())
            .collect();
        if !head.is_empty() {
            found.push(Passage { line: at + 1, text: head.join(" "), place: PassageKind::Item });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, text: &str, expected: &[(usize, &str, PassageKind)]) {
        let found = passages(path, text);
        let found: Vec<_> = found.iter().map(|one| (one.line, one.text.as_str(), one.place)).collect();
        assert_eq!(found, expected, "{path}");
    }

    #[test]
    fn rust_has_documentation_and_names() {
        let text = "/// One\n/// two.\n///\n/// # Errors\n/// More.\n#[derive(Debug)]\npub struct Told;\n\n/// Three.\npub(crate) fn of(x: u8) {}\n";
        let documented = [(1, "One two.", PassageKind::PublicItem), (9, "Three.", PassageKind::Item)];
        let named = [(7, "Told", PassageKind::TypeName), (10, "of", PassageKind::FunctionName)];
        check("a/src/lib.rs", text, &[documented, named].concat());
        check("a/src/tests.rs", text, &documented);
        let conversions =
            "impl From<u8> for Told {\nfn from(x: u8) {}\n}\nimpl Told {\nfn from(x: u8) {}\n}\n";
        check("a/src/lib.rs", conversions, &[(5, "from", PassageKind::FunctionName)]);
        check("a/generated/lib.rs", text, &[]);
    }

    #[test]
    fn documents_have_paragraphs() {
        let text = "# Title\n\nOne\ntwo.\n\n```sh\nls\n```\n| a |\n    code\n- Three,\n  four.\n12. Five.\n";
        let items = [(11, "- Three, four.", PassageKind::Document), (13, "12. Five.", PassageKind::Document)];
        check("a.md", text, &[&[(3, "One two.", PassageKind::Document)], &items[..]].concat());
    }

    #[test]
    fn other_languages_have_comments() {
        let python = "\"\"\"One.\"\"\"\ndef f():\n    \"\"\"Two\n    three.\n\n    Four.\n    \"\"\"\n";
        check("a.py", python, &[(1, "One.", PassageKind::Item), (3, "Two three.", PassageKind::Item)]);
        let c = "/* One\n * two. */\nint f(void) { /* not this */ }\n/*\n * Three.\n */\n";
        check("a.c", c, &[(1, "One two.", PassageKind::Item), (4, "Three.", PassageKind::Item)]);
        check("a.txt", c, &[]);
    }
}
