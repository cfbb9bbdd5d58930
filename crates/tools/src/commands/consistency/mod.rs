//! `tutti consistency`: checks that no operation is slower than others that do its work. No operation may
//! become much slower between neighbouring sizes or numbers of ranks. The forms of an operation must be
//! equally fast, and operations must be close to the speed of the machine itself.
//!
//! All cells are measured in turns in one run, together with references that do the same without MPI in the
//! same processes (`reference.h`). [`rules`] contains the rules, [`check`] applies them. Only violations are
//! printed, with their ratios.

mod check;
mod rules;

use crate::measure::awake::{Awake, NOTE};
use crate::measure::cells::has_no_data;
use crate::measure::crew::{Crew, Pace, Rounds};
use crate::measure::library::{Library, home};
use crate::measure::machine;
use crate::measure::options::{FORMS, Sizes, parse_sizes, parse_time, positive};
use crate::measure::programs::Programs;
use crate::measure::results::Results;
use crate::measure::session::Ask;
use crate::output::{FOLDER, folder};
use check::{Finding, SUBJECT, Times};
use clap::Args;
use rules::RULES;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Options of `tutti consistency`.
#[derive(Args, Clone, Debug)]
pub struct ConsistencyOptions {
    /// Numbers of ranks on which operations are held against each other.
    #[arg(long, value_delimiter = ',', default_values_t = [2, 4, 8], value_parser = clap::value_parser!(u32).range(1..))]
    ranks: Vec<u32>,
    /// Numbers of ranks that are held against each other, at some sizes.
    #[arg(long, value_delimiter = ',', default_values_t = [2, 3, 4, 5, 6, 7, 8], value_parser = clap::value_parser!(u32).range(1..))]
    neighbours: Vec<u32>,
    /// Sizes in bytes, as a list or as MIN:MAX[:FACTOR]; with a factor of 2 sizes have neighbours.
    #[arg(long, default_value = "8:4M:2", value_parser = parse_sizes)]
    sizes: Sizes,
    /// Sizes of the non-blocking and persistent forms, and of the neighbouring numbers of ranks.
    #[arg(long, default_value = "8,1K,64K,1M", value_parser = parse_sizes)]
    some_sizes: Sizes,
    /// Rounds over all cells.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Instead: as many rounds as fit into this time.
    #[arg(long, value_parser = parse_time)]
    budget: Option<Duration>,
    /// Time for one cell, in milliseconds.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    ms: u32,
    /// Ratio of a time to its limit above which a rule is violated, by least and by median times
    #[arg(long, default_value_t = 1.1, value_parser = positive)]
    tolerance: f64,
    /// Print all comparisons, not only violations.
    #[arg(long)]
    all: bool,
    /// Directory for programs and the list.
    #[arg(long, value_name = "FOLDER", default_value = FOLDER, value_parser = folder)]
    out: PathBuf,
}

/// A group of findings under one title.
struct Section {
    title: &'static str,
    findings: Vec<Finding>,
}

/// Measures, prints the violations, and writes them to `consistency.txt`.
///
/// # Errors
/// Fails if Tutti is not installed, or the program does not compile.
pub fn run(options: &ConsistencyOptions) -> Result<(), String> {
    let home = home()?;
    let tutti = Library::find(SUBJECT, &home, &home)?;
    let programs = Programs::build(&options.out, std::slice::from_ref(&tutti))?;
    let awake = Awake::begin();
    let mut results = Results::new(awake.is_some());
    measure(options, &tutti, &programs, &mut results);
    let text = machine::processor_line() + &describe(options, &sections(options, &results), &results);
    crate::output::show(&text);
    let path = options.out.join("consistency.txt");
    std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Measures all cells. The jobs of all numbers of ranks are alive at the same time, as they are compared with
/// each other too.
fn measure(options: &ConsistencyOptions, tutti: &Library, programs: &Programs, results: &mut Results) {
    let pace = Pace { ms: f64::from(options.ms), limit_ms: 1000, timeout: Duration::from_secs(30) };
    let numbers: BTreeSet<u32> = options.ranks.iter().chain(&options.neighbours).copied().collect();
    let mut crews: Vec<_> = numbers
        .into_iter()
        .map(|ranks| {
            let members = vec![(tutti, programs.path_of("tutti-bench", tutti))];
            (Crew::new(members, ranks, &programs.directory, pace), asks(options, ranks))
        })
        .collect();
    let rounds = options.budget.map_or(Rounds::Number(options.rounds), Rounds::Time);
    rounds.run(|round| {
        let begin = Instant::now();
        let most = crews.iter().map(|(_, asks)| asks.len()).max().unwrap_or(0);
        for i in 0..most {
            for (crew, asks) in &mut crews {
                if let Some(ask) = asks.get(i) {
                    crew.measure(ask, round, results);
                }
            }
        }
        eprintln!("round {}: {:.1} s", round + 1, begin.elapsed().as_secs_f64());
    });
}

/// Returns the cells to measure on `ranks` ranks. Cells that all numbers of ranks share come first, so that
/// they are measured at about the same time. Then follow, size by size, the cells that are compared with each
/// other on these ranks. The machine changes its speed within seconds, so cells far apart in a round would
/// differ by that.
fn asks(options: &ConsistencyOptions, ranks: u32) -> Vec<Ask> {
    let mut cells = Vec::new();
    if options.neighbours.contains(&ranks) {
        cells = some(&FORMS, &options.some_sizes);
    }
    if options.ranks.contains(&ranks) {
        let mut own = some(&FORMS, &options.sizes);
        for (rule, &bytes) in
            RULES.iter().flat_map(|rule| options.sizes.iter().map(move |bytes| (rule, bytes)))
        {
            own.extend(rule.sequence(bytes, ranks).map(|sequence| (sequence, bytes)));
        }
        for form in ["", "i", "p"] {
            own.extend(some(&FORMS.map(|op| format!("{form}{op}")), &options.some_sizes));
        }
        own.extend(some(&["line", "bcast", "copy_bcast", "allgather", "copy_allgather"], &[4 << 20]));
        let mut seen = BTreeSet::new();
        own.retain(|cell| seen.insert(cell.clone()));
        own.sort_by_key(|cell| cell.1);
        cells.extend(own);
    }
    cells.into_iter().map(|(op, bytes)| Ask { op, mode: "plain".to_string(), bytes }).collect()
}

/// Returns all pairs of an operation and a size. An operation without data has size 0 only.
fn some(ops: &[impl AsRef<str>], sizes: &[u64]) -> Vec<(String, u64)> {
    let of = |op: &str| if has_no_data(op) { vec![0] } else { sizes.to_vec() };
    ops.iter()
        .map(AsRef::as_ref)
        .flat_map(|op| of(op).into_iter().map(|bytes| (op.to_string(), bytes)))
        .collect()
}

fn sections(options: &ConsistencyOptions, results: &Results) -> Vec<Section> {
    let times: Vec<_> = options.ranks.iter().map(|&ranks| Times { results, ranks }).collect();
    let sizes = &options.sizes;
    let with_data = || FORMS.iter().filter(|op| !has_no_data(op));
    let compositions =
        times.iter().flat_map(|times| sizes.iter().flat_map(|&bytes| times.compositions(bytes)));
    let forms =
        times.iter().flat_map(|times| options.some_sizes.iter().flat_map(|&bytes| times.forms(bytes)));
    let cliffs = times.iter().flat_map(|times| {
        with_data().flat_map(move |op| sizes.iter().flat_map(move |&bytes| times.neighbours(op, bytes)))
    });
    let references = times.iter().flat_map(|times| times.references(4 << 20));
    let section = |title, findings: Vec<Finding>| Section { title, findings };
    vec![
        section("Operations against others that do their work", compositions.collect()),
        section("Forms against the blocking one", forms.collect()),
        section("Neighbouring sizes", cliffs.collect()),
        section("Neighbouring numbers of ranks", by_ranks(options, results)),
        section("Against the machine without MPI", references.collect()),
    ]
}

/// Compares neighbouring numbers of ranks. The step from the number of cores to one more is left out, as
/// everything changes there.
fn by_ranks(options: &ConsistencyOptions, results: &Results) -> Vec<Finding> {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
    let mut findings = Vec::new();
    for pair in options.neighbours.windows(2).filter(|pair| pair[1] <= cores || pair[0] > cores) {
        let (few, more) = (Times { results, ranks: pair[0] }, Times { results, ranks: pair[1] });
        for op in FORMS {
            let sizes = if has_no_data(op) { &[0][..] } else { &options.some_sizes };
            findings.extend(sizes.iter().flat_map(|&bytes| few.one_more(&more, op, bytes)));
        }
    }
    findings
}

fn describe(options: &ConsistencyOptions, sections: &[Section], results: &Results) -> String {
    let mut out = format!(
        "Self-consistency: time by what it may be (least/median); a violation is above {} in both\n",
        options.tolerance
    );
    if results.kept_awake {
        let _ = writeln!(out, "{NOTE}");
    }
    for Section { title, findings } in sections {
        let violated = findings.iter().filter(|one| one.violates(options.tolerance)).count();
        let _ = writeln!(out, "\n{title}: {violated} violations in {} comparisons", findings.len());
        let mut shown: Vec<_> =
            findings.iter().filter(|one| options.all || one.violates(options.tolerance)).collect();
        shown.sort_by(|one, other| other.least.min(other.median).total_cmp(&one.least.min(one.median)));
        for finding in shown {
            let mark = if finding.violates(options.tolerance) { "VIOLATED" } else { "" };
            let Finding { what, least, median } = finding;
            let _ = writeln!(out, "  {what:<72} {least:>6.2}/{median:<6.2} {mark}");
        }
    }
    for failure in &results.failures {
        let _ = writeln!(out, "failure: {failure}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line;

    fn options(line: &str) -> ConsistencyOptions {
        command_line::options(line).expect("options")
    }

    #[test]
    fn what_is_held_against_each_other_is_measured_together() {
        let options = options("--ranks 2 --neighbours 2,3 --sizes 8:32:2 --some-sizes 8");
        let (two, three) = (asks(&options, 2), asks(&options, 3));
        assert_eq!(three.len(), FORMS.len());
        let (both, own) = two.split_at(three.len());
        assert_eq!(both, three);
        assert_eq!(own.iter().collect::<BTreeSet<_>>().len(), own.len());
        assert!(own.is_sorted_by_key(|ask| ask.bytes));
        assert!(two.iter().any(|ask| ask.op == "copy_bcast") && two.iter().any(|ask| ask.op == "pscan"));
    }

    #[test]
    fn only_violations_are_listed() {
        let finding = |what: &str, ratio| Finding { what: what.to_string(), least: ratio, median: ratio };
        let findings = vec![finding("a <= b", 2.0), finding("c <= d", 1.05)];
        let sections = [Section { title: "Title", findings }];
        let text = describe(&options(""), &sections, &Results::default());
        assert!(text.contains("Title: 1 violations in 2 comparisons") && text.contains("a <= b"), "{text}");
        assert!(!text.contains("c <= d"), "{text}");
        assert!(describe(&options("--all"), &sections, &Results::default()).contains("c <= d"));
    }
}
