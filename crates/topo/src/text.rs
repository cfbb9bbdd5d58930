//! A machine as text, to record it, to hand it from the launcher to the ranks, and to test with.
//!
//! ```text
//! # comment
//! machine NAME
//! board package numa l3 l2 core processors
//! 0     0       0    0  0  0    0,32
//! 0     0       0    0  1  1    1,33
//! ```
//!
//! A line a core; the numbers are the operating system's, `-` where there is no such level; the
//! processors of the core are a list such as `0-1,32`.

use std::fmt;

use crate::error::TextError;
use crate::model::{LEVELS, Level, Machine, Row};

/// Levels that have a column.
const COLUMNS: usize = LEVELS - 1;
/// Largest number of a processor that a kernel can have.
const MAXIMUM_NUMBER: u32 = 65535;

impl Machine {
    /// Reads the text of a machine.
    ///
    /// # Errors
    /// The first line that is wrong, with its number.
    pub fn parse(text: &str) -> Result<Machine, TextError> {
        let mut name = String::new();
        let mut rows = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or("").trim();
            if let Some(rest) = line.strip_prefix("machine ") {
                name = rest.trim().to_string();
            } else if !line.is_empty() && !line.starts_with("board ") {
                parse_core(line, &mut rows)
                    .map_err(|error| TextError::Line { number, source: Box::new(error) })?;
            }
        }
        if rows.is_empty() {
            return Err(TextError::NoProcessor);
        }
        Ok(Machine::from_rows(name, rows))
    }
}

fn parse_core(line: &str, rows: &mut Vec<Row>) -> Result<(), TextError> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    if fields.len() != LEVELS {
        return Err(TextError::FieldCount { found: fields.len(), expected: LEVELS });
    }
    let mut at = [None; LEVELS];
    for (column, field) in fields[..COLUMNS].iter().enumerate() {
        if *field != "-" {
            at[column] = Some(field.parse().map_err(|_| TextError::NotANumber((*field).to_string()))?);
        }
    }
    for number in parse_list(fields[COLUMNS])? {
        if rows.iter().any(|row: &Row| row.number == number) {
            return Err(TextError::Repeated(number));
        }
        at[Level::Processor as usize] = Some(number);
        rows.push(Row { number, at });
    }
    Ok(())
}

/// Reads a list of numbers as Linux writes them: `0-3,8`.
///
/// # Errors
/// The part that is not a number or a range.
pub fn parse_list(text: &str) -> Result<Vec<u32>, TextError> {
    let mut numbers = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        match (first.parse::<u32>(), last.parse::<u32>()) {
            (Ok(first), Ok(last)) if first <= last && last <= MAXIMUM_NUMBER => numbers.extend(first..=last),
            _ => return Err(TextError::NotARange(part.to_string())),
        }
    }
    Ok(numbers)
}

/// Writes a list of ascending numbers as Linux does: `0-3,8`.
pub fn show_list(numbers: impl Iterator<Item = usize>) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let shown = ranges.iter().map(|&(first, last)| match last - first {
        0 => first.to_string(),
        _ => format!("{first}-{last}"),
    });
    shown.collect::<Vec<_>>().join(",")
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "machine {}", self.name)?;
        writeln!(f, "board package numa l3 l2 core processors")?;
        let core = |row: &Row| row.at[..COLUMNS].to_vec();
        for rows in self.rows.chunk_by(|one, two| core(one) == core(two)) {
            for (level, index) in rows[0].at[..COLUMNS].iter().enumerate() {
                match index.and_then(|index| self.numbers[level].get(index as usize)) {
                    Some(number) => write!(f, "{number} ")?,
                    None => write!(f, "- ")?,
                }
            }
            writeln!(f, "{}", show_list(rows.iter().map(|row| row.number as usize)))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_machines_read_as_they_were_written() {
        let directory = format!("{}/../../fixtures/machines", env!("CARGO_MANIFEST_DIR"));
        let mut seen = 0;
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            let machine = Machine::parse(&text).unwrap_or_else(|error| panic!("{path:?}: {error}"));
            assert_eq!(machine.to_string(), text, "{path:?}");
            seen += 1;
        }
        assert!(seen >= 4);
    }

    fn check_refused(text: &str, part: &str) {
        let error = Machine::parse(text).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }

    #[test]
    fn wrong_texts_are_refused_by_line() {
        check_refused("", "at least one processor");
        check_refused("machine x\n0 0 0 0 0 0\n", "line 2: 6 fields instead of 7");
        check_refused("0 0 0 0 0 0 zero\n", "line 1: \"zero\" is not a number");
        check_refused("0 0 x 0 0 0 0\n", "\"x\" is not a number");
        check_refused("0 0 0 0 0 0 0-4294967295\n", "not a number or a range");
        check_refused("0 0 0 0 0 0 0\n0 0 0 0 0 1 0\n", "line 2: processor 0 appears twice");
    }

    #[test]
    fn lists_are_those_of_linux() {
        assert_eq!(parse_list("0-2,8\n"), Ok(vec![0, 1, 2, 8]));
        assert_eq!(parse_list(""), Ok(vec![]));
        assert!(parse_list("3-1").is_err());
        assert_eq!(show_list([0, 1, 2, 8].into_iter()), "0-2,8");
    }
}
