//! `mpirun` for a job that a rank starts. It is called by a daemon, or by a process that was started without
//! a launcher. The command line arrives over a connection, as an [`Order`]. Errors are returned over the same
//! connection.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use tutti_sys::letter;
use tutti_sys::local_socket::Connection;
use tutti_sys::spawning::{self, Order};
use tutti_sys::{files, process, this_process};

use crate::error::LaunchError;
use crate::outcome::STATUS_USAGE;
use crate::program::HOST_FILE_BYTES;
use crate::request::{self, Program, Request};
use crate::{program, supervisor};

/// Runs the job that is ordered over the connection with this descriptor number. Returns the exit status of
/// this process.
pub fn main(descriptor: Option<String>) -> u8 {
    let number = descriptor.and_then(|number| number.parse().ok());
    let Some(connection) = number.and_then(|number| this_process::adopt_descriptor(number).ok()) else {
        eprintln!("mpirun: {} is what Tutti itself calls", spawning::OPTION);
        return STATUS_USAGE;
    };
    // Only this copy stays open, so that the rank detects the end of this process.
    number.iter().for_each(|number| this_process::close_descriptor(*number));
    let connection = Connection::new(connection);
    let refuse = |reason: &str, status: u8| {
        // A rank that is gone needs no reply.
        let _ = letter::send(&connection, reason.as_bytes(), &[]);
        status
    };
    let Some(order) = letter::receive(&connection).ok().and_then(|letter| Order::decode(&letter.bytes))
    else {
        return STATUS_USAGE;
    };
    let request = match request_of(order) {
        Ok(request) => request,
        Err(error) => return refuse(&error.to_string(), STATUS_USAGE),
    };
    let job = match program::prepare(&request) {
        Ok(job) => job,
        // The rank handles the error.
        Err(refusal) => return refuse(&refusal.reason, STATUS_USAGE),
    };
    match supervisor::run(&request, job) {
        Ok(ended) => ended.status,
        Err(error) => refuse(&format!("cannot start: {error}"), STATUS_USAGE),
    }
}

/// Converts an order to a request, like a command line.
fn request_of(order: Order) -> Result<Request, LaunchError> {
    std::env::set_current_dir(OsString::from_vec(order.directory.clone()))
        .map_err(LaunchError::system("working directory"))?;
    let text = OsString::from_vec;
    let variables = order.variables.into_iter().map(|(name, value)| (text(name), text(value))).collect();
    let spawned = Some(request::Spawned { job_id: order.job_id, parents: order.parents, variables });
    let mut request = Request { spawned, ..Request::default() };
    let own = process::host_name();
    let mut total = 0u32;
    for program in order.programs.into_iter().filter(|program| program.count > 0) {
        check_hosts(&program, &own)?;
        total = total.saturating_add(program.count);
        request.programs.push(Program {
            count: Some(program.count),
            command: program.command.into_iter().map(text).collect(),
            directory: program.directory.map(text),
            search: program.search.map(text),
            environment: program.environment.into_iter().filter_map(variable).collect(),
            ..Program::default()
        });
    }
    if total == 0 {
        return Err(LaunchError::Invalid("no process is asked for".to_string()));
    }
    request.hosts = vec![format!("{own}:{total}")];
    Ok(request)
}

/// Checks that all processes run on this host, as their parents could not reach them elsewhere.
fn check_hosts(program: &spawning::Program, own: &str) -> Result<(), LaunchError> {
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut names: Vec<String> = program
        .hosts
        .iter()
        .flat_map(|hosts| lossy(hosts).split(',').map(str::to_string).collect::<Vec<_>>())
        .collect();
    if let Some(file) = &program.host_file {
        let file = lossy(file);
        let lines = files::read_text_or_pipe(Path::new(&file), HOST_FILE_BYTES)
            .map_err(LaunchError::system(format!("host file {file}")))?;
        let first = |line: &str| line.split_whitespace().next().map(str::to_string);
        names.extend(lines.lines().filter(|line| !line.trim_start().starts_with('#')).filter_map(first));
    }
    for name in names {
        let name = name.split(':').next().unwrap_or_default();
        if name != own && !["localhost", "127.0.0.1", "::1"].contains(&name) {
            return Err(LaunchError::Invalid(format!(
                "host {name} is not the host of the root ({own}): processes can be spawned there only"
            )));
        }
    }
    Ok(())
}

fn variable(text: Vec<u8>) -> Option<(String, String)> {
    let text = String::from_utf8(text).ok()?;
    text.split_once('=').map(|(name, value)| (name.to_string(), value.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(hosts: &str, expected: Result<(), &str>) {
        let program = spawning::Program { hosts: Some(hosts.as_bytes().to_vec()), ..Default::default() };
        let got = check_hosts(&program, "here");
        match (got, expected) {
            (Ok(()), Ok(())) => {}
            (Err(got), Err(part)) => assert!(got.to_string().contains(part), "{got}"),
            (got, _) => panic!("{hosts}: {got:?}"),
        }
    }

    #[test]
    fn only_the_host_of_the_root_will_do() {
        check("here", Ok(()));
        check("localhost:4,here:2", Ok(()));
        check("here,there", Err("host there is not the host of the root (here)"));
    }
}
