//! Text of the nests of a region, within bounds.

use super::text::{Text, dedented, words};
use super::writer::Writer;
use crate::region::{Coordinate, Loop};
use crate::step::is_parallel;

impl Writer<'_> {
    /// Writes the nest `at` for coordinates in [from, past), which are expressions.
    pub fn nest(&mut self, out: &mut Text, at: usize, from: &str, past: &str) {
        let region = self.region();
        let nest = region.nests[at].clone();
        let (first, last) = (self.line_of(nest.span.start), self.line_of(nest.span.end));
        let text = match &nest.coordinate {
            Coordinate::Loop(distributed) => self.distributed(at, distributed, from, past),
            Coordinate::Fixed(place) => {
                let place = self.c(&place.to_string(), &[]);
                let inner = self.own_text(at, None);
                let indented: String = inner.lines().map(|line| format!("    {line}\n")).collect();
                format!("if ({from} <= {place} && {place} < {past}) {{\n{indented}}}\n")
            }
        };
        let lines = if first == last { format!("line {first}") } else { format!("lines {first} to {last}") };
        let strip = self.names.get("strip");
        let order = match words(&text).any(|(_, word)| word == strip) {
            true => ", in strips of rows: what is computed one after the other does not need each other",
            false => "",
        };
        out.add(&format!("/* {lines}{order} */"));
        if self.options.measure {
            self.add(out, "if ($compute) {");
        }
        out.add_block(&text, 0);
        if self.options.measure {
            self.add(out, "}");
        }
    }

    fn line_of(&self, offset: usize) -> usize {
        1 + self.source[..offset].matches('\n').count()
    }

    fn distributed(&mut self, at: usize, distributed: &Loop, from: &str, past: &str) -> String {
        let nest = self.region().nests[at].clone();
        let [low, high] = &distributed.texts;
        let variable = &distributed.name;
        let type_name = distributed.declared.as_ref().map_or(String::new(), |name| format!("{name} "));
        let (min, max) = (self.names.get("overlap_min"), self.names.get("overlap_max"));
        let [low, high] = [format!("{max}({low}, {from})"), format!("{min}({high}, {past})")];
        let header =
            format!("for ({type_name}{variable} = {low}; {} < {high}; {variable}++) ", distributed.value());
        let strips = self.strips(at, distributed, [&low, &high], &header);
        let counts_rows = strips.as_ref().is_some_and(|text| !text.starts_with(header.trim_end()));
        let text = strips.unwrap_or_else(|| self.own_text(at, Some((distributed, [&low, &high], &header))));
        if distributed.header.start != nest.span.start
            || text.contains("#pragma omp")
            || !is_parallel(self.model, at)
        {
            return text;
        }
        let is_used = |name: &str| words(&text).any(|(_, word)| word == name);
        let shared = nest.shared_variables.iter().filter(|name| is_used(name));
        let private: Vec<String> = shared.filter(|name| counts_rows || *name != variable).cloned().collect();
        let clause =
            if private.is_empty() { String::new() } else { format!(" private({})", private.join(", ")) };
        // A loop has one of two prefixes: the pragma for threads, or the one for unrolling.
        let unrolled = format!("{}\n", self.names.get("OVERLAP_UNROLL"));
        let (other, text) = match text.strip_prefix(&unrolled) {
            Some(text) => (format!("#else\n{unrolled}"), text),
            None => (String::new(), text.as_str()),
        };
        format!("#ifdef _OPENMP\n#pragma omp parallel for{clause}\n{other}#endif\n{text}")
    }

    /// Returns the user's text of the nest `at`, in which one loop may have other bounds and another header.
    /// The first line is not indented.
    fn own_text(&mut self, at: usize, bounded: Option<(&Loop, [&str; 2], &str)>) -> String {
        let span = self.region().nests[at].span.clone();
        let mut edits = self.innermost(at, bounded.map(|(one, bounds, _)| (one, bounds)));
        if let Some((one, _, header)) = bounded
            && !edits.iter().any(|(range, _)| range.contains(&one.header.start))
        {
            edits.push((one.header.clone(), self.with_break(one.header.end, header)));
        }
        // From the last to the first, so that places before an edit stay as they are.
        edits.sort_by_key(|(range, _)| std::cmp::Reverse((range.start, range.end)));
        let mut text = self.source[span.clone()].to_string();
        for (range, new) in edits {
            text.replace_range(range.start - span.start..range.end - span.start, &new);
        }
        if !text.ends_with(['}', ';']) {
            text.push(';');
        }
        dedented(&text, self.column(span.start)) + "\n"
    }

    /// Returns the header with the line break and blanks that stood before the body.
    pub fn with_break(&self, body: usize, header: &str) -> String {
        let before = &self.source[..body];
        let blanks = &before[before.trim_end().len()..];
        if blanks.contains('\n') { format!("{}{blanks}", header.trim_end()) } else { header.to_string() }
    }

    /// Returns the indentation of the line of `offset`, in characters.
    pub fn column(&self, offset: usize) -> usize {
        self.source[..offset].rsplit('\n').next().map_or(0, |line| line.len() - line.trim_start().len())
    }
}
