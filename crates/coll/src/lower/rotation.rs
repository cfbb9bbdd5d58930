//! When a record may be used again: the clock of a group's channels (yu-2006, sections 5.3 and 6.5).
//!
//! Some operations end nowhere before all members have begun them. Who has completed one knows that all have
//! called it, and so that all have completed what they called half a rotation before it: their interfaces
//! need those records no more. Broadcasts end earlier; so a member calls, in between, an operation of the
//! library's own that nobody waits for until it is needed. All of this depends only on what was called so
//! far, which is the same at all members.

use super::machine::CHANNELS;

/// Half a rotation: so many operations of a member may be under way.
const HALF: u32 = CHANNELS / 2;
/// After so many operations that are not synchronising, one that is is called: well before it must be
/// complete.
const STRIDE: u32 = HALF / 2;

/// What a member knows of the numbers of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rotation {
    /// The last number given.
    last: u32,
    /// The last two synchronising operations.
    synchronising: [u32; 2],
}

/// The next operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It has this number, once all up to `after` are complete here, and `synchronised` is.
    Take {
        /// Its number.
        sequence: u32,
        /// This and all before; 0: none.
        after: u32,
        /// A synchronising operation; 0: none.
        synchronised: u32,
    },
    /// First a synchronising one has to be called.
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

    /// `kinds`: whether the next operation synchronises, in turn.
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
            // Whoever has completed `synchronised` knows that all have completed what was half a rotation
            // before.
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
