//! Parser of a line that the benchmark program prints.

/// A measured cell: one operation, size, mode and number of ranks.
#[derive(Clone, Debug, PartialEq, PartialOrd, Eq, Ord)]
pub struct Cell {
    /// Name of the operation, as the program knows it.
    pub op: String,
    /// Mode of the buffers: `plain` or `changing`.
    pub mode: String,
    /// Number of ranks in the job.
    pub ranks: u32,
    /// Size in bytes, or a number of objects; 0 for a barrier.
    pub bytes: u64,
}

/// A cell with its time.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Cell that was measured.
    pub cell: Cell,
    /// Microseconds, in the median batch.
    pub us: f64,
    /// Microseconds, in the fastest batch.
    pub least: f64,
    /// Number of sampled values that were wrong.
    pub wrong: u64,
}

/// Parses the sample in `line`, or returns `None` for other output.
pub fn parse(line: &str) -> Option<Sample> {
    let rest = line.trim().strip_prefix("cell ")?;
    let field = |name: &str| {
        rest.split_whitespace()
            .filter_map(|word| word.split_once('='))
            .find_map(|(key, value)| (key == name).then_some(value))
    };
    let cell = Cell {
        op: field("op")?.to_string(),
        mode: field("mode")?.to_string(),
        ranks: field("ranks")?.parse().ok()?,
        bytes: field("bytes")?.parse().ok()?,
    };
    let us: f64 = field("us")?.parse().ok()?;
    let least: f64 = field("least")?.parse().ok()?;
    // A time below the clock's grain can come out as nothing or less; it is not a measurement.
    let measured = us > 0.0 && us.is_finite();
    let least = if least > 0.0 { least } else { us };
    measured.then_some(Sample { cell, us, least, wrong: field("wrong")?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_sample_or_nothing() {
        let sample =
            parse("cell op=pbcast mode=plain ranks=4 bytes=64 us=1.25 least=1 iterations=10 wrong=3\n");
        let cell = Cell { op: "pbcast".into(), mode: "plain".into(), ranks: 4, bytes: 64 };
        assert_eq!(sample, Some(Sample { cell, us: 1.25, least: 1.0, wrong: 3 }));
        for other in ["", "hello", "cell op=x", "cell op=a mode=b ranks=2 bytes=8 us=-1 least=1 wrong=0"] {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
