//! Indented lines of C, and names that do not occur in the user's program.

use std::collections::{BTreeMap, BTreeSet};

/// Text in C under construction.
#[derive(Default)]
pub struct Text {
    lines: String,
    depth: usize,
    /// Whether the last line was one like `if (x)`, whose statement follows.
    after_header: bool,
}

fn is_header(line: &str) -> bool {
    ["if (", "for (", "else"].iter().any(|word| line.starts_with(word)) && !line.ends_with(['{', ';'])
}

impl Text {
    /// Creates an empty text that is indented by `depth` levels.
    pub fn indented(depth: usize) -> Text {
        Text { depth, ..Text::default() }
    }

    /// Adds lines; a line that ends with `{` goes one level in, one that begins with `}` one out.
    pub fn add(&mut self, lines: &str) {
        for line in lines.lines() {
            let line = line.trim();
            if line.starts_with('}') {
                self.depth -= 1;
            }
            if !line.is_empty() {
                let single = usize::from(std::mem::replace(&mut self.after_header, is_header(line)));
                let depth = if line.starts_with('#') { 0 } else { 4 * (self.depth + single) };
                self.lines.push_str(&" ".repeat(depth));
                self.lines.push_str(line);
            }
            self.lines.push('\n');
            if line.ends_with('{') {
                self.depth += 1;
            }
        }
    }

    /// Adds lines that have their own indentation, `deeper` levels further right.
    pub fn add_block(&mut self, lines: &str, deeper: usize) {
        for line in lines.lines() {
            if !line.is_empty() {
                self.lines.push_str(&" ".repeat(4 * (self.depth + deeper)));
                self.lines.push_str(line);
            }
            self.lines.push('\n');
        }
    }

    /// Returns the complete text.
    pub fn finish(self) -> String {
        self.lines
    }
}

/// Names for the generated program.
pub struct Names {
    taken: BTreeSet<String>,
    given: BTreeMap<String, String>,
}

impl Names {
    /// Creates an empty set of names that avoids all words of `source`.
    pub fn avoiding(source: &str) -> Names {
        let taken = words(&without_comments(source)).map(|(_, word)| word.to_string()).collect();
        Names { taken, given: BTreeMap::new() }
    }

    /// Returns the name that replaces `wish`: the same name, unless the user's program contains it.
    pub fn get(&mut self, wish: &str) -> String {
        let taken = &self.taken;
        let fresh = || {
            let mut name = wish.to_string();
            while taken.contains(&name) {
                name.push('_');
            }
            name
        };
        self.given.entry(wish.to_string()).or_insert_with(fresh).clone()
    }

    /// Returns `text` with each `$name` replaced by its unused name.
    pub fn fill(&mut self, text: &str) -> String {
        let mut filled = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            filled.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            let length = rest
                .find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
                .unwrap_or(rest.len());
            filled.push_str(&self.get(&rest[..length]));
            rest = &rest[length..];
        }
        filled + rest
    }
}

/// Returns a program without comments. It also removes the rest of a string after `//`, which does no harm
/// here.
fn without_comments(source: &str) -> String {
    let mut kept = String::new();
    let mut rest = source;
    while let Some(at) = rest.find("/*").into_iter().chain(rest.find("//")).min() {
        kept.push_str(&rest[..at]);
        let end = if rest[at..].starts_with("/*") { "*/" } else { "\n" };
        let length = rest[at + 2..].find(end).map_or(rest.len() - at, |length| 2 + length + end.len());
        kept.push(' ');
        rest = &rest[at + length..];
    }
    kept + rest
}

/// Returns the identifiers and numbers of a text, with their places.
pub fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || !letter.is_ascii();
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + text[at..].find(is_letter)?;
        let length = text[start..].find(|letter| !is_letter(letter)).unwrap_or(text.len() - start);
        at = start + length;
        Some((start, &text[start..at]))
    })
}

/// Replaces each word for which `other` returns a text.
pub fn replace_words(text: &str, other: impl Fn(&str) -> Option<String>) -> String {
    replace_words_at(text, |_, word| other(word))
}

/// Replaces each word for which `other` returns a text. `other` receives position and word.
pub fn replace_words_at(text: &str, other: impl Fn(usize, &str) -> Option<String>) -> String {
    let mut replaced = String::new();
    let mut done = 0;
    for (start, word) in words(text) {
        if let Some(new) = other(start, word) {
            replaced.push_str(&text[done..start]);
            replaced.push_str(&new);
            done = start + word.len();
        }
    }
    replaced + &text[done..]
}

/// Lines with up to `column` blanks less before each.
pub fn dedented(text: &str, column: usize) -> String {
    let cut = |line: &str| {
        let blanks = line.len() - line.trim_start_matches([' ', '\t']).len();
        line[blanks.min(column)..].to_string()
    };
    text.lines().map(cut).collect::<Vec<String>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_collide() {
        let mut names = Names::avoiding("int left; /* rank */ left_ = 3; // rank");
        assert_eq!(names.fill("$left = $rank + x$left;"), "left__ = rank + xleft__;");
        assert_eq!(
            replace_words("max(n, nn)", |word| (word == "n").then(|| "(long)n".into())),
            "max((long)n, nn)"
        );
    }

    #[test]
    fn lines_are_indented_by_braces() {
        let mut text = Text::indented(1);
        text.add("if (a) {\nb;\n}\n#if x");
        assert_eq!(text.finish(), "    if (a) {\n        b;\n    }\n#if x\n");
    }
}
