//! The picture of the crates in ARCHITECTURE.md, drawn from the table of dependencies, so that it cannot be
//! stale.

use std::fmt::Write;
use std::path::Path;

use super::arrows::ALLOWED;

const PATH: &str = "ARCHITECTURE.md";
const BEGIN: &str = "```floors\n";
const END: &str = "```\n";

/// Complains if the picture in the document differs from the table; with `draw`, it is replaced.
pub fn check(root: &Path, draw: bool) -> Result<Vec<String>, Vec<String>> {
    let text = super::read(root, PATH)?;
    let Some((before, rest)) = text.split_once(BEGIN) else {
        return Ok(vec![format!("{PATH}: there is no block ```floors for the picture")]);
    };
    let Some((old, after)) = rest.split_once(END) else {
        return Ok(vec![format!("{PATH}: ```floors has no end")]);
    };
    let new = picture(ALLOWED);
    if old == new {
        return Ok(Vec::new());
    }
    if draw {
        let whole = [before, BEGIN, &new, END, after].concat();
        return match std::fs::write(root.join(PATH), whole) {
            Ok(()) => Ok(Vec::new()),
            Err(error) => Err(vec![format!("{PATH}: {error}")]),
        };
    }
    Ok(vec![format!("{PATH}: the picture of the floors is stale: cargo xtask tidy --lower draws it anew")])
}

/// Returns the picture: a line for each crate, the highest first, with its floor, its name and its direct
/// dependencies.
fn picture(arrows: &[(&str, &[&str])]) -> String {
    let mut crates: Vec<(usize, &str)> =
        arrows.iter().map(|(name, _)| (floor(arrows, name), *name)).collect();
    crates.sort_by_key(|(floor, _)| std::cmp::Reverse(*floor));
    let mut text = String::new();
    let mut last = usize::MAX;
    for (floor, name) in crates {
        let mark = if floor == last { String::new() } else { format!("{floor}") };
        last = floor;
        let uses = direct(arrows, name).join(" ");
        let line = format!("{mark:>2} | {name:<14}{}{uses}", if uses.is_empty() { "" } else { "-> " });
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

fn uses<'a>(arrows: &[(&'a str, &'a [&'a str])], name: &str) -> &'a [&'a str] {
    arrows.iter().find(|(other, _)| *other == name).map_or(&[], |(_, uses)| *uses)
}

/// Returns the length of the longest chain of dependencies below a crate.
fn floor(arrows: &[(&str, &[&str])], name: &str) -> usize {
    uses(arrows, name).iter().map(|below| floor(arrows, below) + 1).max().unwrap_or(0)
}

/// Returns the dependencies of a crate that none of its other dependencies has.
fn direct<'a>(arrows: &[(&'a str, &'a [&'a str])], name: &str) -> Vec<&'a str> {
    let all = uses(arrows, name);
    let covered = |one: &&str| all.iter().any(|other| uses(arrows, other).contains(one));
    all.iter().copied().filter(|one| !covered(one)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_stand_on_what_they_use() {
        let arrows: &[(&str, &[&str])] = &[("a", &[]), ("b", &["a"]), ("c", &["a", "b"]), ("d", &["a"])];
        assert_eq!(
            picture(arrows),
            " 2 | c             -> b\n 1 | b             -> a\n   | d             -> a\n 0 | a\n"
        );
    }
}
