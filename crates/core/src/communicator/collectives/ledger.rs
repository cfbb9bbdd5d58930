//! What tuning has cost this process so far: one account for all communicators and all operations.
//!
//! Each agreement of a unit takes the least time and the greatest loss of its ranks from here, so that a
//! program loses no more than a part of its time, however many units and communicators it has.

use tutti_coll::tune::Account;
use tutti_sys::clock;

/// What finding alternatives takes until it was measured, in nanoseconds.
const FINDING_NS: u64 = 500_000;
/// What may be lost at once where persistent operations are made, which cannot be tried later: in a program,
/// in nanoseconds.
const ADVANCE_NS: u64 = 2_000_000;

/// See the module.
#[derive(Debug)]
pub struct Ledger {
    begun_ns: u64,
    /// Less than nothing never: what one unit has gained is not for others to lose.
    lost_ns: u64,
    /// The longest that finding alternatives took.
    finding_ns: Option<u64>,
}

impl Default for Ledger {
    fn default() -> Ledger {
        Ledger { begun_ns: clock::now_ns(), lost_ns: 0, finding_ns: None }
    }
}

impl Ledger {
    /// Returns what a rank contributes of it.
    pub(crate) fn account(&self) -> Account {
        Account {
            elapsed_ns: clock::now_ns().saturating_sub(self.begun_ns),
            lost_ns: self.lost_ns,
            finding_ns: self.finding_ns.unwrap_or(FINDING_NS),
        }
    }

    /// Debits a loss, or a gain if it is less than nothing.
    pub(crate) fn lose(&mut self, ns: i64) {
        self.lost_ns = self.lost_ns.saturating_add_signed(ns);
    }

    /// Debits the time that finding alternatives took.
    pub(crate) fn found(&mut self, ns: u64) {
        self.finding_ns = Some(self.finding_ns.unwrap_or(0).max(ns));
        self.lose(ns.cast_signed());
    }

    /// Returns true if this rank can pay for so much more at once, of so many percent of the time so far.
    pub(crate) fn affords(&self, ns: u64, percent: u64) -> bool {
        let Account { elapsed_ns, lost_ns, .. } = self.account();
        lost_ns.saturating_add(ns) <= (elapsed_ns / 100).saturating_mul(percent).saturating_add(ADVANCE_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_add_up_and_gains_are_not_kept() {
        let mut ledger = Ledger::default();
        ledger.lose(500);
        ledger.lose(-2000);
        assert_eq!(ledger.account().lost_ns, 0);
        ledger.found(700);
        ledger.found(300);
        let Account { lost_ns, finding_ns, .. } = ledger.account();
        assert_eq!((lost_ns, finding_ns), (1000, 700));
        assert!(ledger.affords(ADVANCE_NS / 2, 0) && !ledger.affords(ADVANCE_NS, 0));
        assert!(!ledger.affords(1 << 40, 1));
    }
}
