//! How the ranks of this host ask their daemon where others are, in jobs of several hosts.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use tutti_base::Placement;
use tutti_sys::directory::{self, DaemonEnd, Ended, RankEnd, Reply, Word};
use tutti_sys::job::Job;

use crate::tree::message::{Address, Ask};

/// Most words of a rank taken at once, so that one that asks without end does not keep the daemon from the others.
const MOST_WORDS: usize = 256;

/// What a rank says about addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inquired {
    /// It wants to know that of another rank, by its place.
    Ask(Ask),
    /// It has one.
    Has(Address),
    /// It wants another rank to connect to it, by its place.
    Call(Ask),
}

/// One rank's way.
#[derive(Debug)]
struct Inquiry {
    end: Option<DaemonEnd>,
    /// Answers that found no room.
    late: VecDeque<Reply>,
    /// Whether its own address is known, or that it will never have one.
    is_settled: bool,
}

/// Those of all ranks of this host, by local rank.
#[derive(Debug, Default)]
pub struct Inquiries {
    all: Vec<Inquiry>,
    /// World ranks of the hosts that were asked for.
    on_hosts: HashMap<u32, Vec<u32>>,
}

impl Inquiries {
    /// Makes the way of the next rank; returns the rank's end.
    ///
    /// # Errors
    /// What the system reports: too many descriptors.
    pub fn open(&mut self) -> io::Result<RankEnd> {
        let (rank_end, end) = directory::pair()?;
        self.all.push(Inquiry { end: Some(end), late: VecDeque::new(), is_settled: false });
        Ok(rank_end)
    }

    /// Our ends, by local rank.
    pub fn ends(&self) -> impl Iterator<Item = (u32, BorrowedFd<'_>)> {
        (0..).zip(&self.all).filter_map(|(local, inquiry)| Some((local, inquiry.end.as_ref()?.as_fd())))
    }

    /// What a rank says now.
    pub fn hear(&mut self, local: u32, object: &Job, placement: &Placement) -> Vec<Inquired> {
        let mut said = Vec::new();
        let Some(inquiry) = self.all.get_mut(local as usize) else { return said };
        while let Some(end) = inquiry.end.as_ref().filter(|_| said.len() < MOST_WORDS) {
            match end.hear() {
                Ok(Word::Request(rank)) => match placement.place(rank) {
                    Some(place) => said.push(Inquired::Ask(Ask { host: place.host, local: place.local })),
                    // No such rank: it will never have an address.
                    None => {
                        inquiry.late.push_back(Reply::Address(rank, Address::new()));
                        inquiry.flush();
                    }
                },
                Ok(Word::Call(rank)) => {
                    let place = placement.place(rank);
                    said.extend(
                        place.map(|place| Inquired::Call(Ask { host: place.host, local: place.local })),
                    );
                }
                Ok(Word::Published) => {
                    let address = object.block(local).address().filter(|_| !inquiry.is_settled);
                    if let Some(address) = address {
                        inquiry.is_settled = true;
                        said.push(Inquired::Has(address));
                    }
                }
                Err(Ended::NotYet) => break,
                Err(Ended::Gone) => inquiry.end = None,
            }
        }
        said
    }

    /// The rank has ended; whether its address was not known.
    pub fn settle(&mut self, local: u32) -> bool {
        let inquiry = self.all.get_mut(local as usize);
        inquiry.is_some_and(|inquiry| !std::mem::replace(&mut inquiry.is_settled, true))
    }

    /// Tells a rank where another is.
    pub fn answer(&mut self, local: u32, ask: Ask, address: Address, placement: &Placement) {
        if let Some(rank) = self.rank_at(ask, placement) {
            self.say(local, Reply::Address(rank, address));
        }
    }

    /// Tells a rank that another one wants it to connect.
    pub fn call(&mut self, local: u32, caller: Ask, placement: &Placement) {
        if let Some(rank) = self.rank_at(caller, placement) {
            self.say(local, Reply::Call(rank));
        }
    }

    /// The rank in the world of a place.
    fn rank_at(&mut self, place: Ask, placement: &Placement) -> Option<u32> {
        let on_host = self.on_hosts.entry(place.host).or_insert_with(|| placement.ranks_on(place.host));
        on_host.get(place.local as usize).copied()
    }

    fn say(&mut self, local: u32, reply: Reply) {
        if let Some(inquiry) = self.all.get_mut(local as usize) {
            inquiry.late.push_back(reply);
            inquiry.flush();
        }
    }

    /// Tries again what found no room.
    pub fn flush(&mut self) {
        self.all.iter_mut().for_each(Inquiry::flush);
    }

    /// Whether there is such.
    pub fn has_late(&self) -> bool {
        self.all.iter().any(|inquiry| !inquiry.late.is_empty())
    }
}

impl Inquiry {
    fn flush(&mut self) {
        let Some(end) = &self.end else {
            self.late.clear();
            return;
        };
        while let Some(reply) = self.late.front() {
            match end.say(reply) {
                Ok(true) => drop(self.late.pop_front()),
                Ok(false) => return,
                Err(_) => self.late.clear(),
            }
        }
    }
}
