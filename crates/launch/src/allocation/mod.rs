//! Hosts that the environment names, in variables of other launchers and of resource managers.
//!
//! Operators of Kubernetes, job scripts and batch systems name hosts in variables. [`SOURCES`] is the table
//! of all of them in order of precedence. The first variable that is set determines the hosts that a job may
//! use. Hosts that only a later variable names are reported in one line, so that a job never becomes smaller
//! unnoticed.
//!
//! [`find`] reads the table; [`agents`] chooses the command that reaches the hosts. All parsers are pure
//! functions of texts: [`host_files`] and [`ranges`]. [`Surroundings`] gives access to the environment
//! itself.

use std::fmt;

use crate::error::LaunchError;
use crate::hosts::{self, Host};

pub mod agents;
pub mod host_files;
pub mod ranges;

use agents::Family;
use host_files::Entry;

/// Environment of `mpirun`: its variables, files, and programs.
pub trait Surroundings {
    /// Returns the value of a variable that is set and not blank.
    fn variable(&self, name: &str) -> Option<String>;
    /// Returns the text of a file.
    ///
    /// # Errors
    /// Returns the reason, with the name of the file.
    fn read(&self, file: &str) -> Result<String, LaunchError>;
    /// Runs a command and returns its output.
    ///
    /// # Errors
    /// Returns the reason, with the command.
    fn output(&self, command: &[&str]) -> Result<String, LaunchError>;
    /// Returns true if a program of this name is in PATH.
    fn has_program(&self, name: &str) -> bool;
}

/// Form in which a variable names hosts.
#[derive(Clone, Copy, Debug)]
enum Form {
    /// Path of a host file, read by this parser.
    File(fn(&str) -> Result<Vec<Entry>, LaunchError>),
    /// Hosts of this text, read by this parser.
    Text(fn(&str) -> Result<Vec<Entry>, LaunchError>),
    /// Slurm's ranges, with slots in other variables.
    Slurm,
    /// Address of a Flux instance, which is queried for its hosts.
    Flux,
}

use Form::{File, Flux, Slurm, Text};

/// Variable that names hosts.
#[derive(Debug)]
pub struct Source {
    /// Name of the variable.
    pub variable: &'static str,
    /// Launcher or resource manager that owns the variable.
    pub owner: &'static str,
    form: Form,
    /// Variables and agents of the launcher, if it is one.
    family: Option<Family>,
    /// Name of the agent of the resource manager, if it has one ([`agents::AGENTS`]).
    agent: Option<&'static str>,
}

const fn launcher(variable: &'static str, owner: &'static str, form: Form, family: Family) -> Source {
    Source { variable, owner, form, family: Some(family), agent: None }
}

const fn manager(
    variable: &'static str,
    owner: &'static str,
    form: Form,
    agent: Option<&'static str>,
) -> Source {
    Source { variable, owner, form, family: None, agent }
}

/// All variables that name hosts, in order of precedence. Hosts of the command line take precedence over all
/// of them.
///
/// Variables of launchers come first, since the user has set them for this command. A Flux instance may run
/// inside a job of another manager, so it precedes the managers.
pub const SOURCES: &[Source] = &[
    launcher("HYDRA_HOST_FILE", "MPICH", File(host_files::hydra), Family::Mpich),
    launcher("I_MPI_HYDRA_HOST_FILE", "Intel MPI", File(host_files::intel), Family::Intel),
    launcher("I_MPI_HYDRA_MACHINE_FILE", "Intel MPI", File(host_files::intel), Family::Intel),
    launcher("I_MPI_HYDRA_HOSTS_GROUP", "Intel MPI", Text(host_files::groups), Family::Intel),
    launcher("OMPI_MCA_orte_default_hostfile", "Open MPI", File(host_files::open_mpi), Family::OpenMpi),
    launcher("OMPI_MCA_orte_hostfile", "Open MPI", File(host_files::open_mpi), Family::OpenMpi),
    launcher("OMPI_MCA_orte_default_dash_host", "Open MPI", Text(host_files::listed), Family::OpenMpi),
    launcher("OMPI_MCA_prte_default_hostfile", "Open MPI", File(host_files::open_mpi), Family::OpenMpi),
    launcher("PRTE_MCA_prte_default_hostfile", "Open MPI", File(host_files::open_mpi), Family::OpenMpi),
    launcher("PRTE_MCA_prte_default_dash_host", "Open MPI", Text(host_files::listed), Family::OpenMpi),
    launcher("PRTE_DEFAULT_HOSTFILE", "Open MPI", File(host_files::open_mpi), Family::OpenMpi),
    manager("FLUX_URI", "Flux", Flux, Some("flux")),
    manager("SLURM_JOB_NODELIST", "Slurm", Slurm, Some("slurm")),
    manager("SLURM_NODELIST", "Slurm", Slurm, Some("slurm")),
    manager("PE_HOSTFILE", "Grid Engine", File(host_files::grid_engine), Some("sge")),
    manager("LSB_DJOB_HOSTFILE", "LSF", File(host_files::names), Some("lsf")),
    manager("LSB_MCPU_HOSTS", "LSF", Text(host_files::pairs), Some("lsf")),
    manager("LSB_HOSTS", "LSF", Text(host_files::names), Some("lsf")),
    manager("PBS_NODEFILE", "PBS or PALS", File(host_files::names), None),
    manager("COBALT_NODEFILE", "Cobalt", File(host_files::names), None),
    manager("OAR_NODEFILE", "OAR", File(host_files::names), Some("oar")),
    manager("OAR_NODE_FILE", "OAR", File(host_files::names), Some("oar")),
    manager("LOADL_HOSTFILE", "LoadLeveler", File(host_files::names), None),
    manager("LOADL_PROCESSOR_LIST", "LoadLeveler", Text(host_files::names), None),
    manager("PJM_O_NODEINF", "Fujitsu's job manager", File(host_files::names), None),
    manager("MP_HOSTFILE", "IBM's Parallel Environment", File(host_files::names), None),
];

/// Hosts that the environment names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Hosts in order, each once.
    pub hosts: Vec<Host>,
    /// Variable and its owner, such as `PE_HOSTFILE (Grid Engine)`.
    pub source: String,
    /// Launcher that owns the variable, if it is one.
    pub family: Option<Family>,
    /// Name of the resource manager's agent, if it has one.
    pub agent: Option<&'static str>,
    /// Lines for the user, for example about hosts that are not used.
    pub notes: Vec<String>,
}

/// Returns the hosts that the environment names, or None if no variable names hosts.
///
/// # Errors
/// Fails if the first variable that is set cannot be parsed, with its name and the reason.
pub fn find(around: &dyn Surroundings) -> Result<Option<Allocation>, LaunchError> {
    let mut set = SOURCES.iter().filter_map(|row| Some((row, around.variable(row.variable)?)));
    let Some((row, value)) = set.next() else { return Ok(None) };
    let found = row.hosts(around, &value).map_err(|error| row.complain(error))?;
    if found.is_empty() {
        return Err(row.complain("it names no host"));
    }
    let mut notes = Vec::new();
    // A manager often names the same hosts in several variables.
    for (other, value) in set {
        // A variable that is not needed may be outdated.
        let named = other.hosts(around, &value).unwrap_or_default();
        let unused: Vec<&str> = named
            .iter()
            .filter(|host| !found.iter().any(|used| used.name == host.name))
            .map(|host| host.name.as_str())
            .collect();
        if !unused.is_empty() {
            notes.push(format!(
                "hosts are those of {}; {} names others, which are not used: {}",
                row.shown(),
                other.shown(),
                host_files::abbreviated(&unused)
            ));
        }
    }
    Ok(Some(Allocation { hosts: found, source: row.shown(), family: row.family, agent: row.agent, notes }))
}

impl Source {
    fn shown(&self) -> String {
        format!("{} ({})", self.variable, self.owner)
    }

    fn complain(&self, reason: impl fmt::Display) -> LaunchError {
        let shown = self.shown();
        LaunchError::Invalid(format!("{shown}: {reason}; name the hosts by --host or --hostfile"))
    }

    /// Returns the hosts that the value of this variable names.
    fn hosts(&self, around: &dyn Surroundings, value: &str) -> Result<Vec<Host>, LaunchError> {
        let entries = match self.form {
            File(parse) => parse(&around.read(value)?).map_err(|error| error.in_place(value))?,
            Text(parse) => parse(value)?,
            Slurm => ranges::slurm(value, |name| around.variable(name))?,
            Flux => {
                let hosts = around.output(&["flux", "getattr", "hostlist"])?;
                host_files::flux(&hosts, &around.output(&["flux", "resource", "info"])?)?
            }
        };
        let usual = match self.family {
            Some(Family::OpenMpi) => default_slots(around)?,
            _ => 1,
        };
        let mut hosts = Vec::new();
        for Entry { name, slots } in entries {
            hosts::add(&mut hosts, hosts::check_name(&name)?, slots.unwrap_or(usual));
        }
        Ok(hosts)
    }
}

/// Variables with the default number of slots of a host in Open MPI's host file.
const DEFAULT_SLOTS: [&str; 3] =
    ["OMPI_MCA_orte_set_default_slots", "PRTE_MCA_prte_set_default_slots", "OMPI_MCA_prte_set_default_slots"];

fn default_slots(around: &dyn Surroundings) -> Result<u32, LaunchError> {
    let Some((name, value)) = DEFAULT_SLOTS.into_iter().find_map(|name| Some((name, around.variable(name)?)))
    else {
        return Ok(1);
    };
    let slots = value.trim().parse().ok().filter(|slots| *slots > 0);
    slots.ok_or_else(|| {
        LaunchError::Invalid(format!(
            "{name}={value}: a number of slots is needed (others are not supported)"
        ))
    })
}

/// Ranks on each host in the meaning of `I_MPI_PERHOST`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerHost {
    /// Fixed number of ranks.
    Ranks(u32),
    /// One for each processor.
    Processors,
    /// One for each core.
    Cores,
}

/// Returns the value of `I_MPI_PERHOST`, if it is set. The option `--ppn` has the same meaning and takes
/// precedence.
///
/// # Errors
/// Fails if the value is unknown to Intel MPI.
pub fn per_host(around: &dyn Surroundings) -> Result<Option<PerHost>, LaunchError> {
    let Some(value) = around.variable("I_MPI_PERHOST") else { return Ok(None) };
    match value.trim() {
        "all" => Ok(Some(PerHost::Processors)),
        "allcores" => Ok(Some(PerHost::Cores)),
        number => match number.parse() {
            Ok(ranks) if ranks > 0 => Ok(Some(PerHost::Ranks(ranks))),
            _ => Err(LaunchError::Invalid(format!(
                "I_MPI_PERHOST={value}: a number, all or allcores is needed"
            ))),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulated environment: values by variable, texts by file name, and outputs by command line.
    pub(super) struct Sample<'a>(pub &'a [(&'a str, &'a str)]);

    impl Surroundings for Sample<'_> {
        fn variable(&self, name: &str) -> Option<String> {
            let found = self.0.iter().find(|(known, _)| *known == name)?;
            Some(found.1.to_string()).filter(|value| !value.trim().is_empty())
        }

        fn read(&self, file: &str) -> Result<String, LaunchError> {
            self.variable(file).ok_or_else(|| LaunchError::Invalid(format!("{file}: no such file")))
        }

        fn output(&self, command: &[&str]) -> Result<String, LaunchError> {
            let command = command.join(" ");
            self.variable(&command).ok_or_else(|| LaunchError::Invalid(format!("{command}: not found")))
        }

        fn has_program(&self, name: &str) -> bool {
            self.variable(&format!("which {name}")).is_some()
        }
    }

    /// Checks the allocation. `expected` has the hosts, the source and the agent, or a part of the error.
    fn check(given: &[(&str, &str)], expected: Result<&str, &str>) {
        match (find(&Sample(given)), expected) {
            (Ok(got), Ok(expected)) => {
                let shown = got.map_or(String::new(), |got| {
                    let hosts = got.hosts.iter().map(|host| format!("{}:{}", host.name, host.slots));
                    let agent = got.agent.unwrap_or("-");
                    [hosts.collect::<Vec<_>>().join(" "), got.source, agent.to_string()].join(" | ")
                });
                assert_eq!(shown, expected, "{given:?}");
            }
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (got, expected) => panic!("{got:?} instead of {expected:?}"),
        }
    }

    #[test]
    fn launchers_name_hosts() {
        check(&[], Ok(""));
        check(&[("HYDRA_HOST_FILE", " ")], Ok(""));
        check(
            &[("HYDRA_HOST_FILE", "f"), ("f", "x1:2\nx2:2\n")],
            Ok("x1:2 x2:2 | HYDRA_HOST_FILE (MPICH) | -"),
        );
        check(
            &[("HYDRA_HOST_FILE", "f")],
            Err("HYDRA_HOST_FILE (MPICH): f: no such file; name the hosts by"),
        );
        check(&[("HYDRA_HOST_FILE", "f"), ("f", "# none\n")], Err("it names no host"));
        check(&[("HYDRA_HOST_FILE", "f"), ("f", "-x\n")], Err("not a name"));
        let kubernetes = ("f", "pi-worker-0.pi.ns.svc slots=2\npi-worker-1.pi.ns.svc slots=2\n");
        check(
            &[("OMPI_MCA_orte_default_hostfile", "f"), kubernetes, ("OMPI_MCA_orte_set_default_slots", "4")],
            Ok(
                "pi-worker-0.pi.ns.svc:2 pi-worker-1.pi.ns.svc:2 | OMPI_MCA_orte_default_hostfile (Open MPI) | -",
            ),
        );
        check(
            &[
                ("PRTE_MCA_prte_default_hostfile", "f"),
                ("f", "x\n"),
                ("PRTE_MCA_prte_set_default_slots", "4"),
            ],
            Ok("x:4 | PRTE_MCA_prte_default_hostfile (Open MPI) | -"),
        );
        check(
            &[("OMPI_MCA_orte_hostfile", "f"), ("f", "x\n"), ("OMPI_MCA_orte_set_default_slots", "cores")],
            Err("OMPI_MCA_orte_set_default_slots=cores: a number of slots"),
        );
        check(
            &[("I_MPI_HYDRA_HOSTS_GROUP", "x[1-2],y")],
            Ok("x1:1 x2:1 y:1 | I_MPI_HYDRA_HOSTS_GROUP (Intel MPI) | -"),
        );
    }

    #[test]
    fn managers_name_hosts() {
        check(
            &[("PE_HOSTFILE", "f"), ("f", "x1 4 all.q@x1 UNDEFINED\nx2 2 all.q@x2 <NULL>\n")],
            Ok("x1:4 x2:2 | PE_HOSTFILE (Grid Engine) | sge"),
        );
        check(&[("LSB_MCPU_HOSTS", "x1 4 x2 2 ")], Ok("x1:4 x2:2 | LSB_MCPU_HOSTS (LSF) | lsf"));
        check(
            &[("LSB_MCPU_HOSTS", "x1 2"), ("LSB_DJOB_HOSTFILE", "f"), ("f", "x1\nx1\n")],
            Ok("x1:2 | LSB_DJOB_HOSTFILE (LSF) | lsf"),
        );
        check(&[("LSB_HOSTS", "x1 x1 x2")], Ok("x1:2 x2:1 | LSB_HOSTS (LSF) | lsf"));
        check(
            &[("PBS_NODEFILE", "f"), ("f", "x1\nx1\nx2\n")],
            Ok("x1:2 x2:1 | PBS_NODEFILE (PBS or PALS) | -"),
        );
        check(&[("COBALT_NODEFILE", "f"), ("f", "x1\nx2\n")], Ok("x1:1 x2:1 | COBALT_NODEFILE (Cobalt) | -"));
        check(&[("OAR_NODEFILE", "f"), ("f", "x1\nx1\n")], Ok("x1:2 | OAR_NODEFILE (OAR) | oar"));
        let flux = [("FLUX_URI", "local:///x"), ("flux getattr hostlist", "x[1-2]\n")];
        let info = ("flux resource info", "2 Nodes, 8 Cores, 0 GPUs\n");
        check(&[flux[0], flux[1], info], Ok("x1:4 x2:4 | FLUX_URI (Flux) | flux"));
        check(&flux[..1], Err("FLUX_URI (Flux): flux getattr hostlist: not found"));
        check(
            &[("SLURM_JOB_NODELIST", "x[1-2]"), ("SLURM_TASKS_PER_NODE", "3(x2)")],
            Ok("x1:3 x2:3 | SLURM_JOB_NODELIST (Slurm) | slurm"),
        );
    }

    #[test]
    fn hosts_that_are_not_used_are_named() {
        let check = |given: &[(&str, &str)], expected: &[&str]| {
            let notes = find(&Sample(given)).unwrap().unwrap().notes;
            assert_eq!(notes, expected, "{given:?}");
        };
        let file = [("HYDRA_HOST_FILE", "f"), ("f", "x1\n")];
        check(&[file[0], file[1], ("SLURM_JOB_NODELIST", "x1")], &[]);
        check(
            &[file[0], file[1], ("SLURM_JOB_NODELIST", "x[1-3]")],
            &[
                "hosts are those of HYDRA_HOST_FILE (MPICH); SLURM_JOB_NODELIST (Slurm) names others, which are not used: x2, x3",
            ],
        );
        check(&[file[0], file[1], ("PBS_NODEFILE", "absent")], &[]);
    }

    #[test]
    fn ranks_a_host_are_a_number_or_what_a_host_has() {
        let check = |value: &str, expected: Result<Option<PerHost>, &str>| match (
            per_host(&Sample(&[("I_MPI_PERHOST", value)])),
            expected,
        ) {
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (got, expected) => assert_eq!(got.ok(), expected.ok(), "{value}"),
        };
        check("", Ok(None));
        check("2", Ok(Some(PerHost::Ranks(2))));
        check("all", Ok(Some(PerHost::Processors)));
        check("allcores", Ok(Some(PerHost::Cores)));
        check("0", Err("I_MPI_PERHOST=0"));
    }
}
