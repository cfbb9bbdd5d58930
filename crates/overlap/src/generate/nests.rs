//! The nests of a region as they stand in the program, within bounds.

use super::text::Text;
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
        out.add(&format!("/* {lines} */"));
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
        let header = format!(
            "for ({type_name}{variable} = {max}({low}, {from}); {variable} < {min}({high}, {past}); {variable}++) "
        );
        let text = self.own_text(nest.span.start, distributed.header.start, &header);
        if distributed.header.start != nest.span.start
            || text.contains("#pragma omp")
            || !is_parallel(self.model, at)
        {
            return text;
        }
        let private: Vec<String> =
            nest.shared_variables.iter().filter(|name| *name != variable).cloned().collect();
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
        let column =
            self.source[..start].rsplit('\n').next().map_or(0, |line| line.len() - line.trim_start().len());
        let mut lines = text.lines().map(|line| {
            let blanks = line.len() - line.trim_start().len();
            &line[blanks.min(column)..]
        });
        let first = lines.next().unwrap_or("").to_string();
        lines.fold(first, |all, line| all + "\n" + line) + "\n"
    }

    /// The header with the line break and blanks that stood before the body.
    fn with_break(&self, body: usize, header: &str) -> String {
        let before = &self.source[..body];
        let blanks = &before[before.trim_end().len()..];
        if blanks.contains('\n') { format!("{}{blanks}", header.trim_end()) } else { header.to_string() }
    }
}
