//! Inquiries of the ranks of this host to their daemon, about addresses of other ranks, in jobs of several
//! hosts.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use tutti_base::{Placement, RankPlace};
use tutti_sys::directory::{self, DaemonEnd, Ended, RankEnd, Reply, Word};
use tutti_sys::job::Job;

use crate::tree::message::{Address, Ask};

/// Maximum number of messages of a rank that are handled at once, so that a busy rank does not delay the
/// others.
const MOST_WORDS: usize = 256;

/// Message of a rank about addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inquired {
    /// Requests the address of another rank.
    Ask(Ask),
    /// Reports that the rank has published an address in its program of this generation.
    Has(u32, Address),
    /// Requests another rank to connect to this one.
    Call(Ask),
    /// Reports that all ranks of the host have called MPI_Finalize in their programs of this generation.
    Arrived(u32),
}

/// Connection with one rank.
#[derive(Debug)]
struct Inquiry {
    end: Option<DaemonEnd>,
    /// Replies that found no room, with the generation of the program that asked.
    late: VecDeque<(Reply, u32)>,
    /// Number of generations whose address is known, from generation 0.
    known: u32,
}

/// Connections with all ranks of this host, by local rank.
#[derive(Debug, Default)]
pub struct Inquiries {
    all: Vec<Inquiry>,
    /// World ranks of each host, for hosts that occurred in inquiries.
    on_hosts: HashMap<u32, Vec<u32>>,
}

impl Inquiries {
    /// Creates the connection of the next rank, and returns the rank's end.
    ///
    /// # Errors
    /// Fails if a system call fails, for example with too many descriptors.
    pub fn open(&mut self) -> io::Result<RankEnd> {
        let (rank_end, end) = directory::pair()?;
        self.all.push(Inquiry { end: Some(end), late: VecDeque::new(), known: 0 });
        Ok(rank_end)
    }

    /// Returns the daemon's ends of the connections, by local rank.
    pub fn ends(&self) -> impl Iterator<Item = (u32, BorrowedFd<'_>)> {
        (0..).zip(&self.all).filter_map(|(local, inquiry)| Some((local, inquiry.end.as_ref()?.as_fd())))
    }

    /// Receives the messages of a rank.
    pub fn hear(&mut self, local: u32, object: &Job, placement: &Placement) -> Vec<Inquired> {
        let mut said = Vec::new();
        let Some(inquiry) = self.all.get_mut(local as usize) else { return said };
        while let Some(end) = inquiry.end.as_ref().filter(|_| said.len() < MOST_WORDS) {
            match end.hear() {
                Ok((Word::Request(rank), generation)) => match placement.place(rank) {
                    Some(place) => said.push(Inquired::Ask(ask(place, generation))),
                    // The rank does not exist, so it will never have an address.
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

    /// Sends a rank the address of another one.
    pub fn answer(&mut self, local: u32, ask: Ask, address: Address, placement: &Placement) {
        if let Some(rank) = self.rank_at(ask, placement) {
            self.say(local, Reply::Address(rank, address), ask.generation);
        }
    }

    /// Informs a rank that another one requests it to connect.
    pub fn call(&mut self, local: u32, caller: Ask, placement: &Placement) {
        if let Some(rank) = self.rank_at(caller, placement) {
            self.say(local, Reply::Call(rank), caller.generation);
        }
    }

    /// Returns the world rank for a host and a local number.
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

    /// Sends messages again that found no room.
    pub fn flush(&mut self) {
        self.all.iter_mut().for_each(Inquiry::flush);
    }

    /// Returns true if there are messages that found no room.
    pub fn has_late(&self) -> bool {
        self.all.iter().any(|inquiry| !inquiry.late.is_empty())
    }
}

impl Inquiry {
    /// Sends the replies that wait, as far as there is room.
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

/// Returns the address request for the rank at a place, from a program of this generation.
fn ask(place: RankPlace, generation: u32) -> Ask {
    Ask { host: place.host, local: place.local, generation }
}

/// Returns the address that a rank of this host has published in its program of this generation.
fn address_of(object: &Job, local: u32, generation: u32) -> Option<Address> {
    let later = object.later(generation).ok()?;
    later.as_ref().unwrap_or(object).block(local).address()
}
