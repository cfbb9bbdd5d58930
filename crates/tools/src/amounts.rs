//! Formats for people: seconds, bytes, and costs that were fitted to runs.

use tutti_coll::start::Fitted;

/// Formats the fitted costs, one line each, with the error of the fit.
pub fn costs<const N: usize>(
    names: &[&str; N],
    meanings: &[&str; N],
    fitted: &Fitted<N>,
    runs: usize,
    show: fn(f64) -> String,
) -> String {
    let mut text = match runs {
        0 => "no run: all costs are assumed\n".to_string(),
        runs => format!("fitted to {runs} runs, which differ from it by {:.0} %\n", fitted.error * 100.0),
    };
    for (k, name) in names.iter().enumerate() {
        let told = if fitted.told[k] { "" } else { "  (assumed)" };
        text += format!("  {name:12} {:>10}{told}  {}", show(fitted.costs[k]), meanings[k]).trim_end();
        text.push('\n');
    }
    text
}

/// Formats a value with a suitable unit.
pub fn seconds(value: f64) -> String {
    let (value, unit) = match value {
        value if value >= 1.0 => (value, "s"),
        value if value >= 1e-3 => (value * 1e3, "ms"),
        value if value >= 1e-6 => (value * 1e6, "us"),
        value if value > 0.0 => (value * 1e9, "ns"),
        _ => return "0".to_string(),
    };
    format!("{} {unit}", digits(value))
}

/// Formats a value with a suitable unit.
pub fn bytes(value: f64) -> String {
    let (value, unit) = match value {
        value if value >= 1e9 => (value / 1e9, "GB"),
        value if value >= 1e6 => (value / 1e6, "MB"),
        value if value >= 1e3 => (value / 1e3, "kB"),
        value => (value, "B"),
    };
    format!("{} {unit}", digits(value))
}

/// Formats a value with three digits.
fn digits(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}
