//! Code for a distribution by steps.

use super::cells::Action;
use super::text::Text;
use super::writer::Writer;
use crate::polyhedra::extents;
use crate::region::Coordinate;
use crate::step::{Message, StepNames, Steps, plan as find};

/// Finds the messages that the steps exchange, without empty ones.
pub fn plan(writer: &mut Writer) -> Result<Steps, String> {
    let [step, border, begin, end] = ["step", "border", "begin", "end"].map(|name| writer.names.get(name));
    let mut plan = find(writer.model, &StepNames { step: &step, border: &border, begin: &begin, end: &end })?;
    plan.messages.retain(|message| {
        let context = context(writer, message);
        writer.any(&message.cells, &context)
    });
    Ok(plan)
}

/// Writes the code of the region, with all messages of `plan`.
pub fn write(writer: &mut Writer, plan: &Steps, out: &mut Text) {
    let (first, last) = writer.region().lines;
    let how = if writer.options.overlap { "while inner parts are computed" } else { "each waited for" };
    let time = writer.region().time.clone();
    let [low, high] = &time.texts;
    writer.add(
        out,
        &format!("/* Lines {first} to {last}: each rank computes its block of positions. */\n/* What neighbours need of each other travels in every step, {how}. */"),
    );
    let none = vec![0; writer.region().nests.len()];
    writer.who_and_where(out, &[&none], ["$first", "$past", "$tail"]);
    writer.count_blocks(out, plan.least);
    writer.blocks(out);
    let sends = !plan.messages.is_empty();
    let is_tuned = sends && writer.options.overlap;
    if is_tuned {
        writer.add(
            out,
            &format!(
                "\n/* Ways to go through the steps; all are tried, the fastest is kept. */
                struct $overlap_tuning $tuning = $overlap_tuning({low}, {});
                $overlap_by_steps(&$tuning, $ranks);",
                length(low, high)
            ),
        );
    }
    writer.neighbours(out, sends);
    row(writer, &Row { plan, low, high, is_whole: true }, out);
    let context = owned_context(writer);
    writer.gather(out, &plan.owned, &context);
    writer.passed(out, is_tuned);
    if is_tuned {
        writer.add(out, "MPI_Waitall(8, $tuning.requests, MPI_STATUSES_IGNORE);");
    }
}

/// Returns isl's context for the gathering of the results of [begin, end).
pub fn owned_context(writer: &mut Writer) -> String {
    let names = ["begin", "end"].map(|name| writer.names.get(name));
    let time = &writer.region().time;
    let is_there = format!("{} < {}", time.low, time.high);
    writer.model.context(&names.each_ref().map(String::as_str), &[is_there])
}

/// Steps that are done one by one.
pub struct Row<'p> {
    pub plan: &'p Steps,
    /// First step of the row, an expression.
    pub low: &'p str,
    /// End of the row: the first step after it.
    pub high: &'p str,
    /// Whether these are all steps, so that only the number of parts may change in them.
    pub is_whole: bool,
}

/// Writes the loop over the steps of a row.
pub fn row(writer: &mut Writer, row: &Row, out: &mut Text) {
    let Row { plan, low, high, is_whole } = *row;
    let (sends, overlap) = (!plan.messages.is_empty(), writer.options.overlap);
    if sends {
        writer.add(out, &format!("const long $steps = $overlap_max(0, {});", length(low, high)));
    }
    open(writer, row, out);
    let time = writer.region().time.clone();
    let declared = time.declared.as_ref().map_or(String::new(), |name| format!("{name} "));
    let (variable, now) = (&time.name, time.value());
    writer.add(out, &format!("\nfor ({declared}{variable} = {low}; {now} < {high}; {variable}++) {{"));
    if sends {
        writer.add(out, &format!("const long $step = {};", length(low, &now)));
    }
    if sends && overlap {
        let parts = match is_whole {
            true => format!("$overlap_choose(&$tuning, {variable}, {high}).parts"),
            false => "$way.parts".to_string(),
        };
        writer.add(out, &format!("const long $parts = {parts};"));
    }
    for at in 0..writer.region().nests.len() {
        nest(writer, row, out, at);
    }
    if (sends && overlap) || !is_whole {
        writer.add(out, &format!("$overlap_note(&$tuning, {variable}, {variable} + 1);"));
    }
    writer.add(out, "}");
    close(writer, plan, out);
}

/// Returns an expression for the number of times that a message is sent in all steps.
fn times(message: &Message) -> &'static str {
    if message.before > message.from { "$steps" } else { "$steps - 1" }
}

/// Returns the conditions that hold wherever the generated code sends or receives `message`, as a set of
/// parameters in isl's notation. isl need not test these conditions in the loops that it generates
/// ([`Model::loops`](crate::polyhedra::Model::loops)).
///
/// The step lies within the region's steps, without the last one if the message carries data for the next
/// step. The border lies within each nest whose coordinate is a loop.
fn context(writer: &mut Writer, message: &Message) -> String {
    let [step, border] = ["step", "border"].map(|name| writer.names.get(name));
    let region = writer.region();
    // Values for the next step are not sent in the last one.
    let last = if message.before > message.from { 0 } else { 1 };
    let mut conditions = vec![format!("{} <= {step} < {} - {last}", region.time.low, region.time.high)];
    for (nest, (low, high)) in region.nests.iter().zip(extents(region)) {
        if matches!(nest.coordinate, Coordinate::Loop(_)) {
            conditions.push(format!("{low} < {border} < {high}"));
        }
    }
    writer.model.context(&[&step, &border], &conditions)
}

/// Returns the sum of the first step and `number`, as an expression.
pub fn since(low: &str, number: &str) -> String {
    match low {
        "0" => number.to_string(),
        _ if is_word(low) => format!("{low} + {number}"),
        _ => format!("({low}) + {number}"),
    }
}

/// Returns the number of steps, as an expression.
pub fn length(low: &str, high: &str) -> String {
    match low {
        "0" => high.to_string(),
        _ if is_word(low) => format!("{high} - {low}"),
        _ => format!("{high} - ({low})"),
    }
}

fn is_word(text: &str) -> bool {
    text.chars().all(|letter| letter.is_ascii_alphanumeric() || "_$".contains(letter))
}

/// Makes the messages.
fn open(writer: &mut Writer, row: &Row, out: &mut Text) {
    let Row { plan, low, .. } = row;
    if plan.messages.is_empty() {
        return;
    }
    let count = plan.messages.len();
    let element = writer.element();
    let (c, mpi) = (&element.c, &element.mpi);
    let (step, now) = (writer.names.get("step"), writer.names.get("now"));
    writer.add(out, &format!("\n/* The messages, each as long as its longest: {count} in each step. */\nstruct $overlap_message $outbox[{count}], $inbox[{count}];"));
    for (at, message) in plan.messages.iter().enumerate() {
        let context = context(writer, message);
        let times = times(message);
        let past = since(low, times);
        let (to, from, here, there) = sides(message);
        writer.add(
            out,
            &format!(
                "{{
                long $length[2] = {{0, 0}};
                for (long $now = {low}; $now < {past}; $now++) {{
                for (int $side = 0; $side < 2; $side++) {{
                long $count = 0;
                if (($side ? {from} : {to}) != MPI_PROC_NULL) {{"
            ),
        );
        let border = format!("$side ? {there} : {here}");
        writer.cells_with(
            out,
            &[("border", &border)],
            (&message.cells, &context),
            &[(&step, &now)],
            Action::Count,
        );
        writer.add(
            out,
            &format!(
                "}}
                $length[$side] = $overlap_max($length[$side], $count);
                }}
                }}
                $overlap_open(&$outbox[{at}], {to}, MPI_PROC_NULL, $length[0], sizeof({c}), {mpi}, {at});
                $overlap_open(&$inbox[{at}], MPI_PROC_NULL, {from}, $length[1], sizeof({c}), {mpi}, {at});
                }}"
            ),
        );
        writer.add(
            out,
            &format!("$overlap_go(&$inbox[{at}], 0, {times});\n$overlap_go(&$inbox[{at}], 1, {times});"),
        );
    }
}

fn close(writer: &mut Writer, plan: &Steps, out: &mut Text) {
    for at in 0..plan.messages.len() {
        writer.add(out, &format!("$overlap_close(&$outbox[{at}]);\n$overlap_close(&$inbox[{at}]);"));
    }
}

/// Returns receiver and sender of a message, and the borders that it crosses at each.
fn sides(message: &Message) -> (&'static str, &'static str, &'static str, &'static str) {
    if message.is_up { ("$right", "$left", "$end", "$begin") } else { ("$left", "$right", "$begin", "$end") }
}

/// Writes a nest of a step, with the messages that it receives and sends.
fn nest(writer: &mut Writer, row: &Row, out: &mut Text, at: usize) {
    let plan = row.plan;
    let receives = plan.messages.iter().any(|message| message.before == at);
    let sends = plan.messages.iter().any(|message| message.from == at);
    let [begin, end, low, high] = ["begin", "end", "low", "high"].map(|name| writer.names.get(name));
    writer.add(out, "\n");
    if !writer.options.overlap || plan.messages.is_empty() {
        receive(writer, row, out, at);
        writer.nest(out, at, &begin, &end);
        return send(writer, plan, out, at);
    }
    let margin = if receives { plan.margins[at] } else { plan.ready[at] };
    let inner = "$inner + ($outer - $inner) * ";
    let (order, from, past, when) = match (receives, sends) {
        (true, _) => (
            "the inner part first, while messages travel, then what is next to neighbours",
            format!("$part < $parts ? {inner}$part / $parts : $part == $parts ? $begin : $outer"),
            format!("$part < $parts ? {inner}($part + 1) / $parts : $part == $parts ? $inner : $end"),
            "$part == $parts",
        ),
        (false, true) => (
            "what neighbours need first, so that it travels while the inner part is computed",
            format!("$part == 0 ? $begin : $part == 1 ? $outer : {inner}($part - 2) / $parts"),
            format!("$part == 0 ? $inner : $part == 1 ? $end : {inner}($part - 1) / $parts"),
            "$part == 1",
        ),
        (false, false) => (
            "in parts, so that messages make progress between them",
            format!("{inner}$part / $parts"),
            format!("{inner}($part + 1) / $parts"),
            "",
        ),
    };
    let (left, right) = if receives || sends {
        (format!("$left == MPI_PROC_NULL ? 0 : {margin}"), format!("$right == MPI_PROC_NULL ? 0 : {margin}"))
    } else {
        ("0".into(), "0".into())
    };
    let borders = if receives || sends { " + 2" } else { "" };
    writer.add(
        out,
        &format!(
            "/* {order} */
            {{
            const long $inner = $overlap_min($end, $begin + ({left}));
            const long $outer = $overlap_max($inner, $end - ({right}));
            for (long $part = 0; $part < $parts{borders}; $part++) {{
            const long $low = {from};
            const long $high = {past};"
        ),
    );
    if receives {
        writer.add(out, &format!("if ({when}) {{"));
        receive(writer, row, out, at);
        writer.add(out, "}");
    }
    writer.nest(out, at, &low, &high);
    if sends && !receives {
        writer.add(out, &format!("if ({when}) {{"));
        send(writer, plan, out, at);
        writer.add(out, "}");
    }
    look(writer, plan, out);
    if receives {
        send(writer, plan, out, at);
    }
}

/// Writes the end of a part: a test of the messages, if there are several parts.
fn look(writer: &mut Writer, plan: &Steps, out: &mut Text) {
    let count = plan.messages.len();
    writer.add(out, "if ($parts > 1) {");
    writer.add(out, &format!("$overlap_look($outbox, {count});\n$overlap_look($inbox, {count});"));
    writer.add(out, "}\n}\n}");
}

fn receive(writer: &mut Writer, row: &Row, out: &mut Text, nest: usize) {
    let Row { plan, low, .. } = row;
    let c = writer.element().c;
    let step = writer.names.get("step");
    let now = writer.names.get("now");
    for (at, message) in plan.messages.iter().enumerate().filter(|(_, message)| message.before == nest) {
        let context = context(writer, message);
        let (_, from, _, border) = sides(message);
        let (number, also) =
            if message.before > message.from { ("$step", "") } else { ("$step - 1", " && $step > 0") };
        let times = times(message);
        let stamp = since(low, number);
        let next = if also.is_empty() { "$step + 2" } else { "$step + 1" };
        writer.add(
            out,
            &format!(
                "if ({from} != MPI_PROC_NULL{also}) {{\n{c} *$next = $overlap_wait(&$inbox[{at}], {number});"
            ),
        );
        let constants = [("border", border), ("now", stamp.as_str())];
        writer.cells_with(out, &constants, (&message.cells, &context), &[(&step, &now)], Action::Unpack);
        writer.add(out, &format!("$overlap_go(&$inbox[{at}], {next}, {times});\n}}"));
    }
}

fn send(writer: &mut Writer, plan: &Steps, out: &mut Text, nest: usize) {
    let c = writer.element().c;
    let step = writer.names.get("step");
    let time = writer.region().time.value();
    for (at, message) in plan.messages.iter().enumerate().filter(|(_, message)| message.from == nest) {
        let context = context(writer, message);
        let (to, _, border, _) = sides(message);
        let also = if message.before > message.from { "" } else { " && $step + 1 < $steps" };
        let times = times(message);
        writer.add(
            out,
            &format!(
                "if ({to} != MPI_PROC_NULL{also}) {{\n{c} *$next = $overlap_wait(&$outbox[{at}], $step);"
            ),
        );
        let constants = [("border", border)];
        writer.cells_with(out, &constants, (&message.cells, &context), &[(&step, &time)], Action::Pack);
        let wait =
            if writer.options.overlap { "" } else { &format!("\n$overlap_wait(&$outbox[{at}], $step);") };
        writer.add(out, &format!("$overlap_go(&$outbox[{at}], $step, {times});{wait}\n}}"));
    }
}
