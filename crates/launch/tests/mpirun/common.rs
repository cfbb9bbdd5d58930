//! Helpers that run `mpirun` with fake ranks, and check that no process is left.

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Path of the `mpirun` under test.
pub const MPIRUN: &str = env!("CARGO_BIN_EXE_mpirun");

/// Returns the path of the program in `examples/fake_rank.rs`, which cargo builds for tests.
pub fn fake_rank() -> String {
    let beside = PathBuf::from(MPIRUN).with_file_name("examples").join("fake_rank");
    assert!(beside.exists(), "cargo builds examples before it runs tests");
    beside.to_str().expect("the path of the build is UTF-8").to_string()
}

/// Agent that starts the daemons of all hosts on this machine. Like ssh, it gives the command a clean
/// environment, but keeps the mark of the test.
pub fn agent() -> String {
    format!("{}/tests/agent.sh", env!("CARGO_MANIFEST_DIR"))
}

/// Running `mpirun` whose processes can be distinguished from all others.
pub struct Run {
    mark: String,
    /// Process of mpirun itself.
    pub child: Child,
}

/// Result of a run.
pub struct Done {
    /// Exit status, or 128 + signal like in a shell.
    pub status: i32,
    /// Text of its standard output.
    pub out: String,
    /// Text of its standard error.
    pub err: String,
}

/// Starts `mpirun` with arguments; `{fake}` stands for the fake rank, `{agent}` for the agent.
pub fn start(arguments: &[&str]) -> Run {
    use std::sync::atomic::{AtomicU32, Ordering};
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let mark = format!("LAUNCH_TEST_{}_{}=1", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let arguments = arguments
        .iter()
        .map(|argument| argument.replace("{fake}", &fake_rank()).replace("{agent}", &agent()));
    // Tests in the background of a script ignore SIGINT, and under nohup SIGHUP. Their children would inherit
    // that.
    let child = Command::new("env")
        .args(["--default-signal=INT,HUP,QUIT", MPIRUN])
        .args(arguments)
        .env(mark.trim_end_matches("=1"), "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("mpirun starts");
    Run { mark, child }
}

/// Runs `mpirun` to its end and checks that no process is left.
pub fn run(arguments: &[&str]) -> Done {
    start(arguments).finish()
}

impl Run {
    /// Sends a signal to the process that the user started.
    pub fn signal(&self, signal: i32) {
        assert!(tutti_sys::process::kill(self.child.id() as i32, signal));
    }

    /// Waits for the end and checks that no process is left.
    pub fn finish(mut self) -> Done {
        drop(self.child.stdin.take());
        let Output { status, stdout, stderr } =
            self.child.wait_with_output().expect("mpirun can be waited for");
        let (out, err) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        let left = wait_until_none(&self.mark);
        assert!(left.is_empty(), "left behind: {left:?}; it said {err}");
        use std::os::unix::process::ExitStatusExt;
        let status = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        Done { status, out: out.into_owned(), err: err.into_owned() }
    }

    /// Waits until `count` processes of this run match `name`.
    pub fn wait_for(&self, name: &str, count: usize) -> Vec<i32> {
        for _ in 0..1000 {
            let found: Vec<i32> = processes(&self.mark)
                .into_iter()
                .filter(|(_, line)| line.contains(name))
                .map(|(pid, _)| pid)
                .collect();
            if found.len() >= count {
                return found;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("no {count} processes {name} in {:?}", processes(&self.mark));
    }
}

/// Sorts processes by age, the oldest first. Their numbers do not show the age, as they start again.
pub fn by_age(mut pids: Vec<i32>) -> Vec<i32> {
    let started = |pid: &i32| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // Field 22 (proc(5)) is counted after the name, which may contain any characters.
        let after = text.rsplit(')').next().unwrap().split(' ').nth(20);
        after.and_then(|ticks| ticks.parse().ok()).unwrap_or(u64::MAX)
    };
    pids.sort_by_key(|pid| (started(pid), *pid));
    pids
}

/// Waits a moment until all processes of a run have ended. Returns those that have not.
fn wait_until_none(mark: &str) -> Vec<(i32, String)> {
    let start = Instant::now();
    loop {
        let left = processes(mark);
        if left.is_empty() || start.elapsed() > Duration::from_secs(5) {
            return left;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns the processes that have `mark` in their environment, with their command lines.
fn processes(mark: &str) -> Vec<(i32, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("/proc is mounted").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        if environment.split(|&byte| byte == 0).any(|variable| variable == mark.as_bytes()) {
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            found.push((pid, String::from_utf8_lossy(&line).replace('\0', " ")));
        }
    }
    found
}
