//! Agreement on context numbers without a central server (MPI-5 section 7.3, and DESIGN.md).
//!
//! Each process counts upwards and never uses a number twice. To make a communicator its members propose their
//! next number and take the maximum of all; since several threads may do so for different communicators at the
//! same time, each member then says whether the number is free at its side, and all try again if it is not
//! everywhere. Groups without a common member may hold the same number: no message passes between them.
//!
//! [`Agreement`] is the state machine of one process; two rounds of a maximum over the members drive it, by a
//! blocking reduction, a non-blocking one or an exchange of leaders.

use tutti_base::{ContextId, Error, ErrorClass, Result};

/// The numbers of one process.
#[derive(Debug)]
pub struct Contexts {
    /// No number from here on was ever used here.
    next: u32,
}

/// One agreement under way.
#[derive(Debug)]
pub struct Agreement {
    step: Step,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Propose,
    Confirm(u32),
}

/// What an agreement needs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The maximum of this value over all members.
    Maximum(u32),
    /// Nothing: this is the context.
    Agreed(ContextId),
}

impl Contexts {
    /// All numbers below `first` are taken.
    pub fn new(first: u32) -> Contexts {
        Contexts { next: first }
    }

    /// Uses up a number; false if it was used up before.
    fn take(&mut self, number: u32) -> bool {
        let free = number >= self.next;
        self.next = self.next.max(number + 1);
        free
    }
}

impl Agreement {
    /// Begins: the first maximum to take.
    ///
    /// # Errors
    /// `Other` when the numbers are used up (after 2^30 communicators).
    pub fn begin(contexts: &mut Contexts) -> Result<(Agreement, u32)> {
        let proposal = contexts.next;
        if proposal >= ContextId::LIMIT {
            return Err(Error::new(ErrorClass::Other, "all context numbers are used up"));
        }
        Ok((Agreement { step: Step::Propose }, proposal))
    }

    /// The maximum is known.
    pub fn advance(&mut self, contexts: &mut Contexts, maximum: u32) -> Next {
        match self.step {
            Step::Propose => {
                let free = contexts.take(maximum);
                self.step = Step::Confirm(maximum);
                Next::Maximum(u32::from(!free))
            }
            Step::Confirm(number) if maximum == 0 => Next::Agreed(ContextId(number)),
            Step::Confirm(_) => {
                self.step = Step::Propose;
                Next::Maximum(contexts.next)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs agreements over members (indices of processes), interleaved round by round.
    fn check(processes: usize, groups: &[&[usize]], expected: &[u32]) {
        let mut contexts: Vec<Contexts> = (0..processes).map(|p| Contexts::new(2 + p as u32)).collect();
        let mut running: Vec<Vec<(Agreement, u32)>> = Vec::new();
        for group in groups {
            running.push(group.iter().map(|&p| Agreement::begin(&mut contexts[p]).unwrap()).collect());
        }
        let mut agreed: Vec<Option<u32>> = vec![None; groups.len()];
        for _round in 0..100 {
            for (index, group) in
                groups.iter().enumerate().filter(|(index, _)| agreed[*index].is_none()).collect::<Vec<_>>()
            {
                let maximum = running[index].iter().map(|(_, value)| *value).max().unwrap();
                for (place, &p) in group.iter().enumerate() {
                    match running[index][place].0.advance(&mut contexts[p], maximum) {
                        Next::Maximum(value) => running[index][place].1 = value,
                        Next::Agreed(context) => agreed[index] = Some(context.0),
                    }
                }
            }
        }
        assert_eq!(agreed.iter().map(|a| a.unwrap()).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn overlapping_groups_get_different_numbers() {
        check(1, &[&[0]], &[2]);
        check(3, &[&[0, 1, 2]], &[4]);
        check(3, &[&[0, 1], &[1, 2]], &[3, 4]);
        check(2, &[&[0, 1], &[0, 1], &[0, 1]], &[3, 4, 5]);
        check(4, &[&[0, 1], &[2, 3]], &[3, 5]);
    }
}
