//! Other load on the machine during a measurement.

use std::process::{Child, Command, Stdio};

/// Competitors for the processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Load {
    /// None: only the job runs.
    Alone,
    /// One computing process of another user: it has a Unix session of its own, hence another group of the
    /// scheduler (CONFIG_SCHED_AUTOGROUP).
    Busy,
    /// Eight of the session that jobs are started from: other programs of the same terminal.
    Shells,
}

impl Load {
    /// Returns the name of the load in tables.
    pub fn name(self) -> &'static str {
        match self {
            Load::Alone => "alone",
            Load::Busy => "busy",
            Load::Shells => "shells",
        }
    }

    /// Starts the processes of a load. They compute until the result is dropped.
    ///
    /// # Errors
    /// Fails if there is no shell, or no `setsid`.
    pub fn begin(self) -> Result<Computing, String> {
        let (words, number): (&[&str], u32) = match self {
            Load::Alone => (&[], 0),
            Load::Busy => (&["setsid", "sh"], 1),
            Load::Shells => (&["sh"], 8),
        };
        let mut computing = Computing(Vec::new());
        for _ in 0..number {
            computing.0.push(shell(words)?);
        }
        Ok(computing)
    }
}

/// Processes that compute; they end when this is dropped, and soon after this process has ended.
pub struct Computing(Vec<Child>);

impl Drop for Computing {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Starts a shell that counts, and that ends when this process has ended.
fn shell(words: &[&str]) -> Result<Child, String> {
    let script = format!(
        "while kill -0 {}; do i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; done",
        std::process::id()
    );
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).args(["-c", &script]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().map_err(|error| format!("cannot start {}: {error}", words[0]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(pid: u32) -> String {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit_once(')').unwrap().1.split_whitespace().nth(3).unwrap().to_string()
    }

    fn check(load: Load, number: usize, own_session: bool) {
        let computing = load.begin().unwrap();
        let pids: Vec<u32> = computing.0.iter().map(Child::id).collect();
        assert_eq!(pids.len(), number);
        for pid in &pids {
            let own = || (session(*pid) == session(std::process::id())) != own_session;
            // setsid needs a moment.
            assert!((0..2000).any(|_| own() || {
                std::thread::sleep(std::time::Duration::from_millis(5));
                false
            }));
        }
        drop(computing);
        assert!(pids.iter().all(|pid| !std::path::Path::new(&format!("/proc/{pid}")).exists()));
    }

    #[test]
    fn what_computes_is_in_the_session_it_should_be_in_and_ends() {
        check(Load::Alone, 0, false);
        check(Load::Busy, 1, true);
        check(Load::Shells, 8, false);
    }
}
