//! `tutti info`: describes this machine, the installed library and its settings.

pub mod choice;
mod costs;
mod file;
mod functions;
pub mod job;
mod json;
mod learned;
mod neighbours;

use clap::Args;
use functions::{FUNCTIONS, implemented};
use job::OwnJob;
use tutti_base::config::{Audience, Config, DEBUG_KEYS, SETTINGS, Setting};

use crate::kept::{MODEL_BYTES, default_path};
use crate::measure::machine;
use crate::simulate::spread::Spread;

/// Options of `tutti info`.
#[derive(Args)]
pub struct InfoOptions {
    /// List the MPI functions that are implemented and those that are not yet.
    #[arg(long)]
    functions: bool,
    /// Only the settings, as NAME=VALUE lines.
    #[arg(long, conflicts_with = "functions")]
    settings: bool,
    /// Also show the settings for developers of Tutti.
    #[arg(long)]
    all_settings: bool,
    /// List the algorithms of all collectives by the names that TUTTI_ALGORITHM takes.
    #[arg(long, conflicts_with_all = ["functions", "settings"])]
    algorithms: bool,
    /// Show the machine of each host of the job that runs this command (`mpirun ... tutti info --machines`)
    #[arg(long, conflicts_with_all = ["functions", "settings", "algorithms"])]
    machines: bool,
    /// Print installation, machine, networks and all settings as JSON.
    #[arg(long, conflicts_with_all = ["functions", "settings", "algorithms", "machines", "learned"])]
    json: bool,
    /// Show results that tuning has learned while programs ran (TUTTI_TUNE); they are stored behind the
    /// machine's model
    #[arg(long, conflicts_with_all = ["functions", "settings", "algorithms", "machines"])]
    learned: bool,
    /// Show the storage of a file and accesses of MPI-IO to it, with reasons: file system, stripes, servers,
    /// aggregators. The file need not exist. Under mpirun: for that job and its io-servers
    #[arg(value_name = "FILE",
          conflicts_with_all = ["functions", "settings", "algorithms", "machines", "learned"])]
    file: Option<std::path::PathBuf>,
    /// Show the algorithm that a collective would use, with reasons. mpirun on several hosts: the choice of
    /// that job
    #[command(flatten)]
    operation: Option<crate::commands::sim::Operation>,
    #[command(flatten)]
    spread: Spread,
}

/// Prints the information that the options select.
///
/// # Errors
/// Fails if a TUTTI_ variable of the environment is invalid.
pub fn run(options: &InfoOptions) -> Result<(), String> {
    let config = Config::from_env().map_err(|error| error.to_string())?;
    let own_job = OwnJob::find()?;
    let is_another = own_job.as_ref().is_some_and(|job| job.rank > 0);
    let speaks_once =
        options.json || options.machines || options.operation.is_some() || options.file.is_some();
    let text = if is_another && speaks_once {
        // One rank of a job speaks for all.
        String::new()
    } else if options.machines {
        job::show(&own_job.ok_or("--machines needs a job: run mpirun ... tutti info --machines")?.machines())
    } else if let Some(operation) = &options.operation {
        choice::explain(operation, &options.spread, own_job.as_ref(), &config)?
    } else if let Some(path) = &options.file {
        file::describe(path, own_job.as_ref(), &config)?
    } else if options.learned {
        let path = default_path(&config);
        let path = path.ok_or("neither TUTTI_MODEL_FILE nor HOME says where the model is")?;
        learned::list(&path, MODEL_BYTES)?
    } else if options.json {
        format!("{:#}\n", json::everything(&config))
    } else if options.functions {
        function_list()
    } else if options.algorithms {
        algorithm_list()
    } else if options.settings {
        SETTINGS.iter().map(|setting| format!("{}={}\n", setting.name, setting.show(&config))).collect()
    } else {
        // Each rank prints facts that only it can determine.
        let own = own_job.as_ref().map_or(String::new(), |job| neighbours::describe(job, &config));
        if is_another { own } else { everything(&config, &own, options.all_settings) }
    };
    crate::output::show(&text);
    Ok(())
}

fn function_list() -> String {
    let rows = FUNCTIONS.iter().map(|(name, implemented)| {
        let mark = if *implemented { "" } else { "\tunsupported" };
        format!("{name}{mark}\n")
    });
    format!(
        "# {} of {} functions are implemented\n# the others raise MPI_ERR_UNSUPPORTED_OPERATION\n{}",
        implemented(),
        FUNCTIONS.len(),
        rows.collect::<String>()
    )
}

fn algorithm_list() -> String {
    let rows = tutti_coll::registry().iter().map(|generator| {
        let needs: Vec<_> = generator.needs.iter().filter_map(|need| need.text()).collect();
        format!("{}\t{}\t{}\n", generator.collective, generator.name, needs.join(", "))
    });
    format!("# collective, algorithm, requirements\n{}", rows.collect::<String>())
}

/// Formats the settings, one line each: the value, marked if it is not the default, the description, and the
/// possible values.
fn settings_table<'a>(settings: impl Iterator<Item = &'a Setting>, config: &Config) -> String {
    let width = SETTINGS.iter().map(|setting| setting.name.len()).max().unwrap_or(0);
    let default = Config::default();
    let line = |setting: &Setting| {
        let (value, usual) = (setting.show(config), setting.show(&default));
        let mark = if value == usual { ' ' } else { '*' };
        let shown = if value.is_empty() { "(none)" } else { &value };
        format!("{mark} {:width$}  {shown:<10}  {} [{}]\n", setting.name, setting.doc, setting.kind)
    };
    settings.map(line).collect()
}

fn everything(config: &Config, neighbours: &str, all_settings: bool) -> String {
    let machine: String = machine::describe().iter().map(|line| format!("  {line}\n")).collect();
    let back_ends: String = machine::back_ends().iter().map(|line| format!("  {line}\n")).collect();
    let networks = machine::networks(config);
    let networks: String = networks.iter().map(|line| format!("  {line}\n")).collect();
    let default = Config::default();
    let shown = |setting: &&Setting| {
        let is_set = setting.show(config) != setting.show(&default);
        all_settings || is_set || setting.audience == Audience::User
    };
    let hidden = SETTINGS.iter().filter(|setting| !shown(setting)).count();
    let mut settings = settings_table(SETTINGS.iter().filter(shown), config);
    if all_settings {
        settings += "\nkeys of TUTTI_DEBUG:\n";
        settings += &settings_table(DEBUG_KEYS.iter(), config);
    }
    let more = match hidden {
        0 => String::new(),
        hidden => format!("  and {hidden} for developers of Tutti: --all-settings\n"),
    };
    format!(
        "Tutti {}\nstandard: MPI 5.0, standard ABI 1.0 (libmpi_abi.so.1)\n\
         functions: {} of {} implemented (--functions lists them)\n\n\
         Machine\n{machine}\n\
         Transports\n  self: always\n  shared memory: always; one anonymous object a job\n  single copy: {}\n{neighbours}\n\
         Memory of other ranks, for collectives\n{back_ends}\n\
         Costs of this machine, for the choice of algorithms\n  {}\n\n\
         Networks between hosts\n{networks}  multicast: {}\n  small collectives in the kernel: {}\n\n\
         Settings (environment; * differs from the default)\n{settings}{more}",
        env!("CARGO_PKG_VERSION"),
        implemented(),
        FUNCTIONS.len(),
        machine::single_copy(),
        costs::in_force(config),
        machine::multicast(config),
        machine::offload(config)
    )
}
