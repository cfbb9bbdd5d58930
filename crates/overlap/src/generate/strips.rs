//! Code for a nest whose innermost loop is a chain: strips of rows along diagonals ([`crate::diagonals`]).

use super::text::dedented;
use super::writer::Writer;
use crate::diagonals;
use crate::region::Loop;

/// Rows of a strip: as many chains as a processor overlaps, and few enough to stay in its first cache.
const ROWS: i64 = 8;

/// A nest in parts of the user's text.
struct Parts {
    /// Text from the beginning to the last but one loop.
    outside: String,
    /// Text of the innermost loop's body, without braces.
    body: String,
    /// Number of loops around the two innermost ones.
    depth: usize,
    /// The two innermost loops.
    rows: Loop,
    chain: Loop,
}

impl Writer<'_> {
    /// Returns the least number of positions of a tile: the width of a strip, if there are strips.
    pub fn narrowest(&mut self) -> i64 {
        let has_strips =
            (0..self.region().nests.len()).any(|nest| diagonals::factor(self.model, nest).is_some());
        if has_strips { ROWS } else { 1 }
    }

    /// Returns the text of the nest `at` within bounds, if it is a chain: `distributed` is its loop from
    /// `low` up to `high`, whose header would be `header`.
    pub fn strips(
        &mut self,
        at: usize,
        distributed: &Loop,
        [low, high]: [&str; 2],
        header: &str,
    ) -> Option<String> {
        let factor = diagonals::factor(self.model, at)?;
        let parts = self.parts(at, distributed, header)?;
        let bounds = match parts.rows.header == distributed.header {
            true => [low.to_string(), high.to_string()],
            false => parts.rows.texts.clone(),
        };
        let [min, strip, beyond] = ["overlap_min", "strip", "beyond"].map(|name| self.names.get(name));
        let mut inner = match factor {
            0 => vec![
                self.source[parts.chain.header.clone()].trim_end().to_string(),
                format!("    {} {{", over_rows(&parts.rows, &strip, &beyond)),
            ],
            _ => self.diagonals(&parts, factor, &strip, &beyond),
        };
        inner.extend(
            parts
                .body
                .lines()
                .map(|line| if line.is_empty() { String::new() } else { format!("        {line}") }),
        );
        inner.push("    }".to_string());
        let [low, high] = bounds;
        let mut all = vec![
            format!("for (long {strip} = {low}; {strip} < {high}; {strip} += {ROWS}) {{"),
            format!("    const long {beyond} = {min}({strip} + {ROWS}, {high});"),
        ];
        all.extend(inner.iter().map(|line| format!("    {line}")));
        all.push("}".to_string());
        Some(enclosed(&parts, &all))
    }

    /// Loops over diagonals of the rows [strip, beyond), and over the rows of each.
    fn diagonals(&mut self, parts: &Parts, factor: i64, strip: &str, beyond: &str) -> Vec<String> {
        let Loop { name: column, declared, low, high, .. } = &parts.chain;
        let [first, past] = [low, high].map(|end| self.c(&end.to_string(), &[]));
        let [min, max, floor, diagonal] =
            ["overlap_min", "overlap_max", "overlap_floor", "diagonal"].map(|name| self.names.get(name));
        let product = |what: &str| if factor == 1 { what.to_string() } else { format!("{factor} * {what}") };
        let row_of = |end: &str| {
            let is_number = end.bytes().all(|letter| letter.is_ascii_digit());
            let moved =
                format!("{diagonal} - {}", if is_number { end.to_string() } else { format!("({end})") });
            if factor == 1 { moved } else { format!("{floor}({moved}, {factor})") }
        };
        let (from, to) = (product(strip), product(&format!("({beyond} - 1)")));
        let rows = over_rows(
            &parts.rows,
            &format!("{max}({strip}, {} + 1)", row_of(&past)),
            &format!("{min}({beyond}, {} + 1)", row_of(&first)),
        );
        let constant = declared.as_ref().map_or(String::new(), |name| format!("const {name} "));
        vec![
            format!("for (long {diagonal} = {from} + {first}; {diagonal} < {to} + {past}; {diagonal}++)"),
            format!("    {rows} {{"),
            format!("        {constant}{column} = {diagonal} - {};", product(&parts.rows.value())),
        ]
    }

    /// Splits the nest into its parts, or returns `None` if statements stand between its loops.
    fn parts(&self, at: usize, distributed: &Loop, header: &str) -> Option<Parts> {
        let span = self.region().nests[at].span.clone();
        let loops = &self.region().statements.iter().find(|one| one.nest == at)?.loops;
        let [.., rows, chain] = loops.as_slice() else { return None };
        if distributed.header == chain.header
            || chain.low.factor(&rows.variable) != 0
            || chain.high.factor(&rows.variable) != 0
        {
            return None;
        }
        let mut braces = 0;
        for pair in loops.windows(2) {
            match self.source[pair[0].header.end..pair[1].header.start].trim() {
                "" => {}
                "{" => braces += 1,
                _ => return None,
            }
        }
        let mut body = self.source[chain.header.end..span.end].trim();
        for _ in 0..braces {
            body = body.strip_suffix('}')?.trim_end();
        }
        let after = &self.source[chain.header.end..];
        let column = self.column(chain.header.end + after.len() - after.trim_start().len());
        let inner = body.strip_prefix('{').and_then(|inner| inner.strip_suffix('}'));
        let body = match inner {
            Some(inner) => {
                let inner = inner.trim_end().trim_start_matches([' ', '\t']).trim_start_matches('\n');
                dedented(inner, inner.len() - inner.trim_start().len())
            }
            None if body.ends_with(';') => dedented(body, column),
            None => dedented(&format!("{body};"), column),
        };
        let mut outside = self.source[span.start..rows.header.start].to_string();
        if distributed.header.start < rows.header.start {
            let old = &distributed.header;
            outside.replace_range(
                old.start - span.start..old.end - span.start,
                &self.with_break(old.end, header),
            );
        }
        let outside = dedented(outside.trim_end(), self.column(span.start));
        Some(Parts { outside, body, depth: loops.len() - 2, rows: rows.clone(), chain: chain.clone() })
    }
}

/// Returns the loop over rows, from `low` up to `high`.
fn over_rows(rows: &Loop, low: &str, high: &str) -> String {
    let Loop { name: variable, declared, .. } = rows;
    let type_name = declared.as_ref().map_or(String::new(), |name| format!("{name} "));
    format!("for ({type_name}{variable} = {low}; {} < {high}; {variable}++)", rows.value())
}

/// Returns the loops over strips, in the loops that are outside of them.
fn enclosed(parts: &Parts, strips: &[String]) -> String {
    if parts.outside.is_empty() {
        return strips.join("\n") + "\n";
    }
    let indent = |depth: usize| "    ".repeat(depth);
    let mut lines: Vec<String> = parts.outside.lines().map(str::to_string).collect();
    lines.extend(strips.iter().map(|line| format!("{}{line}", indent(parts.depth))));
    lines.extend((0..parts.outside.matches('{').count()).rev().map(|depth| format!("{}}}", indent(depth))));
    lines.join("\n") + "\n"
}
