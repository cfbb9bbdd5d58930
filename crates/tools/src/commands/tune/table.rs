//! Output and stored results of `tutti tune`.

use std::fmt::Write as _;

use tutti_coll::model::Correction;

use super::row::{BAD, Row, Tried};
use crate::measure::report::size;

/// Returns the text of the model with new corrections for measured cells.
pub fn merged(text: &str, rows: &[Row]) -> String {
    let fresh: Vec<Correction> = rows.iter().flat_map(Row::corrections).collect();
    let measured = |line: &str| {
        let old = line.trim().strip_prefix("correction ").and_then(|rest| Correction::parse(rest).ok());
        old.is_some_and(|old| {
            rows.iter()
                .any(|row| (row.collective, row.ranks, row.hosts) == (old.collective, old.ranks, old.hosts))
        })
    };
    let mut merged: String =
        text.lines().filter(|line| !measured(line)).flat_map(|line| [line, "\n"]).collect();
    for correction in fresh {
        let _ = writeln!(merged, "{correction}");
    }
    merged
}

pub fn table(rows: &[Row], explain: bool) -> String {
    let mut text = "ranks collective            bytes    chosen              us (model)       best                us (model)       loss\n".to_string();
    let us = |one: Option<&Tried>| match one {
        Some(Tried { measured: Some(time), predicted, .. }) => {
            format!("{:.2} ({:.2})", time * 1e6, predicted * 1e6)
        }
        _ => "-".to_string(),
    };
    for row in rows {
        let chosen = row.tried.iter().find(|one| one.name() == row.chosen);
        let best = row.best();
        let loss = row.loss().map_or("-".to_string(), |loss| format!("{loss:.2}"));
        let mark = if row.loss().is_some_and(|loss| loss > BAD) { " *" } else { "" };
        let _ = writeln!(
            text,
            "{:>5} {:20} {:>7}  {:19} {:16} {:19} {:16} {loss}{mark}",
            row.ranks,
            row.collective.name(),
            size(row.bytes),
            row.chosen,
            us(chosen),
            best.map_or("-".to_string(), Tried::name),
            us(best),
        );
        for one in row.tried.iter().filter(|_| explain) {
            let factor = one.measured.map_or(0.0, |time| time / one.predicted);
            let shown = us(Some(one));
            let _ = writeln!(text, "        {:24} {shown:20} {factor:.2}  {}", one.name(), one.params);
        }
    }
    text
}

/// Returns a line about the regret of the choice of algorithms. `basis` describes the basis of the choice.
pub fn summary(basis: &str, rows: &[Row]) -> String {
    let losses: Vec<f64> = rows.iter().filter_map(Row::loss).collect();
    if losses.is_empty() {
        return "nothing was measured\n".to_string();
    }
    let mean = (losses.iter().map(|loss| loss.ln()).sum::<f64>() / losses.len() as f64).exp();
    let worst = losses.iter().copied().fold(1.0, f64::max);
    let bad = losses.iter().filter(|loss| **loss > BAD).count();
    format!(
        "{basis}: {} cells, {bad} of them lose more than {BAD}; worst {worst:.2}, geometric mean {mean:.3}\n",
        losses.len()
    )
}

#[cfg(test)]
mod tests {
    use tutti_coll::Model;

    use super::*;
    use crate::commands::tune::row::tests::row;

    #[test]
    fn bad_choices_are_marked_and_counted() {
        let both = row("kary", &[("kary", 1.0, Some(3.0)), ("knomial", 2.0, Some(2.0))]);
        assert!(table(std::slice::from_ref(&both), false).contains("1.50 *"));
        assert!(summary("the model alone", &[both]).contains("the model alone: 1 cells, 1 of them"));
    }

    #[test]
    fn old_corrections_of_what_was_measured_give_way() {
        let old = "switch 2e-6\ncorrection bcast kary 4 5 9\ncorrection bcast kary 8 5 9\n";
        let text = merged(old, &[row("kary", &[("kary", 1.0, Some(2.0))])]);
        assert_eq!(text, "switch 2e-6\ncorrection bcast kary 8 5 9\ncorrection bcast kary 4 11 2e0\n");
        assert_eq!(Model::parse(&text).unwrap().corrections.len(), 2);
    }
}
