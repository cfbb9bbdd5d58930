//! Result of a row of the table.

/// Result of a row: ranks or machine, and the ratio or the reason why there is none.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Number of ranks, as text for the table.
    pub ranks: String,
    /// Ratio that was found, or the reason why there is none.
    pub value: Result<Value, String>,
}

/// Ratio that was found for a headline.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// Ratio of least times; of a simulation both are the same.
    pub least: f64,
    /// Ratio of median times.
    pub median: f64,
    /// Loss of the flat algorithm, for headlines about losses.
    pub other: Option<f64>,
    /// Whether the ratio confirms the paper.
    pub reached: bool,
    /// Compared ways with their times.
    pub how: String,
}
