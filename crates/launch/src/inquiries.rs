//! How the ranks of this host ask their daemon where others are, in jobs of several hosts.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use tutti_base::{Place, Placement};
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
    /// The address of the rank in its program of this generation.
    Has(u32, Address),
    /// It wants another rank to connect to it, by its place.
    Call(Ask),
    /// All ranks of the host have called MPI_Finalize in their programs of this generation.
    Arrived(u32),
}

/// One rank's way.
#[derive(Debug)]
struct Inquiry {
    end: Option<DaemonEnd>,
    /// Answers that found no room, with the generation of the program that asked.
    late: VecDeque<(Reply, u32)>,
    /// Generations of which its address is known: so many, the first ones.
    known: u32,
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
        self.all.push(Inquiry { end: Some(end), late: VecDeque::new(), known: 0 });
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
                Ok((Word::Request(rank), generation)) => match placement.place(rank) {
                    Some(place) => said.push(Inquired::Ask(ask(place, generation))),
                    // No such rank: it will never have an address.
                    None => {
                        inquiry.late.push_back((Reply::Address(rank, Address::new()), generation));
                        inquiry.flush();
                    }
                },
                Ok((Word::Call(rank), generation)) => {
                    let place = placement.place(rank);
                    said.extend(place.map(|place| Inquired::Call(ask(place, generation))));
                }
                Ok((Word::Published, generation)) => {
                    let is_new = generation >= inquiry.known;
                    let address = address_of(object, local, generation).filter(|_| is_new);
                    if let Some(address) = address {
                        inquiry.known = generation + 1;
                        said.push(Inquired::Has(generation, address));
                    }
                }
                Ok((Word::Arrived, generation)) => said.push(Inquired::Arrived(generation)),
                Err(Ended::NotYet) => break,
                Err(Ended::Gone) => inquiry.end = None,
            }
        }
        said
    }

    /// Tells a rank where another is.
    pub fn answer(&mut self, local: u32, ask: Ask, address: Address, placement: &Placement) {
        if let Some(rank) = self.rank_at(ask, placement) {
            self.say(local, Reply::Address(rank, address), ask.generation);
        }
    }

    /// Tells a rank that another one wants it to connect.
    pub fn call(&mut self, local: u32, caller: Ask, placement: &Placement) {
        if let Some(rank) = self.rank_at(caller, placement) {
            self.say(local, Reply::Call(rank), caller.generation);
        }
    }

    /// The rank in the world of a place.
    fn rank_at(&mut self, place: Ask, placement: &Placement) -> Option<u32> {
        let on_host = self.on_hosts.entry(place.host).or_insert_with(|| placement.ranks_on(place.host));
        on_host.get(place.local as usize).copied()
    }

    fn say(&mut self, local: u32, reply: Reply, generation: u32) {
        if let Some(inquiry) = self.all.get_mut(local as usize) {
            inquiry.late.push_back((reply, generation));
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
        while let Some((reply, generation)) = self.late.front() {
            match end.say(reply, *generation) {
                Ok(true) => drop(self.late.pop_front()),
                Ok(false) => return,
                Err(_) => self.late.clear(),
            }
        }
    }
}

/// The question for the rank at a place, by a program of this generation.
fn ask(place: Place, generation: u32) -> Ask {
    Ask { host: place.host, local: place.local, generation }
}

/// The address that a rank of this host has published in its program of this generation.
fn address_of(object: &Job, local: u32, generation: u32) -> Option<Address> {
    let later = object.later(generation).ok()?;
    later.as_ref().unwrap_or(object).block(local).address()
}
