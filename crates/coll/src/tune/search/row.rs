//! Brute force (barigou-2016, section 2.3): every alternative, one after another, so many samples in a row.

use super::{Block, Known, Strategy};

/// See the module.
#[derive(Debug)]
pub struct InRow {
    samples: u32,
    done: bool,
}

impl InRow {
    /// Samples of each in the paper.
    pub const PAPER: u32 = 30;

    /// With so many samples of each. As in the paper none is dropped.
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
