//! Environment variables by which other launchers and resource managers name hosts. Pure.
//!
//! Operators of Kubernetes and job scripts set them and expect the launcher to use these hosts. `mpirun` does
//! not read them. If no hosts are named on its command line, it ends with a message: otherwise all ranks
//! would run on one host, and nobody would notice. Slurm's variables and PBS_NODEFILE are understood
//! ([`crate::slurm`]) and not in this table.

/// Form in which a variable names hosts; it decides what the message proposes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Path of a host file as `--hostfile` reads it.
    HostFile,
    /// Path of a file with hosts in the first column and slots in the second.
    Columns,
    /// Hosts and slots in turn: `a 4 b 4`.
    Pairs,
    /// Hosts, repeated for each slot, separated by blanks or commas.
    Names,
    /// Hosts with slots, as `--host` takes them.
    Entries,
}

use Form::{Columns, Entries, HostFile, Names, Pairs};

/// Each variable, who sets it or reads it, and its form.
const VARIABLES: &[(&str, &str, Form)] = &[
    ("HYDRA_HOST_FILE", "MPICH", HostFile),
    ("I_MPI_HYDRA_HOST_FILE", "Intel MPI", HostFile),
    ("I_MPI_HYDRA_MACHINE_FILE", "Intel MPI", HostFile),
    ("I_MPI_HYDRA_HOSTS_GROUP", "Intel MPI", Entries),
    ("OMPI_MCA_orte_default_hostfile", "Open MPI", HostFile),
    ("OMPI_MCA_orte_default_dash_host", "Open MPI", Entries),
    ("OMPI_MCA_orte_hostfile", "Open MPI", HostFile),
    ("OMPI_MCA_prte_default_hostfile", "Open MPI", HostFile),
    ("PRTE_MCA_prte_default_hostfile", "Open MPI", HostFile),
    ("PRTE_MCA_prte_default_dash_host", "Open MPI", Entries),
    ("PRTE_DEFAULT_HOSTFILE", "Open MPI", HostFile),
    ("PE_HOSTFILE", "Grid Engine", Columns),
    ("LSB_DJOB_HOSTFILE", "LSF", HostFile),
    ("LSB_MCPU_HOSTS", "LSF", Pairs),
    ("LSB_HOSTS", "LSF", Names),
    ("LOADL_HOSTFILE", "LoadLeveler", HostFile),
    ("LOADL_PROCESSOR_LIST", "LoadLeveler", Names),
    ("COBALT_NODEFILE", "Cobalt", HostFile),
    ("OAR_NODEFILE", "OAR", HostFile),
    ("OAR_NODE_FILE", "OAR", HostFile),
    ("PJM_O_NODEINF", "Fujitsu's job manager", HostFile),
    ("MP_HOSTFILE", "IBM's Parallel Environment", HostFile),
];

/// Most hosts that a message repeats from a variable.
const SHOWN: usize = 64;

/// Returns the message for the first of these variables that is set, if one is.
///
/// # Errors
/// The message: the variable, its value, and what to type instead.
pub fn refuse(variable: impl Fn(&str) -> Option<String>) -> Result<(), String> {
    let found = VARIABLES.iter().find_map(|row| {
        let value = variable(row.0).filter(|value| !value.trim().is_empty())?;
        Some((row, value))
    });
    let Some(((name, owner, form), value)) = found else { return Ok(()) };
    Err(format!(
        "{name} ({owner}) names hosts, which Tutti does not take from there: all ranks would run on this host; type mpirun {} ..., \
         or, to run here alone, --host localhost:N",
        instead(name, &value, *form)
    ))
}

/// Returns the option that names the same hosts.
fn instead(name: &str, value: &str, form: Form) -> String {
    let words = || value.split([' ', ',', '\t', '\n']).filter(|word| !word.is_empty());
    let listed = |entries: Vec<String>| match entries.len() {
        1..=SHOWN => format!("--host {}", entries.join(",")),
        _ => "--host NAME:N,...".to_string(),
    };
    match form {
        HostFile => format!("--hostfile {value}"),
        Columns => format!(
            "--hostfile FILE with lines NAME:N, as awk '{{print $1 \":\" $2}}' \"${name}\" makes them,"
        ),
        Entries => listed(words().map(str::to_string).collect()),
        Pairs => {
            let words: Vec<&str> = words().collect();
            listed(words.as_chunks::<2>().0.iter().map(|[host, slots]| format!("{host}:{slots}")).collect())
        }
        Names => {
            let mut hosts: Vec<(&str, u32)> = Vec::new();
            for word in words() {
                match hosts.iter_mut().find(|(host, _)| *host == word) {
                    Some((_, slots)) => *slots += 1,
                    None => hosts.push((word, 1)),
                }
            }
            listed(hosts.into_iter().map(|(host, slots)| format!("{host}:{slots}")).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, value: &str, expected: &str) {
        let got = refuse(|known| (known == name).then(|| value.to_string())).err().unwrap_or_default();
        let is_right =
            if expected.is_empty() { got.is_empty() } else { got.contains(name) && got.contains(expected) };
        assert!(is_right, "{name}={value}: {got:?}");
    }

    #[test]
    fn variables_of_others_are_named_with_the_option_in_their_place() {
        check("HYDRA_HOST_FILE", "/etc/mpi/hostfile", "mpirun --hostfile /etc/mpi/hostfile ...");
        check("OMPI_MCA_orte_default_hostfile", "/etc/mpi/hostfile", "--hostfile /etc/mpi/hostfile");
        check("PE_HOSTFILE", "/spool/pe", "awk '{print $1 \":\" $2}' \"$PE_HOSTFILE\"");
        check("LSB_MCPU_HOSTS", "a 4 b 2 ", "--host a:4,b:2");
        check("LSB_HOSTS", "a a b", "--host a:2,b:1");
        check("I_MPI_HYDRA_HOSTS_GROUP", "a,b", "--host a,b");
        check("HYDRA_HOST_FILE", " ", "");
        check("PATH", "/bin", "");
    }
}
