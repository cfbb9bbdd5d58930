//! An algorithm as an entry of the registry: what it needs, which parameters it looks at, what it costs, and
//! the function that writes it. Each family of algorithms states its own ([`crate::algorithms`]).

pub mod need;
pub mod parameters;

use std::fmt;
use std::sync::Arc;

pub use need::{Need, Node, Reason, Situation};
pub use parameters::{Parameter, Parameters, Radix, Segmentation};

use crate::build::Builder;
use crate::hierarchy::{Hierarchy, Ignored};
use crate::ir::{Schedule, Unit};
use crate::neighbours::Neighbours;
use crate::shape::{Collective, Params, Shape};
use crate::work::Work;

/// Writes one rank's schedule.
pub type Write = fn(&Shape, &Params, &mut Builder);
/// The work of all ranks, in closed form.
pub type Cost = fn(&Shape, &Params) -> Work;

/// An algorithm for one collective operation.
#[derive(Clone, Copy)]
pub struct Generator {
    /// Unique among those of the collective; what a user forces it by.
    pub name: &'static str,
    /// The operation.
    pub collective: Collective,
    /// When it can be used: all of this must be met.
    pub needs: &'static [Need],
    /// Which parameters it looks at.
    pub parameters: Parameters,
    /// How it combines operands where their order is kept.
    pub association: Association,
    /// Whether the algorithm keeps this association for commutative operators too.
    pub keeps_order: bool,
    /// Whether ranks combine slices, so that the order also depends on segments and on the downward tree.
    pub slices: bool,
    /// Its work in closed form.
    pub work: Cost,
    write: Write,
}

/// Which expression the elements of a result are. Floating-point numbers make it visible: `(a + b) + c` is
/// not `a + (b + c)`. An algorithm's is a function of the ranks and its parameters, never of timing, as
/// schedules are static; so the same choice gives the same bits from run to run. The deterministic mode asks
/// for more, see [`Association::of`].
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
    /// The one that the deterministic mode takes for a collective: whoever asks gets the same bits, whatever
    /// the machine, the binding, the size and the algorithm are. `None` where nothing is combined.
    pub fn of(collective: Collective) -> Option<Association> {
        match collective {
            // A prefix is passed on from rank to rank.
            C::Scan | C::Exscan => Some(Association::FromLeft),
            _ if collective.unit() == Unit::Element => Some(Association::FromRight),
            _ => None,
        }
    }
}

/// An algorithm that combines nothing, or in an order of its own.
pub const fn entry(
    collective: Collective,
    name: &'static str,
    needs: &'static [Need],
    parameters: Parameters,
    write: Write,
    work: Cost,
) -> Generator {
    let (association, keeps_order, slices) = (Association::Free, false, false);
    Generator { name, collective, needs, parameters, association, keeps_order, slices, work, write }
}

/// Marks a generator as keeping its association for commutative operators too.
pub const fn ordered(generator: Generator) -> Generator {
    Generator { keeps_order: true, ..generator }
}

/// Marks a generator whose ranks combine slices ([`Generator::slices`]).
pub const fn sliced(generator: Generator) -> Generator {
    Generator { slices: true, ..generator }
}

/// Of an algorithm that combines from right to left.
pub const fn right(generator: Generator) -> Generator {
    Generator { association: Association::FromRight, ..generator }
}

/// Of an algorithm that does so if its tree is flat.
pub const fn flat(generator: Generator) -> Generator {
    Generator { association: Association::FromRightIfFlat, ..generator }
}

/// Of an algorithm that combines from left to right.
pub const fn left(generator: Generator) -> Generator {
    Generator { association: Association::FromLeft, ..generator }
}

use Collective as C;

/// Segmentation for several hosts are told apart more finely: with each host a pipeline grows by one, and a
/// network is slow.
const SEGMENTS_ACROSS: &[u64] = &[0, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10];

/// What fits of a block into a frame: few bytes, as frames travel whole.
const FRAMES: &[u64] = &[64, 256, 1 << 10];

impl Generator {
    /// Whether it has this need.
    pub fn requires(&self, need: Need) -> bool {
        self.needs.contains(&need)
    }

    /// What it needs of the node.
    pub fn node(&self) -> Node {
        Need::node(self.needs)
    }

    /// The first of its needs that is not met, as a reason; `Ok` if it is right there. The one place where
    /// this is judged.
    pub fn meets(&self, situation: &Situation<'_>) -> Result<(), Reason> {
        self.needs.iter().try_for_each(|need| need.met(situation))
    }

    /// Whether the algorithm is right for `shape`.
    pub fn suits(&self, shape: &Shape) -> bool {
        self.collective == shape.collective && self.meets(&Situation::of(shape)).is_ok()
    }

    /// Whether it is so for ranks at these places too.
    pub fn suits_on(&self, shape: &Shape, hierarchy: &Hierarchy) -> bool {
        let situation = Situation { hierarchy: Some(hierarchy), ..Situation::of(shape) };
        self.collective == shape.collective && self.meets(&situation).is_ok()
    }

    /// The smallest number of ranks from `least` on with which it is right if the operator commutes; `None`
    /// if there is none up to twice as many.
    pub fn ranks_from(&self, least: u32) -> Option<u32> {
        let first_group = |ranks: u32| if self.requires(Need::TwoGroups) { ranks / 2 } else { 0 };
        let shape =
            |ranks| Shape { first_group: first_group(ranks), ..Shape::new(self.collective, ranks, 0, 1) };
        (least..=2 * least.max(1)).find(|ranks| self.suits(&shape(*ranks)))
    }

    /// Whether it may be taken in the deterministic mode: with an order of operands that is kept, the result
    /// is the one that [`Association::of`] the collective says.
    pub fn is_canonical(&self, params: &Params) -> bool {
        match (Association::of(self.collective), self.association) {
            (None, _) => true,
            (Some(wanted), Association::FromRightIfFlat) => {
                wanted == Association::FromRight && params.radix == Params::FLAT
            }
            (Some(wanted), own) => wanted == own,
        }
    }

    /// Returns true if this generator with `params` combines operands in the same expressions as `other`
    /// with its parameters. Then both give the same bits. Returns false if that is not known.
    pub fn combines_like(&self, params: &Params, other: (&Generator, &Params), commutative: bool) -> bool {
        let (generator, others) = other;
        if Association::of(self.collective).is_none() {
            return true;
        }
        let is_canonical = |generator: &Generator, params: &Params| {
            generator.association != Association::Free
                && (generator.keeps_order || !commutative)
                && generator.is_canonical(params)
        };
        // Windows, and of most algorithms segments, say when something is combined, not with what.
        let mut alike = Params { window: others.window, ..*params };
        if !self.slices {
            (alike.segment, alike.fan_out) = (others.segment, others.fan_out);
        }
        let is_same = std::ptr::eq(self, generator) && alike == *others;
        is_same || is_canonical(self, params) && is_canonical(generator, others)
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
        let segments = self.parameters.segments();
        let [fan_out, readers, window, distances] =
            [Parameter::FanOut, Parameter::Readers, Parameter::Window, Parameter::Distances]
                .map(|one| self.parameters.has(one));
        let frames = segments == Some(Segmentation::Frames);
        let radices = self.parameters.radix().map_or(vec![2], |radix| self.radices(radix, shape));
        let downwards = if fan_out { radices.clone() } else { vec![0] };
        let sizes: &[u64] = match segments {
            None => &[0],
            Some(Segmentation::Frames) => FRAMES,
            Some(_) if self.requires(Need::SeveralHosts) => SEGMENTS_ACROSS,
            Some(_) => &[0, 8 << 10, 32 << 10, 128 << 10, 512 << 10],
        };
        let windows: &[u32] = if segments.is_some() || !window { &[4] } else { &[64, 4] };
        let bounds: &[u32] = if readers { &[0, 4, 8, 16] } else { &[0] };
        let ignored: &[Ignored] =
            if distances { &[Ignored::NONE, Ignored::BELOW_MEMORY] } else { &[Ignored::NONE] };
        let mut candidates = Vec::new();
        for &radix in &radices {
            let least = u64::from(segments == Some(Segmentation::Several));
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
    fn radices(&self, radix: Radix, shape: &Shape) -> Vec<u32> {
        if radix == Radix::Leaders {
            return vec![1, 2, 4, Params::FLAT];
        }
        let knomial = radix == Radix::Knomial;
        // Along a chain operations in a row follow one another: between hosts each link carries the data
        // once.
        let pipelined = self.parameters.segments().is_some() || self.requires(Need::SeveralHosts);
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
