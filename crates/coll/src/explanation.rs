//! Explanation of a choice of an algorithm, for users (`TUTTI_EXPLAIN`): a sentence, and below it candidates
//! with their times.

use std::fmt::Write;

/// Columns of candidates side by side.
const COLUMNS: usize = 2;

/// Reason for a choice, with the candidates.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// Operation, choice and reason.
    pub sentence: String,
    /// Candidates with their times in seconds, the most interesting first.
    pub candidates: Vec<(String, f64)>,
    /// Number of candidates in the short form.
    pub short: usize,
}

impl Explanation {
    /// Returns the block of lines, without an end of line: all candidates, or those of the short form and the
    /// number of the others.
    pub fn text(&self, all: bool) -> String {
        let most = if all { usize::MAX } else { self.short };
        let shown = &self.candidates[..self.candidates.len().min(most)];
        let width = shown.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        let mut text = self.sentence.clone();
        for row in shown.chunks(COLUMNS) {
            text.push('\n');
            for (name, time_s) in row {
                let _ = write!(text, "  {name:width$} {:>9.1} us", time_s * 1e6);
            }
        }
        match self.candidates.len() - shown.len() {
            0 => {}
            more => _ = write!(text, "  ({more} more)"),
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_form_counts_what_it_leaves_out() {
        let named = |name: &str, time_s| (name.to_string(), time_s);
        let candidates = vec![named("ring", 2e-6), named("tree, radix 4", 3e-6), named("flat", 4e-6)];
        let explanation = Explanation { sentence: "bcast: ring".to_string(), candidates, short: 2 };
        let row = "  ring                2.0 us  tree, radix 4       3.0 us";
        assert_eq!(explanation.text(false), format!("bcast: ring\n{row}  (1 more)"));
        assert_eq!(explanation.text(true), format!("bcast: ring\n{row}\n  flat                4.0 us"));
    }
}
