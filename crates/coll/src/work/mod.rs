//! Work of the ranks in an algorithm, in closed form: a function of the shape and the parameters, next to the
//! one that writes the schedule. [`crate::cost`] gives its time on a machine.

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
    /// Messages of all ranks together.
    pub all_messages: f64,
    /// Bytes moved by all ranks together.
    pub all_bytes: f64,
    /// Bytes combined or copied by all ranks together.
    pub all_reduced: f64,
    /// Number of waits of all ranks together.
    pub waits: f64,
    /// Messages and bytes of the busiest rank, if data go one way only: operations in a row take no longer
    /// than that. `None` if a rank that begins the next operation has waited for others.
    pub busiest: Option<(f64, f64)>,
}

impl Work {
    /// Returns the work of an algorithm that is the same on all of `ranks` ranks, each of which waits `hops`
    /// times.
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

    /// Returns the work of this and then `next`.
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
