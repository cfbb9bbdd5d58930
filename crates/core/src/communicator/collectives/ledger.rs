//! Time that tuning has lost in this process: one account for all communicators and operations.
//!
//! At each agreement of a unit its ranks contribute their accounts. The least elapsed time and the greatest
//! loss of all ranks count. So a program loses no more than a fixed part of its time, however many units
//! and communicators it has.

use tutti_coll::tune::Account;
use tutti_sys::clock;

/// Estimated time to generate the alternatives of an operation, in nanoseconds, before the first
/// measurement.
const FINDING_NS: u64 = 500_000;
/// Advance on the budget of a program for creating persistent operations, in nanoseconds. Their
/// alternatives cannot be created later.
const ADVANCE_NS: u64 = 2_000_000;

/// Account of the losses of tuning in this process.
#[derive(Debug)]
pub struct Ledger {
    /// Time at which the account was opened.
    begun_ns: u64,
    /// Net loss in nanoseconds, at least 0: the gain of one unit is no budget for the losses of others.
    lost_ns: u64,
    /// Longest measured time to generate alternatives, in nanoseconds.
    finding_ns: Option<u64>,
}

impl Default for Ledger {
    fn default() -> Ledger {
        Ledger { begun_ns: clock::now_ns(), lost_ns: 0, finding_ns: None }
    }
}

impl Ledger {
    /// Returns the values that this rank contributes to an agreement.
    pub(crate) fn account(&self) -> Account {
        Account {
            elapsed_ns: clock::now_ns().saturating_sub(self.begun_ns),
            lost_ns: self.lost_ns,
            finding_ns: self.finding_ns.unwrap_or(FINDING_NS),
        }
    }

    /// Debits a loss, or credits a gain if `ns` is negative.
    pub(crate) fn lose(&mut self, ns: i64) {
        self.lost_ns = self.lost_ns.saturating_add_signed(ns);
    }

    /// Debits the time that generating alternatives took.
    pub(crate) fn found(&mut self, ns: u64) {
        self.finding_ns = Some(self.finding_ns.unwrap_or(0).max(ns));
        self.lose(ns.cast_signed());
    }

    /// Returns true if a further loss of `ns` keeps within `percent` of the time so far, plus the advance.
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
