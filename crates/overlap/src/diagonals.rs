//! Order for nests whose innermost loop is a chain, in which each instance needs the one before.
//!
//! A processor overlaps instances that are independent of each other. Consider two innermost loops over `x`
//! and `y`, of which the second is a chain. Strips of rows are then processed along diagonals `factor * x +
//! y`; instances of a diagonal are independent. The order is legal if no dependence on memory goes to a lower
//! diagonal or to an earlier row. Only dependences within a nest, one step and one iteration of the outer
//! loops count. Each such dependence then goes to the same strip or a later one. isl proves it.

use crate::isl::{Map, Set};
use crate::polyhedra::Model;
use crate::region::Statement;

/// Diagonals steeper than that have too few rows.
const STEEPEST: i64 = 4;

/// Returns the factor of the diagonals, if the nest is a chain for which one exists. All statements of such a
/// nest are in the same loops.
pub fn factor(model: &Model, nest: usize) -> Option<i64> {
    let own: Vec<&Statement> = model.region.statements.iter().filter(|one| one.nest == nest).collect();
    let depth = own.first()?.loops.len();
    let is_same = |one: &&&Statement| {
        one.loops.len() == depth && one.loops.iter().zip(&own[0].loops).all(|(a, b)| a.header == b.header)
    };
    if depth < 2 || own.iter().filter(is_same).count() < own.len() {
        return None;
    }
    let is_chain = moved(model, nest, depth, &model.flow)
        .is_some_and(|moved| !moved.intersect(&within(model, depth, "dx = 0 and dy > 0")).is_empty());
    let all = moved(model, nest, depth, &model.memory)?;
    let legal = |factor: &i64| {
        let wrong = format!("(dx != 0 or dy != 0) and (dx < 0 or {factor} * dx + dy < 1)");
        all.intersect(&within(model, depth, &wrong)).is_empty()
    };
    if is_chain { (0..=STEEPEST).find(legal) } else { None }
}

/// Returns the distances that dependences of the nest span: in time, then in each loop. `None` if there are
/// none.
fn moved(model: &Model, nest: usize, depth: usize, pairs: &Map) -> Option<Set> {
    let own = model.region.statements.iter().enumerate().filter(|(_, one)| one.nest == nest);
    let names: Vec<String> = (0..=depth).map(|at| format!("v{at}")).collect();
    let tuple = names.join(", ");
    let lines: Vec<String> = own.map(|(at, _)| format!("S{at}[{tuple}] -> [{tuple}]")).collect();
    let end = model.isl.map(&format!("{{ {} }}", lines.join("; "))).restrict_domain(&model.domain);
    let moved = end.reverse().then(pairs).then(&end);
    if moved.is_empty() { None } else { Some(moved.deltas()) }
}

/// Returns the set of distances `dx` and `dy` in the two innermost loops that satisfy `condition`. Distances
/// in the outer loops are zero.
fn within(model: &Model, depth: usize, condition: &str) -> Set {
    let mut all = vec!["0"; depth - 1];
    all.extend(["dx", "dy"]);
    model.isl.set(&format!("{{ [{}] : {condition} }}", all.join(", ")))
}
