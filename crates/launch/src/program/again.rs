//! Preparation of a job that continues from a checkpoint. The manifest describes the job; the command line
//! names its hosts.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tutti_base::PortRange;
use tutti_base::config::Config;
use tutti_checkpoint::input::{self, Offered, Resumption};
use tutti_checkpoint::process::capture;
use tutti_checkpoint::sets::{Directory, Manifest};
use tutti_sys::kept::MOST_SERVERS_BYTES;
use tutti_sys::{job, process};

use super::{HostJob, Hosts, JobPlan, PrepareError, keeping, random_secret, usage};
use crate::error::LaunchError;
use crate::outcome::STATUS_DAMAGED;
use crate::request::{Request, Verbosity};
use crate::root::placement_of;
use crate::tree::handshake;
use crate::tree::message::{JobInfo, Restart};
use crate::{environment, io_servers};

/// Finds the set, and the hosts on which its ranks are restored.
///
/// # Errors
/// Fails with a text for the user if something is missing or does not fit.
pub fn prepare(
    request: &Request,
    directory: &OsString,
    set: Option<u64>,
    launcher: PathBuf,
) -> Result<JobPlan, PrepareError> {
    let folder = Directory::new(Path::new(directory));
    let allows_others = request.checkpoints.allows_others;
    let manifest = choose(&folder, set, allows_others)?;
    let fits = check_machine(&folder, manifest.set, &manifest.machine, &capture::machine());
    fits.map_err(|error| PrepareError { status: STATUS_DAMAGED, reason: error.to_string() })?;
    let mut info: JobInfo = postcard::from_bytes(&manifest.job)
        .map_err(|_| usage(format!("checkpoint {} does not say what the job is", manifest.set)))?;
    let variables = info.programs.first().map(|program| environment::from_bytes(&program.variables));
    let config = environment::config(&variables.unwrap_or_default()).map_err(usage)?;
    let resumption = resume_input(&manifest, &info, request)?;
    let mut hosts = Hosts::find(request).map_err(usage)?;
    place(&mut info, &hosts, request)?;
    settle(&mut info, request, &config, launcher);
    hosts.reach(request, &config, &mut info).map_err(usage)?;
    let secret = random_secret()?;
    let (io_servers, servers) = start_servers(&info, &secret).map_err(usage)?.unzip();
    info.restart = Some(Restart {
        directory: directory.clone().into_vec(),
        set: manifest.set,
        files: request.checkpoints.files,
        allows_others,
        servers: servers.unwrap_or_default().into_bytes(),
    });
    let placement =
        placement_of(&info).ok_or_else(|| usage("the job of the checkpoint is none".to_string()))?;
    let info = Arc::new(info);
    let here = info.daemon_of.iter().position(|&daemon| daemon == 0);
    let here = here.map(|host| HostJob::new(Arc::clone(&info), placement, host as u32, true)).transpose()?;
    let shown = hosts.shown();
    Ok(JobPlan { info, here, secret, io_servers, resumption, shown })
}

/// Starts the servers of the job's files again, on its present hosts. Also returns the text for the ranks:
/// the servers' secret, and their addresses after it.
fn start_servers(
    info: &JobInfo,
    secret: &job::Secret,
) -> Result<Option<(io_servers::Running, String)>, LaunchError> {
    if info.io_servers.count == 0 {
        return Ok(None);
    }
    let of_servers = handshake::derive(&secret.0, "servers");
    let (running, text) = io_servers::start(&info.io_servers, info, &of_servers)?;
    let secret: String = of_servers.iter().map(|byte| format!("{byte:02x}")).collect();
    let text = format!("{secret}\n{text}");
    if text.len() > MOST_SERVERS_BYTES {
        return Err(LaunchError::Invalid(format!(
            "{} I/O servers are more than a restart tells ranks of",
            info.io_servers.count
        )));
    }
    Ok(Some((running, text)))
}

/// Returns the adjustment of this mpirun's standard input that continues the one of the checkpoint.
fn resume_input(manifest: &Manifest, info: &JobInfo, request: &Request) -> Result<Resumption, PrepareError> {
    if info.manner.input.is_none() {
        return Ok(Resumption::AsGiven);
    }
    let stdin = std::io::stdin();
    let offered = Offered::observe(stdin.as_fd(), request.input_taken);
    let resumption = offered.map_err(LaunchError::system("the standard input")).and_then(|offered| {
        input::resume(&manifest.input, offered, request.checkpoints.input).map_err(LaunchError::from)
    });
    resumption.map_err(|why| usage(format!("checkpoint {} cannot go on: {why}", manifest.set)))
}

/// Checks that kernel and processor are those of the machine that wrote the set.
fn check_machine(folder: &Directory, set: u64, there: &str, here: &str) -> Result<(), LaunchError> {
    let shown = folder.path().display();
    let why =
        || LaunchError::Invalid(format!("checkpoint {set} in {shown} is of {there}, and here is {here}"));
    if there == here { Ok(()) } else { Err(why()) }
}

/// Reads the manifest of the requested set, or of the newest complete one.
fn choose(folder: &Directory, set: Option<u64>, allows_others: bool) -> Result<Manifest, PrepareError> {
    let refused = |reason: String| PrepareError { status: STATUS_DAMAGED, reason };
    let read = |set| folder.manifest_to_restart(set, allows_others);
    if let Some(set) = set {
        return read(set).map_err(|error| refused(format!("no checkpoint {set}: {error}")));
    }
    let numbers = folder.numbers().map_err(|error| refused(format!("no checkpoint: {error}")))?;
    let mut last = None;
    for number in numbers {
        match read(number) {
            Ok(manifest) => {
                if let Some(error) = last {
                    eprintln!("mpirun: {error}; going back to checkpoint {number}");
                }
                return Ok(manifest);
            }
            Err(error) => last = Some(error),
        }
    }
    let shown = folder.path().display();
    Err(refused(match last {
        Some(error) => format!("no checkpoint in {shown} can be used: {error}"),
        None => format!("there is no checkpoint in {shown}"),
    }))
}

/// Assigns a daemon to each host of the image. Neighbouring hosts stay together.
fn place(info: &mut JobInfo, hosts: &Hosts, request: &Request) -> Result<(), PrepareError> {
    let own = process::host_name();
    let before: Vec<String> =
        info.daemon_of.iter().map(|&daemon| info.names[daemon as usize].clone()).collect();
    let named: Vec<String> = match hosts.are_named {
        true => hosts.hosts.iter().map(|host| host.name.clone()).collect(),
        // A job of one host continues on the host of its mpirun.
        false if before.len() == 1 => vec![own.clone()],
        false => before.clone(),
    };
    let usable: Vec<String> = named.into_iter().filter(|name| !request.lost.contains(name)).collect();
    if usable.is_empty() {
        let lost = request.lost.join(", ");
        return Err(usage(format!("no host is left to go on: {lost} are lost; name others by --host")));
    }
    info.names = vec![own.clone()];
    let mut is_own_taken = false;
    let count = before.len();
    let used = usable.len().min(count);
    info.daemon_of = (0..count)
        .map(|host| {
            // If there are enough hosts, each host of the image gets its own. Otherwise several share one.
            let name = &usable[host * used / count];
            if *name == own && !std::mem::replace(&mut is_own_taken, true) {
                return 0;
            }
            info.names.push(name.clone());
            info.names.len() as u32 - 1
        })
        .collect();
    Ok(())
}

/// Sets the properties that belong to this mpirun and not to the job.
fn settle(info: &mut JobInfo, request: &Request, config: &Config, launcher: PathBuf) {
    info.pace_ms = (config.launch.heartbeat_ms, config.launch.silence_ms);
    (info.hang_ms, info.hang_aborts) = (config.diagnosis.hang.after_ms, config.diagnosis.hang.aborts);
    info.ports = config.network.port_range.map(PortRange::bounds);
    info.start_ms = config.launch.start_ms;
    let own = environment::config(&std::env::vars_os().collect()).unwrap_or_default();
    info.keeping = keeping(&own);
    info.stop = own.checkpoint.checkpoint_stop;
    info.interface = request.interface.clone().unwrap_or_else(|| config.network.interface.clone());
    info.launcher = launcher.into_os_string().into_vec();
    info.manner.tagging = request.tagging.clone();
    // Restored ranks have left MPI_Init.
    info.manner.waits_for_debugger = false;
    info.manner.verbose |= request.verbosity == Verbosity::Verbose;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(there: &str, here: &str, expected: &str) {
        let said = check_machine(&Directory::new(Path::new("D")), 3, there, here)
            .err()
            .map_or(String::new(), |error| error.to_string());
        assert_eq!(said, expected);
    }

    #[test]
    fn another_kernel_or_processor_is_named() {
        check("Linux 6 on x86_64 One", "Linux 6 on x86_64 One", "");
        check(
            "Linux 6 on x86_64 One",
            "Linux 6 on x86_64 Other",
            "checkpoint 3 in D is of Linux 6 on x86_64 One, and here is Linux 6 on x86_64 Other",
        );
    }
}
