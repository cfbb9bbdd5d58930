//! Rules for collective access by the ranks that have a file open. Used by `io`, and shown by `tutti info
//! FILE`. Pure.

use crate::hints::Choice;

/// Maximum number of ranks in charge of windows, unless a hint requests more.
const MOST_AGGREGATORS: u32 = 16;
/// Average length of contiguous pieces in bytes below which ranks exchange data before they write, on a
/// file system of one host. It was measured with 4 ranks on 2 processors that alternate by 1 KiB. Mappings,
/// each of which takes a fault a page, reach 511 MB/s, and an exchange reaches 1366 MB/s.
const SHORT_RUN_BYTES: u64 = 8 << 10;
/// Average length below which ranks exchange data before they read or write on a shared file system: an
/// access goes over a network.
const SHORT_REMOTE_RUN_BYTES: u64 = 64 << 10;

/// Condition for the exchange of data between ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Ranks never exchange data.
    Never,
    /// Ranks exchange data if pieces are shorter than this on average, in bytes.
    Below(u64),
    /// Ranks always exchange data.
    Always,
}

impl Wish {
    /// Returns the condition that a hint means for a file on such a file system.
    pub fn from_hint(choice: Choice, write: bool, is_remote: bool) -> Wish {
        match choice {
            Choice::Enable => Wish::Always,
            Choice::Disable => Wish::Never,
            Choice::Automatic if is_remote => Wish::Below(SHORT_REMOTE_RUN_BYTES),
            Choice::Automatic if write => Wish::Below(SHORT_RUN_BYTES),
            // Data that one rank has read are in the page cache for all.
            Choice::Automatic => Wish::Never,
        }
    }

    /// Returns the condition as a number, for messages to other ranks.
    pub fn word(self) -> u64 {
        match self {
            Wish::Never => 0,
            Wish::Below(bytes) => bytes,
            Wish::Always => u64::MAX,
        }
    }
}

/// Returns the ranks in charge of windows of the file, among `ranks` that have it open. `wanted` is the
/// hint `cb_nodes`, or 0. They are spread evenly, so that each host has its share.
pub fn aggregators(wanted: u32, ranks: u32) -> Vec<u32> {
    let count = if wanted == 0 { MOST_AGGREGATORS } else { wanted }.min(ranks);
    let place = |number: u32| (u64::from(number) * u64::from(ranks) / u64::from(count)) as u32;
    (0..count).map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(wanted: u32, ranks: u32, expected: &[u32]) {
        assert_eq!(aggregators(wanted, ranks), expected);
    }

    #[test]
    fn aggregators_are_spread() {
        check(0, 4, &[0, 1, 2, 3]);
        check(2, 5, &[0, 2]);
        check(9, 3, &[0, 1, 2]);
        check(0, 0, &[]);
        assert_eq!(aggregators(0, 1000).len(), 16);
    }
}
