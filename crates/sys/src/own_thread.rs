//! Threads of the library beside those of the program.

use std::io;
use std::thread::{Builder, JoinHandle};

use crate::floating_point;
use crate::signal::Mask;

/// Starts a thread in which no signal handler of the program runs, and whose floating-point environment is
/// the default one, whatever the program has set for its own threads.
///
/// # Errors
/// What the system reports where there is no thread to be had.
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
