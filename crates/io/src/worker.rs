//! Threads that wait for storage devices, so that the program need not.
//!
//! A thread starts with the first access behind a request and ends with the process. It takes jobs in their
//! order. After each job it rings the doorbell of the process, so that waiting threads check again. It calls
//! no function of the program and none of MPI.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use tutti_base::{Error, ErrorClass, Result};
use tutti_core::process::Process;
use tutti_sys::own_thread;
use tutti_transport::shm::ring_doorbell;

use tutti_storage::Moved;

/// Threads at most: a device with a queue gains by several accesses at a time, a page cache by none.
const THREADS: u32 = 2;

/// Function that a worker thread executes.
pub type Work = Box<dyn FnOnce() -> Moved + Send>;

/// Work for a worker thread, and its result.
pub struct Job {
    work: Mutex<Option<Work>>,
    over: AtomicBool,
    moved: Mutex<Option<Moved>>,
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job").field("over", &self.over).finish_non_exhaustive()
    }
}

impl Job {
    /// Returns the result when the job has ended, and `None` before or after that.
    pub fn take(&self) -> Option<Moved> {
        if !self.over.load(Ordering::Acquire) {
            return None;
        }
        self.moved.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

struct Queue {
    jobs: VecDeque<Arc<Job>>,
    threads: u32,
    idle: u32,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue { jobs: VecDeque::new(), threads: 0, idle: 0 });
static WORK: Condvar = Condvar::new();

/// Gives work to a thread.
///
/// # Errors
/// Fails with `Other` if no thread can be created.
pub fn start(process: &'static Process, work: Work) -> Result<Arc<Job>> {
    let job =
        Arc::new(Job { work: Mutex::new(Some(work)), over: AtomicBool::new(false), moved: Mutex::new(None) });
    let mut queue = QUEUE.lock().unwrap_or_else(PoisonError::into_inner);
    queue.jobs.push_back(Arc::clone(&job));
    if queue.idle == 0 && queue.threads < THREADS {
        match own_thread::spawn("tutti-io", move || advance_unattended(process)) {
            Ok(_) => queue.threads += 1,
            Err(_) if queue.threads > 0 => {}
            Err(error) => {
                queue.jobs.pop_back();
                let why = format!("no thread for input and output starts: {error}");
                return Err(Error::new(ErrorClass::Other, why));
            }
        }
    }
    drop(queue);
    WORK.notify_one();
    Ok(job)
}

/// Runs a worker thread: executes jobs in their order, and rings the doorbell of the process after each.
fn advance_unattended(process: &'static Process) {
    loop {
        let job = next();
        let work = job.work.lock().unwrap_or_else(PoisonError::into_inner).take();
        let moved = work.map_or_else(Moved::default, |work| work());
        *job.moved.lock().unwrap_or_else(PoisonError::into_inner) = Some(moved);
        job.over.store(true, Ordering::Release);
        ring_doorbell(&process.job, process.local, 0);
    }
}

/// Waits for the next job in the queue and removes it.
fn next() -> Arc<Job> {
    let mut queue = QUEUE.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        if let Some(job) = queue.jobs.pop_front() {
            return job;
        }
        queue.idle += 1;
        queue = WORK.wait(queue).unwrap_or_else(PoisonError::into_inner);
        queue.idle -= 1;
    }
}
