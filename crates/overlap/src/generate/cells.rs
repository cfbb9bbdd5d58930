//! Loops over cells of arrays, which count, pack or unpack the cells.

use super::text::{Text, replace_words_at, words};
use super::writer::Writer;
use crate::isl::Set;

/// Action of a loop on each cell.
#[derive(Clone, Copy)]
pub enum Action {
    /// `count` grows by one.
    Count,
    /// The cell is written to `next`.
    Pack,
    /// The cell is read from `next`.
    Unpack,
}

/// The elements that travel: their type in C and in MPI.
pub struct Element {
    /// `double`, or `char` if there are several.
    pub c: String,
    /// Name of the element's type in MPI.
    pub mpi: String,
    /// Whether arrays have different elements, so that bytes travel.
    pub is_mixed: bool,
}

/// MPI's names of types of C.
const TYPES: &[(&str, &str)] = &[
    ("double", "MPI_DOUBLE"),
    ("float", "MPI_FLOAT"),
    ("long double", "MPI_LONG_DOUBLE"),
    ("int", "MPI_INT"),
    ("long", "MPI_LONG"),
    ("long long", "MPI_LONG_LONG"),
    ("short", "MPI_SHORT"),
    ("unsigned int", "MPI_UNSIGNED"),
    ("unsigned long", "MPI_UNSIGNED_LONG"),
    ("unsigned char", "MPI_UNSIGNED_CHAR"),
    ("_Complex double", "MPI_C_DOUBLE_COMPLEX"),
];

impl Writer<'_> {
    /// Returns the element type of the arrays that the region writes.
    pub fn element(&self) -> Element {
        let mut written =
            self.region().arrays.values().filter(|array| array.is_written).map(|array| &array.element);
        let first = written.next().expect("a region writes something").clone();
        let known = TYPES.iter().find(|(c, _)| *c == first);
        match known {
            Some((_, mpi)) if written.all(|other| *other == first) => {
                Element { c: first, mpi: mpi.to_string(), is_mixed: false }
            }
            _ => Element { c: "char".into(), mpi: "MPI_BYTE".into(), is_mixed: true },
        }
    }

    /// Writes loops that perform `action` on all `cells`. `renamed` contains replacements for names in the
    /// sets.
    pub fn cells(
        &mut self,
        out: &mut Text,
        cells: &Set,
        context: &str,
        renamed: &[(&str, &str)],
        action: Action,
    ) {
        let lines = self.cells_text(cells, context, renamed, action);
        out.add_block(&lines, 0);
    }

    /// Writes loops over cells, after definitions of those `constants` (`$name` and value) that the loops
    /// use.
    pub fn cells_with(
        &mut self,
        out: &mut Text,
        constants: &[(&str, &str)],
        (cells, context): (&Set, &str),
        renamed: &[(&str, &str)],
        action: Action,
    ) {
        let lines = self.cells_text(cells, context, renamed, action);
        for (name, value) in constants {
            let name = self.names.get(name);
            if words(&lines).any(|(_, word)| word == name) {
                self.add(out, &format!("const long {name} = {value};"));
            }
        }
        out.add_block(&lines, 0);
    }

    /// Returns true if there may be cells to visit.
    pub fn any(&mut self, cells: &Set, context: &str) -> bool {
        // isl writes a comment where there are none.
        let count = self.names.get("count");
        words(&self.cells_text(cells, context, &[], Action::Count)).any(|(_, word)| word == count)
    }

    fn cells_text(&mut self, cells: &Set, context: &str, renamed: &[(&str, &str)], action: Action) -> String {
        let iterators: Vec<String> =
            ["x", "y", "z", "w", "v", "u"].iter().map(|name| self.names.get(name)).collect();
        let loops = self.model.loops(cells, context, &iterators);
        let is_mixed = self.element().is_mixed;
        let (count, next) = (self.names.get("count"), self.names.get("next"));
        let arrays: Vec<(String, String)> =
            self.region().arrays.iter().map(|(own, array)| (own.clone(), array.name.clone())).collect();
        let done = |array: &str, subscripts: &str| {
            let cell = format!("{array}[{}]", subscripts.replace(", ", "]["));
            match action {
                Action::Count if is_mixed => format!("{count} += sizeof {cell};"),
                Action::Count => format!("{count}++;"),
                Action::Pack if is_mixed => {
                    format!("{next} = (char *)memcpy({next}, &{cell}, sizeof {cell}) + sizeof {cell};")
                }
                Action::Pack => format!("*{next}++ = {cell};"),
                Action::Unpack if is_mixed => {
                    format!("memcpy(&{cell}, {next}, sizeof {cell}), {next} += sizeof {cell};")
                }
                Action::Unpack => format!("{cell} = *{next}++;"),
            }
        };
        let mut lines = String::new();
        for line in loops.lines() {
            let bare = line.trim_start();
            let blanks = 2 * (line.len() - bare.len());
            let call = bare.strip_suffix(");").and_then(|call| call.split_once('('));
            let visited = call.and_then(|(array, subscripts)| {
                let (_, name) = arrays.iter().find(|(own, _)| own == array)?;
                Some((name, subscripts))
            });
            let new = match visited {
                Some((name, subscripts)) => done(name, &self.c(subscripts, renamed)),
                _ => self.c(bare, renamed).replacen("for (int ", "for (long ", 1),
            };
            lines.push_str(&format!("{}{new}\n", " ".repeat(blanks)));
        }
        lines
    }

    /// Translates an expression with names of isl to one of the program. Unsigned variables are converted to
    /// signed numbers.
    pub fn c(&mut self, text: &str, renamed: &[(&str, &str)]) -> String {
        let [min, max, floor] =
            ["overlap_min", "overlap_max", "overlap_floor"].map(|name| self.names.get(name));
        let region = self.region();
        replace_words_at(text, |start, word| {
            // Products are computed in 64 bits.
            let long = if text[..start].ends_with("* ") { "(long)" } else { "" };
            if let Some((_, new)) = renamed.iter().find(|(old, _)| *old == word) {
                return Some(new.to_string());
            }
            match word {
                "min" => Some(min.clone()),
                "max" => Some(max.clone()),
                "floord" => Some(floor.clone()),
                _ => match region.parameters.get(word) {
                    Some(known) if known.is_unsigned => Some(format!("(long){}", known.name)),
                    Some(known) => Some(format!("{long}{}", known.name)),
                    None => region.counters.get(word).map(|text| format!("{long}{text}")),
                },
            }
        })
    }

    /// Returns nested calls of `function` on all different values: `overlap_max(a, overlap_max(b, c))`.
    pub fn extreme(&mut self, function: &str, mut values: Vec<String>) -> String {
        let name = self.names.get(function);
        let mut seen = std::collections::BTreeSet::new();
        values.retain(|value| seen.insert(value.clone()));
        let last = values.pop().expect("at least one value");
        values.iter().rev().fold(last, |inner, value| format!("{name}({value}, {inner})"))
    }
}
