//! Every algorithm by name: what it needs, which parameters it looks at, what it costs, and the
//! function that writes it. Selection, verification, forced choice, documentation and `tutti info`
//! all come from this one list.

use std::fmt;
use std::sync::Arc;

use crate::algorithms::{
    allgather, allreduce, alltoall, bank_move, bank_reduce, bank_stream, bank_stream_move, barrier, bcast,
    between, exposed_move, exposed_reduce, flags, gather, hierarchical, hierarchical_exposed,
    hierarchical_exposed_reduce, levels, levels_bank, levels_bank_move, levels_circulant,
    levels_circulant_reduce, levels_doubling, levels_exchange, levels_frames, levels_leaders, levels_reduce,
    levels_ring, levels_scan, levels_slices, neighbourhood, reduce, reduce_scatter, scan,
};
use crate::build::Builder;
use crate::cost::{self, Work};
use crate::cost_node as node;
use crate::hierarchy::{Hierarchy, Ignored};
use crate::ir::{Schedule, Unit};
use crate::neighbours::Neighbours;
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
    /// How it combines operands where their order is kept.
    pub association: Association,
    /// Its work in closed form.
    pub work: fn(&Shape, &Params) -> Work,
    write: fn(&Shape, &Params, &mut Builder),
}

/// Which expression the elements of a result are. Floating-point numbers make it visible: `(a + b) + c` is not
/// `a + (b + c)`. An algorithm's is a function of the ranks and its parameters, never of timing, as schedules are
/// static; so the same choice gives the same bits from run to run. The deterministic mode asks for more, see [`Association::of`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Association {
    /// `s0 op (s1 op (.. op sn))`, with any parameters: every left operand is that of one rank.
    FromRight,
    /// The same, where its tree is flat.
    FromRightIfFlat,
    /// `((s0 op s1) op ..) op sn`.
    FromLeft,
    /// Another one, which depends on ranks, parameters or the machine; or nothing is combined.
    Free,
}

impl Association {
    /// The one that the deterministic mode takes for a collective: whoever asks gets the same bits, whatever the machine,
    /// the binding, the size and the algorithm are. `None` where nothing is combined.
    pub fn of(collective: Collective) -> Option<Association> {
        match collective {
            // A prefix is passed on from rank to rank.
            C::Scan | C::Exscan => Some(Association::FromLeft),
            _ if collective.unit() == Unit::Element => Some(Association::FromRight),
            _ => None,
        }
    }
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
    /// No more ranks than [`Requirements::FEW`]: a schedule grows with them.
    pub few_ranks: bool,
    /// It is for the two groups of an intercommunicator; or else for the one of an intracommunicator.
    pub two_groups: bool,
    /// What it needs of the node holds among the ranks of each host; others are reached by messages.
    pub several_hosts: bool,
    /// An operator that does not commute, or a prefix, needs ranks that are in their own order host by host: those of a host are
    /// neighbours, whose operands may be combined first.
    pub ordered: bool,
}

impl Requirements {
    /// See [`Requirements::few_ranks`].
    pub const FEW: u32 = 16;

    /// Whether ranks of `hosts` hosts, each of which gives its ranks `node`, have what is needed. What is for several hosts is
    /// left to them: on one it would be what the algorithms of a node are.
    pub fn are_met(&self, node: Node, hosts: u32) -> bool {
        self.node == Node::Any || self.node <= node && self.several_hosts == (hosts > 1)
    }
}

/// What an algorithm needs of the nodes that the ranks are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Node {
    /// Nothing: it sends messages.
    Any,
    /// All ranks are on one node, which gives them flags and banks (S1); see also [`Requirements::several_hosts`].
    Shared,
    /// And they can get at each other's memory (S2).
    Exposed,
}

/// The parameters that make a difference to an algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// [`Params::radix`].
    pub radix: bool,
    /// That is no arity of a tree but how many leaders a host has.
    pub leaders: bool,
    /// It is that of a k-nomial tree, of which none is flat or a chain.
    pub knomial: bool,
    /// [`Params::fan_out`].
    pub fan_out: bool,
    /// [`Params::readers`].
    pub readers: bool,
    /// [`Params::segment`].
    pub segment: bool,
    /// There is no point in a single one.
    pub several_segments: bool,
    /// That is how much of a block fits into a frame ([`crate::ir::Kind::Pack`]).
    pub frames: bool,
    /// [`Params::window`], by itself; where there are segments it is always looked at.
    pub window: bool,
    /// Who is near whom, and so [`Params::ignored`].
    pub distances: bool,
    /// Its messages keep their order among hosts only if they wait for who receives them: short ones would all leave at once, and overflow the
    /// queues of the network.
    pub asks: bool,
}

const ANY: Requirements = Requirements {
    commutative: false,
    power_of_two: false,
    node: Node::Any,
    few_ranks: false,
    two_groups: false,
    several_hosts: false,
    ordered: false,
};
const BETWEEN: Requirements = Requirements { two_groups: true, ..ANY };
const COMMUTES: Requirements = Requirements { commutative: true, ..ANY };
const FEW: Requirements = Requirements { few_ranks: true, ..SHARED };
const EXPOSED: Requirements = Requirements { node: Node::Exposed, ..ANY };
const LEVELS: Requirements = Requirements { several_hosts: true, ..EXPOSED };
const LEVELS_COMMUTES: Requirements = Requirements { commutative: true, ..LEVELS };
const LEVELS_SHARED: Requirements = Requirements { several_hosts: true, ..SHARED };
const LEVELS_ORDERED: Requirements = Requirements { ordered: true, ..LEVELS_SHARED };
const POWER: Requirements = Requirements { power_of_two: true, ..ANY };
const SHARED: Requirements = Requirements { node: Node::Shared, ..ANY };

const FIXED: Parameters = Parameters {
    radix: false,
    leaders: false,
    knomial: false,
    fan_out: false,
    readers: false,
    segment: false,
    several_segments: false,
    frames: false,
    window: false,
    distances: false,
    asks: false,
};
const ASKS: Parameters = Parameters { asks: true, ..FIXED };
const RADIX: Parameters = Parameters { radix: true, ..FIXED };
const KNOMIAL: Parameters = Parameters { knomial: true, ..RADIX };
const LEADERS: Parameters = Parameters { leaders: true, segment: true, ..RADIX };
const LEADERS_TREE: Parameters = Parameters { fan_out: true, ..LEADERS };
const UP_DOWN: Parameters = Parameters { fan_out: true, ..RADIX };
const WINDOW: Parameters = Parameters { window: true, ..FIXED };
const PIPELINE: Parameters = Parameters { segment: true, ..WINDOW };
const TREE: Parameters = Parameters { radix: true, ..PIPELINE };
const KNOMIAL_TREE: Parameters = Parameters { knomial: true, ..TREE };
const READERS: Parameters = Parameters { readers: true, ..FIXED };
const PIPELINE_READERS: Parameters = Parameters { readers: true, ..PIPELINE };
const FIXED_NEAR: Parameters = Parameters { distances: true, ..FIXED };
const RADIX_NEAR: Parameters = Parameters { distances: true, ..RADIX };
const PIPELINE_NEAR: Parameters = Parameters { distances: true, ..PIPELINE };
const SEVERAL_NEAR: Parameters = Parameters { several_segments: true, ..PIPELINE_NEAR };
const FRAMES_NEAR: Parameters = Parameters { segment: true, frames: true, ..FIXED_NEAR };
const FRAMES_RADIX_NEAR: Parameters = Parameters { radix: true, ..FRAMES_NEAR };
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
    Generator { name, collective, requires, parameters, association: Association::Free, work, write }
}

/// Of an algorithm that combines from right to left.
const fn right(generator: Generator) -> Generator {
    Generator { association: Association::FromRight, ..generator }
}

/// Of an algorithm that does so if its tree is flat.
const fn flat(generator: Generator) -> Generator {
    Generator { association: Association::FromRightIfFlat, ..generator }
}

/// Of an algorithm that combines from left to right.
const fn left(generator: Generator) -> Generator {
    Generator { association: Association::FromLeft, ..generator }
}

use Collective as C;

/// Access to a file by all ranks. Its schedules are made of what ranks have in windows ([`crate::algorithms::files`]), not of a shape.
pub static FILE_READ: Generator = entry(C::FileRead, "two_phase", ANY, WINDOW, nothing, cost::spread);
/// The same to write.
pub static FILE_WRITE: Generator = entry(C::FileWrite, "two_phase", ANY, WINDOW, nothing, cost::spread);

fn nothing(_: &Shape, _: &Params, _: &mut Builder) {}

#[rustfmt::skip]
static GENERATORS: &[Generator] = &[
    entry(C::Barrier, "levels_bank", LEVELS_SHARED, RADIX_NEAR, levels_bank::barrier, cost::barrier_tree),
    entry(C::Bcast, "levels_bank", LEVELS_SHARED, RADIX_NEAR, levels_bank::bcast, cost::bcast_kary),
    entry(C::Gather, "levels_bank", LEVELS_SHARED, RADIX_NEAR, levels_bank_move::gather, cost::rooted_tree),
    entry(C::Scatter, "levels_bank", LEVELS_SHARED, RADIX_NEAR, levels_bank_move::scatter, cost::rooted_tree),
    entry(C::Allgather, "levels_bank", LEVELS_SHARED, FIXED_NEAR, levels_bank_move::allgather, cost::allgather_bruck),
    entry(C::Allgatherv, "levels_bank", LEVELS_SHARED, FIXED_NEAR, levels_bank_move::allgather, cost::allgather_bruck),
    entry(C::Gatherv, "levels_frames", LEVELS_SHARED, FRAMES_RADIX_NEAR, levels_frames::gatherv, cost::rooted_tree),
    entry(C::Scatterv, "levels_frames", LEVELS_SHARED, FRAMES_RADIX_NEAR, levels_frames::scatterv, cost::rooted_tree),
    entry(C::Alltoallv, "levels_frames", LEVELS_SHARED, FRAMES_NEAR, levels_frames::alltoallv, cost::spread),
    entry(C::Alltoall, "levels_bank", LEVELS_SHARED, FIXED_NEAR, levels_bank_move::alltoall, cost::spread),
    entry(C::Reduce, "levels_bank", LEVELS_ORDERED, RADIX_NEAR, levels_bank::reduce, cost::reduce_kary),
    entry(C::Allreduce, "levels_bank", LEVELS_ORDERED, RADIX_NEAR, levels_bank::allreduce, cost::allreduce_tree),
    entry(C::Barrier, "levels_doubling", LEVELS_SHARED, FIXED_NEAR, levels_doubling::barrier, cost::barrier_dissemination),
    entry(C::Allreduce, "levels_doubling", LEVELS_ORDERED, FIXED_NEAR, levels_doubling::allreduce, cost::allreduce_doubling),
    entry(C::ReduceScatterBlock, "levels_bank", LEVELS_ORDERED, RADIX_NEAR, levels_bank::reduce_scatter, cost::reduce_scatter_whole),
    entry(C::ReduceScatter, "levels_bank", LEVELS_ORDERED, RADIX_NEAR, levels_bank::reduce_scatter, cost::reduce_scatter_whole),
    entry(C::Scan, "levels_bank", LEVELS_ORDERED, FIXED_NEAR, levels_scan::scan, cost::scan_doubling),
    entry(C::Exscan, "levels_bank", LEVELS_ORDERED, FIXED_NEAR, levels_scan::scan, cost::scan_doubling),
    entry(C::Alltoall, "levels", LEVELS_SHARED, ASKS, levels_exchange::alltoall, cost::spread),
    entry(C::Bcast, "levels", LEVELS, TREE_NEAR, levels::bcast, cost::bcast_kary),
    entry(C::Bcast, "levels_circulant", LEVELS, SEVERAL_NEAR, levels_circulant::bcast, cost::bcast_circulant),
    entry(C::Allgather, "levels_ring", LEVELS, FIXED_NEAR, levels_ring::allgather, cost::allgather_ring),
    entry(C::Allgatherv, "levels_ring", LEVELS, FIXED_NEAR, levels_ring::allgather, cost::allgather_ring),
    entry(C::Bcast, "levels_leaders", LEVELS, LEADERS_TREE, levels_leaders::bcast, cost::bcast_leaders),
    entry(C::Reduce, "levels", LEVELS_COMMUTES, TREE_NEAR, levels_reduce::reduce, cost::reduce_kary),
    entry(C::Reduce, "levels_leaders", LEVELS_COMMUTES, LEADERS_TREE, levels_leaders::reduce, cost::reduce_leaders),
    entry(C::Allreduce, "levels", LEVELS_COMMUTES, TREE_NEAR, levels_reduce::allreduce, cost::allreduce_tree),
    entry(C::ReduceScatterBlock, "levels_circulant", LEVELS_COMMUTES, LEADERS, levels_circulant_reduce::reduce_scatter, cost::reduce_scatter_circulant),
    entry(C::ReduceScatter, "levels_circulant", LEVELS_COMMUTES, LEADERS, levels_circulant_reduce::reduce_scatter, cost::reduce_scatter_circulant),
    entry(C::Allreduce, "levels_slices", LEVELS_COMMUTES, LEADERS, levels_slices::allreduce, cost::allreduce_slices),
    entry(C::Allreduce, "levels_circulant", LEVELS_COMMUTES, LEADERS, levels_circulant_reduce::allreduce, cost::allreduce_circulant),
    entry(C::Barrier, "dissemination", ANY, FIXED, barrier::dissemination, cost::barrier_dissemination),
    entry(C::Barrier, "tree", ANY, RADIX, barrier::tree, cost::barrier_tree),
    entry(C::Barrier, "spread", ANY, WINDOW, barrier::spread, cost::barrier_spread),
    entry(C::Barrier, "hierarchical", ANY, RADIX_NEAR, hierarchical::barrier, cost::barrier_tree),
    entry(C::Bcast, "knomial", ANY, KNOMIAL_TREE, bcast::knomial, cost::bcast_knomial),
    entry(C::Bcast, "kary", ANY, TREE, bcast::kary, cost::bcast_kary),
    entry(C::Bcast, "scatter_ring", ANY, FIXED, bcast::scatter_ring, cost::bcast_scatter_ring),
    entry(C::Bcast, "hierarchical", ANY, TREE_NEAR, hierarchical::bcast, cost::bcast_kary),
    entry(C::Gather, "linear", ANY, WINDOW, gather::gather_linear, cost::rooted_linear),
    entry(C::Gather, "knomial", ANY, KNOMIAL, gather::gather_tree, cost::rooted_tree),
    entry(C::Gather, "hierarchical", ANY, RADIX_NEAR, hierarchical::gather, cost::rooted_tree),
    entry(C::Gatherv, "linear", ANY, WINDOW, gather::gather_linear, cost::rooted_linear),
    entry(C::Scatter, "linear", ANY, WINDOW, gather::scatter_linear, cost::rooted_linear),
    entry(C::Scatter, "knomial", ANY, KNOMIAL, gather::scatter_tree, cost::rooted_tree),
    entry(C::Scatter, "hierarchical", ANY, RADIX_NEAR, hierarchical::scatter, cost::rooted_tree),
    entry(C::Scatterv, "linear", ANY, WINDOW, gather::scatter_linear, cost::rooted_linear),
    entry(C::Allgather, "recursive_doubling", POWER, FIXED, allgather::recursive_doubling, cost::allgather_doubling),
    entry(C::Allgather, "bruck", ANY, FIXED, allgather::bruck, cost::allgather_bruck),
    entry(C::Allgather, "ring", ANY, FIXED, allgather::ring, cost::allgather_ring),
    entry(C::Allgather, "spread", ANY, WINDOW, allgather::spread, cost::spread),
    entry(C::Allgather, "gather_bcast", ANY, RADIX, allgather::gather_bcast, cost::allgather_tree),
    entry(C::Allgather, "hierarchical_ring", ANY, FIXED_NEAR, hierarchical::allgather_ring, cost::allgather_ring),
    entry(C::Allgatherv, "ring", ANY, FIXED, allgather::ring, cost::allgather_ring),
    entry(C::Allgatherv, "spread", ANY, WINDOW, allgather::spread, cost::spread),
    entry(C::Allgatherv, "hierarchical_ring", ANY, FIXED_NEAR, hierarchical::allgather_ring, cost::allgather_ring),
    entry(C::Alltoall, "spread", ANY, WINDOW, alltoall::spread, cost::spread),
    entry(C::Alltoall, "pairwise", ANY, FIXED, alltoall::pairwise, cost::pairwise),
    entry(C::Alltoall, "bruck", ANY, FIXED, alltoall::bruck, cost::alltoall_bruck),
    entry(C::Alltoallv, "spread", ANY, WINDOW, alltoall::spread, cost::spread),
    entry(C::Alltoallv, "pairwise", ANY, FIXED, alltoall::pairwise, cost::pairwise),
    entry(C::Reduce, "knomial", ANY, KNOMIAL_TREE, reduce::knomial, cost::reduce_knomial),
    flat(entry(C::Reduce, "kary", ANY, TREE, reduce::kary, cost::reduce_kary)),
    entry(C::Reduce, "rabenseifner", ANY, FIXED, reduce::rabenseifner, cost::reduce_rabenseifner),
    entry(C::Reduce, "hierarchical", ANY, TREE_NEAR, hierarchical::reduce, cost::reduce_kary),
    entry(C::Allreduce, "recursive_doubling", ANY, FIXED, allreduce::recursive_doubling, cost::allreduce_doubling),
    entry(C::Allreduce, "rabenseifner", ANY, FIXED, allreduce::rabenseifner, cost::allreduce_rabenseifner),
    entry(C::Allreduce, "ring", COMMUTES, FIXED, allreduce::ring, cost::allreduce_ring),
    flat(entry(C::Allreduce, "tree", ANY, TREE, allreduce::tree, cost::allreduce_tree)),
    right(entry(C::Allreduce, "spread", ANY, WINDOW, allreduce::spread, cost::allreduce_spread)),
    entry(C::Allreduce, "hierarchical", ANY, TREE_NEAR, hierarchical::allreduce, cost::allreduce_tree),
    entry(C::ReduceScatterBlock, "recursive_halving", COMMUTES, FIXED, reduce_scatter::recursive_halving, cost::reduce_scatter_halving),
    entry(C::ReduceScatterBlock, "ring", COMMUTES, FIXED, reduce_scatter::ring, cost::reduce_scatter_ring),
    entry(C::ReduceScatterBlock, "pairwise", ANY, WINDOW, reduce_scatter::pairwise, cost::reduce_scatter_pairwise),
    flat(entry(C::ReduceScatterBlock, "tree", ANY, TREE, reduce_scatter::tree, cost::reduce_scatter_tree)),
    entry(C::ReduceScatter, "recursive_halving", COMMUTES, FIXED, reduce_scatter::recursive_halving, cost::reduce_scatter_halving),
    entry(C::ReduceScatter, "ring", COMMUTES, FIXED, reduce_scatter::ring, cost::reduce_scatter_ring),
    entry(C::ReduceScatter, "pairwise", ANY, WINDOW, reduce_scatter::pairwise, cost::reduce_scatter_pairwise),
    flat(entry(C::ReduceScatter, "tree", ANY, TREE, reduce_scatter::tree, cost::reduce_scatter_tree)),
    entry(C::Scan, "recursive_doubling", ANY, FIXED, scan::recursive_doubling, cost::scan_doubling),
    left(entry(C::Scan, "chain", ANY, PIPELINE, scan::chain, cost::scan_chain)),
    entry(C::Exscan, "recursive_doubling", ANY, FIXED, scan::recursive_doubling, cost::scan_doubling),
    left(entry(C::Exscan, "chain", ANY, PIPELINE, scan::chain, cost::scan_chain)),
    entry(C::Barrier, "flags_flat", SHARED, FIXED, flags::barrier_flat, node::flat),
    entry(C::Barrier, "flags_dissemination", SHARED, FIXED, flags::barrier_dissemination, node::doubling),
    entry(C::Barrier, "flags_tree", SHARED, UP_DOWN, flags::barrier_tree, node::fan_in_out),
    entry(C::Bcast, "bank_flat", SHARED, FIXED, bank_move::bcast_flat, node::bcast),
    entry(C::Bcast, "bank_tree", SHARED, RADIX, bank_move::bcast_tree, node::fan_out),
    entry(C::Gather, "bank_flat", SHARED, FIXED, bank_move::gather_flat, node::gather),
    entry(C::Scatter, "bank_flat", SHARED, FIXED, bank_move::scatter_flat, node::scatter),
    entry(C::Allgather, "bank_flat", SHARED, FIXED, bank_move::allgather_flat, node::flat),
    entry(C::Allgatherv, "bank_flat", SHARED, FIXED, bank_move::allgather_flat, node::flat),
    entry(C::Alltoall, "bank_flat", SHARED, FIXED, bank_move::alltoall_flat, node::alltoall),
    right(entry(C::Reduce, "bank_flat", SHARED, FIXED, bank_reduce::reduce_flat, node::reduce)),
    flat(entry(C::Reduce, "bank_tree", SHARED, RADIX, bank_reduce::reduce_tree, node::fan_in)),
    right(entry(C::Reduce, "bank_slices", SHARED, FIXED, bank_reduce::reduce_slices_gather, node::slices_gather)),
    right(entry(C::Allreduce, "bank_flat", SHARED, FIXED, bank_reduce::allreduce_flat, node::allreduce)),
    flat(entry(C::Allreduce, "bank_tree", SHARED, UP_DOWN, bank_reduce::allreduce_tree, node::fan_in_out)),
    entry(C::Allreduce, "bank_doubling", SHARED, FIXED, bank_reduce::allreduce_doubling, node::doubling),
    right(entry(C::Allreduce, "bank_slices", SHARED, FIXED, bank_reduce::allreduce_slices, node::slices)),
    right(entry(C::ReduceScatterBlock, "bank_flat", SHARED, FIXED, bank_reduce::reduce_scatter_flat, node::reduce_scatter)),
    right(entry(C::ReduceScatter, "bank_flat", SHARED, FIXED, bank_reduce::reduce_scatter_flat, node::reduce_scatter)),
    entry(C::Scan, "bank_flat", SHARED, FIXED, bank_reduce::scan_flat, node::scan),
    entry(C::Scan, "bank_doubling", SHARED, FIXED, bank_reduce::scan_doubling, node::doubling),
    entry(C::Exscan, "bank_flat", SHARED, FIXED, bank_reduce::scan_flat, node::scan),
    entry(C::Exscan, "bank_doubling", SHARED, FIXED, bank_reduce::scan_doubling, node::doubling),
    entry(C::Bcast, "bank_stream", SHARED, TREE, bank_stream::bcast, node::stream_down),
    flat(entry(C::Reduce, "bank_stream", SHARED, TREE, bank_stream::reduce, node::stream_up)),
    right(entry(C::Reduce, "bank_stream_slices", FEW, PIPELINE, bank_stream::reduce_slices, node::stream_slices)),
    right(entry(C::Allreduce, "bank_stream_slices", FEW, PIPELINE, bank_stream::allreduce_slices, node::stream_slices)),
    entry(C::Gather, "bank_stream", FEW, PIPELINE, bank_stream_move::gather, node::stream_gather),
    entry(C::Scatter, "bank_stream", FEW, PIPELINE, bank_stream_move::scatter, node::stream_gather),
    entry(C::Allgather, "bank_stream", FEW, PIPELINE, bank_stream_move::allgather, node::stream_all),
    entry(C::Allgatherv, "bank_stream", FEW, PIPELINE, bank_stream_move::allgatherv, node::stream_all),
    entry(C::Alltoall, "bank_stream", FEW, PIPELINE, bank_stream_move::alltoall, node::stream_all),
    right(entry(C::ReduceScatterBlock, "bank_stream", FEW, PIPELINE, bank_stream_move::reduce_scatter, node::stream_all)),
    left(entry(C::Scan, "bank_stream", SHARED, PIPELINE, bank_stream_move::scan, node::stream_chain)),
    left(entry(C::Exscan, "bank_stream", SHARED, PIPELINE, bank_stream_move::scan, node::stream_chain)),
    entry(C::Bcast, "exposed", EXPOSED, PIPELINE_READERS, exposed_move::bcast, node::exposed_from_root),
    entry(C::Bcast, "exposed_both", EXPOSED, PIPELINE, exposed_move::bcast_both, node::exposed_bcast_both),
    entry(C::Gather, "exposed", EXPOSED, READERS, exposed_move::gather, node::exposed_from_root),
    entry(C::Gatherv, "exposed", EXPOSED, READERS, exposed_move::gather, node::exposed_from_root),
    entry(C::Gather, "exposed_pull", EXPOSED, FIXED, exposed_move::gather_pull, node::exposed_to_root),
    entry(C::Gatherv, "exposed_pull", EXPOSED, FIXED, exposed_move::gather_pull, node::exposed_to_root),
    entry(C::Scatter, "exposed", EXPOSED, READERS, exposed_move::scatter, node::exposed_from_root),
    entry(C::Scatterv, "exposed", EXPOSED, READERS, exposed_move::scatter, node::exposed_from_root),
    entry(C::Allgather, "exposed", EXPOSED, FIXED, exposed_move::allgather, node::exposed_all),
    entry(C::Allgatherv, "exposed", EXPOSED, FIXED, exposed_move::allgather, node::exposed_all),
    entry(C::Alltoall, "exposed", EXPOSED, FIXED, exposed_move::alltoall, node::exposed_all),
    entry(C::Alltoallv, "exposed", EXPOSED, FIXED, exposed_move::alltoall, node::exposed_all),
    right(entry(C::Reduce, "exposed", EXPOSED, PIPELINE, exposed_reduce::reduce, node::exposed_reduce)),
    right(entry(C::Allreduce, "exposed", EXPOSED, PIPELINE, exposed_reduce::allreduce, node::exposed_allreduce)),
    right(entry(C::ReduceScatterBlock, "exposed", EXPOSED, PIPELINE, exposed_reduce::reduce_scatter, node::exposed_reduce_scatter)),
    right(entry(C::ReduceScatter, "exposed", EXPOSED, PIPELINE, exposed_reduce::reduce_scatter, node::exposed_reduce_scatter)),
    left(entry(C::Scan, "exposed", EXPOSED, PIPELINE, exposed_reduce::scan, node::exposed_allreduce)),
    left(entry(C::Exscan, "exposed", EXPOSED, PIPELINE, exposed_reduce::scan, node::exposed_allreduce)),
    entry(C::Bcast, "hierarchical_pull", EXPOSED, TREE_NEAR, hierarchical_exposed::bcast, cost::bcast_kary),
    entry(C::Gather, "hierarchical_pull", EXPOSED, RADIX_NEAR, hierarchical_exposed::gather, cost::rooted_tree),
    entry(C::Scatter, "hierarchical_pull", EXPOSED, RADIX_NEAR, hierarchical_exposed::scatter, cost::rooted_tree),
    entry(C::Reduce, "hierarchical_pull", EXPOSED, TREE_NEAR, hierarchical_exposed_reduce::reduce, cost::reduce_kary),
    entry(C::Allreduce, "hierarchical_pull", EXPOSED, TREE_NEAR, hierarchical_exposed_reduce::allreduce, cost::allreduce_tree),
    entry(C::ReduceScatterBlock, "hierarchical_pull", EXPOSED, TREE_NEAR, hierarchical_exposed_reduce::reduce_scatter, cost::reduce_scatter_tree),
    entry(C::ReduceScatter, "hierarchical_pull", EXPOSED, TREE_NEAR, hierarchical_exposed_reduce::reduce_scatter, cost::reduce_scatter_tree),
    entry(C::Allgather, "hierarchical_ring_pull", EXPOSED, FIXED_NEAR, hierarchical_exposed::allgather_ring, cost::allgather_ring),
    entry(C::Barrier, "between", BETWEEN, WINDOW, between::barrier, cost::barrier_dissemination),
    entry(C::Bcast, "between", BETWEEN, RADIX, between::bcast, cost::bcast_kary),
    entry(C::Gather, "between", BETWEEN, WINDOW, between::gather, cost::rooted_linear),
    entry(C::Gatherv, "between", BETWEEN, WINDOW, between::gather, cost::rooted_linear),
    entry(C::Scatter, "between", BETWEEN, WINDOW, between::scatter, cost::rooted_linear),
    entry(C::Scatterv, "between", BETWEEN, WINDOW, between::scatter, cost::rooted_linear),
    entry(C::Allgather, "between", BETWEEN, WINDOW, between::exchange, cost::spread),
    entry(C::Allgatherv, "between", BETWEEN, WINDOW, between::exchange, cost::spread),
    entry(C::Alltoall, "between", BETWEEN, WINDOW, between::exchange, cost::spread),
    entry(C::Alltoallv, "between", BETWEEN, WINDOW, between::exchange, cost::spread),
    flat(entry(C::Reduce, "between", BETWEEN, RADIX, between::reduce, cost::reduce_kary)),
    flat(entry(C::Allreduce, "between", BETWEEN, RADIX, between::allreduce, cost::allreduce_tree)),
    flat(entry(C::ReduceScatterBlock, "between", BETWEEN, RADIX, between::reduce_scatter, cost::reduce_scatter_tree)),
    flat(entry(C::ReduceScatter, "between", BETWEEN, RADIX, between::reduce_scatter, cost::reduce_scatter_tree)),
    entry(C::NeighborAllgather, "direct", ANY, FIXED, neighbourhood::direct, cost::neighbourhood),
    entry(C::NeighborAllgatherv, "direct", ANY, FIXED, neighbourhood::direct, cost::neighbourhood),
    entry(C::NeighborAlltoall, "direct", ANY, FIXED, neighbourhood::direct, cost::neighbourhood),
    entry(C::NeighborAlltoallv, "direct", ANY, FIXED, neighbourhood::direct, cost::neighbourhood),
];

/// Segments for several hosts are told apart more finely: with each host a pipeline grows by one, and a network is slow.
const SEGMENTS_ACROSS: &[u64] = &[0, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10];

/// What fits of a block into a frame: few bytes, as frames travel whole.
const FRAMES: &[u64] = &[64, 256, 1 << 10];

/// All algorithms: those for several hosts, those that send messages, those within a node, those of two groups and of neighbours. Of equal times
/// the first wins.
pub fn registry() -> &'static [Generator] {
    GENERATORS
}

impl Generator {
    /// Whether the algorithm is right for `shape`.
    pub fn suits(&self, shape: &Shape) -> bool {
        self.collective == shape.collective
            && (shape.first_group > 0) == self.requires.two_groups
            && (shape.commutative || !self.requires.commutative)
            && (shape.ranks.is_power_of_two() || !self.requires.power_of_two)
            && (shape.ranks <= Requirements::FEW || !self.requires.few_ranks)
    }

    /// Whether it is so for ranks at these places too.
    pub fn suits_on(&self, shape: &Shape, hierarchy: &Hierarchy) -> bool {
        // A prefix is one of ranks in their order, whatever the operator is.
        let free = shape.commutative && !matches!(self.collective, C::Scan | C::Exscan);
        self.suits(shape) && (free || !self.requires.ordered || hierarchy.order().is_sorted())
    }

    /// Whether it may be taken in the deterministic mode: with an order of operands that is kept, the result is the one that
    /// [`Association::of`] the collective says.
    pub fn is_canonical(&self, params: &Params) -> bool {
        match (Association::of(self.collective), self.association) {
            (None, _) => true,
            (Some(wanted), Association::FromRightIfFlat) => {
                wanted == Association::FromRight && params.radix == Params::FLAT
            }
            (Some(wanted), own) => wanted == own,
        }
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
        self.generate_among(shape, params, hierarchy, None)
    }

    /// The same, for a rank with these neighbours in the communicator's topology.
    pub fn generate_among(
        &self,
        shape: &Shape,
        params: &Params,
        hierarchy: Option<&Arc<Hierarchy>>,
        neighbours: Option<&Arc<Neighbours>>,
    ) -> Schedule {
        assert!(self.suits(shape), "{} does not suit {shape:?}", self.name);
        let mut builder = Builder::on(shape.collective.unit(), hierarchy).among(neighbours);
        (self.write)(shape, params, &mut builder);
        builder.finish()
    }

    /// The parameters worth a try for `shape`.
    pub fn candidates(&self, shape: &Shape) -> Vec<Params> {
        let Parameters { radix, fan_out, readers, segment, frames, window, distances, .. } = self.parameters;
        let radices = if radix { self.radices(shape) } else { vec![2] };
        let downwards = if fan_out { radices.clone() } else { vec![0] };
        let sizes: &[u64] = match segment {
            false => &[0],
            true if frames => FRAMES,
            true if self.requires.several_hosts => SEGMENTS_ACROSS,
            true => &[0, 8 << 10, 32 << 10, 128 << 10, 512 << 10],
        };
        let windows: &[u32] = if segment || !window { &[4] } else { &[64, 4] };
        let bounds: &[u32] = if readers { &[0, 4, 8, 16] } else { &[0] };
        let ignored: &[Ignored] =
            if distances { &[Ignored::NONE, Ignored::BELOW_MEMORY] } else { &[Ignored::NONE] };
        let mut candidates = Vec::new();
        for &radix in &radices {
            let least = u64::from(self.parameters.several_segments);
            let tried = |size: &&u64| frames || (least..shape.bytes().max(1)).contains(*size);
            for &size in sizes.iter().filter(tried) {
                let segment = size.div_ceil(shape.unit_bytes.max(1));
                for &readers in bounds.iter().filter(|bound| **bound == 0 || **bound + 1 < shape.ranks) {
                    for &ignored in ignored {
                        for &fan_out in &downwards {
                            let with = |&window| Params { radix, fan_out, segment, window, readers, ignored };
                            candidates.extend(windows.iter().map(with));
                        }
                    }
                }
            }
        }
        candidates
    }

    /// The radixes worth a try: those that make a tree flat are one.
    fn radices(&self, shape: &Shape) -> Vec<u32> {
        if self.parameters.leaders {
            return vec![1, 2, 4, Params::FLAT];
        }
        let knomial = self.parameters.knomial;
        // Along a chain operations in a row follow one another: between hosts each link carries the data once.
        let pipelined = self.parameters.segment || self.requires.several_hosts;
        let chain = if pipelined && !knomial { &[1][..] } else { &[] };
        let flat = if knomial { &[][..] } else { &[Params::FLAT] };
        let most = if knomial { shape.ranks.max(3) } else { shape.ranks - 1 };
        let is_flat = |radix: &u32| *radix >= most;
        let inner = [2, 4, 8].into_iter().filter(|radix| !is_flat(radix));
        inner.chain(flat.iter().copied()).chain(chain.iter().copied()).collect()
    }
}

impl fmt::Debug for Generator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.collective, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> =
            registry().iter().map(|generator| (generator.collective, generator.name)).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), registry().len());
    }
}
