//! Dependences of a region on the program around it. The region becomes functions of its own, after the
//! function that contains it. Numbers that it reads are passed as arguments; types and macros must be visible
//! there.

use std::collections::{BTreeMap, BTreeSet};

use super::loops::unqualified;
use super::types::{Array, File, Scalar};
use crate::clang::{Kind, Node, Shape, Variable};
use crate::refusal::{SourcePosition, Unsupported};

/// Returns the function that has the region.
pub fn function<'s>(file: &File<'s>, region: &Node) -> Result<&'s Node, Unsupported> {
    let is_around = |node: &&Node| {
        node.kind == Kind::Function
            && node.span.start <= region.span.start
            && region.span.end <= node.span.end
    };
    match file.nodes.iter().find(is_around) {
        Some(function) => Ok(function),
        None => file.refuse(region, "stands in no function of this file", "move it into one"),
    }
}

/// Returns by name the numbers that the region reads and that are declared outside of it. Constants of
/// enumerations in its function are included.
pub fn scalars(
    file: &File,
    function: &Node,
    region: &Node,
    counters: &BTreeSet<Variable>,
) -> Result<BTreeMap<String, Scalar>, Unsupported> {
    let mut found = BTreeMap::new();
    let mut outcome = Ok(());
    region.walk(&mut |node| {
        let Some(declared) = node.declaration.as_ref().filter(|_| node.kind == Kind::Name) else {
            return outcome.is_ok();
        };
        let key = node.variable();
        let lies_in = |part: &Node| declared.offset.is_some_and(|offset| part.span.contains(&offset));
        let type_name = unqualified(&node.types[1]);
        if lies_in(region) || counters.contains(&key) || node.shape.is_address() {
            return true;
        }
        if declared.is_variable {
            if type_name.contains('(') && outcome.is_ok() {
                outcome = file.refuse(
                    node,
                    "has a type without a name",
                    "copy it to a variable of another type before the region",
                );
            }
            found.insert(node.name.clone(), Scalar { name: node.name.clone(), type_name });
        } else if node.value.is_some() && node.shape != Shape::Other && lies_in(function) {
            found.insert(node.name.clone(), Scalar { name: node.name.clone(), type_name: "int".into() });
        }
        outcome.is_ok()
    });
    outcome.map(|()| found)
}

/// Refuses lines of the preprocessor that the functions after `function` would see differently, and names
/// with a dollar sign.
pub fn check_text(file: &File, function: &Node, region: &std::ops::Range<usize>) -> Result<(), Unsupported> {
    let text = &file.source[region.clone()];
    let refuse = |at: usize, expression: &str, wrong: &str, remedy: &str| {
        let before = &file.source[..at];
        let line = 1 + before.matches('\n').count();
        let column = 1 + before.rsplit('\n').next().map_or(0, str::len);
        Err(Unsupported::at_place(SourcePosition { line, column }, expression, wrong, remedy))
    };
    if let Some(at) = text.find('$') {
        let remedy = "use letters, digits and underscores in the region";
        return refuse(region.start + at, "$", "stands in the region", remedy);
    }
    for (range, words) in [
        (region.clone(), ["include", "include_next", "embed"]),
        (region.end.min(function.span.end)..function.span.end, ["define", "undef", "include"]),
    ] {
        let mut at = range.start;
        for line in file.source[range.clone()].split_inclusive('\n') {
            let word = line.trim_start().strip_prefix('#').map(str::trim_start).unwrap_or_default();
            let word = word.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').next();
            if word.is_some_and(|word| words.contains(&word)) {
                let start = at + line.len() - line.trim_start().len();
                return match range.start == region.start {
                    true => refuse(
                        start,
                        line,
                        "reads another file in the region",
                        "write what that file holds into the region",
                    ),
                    false => refuse(
                        start,
                        line,
                        "stands between the region and the end of its function",
                        "move it behind the function: what is made of the region stands there",
                    ),
                };
            }
            at += line.len();
        }
    }
    Ok(())
}

/// Refuses types that the region uses and only its function knows.
pub fn check_types(
    file: &File,
    function: &Node,
    region: &Node,
    arrays: &BTreeMap<String, Array>,
    scalars: &BTreeMap<String, Scalar>,
) -> Result<(), Unsupported> {
    let types = arrays.values().map(|array| array.element.as_str());
    let texts = types.chain(scalars.values().map(|one| one.type_name.as_str())).chain([file.text(region)]);
    let is_letter = |letter: char| letter.is_alphanumeric() || letter == '_';
    let used: BTreeSet<&str> = texts.flat_map(|text| text.split(|letter| !is_letter(letter))).collect();
    let mut outcome = Ok(());
    function.walk(&mut |node| {
        if outcome.is_ok()
            && node.kind == Kind::Type
            && !node.name.is_empty()
            && used.contains(node.name.as_str())
        {
            outcome = file.refuse(
                node,
                "is a type of the function alone, and used in its region",
                "declare it before the function",
            );
        }
        outcome.is_ok()
    });
    outcome
}
