//! Options of `tutti tune`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tutti_coll::Collective;

use crate::commands::sim::collective;
use crate::measure::library::HostSet;
use crate::measure::options::{Sizes, parse_sizes, parse_time, positive};
use crate::output::{FOLDER, folder};

/// Options of `tutti tune`.
#[derive(Args, Clone, Debug)]
pub struct TuneOptions {
    /// Collectives; by default all whose blocks are of one size.
    #[arg(long, value_delimiter = ',', value_parser = collective)]
    pub ops: Vec<Collective>,
    /// Sizes in bytes (K and M allowed), as a list or as MIN:MAX[:FACTOR].
    #[arg(long, default_value = "8,256,2K,8K,32K,128K,512K,4M", value_parser = parse_sizes)]
    pub sizes: Sizes,
    /// Numbers of ranks, each measured in jobs of its own
    #[arg(long, value_delimiter = ',', default_values_t = [2, 4, 8], value_parser = clap::value_parser!(u32).range(1..))]
    pub ranks: Vec<u32>,
    /// Instead: on these hosts, where libraries and programs must be found under the same names.
    #[arg(long, value_delimiter = ',')]
    pub hosts: Vec<String>,
    /// Ranks on each of these hosts.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub ranks_per_host: u32,
    /// The program in the place of ssh.
    #[arg(long, default_value = "ssh")]
    pub agent: String,
    /// Same data in each iteration, or data written afresh; of both, the geometric mean.
    #[arg(long, value_delimiter = ',', default_values_t = ["plain", "changing"].map(String::from),
          value_parser = ["plain", "changing"])]
    pub modes: Vec<String>,
    /// Time for all of it; each cell is measured once, however long that takes.
    #[arg(long, default_value = "5m", value_parser = parse_time)]
    pub budget: Duration,
    /// Time for one cell by one algorithm, in milliseconds.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub ms: u32,
    /// Ratio of the predicted time to the least one above which an algorithm is not measured
    #[arg(long, default_value_t = 6.0, value_parser = positive)]
    pub hopeless: f64,
    /// File of the model [default: the one that the launcher uses]
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Only print the table.
    #[arg(long)]
    pub dry: bool,
    /// Only print the regret of jobs as they are: the time of the algorithm that they choose, by the costs
    /// and corrections in force, over the time of the best one.
    #[arg(long)]
    pub regret: bool,
    /// Show all algorithms of each cell.
    #[arg(long)]
    pub explain: bool,
    /// Directory for the measured programs.
    #[arg(long, value_name = "FOLDER", default_value = FOLDER, value_parser = folder)]
    pub programs: PathBuf,
}

impl TuneOptions {
    /// Returns the hosts, if it is for several.
    pub fn place(&self) -> Option<HostSet> {
        let some = !self.hosts.is_empty();
        some.then(|| HostSet {
            enter: Vec::new(),
            agent: self.agent.clone(),
            hosts: self.hosts.clone(),
            per_host: self.ranks_per_host,
            by_node: false,
        })
    }
}
