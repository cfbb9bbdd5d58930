//! Costs of the network between two hosts, for `tutti probe --hosts` and comparisons on several hosts. Two
//! ranks, one on each host, measure messages; the parameters of the model are fitted to their times.

use std::path::Path;
use std::time::Duration;

use tutti_coll::Model;
use tutti_coll::model::DISTANCES;

use crate::measure::library::{HostSet, Library};
use crate::measure::programs::Programs;
use crate::measure::run::{self, End};
use crate::measure::sample::{self, Sample};

/// A message that is nothing but overhead, and one that is nothing but bytes.
const SHORT: u64 = 8;
const LONG: u64 = 1 << 20;
const LIMIT: Duration = Duration::from_secs(120);

/// Measures between the first two hosts of `place`, and sets the resulting parameters of `model`.
///
/// # Errors
/// Fails if the job does not run, or prints nothing.
pub fn probe(tutti: &Library, programs: &Programs, place: &HostSet, model: &mut Model) -> Result<(), String> {
    let hosts: Vec<String> = place.hosts.iter().take(2).cloned().collect();
    if hosts.len() < 2 {
        return Err("a network is probed between two hosts".to_string());
    }
    let two = tutti.on_hosts(&HostSet { hosts, per_host: 1, ..place.clone() });
    let mut command = two.command(2, &programs.path_of("tutti-bench", &two));
    let sizes = format!("{SHORT},{LONG}");
    command.args(["--op", "latency,bandwidth", "--sizes", &sizes, "--ms", "200"]);
    let outcome = run::run(&mut command, LIMIT)?;
    if outcome.end != End::Exit(0) {
        return Err(format!("two ranks on two hosts: {}", outcome.errors.join("\n")));
    }
    let samples: Vec<Sample> = outcome.lines.iter().filter_map(|line| sample::parse(line)).collect();
    explain(&samples, model)
}

/// Writes the model of a job on several hosts to `directory`, beside programs that all hosts see. Returns its
/// path.
pub fn keep(model: &Model, directory: &Path) -> Result<std::path::PathBuf, String> {
    let path = directory.join("model");
    crate::kept::keep(&path, &model.to_string()).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}

/// Probes the network between the first two hosts of `place`, and returns Tutti with the resulting model, as
/// after `tutti probe --hosts`.
///
/// # Errors
/// Fails like [`probe`], or if the model cannot be stored.
pub fn told(tutti: &Library, programs: &Programs, place: &HostSet) -> Result<Library, String> {
    let mut model = Model::default();
    probe(tutti, programs, place, &mut model)?;
    let path = keep(&model, &programs.directory)?;
    let setting = ("TUTTI_MODEL_FILE".to_string(), path.to_string_lossy().into_owned());
    Ok(tutti.variant(&tutti.name, &[setting]))
}

/// Computes parameters of the model from samples. A message in a window takes the overhead of the sender, or
/// the time of its bytes on the network. A single message takes the overheads of both sides and the latency.
fn explain(samples: &[Sample], model: &mut Model) -> Result<(), String> {
    let seconds = |op: &str, bytes: u64| {
        let found = samples.iter().find(|sample| sample.cell.op == op && sample.cell.bytes == bytes);
        // Disturbances only add time.
        found
            .map(|sample| sample.least * 1e-6)
            .ok_or_else(|| format!("{op} of {bytes} bytes was not measured"))
    };
    let (alone, in_a_row) = (seconds("latency", SHORT)?, seconds("bandwidth", SHORT)?);
    let both = (2.0 * in_a_row).min(0.9 * alone);
    model.network_overhead = (both / 2.0 - model.message_overhead).max(0.0);
    model.message_latency[DISTANCES - 1] = alone - both;
    model.network_bandwidth = LONG as f64 / seconds("bandwidth", LONG)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::sample::Cell;

    fn check(times: &[(&str, u64, f64)], expected: Result<[f64; 3], &str>) {
        let sample = |&(op, bytes, us): &(&str, u64, f64)| {
            let cell = Cell { op: op.into(), mode: "plain".into(), ranks: 2, bytes };
            Sample { cell, us: 2.0 * us, least: us, wrong: 0 }
        };
        let samples: Vec<Sample> = times.iter().map(sample).collect();
        let mut model = Model { message_overhead: 1e-6, ..Model::default() };
        let found = explain(&samples, &mut model);
        match (found, expected) {
            (Ok(()), Ok(wanted)) => {
                let got =
                    [model.network_overhead, model.message_latency[DISTANCES - 1], model.network_bandwidth];
                let near = |(one, two): (&f64, &f64)| (one - two).abs() <= 1e-9 * two.abs();
                assert!(got.iter().zip(&wanted).all(near), "{got:?}");
            }
            (Err(message), Err(part)) => assert!(message.contains(part), "{message}"),
            (got, _) => panic!("{got:?}"),
        }
    }

    #[test]
    fn times_of_messages_explain_a_network() {
        let long = ("bandwidth", LONG, 1e4);
        let bandwidth = LONG as f64 / 1e-2;
        check(&[("latency", 8, 20.0), ("bandwidth", 8, 3.0), long], Ok([2e-6, 14e-6, bandwidth]));
        check(&[("latency", 8, 20.0), ("bandwidth", 8, 15.0), long], Ok([8e-6, 2e-6, bandwidth]));
        check(&[("latency", 8, 20.0), long], Err("bandwidth of 8 bytes"));
    }
}
