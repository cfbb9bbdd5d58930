//! How long a wait looks for what one does who runs just now, although others want the processor.
//!
//! Where ranks share processors, a wait gives its processor away after a few looks: mostly the one that it waits for has to be let
//! run first. But two that run side by side answer each other within a microsecond, and go on so message after message as long
//! as neither leaves; one that leaves is gone for as long as all others take, and then finds the other one gone. So a wait looks on
//! while its partner has a processor, as far as that says so itself ([`tutti_sys::job::Doorbell::is_away`]).
//!
//! A partner that has one may compute, or may have lost it without a word; then looking on only takes time from others. So
//! there is an end to it, and after some waits in vain it is tried rarely until it helps again.

use super::limits::{Limits, PARTNER_LOOKS, PARTNER_PATIENCE, PARTNER_RARELY};

/// What a process knows about looking on.
#[derive(Debug, Default)]
pub struct Partnership {
    /// Waits since it helped.
    in_vain: u32,
}

impl Partnership {
    /// How often a wait looks that begins now: not at all where the user has said so.
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

    /// What was waited for came while it looked.
    pub fn helped(&mut self) {
        self.in_vain = 0;
    }

    /// It looked as often as it may, and the partner ran all the time.
    pub fn was_in_vain(&mut self) {
        self.in_vain = self.in_vain.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use tutti_base::config::Config;

    use super::*;

    /// How many of `waits` waits look on, if what they wait for comes while they do or not.
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
        let limits = Limits::new(&Config::default().but(|c| c.waiting.spin_us = 0), 4, 2, false);
        assert_eq!(Partnership::default().looks(&limits), 0);
    }
}
