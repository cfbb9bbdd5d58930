//! What a job and `tutti netd` say to each other: one connection a rank, by a local socket of the network
//! namespace. The kernel tells netd the user; a job is over when its connection closes.
//!
//! netd decides the results of collectives, so a rank asks only one that an administrator has started. Its
//! socket lies in [`DIRECTORY`], which root makes, and root or the owner of that directory has to listen
//! there.

use std::net::Ipv4Addr;

/// Directory of netd's socket.
pub const DIRECTORY: &str = "/run/tutti-netd";
/// Name of netd's socket there; the number is that of the protocol.
pub const NAME: &[u8] = b"netd-3";
/// Longest request or answer.
pub const MESSAGE_BYTES: usize = 4096;
/// Tables that are handed out, in this order: rules, events, records, areas, counters. Behind them come the
/// attachments of the program to the interface, as long as whose copies are open it stays there; nobody can
/// run, replace or read a program by one. Before Linux 6.6 there are none.
pub const TABLES: usize = 5;
/// Tables and attachments.
pub const DESCRIPTORS: usize = TABLES + 2;

/// What a rank asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// How netd is.
    Status,
    /// A program and its tables; the socket at which the rank wants to be woken comes with it.
    Begin {
        /// The number of the job.
        job: u32,
        /// The key of its tags.
        key: [u8; 16],
        /// The address of this host at which the others reach it.
        address: Ipv4Addr,
    },
    /// A group of ranks on different hosts.
    Join {
        /// Its number, the same at all members.
        group: u32,
        /// The rank in it that asks.
        rank: u32,
        /// The ranks it has to do with, and their hosts.
        peers: Vec<(u32, Ipv4Addr)>,
    },
}

/// What netd says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Done: a number, or the words of a status.
    Granted(u32, String),
    /// Not done: why.
    Refused(String),
}

impl Request {
    /// Its bytes.
    pub fn write(&self) -> Vec<u8> {
        match self {
            Request::Status => vec![0],
            Request::Begin { job, key, address } => {
                [&[1][..], &job.to_le_bytes(), key, &address.octets()].concat()
            }
            Request::Join { group, rank, peers } => {
                let mut bytes = [&[2][..], &group.to_le_bytes(), &rank.to_le_bytes()].concat();
                for (rank, address) in peers {
                    bytes.extend(rank.to_le_bytes());
                    bytes.extend(address.octets());
                }
                bytes
            }
        }
    }

    /// Reads bytes; `None` if they are no request.
    pub fn read(bytes: &[u8]) -> Option<Request> {
        let (kind, rest) = bytes.split_first()?;
        match kind {
            0 if rest.is_empty() => Some(Request::Status),
            1 => {
                let (job, rest) = rest.split_first_chunk()?;
                let (key, rest) = rest.split_first_chunk()?;
                let address: [u8; 4] = rest.try_into().ok()?;
                Some(Request::Begin { job: u32::from_le_bytes(*job), key: *key, address: address.into() })
            }
            2 => {
                let (group, rest) = rest.split_first_chunk()?;
                let (rank, rest) = rest.split_first_chunk()?;
                let (entries, rest) = rest.as_chunks::<8>();
                let peers = entries.iter().map(|&[a, b, c, d, x, y, z, w]| {
                    (u32::from_le_bytes([a, b, c, d]), Ipv4Addr::new(x, y, z, w))
                });
                let (group, rank) = (u32::from_le_bytes(*group), u32::from_le_bytes(*rank));
                rest.is_empty().then(|| Request::Join { group, rank, peers: peers.collect() })
            }
            _ => None,
        }
    }
}

impl Answer {
    /// Its bytes.
    pub fn write(&self) -> Vec<u8> {
        let (kind, number, text) = match self {
            Answer::Granted(number, text) => (0, *number, text),
            Answer::Refused(text) => (1, 0, text),
        };
        let mut bytes = [&[kind][..], &u32::to_le_bytes(number), text.as_bytes()].concat();
        bytes.truncate(MESSAGE_BYTES);
        bytes
    }

    /// Reads bytes; `None` if they are no answer.
    pub fn read(bytes: &[u8]) -> Option<Answer> {
        let (kind, rest) = bytes.split_first()?;
        let (number, text) = rest.split_first_chunk()?;
        let text = String::from_utf8_lossy(text).into_owned();
        match kind {
            0 => Some(Answer::Granted(u32::from_le_bytes(*number), text)),
            1 => Some(Answer::Refused(text)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(request: &Request) {
        let bytes = request.write();
        assert_eq!(Request::read(&bytes).as_ref(), Some(request));
        assert_eq!(Request::read(&[&bytes[..], b"x"].concat()), None);
    }

    #[test]
    fn words_are_read_as_written() {
        check(&Request::Status);
        let address = Ipv4Addr::new(10, 1, 2, 3);
        check(&Request::Begin { job: 5, key: [7; 16], address });
        check(&Request::Join { group: 1, rank: 2, peers: vec![(0, address), (4, Ipv4Addr::LOCALHOST)] });
        for answer in [Answer::Granted(3, "fine".into()), Answer::Refused("no".into())] {
            assert_eq!(Answer::read(&answer.write()), Some(answer));
        }
        assert_eq!(
            (Request::read(b""), Request::read(b"\x01abc"), Answer::read(b"\x00")),
            (None, None, None)
        );
    }
}
