//! Descriptors of the network that a sleeper watches beside its doorbell, and the time of its next action.
//!
//! The descriptors change from sleep to sleep, so the last look before a sleep stores them here.

use std::cell::{Cell, RefCell};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::time::{Duration, Instant};

use tutti_sys::{event, this_process};

/// Room for one sleep after the other.
#[derive(Debug)]
pub struct Watch<'a> {
    bell: BorrowedFd<'a>,
    descriptors: RefCell<Vec<RawFd>>,
    /// One that is watched until it can be written.
    room: Cell<Option<RawFd>>,
    until: Cell<Option<Instant>>,
    /// Descriptors that were ready at the end of the last sleep; `None` if there was none since
    /// [`Watch::set`].
    ready: RefCell<Option<Vec<RawFd>>>,
}

impl<'a> Watch<'a> {
    /// Starts a watch for the rank of this doorbell.
    pub fn new(bell: BorrowedFd<'a>) -> Watch<'a> {
        Watch {
            bell,
            descriptors: RefCell::default(),
            room: Cell::new(None),
            until: Cell::new(None),
            ready: RefCell::new(None),
        }
    }

    /// Writes down what the next sleep watches: `list` adds descriptors, which stay open until the sleep is
    /// over, and says when the sleep ends at the latest.
    pub fn set(&self, list: impl FnOnce(&mut Vec<RawFd>) -> Option<Instant>) {
        let mut descriptors = self.descriptors.borrow_mut();
        descriptors.clear();
        self.room.set(None);
        self.ready.replace(None);
        self.until.set(list(&mut descriptors));
    }

    /// Ends sleeps also when this descriptor becomes writable.
    pub fn set_room(&self, descriptor: Option<RawFd>) {
        self.room.set(descriptor);
    }

    /// Returns true if there is more to watch than the doorbell.
    pub fn is_wanted(&self) -> bool {
        !self.descriptors.borrow().is_empty() || self.until.get().is_some()
    }

    /// Returns the descriptors that were ready at the end of the sleep that was prepared last; `None` if
    /// there was no such sleep.
    pub fn take_ready(&self) -> Option<Vec<RawFd>> {
        self.ready.take()
    }

    /// Sleeps for at most `timeout`.
    pub fn sleep(&self, timeout: Duration) {
        let mut descriptors = self.descriptors.borrow_mut();
        descriptors.push(self.bell.as_raw_fd());
        let left = self.until.get().map(|until| until.saturating_duration_since(Instant::now()));
        let timeout = left.map_or(timeout, |left| left.min(timeout));
        let ready = event::wait_ready(&descriptors, self.room.get().as_slice(), timeout);
        if ready.contains(&self.bell.as_raw_fd()) && !event::damp(self.bell) {
            bell_is_lost();
        }
        self.ready.replace(Some(ready));
    }
}

/// Ends the process, whose bell is lost: it could not wake others, or be woken, and would wait for ever.
#[cold]
pub(crate) fn bell_is_lost() -> ! {
    this_process::say(
        "Tutti: a descriptor that ranks are woken by does not stand for it any more: the program has closed it, or put \
         another file in its place; a program may do so only with descriptors that it has opened\n",
    );
    this_process::exit_now(1)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use tutti_base::config::Config;
    use tutti_sys::job::{Job, Plan};

    use super::*;
    use crate::shm::ring_doorbell;
    use crate::waiting::Waiting;

    /// Checks that a rank which watches in several lanes for something that never comes is woken by a
    /// doorbell, a descriptor, or the clock.
    fn check(wake: impl FnOnce(&Job, BorrowedFd<'_>) + Send, until: Option<Duration>) {
        let plan = Plan { lanes: 3, ..Plan::one_host(1) };
        let job = Arc::new(Job::create(&plan).unwrap());
        job.set_bells(event::bells(1).unwrap());
        let network = event::bells(1).unwrap();
        let (woken, network) = (AtomicBool::new(false), network[0].as_fd());
        let waiting = Waiting::asleep(&Config::default());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let watch = Watch::new(job.bell(0).expect("it was given"));
                let mut waiter = waiting.waiter(false);
                let start = Instant::now();
                let is_over =
                    || woken.load(Ordering::Acquire) || until.is_some_and(|time| start.elapsed() >= time);
                while !is_over() {
                    let sleepers = [0, 1, 2].map(|lane| job.sleeper(0, lane));
                    waiter.pause_watching(&sleepers, Some(&watch), || {
                        watch.set(|list| {
                            list.push(network.as_raw_fd());
                            until.map(|time| start + time)
                        });
                        is_over()
                    });
                }
            });
            // In all lanes at once.
            while until.is_none() && !(0..3).all(|lane| is_polled(&job, lane)) {
                std::thread::yield_now();
            }
            woken.store(until.is_none(), Ordering::Release);
            wake(&job, network);
        });
        assert!(!(0..3).any(|lane| is_polled(&job, lane)));
    }

    fn is_polled(job: &Job, lane: u32) -> bool {
        job.block(0).doorbell_of(lane).polled.load(Ordering::SeqCst) != 0
    }

    #[test]
    fn sleepers_hear_the_doorbells_the_network_and_the_clock() {
        for lane in 0..3 {
            check(|job, _| ring_doorbell(job, 0, lane), None);
        }
        check(|_, network| assert!(event::strike(network)), None);
        check(|_, _| (), Some(Duration::from_millis(3)));
    }
}
