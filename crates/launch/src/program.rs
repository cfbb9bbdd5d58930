//! Preparation of a job from a request: finds files, builds environments and counts ranks. All checks are
//! made here, before any rank starts.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tutti_base::config::{CheckpointPacking, CheckpointWriting, Config, ForeignMpi, Offload};
use tutti_base::{Placement, PortRange};
use tutti_checkpoint::input::Resumption;
use tutti_checkpoint::pace::{Packed, Writing};
use tutti_sys::{cpu, files, job, process, refusal};

use crate::environment::{self, Variables};
use crate::error::LaunchError;
use crate::instruments;
use crate::needed::{self, Abi, Needed};
use crate::options::MAXIMUM_RANKS;
use crate::outcome::STATUS_USAGE;
use crate::report::Shown;
use crate::request::{Assignment, Program, Request, Verbosity};
use crate::tree::handshake;
use crate::tree::message::{JobInfo, ProgramPlan, RankOptions};
use crate::{calibration, debugger, io_servers, mapping, rankfile};

pub mod again;
mod usable;

use usable::{Hosts, read_hosts};

/// Exit status if a program does not exist, like that of a shell.
pub const STATUS_NOT_FOUND: u8 = 127;
/// Exit status if a program cannot be executed, like that of a shell.
pub const STATUS_NOT_EXECUTABLE: u8 = 126;

/// Program that is ready to start.
#[derive(Debug)]
pub struct Ready {
    /// Path of the file to execute.
    pub file: PathBuf,
    /// Arguments, beginning with the program's name.
    pub arguments: Vec<OsString>,
    /// Working directory, if it differs from that of this process.
    pub directory: Option<PathBuf>,
    /// Environment, without variables that differ between ranks.
    pub variables: Variables,
    /// MPI library that it needs, as far as this is known before the start.
    pub needed: Option<Needed>,
}

/// Part of a job that one host starts.
#[derive(Debug)]
pub struct HostJob {
    /// Description of the whole job.
    pub info: Arc<JobInfo>,
    /// Hosts of all ranks of the job.
    pub placement: Placement,
    /// Number of this host in the placement.
    pub host: u32,
    /// World rank of each local rank.
    pub world: Vec<u32>,
    /// Index of the program of each local rank.
    pub program_of: Vec<usize>,
    /// Programs of the job. None if the program has no rank here, or if the job continues from a checkpoint.
    pub programs: Vec<Option<Ready>>,
    /// Settings, read from the environment of the first program.
    pub config: Config,
}

/// Prepared job, as the root starts it.
#[derive(Debug)]
pub struct JobPlan {
    /// Description of the job for all daemons.
    pub info: Arc<JobInfo>,
    /// Part that this host starts, if it has ranks.
    pub here: Option<HostJob>,
    /// Shared secret of the job.
    pub secret: job::Secret,
    /// Running I/O servers, which end when this value is dropped.
    pub io_servers: Option<io_servers::Running>,
    /// Adjustment of the standard input before ranks read it.
    pub resumption: Resumption,
    /// Hosts of the job, for messages before the start.
    pub shown: Shown,
}

/// Reason why a request cannot be run.
#[derive(Debug, PartialEq, Eq)]
pub struct PrepareError {
    /// Exit status of mpirun.
    pub status: u8,
    /// Text for the user.
    pub reason: String,
}

pub(crate) fn usage(reason: impl fmt::Display) -> PrepareError {
    PrepareError { status: STATUS_USAGE, reason: reason.to_string() }
}

/// Prepares the job of a request.
///
/// # Errors
/// Returns the first error that is found.
pub fn prepare(request: &Request) -> Result<JobPlan, PrepareError> {
    let launcher = match &request.prefix {
        Some(prefix) => Path::new(prefix).join("bin/mpirun"),
        None => std::env::current_exe().unwrap_or_else(|_| "mpirun".into()),
    };
    let own_directory = launcher.parent().map(Path::to_path_buf);
    if let Some((directory, set)) = &request.checkpoints.restart {
        return again::prepare(request, directory, *set, launcher);
    }
    let mut info = JobInfo::default();
    let mut config = None;
    for program in &request.programs {
        let inherited: Vec<_> = match &request.spawned {
            Some(spawned) => spawned.variables.clone(),
            None => std::env::vars_os().collect(),
        };
        let (mut variables, mut settings) =
            environment::of_program(inherited.into_iter(), request, program).map_err(usage)?;
        do_without_offload(request, &mut settings, &mut variables);
        if let Some(directory) = &own_directory {
            environment::add_library_path(&mut variables, directory, program);
        }
        warn_of_missing(request, program, &variables);
        config.get_or_insert(settings);
        info.programs.push(as_plan(program, variables).map_err(usage)?);
    }
    let config = config.expect("the parser refuses a command line without a program");
    let mut hosts = Hosts::find(request).map_err(usage)?;
    info.manner = manner(request, &config);
    if request.is_debugged {
        let words = || config.launch.debugger.split_whitespace().map(|word| word.as_bytes().to_vec());
        info.programs.iter_mut().for_each(|program| program.command.splice(0..0, words()).for_each(drop));
    }
    let placement = spread(request, &mut hosts, &mut info)?;
    refuse_trace(&config, &info).map_err(usage)?;
    info.pace_ms = (config.launch.heartbeat_ms, config.launch.silence_ms);
    (info.hang_ms, info.hang_aborts) = (config.diagnosis.hang.after_ms, config.diagnosis.hang.aborts);
    info.ports = config.network.port_range.map(PortRange::bounds);
    (info.start_ms, info.stop) = (config.launch.start_ms, config.checkpoint.checkpoint_stop.clone());
    info.keeping = keeping(&config);
    info.interface = request.interface.clone().unwrap_or_else(|| config.network.interface.clone());
    hosts.reach(request, &config, &mut info).map_err(usage)?;
    info.launcher = launcher.into_os_string().into_vec();
    info.directory = std::env::current_dir().unwrap_or_default().into_os_string().into_vec();
    info.model = calibration::model(&config, request, own_directory.as_deref());
    info.job_id = match &request.spawned {
        Some(spawned) => spawned.job_id,
        None => process::random()
            .map_err(|error| usage(format!("no randomness: {}", refusal::explain(&error))))?,
    };
    let secret = random_secret()?;
    info.io_servers = request.io_servers.clone();
    let io_servers = match &info.io_servers {
        wanted if wanted.count == 0 => None,
        wanted => {
            let of_ranks = handshake::derive(&secret.0, "ranks");
            let (running, text) = io_servers::start(wanted, &info, &of_ranks).map_err(usage)?;
            let variable = (job::ENV_IO.into(), text.into_bytes());
            info.programs.iter_mut().for_each(|program| program.variables.push(variable.clone()));
            Some(running)
        }
    };
    let info = Arc::new(info);
    let here = info.daemon_of.iter().position(|&daemon| daemon == 0);
    let here = here.map(|host| HostJob::new(Arc::clone(&info), placement, host as u32, true)).transpose()?;
    let shown = hosts.shown();
    Ok(JobPlan { info, here, secret, io_servers, resumption: Resumption::AsGiven, shown })
}

/// Draws the random secret of a job.
fn random_secret() -> Result<job::Secret, PrepareError> {
    job::Secret::random().map_err(|error| usage(format!("no randomness: {}", refusal::explain(&error))))
}

/// Disables collectives in the kernel for a job that writes checkpoints, unless the user has enabled them.
/// They would make a restart require as many hosts as before, each with `tutti netd`. Such a job may have to
/// continue with fewer.
fn do_without_offload(request: &Request, settings: &mut Config, variables: &mut Variables) {
    if settings.collectives.offload == Offload::Auto && request.checkpoints.directory.is_some() {
        settings.collectives.offload = Offload::Off;
        variables.insert("TUTTI_OFFLOAD".into(), "off".into());
    }
}

/// Refuses a trace that rank 0 could not write at the end. This is checked if rank 0 runs on this host.
fn refuse_trace(config: &Config, info: &JobInfo) -> Result<(), LaunchError> {
    let trace = &config.diagnosis.trace;
    let daemon = info.runs.first().and_then(|&(host, _)| info.daemon_of.get(host as usize));
    if trace.is_empty() || daemon != Some(&0) {
        return Ok(());
    }
    let directory = info.programs.first().and_then(|program| program.directory.as_ref());
    let path =
        directory.map_or(Path::new(""), |directory| Path::new(OsStr::from_bytes(directory))).join(trace);
    let what = format!("the trace (--trace, TUTTI_TRACE) cannot be written to {}", path.display());
    files::try_write(&path).map_err(LaunchError::system(what))
}

/// Returns the modes in which checkpoints are written.
fn keeping(config: &Config) -> (Writing, Packed) {
    let writing = match config.checkpoint.checkpoint_writing {
        CheckpointWriting::Auto => Writing::Auto,
        CheckpointWriting::Still => Writing::Still,
        CheckpointWriting::Fork => Writing::Fork,
    };
    let packed = match config.checkpoint.checkpoint_packing {
        CheckpointPacking::Auto => Packed::Auto,
        CheckpointPacking::Never => Packed::Never,
        CheckpointPacking::Always => Packed::Always,
    };
    (writing, packed)
}

/// Returns the options for the placement and output of ranks.
fn manner(request: &Request, config: &Config) -> RankOptions {
    RankOptions {
        placing: request.placing.clone(),
        report_bindings: request.report_bindings,
        tagging: request.tagging.clone(),
        output: request.output.clone(),
        input: request.input.unwrap_or(Some(0)),
        is_input_copied: request.is_input_copied,
        verbose: request.verbosity == Verbosity::Verbose,
        waits_for_debugger: request.is_debugged && config.launch.debugger.is_empty() || debugger::is_here(),
    }
}

/// Returns the host of each rank, if an option or a file names hosts rank by rank. Stores the hosts in
/// `hosts`, and the cores in `info`.
fn assigned(
    request: &Request,
    hosts: &mut Hosts,
    info: &mut JobInfo,
) -> Result<Option<Vec<usize>>, LaunchError> {
    let host_of = match &request.assignment {
        Assignment::Slots => return Ok(None),
        Assignment::RankFile(name) => {
            let known = if hosts.are_named { hosts.hosts.clone() } else { Vec::new() };
            let assigned = rankfile::parse(&read_hosts(name)?, name, known)?;
            info.manner.placing.told = assigned.cores;
            hosts.hosts = assigned.hosts;
            assigned.host_of
        }
        Assignment::Sequence(name) => {
            let name = name.as_ref().or(request.host_files.first());
            let name = name.ok_or_else(|| {
                LaunchError::Invalid("seq needs :file=NAME or a host file, with a host a line".to_string())
            })?;
            let assigned = rankfile::sequence(&read_hosts(name)?, name)?;
            hosts.hosts = assigned.hosts;
            assigned.host_of
        }
        Assignment::Hosts(numbers) => {
            let known = hosts.hosts.len();
            if let Some(wrong) = numbers.iter().find(|&&number| number as usize >= known) {
                return Err(LaunchError::Invalid(format!(
                    "rankmap: there is no host {wrong}: {known} are named, counted from 0"
                )));
            }
            numbers.iter().map(|&number| number as usize).collect()
        }
    };
    hosts.are_named = true;
    Ok(Some(host_of))
}

/// Counts the ranks and assigns them to hosts.
fn spread(request: &Request, hosts: &mut Hosts, info: &mut JobInfo) -> Result<Placement, PrepareError> {
    let host_of = assigned(request, hosts, info).map_err(usage)?;
    let slots = match &host_of {
        Some(host_of) => vec![host_of.len() as u32],
        None => hosts.slots(request),
    };
    let total = slots.iter().fold(0u32, |sum, &slots| sum.saturating_add(slots));
    let mut ranks = 0u32;
    for (index, program) in (0..).zip(&request.programs) {
        let count = program.count.unwrap_or(total);
        ranks = ranks.saturating_add(count);
        info.programs_of.push((index, count));
        // Value of `maxprocs` in MPI_INFO_ENV (MPI-5 section 11.2.1), which must be known before MPI_Init.
        let variables = info.programs.get_mut(index as usize).map(|plan| &mut plan.variables);
        let asked = (job::ENV_MAXPROCS.into(), count.to_string().into_bytes());
        variables.into_iter().for_each(|variables| variables.push(asked.clone()));
    }
    if ranks > MAXIMUM_RANKS {
        return Err(usage(format!("{ranks} ranks: at most {MAXIMUM_RANKS} are possible")));
    }
    let has_slots = hosts.are_named || request.per_node.is_some() || request.per_unit.is_some();
    let most = if has_slots { total } else { cpu::usable_processors() as u32 };
    if ranks > most && (request.is_within_slots || host_of.is_some()) {
        return Err(usage(format!(
            "{ranks} ranks: there is room for {most} (more are started without these rules)"
        )));
    }
    if info.manner.input.is_some_and(|rank| rank >= ranks) {
        return Err(usage(format!("--stdin: there are {ranks} ranks, counted from 0")));
    }
    let (used, placement) = match host_of {
        Some(host_of) => mapping::assign(&host_of[..ranks as usize]),
        None => mapping::map(ranks, &slots, request.across, request.rank_by),
    };
    let room = if hosts.are_named && hosts.hosts.len() > 1 { total } else { cpu::usable_processors() as u32 };
    // The processes that have started this job belong to the same universe (MPI-5 section 11.10.1).
    let parents = request.spawned.as_ref().map_or(0, |spawned| spawned.parents);
    let universe = request.universe.unwrap_or(room);
    info.universe_size = ranks.saturating_add(parents).max(universe);
    let own = process::host_name();
    info.names = vec![own.clone()];
    for host in used {
        let name = &hosts.hosts[host].name;
        if *name == own {
            info.daemon_of.push(0);
        } else {
            info.daemon_of.push(info.names.len() as u32);
            info.names.push(name.clone());
        }
    }
    info.runs = placement.runs().iter().map(|run| (run.host, run.ranks)).collect();
    Ok(placement)
}

/// Converts a program and its variables to the form for daemons.
fn as_plan(program: &Program, variables: Variables) -> Result<ProgramPlan, LaunchError> {
    let bytes = |text: OsString| text.into_vec();
    let directory = program.directory.as_ref().map(|directory| {
        let shown = Path::new(directory).display();
        std::path::absolute(directory).map_err(LaunchError::system(format!("working directory {shown}")))
    });
    Ok(ProgramPlan {
        command: program.command.iter().cloned().map(bytes).collect(),
        directory: directory.transpose()?.map(|directory| bytes(directory.into())),
        // A program without PATH in its environment is searched in the PATH of mpirun.
        search: match variables.contains_key(OsStr::new("PATH")) {
            true => program.search.clone().map(bytes),
            false => program.search.clone().or_else(|| std::env::var_os("PATH")).map(bytes),
        },
        variables: variables.into_iter().map(|(name, value)| (bytes(name), bytes(value))).collect(),
    })
}

/// Maximum bytes of a host file.
pub const HOST_FILE_BYTES: u64 = 64 << 20;

fn warn_of_missing(request: &Request, program: &Program, variables: &Variables) {
    for name in &program.exported {
        if request.verbosity != Verbosity::Quiet
            && !variables.keys().any(|known| environment::is_meant(name, known))
        {
            eprintln!("mpirun: warning: -x {name}: there is no such variable to pass on");
        }
    }
}

impl HostJob {
    /// Prepares the part of host `host`. `is_here` is true in mpirun itself, where programs start in the
    /// current directory unless they name another one. Programs of a job that continues from a checkpoint are
    /// not searched: the image of a rank contains their file and directory.
    ///
    /// # Errors
    /// Returns the first thing that this host lacks.
    pub fn new(
        info: Arc<JobInfo>,
        placement: Placement,
        host: u32,
        is_here: bool,
    ) -> Result<HostJob, PrepareError> {
        let world = placement.ranks_on(host);
        let mut ends = Vec::new();
        for &(_, count) in &info.programs_of {
            ends.push(ends.last().copied().unwrap_or(0) + count);
        }
        let program_of: Vec<usize> =
            world.iter().map(|&rank| ends.partition_point(|&end| end <= rank)).collect();
        let mut programs = Vec::new();
        let mut config = None;
        for (index, program) in info.programs.iter().enumerate() {
            let variables = environment::from_bytes(&program.variables);
            let settings = environment::config(&variables).map_err(usage)?;
            config.get_or_insert(settings);
            let is_used = program_of.contains(&index) && info.restart.is_none();
            let ready = is_used.then(|| locate(program, &info, variables, is_here)).transpose()?;
            if let Some(ready) = ready.as_ref().filter(|_| info.ranks_of(index) > 1) {
                refuse_foreign(ready, config.as_ref())?;
            }
            programs.push(ready);
        }
        let config = config.ok_or_else(|| usage("a job without programs".to_string()))?;
        Ok(HostJob { info, placement, host, world, program_of, programs, config })
    }

    /// Returns the program of a local rank that is started.
    ///
    /// # Panics
    /// Panics if there is no such rank, or if the job continues from a checkpoint.
    pub fn program(&self, local: u32) -> &Ready {
        self.programs[self.program_of[local as usize]].as_ref().expect("located because this rank starts it")
    }
}

/// Finds the file of a program and completes its environment, on the host where it will run.
fn locate(
    program: &ProgramPlan,
    info: &JobInfo,
    mut variables: Variables,
    is_here: bool,
) -> Result<Ready, PrepareError> {
    let path_of = |bytes: &Vec<u8>| PathBuf::from(OsString::from_vec(bytes.clone()));
    let directory = program.directory.as_ref().or((!is_here).then_some(&info.directory)).map(path_of);
    if let Some(directory) = directory.as_ref().filter(|directory| !directory.is_dir()) {
        return Err(usage(format!("working directory {} does not exist", directory.display())));
    }
    let arguments: Vec<OsString> = program.command.iter().cloned().map(OsString::from_vec).collect();
    let name = arguments.first().ok_or_else(|| usage("a program without a name".to_string()))?;
    let base = directory.as_deref().unwrap_or(Path::new(""));
    let path = variables.get(OsStr::new("PATH")).map_or(OsStr::new("/usr/bin:/bin"), OsString::as_os_str);
    let mut path = path.to_os_string();
    if let Some(search) = &program.search {
        path = [OsStr::from_bytes(search), OsStr::new(":"), &path].into_iter().collect();
    }
    let file = find(Path::new(name), base, &path)?;
    let library_path =
        variables.get(OsStr::new("LD_LIBRARY_PATH")).map_or(OsStr::new(""), OsString::as_os_str);
    let needed = needed::by_program(&file, library_path);
    let own = std::env::current_exe().ok();
    let named = needed.as_ref().and_then(|needed| Abi::from_name(needed.library.as_bytes()));
    let unversioned = || own.as_deref().and_then(|own| needed::unversioned(own, library_path));
    // A program that loads `libmpi.so` at run time gets the ABI that it already uses. If it uses none, it
    // gets the one that it would load without Tutti.
    if named == Some(Abi::Mpich) || named.is_none() && unversioned() == Some(Abi::Mpich) {
        environment::prefer_mpich(&mut variables);
    }
    if let Some(prefix) = own.as_deref().and_then(Path::parent).and_then(Path::parent) {
        instruments::add_suppressions(&mut variables, &file, prefix);
    }
    Ok(Ready { file, arguments, directory, variables, needed })
}

/// Refuses several ranks of a program of another MPI library. Each of them would be rank 0 of a job of one
/// rank.
fn refuse_foreign(ready: &Ready, config: Option<&Config>) -> Result<(), PrepareError> {
    let starts = config.is_some_and(|config| config.launch.foreign_mpi == ForeignMpi::Start);
    match ready.needed.as_ref().filter(|needed| needed.abi != Abi::Standard && !starts) {
        Some(needed) => Err(usage(format!("{} {needed}", ready.file.display()))),
        None => Ok(()),
    }
}

/// Finds the file of a program. A name with a slash is a path relative to `base`; another name is searched in
/// `path`.
fn find(name: &Path, base: &Path, path: &OsStr) -> Result<PathBuf, PrepareError> {
    let shown = name.display();
    if name.components().count() > 1 || name.to_string_lossy().contains('/') {
        let file = base.join(name);
        return match executable(&file) {
            Found::Yes => std::path::absolute(&file).map_err(|error| usage(format!("{shown}: {error}"))),
            Found::No(reason) => Err(PrepareError {
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
        return Err(PrepareError { status: STATUS_NOT_EXECUTABLE, reason });
    }
    let here = matches!(executable(&base.join(name)), Found::Yes);
    let hint = if here { format!("; did you mean ./{shown}?") } else { String::new() };
    Err(missing(format!("program {shown} is not in PATH{hint}")))
}

fn missing(reason: String) -> PrepareError {
    PrepareError { status: STATUS_NOT_FOUND, reason }
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
