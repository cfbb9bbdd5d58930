//! Threads that the library starts besides those of the program.

use std::io;
use std::thread::{Builder, JoinHandle};

use crate::floating_point;
use crate::signal::Mask;

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
