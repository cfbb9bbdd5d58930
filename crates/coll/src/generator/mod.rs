//! An algorithm as an entry of the registry: its needs, the parameters it uses, its cost, and the function
//! that writes its schedule. Each family of algorithms lists its own entries ([`crate::algorithms`]).

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

/// Function that writes one rank's schedule.
pub type Write = fn(&Shape, &Params, &mut Builder);
/// The work of all ranks, in closed form.
pub type Cost = fn(&Shape, &Params) -> Work;

/// An algorithm for one collective operation.
#[derive(Clone, Copy)]
pub struct Generator {
    /// Name, unique among the algorithms of the collective; a user forces the algorithm by it.
    pub name: &'static str,
    /// Collective operation it performs.
    pub collective: Collective,
    /// Conditions that must all be met for the algorithm to be used.
    pub needs: &'static [Need],
    /// Parameters that make a difference to it.
    pub parameters: Parameters,
    /// Order in which it combines operands if their order is kept.
    pub association: Association,
    /// True if the algorithm keeps this association for commutative operators too.
    pub keeps_order: bool,
    /// True if ranks combine slices. The order then also depends on segments and on the downward tree.
    pub slices: bool,
    /// Function that returns its work in closed form.
    pub work: Cost,
    write: Write,
}

/// Expression that the elements of a result are. Floating-point numbers make it visible: `(a + b) + c` is not
/// `a + (b + c)`. Schedules are static, so the expression depends on the ranks and the parameters, never on
/// timing. The same choice therefore gives the same bits from run to run. The deterministic mode requires
/// more, see [`Association::deterministic_for`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Association {
    /// `s0 op (s1 op (.. op sn))`, with any parameters: every left operand is that of one rank.
    FromRight,
    /// The order of [`Association::FromRight`] if the tree is flat, otherwise another one.
    FromRightIfFlat,
    /// `((s0 op s1) op ..) op sn`.
    FromLeft,
    /// All operands in one step. Then an operator may round once, and no order is visible.
    Together,
    /// Another one, which depends on ranks, parameters or the machine; or nothing is combined.
    Free,
}

impl Association {
    /// Returns the association that the deterministic mode requires for a collective, or `None` if nothing is
    /// combined. The bits of a result are then the same for any machine, binding, size and algorithm.
    pub fn deterministic_for(collective: Collective) -> Option<Association> {
        match collective {
            // A prefix passes from rank to rank.
            C::Scan | C::Exscan => Some(Association::FromLeft),
            _ if collective.unit() == Unit::Element => Some(Association::FromRight),
            _ => None,
        }
    }
}

/// Returns an entry for an algorithm that combines nothing, or in an order of its own.
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

/// Marks an algorithm that combines from right to left.
pub const fn right(generator: Generator) -> Generator {
    Generator { association: Association::FromRight, ..generator }
}

/// Marks an algorithm that combines from right to left if its tree is flat.
pub const fn flat(generator: Generator) -> Generator {
    Generator { association: Association::FromRightIfFlat, ..generator }
}

/// Marks an algorithm that combines all operands of an element in one step.
pub const fn gathering(generator: Generator) -> Generator {
    Generator { association: Association::Together, ..generator }
}

/// Marks an algorithm that combines from left to right.
pub const fn left(generator: Generator) -> Generator {
    Generator { association: Association::FromLeft, ..generator }
}

use Collective as C;

/// Lengths of segments for several hosts. They are finer than within a node, as a pipeline gets longer with
/// each host, and a network is slow.
const SEGMENTS_ACROSS: &[u64] = &[0, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10];

/// Largest bytes of a block that fit into a frame. They are few, as a frame is sent whole.
const FRAMES: &[u64] = &[64, 256, 1 << 10];

impl Generator {
    /// Returns true if it has this need.
    pub fn requires(&self, need: Need) -> bool {
        self.needs.contains(&need)
    }

    /// Returns the kind of shared memory that it needs.
    pub fn node(&self) -> Node {
        Need::node(self.needs)
    }

    /// Checks all needs and returns the reason of the first that is not met. No other function judges needs.
    pub fn meets(&self, situation: &Situation<'_>) -> Result<(), Reason> {
        self.needs.iter().try_for_each(|need| need.met(situation))
    }

    /// Returns true if the algorithm is correct for `shape`, as far as its needs can be judged without the
    /// ranks' places.
    pub fn suits(&self, shape: &Shape) -> bool {
        self.collective == shape.collective && self.meets(&Situation::of_shape(shape)).is_ok()
    }

    /// Returns true if the algorithm is correct for `shape` and ranks at these places.
    pub fn suits_on(&self, shape: &Shape, hierarchy: &Hierarchy) -> bool {
        let situation = Situation { hierarchy: Some(hierarchy), ..Situation::of_shape(shape) };
        self.collective == shape.collective && self.meets(&situation).is_ok()
    }

    /// Returns the smallest number of ranks, beginning with `least`, for which it is correct if the operator
    /// commutes. Returns `None` if there is none up to twice `least`.
    pub fn ranks_from(&self, least: u32) -> Option<u32> {
        let first_group = |ranks: u32| if self.requires(Need::TwoGroups) { ranks / 2 } else { 0 };
        let shape =
            |ranks| Shape { first_group: first_group(ranks), ..Shape::new(self.collective, ranks, 0, 1) };
        (least..=2 * least.max(1)).find(|ranks| self.suits(&shape(*ranks)))
    }

    /// Returns true if it may be used for an operator that rounds the result of all operands once
    /// ([`Shape::together`]), or for any other operator. Algorithms for the first take more memory.
    pub fn combines_together(&self) -> bool {
        self.association == Association::Together
    }

    /// Returns true if it may be used in the deterministic mode: with operators whose order is kept, its
    /// association is that of [`Association::deterministic_for`] the collective.
    pub fn is_canonical(&self, params: &Params) -> bool {
        match (Association::deterministic_for(self.collective), self.association) {
            (None, _) => true,
            (Some(wanted), Association::FromRightIfFlat) => {
                wanted == Association::FromRight && params.radix == Params::FLAT
            }
            (Some(wanted), own) => wanted == own,
        }
    }

    /// Returns the name of the algorithm and those of `params` that make a difference to it, for users. A
    /// segment is shown in bytes; `unit_bytes` is the size of an element.
    pub fn described(&self, params: &Params, unit_bytes: u64) -> String {
        let mut words = Vec::new();
        match (self.parameters.radix(), params.radix) {
            (None, _) => {}
            (Some(_), Params::FLAT) => words.push("flat".to_string()),
            (Some(Radix::Leaders), leaders) => words.push(format!("leaders {leaders}")),
            (Some(Radix::Kary | Radix::Knomial), radix) => words.push(format!("radix {radix}")),
        }
        match params.fan_out {
            0 => {}
            _ if !self.parameters.has(Parameter::FanOut) => {}
            Params::FLAT => words.push("down flat".to_string()),
            radix => words.push(format!("down radix {radix}")),
        }
        let is_cut = self.parameters.segments().is_some() && params.segment > 0;
        if is_cut {
            words.push(format!("segment {} bytes", params.segment * unit_bytes));
        }
        if is_cut || self.parameters.segments().is_none() && self.parameters.has(Parameter::Window) {
            words.push(format!("window {}", params.window));
        }
        if self.parameters.has(Parameter::Readers) && params.readers > 0 {
            words.push(format!("readers {}", params.readers));
        }
        if self.parameters.has(Parameter::Distances) && params.ignored != Ignored::NONE {
            words.push(format!("ignored {}", params.ignored));
        }
        if words.is_empty() { self.name.to_string() } else { format!("{} ({})", self.name, words.join(", ")) }
    }

    /// Returns true if this generator with `params` combines operands in the same expressions as `other`
    /// with its parameters. Then both give the same bits. Returns false if that is not known.
    pub fn combines_like(&self, params: &Params, other: (&Generator, &Params), commutative: bool) -> bool {
        let (generator, others) = other;
        if Association::deterministic_for(self.collective).is_none() {
            return true;
        }
        if self.combines_together() && generator.combines_together() {
            return true;
        }
        let is_canonical = |generator: &Generator, params: &Params| {
            generator.association != Association::Free
                && (generator.keeps_order || !commutative)
                && generator.is_canonical(params)
        };
        // Windows, and in most algorithms segments, determine when operands are combined, but not the order.
        let mut alike = Params { window: others.window, ..*params };
        if !self.slices {
            (alike.segment, alike.fan_out) = (others.segment, others.fan_out);
        }
        let is_same = std::ptr::eq(self, generator) && alike == *others;
        is_same || is_canonical(self, params) && is_canonical(generator, others)
    }

    /// Writes the schedule of one rank. The algorithm must suit the shape.
    pub fn generate(&self, shape: &Shape, params: &Params) -> Schedule {
        self.generate_on(shape, params, None)
    }

    /// Generates a schedule for ranks whose distances are known. All ranks must pass equal hierarchies.
    pub fn generate_on(
        &self,
        shape: &Shape,
        params: &Params,
        hierarchy: Option<&Arc<Hierarchy>>,
    ) -> Schedule {
        self.generate_among(shape, params, hierarchy, None)
    }

    /// Generates a schedule for a rank with these neighbours in the communicator's topology.
    pub fn generate_among(
        &self,
        shape: &Shape,
        params: &Params,
        hierarchy: Option<&Arc<Hierarchy>>,
        neighbours: Option<&Arc<Neighbours>>,
    ) -> Schedule {
        assert!(self.suits(shape), "{} does not suit {shape:?}", self.name);
        let mut builder = Builder::with_hierarchy(shape.collective.unit(), hierarchy).among(neighbours);
        (self.write)(shape, params, &mut builder);
        builder.finish()
    }

    /// Returns the parameters worth trying for `shape`.
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

    /// Returns the radixes worth trying; all those that make a tree flat count as one.
    fn radices(&self, radix: Radix, shape: &Shape) -> Vec<u32> {
        if radix == Radix::Leaders {
            return vec![1, 2, 4, Params::FLAT];
        }
        let knomial = radix == Radix::Knomial;
        // Along a chain, consecutive operations overlap: between hosts each link carries the data only once.
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
