//! Command line of `tutti bench` and `tutti compare`: the selection of measurements.

use crate::output::{FOLDER, folder};
use clap::Args;
use clap::builder::ArgPredicate::IsPresent;
use std::path::PathBuf;
use std::time::Duration;

/// Options of `bench` and `compare`. With `--build` and `--quick` ([`crate::commands::builds`]) some have
/// other defaults: fewer cells, and as many rounds as a rank test takes.
#[derive(Args, Clone, Debug)]
pub struct CompareOptions {
    /// Operations; `i` before a collective is its non-blocking form, `p` its persistent one; `io`: files
    /// instead (`tutti bench io`).
    #[arg(long, value_delimiter = ',', default_values_t = OPERATIONS.map(String::from),
          default_value_if("quick", IsPresent, QUICK_OPERATIONS), value_parser = operation)]
    pub ops: Vec<String>,
    /// Sizes in bytes (K and M allowed), as a list or as MIN:MAX[:FACTOR]; with --build 8,8K,64K,1M.
    #[arg(long, default_value = "8,64,256,1K,4K,16K,64K,256K,1M,4M,16M", value_parser = parse_sizes,
          default_value_ifs = [("quick", IsPresent, "8,64K"), ("build", IsPresent, "8,8K,64K,1M")])]
    pub sizes: Sizes,
    /// Numbers of ranks.
    #[arg(long, value_delimiter = ',', default_values_t = [2, 4, 8],
          default_value_if("quick", IsPresent, "2,4"), value_parser = clap::value_parser!(u32).range(1..))]
    pub ranks: Vec<u32>,
    /// Same data in each iteration, or data written afresh; with --build the same.
    #[arg(long, value_delimiter = ',', default_values_t = ["plain", "changing"].map(String::from),
          default_value_if("build", IsPresent, "plain"),
          value_parser = ["plain", "changing"])]
    pub modes: Vec<String>,
    /// Libraries (tutti, mpich, mpich-p2p, openmpi, impi, or `before` for another build of Tutti). The first
    /// is compared with the others.
    #[arg(long, value_delimiter = ',')]
    pub libraries: Vec<String>,
    /// Rounds over all cells and libraries; the median counts, and the least. With --build 8, with --quick 6.
    #[arg(long, default_value_t = 3,
          default_value_ifs = [("quick", IsPresent, "6"), ("build", IsPresent, "8")], value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Instead: as many rounds as fit into this time (90s, 10m, 1h), one at least.
    #[arg(long, value_parser = parse_time)]
    pub budget: Option<Duration>,
    /// Time for one cell, in milliseconds.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub ms: u32,
    /// An operation slower than this many milliseconds is not tried with larger sizes.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    pub limit_ms: u32,
    /// A job that takes longer than this many seconds for one cell is killed.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..))]
    pub timeout: u64,
    /// Ranks of the start-up measurement (0: leave out start-up and killed rank).
    #[arg(long, default_value_t = 32)]
    pub start_ranks: u32,
    /// Measure on this number of hosts, which are namespaces of this machine (root only); with --build 4
    #[arg(long, value_parser = clap::value_parser!(u32).range(2..),
          default_value_if("build", IsPresent, "4"))]
    pub hosts: Option<u32>,
    /// Ranks on each of these hosts; with --build 4.
    #[arg(long, default_value_t = 2, requires = "hosts", default_value_if("build", IsPresent, "4"),
          value_parser = clap::value_parser!(u32).range(1..))]
    pub ranks_per_host: u32,
    /// Rate of their links, as tc takes it; unlimited if empty; with --build 1gbit.
    #[arg(long, default_value = "", requires = "hosts", default_value_if("build", IsPresent, "1gbit"))]
    pub rate: String,
    /// Jobs whose start is measured on them, HOSTSxRANKS; none if nothing follows.
    #[arg(long, num_args = 0.., value_delimiter = ',', default_values_t = STARTS, requires = "hosts")]
    pub starts: Vec<Shape>,
    /// Directory of the other libraries, as `make peers` installs them
    #[arg(long, default_value = "build/peers")]
    pub peers: PathBuf,
    /// Directory for the report.
    #[arg(long, value_name = "FOLDER", default_value = FOLDER, value_parser = folder)]
    pub out: PathBuf,
}

/// A job by its hosts and the ranks on each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Number of hosts in the job.
    pub hosts: u32,
    /// Number of ranks on each host.
    pub ranks: u32,
}

const STARTS: [Shape; 3] =
    [Shape { hosts: 4, ranks: 2 }, Shape { hosts: 8, ranks: 4 }, Shape { hosts: 16, ranks: 4 }];

impl Shape {
    /// Returns the name of the event for the start of such a job.
    pub fn event(self) -> String {
        format!("start {self}")
    }
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{}x{}", self.hosts, self.ranks)
    }
}

impl std::str::FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Shape, String> {
        let numbers = text.split_once('x').map(|(hosts, ranks)| (hosts.parse(), ranks.parse()));
        match numbers {
            Some((Ok(hosts), Ok(ranks))) if hosts > 0 && ranks > 0 => Ok(Shape { hosts, ranks }),
            _ => Err(format!("{text:?} is not HOSTSxRANKS, for example 4x2")),
        }
    }
}

/// Sizes in bytes, ascending.
pub type Sizes = std::sync::Arc<Vec<u64>>;

/// The operation of several threads: measured by a program of its own, as their level slows the other
/// operations down.
pub const IN_THREADS: &str = "rate";

/// Operations of `--quick`.
const QUICK_OPERATIONS: &str = "bcast,allreduce,alltoall,barrier,iallreduce,pallreduce,pingpong,put_ring";

const OPERATIONS: [&str; 41] = [
    IN_THREADS,
    "latency",
    "pingpong",
    "bandwidth",
    "bibandwidth",
    "ring",
    "put",
    "put_ring",
    "get",
    "accumulate",
    "fetch_and_op",
    "barrier",
    "bcast",
    "bcast_rotating",
    "reduce",
    "allreduce",
    "scan",
    "exscan",
    "gather",
    "gatherv",
    "scatter",
    "scatterv",
    "allgather",
    "allgatherv",
    "alltoall",
    "alltoallv",
    "alltoallw",
    "reduce_scatter_block",
    "reduce_scatter",
    "ibarrier",
    "ibcast",
    "iallreduce",
    "iallgather",
    "ialltoall",
    "ireduce",
    "pbarrier",
    "pbcast",
    "pallreduce",
    "pallgather",
    "palltoall",
    "preduce",
];

/// Operations that are no collectives and have no other forms; `line`, `copy_bcast` and `copy_allgather` are
/// what hardware does.
const SINGLE: [&str; 15] = [
    IN_THREADS,
    "latency",
    "pingpong",
    "bandwidth",
    "bibandwidth",
    "ring",
    "line",
    "copy_bcast",
    "copy_allgather",
    "put",
    "put_ring",
    "get",
    "accumulate",
    "fetch_and_op",
    "bcast_rotating",
];
/// The collectives, each of which has a non-blocking and a persistent form.
pub const FORMS: [&str; 17] = [
    "barrier",
    "bcast",
    "reduce",
    "allreduce",
    "scan",
    "exscan",
    "gather",
    "gatherv",
    "scatter",
    "scatterv",
    "allgather",
    "allgatherv",
    "alltoall",
    "alltoallv",
    "alltoallw",
    "reduce_scatter_block",
    "reduce_scatter",
];
/// Stands for files, which another program measures.
pub const FILES: &str = "io";

/// Reads an operation, as `bench/operations.h` knows them: of a collective also with `i` or `p` before it.
fn operation(text: &str) -> Result<String, String> {
    let is_collective = |name: &str| FORMS.contains(&name);
    let form = ["i", "p"].into_iter().find_map(|form| text.strip_prefix(form));
    let is_known =
        SINGLE.contains(&text) || text == FILES || is_collective(text) || form.is_some_and(is_collective);
    if is_known {
        return Ok(text.to_string());
    }
    Err(format!(
        "operations are: {}, {FILES}; and, also with i or p before them: {}",
        SINGLE.join(", "),
        FORMS.join(", ")
    ))
}

/// Reads a number above 0.
pub fn positive(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| format!("{text:?} is not a number above 0"))
}

impl CompareOptions {
    /// Returns these options with the libraries `names`, unless the user has given some.
    pub fn with_libraries(mut self, names: &[&str]) -> CompareOptions {
        if self.libraries.is_empty() {
            self.libraries = names.iter().map(ToString::to_string).collect();
        }
        self
    }
}

/// Sizes as a list or as MIN:MAX[:FACTOR].
pub fn parse_sizes(text: &str) -> Result<Sizes, String> {
    let mut sizes = match text.split(':').collect::<Vec<_>>().as_slice() {
        [list] => list.split(',').map(bytes).collect::<Result<Vec<_>, _>>()?,
        [least, most] => range(bytes(least)?, bytes(most)?, 4)?,
        [least, most, factor] => range(bytes(least)?, bytes(most)?, bytes(factor)?)?,
        _ => return Err("expected a list or MIN:MAX[:FACTOR]".to_string()),
    };
    sizes.sort_unstable();
    match sizes.iter().find(|&&size| size < 4 || size % 4 != 0) {
        Some(size) => Err(format!("{size} is not a multiple of 4")),
        None => Ok(Sizes::new(sizes)),
    }
}

fn range(least: u64, most: u64, factor: u64) -> Result<Vec<u64>, String> {
    if factor < 2 {
        return Err("the factor must be at least 2".to_string());
    }
    Ok(std::iter::successors(Some(least), |size| size.checked_mul(factor))
        .take_while(|&size| size <= most)
        .collect())
}

/// Parses a time such as 90s, 10m or 1h.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    let (digits, seconds) = match text.as_bytes().last() {
        Some(b's') => (&text[..text.len() - 1], 1),
        Some(b'm') => (&text[..text.len() - 1], 60),
        Some(b'h') => (&text[..text.len() - 1], 3600),
        _ => (text, 1),
    };
    let number: u32 = digits.parse().map_err(|_| format!("{text:?} is not a time such as 90s or 10m"))?;
    Ok(Duration::from_secs(u64::from(number) * seconds))
}

/// Parses a size in bytes such as 65536, 64K, 1M or 1G.
pub fn bytes(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 10),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 20),
        Some(b'G' | b'g') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let value: u64 = digits.parse().map_err(|_| format!("{text:?} is not a size"))?;
    value.checked_mul(1 << shift).ok_or_else(|| format!("{text:?} is too large"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<&[u64], &str>) {
        match (parse_sizes(text), expected) {
            (Ok(sizes), Ok(wanted)) => assert_eq!(sizes.as_slice(), wanted),
            (Err(message), Err(part)) => assert!(message.contains(part), "{message}"),
            (got, _) => panic!("{text}: {got:?}"),
        }
    }

    #[test]
    fn times_have_units() {
        let seconds = |text| parse_time(text).map(|time| time.as_secs());
        assert_eq!(["90", "90s", "10m", "1h"].map(seconds), [90, 90, 600, 3600].map(Ok));
        assert!(seconds("soon").unwrap_err().contains("not a time"));
    }

    #[test]
    fn operations_are_known_ones() {
        assert!(
            OPERATIONS
                .into_iter()
                .chain(["line", "pscan", "ialltoallw", "io"])
                .all(|op| operation(op).is_ok())
        );
        for wrong in ["", "bcst", "ilatency", "ii", "i", "xbcast"] {
            assert!(
                operation(wrong).is_err_and(|error| error.contains("latency") && error.contains("bcast")),
                "{wrong}"
            );
        }
        let wrong = crate::command_line::options::<CompareOptions>("--ops bcast,foo")
            .expect_err("foo is no operation");
        assert!(wrong.to_string().contains("foo"), "{wrong}");
        assert!(
            ["0", "-1", "inf", "nan", "x"].iter().all(|text| positive(text).is_err())
                && positive("1.5") == Ok(1.5)
        );
    }

    #[test]
    fn jobs_have_hosts_and_ranks() {
        assert_eq!("16x4".parse(), Ok(Shape { hosts: 16, ranks: 4 }));
        assert_eq!("16x4".parse::<Shape>().map(Shape::event), Ok("start 16x4".to_string()));
        assert!(["16", "0x4", "x", "4x-1"].iter().all(|text| text.parse::<Shape>().is_err()));
    }

    #[test]
    fn sizes_parse_as_list_or_range() {
        check("8", Ok(&[8]));
        check("1K,8,2M", Ok(&[8, 1024, 2 << 20]));
        check("8:512", Ok(&[8, 32, 128, 512]));
        check("8:512:8", Ok(&[8, 64, 512]));
        check("8:512:1", Err("factor"));
        check("6", Err("multiple of 4"));
        check("many", Err("not a size"));
    }
}
