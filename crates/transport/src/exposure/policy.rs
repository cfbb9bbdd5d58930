//! Decision to map a buffer: after a number of uses, as a connection is made after a number of messages (S6).
//!
//! A conversion costs about as much as [`Config::map_after`] copies of the buffer through the kernel save.
//! The bytes exposed at its address are counted. Hence memory that is used in pieces of many lengths counts
//! like memory that is always used as a whole. A conversion spends the count. A buffer that did not live that
//! long after its conversion has to be used twice as much before the next one.

use tutti_base::config::{Config, Mapped};

use crate::buffers::{BUFFERS, place};

/// Number of uses after which a buffer is given up for good. Conversions are tried at `after` uses, then at
/// four times as many each time.
const MOST_AFTER: u32 = 1 << 24;

/// Use of the memory that begins at an address.
#[derive(Clone, Copy, Debug, Default)]
struct Use {
    address: u64,
    /// Bytes exposed since the last conversion or refusal.
    lent_bytes: u64,
    /// Number of times that the buffer has to be exposed before the next try.
    after: u32,
    /// Bytes of the buffer that were in the object at the last look.
    mapped_bytes: u64,
    /// True if the buffer was converted here. Otherwise it only lies where something else was mapped before.
    converted: bool,
}

/// Counter of the uses of buffers.
#[derive(Debug)]
pub(super) struct Policy {
    buffers: Box<[Use; BUFFERS]>,
    /// Uses before the first try; `None` means never.
    after: Option<u32>,
    pub(super) at_least_bytes: u64,
}

/// Advice on how to expose a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Advice {
    /// The buffer is presumably mapped, or half of it: look it up.
    Look,
    /// The buffer has been used often enough: convert it.
    Convert,
    /// Expose the buffer through the back end.
    Leave,
}

impl Policy {
    /// Creates the policy from the settings of this process.
    pub(super) fn new(config: &Config) -> Policy {
        let after = match config.memory.mapped {
            Mapped::Never => None,
            Mapped::Always => Some(1),
            Mapped::Auto => Some(u32::try_from(config.memory.map_after).unwrap_or(u32::MAX).max(1)),
        };
        Policy {
            buffers: Box::new([Use::default(); BUFFERS]),
            after,
            at_least_bytes: config.memory.map_bytes,
        }
    }

    /// Counts a use; `known` says whether a buffer that is not remembered lies in mapped memory.
    #[inline]
    pub(super) fn advise(&mut self, address: u64, bytes: u64, known: impl FnOnce() -> bool) -> Advice {
        let Some(after) = self.after else { return Advice::Leave };
        let entry = &mut self.buffers[place(address)];
        if entry.address != address || entry.after == 0 {
            let mapped_bytes = if known() { bytes } else { 0 };
            *entry = Use { address, lent_bytes: 0, after, mapped_bytes, converted: false };
        }
        entry.lent_bytes = entry.lent_bytes.saturating_add(bytes);
        match () {
            () if bytes <= entry.mapped_bytes => Advice::Look,
            () if bytes >= self.at_least_bytes && entry.is_due(bytes) => Advice::Convert,
            () if bytes <= entry.mapped_bytes.saturating_mul(2) => Advice::Look,
            () => Advice::Leave,
        }
    }

    /// Notes that the buffer has just been converted.
    pub(super) fn converted(&mut self, address: u64, bytes: u64) {
        let entry = &mut self.buffers[place(address)];
        (entry.lent_bytes, entry.mapped_bytes, entry.converted) = (0, bytes, true);
    }

    /// Notes that the buffer cannot be converted now.
    pub(super) fn refused(&mut self, address: u64, for_good: bool) {
        let entry = &mut self.buffers[place(address)];
        entry.lent_bytes = 0;
        entry.after = if for_good { u32::MAX } else { entry.after.saturating_mul(4).min(MOST_AFTER) };
    }

    /// Notes that less of a mapped buffer is mapped than expected. Returns true if it should be converted at
    /// once.
    pub(super) fn lost(&mut self, address: u64, bytes: u64) -> bool {
        let first = self.after.unwrap_or(u32::MAX);
        let entry = &mut self.buffers[place(address)];
        let lived = entry.lent_bytes / bytes.max(1);
        let paid = first == 1 || !entry.converted || lived > u64::from(first) * 4;
        entry.after = if paid { first } else { entry.after.saturating_mul(2).min(MOST_AFTER) };
        (entry.lent_bytes, entry.mapped_bytes, entry.converted) = (bytes, 0, false);
        bytes >= self.at_least_bytes && entry.is_due(bytes)
    }

    /// Forgets the buffers in `start..end`.
    pub(super) fn forget(&mut self, start: u64, end: u64) {
        for entry in self.buffers.iter_mut().filter(|entry| (start..end).contains(&entry.address)) {
            *entry = Use::default();
        }
    }
}

impl Use {
    /// Returns true if as much was lent as makes up for the conversion of so many bytes. What was refused for
    /// good never is.
    #[inline]
    fn is_due(&self, bytes: u64) -> bool {
        self.after != u32::MAX && self.lent_bytes >= bytes.saturating_mul(u64::from(self.after))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(uses: &[(u64, u64)], expected: &[Advice]) {
        let mut policy = Policy::new(&Config::default().changed(|c| {
            c.memory.map_after = 3;
            c.memory.map_bytes = 100;
        }));
        let got: Vec<Advice> =
            uses.iter().map(|&(address, bytes)| policy.advise(address, bytes, || address == 7)).collect();
        assert_eq!(got, expected);
    }

    #[test]
    fn buffers_are_converted_after_some_uses() {
        use Advice::*;
        check(&[(4096, 500); 4], &[Leave, Leave, Convert, Convert]);
        check(&[(4096, 99); 4], &[Leave; 4]);
        check(&[(7, 99); 2], &[Look; 2]);
        check(&[(0, 500), (1, 500), (0, 500), (1, 500), (0, 500)], &[Leave, Leave, Leave, Leave, Convert]);
    }

    #[test]
    fn bytes_count_whatever_the_lengths() {
        use Advice::*;
        check(&[(0, 60), (0, 200), (0, 120)], &[Leave, Leave, Convert]);
        check(&[(0, 60), (0, 200), (0, 150)], &[Leave, Leave, Leave]);
    }

    #[test]
    fn what_has_grown_is_half_mapped_until_it_is_due() {
        let mut policy = Policy::new(&Config::default().changed(|c| {
            c.memory.map_after = 3;
            c.memory.map_bytes = 100;
        }));
        let mut advise = |bytes: u64, convert: bool| {
            let advice = policy.advise(4096, bytes, || false);
            if convert {
                policy.converted(4096, bytes);
            }
            advice
        };
        let got = [
            advise(600, true),
            advise(600, false),
            advise(1000, false),
            advise(1300, false),
            advise(900, true),
        ];
        assert_eq!(got, [Advice::Leave, Advice::Look, Advice::Look, Advice::Leave, Advice::Convert]);
        assert_eq!(advise(500, false), Advice::Look, "less than was mapped");
    }

    #[test]
    fn a_refusal_and_a_loss_make_it_wait_longer() {
        let mut policy = Policy::new(&Config::default().changed(|c| {
            c.memory.map_after = 2;
            c.memory.map_bytes = 1;
        }));
        let until_convert =
            |policy: &mut Policy| (1..100).find(|_| policy.advise(64, 4096, || false) == Advice::Convert);
        assert_eq!(until_convert(&mut policy), Some(2));
        policy.refused(64, false);
        assert_eq!(until_convert(&mut policy), Some(8));
        policy.converted(64, 4096);
        (0..2).for_each(|_| assert_eq!(policy.advise(64, 4096, || false), Advice::Look));
        assert!(!policy.lost(64, 4096));
        assert_eq!(until_convert(&mut policy), Some(15));
        policy.converted(64, 4096);
        (0..20).for_each(|_| assert_eq!(policy.advise(64, 4096, || false), Advice::Look));
        assert!(!policy.lost(64, 4096));
        assert_eq!(until_convert(&mut policy), Some(1));
        policy.refused(64, true);
        assert_eq!(until_convert(&mut policy), None);
    }

    #[test]
    fn memory_that_is_always_fresh_is_converted_ever_more_seldom() {
        let mut policy = Policy::new(&Config::default().changed(|c| {
            c.memory.map_after = 4;
            c.memory.map_bytes = 1;
        }));
        let mut conversions = 0;
        for _ in 0..1000 {
            // A buffer of the same address as the one before, which was unmapped.
            for _ in 0..4 {
                let advice = policy.advise(64, 4096, || false);
                let is_lost = advice == Advice::Look && policy.lost(64, 4096);
                if advice == Advice::Convert || is_lost {
                    policy.converted(64, 4096);
                    conversions += 1;
                }
            }
        }
        assert!(conversions < 12, "{conversions} conversions that no use made up for");
    }

    #[test]
    fn never_means_never() {
        let mut policy = Policy::new(&Config::default().changed(|c| {
            c.memory.mapped = Mapped::Never;
            c.memory.map_bytes = 1;
        }));
        assert!((0..100).all(|_| policy.advise(64, 4096, || false) == Advice::Leave));
        assert_eq!(policy.advise(64, 4096, || true), Advice::Leave);
    }
}
