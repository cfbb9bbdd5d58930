//! The sockets between ranks of several hosts: what they hold is taken out while all stand still, and given
//! back to the memory of who reads them.
//!
//! Bytes on their way are in the kernels of two hosts, where nobody without privileges can write them anew.
//! But whoever holds a descriptor of a socket can read it: a daemon takes those of its ranks (pidfd_getfd),
//! and reads until nothing comes and all that its ranks have sent is acknowledged, which then has arrived at
//! the others ([`Network::drain`], round after round for all hosts). What it has read, the rank finds in a
//! mapping of its own before it reads more ([`Network::give_back`], [`tutti_sys::kept`]): that goes into the
//! image like all memory, and a job that goes on without a restart finds it there just so.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use tutti_sys::cma::Pid;
use tutti_sys::kept::{self, at};
use tutti_sys::kept_socket::{self, KeptKind};
use tutti_sys::{remap, tracee};

use super::memory::Memory;
use crate::image::{Advice, Area, Backing, ConnectionEnd, Ends, READ, Socket, WRITE};

/// How long a round waits for what is on its way.
const ROUND: Duration = Duration::from_millis(5);
/// How often it looks.
const LOOK: Duration = Duration::from_micros(50);
const PAGE: u64 = 4096;
/// Directory in which `tutti netd` listens (`tutti_offload::desk::DIRECTORY`).
const NETD: &str = "/run/tutti-netd/";

/// A connection.
#[derive(Debug)]
struct Held {
    pid: i32,
    number: i32,
    file: u32,
    socket: OwnedFd,
    ends: Ends,
    bytes: Vec<u8>,
    /// Nothing comes any more.
    is_over: bool,
}

/// The connections of a host.
#[derive(Debug, Default)]
pub struct Network {
    held: Vec<Held>,
}

/// What a round has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// Bytes that this host's ranks have sent and that are not acknowledged.
    pub in_flight: u64,
    /// Bytes that were taken out.
    pub drained: u64,
    /// Of what is not acknowledged: from where, to where.
    pub lingers: Option<(SocketAddr, SocketAddr)>,
}

impl Network {
    /// Takes descriptor `number` of process `pid`, open file `file`, if it is a socket between ranks; returns
    /// what it is.
    ///
    /// # Errors
    /// What another socket is, and whether it is Tutti's or the program's, for the user.
    pub fn take(&mut self, pid: i32, number: i32, file: u32) -> Result<Socket, String> {
        let text = |error: io::Error| format!("a socket that cannot be looked at: {error}");
        let socket = remap::object_of(Pid(pid), number).map_err(text)?;
        // A connection with an I/O server: nothing is under way on it while a rank is stopped.
        if kept_socket::is_renewed(socket.as_fd()) {
            return Ok(Socket::Unconnected);
        }
        if !kept_socket::is_marked(socket.as_fd()) {
            return Err(owner_of(socket.as_fd()));
        }
        Ok(match kept_socket::kind(socket.as_fd()).map_err(text)? {
            KeptKind::Datagrams => Socket::Datagrams,
            KeptKind::Listener => Socket::Listener,
            KeptKind::Unconnected => Socket::Unconnected,
            KeptKind::Connection { local, peer, is_narrow } => {
                let ends = Ends { local: plain(local), peer: plain(peer), is_narrow };
                self.held.push(Held { pid, number, file, socket, ends, bytes: Vec::new(), is_over: false });
                Socket::Connection(ends)
            }
        })
    }

    /// The connections, for the list of all of the job.
    pub fn connections(&self, host: u32) -> Vec<ConnectionEnd> {
        self.held.iter().map(|held| ConnectionEnd { host, file: held.file, ends: held.ends }).collect()
    }

    /// Takes out what arrives, until nothing is on its way from here, or for a moment.
    ///
    /// # Errors
    /// What the system reports.
    pub fn drain(&mut self) -> io::Result<Round> {
        let begun = Instant::now();
        let mut round = Round::default();
        loop {
            let mut more = 0;
            for held in self.held.iter_mut().filter(|held| !held.is_over) {
                let before = held.bytes.len();
                held.is_over = !kept_socket::drain(held.socket.as_fd(), &mut held.bytes)?;
                more += (held.bytes.len() - before) as u64;
            }
            round.drained += more;
            (round.in_flight, round.lingers) = (0, None);
            for held in &self.held {
                let bytes = kept_socket::unacknowledged(held.socket.as_fd());
                round.in_flight += bytes;
                round.lingers = round.lingers.or((bytes > 0).then_some((held.ends.local, held.ends.peer)));
            }
            if round.in_flight == 0 && more == 0 || begun.elapsed() > ROUND {
                return Ok(round);
            }
            tracee::pause(LOOK);
        }
    }

    /// Gives a process what was taken out of its connections; `words` is where its words of [`kept`] lie, and
    /// `map` has it map so many bytes. The area that is new in it, if there is one.
    ///
    /// # Errors
    /// What the system reports; then the process must not go on.
    pub fn give_back(
        &mut self,
        pid: i32,
        words: u64,
        map: impl FnOnce(&Memory, u64) -> io::Result<u64>,
    ) -> io::Result<Option<Area>> {
        let its = |held: &&mut Held| held.pid == pid && !held.bytes.is_empty();
        let mut taken = Vec::new();
        for held in self.held.iter_mut().filter(its) {
            taken.push((held.number, std::mem::take(&mut held.bytes)));
        }
        if taken.is_empty() {
            return Ok(None);
        }
        let memory = Memory::of(pid)?;
        let half = |offset: u64| {
            let mut half = [0; 4];
            memory.read(words + offset, &mut half).map(|()| u32::from_ne_bytes(half))
        };
        let (given, was_taken) = (half(at::GIVEN_BACK)?, half(at::TAKEN_BACK)?);
        let before = match given == was_taken {
            true => (0, 0),
            false => (memory.word(words + at::REGION)?, memory.word(words + at::REGION + 8)?),
        };
        let entries = taken.iter().map(|(number, bytes)| (*number, &bytes[..]));
        let region = kept::given_back(before, entries);
        let bytes = (region.len() as u64).next_multiple_of(PAGE);
        let start = map(&memory, bytes)?;
        memory.write(start, &region)?;
        memory.write(words + at::REGION, &[start.to_ne_bytes(), bytes.to_ne_bytes()].concat())?;
        memory.write(words + at::GIVEN_BACK, &given.wrapping_add(1).to_ne_bytes())?;
        Ok(Some(Area {
            start,
            end: start + bytes,
            protection: READ | WRITE,
            shared: false,
            offset: 0,
            backing: Backing::Anonymous,
            advice: Advice::default(),
        }))
    }
}

/// Describes a socket that is not kept. A connection with netd is known by its other end.
fn owner_of(socket: BorrowedFd<'_>) -> String {
    let what = kept_socket::describe(socket);
    let is_netd = kept_socket::peer_name(socket).is_some_and(|name| name.starts_with(NETD));
    if is_netd {
        "a connection of Tutti's own with `tutti netd` that is not made yet; try again".to_string()
    } else {
        format!("a socket of its own, {what}")
    }
}

/// Both ends of a connection write the same address the same way.
fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Of each end of a list, by its place in it, the place of the other end.
pub fn pairs(all: &[ConnectionEnd]) -> Vec<Option<usize>> {
    let key = |one: SocketAddr, other: SocketAddr| (one, other);
    let places: std::collections::HashMap<_, _> =
        all.iter().enumerate().map(|(place, end)| (key(end.ends.local, end.ends.peer), place)).collect();
    all.iter().map(|end| places.get(&key(end.ends.peer, end.ends.local)).copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_find_each_other() {
        let end = |host, local: &str, peer: &str| {
            let [local, peer] = [local, peer].map(|text| text.parse().expect("an address"));
            ConnectionEnd { host, file: 1, ends: Ends { local, peer, is_narrow: false } }
        };
        let all = [
            end(0, "10.0.0.1:5", "10.0.0.2:7"),
            end(1, "10.0.0.2:7", "10.0.0.1:5"),
            end(1, "10.0.0.2:7", "10.0.0.1:6"),
            end(2, "10.0.0.3:7", "10.0.0.3:8"),
            end(2, "10.0.0.3:8", "10.0.0.3:7"),
        ];
        assert_eq!(pairs(&all), [Some(1), Some(0), None, Some(4), Some(3)]);
    }
}
