//! Mapping of the vertices of a communication graph to ranks, such that vertices with much traffic are near
//! one another. Topologies of MPI-5 chapter 8 use it with `reorder`.
//!
//! The groups of the [`Hierarchy`] are split in two, again and again, and the graph with them (recursive
//! bisection; Träff 2002 uses the same for clusters of SMPs). Each part gets as many vertices as there are
//! ranks on its side, with as little traffic as possible between the two. A cut starts from several orders of
//! the vertices, including those along the dimensions of a grid. It is then improved by exchanging pairs
//! (Kernighan and Lin 1970). All values are integers and ties go to the smallest number, so all ranks find
//! the same mapping from the same graph.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::Hierarchy;

/// Traffic between the vertices of a communication graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrafficMatrix {
    /// Neighbours of each vertex, with the traffic between the two in both directions together.
    neighbours: Vec<Vec<(u32, u64)>>,
    /// Orders of the vertices whose beginnings are likely to be good parts.
    orders: Vec<Vec<u32>>,
}

/// Number of exchanges in a row without improvement after which a pass ends.
const PATIENCE: usize = 48;
/// Largest number of passes over a cut.
const PASSES: usize = 6;

impl TrafficMatrix {
    /// Returns the traffic between `vertices` vertices. Edges are (from, to, weight); they may repeat, and
    /// loops are ignored.
    pub fn new(vertices: u32, edges: impl IntoIterator<Item = (u32, u32, u64)>) -> TrafficMatrix {
        let mut sums: Vec<BTreeMap<u32, u64>> = vec![BTreeMap::new(); vertices as usize];
        for (from, to, weight) in edges.into_iter().filter(|(from, to, _)| from != to) {
            for (one, other) in [(from, to), (to, from)] {
                let sum = sums[one as usize].entry(other).or_insert(0);
                *sum = sum.saturating_add(weight);
            }
        }
        let neighbours = sums.into_iter().map(|sums| sums.into_iter().collect()).collect();
        TrafficMatrix { neighbours, orders: vec![(0..vertices).collect()] }
    }

    /// Returns the traffic in a grid in row-major order (the last dimension varies fastest) in which
    /// neighbours exchange `weight`. There are `vertices` vertices; those beyond the grid have no traffic.
    pub fn grid(dims: &[u32], periodic: &[bool], vertices: u32, weight: u64) -> TrafficMatrix {
        let size: u32 = dims.iter().product();
        let strides: Vec<u32> = (0..dims.len()).map(|place| dims[place + 1..].iter().product()).collect();
        let coord = |vertex: u32, place: usize| vertex / strides[place] % dims[place];
        let up = |vertex: u32, place: usize| {
            let at = coord(vertex, place);
            let last = at + 1 == dims[place];
            (!last).then(|| vertex + strides[place]).or(periodic[place].then(|| vertex - at * strides[place]))
        };
        let edges = (0..size).flat_map(|vertex| {
            (0..dims.len()).filter_map(move |place| Some((vertex, up(vertex, place)?, 2 * weight)))
        });
        let mut traffic = TrafficMatrix::new(vertices.max(size), edges);
        traffic.orders = (0..dims.len())
            .map(|place| {
                let mut order: Vec<u32> = (0..vertices.max(size)).collect();
                order.sort_by_key(|vertex| if *vertex < size { coord(*vertex, place) } else { u32::MAX });
                order
            })
            .collect();
        if traffic.orders.is_empty() {
            traffic.orders.push((0..vertices.max(size)).collect());
        }
        traffic
    }

    /// Returns the number of vertices.
    pub fn vertices(&self) -> u32 {
        self.neighbours.len() as u32
    }

    /// Returns all pairs of vertices with traffic, and its amount.
    pub fn edges(&self) -> impl Iterator<Item = (u32, u32, u64)> + '_ {
        (0..).zip(&self.neighbours).flat_map(|(vertex, neighbours)| {
            let once = neighbours.iter().filter(move |(other, _)| vertex < *other);
            once.map(move |(other, weight)| (vertex, *other, *weight))
        })
    }

    /// Returns the sum of each edge's traffic times the distance of the ranks at its ends. Vertex v is taken
    /// by `ranks[v]`.
    pub fn cost(&self, hierarchy: &Hierarchy, ranks: &[u32]) -> u64 {
        let of = |(one, other, weight): (u32, u32, u64)| {
            weight.saturating_mul(hierarchy.distance(ranks[one as usize], ranks[other as usize]).into())
        };
        self.edges().map(of).fold(0, u64::saturating_add)
    }

    /// Returns the rank that takes each vertex; there must be as many ranks as vertices. Returns the identity
    /// if no mapping is better.
    pub fn map(&self, hierarchy: &Hierarchy) -> Vec<u32> {
        assert_eq!(self.vertices(), hierarchy.ranks(), "as many ranks as vertices");
        let stay: Vec<u32> = (0..self.vertices()).collect();
        let mut mapping = Mapping { traffic: self, hierarchy, ranks: stay.clone() };
        let levels: Vec<u8> = hierarchy.levels().collect();
        mapping.place(stay.clone(), hierarchy.order(), &levels);
        let (moved, before) = (self.cost(hierarchy, &mapping.ranks), self.cost(hierarchy, &stay));
        if moved < before { mapping.ranks } else { stay }
    }
}

/// Mapping that is being built.
struct Mapping<'a> {
    traffic: &'a TrafficMatrix,
    hierarchy: &'a Hierarchy,
    ranks: Vec<u32>,
}

impl Mapping<'_> {
    /// Gives `vertices` to `ranks`, a group of the coarsest of `levels`, finer ones first.
    fn place(&mut self, vertices: Vec<u32>, ranks: &[u32], levels: &[u8]) {
        let Some((_, finer)) = levels.split_last().filter(|(_, finer)| !finer.is_empty()) else {
            // All are equally far from one another.
            let mut ranks = ranks.to_vec();
            ranks.sort_unstable();
            let mut vertices = vertices;
            vertices.sort_unstable();
            vertices.iter().zip(ranks).for_each(|(vertex, rank)| self.ranks[*vertex as usize] = rank);
            return;
        };
        let distance = finer[finer.len() - 1];
        let mut groups = Vec::new();
        let mut rest = ranks;
        while let Some(first) = rest.first() {
            let (group, others) = rest.split_at(self.hierarchy.group(distance, *first).len());
            groups.push(group);
            rest = others;
        }
        self.share(vertices, &groups, finer);
    }

    /// Gives `vertices` to groups side by side.
    fn share(&mut self, vertices: Vec<u32>, groups: &[&[u32]], levels: &[u8]) {
        if let [group] = groups {
            return self.place(vertices, group, levels);
        }
        let (left, right) = groups.split_at(groups.len() / 2);
        let size = left.iter().map(|group| group.len()).sum();
        let (first, second) = Cut::best(self.traffic, &vertices, size).split(&vertices);
        self.share(first, left, levels);
        self.share(second, right, levels);
    }
}

/// A division of some vertices in two.
struct Cut<'a> {
    traffic: &'a TrafficMatrix,
    /// Part of each vertex; `None` for vertices that are not divided.
    side: Vec<Option<bool>>,
    /// Traffic between the two parts.
    weight: u64,
}

impl<'a> Cut<'a> {
    /// Returns the best cut found of `vertices` into one part of `size` vertices and the remaining ones.
    fn best(traffic: &'a TrafficMatrix, vertices: &[u32], size: usize) -> Cut<'a> {
        let within: BTreeSet<u32> = vertices.iter().copied().collect();
        let given = traffic.orders.iter();
        let mut orders: Vec<Vec<u32>> = given
            .map(|order| order.iter().copied().filter(|vertex| within.contains(vertex)).collect())
            .collect();
        orders.push(breadth_first(traffic, &within));
        let cut = |order: &Vec<u32>| {
            let mut cut = Cut::new(traffic, &order[..size], &order[size..]);
            cut.improve(vertices);
            cut
        };
        orders.iter().map(cut).min_by_key(|cut| cut.weight).expect("the breadth-first order always exists")
    }

    fn new(traffic: &'a TrafficMatrix, first: &[u32], second: &[u32]) -> Cut<'a> {
        let mut side = vec![None; traffic.neighbours.len()];
        first.iter().for_each(|vertex| side[*vertex as usize] = Some(false));
        second.iter().for_each(|vertex| side[*vertex as usize] = Some(true));
        let mut cut = Cut { traffic, side, weight: 0 };
        cut.weight = first
            .iter()
            .flat_map(|vertex| &traffic.neighbours[*vertex as usize])
            .filter(|(other, _)| cut.side[*other as usize] == Some(true))
            .map(|(_, weight)| weight)
            .sum();
        cut
    }

    fn split(self, vertices: &[u32]) -> (Vec<u32>, Vec<u32>) {
        vertices.iter().partition(|vertex| self.side[**vertex as usize] == Some(false))
    }

    /// Returns the traffic that the cut loses when `vertex` changes sides.
    fn gain(&self, vertex: u32) -> i64 {
        let own = self.side[vertex as usize];
        let of = |(other, weight): &(u32, u64)| match self.side[*other as usize] {
            None => 0,
            other if other == own => -(*weight as i64),
            _ => *weight as i64,
        };
        self.traffic.neighbours[vertex as usize].iter().map(of).sum()
    }

    /// Exchanges pairs as long as that reduces the cut.
    fn improve(&mut self, vertices: &[u32]) {
        for _ in 0..PASSES {
            if !self.pass(vertices) {
                return;
            }
        }
    }

    /// Makes one pass in which every vertex moves at most once, and undoes the moves that did not help.
    /// Returns true if the cut has improved.
    fn pass(&mut self, vertices: &[u32]) -> bool {
        let mut open = [BTreeSet::new(), BTreeSet::new()];
        for vertex in vertices {
            let side = self.side[*vertex as usize].expect("only vertices of the divided part are moved");
            open[usize::from(side)].insert((-self.gain(*vertex), *vertex));
        }
        let (start, mut best, mut done, mut kept) = (self.weight, self.weight, Vec::new(), 0);
        while done.len() < kept + 2 * PATIENCE {
            let (Some(one), true) = (open[0].pop_first(), !open[1].is_empty()) else { break };
            self.turn(one.1, &mut open);
            let other = open[1].pop_first().expect("checked above to be not empty");
            self.turn(other.1, &mut open);
            done.extend([one.1, other.1]);
            if self.weight < best {
                (best, kept) = (self.weight, done.len());
            }
        }
        for vertex in &done[kept..] {
            let side = &mut self.side[*vertex as usize];
            *side = side.map(|side| !side);
        }
        self.weight = best;
        best < start
    }

    /// Moves a vertex to the other side, and those that may still move to their new places in `open`.
    fn turn(&mut self, vertex: u32, open: &mut [BTreeSet<(i64, u32)>; 2]) {
        let side = self.side[vertex as usize].expect("only vertices of the divided part are moved");
        self.weight = self.weight.saturating_add_signed(-self.gain(vertex));
        let neighbours = &self.traffic.neighbours[vertex as usize];
        let mut known = Vec::with_capacity(neighbours.len());
        for (other, _) in neighbours {
            if let Some(at) = self.side[*other as usize] {
                let gain = -self.gain(*other);
                known.extend(open[usize::from(at)].remove(&(gain, *other)).then_some((at, *other)));
            }
        }
        self.side[vertex as usize] = Some(!side);
        for (at, other) in known {
            open[usize::from(at)].insert((-self.gain(other), other));
        }
    }
}

/// Returns the vertices of a part by their distance from one at its rim; unconnected components follow one
/// after the other.
fn breadth_first(traffic: &TrafficMatrix, within: &BTreeSet<u32>) -> Vec<u32> {
    let mut open = within.clone();
    let mut order = Vec::with_capacity(within.len());
    while let Some(first) = open.first().copied() {
        let rim = *walk(traffic, first, &mut open.clone()).last().expect("a walk contains its first vertex");
        order.extend(walk(traffic, rim, &mut open));
    }
    order
}

fn walk(traffic: &TrafficMatrix, first: u32, open: &mut BTreeSet<u32>) -> Vec<u32> {
    open.remove(&first);
    let (mut order, mut queue) = (Vec::new(), VecDeque::from([first]));
    while let Some(vertex) = queue.pop_front() {
        order.push(vertex);
        let neighbours = traffic.neighbours[vertex as usize].iter();
        queue.extend(neighbours.map(|(other, _)| *other).filter(|other| open.remove(other)));
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hierarchy::RankLocation;
    use tutti_topo::model::Places;

    /// Returns `hosts` hosts of `each` ranks, filled in turn: neighbours are on different hosts.
    fn scattered(hosts: u32, each: u32) -> Hierarchy {
        let place = |rank| RankLocation { host: rank % hosts, at: Places::default() };
        Hierarchy::new(&(0..hosts * each).map(place).collect::<Vec<_>>())
    }

    /// Checks the cost before and after, and that no vertex is left out.
    fn check(traffic: &TrafficMatrix, hierarchy: &Hierarchy, expected: (u64, u64)) {
        let ranks = traffic.map(hierarchy);
        let mut all = ranks.clone();
        all.sort_unstable();
        let stay: Vec<u32> = (0..traffic.vertices()).collect();
        assert_eq!(all, stay, "a permutation");
        assert_eq!((traffic.cost(hierarchy, &stay), traffic.cost(hierarchy, &ranks)), expected);
    }

    #[test]
    fn those_that_talk_are_brought_together() {
        // A line of 8 on 2 hosts: one of its 7 edges must cross and costs 7, the others cost 6 each; 2 units
        // on every edge.
        check(&TrafficMatrix::grid(&[8], &[false], 8, 1), &scattered(2, 4), (7 * 2 * 7, 6 * 2 * 6 + 2 * 7));
        // A ring crosses twice.
        check(
            &TrafficMatrix::grid(&[8], &[true], 8, 1),
            &scattered(2, 4),
            (8 * 2 * 7, 6 * 2 * 6 + 2 * 2 * 7),
        );
        // 4 x 4 on 4 hosts: squares, 8 of 24 edges cross.
        check(
            &TrafficMatrix::grid(&[4, 4], &[false; 2], 16, 1),
            &scattered(4, 4),
            (312, 16 * 2 * 6 + 8 * 2 * 7),
        );
        // Two cliques whose vertices are on alternating hosts.
        let pairs = (0..8).flat_map(|one| (0..8).map(move |other| (one, other)));
        let cliques = pairs.filter(|(one, other)| one < other && one / 4 == other / 4);
        let traffic = TrafficMatrix::new(8, cliques.map(|(one, other)| (one, other, 5)));
        check(&traffic, &scattered(2, 4), (400, 12 * 5 * 6));
    }

    #[test]
    fn who_is_well_placed_stays() {
        let traffic = TrafficMatrix::grid(&[4, 2], &[false; 2], 8, 1);
        let place = |rank: u32| RankLocation { host: rank / 4, at: Places::default() };
        let hierarchy = Hierarchy::new(&(0..8).map(place).collect::<Vec<_>>());
        assert_eq!(traffic.map(&hierarchy), (0..8).collect::<Vec<_>>());
        assert_eq!(TrafficMatrix::grid(&[], &[], 3, 1).map(&Hierarchy::flat(3)), [0, 1, 2]);
    }

    #[test]
    fn vertices_without_traffic_fill_what_is_left() {
        // A line of 4 among 6 ranks of 2 hosts: three of its vertices fit on one host.
        let ranks = TrafficMatrix::grid(&[4], &[false], 6, 1).map(&scattered(2, 3));
        let hosts: Vec<u32> = ranks[..4].iter().map(|rank| rank % 2).collect();
        assert_eq!(hosts.windows(2).filter(|pair| pair[0] != pair[1]).count(), 1, "{ranks:?}");
    }
}
