//! The glossary names the type that carries each term. Each of these types must exist, and the terms must be
//! in alphabetical order.

use std::collections::BTreeSet;
use std::path::Path;

const PATH: &str = "docs/glossary.md";
/// Keywords before the name of a type.
const KEYWORDS: [&str; 4] = ["struct", "enum", "trait", "type"];

/// Complains about rows of the glossary without a type, with one that does not exist, or out of order.
pub fn check(root: &Path, files: &[String]) -> Result<Vec<String>, Vec<String>> {
    let text = super::read(root, PATH)?;
    let mut types = BTreeSet::new();
    for path in files.iter().filter(|path| path.starts_with("crates/") && path.ends_with(".rs")) {
        let (_, below) = path.split_once('/').expect("it begins with crates/");
        let name = below.split('/').next().expect("a split has a first part");
        types.extend(declared(&super::read(root, path)?).into_iter().map(|one| format!("{name}::{one}")));
    }
    Ok(complaints(&text, &types))
}

/// Returns the names of the types that a Rust file declares.
fn declared(text: &str) -> BTreeSet<String> {
    let name = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().take(3).collect();
        let place = words.iter().position(|word| KEYWORDS.contains(word))?;
        let name = words.get(place + 1)?;
        Some(name.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next()?.to_string())
    };
    text.lines().filter_map(name).collect()
}

fn complaints(text: &str, types: &BTreeSet<String>) -> Vec<String> {
    let mut found = Vec::new();
    let mut previous = String::new();
    for (at, line) in text.lines().enumerate() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, term, _, carrier, _] = cells[..] else { continue };
        if term == "term" || term.starts_with("---") {
            previous.clear();
            continue;
        }
        let (line, key) = (at + 1, term.to_lowercase());
        let carrier = carrier.trim_matches('`');
        if !types.contains(carrier) {
            found.push(format!("{PATH}:{line}: there is no type {carrier} (for the term `{term}`)"));
        }
        if key < previous {
            found.push(format!("{PATH}:{line}: the term `{term}` is not in alphabetical order"));
        }
        previous = key;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_the_glossary_exist() {
        let types = BTreeSet::from(["a::One".to_string()]);
        let check = |rows: &str, expected: &[&str]| {
            let text = format!("# Glossary\n\n| term | meaning | type |\n|---|---|---|\n{rows}");
            let found = complaints(&text, &types);
            assert_eq!(found.len(), expected.len(), "{found:?}");
            assert!(found.iter().zip(expected).all(|(one, part)| one.contains(part)), "{found:?}");
        };
        check("| one | number | `a::One` |\n| two | number | `a::One` |\n", &[]);
        check("| one | number | `a::Two` |\n", &["5: there is no type a::Two (for the term `one`)"]);
        check("| two | number | `a::One` |\n| one | number | `a::One` |\n", &["6: the term `one` is not in"]);
    }

    #[test]
    fn declarations_have_names() {
        let text = "pub struct One<'a> {\npub(super) enum Two {\ntrait Three: Sized {\nlet type_name = 1;\n";
        let names: Vec<String> = declared(text).into_iter().collect();
        assert_eq!(names, ["One", "Three", "Two"]);
    }
}
