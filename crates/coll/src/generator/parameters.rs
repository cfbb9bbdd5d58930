//! The parameters that make a difference to an algorithm, of all those of [`crate::Params`].

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// [`Params::radix`](crate::Params::radix), and what it is one of.
    Radix(Radix),
    /// [`Params::fan_out`](crate::Params::fan_out).
    FanOut,
    /// [`Params::readers`](crate::Params::readers).
    Readers,
    /// [`Params::segment`](crate::Params::segment).
    Segment(Segmentation),
    /// [`Params::window`](crate::Params::window), by itself; where there are segments it is always looked at.
    Window,
    /// Who is near whom, and so [`Params::ignored`](crate::Params::ignored).
    Distances,
    /// Its messages keep their order among hosts only if they wait for who receives them: short ones would all leave at once, and
    /// overflow the queues of the network.
    Asks,
}

/// What a radix is one of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Radix {
    /// A tree whose nodes have so many children.
    Kary,
    /// A k-nomial tree, of which none is flat or a chain.
    Knomial,
    /// No tree: so many leaders has a host.
    Leaders,
}

/// What segments are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segmentation {
    /// Parts of the data, or all in one.
    Any,
    /// There is no point in a single one.
    Several,
    /// How much of a block fits into a frame ([`crate::ir::Kind::Pack`]).
    Frames,
}

/// All that an algorithm looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters(&'static [Parameter]);

impl Parameters {
    /// Whether it looks at this one.
    pub fn has(self, parameter: Parameter) -> bool {
        self.0.contains(&parameter)
    }

    /// What its radix is one of, if it looks at that.
    pub fn radix(self) -> Option<Radix> {
        self.0.iter().find_map(|one| if let Parameter::Radix(radix) = one { Some(*radix) } else { None })
    }

    /// What its segments are, if it has any.
    pub fn segments(self) -> Option<Segmentation> {
        self.0.iter().find_map(|one| if let Parameter::Segment(kind) = one { Some(*kind) } else { None })
    }
}

use Parameter as P;

const KARY: Parameter = P::Radix(Radix::Kary);
const BY_LEADERS: Parameter = P::Radix(Radix::Leaders);
const SEGMENT: Parameter = P::Segment(Segmentation::Any);
const FRAMES: Parameter = P::Segment(Segmentation::Frames);

/// None.
pub const FIXED: Parameters = Parameters(&[]);
/// See [`Parameter::Asks`].
pub const ASKS: Parameters = Parameters(&[P::Asks]);
/// A tree.
pub const RADIX: Parameters = Parameters(&[KARY]);
/// A k-nomial tree.
pub const KNOMIAL: Parameters = Parameters(&[P::Radix(Radix::Knomial)]);
/// Segmentation through several leaders of a host.
pub const LEADERS: Parameters = Parameters(&[BY_LEADERS, SEGMENT]);
/// The same, in a tree of hosts.
pub const LEADERS_TREE: Parameters = Parameters(&[BY_LEADERS, SEGMENT, P::FanOut]);
/// A tree up and another one down.
pub const UP_DOWN: Parameters = Parameters(&[KARY, P::FanOut]);
/// So many rounds at once.
pub const WINDOW: Parameters = Parameters(&[P::Window]);
/// Segmentation.
pub const PIPELINE: Parameters = Parameters(&[SEGMENT, P::Window]);
/// Segmentation in a tree.
pub const TREE: Parameters = Parameters(&[KARY, SEGMENT, P::Window]);
/// Segmentation in a k-nomial tree.
pub const KNOMIAL_TREE: Parameters = Parameters(&[P::Radix(Radix::Knomial), SEGMENT, P::Window]);
/// So many ranks at one's memory.
pub const READERS: Parameters = Parameters(&[P::Readers]);
/// The same, in segments.
pub const PIPELINE_READERS: Parameters = Parameters(&[P::Readers, SEGMENT, P::Window]);
/// Distances.
pub const FIXED_NEAR: Parameters = Parameters(&[P::Distances]);
/// A tree by distance.
pub const RADIX_NEAR: Parameters = Parameters(&[KARY, P::Distances]);
/// Segmentation, by distance.
pub const PIPELINE_NEAR: Parameters = Parameters(&[SEGMENT, P::Window, P::Distances]);
/// The same, at least two.
pub const SEVERAL_NEAR: Parameters =
    Parameters(&[P::Segment(Segmentation::Several), P::Window, P::Distances]);
/// Frames, by distance.
pub const FRAMES_NEAR: Parameters = Parameters(&[FRAMES, P::Distances]);
/// The same, in a tree.
pub const FRAMES_RADIX_NEAR: Parameters = Parameters(&[KARY, FRAMES, P::Distances]);
/// Segmentation in a tree by distance.
pub const TREE_NEAR: Parameters = Parameters(&[KARY, SEGMENT, P::Window, P::Distances]);
