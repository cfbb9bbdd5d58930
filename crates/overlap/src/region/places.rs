//! Search for the regions of a file. libclang does not report pragmas, so they are found in the text.

use std::ops::Range;

use super::types::File;
use crate::clang::{Kind, Node};
use crate::refusal::{SourcePosition, Unsupported};

/// Returns the bytes that each region of the file takes (whole lines), and its loop over time.
pub fn find<'s>(file: &File<'s>) -> Result<Vec<(Range<usize>, &'s Node)>, Unsupported> {
    let mut found = Vec::new();
    let mut open: Option<(SourcePosition, Range<usize>)> = None;
    let mut offset = 0;
    for (at, line) in file.source.split_inclusive('\n').enumerate() {
        let place = SourcePosition { line: at + 1, column: 1 + line.len() - line.trim_start().len() };
        let own = offset..offset + line.len();
        match (pragma(line), &open) {
            (Some("scop"), None) => open = Some((place, own.clone())),
            (Some("scop"), Some(_)) => {
                return Err(Unsupported::at_place(
                    place,
                    line.trim(),
                    "stands inside of a region",
                    "end the one before it with `#pragma endscop`",
                ));
            }
            (Some("endscop"), Some((start, first))) => {
                found.push((first.start..own.end, only_loop(file, *start, first.end..own.start)?));
                open = None;
            }
            (Some("endscop"), None) => {
                return Err(Unsupported::at_place(
                    place,
                    line.trim(),
                    "ends no region",
                    "begin the region with `#pragma scop`",
                ));
            }
            (Some("tutti overlap"), _) => {
                let node = loop_after(file, place, own.end)?;
                found.push((own.start..end_of_line(file.source, node.span.end), node));
            }
            _ => {}
        }
        offset += line.len();
    }
    match open {
        Some((place, _)) => Err(Unsupported::at_place(
            place,
            "#pragma scop",
            "is never ended",
            "write `#pragma endscop` after the loop over time",
        )),
        None if found.is_empty() => Err(Unsupported::general(
            "there is no region; write `#pragma tutti overlap` before the loop over time",
        )),
        None => apart(file, found),
    }
}

/// Refuses a region that begins before the one before it has ended.
fn apart<'s>(
    file: &File<'s>,
    found: Vec<(Range<usize>, &'s Node)>,
) -> Result<Vec<(Range<usize>, &'s Node)>, Unsupported> {
    let mut sorted: Vec<&(Range<usize>, &Node)> = found.iter().collect();
    sorted.sort_by_key(|(range, _)| range.start);
    match sorted.windows(2).find(|pair| pair[1].0.start < pair[0].0.end) {
        Some(pair) => file.refuse(pair[1].1, "is a region inside of another", "mark the outer loop only"),
        None => Ok(found),
    }
}

fn pragma(line: &str) -> Option<&'static str> {
    let words: Vec<&str> = line.trim_start().strip_prefix('#')?.split_whitespace().collect();
    match words.as_slice() {
        ["pragma", "scop", ..] => Some("scop"),
        ["pragma", "endscop", ..] => Some("endscop"),
        ["pragma", "tutti", "overlap", ..] => Some("tutti overlap"),
        _ => None,
    }
}

/// Returns the end of the statement at `from`, or the end of its line if nothing else follows.
fn end_of_line(source: &str, from: usize) -> usize {
    let rest = &source[from..];
    let blanks = rest.len() - rest.trim_start().len();
    let from = if rest[blanks..].starts_with(';') && !source[..from].ends_with(['}', ';']) {
        from + blanks + 1
    } else {
        from
    };
    match source[from..].find('\n') {
        Some(at) if source[from..from + at].trim().is_empty() => from + at + 1,
        _ => from,
    }
}

/// Statements that lie in `range` and whose parent does not.
fn statements<'s>(file: &File<'s>, range: &Range<usize>) -> Vec<&'s Node> {
    let mut found = Vec::new();
    for node in file.nodes {
        node.walk(&mut |node| {
            let inside = node.is_main && node.span.start >= range.start && node.span.end <= range.end;
            if inside {
                found.push(node);
            }
            !inside
        });
    }
    found
}

fn only_loop<'s>(
    file: &File<'s>,
    pragma: SourcePosition,
    range: Range<usize>,
) -> Result<&'s Node, Unsupported> {
    match statements(file, &range).as_slice() {
        [] => Err(Unsupported::at_place(
            pragma,
            "#pragma scop",
            "has no loop after it",
            "put it directly before the loop over time",
        )),
        [node] if node.kind == Kind::For => Ok(node),
        [first, second, ..] if first.kind == Kind::For => {
            file.refuse(second, "follows the loop over time in the region", "end the region before it")
        }
        [other, ..] => file.refuse(
            other,
            "is not a loop over time",
            "begin the region directly before the `for` over time",
        ),
    }
}

fn loop_after<'s>(file: &File<'s>, pragma: SourcePosition, offset: usize) -> Result<&'s Node, Unsupported> {
    let first = statements(file, &(offset..file.source.len())).into_iter().min_by_key(|node| node.span.start);
    match first {
        Some(node) if node.kind == Kind::For => Ok(node),
        Some(node) => {
            file.refuse(node, "is not a loop over time", "put the pragma directly before the `for` over time")
        }
        None => Err(Unsupported::at_place(
            pragma,
            "#pragma tutti overlap",
            "has no loop after it",
            "put it directly before the loop over time",
        )),
    }
}
