//! What clients and servers say to each other: frames of a header, a typed message and bytes of a file.
//!
//! | header | bytes |
//! |---|---|
//! | length of the message | 4 |
//! | length of the payload that follows it | 8 |
//!
//! Messages are in the encoding of postcard. A length that is not meant is refused before anything is kept
//! for it.

use serde::{Deserialize, Serialize};

use tutti_base::{Error, ErrorClass, Result};
use tutti_data::Segment;

/// Of the protocol; both ends must have the same.
pub const VERSION: u32 = 3;
/// Bytes of a header.
pub const HEADER_BYTES: usize = 12;
/// Longest message: a list of pieces, or the shape of a view.
pub const MOST_MESSAGE_BYTES: usize = 2 << 20;
/// Longest message before a client has proved that it knows the key.
pub const MOST_UNPROVED_BYTES: usize = 64;
/// Most pieces of a list, so that the longest message has room for them.
pub const MOST_PIECES: usize = 64 << 10;
/// Random numbers, proofs and tickets.
pub type Token = [u8; 16];

/// What is to become of a file that is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Make {
    /// It must be there.
    No,
    /// It is made if it is not there.
    IfMissing,
    /// It must not be there.
    Exclusive,
    /// Whatever was there is gone.
    Empty,
}

/// Which bytes of a file are meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Place {
    /// Of a range of the file those that the server has.
    Run {
        /// The first.
        offset: u64,
        /// How many.
        bytes: u64,
    },
    /// Of a range of the stream of a view those that the server has.
    View {
        /// The number under which the view was told.
        number: u32,
        /// The first.
        stream: u64,
        /// How many.
        bytes: u64,
    },
    /// These pieces: how far each begins behind the end of the one before, and its length.
    List(Vec<(u64, u64)>),
}

/// What a server has of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Beneath the root.
    pub name: String,
    /// How long its part is; `None` where there is only a manifest.
    pub bytes: Option<u64>,
    /// The manifest, at the server that has it.
    pub manifest: Option<String>,
    /// Something that was being made when the server was killed.
    pub is_left_over: bool,
}

/// A client's message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// The first.
    Hello {
        /// Of the protocol.
        version: u32,
        /// So that the server's proof is fresh.
        nonce: Token,
        /// Number of the least [`Cover`](tutti_seal::Cover) that the client accepts; 0: none.
        cover: u8,
    },
    /// The client knows the key.
    Proof(Token),
    /// What the manifest of a file says. `make`: a file that is not there will be made; nobody else makes it
    /// meanwhile.
    Look {
        /// The file.
        name: String,
        /// See above.
        make: Make,
    },
    /// Writes the manifest of a file that was looked up to be made.
    Commit {
        /// The file.
        name: String,
        /// The manifest.
        text: String,
    },
    /// Opens the server's part of a file.
    Open {
        /// The file.
        name: String,
        /// It will be read.
        read: bool,
        /// It will be written.
        write: bool,
        /// See there.
        make: Make,
        /// Bytes of a stripe, how many servers, and which of them this one is.
        stripes: (u64, u32, u32),
    },
    /// It is not needed any more.
    Close(u32),
    /// Removes what the server has of a file.
    Delete(String),
    /// Tells a view of an open file: no reply.
    View {
        /// The file.
        file: u32,
        /// By this number accesses refer to it.
        number: u32,
        /// See [`tutti_data::Tiles::encode`].
        shape: Vec<u8>,
    },
    /// From the file: replies with data, then [`Reply::Done`] whose value is how many bytes there were.
    Read(u32, Place),
    /// To the file, the payload.
    Write(u32, Place),
    /// How long its part is.
    Bytes(u32),
    /// Makes it longer or shorter.
    Resize(u32, u64),
    /// Makes room for the server's stripes of the first bytes.
    Allocate(u32, u64),
    /// Waits until all is on the device.
    Sync(u32),
    /// The first files that this server has whose names come after this one.
    List {
        /// A name; empty: from the beginning.
        after: String,
    },
    /// Nothing: whether it arrives is what the sender's system finds out.
    Nothing,
}

/// A server's message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// To [`Request::Hello`].
    Challenge {
        /// So that the client's proof is fresh.
        nonce: Token,
        /// The server knows the key.
        proof: Token,
        /// Number of the cover of all that follows the client's proof.
        cover: u8,
        /// Under this name it lends files to clients on its host.
        local: Vec<u8>,
    },
    /// To [`Request::Look`].
    Manifest(Option<String>),
    /// To [`Request::Open`].
    Opened {
        /// By this number requests refer to it.
        file: u32,
        /// Who shows it on the server's host gets the open file.
        ticket: Token,
        /// Device and inode of the file, so that a lent one can be compared.
        identity: (u64, u64),
        /// See the module of the servers.
        verifier: u64,
    },
    /// The payload are bytes of the file.
    Data,
    /// To [`Request::List`]; none at the end.
    Files(Vec<Entry>),
    /// It is done.
    Done {
        /// What was asked for.
        value: u64,
        /// As at [`Reply::Opened`].
        verifier: u64,
    },
    /// It cannot be done.
    Failed {
        /// A class of MPI.
        class: i32,
        /// Bytes that were moved before.
        value: u64,
        /// For people.
        why: String,
    },
}

impl Reply {
    /// For an error, after so many bytes.
    pub fn failed(error: &Error, value: u64) -> Reply {
        Reply::Failed { class: error.class as i32, value, why: error.to_string() }
    }
}

/// The lengths in a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Of the message.
    pub message: usize,
    /// Of what follows it.
    pub payload: u64,
}

#[cold]
fn nonsense(what: &str) -> Error {
    Error::new(ErrorClass::Io, format!("the other end of a connection of io-servers {what}"))
}

impl Header {
    /// Reads one.
    ///
    /// # Errors
    /// `Io` for a message that is too long.
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

/// Appends header and message of a frame whose payload has so many bytes.
pub fn put(out: &mut Vec<u8>, message: &impl Serialize, payload: u64) {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_BYTES]);
    let full = std::mem::take(out);
    *out = postcard::to_extend(message, full).expect("a vector has room");
    let length = (out.len() - start - HEADER_BYTES) as u32;
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    set_payload(&mut out[start..], payload);
}

/// Says another length of the payload in the header that a frame begins with.
pub fn set_payload(frame: &mut [u8], payload: u64) {
    frame[4..HEADER_BYTES].copy_from_slice(&payload.to_le_bytes());
}

/// A message.
///
/// # Errors
/// `Io` for what is none.
pub fn message<'a, M: Deserialize<'a>>(bytes: &'a [u8]) -> Result<M> {
    match postcard::take_from_bytes(bytes) {
        Ok((message, [])) => Ok(message),
        _ => Err(nonsense("sends what is no message")),
    }
}

/// Pieces as a list on the wire.
pub fn list(pieces: &[Segment]) -> Vec<(u64, u64)> {
    let mut end = 0;
    let place = |piece: &Segment| {
        let gap = (piece.offset as u64).wrapping_sub(end);
        end = piece.offset as u64 + piece.bytes;
        (gap, piece.bytes)
    };
    pieces.iter().map(place).collect()
}

/// The pieces of a list; `None` beyond what a file can have, and for pieces of no byte.
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
        check(&Request::Read(3, Place::Run { offset: 1 << 40, bytes: 5 }), 0);
        check(&Request::Write(3, Place::List(vec![(1, 2), (3, 4)])), 1 << 40);
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
        put(&mut bytes, &Request::Write(u32::MAX, Place::List(far)), u64::MAX);
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
