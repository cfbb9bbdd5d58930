//! Regions of a program: one loop over time, and in it nests of affine loops that assign to arrays.
//!
//! A [`Region`] has a form that can be distributed. [`crate::step`] and [`crate::tiles`] check whether its
//! dependences allow it. Arrays with different names are assumed not to overlap; the program checks this
//! before the region. If the file shows that two names denote the same memory (a pointer to another array),
//! the region is refused.
//!
//! isl receives no name of the program. In all sets, variables and arrays have names of our own
//! ([`loops::Reader::own_name`]).

mod expressions;
mod loops;
mod memory;
mod outside;
mod places;
mod types;

use std::collections::BTreeMap;
use std::ops::Range;

use crate::affine::Affine;
use crate::clang::Node;
use crate::refusal::Unsupported;

pub use types::{Access, Array, Coordinate, File, Fit, Loop, Nest, Parameter, Region, Scalar, Statement};

/// Returns the regions of a file, in order.
pub fn read(file: &File) -> Result<Vec<Region>, Unsupported> {
    places::find(file)?.into_iter().map(|(span, node)| read_one(file, span, node)).collect()
}

fn read_one(file: &File, span: Range<usize>, node: &Node) -> Result<Region, Unsupported> {
    let function = outside::function(file, node)?;
    outside::check_text(file, function, &span)?;
    let mut reader = loops::Reader::new(file, node);
    let time = reader.time_loop(node)?;
    let body = node.children.last().expect("a for with four children has been read");
    let nests = reader.nests(body)?;
    let statements = reader.take_statements();
    let loops::Reader { mut arrays, parameters, fits, shared, .. } = reader;
    memory::check(file, function, &arrays)?;
    known_counters(&statements, &time.variable)?;
    let scalars = outside::scalars(file, function, node, &shared)?;
    outside::check_types(file, function, node, &arrays, &scalars)?;
    let counters = std::iter::once(&time)
        .chain(statements.iter().flat_map(|s| &s.loops))
        .map(|one| (one.variable.clone(), one.value()))
        .collect();
    let last_line = 1 + file.source[..node.span.end].matches('\n').count();
    choose_dimensions(&mut arrays, &statements, &time.variable);
    let coordinates = nests.iter().enumerate().map(|(at, one)| {
        let own: Vec<&Statement> = statements.iter().filter(|s| s.nest == at).collect();
        let coordinate = coordinate(file, one, &own, &arrays, &time.variable)?;
        let inner = own.iter().flat_map(|s| &s.loops).filter(|l| l.declared.is_none());
        let mut shared_variables: Vec<String> = inner.map(|l| l.name.clone()).collect();
        shared_variables.sort();
        shared_variables.dedup();
        Ok(Nest { span: one.span.clone(), place: one.place, coordinate, shared_variables })
    });
    let nests = coordinates.collect::<Result<_, Unsupported>>()?;
    let lines = (node.place.line, last_line);
    let (code, function) = (node.span.clone(), function.span.clone());
    Ok(Region {
        span,
        code,
        function,
        lines,
        time,
        nests,
        statements,
        arrays,
        parameters,
        scalars,
        fits,
        counters,
    })
}

/// Refuses loop variables that live on after the region and whose last value depends on how many steps had
/// which loops.
fn known_counters(statements: &[Statement], time: &str) -> Result<(), Unsupported> {
    for statement in statements {
        let depends = |one: &Loop| one.low.factor(time) != 0 || one.high.factor(time) != 0;
        let moving = statement.loops.iter().position(depends).unwrap_or(statement.loops.len());
        if let Some(one) = statement.loops[moving..].iter().find(|one| one.declared.is_none()) {
            return Err(Unsupported::at_place(
                one.place,
                &one.name,
                "is declared outside of the region and counts in a loop that changes with time",
                "declare it in the loop",
            ));
        }
    }
    Ok(())
}

/// Selects the distributed subscript of each array: the first that varies in space where the array is
/// written.
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

/// Returns the distributed coordinate of the nest `node`, which has the statements `own`.
fn coordinate(
    file: &File,
    node: &Node,
    own: &[&Statement],
    arrays: &BTreeMap<String, Array>,
    time: &str,
) -> Result<Coordinate, Unsupported> {
    let refuse = |statement: &Statement, wrong: &str, remedy: &str| {
        Err(Unsupported::at_place(statement.place, &statement.text, wrong, remedy))
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
        let wrong = format!("stands outside of the loop over `{}`, which is distributed", distributed.name);
        return refuse(outside, &wrong, "move it into that loop, or into a nest of its own");
    }
    Ok(Coordinate::Loop(Box::new(distributed.clone())))
}
