//! Circles of files: files that can be understood only together. They are the strongly connected components
//! of a crate's imports (Tarjan 1972, here in the two-pass form of Kosaraju, which is shorter).

use std::collections::{BTreeMap, BTreeSet};

use super::imports::Import;

/// Returns the largest circle, its files in order; at most one file if there is no circle.
pub fn largest(imports: &[Import]) -> Vec<String> {
    largest_of(imports.iter().map(|import| (import.from.as_str(), import.to.as_str())))
}

/// Returns the largest circle of any graph.
pub fn largest_of<'a>(edges: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<String> {
    let mut circles = components(edges);
    circles.sort_by_key(Vec::len);
    circles.pop().unwrap_or_default()
}

/// Returns the components of a graph, each sorted.
fn components<'a>(edges: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<Vec<String>> {
    let (mut forward, mut backward) = (BTreeMap::new(), BTreeMap::new());
    for (from, to) in edges {
        for (graph, one, other) in [(&mut forward, from, to), (&mut backward, to, from)] {
            graph.entry(one).or_insert_with(Vec::new).push(other);
            graph.entry(other).or_insert_with(Vec::new);
        }
    }
    let mut seen = BTreeSet::new();
    let mut finished = Vec::new();
    for node in forward.keys() {
        walk(&forward, node, &mut seen, &mut finished);
    }
    seen.clear();
    let mut found = Vec::new();
    for node in finished.into_iter().rev() {
        let mut component = Vec::new();
        walk(&backward, node, &mut seen, &mut component);
        if !component.is_empty() {
            component.sort_unstable();
            found.push(component.into_iter().map(str::to_string).collect());
        }
    }
    found
}

/// Walks the graph depth first from `node`; finished nodes are appended to `finished`.
fn walk<'a>(
    graph: &BTreeMap<&'a str, Vec<&'a str>>,
    node: &'a str,
    seen: &mut BTreeSet<&'a str>,
    finished: &mut Vec<&'a str>,
) {
    if seen.insert(node) {
        for next in &graph[node] {
            walk(graph, next, seen, finished);
        }
        finished.push(node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(edges: &[(&str, &str)], expected: &[&str]) {
        let import =
            |(from, to): &(&str, &str)| Import { from: from.to_string(), line: 1, to: to.to_string() };
        let imports: Vec<Import> = edges.iter().map(import).collect();
        assert_eq!(largest(&imports), expected);
    }

    #[test]
    fn the_largest_circle_is_found() {
        check(&[], &[]);
        check(&[("a", "b"), ("b", "a"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "c")], &["c", "d", "e"]);
        assert_eq!(components([("a", "b"), ("b", "c")].into_iter()).len(), 3);
    }
}
