//! Reuse of records: the clock of a group's channels (yu-2006, sections 5.3 and 6.5).
//!
//! Some operations complete nowhere before all members have begun them; these are synchronising. A member
//! that has completed one knows that all members have called it. So all have also completed the operations
//! called half a rotation before it, and their interfaces need those records no more. Broadcasts complete
//! earlier. A member therefore calls an operation of the library's own in between, whose completion is
//! awaited only when it is needed. All of this depends only on the calls so far, which are the same at all
//! members.

use super::machine::CHANNELS;

/// Half a rotation: the number of operations of a member that may be under way.
const HALF: u32 = CHANNELS / 2;
/// Number of operations that are not synchronising after which a synchronising one is called, well before it
/// must be complete.
const STRIDE: u32 = HALF / 2;

/// State of a member for the numbers of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rotation {
    /// Last number that was given.
    last: u32,
    /// Numbers of the last two synchronising operations.
    synchronising: [u32; 2],
}

/// Result of [`Rotation::next`], the next operation to call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The operation may start under a number, once two conditions on earlier operations hold.
    Take {
        /// Number of the operation.
        sequence: u32,
        /// All operations up to this one must be complete here; 0: none.
        after: u32,
        /// Synchronising operation that must be complete; 0: none.
        synchronised: u32,
    },
    /// A synchronising operation must be called first.
    SynchroniseFirst,
}

impl Rotation {
    /// Gives the next operation its number.
    pub fn next(&mut self, synchronises: bool) -> Next {
        let sequence = self.last + 1;
        if !synchronises && sequence - self.synchronising[1] >= STRIDE {
            return Next::SynchroniseFirst;
        }
        // The latest that is at most half a rotation before, and not just begun.
        let [before, latest] = self.synchronising;
        let oldest = sequence.saturating_sub(HALF);
        let synchronised = if oldest == 0 {
            0
        } else if before >= oldest {
            before
        } else {
            latest
        };
        self.last = sequence;
        if synchronises {
            self.synchronising = [latest, sequence];
        }
        Next::Take { sequence, after: sequence.saturating_sub(HALF), synchronised }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks `operations` operations; `kinds` says in turn whether the next one synchronises.
    fn check(kinds: &[bool], operations: usize) {
        let (mut rotation, mut synchronising) = (Rotation::default(), Vec::new());
        for &wanted in kinds.iter().cycle().take(operations) {
            let mut synchronises = wanted;
            let (sequence, after, synchronised) = loop {
                match rotation.next(synchronises) {
                    Next::Take { sequence, after, synchronised } => break (sequence, after, synchronised),
                    Next::SynchroniseFirst => {
                        assert!(!synchronises);
                        synchronises = true;
                    }
                }
            };
            if synchronises {
                synchronising.push(sequence);
            }
            assert!(synchronised == 0 || synchronising.contains(&synchronised));
            // A member that has completed `synchronised` knows that all members have completed the operations
            // half a rotation before it.
            let free = synchronised.saturating_sub(HALF);
            assert!(sequence <= free + CHANNELS, "{sequence} would take a record that is in use");
            assert!(after + HALF >= sequence);
            assert!(synchronised < sequence);
        }
        assert!(!synchronising.is_empty());
    }

    #[test]
    fn no_record_is_taken_that_somebody_may_need() {
        check(&[false], 500);
        check(&[true], 500);
        check(&[true, false], 500);
        check(&[false, false, false, false, false, false, false, false, false, false, true], 500);
        check(&[true, true, true, true, true, true, true, true, true, true, true, true, false], 500);
    }
}
