//! Headlines of S8 and S9 (Yu 2006, chapters 5 and 6), measured on virtual hosts of this machine (`tutti
//! testbed`) with one rank each. They compare multicast payloads with the best way without, and the kernel's
//! packet program (`tutti netd` on each host) with processes. The hosts share processors, so concurrent work
//! of several hosts is serialised. Effects of many hosts are simulated ([`super::list`]).

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::outcome::{Outcome, Value};
use crate::commands::hosts::Raised;
use crate::measure::crew::{Crew, Pace, Rounds};
use crate::measure::library::Library;
use crate::measure::programs::Programs;
use crate::measure::results::{Measure, Results};
use crate::measure::sample::Cell;
use crate::measure::session::Ask;

/// A way: its name, and settings of its jobs.
type Way = (&'static str, &'static [(&'static str, &'static str)]);

/// Headline about several hosts, with its two measurements.
pub struct Row {
    /// System of the papers.
    pub system: &'static str,
    /// Claim of the paper.
    pub claim: &'static str,
    /// The operation, for the table.
    pub operation: &'static str,
    /// Operation for `tutti-bench`. A barrier follows each broadcast, so that those of one root do not overlap.
    op: &'static str,
    /// Bytes of its vector.
    pub bytes: u64,
    hosts: u32,
    rate: &'static str,
    /// Ratio of the speeds in the paper.
    pub paper: Option<f64>,
    ways: [Way; 2],
}

const MULTICAST: Way = ("multicast", &[("TUTTI_MULTICAST", "on"), ("TUTTI_OFFLOAD", "off")]);
const KERNEL: Way = ("kernel", &[("TUTTI_MULTICAST", "off"), ("TUTTI_OFFLOAD", "on")]);
const PROCESSES: Way = ("processes", &[("TUTTI_MULTICAST", "off"), ("TUTTI_OFFLOAD", "off")]);

const fn multicast(op: &'static str, bytes: u64, hosts: u32) -> Row {
    let (system, claim, operation, rate) = ("S8", "multicast over point-to-point", "bcast", "1gbit");
    Row { system, claim, operation, op, bytes, hosts, rate, paper: None, ways: [MULTICAST, PROCESSES] }
}

const fn in_kernel(op: &'static str, bytes: u64, hosts: u32, paper: Option<f64>) -> Row {
    let (system, claim, rate) = ("S9", "in the kernel over processes", "");
    Row { system, claim, operation: op, op, bytes, hosts, rate, paper, ways: [KERNEL, PROCESSES] }
}

/// Headlines about several hosts, grouped by testbed. The paper's barrier has 16 nodes.
pub static ROWS: [Row; 8] = [
    multicast("bcast@64K+barrier@8", 64 << 10, 4),
    multicast("bcast@1M+barrier@8", 1 << 20, 4),
    multicast("bcast@64K+barrier@8", 64 << 10, 8),
    multicast("bcast@1M+barrier@8", 1 << 20, 8),
    in_kernel("barrier", 0, 4, None),
    in_kernel("allreduce", 8, 4, None),
    in_kernel("barrier", 0, 8, Some(2.64)),
    in_kernel("allreduce", 8, 8, None),
];

/// Measures all rows that the user selected, and calls `tell` with the result of each at once.
pub fn measure(
    tutti: &Library,
    programs: &Programs,
    (home, pace): (&Path, Pace),
    wanted: &[&Row],
    mut rounds: impl FnMut(usize) -> Rounds,
    mut tell: impl FnMut(&Row, &Outcome),
) {
    let mut number = 0;
    for rows in wanted.chunk_by(|one, two| (one.hosts, one.rate) == (two.hosts, two.rate)) {
        let made = Raised::new(rows[0].hosts, rows[0].rate, &[home, &programs.directory]);
        let daemons = made.as_ref().map_err(String::clone).and_then(|made| Daemons::start(made, home));
        for row in rows {
            let value = match (&made, &daemons) {
                (Ok(made), Ok(_)) => of_row(tutti, programs, made, pace, row, rounds(number)),
                (Err(why), _) | (_, Err(why)) => Err(why.clone()),
            };
            number += 1;
            tell(row, &Outcome { ranks: format!("{} hosts", row.hosts), value });
        }
    }
}

fn of_row(
    tutti: &Library,
    programs: &Programs,
    made: &Raised,
    pace: Pace,
    row: &Row,
    rounds: Rounds,
) -> Result<Value, String> {
    let place = made.place(row.hosts, 1);
    let variants = row.ways.map(|(name, settings)| {
        let settings: Vec<_> =
            settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        tutti.on_hosts(&place).variant(name, &settings)
    });
    let members = variants.iter().map(|one| (one, programs.path_of("tutti-bench", one))).collect();
    let mut crew = Crew::new(members, row.hosts, &programs.directory, pace);
    let ask = Ask { op: row.op.to_string(), mode: "plain".to_string(), bytes: row.bytes };
    let mut results = Results::default();
    rounds.run(|round| crew.measure(&ask, round, &mut results));
    let cell = Cell { op: ask.op, mode: ask.mode, ranks: row.hosts, bytes: row.bytes };
    let time = |place: usize, measure| {
        let found = results.time(&cell, &variants[place].name, measure);
        found.ok_or_else(|| results.failures.join("; "))
    };
    let ratio = |measure| Ok::<_, String>(time(1, measure)? / time(0, measure)?);
    let (least, median) = (ratio(Measure::Least)?, ratio(Measure::Median)?);
    let how =
        [0, 1].map(|place| Ok(format!("{} {:.0} us", variants[place].name, time(place, Measure::Median)?)));
    Ok(Value {
        least,
        median,
        other: None,
        // Operations of several hosts on these processors are judged by their median time.
        reached: median >= row.paper.unwrap_or(1.0),
        how: how.into_iter().collect::<Result<Vec<_>, String>>()?.join(", "),
    })
}

/// `tutti netd` on each host, for as long as this lives.
struct Daemons(Vec<Child>);

impl Daemons {
    fn start(made: &Raised, home: &Path) -> Result<Daemons, String> {
        let mut daemons = Daemons(Vec::new());
        for words in made.enter_each() {
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]).arg(home.join("bin").join("tutti")).arg("netd");
            let spawned = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
            let mut child = spawned.map_err(|error| format!("tutti netd: {error}"))?;
            let output = child.stdout.take().expect("it is piped");
            daemons.0.push(child);
            let mut said = String::new();
            let heard = BufReader::new(output).read_line(&mut said);
            if heard.is_err() || !said.contains("ready") {
                return Err("`tutti netd` does not start here".to_string());
            }
        }
        Ok(daemons)
    }
}

impl Drop for Daemons {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
