//! Servers for the files of a job (`mpirun --io-servers N`; `tutti io-server`). They are started before its
//! ranks, on its hosts in turn.
//!
//! The servers get the ranks' secret over their standard input, and print the addresses at which they listen.
//! They end when this input does, that is when mpirun ends for whatever reason. Ranks find the addresses in
//! an environment variable. It does not contain the key, which is derived from the secret.

use std::io::{self, PipeReader, PipeWriter, Read};
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tutti_sys::event;
use tutti_sys::process::SpawnError;
use tutti_sys::signal::Mask;

use crate::agent;
use crate::error::LaunchError;
use crate::request::IoServers;
use crate::tree::handshake::Secret;
use crate::tree::message::JobInfo;

/// Bytes of a stripe of a file.
const STRIPE_BYTES: u64 = 1 << 20;
/// Maximum bytes of the line that a server prints.
const MOST_LINE_BYTES: usize = 8192;

/// Running servers. Their input ends when this value is dropped.
#[derive(Debug)]
pub struct Running {
    _lifelines: Vec<PipeWriter>,
    _outputs: Vec<PipeReader>,
}

/// Starts the servers. Also returns the text for the ranks, with the servers' addresses.
///
/// # Errors
/// Fails with a text for the user that names the host.
pub fn start(wanted: &IoServers, info: &JobInfo, secret: &Secret) -> Result<(Running, String), LaunchError> {
    let program = Path::new(std::ffi::OsStr::new(std::str::from_utf8(&info.launcher).unwrap_or("mpirun")));
    let program = program.with_file_name("tutti");
    let mut started = Vec::new();
    for number in 0..wanted.count {
        let host = number as usize % info.daemon_of.len().max(1);
        let daemon = info.daemon_of.get(host).copied().unwrap_or(0) as usize;
        let arguments = arguments(wanted, info, number);
        let agent = if daemon == 0 { None } else { Some((&info.agent[..], info.names[daemon].as_str())) };
        let launched = agent::start_program(
            agent,
            program.as_os_str().as_encoded_bytes(),
            &arguments,
            secret,
            Mask::empty(),
        );
        let (_, output, lifeline) = launched.map_err(|failed: SpawnError| {
            LaunchError::system(format!("cannot start an io-server on {}", info.names[daemon]))(failed.error)
        })?;
        started.push((info.names[daemon].clone(), output, lifeline));
    }
    let until = Instant::now() + Duration::from_millis(info.start_ms);
    let mut text = format!("mode {}\nstripe {STRIPE_BYTES}\nservers {}\n", wanted.mode, wanted.count);
    let (mut lifelines, mut outputs) = (Vec::new(), Vec::new());
    for (number, (host, mut output, lifeline)) in started.into_iter().enumerate() {
        let line = line(&mut output, until)
            .map_err(|error| error.in_place(format!("the io-server on {host} does not start")))?;
        text.push_str(&format!("server {number} {line}\n"));
        lifelines.push(lifeline);
        outputs.push(output);
    }
    Ok((Running { _lifelines: lifelines, _outputs: outputs }, text))
}

/// Returns the arguments of server `number`.
fn arguments(wanted: &IoServers, info: &JobInfo, number: u32) -> Vec<String> {
    let root: PathBuf = match wanted.mode.as_str() {
        "forward" => wanted.root.clone(),
        _ => wanted.root.join(format!("server-{number}")),
    };
    let mut all = ["io-server", "--job", "--mode", &wanted.mode, "--root"].map(str::to_string).to_vec();
    all.push(root.to_string_lossy().into_owned());
    // Servers listen for other hosts only in a job of several hosts.
    if info.names.len() > 1 {
        let own = info.daemon_of[number as usize % info.daemon_of.len()] as usize;
        let towards =
            info.names.iter().enumerate().find(|(other, _)| *other != own).map_or("", |(_, name)| name);
        all.extend(["--towards", towards].map(str::to_string));
        if !info.interface.is_empty() {
            all.extend(["--interface", &info.interface].map(str::to_string));
        }
    }
    if let Some((low, high)) = info.ports {
        all.extend(["--ports".to_string(), format!("{low}-{high}")]);
    }
    all
}

/// Reads the line that a server prints: its address, and its name.
fn line(output: &mut PipeReader, until: Instant) -> Result<String, LaunchError> {
    let mut said = Vec::new();
    while !said.ends_with(b"\n") {
        let left = until.saturating_duration_since(Instant::now());
        event::wait_readable(&[output.as_raw_fd()], left);
        if !event::is_readable(output.as_fd()) || said.len() > MOST_LINE_BYTES {
            return Err(LaunchError::Invalid(format!(
                "it says nothing of use in time: {}",
                String::from_utf8_lossy(&said)
            )));
        }
        let mut byte = [0];
        match output.read(&mut byte) {
            Ok(0) => {
                return Err(LaunchError::Invalid(String::from_utf8_lossy(&said).trim().to_string()));
            }
            Ok(_) => said.push(byte[0]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    let text = String::from_utf8_lossy(&said).trim().to_string();
    let is_address = text.split(' ').next().is_some_and(|word| word.parse::<std::net::SocketAddr>().is_ok());
    if is_address { Ok(text) } else { Err(LaunchError::Invalid(text)) }
}
