//! Environment of the ranks: variables inherited by mpirun, those of the command line, and paths of the
//! library.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use tutti_base::config::Config;
use tutti_sys::{debugger, job};

use crate::error::LaunchError;
use crate::interpreters;
use crate::request::{Inherit, Program, Request};

/// Variables by name, so that a later setting replaces an earlier one.
pub type Variables = BTreeMap<OsString, OsString>;

/// Returns the variables and settings of one program. Variables come from `inherited`, then from the options
/// for all programs, then from its own.
///
/// # Errors
/// Fails if a setting `TUTTI_*` has an unknown name or a wrong value.
pub fn of_program(
    inherited: impl Iterator<Item = (OsString, OsString)>,
    request: &Request,
    program: &Program,
) -> Result<(Variables, Config), LaunchError> {
    let inherit = program.inherit.as_ref().unwrap_or(&request.inherit);
    let is_unset = |name: &OsString| program.unset.iter().any(|pattern| is_meant(pattern, name));
    let mut variables: Variables =
        inherited.filter(|(name, _)| is_inherited(inherit, name) && !is_unset(name)).collect();
    // A job started by a rank of another job is a job of its own.
    for own in [job::ENV_FD, job::ENV_RANK, job::ENV_MAXPROCS, job::ENV_IO, debugger::ENV_GATE] {
        variables.remove(&OsString::from(own));
    }
    for (name, value) in request.environment.iter().chain(&program.environment) {
        variables.insert(name.into(), value.into());
    }
    let config = config(&variables)?;
    Ok((variables, config))
}

/// Returns true if `pattern` equals `name`, or ends with `*` and is a prefix of it.
pub fn is_meant(pattern: &str, name: &OsStr) -> bool {
    match pattern.strip_suffix('*') {
        Some(begin) => name.as_bytes().starts_with(begin.as_bytes()),
        None => name.as_bytes() == pattern.as_bytes(),
    }
}

fn is_inherited(inherit: &Inherit, name: &OsStr) -> bool {
    let is_named = |names: &[String]| names.iter().any(|pattern| is_meant(pattern, name));
    match inherit {
        Inherit::All => true,
        Inherit::None => false,
        Inherit::Only(names) => is_named(names),
        Inherit::Except(names) => !is_named(names),
    }
}

/// Returns the settings that variables contain.
///
/// # Errors
/// Fails if a setting `TUTTI_*` has an unknown name or a wrong value.
pub fn config(variables: &Variables) -> Result<Config, LaunchError> {
    let variables = variables.iter().map(|(name, value)| (name.clone(), value.clone()));
    Config::from_variables(variables, std::iter::empty()).map_err(LaunchError::from)
}

/// Returns variables that another host sent as bytes.
pub fn from_bytes(variables: &[(Vec<u8>, Vec<u8>)]) -> Variables {
    let text = |bytes: &Vec<u8>| OsString::from_vec(bytes.clone());
    variables.iter().map(|(name, value)| (text(name), text(value))).collect()
}

/// Puts the library of this installation first in LD_LIBRARY_PATH, unless the command line sets that
/// variable. The libraries for programs of other ABIs (`crates/fronts`) follow. `directory` is the folder of
/// mpirun itself.
pub fn add_library_path(variables: &mut Variables, directory: &Path, program: &Program) {
    const NAME: &str = "LD_LIBRARY_PATH";
    const LIBRARY: &str = "libmpi_abi.so.1";
    // Both contain a `libmpi.so`; see `prefer_front`.
    const FRONTS: [&str; 2] = ["openmpi", "mpich"];
    const SYSTEM: [&str; 3] = ["/lib", "/usr/lib", "/usr/lib64"];
    if program.environment.iter().any(|(name, _)| name == NAME) {
        return;
    }
    let beside = directory.parent().map(|prefix| prefix.join("lib"));
    let candidates = beside.into_iter().chain([directory.to_path_buf()]);
    let Some(found) = candidates.into_iter().find(|candidate| candidate.join(LIBRARY).exists()) else {
        return;
    };
    let fronts = FRONTS.map(|front| found.join("tutti").join(front));
    let is_system = SYSTEM.iter().any(|system| found == Path::new(system));
    let own = Some(found).filter(|_| !is_system);
    let folders: Vec<PathBuf> =
        own.into_iter().chain(fronts.into_iter().filter(|folder| folder.exists())).collect();
    add_r_library_path(variables, program, &folders);
    let mut path: Vec<OsString> = folders.into_iter().map(PathBuf::into_os_string).collect();
    path.extend(variables.get(&OsString::from(NAME)).filter(|before| !before.is_empty()).cloned());
    if !path.is_empty() {
        variables.insert(NAME.into(), path.join(OsStr::new(":")));
    }
}

/// Puts the libraries for programs of MPICH's ABI before those for Open MPI's in LD_LIBRARY_PATH. Both
/// contain a `libmpi.so`, and the loader takes the first.
pub fn prefer_mpich(variables: &mut Variables) {
    let Some(path) = variables.get_mut(OsStr::new("LD_LIBRARY_PATH")) else { return };
    let mut folders: Vec<Vec<u8>> = path.as_bytes().split(|byte| *byte == b':').map(<[u8]>::to_vec).collect();
    let place = |front: &str| folders.iter().position(|folder| folder.ends_with(front.as_bytes()));
    if let (Some(openmpi), Some(mpich)) = (place("/tutti/openmpi"), place("/tutti/mpich"))
        && openmpi < mpich
    {
        folders.swap(openmpi, mpich);
        *path = OsString::from_vec(folders.join(&b':'));
    }
}

/// Sets the corresponding variable for R, which searches its own folders first.
fn add_r_library_path(variables: &mut Variables, program: &Program, folders: &[PathBuf]) {
    let Some(command) = program.command.first() else { return };
    let inherited = variables.get(OsStr::new("PATH")).cloned().or_else(|| std::env::var_os("PATH"));
    let found = interpreters::r_library_path(command, &inherited.unwrap_or_default(), folders);
    if let Some(path) = found {
        variables.entry(interpreters::R_LIBRARY_PATH.into()).or_insert(path);
    }
}

/// Identity of a rank, which its environment contains.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Rank in MPI_COMM_WORLD of the job.
    pub rank: u32,
    /// Number of ranks of the job.
    pub ranks: u32,
    /// Local number of the rank on its host.
    pub local: u32,
    /// Number of ranks on its host.
    pub local_ranks: u32,
    /// Number of the inherited descriptor of the job object.
    pub job_fd: i32,
    /// Further variables, in jobs of several hosts and in jobs under a debugger.
    pub network: Vec<(&'static str, String)>,
}

/// Returns the variables of a rank as `NAME=VALUE`.
pub fn for_rank(variables: &Variables, identity: &Identity) -> Vec<Vec<u8>> {
    let mut own =
        vec![(job::ENV_FD, identity.job_fd.to_string()), (job::ENV_RANK, identity.rank.to_string())];
    let Identity { rank, ranks, local, local_ranks, .. } = identity;
    // Variables that scripts written for MPICH, Intel MPI and Open MPI read.
    let known = [
        ("MPI_LOCALRANKID", local),
        ("MPI_LOCALNRANKS", local_ranks),
        ("PMI_RANK", rank),
        ("PMI_SIZE", ranks),
        ("OMPI_COMM_WORLD_RANK", rank),
        ("OMPI_COMM_WORLD_SIZE", ranks),
        ("OMPI_COMM_WORLD_LOCAL_RANK", local),
        ("OMPI_COMM_WORLD_LOCAL_SIZE", local_ranks),
    ];
    own.extend(known.map(|(name, number)| (name, number.to_string())));
    own.extend(identity.network.iter().cloned());
    let given = variables
        .iter()
        .filter(|(name, _)| !own.iter().any(|(own_name, _)| *name == *own_name))
        .map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat());
    given.chain(own.iter().map(|(name, value)| format!("{name}={value}").into_bytes())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(inherited: &[(&str, &str)], own: &[(&str, &str)]) -> Result<Variables, LaunchError> {
        let inherited = inherited.iter().map(|(n, v)| (OsString::from(n), OsString::from(v)));
        let request = Request { environment: vec![("ALL".into(), "1".into())], ..Request::default() };
        let environment = own.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
        of_program(inherited, &request, &Program { environment, ..Program::default() }).map(|(vars, _)| vars)
    }

    #[test]
    fn later_settings_win_and_the_outer_job_is_forgotten() {
        let got = build(&[("A", "1"), ("ALL", "0"), (job::ENV_RANK, "7")], &[("A", "2")]).unwrap();
        let identity =
            Identity { rank: 7, ranks: 9, local: 3, local_ranks: 4, job_fd: 9, network: Vec::new() };
        let lines = for_rank(&got, &identity);
        let text: Vec<String> = lines.into_iter().map(|line| String::from_utf8(line).unwrap()).collect();
        let tail = ["TUTTI_JOB_FD=9", "TUTTI_JOB_RANK=7", "MPI_LOCALRANKID=3", "MPI_LOCALNRANKS=4"];
        let pmi = ["PMI_RANK=7", "PMI_SIZE=9"];
        let others =
            ["RANK=7", "SIZE=9", "LOCAL_RANK=3", "LOCAL_SIZE=4"].map(|end| format!("OMPI_COMM_WORLD_{end}"));
        let others: Vec<&str> = others.iter().map(String::as_str).collect();
        assert_eq!(text, [&["A=2", "ALL=1"][..], &tail[..], &pmi[..], &others[..]].concat());
    }

    #[test]
    fn programs_inherit_what_is_said() {
        let check = |all: Inherit, own: Option<Inherit>, unset: &[&str], expected: &[&str]| {
            let request = Request { inherit: all, ..Request::default() };
            let unset = unset.iter().map(|name| name.to_string()).collect();
            let program = Program { inherit: own, unset, ..Program::default() };
            let inherited = ["AB", "AC", "B"].map(|name| (OsString::from(name), OsString::new()));
            let (got, _) = of_program(inherited.into_iter(), &request, &program).unwrap();
            assert_eq!(got.keys().collect::<Vec<_>>(), expected);
        };
        let names = |list: &[&str]| list.iter().map(|name| name.to_string()).collect::<Vec<_>>();
        check(Inherit::All, None, &[], &["AB", "AC", "B"]);
        check(Inherit::All, None, &["A*"], &["B"]);
        check(Inherit::None, None, &[], &[]);
        check(Inherit::None, Some(Inherit::Only(names(&["A*"]))), &["AC"], &["AB"]);
        check(Inherit::Except(names(&["AB"])), None, &[], &["AC", "B"]);
    }

    #[test]
    fn a_wrong_setting_is_refused_wherever_it_is_set() {
        for error in [build(&[("TUTTI_EAGRE", "1")], &[]), build(&[], &[("TUTTI_EAGRE", "1")])] {
            assert!(error.unwrap_err().to_string().contains("TUTTI_EAGRE: no such setting"));
        }
    }

    #[test]
    fn the_library_of_this_installation_comes_first() {
        let prefix = std::env::temp_dir().join(format!("tutti-environment-{}", std::process::id()));
        std::fs::create_dir_all(prefix.join("lib/tutti/openmpi")).unwrap();
        std::fs::write(prefix.join("lib/libmpi_abi.so.1"), "").unwrap();
        let name = OsString::from("LD_LIBRARY_PATH");
        let mut variables = Variables::from([(name.clone(), OsString::from("/x"))]);
        add_library_path(&mut variables, &prefix.join("bin"), &Program::default());
        assert_eq!(
            variables[&name],
            OsString::from(format!("{0}:{0}/tutti/openmpi:/x", prefix.join("lib").display()))
        );
        std::fs::create_dir_all(prefix.join("lib/tutti/mpich")).unwrap();
        let mut both = Variables::new();
        add_library_path(&mut both, &prefix.join("bin"), &Program::default());
        let fronts = |one: &str, two: &str| {
            format!("{0}:{0}/tutti/{one}:{0}/tutti/{two}", prefix.join("lib").display())
        };
        assert_eq!(both[&name], OsString::from(fronts("openmpi", "mpich")));
        prefer_mpich(&mut both);
        assert_eq!(both[&name], OsString::from(fronts("mpich", "openmpi")));
        std::fs::remove_dir_all(&prefix).unwrap();
        add_library_path(&mut variables, &prefix.join("bin"), &Program::default());
        assert!(variables[&name].as_bytes().ends_with(b":/x"));
    }
}
