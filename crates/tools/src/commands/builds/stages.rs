//! Stages of a comparison of builds: which cells are measured, on which hosts and ranks. Pure.

use crate::commands::files;
use crate::commands::hosts::BETWEEN_TWO;
use crate::measure::cells::{asks, has_blocks};
use crate::measure::job_end::VICTIM_RANKS;
use crate::measure::options::{CompareOptions, IN_THREADS};
use crate::measure::session::Ask;

/// Parts of a comparison, as `--parts` names them.
pub const PARTS: [&str; 4] = ["host", "hosts", "files", "jobs"];
/// Hosts of the testbed.
pub const HOSTS: u32 = 4;
/// Smallest block, in bytes, of an operation whose vector is divided among the ranks.
const LEAST_BLOCK: u64 = 8;
/// Start of a job, as an operation of [`Kind::Jobs`]: init, barrier, finalize.
pub const START: &str = "start";
/// Time from the death of a rank to the end of its job, as an operation of [`Kind::Jobs`].
pub const KILLED: &str = "end-after-kill";

/// Way in which the cells of a stage are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Operations of this benchmark program, in jobs that serve cells.
    Operations(&'static str),
    /// Files in memory, by `files-bench`.
    Files,
    /// Jobs from start to end.
    Jobs,
}

/// Cells that the same jobs measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Way in which its cells are measured.
    pub kind: Kind,
    /// Number of hosts; 1 is this machine itself.
    pub hosts: u32,
    /// Number of ranks on all hosts together.
    pub ranks: u32,
    /// Cells in their order.
    pub asks: Vec<Ask>,
}

impl Stage {
    /// Returns the heading of the stage.
    pub fn title(&self) -> String {
        let what = match self.kind {
            Kind::Operations("rate-bench") => "threads, ",
            Kind::Operations(_) => "",
            Kind::Files => "files, ",
            Kind::Jobs => "jobs, ",
        };
        match self.hosts {
            1 => format!("{what}1 host x {}", self.ranks),
            hosts => format!("{what}{hosts} hosts x {}", self.ranks / hosts),
        }
    }

    /// Seconds that a round of each cell takes, for the estimate before the first one. The first cell starts
    /// the jobs.
    pub fn planned_seconds(&self, ms: u32, members: usize) -> Vec<f64> {
        let members = members as f64;
        let cell_s = f64::from(ms) * 1e-3 * members;
        let (start_s, cell_s) = match (self.kind, self.hosts) {
            (Kind::Jobs, _) => (0.5 * members, 0.0),
            (_, 1) => (0.2 * members, 2.0 * cell_s),
            _ => (members, 10.0 * cell_s),
        };
        (0..self.asks.len()).map(|cell| if cell == 0 { start_s + cell_s } else { cell_s }).collect()
    }
}

/// Returns the stages of the parts that are wanted. `several_hosts`: a testbed is there.
pub fn stages(options: &CompareOptions, parts: &[String], quick: bool, several_hosts: bool) -> Vec<Stage> {
    let wants = |part: &str| parts.is_empty() || parts.iter().any(|one| one == part);
    let hosts = options.hosts.unwrap_or(HOSTS);
    let on_hosts = hosts * options.ranks_per_host;
    let mut all = Vec::new();
    for &ranks in options.ranks.iter().filter(|_| wants("host")) {
        all.push(operations("tutti-bench", 1, ranks, options, |op| op != IN_THREADS));
        all.push(operations("rate-bench", 1, ranks, options, |op| op == IN_THREADS));
    }
    if several_hosts && wants("hosts") {
        all.push(operations("tutti-bench", 2, 2, options, |op| BETWEEN_TWO.contains(&op)));
        let among_all = |op: &str| !BETWEEN_TWO.contains(&op) && op != IN_THREADS;
        all.push(operations("tutti-bench", hosts, on_hosts, options, among_all));
    }
    for &ranks in options.ranks.iter().filter(|_| wants("files")) {
        all.push(Stage { kind: Kind::Files, hosts: 1, ranks, asks: files::asks_of_builds(quick) });
    }
    if wants("jobs") && options.start_ranks > 0 {
        all.push(jobs(1, options.start_ranks, START));
        all.push(jobs(1, VICTIM_RANKS, KILLED));
    }
    if several_hosts && wants("jobs") && options.start_ranks > 0 {
        all.push(jobs(hosts, on_hosts, START));
    }
    all.retain(|stage| !stage.asks.is_empty());
    all
}

fn operations(
    program: &'static str,
    hosts: u32,
    ranks: u32,
    options: &CompareOptions,
    wanted: impl Fn(&str) -> bool,
) -> Stage {
    let of_ranks = |ask: Ask| Ask {
        bytes: if has_blocks(&ask.op) { block(ask.bytes, ranks) } else { ask.bytes },
        ..ask
    };
    let asks = asks(options).into_iter().filter(|ask| wanted(&ask.op)).map(of_ranks).collect();
    Stage { kind: Kind::Operations(program), hosts, ranks, asks }
}

/// Returns the bytes of one of `ranks` equal blocks of a vector: so an alltoall of many ranks does not take a
/// hundred times as long as the other cells of its size.
fn block(bytes: u64, ranks: u32) -> u64 {
    (bytes / u64::from(ranks) / LEAST_BLOCK * LEAST_BLOCK).max(LEAST_BLOCK)
}

fn jobs(hosts: u32, ranks: u32, op: &str) -> Stage {
    let ask = Ask { op: op.to_string(), mode: "plain".to_string(), bytes: 0 };
    Stage { kind: Kind::Jobs, hosts, ranks, asks: vec![ask] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line;

    fn shown(words: &str, parts: &[&str], several_hosts: bool) -> Vec<String> {
        let options = command_line::options::<CompareOptions>(words).expect("options");
        let parts: Vec<String> = parts.iter().map(ToString::to_string).collect();
        let stages = stages(&options, &parts, true, several_hosts);
        let ask = |ask: &Ask| format!("{}@{}", ask.op, ask.bytes);
        let stage = |stage: &Stage| {
            format!("{}: {}", stage.title(), stage.asks.iter().map(ask).collect::<Vec<_>>().join(" "))
        };
        stages.iter().map(stage).collect()
    }

    #[test]
    fn stages_are_those_of_the_parts_that_are_wanted() {
        let words = "--ops latency,bcast,alltoall,rate --sizes 8,8K --ranks 4 --modes plain --hosts 4 \
                     --ranks-per-host 4";
        let on_one = [
            "1 host x 4: latency@8 latency@8192 bcast@8 bcast@8192 alltoall@8 alltoall@2048",
            "threads, 1 host x 4: rate@8 rate@8192",
        ];
        assert_eq!(shown(words, &["host"], true), on_one);
        let on_hosts = [
            "2 hosts x 1: latency@8 latency@8192",
            "4 hosts x 4: bcast@8 bcast@8192 alltoall@8 alltoall@512",
        ];
        assert_eq!(shown(words, &["hosts"], true), on_hosts);
        assert!(shown(words, &["hosts"], false).is_empty());
        let jobs = [
            "jobs, 1 host x 32: start@0",
            "jobs, 1 host x 4: end-after-kill@0",
            "jobs, 4 hosts x 4: start@0",
        ];
        assert_eq!(shown(words, &["jobs"], true), jobs);
        let files = shown(words, &["files"], true);
        assert!(files.len() == 1 && files[0].starts_with("files, 1 host x 4: write_"), "{files:?}");
        assert_eq!(shown(words, &[], true).len(), 8);
        assert!(shown("--ops rate --ranks 2 --start-ranks 0", &["jobs"], true).is_empty());
    }

    #[test]
    fn a_vector_is_divided_into_whole_blocks() {
        assert_eq!(
            [(8, 16), (8192, 3), (8192, 16), (1 << 20, 8)].map(|(bytes, ranks)| block(bytes, ranks)),
            [8, 2728, 512, 128 << 10]
        );
    }
}
