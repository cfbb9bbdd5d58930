//! Costs of a machine for readers: a table with units, and JSON. The file that jobs read has plain SI numbers
//! ([`tutti_coll::Model`]).

use std::fmt::Write;

use serde_json::{Map, Value, json};

/// Unit of a cost, from its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Seconds,
    SecondsPerByte,
    Bytes,
    BytesPerSecond,
    Number,
}

impl Unit {
    fn from_name(name: &str) -> Unit {
        match name {
            "source_readers" => Unit::Number,
            _ if name.ends_with("_bandwidth") => Unit::BytesPerSecond,
            _ if name.ends_with("_bytes") => Unit::Bytes,
            "bank_write_back" => Unit::SecondsPerByte,
            _ if name.ends_with("_byte") => Unit::SecondsPerByte,
            _ => Unit::Seconds,
        }
    }

    /// Returns the unit of the plain number.
    fn symbol(self) -> &'static str {
        match self {
            Unit::Seconds => "s",
            Unit::SecondsPerByte => "s/B",
            Unit::Bytes => "B",
            Unit::BytesPerSecond => "B/s",
            Unit::Number => "1",
        }
    }

    /// Returns the value with a unit of readable size.
    fn show(self, value: f64) -> String {
        match self {
            Unit::Seconds if value < 1e-6 => format!("{:.0} ns", value * 1e9),
            Unit::Seconds if value < 1e-3 => format!("{:.2} us", value * 1e6),
            Unit::Seconds => format!("{:.2} ms", value * 1e3),
            Unit::SecondsPerByte => format!("{:.1} ns/KiB", value * 1e9 * 1024.0),
            Unit::Bytes if value >= 1024.0 => format!("{:.0} KiB", value / 1024.0),
            Unit::Bytes => format!("{value:.0} B"),
            Unit::BytesPerSecond => format!("{:.1} GB/s", value / 1e9),
            Unit::Number => format!("{value:.0}"),
        }
    }
}

/// Costs in the text of a model: names with their values, one value, or one for each distance of two ranks.
fn costs(model: &str) -> Vec<(&str, Vec<f64>)> {
    let mut found: Vec<(&str, Vec<f64>)> = Vec::new();
    for line in model.lines().filter(|line| !line.starts_with('#')) {
        let Some((name, value)) = line.split_once(' ') else { continue };
        let Ok(value) = value.parse() else { continue };
        let name = name.split('.').next().unwrap_or(name);
        match found.iter_mut().find(|(other, _)| *other == name) {
            Some((_, values)) => values.push(value),
            None => found.push((name, vec![value])),
        }
    }
    found
}

/// Returns the table of a model's text.
pub fn table(model: &str) -> String {
    let costs = costs(model);
    let width = costs.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut text = String::new();
    let mut is_told = false;
    for (name, values) in &costs {
        if values.len() > 1 && !is_told {
            let last = values.len() - 1;
            let _ = writeln!(text, "by the distance of two ranks, 0 (one core) to {last} (two hosts):");
            is_told = true;
        }
        let unit = Unit::from_name(name);
        let shown: Vec<String> = values.iter().map(|value| format!("{:>14}", unit.show(*value))).collect();
        let _ = writeln!(text, "  {name:width$} {}", shown.concat());
    }
    text
}

/// Returns the costs of a model's text as JSON, in SI units.
pub fn json(model: &str) -> Value {
    let costs = costs(model).into_iter().map(|(name, values)| {
        let value = if let [value] = values[..] { json!(value) } else { json!(values) };
        (name.to_string(), json!({ "value": value, "unit": Unit::from_name(name).symbol() }))
    });
    Value::Object(costs.collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: &str = "# measured\nswitch 1.3e-6\nmemory_bandwidth 2.36e10\neager_bytes 16384\nline.0 3e-8\nline.1 1.5e-7\n\
                         copy_byte.0 1e-11\ncopy_byte.1 2e-11\ncorrection allreduce tree 3 1.27\n";

    #[test]
    fn values_have_units() {
        let lines: Vec<String> =
            table(MODEL).lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        let expected = [
            "switch 1.30 us",
            "memory_bandwidth 23.6 GB/s",
            "eager_bytes 16 KiB",
            "by the distance of two ranks, 0 (one core) to 1 (two hosts):",
            "line 30 ns 150 ns",
            "copy_byte 10.2 ns/KiB 20.5 ns/KiB",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn programs_get_si_units() {
        let found = json(MODEL);
        assert_eq!(found["switch"], json!({ "value": 1.3e-6, "unit": "s" }));
        assert_eq!(found["copy_byte"], json!({ "value": [1e-11, 2e-11], "unit": "s/B" }));
        assert!(found.get("correction").is_none());
    }
}
