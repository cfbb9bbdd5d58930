//! Rules for the times of operations, as data (DESIGN.md section 6; guidelines of Traeff, Gropp and Thakur).

/// Size of a part, relative to the bytes of the whole operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bytes {
    /// The same number of bytes.
    Same,
    /// The bytes divided by the number of ranks: a vector is divided into blocks.
    Share,
    /// Times the number of ranks: blocks make a vector.
    All,
    /// No data, or a few bytes.
    Few,
}

impl Bytes {
    /// Returns the bytes of a part, if the whole has `bytes`, or `None` if the whole cannot be divided like that.
    pub fn part_bytes(self, bytes: u64, ranks: u32) -> Option<u64> {
        let ranks = u64::from(ranks);
        match self {
            Bytes::Same => Some(bytes),
            Bytes::All => Some(bytes * ranks),
            Bytes::Share => (bytes.is_multiple_of(ranks * 4) && bytes > 0).then(|| bytes / ranks),
            Bytes::Few => Some(8),
        }
    }
}

/// The time of `whole` is at most `factor` times that of all parts together.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Operation whose time is limited.
    pub whole: &'static str,
    /// The operations that would do its work.
    pub parts: &'static [(&'static str, Bytes)],
    /// Greatest allowed ratio of the times.
    pub factor: f64,
}

impl Rule {
    /// Returns the parts as one sequence, in the syntax of the benchmark program. They are measured together,
    /// as ranks run ahead in some repeated operations, but not if another operation follows. Returns `None`
    /// if there is one part, or one cannot be cut.
    pub fn sequence(&self, bytes: u64, ranks: u32) -> Option<String> {
        let part = |(op, size): &(&str, Bytes)| Some(format!("{op}@{}", size.part_bytes(bytes, ranks)?));
        let parts: Option<Vec<_>> = self.parts.iter().map(part).collect();
        parts.filter(|parts| parts.len() > 1).map(|parts| parts.join("+"))
    }
}

const fn rule(whole: &'static str, parts: &'static [(&'static str, Bytes)]) -> Rule {
    Rule { whole, parts, factor: 1.0 }
}

use Bytes::{All, Few, Same, Share};

/// Operations made of others.
pub static RULES: [Rule; 27] = [
    rule("allreduce", &[("reduce", Same), ("bcast", Same)]),
    rule("allreduce", &[("reduce_scatter_block", Share), ("allgather", Share)]),
    rule("allreduce", &[("reduce_scatter", Share), ("allgatherv", Share)]),
    rule("reduce", &[("allreduce", Same)]),
    rule("reduce", &[("reduce_scatter_block", Share), ("gather", Share)]),
    rule("bcast", &[("scatter", Share), ("allgather", Share)]),
    rule("bcast", &[("allgatherv", Same)]),
    rule("allgather", &[("gather", Same), ("bcast", All)]),
    rule("allgather", &[("alltoall", Same)]),
    rule("allgather", &[("allreduce", All)]),
    rule("allgather", &[("allgatherv", Same)]),
    rule("gather", &[("allgather", Same)]),
    rule("gather", &[("gatherv", Same)]),
    rule("gather", &[("reduce", All)]),
    rule("scatter", &[("bcast", All)]),
    rule("scatter", &[("scatterv", Same)]),
    rule("alltoall", &[("alltoallv", Same)]),
    rule("alltoallv", &[("alltoallw", Same)]),
    rule("reduce_scatter_block", &[("reduce", All), ("scatter", Same)]),
    rule("reduce_scatter_block", &[("allreduce", All)]),
    rule("reduce_scatter_block", &[("reduce_scatter", Same)]),
    rule("reduce_scatter", &[("reduce", All), ("scatterv", Same)]),
    rule("exscan", &[("scan", Same)]),
    rule("scan", &[("exscan", Same), ("reduce", Same)]),
    rule("scatterv", &[("alltoallv", Same)]),
    rule("gatherv", &[("allgatherv", Same)]),
    rule("barrier", &[("allreduce", Few)]),
];

/// Greatest ratio of the time of the non-blocking form to that of the blocking one.
pub const NONBLOCKING: f64 = 1.1;
/// Greatest ratio of the time of the persistent form to that of the blocking one.
pub const PERSISTENT: f64 = 1.0;
/// Twice the bytes take at most this many times as long,
pub const DOUBLE: f64 = 2.2;
/// and fewer bytes at most this many times as long as more.
pub const FEWER: f64 = 1.3;
/// Copying the same bytes without MPI takes at least this part of an operation's time.
pub const OF_MEMCPY: f64 = 0.9;
/// A barrier takes at most this many times the line's way, for each doubling of the ranks.
pub const OF_LINE: f64 = 1.3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::options::FORMS;

    #[test]
    fn parts_have_bytes_that_make_up_the_whole() {
        let of = |bytes: Bytes| [8, 64, 12].map(|whole| bytes.part_bytes(whole, 4));
        assert_eq!(of(Same), [Some(8), Some(64), Some(12)]);
        assert_eq!(of(All), [Some(32), Some(256), Some(48)]);
        assert_eq!(of(Share), [None, Some(16), None]);
        assert_eq!(Few.part_bytes(0, 4), Some(8));
    }

    #[test]
    fn several_parts_are_a_sequence() {
        assert_eq!(RULES[1].sequence(64, 4), Some("reduce_scatter_block@16+allgather@16".to_string()));
        assert_eq!(RULES[1].sequence(8, 4), None);
        assert_eq!(RULES[3].sequence(64, 4), None);
    }

    #[test]
    fn rules_name_operations_of_the_program() {
        for rule in &RULES {
            let parts = rule.parts.iter().map(|part| part.0);
            assert!(parts.chain([rule.whole]).all(|op| FORMS.contains(&op)), "{rule:?}");
        }
    }
}
