//! Headlines as data: claims of the papers, and the two ways of doing the same work that demonstrate them
//! here.

use tutti_coll::generator::{Generator, Need, Node};
use tutti_coll::shape::Collective;
use tutti_coll::simulate::Binding;

use crate::simulate::cluster::{self, BOARDS, Cluster, SERVER, STREMI};

/// One row of the table.
pub struct Headline {
    /// System of the papers.
    pub system: &'static str,
    /// Claim of the paper.
    pub claim: &'static str,
    /// Collective operation of the claim.
    pub collective: Collective,
    /// Bytes of its vector or of one rank's block.
    pub bytes: u64,
    /// The paper's ratio, or the loss as a fraction.
    pub paper: Option<f64>,
    /// Method that demonstrates the claim.
    pub shown: Shown,
}

impl Headline {
    /// Returns true if the claim or the name of a cluster contains `words`.
    pub fn is_about(&self, words: &str) -> bool {
        let clusters: &[&Cluster] = match &self.shown {
            Shown::Across(cluster, ..) => &[cluster],
            Shown::Alike(clusters, ..) => clusters,
            Shown::Measured(..) | Shown::Ratio(..) | Shown::Loss(..) | Shown::Found(_) | Shown::Kernel(_) => {
                &[]
            }
        };
        self.claim.contains(words) || clusters.iter().any(|cluster| cluster.name.contains(words))
    }
}

/// Method that demonstrates a headline.
pub enum Shown {
    /// Measured here: the time of the second by that of the first.
    Measured(Way, Way),
    /// Simulated with one rank a core of a recorded machine: the time of the second by that of the first.
    Ratio(&'static str, Way, Way),
    /// Simulated loss of speed if neighbouring ranks are far apart instead of on neighbouring cores, with the
    /// algorithm and parameters that are best on neighbouring cores. The first way must lose at most the
    /// given fraction; the second shows the loss of the paper's other libraries.
    Loss(&'static str, Binding, f64, Way, Way),
    /// Simulated on several hosts: the time of the second by that of the first.
    Across(&'static Cluster, Way, Way),
    /// Simulated barrier of this number of hosts: by polling processes, and by the kernel's program.
    Kernel(u32),
    /// Simulated: how much longer it takes on one of the clusters than on the other, each time the best; no
    /// more than this fraction.
    Alike([&'static Cluster; 2], f64, Way),
    /// Simulated fraction of this number of scenarios with a poisoned model in which programs find the best
    /// algorithm while they run: by tuning, and by brute force.
    Found(usize),
}

/// A way of doing an operation: the best of some algorithms under some settings.
#[derive(Clone, Copy)]
pub struct Way {
    /// Name for the table.
    pub name: &'static str,
    /// Algorithms, of which the best counts.
    pub algorithms: Algorithms,
    /// Environment of a measured job.
    pub settings: &'static [(&'static str, &'static str)],
    /// Segments: None leaves them to the algorithm's best, Some(false) forbids them, Some(true) demands them.
    /// Simulated only.
    pub pipelined: Option<bool>,
}

/// Algorithms of a way.
#[derive(Clone, Copy)]
pub enum Algorithms {
    /// The choice of Tutti.
    Chosen,
    /// All that need just this of a node.
    Of(Node),
    /// All algorithms that use the distance of ranks.
    Hierarchical,
    /// All algorithms for several hosts whose levels overlap.
    Levels,
    /// All algorithms that ignore distance and need exactly this of a node.
    Flat(Node),
    /// The algorithm with this name.
    Named(&'static str),
    /// All algorithms that ignore distance, in which each rank communicates directly with the root or all
    /// others.
    Linear(Node),
}

impl Algorithms {
    /// Returns true if the set contains `generator`.
    pub fn hold(self, generator: &Generator) -> bool {
        let near = generator.name.starts_with("hierarchical");
        let node = generator.node();
        match self {
            Algorithms::Chosen => true,
            Algorithms::Of(wanted) => node == wanted,
            Algorithms::Hierarchical => near,
            Algorithms::Levels => {
                generator.requires(Need::SeveralHosts) && !generator.requires(Need::Multicast)
            }
            Algorithms::Named(name) => generator.name == name,
            Algorithms::Flat(wanted) => !near && node == wanted,
            Algorithms::Linear(wanted) => {
                let direct =
                    ["linear", "flat", "spread", "exposed"].iter().any(|word| generator.name.contains(word));
                !near && node == wanted && direct
            }
        }
    }
}

const fn way(
    name: &'static str,
    algorithms: Algorithms,
    settings: &'static [(&'static str, &'static str)],
) -> Way {
    Way { name, algorithms, settings, pipelined: None }
}

const SHARED: Way = way("shared memory", Algorithms::Of(Node::Shared), &[]);
const CHOSEN: Way = way("Tutti's choice", Algorithms::Chosen, &[]);
const MESSAGES: Way = way("messages", Algorithms::Of(Node::Any), &[]);
const SINGLE: Way = way("single copy", Algorithms::Of(Node::Exposed), &[("TUTTI_SINGLE_COPY", "always")]);
const TWICE: Way = way("copy in, copy out", Algorithms::Of(Node::Any), &[("TUTTI_SINGLE_COPY", "never")]);
const MAPPED: Way = way("mapped", Algorithms::Of(Node::Exposed), &[("TUTTI_MAPPED", "always")]);
const CALLED: Way = way(
    "process_vm_readv",
    Algorithms::Of(Node::Exposed),
    &[("TUTTI_MAPPED", "never"), ("TUTTI_SINGLE_COPY", "always")],
);
const NEAR: Way = way("hierarchical", Algorithms::Hierarchical, &[]);
const NEAR_PIPELINED: Way = Way { name: "hierarchical, pipelined", pipelined: Some(true), ..NEAR };
const NEAR_WHOLE: Way = Way { name: "hierarchical, in one piece", pipelined: Some(false), ..NEAR };
const LINEAR: Way =
    Way { name: "linear", algorithms: Algorithms::Linear(Node::Exposed), pipelined: Some(false), ..NEAR };
const FLAT: Way = way("flat", Algorithms::Flat(Node::Any), &[]);
const BINOMIAL: Way = Way { pipelined: Some(false), ..way("binomial", Algorithms::Named("knomial"), &[]) };
const RING: Way = way("ring by rank", Algorithms::Named("ring"), &[]);

const LEVELS: Way = way("levels", Algorithms::Levels, &[]);
const LEVELS_PIPELINED: Way = Way { name: "levels, pipelined", pipelined: Some(true), ..LEVELS };
const LEVELS_WHOLE: Way = Way { name: "levels, in one piece", pipelined: Some(false), ..LEVELS };

static BY_CORE: Cluster = Cluster { name: "32x24 by core", ..STREMI };
static BY_NODE: Cluster = Cluster { name: "32x24 by node", by_node: true, ..STREMI };
static ONE_A_HOST: Cluster = Cluster { name: "32x1", ranks_per_host: 1, ..STREMI };
static TWO_A_HOST: Cluster = Cluster { name: "32x2", ranks_per_host: 2, ..STREMI };
static FOUR_A_HOST: Cluster = Cluster { name: "32x4", ranks_per_host: 4, ..STREMI };
static EIGHT_A_HOST: Cluster = Cluster { name: "32x8", ranks_per_host: 8, ..STREMI };
static SERVERS: Cluster = Cluster { name: "32x24 servers", by_node: true, ..cluster::SERVERS };
/// Cluster that is too large for simulation: only closed forms predict its times.
static MANY: Cluster = Cluster { name: "1000x128", hosts: 1000, ranks_per_host: 128, ..SERVERS };

static FOUR_HOSTS: Cluster = Cluster { name: "4x1", hosts: 4, ..ONE_A_HOST };
static SIXTEEN_HOSTS: Cluster = Cluster { name: "16x1", hosts: 16, ..ONE_A_HOST };

const MULTICAST: Way = way("multicast", Algorithms::Named("multicast"), &[]);
const TURNS: Way = way("multicast in turn", Algorithms::Named("multicast_turns"), &[]);

use Collective as C;

const fn measured(
    system: &'static str,
    collective: Collective,
    bytes: u64,
    paper: Option<f64>,
    ways: (Way, Way),
    claim: &'static str,
) -> Headline {
    Headline { system, claim, collective, bytes, paper, shown: Shown::Measured(ways.0, ways.1) }
}

const fn ratio(
    collective: Collective,
    bytes: u64,
    paper: Option<f64>,
    machine: &'static str,
    ways: (Way, Way),
    claim: &'static str,
) -> Headline {
    let shown = Shown::Ratio(machine, ways.0, ways.1);
    Headline { system: "S2", claim, collective, bytes, paper, shown }
}

const fn loss(
    collective: Collective,
    bytes: u64,
    paper: f64,
    machine: &'static str,
    flat: Way,
    claim: &'static str,
) -> Headline {
    let shown = Shown::Loss(machine, Binding::Scatter, 0.14, NEAR, flat);
    Headline { system: "S3", claim, collective, bytes, paper: Some(paper), shown }
}

const fn across(
    collective: Collective,
    bytes: u64,
    paper: Option<f64>,
    cluster: &'static Cluster,
    ways: (Way, Way),
    claim: &'static str,
) -> Headline {
    let shown = Shown::Across(cluster, ways.0, ways.1);
    Headline { system: "S4", claim, collective, bytes, paper, shown }
}

const fn alike(bytes: u64, most: f64, clusters: [&'static Cluster; 2], claim: &'static str) -> Headline {
    let shown = Shown::Alike(clusters, most, LEVELS);
    Headline { system: "S4", claim, collective: C::Bcast, bytes, paper: Some(most), shown }
}

const fn found(collective: Collective, paper: Option<f64>) -> Headline {
    Headline { system: "S11", claim: FOUND, collective, bytes: 0, paper, shown: Shown::Found(24) }
}

const fn multicast(collective: Collective, bytes: u64, way: Way) -> Headline {
    let shown = Shown::Across(&SIXTEEN_HOSTS, way, LEVELS);
    Headline { system: "S8", claim: "multicast over point-to-point", collective, bytes, paper: None, shown }
}

/// Returns the headline that the time is constant in the number of hosts.
const fn constant(bytes: u64) -> Headline {
    let shown = Shown::Alike([&FOUR_HOSTS, &SIXTEEN_HOSTS], 0.1, MULTICAST);
    let claim = "multicast to 16 hosts against 4";
    Headline { system: "S8", claim, collective: C::Bcast, bytes, paper: Some(0.1), shown }
}

const fn in_kernel(hosts: u32, paper: f64) -> Headline {
    let (claim, shown) = ("in the kernel over processes", Shown::Kernel(hosts));
    Headline { system: "S9", claim, collective: C::Barrier, bytes: 0, paper: Some(paper), shown }
}

const OVER_MESSAGES: &str = "shared memory over point-to-point";
const OVER_TWICE: &str = "single copy over copy in, copy out";
const OVER_CALLS: &str = "mapped over process_vm_readv";
const WORST: &str = "worst binding loses";
const OVER_FLAT: &str = "levels over flat";
const OVERLAPPED: &str = "overlapped over one level at a time";
const FOUND: &str = "best found while it runs, poisoned";
const PER_HOST: &str = "ranks a host make no difference";

/// Headlines of all papers, in the order of the table.
#[rustfmt::skip]
pub static HEADLINES: [Headline; 54] = [
    measured("S1", C::Barrier, 0, None, (SHARED, MESSAGES), OVER_MESSAGES),
    measured("S1", C::Bcast, 8, Some(3.0), (SHARED, MESSAGES), OVER_MESSAGES),
    measured("S1", C::Reduce, 8, Some(3.0), (SHARED, MESSAGES), OVER_MESSAGES),
    measured("S1", C::Allreduce, 8, Some(1.89), (SHARED, MESSAGES), OVER_MESSAGES),
    measured("S1", C::Reduce, 4 << 20, Some(1.23), (SHARED, MESSAGES), OVER_MESSAGES),
    measured("S1", C::Allreduce, 4 << 20, Some(1.38), (SHARED, MESSAGES), OVER_MESSAGES),
    measured("S1", C::Allreduce, 16 << 20, Some(1.71), (SHARED, MESSAGES), OVER_MESSAGES),
    measured("S1", C::Bcast, 64 << 10, None, (CHOSEN, MESSAGES), "own choice over point-to-point"),
    measured("S1", C::Allreduce, 64 << 10, None, (CHOSEN, MESSAGES), "own choice over point-to-point"),
    measured("S2", C::Gather, 1 << 20, Some(3.2), (SINGLE, TWICE), OVER_TWICE),
    measured("S2", C::Scatter, 1 << 20, Some(4.3), (SINGLE, TWICE), OVER_TWICE),
    measured("S2", C::Bcast, 1 << 20, Some(2.5), (SINGLE, TWICE), OVER_TWICE),
    measured("S2", C::Alltoallv, 1 << 20, Some(2.7), (SINGLE, TWICE), OVER_TWICE),
    measured("S2", C::Allgather, 1 << 20, None, (SINGLE, TWICE), OVER_TWICE),
    measured("-", C::Bcast, 1 << 20, None, (MAPPED, CALLED), OVER_CALLS),
    measured("-", C::Allgather, 1 << 20, None, (MAPPED, CALLED), OVER_CALLS),
    measured("-", C::Alltoall, 1 << 20, None, (MAPPED, CALLED), OVER_CALLS),
    measured("-", C::Allreduce, 1 << 20, None, (MAPPED, CALLED), OVER_CALLS),
    ratio(C::Bcast, 1 << 20, Some(2.3), BOARDS, (NEAR_WHOLE, LINEAR), "hierarchical over linear"),
    ratio(C::Bcast, 1 << 20, Some(1.25), BOARDS, (NEAR_PIPELINED, NEAR_WHOLE), "pipelined over one piece"),
    ratio(C::Bcast, 1 << 20, None, SERVER, (NEAR_PIPELINED, LINEAR), "hierarchical, pipelined over linear"),
    loss(C::Bcast, 1 << 20, 0.45, BOARDS, FLAT, WORST),
    loss(C::Allgather, 64 << 10, 0.58, BOARDS, RING, WORST),
    loss(C::Bcast, 1 << 20, 0.45, SERVER, FLAT, WORST),
    loss(C::Allgather, 64 << 10, 0.58, SERVER, RING, WORST),
    across(C::Bcast, 8 << 10, None, &BY_NODE, (LEVELS, FLAT), OVER_FLAT),
    across(C::Bcast, 64 << 10, Some(30.0), &BY_NODE, (LEVELS, FLAT), OVER_FLAT),
    across(C::Bcast, 64 << 10, Some(30.0), &BY_NODE, (LEVELS, BINOMIAL), "levels over binomial by rank"),
    across(C::Bcast, 256 << 10, None, &BY_NODE, (LEVELS, FLAT), OVER_FLAT),
    across(C::Allgather, 64 << 10, None, &BY_NODE, (LEVELS, RING), "levels over ring by rank"),
    across(C::Allreduce, 1 << 20, None, &BY_NODE, (LEVELS, FLAT), OVER_FLAT),
    across(C::Bcast, 64 << 10, None, &SERVERS, (LEVELS, FLAT), OVER_FLAT),
    across(C::Bcast, 64 << 10, None, &MANY, (LEVELS, FLAT), OVER_FLAT),
    across(C::Allreduce, 8, None, &MANY, (LEVELS, FLAT), OVER_FLAT),
    across(C::Bcast, 1 << 20, Some(2.0), &BY_CORE, (LEVELS_PIPELINED, LEVELS_WHOLE), OVERLAPPED),
    across(C::Bcast, 1 << 20, Some(2.0), &SERVERS, (LEVELS_PIPELINED, LEVELS_WHOLE), OVERLAPPED),
    alike(1 << 20, 0.18, [&BY_CORE, &BY_NODE], "by node against by core"),
    alike(64 << 10, 0.18, [&BY_CORE, &BY_NODE], "by node against by core"),
    alike(2 << 20, 0.1, [&ONE_A_HOST, &TWO_A_HOST], PER_HOST),
    alike(2 << 20, 0.1, [&ONE_A_HOST, &FOUR_A_HOST], PER_HOST),
    alike(2 << 20, 0.1, [&ONE_A_HOST, &EIGHT_A_HOST], PER_HOST),
    found(C::Bcast, Some(0.9)),
    found(C::Alltoall, Some(0.92)),
    found(C::Allreduce, None),
    found(C::Allgather, None),
    multicast(C::Bcast, 64 << 10, MULTICAST),
    multicast(C::Bcast, 1 << 20, MULTICAST),
    multicast(C::Barrier, 0, MULTICAST),
    multicast(C::Allreduce, 8, MULTICAST),
    multicast(C::Allgather, 8, MULTICAST),
    multicast(C::Allgather, 64 << 10, TURNS),
    constant(64 << 10),
    in_kernel(16, 2.64),
    in_kernel(1024, 3.38),
];
