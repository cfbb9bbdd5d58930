//! Check whether two arrays of a region are the same memory, as far as the file shows it. The program checks
//! all others when it reaches the region.

use std::collections::BTreeMap;

use super::types::{Array, File};
use crate::clang::{Kind, Node, Shape, Variable};
use crate::refusal::Unsupported;

/// Values that each pointer is given in the whole file, with their places.
type Assignments<'n> = BTreeMap<Variable, Vec<(&'n Node, &'n Node)>>;

/// Pointers made from pointers are followed so often.
const DEEPEST: usize = 8;

/// Refuses arrays that are one memory, of which one is written, and programs that use MPI themselves.
pub fn check(file: &File, function: &Node, arrays: &BTreeMap<String, Array>) -> Result<(), Unsupported> {
    let assignments = assignments(file);
    for array in arrays.values() {
        let Some([(place, value)]) = assignments.get(&array.key).map(Vec::as_slice) else { continue };
        let same = address(value, &assignments, DEEPEST);
        let is_other = |other: &&Array| {
            same.as_ref() == Some(&other.key)
                && other.key != array.key
                && (other.is_written || array.is_written)
        };
        if arrays.values().any(|other| is_other(&other)) {
            return file.refuse(
                place,
                "makes two names of one memory",
                "give each array of the region memory of its own, or use one name",
            );
        }
    }
    let mut outcome = Ok(());
    for node in file.nodes {
        node.walk(&mut |node| {
            if outcome.is_ok() && node.kind == Kind::Call {
                outcome = called(file, function, node, arrays, &assignments);
            }
            outcome.is_ok()
        });
    }
    outcome
}

/// Refuses a call of MPI, and one of the region's `function` that passes one address as two arrays, of which
/// one is written.
fn called(
    file: &File,
    function: &Node,
    node: &Node,
    arrays: &BTreeMap<String, Array>,
    assignments: &Assignments,
) -> Result<(), Unsupported> {
    if node.name.starts_with("MPI_") {
        return file.refuse(
            node,
            "is MPI in a sequential program, all of which but its regions runs on rank 0",
            "take it out: the program that is made has the calls it needs",
        );
    }
    if node.name != function.name {
        return Ok(());
    }
    let parameters = function.children.iter().filter(|child| child.kind == Kind::Variable);
    let given: Vec<(&Array, Variable)> = parameters
        .zip(node.children.iter().skip(1))
        .filter_map(|(parameter, argument)| {
            let array = arrays.values().find(|array| array.key == parameter.variable())?;
            Some((array, address(argument, assignments, DEEPEST)?))
        })
        .collect();
    let is_twice = given.iter().enumerate().any(|(at, (array, key))| {
        given[..at].iter().any(|(other, same)| same == key && (array.is_written || other.is_written))
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

/// Returns all values that are assigned to pointers.
fn assignments<'n>(file: &File<'n>) -> Assignments<'n> {
    let mut found = Assignments::new();
    for node in file.nodes {
        node.walk(&mut |node| {
            let (target, value) = match (node.kind, node.operator) {
                (Kind::Variable, _) => (node, node.children.last()),
                (Kind::Binary, "=") => (node.children[0].bare(), node.children.get(1)),
                (Kind::CompoundAssignment, _) => (node.children[0].bare(), Some(node)),
                (Kind::Unary, "++" | "--" | "&") => (node.children[0].bare(), Some(node)),
                _ => return true,
            };
            if let (Shape::Pointer, Some(value)) = (target.shape, value) {
                found.entry(target.variable()).or_default().push((node, value));
            }
            true
        });
    }
    found
}

/// Returns the variable whose memory begins at the address `value`, if that is certain. It is an array, or a
/// pointer with at most one assigned value.
fn address(value: &Node, assignments: &Assignments, depth: usize) -> Option<Variable> {
    let bare = value.bare();
    match (bare.kind, bare.operator, bare.shape) {
        (Kind::Name, _, Shape::Array) => Some(bare.variable()),
        (Kind::Name, _, Shape::Pointer) => {
            let key = bare.variable();
            match assignments.get(&key).map(Vec::as_slice) {
                None => Some(key),
                Some([(_, value)]) if depth > 0 => address(value, assignments, depth - 1).or(Some(key)),
                _ => None,
            }
        }
        (Kind::Unary, "&", _) => match bare.children[0].bare() {
            first if first.kind == Kind::Subscript => first_element(first, assignments, depth),
            name if name.shape == Shape::Array => address(name, assignments, depth),
            _ => None,
        },
        (Kind::Binary, "+" | "-", _) if bare.children[1].bare().value == Some(0) => {
            address(&bare.children[0], assignments, depth)
        }
        _ => None,
    }
}

/// Returns the variable whose memory begins with the element `node`.
fn first_element(node: &Node, assignments: &Assignments, depth: usize) -> Option<Variable> {
    match node.kind {
        Kind::Subscript if node.children[1].bare().value == Some(0) => {
            first_element(node.children[0].bare(), assignments, depth)
        }
        Kind::Name => address(node, assignments, depth),
        _ => None,
    }
}
