//! What a region of a program is: one loop over time, and nests of affine loops in it that assign to arrays.
//!
//! A [`Region`] can be distributed as far as its form goes; whether its dependences allow it is found by
//! [`crate::step`] and [`crate::tiles`]. Arrays of different names are taken not to overlap, as C compilers
//! cannot know either; where the file itself shows that two names are one memory (a pointer made from another
//! array), the region is refused.

mod expressions;
mod loops;
mod names;
mod places;
mod types;

use std::collections::BTreeMap;
use std::ops::Range;

use crate::affine::Affine;
use crate::clang::Node;
use crate::refusal::Refusal;

pub use types::{Access, Array, Coordinate, File, Loop, Nest, Parameter, Region, Statement};

/// The regions of a file, in order.
pub fn read(file: &File) -> Result<Vec<Region>, Refusal> {
    places::find(file)?.into_iter().map(|(span, node)| read_one(file, span, node)).collect()
}

fn read_one(file: &File, span: Range<usize>, node: &Node) -> Result<Region, Refusal> {
    let mut reader = loops::Reader::new(file, node);
    let time = reader.time_loop(node)?;
    let body = node.children.last().expect("a for with four children has been read");
    let nests = reader.nests(body)?;
    let (mut arrays, parameters, statements) = reader.finish();
    names::check(file, node, &arrays, &parameters)?;
    let last_line = 1 + file.source[..node.span.end].matches('\n').count();
    choose_dimensions(&mut arrays, &statements, &time.variable);
    let coordinates = nests.iter().enumerate().map(|(at, one)| {
        let own: Vec<&Statement> = statements.iter().filter(|s| s.nest == at).collect();
        let coordinate = coordinate(file, one, &own, &arrays, &time.variable)?;
        let inner = own.iter().flat_map(|s| &s.loops).filter(|l| l.declared.is_none());
        let mut shared_variables: Vec<String> = inner.map(|l| l.variable.clone()).collect();
        shared_variables.sort();
        shared_variables.dedup();
        Ok(Nest { span: one.span.clone(), place: one.place, coordinate, shared_variables })
    });
    let nests = coordinates.collect::<Result<_, Refusal>>()?;
    let lines = (node.place.line, last_line);
    Ok(Region { span, lines, time, nests, statements, arrays, parameters })
}

/// Which subscript of each array is distributed: the first that varies in space where the array is written.
fn choose_dimensions(arrays: &mut BTreeMap<String, Array>, statements: &[Statement], time: &str) {
    let varies = |access: &Access, at: usize| access.subscripts[at].terms.keys().any(|name| name != time);
    for (name, array) in arrays.iter_mut() {
        let writes: Vec<(&Statement, &Access)> = statements
            .iter()
            .filter_map(|s| Some((s, s.write.as_ref()?)))
            .filter(|(_, w)| w.array == *name)
            .collect();
        let in_space = |at: &usize| {
            writes.iter().any(|(s, w)| {
                varies(w, *at) && s.loops.iter().any(|l| w.subscripts[*at].factor(&l.variable) != 0)
            })
        };
        array.distributed = (0..array.dimensions).find(in_space).unwrap_or(0);
    }
}

/// What is distributed of the nest `node` with the statements `own`.
fn coordinate(
    file: &File,
    node: &Node,
    own: &[&Statement],
    arrays: &BTreeMap<String, Array>,
    time: &str,
) -> Result<Coordinate, Refusal> {
    let refuse = |statement: &Statement, wrong: &str, remedy: &str| {
        Err(Refusal::at(statement.place, &statement.text, wrong, remedy))
    };
    let mut found: Option<(&Statement, &Affine, Option<&Loop>)> = None;
    for statement in own {
        let Some(write) = &statement.write else { continue };
        let subscript = &write.subscripts[arrays[&write.array].distributed];
        let inside: Vec<&Loop> =
            statement.loops.iter().filter(|l| subscript.factor(&l.variable) != 0).collect();
        if inside.len() > 1
            || inside.iter().any(|l| subscript.factor(&l.variable) != 1)
            || subscript.factor(time) != 0
        {
            return refuse(
                statement,
                "writes a place that is not a loop variable plus a constant in the dimension that is distributed",
                "write the subscript as one loop variable plus a constant",
            );
        }
        match (found, inside.first()) {
            (None, first) => found = Some((statement, subscript, first.copied())),
            (Some((_, _, Some(before))), Some(now)) if before.header == now.header => {}
            (Some((_, before, None)), None) if *before == *subscript => {}
            _ => {
                return refuse(
                    statement,
                    "is distributed otherwise than the statements before it in the same nest",
                    "give it a nest of its own in the loop over time",
                );
            }
        }
    }
    let Some((_, subscript, distributed)) = found else {
        return file.refuse(node, "writes no array", "take it out of the region");
    };
    let Some(distributed) = distributed else { return Ok(Coordinate::Fixed(subscript.clone())) };
    if let Some(outside) = own.iter().find(|s| s.loops.iter().all(|l| l.header != distributed.header)) {
        let wrong =
            format!("stands outside of the loop over `{}`, which is distributed", distributed.variable);
        return refuse(outside, &wrong, "move it into that loop, or into a nest of its own");
    }
    Ok(Coordinate::Loop(distributed.clone()))
}
