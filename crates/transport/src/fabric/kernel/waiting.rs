//! Connections that are being opened: who has connected says hello, and is accepted or refused.
//!
//! A greeting is 8 bytes (a mark, what it is, the length of its data) and up to [`PRIVATE_BYTES`] of private data. Whoever is
//! accepted may be sent frames right behind the answer. Greetings come from anybody, so their number, length and time
//! are bounded.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use tutti_sys::event::{Interest, Poller, set_nonblocking};

use super::super::carrier::{Event, PRIVATE_BYTES, RequestId};
use super::OPENING;
use super::stream::Stream;
use crate::adaptive::ConnectionId;

const MARK: [u8; 6] = *b"tutti\x01";
const START_BYTES: usize = 8;
/// Strangers that may be connected at a time; more are turned away.
const STRANGERS: usize = 256;
/// Who has not said hello after this time does not know how.
const HELLO_TIME: Duration = Duration::from_secs(10);

/// What a greeting is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    Request = 0,
    Accept = 1,
    Reject = 2,
}

#[derive(Debug)]
enum State {
    /// The kernel connects; then the request is sent.
    Connecting(ConnectionId, Vec<u8>),
    /// The answer is awaited.
    Asked(ConnectionId),
    /// Somebody connected here and has to say hello.
    Stranger(Instant),
    /// Its request is with the owner.
    Requested,
}

/// A connection that is being opened.
#[derive(Debug)]
struct Entry {
    socket: TcpStream,
    state: State,
    got: Vec<u8>,
}

/// What became of one.
#[derive(Debug)]
pub enum Opening {
    /// To be reported.
    Event(Event),
    /// The peer has accepted, with this private data.
    Connected(Box<Stream>, Vec<u8>),
}

/// All connections that are being opened.
#[derive(Debug, Default)]
pub struct Waiting {
    entries: BTreeMap<u64, Entry>,
    next: u64,
    /// Strangers that said something else, or nothing, or were too many.
    pub foreign: u64,
}

/// A greeting as bytes.
fn greeting(word: Word, data: &[u8]) -> Vec<u8> {
    assert!(data.len() <= PRIVATE_BYTES, "proofs are short");
    let mut bytes = MARK.to_vec();
    bytes.extend([word as u8, data.len() as u8]);
    bytes.extend(data);
    bytes
}

/// The greeting at the start of `bytes`, and where it ends; `None`: more has to come.
pub(super) fn parse(bytes: &[u8]) -> io::Result<Option<(Word, &[u8], usize)>> {
    let known = bytes.len().min(MARK.len());
    let Some(start) = bytes.get(..START_BYTES) else {
        return if bytes[..known] == MARK[..known] { Ok(None) } else { Err(ErrorKind::InvalidData.into()) };
    };
    let word = match start[MARK.len()] {
        0 => Word::Request,
        1 => Word::Accept,
        2 => Word::Reject,
        _ => return Err(ErrorKind::InvalidData.into()),
    };
    let end = START_BYTES + usize::from(start[MARK.len() + 1]);
    if start[..MARK.len()] != MARK || end > START_BYTES + PRIVATE_BYTES {
        return Err(ErrorKind::InvalidData.into());
    }
    Ok(bytes.get(START_BYTES..end).map(|data| (word, data, end)))
}

impl Waiting {
    fn add(
        &mut self,
        socket: TcpStream,
        state: State,
        interest: Interest,
        poller: &Poller,
    ) -> io::Result<()> {
        self.next = self.next % (1 << 30) + 1;
        poller.add(socket.as_fd(), OPENING + self.next, interest)?;
        self.entries.insert(self.next, Entry { socket, state, got: Vec::new() });
        Ok(())
    }

    /// Whether no connection is being opened.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// A connection that this process has begun.
    pub fn connecting(
        &mut self,
        connection: ConnectionId,
        socket: TcpStream,
        data: &[u8],
        poller: &Poller,
    ) -> io::Result<()> {
        socket.set_nodelay(true)?;
        let state = State::Connecting(connection, greeting(Word::Request, data));
        self.add(socket, state, Interest::Write, poller)
    }

    /// Takes in all who have connected to the listener.
    pub fn accept_all(&mut self, listener: &TcpListener, poller: &Poller) {
        for _ in 0..STRANGERS {
            let Ok((socket, _)) = listener.accept() else { return };
            let ready = set_nonblocking(socket.as_fd()).and_then(|()| socket.set_nodelay(true));
            if self.entries.len() >= STRANGERS || ready.is_err() {
                self.foreign += 1;
                continue;
            }
            let _ = self.add(socket, State::Stranger(Instant::now()), Interest::Read, poller);
        }
    }

    /// Moves one on that is ready.
    pub fn advance(&mut self, token: u64, poller: &Poller) -> Option<Opening> {
        let number = token - OPENING;
        let entry = self.entries.get_mut(&number)?;
        match step(entry, token, poller) {
            Ok(Step::Wait) => None,
            Ok(Step::Request(data)) => {
                entry.state = State::Requested;
                let _ = poller.change(entry.socket.as_fd(), token, Interest::Nothing);
                Some(Opening::Event(Event::Requested(RequestId(number), data)))
            }
            Ok(Step::Connected(connection, data, early)) => {
                let entry = self.entries.remove(&number)?;
                Some(Opening::Connected(Box::new(Stream::new(connection, entry.socket, early)), data))
            }
            Err(error) => {
                let entry = self.entries.remove(&number)?;
                self.foreign += u64::from(matches!(entry.state, State::Stranger(_)));
                closed(&entry.state, &error).map(Opening::Event)
            }
        }
    }

    /// Accepts a request: the stream, which can be sent on at once.
    pub fn accept(&mut self, request: RequestId, name: ConnectionId, data: &[u8]) -> io::Result<Stream> {
        let entry = self.entries.remove(&request.0).ok_or(ErrorKind::NotConnected)?;
        send_greeting(&entry.socket, &greeting(Word::Accept, data))?;
        Ok(Stream::new(name, entry.socket, entry.got))
    }

    /// Refuses a request.
    pub fn reject(&mut self, request: RequestId) {
        if let Some(entry) = self.entries.remove(&request.0) {
            let _ = send_greeting(&entry.socket, &greeting(Word::Reject, &[]));
        }
    }

    /// Gives up a connection that is being opened.
    pub fn forget(&mut self, connection: ConnectionId) {
        self.entries.retain(|_, entry| match &entry.state {
            State::Connecting(name, _) | State::Asked(name) => *name != connection,
            _ => true,
        });
    }

    /// Turns away who has not said hello for too long.
    pub fn expire(&mut self, _events: &mut VecDeque<Event>) {
        if self.entries.is_empty() {
            return;
        }
        let now = Instant::now();
        let before = self.entries.len();
        self.entries.retain(
            |_, entry| !matches!(&entry.state, State::Stranger(since) if now.duration_since(*since) > HELLO_TIME),
        );
        self.foreign += (before - self.entries.len()) as u64;
    }
}

enum Step {
    Wait,
    Request(Vec<u8>),
    Connected(ConnectionId, Vec<u8>, Vec<u8>),
}

fn step(entry: &mut Entry, token: u64, poller: &Poller) -> io::Result<Step> {
    if let State::Connecting(connection, hello) = &entry.state {
        if let Some(error) = entry.socket.take_error()? {
            return Err(error);
        }
        send_greeting(&entry.socket, hello)?;
        entry.state = State::Asked(*connection);
        poller.change(entry.socket.as_fd(), token, Interest::Read)?;
        return Ok(Step::Wait);
    }
    let mut bytes = [0; 4096];
    match (&entry.socket).read(&mut bytes) {
        Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
        Ok(count) => entry.got.extend_from_slice(&bytes[..count]),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
        Err(error) => return Err(error),
    }
    let Some((word, data, end)) = parse(&entry.got)? else { return Ok(Step::Wait) };
    match (&entry.state, word) {
        (State::Asked(connection), Word::Accept) => {
            Ok(Step::Connected(*connection, data.to_vec(), entry.got[end..].to_vec()))
        }
        (State::Asked(_), Word::Reject) => Err(ErrorKind::ConnectionRefused.into()),
        // Nobody sends before it is accepted.
        (State::Stranger(_), Word::Request) if entry.got.len() == end => {
            let data = data.to_vec();
            entry.got.clear();
            Ok(Step::Request(data))
        }
        _ => Err(ErrorKind::InvalidData.into()),
    }
}

/// Sends a greeting: the first bytes on a connection, for which a socket has room.
fn send_greeting(mut socket: &TcpStream, bytes: &[u8]) -> io::Result<()> {
    match socket.write(bytes)? {
        count if count == bytes.len() => Ok(()),
        _ => Err(ErrorKind::WriteZero.into()),
    }
}

/// What is reported of a connection that could not be opened: strangers are not.
fn closed(state: &State, error: &io::Error) -> Option<Event> {
    match state {
        State::Connecting(connection, _) | State::Asked(connection) => {
            Some(Event::Closed(*connection, error.to_string()))
        }
        State::Stranger(_) | State::Requested => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The word, bytes of data and end of what is read, or whether it is refused.
    fn check(bytes: &[u8], expected: std::result::Result<Option<(Word, usize, usize)>, ()>) {
        let got = parse(bytes).map(|found| found.map(|(word, data, end)| (word, data.len(), end)));
        assert_eq!(got.map_err(|_| ()), expected, "{bytes:?}");
    }

    #[test]
    fn greetings_are_read_or_refused() {
        let request = greeting(Word::Request, b"proof");
        check(&request, Ok(Some((Word::Request, 5, 13))));
        for end in 0..request.len() {
            check(&request[..end], Ok(None));
        }
        check(&greeting(Word::Reject, b""), Ok(Some((Word::Reject, 0, 8))));
        check(b"GET / HTTP/1.0", Err(()));
        check(b"tuttx", Err(()));
        check(b"tutti\x01\x07\x00", Err(()));
        check(b"tutti\x01\x00\xff", Err(()));
    }
}
