//! Code for a distribution by slanted tiles.

use super::cells::Action;
use super::handover;
use super::steps::{self, Row, length};
use super::text::{Text, words};
use super::writer::Writer;
use crate::handover::{Handovers, plan as find_handovers};
use crate::isl::Set;
use crate::step::Steps;
use crate::tiles::{TileNames, Tiles, border_conditions, plan as find};

/// Distribution of a region by tiles, and by steps too if that is legal.
pub struct Plan {
    pub tiles: Tiles,
    /// Distribution by steps, if it is legal and requested.
    pub steps: Option<Steps>,
    /// Values to transfer between rows with different distributions.
    pub between: Handovers,
}

/// Finds the tiles, and the conditions for a combination with `steps`.
pub fn plan(writer: &mut Writer, steps: Option<Steps>) -> Result<Plan, String> {
    let names = names(writer);
    let tiles = find(writer.model, &names)?;
    let between = find_handovers(writer.model, &tiles, &names, steps.is_some())?;
    Ok(Plan { tiles, steps, between })
}

fn names(writer: &mut Writer) -> TileNames {
    let mut get = |name: &str| writer.names.get(name);
    TileNames { t0: get("t0"), t1: get("t1"), border: get("border"), begin: get("begin"), end: get("end") }
}

/// Writes the region: by tiles, or by the faster way at run time, if steps are legal too.
pub fn write(writer: &mut Writer, plan: &Plan, out: &mut Text) {
    let (first, last) = writer.region().lines;
    let slope = plan.tiles.slope;
    let how = if plan.steps.is_some() {
        "step by step or in tiles of several steps"
    } else {
        "in tiles of several steps"
    };
    writer.add(out, &format!("/* Lines {first} to {last}, each rank its block of positions, {how}. */"));
    if slope > 0 {
        let how = format!(
            "/* Tiles move left by {slope} a step: what is right of one was computed in the tile before. */"
        );
        out.add(&how);
    }
    let none = vec![0; writer.region().nests.len()];
    let partitions: &[&[i64]] =
        if plan.steps.is_some() { &[&none, &plan.tiles.shifts] } else { &[&plan.tiles.shifts] };
    writer.who_and_where(
        out,
        partitions,
        if slope > 0 { ["$inside", "$outside", "$last"] } else { ["$first", "$past", "$tail"] },
    );
    ways(writer, plan, out);
    writer.blocks(out);
    writer.neighbours(out, true);
    rows(writer, plan, out);
    results(writer, plan, out);
    writer.passed(out, true);
    writer.add(out, "MPI_Waitall(8, $tuning.requests, MPI_STATUSES_IGNORE);");
}

/// Writes the alternative distributions of the steps.
fn ways(writer: &mut Writer, plan: &Plan, out: &mut Text) {
    let [low, high] = writer.region().time.texts.clone();
    let (slope, total) = (plan.tiles.slope, length(&low, &high));
    let wide = plan.steps.as_ref().map_or(1, |steps| steps.least);
    let least = plan.tiles.least.max(plan.between.least).max(wide);
    writer.add(
        out,
        &format!(
            "\n/* Ways to go through the steps; all are tried, the fastest is kept. */
            struct $overlap_tuning $tuning = $overlap_tuning({low}, {total});"
        ),
    );
    if plan.steps.is_some() {
        let add = match writer.options.overlap {
            true => "$overlap_by_steps(&$tuning, $ranks);",
            false => "$overlap_try(&$tuning, (struct $overlap_way){0, 0, 1});",
        };
        writer.add(out, &format!("if ($overlap_wanted(\"step\"))\n{add}"));
    }
    let narrowest = writer.narrowest();
    let positions = if slope > 0 { "$outside - $inside" } else { "$past - $first" };
    writer.add(
        out,
        &format!("const long $blocks = $overlap_by_tiles(&$tuning, $ranks, {positions}, {slope}, {least}, {narrowest}, {total});"),
    );
    if slope > 0 {
        let moves = times(slope, "$tuning.tallest");
        writer.add(
            out,
            &format!(
                "\n/* Blocks move left by up to {moves}: borders lie so far right that none is much larger. */
                const long $moved = $overlap_min({moves} / 4, ({positions}) / $blocks - {moves} - {least});
                const long $first = $inside + $moved, $past = $outside + $moved, $tail = $last + {moves};"
            ),
        );
    }
}

/// Rows of steps, each done in one way.
fn rows(writer: &mut Writer, plan: &Plan, out: &mut Text) {
    let [low, high] = writer.region().time.texts.clone();
    writer.add(
        out,
        &format!(
            "\n/* Rows of steps, each done in one way; what the row before has sent may be on its way. */
            struct $overlap_tiles $earlier = {{.downs = -1}};
            for (long $start = {low}; $start < {high}; $start = $tuning.stop) {{
            const struct $overlap_way $way = $overlap_choose(&$tuning, $start, {high});
            const long $stop = $tuning.stop;"
        ),
    );
    if let Some(steps) = &plan.steps {
        writer.add(out, "\nif ($way.height == 0) {");
        steps::row(writer, &Row { plan: steps, low: "$start", high: "$stop", is_whole: false }, out);
        let conditions = handover::after_steps(writer);
        handover::write(writer, out, &plan.between.after_steps, "", &conditions);
        writer.add(out, "continue;\n}");
    }
    // After the last tile, values for the left neighbour belong to the next row, if that has tiles.
    let goes_on = match plan.steps {
        Some(_) => format!("$overlap_goes_on(&$tuning, {high})"),
        None => format!("$stop < {high}"),
    };
    writer.add(
        out,
        &format!(
            "const long $height = $way.height, $width = $way.width, $tiles = ($stop - $start + $height - 1) / $height;
            const long $downs = {goes_on} ? $tiles : $tiles - 1;
            struct $overlap_tiles $row = {{.height = $height, .count = $tiles, .downs = $downs}};"
        ),
    );
    open(writer, &plan.tiles, out);
    tile_loop(writer, &plan.tiles, out);
    writer.add(out, "$overlap_end_row(&$earlier);\n$earlier = $row;");
    if plan.steps.is_some() {
        let names = names(writer);
        let conditions = border_conditions(writer.model, &plan.tiles, &names);
        handover::write(writer, out, &plan.between.after_tiles, " && $downs < $tiles", &conditions);
    }
    writer.add(out, "}\n$overlap_end_row(&$earlier);");
}

/// Writes the collection of the results of the last tile or step.
fn results(writer: &mut Writer, plan: &Plan, out: &mut Text) {
    if let Some(steps) = &plan.steps {
        writer.add(out, "if ($tuning.ways[$tuning.best].height == 0) {");
        let context = steps::owned_context(writer);
        writer.gather(out, &steps.owned, &context);
        writer.add(out, "} else {");
    }
    let [t0, begin, end] = ["t0", "begin", "end"].map(|name| writer.names.get(name));
    let region = writer.region();
    let context = writer.model.context(
        &[&t0, &begin, &end],
        &[format!("{} <= {t0} < {} and {begin} <= {end}", region.time.low, region.time.high)],
    );
    let mut gathering = Text::indented(0);
    writer.gather(&mut gathering, &plan.tiles.owned, &context);
    let gathering = gathering.finish();
    if words(&gathering).any(|(_, word)| word == t0) {
        writer.add(out, "{\nconst long $t0 = $tuning.last;");
        out.add_block(&gathering, 0);
        writer.add(out, "}");
    } else {
        out.add_block(&gathering, 0);
    }
    if plan.steps.is_some() {
        writer.add(out, "}");
    }
}

/// Returns the product of `factor` and an expression, in readable form.
fn times(factor: i64, what: &str) -> String {
    match factor {
        0 => "0".to_string(),
        1 => what.to_string(),
        _ => format!("{factor} * {what}"),
    }
}

/// Returns the sum of an expression and a number.
fn sum(what: &str, number: i64) -> String {
    match (what, number) {
        ("0", _) => number.to_string(),
        (_, 0) => what.to_string(),
        (_, 1..) => format!("{what} + {number}"),
        _ => format!("{what} - {}", -number),
    }
}

/// Returns isl's context for packing or unpacking a message. In the last tile, no message goes to the left.
fn context(writer: &mut Writer, plan: &Tiles, is_up: bool) -> String {
    let names = names(writer);
    let mut conditions = border_conditions(writer.model, plan, &names);
    if !is_up {
        conditions.push(format!("{} < {}", names.t1, writer.region().time.high));
    }
    writer.model.context(&[&names.t0, &names.t1, &names.border], &conditions)
}

/// Makes the messages.
fn open(writer: &mut Writer, plan: &Tiles, out: &mut Text) {
    let element = writer.element();
    let (c, mpi) = (&element.c, &element.mpi);
    let [rising, falling] = [true, false].map(|is_up| context(writer, plan, is_up));
    let mut counting = Text::indented(0);
    writer.cells(&mut counting, &plan.up, &rising, &[], Action::Count);
    writer.add(&mut counting, "$up[$side] = $overlap_max($up[$side], $count);\n$count = 0;");
    writer.cells(&mut counting, &plan.down, &falling, &[], Action::Count);
    writer.add(&mut counting, "$down[$side] = $overlap_max($down[$side], $count);");
    let counting = counting.finish();
    let uses = |writer: &mut Writer, name: &str| {
        let name = writer.names.get(name);
        words(&counting).any(|(_, word)| word == name)
    };
    writer.add(
        out,
        "\n/* The messages, up to the right neighbour and down to the left one, each as long as its longest. */
        long $up[2] = {0, 0}, $down[2] = {0, 0};
        for (long $tile = 0; $tile < $tiles; $tile++) {",
    );
    if uses(writer, "t0") || uses(writer, "t1") {
        writer.add(out, "const long $t0 = $start + $tile * $height;");
    }
    if uses(writer, "t1") {
        writer.add(out, "const long $t1 = $overlap_min($t0 + $height, $stop);");
    }
    writer.add(out, "for (int $side = 0; $side < 2; $side++) {");
    if uses(writer, "border") {
        writer.add(out, "const long $border = $side ? $end : $begin;");
    }
    let alone = "if (($side ? $right : $left) == MPI_PROC_NULL)\ncontinue;";
    writer.add(out, &format!("long $count = 0;\n{alone}"));
    out.add_block(&counting, 0);
    writer.add(
        out,
        &format!(
            "}}
            }}
            $overlap_open(&$row.up_out, $right, MPI_PROC_NULL, $up[1], sizeof({c}), {mpi}, 0);
            $overlap_open(&$row.up_in, MPI_PROC_NULL, $left, $up[0], sizeof({c}), {mpi}, 0);
            $overlap_open(&$row.down_out, $left, MPI_PROC_NULL, $down[0], sizeof({c}), {mpi}, 1);
            $overlap_open(&$row.down_in, MPI_PROC_NULL, $right, $down[1], sizeof({c}), {mpi}, 1);
            for (int $turn = 0; $turn < 2; $turn++) {{"
        ),
    );
    if writer.any(&plan.up, &rising) {
        writer.add(out, "$overlap_go(&$row.up_in, $turn, $tiles);");
    }
    if writer.any(&plan.down, &falling) {
        writer.add(out, "$overlap_go(&$row.down_in, $turn, $downs);");
    }
    writer.add(out, "}");
}

/// A message as the program has it.
struct Message<'p> {
    cells: &'p Set,
    name: &'static str,
    other: &'static str,
    border: &'static str,
    times: &'static str,
    context: &'p str,
}

fn receive(writer: &mut Writer, out: &mut Text, one: &Message, is_before: bool) {
    let Message { cells, name, other, border, times, context } = one;
    if !writer.any(cells, context) {
        return;
    }
    let c = writer.element().c;
    let border = [("border", *border)];
    if !is_before {
        let wait = format!("if ({other} != MPI_PROC_NULL) {{\n{c} *$next = $overlap_wait(&{name}, $tile);");
        writer.add(out, &wait);
        writer.cells_with(out, &border, (cells, context), &[], Action::Unpack);
        return writer.add(out, &format!("$overlap_go(&{name}, $tile + 2, {times});\n}}"));
    }
    // It is of the tile before, perhaps of the row before: from $before on to $t0.
    let of_earlier = name.replace("$row", "$earlier");
    writer.add(
        out,
        &format!(
            "if ({other} != MPI_PROC_NULL) {{
            {c} *$next = $tile > 0 ? $overlap_wait(&{name}, $tile - 1) : $overlap_wait(&{of_earlier}, $earlier.count - 1);"
        ),
    );
    let [t0, t1, before] = ["t0", "t1", "before"].map(|name| writer.names.get(name));
    writer.cells_with(out, &border, (cells, context), &[(&t1, &t0), (&t0, &before)], Action::Unpack);
    writer.add(out, &format!("if ($tile > 0)\n$overlap_go(&{name}, $tile + 1, {times});\n}}"));
}

fn send(writer: &mut Writer, out: &mut Text, one: &Message) {
    let Message { cells, name, other, border, times, context } = one;
    if !writer.any(cells, context) {
        return;
    }
    let c = writer.element().c;
    writer.add(
        out,
        &format!(
            "if ({other} != MPI_PROC_NULL && $tile < {times}) {{\n{c} *$next = $overlap_wait(&{name}, $tile);"
        ),
    );
    writer.cells_with(out, &[("border", *border)], (cells, context), &[], Action::Pack);
    let wait =
        if writer.options.overlap { String::new() } else { format!("\n$overlap_wait(&{name}, $tile);") };
    writer.add(out, &format!("$overlap_go(&{name}, $tile, {times});{wait}\n}}"));
}

/// The four messages of a tile, as they are received and sent.
struct Exchanges<'p> {
    from_left: Message<'p>,
    from_right: Message<'p>,
    to_left: Message<'p>,
    to_right: Message<'p>,
}

fn exchanges<'p>(plan: &'p Tiles, rising: &'p str, falling: &'p str) -> Exchanges<'p> {
    let up = |name, other, border| Message {
        cells: &plan.up,
        name,
        other,
        border,
        times: "$tiles",
        context: rising,
    };
    let down = |name, other, border| Message {
        cells: &plan.down,
        name,
        other,
        border,
        times: "$downs",
        context: falling,
    };
    Exchanges {
        from_left: up("$row.up_in", "$left", "$begin"),
        to_right: up("$row.up_out", "$right", "$end"),
        from_right: down("$row.down_in", "$right", "$end"),
        to_left: down("$row.down_out", "$left", "$begin"),
    }
}

fn tile_loop(writer: &mut Writer, plan: &Tiles, out: &mut Text) {
    let [rising, falling] = [true, false].map(|is_up| context(writer, plan, is_up));
    let all = exchanges(plan, &rising, &falling);
    writer.add(
        out,
        "\nfor (long $tile = 0; $tile < $tiles; $tile++) {
        const long $t0 = $start + $tile * $height, $t1 = $overlap_min($t0 + $height, $stop);",
    );
    let mut from_right = Text::indented(0);
    receive(writer, &mut from_right, &all.from_right, true);
    let from_right = from_right.finish();
    let before = writer.names.get("before");
    if words(&from_right).any(|(_, word)| word == before) {
        writer.add(out, "const long $before = $tuning.last;");
    }
    let parts = "for (long $low = $begin, $high; $low < $end; $low = $high) {\n$high = $overlap_min($low + $width, $end);";
    if writer.options.overlap {
        if !from_right.is_empty() {
            writer.add(out, "int $fed = $tile == 0 && $earlier.downs < $earlier.count, $sent = 0;");
            if plan.slope > 0 {
                writer.add(
                    out,
                    "const long $reach = $tile > 0 ? $height : $overlap_max($height, $earlier.height);",
                );
            }
        }
        writer.add(out, parts);
        overlapped(writer, plan, out, &all, &from_right);
        writer.add(out, "}");
    } else {
        receive(writer, out, &all.from_left, false);
        if !from_right.is_empty() {
            writer.add(out, "if ($tile > 0 || $earlier.downs == $earlier.count) {");
            out.add_block(&from_right, 0);
            writer.add(out, "}");
        }
        writer.add(out, parts);
        part(writer, plan, out);
        writer.add(out, "}");
        send(writer, out, &all.to_left);
    }
    send(writer, out, &all.to_right);
    writer.add(out, "$overlap_note(&$tuning, $t0, $t1);\n}");
}

/// Writes a part of a tile, which receives as late and sends as early as possible.
fn overlapped(writer: &mut Writer, plan: &Tiles, out: &mut Text, all: &Exchanges, from_right: &str) {
    let slanted = times(plan.slope, "$height");
    if writer.any(all.from_left.cells, all.from_left.context) {
        let when = "/* The first part needs what the left neighbour has computed in this tile. */\nif ($low == $begin) {";
        writer.add(out, when);
        receive(writer, out, &all.from_left, false);
        writer.add(out, "}");
    }
    if !from_right.is_empty() {
        let reach = times(plan.slope, "$reach");
        let fed = if plan.fed == 0 { reach } else { format!("({})", sum(&reach, plan.fed)) };
        let when = format!("if (!$fed && $high > $end - {fed}) {{\n$fed = 1;");
        let why = "/* The last ones need what the right neighbour has computed in the tile before. */";
        writer.add(out, &format!("{why}\n{when}"));
        out.add_block(from_right, 0);
        writer.add(out, "}");
    }
    part(writer, plan, out);
    if !from_right.is_empty() {
        let done = sum(&slanted, plan.done);
        let when = format!("if (!$sent && ($high == $end || $high >= $begin + {done})) {{\n$sent = 1;");
        let why = "/* What the left neighbour needs for its next tile, as soon as it is there. */";
        writer.add(out, &format!("{why}\n{when}"));
        send(writer, out, &all.to_left);
        writer.add(out, "}");
    }
    for name in ["$row.up_out", "$row.up_in", "$row.down_out", "$row.down_in"] {
        writer.add(out, &format!("$overlap_look(&{name}, 1);"));
    }
}

/// Writes one part of a tile, through all its steps.
fn part(writer: &mut Writer, plan: &Tiles, out: &mut Text) {
    let time = writer.region().time.clone();
    let (variable, now) = (&time.name, time.value());
    let declared = time.declared.as_ref().map_or(String::new(), |name| format!("{name} "));
    writer.add(out, &format!("for ({declared}{variable} = $t0; {now} < $t1; {variable}++) {{"));
    let moved = match plan.slope {
        0 => String::new(),
        1 => format!(" - ({now} - $t0)"),
        slope => format!(" - {slope} * ({now} - $t0)"),
    };
    writer.add(out, &format!("const long $from = $low{moved}, $to = $high{moved};"));
    for at in 0..writer.region().nests.len() {
        let shift = match plan.shifts[at] {
            0 => String::new(),
            shift => format!(" - {shift}"),
        };
        let [from, to] = ["$from", "$to"].map(|name| writer.names.fill(&format!("{name}{shift}")));
        writer.nest(out, at, &from, &to);
    }
    writer.add(out, "}");
}
