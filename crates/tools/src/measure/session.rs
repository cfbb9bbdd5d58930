//! Running job of the benchmark program, which measures one cell after another on request.
//!
//! A shared machine changes its speed every few seconds, so libraries take turns within milliseconds. All
//! jobs are alive at the same time. Between two cells each rank sleeps in read(2) on a pipe of its own,
//! outside MPI. So a library that polls does not disturb the others.

use crate::measure::job_end;
use crate::measure::run::{Next, Running};
use crate::measure::sample::{self, Sample};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// O_NONBLOCK of Linux: opening a pipe without a reader fails instead of waiting.
const NONBLOCK: i32 = 0o4000;

/// Time limit for the start of a job, and for its end.
const START: Duration = Duration::from_secs(60);
const FINISH: Duration = Duration::from_secs(5);

/// Request to measure one cell.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ask {
    /// Name of the operation, as the program knows it.
    pub op: String,
    /// Mode of the buffers (`plain` or `changing`), or other load ([`crate::commands::waits`]).
    pub mode: String,
    /// Size in bytes, or a number of objects; 0 where there is none.
    pub bytes: u64,
}

/// A job that waits for cells.
pub struct Session {
    running: Option<Running>,
    pipes: Vec<File>,
    paths: Vec<PathBuf>,
    errors: Vec<String>,
}

impl Session {
    /// Starts `command` (the benchmark program on `ranks` ranks) with pipes at `prefix`.
    ///
    /// # Errors
    /// Fails if it does not come up.
    pub fn start(mut command: Command, ranks: u32, prefix: &Path) -> Result<Session, String> {
        let paths: Vec<_> =
            (0..ranks).map(|rank| PathBuf::from(format!("{}.{rank}", prefix.display()))).collect();
        for path in &paths {
            let _ = std::fs::remove_file(path);
        }
        command.arg("--serve").arg(prefix);
        let running = Running::start(&mut command)?;
        let mut session = Session { running: Some(running), pipes: Vec::new(), paths, errors: Vec::new() };
        let deadline = Instant::now() + START;
        session.read_until("ready", deadline)?;
        for path in &session.paths {
            session.pipes.push(open(path, deadline)?);
        }
        Ok(session)
    }

    /// Measures one cell. Nothing comes back for a cell that is too large.
    ///
    /// # Errors
    /// Fails if the job has ended, or prints nothing for `timeout`. The job must not be used afterwards.
    pub fn measure(
        &mut self,
        ask: &Ask,
        ms: f64,
        limit_ms: u32,
        timeout: Duration,
    ) -> Result<Option<Sample>, String> {
        // Rank 0 receives the request last: a rank that is awake first would wait for the others in MPI.
        let line = format!("{} {} {} {ms} {limit_ms}\n", ask.op, ask.mode, ask.bytes);
        for pipe in self.pipes.iter_mut().rev() {
            pipe.write_all(line.as_bytes()).map_err(|error| format!("the job has gone: {error}"))?;
        }
        let lines = self.read_until("done", Instant::now() + timeout)?;
        Ok(lines.iter().find_map(|line| sample::parse(line)))
    }

    /// Returns true if a line on standard error begins with `begin` and contains `word`.
    pub fn complained(&self, begin: &str, word: &str) -> bool {
        self.errors.iter().any(|line| line.starts_with(begin) && line.contains(word))
    }

    /// Lines of output before the one that is `word`.
    fn read_until(&mut self, word: &str, deadline: Instant) -> Result<Vec<String>, String> {
        let Some(running) = &self.running else { return Err("the job has ended".to_string()) };
        let mut lines = Vec::new();
        loop {
            match running.line(deadline) {
                Next::Line(line) if line.trim() == word => return Ok(lines),
                Next::Line(line) => lines.push(line),
                Next::Error(line) => self.errors.push(line),
                Next::Ended => return Err(format!("ended early {}", job_end::last(&self.errors))),
                Next::TimedOut => return Err(format!("took too long {}", job_end::last(&self.errors))),
            }
        }
    }
}

impl Drop for Session {
    /// Closes the pipes, which ends the ranks, and kills processes that do not end.
    fn drop(&mut self) {
        let ready = self.pipes.len() == self.paths.len();
        self.pipes.clear();
        if let Some(running) = self.running.take() {
            running.finish(Instant::now() + if ready { FINISH } else { Duration::ZERO });
        }
        for path in &self.paths {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn open(path: &Path, deadline: Instant) -> Result<File, String> {
    loop {
        match OpenOptions::new().write(true).custom_flags(NONBLOCK).open(path) {
            Ok(file) => return Ok(file),
            Err(error) if Instant::now() > deadline => return Err(format!("{}: {error}", path.display())),
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, script: &str, expected: Result<Option<f64>, &str>) {
        let prefix = std::env::temp_dir().join(format!("tutti-session-{}-{name}", std::process::id()));
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh"]);
        let session = Session::start(command, 1, &prefix);
        let ask = Ask { op: "bcast".to_string(), mode: "plain".to_string(), bytes: 8 };
        let got = session.and_then(|mut job| job.measure(&ask, 1.0, 1, Duration::from_secs(10)));
        match (got, expected) {
            (Ok(sample), Ok(us)) => assert_eq!(sample.map(|sample| sample.us), us),
            (Err(message), Err(part)) => assert!(message.contains(part), "{message}"),
            (got, _) => panic!("{name}: {got:?}"),
        }
        assert!(!prefix.with_extension("0").exists());
    }

    #[test]
    fn a_job_answers_or_the_reason_is_told() {
        let cell = "cell op=bcast mode=plain ranks=1 bytes=8 us=3.5 least=3 iterations=1 wrong=0";
        let begin = "mkfifo $2.0; echo ready; exec <$2.0; read line;";
        check("answers", &format!("{begin} echo {cell}; echo done; read line"), Ok(Some(3.5)));
        check("too-large", &format!("{begin} echo done; read line"), Ok(None));
        check("dies", &format!("{begin} echo no memory >&2; sleep 0.1; exit 1"), Err("no memory"));
        check("never-begins", "echo bad >&2; sleep 0.1; exit 1", Err("bad"));
    }
}
