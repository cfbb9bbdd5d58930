//! Choice of the agent, the command that starts daemons on other hosts.
//!
//! In order of precedence: `--agent`, `--launcher`, the setting `TUTTI_AGENT`, variables of other launchers,
//! the resource manager's own command, ssh. Of the launchers, the one that named the hosts comes first.

use super::{Allocation, Surroundings};
use crate::error::LaunchError;

/// Arguments of ssh that disable questions and forwarding.
const SSH_OPTIONS: &str = "-x -o BatchMode=yes -o ConnectTimeout=10";

/// Launcher with variables of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Hydra of MPICH.
    Mpich,
    /// Hydra of Intel MPI.
    Intel,
    /// ORTE and PRRTE of Open MPI.
    OpenMpi,
}

/// Environment variables of one family of launchers.
struct Variables {
    family: Family,
    /// Variables with the name of an agent, with the names of `--launcher`.
    name: &'static [&'static str],
    /// Variables with a command that replaces ssh.
    command: &'static [&'static str],
    /// Variables with further arguments of that command.
    arguments: &'static [&'static str],
}

const VARIABLES: [Variables; 3] = [
    Variables {
        family: Family::Mpich,
        name: &["HYDRA_LAUNCHER", "HYDRA_BOOTSTRAP"],
        command: &["HYDRA_LAUNCHER_EXEC", "HYDRA_BOOTSTRAP_EXEC"],
        arguments: &["HYDRA_LAUNCH_EXTRA_ARGS"],
    },
    Variables {
        family: Family::Intel,
        name: &["I_MPI_HYDRA_BOOTSTRAP"],
        command: &["I_MPI_HYDRA_BOOTSTRAP_EXEC"],
        arguments: &["I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS"],
    },
    Variables {
        family: Family::OpenMpi,
        name: &[],
        command: &[
            "OMPI_MCA_plm_rsh_agent",
            "OMPI_MCA_plm_ssh_agent",
            "PRTE_MCA_plm_rsh_agent",
            "PRTE_MCA_plm_ssh_agent",
            "OMPI_MCA_pls_rsh_agent",
            "OMPI_MCA_orte_rsh_agent",
        ],
        arguments: &[
            "OMPI_MCA_plm_rsh_args",
            "OMPI_MCA_plm_ssh_args",
            "PRTE_MCA_plm_rsh_args",
            "PRTE_MCA_plm_ssh_args",
        ],
    },
];

/// Method of reaching hosts, as named by `--launcher`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Ssh, with arguments of the user.
    Ssh,
    /// Command. `{host}` stands for the host, which is otherwise appended.
    Command(&'static [&'static str]),
    /// Unsupported method, with the reason.
    Refused(&'static str),
}

use Way::{Command, Refused, Ssh};

/// Shell script for Flux. `flux exec` takes the number of a broker, which `flux overlay lookup` finds.
const FLUX: &str = "host=$1; shift; exec flux exec -r \"$(flux overlay lookup \"$host\")\" \"$@\"";
/// Job step of one task on one host, which may overlap with all others.
const SLURM: &[&str] = &[
    "srun",
    "--nodes=1",
    "--ntasks=1",
    "--overlap",
    "--mpi=none",
    "--cpu-bind=none",
    "--quiet",
    "--nodelist={host}",
];
const NO_INPUT: &str =
    "pbs_tmrsh and pbsdsh pass on no standard input, and daemons get the job's secret by that";
const UNKNOWN: &str = "not supported: give its command by --agent";

/// Table of agents: names, the program that each needs, and its command. The first name is that in
/// [`super::Source`].
pub const AGENTS: &[(&[&str], &str, Way)] = &[
    (&["ssh"], "ssh", Ssh),
    (&["rsh"], "rsh", Command(&["rsh"])),
    (&["slurm", "srun"], "srun", Command(SLURM)),
    (&["sge", "qrsh"], "qrsh", Command(&["qrsh", "-inherit", "-V"])),
    (&["lsf", "blaunch"], "blaunch", Command(&["blaunch"])),
    (&["flux"], "flux", Command(&["sh", "-c", FLUX, "flux", "{host}"])),
    (&["oar", "oarsh"], "oarsh", Command(&["oarsh"])),
    (
        &["pals", "aprun"],
        "aprun",
        Command(&["aprun", "-q", "-n", "1", "-N", "1", "--cc", "none", "-L", "{host}"]),
    ),
    (&["fork"], "false", Command(&["false"])),
    (&["pbs", "pbsdsh", "pbs_tmrsh"], "pbs_tmrsh", Refused(NO_INPUT)),
    (&["ll", "pdsh", "jmi", "persist", "service", "alps", "manual"], "", Refused(UNKNOWN)),
];

/// Returns the names that `--launcher` takes.
pub fn known() -> String {
    let usable = AGENTS.iter().filter(|row| !matches!(row.2, Refused(_)));
    usable.map(|row| row.0[0]).collect::<Vec<_>>().join(", ")
}

/// Returns the method of this name.
///
/// # Errors
/// Fails with the reason if the method is unknown or unsupported.
pub fn named(name: &str) -> Result<Way, LaunchError> {
    match AGENTS.iter().find(|row| row.0.contains(&name)).map(|row| row.2) {
        Some(Refused(reason)) => Err(LaunchError::Invalid(reason.to_string())),
        Some(way) => Ok(way),
        None => Err(LaunchError::Invalid(format!(
            "one of {} is needed; others have to be given by --agent CMD",
            known()
        ))),
    }
}

/// Settings of the user for the agent, in addition to variables of other launchers.
#[derive(Clone, Copy, Debug, Default)]
pub struct AgentChoice<'a> {
    /// Command of the option `--agent`.
    pub command: Option<&'a str>,
    /// Name of the option `--launcher`.
    pub name: Option<&'a str>,
    /// Value of the setting `TUTTI_AGENT`; empty if there is none.
    pub setting: &'a str,
}

/// Agent of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    /// Words of the command.
    pub words: Vec<String>,
    /// True if the agent belongs to a resource manager. Its controller handles every step, and is known to
    /// accept steps from the first host. Therefore the first host starts all daemons.
    pub is_central: bool,
    /// Lines for the user about variables that are not used.
    pub notes: Vec<String>,
}

/// Chooses the agent by the order of precedence above.
///
/// # Errors
/// Fails if `--launcher` has an unknown or unsupported name.
pub fn choose(
    said: AgentChoice<'_>,
    around: &dyn Surroundings,
    allocation: Option<&Allocation>,
) -> Result<Agent, LaunchError> {
    let mut notes = Vec::new();
    let families = families(allocation);
    let arguments = families.iter().find_map(|row| first(around, row.arguments));
    let arguments = arguments.map(|(_, text)| text).unwrap_or_default();
    let setting = Some(said.setting).filter(|text| !text.trim().is_empty());
    let plain = |words: Vec<String>, notes| Agent { words, is_central: false, notes };
    if let Some(text) = said.command.or(setting.filter(|_| said.name.is_none())) {
        return Ok(plain(split(text), notes));
    }
    let way = match said.name {
        Some(name) => Some(named(name)?),
        None => {
            let told = families.iter().find_map(|row| first(around, row.name));
            told.and_then(|(variable, name)| {
                let found = named(&name);
                found
                    .map_err(|reason| notes.push(format!("{variable}={name} is not followed: {reason}")))
                    .ok()
            })
        }
    };
    let command = families.iter().find_map(|row| first(around, row.command)).map(|(_, text)| text);
    let way = match (way, command) {
        (None | Some(Ssh | Command(&["rsh"])), Some(command)) => {
            return Ok(plain(with_arguments(alternative(&command, around), &arguments), notes));
        }
        (Some(way), _) => way,
        (None, None) => manager(around, allocation).unwrap_or(Ssh),
    };
    Ok(match way {
        Ssh | Refused(_) => plain(with_arguments(vec!["ssh".to_string()], &arguments), notes),
        Command(&["rsh"]) => plain(with_arguments(vec!["rsh".to_string()], &arguments), notes),
        Command(words) => {
            Agent { words: words.iter().map(|word| word.to_string()).collect(), is_central: true, notes }
        }
    })
}

/// Returns the families of variables, first the one that has named the hosts.
fn families(allocation: Option<&Allocation>) -> Vec<&'static Variables> {
    let own = allocation.and_then(|allocation| allocation.family);
    let mut families: Vec<&Variables> = VARIABLES.iter().collect();
    families.sort_by_key(|row| Some(row.family) != own);
    families
}

fn first(around: &dyn Surroundings, names: &[&'static str]) -> Option<(&'static str, String)> {
    names.iter().find_map(|name| Some((*name, around.variable(name)?)))
}

/// Returns the agent of the manager that named the hosts, if its program exists.
fn manager(around: &dyn Surroundings, allocation: Option<&Allocation>) -> Option<Way> {
    let name = allocation?.agent?;
    let (_, program, way) = AGENTS.iter().find(|row| row.0[0] == name)?;
    around.has_program(program).then_some(*way)
}

/// Returns the first command of Open MPI's list `ssh : rsh` whose program exists.
fn alternative(list: &str, around: &dyn Surroundings) -> Vec<String> {
    let mut commands = list.split(':').map(split).filter(|words| !words.is_empty()).peekable();
    let usual = commands.peek().cloned().unwrap_or_default();
    commands.find(|words| words[0].contains('/') || around.has_program(&words[0])).unwrap_or(usual)
}

/// Splits the command of an agent into words. A path becomes absolute, since it is called on other hosts too.
pub fn split(text: &str) -> Vec<String> {
    let mut words: Vec<String> = text.split_whitespace().map(str::to_string).collect();
    if let Some(first) = words.first_mut().filter(|first| first.contains('/')) {
        let path = std::path::absolute(&*first).ok();
        *first = path.and_then(|path| Some(path.to_str()?.to_string())).unwrap_or_else(|| first.clone());
    }
    words
}

/// Adds the user's arguments, and for ssh the standard ones. The user's come first, as ssh takes the first
/// value of an option.
fn with_arguments(mut words: Vec<String>, arguments: &str) -> Vec<String> {
    words.extend(arguments.split_whitespace().map(str::to_string));
    if words.first().is_some_and(|first| first.rsplit('/').next() == Some("ssh")) {
        words.extend(SSH_OPTIONS.split_whitespace().map(str::to_string));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::super::tests::Sample;
    use super::*;

    const SSH: &str = "-x -o BatchMode=yes -o ConnectTimeout=10";

    /// Checks the choice of the agent. `expected` has the command, with `*` in front if it belongs to a
    /// manager, and the notes after `|`.
    fn check(said: AgentChoice<'_>, given: &[(&str, &str)], expected: &str) {
        let around = Sample(given);
        let allocation = super::super::find(&around).unwrap();
        let agent = choose(said, &around, allocation.as_ref()).unwrap();
        let star = if agent.is_central { "*" } else { "" };
        let notes: String = agent.notes.iter().map(|note| format!(" | {note}")).collect();
        let expected = expected.replace("SSH", SSH);
        assert_eq!(format!("{star}{}{notes}", agent.words.join(" ")), expected, "{said:?} {given:?}");
    }

    #[test]
    fn the_user_comes_first() {
        let none = AgentChoice::default();
        let said = AgentChoice { command: Some("mine -x"), name: Some("rsh"), setting: "set" };
        check(said, &[("HYDRA_LAUNCHER", "rsh")], "mine -x");
        check(AgentChoice { command: None, ..said }, &[], "rsh");
        check(AgentChoice { setting: "set", ..none }, &[("HYDRA_LAUNCHER", "rsh")], "set");
        check(AgentChoice { setting: " ", ..none }, &[], "ssh SSH");
        let slurm = [("SLURM_JOB_NODELIST", "x[1-2]"), ("which srun", "yes")];
        check(AgentChoice { name: Some("ssh"), ..none }, &slurm, "ssh SSH");
        assert!(
            choose(AgentChoice { name: Some("moon"), ..none }, &Sample(&[]), None)
                .unwrap_err()
                .to_string()
                .contains("one of ssh, ")
        );
    }

    #[test]
    fn variables_of_launchers_are_followed() {
        let check = |given: &[(&str, &str)], expected: &str| check(AgentChoice::default(), given, expected);
        check(&[("HYDRA_LAUNCH_EXTRA_ARGS", "-o ConnectionAttempts=10")], "ssh -o ConnectionAttempts=10 SSH");
        check(&[("HYDRA_LAUNCHER_EXEC", "/opt/in"), ("HYDRA_LAUNCH_EXTRA_ARGS", "-v")], "/opt/in -v");
        check(&[("I_MPI_HYDRA_BOOTSTRAP", "rsh"), ("I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", "-v")], "rsh -v");
        check(&[("I_MPI_HYDRA_BOOTSTRAP_EXEC", "/usr/bin/ssh")], "/usr/bin/ssh SSH");
        check(&[("OMPI_MCA_plm_rsh_agent", "ssh : rsh"), ("which rsh", "yes")], "rsh");
        check(&[("OMPI_MCA_plm_rsh_agent", "in -q"), ("OMPI_MCA_plm_rsh_args", "-v")], "in -q -v");
        check(&[("PRTE_MCA_plm_ssh_args", "-p 2222")], "ssh -p 2222 SSH");
        check(&[("HYDRA_LAUNCHER", "lsf")], "*blaunch");
        let pbs = "HYDRA_LAUNCHER=pbs is not followed: pbs_tmrsh and pbsdsh pass on no standard input, and daemons \
                   get the job's secret by that";
        check(&[("HYDRA_LAUNCHER", "pbs")], &format!("ssh SSH | {pbs}"));
        // The launcher that named the hosts takes precedence.
        check(
            &[
                ("HYDRA_LAUNCHER_EXEC", "one"),
                ("OMPI_MCA_orte_default_hostfile", "f"),
                ("f", "x\n"),
                ("OMPI_MCA_plm_rsh_agent", "two"),
            ],
            "two",
        );
    }

    #[test]
    fn managers_have_agents() {
        let check = |given: &[(&str, &str)], expected: &str| check(AgentChoice::default(), given, expected);
        let engine = [("PE_HOSTFILE", "f"), ("f", "x1 2 q u\n"), ("which qrsh", "yes")];
        check(&engine, "*qrsh -inherit -V");
        check(&engine[..2], "ssh SSH");
        check(&[("LSB_HOSTS", "x1 x2"), ("which blaunch", "yes")], "*blaunch");
        check(&[("OAR_NODEFILE", "f"), ("f", "x1\n"), ("which oarsh", "yes")], "*oarsh");
        check(&[("PBS_NODEFILE", "f"), ("f", "x1\n"), ("which pbs_tmrsh", "yes")], "ssh SSH");
    }
}
