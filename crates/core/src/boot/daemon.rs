//! Addresses from our own daemon on this host, which asks those of other hosts.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use tutti_sys::directory::{Ended, RankEnd, Word};
use tutti_sys::job::Job;
use tutti_transport::directory::{Address, Answer, Directory};

/// The way to the daemon.
#[derive(Debug)]
pub struct DaemonDirectory {
    end: RankEnd,
    job: Arc<Job>,
    local: u32,
    /// What the socket had no room for; at most one entry a rank that this process sends to.
    unsaid: VecDeque<Word>,
    /// Without a daemon there are no answers but this one.
    gone: bool,
}

impl DaemonDirectory {
    /// Of local rank `local`, over the socket that the daemon handed down.
    pub fn new(fd: OwnedFd, job: Arc<Job>, local: u32) -> DaemonDirectory {
        DaemonDirectory { end: RankEnd::new(fd), job, local, unsaid: VecDeque::new(), gone: false }
    }

    fn say(&mut self, word: Word) {
        self.unsaid.push_back(word);
        self.flush();
    }

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
        self.flush();
        match self.end.hear() {
            Ok((rank, address)) => Some((rank, Address::new(&address))),
            Err(Ended::NotYet) => None,
            Err(Ended::Gone) => {
                self.gone = true;
                None
            }
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        // A socket whose other end is closed would wake a sleeper for ever. The job ends when its daemon does.
        (!self.gone).then(|| self.end.as_fd())
    }
}
