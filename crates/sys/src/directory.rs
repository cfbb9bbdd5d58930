//! Messages by which a rank asks its daemon for the addresses of other ranks, over a pair of sockets that
//! keep message boundaries.
//!
//! | sender | message | meaning |
//! |---|---|---|
//! | rank | [`REQUEST`], rank of the world | request for the address of that rank |
//! | rank | [`PUBLISHED`], 0 | this rank's address is in its block now |
//! | rank | [`CALL`], rank of the world | that rank must connect to this one, which cannot connect to it |
//! | rank | [`ARRIVED`], 0 | all ranks of this host have called MPI_Finalize |
//! | daemon | [`REQUEST`], rank of the world, address | the requested address; empty if there will never be one |
//! | daemon | [`CALL`], rank of the world | request to connect to that rank |
//!
//! The kind is one byte, a rank four bytes. Then follows the generation of the rank's program, four bytes:
//! MPI programs that follow one another in a rank use the same sockets. Replies come in any order. Some are
//! late, because the daemon waits for a rank that has not published its address yet.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::job::ADDRESS_BYTES;

const REQUEST: u8 = 0;
const PUBLISHED: u8 = 1;
const CALL: u8 = 2;
const ARRIVED: u8 = 3;
/// Length of a kind, a rank and a generation in bytes.
const FIXED_BYTES: usize = 9;

/// Message from a rank to its daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// The rank's address is in its block.
    Published,
    /// Request for the address of this rank of the world.
    Request(u32),
    /// Request that this rank of the world connect to the sender.
    Call(u32),
    /// All ranks of the sender's host have called MPI_Finalize.
    Arrived,
}

/// Message from a daemon to its rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Address of a rank of the world; empty if it will never have one.
    Address(u32, Vec<u8>),
    /// Request to connect to this rank of the world.
    Call(u32),
}

/// State of a connection without a message to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The other side may send something later.
    NotYet,
    /// The other side has closed the connection.
    Gone,
}

/// Rank's end of the connection.
#[derive(Debug)]
pub struct RankEnd {
    socket: OwnedFd,
    /// Generation of the program that uses the connection.
    generation: u32,
}

/// Daemon's end of the connection.
#[derive(Debug)]
pub struct DaemonEnd(OwnedFd);

/// Creates both ends. They are close-on-exec, so that no child inherits them by accident.
///
/// # Errors
/// Errors of the system: too many descriptors.
pub fn pair() -> io::Result<(RankEnd, DaemonEnd)> {
    let mut ends = [0; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: `ends` has room for two descriptors.
    if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just created the descriptors, and nothing else owns them.
    let [rank, daemon] = ends.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
    Ok((RankEnd::new(rank), DaemonEnd(daemon)))
}

impl RankEnd {
    /// Wraps an inherited descriptor, for the first program of a rank.
    pub fn new(fd: OwnedFd) -> RankEnd {
        RankEnd::of_generation(fd, 0)
    }

    /// Wraps an inherited descriptor, for a program of this generation.
    pub fn of_generation(fd: OwnedFd, generation: u32) -> RankEnd {
        RankEnd { socket: fd, generation }
    }

    /// Sends a message. Returns false when the socket has no room now.
    ///
    /// # Errors
    /// When the daemon has closed the connection.
    pub fn say(&self, word: Word) -> io::Result<bool> {
        let (kind, rank) = match word {
            Word::Request(rank) => (REQUEST, rank),
            Word::Published => (PUBLISHED, 0),
            Word::Call(rank) => (CALL, rank),
            Word::Arrived => (ARRIVED, 0),
        };
        send(&self.socket, &fixed(kind, rank, self.generation))
    }

    /// Returns the next reply or call. Messages for an earlier program of the rank are skipped.
    ///
    /// # Errors
    /// [`Ended`] when there is no message.
    pub fn hear(&self) -> Result<Reply, Ended> {
        let mut bytes = [0; FIXED_BYTES + ADDRESS_BYTES];
        // A bounded loop: each pass takes a message that was there.
        loop {
            let length = receive(&self.socket, &mut bytes)?;
            let (fixed, address) = bytes[..length].split_first_chunk().ok_or(Ended::Gone)?;
            let (kind, rank, generation) = read_fixed(fixed);
            if generation == self.generation {
                let reply = || Reply::Address(rank, address.to_vec());
                return Ok(if kind == CALL { Reply::Call(rank) } else { reply() });
            }
        }
    }
}

impl DaemonEnd {
    /// Returns the rank's next message and the generation of its program. A rank that sends an invalid
    /// message counts as gone.
    ///
    /// # Errors
    /// [`Ended`] when there is no message.
    pub fn hear(&self) -> Result<(Word, u32), Ended> {
        let mut bytes = [0; FIXED_BYTES];
        let length = receive(&self.0, &mut bytes)?;
        let (kind, rank, generation) = read_fixed(&bytes);
        let word = match kind {
            REQUEST => Word::Request(rank),
            PUBLISHED => Word::Published,
            CALL => Word::Call(rank),
            ARRIVED => Word::Arrived,
            _ => return Err(Ended::Gone),
        };
        if length == FIXED_BYTES { Ok((word, generation)) } else { Err(Ended::Gone) }
    }

    /// Sends a reply or call to a program of this generation. Returns false when the socket has no room
    /// now.
    ///
    /// # Errors
    /// When the rank has closed the connection.
    ///
    /// # Panics
    /// If the address is longer than [`ADDRESS_BYTES`]: a bug of the caller.
    pub fn say(&self, reply: &Reply, generation: u32) -> io::Result<bool> {
        let (kind, rank, address) = match reply {
            Reply::Address(rank, address) => (REQUEST, rank, &address[..]),
            Reply::Call(rank) => (CALL, rank, &[][..]),
        };
        assert!(address.len() <= ADDRESS_BYTES, "an address of {} bytes", address.len());
        send(&self.0, &[&fixed(kind, *rank, generation), address].concat())
    }
}

/// Encodes a kind, a rank and a generation as in a message.
fn fixed(kind: u8, rank: u32, generation: u32) -> [u8; FIXED_BYTES] {
    let mut bytes = [kind; FIXED_BYTES];
    bytes[1..5].copy_from_slice(&rank.to_le_bytes());
    bytes[5..].copy_from_slice(&generation.to_le_bytes());
    bytes
}

fn read_fixed(bytes: &[u8; FIXED_BYTES]) -> (u8, u32, u32) {
    let [kind, a, b, c, d, generation @ ..] = *bytes;
    (kind, u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes(generation))
}

impl AsFd for RankEnd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsFd for DaemonEnd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn send(fd: &OwnedFd, bytes: &[u8]) -> io::Result<bool> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the bytes are readable for that length.
    let sent = unsafe { libc::send(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) };
    if sent >= 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(false),
        _ => Err(error),
    }
}

fn receive(fd: &OwnedFd, bytes: &mut [u8]) -> Result<usize, Ended> {
    // SAFETY: the bytes are writable for that length.
    let got =
        unsafe { libc::recv(fd.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), libc::MSG_DONTWAIT) };
    match got {
        1.. => Ok(got as usize),
        0 => Err(Ended::Gone),
        _ => match io::Error::last_os_error().kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Err(Ended::NotYet),
            _ => Err(Ended::Gone),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_and_answers_keep_their_bounds() {
        let (rank, daemon) = pair().unwrap();
        assert_eq!((rank.hear().unwrap_err(), daemon.hear().unwrap_err()), (Ended::NotYet, Ended::NotYet));
        let said = [Word::Request(7), Word::Published, Word::Call(9), Word::Arrived, Word::Request(0)];
        assert!(said.iter().all(|word| rank.say(*word).unwrap()));
        let words: Vec<_> = std::iter::from_fn(|| daemon.hear().ok()).collect();
        assert_eq!(words, said.map(|word| (word, 0)));
        let said = [Reply::Address(7, b"there".to_vec()), Reply::Call(3), Reply::Address(0, Vec::new())];
        assert!(said.iter().all(|reply| daemon.say(reply, 0).unwrap()));
        let replies: Vec<Reply> = std::iter::from_fn(|| rank.hear().ok()).collect();
        assert_eq!(replies, said);
        // The next program of the rank does not receive replies to its predecessor's requests.
        let rank = RankEnd::of_generation(rank.socket, 3);
        assert!(rank.say(Word::Published).unwrap());
        assert_eq!(daemon.hear(), Ok((Word::Published, 3)));
        assert!([0, 3].iter().all(|generation| daemon.say(&said[1], *generation).unwrap()));
        assert_eq!((rank.hear(), rank.hear()), (Ok(Reply::Call(3)), Err(Ended::NotYet)));
        drop(daemon);
        assert_eq!(rank.hear(), Err(Ended::Gone));
        assert!(rank.say(Word::Published).is_err());
    }
}
