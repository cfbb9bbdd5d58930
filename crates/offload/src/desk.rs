//! Protocol between a job and `tutti netd`: one connection for each rank, by a local socket of the network
//! namespace. The kernel reports the rank's user to netd. A job ends when its connection is closed.
//!
//! netd determines the results of collectives, so a rank trusts only a netd that an administrator has
//! started. Its socket lies in [`DIRECTORY`], which root creates. Its process must belong to root or to the
//! owner of that directory.

use std::net::Ipv4Addr;

/// Directory of netd's socket.
pub const DIRECTORY: &str = "/run/tutti-netd";
/// Name of netd's socket in the directory; it ends with the number of the protocol.
pub const NAME: &[u8] = b"netd-3";
/// Maximum length of a request or answer in bytes.
pub const MESSAGE_BYTES: usize = 4096;
/// Number of tables that a rank receives, in this order: rules, events, records, areas, counters. They are
/// followed by the attachments of the program to the interface. The program stays there as long as copies
/// of them are open; they do not permit to run, replace or read it. Before Linux 6.6 there are no
/// attachments.
pub const TABLES: usize = 5;
/// Number of tables and attachments that a rank receives.
pub const DESCRIPTORS: usize = TABLES + 2;

/// Request of a rank to netd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Request for the state of netd.
    Status,
    /// Request for a program and its tables. The message has the descriptor of the socket at which the rank
    /// is woken.
    Begin {
        /// Number of the job.
        job: u32,
        /// Key of the tags of its packets.
        key: [u8; 16],
        /// Address of this host at which the other hosts reach it.
        address: Ipv4Addr,
    },
    /// Registers a group of ranks on different hosts.
    Join {
        /// Number of the group, the same at all members.
        group: u32,
        /// Rank of the requesting process in the group.
        rank: u32,
        /// Ranks that this rank communicates with, and the addresses of their hosts.
        peers: Vec<(u32, Ipv4Addr)>,
    },
}

/// Answer of netd to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The request was performed. Holds a number, or the text of a status.
    Granted(u32, String),
    /// The request was refused, for this reason.
    Refused(String),
}

impl Request {
    /// Encodes the request as a message.
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

    /// Decodes a request; returns `None` for invalid bytes.
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
    /// Encodes the answer as a message.
    pub fn write(&self) -> Vec<u8> {
        let (kind, number, text) = match self {
            Answer::Granted(number, text) => (0, *number, text),
            Answer::Refused(text) => (1, 0, text),
        };
        let mut bytes = [&[kind][..], &u32::to_le_bytes(number), text.as_bytes()].concat();
        bytes.truncate(MESSAGE_BYTES);
        bytes
    }

    /// Decodes an answer; returns `None` for invalid bytes.
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
