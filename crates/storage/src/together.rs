//! By which rules the ranks that have a file open access it together: what `io` does, and what `tutti info
//! FILE` tells. Pure.

use crate::hints::Choice;

/// Most ranks in charge of windows unless a hint says so.
const MOST_AGGREGATORS: u32 = 16;
/// Where runs of the file are shorter on average, ranks exchange data before they write, on a file system of
/// one host: 1 KiB in turn by 4 ranks on 2 processors, 511 MB/s through mappings, each of which takes a
/// fault a page, and 1366 by exchange.
const SHORT_RUN_BYTES: u64 = 8 << 10;
/// The same to read and to write on one that hosts share: an access goes over a network.
const SHORT_REMOTE_RUN_BYTES: u64 = 64 << 10;

/// Whether ranks are to exchange data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Not at all.
    Never,
    /// Where runs are shorter on average.
    Below(u64),
    /// Whatever it costs.
    Always,
}

impl Wish {
    /// What a hint means for a file on such a file system.
    pub fn of(choice: Choice, write: bool, is_remote: bool) -> Wish {
        match choice {
            Choice::Enable => Wish::Always,
            Choice::Disable => Wish::Never,
            Choice::Automatic if is_remote => Wish::Below(SHORT_REMOTE_RUN_BYTES),
            Choice::Automatic if write => Wish::Below(SHORT_RUN_BYTES),
            // What one has read of the page cache is there for all.
            Choice::Automatic => Wish::Never,
        }
    }

    /// For others.
    pub fn word(self) -> u64 {
        match self {
            Wish::Never => 0,
            Wish::Below(bytes) => bytes,
            Wish::Always => u64::MAX,
        }
    }
}

/// The ranks in charge of windows of the file, of so many that have it open; `wanted`: `cb_nodes`, or 0. They
/// lie as far apart as they can, so that each host has its share.
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
