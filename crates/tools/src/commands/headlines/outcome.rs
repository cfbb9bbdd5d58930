//! Result of a row of the table.

/// By how many ranks or on which machine, and the ratio or why there is none.
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
    /// For losses, what the flat one loses.
    pub other: Option<f64>,
    /// Whether it is what the paper has.
    pub reached: bool,
    /// By which ways, with their times.
    pub how: String,
}
