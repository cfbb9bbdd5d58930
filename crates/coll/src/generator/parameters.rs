//! Parameters that make a difference to an algorithm, out of those in [`crate::Params`].

/// Parameter that an algorithm may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// [`Params::radix`](crate::Params::radix), with its meaning.
    Radix(Radix),
    /// [`Params::fan_out`](crate::Params::fan_out).
    FanOut,
    /// [`Params::readers`](crate::Params::readers).
    Readers,
    /// [`Params::segment`](crate::Params::segment).
    Segment(Segmentation),
    /// [`Params::window`](crate::Params::window), for algorithms without segments. Those with segments always
    /// use it.
    Window,
    /// Distances of the ranks, and so [`Params::ignored`](crate::Params::ignored).
    Distances,
    /// Messages between hosts that are long enough to wait for their receivers. Short ones would all leave at
    /// once and overflow the queues of the network.
    Asks,
}

/// Meaning of a radix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Radix {
    /// A tree with this number of children for each node.
    Kary,
    /// A k-nomial tree, of which none is flat or a chain.
    Knomial,
    /// No tree: the number of leaders of a host.
    Leaders,
}

/// Meaning of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segmentation {
    /// Parts of the data, or all data in one segment.
    Any,
    /// Parts of the data; a single segment makes no sense.
    Several,
    /// Largest part of a block that fits into a frame ([`crate::ir::Kind::Pack`]).
    Frames,
}

/// Set of the parameters that an algorithm uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters(&'static [Parameter]);

impl Parameters {
    /// Returns true if it includes `parameter`.
    pub fn has(self, parameter: Parameter) -> bool {
        self.0.contains(&parameter)
    }

    /// Returns the meaning of its radix, or `None` if it has none.
    pub fn radix(self) -> Option<Radix> {
        self.0.iter().find_map(|one| if let Parameter::Radix(radix) = one { Some(*radix) } else { None })
    }

    /// Returns the meaning of its segments, or `None` if it has none.
    pub fn segments(self) -> Option<Segmentation> {
        self.0.iter().find_map(|one| if let Parameter::Segment(kind) = one { Some(*kind) } else { None })
    }
}

use Parameter as P;

const KARY: Parameter = P::Radix(Radix::Kary);
const BY_LEADERS: Parameter = P::Radix(Radix::Leaders);
const SEGMENT: Parameter = P::Segment(Segmentation::Any);
const FRAMES: Parameter = P::Segment(Segmentation::Frames);

/// No parameters at all.
pub const FIXED: Parameters = Parameters(&[]);
/// Only [`Parameter::Asks`], no numbers.
pub const ASKS: Parameters = Parameters(&[P::Asks]);
/// A tree of any radix.
pub const RADIX: Parameters = Parameters(&[KARY]);
/// A k-nomial tree, without segments.
pub const KNOMIAL: Parameters = Parameters(&[P::Radix(Radix::Knomial)]);
/// Segmentation through several leaders of a host.
pub const LEADERS: Parameters = Parameters(&[BY_LEADERS, SEGMENT]);
/// Segmentation through several leaders of a host, in a tree of hosts.
pub const LEADERS_TREE: Parameters = Parameters(&[BY_LEADERS, SEGMENT, P::FanOut]);
/// A tree up and another one down.
pub const UP_DOWN: Parameters = Parameters(&[KARY, P::FanOut]);
/// Several rounds at once.
pub const WINDOW: Parameters = Parameters(&[P::Window]);
/// Segmentation, with several segments in flight.
pub const PIPELINE: Parameters = Parameters(&[SEGMENT, P::Window]);
/// Segmentation in a tree.
pub const TREE: Parameters = Parameters(&[KARY, SEGMENT, P::Window]);
/// Segmentation in a k-nomial tree.
pub const KNOMIAL_TREE: Parameters = Parameters(&[P::Radix(Radix::Knomial), SEGMENT, P::Window]);
/// Bounded number of ranks at the memory of one.
pub const READERS: Parameters = Parameters(&[P::Readers]);
/// Bounded number of ranks at the memory of one, in segments.
pub const PIPELINE_READERS: Parameters = Parameters(&[P::Readers, SEGMENT, P::Window]);
/// Distances of the ranks, no numbers.
pub const FIXED_NEAR: Parameters = Parameters(&[P::Distances]);
/// A tree by distance.
pub const RADIX_NEAR: Parameters = Parameters(&[KARY, P::Distances]);
/// Segmentation in an order by distance.
pub const PIPELINE_NEAR: Parameters = Parameters(&[SEGMENT, P::Window, P::Distances]);
/// Segmentation in an order by distance, at least two segments.
pub const SEVERAL_NEAR: Parameters =
    Parameters(&[P::Segment(Segmentation::Several), P::Window, P::Distances]);
/// Frames in an order by distance.
pub const FRAMES_NEAR: Parameters = Parameters(&[FRAMES, P::Distances]);
/// Frames in a tree by distance.
pub const FRAMES_RADIX_NEAR: Parameters = Parameters(&[KARY, FRAMES, P::Distances]);
/// Segmentation in a tree by distance.
pub const TREE_NEAR: Parameters = Parameters(&[KARY, SEGMENT, P::Window, P::Distances]);
