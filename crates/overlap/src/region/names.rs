//! Names of a region: that two of them are not one memory, and that isl reads them.

use std::collections::BTreeMap;

use super::types::{Array, File, Parameter};
use crate::clang::{Kind, Node, Shape};
use crate::refusal::Refusal;

/// Words of isl's language.
const WORDS: &[&str] = &[
    "and", "or", "not", "exists", "mod", "floor", "ceil", "min", "max", "true", "false", "implies", "infty",
    "infinity", "NaN", "lexmin", "lexmax",
];

/// Refuses names of isl's and arrays that are known to share memory.
pub fn check(
    file: &File,
    region: &Node,
    arrays: &BTreeMap<String, Array>,
    parameters: &BTreeMap<String, Parameter>,
) -> Result<(), Refusal> {
    for name in arrays.keys().chain(parameters.keys()) {
        if WORDS.contains(&name.as_str()) {
            return Err(Refusal::at(region.place, name, "is a word of isl's language", "rename it"));
        }
    }
    let around = file.nodes.iter().find(|node| {
        node.kind == Kind::Function
            && node.span.start <= region.span.start
            && region.span.end <= node.span.end
    });
    let mut outcome = Ok(());
    for node in file.nodes {
        node.walk(&mut |node| {
            if outcome.is_ok() {
                outcome = assigned(file, node, arrays)
                    .and_then(|()| around.map_or(Ok(()), |function| passed(file, function, node, arrays)));
            }
            outcome.is_ok()
        });
    }
    outcome
}

/// Refuses a pointer of the region's that is given the address of another variable.
fn assigned(file: &File, node: &Node, arrays: &BTreeMap<String, Array>) -> Result<(), Refusal> {
    let (target, value) = match (node.kind, node.operator) {
        (Kind::Variable, _) => (node, node.children.last()),
        (Kind::Binary, "=") => (node.children[0].bare(), node.children.get(1)),
        _ => return Ok(()),
    };
    let is_pointer = target.shape == Shape::Address && target.types[1].contains('*');
    match value {
        Some(value) if is_pointer && arrays.contains_key(&target.name) && is_other_memory(value) => file
            .refuse(
                node,
                "makes two names of one memory",
                "give each array of the region memory of its own, or use one name",
            ),
        _ => Ok(()),
    }
}

/// Refuses a call of the region's `function` that passes one address as two arrays, of which one is written.
/// Parts of an array may lie beside each other, so only what is written alike is known to be the same.
fn passed(
    file: &File,
    function: &Node,
    node: &Node,
    arrays: &BTreeMap<String, Array>,
) -> Result<(), Refusal> {
    if node.kind != Kind::Call || node.name != function.name {
        return Ok(());
    }
    let parameters = function.children.iter().filter(|child| child.kind == Kind::Variable);
    let given: Vec<(&Array, &str)> = parameters
        .zip(node.children.iter().skip(1))
        .filter(|(_, argument)| is_other_memory(argument))
        .filter_map(|(parameter, argument)| Some((arrays.get(&parameter.name)?, file.text(argument.bare()))))
        .collect();
    let is_twice = given.iter().enumerate().any(|(at, (array, text))| {
        given[..at].iter().any(|(other, same)| same == text && (array.is_written || other.is_written))
    });
    match is_twice {
        true => file.refuse(
            node,
            "passes one memory as two arrays of the region",
            "give each array of the region memory of its own, or use one name",
        ),
        false => Ok(()),
    }
}

/// Whether an address is made of another variable's.
fn is_other_memory(value: &Node) -> bool {
    let bare = value.bare();
    match (bare.kind, bare.operator) {
        (Kind::Name, _) => bare.shape == Shape::Address,
        (Kind::Unary, "&") => true,
        (Kind::Binary, "+" | "-") => bare.children.iter().any(is_other_memory),
        (Kind::Conditional, _) => bare.children.iter().skip(1).any(is_other_memory),
        (Kind::Subscript, _) => bare.shape == Shape::Address,
        _ => false,
    }
}
