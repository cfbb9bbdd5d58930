//! Search by brute force (barigou-2016, section 2.3): every alternative, one after another, with a fixed
//! number of samples in a row.

use super::{Block, Known, Strategy};

/// Search by brute force; see the module's documentation.
#[derive(Debug)]
pub struct InRow {
    samples: u32,
    done: bool,
}

impl InRow {
    /// Number of samples of each alternative in the paper.
    pub const PAPER: u32 = 30;

    /// Returns a search with `samples` samples of each alternative. No sample is dropped, as in the paper.
    pub fn new(samples: u32) -> InRow {
        InRow { samples, done: false }
    }
}

impl Strategy for InRow {
    fn next(&mut self, known: &Known<'_>) -> Vec<Block> {
        if std::mem::replace(&mut self.done, true) {
            return Vec::new();
        }
        let block = |alternative| Block { alternative, drop: 0, keep: self.samples };
        (0..known.alternatives.len()).map(block).collect()
    }
}
