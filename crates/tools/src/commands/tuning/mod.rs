//! `tutti bench tune`: the number of scenarios in which tuning finds the best algorithm while a program runs,
//! and the costs (S11; barigou-2016, chapter 3). Times of algorithms beside computation are simulated
//! ([`scenarios`]). Ranks tune as in a job, with samples that vary like recorded ones. Each scenario runs
//! with the usual model, and with a poisoned one that favours the worst algorithm. Searches of the
//! literature, a random choice, and no search are compared.

mod picture;
mod scenarios;

use std::fmt::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use tutti_coll::Collective;
use tutti_coll::tune::rehearse::{Noise, Outcome, Play};
use tutti_coll::tune::statistics::Filter;
use tutti_coll::tune::{Rules, search};
use tutti_sys::files;

use crate::measure::results::median;
use scenarios::{Scenario, Truth};

/// Options of `tutti bench tune`.
#[derive(Args)]
pub struct TuningOptions {
    /// Number of scenarios to simulate
    #[arg(long, default_value_t = SCENARIOS, value_parser = clap::value_parser!(u32).range(1..))]
    scenarios: u32,
    /// Seed of the scenarios and samples
    #[arg(long, default_value_t = SEED)]
    seed: u64,
    /// Operations of a loop.
    #[arg(long, default_value_t = ITERATIONS, value_parser = clap::value_parser!(u32).range(1..))]
    iterations: u32,
    /// Times of equal operations, one a line, whose variation samples have; by default recorded ones.
    #[arg(long)]
    noise: Option<PathBuf>,
    /// A line for each scenario too.
    #[arg(long)]
    all: bool,
    /// Instead: a picture of the first scenario with a poisoned model, into this file.
    #[arg(long)]
    picture: Option<PathBuf>,
}

/// Number of scenarios in the paper.
const SCENARIOS: u32 = 324;
/// Default seed of the scenarios.
const SEED: u64 = 2016;
/// Operations of a loop; the paper's have 1000 to 10000.
const ITERATIONS: u32 = 4000;
/// Within this of the best it is right.
const RIGHT: f64 = 1.05;
/// Times of equal operations that were recorded.
const RECORDED: &str = include_str!("../../../../../fixtures/noise/node.txt");
/// Longest file of noise, in bytes.
const NOISE_BYTES: u64 = 1 << 20;
/// Loops that are short.
const SHORT: [u32; 4] = [10, 100, 300, 1000];

/// Method of choosing an algorithm.
#[derive(Clone, Copy)]
struct Method {
    name: &'static str,
    /// Name of the search strategy, or `None` for no search.
    search: Option<&'static str>,
    /// True for the rules of a job, false for those of the paper: its filter, and no budget.
    is_own: bool,
}

const BRUTE_FORCE: Method =
    Method { name: "brute force: 30 in a row (ADCL)", search: Some("row"), is_own: false };

const METHODS: [Method; 6] = [
    Method { name: "Tutti", search: Some("halving"), is_own: true },
    Method { name: "halving, no budget", search: Some("halving"), is_own: false },
    BRUTE_FORCE,
    Method { name: "attribute by attribute (ADCL)", search: Some("attributes"), is_own: false },
    Method { name: "2^k factorial (ADCL)", search: Some("factorial"), is_own: false },
    Method { name: "a tuner that does nothing", search: None, is_own: false },
];

impl Method {
    fn rules(self) -> Rules {
        let (budget_part, budget_ns) = (f64::INFINITY, f64::INFINITY);
        let unlimited = Rules { budget_part, budget_ns, proves: false, ..Rules::default() };
        match self.search {
            _ if self.is_own => Rules::default(),
            Some("halving") => unlimited,
            _ => Rules { filter: Filter::Paper, ..unlimited },
        }
    }

    fn run(self, play: &Play, seed: u64) -> Outcome {
        let Some(name) = self.search else {
            let default_ns = f64::from(play.iterations) * play.period_ns(0);
            let taken = vec![play.iterations];
            return Outcome {
                decision: None,
                taken,
                total_ns: default_ns,
                default_ns,
                course: Vec::new(),
                chosen: 0,
            };
        };
        let strategy = || search::strategy(name, seed).expect("methods name strategies");
        play.run(&strategy, self.rules(), seed)
    }
}

/// Result of one method in one scenario.
struct Score {
    collective: Collective,
    /// Time of the chosen algorithm, relative to the best.
    to_best: f64,
    /// The whole loop, by one of the default.
    to_default: f64,
    learning: u32,
}

/// Simulates all scenarios. Returns the tables, or an empty text if it draws a picture.
///
/// # Errors
/// Fails if a file cannot be read or written.
pub fn run(options: &TuningOptions) -> Result<String, String> {
    let noise = noise(options.noise.as_deref())?;
    let scenarios = scenarios::all(options.scenarios, options.seed);
    if let Some(path) = &options.picture {
        let first = scenarios.first().ok_or("there is one at least")?;
        let play = poisoned(play(&first.truth()?, &noise, options.iterations));
        let outcome = METHODS[0].run(&play, options.seed);
        let text = picture::draw(&play, &outcome, &first.line());
        std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        return Ok(String::new());
    }
    let (mut text, mut truths) = (String::new(), Vec::new());
    for scenario in &scenarios {
        let truth = scenario.truth()?;
        if options.all {
            text += &described(scenario, &truth);
        }
        truths.push((scenario.collective(), truth));
    }
    text += &format!(
        "{} scenarios of seed {}, simulated, {} operations each; right: within {:.0} % of the best\n",
        scenarios.len(),
        options.seed,
        options.iterations,
        (RIGHT - 1.0) * 100.0
    );
    let tables = [true, false].map(|is_poisoned| table(options, &truths, &noise, is_poisoned));
    Ok(text + &tables.concat())
}

/// Returns the fraction of `number` scenarios with a poisoned model in which the best algorithm is found: by
/// Tutti, and by brute force.
///
/// # Errors
/// Fails if a recorded file cannot be read.
pub fn found(collective: Collective, number: usize) -> Result<[f64; 2], String> {
    let noise = noise(None)?;
    let all = scenarios::all(SCENARIOS, SEED);
    let some: Vec<&Scenario> =
        all.iter().filter(|scenario| scenario.collective() == collective).take(number).collect();
    let mut right = [0.0; 2];
    for (seed, scenario) in (SEED..).zip(&some) {
        let play = poisoned(play(&scenario.truth()?, &noise, ITERATIONS));
        for (right, method) in right.iter_mut().zip([METHODS[0], BRUTE_FORCE]) {
            let is_right = score(collective, &play, method, seed).to_best <= RIGHT;
            *right += f64::from(u8::from(is_right)) / some.len() as f64;
        }
    }
    Ok(right)
}

fn noise(path: Option<&Path>) -> Result<Noise, String> {
    let text = match path {
        None => RECORDED.to_string(),
        Some(path) => {
            let read = files::read_text_or_pipe(path, NOISE_BYTES);
            read.map_err(|error| format!("cannot read {}: {error}", path.display()))?
        }
    };
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let times: Vec<f64> = lines.filter_map(|line| line.trim().parse().ok()).collect();
    let middle = median(&times).filter(|middle| *middle > 0.0).ok_or("no times are recorded there")?;
    Ok(Noise::recorded(times.into_iter().map(|time| time / middle).collect()))
}

/// Describes a scenario with the times of its alternatives, the default first.
fn described(scenario: &Scenario, truth: &Truth) -> String {
    let play = play(truth, &Noise::even(0.0), 1);
    let periods: Vec<f64> = (0..truth.alternatives.len()).map(|way| play.period_ns(way) / 1e3).collect();
    let best = periods.iter().copied().fold(f64::INFINITY, f64::min);
    let line = scenario.line();
    format!("{line}: {} ways, best {best:.1} us, default {:.1}\n", periods.len(), periods[0])
}

/// Returns the loop with the unchanged model.
fn play(truth: &Truth, noise: &Noise, iterations: u32) -> Play {
    Play {
        alternatives: truth.alternatives.clone(),
        inside: truth.inside.iter().map(|ranks| ranks.iter().map(|one| one * 1e9).collect()).collect(),
        outside: vec![truth.computing * 1e9; truth.alternatives.len()],
        iterations,
        noise: noise.clone(),
        latency: 1,
    }
}

/// Returns the loop with a poisoned model, in which the worst alternative is the default.
fn poisoned(mut play: Play) -> Play {
    let periods: Vec<f64> = (0..play.alternatives.len()).map(|way| play.period_ns(way)).collect();
    let (mut worst, mut most) = (0, 0.0);
    for (way, period) in periods.iter().enumerate() {
        if *period > most {
            (worst, most) = (way, *period);
        }
    }
    for (alternative, period) in play.alternatives.iter_mut().zip(&periods) {
        alternative.prior_s = (2.0 * most - period) * 1e-9;
    }
    play.alternatives.swap(0, worst);
    play.inside.swap(0, worst);
    play.outside.swap(0, worst);
    play
}

fn best_ns(play: &Play) -> f64 {
    (0..play.alternatives.len()).map(|way| play.period_ns(way)).fold(f64::INFINITY, f64::min)
}

fn table(
    options: &TuningOptions,
    truths: &[(Collective, Truth)],
    noise: &Noise,
    is_poisoned: bool,
) -> String {
    let plays: Vec<(Collective, Play)> = truths
        .iter()
        .map(|(collective, truth)| (*collective, play(truth, noise, options.iterations)))
        .map(|(collective, play)| (collective, if is_poisoned { poisoned(play) } else { play }))
        .collect();
    let model = if is_poisoned { "a poisoned model: the default is the worst" } else { "the model as it is" };
    let mut text = format!(
        "\n{model}\n  {:34} {:>7} {:>12} {:>12} {:>12} {:>9}\n",
        "", "right", "to the best", "loop: mean", "worst", "learning"
    );
    let mut own = Vec::new();
    for method in METHODS {
        let seeds = options.seed..;
        let scores: Vec<Score> =
            plays.iter().zip(seeds).map(|((of, play), seed)| score(*of, play, method, seed)).collect();
        text += &row(method.name, &scores);
        if method.is_own {
            own = scores;
        }
    }
    let chance: f64 = plays.iter().map(|(_, play)| chance(play)).sum::<f64>() / plays.len() as f64;
    let _ = writeln!(text, "  {:34} {:>5.1} %", "one at random", chance * 100.0);
    for collective in [Collective::Bcast, Collective::Alltoall, Collective::Allreduce, Collective::Allgather]
    {
        let of: Vec<&Score> = own.iter().filter(|score| score.collective == collective).collect();
        let right = of.iter().filter(|score| score.to_best <= RIGHT).count();
        let _ = writeln!(text, "  Tutti, i{collective}: right in {right} of {}", of.len());
    }
    text + &if is_poisoned { String::new() } else { short(options, &plays) }
}

/// Returns the loss of short loops by tuning, as text.
fn short(options: &TuningOptions, plays: &[(Collective, Play)]) -> String {
    let mut text = String::new();
    for iterations in SHORT {
        let ratio = |((of, play), seed): (&(Collective, Play), u64)| {
            score(*of, &Play { iterations, ..play.clone() }, METHODS[0], seed).to_default
        };
        let worst = plays.iter().zip(options.seed..).map(ratio).fold(0.0, f64::max);
        let _ = writeln!(text, "  Tutti, loops of {iterations}: at worst {worst:.3} of the default");
    }
    text
}

/// Returns the probability, 0 to 1, that an alternative chosen at random is right: that its time is at most
/// [`RIGHT`] times that of the best one.
fn chance(play: &Play) -> f64 {
    let (number, most) = (play.alternatives.len(), best_ns(play) * RIGHT);
    (0..number).filter(|way| play.period_ns(*way) <= most).count() as f64 / number as f64
}

fn score(collective: Collective, play: &Play, method: Method, seed: u64) -> Score {
    let outcome = method.run(play, seed);
    Score {
        collective,
        to_best: play.period_ns(outcome.chosen) / best_ns(play),
        to_default: outcome.total_ns / outcome.default_ns,
        learning: outcome.course.len() as u32,
    }
}

fn row(name: &str, scores: &[Score]) -> String {
    let right = scores.iter().filter(|score| score.to_best <= RIGHT).count();
    let mean = |of: fn(&Score) -> f64| {
        (scores.iter().map(|score| of(score).ln()).sum::<f64>() / scores.len() as f64).exp()
    };
    let worst = scores.iter().map(|score| score.to_default).fold(0.0, f64::max);
    let learning: Vec<f64> = scores.iter().map(|score| f64::from(score.learning)).collect();
    format!(
        "  {name:34} {:>5.1} % {:>12.3} {:>12.3} {worst:>12.3} {:>9.0}\n",
        100.0 * right as f64 / scores.len() as f64,
        mean(|score| score.to_best),
        mean(|score| score.to_default),
        median(&learning).unwrap_or(0.0)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks in some scenarios with a poisoned model that the learned choice is better than the default.
    #[test]
    fn the_best_is_found_in_what_is_simulated() {
        let noise = Noise::even(0.05);
        for scenario in scenarios::all(40, 3).iter().filter(|one| one.is_light()) {
            let truth = scenario.truth().expect("the machines are recorded");
            let play = poisoned(play(&truth, &noise, 4000));
            let outcome = METHODS[1].run(&play, 1);
            let ratio = play.period_ns(outcome.chosen) / best_ns(&play);
            assert!(ratio < 1.25, "{}: {ratio}", scenario.line());
            assert!((0.0..=1.0).contains(&chance(&play)));
        }
    }

    #[test]
    fn one_that_does_nothing_takes_the_default() {
        let play = Play {
            alternatives: vec![tutti_coll::tune::Alternative {
                attributes: tutti_coll::tune::Attributes([0; 4]),
                prior_s: 1.0,
                warm_up: 0,
                once_ns: 0.0,
            }],
            inside: vec![vec![10.0, 20.0]],
            outside: vec![5.0],
            iterations: 4,
            noise: Noise::even(0.0),
            latency: 0,
        };
        let outcome = METHODS[5].run(&play, 1);
        assert_eq!((outcome.total_ns, outcome.default_ns, outcome.chosen), (100.0, 100.0, 0));
    }
}
