//! `tutti probe --unasked`: the measurement that mpirun starts before the first job on a kind of machine.
//!
//! A measurement that something disturbs is worse than none, because all later jobs would use it. So nothing
//! is kept if another measurement is going on (a lock), or if the processors were in use before or after
//! ([`is_idle`]). mpirun then goes on with the defaults.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use tutti_sys::{clock, cpu};

use super::costs;
use crate::kept::{keep, measured};

/// Time for which each processor is observed.
const OBSERVED: Duration = Duration::from_millis(4);
/// Processors that are observed at most: as many as [`costs`] uses at a time.
const MOST_OBSERVED: usize = 16;
/// Part of the observed time that a thread gets on a processor without other threads.
const LEAST_SHARE: f64 = 0.9;

/// Measures and keeps the model at `out`, if nothing disturbs.
///
/// # Errors
/// Fails if the file cannot be written.
pub fn run(out: &Path) -> io::Result<()> {
    let attempt = out.with_added_extension("attempt");
    let lock = File::options().write(true).open(&attempt)?;
    match lock.try_lock() {
        Err(TryLockError::WouldBlock) => return Ok(()),
        Err(TryLockError::Error(error)) => return Err(error),
        Ok(()) => lock.set_modified(SystemTime::now())?,
    }
    if !is_idle() {
        return Ok(());
    }
    let model = costs::probe();
    if !is_idle() {
        return Ok(());
    }
    keep(out, &measured(&model))?;
    std::fs::remove_file(&attempt)
}

/// Returns true if no other thread uses the processors of this process: a thread that computes on one of them
/// for [`OBSERVED`] gets nearly all of that time.
fn is_idle() -> bool {
    let processors: Vec<usize> =
        cpu::affinity().map(|set| set.iter().take(MOST_OBSERVED).collect()).unwrap_or_default();
    thread::scope(|scope| {
        let observers: Vec<_> =
            processors.iter().map(|&processor| scope.spawn(move || share(processor))).collect();
        observers
            .into_iter()
            .all(|observer| observer.join().expect("an observer does not panic") >= LEAST_SHARE)
    })
}

/// Returns the part of its time that a thread on a processor gets.
fn share(processor: usize) -> f64 {
    costs::pin(processor);
    let (begin, used) = (Instant::now(), clock::thread_ns());
    while begin.elapsed() < OBSERVED {
        std::hint::spin_loop();
    }
    (clock::thread_ns() - used) as f64 / begin.elapsed().as_nanos() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_kept_while_another_one_measures() {
        let directory = std::env::temp_dir().join(format!("tutti-unasked-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let (out, attempt) = (directory.join("MODEL"), directory.join("MODEL.attempt"));
        let other = File::create(&attempt).unwrap();
        other.lock().unwrap();
        run(&out).unwrap();
        assert!(!out.exists() && attempt.exists());
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_processor_in_use_is_seen() {
        let processor = cpu::affinity().unwrap().iter().next().unwrap();
        let least = thread::scope(|scope| {
            let shares: Vec<_> = (0..3).map(|_| scope.spawn(|| share(processor))).collect();
            shares.into_iter().map(|share| share.join().unwrap()).fold(1.0, f64::min)
        });
        assert!(least < LEAST_SHARE, "{least}");
    }
}
