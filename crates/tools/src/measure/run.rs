//! Execution of a program with a time limit. No process remains when the limit is reached.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant, SystemTime};
use tutti_sys::process;

/// Reason for the end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Exit status.
    Exit(i32),
    /// Killed by this signal.
    Signal(i32),
    /// Killed by this module at the time limit.
    TimedOut,
}

/// Output and end of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Lines of standard output.
    pub lines: Vec<String>,
    /// Lines of standard error.
    pub errors: Vec<String>,
    /// Reason for the end of the run.
    pub end: End,
    /// Time from the start of the process to its end.
    pub elapsed: Duration,
    /// Time of day at the end of the process.
    pub ended: SystemTime,
}

enum Event {
    Output(String),
    Error(String),
    Closed,
    Ended(ExitStatus, Instant, SystemTime),
}

const SIGKILL: i32 = 9;

/// Time that output may still arrive after the end of the process.
const DRAIN: Duration = Duration::from_secs(2);

/// A started program, its output coming line by line.
pub struct Running {
    pid: u32,
    start: Instant,
    events: Receiver<Event>,
}

/// Line or event that [`Running::line`] has read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// A line of standard output.
    Line(String),
    /// A line of standard error.
    Error(String),
    /// The program has ended.
    Ended,
    /// The time limit was reached.
    TimedOut,
}

impl Running {
    /// Starts `command` without standard input, in a process group of its own.
    ///
    /// # Errors
    /// Fails if the program cannot be started.
    pub fn start(command: &mut Command) -> Result<Running, String> {
        let name = command.get_program().to_string_lossy().into_owned();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let start = Instant::now();
        let mut child = command.spawn().map_err(|error| format!("cannot start {name}: {error}"))?;
        let pid = child.id();
        let (sender, events) = channel();
        let output = child.stdout.take().expect("standard output is piped");
        let errors = child.stderr.take().expect("standard error is piped");
        forward(output, sender.clone(), Event::Output);
        forward(errors, sender.clone(), Event::Error);
        std::thread::spawn(move || {
            if let Ok(status) = child.wait() {
                let _ = sender.send(Event::Ended(status, Instant::now(), SystemTime::now()));
            }
        });
        Ok(Running { pid, start, events })
    }

    /// Returns the next line of the program's output, or its end, until `deadline`.
    pub fn line(&self, deadline: Instant) -> Next {
        loop {
            match self.events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Event::Output(line)) => return Next::Line(line),
                Ok(Event::Error(line)) => return Next::Error(line),
                Ok(Event::Closed) => {}
                Ok(Event::Ended(..)) | Err(RecvTimeoutError::Disconnected) => return Next::Ended,
                Err(RecvTimeoutError::Timeout) => return Next::TimedOut,
            }
        }
    }

    /// Waits for the end until `deadline`, then ends it.
    pub fn finish(self, deadline: Instant) -> Outcome {
        collect(self.pid, self.start, deadline, &self.events)
    }
}

/// Runs `command` without standard input for at most `timeout`.
///
/// # Errors
/// Fails if the program cannot be started.
pub fn run(command: &mut Command, timeout: Duration) -> Result<Outcome, String> {
    let running = Running::start(command)?;
    let deadline = running.start + timeout;
    Ok(running.finish(deadline))
}

/// Sends on each line of `from`, and then its end. No thread joins these threads, as an escaped process could
/// hold the pipe.
fn forward(from: impl Read + Send + 'static, to: Sender<Event>, event: fn(String) -> Event) {
    std::thread::spawn(move || {
        for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
            if to.send(event(String::from_utf8_lossy(&line).into_owned())).is_err() {
                return;
            }
        }
        let _ = to.send(Event::Closed);
    });
}

fn collect(pid: u32, start: Instant, mut deadline: Instant, events: &Receiver<Event>) -> Outcome {
    let (mut closed, mut killed, mut ended) = (0, false, false);
    let mut outcome = Outcome {
        lines: Vec::new(),
        errors: Vec::new(),
        end: End::TimedOut,
        elapsed: deadline - start,
        ended: SystemTime::now(),
    };
    while !(ended && closed == 2) {
        match events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(Event::Output(line)) => outcome.lines.push(line),
            Ok(Event::Error(line)) => outcome.errors.push(line),
            Ok(Event::Closed) => closed += 1,
            Ok(Event::Ended(status, at, wall)) => {
                ended = true;
                outcome.elapsed = at - start;
                outcome.ended = wall;
                if !killed {
                    outcome.end = end_of(status);
                    deadline = at + DRAIN;
                }
            }
            Err(_) if killed || ended => break,
            Err(_) => {
                killed = true;
                kill_tree(pid);
                deadline = Instant::now() + DRAIN;
            }
        }
    }
    outcome
}

fn end_of(status: ExitStatus) -> End {
    match (status.code(), status.signal()) {
        (Some(code), _) => End::Exit(code),
        (None, Some(signal)) => End::Signal(signal),
        (None, None) => End::Exit(-1),
    }
}

/// Kills the process, its group, and all that descend from it, by number.
fn kill_tree(pid: u32) {
    let children = children_of_all();
    let mut doomed = vec![pid];
    let mut next = 0;
    while next < doomed.len() {
        doomed.extend(children.get(&doomed[next]).into_iter().flatten());
        next += 1;
    }
    process::kill_group(pid as i32, SIGKILL);
    for pid in doomed {
        process::kill(pid as i32, SIGKILL);
    }
}

fn children_of_all() -> HashMap<u32, Vec<u32>> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if let Some(parent) = parent_in(&stat) {
            children.entry(parent).or_default().push(pid);
        }
    }
    children
}

/// Returns the parent's process number in a line of /proc/PID/stat. The program's name in it may contain any
/// character.
fn parent_in(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, timeout_ms: u64) -> Outcome {
        run(Command::new("sh").args(["-c", script]), Duration::from_millis(timeout_ms)).unwrap()
    }

    #[test]
    fn output_and_status_are_kept() {
        let outcome = shell("echo one; echo two; echo bad >&2; exit 3", 20_000);
        assert_eq!(outcome.lines, ["one", "two"]);
        assert_eq!(outcome.errors, ["bad"]);
        assert_eq!(outcome.end, End::Exit(3));
        assert_eq!(shell("kill -9 $$", 20_000).end, End::Signal(9));
    }

    #[test]
    fn a_tree_of_processes_ends_with_the_time() {
        let outcome = shell("sleep 1000 & echo $!; setsid sleep 1000", 300);
        assert_eq!(outcome.end, End::TimedOut);
        let child = &outcome.lines[0];
        // It closes its files before it is a zombie.
        let ends = (0..1000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
            let state = stat.rsplit_once(')').map_or("gone", |(_, rest)| rest.trim_start());
            state == "gone" || state.starts_with('Z')
        });
        assert!(ends);
    }

    #[test]
    fn the_parent_is_found_after_any_name() {
        assert_eq!(parent_in("12 (a) b (c)) S 7 12"), Some(7));
        assert_eq!(parent_in(""), None);
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = run(&mut Command::new("./no-such-program"), Duration::from_secs(1)).unwrap_err();
        assert!(error.contains("no-such-program"), "{error}");
    }
}
