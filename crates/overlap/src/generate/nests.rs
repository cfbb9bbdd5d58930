//! The nests of a region as they stand in the program, within bounds.

use super::text::{Text, dedented, words};
use super::writer::Writer;
use crate::region::{Coordinate, Loop};
use crate::step::is_parallel;

impl Writer<'_> {
    /// The nest `at` for coordinates in [from, past), both expressions.
    pub fn nest(&mut self, out: &mut Text, at: usize, from: &str, past: &str) {
        let region = self.region();
        let nest = region.nests[at].clone();
        let (first, last) = (self.line_of(nest.span.start), self.line_of(nest.span.end));
        let text = match &nest.coordinate {
            Coordinate::Loop(distributed) => self.distributed(at, distributed, from, past),
            Coordinate::Fixed(place) => {
                let place = self.c(&place.to_string(), &[]);
                let inner = self.own_text(nest.span.start, nest.span.start, "");
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
        let variable = &distributed.variable;
        let type_name = distributed.declared.as_ref().map_or(String::new(), |name| format!("{name} "));
        let (min, max) = (self.names.get("overlap_min"), self.names.get("overlap_max"));
        let [low, high] = [format!("{max}({low}, {from})"), format!("{min}({high}, {past})")];
        let header = format!("for ({type_name}{variable} = {low}; {variable} < {high}; {variable}++) ");
        let strips = self.strips(at, distributed, [&low, &high], &header);
        let counts_rows = strips.as_ref().is_some_and(|text| !text.starts_with(header.trim_end()));
        let text =
            strips.unwrap_or_else(|| self.own_text(nest.span.start, distributed.header.start, &header));
        if distributed.header.start != nest.span.start
            || text.contains("#pragma omp")
            || !is_parallel(self.model, at)
        {
            return text;
        }
        let private: Vec<String> =
            nest.shared_variables.iter().filter(|name| counts_rows || *name != variable).cloned().collect();
        let clause =
            if private.is_empty() { String::new() } else { format!(" private({})", private.join(", ")) };
        format!("#ifdef _OPENMP\n#pragma omp parallel for{clause}\n#endif\n{text}")
    }

    /// The user's text of the nest that begins at `start`, with the header of the loop at `replaced` turned
    /// into `header`; its first line not indented.
    fn own_text(&self, start: usize, replaced: usize, header: &str) -> String {
        let region = self.region();
        let nest = region.nests.iter().find(|nest| nest.span.start == start).expect("a nest of the region");
        let mut text = self.source[nest.span.clone()].to_string();
        if !header.is_empty() {
            let all = region.statements.iter().flat_map(|statement| &statement.loops);
            let old = all.map(|l| &l.header).find(|old| old.start == replaced).expect("a loop of the region");
            text.replace_range(old.start - start..old.end - start, &self.with_break(old.end, header));
        }
        if !text.ends_with(['}', ';']) {
            text.push(';');
        }
        dedented(&text, self.column(start)) + "\n"
    }

    /// The header with the line break and blanks that stood before the body.
    pub fn with_break(&self, body: usize, header: &str) -> String {
        let before = &self.source[..body];
        let blanks = &before[before.trim_end().len()..];
        if blanks.contains('\n') { format!("{}{blanks}", header.trim_end()) } else { header.to_string() }
    }

    /// How far the line of `offset` is indented.
    pub fn column(&self, offset: usize) -> usize {
        self.source[..offset].rsplit('\n').next().map_or(0, |line| line.len() - line.trim_start().len())
    }
}
