//! Every decision record has the context, the decision in one sentence, and the consequences. The overview
//! has a row with the title of each record.

use std::path::Path;

const FOLDER: &str = "docs/decisions/";
const OVERVIEW: &str = "docs/decisions/README.md";
/// Sections of a record, in their order.
const SECTIONS: [&str; 3] = ["## Context", "## Decision", "## Consequences"];

/// Complains about records that lack a section or a row in the overview, or decide in several sentences.
pub fn check(root: &Path, files: &[String]) -> Result<Vec<String>, Vec<String>> {
    let overview = super::read(root, OVERVIEW)?;
    let mut found = Vec::new();
    for path in files.iter().filter(|path| path.starts_with(FOLDER) && *path != OVERVIEW) {
        let text = super::read(root, path)?;
        let name = &path[FOLDER.len()..];
        let title = text.lines().next().unwrap_or_default().trim_start_matches("# ");
        let page = name.trim_end_matches(".md");
        if !overview.contains(&format!("| [{page}]({name}) | {title} |")) {
            found.push(format!("{OVERVIEW}: no row for {name} with the title `{title}`"));
        }
        found.extend(complaint(&text).map(|complaint| format!("{path}: {complaint}")));
    }
    Ok(found)
}

fn complaint(text: &str) -> Option<String> {
    let mut rest = text;
    let mut sections = Vec::new();
    for section in SECTIONS {
        let Some((before, behind)) = rest.split_once(&format!("\n{section}\n")) else {
            return Some(format!("no section `{section}` in its place"));
        };
        sections.push(before.trim());
        rest = behind;
    }
    sections.push(rest.trim());
    if !sections[0].contains("\nAccepted: ") {
        return Some("no line that begins with `Accepted: `".to_string());
    }
    if sections.iter().any(|section| section.is_empty()) {
        return Some("a section without text".to_string());
    }
    let decision = sections[2].replace('\n', " ");
    let sentences = decision.split(". ").count();
    (sentences > 1 || !decision.ends_with('.')).then(|| "the decision is not one sentence".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_three_sections_and_one_sentence() {
        let record = |context: &str, decision: &str| {
            format!(
                "# A\n\nAccepted: today.\n\n## Context\n\n{context}\n\n## Decision\n\n{decision}\n\n## Consequences\n\nC.\n"
            )
        };
        let check = |text: &str, expected: Option<&str>| assert_eq!(complaint(text).as_deref(), expected);
        check(&record("Why.", "It is\ndone."), None);
        check(&record("", "It is done."), Some("a section without text"));
        check(&record("Why.", "It is done. So is that."), Some("the decision is not one sentence"));
        check("# A\n\n## Decision\n", Some("no section `## Context` in its place"));
    }
}
