//! Agent: the command that starts a daemon on another host (ssh, srun or similar).
//!
//! The command line is `AGENT HOST COMMAND...`. If a word of the agent contains `{host}`, it is replaced by
//! the host, which is then not appended. The other host needs only the file of the launcher. The secret goes
//! over the agent's standard input, since all users can read command lines and environments.

use std::ffi::{CString, OsString};
use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use tutti_sys::process::{self, Spawn, SpawnError, Step};
use tutti_sys::signal::Mask;

use crate::tree::handshake::Secret;

/// Directories in which an agent without a path is looked for after PATH, which a clean environment may lack.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// First bytes on the daemon's standard input, before the secret.
pub const GREETING: &[u8; 8] = b"tutti-s1";

/// Returns the whole command that starts `launcher` with `arguments` on `host`.
fn command(agent: &[String], host: &str, launcher: &[u8], arguments: &[String]) -> Vec<Vec<u8>> {
    let is_placed = agent.iter().any(|word| word.contains("{host}"));
    let mut all: Vec<Vec<u8>> = agent.iter().map(|word| word.replace("{host}", host).into_bytes()).collect();
    if !is_placed {
        all.push(host.as_bytes().to_vec());
    }
    // These agents join their arguments with blanks and pass them to a shell.
    let is_shell = agent.first().is_some_and(|first| {
        Path::new(first)
            .file_name()
            .is_some_and(|name| ["ssh", "rsh", "oarsh"].iter().any(|shell| name == *shell))
    });
    all.push(if is_shell { quote(launcher) } else { launcher.to_vec() });
    all.extend(arguments.iter().map(|argument| argument.clone().into_bytes()));
    all
}

/// Quotes a word for a shell.
fn quote(word: &[u8]) -> Vec<u8> {
    if word.iter().all(|&byte| byte.is_ascii_alphanumeric() || b"/._-+:@%=".contains(&byte)) {
        return word.to_vec();
    }
    let inside = word.iter().flat_map(|&byte| if byte == b'\'' { b"'\\''".to_vec() } else { vec![byte] });
    [b'\''].into_iter().chain(inside).chain([b'\'']).collect()
}

/// Starts an agent. Returns its process number and its output.
///
/// # Errors
/// Fails if the agent cannot be started.
pub fn start(
    agent: &[String],
    host: &str,
    launcher: &[u8],
    arguments: &[String],
    secret: &Secret,
    mask: Mask,
) -> Result<(i32, PipeReader), SpawnError> {
    // A second daemon on this host needs no agent. That happens when ranks of several hosts are restarted on
    // one.
    let agent = (host != process::host_name()).then_some((agent, host));
    start_program(agent, launcher, arguments, secret, mask).map(|(pid, said, _)| (pid, said))
}

/// Starts a program and gives it the secret, by an agent on another host or without one on this host. Returns
/// its process number, its output and its input.
///
/// # Errors
/// Fails if the program cannot be started.
pub fn start_program(
    agent: Option<(&[String], &str)>,
    program: &[u8],
    arguments: &[String],
    secret: &Secret,
    mask: Mask,
) -> Result<(i32, PipeReader, PipeWriter), SpawnError> {
    let system = |error: io::Error| SpawnError { step: Step::Create, error };
    let words = match agent {
        Some((agent, host)) => command(agent, host, program, arguments),
        None => {
            [program.to_vec()].into_iter().chain(arguments.iter().map(|it| it.clone().into_bytes())).collect()
        }
    };
    let program = find(&words[0])
        .ok_or_else(|| SpawnError { step: Step::Execute, error: io::ErrorKind::NotFound.into() })?;
    let strings = |words: Vec<Vec<u8>>| -> Result<Vec<CString>, SpawnError> {
        words.into_iter().map(|word| CString::new(word).map_err(|error| system(error.into()))).collect()
    };
    let variables =
        std::env::vars_os().map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat()).collect();
    let (input, mut secret_end) = io::pipe().map_err(system)?;
    let (said, output) = io::pipe().map_err(system)?;
    let pid = process::spawn(&Spawn {
        program,
        arguments: strings(words)?,
        environment: strings(variables)?,
        directory: None,
        stdio: [input.as_fd(), output.as_fd(), output.as_fd()],
        inherit: Vec::new(),
        processors: None,
        mask,
        descriptors: None,
        is_traced: false,
    })?;
    // A pipe takes these few bytes at once. If the agent has ended already, its exit is reported.
    let _ = secret_end.write_all(&[&GREETING[..], secret].concat());
    Ok((pid, said, secret_end))
}

/// Returns the file of a program, in PATH or in the usual directories; None if it is absent.
pub fn find(name: &[u8]) -> Option<CString> {
    let name = PathBuf::from(OsString::from_vec(name.to_vec()));
    if name.to_string_lossy().contains('/') {
        return CString::new(name.into_os_string().into_vec()).ok();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain(std::env::split_paths(PATH));
    let file = directories.map(|directory| directory.join(&name)).find(|file| file.is_file())?;
    CString::new(file.into_os_string().into_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocation::agents::split;

    fn check(agent: &str, expected: &str) {
        let all =
            command(&split(agent), "n1", b"/opt/my mpi/mpirun", &["--daemon".to_string(), "3".to_string()]);
        let shown: Vec<String> = all.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        assert_eq!(shown.join("|"), expected);
    }

    #[test]
    fn agents_are_called() {
        check("ssh -x -o BatchMode=yes", "ssh|-x|-o|BatchMode=yes|n1|'/opt/my mpi/mpirun'|--daemon|3");
        check("/bin/go in", "/bin/go|in|n1|/opt/my mpi/mpirun|--daemon|3");
        check("rsh", "rsh|n1|'/opt/my mpi/mpirun'|--daemon|3");
        check("srun -w {host}", "srun|-w|n1|/opt/my mpi/mpirun|--daemon|3");
        assert_eq!(quote(b"it's"), b"'it'\\''s'");
    }
}
