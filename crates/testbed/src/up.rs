//! Building of a testbed: first the holders, then the links between them, then their network and servers.
//!
//! Until the last holder is told to stay, all of them end with the building process: their standard input
//! is a pipe that it holds. So a killed `up` leaves no process and no interface.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::error::{NSENTER, Result, TestbedError};
use crate::state::{self, Host, Pid, Testbed};

/// Maximum number of hosts: all must fit into the last number of an address in one network.
const MOST_HOSTS: u32 = 250;
/// Parameters of the token bucket: depth and longest wait. 64 KiB and 50 ms give 0.93 of 1 Gbit/s to a
/// stream.
const SHAPE: &str = "burst 64kb latency 50ms";
/// Maximum length of a segment that a connection passes to an interface. A segment longer than the bucket
/// would be cut by the shaper, packet by packet, on the processors that all hosts share. Real interfaces do
/// not need that. All directions of four hosts together would then move 0.15 GB/s instead of 0.47.
const SEGMENTATION: &str = "gso_max_size 60000";

/// Requested properties of a testbed.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    /// Number of hosts, n0 and following.
    pub hosts: u32,
    /// Rate of each link in tc's syntax (1gbit), in both directions; unlimited if empty.
    pub rate: String,
    /// Folders below /tmp or /dev/shm that all hosts share with this machine.
    pub shared: Vec<PathBuf>,
    /// Process with which the testbed ends, if any.
    pub with: Option<u32>,
}

/// Builds the testbed `name`, or returns the running one if it has the requested properties.
///
/// # Errors
/// If it is not permitted (not root, no namespaces), a command is missing, or another testbed has this
/// name.
pub fn up(name: &str, lines: &Lines) -> Result<Testbed> {
    if !(1..=MOST_HOSTS).contains(&lines.hosts) {
        return Err(TestbedError::HostCount { hosts: lines.hosts, most: MOST_HOSTS });
    }
    if let Some(there) = Testbed::find(name)? {
        if there.hosts.len() == lines.hosts as usize && there.rate == lines.rate {
            return Ok(there);
        }
        return Err(TestbedError::OtherProperties { name: name.to_string(), hosts: there.hosts.len() });
    }
    let directory = state::directory(name)?;
    state::claim(&directory)?;
    build(&directory, lines).or_else(|error| {
        let log = std::fs::read_to_string(directory.join("log")).unwrap_or_default();
        state::remove(&directory)?;
        Err(TestbedError::Build { source: Box::new(error), log: log.trim_end().to_string() })
    })
}

fn build(directory: &Path, lines: &Lines) -> Result<Testbed> {
    let names: Vec<String> = (0..lines.hosts).map(|host| format!("n{host}")).collect();
    let addresses: Vec<String> = (0..lines.hosts).map(|host| format!("10.0.0.{}", host + 1)).collect();
    write_files(directory, &names, &addresses)?;
    let mut switch = Holder::start(directory, "switch", lines)?;
    let mut holders =
        names.iter().map(|name| Holder::start(directory, name, lines)).collect::<Result<Vec<_>>>()?;
    switch.ready()?;
    holders.iter_mut().try_for_each(Holder::ready)?;
    let pids: Vec<u32> = holders.iter().map(|holder| holder.child.id()).collect();
    let links: String = (0..).zip(&pids).map(|(port, pid)| link(port, *pid)).collect();
    batch(switch.child.id(), "ip", &links)?;
    let ports: String = (0..lines.hosts).map(|port| shape(&format!("p{port}"), &lines.rate)).collect();
    batch(switch.child.id(), "tc", &ports)?;
    for (pid, address) in pids.iter().zip(&addresses) {
        batch(
            *pid,
            "ip",
            &format!("address add {address}/24 dev eth0\n{}link set eth0 up\n", whole(&lines.rate)),
        )?;
        batch(*pid, "tc", &shape("eth0", &lines.rate))?;
    }
    for holder in &mut holders {
        holder.tell("serve")?;
    }
    holders.iter_mut().try_for_each(Holder::ready)?;
    let hosts = names
        .into_iter()
        .zip(addresses)
        .zip(&holders)
        .map(|((name, address), holder)| Ok(Host { name, address, holder: holder.pid()? }));
    let testbed = Testbed {
        directory: directory.to_path_buf(),
        switch: switch.pid()?,
        rate: lines.rate.clone(),
        hosts: hosts.collect::<Result<_>>()?,
    };
    testbed.keep()?;
    for holder in holders.iter_mut().chain([&mut switch]) {
        holder.tell("stay")?;
    }
    let builder = directory.join("builder");
    std::fs::remove_file(&builder).map_err(TestbedError::file(&builder))?;
    Ok(testbed)
}

/// Writes the file with the names of all hosts, and the agent: a program in place of ssh that knows its
/// testbed.
fn write_files(directory: &Path, names: &[String], addresses: &[String]) -> Result<()> {
    let mut hosts = "127.0.0.1 localhost\n".to_string();
    for (name, address) in names.iter().zip(addresses) {
        hosts += &format!("{address} {name}\n");
    }
    state::write(&directory.join("hosts"), &hosts)?;
    let program = std::env::current_exe().map_err(TestbedError::OwnProgram)?;
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    let agent = directory.join("agent");
    state::write(
        &agent,
        &format!("#!/bin/sh\nexec '{}' testbed agent --name {name} -- \"$@\"\n", program.display()),
    )?;
    let mut permissions = std::fs::metadata(&agent).map_err(TestbedError::file(&agent))?.permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o755);
    std::fs::set_permissions(&agent, permissions).map_err(TestbedError::file(&agent))
}

/// Returns the commands that create a port of the switch and the host's end of its cable.
fn link(port: u32, pid: u32) -> String {
    format!(
        "link add p{port} type veth peer name eth0 netns {pid}\nlink set p{port} master br0\nlink set p{port} up\n"
    )
}

/// Returns the command that makes segments of a host pass its shaped interface uncut.
fn whole(rate: &str) -> String {
    if rate.is_empty() { String::new() } else { format!("link set eth0 {SEGMENTATION}\n") }
}

fn shape(device: &str, rate: &str) -> String {
    if rate.is_empty() {
        String::new()
    } else {
        format!("qdisc add dev {device} root tbf rate {rate} {SHAPE}\n")
    }
}

/// Runs `ip` or `tc` in the network namespace of `pid` with `lines` as its commands.
pub fn batch(pid: u32, program: &str, lines: &str) -> Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    feed(pid, &[program, "-batch", "-"], lines)
}

/// Runs a command in the network namespace of `pid` with `lines` as its input.
pub fn feed(pid: u32, command: &[&str], lines: &str) -> Result<()> {
    let mut nsenter = Command::new("nsenter");
    nsenter.args(["-t", &pid.to_string(), "--net", "--"]).args(command);
    nsenter.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = nsenter.spawn().map_err(TestbedError::not_started(NSENTER))?;
    let mut input = child.stdin.take().expect("standard input is piped");
    // A command that does not read all input reports the reason itself.
    let _ = input.write_all(lines.as_bytes());
    drop(input);
    let output = child.wait_with_output().map_err(TestbedError::not_started(NSENTER))?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr).trim().to_string();
    Err(TestbedError::CommandFailed { command: command.join(" "), message })
}

/// Holder that still listens to the building process.
struct Holder {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Holder {
    fn start(directory: &Path, name: &str, lines: &Lines) -> Result<Holder> {
        let program = std::env::current_exe().map_err(TestbedError::OwnProgram)?;
        let log = File::options().create(true).append(true).open(directory.join("log"));
        let log = log.map_err(TestbedError::file(directory))?;
        // The holder gets a process group of its own, so that neither a terminal's signals nor its end
        // reach the host. It gets no session: the kernel shares processors by sessions. A host whose ranks
        // sleep would then wait for the time slices of one whose ranks poll.
        let mut command = Command::new("unshare");
        command.process_group(0);
        command.args(["--net", "--uts", "--ipc", "--mount", "--propagation", "private", "--"]);
        command.arg(program).args(["testbed", "hold", "--host", name, "--directory"]).arg(directory);
        for folder in &lines.shared {
            command.arg("--share").arg(folder);
        }
        if let Some(pid) = lines.with {
            command.args(["--with", &pid.to_string()]);
        }
        command.env_clear().env("PATH", crate::remote::PATH).current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().map_err(TestbedError::not_started("unshare (util-linux)"))?;
        let input = child.stdin.take().expect("standard input is piped");
        let output = BufReader::new(child.stdout.take().expect("standard output is piped"));
        Ok(Holder { child, input, output })
    }

    /// Waits until the holder has finished its last order.
    fn ready(&mut self) -> Result<()> {
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(_) if line == "ready\n" => Ok(()),
            _ => Err(TestbedError::HolderNotReady),
        }
    }

    fn tell(&mut self, word: &str) -> Result<()> {
        writeln!(self.input, "{word}").map_err(|error| TestbedError::HolderGone(Some(error)))
    }

    fn pid(&self) -> Result<Pid> {
        Pid::find(self.child.id()).ok_or(TestbedError::HolderGone(None))
    }
}
