//! What a step does.

use super::{BufferId, Index, Span};

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Sends `from` to rank `peer`.
    Send {
        /// The receiver.
        peer: Index,
        /// Which sequence of messages between the two it belongs to.
        lane: u16,
        /// What is sent.
        from: Span,
    },
    /// Sends `from` to every member of a group, as one payload where the network copies it.
    Multicast {
        /// Which of [`groups`](super::Schedule::groups).
        group: u16,
        /// Which sequence of messages it belongs to, with each of them.
        lane: u16,
        /// What is sent.
        from: Span,
    },
    /// Receives a message of rank `peer` into `into`; both spans have the same length.
    Recv {
        /// The sender.
        peer: Index,
        /// Which sequence of messages between the two it belongs to.
        lane: u16,
        /// Where it goes.
        into: Span,
    },
    /// Copies `from` to `into`, which has the same length and does not overlap it.
    Copy {
        /// What is copied.
        from: Span,
        /// Where it goes.
        into: Span,
    },
    /// `right = left op right`, element by element. The order of the operands matters.
    Reduce {
        /// The left operand; only read.
        left: Span,
        /// The right operand, and the result.
        right: Span,
    },
    /// Sets the rank's own flag `flag` to `value`, more than any value before in this operation (0 at its
    /// beginning).
    Post {
        /// Which flag: below [`Kind::ALL_FLAGS`].
        flag: u16,
        /// The new value.
        value: Index,
    },
    /// Waits until the flag `flag` of `peer` is at least `value`; not at all for 0.
    Await {
        /// Whose flag. May be the rank itself (nothing to wait for, once posted).
        peer: Index,
        /// Which flag: below [`Kind::FLAGS`], or a private one of the rank itself.
        flag: u16,
        /// At least this.
        value: Index,
    },
    /// Lets the others at `what`.
    Expose {
        /// The number under which they find it: below [`BufferId::EXPOSURES`], each once in an operation.
        slot: u16,
        /// A span of a user's buffer or of a temporary. A whole buffer given by a table is exposed
        /// entry by entry.
        what: Span,
        /// What they may do.
        access: Access,
    },
    /// Copies `from`, in the bank of `peer` or exposed there, to `into`. `from` is as long as `into`.
    Pull {
        /// Whose memory; may be the rank itself.
        peer: Index,
        /// What is copied: of [`BufferId::BANK`] or [`BufferId::exposed`].
        from: Span,
        /// Where it goes: own memory.
        into: Span,
    },
    /// `into = from op with`, `from` being in the bank of `peer` or exposed there. `with` and `into` are own
    /// memory, as long as `from`, and the same span or disjoint.
    Combine {
        /// Whose memory; may be the rank itself.
        peer: Index,
        /// The left operand.
        from: Span,
        /// The right operand.
        with: Span,
        /// The result.
        into: Span,
    },
    /// Copies `from`, own memory, to `into`, exposed by `peer` for writing.
    Push {
        /// Whose memory.
        peer: Index,
        /// What is copied.
        from: Span,
        /// Where it goes: of [`BufferId::exposed`]. As long as `from`.
        into: Span,
    },
    /// Writes the frame `into`: first how long `from` is ([`Kind::FRAME_HEADER`] units), then what it holds,
    /// if the rest of the frame has room for that. Frames have one length wherever blocks have many that only
    /// their owners know: so blocks of several ranks travel as one message, and whoever unpacks one finds out
    /// whether that is what it expects. Units are bytes.
    Pack {
        /// What is packed; only read.
        from: Span,
        /// The frame: own memory, not the user's.
        into: Span,
    },
    /// Reads a frame in the bank of `peer`, which must say that the block is as long as `into`; what it holds
    /// is copied there.
    Unpack {
        /// Whose bank; may be the rank itself.
        peer: Index,
        /// The frame.
        from: Span,
        /// Where it goes: own memory.
        into: Span,
    },
    /// Reads what ranks have asked for of a window of the file.
    FileRead {
        /// Where it goes: the bytes of all ranks, one rank's after the other.
        into: Span,
        /// Which window.
        window: Index,
    },
    /// Writes what ranks have given of a window of the file, each byte to its place.
    FileWrite {
        /// The bytes of all ranks, one rank's after the other; only read.
        from: Span,
        /// Which window.
        window: Index,
    },
}

/// What others may do with exposed memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Read it. The owner only reads it too.
    Read,
    /// Write it, each his part.
    Write,
    /// Both, as flags order it.
    ReadWrite,
}

impl Kind {
    /// Flags of a rank in an operation that others can see.
    pub const FLAGS: u16 = 8;
    /// All flags of a rank: those from [`Kind::FLAGS`] on are private, for its own strands to await.
    pub const ALL_FLAGS: u16 = 128;
    /// Flags from this on keep a strand from running ahead of the others, which would cost time: no data
    /// depend on them.
    pub const PACING: u16 = Kind::ALL_FLAGS - 2;
    /// Values of flags stay below this, whatever the size of the operation: sizes of segments grow with it.
    pub const VALUES: u64 = 1 << 24;
    /// Units of a frame before the block: how long that is.
    pub const FRAME_HEADER: u64 = 8;

    /// Whether a block of `length` units fits into a frame of `frame`.
    pub fn fits(length: u64, frame: u64) -> bool {
        length.saturating_add(Kind::FRAME_HEADER) <= frame
    }

    /// Whether it moves data within the node, and so takes its time but waits for nobody.
    pub fn moves(&self) -> bool {
        match self {
            Kind::Copy { .. } | Kind::Reduce { .. } | Kind::Pull { .. } | Kind::Combine { .. } => true,
            Kind::Push { .. } | Kind::Pack { .. } | Kind::Unpack { .. } => true,
            Kind::Send { .. } | Kind::Multicast { .. } | Kind::Recv { .. } => false,
            Kind::FileRead { .. } | Kind::FileWrite { .. } => false,
            Kind::Post { .. } | Kind::Await { .. } | Kind::Expose { .. } => false,
        }
    }

    /// The span of own memory that it reads without writing it.
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

    /// Whether it writes the rank's own bank.
    pub fn fills_bank(&self) -> bool {
        self.writes().is_some_and(|span| span.buffer == BufferId::BANK)
    }

    /// The span of own memory that it writes.
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
