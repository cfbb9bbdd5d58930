//! Checks docs/paths.md: each file or folder that it names exists below `crates`, and each function in the
//! brackets behind a file is defined there.

use std::path::Path;

use super::read;

/// Page whose names are checked.
const PAGE: &str = "docs/paths.md";

/// Place in the source code that the page names.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    /// File or folder below `crates`.
    path: String,
    /// Functions to read there.
    functions: Vec<String>,
}

/// Returns a complaint for each name that leads nowhere.
pub fn check(root: &Path) -> Result<Vec<String>, Vec<String>> {
    let mut complaints = Vec::new();
    for Place { path, functions } in places(&read(root, PAGE)?) {
        let full = root.join("crates").join(&path);
        if !full.exists() {
            complaints.push(format!("{PAGE}: there is no crates/{path}"));
            continue;
        }
        let text = std::fs::read_to_string(&full).unwrap_or_default();
        let missing = functions.iter().filter(|name| !defines(&text, name));
        complaints.extend(missing.map(|name| format!("{PAGE}: crates/{path} has no function {name}")));
    }
    Ok(complaints)
}

/// Returns true if a source text defines a function of this name.
fn defines(text: &str, name: &str) -> bool {
    text.match_indices(&format!("fn {name}")).any(|(place, found)| {
        let next = text[place + found.len()..].chars().next();
        next.is_some_and(|next| next == '(' || next == '<')
    })
}

/// Returns the places that a page names: names in backticks with a slash that begin with a crate's folder,
/// each with the names in the brackets that follow.
fn places(page: &str) -> Vec<Place> {
    let flat = page.split_whitespace().collect::<Vec<_>>().join(" ");
    let parts: Vec<&str> = flat.split('`').collect();
    let mut places: Vec<Place> = Vec::new();
    let mut collects = false;
    for (number, part) in parts.iter().enumerate() {
        let is_name = number % 2 == 1;
        if is_name && collects {
            let place = places.last_mut().expect("brackets follow a place");
            place.functions.push((*part).to_string());
        } else if is_name && is_place(part) {
            places.push(Place { path: (*part).to_string(), functions: Vec::new() });
        } else if !is_name {
            let follows = number > 0 && is_place(parts[number - 1]) && !collects;
            collects = *part == " (" && follows || collects && *part == ", ";
        }
    }
    places
}

/// Returns true for a path below a crate, such as `core/src/lanes.rs`.
fn is_place(name: &str) -> bool {
    name.split_once('/').is_some_and(|(_, rest)| rest == "src" || rest.starts_with("src/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_have_their_functions() {
        let page =
            "1. `core/src/a.rs` (`one`,\n   `two`): text (`three`). `docs/x` and `core/src/b` (no name).";
        let place = |path: &str, functions: &[&str]| Place {
            path: path.to_string(),
            functions: functions.iter().map(|name| name.to_string()).collect(),
        };
        assert_eq!(places(page), [place("core/src/a.rs", &["one", "two"]), place("core/src/b", &[])]);
    }

    #[test]
    fn functions_are_found_by_their_whole_name() {
        let text = "pub fn send_now<T>(x: T) {}\nfn flush(&mut self) {}";
        assert_eq!(
            ["send_now", "flush", "send", "flu"].map(|name| defines(text, name)),
            [true, true, false, false]
        );
    }
}
