//! What an algorithm makes its ranks do, in closed form: a function of the shape and the parameters, next to the one
//! that writes the schedule. How long that takes on a machine says [`crate::cost`].

pub(crate) mod messages;
pub(crate) mod node;

/// The work of an algorithm: on its critical path, and in total over all ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Messages one after the other, each waiting for the one before.
    pub hops: f64,
    /// Messages sent and received on the critical path.
    pub messages: f64,
    /// Bytes moved on the critical path.
    pub bytes: f64,
    /// Bytes combined or copied on the critical path.
    pub reduced: f64,
    /// Messages of all ranks.
    pub all_messages: f64,
    /// Bytes moved by all ranks.
    pub all_bytes: f64,
    /// Bytes combined or copied by all ranks.
    pub all_reduced: f64,
    /// How often a rank waits, over all ranks.
    pub waits: f64,
    /// Messages and bytes of the busiest rank, where data go one way only: operations in a row take no longer than that. Or else
    /// who begins the next one has waited for others.
    pub busiest: Option<(f64, f64)>,
}

impl Work {
    /// The same on all of `ranks` ranks, who wait `hops` times each.
    pub(crate) fn even(ranks: f64, hops: f64, messages: f64, bytes: f64, reduced: f64) -> Work {
        Work {
            hops,
            messages,
            bytes,
            reduced,
            all_messages: ranks * messages / 2.0,
            all_bytes: ranks * bytes,
            all_reduced: ranks * reduced,
            waits: ranks * hops,
            ..Work::default()
        }
    }

    /// One after the other.
    pub(crate) fn then(self, next: Work) -> Work {
        Work {
            hops: self.hops + next.hops,
            messages: self.messages + next.messages,
            bytes: self.bytes + next.bytes,
            reduced: self.reduced + next.reduced,
            all_messages: self.all_messages + next.all_messages,
            all_bytes: self.all_bytes + next.all_bytes,
            all_reduced: self.all_reduced + next.all_reduced,
            waits: self.waits + next.waits,
            ..Work::default()
        }
    }
}
