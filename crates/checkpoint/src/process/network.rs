//! Sockets between ranks of several hosts. Their contents are drained while all ranks are stopped, and
//! returned in the memory of the receiving ranks.
//!
//! Bytes in flight are in the kernels of two hosts, where a process without privileges cannot write them
//! again. However, any holder of a descriptor of a socket can read it. A daemon duplicates those of its ranks
//! (pidfd_getfd) and reads until nothing comes and all bytes sent by its ranks are acknowledged. Acknowledged
//! bytes have arrived at the other hosts. This is done in rounds by all hosts ([`Network::drain`]).
//!
//! The rank finds the drained bytes in a mapping of its own, and takes them before it reads from the socket
//! again ([`Network::give_back`], [`tutti_sys::kept`]). This mapping is part of the image like all memory. A
//! job that goes on without a restart uses it in the same way.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use tutti_sys::cma::Pid;
use tutti_sys::kept::{self, at};
use tutti_sys::kept_socket::{self, KeptKind};
use tutti_sys::{remap, tracee};

use super::memory::Memory;
use crate::error::CheckpointError;
use crate::image::{Advice, Area, Backing, ConnectionEnd, Ends, READ, Socket, WRITE};

/// Maximum time for which a round waits for bytes in flight.
const ROUND: Duration = Duration::from_millis(5);
/// Interval between two looks at the sockets.
const LOOK: Duration = Duration::from_micros(50);
const PAGE: u64 = 4096;
/// Directory in which `tutti netd` listens (`tutti_offload::desk::DIRECTORY`).
const NETD: &str = "/run/tutti-netd/";

/// Connection between ranks of two hosts, with the bytes drained from it.
#[derive(Debug)]
struct Held {
    pid: i32,
    number: i32,
    file: u32,
    socket: OwnedFd,
    ends: Ends,
    bytes: Vec<u8>,
    /// True after the end of the stream: no more bytes come.
    is_over: bool,
}

/// Connections of a host's ranks to other hosts.
#[derive(Debug, Default)]
pub struct Network {
    held: Vec<Held>,
}

/// Result of a round of draining.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// Bytes that this host's ranks have sent and that are not acknowledged.
    pub in_flight: u64,
    /// Bytes that were read in this round.
    pub drained: u64,
    /// Source and destination of one connection with bytes that are not acknowledged.
    pub lingers: Option<(SocketAddr, SocketAddr)>,
}

impl Network {
    /// Takes over descriptor `number` of process `pid` if it is a socket between ranks, and returns its kind.
    /// `file` is the index of its open file.
    ///
    /// # Errors
    /// Fails for any other socket, with a text for the user. The text says whether the socket belongs to
    /// Tutti or to the program.
    pub fn take(&mut self, pid: i32, number: i32, file: u32) -> Result<Socket, CheckpointError> {
        let text = |error: io::Error| CheckpointError::system("a socket that cannot be looked at")(error);
        let socket = remap::object_of(Pid(pid), number).map_err(text)?;
        // A connection with an I/O server carries no data while a rank is stopped.
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

    /// Returns the ends of the connections, for the list of the whole job.
    pub fn connections(&self, host: u32) -> Vec<ConnectionEnd> {
        self.held.iter().map(|held| ConnectionEnd { host, file: held.file, ends: held.ends }).collect()
    }

    /// Reads all bytes that arrive. Returns when no bytes of this host are in flight, or after `ROUND`.
    ///
    /// # Errors
    /// Returns the error of a failed system call.
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

    /// Returns the drained bytes to a process.
    ///
    /// - `words`: address of the process's record in the layout of [`kept`];
    /// - `map`: makes the process map a number of bytes and returns their address.
    ///
    /// Returns the new area of the process, if there is one.
    ///
    /// # Errors
    /// Returns the error of a failed system call. The process must not go on then.
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
        let memory = Memory::open(pid)?;
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

/// Describes a socket that cannot be saved. A connection with netd is recognised by the name of its other
/// end.
fn owner_of(socket: BorrowedFd<'_>) -> CheckpointError {
    let what = kept_socket::describe(socket);
    let is_netd = kept_socket::peer_name(socket).is_some_and(|name| name.starts_with(NETD));
    CheckpointError::Obstacle(match is_netd {
        true => "a connection of Tutti's own with `tutti netd` that is not made yet; try again".to_string(),
        false => format!("a socket of its own, {what}"),
    })
}

/// Returns an address in the same form at both ends of a connection: IPv4 addresses mapped to IPv6 become
/// IPv4.
fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Returns for each end of the list the index of its other end, if it is listed.
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
