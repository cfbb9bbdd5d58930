//! Innermost loops whose speed does not depend on the address of their code.
//!
//! In a tile these loops are short. A compiler that cannot know whether two arrays overlap leaves a copy as a
//! loop of few instructions. The speed of such a loop depends on its address, by up to a factor of two. So
//! loops are unrolled. A loop that only copies becomes calls of `memcpy`, in pieces that fit into the
//! first-level cache and that threads can share.

use std::ops::Range;

use super::text::{replace_words, words};
use super::writer::Writer;
use crate::region::{Access, Loop, Statement};

/// Positions that are copied at once.
const PIECE: i64 = 1024;

impl Writer<'_> {
    /// Returns the replacements in the text of nest `at` for its innermost loops: disjoint ranges of the
    /// source and their new text. `bounded` is a loop with new bounds.
    pub fn innermost(
        &mut self,
        at: usize,
        bounded: Option<(&Loop, [&str; 2])>,
    ) -> Vec<(Range<usize>, String)> {
        let region = self.region();
        let span = region.nests[at].span.clone();
        if self.source[span.clone()].contains("#pragma") {
            return Vec::new();
        }
        let own: Vec<Statement> = region.statements.iter().filter(|one| one.nest == at).cloned().collect();
        let mut edits: Vec<(Range<usize>, String)> = Vec::new();
        for statement in &own {
            let Some(last) = statement.loops.last() else { continue };
            let is_inside = |other: &Statement| {
                let mut around = other.loops.iter().map(|one| &one.header);
                around.any(|header| *header == last.header)
            };
            let inside: Vec<&Statement> = own.iter().filter(|other| is_inside(other)).collect();
            let is_innermost =
                inside.iter().all(|other| other.loops.last().is_some_and(|one| one.header == last.header));
            let is_done = edits.iter().any(|(range, _)| range.start == last.header.start);
            if !is_innermost || is_done {
                continue;
            }
            let bounds = match bounded {
                Some((one, bounds)) if one.header == last.header => bounds.map(str::to_string),
                _ => last.texts.clone(),
            };
            let copied = if inside.len() == 1 { self.copied(statement, last, &bounds) } else { None };
            edits.push(copied.unwrap_or_else(|| self.unrolled(last, span.start)));
        }
        edits
    }

    /// Returns the insertion of the unrolling pragma before a loop. The pragma has a line of its own if the
    /// loop or the nest begins one.
    fn unrolled(&mut self, one: &Loop, nest: usize) -> (Range<usize>, String) {
        let start = one.header.start;
        let before = self.source[..start].rsplit('\n').next().unwrap_or("");
        let is_first = start == nest || before.trim().is_empty();
        let gap = if is_first { format!("\n{}", " ".repeat(self.column(start))) } else { " ".into() };
        (start..start, format!("{}{gap}", self.names.get("OVERLAP_UNROLL")))
    }

    /// Returns a loop that copies pieces by `memcpy`, if the loop over `statement` only copies.
    fn copied(
        &mut self,
        statement: &Statement,
        one: &Loop,
        bounds: &[String; 2],
    ) -> Option<(Range<usize>, String)> {
        let end = self.end_of_body(one, &statement.text)?;
        let (to, from) = statement.text.split_once('=')?;
        let (to, from) = (to.trim(), from.trim());
        let ([read], Some(written)) = (statement.reads.as_slice(), &statement.write) else { return None };
        let arrays = &self.region().arrays;
        let is_one_type = arrays[&read.array].element == arrays[&written.array].element;
        let is_row = |access: &Access, text: &str| {
            let (last, others) = access.subscripts.split_last().expect("an element of an array");
            last.factor(&one.variable) == 1
                && others.iter().all(|subscript| subscript.factor(&one.variable) == 0)
                && words(text).next().is_some_and(|(at, word)| at == 0 && word == arrays[&access.array].name)
                && words(text).any(|(_, word)| word == one.name)
                && text.ends_with(']')
        };
        if read.array == written.array || !is_one_type || !is_row(written, to) || !is_row(read, from) {
            return None;
        }
        let (piece, min) = (self.names.get("piece"), self.names.get("overlap_min"));
        let [to, from] =
            [to, from].map(|text| replace_words(text, |word| (word == one.name).then(|| piece.clone())));
        let [low, high] = bounds;
        let left = if words(high).count() > 1 && !high.ends_with(')') {
            format!("({high}) - {piece}")
        } else {
            format!("{high} - {piece}")
        };
        let blanks = " ".repeat(self.column(one.header.start) + 4);
        let text = format!(
            "for (long {piece} = {low}; {piece} < {high}; {piece} += {PIECE})
{blanks}memcpy(&{to}, &{from}, (size_t){min}({PIECE}, {left}) * sizeof {to});"
        );
        // A nest without braces ends before its semicolon.
        let end = end.min(self.region().nests[statement.nest].span.end);
        Some((one.header.start..end, text))
    }

    /// Returns the end of the body of a loop, if the body is the single statement `text`.
    fn end_of_body(&self, one: &Loop, text: &str) -> Option<usize> {
        let body = &self.source[one.header.end..];
        let inner = body.strip_prefix('{').map(str::trim_start);
        let after = inner.unwrap_or(body).strip_prefix(text)?.trim_start().strip_prefix(';')?;
        let rest = match inner {
            Some(_) => after.trim_start().strip_prefix('}')?,
            None => after,
        };
        Some(self.source.len() - rest.len())
    }
}
