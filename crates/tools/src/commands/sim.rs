//! `tutti sim`: predicts the time of a collective by each algorithm, on this or any recorded machine.
//! Subcommands predict the start of a job ([`start`]), the effect of reordering a grid's ranks ([`reorder`]),
//! a program of broadcasts ([`asp::simulated`]), and the costs of checkpoints ([`checkpoint::simulated`]).

use std::path::PathBuf;

use clap::{Args, Subcommand};
use tutti_base::config::{Config, algorithms};
use tutti_coll::generator::Node;
use tutti_coll::select::{Candidate, refusal, study};
use tutti_coll::simulate::{Binding, Reach};
use tutti_coll::{Collective, Environment, Model, Shape, registry};
use tutti_topo::{Level, Machine};

use crate::commands::{asp, checkpoint};
use crate::simulate::machines::{binding, check_list, machine, model};
use crate::simulate::spread::Spread;
use crate::simulate::{reorder, start};

/// Operation with its bytes and ranks.
#[derive(Args, Clone)]
pub struct Operation {
    /// The operation: barrier, bcast, gather, ...
    #[arg(long, default_value = "bcast", value_parser = collective)]
    pub collective: Collective,
    /// Bytes: of all data for bcast, reduce, allreduce and scan, otherwise of one rank's block (K and M
    /// allowed)
    #[arg(long, default_value = "8", value_parser = crate::measure::options::bytes)]
    pub bytes: u64,
    /// Number of ranks in the job
    #[arg(short = 'n', long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    pub ranks: u32,
    /// The operator of a reduction does not commute.
    #[arg(long)]
    pub ordered: bool,
    /// File with the costs of the machine, written by `tutti probe` [default for this machine: the costs that
    /// jobs use]
    #[arg(long)]
    pub model: Option<PathBuf>,
}

/// Subcommands: other predictions.
#[derive(Subcommand)]
enum Other {
    /// Predict the time to start a job, and the memory of a rank, at any size
    Start(start::StartOptions),
    /// Predict the effect of reordering the ranks of a grid, as MPI_Cart_create does: bytes times distance
    Reorder(reorder::ReorderOptions),
    /// Predict all shortest paths at the size of the paper: total time and time in broadcasts, by the choice
    /// of Tutti and by broadcasts that ignore hosts
    Asp(asp::simulated::SimulatedAspOptions),
    /// Predict the coordination time of a checkpoint at any size, by Tutti and by the paper, and the cost of
    /// checkpoints
    Checkpoint(checkpoint::simulated::SimulatedCheckpointOptions),
}

/// Options of `tutti sim`.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct SimOptions {
    #[command(subcommand)]
    other: Option<Other>,
    #[command(flatten)]
    setup: Setup,
}

/// Operation, machine and algorithm of a simulation.
#[derive(Args)]
pub struct Setup {
    #[command(flatten)]
    operation: Operation,
    /// A recorded machine (a file as in fixtures/machines); by default this one
    #[arg(long)]
    machine: Option<PathBuf>,
    #[command(flatten)]
    spread: Spread,
    /// Cores of the ranks: compact, scatter, random:SEED, none, or a list of processors (0,4,8-11)
    #[arg(long, default_value = "compact", value_parser = binding)]
    bind: Binding,
    /// Only this algorithm, with parameters if they follow: knomial:radix=4:segment=32K:window=8.
    #[arg(long)]
    algorithm: Option<String>,
    /// Children of a node of a tree (flat: any number).
    #[arg(long, requires = "algorithm")]
    radix: Option<String>,
    /// Bytes of a segment.
    #[arg(long, requires = "algorithm")]
    segment: Option<String>,
    /// Kind of memory that ranks of a machine share: any (messages only), shared (flags and banks), exposed
    /// (each other's memory too)
    #[arg(long, default_value = "exposed", value_parser = ["any", "shared", "exposed"])]
    node: String,
    /// Exposed memory is copied by system calls, not mapped.
    #[arg(long)]
    calls: bool,
}

/// Prints the predicted times.
///
/// # Errors
/// Fails if a file cannot be read, or no algorithm is left.
pub fn run(options: &SimOptions) -> Result<(), String> {
    match &options.other {
        Some(Other::Start(options)) => start::run(options),
        Some(Other::Reorder(options)) => reorder::run(options),
        Some(Other::Asp(options)) => asp::simulated::run(options),
        Some(Other::Checkpoint(options)) => {
            crate::output::show(&checkpoint::simulated::text(options)?);
            Ok(())
        }
        None => {
            crate::output::show(&table(&options.setup)?);
            Ok(())
        }
    }
}

/// Request of the user, with all candidates for it.
pub struct Question {
    machine: Machine,
    /// The operation as rank 0 sees it.
    pub shape: Shape,
    /// Environment in which the operation runs.
    pub environment: Environment,
    /// Candidates, the fastest first; at least one.
    pub found: Vec<Candidate>,
}

impl Setup {
    /// Returns the operation, its environment, and all candidates with predicted times.
    ///
    /// # Errors
    /// Fails if a file cannot be read, or no algorithm is left.
    pub fn question(&self) -> Result<Question, String> {
        let machine = machine(self.machine.as_deref())?;
        check_list(&machine, &self.bind)?;
        let shape = self.operation.shape();
        let environment = environment(self, &machine)?;
        let forced = self.forced();
        if let Some(choice) = &forced {
            algorithms::check_choice(shape.collective.name(), choice)?;
        }
        let found = study(&shape, &environment, forced.as_deref());
        if found.is_empty() {
            return Err(format!(
                "no algorithm {:?} for this {}",
                forced.unwrap_or_default(),
                shape.collective
            ));
        }
        Ok(Question { machine, shape, environment, found })
    }
}

fn table(options: &Setup) -> Result<String, String> {
    let Question { machine, shape, environment, found } = options.question()?;
    let operation = &options.operation;
    let mut text = format!(
        "{}, {} bytes, {} ranks on {} ({}{} cores)\n",
        shape.collective,
        operation.bytes,
        shape.ranks,
        machine.name(),
        match (options.spread.hosts, options.spread.hosts_share) {
            (1, _) => String::new(),
            (hosts, false) => format!("{hosts} machines of "),
            (hosts, true) => format!("{hosts} hosts that share "),
        },
        machine.count(Level::Core)
    );
    text += &rows(&found, shape.unit_bytes);
    if options.algorithm.is_none() {
        text += &refusals(&shape, &environment);
    }
    Ok(text)
}

fn environment(options: &Setup, machine: &Machine) -> Result<Environment, String> {
    let operation = &options.operation;
    let model = operation.model(options.machine.is_none())?;
    let node = match options.node.as_str() {
        "any" => Node::Any,
        "shared" => Node::Shared,
        _ => Node::Exposed,
    };
    let reach = if options.calls { Reach::Call } else { Reach::Mapped };
    let stage = options.spread.environment(machine, &options.bind, operation.ranks, model);
    Ok(Environment { node, reach, ..stage })
}

/// Formats the candidates, one line each, the fastest first. `unit_bytes` is the size of an element.
pub fn rows(found: &[Candidate], unit_bytes: u64) -> String {
    let names: Vec<String> = found.iter().map(|one| one.described(unit_bytes)).collect();
    let width = names.iter().map(String::len).max().unwrap_or(0);
    let least = found.first().map_or(1.0, |one| one.time);
    let row = |(one, name): (&Candidate, &String)| {
        let how = if one.simulated { "" } else { "  (closed form)" };
        format!("  {name:width$}  {:>12.2} us  {:>6.2}{how}\n", one.time * 1e6, one.time / least)
    };
    found.iter().zip(&names).map(row).collect()
}

/// Returns the reasons why other algorithms are no candidates, one line each.
pub fn refusals(shape: &Shape, environment: &Environment) -> String {
    let others = registry().iter().filter(|generator| generator.collective == shape.collective);
    others
        .filter_map(|generator| Some((generator.name, refusal(generator, shape, environment)?)))
        .map(|(name, why)| format!("  {name}: not possible, {why}\n"))
        .collect()
}

impl Operation {
    /// Returns the operation as rank 0 calls it.
    pub fn shape(&self) -> Shape {
        use Collective as C;
        let count = match self.collective {
            C::Barrier => 0,
            C::Allgatherv | C::ReduceScatter => self.bytes * u64::from(self.ranks),
            _ => self.bytes,
        };
        Shape { commutative: !self.ordered, ..Shape::new(self.collective, self.ranks, 0, count) }
    }

    /// Returns the model of the file that the user named. Otherwise it is that of this machine, or the
    /// defaults for other machines and without a measurement.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
    pub fn model(&self, this_machine: bool) -> Result<Model, String> {
        let config = Config::from_env().map_err(|error| error.to_string())?;
        let kept = || crate::kept::default_path(&config).filter(|path| this_machine && path.exists());
        let Some(path) = &self.model.clone().or_else(kept) else { return Ok(Model::default()) };
        model(path)
    }
}

impl Setup {
    /// Returns the forced algorithm in the syntax of the setting TUTTI_ALGORITHM.
    fn forced(&self) -> Option<String> {
        let mut text = self.algorithm.clone()?;
        for (name, value) in [("radix", &self.radix), ("segment", &self.segment)] {
            if let Some(value) = value {
                text += &format!(":{name}={value}");
            }
        }
        Some(text)
    }
}

/// Reads the name of a collective.
///
/// # Errors
/// Returns a list of all names if the text is none.
pub fn collective(name: &str) -> Result<Collective, String> {
    let found = Collective::ALL.into_iter().find(|collective| collective.name() == name);
    found.ok_or_else(|| format!("one of {}", Collective::ALL.map(Collective::name).join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line;

    fn check(line: &str, expected: Result<&str, &str>) {
        command_line::check(line, |options: &SimOptions| table(&options.setup), expected);
    }

    #[test]
    fn any_machine_and_binding_can_be_asked_for() {
        let epyc = "--machine MACHINES/epyc-2x16-nps2.txt --collective bcast --bytes 64K -n 32";
        check(epyc, Ok("knomial"));
        check(
            &format!("{epyc} --bind scatter"),
            Ok("bcast, 65536 bytes, 32 ranks on epyc-2x16-nps2 (32 cores)"),
        );
        check(&format!("{epyc} --bind random:3 --hosts 4"), Ok("4 machines of 32 cores"));
        check(&format!("{epyc} --map-by node --hosts 4"), Ok("levels"));
        check(&format!("{epyc} --bind 0,8,99"), Err("no processor 99"));
        check(
            &format!("{epyc} --algorithm knomial --radix 4 --segment 32K"),
            Ok("radix 4, segment 32768 bytes"),
        );
        check(&format!("{epyc} --algorithm nothing"), Err("no algorithm \"nothing\""));
        check(&format!("{epyc} --node any"), Ok("not possible, the ranks do not share"));
        check("--collective allgather -n 3 --node any", Ok("recursive_doubling: not possible, the number"));
        check("--collective nothing", Err("one of barrier, bcast"));
    }
}
