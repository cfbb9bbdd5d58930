//! The command line: `tutti testbed ACTION`, also available as `cargo xtask testbed ACTION`.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::{Args, Subcommand};

use crate::error::{NSENTER, Result, TestbedError};
use crate::faults::Faults;
use crate::hold::{self, Hold};
use crate::remote;
use crate::state::{self, Testbed};
use crate::up::{self, Lines};

/// Actions on a testbed.
#[derive(Subcommand, Clone, Debug)]
pub enum Action {
    /// Make N hosts n0, n1, ... with a switch between them.
    Up {
        /// Number of hosts.
        hosts: u32,
        /// Rate of each link, as tc takes it (1gbit); unlimited by default.
        #[arg(long, default_value = "")]
        rate: String,
        /// Folder below /tmp or /dev/shm that the hosts see; the current one always is seen.
        #[arg(long)]
        share: Vec<PathBuf>,
        /// Take it down when this process ends.
        #[arg(long, value_name = "PID")]
        with: Option<u32>,
        /// Name of the testbed.
        #[command(flatten)]
        name: Name,
    },
    /// Run a command on a host, in this directory and environment.
    Exec {
        /// Name of the testbed.
        #[command(flatten)]
        name: Name,
        /// Name or address.
        host: String,
        /// Program and arguments.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        command: Vec<String>,
    },
    /// Run a command on a host as ssh would.
    Agent {
        /// Name of the testbed.
        #[command(flatten)]
        name: Name,
        /// Options of ssh, host, command.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        words: Vec<String>,
    },
    /// Crash a host: unplugged first, then all its processes are killed. `join` brings it back, empty.
    Kill {
        /// Name of the testbed.
        #[command(flatten)]
        name: Name,
        /// Name or address.
        host: String,
    },
    /// Pull the network plug of a host.
    Cut {
        /// Name of the testbed.
        #[command(flatten)]
        name: Name,
        /// Name or address.
        host: String,
        /// And put it in again after so many seconds.
        #[arg(long = "for", value_name = "SECONDS", value_parser = seconds)]
        time: Option<Duration>,
    },
    /// Put the network plug of a host in again.
    Join {
        /// Name of the testbed.
        #[command(flatten)]
        name: Name,
        /// Name or address.
        host: String,
    },
    /// Lose so many percent of the datagrams that reach or leave a host; 0 without options ends all faults.
    Loss {
        /// Name of the testbed.
        #[command(flatten)]
        name: Name,
        /// Name or address.
        host: String,
        /// 0 to 100.
        percent: f64,
        /// And so many percent reach the host twice.
        #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
        twice: f64,
        /// And so many percent reach it late, behind others; on links without a rate.
        #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
        late: f64,
    },
    /// List the processes that run on the hosts: host, number, name.
    Ps {
        /// Name of the testbed.
        #[command(flatten)]
        name: Name,
    },
    /// Remove the testbed and all that runs in it.
    Down {
        /// Name of the testbed.
        #[command(flatten)]
        name: Name,
    },
    /// Run as the first process of a host.
    #[command(hide = true)]
    Hold(Hold),
}

/// Option with the name of the testbed.
#[derive(Args, Clone, Debug)]
pub struct Name {
    /// Name of the testbed.
    #[arg(long, default_value = "default")]
    name: String,
}

/// Performs an action and returns the exit status.
pub fn run(action: Action) -> ExitCode {
    let done = match action {
        Action::Agent { name, words } => return remote::agent(&name.name, &words),
        Action::Up { hosts, rate, share, with, name } => {
            make(&name.name, Lines { hosts, rate, shared: share, with })
        }
        Action::Exec { name, host, command } => exec(&name.name, &host, &command),
        Action::Kill { name, host } => Testbed::get(&name.name).and_then(|testbed| testbed.kill(&host)),
        Action::Cut { name, host, time } => cut(&name.name, &host, time),
        Action::Join { name, host } => Testbed::get(&name.name).and_then(|testbed| testbed.join(&host)),
        Action::Loss { name, host, percent, twice, late } => Testbed::get(&name.name)
            .and_then(|testbed| testbed.spoil(&host, Faults { lost: percent, twice, late })),
        Action::Ps { name } => processes(&name.name),
        Action::Down { name } => state::down(&name.name),
        Action::Hold(options) => hold::hold(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("testbed: {message}");
            ExitCode::FAILURE
        }
    }
}

fn make(name: &str, mut lines: Lines) -> Result<()> {
    lines.shared.extend(std::env::current_dir());
    let program = std::env::current_exe().ok();
    lines.shared.extend(program.as_deref().and_then(std::path::Path::parent).map(PathBuf::from));
    let testbed = up::up(name, &lines)?;
    let hosts = testbed.hosts.iter().map(|host| format!("{} {}\n", host.name, host.address));
    show(&format!("{}agent {}\n", hosts.collect::<String>(), testbed.agent().display()));
    Ok(())
}

/// Prints a text. A closed reader is no error.
fn show(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

fn exec(name: &str, host: &str, command: &[String]) -> Result<()> {
    let testbed = Testbed::get(name)?;
    let enter = testbed.host(host)?.enter();
    let refused = Command::new(&enter[0]).args(&enter[1..]).args(command).exec();
    Err(TestbedError::not_started(NSENTER)(refused))
}

fn cut(name: &str, host: &str, time: Option<Duration>) -> Result<()> {
    let testbed = Testbed::get(name)?;
    testbed.cut(host)?;
    let Some(time) = time else { return Ok(()) };
    std::thread::sleep(time);
    testbed.join(host)
}

fn processes(name: &str) -> Result<()> {
    for host in Testbed::get(name)?.hosts {
        for pid in host.processes() {
            let program = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            show(&format!("{} {pid} {}\n", host.name, program.trim()));
        }
    }
    Ok(())
}

fn seconds(text: &str) -> std::result::Result<Duration, String> {
    let number = text.strip_suffix('s').unwrap_or(text);
    let number: f64 = number.parse().map_err(|_| format!("{text:?} is not a number of seconds"))?;
    Duration::try_from_secs_f64(number).map_err(|error| error.to_string())
}
