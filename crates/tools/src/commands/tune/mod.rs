//! `tutti tune`: measures whole operations by every algorithm, compares the times with the predictions of the
//! model, and stores corrections.
//!
//! The parameters of the model are measured one by one. Their combination in an operation is an assumption of
//! the simulator. Here each cell (an operation, a size, a number of ranks) is measured by all algorithms that
//! may be the best, in turns, over several rounds. The correction of an algorithm is the ratio of measured to
//! predicted time ([`tutti_coll::model::Correction`]). Selection multiplies its predictions by it. The table
//! shows the cells in which the model alone chooses well, and the losses in others.
//!
//! On several hosts ([`TuneOptions::hosts`]), segment lengths of levels that overlap are measured too: the
//! few best ones. A correction then belongs to a length, and selection takes the fastest.
//!
//! A job forces one algorithm of every collective. So there are as many jobs as the largest number of
//! algorithms of a collective.

mod measure;
mod options;
mod row;
mod table;

use std::time::{Duration, Instant};

use tutti_base::Machines;
use tutti_base::config::Config;
use tutti_coll::generator::{Need, Segmentation};
use tutti_coll::model::variant;
use tutti_coll::select::{refusal, variants};
use tutti_coll::{Collective, Environment, Generator, Model, Params, Shape, registry, select};
use tutti_sys::files;

use crate::commands::info::{choice, job};
use crate::commands::sim::Operation;
use crate::measure::cells::has_no_data;
use crate::measure::library::{HostSet, Library, home};
use crate::measure::options::Sizes;
use crate::measure::programs::Programs;
use crate::measure::run;

pub use options::TuneOptions;

use measure::measure;
use row::{Row, Tried};
use table::{merged, summary, table};

/// Number of segment lengths of an algorithm that are measured: the best ones by the model.
const SEGMENTS: usize = 4;

/// Measures, prints the table, and keeps the corrections.
///
/// # Errors
/// Fails if Tutti is not installed, a program does not compile, or the model cannot be read or written.
pub fn run(options: &TuneOptions) -> Result<(), String> {
    let config = Config::from_env().map_err(|error| error.to_string())?;
    let path = options.out.clone().or_else(|| crate::kept::default_path(&config));
    let text = path
        .as_ref()
        .and_then(|path| files::read_text(path, crate::kept::MODEL_BYTES).ok())
        .unwrap_or_default();
    let in_force = Model::parse(&text).map_err(|error| error.to_string())?;
    let model = if options.regret { in_force } else { Model { corrections: Vec::new(), ..in_force } };
    let home = home()?;
    let tutti = Library::find("tutti", &home, &home)?;
    let programs = Programs::build(&options.programs, std::slice::from_ref(&tutti))?;
    let (start, mut rows) = (Instant::now(), Vec::new());
    let place = options.place();
    let stages = place.as_ref().map_or(options.ranks.clone(), |place| vec![place.ranks()]);
    let tutti = place.as_ref().map_or(tutti.clone(), |place| tutti.on_hosts(place));
    for (stage, &ranks) in stages.iter().enumerate() {
        let left = options.budget.saturating_sub(start.elapsed()) / (stages.len() - stage) as u32;
        let environment = match &place {
            Some(place) => {
                let of = |rank: u32| rank / place.per_host;
                let hosts: Vec<u32> = (0..place.ranks()).map(of).collect();
                choice::environment_on(&hosts, &machines(&tutti, place)?, &config, model.clone())
            }
            None => choice::environment(ranks, &config, model.clone()),
        };
        let mut own = plan(options, ranks, &environment)?;
        measure(options, &tutti, &programs, left, &mut own);
        crate::output::show(&table(&own, options.explain));
        rows.extend(own);
    }
    let basis = if options.regret { "the choice in force" } else { "the model alone" };
    crate::output::show(&summary(basis, &rows));
    if options.dry || options.regret {
        return Ok(());
    }
    let path = path.ok_or("neither --out nor TUTTI_MODEL_FILE nor HOME says where to keep the model")?;
    crate::kept::keep(&path, &merged(&text, &rows))
        .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    crate::output::show(&format!("kept in {}\n", path.display()));
    Ok(())
}

/// Returns the machine of each host, by running `tutti info --machines` as a job on all hosts.
fn machines(tutti: &Library, place: &HostSet) -> Result<Machines, String> {
    let program = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let outcome = run::run(tutti.command(place.ranks(), &program).args(["info", "--machines"]), LIMIT)?;
    let said = outcome.lines.iter().find_map(|line| job::read(line, place.hosts.len()));
    said.ok_or_else(|| {
        format!("a job on {} prints no machines: {}", place.hosts.join(","), outcome.errors.join("\n"))
    })
}

/// Time limit of a job that only prints a description.
const LIMIT: Duration = Duration::from_secs(120);

/// Returns the rows to measure, with predictions of all algorithms.
fn plan(options: &TuneOptions, ranks: u32, environment: &Environment) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for collective in collectives(&options.ops) {
        let nothing = Sizes::new(vec![0]);
        let sizes = if has_no_data(collective.name()) { &nothing } else { &options.sizes };
        for &bytes in sizes.iter() {
            let operation = Operation { collective, bytes, ranks, ordered: false, model: None };
            rows.push(predicted(&operation, environment, options.hopeless));
        }
    }
    Ok(rows)
}

/// Returns the requested collectives, or by default all whose blocks have one size.
fn collectives(wanted: &[Collective]) -> Vec<Collective> {
    use Collective as C;
    if !wanted.is_empty() {
        return wanted.to_vec();
    }
    let sized = |one: &C| !matches!(one, C::Gatherv | C::Scatterv | C::Alltoallv | C::Exscan);
    C::ALL.into_iter().filter(sized).collect()
}

fn predicted(operation: &Operation, environment: &Environment, hopeless: f64) -> Row {
    let shape = operation.shape();
    let possible = registry()
        .iter()
        .filter(|one| one.collective == shape.collective && refusal(one, &shape, environment).is_none());
    let mut tried: Vec<Tried> =
        possible.flat_map(|generator| segmented(generator, &shape, environment)).collect();
    let choice = select(&shape, environment, None);
    let segment = by_segments(choice.generator).then_some(choice.params.segment * shape.unit_bytes);
    let chosen = variant(choice.generator.name, segment);
    let least = tried.iter().map(|one| one.predicted).fold(f64::INFINITY, f64::min);
    tried.retain(|one| one.predicted <= hopeless * least || one.name() == chosen);
    let Operation { collective, ranks, bytes, .. } = *operation;
    Row { collective, ranks, hosts: environment.layout.hosts(), bytes, chosen, tried }
}

/// Returns true if segments of several lengths are measured. They matter most where levels overlap.
fn by_segments(generator: &Generator) -> bool {
    generator.requires(Need::SeveralHosts)
        && generator.parameters.segments().is_some_and(|kind| kind != Segmentation::Frames)
}

/// Returns an algorithm with its best parameters, or the best ones for the best few lengths of segments.
fn segmented(generator: &'static Generator, shape: &Shape, environment: &Environment) -> Vec<Tried> {
    let tried = |segment: Option<u64>, params: Params, predicted: f64| {
        let (algorithm, params) = (generator.name, params.to_string());
        Tried { algorithm, segment, params, predicted, rounds: Vec::new(), measured: None }
    };
    let choice = select(shape, environment, Some(generator.name));
    if !by_segments(generator) {
        return vec![tried(None, choice.params, choice.time)];
    }
    // The present choice is measured in any case.
    let chosen = choice.params.segment;
    let others = variants(generator, shape, environment).into_iter().map(|one| (one.params, one.time));
    let others = others.filter(|(params, _)| params.segment != chosen).take(SEGMENTS - 1);
    std::iter::once((choice.params, choice.time))
        .chain(others)
        .map(|(params, time)| tried(Some(params.segment * shape.unit_bytes), params, time))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_of_several_lengths_are_measured_across_hosts() {
        let hosts: Vec<u32> = (0..16).map(|rank| rank / 4).collect();
        let machines = Machines::apart(4, 2);
        let environment = choice::environment_on(&hosts, &machines, &Config::default(), Model::default());
        let environment = Environment { node: tutti_coll::generator::Node::Exposed, ..environment };
        let operation = Operation {
            collective: Collective::Bcast,
            bytes: 4 << 20,
            ranks: 16,
            ordered: false,
            model: None,
        };
        let row = predicted(&operation, &environment, 100.0);
        let lengths = row.tried.iter().filter(|one| one.algorithm == "levels");
        assert_eq!(lengths.filter(|one| one.segment.is_some()).count(), SEGMENTS, "{row:?}");
        assert!(row.tried.iter().any(|one| one.name() == row.chosen), "{row:?}");
        assert!(row.tried.iter().all(|one| one.segment.is_none() || one.algorithm.starts_with("levels")));
        assert_eq!(row.hosts, 4);
    }
}
