//! Connections that are being opened. The connecting side sends a greeting, and is accepted or refused.
//!
//! A greeting is 45 bytes (a mark, its kind, the lengths of its data and its padding, the cover of records
//! and a salt for their keys), up to [`PRIVATE_BYTES`] of private data, and padding. With the padding it is
//! as long as the longest packet that the system believes to pass. If such packets get lost on the way, the
//! connection is not established, rather than losing records later. An accepted process may be sent frames
//! right behind the answer. Greetings come from anybody, so their number, length and time are bounded.
//!
//! The end that accepts chooses the stronger of both ends' covers ([`Sealing`]). The keys are derived from
//! both greetings. If somebody changes a greeting on its way, for example to weaken the cover, there is no
//! connection, or one on which nothing can be opened.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, IoSliceMut, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::time::{Duration, Instant};

use tutti_seal::{Cover, End, Root, SALT_BYTES, Salt, Salts, StreamKeys};
use tutti_sys::event::{Interest, Poller, set_nonblocking};
use tutti_sys::{kept, socket};

use super::super::carrier::{Event, PRIVATE_BYTES, RequestId};
use super::OPENING;
use super::stream::{Stream, is_stuck};
use super::wire::{Wire, receive, salt};
use crate::adaptive::ConnectionId;

const MARK: [u8; 6] = *b"tutti\x03";
const START_BYTES: usize = SALT_AT + SALT_BYTES;
/// Positions of the cover and of the salt.
const COVER_AT: usize = 12;
const SALT_AT: usize = 13;
/// Longest padding: packets of networks with long ones. On the loopback no packet gets lost.
const PADDING_BYTES: usize = 9216;
/// Highest number of strangers that are connected at the same time; more are turned away.
const STRANGERS: usize = 256;
/// Time after which a connected process without a greeting is turned away.
const HELLO_TIME: Duration = Duration::from_secs(10);

/// Kind of a greeting.
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
    /// Own request without an answer, and the number of restarts of this process when it was sent.
    Asked(ConnectionId, Offer, u32),
    /// A process has connected here and has not sent its greeting.
    Stranger(Instant),
    /// The request of the process is with the owner.
    Requested(Offer),
}

/// Protection of records between ranks.
#[derive(Clone, Debug)]
pub struct Sealing {
    /// Root of the keys, from the secret that the ranks share.
    pub root: Root,
    /// The least cover that this process accepts.
    pub cover: Option<Cover>,
}

/// Part of a greeting that its end chooses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    cover: Option<Cover>,
    salt: Salt,
    data: Vec<u8>,
}

impl Sealing {
    fn offer(&self, cover: Option<Cover>, data: &[u8]) -> io::Result<Offer> {
        Ok(Offer { cover, salt: salt()?, data: data.to_vec() })
    }

    /// Returns the keys of a connection, if it is sealed.
    fn keys(&self, end: End, request: &Offer, answer: &Offer) -> Option<StreamKeys> {
        let salts = Salts { connecting: request.salt, accepting: answer.salt };
        let mut context = vec![number(request.cover), number(answer.cover), request.data.len() as u8];
        context.extend_from_slice(&request.data);
        context.extend_from_slice(&answer.data);
        answer.cover.map(|cover| self.root.connection(cover, end, &salts, &context))
    }
}

/// Returns the number of a cover in a greeting.
fn number(cover: Option<Cover>) -> u8 {
    cover.map_or(0, |cover| cover as u8)
}

/// A connection that is being opened.
#[derive(Debug)]
struct Entry {
    socket: TcpStream,
    state: State,
    got: Vec<u8>,
}

/// Outcome of a connection that was being opened.
#[derive(Debug)]
pub enum Opening {
    /// Event that is to be reported.
    Event(Event),
    /// Stream to a peer that has accepted, with its private data.
    Connected(Box<Stream>, Vec<u8>),
}

/// All connections that are being opened.
#[derive(Debug)]
pub struct KernelWaiting {
    sealing: Sealing,
    entries: BTreeMap<u64, Entry>,
    next: u64,
    /// Strangers that said something else, or nothing, or were too many.
    pub foreign: u64,
}

/// Encodes a greeting, padded to at least `whole` bytes within limits.
fn greeting(word: Word, offer: &Offer, whole: usize) -> Vec<u8> {
    let Offer { cover, salt, data } = offer;
    assert!(data.len() <= PRIVATE_BYTES, "proofs are short");
    let padding = whole.saturating_sub(START_BYTES + data.len()).min(PADDING_BYTES);
    let mut bytes = MARK.to_vec();
    bytes.extend([word as u8, data.len() as u8]);
    bytes.extend((padding as u32).to_le_bytes());
    bytes.push(number(*cover));
    bytes.extend(salt);
    bytes.extend(data);
    bytes.resize(bytes.len() + padding, 0);
    bytes
}

/// Parses the greeting at the start of `bytes`. Returns it with its end; `None` if it is incomplete.
pub(super) fn parse(bytes: &[u8]) -> io::Result<Option<(Word, Offer, usize)>> {
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
    let padding = u32::from_le_bytes([start[8], start[9], start[10], start[11]]) as usize;
    let end = START_BYTES + usize::from(start[MARK.len() + 1]);
    let cover = match start[COVER_AT] {
        0 => None,
        number => Some(Cover::from_number(number).ok_or(ErrorKind::InvalidData)?),
    };
    let salt = start.last_chunk().copied().expect("a start ends with a salt");
    if start[..MARK.len()] != MARK || end > START_BYTES + PRIVATE_BYTES || padding > PADDING_BYTES {
        return Err(ErrorKind::InvalidData.into());
    }
    let whole = bytes.get(START_BYTES..end + padding);
    Ok(whole.map(|all| (word, Offer { cover, salt, data: all[..end - START_BYTES].to_vec() }, end + padding)))
}

impl KernelWaiting {
    /// Starts without any connection.
    pub fn new(sealing: Sealing) -> KernelWaiting {
        KernelWaiting { sealing, entries: BTreeMap::new(), next: 0, foreign: 0 }
    }

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

    /// Returns true if no connection is being opened.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Begins a connection of this process.
    pub fn connecting(
        &mut self,
        connection: ConnectionId,
        socket: TcpStream,
        data: &[u8],
        poller: &Poller,
    ) -> io::Result<()> {
        socket.set_nodelay(true)?;
        let state = State::Connecting(connection, data.to_vec());
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
        if matches!(entry.state, State::Requested(_)) {
            return None;
        }
        match step(&self.sealing, entry, token, poller) {
            Ok(Step::Wait) => None,
            Ok(Step::Reached(connection)) => Some(Opening::Event(Event::Reached(connection))),
            Ok(Step::Request(offer)) => {
                let data = offer.data.clone();
                entry.state = State::Requested(offer);
                let _ = poller.change(entry.socket.as_fd(), token, Interest::Nothing);
                Some(Opening::Event(Event::Requested(RequestId(number), data)))
            }
            Ok(Step::Connected(connection, keys, data, early)) => {
                let entry = self.entries.remove(&number)?;
                let stream = Stream::new(connection, Wire::new(entry.socket, keys.as_ref()), early);
                Some(Opening::Connected(Box::new(stream), data))
            }
            Err(error) => {
                let entry = self.entries.remove(&number)?;
                self.foreign += u64::from(matches!(entry.state, State::Stranger(_)));
                closed(&entry.state, &error).map(Opening::Event)
            }
        }
    }

    /// Takes bytes that were taken out of a socket by who kept the job: they come before all that it has.
    /// The token by which it can be moved on, if the socket is one of these.
    pub fn give_back(&mut self, socket: RawFd, bytes: &[u8]) -> Option<u64> {
        let is_it = |entry: &&mut Entry| entry.socket.as_raw_fd() == socket;
        let (number, entry) =
            self.entries.iter_mut().find_map(|(number, entry)| is_it(&entry).then_some((*number, entry)))?;
        entry.got.extend_from_slice(bytes);
        Some(OPENING + number)
    }

    /// Accepts a request: the stream, which can be sent on at once.
    pub fn accept(&mut self, request: RequestId, name: ConnectionId, data: &[u8]) -> io::Result<Stream> {
        let entry = self.entries.remove(&request.0).ok_or(ErrorKind::NotConnected)?;
        let State::Requested(asked) = &entry.state else { return Err(ErrorKind::NotConnected.into()) };
        let answer = self.sealing.offer(self.sealing.cover.max(asked.cover), data)?;
        send_greeting(&entry.socket, Word::Accept, &answer)?;
        let keys = self.sealing.keys(End::Accepting, asked, &answer);
        Ok(Stream::new(name, Wire::new(entry.socket, keys.as_ref()), entry.got))
    }

    /// Refuses a connection request.
    pub fn reject(&mut self, request: RequestId) {
        if let Some(entry) = self.entries.remove(&request.0) {
            let nothing = Offer { cover: None, salt: [0; SALT_BYTES], data: Vec::new() };
            let _ = send_greeting(&entry.socket, Word::Reject, &nothing);
        }
    }

    /// Gives up a connection that is being opened. Returns the address of the host if nothing sent to it was
    /// acknowledged.
    pub fn forget(&mut self, connection: ConnectionId) -> Option<IpAddr> {
        let mut stuck = None;
        self.entries.retain(|_, entry| match &entry.state {
            State::Connecting(name, _) => *name != connection,
            State::Asked(name, ..) if *name == connection => {
                let is_stuck = is_stuck(&entry.socket);
                stuck = entry.socket.peer_addr().ok().filter(|_| is_stuck).map(|address| address.ip());
                false
            }
            _ => true,
        });
        stuck
    }

    /// Gives up connections to those that could be connected to, and got nothing of the long packet that they
    /// were sent then.
    pub fn give_up_stuck(&mut self) -> Vec<(ConnectionId, IpAddr)> {
        let mut stuck = Vec::new();
        self.entries.retain(|_, entry| match (&entry.state, entry.socket.peer_addr()) {
            (State::Asked(name, ..), Ok(address)) if is_stuck(&entry.socket) => {
                stuck.push((*name, address.ip()));
                false
            }
            _ => true,
        });
        stuck
    }

    /// Turns away who has not said hello for too long.
    pub fn expire(&mut self) {
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
    Reached(ConnectionId),
    Request(Offer),
    Connected(ConnectionId, Option<StreamKeys>, Vec<u8>, Vec<u8>),
}

fn step(sealing: &Sealing, entry: &mut Entry, token: u64, poller: &Poller) -> io::Result<Step> {
    if let State::Connecting(connection, data) = &entry.state {
        if let Some(error) = entry.socket.take_error()? {
            return Err(error);
        }
        let connection = *connection;
        let offer = sealing.offer(sealing.cover, data)?;
        send_greeting(&entry.socket, Word::Request, &offer)?;
        entry.state = State::Asked(connection, offer, kept::restarts());
        poller.change(entry.socket.as_fd(), token, Interest::Read)?;
        return Ok(Step::Reached(connection));
    }
    let mut bytes = [0; 4096];
    match receive(&entry.socket, &mut [IoSliceMut::new(&mut bytes)])? {
        Some(0) => return Err(ErrorKind::UnexpectedEof.into()),
        count => entry.got.extend_from_slice(&bytes[..count.unwrap_or(0)]),
    }
    let Some((word, offer, end)) = parse(&entry.got)? else { return Ok(Step::Wait) };
    match (&entry.state, word) {
        // Both salts may be of before the checkpoint, which another restart of it uses too.
        (State::Asked(_, _, restarts), Word::Accept) if *restarts != kept::restarts() => {
            Err(io::Error::new(ErrorKind::ConnectionAborted, "the job was restarted meanwhile"))
        }
        (State::Asked(_, asked, _), Word::Accept) if offer.cover < asked.cover => {
            Err(io::Error::new(ErrorKind::InvalidData, "the answer asks for less protection (TUTTI_PROTECT)"))
        }
        (State::Asked(connection, asked, _), Word::Accept) => {
            let keys = sealing.keys(End::Connecting, asked, &offer);
            Ok(Step::Connected(*connection, keys, offer.data, entry.got[end..].to_vec()))
        }
        (State::Asked(..), Word::Reject) => Err(ErrorKind::ConnectionRefused.into()),
        // Nobody sends before it is accepted.
        (State::Stranger(_), Word::Request) if entry.got.len() == end => {
            entry.got.clear();
            Ok(Step::Request(offer))
        }
        _ => Err(ErrorKind::InvalidData.into()),
    }
}

/// Sends a greeting: the first bytes on a connection, for which a socket has room.
fn send_greeting(mut socket: &TcpStream, word: Word, offer: &Offer) -> io::Result<()> {
    let segment_bytes = socket::segment_bytes(socket.as_fd()).unwrap_or(0);
    let bytes = greeting(word, offer, segment_bytes as usize);
    match socket.write(&bytes)? {
        count if count == bytes.len() => Ok(()),
        _ => Err(ErrorKind::WriteZero.into()),
    }
}

/// Returns the event for a connection that could not be opened. Strangers are not reported.
fn closed(state: &State, error: &io::Error) -> Option<Event> {
    match state {
        State::Connecting(connection, _) | State::Asked(connection, ..) => {
            Some(Event::Closed(*connection, error.to_string()))
        }
        State::Stranger(_) | State::Requested(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(data: &[u8]) -> Offer {
        Offer { cover: Some(Cover::Encrypted), salt: [7; SALT_BYTES], data: data.to_vec() }
    }

    /// Checks kind, offer and end of a parsed greeting, or that it is refused.
    #[track_caller]
    fn check(bytes: &[u8], expected: std::result::Result<Option<(Word, Offer, usize)>, ()>) {
        assert_eq!(parse(bytes).map_err(|_| ()), expected, "{bytes:?}");
    }

    #[test]
    fn greetings_are_read_or_refused() {
        let least = START_BYTES + 5;
        for (whole, end) in [(0, least), (least, least), (60, 60), (1 << 20, least + PADDING_BYTES)] {
            let request = greeting(Word::Request, &offer(b"proof"), whole);
            check(&request, Ok(Some((Word::Request, offer(b"proof"), end))));
            for end in 0..request.len() {
                check(&request[..end], Ok(None));
            }
        }
        let reject = Offer { cover: None, ..offer(b"") };
        check(&greeting(Word::Reject, &reject, 0), Ok(Some((Word::Reject, reject, START_BYTES))));
        check(b"GET / HTTP/1.0", Err(()));
        check(b"tuttx", Err(()));
        let changed = |at: usize, byte: u8| {
            let mut bytes = greeting(Word::Request, &offer(b"proof"), 0);
            bytes[at] = byte;
            check(&bytes, Err(()));
        };
        changed(MARK.len(), 7);
        changed(MARK.len() + 1, 255);
        changed(10, 1);
        changed(COVER_AT, 3);
    }

    #[test]
    fn both_ends_have_the_same_keys_unless_a_greeting_was_changed() {
        let sealing = Sealing { root: Root::new(&[1; 32], "test"), cover: None };
        let (request, answer) = (offer(b"one"), offer(b"two"));
        let opens = |request: &Offer, answer: &Offer| {
            let mut outgoing = tutti_seal::Outgoing::new(
                &sealing.keys(End::Connecting, &offer(b"one"), &offer(b"two")).expect("it is sealed"),
            );
            outgoing.put([&b"text"[..]].into_iter());
            let keys = sealing.keys(End::Accepting, request, answer).expect("it is sealed");
            let mut incoming = tutti_seal::Incoming::new(&keys);
            incoming.append(outgoing.pending());
            incoming.take(&mut [0; 9]).is_ok()
        };
        assert!(opens(&request, &answer));
        let weaker = |offer: &Offer, cover| Offer { cover, ..offer.clone() };
        assert!(!opens(&weaker(&request, None), &answer));
        assert!(!opens(&request, &weaker(&answer, Some(Cover::Authenticated))));
        assert!(!opens(&Offer { salt: [8; SALT_BYTES], ..request.clone() }, &answer));
        assert!(!opens(&request, &Offer { salt: [8; SALT_BYTES], ..answer.clone() }));
        assert!(!opens(&offer(b"onet"), &offer(b"wo")));
    }
}
