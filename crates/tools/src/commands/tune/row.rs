//! One operation with one size, and the times of all algorithms that were tried for it.

use tutti_coll::Collective;
use tutti_coll::model::{Correction, size_class, variant};

use crate::measure::cells::has_no_data;
use crate::measure::session::Ask;

/// Ratio to the time of the best algorithm above which a choice is bad.
pub const BAD: f64 = 1.15;

/// An algorithm in a cell. Seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Tried {
    pub algorithm: &'static str,
    /// Length of segments in bytes; `None`: the model selects it.
    pub segment: Option<u64>,
    pub params: String,
    pub predicted: f64,
    /// Time in each round, or `None` if the round did not measure it.
    pub rounds: Vec<Option<f64>>,
    pub measured: Option<f64>,
}

/// Operation with one size and number of ranks, with all algorithms that may be the best.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub collective: Collective,
    pub ranks: u32,
    pub hosts: u32,
    pub bytes: u64,
    /// Choice of the model alone: algorithm, and length of segments if it matters.
    pub chosen: String,
    pub tried: Vec<Tried>,
}

impl Tried {
    /// Returns the algorithm with its segment length, in the syntax of TUTTI_ALGORITHM.
    pub fn name(&self) -> String {
        variant(self.algorithm, self.segment)
    }
}

impl Row {
    pub fn asks<'a>(&'a self, modes: &'a [String]) -> impl Iterator<Item = Ask> + 'a {
        let bytes = if has_no_data(self.collective.name()) { 0 } else { self.bytes };
        let op = self.collective.name().to_string();
        let some = if bytes == 0 { &modes[..1] } else { modes };
        some.iter().map(move |mode| Ask { op: op.clone(), mode: mode.clone(), bytes })
    }

    /// Computes one time for each algorithm from all rounds. A shared machine is slower in some rounds than
    /// in others. So the time of an algorithm is first divided by the mean of all algorithms in the same
    /// round. The median over the rounds, multiplied by the mean of the fastest round, is the result.
    pub fn settle(&mut self) {
        let rounds = self.tried.iter().map(|one| one.rounds.len()).max().unwrap_or(0);
        let always: Vec<&Tried> =
            self.tried.iter().filter(|one| one.rounds.iter().all(Option::is_some)).collect();
        if always.is_empty() {
            return;
        }
        let mean = |round: usize| {
            let logarithms = always.iter().filter_map(|one| one.rounds.get(round).copied().flatten());
            (logarithms.map(f64::ln).sum::<f64>() / always.len() as f64).exp()
        };
        let means: Vec<f64> = (0..rounds).map(mean).collect();
        let least = means.iter().copied().fold(f64::INFINITY, f64::min);
        for one in &mut self.tried {
            let times = one.rounds.iter().zip(&means);
            let mut shares: Vec<f64> = times.filter_map(|(time, mean)| Some((*time)? / mean)).collect();
            shares.sort_by(f64::total_cmp);
            one.measured = match shares.len() {
                0 => None,
                count if count % 2 == 0 => Some((shares[count / 2 - 1] * shares[count / 2]).sqrt() * least),
                count => Some(shares[count / 2] * least),
            };
        }
    }

    pub fn best(&self) -> Option<&Tried> {
        let measured = self.tried.iter().filter(|one| one.measured.is_some());
        measured.min_by(|one, two| one.measured.partial_cmp(&two.measured).expect("times are numbers"))
    }

    /// Returns the ratio of the time of the model's choice to the best time, or `None` unless both were
    /// measured.
    pub fn loss(&self) -> Option<f64> {
        let chosen = self.tried.iter().find(|one| one.name() == self.chosen)?;
        Some(chosen.measured? / self.best()?.measured?)
    }

    /// Keeps the chosen and the best algorithm, without their times so far.
    pub fn narrow(&mut self) {
        let pair = [Some(self.chosen.clone()), self.best().map(Tried::name)];
        self.tried.retain(|one| pair.contains(&Some(one.name())));
        self.tried.iter_mut().for_each(|one| one.rounds.clear());
    }

    pub fn corrections(&self) -> impl Iterator<Item = Correction> + '_ {
        self.tried.iter().filter_map(|one| {
            Some(Correction {
                collective: self.collective,
                algorithm: one.algorithm.to_string(),
                segment: one.segment,
                ranks: self.ranks,
                hosts: self.hosts,
                class: size_class(self.bytes),
                factor: one.measured? / one.predicted,
            })
        })
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn row(chosen: &'static str, tried: &[(&'static str, f64, Option<f64>)]) -> Row {
        let tried = tried.iter().map(|&(algorithm, predicted, measured)| {
            let params = String::new();
            Tried { algorithm, segment: None, params, predicted, rounds: Vec::new(), measured }
        });
        let (chosen, tried) = (chosen.to_string(), tried.collect());
        Row { collective: Collective::Bcast, ranks: 4, hosts: 1, bytes: 1024, chosen, tried }
    }

    fn check(row: &Row, loss: Option<f64>, corrections: &[&str]) {
        assert_eq!(row.loss(), loss, "{row:?}");
        let lines: Vec<String> = row.corrections().map(|one| one.to_string()).collect();
        assert_eq!(lines, corrections, "{row:?}");
    }

    #[test]
    fn a_row_says_what_the_model_misses() {
        let both =
            row("kary", &[("kary", 1.0, Some(3.0)), ("knomial", 2.0, Some(2.0)), ("bank_flat", 9.0, None)]);
        let lines = ["correction bcast kary 4 11 3e0", "correction bcast knomial 4 11 1e0"];
        check(&both, Some(1.5), &lines);
        check(
            &row("kary", &[("kary", 1.0, None), ("knomial", 1.0, Some(2.0))]),
            None,
            &lines[..0].iter().copied().chain(["correction bcast knomial 4 11 2e0"]).collect::<Vec<_>>(),
        );
    }

    #[test]
    fn times_count_by_those_of_the_same_round() {
        let mut row = row("kary", &[("kary", 1.0, None), ("knomial", 1.0, None), ("bank_flat", 1.0, None)]);
        // The machine was four times slower in the second round, and something disturbed one in the third.
        let rounds =
            [[Some(2.0), Some(8.0), Some(2.0)], [Some(2.0), Some(8.0), Some(32.0)], [Some(9.0), None, None]];
        for (one, rounds) in row.tried.iter_mut().zip(rounds) {
            one.rounds = rounds.to_vec();
        }
        row.settle();
        let measured: Vec<_> = row.tried.iter().map(|one| one.measured.unwrap().round()).collect();
        assert_eq!(measured, [2.0, 2.0, 9.0]);
    }

    #[test]
    fn two_are_measured_again() {
        let tried = [("kary", 1.0, Some(3.0)), ("knomial", 2.0, Some(2.0)), ("bank_flat", 9.0, Some(5.0))];
        let mut row = row("kary", &tried);
        row.tried[0].rounds = vec![Some(3.0)];
        row.narrow();
        let names: Vec<_> = row.tried.iter().map(|one| (one.algorithm, one.rounds.len())).collect();
        assert_eq!(names, [("kary", 0), ("knomial", 0)]);
    }
}
