//! Transfer of values between two rows of steps that use different distributions.

use super::cells::Action;
use super::text::{Text, words};
use super::writer::Writer;
use crate::handover::Handover;
use crate::isl::Set;
use crate::region::Coordinate;

/// Writes the transfer after the row before `$stop`, under the condition `and`. `conditions` on t0, t1 and
/// border hold for the transferred values.
pub fn write(writer: &mut Writer, out: &mut Text, handover: &Handover, and: &str, conditions: &[String]) {
    let names = ["t0", "t1", "border"].map(|name| writer.names.get(name));
    let high = writer.region().time.high.clone();
    let mut conditions = conditions.to_vec();
    conditions.push(format!("{} < {high}", names[1]));
    let context = writer.model.context(&names.each_ref().map(String::as_str), &conditions);
    let mut inner = Text::indented(0);
    one_direction(writer, &mut inner, &handover.up, &context, true);
    one_direction(writer, &mut inner, &handover.down, &context, false);
    let inner = inner.finish();
    if inner.is_empty() {
        return;
    }
    let text = &writer.region().time.texts[1];
    let header = format!(
        "\n/* Another way may follow: neighbours get what they need at once. */\nif ($stop < {text}{and}) {{"
    );
    writer.add(out, &header);
    for (name, value) in [("t0", "$tuning.last"), ("t1", "$stop")] {
        let name = writer.names.get(name);
        if words(&inner).any(|(_, word)| word == name) {
            writer.add(out, &format!("const long {name} = {value};"));
        }
    }
    out.add_block(&inner, 0);
    writer.add(out, "}");
}

fn one_direction(writer: &mut Writer, out: &mut Text, cells: &Set, context: &str, is_up: bool) {
    if !writer.any(cells, context) {
        return;
    }
    let element = writer.element();
    let (c, mpi) = (&element.c, &element.mpi);
    // Sides are numbered: 0 the left border, 1 the right one.
    let (to, out_side, out_border, from, in_side, in_border) = match is_up {
        true => ("$right", 1, "$end", "$left", 0, "$begin"),
        false => ("$left", 0, "$begin", "$right", 1, "$end"),
    };
    writer.add(
        out,
        "{
        long $length[2] = {0, 0};
        for (int $side = 0; $side < 2; $side++) {
        long $count = 0;
        if (($side ? $right : $left) != MPI_PROC_NULL) {",
    );
    writer.cells_with(out, &[("border", "$side ? $end : $begin")], (cells, context), &[], Action::Count);
    writer.add(
        out,
        &format!(
            "}}
            $length[$side] = $count;
            }}
            {c} *$values = $overlap_room($length[{out_side}] * (long)sizeof({c})), *$next = $values;
            if ({to} != MPI_PROC_NULL) {{"
        ),
    );
    writer.cells_with(out, &[("border", out_border)], (cells, context), &[], Action::Pack);
    writer.add(
        out,
        &format!(
            "}}
            $next = $values = $overlap_swap($values, $length[{out_side}], {to}, $length[{in_side}], {from}, sizeof({c}), {mpi});
            if ({from} != MPI_PROC_NULL) {{"
        ),
    );
    writer.cells_with(out, &[("border", in_border)], (cells, context), &[], Action::Unpack);
    writer.add(out, "}\nfree($values);\n}");
}

/// Returns the conditions on `$t1` and a border after a row by steps.
pub fn after_steps(writer: &mut Writer) -> Vec<String> {
    let [t1, border] = ["t1", "border"].map(|name| writer.names.get(name));
    let region = writer.region();
    let mut all = vec![format!("{} < {t1}", region.time.low)];
    for (nest, (low, high)) in region.nests.iter().zip(crate::polyhedra::extents(region)) {
        if matches!(nest.coordinate, Coordinate::Loop(_)) {
            all.push(format!("{low} < {border} < {high}"));
        }
    }
    all
}
