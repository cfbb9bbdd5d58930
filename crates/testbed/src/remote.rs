//! Replacement of ssh: a server for each host, and a client that is called as `agent HOST COMMAND...`.
//!
//! Like ssh, the client joins the words of the command with blanks, and a shell on the other side parses
//! them. The environment there is new, and the directory is the home directory. Input, output and errors go
//! through the network of the hosts, so that a cut cable cuts them. The command is a child of the server
//! and does not end with its client. Unlike ssh, there is no authentication: only the namespaces of the
//! testbed reach the port.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::error::{NSENTER, Result, TestbedError};
use crate::state::Testbed;

/// Port of the server, which is that of ssh.
pub const PORT: u16 = 22;
/// Search path of commands on the other side.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Exit status of ssh for its own failures.
const FAILED: u8 = 255;
/// Maximum length of a command line in bytes.
const COMMAND_BYTES: u32 = 4 << 20;
const CONNECT: Duration = Duration::from_secs(10);

/// Kinds of frames from the server: output, errors, and the status, which is the last frame.
const OUTPUT: u8 = 1;
const ERRORS: u8 = 2;
const STATUS: u8 = 3;

/// Serves clients forever, each in a thread.
pub fn serve(listener: &TcpListener) {
    for stream in listener.incoming().flatten() {
        std::thread::spawn(move || {
            // Errors of broken or foreign connections are ignored.
            let _ = session(stream);
        });
    }
}

fn session(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(CONNECT))?;
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    if length > COMMAND_BYTES {
        return Err(ErrorKind::InvalidData.into());
    }
    let mut command = vec![0; length as usize];
    stream.read_exact(&mut command)?;
    stream.set_read_timeout(None)?;
    let command = String::from_utf8(command).map_err(|_| ErrorKind::InvalidData)?;
    let out = Arc::new(Mutex::new(stream.try_clone()?));
    match start(&command) {
        Ok(child) => relay(child, stream, &out),
        Err(error) => {
            send(&out, ERRORS, format!("agent: {error}\n").as_bytes())?;
            send(&out, STATUS, &[FAILED])
        }
    }
}

fn start(command: &str) -> std::io::Result<Child> {
    let variable = |name: &str, usual: &str| std::env::var(name).unwrap_or_else(|_| usual.to_string());
    let home = variable("HOME", "/root");
    let home = if std::path::Path::new(&home).is_dir() { home } else { "/".to_string() };
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(command).current_dir(&home).process_group(0);
    shell.env_clear().env("HOME", &home).env("PATH", PATH).env("SHELL", "/bin/sh");
    shell.env("USER", variable("USER", "root"));
    shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
}

/// Transfers data between the command and the client until the command has ended and closed its outputs.
fn relay(mut child: Child, mut stream: TcpStream, out: &Arc<Mutex<TcpStream>>) -> std::io::Result<()> {
    let mut input = child.stdin.take().expect("standard input is piped");
    std::thread::spawn(move || {
        copy(&mut stream, &mut input);
    });
    let output = child.stdout.take().expect("standard output is piped");
    let errors = child.stderr.take().expect("standard error is piped");
    let own = out.clone();
    let first = std::thread::spawn(move || forward(output, OUTPUT, &own));
    forward(errors, ERRORS, out);
    let status = child.wait()?;
    let _ = first.join();
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    let sent = send(out, STATUS, &[code as u8]);
    let stream = out.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let _ = stream.shutdown(Shutdown::Both);
    sent
}

/// Copies until either side ends. `std::io::copy` would use splice in the kernel, which holds the lock of
/// the pipe while the socket is silent. The process at the pipe's other end could not even exit then.
fn copy(from: &mut impl Read, to: &mut impl Write) {
    let mut buffer = [0; 1 << 14];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..length]).and_then(|()| to.flush()).is_err() {
            return;
        }
    }
}

/// Forwards data as frames. When the client has gone, the pipe is closed, which the command notices.
fn forward(mut from: impl Read, kind: u8, to: &Arc<Mutex<TcpStream>>) {
    let mut buffer = [0; 1 << 14];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        if send(to, kind, &buffer[..length]).is_err() {
            return;
        }
    }
}

fn send(to: &Arc<Mutex<TcpStream>>, kind: u8, data: &[u8]) -> std::io::Result<()> {
    let mut frame = vec![kind];
    frame.extend((data.len() as u32).to_le_bytes());
    frame.extend(data);
    to.lock().unwrap_or_else(std::sync::PoisonError::into_inner).write_all(&frame)
}

/// Command line in ssh's syntax: options, host, command. Options have no effect, but some have an argument.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    host: String,
    command: String,
    no_input: bool,
}

fn parse(words: &[String]) -> Result<Line> {
    const WITH_WORD: &str = "BbcDEeFIiJLlmOoPpQRSWw";
    let mut at = 0;
    let mut no_input = false;
    while let Some(option) = words.get(at).and_then(|word| word.strip_prefix('-')) {
        no_input |= option.contains('n');
        at += if option.len() == 1 && WITH_WORD.contains(option) { 2 } else { 1 };
    }
    let (host, command) = match words.get(at..) {
        Some([host, command @ ..]) if !command.is_empty() => (host, command.join(" ")),
        _ => return Err(TestbedError::AgentUsage),
    };
    let host = host.rsplit_once('@').map_or(host.as_str(), |(_, host)| host);
    Ok(Line { host: host.to_string(), command, no_input })
}

/// Runs a command on a host like ssh and returns its exit status.
pub fn agent(name: &str, words: &[String]) -> ExitCode {
    match parse(words).and_then(|line| call(name, &line, words)) {
        Ok(status) => ExitCode::from(status),
        Err(message) => {
            eprintln!("agent: {message}");
            ExitCode::from(FAILED)
        }
    }
}

fn call(name: &str, line: &Line, words: &[String]) -> Result<u8> {
    let testbed = Testbed::get(name)?;
    let host = testbed.host(&line.host)?;
    let namespace = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    let inside =
        testbed.hosts.iter().any(|host| namespace("self") == namespace(&host.holder.number.to_string()));
    if !inside {
        // Outside the testbed its network cannot be reached, so the agent enters a namespace of it.
        let mut command = Command::new("nsenter");
        command.args(["-t", &host.holder.number.to_string(), "--net", "--"]).arg(testbed.agent()).args(words);
        return Err(TestbedError::not_started(NSENTER)(command.exec()));
    }
    let address = format!("{}:{PORT}", host.address).parse::<SocketAddr>();
    let damaged = |_| TestbedError::DamagedState(testbed.agent());
    let name = || host.name.clone();
    let stream = TcpStream::connect_timeout(&address.map_err(damaged)?, CONNECT)
        .map_err(|source| TestbedError::Connection { host: name(), port: PORT, source })?;
    converse(stream, line).map_err(|source| TestbedError::ConnectionLost { host: name(), source })
}

fn converse(mut stream: TcpStream, line: &Line) -> std::io::Result<u8> {
    stream.set_nodelay(true)?;
    let mut request = (line.command.len() as u32).to_le_bytes().to_vec();
    request.extend(line.command.as_bytes());
    stream.write_all(&request)?;
    let mut input = stream.try_clone()?;
    let no_input = line.no_input;
    // The thread ends with the process, which does not wait for input that the command never reads.
    std::thread::spawn(move || {
        if !no_input {
            copy(&mut std::io::stdin().lock(), &mut input);
        }
        let _ = input.shutdown(Shutdown::Write);
    });
    loop {
        let mut head = [0; 5];
        stream.read_exact(&mut head)?;
        let length = u32::from_le_bytes([head[1], head[2], head[3], head[4]]);
        let mut data = vec![0; length.min(1 << 14) as usize];
        stream.read_exact(&mut data)?;
        match head[0] {
            OUTPUT => {
                std::io::stdout().write_all(&data)?;
                std::io::stdout().flush()?;
            }
            ERRORS => std::io::stderr().write_all(&data)?,
            _ => return Ok(data.first().copied().unwrap_or(FAILED)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(words: &str, expected: std::result::Result<(&str, &str, bool), &str>) {
        let words: Vec<String> = words.split(' ').map(ToString::to_string).collect();
        let got = parse(&words);
        let got = got.as_ref().map(|line| (line.host.as_str(), line.command.as_str(), line.no_input));
        match (got, expected) {
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (got, expected) => assert_eq!(got.ok(), expected.ok()),
        }
    }

    #[test]
    fn lines_are_those_of_ssh() {
        check("n0 echo 'a  b'", Ok(("n0", "echo 'a  b'", false)));
        check("-x n1 true", Ok(("n1", "true", false)));
        check("-n -o Batch=yes -l me root@n1 ls -l", Ok(("n1", "ls -l", true)));
        check("n1", Err("usage"));
        check("-o", Err("usage"));
    }

    #[test]
    fn a_command_runs_as_on_another_host() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let address = listener.local_addr().expect("it is bound");
        std::thread::spawn(move || serve(&listener));
        let line = |command: &str| Line { host: String::new(), command: command.to_string(), no_input: true };
        let run = |command: &str| {
            converse(TcpStream::connect(address).expect("it listens"), &line(command)).expect("it answers")
        };
        assert_eq!(run("exit 7"), 7);
        assert_eq!(run("kill -9 $$"), 137);
        assert_eq!(run("cat; test \"$(env | grep -c =)\" -le 6 && test \"$PWD\" = \"$HOME\""), 0);
    }
}
