//! Graphs of processes: known to all members (MPI_Graph_create, MPI-5 section 8.5.3), or distributed (section
//! 8.5.4).

use tutti_base::{Error, ErrorClass, Result};

/// Graph that every member knows completely.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    /// End of the neighbours of each node in `edges`.
    index: Vec<i32>,
    edges: Vec<i32>,
}

/// Edges of one member in a distributed graph. Multiple edges and edges to the member itself are allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distributed {
    /// Edges that lead to this member.
    pub sources: Edges,
    /// Edges that lead away from this member.
    pub destinations: Edges,
    /// True if weights were given; equal at all members.
    pub weighted: bool,
}

/// Edges of a member in one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edges {
    /// Rank at the other end of each edge.
    pub ranks: Vec<u32>,
    /// Weight of each edge; 1 if none were given.
    pub weights: Vec<i32>,
}

impl Graph {
    /// Returns a graph of `index.len()` nodes. The neighbours of node i are `edges[index[i - 1]..index[i]]`.
    ///
    /// # Errors
    /// `Arg` if the numbers do not describe a graph.
    pub fn new(index: &[i32], edges: &[i32]) -> Result<Graph> {
        let nodes = index.len();
        let mut last = 0;
        for (place, end) in index.iter().enumerate() {
            if *end < last {
                let reason = format!("argument index[{place}] is {end}, less than the one before ({last})");
                return Err(Error::new(ErrorClass::Arg, reason));
            }
            last = *end;
        }
        let edges = &edges[..last as usize];
        let there = |rank: &i32| usize::try_from(*rank).is_ok_and(|rank| rank < nodes);
        if let Some(place) = edges.iter().position(|edge| !there(edge)) {
            let reason = format!("argument edges[{place}] is {}; the graph has {nodes} nodes", edges[place]);
            return Err(Error::new(ErrorClass::Arg, reason));
        }
        Ok(Graph { index: index.to_vec(), edges: edges.to_vec() })
    }

    /// Returns the number of nodes.
    pub fn size(&self) -> u32 {
        self.index.len() as u32
    }

    /// Returns the end of the neighbours of each node in [`Graph::edges`].
    pub fn index(&self) -> &[i32] {
        &self.index
    }

    /// Returns the neighbours of all nodes, node by node.
    pub fn edges(&self) -> &[i32] {
        &self.edges
    }

    /// Returns the neighbours of a node in the order given by the user. `node` must be below [`Graph::size`].
    pub fn neighbours(&self, node: u32) -> &[i32] {
        let node = node as usize;
        let start = if node == 0 { 0 } else { self.index[node - 1] };
        &self.edges[start as usize..self.index[node] as usize]
    }
}

impl Edges {
    /// Returns edges to or from `ranks`, which must be below `size`. `argument` names them in errors. Without
    /// weights, each weight is 1.
    ///
    /// # Errors
    /// `Rank` for an invalid rank, `Arg` for a negative weight.
    pub fn new(ranks: &[i32], weights: Option<&[i32]>, size: u32, argument: &str) -> Result<Edges> {
        let mut edges = Edges::default();
        for (place, rank) in ranks.iter().enumerate() {
            let known = u32::try_from(*rank).ok().filter(|rank| *rank < size).ok_or_else(|| {
                let reason = format!("argument {argument}[{place}] is {rank}; it must be 0 to {}", size - 1);
                Error::new(ErrorClass::Rank, reason)
            })?;
            let weight = weights.map_or(1, |weights| weights[place]);
            if weight < 0 {
                let reason =
                    format!("the weight of {argument}[{place}] is {weight}; weights are not negative");
                return Err(Error::new(ErrorClass::Arg, reason));
            }
            edges.push(known, weight);
        }
        Ok(edges)
    }

    /// Appends an edge with its weight.
    pub fn push(&mut self, rank: u32, weight: i32) {
        self.ranks.push(rank);
        self.weights.push(weight);
    }

    /// Returns the number of edges.
    pub fn len(&self) -> usize {
        self.ranks.len()
    }

    /// Returns true if there are no edges.
    pub fn is_empty(&self) -> bool {
        self.ranks.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(index: &[i32], edges: &[i32], expected: std::result::Result<&[&[i32]], ErrorClass>) {
        let graph = Graph::new(index, edges).map_err(|error| error.class);
        let found = graph
            .as_ref()
            .map(|graph| (0..graph.size()).map(|node| graph.neighbours(node)).collect::<Vec<_>>());
        assert_eq!(found, expected.as_ref().map(|lists| lists.to_vec()), "{index:?} {edges:?}");
    }

    #[test]
    fn nodes_have_their_edges() {
        // The example of MPI-5 section 8.5.3.
        check(&[2, 3, 4, 6], &[1, 3, 0, 3, 0, 2], Ok(&[&[1, 3], &[0], &[3], &[0, 2]]));
        check(&[0, 1], &[1], Ok(&[&[], &[1]]));
        check(&[], &[], Ok(&[]));
        check(&[2, 1], &[0, 0], Err(ErrorClass::Arg));
        check(&[-1], &[], Err(ErrorClass::Arg));
        check(&[1], &[1], Err(ErrorClass::Arg));
        check(&[1], &[-1], Err(ErrorClass::Arg));
    }

    #[test]
    fn edges_are_checked() {
        let class = |ranks: &[i32], weights: Option<&[i32]>| {
            Edges::new(ranks, weights, 3, "sources").map(|edges| edges.weights).map_err(|error| error.class)
        };
        assert_eq!(class(&[0, 2, 2], None), Ok(vec![1, 1, 1]));
        assert_eq!(class(&[0, 2], Some(&[0, 7])), Ok(vec![0, 7]));
        assert_eq!(class(&[3], None), Err(ErrorClass::Rank));
        assert_eq!(class(&[-3], None), Err(ErrorClass::Rank));
        assert_eq!(class(&[1], Some(&[-1])), Err(ErrorClass::Arg));
    }
}
