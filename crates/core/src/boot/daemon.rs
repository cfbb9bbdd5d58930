//! Addresses of ranks, from our own daemon on this host. It requests those of other hosts from their
//! daemons.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use tutti_sys::directory::{Ended, RankEnd, Reply, Word};
use tutti_sys::job::Job;
use tutti_transport::directory::{Address, Answer, Directory};

/// Maximum number of stored calls. A rank whose call is dropped calls again.
const MOST_CALLS: usize = 1024;

/// Connection to the daemon of this host.
#[derive(Debug)]
pub struct DaemonDirectory {
    end: RankEnd,
    job: Arc<Job>,
    /// Rank of this process among those of its host.
    local: u32,
    /// Messages for which the socket had no space; at most one for each destination rank.
    unsaid: VecDeque<Word>,
    /// Answers that have arrived and were not polled yet.
    answers: VecDeque<Answer>,
    /// Ranks that have called this process, and were not reported yet.
    calls: VecDeque<u32>,
    /// True if the daemon is gone. Then no further answers arrive.
    gone: bool,
}

impl DaemonDirectory {
    /// Makes the directory of local rank `local`, over the socket that the daemon handed down.
    pub fn new(fd: OwnedFd, job: Arc<Job>, local: u32) -> DaemonDirectory {
        DaemonDirectory {
            end: RankEnd::of_generation(fd, job.header().generation),
            job,
            local,
            unsaid: VecDeque::new(),
            answers: VecDeque::new(),
            calls: VecDeque::new(),
            gone: false,
        }
    }

    /// Receives all answers that have arrived.
    fn hear(&mut self) {
        self.flush();
        while !self.gone {
            match self.end.hear() {
                Ok(Reply::Address(rank, address)) => {
                    self.answers.push_back((rank, Address::new(&address)));
                }
                Ok(Reply::Call(rank)) if self.calls.len() < MOST_CALLS => self.calls.push_back(rank),
                Ok(Reply::Call(_)) => {}
                Err(Ended::NotYet) => return,
                Err(Ended::Gone) => self.gone = true,
            }
        }
    }

    /// Queues a message for the daemon, and sends what the socket takes.
    fn say(&mut self, word: Word) {
        self.unsaid.push_back(word);
        self.flush();
    }

    /// Sends queued messages until the socket is full.
    fn flush(&mut self) {
        while let Some(&word) = self.unsaid.front() {
            match self.end.say(word) {
                Ok(true) => drop(self.unsaid.pop_front()),
                Ok(false) => break,
                Err(_) => {
                    self.gone = true;
                    break;
                }
            }
        }
    }
}

impl Directory for DaemonDirectory {
    fn publish(&mut self, address: &Address) {
        self.job.block(self.local).set_address(address.bytes());
        self.say(Word::Published);
    }

    fn request(&mut self, rank: u32) {
        if !self.unsaid.contains(&Word::Request(rank)) {
            self.say(Word::Request(rank));
        }
    }

    fn poll(&mut self) -> Option<Answer> {
        if self.answers.is_empty() {
            self.hear();
        }
        self.answers.pop_front()
    }

    fn call(&mut self, rank: u32) -> bool {
        if !self.unsaid.contains(&Word::Call(rank)) {
            self.say(Word::Call(rank));
        }
        !self.gone
    }

    fn can_call(&self) -> bool {
        true
    }

    fn called(&mut self) -> Option<u32> {
        if self.calls.is_empty() {
            self.hear();
        }
        self.calls.pop_front()
    }

    fn collects_arrivals(&self) -> bool {
        true
    }

    fn report_arrival(&mut self) {
        if !self.unsaid.contains(&Word::Arrived) {
            self.say(Word::Arrived);
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        // A socket whose other end is closed would wake a sleeper again and again. The job ends when its
        // daemon does.
        (!self.gone).then(|| self.end.as_fd())
    }
}
