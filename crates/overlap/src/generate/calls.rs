//! Distribution of a region to all ranks. The user's program runs on rank 0 alone; the other ranks wait for
//! regions before `main`. For each region there are three functions.
//!
//! - `overlap_lines_N`, called by rank 0 in place of the region. It checks that sizes fit their types and
//!   that arrays do not overlap. Then it broadcasts the numbers and the memory that the region accesses, and
//!   computes. If a check fails it returns 0, and rank 0 executes the original loops;
//! - `overlap_serve_N`, called by the other ranks at the same time, with memory of their own;
//! - `overlap_compute_N`, called by both: the distributed region, which leaves the results on rank 0.

use std::collections::{BTreeMap, BTreeSet};

use super::text::{Text, dedented, words};
use super::writer::Writer;
use crate::region::{Array, Loop, Region};

/// The parts of a program that a region becomes.
pub struct Parts {
    /// Text in the place of the region.
    pub call: String,
    /// Text before the function that has the region.
    pub prototype: String,
    /// Text after the function that has the region.
    pub functions: String,
}

/// Wraps `body`, the text of the common computation of all ranks. `misfit` is
/// [`Model::misfit`](crate::polyhedra::Model) of the region in the file called `file`.
pub fn parts(writer: &mut Writer, file: &str, misfit: Option<&str>, body: &str) -> Parts {
    let lines = called_on_rank_0(writer, file, misfit);
    let mut prototype = Text::indented(0);
    let rank_0 = signature(writer, "lines", false);
    writer.add(&mut prototype, &format!("{rank_0};\n\n"));
    let mut functions = Text::indented(0);
    compute(writer, &mut functions, body);
    serve(writer, &mut functions);
    writer.add(&mut functions, &lines);
    let call = call(writer);
    Parts { call, prototype: prototype.finish(), functions: functions.finish() }
}

/// The start of the program, in a file that has regions.
pub const START: &str = "
/* Before main: ranks other than 0 compute regions from here on, and never come to main. */
__attribute__((constructor)) static void $overlap_begin(void)
{
    $overlap_start();
}
";

/// Returns the position of the region for messages: `lines 3 to 5`.
fn place(region: &Region) -> String {
    format!("lines {} to {}", region.lines.0, region.lines.1)
}

/// Returns dimension and name of each extent of an array that is a variable.
fn extents(array: &Array) -> impl Iterator<Item = (usize, String)> {
    let unknown = array.rows.iter().enumerate().filter(|(_, extent)| extent.is_none());
    unknown.map(|(at, _)| (at + 1, format!("{}_extent{}", array.name, at + 1)))
}

/// Returns a parameter that is a pointer to the first element, or row, of an array.
fn pointer(writer: &mut Writer, array: &Array, and: &str) -> String {
    let constant = if array.is_constant { "const " } else { "" };
    let (element, name) = (&array.element, &array.name);
    if array.rows.is_empty() {
        return format!("{constant}{element} *{and}{name}");
    }
    let names: Vec<(usize, String)> = extents(array).collect();
    let rows: String = (array.rows.iter().enumerate())
        .map(|(at, extent)| match (extent, names.iter().find(|(dimension, _)| *dimension == at + 1)) {
            (None, Some((_, name))) => format!("[{}]", writer.names.get(name)),
            (extent, _) => format!("[{}]", extent.unwrap_or(0)),
        })
        .collect();
    format!("{constant}{element} (*{and}{name}){rows}")
}

/// Returns the declaration of one of the functions of a region.
fn signature(writer: &mut Writer, what: &str, is_inner: bool) -> String {
    let region = writer.region().clone();
    let mut all: Vec<String> =
        region.scalars.values().map(|one| format!("{} {}", one.type_name, one.name)).collect();
    for array in region.arrays.values() {
        for (_, name) in extents(array) {
            all.push(format!("long {}", writer.names.get(&name)));
        }
    }
    let and = if is_inner { "restrict " } else { "" };
    for array in region.arrays.values() {
        all.push(pointer(writer, array, and));
    }
    let result = if is_inner { "void" } else { "int" };
    format!("static {result} $overlap_{what}_{}({})", region.lines.0, all.join(", "))
}

/// Writes the function that all ranks compute.
fn compute(writer: &mut Writer, out: &mut Text, body: &str) {
    let region = writer.region().clone();
    let head = signature(writer, "compute", true);
    writer.add(
        out,
        &format!("\n/* The loops of {}, on all ranks; results are on rank 0. */\n{head}\n{{", place(&region)),
    );
    let is_used = |name: &str| words(body).any(|(_, word)| word == name);
    let mut seen = BTreeSet::new();
    for one in loops(&region).filter(|one| one.declared.is_none() && is_used(&one.name)) {
        if seen.insert(one.name.clone()) {
            writer.add(out, &format!("{} {};", one.type_name, one.name));
        }
    }
    for name in region.scalars.keys().filter(|name| !is_used(name)) {
        writer.add(out, &format!("(void){name};"));
    }
    out.add_block(body, 0);
    writer.add(out, "}\n");
}

/// Returns all loops of a region, beginning with the loop over time.
fn loops(region: &Region) -> impl Iterator<Item = &Loop> {
    std::iter::once(&region.time).chain(region.statements.iter().flat_map(|one| &one.loops))
}

/// Writes the struct of values that rank 0 broadcasts, and the function by which the other ranks compute
/// the region.
fn serve(writer: &mut Writer, out: &mut Text) {
    let region = writer.region().clone();
    let (line, lines, count) = (region.lines.0, place(&region), region.arrays.len());
    writer.add(out, &format!("/* What {lines} are computed from, beside the memory of arrays. */\nstruct $overlap_values_{line} {{"));
    for one in region.scalars.values() {
        writer.add(out, &format!("{} {};", one.type_name, one.name));
    }
    let mut arguments: Vec<String> = region.scalars.keys().map(|name| format!("$values.{name}")).collect();
    for (_, name) in region.arrays.values().flat_map(extents) {
        let name = writer.names.get(&name);
        writer.add(out, &format!("long {name};"));
        arguments.push(format!("$values.{name}"));
    }
    arguments.extend((0..count).map(|at| format!("(void *)($rooms[{at}] - $values.$offsets[{at}])")));
    let arguments = arguments.join(", ");
    writer.add(
        out,
        &format!(
            "long $offsets[{count}], $bytes[{count}];
            }};

            /* The loops of {lines} on ranks other than 0. */
            static void $overlap_serve_{line}(void)
            {{
            struct $overlap_values_{line} $values;
            char *$rooms[{count}];
            $overlap_spread(&$values, sizeof $values);
            for (int $at = 0; $at < {count}; $at++) {{
            $rooms[$at] = $overlap_room($values.$bytes[$at]);
            $overlap_spread($rooms[$at], (size_t)$values.$bytes[$at]);
            }}
            $overlap_compute_{line}({arguments});
            for (int $at = 0; $at < {count}; $at++)
            free($rooms[$at]);
            }}

            static struct $overlap_region $overlap_region_{line} = {{.serve = $overlap_serve_{line}}};

            __attribute__((constructor(1000))) static void $overlap_add_{line}(void)
            {{
            $overlap_add(&$overlap_region_{line});
            }}
            "
        ),
    );
}

/// Returns the function that rank 0 calls in the place of the region.
fn called_on_rank_0(writer: &mut Writer, file: &str, condition: Option<&str>) -> String {
    let region = writer.region().clone();
    let (line, lines) = (region.lines.0, place(&region));
    let (count, mut out) = (region.arrays.len(), Text::indented(0));
    let head = signature(writer, "lines", false);
    let names = |array: &Array| {
        format!(
            "{{.name = \"{0}\", .base = (const char *){0}, .is_written = {1}}}",
            array.name,
            u8::from(array.is_written)
        )
    };
    let ranges: Vec<String> = region.arrays.values().map(names).collect();
    let [low, high] = &region.time.texts;
    writer.add(
        &mut out,
        &format!(
            "
            /* The loops of {lines}, by all ranks; 0 if rank 0 has to compute them alone. */
            {head}
            {{
            struct $overlap_range $ranges[{count}] = {{{}}};
            if ({low} >= {high})
            return 0;",
            ranges.join(", ")
        ),
    );
    misfit(writer, &mut out, file, condition);
    touched(writer, &mut out);
    let mut values: Vec<String> = region.scalars.keys().map(|name| format!(".{name} = {name}")).collect();
    for (_, name) in region.arrays.values().flat_map(extents) {
        let name = writer.names.get(&name);
        values.push(format!(".{name} = {name}"));
    }
    let values = if values.is_empty() { ".$offsets = {0}".to_string() } else { values.join(", ") };
    let mut arguments: Vec<String> = region.scalars.keys().cloned().collect();
    arguments.extend(region.arrays.values().flat_map(extents).map(|(_, name)| writer.names.get(&name)));
    arguments.extend(region.arrays.values().map(|array| array.name.clone()));
    writer.add(
        &mut out,
        &format!(
            "if (!$overlap_are_apart($ranges, {count}, \"{file}:{line}\"))
            return 0;
            struct $overlap_values_{line} $values = {{{values}}};
            for (int $at = 0; $at < {count}; $at++) {{
            if ($ranges[$at].begin) {{
            $values.$offsets[$at] = $ranges[$at].begin - $ranges[$at].base;
            $values.$bytes[$at] = $ranges[$at].end - $ranges[$at].begin;
            }}
            }}
            $overlap_call(&$overlap_region_{line});
            $overlap_spread(&$values, sizeof $values);
            for (int $at = 0; $at < {count}; $at++)
            $overlap_spread((void *)$ranges[$at].begin, (size_t)$values.$bytes[$at]);
            $overlap_compute_{line}({});
            return 1;
            }}
            ",
            arguments.join(", ")
        ),
    );
    out.finish()
}

/// Refuses sizes for which a number without sign would wrap around, or a longer one be cut.
fn misfit(writer: &mut Writer, out: &mut Text, file: &str, condition: Option<&str>) {
    let region = writer.region();
    let line = region.lines.0;
    let wide =
        region.parameters.values().filter(|one| one.is_unsigned && crate::integers::is_wide(one.range));
    let mut all: Vec<String> = wide.map(|one| format!("(long){} < 0", one.name)).collect();
    if let Some(condition) = condition {
        all.push(writer.c(condition, &[]));
    }
    if !all.is_empty() {
        let why = "with these sizes a number of a loop does not fit its type";
        writer.add(
            out,
            &format!("if ({})\nreturn $overlap_alone(\"{file}:{line}\", \"{why}\");", all.join(" || ")),
        );
    }
}

/// Finds the memory that the region reads and writes.
fn touched(writer: &mut Writer, out: &mut Text) {
    let model = writer.model;
    let mut groups: BTreeMap<(&str, String), Vec<Vec<[String; 2]>>> = BTreeMap::new();
    for (array, when, ends) in model.touched() {
        groups.entry((array, when)).or_default().push(ends);
    }
    for ((own, when), all) in groups {
        let at = model.region.arrays.keys().position(|name| name == own).unwrap_or_default();
        let name = &model.region.arrays[own].name;
        let corner = |writer: &mut Writer, side: usize| {
            let function = ["overlap_min", "overlap_max"][side];
            let subscripts: Vec<String> = (0..all[0].len())
                .map(|dimension| {
                    let ends = all.iter().map(|ends| writer.c(&ends[dimension][side], &[])).collect();
                    let ends = without_lesser(ends, side == 1);
                    format!("[{}]", writer.extreme(function, ends))
                })
                .collect();
            format!("&{name}{}", subscripts.concat())
        };
        let (first, last) = (corner(writer, 0), corner(writer, 1));
        let when = if when == "1" { String::new() } else { format!("if ({})\n", writer.c(&when, &[])) };
        writer.add(out, &format!("{when}$overlap_widen(&$ranges[{at}], {first}, {last} + 1);"));
    }
}

/// Removes sums that are never the greatest (or least), as another one differs by a number only.
fn without_lesser(sums: Vec<String>, is_greatest: bool) -> Vec<String> {
    let mut kept: BTreeMap<String, i64> = BTreeMap::new();
    for sum in &sums {
        let parsed = match (sum.parse(), sum.rsplit_once(" + "), sum.rsplit_once(" - ")) {
            (Ok(number), ..) => Some((String::new(), number)),
            (_, Some((base, number)), _) if number.parse::<i64>().is_ok() => {
                number.parse().ok().map(|number| (base.to_string(), number))
            }
            (_, _, Some((base, number))) if number.parse::<i64>().is_ok() => {
                number.parse().ok().map(|number: i64| (base.to_string(), -number))
            }
            _ => None,
        };
        let is_sum = |text: &str| !text.contains([',', '?', ':', '(']) || text.starts_with("(long)");
        let (base, number) = parsed.filter(|(base, _)| is_sum(base)).unwrap_or((sum.clone(), 0));
        let best = kept.entry(base).or_insert(number);
        *best = if is_greatest { number.max(*best) } else { number.min(*best) };
    }
    let text = |(base, number): (String, i64)| match (base.as_str(), number) {
        ("", _) => number.to_string(),
        (_, 0) => base,
        (_, 1..) => format!("{base} + {number}"),
        _ => format!("{base} - {}", -number),
    };
    kept.into_iter().map(text).collect()
}

/// Returns the text in the place of the region: a call, and the loops themselves.
fn call(writer: &mut Writer) -> String {
    let region = writer.region().clone();
    let source = writer.source;
    let column = writer.column(region.code.start);
    let mut out = Text::indented(column / 4);
    let mut arguments: Vec<String> = region.scalars.keys().cloned().collect();
    for array in region.arrays.values() {
        for (dimension, _) in extents(array) {
            let row = format!("{}{}", array.name, "[0]".repeat(dimension));
            arguments.push(format!("(long)(sizeof {row} / sizeof {row}[0])"));
        }
    }
    arguments.extend(region.arrays.values().map(|array| array.name.clone()));
    let condition = format!("$overlap_lines_{}({})", region.lines.0, arguments.join(", "));
    let mut code = source[region.code.clone()].to_string();
    if !code.ends_with(['}', ';']) {
        code.push(';');
    }
    let counters = counters(&region);
    // A statement of its own: an else that follows must not become that of this one.
    writer.add(&mut out, "{");
    match counters.is_empty() {
        true => writer.add(&mut out, &format!("if (!{condition}) {{")),
        false => writer.add(
            &mut out,
            &format!("if ({condition}) {{\n/* The loop variables, as the sequential loops leave them. */\n{counters}\n}} else {{"),
        ),
    }
    out.add_block(&dedented(&code, column), 0);
    writer.add(&mut out, "}\n}");
    out.finish()
}

/// Sets the loop variables that are declared outside of a region with steps, as its loops leave them.
fn counters(region: &Region) -> String {
    let mut lines = String::new();
    for nest in 0..region.nests.len() {
        let all: Vec<&[Loop]> =
            region.statements.iter().filter(|one| one.nest == nest).map(|one| one.loops.as_slice()).collect();
        lines += &below(&all);
    }
    if region.time.declared.is_none() {
        lines += &format!("{} = {};\n", region.time.name, region.time.texts[1]);
    }
    lines.trim_end().to_string()
}

/// Returns statements that set the loop variables around `statements` to their last values, in the order of
/// the program.
fn below(statements: &[&[Loop]]) -> String {
    let mut lines = String::new();
    let mut rest = statements;
    while let Some((first, _)) = rest.split_first() {
        let Some(outer) = first.first() else {
            rest = &rest[1..];
            continue;
        };
        let is_inside = |loops: &&&[Loop]| loops.first().is_some_and(|one| one.header == outer.header);
        let count = rest.iter().take_while(is_inside).count();
        let inside: Vec<&[Loop]> = rest[..count].iter().map(|loops| &loops[1..]).collect();
        rest = &rest[count..];
        let inner = below(&inside);
        let [low, high] = &outer.texts;
        let (name, value) = (&outer.name, outer.value());
        let depends = inside
            .iter()
            .flat_map(|loops| loops.iter())
            .any(|one| one.low.factor(&outer.variable) != 0 || one.high.factor(&outer.variable) != 0);
        let type_name = outer.declared.as_ref().map_or(String::new(), |name| format!("{name} "));
        if !inner.is_empty() && depends {
            lines += &format!("for ({type_name}{name} = {low}; {value} < {high}; {name}++) {{\n{inner}}}\n");
        } else if !inner.is_empty() {
            lines += &format!("if ({low} < {high}) {{\n{inner}}}\n");
        }
        if outer.declared.is_none() {
            lines += &format!("{name} = $overlap_max({low}, {high});\n");
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_that_differ_by_a_number_become_one() {
        let check = |sums: &[&str], is_greatest, expected: &[&str]| {
            let sums = sums.iter().map(|sum| sum.to_string()).collect();
            assert_eq!(without_lesser(sums, is_greatest), expected);
        };
        check(&["0", "2", "1"], true, &["2"]);
        check(&["n - 1", "n - 2", "n"], false, &["n - 2"]);
        check(&["n + m - 1", "n", "3"], true, &["3", "n", "n + m - 1"]);
        check(&["(long)n - 1", "(long)n - 3"], true, &["(long)n - 1"]);
    }
}
