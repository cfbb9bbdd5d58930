//! Actions of the steps of a schedule.

use super::{BufferId, Index, Span};

/// Action of a step, with its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Sends `from` to rank `peer`.
    Send {
        /// Rank that receives the message.
        peer: Index,
        /// Sequence of messages between the two ranks that it belongs to, below [`LANES`](super::LANES).
        lane: u16,
        /// Data to send.
        from: Span,
    },
    /// Sends `from` to every member of a group, as one payload where the network copies it.
    Multicast {
        /// Index of the group in [`groups`](super::Schedule::groups).
        group: u16,
        /// Sequence of messages with each member that it belongs to, below [`LANES`](super::LANES).
        lane: u16,
        /// Data to send.
        from: Span,
    },
    /// Receives a message of rank `peer` into `into`; both spans have the same length.
    Recv {
        /// Rank that sends the message.
        peer: Index,
        /// Sequence of messages between the two ranks that it belongs to, below [`LANES`](super::LANES).
        lane: u16,
        /// Destination of the received data.
        into: Span,
    },
    /// Copies `from` to `into`, which has the same length and does not overlap it.
    Copy {
        /// Source of the copy; only read.
        from: Span,
        /// Destination of the same length.
        into: Span,
    },
    /// `right = left op right`, element by element. The order of the operands matters. `left` may hold
    /// several operands as long as `right`, one after the other. They are combined with `right` at once, from
    /// right to left: an operator that rounds the result of all operands once needs that.
    Reduce {
        /// The left operand or operands; only read.
        left: Span,
        /// The right operand, and the result.
        right: Span,
    },
    /// Sets the rank's own flag `flag` to `value`, more than any value before in this operation (0 at its
    /// beginning).
    Post {
        /// Number of the flag, below [`Kind::ALL_FLAGS`].
        flag: u16,
        /// New value of the flag.
        value: Index,
    },
    /// Waits until the flag `flag` of `peer` is at least `value`; not at all for 0.
    Await {
        /// Owner of the flag. May be the rank itself: nothing to wait for, once posted.
        peer: Index,
        /// Number of the flag, below [`Kind::FLAGS`], or a private one of the rank itself.
        flag: u16,
        /// Least value that ends the wait.
        value: Index,
    },
    /// Makes `what` accessible to the other ranks of the node.
    Expose {
        /// Number under which peers find the span: below [`BufferId::EXPOSURES`], each once in an operation.
        slot: u16,
        /// A span of a user's buffer or of a temporary. A whole buffer given by a table is exposed
        /// entry by entry.
        what: Span,
        /// Kind of access that peers have.
        access: Access,
    },
    /// Copies `from`, in the bank of `peer` or exposed there, to `into`. `from` is as long as `into`.
    Pull {
        /// Owner of the source; may be the rank itself.
        peer: Index,
        /// Source, in [`BufferId::BANK`] or [`BufferId::exposed`].
        from: Span,
        /// Destination in the rank's own memory.
        into: Span,
    },
    /// `into = from op with`, `from` being in the bank of `peer` or exposed there. `with` and `into` are own
    /// memory, as long as `from`, and the same span or disjoint.
    Combine {
        /// Owner of `from`; may be the rank itself.
        peer: Index,
        /// Left operand, in the memory of `peer`.
        from: Span,
        /// Right operand, in own memory.
        with: Span,
        /// Destination of the result, in own memory.
        into: Span,
    },
    /// Copies `from`, own memory, to `into`, exposed by `peer` for writing.
    Push {
        /// Rank that owns the destination.
        peer: Index,
        /// Source in the rank's own memory.
        from: Span,
        /// Destination in [`BufferId::exposed`], as long as `from`.
        into: Span,
    },
    /// Writes the frame `into`: the length of `from` ([`Kind::FRAME_HEADER`] units), then its content if the
    /// frame has room for it. Frames have one length even where blocks have lengths that only their owners
    /// know. So blocks of several ranks can travel as one message, and the rank that unpacks a frame checks
    /// the length. Units are bytes.
    Pack {
        /// Block to pack; only read.
        from: Span,
        /// The frame: own memory, not the user's.
        into: Span,
    },
    /// Reads a frame in the bank of `peer` and copies its content to `into`. The length in the frame must be
    /// that of `into`.
    Unpack {
        /// Owner of the bank; may be the rank itself.
        peer: Index,
        /// Frame in the bank of `peer`.
        from: Span,
        /// Destination in the rank's own memory.
        into: Span,
    },
    /// Reads the bytes of a window of the file that ranks requested.
    FileRead {
        /// Destination: the bytes of all ranks, one rank's after the other.
        into: Span,
        /// Number of the window.
        window: Index,
    },
    /// Writes the bytes of a window of the file that ranks contributed, each to its position.
    FileWrite {
        /// The bytes of all ranks, one rank's after the other; only read.
        from: Span,
        /// Number of the window.
        window: Index,
    },
}

/// Access that other ranks have to exposed memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Read it. The owner only reads it too.
    Read,
    /// Write it, each peer its own part.
    Write,
    /// Read and write, in an order that flags impose.
    ReadWrite,
}

impl Kind {
    /// Flags of a rank in an operation that others can see.
    pub const FLAGS: u16 = 8;
    /// All flags of a rank. Those from [`Kind::FLAGS`] on are private: only its own strands await them.
    pub const ALL_FLAGS: u16 = 128;
    /// First of the flags that only keep a strand from running ahead of the others, which would cost time. No
    /// data depend on them.
    pub const PACING: u16 = Kind::ALL_FLAGS - 2;
    /// Bound of the values of flags, whatever the size of the operation: the sizes of segments grow with it.
    pub const VALUES: u64 = 1 << 24;
    /// Units at the beginning of a frame that hold the length of its block.
    pub const FRAME_HEADER: u64 = 8;

    /// Returns true if a block of `length` units fits into a frame of `frame` units.
    pub fn fits(length: u64, frame: u64) -> bool {
        length.saturating_add(Kind::FRAME_HEADER) <= frame
    }

    /// Returns true if it moves data within the node: it takes time, but waits for no other rank.
    pub fn moves(&self) -> bool {
        match self {
            Kind::Copy { .. } | Kind::Reduce { .. } | Kind::Pull { .. } | Kind::Combine { .. } => true,
            Kind::Push { .. } | Kind::Pack { .. } | Kind::Unpack { .. } => true,
            Kind::Send { .. } | Kind::Multicast { .. } | Kind::Recv { .. } => false,
            Kind::FileRead { .. } | Kind::FileWrite { .. } => false,
            Kind::Post { .. } | Kind::Await { .. } | Kind::Expose { .. } => false,
        }
    }

    /// Returns the span of own memory that it reads without writing it.
    pub fn reads(&self) -> Option<&Span> {
        match self {
            Kind::Send { from, .. } | Kind::Copy { from, .. } | Kind::Push { from, .. } => Some(from),
            Kind::Pack { from, .. } | Kind::FileWrite { from, .. } => Some(from),
            Kind::Multicast { from, .. } => Some(from),
            Kind::Reduce { left, .. } => Some(left),
            Kind::Combine { with, into, .. } if with != into => Some(with),
            Kind::Recv { .. } | Kind::Combine { .. } | Kind::Pull { .. } | Kind::Unpack { .. } => None,
            Kind::FileRead { .. } => None,
            Kind::Post { .. } | Kind::Await { .. } | Kind::Expose { .. } => None,
        }
    }

    /// Returns true if it writes the rank's own bank.
    pub fn fills_bank(&self) -> bool {
        self.writes().is_some_and(|span| span.buffer == BufferId::BANK)
    }

    /// Returns the span of own memory that it writes.
    pub fn writes(&self) -> Option<&Span> {
        match self {
            Kind::Recv { into, .. } | Kind::Copy { into, .. } => Some(into),
            Kind::Pull { into, .. } | Kind::Combine { into, .. } => Some(into),
            Kind::Pack { into, .. } | Kind::Unpack { into, .. } => Some(into),
            Kind::FileRead { into, .. } => Some(into),
            Kind::Reduce { right, .. } => Some(right),
            Kind::Send { .. } | Kind::Push { .. } | Kind::FileWrite { .. } => None,
            Kind::Multicast { .. } => None,
            Kind::Post { .. } | Kind::Await { .. } | Kind::Expose { .. } => None,
        }
    }
}
