//! C from a region and its distribution: one file, the user's text with the regions replaced, no library but
//! MPI and OpenMP.
//!
//! Statements are the user's own text; only the bounds of the loop that is distributed change. What is sent
//! is walked by loops that isl has made. Names that are ours come from [`text::Names`] (in templates they
//! stand as `$name`), so that they never hide the user's.

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

use crate::clang::{Kind, Node};
use crate::isl::Isl;
use crate::polyhedra::Model;
use crate::refusal::Refusal;
use crate::region::{File, Region};
use text::{Names, Text};
use writer::Writer;
pub use writer::{Options, Scheme};

/// The program for `file`, which has the `regions`.
pub fn program(
    isl: &Isl,
    path: &str,
    file: &File,
    regions: &[Region],
    options: Options,
) -> Result<String, Refusal> {
    let mut names = Names::beside(file.source);
    let mut edits: Vec<(std::ops::Range<usize>, String)> = Vec::new();
    for region in regions {
        let model = Model::new(isl.clone(), region);
        edits.push((region.span.clone(), one_region(&model, file.source, &mut names, options)?));
    }
    let main = file.nodes.iter().find(|node| node.kind == Kind::Function && node.name == "main");
    if let Some(body) = main.and_then(|main| main.children.last()).filter(|body| body.kind == Kind::Compound)
    {
        let at = body.span.start + 1;
        edits.push((at..at, names.fill("\n    $overlap_start();")));
    }
    let at = first_use(file, regions);
    let used: Vec<&str> = edits.iter().map(|(_, text)| text.as_str()).collect();
    let prelude = prelude::text(&mut names, path, options, &used.join("\n"));
    edits.push((at..at, prelude));
    edits.sort_by_key(|(range, _)| std::cmp::Reverse((range.start, range.end)));
    let mut text = file.source.to_string();
    for (range, new) in edits {
        text.replace_range(range, &new);
    }
    Ok(text)
}

/// The beginning of the first function that needs what is ours.
fn first_use(file: &File, regions: &[Region]) -> usize {
    let needs = |node: &&Node| {
        node.kind == Kind::Function
            && node.children.last().is_some_and(|body| body.kind == Kind::Compound)
            && (node.name == "main" || regions.iter().any(|region| node.span.contains(&region.span.start)))
    };
    let start = file.nodes.iter().find(needs).map_or(0, |node| node.span.start);
    // Comments that belong to the function stay with it.
    let before = &file.source[..start];
    before.trim_end().rfind(['}', ';', '\n']).map_or(0, |_| {
        let line = before.rfind('\n').map_or(0, |at| at + 1);
        comment_start(file.source, line)
    })
}

/// The first line of the comment that ends directly before the line at `line`.
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

/// What was found.
enum Form {
    Steps(crate::step::Steps),
    Tiles(Box<tiles::Plan>),
}

/// By tiles, with `steps` as another way.
fn by_tiles(writer: &mut Writer, steps: Option<crate::step::Steps>) -> Result<Form, String> {
    tiles::plan(writer, steps).map(|plan| Form::Tiles(Box::new(plan)))
}

/// What is legal: by both, so that the program can choose, or by the one that is.
fn by_any(writer: &mut Writer) -> Result<Form, String> {
    match steps::plan(writer) {
        Ok(steps) if steps.messages.is_empty() => Ok(Form::Steps(steps)),
        Ok(steps) => by_tiles(writer, Some(steps)).or_else(|_| steps::plan(writer).map(Form::Steps)),
        Err(first) => by_tiles(writer, None)
            .map_err(|second| if first == second { first } else { format!("{first}; and {second}") }),
    }
}

fn one_region(model: &Model, source: &str, names: &mut Names, options: Options) -> Result<String, Refusal> {
    let region = model.region;
    let indent = source[..region.time.header.start].rsplit('\n').next().unwrap_or("").len() / 4;
    let mut out = Text::at(indent);
    let mut writer = Writer { model, source, names, options };
    let form = match options.scheme {
        Scheme::Step => steps::plan(&mut writer).map(Form::Steps).map_err(|why| (why, "try --scheme tiles")),
        Scheme::Tiles => by_tiles(&mut writer, None).map_err(|why| (why, "try --scheme step")),
        Scheme::Auto => {
            by_any(&mut writer).map_err(|why| (why, "the region cannot be distributed along this dimension"))
        }
    };
    let form = form.map_err(|(why, remedy)| {
        Refusal::at(
            region.time.place,
            &source[region.time.header.clone()],
            &format!("cannot be distributed: {why}"),
            remedy,
        )
    })?;
    match form {
        Form::Steps(plan) => steps::write(&mut writer, &plan, &mut out),
        Form::Tiles(plan) => tiles::write(&mut writer, &plan, &mut out),
    }
    Ok(out.finish())
}
