//! Threads that the library starts besides those of the program.

use std::io;
use std::thread::{Builder, JoinHandle};

use crate::floating_point;
use crate::signal::Mask;

/// Start of the names of the library's own threads.
const PREFIX: &str = "tutti";

/// Returns the number of threads of this process that the library has not started; None if it is unknown.
pub fn count_foreign() -> Option<usize> {
    let tasks = std::fs::read_dir("/proc/self/task").ok()?;
    let is_foreign = |task: &std::fs::DirEntry| {
        !std::fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.starts_with(PREFIX))
    };
    Some(tasks.flatten().filter(is_foreign).count())
}

/// Starts a thread that runs no signal handler of the program. The thread has the default floating-point
/// environment, whatever the program has set for its own threads.
///
/// # Errors
/// The system's error, if no thread can be created.
pub fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let mask = Mask::all().block();
    let started = Builder::new().name(name.to_string()).spawn(|| {
        floating_point::reset();
        work()
    });
    mask.install();
    started
}
