//! Length of a wait's look for a partner that is running just now, although others want the processor.
//!
//! Where ranks share processors, a wait gives its processor away after a few looks: usually the rank that it
//! waits for has to run first. But two ranks that run side by side answer each other within a microsecond,
//! and go on like that as long as neither leaves. One that leaves is gone for as long as all others take, and
//! then finds the other one gone. Hence a wait keeps looking while its partner has a processor, as far as the
//! partner reports that ([`tutti_sys::job::Doorbell::is_away`]).
//!
//! A partner that has one may be computing, or may have lost it without a report; then looking only takes
//! time from others. Hence the looks are limited, and after some unsuccessful waits they are tried rarely
//! until they help again.

use super::limits::{Limits, PARTNER_LOOKS, PARTNER_PATIENCE, PARTNER_RARELY};

/// Experience of a process with looking while its partner runs.
#[derive(Debug, Default)]
pub struct Partnership {
    /// Number of waits since looking last helped.
    in_vain: u32,
}

impl Partnership {
    /// Returns the number of looks of a wait that begins now. 0 if the user has set it so.
    pub fn looks(&mut self, limits: &Limits) -> u32 {
        if limits.budget(true).message_looks == 0 {
            return 0;
        }
        if self.in_vain < PARTNER_PATIENCE || self.in_vain.is_multiple_of(PARTNER_RARELY) {
            return PARTNER_LOOKS;
        }
        self.in_vain = self.in_vain.wrapping_add(1);
        0
    }

    /// Notes that the awaited event came during the looks.
    pub fn helped(&mut self) {
        self.in_vain = 0;
    }

    /// Notes that all looks were in vain, although the partner ran all the time.
    pub fn was_in_vain(&mut self) {
        self.in_vain = self.in_vain.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use tutti_base::config::Config;

    use super::*;

    /// Checks how many of `waits` waits look on, if looking always helps or never does.
    fn check(partnership: &mut Partnership, waits: u32, helps: bool, expected: u32) {
        let limits = Limits::new(&Config::default(), 4, 2, false);
        let mut looked = 0;
        for _ in 0..waits {
            if partnership.looks(&limits) > 0 {
                looked += 1;
                if helps { partnership.helped() } else { partnership.was_in_vain() }
            }
        }
        assert_eq!(looked, expected, "{waits} {helps}");
    }

    #[test]
    fn who_looks_in_vain_looks_rarely_until_it_helps() {
        let mut partnership = Partnership::default();
        check(&mut partnership, 100, true, 100);
        check(&mut partnership, 3, false, 3);
        check(&mut partnership, 100, true, 100);
        check(&mut partnership, 4 + 12 + 161, false, 4 + 11);
        check(&mut partnership, 15 + 10, true, 10);
    }

    #[test]
    fn who_is_not_to_spin_does_not_look_at_his_partner() {
        let limits = Limits::new(&Config::default().changed(|c| c.waiting.spin_us = 0), 4, 2, false);
        assert_eq!(Partnership::default().looks(&limits), 0);
    }
}
