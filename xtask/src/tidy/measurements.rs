//! Every page of measurements begins with its goal, its command, the processor and the date, so that a reader
//! can judge and repeat its figures. The overview lists all pages.

use std::path::Path;

const FOLDER: &str = "docs/measurements/";
const OVERVIEW: &str = "docs/measurements/README.md";
/// Page that a program writes; its lines have commits and processors.
const LEDGER: &str = "docs/measurements/ledger.md";
/// Rows of the head of a page, in their order.
const HEAD: [&str; 4] = ["goal", "command", "processor", "date"];
/// Folders of files that a command may name.
const FOLDERS: [&str; 3] = ["tests/", "scripts/", "crates/"];

/// Complains about pages without a complete head, with a missing file, or without a row in the overview.
pub fn check(root: &Path, files: &[String]) -> Result<Vec<String>, Vec<String>> {
    let overview = super::read(root, OVERVIEW)?;
    let mut found = Vec::new();
    for path in files.iter().filter(|path| path.starts_with(FOLDER) && *path != OVERVIEW) {
        let name = &path[FOLDER.len()..];
        if !overview.contains(&format!("[{name}]({name})")) {
            found.push(format!("{OVERVIEW}: no row for {name}"));
        }
        if path != LEDGER {
            let text = super::read(root, path)?;
            found.extend(
                complaints(&text, &|file| root.join(file).exists()).map(|one| format!("{path}: {one}")),
            );
        }
    }
    Ok(found)
}

fn complaints(text: &str, exists: &dyn Fn(&str) -> bool) -> impl Iterator<Item = String> {
    let mut found = Vec::new();
    let mut rows = text.lines().filter(|line| line.starts_with("| ")).skip(1);
    for name in HEAD {
        let value = rows.next().and_then(|row| row.strip_prefix(&format!("| {name} | "))?.strip_suffix(" |"));
        match value {
            None | Some("") => found.push(format!("the head has no row `{name}` in its place")),
            Some(value) if name == "date" && !is_date(value) => found.push(format!("{value} is not a date")),
            Some(_) => (),
        }
    }
    let codes = text.split('`').skip(1).step_by(2);
    let words = codes.flat_map(str::split_whitespace);
    let missing = words.filter(|word| FOLDERS.iter().any(|folder| word.starts_with(folder)) && !exists(word));
    found.extend(missing.map(|word| format!("there is no {word}")));
    found.into_iter()
}

/// Returns true for YYYY-MM-DD.
fn is_date(text: &str) -> bool {
    let fits = |(at, letter): (usize, char)| {
        if at == 4 || at == 7 { letter == '-' } else { letter.is_ascii_digit() }
    };
    text.len() == 10 && text.chars().enumerate().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_a_goal_a_command_a_processor_and_a_date() {
        let check = |rows: &str, expected: &[&str]| {
            let text = format!("# A\n\n| head | |\n|---|---|\n{rows}\nText.\n");
            let found: Vec<String> = complaints(&text, &|file| file == "tests/a.py").collect();
            assert_eq!(found, expected);
        };
        let page = |command: &str, date: &str| {
            format!("| goal | 1 us |\n| command | {command} |\n| processor | a |\n| date | {date} |\n")
        };
        check(&page("`tests/a.py --all`", "2026-11-28"), &[]);
        check(&page("`tests/b.py`", "today"), &["today is not a date", "there is no tests/b.py"]);
        let place = |name| format!("the head has no row `{name}` in its place");
        let all = HEAD.map(place);
        check("", &all.each_ref().map(String::as_str));
    }
}
