//! From a request to a job that can be started: files found, environments built, ranks counted. All
//! that can be refused is refused here, before anything runs.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tutti_base::config::Config;

use crate::environment::{self, Variables};
use crate::request::{Program, Request, Verbosity};
use crate::{STATUS_USAGE, hosts};

/// Status when a program does not exist, as a shell has it.
pub const STATUS_NOT_FOUND: u8 = 127;
/// Status when a program cannot be executed, as a shell has it.
pub const STATUS_NOT_EXECUTABLE: u8 = 126;

/// A program ready to start.
#[derive(Debug)]
pub struct Ready {
    /// The file to execute.
    pub file: PathBuf,
    /// The name that the user gave it.
    pub name: String,
    /// Arguments, the name first.
    pub arguments: Vec<OsString>,
    /// Working directory, if it is not that of mpirun.
    pub directory: Option<PathBuf>,
    /// Environment, without what differs from rank to rank.
    pub variables: Variables,
}

/// A job ready to start.
#[derive(Debug)]
pub struct JobPlan {
    /// The programs.
    pub programs: Vec<Ready>,
    /// For each rank, the index of its program.
    pub ranks: Vec<usize>,
    /// The settings, read from the environment of the first program.
    pub config: Config,
}

/// Why a request cannot be run.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Exit status.
    pub status: u8,
    /// For the user.
    pub reason: String,
}

fn usage(reason: String) -> Refusal {
    Refusal { status: STATUS_USAGE, reason }
}

/// Prepares everything that a request names.
///
/// # Errors
/// The first thing that is wrong.
pub fn prepare(request: &Request) -> Result<JobPlan, Refusal> {
    let mut files = Vec::new();
    for name in &request.host_files {
        let text =
            std::fs::read_to_string(name).map_err(|error| usage(format!("host file {name}: {error}")))?;
        files.push((name.clone(), text));
    }
    let slots = hosts::local_slots(&request.hosts, &files).map_err(usage)?;
    let default_count = request.per_node.or(slots).unwrap_or(1);
    let own_directory = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.to_path_buf()));

    let mut job = JobPlan { programs: Vec::new(), ranks: Vec::new(), config: Config::default() };
    for program in &request.programs {
        let (mut variables, config) =
            environment::of_program(std::env::vars_os(), request, program).map_err(usage)?;
        if let Some(directory) = &own_directory {
            environment::add_library_path(&mut variables, directory, program);
        }
        warn_of_missing(request, program, &variables);
        if job.programs.is_empty() {
            job.config = config;
        }
        let index = job.programs.len();
        let count = program.count.unwrap_or(default_count) as usize;
        job.ranks.extend(std::iter::repeat_n(index, count));
        job.programs.push(locate(program, variables)?);
    }
    Ok(job)
}

fn warn_of_missing(request: &Request, program: &Program, variables: &Variables) {
    for name in &program.exported {
        if request.verbosity != Verbosity::Quiet && !variables.contains_key(OsStr::new(name)) {
            eprintln!("mpirun: warning: -x {name}: there is no such variable to pass on");
        }
    }
}

fn locate(program: &Program, variables: Variables) -> Result<Ready, Refusal> {
    let directory = program.directory.as_ref().map(PathBuf::from);
    if let Some(directory) = directory.as_ref().filter(|directory| !directory.is_dir()) {
        return Err(usage(format!("working directory {} does not exist", directory.display())));
    }
    let command = program.command.first().expect("the parser refuses a program without a name");
    let name = command.to_string_lossy().into_owned();
    let base = directory.as_deref().unwrap_or(Path::new(""));
    let path = variables.get(OsStr::new("PATH")).map_or(OsStr::new("/usr/bin:/bin"), OsString::as_os_str);
    let mut path = path.to_os_string();
    if let Some(search) = &program.search {
        path = [search.as_os_str(), OsStr::new(":"), &path].into_iter().collect();
    }
    let file = find(Path::new(command), base, &path)?;
    Ok(Ready { file, name, arguments: program.command.clone(), directory, variables })
}

/// Finds the file of a program: a name with a slash is a path from `base`, another is looked for in
/// `path`.
fn find(name: &Path, base: &Path, path: &OsStr) -> Result<PathBuf, Refusal> {
    let shown = name.display();
    if name.components().count() > 1 || name.to_string_lossy().contains('/') {
        let file = base.join(name);
        return match executable(&file) {
            Found::Yes => std::path::absolute(&file).map_err(|error| usage(format!("{shown}: {error}"))),
            Found::No(reason) => Err(Refusal {
                status: STATUS_NOT_EXECUTABLE,
                reason: format!("cannot execute {shown}: {reason}"),
            }),
            Found::Absent => Err(missing(format!("program {shown} does not exist"))),
        };
    }
    let mut refused = None;
    for directory in std::env::split_paths(path) {
        let file = base.join(directory).join(name);
        match executable(&file) {
            Found::Yes => {
                return std::path::absolute(&file).map_err(|error| usage(format!("{shown}: {error}")));
            }
            Found::No(reason) => refused = Some(format!("cannot execute {}: {reason}", file.display())),
            Found::Absent => {}
        }
    }
    if let Some(reason) = refused {
        return Err(Refusal { status: STATUS_NOT_EXECUTABLE, reason });
    }
    let here = matches!(executable(&base.join(name)), Found::Yes);
    let hint = if here { format!("; did you mean ./{shown}?") } else { String::new() };
    Err(missing(format!("program {shown} is not in PATH{hint}")))
}

fn missing(reason: String) -> Refusal {
    Refusal { status: STATUS_NOT_FOUND, reason }
}

enum Found {
    Yes,
    No(&'static str),
    Absent,
}

fn executable(file: &Path) -> Found {
    match std::fs::metadata(file) {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Found::No("permission denied"),
        Err(_) => Found::Absent,
        Ok(metadata) if metadata.is_dir() => Found::No("it is a directory"),
        Ok(metadata) if metadata.permissions().mode() & 0o111 == 0 => Found::No("it is not executable"),
        Ok(_) => Found::Yes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, base: &str, path: &str, expected: Result<&str, (u8, &str)>) {
        match (find(Path::new(name), Path::new(base), OsStr::new(path)), expected) {
            (Ok(file), Ok(wanted)) => assert_eq!(file, Path::new(wanted)),
            (Err(refusal), Err((status, part))) => {
                assert_eq!(refusal.status, status, "{}", refusal.reason);
                assert!(refusal.reason.contains(part), "{}", refusal.reason);
            }
            (got, expected) => panic!("{name}: {got:?} instead of {expected:?}"),
        }
    }

    #[test]
    fn programs_are_found_or_refused_with_a_shells_status() {
        check("sh", "", "/nowhere:/bin", Ok("/bin/sh"));
        check("./sh", "/bin", "", Ok("/bin/./sh"));
        check("/bin/sh", "/tmp", "", Ok("/bin/sh"));
        check("no-such-thing", "", "/bin", Err((127, "no-such-thing is not in PATH")));
        check("sh", "/bin", "/nowhere", Err((127, "did you mean ./sh?")));
        check("./no-such-thing", "", "", Err((127, "program ./no-such-thing does not exist")));
        check("/etc/passwd", "", "", Err((126, "it is not executable")));
        check("/etc", "", "", Err((126, "it is a directory")));
    }
}
