//! Letters: occasional messages of any length between two processes of a host, with descriptors attached.
//!
//! A letter may have any length, while a message of [`Connection`] is bounded. Letters are written and read
//! by threads that may wait; a thread that may not wait must use another one for this. Most letters consist
//! of [`Fields`].
//!
//! | message | content |
//! |---|---|
//! | first | number of bytes and number of descriptors that follow, eight bytes each |
//! | then | the bytes, in pieces |
//! | then | the descriptors, in batches, each with one byte |

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use crate::local_socket::{Connection, DESCRIPTORS};

/// Length of one message in bytes: a socket accepts at least that much at a time.
const PIECE: usize = 32 << 10;
/// Maximum length of a letter in bytes.
const MOST_BYTES: u64 = 64 << 20;
/// Maximum number of descriptors in a letter.
const MOST_DESCRIPTORS: u64 = 1 << 16;
/// Length of one wait in a thread that may wait without limit.
const LONG: Duration = Duration::from_secs(3600);

/// Letter that has been received.
#[derive(Debug, Default)]
pub struct Letter {
    /// Content of the letter.
    pub bytes: Vec<u8>,
    /// Descriptors attached to the letter.
    pub descriptors: Vec<OwnedFd>,
}

/// Sends a letter. Waits while the other side does not read.
///
/// # Errors
/// The system's error, if the other side has closed the connection.
pub fn send(to: &Connection, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let counts = [bytes.len() as u64, descriptors.len() as u64];
    send_piece(to, &counts.map(u64::to_le_bytes).concat(), &[])?;
    for piece in bytes.chunks(PIECE) {
        send_piece(to, piece, &[])?;
    }
    for batch in descriptors.chunks(DESCRIPTORS) {
        send_piece(to, &[0], batch)?;
    }
    Ok(())
}

fn send_piece(to: &Connection, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    loop {
        match to.send(bytes, descriptors) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => wait_writable(to.as_fd()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// Waits for a letter, without a limit of time.
///
/// # Errors
/// UnexpectedEof when the other side has closed the connection, InvalidData when it sends something else.
pub fn receive(from: &Connection) -> io::Result<Letter> {
    let foreign = || io::Error::new(io::ErrorKind::InvalidData, "something that is no letter");
    let mut counts = [0; 16];
    let (length, enclosed) = receive_piece(from, &mut counts)?;
    let number = |at: usize| u64::from_le_bytes(counts[at..at + 8].try_into().expect("eight bytes"));
    let (bytes, descriptors) = (number(0), number(8));
    if length != counts.len() || !enclosed.is_empty() || bytes > MOST_BYTES || descriptors > MOST_DESCRIPTORS
    {
        return Err(foreign());
    }
    let mut letter = Letter { bytes: vec![0; bytes as usize], descriptors: Vec::new() };
    for piece in letter.bytes.chunks_mut(PIECE) {
        let wanted = piece.len();
        if receive_piece(from, piece)?.0 != wanted {
            return Err(foreign());
        }
    }
    while (letter.descriptors.len() as u64) < descriptors {
        let (_, batch) = receive_piece(from, &mut [0])?;
        if batch.is_empty() {
            return Err(foreign());
        }
        letter.descriptors.extend(batch);
    }
    Ok(letter)
}

/// Progress of a short letter that is being received.
#[derive(Debug, Default)]
pub struct Partial {
    is_announced: bool,
}

/// Receives a letter of exactly `wanted` bytes, in one piece and without descriptors. Returns `None` if it
/// has not arrived yet; does not wait.
///
/// # Errors
/// Errors of [`receive`].
pub fn receive_short(from: &Connection, partial: &mut Partial, wanted: usize) -> io::Result<Option<Vec<u8>>> {
    let not_yet =
        |error: &io::Error| matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted);
    let foreign = || io::Error::new(io::ErrorKind::InvalidData, "something that is no such letter");
    loop {
        let mut bytes = vec![0; if partial.is_announced { wanted } else { 16 }];
        let (length, enclosed) = match from.receive(&mut bytes) {
            Err(error) if not_yet(&error) => return Ok(None),
            got => got?,
        };
        let announced = [wanted as u64, 0].map(u64::to_le_bytes).concat();
        let is_right = length == bytes.len() && enclosed.is_empty();
        if !is_right || !partial.is_announced && bytes != announced {
            return Err(foreign());
        }
        if std::mem::replace(&mut partial.is_announced, true) {
            return Ok(Some(bytes));
        }
    }
}

fn receive_piece(from: &Connection, bytes: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    loop {
        match from.receive_within(bytes, LONG) {
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {}
            other => return other,
        }
    }
}

/// Waits until there is room for a message, at most a second.
fn wait_writable(fd: BorrowedFd<'_>) {
    let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    // SAFETY: one writable structure.
    unsafe { libc::poll(&mut poll, 1, 1000) };
}

/// Appends a field to a letter.
pub fn put(letter: &mut Vec<u8>, field: &[u8]) {
    letter.extend((field.len() as u64).to_le_bytes());
    letter.extend_from_slice(field);
}

/// Appends a field with a number to a letter.
pub fn put_number(letter: &mut Vec<u8>, number: u64) {
    put(letter, &number.to_le_bytes());
}

/// Fields of a letter that have not been read yet.
#[derive(Debug)]
pub struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// Starts reading at the first field of a complete letter.
    pub fn new(bytes: &'a [u8]) -> Fields<'a> {
        Fields(bytes)
    }

    /// Returns the next field; `None` at the end or if the letter is damaged.
    pub fn field(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.0.split_first_chunk::<8>()?;
        let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
        let (field, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some(field)
    }

    /// Returns the next field as a number.
    pub fn number(&mut self) -> Option<u64> {
        self.field()?.try_into().ok().map(u64::from_le_bytes)
    }

    /// Returns the next field as a number of groups of fields that follow. It is never larger than the rest
    /// of the letter.
    pub fn count(&mut self) -> Option<usize> {
        let count = self.number()?;
        (count <= self.0.len() as u64).then_some(count as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event;
    use crate::local_socket::{Carries, Listener};

    fn pair(what: &str) -> (Connection, Connection) {
        let name = format!("letter-{what}-{}", std::process::id()).into_bytes();
        let listener = Listener::bind(&name, Carries::Descriptors).unwrap();
        let near = Connection::connect(&name).unwrap();
        (near, listener.accept().unwrap().unwrap())
    }

    fn check(what: &str, bytes: usize, descriptors: u32) {
        let (near, far) = pair(what);
        let text: Vec<u8> = (0..bytes).map(|at| at as u8).collect();
        let letter = std::thread::scope(|scope| {
            scope.spawn(|| {
                let bells = event::bells(descriptors).unwrap();
                send(&near, &text, &bells.iter().map(AsFd::as_fd).collect::<Vec<_>>()).unwrap();
            });
            receive(&far).unwrap()
        });
        assert_eq!((letter.bytes, letter.descriptors.len()), (text.clone(), descriptors as usize));
    }

    #[test]
    fn letters_of_any_length_arrive() {
        check("empty", 0, 0);
        check("short", 5, 3);
        check("long", 3_000_000, 300);
    }

    #[test]
    fn who_is_gone_writes_no_letters() {
        let (near, far) = pair("gone");
        near.send(b"half a letter", &[]).unwrap();
        assert_eq!(receive(&far).unwrap_err().kind(), io::ErrorKind::InvalidData);
        drop(near);
        assert_eq!(receive(&far).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn fields_end_where_the_letter_does() {
        let mut letter = Vec::new();
        put(&mut letter, b"name");
        put_number(&mut letter, 7);
        let mut fields = Fields::new(&letter);
        assert_eq!((fields.field(), fields.number(), fields.field()), (Some(&b"name"[..]), Some(7), None));
        assert_eq!(Fields::new(&letter[..letter.len() - 1]).number(), None);
        assert_eq!(Fields::new(&[9, 0, 0, 0, 0, 0, 0, 0, 1]).field(), None);
    }
}
