//! Protocol between clients and servers: frames with a header, a typed message and bytes of a file.
//!
//! | header | bytes |
//! |---|---|
//! | length of the message | 4 |
//! | length of the payload that follows it | 8 |
//!
//! Messages are encoded by postcard. An invalid length is rejected before memory is allocated for it.

use serde::{Deserialize, Serialize};

use tutti_base::{Error, ErrorClass, Result};
use tutti_data::Segment;

/// Version of the protocol; both ends must have the same.
pub const VERSION: u32 = 3;
/// Length of a header in bytes.
pub const HEADER_BYTES: usize = 12;
/// Maximum length of a message in bytes: a list of pieces, or the shape of a view.
pub const MOST_MESSAGE_BYTES: usize = 2 << 20;
/// Maximum length of a message in bytes before a client has proved that it knows the key.
pub const MOST_UNPROVED_BYTES: usize = 64;
/// Maximum number of pieces in a list, so that they fit into the longest message.
pub const MOST_PIECES: usize = 64 << 10;
/// Random number, proof or ticket.
pub type Token = [u8; 16];

/// Treatment of missing or existing files when one is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Make {
    /// The file must exist.
    No,
    /// The file is created if it does not exist.
    IfMissing,
    /// The file must not exist yet.
    Exclusive,
    /// The file is created or emptied.
    Empty,
}

/// Selection of a file's bytes for an access.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Selection {
    /// The server's bytes of a range of the file.
    Run {
        /// Offset of the first byte.
        offset: u64,
        /// Length of the range in bytes.
        bytes: u64,
    },
    /// The server's bytes of a range of a view's stream.
    View {
        /// Number under which the view was sent.
        number: u32,
        /// Stream position of the first byte.
        stream: u64,
        /// Length of the range in bytes.
        bytes: u64,
    },
    /// Pieces of the file: distance from the end of the previous one, and length.
    List(Vec<(u64, u64)>),
}

/// State of a file at a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Name of the file beneath the server's directory.
    pub name: String,
    /// Length of the server's part in bytes; `None` if there is only a manifest.
    pub bytes: Option<u64>,
    /// Manifest of the file, at the server that stores it.
    pub manifest: Option<String>,
    /// True if the server was killed while it wrote the manifest.
    pub is_left_over: bool,
}

/// Message from a client to a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// First message of a connection.
    Hello {
        /// Version of the protocol.
        version: u32,
        /// Random number that makes the server's proof unique.
        nonce: Token,
        /// Number of the weakest [`Cover`](tutti_seal::Cover) that the client accepts; 0: none.
        cover: u8,
    },
    /// Proof that the client knows the key.
    Proof(Token),
    /// Request for the manifest of a file. If `make` permits creation and the file does not exist, it is
    /// reserved for this client.
    Look {
        /// Name of the file.
        name: String,
        /// Treatment of a missing or existing file.
        make: Make,
    },
    /// Writes the manifest of a file that was reserved for creation.
    Commit {
        /// Name of the file.
        name: String,
        /// Text of the manifest.
        text: String,
    },
    /// Opens the server's part of a file.
    Open {
        /// Name of the file.
        name: String,
        /// True if the file will be read.
        read: bool,
        /// True if the file will be written.
        write: bool,
        /// Treatment of a missing or existing file.
        make: Make,
        /// Stripe length in bytes, number of servers, and number of this server.
        stripes: (u64, u32, u32),
    },
    /// Closes an open file.
    Close(u32),
    /// Deletes the server's part and manifest of a file.
    Delete(String),
    /// Sends a view of an open file; there is no reply.
    View {
        /// Server's number of the file.
        file: u32,
        /// Number by which accesses refer to the view.
        number: u32,
        /// Encoded view ([`tutti_data::Tiles::encode`]).
        shape: Vec<u8>,
    },
    /// Reads from a file. The replies are data, then [`Reply::Done`] with the number of bytes.
    Read(u32, Selection),
    /// Writes the payload to a file.
    Write(u32, Selection),
    /// Requests the length of the server's part.
    Bytes(u32),
    /// Sets the length of the server's part.
    Resize(u32, u64),
    /// Reserves space for the server's stripes of the first bytes.
    Allocate(u32, u64),
    /// Waits until all data are on the device.
    Sync(u32),
    /// Requests the first files of this server whose names come after a given one.
    List {
        /// Name after which the list starts; empty: from the beginning.
        after: String,
    },
    /// No action. The sender's system finds out if the message is acknowledged.
    Nothing,
}

/// Message from a server to a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// Answer to [`Request::Hello`].
    Challenge {
        /// Random number that makes the client's proof unique.
        nonce: Token,
        /// Proof that the server knows the key.
        proof: Token,
        /// Number of the protection of all messages after the client's proof.
        cover: u8,
        /// Name of the socket at which the server lends files to clients on its host.
        local: Vec<u8>,
    },
    /// Answer to [`Request::Look`].
    Manifest(Option<String>),
    /// Answer to [`Request::Open`].
    Opened {
        /// Number by which requests refer to the file.
        file: u32,
        /// Ticket with which a client on the server's host requests the open file.
        ticket: Token,
        /// Device and inode of the file, to check a lent one.
        identity: (u64, u64),
        /// Verifier of the server; see the module of the servers.
        verifier: u64,
    },
    /// The payload has bytes of the file.
    Data,
    /// Answer to [`Request::List`]; empty at the end.
    Files(Vec<Entry>),
    /// The request has been performed.
    Done {
        /// Result of the request, such as a number of bytes.
        value: u64,
        /// Verifier of the server, as in [`Reply::Opened`].
        verifier: u64,
    },
    /// The request has failed.
    Failed {
        /// Error class of MPI.
        class: i32,
        /// Number of bytes that were moved before the error.
        value: u64,
        /// Reason for the user.
        why: String,
    },
}

impl Reply {
    /// Returns the reply for an error, after `value` bytes were moved.
    pub fn failed(error: &Error, value: u64) -> Reply {
        Reply::Failed { class: error.class as i32, value, why: error.to_string() }
    }
}

/// Lengths in the header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Length of the message in bytes.
    pub message: usize,
    /// Length of the payload in bytes.
    pub payload: u64,
}

#[cold]
fn nonsense(what: &str) -> Error {
    Error::new(ErrorClass::Io, format!("the other end of a connection of io-servers {what}"))
}

impl Header {
    /// Decodes the header of a frame.
    ///
    /// # Errors
    /// `Io` for an invalid length of the message.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Header> {
        let (message, payload) = bytes.split_at(4);
        let message = u32::from_le_bytes(message.try_into().expect("four of twelve bytes")) as usize;
        let payload = u64::from_le_bytes(payload.try_into().expect("eight of twelve bytes"));
        if message == 0 || message > MOST_MESSAGE_BYTES {
            return Err(nonsense("sends a message of no sensible length"));
        }
        Ok(Header { message, payload })
    }
}

/// Appends header and message of a frame whose payload has `payload` bytes.
pub fn put(out: &mut Vec<u8>, message: &impl Serialize, payload: u64) {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_BYTES]);
    let full = std::mem::take(out);
    *out = postcard::to_extend(message, full).expect("a vector has room");
    let length = (out.len() - start - HEADER_BYTES) as u32;
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    set_payload(&mut out[start..], payload);
}

/// Changes the length of the payload in the header at the start of a frame.
pub fn set_payload(frame: &mut [u8], payload: u64) {
    frame[4..HEADER_BYTES].copy_from_slice(&payload.to_le_bytes());
}

/// Decodes the message of a frame.
///
/// # Errors
/// `Io` for invalid bytes.
pub fn message<'a, M: Deserialize<'a>>(bytes: &'a [u8]) -> Result<M> {
    match postcard::take_from_bytes(bytes) {
        Ok((message, [])) => Ok(message),
        _ => Err(nonsense("sends what is no message")),
    }
}

/// Encodes pieces as a list for the wire.
pub fn list(pieces: &[Segment]) -> Vec<(u64, u64)> {
    let mut end = 0;
    let place = |piece: &Segment| {
        let gap = (piece.offset as u64).wrapping_sub(end);
        end = piece.offset as u64 + piece.bytes;
        (gap, piece.bytes)
    };
    pieces.iter().map(place).collect()
}

/// Decodes a list of pieces; `None` if one is empty or lies beyond the maximum file size.
pub fn pieces(list: &[(u64, u64)]) -> Option<Vec<Segment>> {
    let mut end = 0u64;
    let piece = |&(gap, bytes): &(u64, u64)| {
        let offset = end.checked_add(gap)?;
        end = offset.checked_add(bytes).filter(|end| i64::try_from(*end).is_ok())?;
        (bytes > 0).then_some(Segment { offset: offset as i64, bytes })
    };
    list.iter().map(piece).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(request: &Request, payload: u64) {
        let mut bytes = vec![1];
        put(&mut bytes, request, payload);
        let header = Header::decode(bytes[1..=HEADER_BYTES].try_into().unwrap()).unwrap();
        assert_eq!(header, Header { message: bytes.len() - 1 - HEADER_BYTES, payload });
        assert_eq!(&message::<Request>(&bytes[1 + HEADER_BYTES..]).unwrap(), request);
        bytes.push(0);
        assert!(message::<Request>(&bytes[1 + HEADER_BYTES..]).is_err());
    }

    #[test]
    fn messages_survive() {
        check(&Request::Hello { version: VERSION, nonce: [7; 16], cover: 2 }, 0);
        check(&Request::Read(3, Selection::Run { offset: 1 << 40, bytes: 5 }), 0);
        check(&Request::Write(3, Selection::List(vec![(1, 2), (3, 4)])), 1 << 40);
        let name = "a\nb".to_string();
        check(
            &Request::Open { name, read: true, write: false, make: Make::Exclusive, stripes: (1, 2, 3) },
            0,
        );
    }

    #[test]
    fn lists_are_inverse_to_pieces() {
        let there = [(3, 4), (7, 1), (100, 8)].map(|(offset, bytes)| Segment { offset, bytes });
        let there_and_back = pieces(&list(&there)).unwrap();
        assert_eq!(there_and_back, there);
        assert_eq!(pieces(&[(u64::MAX, 2)]), None);
        assert_eq!(pieces(&[(1, 0)]), None);
    }

    #[test]
    fn the_longest_list_is_a_message() {
        let mut bytes = Vec::new();
        let far = vec![(1 << 60, 1 << 20); MOST_PIECES];
        put(&mut bytes, &Request::Write(u32::MAX, Selection::List(far)), u64::MAX);
        assert!(bytes.len() - HEADER_BYTES <= MOST_MESSAGE_BYTES);
    }

    #[test]
    fn lengths_that_are_not_meant_are_refused() {
        let header = |length: u32| {
            let mut bytes = [0; HEADER_BYTES];
            bytes[..4].copy_from_slice(&length.to_le_bytes());
            Header::decode(&bytes)
        };
        assert!(header(0).is_err() && header(MOST_MESSAGE_BYTES as u32 + 1).is_err() && header(1).is_ok());
    }
}
