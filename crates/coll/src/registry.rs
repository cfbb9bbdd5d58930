//! Every algorithm by name: what it needs, which parameters it looks at, what it costs, and the
//! function that writes it. Selection, verification, forced choice, documentation and `tutti info`
//! all come from this one list.

use std::fmt;
use std::sync::Arc;

use crate::algorithms::{
    allgather, allreduce, alltoall, bank_move, bank_reduce, barrier, bcast, flags, gather, hierarchical,
    hierarchical_exposed, reduce, reduce_scatter, scan,
};
use crate::build::Builder;
use crate::cost::{self, Environment, Model, Work};
use crate::cost_node as node;
use crate::hierarchy::{Hierarchy, Ignored};
use crate::ir::Schedule;
use crate::shape::{Collective, Params, Shape};

/// An algorithm for one collective operation.
pub struct Generator {
    /// Unique among those of the collective; what a user forces it by.
    pub name: &'static str,
    /// The operation.
    pub collective: Collective,
    /// When it can be used.
    pub requires: Requirements,
    /// Which parameters it looks at.
    pub parameters: Parameters,
    /// Its work in closed form.
    pub work: fn(&Shape, &Params) -> Work,
    write: fn(&Shape, &Params, &mut Builder),
}

/// What must hold for an algorithm to be right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requirements {
    /// The operator commutes.
    pub commutative: bool,
    /// The number of ranks is a power of two.
    pub power_of_two: bool,
    /// What it needs of the node.
    pub node: Node,
}

/// What an algorithm needs of the nodes that the ranks are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    /// Nothing: it sends messages.
    Any,
    /// All ranks are on one node, which gives them flags and banks (S1).
    Shared,
    /// And they can get at each other's memory (S2).
    Exposed,
}

/// The parameters that make a difference to an algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// [`Params::radix`].
    pub radix: bool,
    /// [`Params::segment`].
    pub segment: bool,
    /// [`Params::window`], by itself; where there are segments it is always looked at.
    pub window: bool,
    /// Who is near whom, and so [`Params::ignored`].
    pub distances: bool,
}

const ANY: Requirements = Requirements { commutative: false, power_of_two: false, node: Node::Any };
const COMMUTES: Requirements = Requirements { commutative: true, ..ANY };
const EXPOSED: Requirements = Requirements { node: Node::Exposed, ..ANY };
const POWER: Requirements = Requirements { power_of_two: true, ..ANY };
const SHARED: Requirements = Requirements { node: Node::Shared, ..ANY };

const FIXED: Parameters = Parameters { radix: false, segment: false, window: false, distances: false };
const RADIX: Parameters = Parameters { radix: true, segment: false, window: false, distances: false };
const PIPELINE: Parameters = Parameters { radix: false, segment: true, window: true, distances: false };
const TREE: Parameters = Parameters { radix: true, segment: true, window: true, distances: false };
const WINDOW: Parameters = Parameters { radix: false, segment: false, window: true, distances: false };
const FIXED_NEAR: Parameters = Parameters { distances: true, ..FIXED };
const RADIX_NEAR: Parameters = Parameters { distances: true, ..RADIX };
const TREE_NEAR: Parameters = Parameters { distances: true, ..TREE };

type Write = fn(&Shape, &Params, &mut Builder);
type Cost = fn(&Shape, &Params) -> Work;

const fn entry(
    collective: Collective,
    name: &'static str,
    requires: Requirements,
    parameters: Parameters,
    write: Write,
    work: Cost,
) -> Generator {
    Generator { name, collective, requires, parameters, work, write }
}

use Collective as C;

#[rustfmt::skip]
static GENERATORS: &[Generator] = &[
    entry(C::Barrier, "dissemination", ANY, FIXED, barrier::dissemination, cost::barrier_dissemination),
    entry(C::Barrier, "tree", ANY, RADIX, barrier::tree, cost::barrier_tree),
    entry(C::Barrier, "spread", ANY, WINDOW, barrier::spread, cost::barrier_spread),
    entry(C::Barrier, "hierarchical", ANY, RADIX_NEAR, hierarchical::barrier, cost::barrier_tree),
    entry(C::Bcast, "knomial", ANY, TREE, bcast::knomial, cost::bcast_knomial),
    entry(C::Bcast, "kary", ANY, TREE, bcast::kary, cost::bcast_kary),
    entry(C::Bcast, "scatter_ring", ANY, FIXED, bcast::scatter_ring, cost::bcast_scatter_ring),
    entry(C::Bcast, "hierarchical", ANY, TREE_NEAR, hierarchical::bcast, cost::bcast_kary),
    entry(C::Bcast, "hierarchical_pull", EXPOSED, TREE_NEAR, hierarchical_exposed::bcast, cost::bcast_kary),
    entry(C::Gather, "linear", ANY, WINDOW, gather::gather_linear, cost::rooted_linear),
    entry(C::Gather, "knomial", ANY, RADIX, gather::gather_tree, cost::rooted_tree),
    entry(C::Gather, "hierarchical", ANY, RADIX_NEAR, hierarchical::gather, cost::rooted_tree),
    entry(C::Gatherv, "linear", ANY, WINDOW, gather::gather_linear, cost::rooted_linear),
    entry(C::Scatter, "linear", ANY, WINDOW, gather::scatter_linear, cost::rooted_linear),
    entry(C::Scatter, "knomial", ANY, RADIX, gather::scatter_tree, cost::rooted_tree),
    entry(C::Scatter, "hierarchical", ANY, RADIX_NEAR, hierarchical::scatter, cost::rooted_tree),
    entry(C::Scatterv, "linear", ANY, WINDOW, gather::scatter_linear, cost::rooted_linear),
    entry(C::Allgather, "recursive_doubling", POWER, FIXED, allgather::recursive_doubling, cost::allgather_doubling),
    entry(C::Allgather, "bruck", ANY, FIXED, allgather::bruck, cost::allgather_bruck),
    entry(C::Allgather, "ring", ANY, FIXED, allgather::ring, cost::allgather_ring),
    entry(C::Allgather, "spread", ANY, WINDOW, allgather::spread, cost::spread),
    entry(C::Allgather, "gather_bcast", ANY, RADIX, allgather::gather_bcast, cost::allgather_tree),
    entry(C::Allgather, "hierarchical_ring", ANY, FIXED_NEAR, hierarchical::allgather_ring, cost::allgather_ring),
    entry(C::Allgather, "hierarchical_ring_pull", EXPOSED, FIXED_NEAR, hierarchical_exposed::allgather_ring, cost::allgather_ring),
    entry(C::Allgatherv, "ring", ANY, FIXED, allgather::ring, cost::allgather_ring),
    entry(C::Allgatherv, "spread", ANY, WINDOW, allgather::spread, cost::spread),
    entry(C::Allgatherv, "hierarchical_ring", ANY, FIXED_NEAR, hierarchical::allgather_ring, cost::allgather_ring),
    entry(C::Alltoall, "spread", ANY, WINDOW, alltoall::spread, cost::spread),
    entry(C::Alltoall, "pairwise", ANY, FIXED, alltoall::pairwise, cost::pairwise),
    entry(C::Alltoall, "bruck", ANY, FIXED, alltoall::bruck, cost::alltoall_bruck),
    entry(C::Alltoallv, "spread", ANY, WINDOW, alltoall::spread, cost::spread),
    entry(C::Alltoallv, "pairwise", ANY, FIXED, alltoall::pairwise, cost::pairwise),
    entry(C::Reduce, "knomial", ANY, TREE, reduce::knomial, cost::reduce_knomial),
    entry(C::Reduce, "kary", ANY, TREE, reduce::kary, cost::reduce_kary),
    entry(C::Reduce, "rabenseifner", ANY, FIXED, reduce::rabenseifner, cost::reduce_rabenseifner),
    entry(C::Reduce, "hierarchical", ANY, TREE_NEAR, hierarchical::reduce, cost::reduce_kary),
    entry(C::Allreduce, "recursive_doubling", ANY, FIXED, allreduce::recursive_doubling, cost::allreduce_doubling),
    entry(C::Allreduce, "rabenseifner", ANY, FIXED, allreduce::rabenseifner, cost::allreduce_rabenseifner),
    entry(C::Allreduce, "ring", COMMUTES, FIXED, allreduce::ring, cost::allreduce_ring),
    entry(C::Allreduce, "tree", ANY, TREE, allreduce::tree, cost::allreduce_tree),
    entry(C::Allreduce, "spread", ANY, WINDOW, allreduce::spread, cost::allreduce_spread),
    entry(C::Allreduce, "hierarchical", ANY, TREE_NEAR, hierarchical::allreduce, cost::allreduce_tree),
    entry(C::ReduceScatterBlock, "recursive_halving", COMMUTES, FIXED, reduce_scatter::recursive_halving, cost::reduce_scatter_halving),
    entry(C::ReduceScatterBlock, "ring", COMMUTES, FIXED, reduce_scatter::ring, cost::reduce_scatter_ring),
    entry(C::ReduceScatterBlock, "pairwise", ANY, WINDOW, reduce_scatter::pairwise, cost::reduce_scatter_pairwise),
    entry(C::ReduceScatterBlock, "tree", ANY, TREE, reduce_scatter::tree, cost::reduce_scatter_tree),
    entry(C::ReduceScatter, "recursive_halving", COMMUTES, FIXED, reduce_scatter::recursive_halving, cost::reduce_scatter_halving),
    entry(C::ReduceScatter, "ring", COMMUTES, FIXED, reduce_scatter::ring, cost::reduce_scatter_ring),
    entry(C::ReduceScatter, "pairwise", ANY, WINDOW, reduce_scatter::pairwise, cost::reduce_scatter_pairwise),
    entry(C::ReduceScatter, "tree", ANY, TREE, reduce_scatter::tree, cost::reduce_scatter_tree),
    entry(C::Scan, "recursive_doubling", ANY, FIXED, scan::recursive_doubling, cost::scan_doubling),
    entry(C::Scan, "chain", ANY, PIPELINE, scan::chain, cost::scan_chain),
    entry(C::Exscan, "recursive_doubling", ANY, FIXED, scan::recursive_doubling, cost::scan_doubling),
    entry(C::Exscan, "chain", ANY, PIPELINE, scan::chain, cost::scan_chain),
    entry(C::Barrier, "flags_flat", SHARED, FIXED, flags::barrier_flat, node::flat),
    entry(C::Barrier, "flags_dissemination", SHARED, FIXED, flags::barrier_dissemination, node::doubling),
    entry(C::Barrier, "flags_tree", SHARED, RADIX, flags::barrier_tree, node::fan_in_out),
    entry(C::Bcast, "bank_flat", SHARED, FIXED, bank_move::bcast_flat, node::bcast),
    entry(C::Bcast, "bank_tree", SHARED, RADIX, bank_move::bcast_tree, node::fan_out),
    entry(C::Gather, "bank_flat", SHARED, FIXED, bank_move::gather_flat, node::gather),
    entry(C::Scatter, "bank_flat", SHARED, FIXED, bank_move::scatter_flat, node::scatter),
    entry(C::Allgather, "bank_flat", SHARED, FIXED, bank_move::allgather_flat, node::flat),
    entry(C::Allgatherv, "bank_flat", SHARED, FIXED, bank_move::allgather_flat, node::flat),
    entry(C::Alltoall, "bank_flat", SHARED, FIXED, bank_move::alltoall_flat, node::alltoall),
    entry(C::Reduce, "bank_flat", SHARED, FIXED, bank_reduce::reduce_flat, node::reduce),
    entry(C::Reduce, "bank_tree", SHARED, RADIX, bank_reduce::reduce_tree, node::fan_in),
    entry(C::Reduce, "bank_slices", SHARED, FIXED, bank_reduce::reduce_slices_gather, node::slices_gather),
    entry(C::Allreduce, "bank_flat", SHARED, FIXED, bank_reduce::allreduce_flat, node::allreduce),
    entry(C::Allreduce, "bank_tree", SHARED, RADIX, bank_reduce::allreduce_tree, node::fan_in_out),
    entry(C::Allreduce, "bank_fan_in", SHARED, RADIX, bank_reduce::allreduce_fan_in, node::fan_in_flat),
    entry(C::Allreduce, "bank_doubling", SHARED, FIXED, bank_reduce::allreduce_doubling, node::doubling),
    entry(C::Allreduce, "bank_slices", SHARED, FIXED, bank_reduce::allreduce_slices, node::slices),
    entry(C::ReduceScatterBlock, "bank_flat", SHARED, FIXED, bank_reduce::reduce_scatter_flat, node::reduce_scatter),
    entry(C::ReduceScatter, "bank_flat", SHARED, FIXED, bank_reduce::reduce_scatter_flat, node::reduce_scatter),
    entry(C::Scan, "bank_flat", SHARED, FIXED, bank_reduce::scan_flat, node::scan),
    entry(C::Scan, "bank_doubling", SHARED, FIXED, bank_reduce::scan_doubling, node::doubling),
    entry(C::Exscan, "bank_flat", SHARED, FIXED, bank_reduce::scan_flat, node::scan),
    entry(C::Exscan, "bank_doubling", SHARED, FIXED, bank_reduce::scan_doubling, node::doubling),
];

/// All algorithms: those that send messages, then those within a node.
pub fn registry() -> &'static [Generator] {
    GENERATORS
}

impl Generator {
    /// Whether the algorithm is right for `shape`.
    pub fn suits(&self, shape: &Shape) -> bool {
        self.collective == shape.collective
            && (shape.commutative || !self.requires.commutative)
            && (shape.ranks.is_power_of_two() || !self.requires.power_of_two)
    }

    /// Writes the schedule of one rank. The shape must suit.
    pub fn generate(&self, shape: &Shape, params: &Params) -> Schedule {
        self.generate_on(shape, params, None)
    }

    /// The same, for ranks of which it is known who is near whom. All ranks have equal hierarchies.
    pub fn generate_on(
        &self,
        shape: &Shape,
        params: &Params,
        hierarchy: Option<&Arc<Hierarchy>>,
    ) -> Schedule {
        assert!(self.suits(shape), "{} does not suit {shape:?}", self.name);
        let mut builder = Builder::on(shape.collective.unit(), hierarchy);
        (self.write)(shape, params, &mut builder);
        builder.finish()
    }

    /// The parameters worth a try for `shape`.
    pub fn candidates(&self, shape: &Shape) -> Vec<Params> {
        let Parameters { radix, segment, window, distances } = self.parameters;
        let radices: &[u32] = if radix { &[2, 4, 8, Params::FLAT, 1] } else { &[2] };
        let sizes: &[u64] = if segment { &[0, 8 << 10, 32 << 10, 128 << 10, 512 << 10] } else { &[0] };
        let windows: &[u32] = if segment || !window { &[4] } else { &[64, 8] };
        let ignored: &[Ignored] =
            if distances { &[Ignored::NONE, Ignored::BELOW_MEMORY] } else { &[Ignored::NONE] };
        let mut candidates = Vec::new();
        for &radix in radices {
            let knomial = matches!(self.name, "knomial");
            if knomial && (radix == 1 || radix == Params::FLAT) || radix == 1 && !segment {
                continue;
            }
            for &size in sizes.iter().filter(|size| **size < shape.bytes().max(1)) {
                let segment = size.div_ceil(shape.unit_bytes.max(1));
                for &ignored in ignored {
                    let with = |&window| Params { radix, segment, window, ignored };
                    candidates.extend(windows.iter().map(with));
                }
            }
        }
        candidates
    }
}

impl fmt::Debug for Generator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.collective, self.name)
    }
}

/// An algorithm with its parameters, and why.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// The algorithm.
    pub generator: &'static Generator,
    /// Its parameters.
    pub params: Params,
    /// Its time in the model, in seconds.
    pub time: f64,
    forced: Option<bool>,
    shape: Shape,
    environment: Environment,
}

impl Choice {
    /// Why this one, in a sentence and a list, for a person.
    pub fn reason(&self) -> String {
        let how = match self.forced {
            Some(true) => "as it was forced",
            Some(false) => "as the forced one does not suit",
            None => "by the model",
        };
        let mut text = format!(
            "{} of {} bytes on {} ranks: {} ({}), {how}, {:.1} us.",
            self.shape.collective,
            self.shape.bytes(),
            self.shape.ranks,
            self.generator.name,
            self.params,
            self.time * 1e6
        );
        let possible =
            |other: &&Generator| other.suits(&self.shape) && other.requires.node <= self.environment.node;
        for other in registry().iter().filter(possible) {
            if let Some((params, time)) = best(other, &self.shape, &self.environment) {
                text += &format!(" {} ({params}): {:.1} us.", other.name, time * 1e6);
            }
        }
        text
    }
}

/// The algorithm of least cost for `shape`, or the one that is `forced` by name if it suits. All ranks
/// choose the same: only what is equal on all of them is looked at.
pub fn select(shape: &Shape, environment: &Environment, forced: Option<&str>) -> Choice {
    let mut shape = *shape;
    // What differs from rank to rank must not decide.
    if matches!(shape.collective, C::Gatherv | C::Scatterv | C::Alltoallv) {
        shape.count = 0;
    }
    (shape.rank, shape.in_place, shape.own) = (0, false, 0);
    let suitable =
        |generator: &&Generator| generator.suits(&shape) && generator.requires.node <= environment.node;
    let named =
        forced.map(|name| registry().iter().filter(suitable).find(|generator| generator.name == name));
    let of = |generator: &'static Generator| {
        best(generator, &shape, environment).map(|(params, time)| (generator, params, time))
    };
    let (generator, params, time) = match named {
        Some(Some(generator)) => of(generator),
        _ => registry().iter().filter(suitable).filter_map(of).min_by(|one, two| one.2.total_cmp(&two.2)),
    }
    .expect("every collective has an algorithm for any shape, and that has candidates");
    let forced = named.map(|found| found.is_some());
    Choice { generator, params, time, forced, shape, environment: *environment }
}

fn best(generator: &Generator, shape: &Shape, environment: &Environment) -> Option<(Params, f64)> {
    let model = Model::default();
    let timed = generator.candidates(shape).into_iter().map(|params| {
        let time = (generator.work)(shape, &params).time(environment, &model);
        (params, time)
    });
    timed.min_by(|one, two| one.1.total_cmp(&two.1))
}

/// What a communicator keeps of an operation that it did: the schedule, and how it came about. The
/// [`Shape`] is the key of a cache of plans.
#[derive(Debug)]
pub struct Plan {
    /// What was asked for.
    pub shape: Shape,
    /// What was chosen.
    pub choice: Choice,
    /// What to do.
    pub schedule: Schedule,
}

impl Plan {
    /// Selects and generates.
    pub fn new(shape: &Shape, environment: &Environment, forced: Option<&str>) -> Plan {
        Plan::on(shape, environment, forced, None)
    }

    /// The same, for ranks of which it is known who is near whom. All ranks have equal hierarchies.
    pub fn on(
        shape: &Shape,
        environment: &Environment,
        forced: Option<&str>,
        hierarchy: Option<&Arc<Hierarchy>>,
    ) -> Plan {
        let choice = select(shape, environment, forced);
        let schedule = choice.generator.generate_on(shape, &choice.params, hierarchy);
        Plan { shape: *shape, choice, schedule }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(collective: Collective, ranks: u32, cores: u32, bytes: u64, expected: (&str, Option<u32>)) {
        let environment = Environment {
            cores,
            ranks_on_node: ranks,
            oversubscribed: ranks > cores,
            eager_bytes: 16 << 10,
            node: Node::Any,
        };
        let choice = select(&Shape::new(collective, ranks, 0, bytes), &environment, None);
        assert_eq!(choice.generator.name, expected.0, "{}", choice.reason());
        if let Some(radix) = expected.1 {
            assert!(choice.params.radix >= radix, "{}", choice.reason());
        }
    }

    #[test]
    fn more_ranks_than_cores_take_what_switches_least() {
        check(C::Barrier, 4, 2, 0, ("spread", None));
        check(C::Allreduce, 4, 2, 8, ("spread", None));
        for ranks in [8, 16] {
            check(C::Barrier, ranks, 2, 0, ("tree", Some(4)));
            check(C::Allreduce, ranks, 2, 8, ("tree", Some(4)));
        }
        check(C::Barrier, 16, 16, 0, ("dissemination", None));
        check(C::Allreduce, 16, 16, 8, ("recursive_doubling", None));
    }

    #[test]
    fn large_data_are_cut() {
        check(C::Allreduce, 16, 16, 16 << 20, ("ring", None));
        check(C::Bcast, 8, 8, 16 << 20, ("kary", None));
        check(C::Alltoall, 16, 16, 8, ("bruck", None));
        check(C::Alltoall, 16, 16, 1 << 20, ("spread", None));
    }

    #[test]
    fn every_shape_has_an_algorithm_and_all_ranks_choose_the_same() {
        let environment = Environment {
            cores: 2,
            ranks_on_node: 4,
            oversubscribed: true,
            eager_bytes: 16 << 10,
            node: Node::Any,
        };
        for collective in Collective::ALL {
            for ranks in 1..20 {
                for commutative in [false, true] {
                    let shape = Shape { commutative, ..Shape::new(collective, ranks, 0, 100) };
                    let last = Shape { rank: ranks - 1, in_place: true, own: 3, ..shape };
                    let (one, two) =
                        (select(&shape, &environment, None), select(&last, &environment, Some("?")));
                    assert_eq!((one.generator.name, one.params), (two.generator.name, two.params));
                    assert!(two.reason().contains("does not suit"));
                }
            }
        }
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> =
            registry().iter().map(|generator| (generator.collective, generator.name)).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), registry().len());
    }
}
