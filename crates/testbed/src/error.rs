//! Errors of testbeds: the cause, the context, and the remedy if there is one.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

/// Command that enters the namespaces of a host, and its package.
pub const NSENTER: &str = "nsenter (util-linux)";

/// Result of an action on a testbed.
pub type Result<T> = std::result::Result<T, TestbedError>;

/// Reason why an action on a testbed failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum TestbedError {
    /// The name has other characters than letters, digits, `-` and `_`, or too many.
    InvalidName(String),
    /// No testbed of this name is running.
    NotUp(String),
    /// Another process is building the testbed.
    BeingBuilt {
        /// Name of the testbed.
        name: String,
        /// Number of the process that builds it.
        builder: u32,
    },
    /// A testbed of this name with other properties is running.
    OtherProperties {
        /// Name of the testbed.
        name: String,
        /// Number of its hosts.
        hosts: usize,
    },
    /// The number of hosts is out of range.
    HostCount {
        /// Requested number.
        hosts: u32,
        /// Highest possible number.
        most: u32,
    },
    /// The testbed has no host of this name or address.
    NoHost {
        /// Requested name.
        name: String,
        /// Number of hosts of the testbed.
        hosts: usize,
    },
    /// The file with the state of a testbed has been damaged.
    DamagedState(PathBuf),
    /// A file or folder could not be accessed.
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The path of this program is unknown.
    OwnProgram(io::Error),
    /// A command could not be started.
    NotStarted {
        /// Name of the command and, in parentheses, of the package that has it.
        command: &'static str,
        /// Error of the system.
        source: io::Error,
    },
    /// A command has failed.
    CommandFailed {
        /// The command with its arguments.
        command: String,
        /// Message of the command.
        message: String,
    },
    /// The shell script that prepares a host has failed.
    Preparation {
        /// Name of the host.
        host: String,
        /// Exit status of the script.
        status: ExitStatus,
    },
    /// A holder has not started.
    HolderNotReady,
    /// A holder has ended.
    HolderGone(Option<io::Error>),
    /// Processes did not end when they were killed.
    ProcessesLeft {
        /// Name of the host, empty for the own one.
        host: String,
        /// Number of processes.
        count: usize,
    },
    /// A share is not a percentage.
    Percentage(f64),
    /// Datagrams cannot be late on links with a rate.
    LateOnRatedLink,
    /// The command line of the agent has no host or no command.
    AgentUsage,
    /// The server of a host did not accept a connection.
    Connection {
        /// Name of the host.
        host: String,
        /// Port of its server.
        port: u16,
        /// Error of the system.
        source: io::Error,
    },
    /// The connection to the server of a host was lost.
    ConnectionLost {
        /// Name of the host.
        host: String,
        /// Error of the system.
        source: io::Error,
    },
    /// Building a testbed has failed.
    Build {
        /// Reason of the failure.
        source: Box<TestbedError>,
        /// Output of the commands that prepared hosts.
        log: String,
    },
}

impl TestbedError {
    /// Returns a conversion of a system's error about the file at `path`.
    pub(crate) fn file(path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> TestbedError {
        let path = path.as_ref().to_path_buf();
        move |source| TestbedError::File { path, source }
    }

    /// Returns a conversion of a system's error about the start of `command`.
    pub(crate) fn not_started(command: &'static str) -> impl FnOnce(io::Error) -> TestbedError {
        move |source| TestbedError::NotStarted { command, source }
    }
}

impl fmt::Display for TestbedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use TestbedError as E;
        match self {
            E::InvalidName(name) => {
                write!(f, "{name:?} is not a name of a testbed (letters, digits, - and _; at most 64)")
            }
            E::NotUp(name) => write!(f, "no testbed {name} is up: testbed up N --name {name} makes it"),
            E::BeingBuilt { name, builder } => {
                write!(f, "testbed {name} is being built by process {builder}: wait for it, or end it")
            }
            E::OtherProperties { name, hosts } => {
                write!(f, "testbed {name} is up with {hosts} hosts: take it down first")
            }
            E::HostCount { hosts, most } => write!(f, "{hosts} hosts: 1 to {most} are possible"),
            E::NoHost { name, hosts } => write!(f, "no host {name} here (n0 to n{})", hosts - 1),
            E::DamagedState(path) => {
                write!(f, "{}: not a testbed; testbed down removes the folder", path.display())
            }
            E::File { path, source } => write!(f, "{}: {source}", path.display()),
            E::OwnProgram(source) => write!(f, "cannot find this program: {source}"),
            E::NotStarted { command, source } => write!(f, "cannot start {command}: {source}"),
            E::CommandFailed { command, message } => write!(f, "{command}: {message}"),
            E::Preparation { host, status } => write!(f, "{host}: cannot be made ({status})"),
            E::HolderNotReady => {
                f.write_str("a host does not come up (are namespaces permitted? root is needed)")
            }
            E::HolderGone(None) => f.write_str("a host has gone"),
            E::HolderGone(Some(source)) => write!(f, "a host has gone: {source}"),
            E::ProcessesLeft { host, count } if host.is_empty() => {
                write!(f, "{count} processes do not end")
            }
            E::ProcessesLeft { host, count } => write!(f, "{host}: {count} processes do not end"),
            E::Percentage(value) => write!(f, "{value} is not between 0 and 100 percent"),
            E::LateOnRatedLink => {
                f.write_str("on links with a rate datagrams cannot be late: make the testbed without --rate")
            }
            E::AgentUsage => f.write_str("usage: agent HOST COMMAND..."),
            E::Connection { host, port, source } => write!(f, "connect to host {host} port {port}: {source}"),
            E::ConnectionLost { host, source } => write!(f, "connection to {host} lost: {source}"),
            E::Build { source, log } if log.is_empty() => source.fmt(f),
            E::Build { source, log } => write!(f, "{source}\n{log}"),
        }
    }
}

impl std::error::Error for TestbedError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        use TestbedError as E;
        match self {
            E::File { source, .. }
            | E::OwnProgram(source)
            | E::NotStarted { source, .. }
            | E::HolderGone(Some(source))
            | E::Connection { source, .. }
            | E::ConnectionLost { source, .. } => Some(source),
            E::Build { source, .. } => Some(&**source),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    #[test]
    fn errors_have_context_and_source() {
        let file = TestbedError::file("/run/x")(io::Error::from_raw_os_error(2));
        assert!(file.to_string().starts_with("/run/x: No such file") && file.source().is_some());
        let log = "mount: permission denied".to_string();
        let build = TestbedError::Build { source: Box::new(TestbedError::HolderNotReady), log };
        assert!(build.to_string().ends_with("root is needed)\nmount: permission denied"), "{build}");
        assert!(build.source().is_some() && TestbedError::AgentUsage.source().is_none());
    }
}
