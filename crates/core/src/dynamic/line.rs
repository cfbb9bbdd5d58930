//! Connection between the roots of two groups that meet: a local socket on one host, or a network
//! connection.
//!
//! Between hosts both sides first prove that they know the key of the port. The key comes from the port's
//! name and is never sent.
//!
//! | step | connecting side | accepting side |
//! |---|---|---|
//! | 1 | magic, a nonce | |
//! | 2 | | a nonce, a tag over both |
//! | 3 | another tag over both | |
//! | then | letters, see below | the same |
//!
//! A letter consists of its length and encrypted bytes with a tag. The tag also covers the length, the
//! sender and the letter's number. Descriptors cannot be sent between hosts.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tutti_seal::{MESSAGE_OVERHEAD, Messages, Root};
use tutti_sys::letter::{self, Letter};
use tutti_sys::local_socket::Connection;
use tutti_sys::process;
use tutti_sys::socket::{self, SAFE_SEGMENT_BYTES};
use tutti_transport::adaptive::tag::{Key, TAG_BYTES, Use, derive};

/// First bytes of a connection, which contain the version of the protocol.
const MAGIC: [u8; 8] = *b"tutti-p2";
const NONCE_BYTES: usize = 16;
/// Time that the connecting side waits until the other end accepts.
const PATIENCE: Duration = Duration::from_secs(60);
/// Maximum size of a letter in bytes: the names of all processes that can exist.
const MOST_BYTES: u64 = 64 << 20;
/// First bytes under the tags of the accepting and the connecting side.
const ACCEPTS: &[u8] = b"accepts";
const CONNECTS: &[u8] = b"connects";

/// State of the other end of a line after the last letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The other end exists.
    There,
    /// The other end has closed the line with notice.
    Parted,
    /// The other end is gone without notice.
    Lost,
}

/// Connection between two roots.
#[derive(Debug)]
pub enum Line {
    /// Local connection on one host.
    Near(Connection),
    /// Network connection between hosts.
    Far(FarLine),
}

/// Connection over the network whose ends have authenticated each other.
#[derive(Debug)]
pub struct FarLine {
    stream: TcpStream,
    /// Key from which the nonces of letters are derived.
    key: Key,
    /// Cipher of the letters.
    messages: Box<Messages>,
    /// Secret that only both ends know.
    secret: [u8; 32],
    /// True at the end that has accepted the connection.
    accepts: bool,
    /// Numbers of letters sent and received.
    letters: Mutex<[u64; 2]>,
}

impl Line {
    /// Sends a letter; waits if the other side does not read.
    ///
    /// # Errors
    /// Returns the system's error if the other side is gone, and Unsupported for descriptors between hosts.
    pub fn send(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        match self {
            Line::Near(connection) => letter::send(connection, bytes, descriptors),
            Line::Far(_) if !descriptors.is_empty() => Err(io::ErrorKind::Unsupported.into()),
            Line::Far(far) => far.send(bytes),
        }
    }

    /// Waits for a letter without a time limit.
    ///
    /// # Errors
    /// Returns UnexpectedEof if the other side is gone, InvalidData if it sends other data.
    pub fn receive(&self) -> io::Result<Letter> {
        match self {
            Line::Near(connection) => letter::receive(connection),
            Line::Far(far) => far.receive().map(|bytes| Letter { bytes, descriptors: Vec::new() }),
        }
    }

    /// Notifies the other end that this end is about to close the line, after the last letter:
    /// [`End::Parted`].
    pub fn part(&self) {
        // An end that does not read it is gone, or has closed the line itself.
        let _ = match self {
            Line::Near(connection) => connection.send(&[0], &[]),
            Line::Far(far) => (&far.stream).write_all(&[0]),
        };
    }

    /// Returns the state of the other end, after the last letter. Does not wait.
    pub fn end(&self) -> End {
        let found = match self {
            Line::Near(connection) => connection.receive(&mut [0; 8]).map(|(bytes, _)| bytes),
            Line::Far(far) => far.stream.set_nonblocking(true).and_then(|()| (&far.stream).read(&mut [0; 8])),
        };
        match found {
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                End::There
            }
            Ok(0) | Err(_) => End::Lost,
            Ok(_) => End::Parted,
        }
    }

    /// Returns the secret that only both ends know; `None` on one host.
    pub fn secret(&self) -> Option<[u8; 32]> {
        match self {
            Line::Near(_) => None,
            Line::Far(far) => Some(far.secret),
        }
    }

    /// Returns the address of this host that leads to the other one; `None` on one host.
    pub fn interface(&self) -> Option<IpAddr> {
        match self {
            Line::Near(_) => None,
            Line::Far(far) => far.stream.local_addr().ok().map(|address| address.ip()),
        }
    }
}

/// Returns random bytes that are used once.
fn nonce() -> io::Result<[u8; NONCE_BYTES]> {
    let mut bytes = [0; NONCE_BYTES];
    for eight in bytes.chunks_exact_mut(8) {
        eight.copy_from_slice(&process::random()?.to_ne_bytes());
    }
    Ok(bytes)
}

/// Makes the error of an end that does not know the key.
fn foreign() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, "the other end does not know the port's key")
}

/// Connects to a port of another host, with mutual proof of the key.
///
/// # Errors
/// Returns the system's error, or PermissionDenied if it is not that port.
pub fn connect(to: SocketAddr, secret: &[u8; 32]) -> io::Result<FarLine> {
    let mut stream = socket::connect_within(to, Some(SAFE_SEGMENT_BYTES), PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let (key, mine) = (Key::new(secret, Use::Line), nonce()?);
    stream.write_all(&[&MAGIC[..], &mine].concat())?;
    let mut answer = [0; NONCE_BYTES + TAG_BYTES];
    stream.read_exact(&mut answer).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => {
            let reason = format!("nobody has accepted for {} s", PATIENCE.as_secs());
            io::Error::new(io::ErrorKind::TimedOut, reason)
        }
        _ => error,
    })?;
    let (theirs, tag) = answer.split_at(NONCE_BYTES);
    if !key.verifies(&[ACCEPTS, &mine, theirs].concat(), tag) {
        return Err(foreign());
    }
    stream.write_all(&key.tag(&[CONNECTS, &mine, theirs]))?;
    FarLine::agreed(stream, derive(secret, &[&mine, theirs]), false)
}

/// Accepting side of the proof, as a state machine: takes received bytes, returns bytes to send.
#[derive(Debug)]
pub struct Proving {
    /// Secret of the port.
    secret: [u8; 32],
    /// Nonce of this end.
    mine: [u8; NONCE_BYTES],
    /// Bytes received for the current step.
    held: Vec<u8>,
    /// Nonce of the other end, once it has arrived.
    theirs: Option<Vec<u8>>,
    /// True once the other end has passed the proof.
    has_proved: bool,
}

impl Proving {
    /// Makes the state before any data has arrived.
    ///
    /// # Errors
    /// Returns an error if the system provides no random numbers.
    pub fn new(secret: &[u8; 32]) -> io::Result<Proving> {
        let (secret, mine) = (*secret, nonce()?);
        Ok(Proving { secret, mine, held: Vec::new(), theirs: None, has_proved: false })
    }

    /// Returns the number of bytes that the next step still needs.
    pub fn wanted(&self) -> usize {
        let step = if self.theirs.is_none() { MAGIC.len() + NONCE_BYTES } else { TAG_BYTES };
        step - self.held.len()
    }

    /// Takes received bytes, at most as many as needed, and returns the bytes to send.
    ///
    /// # Errors
    /// Returns PermissionDenied if the other side does not know the key.
    pub fn take(&mut self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        self.held.extend_from_slice(bytes);
        if self.wanted() > 0 {
            return Ok(Vec::new());
        }
        let said = std::mem::take(&mut self.held);
        let key = Key::new(&self.secret, Use::Line);
        if let Some(theirs) = &self.theirs {
            self.has_proved = key.verifies(&[CONNECTS, theirs, &self.mine].concat(), &said);
            return if self.has_proved { Ok(Vec::new()) } else { Err(foreign()) };
        }
        let (magic, theirs) = said.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err(foreign());
        }
        let tag = key.tag(&[ACCEPTS, theirs, &self.mine]);
        self.theirs = Some(theirs.to_vec());
        Ok([&self.mine[..], &tag].concat())
    }

    /// Returns the secret that only both ends know, once the other one has proved itself.
    pub fn agreed(&self) -> Option<[u8; 32]> {
        let theirs = self.theirs.as_ref().filter(|_| self.has_proved)?;
        Some(derive(&self.secret, &[theirs, &self.mine]))
    }
}

impl FarLine {
    /// Makes the accepting end after the proof of the other side ([`Proving::agreed`]).
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn accepted(stream: TcpStream, secret: [u8; 32]) -> io::Result<FarLine> {
        FarLine::agreed(stream, secret, true)
    }

    /// Makes an end of the line after the proof.
    fn agreed(stream: TcpStream, secret: [u8; 32], accepts: bool) -> io::Result<FarLine> {
        stream.set_read_timeout(None)?;
        stream.set_nodelay(true)?;
        Ok(FarLine {
            stream,
            key: Key::new(&secret, Use::Hidden),
            messages: Box::new(Messages::new(&Root::new(&secret, "letters"))),
            secret,
            accepts,
            letters: Mutex::new([0; 2]),
        })
    }

    /// Returns the number of the next letter.
    fn next(&self, received: bool) -> [u8; 8] {
        let mut letters = self.letters.lock().unwrap_or_else(PoisonError::into_inner);
        let count = &mut letters[usize::from(received)];
        *count += 1;
        count.to_le_bytes()
    }

    /// Returns a letter before it is sealed. Its front contains the sender, the number and the length. The
    /// other end knows these, so the front is not sent.
    fn letter(&self, by_accepting: bool, number: &[u8], length: &[u8], bytes: &[u8]) -> Vec<u8> {
        [if by_accepting { ACCEPTS } else { CONNECTS }, number, length, bytes].concat()
    }

    /// Sends a sealed letter.
    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let length = (bytes.len() as u64).to_le_bytes();
        let mut letter = self.letter(self.accepts, &self.next(false), &length, bytes);
        let front = letter.len() - bytes.len();
        let tag = self.key.tag(&[&letter]);
        let nonce = tag.first_chunk().expect("a nonce is shorter than a tag");
        self.messages.seal(nonce, &mut letter, front);
        (&self.stream).write_all(&[&length[..], &letter[front..]].concat())
    }

    /// Receives a letter, and checks its seal.
    fn receive(&self) -> io::Result<Vec<u8>> {
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, "something that is no letter");
        let mut length = [0; 8];
        (&self.stream).read_exact(&mut length)?;
        let bytes = u64::from_le_bytes(length);
        if bytes > MOST_BYTES {
            return Err(wrong());
        }
        let mut letter = self.letter(!self.accepts, &self.next(true), &length, &[]);
        let front = letter.len();
        letter.resize(front + bytes as usize + MESSAGE_OVERHEAD, 0);
        (&self.stream).read_exact(&mut letter[front..])?;
        let opened = self.messages.open(&mut letter, front).map_err(|_| wrong())?;
        Ok(opened[front..].to_vec())
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn accept(mut stream: TcpStream, secret: &[u8; 32]) -> io::Result<FarLine> {
        let mut proving = Proving::new(secret)?;
        loop {
            // One byte at a time, as data may arrive.
            let mut byte = [0];
            stream.read_exact(&mut byte)?;
            stream.write_all(&proving.take(&byte)?)?;
            if let Some(secret) = proving.agreed() {
                return FarLine::accepted(stream, secret);
            }
        }
    }

    /// Returns both ends, if their proofs succeed.
    fn ends(connects: [u8; 32], accepts: [u8; 32]) -> (io::Result<FarLine>, io::Result<FarLine>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        std::thread::scope(|scope| {
            let far = scope.spawn(move || connect(to, &connects));
            let near = accept(listener.accept().unwrap().0, &accepts);
            (far.join().unwrap(), near)
        })
    }

    #[test]
    fn letters_go_both_ways_between_those_who_know_the_key() {
        let (one, other) = ends([7; 32], [7; 32]);
        let (one, other) = (Line::Far(one.unwrap()), Line::Far(other.unwrap()));
        for (from, to) in [(&one, &other), (&other, &one)] {
            for text in [&b"first"[..], b"", &[5; 1000]] {
                from.send(text, &[]).unwrap();
                assert_eq!(to.receive().unwrap().bytes, text);
            }
        }
        assert!(one.secret().is_some() && one.secret() == other.secret());
        assert_eq!(one.interface(), Some("127.0.0.1".parse().unwrap()));
        drop(one);
        assert_eq!(other.receive().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    fn check_end(one: Line, other: &Line, parts: bool, expected: End) {
        assert_eq!((one.end(), other.end()), (End::There, End::There));
        if parts {
            one.part();
        }
        drop(one);
        // The network takes its time.
        let mut ends = (0..1000).map(|_| (other.end(), std::thread::sleep(Duration::from_millis(1))).0);
        assert_eq!(ends.find(|end| *end != End::There), Some(expected));
    }

    #[test]
    fn who_parts_says_so() {
        for (parts, expected) in [(true, End::Parted), (false, End::Lost)] {
            let (one, other) = ends([7; 32], [7; 32]);
            check_end(Line::Far(one.unwrap()), &Line::Far(other.unwrap()), parts, expected);
            let (one, other) = Connection::pair().unwrap();
            check_end(Line::Near(one), &Line::Near(other), parts, expected);
        }
    }

    #[test]
    fn strangers_and_repeated_letters_are_refused() {
        let (one, other) = ends([7; 32], [8; 32]);
        assert!(one.is_err() && other.is_err());
        let (one, other) = ends([7; 32], [7; 32]);
        let (one, other) = (one.unwrap(), other.unwrap());
        one.send(b"hello").unwrap();
        assert_eq!(other.receive().unwrap(), b"hello");
        *one.letters.lock().unwrap() = [0; 2];
        one.send(b"hello").unwrap();
        assert_eq!(other.receive().unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
