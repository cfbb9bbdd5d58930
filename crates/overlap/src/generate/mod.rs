//! Generator of C from a region and its distribution. The output is one file: the user's text with the
//! regions replaced. It needs no library except MPI and OpenMP.
//!
//! Statements are the user's own text; only the bounds of the distributed loop change. isl builds the loops
//! over the cells of messages. Names of variables that the generator adds come from [`text::Names`], so that
//! they never hide the user's. In templates they stand as `$name`.

mod calls;
mod cells;
mod gather;
mod handover;
mod inner;
mod measure;
mod nests;
mod prelude;
mod steps;
mod strips;
pub mod text;
mod tiles;
mod writer;

use std::collections::BTreeMap;

use crate::isl::Isl;
use crate::polyhedra::Model;
use crate::refusal::Unsupported;
use crate::region::{File, Region};
use text::{Names, Text};
use writer::Writer;
pub use writer::{Options, Scheme};

/// Generates the program for `file` with its `regions`.
pub fn program(
    isl: &Isl,
    path: &str,
    file: &File,
    regions: &[Region],
    options: Options,
) -> Result<String, Unsupported> {
    let mut names = Names::avoiding(file.source);
    let name = prelude::file_name(path);
    let mut edits = Edits::new();
    let mut prototypes: BTreeMap<usize, String> = BTreeMap::new();
    let mut functions: BTreeMap<usize, String> = BTreeMap::new();
    for region in regions {
        isl.begin();
        let parts = one_region(isl, region, file.source, &name, &mut names, options)?;
        edits.push((region.span.clone(), parts.call));
        *prototypes.entry(region.function.start).or_default() += &parts.prototype;
        *functions.entry(region.function.end).or_default() += &parts.functions;
    }
    if let Some(last) = functions.values_mut().next_back() {
        *last += &names.fill(calls::START);
    }
    edits.extend(functions.into_iter().map(|(at, text)| (at..at, format!("\n{text}"))));
    let used: Vec<&str> = edits.iter().map(|(_, text)| text.as_str()).collect();
    let prelude = prelude::text(&mut names, &name, options, &used.join("\n"));
    if let Some(mut first) = prototypes.first_entry() {
        first.insert(format!("{prelude}{}", first.get()));
    }
    edits.extend(prototypes.into_iter().map(|(at, text)| {
        let at = before_function(file.source, at);
        (at..at, text)
    }));
    edits.sort_by_key(|(range, _)| std::cmp::Reverse((range.start, range.end)));
    let mut text = file.source.to_string();
    for (range, new) in edits {
        text.replace_range(range, &new);
    }
    Ok(text)
}

/// Parts of the source and their replacements.
type Edits = Vec<(std::ops::Range<usize>, String)>;

/// Returns the place of text before the function at `start`: before the comments that belong to it.
fn before_function(source: &str, start: usize) -> usize {
    let line = source[..start].rfind('\n').map_or(0, |at| at + 1);
    match source[line..start].trim().is_empty() {
        true => comment_start(source, line),
        false => start,
    }
}

/// Returns the first line of the comment that ends directly before the line at `line`.
fn comment_start(source: &str, line: usize) -> usize {
    let before = source[..line].trim_end_matches(' ');
    let last = before.strip_suffix('\n').unwrap_or(before);
    if last.ends_with("*/")
        && let Some(at) = last.rfind("/*")
    {
        return source[..at].rfind('\n').map_or(0, |at| at + 1);
    }
    let start = last.rfind('\n').map_or(0, |at| at + 1);
    if last[start..].trim_start().starts_with("//") && start < line {
        comment_start(source, start)
    } else {
        line
    }
}

/// Distribution that was found for a region.
enum Form {
    Steps(crate::step::Steps),
    Tiles(Box<tiles::Plan>),
}

/// Plans a distribution by tiles, with `steps` as an alternative.
fn by_tiles(writer: &mut Writer, steps: Option<crate::step::Steps>) -> Result<Form, String> {
    tiles::plan(writer, steps).map(|plan| Form::Tiles(Box::new(plan)))
}

/// Finds the legal distributions: both, so that the program can choose at run time, or the only one.
fn by_any(writer: &mut Writer) -> Result<Form, String> {
    match steps::plan(writer) {
        Ok(steps) if steps.messages.is_empty() => Ok(Form::Steps(steps)),
        Ok(steps) => by_tiles(writer, Some(steps)).or_else(|_| steps::plan(writer).map(Form::Steps)),
        Err(first) => by_tiles(writer, None)
            .map_err(|second| if first == second { first } else { format!("{first}; and {second}") }),
    }
}

/// Generates the parts of the program for a region.
fn one_region(
    isl: &Isl,
    region: &Region,
    source: &str,
    file: &str,
    names: &mut Names,
    options: Options,
) -> Result<calls::Parts, Unsupported> {
    let model = Model::new(isl.clone(), region);
    let refuse = |why: &str, remedy: &str| {
        let text = &source[region.time.header.clone()];
        Unsupported::at_place(region.time.place, text, &format!("cannot be distributed: {why}"), remedy)
    };
    let failed = || {
        let failure = isl.failure();
        failure.map(|why| refuse(&format!("isl says: {why}"), "make the loops of the region simpler"))
    };
    let mut writer = Writer { model: &model, source, names, options };
    let form = match options.scheme {
        Scheme::Step => steps::plan(&mut writer).map(Form::Steps).map_err(|why| (why, "try --scheme tiles")),
        Scheme::Tiles => by_tiles(&mut writer, None).map_err(|why| (why, "try --scheme step")),
        Scheme::Auto => {
            by_any(&mut writer).map_err(|why| (why, "the region cannot be distributed along this dimension"))
        }
    };
    if let Some(refusal) = failed() {
        return Err(refusal);
    }
    let form = form.map_err(|(why, remedy)| refuse(&why, remedy))?;
    let mut body = Text::indented(0);
    match form {
        Form::Steps(plan) => steps::write(&mut writer, &plan, &mut body),
        Form::Tiles(plan) => tiles::write(&mut writer, &plan, &mut body),
    }
    let misfit = model.misfit();
    if misfit.as_deref() == Some("1") {
        let remedy = "use types with a sign, or larger ones, for loop variables and sizes";
        return Err(refuse("a number of its loops or subscripts never fits its type", remedy));
    }
    let parts = calls::parts(&mut writer, file, misfit.as_deref(), &body.finish());
    match failed() {
        Some(refusal) => Err(refusal),
        None => Ok(parts),
    }
}
