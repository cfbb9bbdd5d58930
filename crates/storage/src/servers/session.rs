//! Work of a server for one client: a pure state machine that processes received bytes and produces
//! replies. It has no socket and reads no clock.
//!
//! A client has one request in progress. Its bytes are moved in chunks, as they arrive or as there is room
//! to send them. So a session stores at most a chunk and a message. Operations that wait for a device run
//! in a thread, and their reply comes later.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError};

use tutti_base::{Error, ErrorClass, Result};
use tutti_data::Tiles;
use tutti_seal::{Cover, StreamKeys};

use super::greeting::{End, Greeting, Key, number, token};
use super::stripes::Stripes;
use super::walk::{File, Walk, wrong};
use super::wire::{
    self, Entry, HEADER_BYTES, Header, MOST_UNPROVED_BYTES, Make, Reply, Request, Selection, Token, VERSION,
};
use crate::driver::{Driver, Moved};

/// Number of bytes that are moved at a time, before other clients are served.
pub const CHUNK_BYTES: u64 = 256 << 10;
/// Maximum number of open files of a client.
const MOST_FILES: usize = 4096;
/// Maximum number of views of a file that a client may send.
const MOST_VIEWS: u32 = 64;

/// File that a store has opened.
#[derive(Debug)]
pub struct Opened {
    /// Driver for the bytes of the file.
    pub driver: Arc<dyn Driver>,
    /// Ticket with which a client requests the open file.
    pub ticket: Token,
    /// Device and inode of the server's part, as returned by fstat.
    pub identity: (u64, u64),
}

/// Storage of a server's files.
pub trait Store {
    /// Returns the manifest of a file, if there is one and the mount has manifests. If the file will be
    /// created, it is reserved for `client` until it commits or leaves.
    ///
    /// # Errors
    /// `NoSuchFile`, `FileExists`, `FileInUse`, `BadFile`, and errors of the system.
    fn look(&mut self, client: u64, name: &str, make: Make) -> Result<Option<String>>;

    /// Writes a manifest completely, or not at all.
    ///
    /// # Errors
    /// `FileExists`, `BadFile`, and errors of the system.
    fn commit(&mut self, client: u64, name: &str, text: &str) -> Result<()>;

    /// Opens this server's part of a file.
    ///
    /// # Errors
    /// Errors of [`Store::look`].
    fn open(&mut self, name: &str, read: bool, write: bool, make: Make) -> Result<Opened>;

    /// Stops lending an open file.
    fn close(&mut self, ticket: &Token);

    /// Deletes the manifest and the part of a file, as far as they exist.
    ///
    /// # Errors
    /// `NoSuchFile`, `BadFile`, and errors of the system.
    fn delete(&mut self, name: &str) -> Result<()>;

    /// Returns the first files whose names come after `after`, in ascending order.
    ///
    /// # Errors
    /// Errors of the system.
    fn list(&mut self, after: &str) -> Result<Vec<Entry>>;

    /// Frees the reservations of a client that has left.
    fn leave(&mut self, client: u64);

    /// Returns the verifier, a number that changes when data that were not synced may be lost.
    fn verifier(&self) -> u64;
}

/// Operation that a thread performs.
pub type Later = Box<dyn FnOnce() -> Result<u64> + Send>;

enum Work {
    Idle,
    Reading {
        driver: Arc<dyn Driver>,
        walk: Walk,
        done: u64,
    },
    /// Receives a payload, which is discarded after an error.
    Writing {
        to: Result<(Arc<dyn Driver>, Walk)>,
        left: u64,
        done: u64,
    },
    Waiting,
}

/// Numbers that were exchanged in a greeting: see [`Greeting`].
#[derive(Clone, Copy)]
struct Said {
    client: Token,
    server: Token,
    asked: u8,
    cover: u8,
}

/// Session of a server with one client; see the module.
pub struct Session {
    client: u64,
    key: Key,
    local: Vec<u8>,
    /// Minimum protection that this server accepts.
    cover: Option<Cover>,
    /// Numbers of the greeting, once the client has sent its own.
    said: Option<Said>,
    proved: bool,
    files: BTreeMap<u32, File>,
    next: u32,
    work: Work,
    later: Option<Later>,
    /// Header and message of a frame, as far as they have arrived.
    input: Vec<u8>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session of client {} with {} files", self.client, self.files.len())
    }
}

/// Decodes one of the two messages of a greeting. The first byte is the number of its kind (postcard).
///
/// # Errors
/// `Access` for any other message; `Io` for an invalid one.
fn unproved(message: &[u8]) -> Result<Request> {
    const GREETING: [u8; 2] = [0, 1];
    match message.first() {
        Some(kind) if GREETING.contains(kind) => wire::message(message),
        _ => Err(wrong(ErrorClass::Access, "a request before the proof")),
    }
}

impl Session {
    /// Starts a session with a client that has just connected.
    pub fn new(client: u64, key: Key, local: Vec<u8>) -> Session {
        Session {
            client,
            key,
            local,
            cover: None,
            said: None,
            proved: false,
            files: BTreeMap::new(),
            next: 1,
            work: Work::Idle,
            later: None,
            input: Vec::new(),
        }
    }

    /// Sets the minimum protection of messages after the greeting.
    pub fn with_cover(self, cover: Option<Cover>) -> Session {
        Session { cover, ..self }
    }

    fn greeting(&self) -> Option<Greeting<'_>> {
        let Said { client, server, asked, cover } = self.said?;
        Some(Greeting { client, server, asked, cover, local: &self.local })
    }

    /// Returns the keys for all messages after the client's proof, in both directions; `None` before it, or
    /// if nothing is sealed.
    pub fn keys(&self) -> Option<StreamKeys> {
        let greeting = self.greeting().filter(|_| self.proved)?;
        greeting.keys(&self.key, End::Server)
    }

    /// Returns true if the session accepts bytes: not while it is busy with a request.
    pub fn listens(&self) -> bool {
        matches!(self.work, Work::Idle | Work::Writing { .. })
    }

    /// Returns true if [`Session::produce`] has data to send.
    pub fn is_reading(&self) -> bool {
        matches!(self.work, Work::Reading { .. })
    }

    /// Processes received bytes, as many as it can, and returns their number. It stops after the client's
    /// proof if later messages are sealed. Replies are appended to `out`.
    ///
    /// # Errors
    /// If the client violates the protocol; the connection must be closed.
    pub fn feed(&mut self, store: &mut dyn Store, bytes: &[u8], out: &mut Vec<u8>) -> Result<usize> {
        let mut at = 0;
        while at < bytes.len() && self.listens() {
            if let Work::Writing { left, .. } = &self.work {
                let take = (*left).min((bytes.len() - at) as u64) as usize;
                self.write(store, &bytes[at..at + take], out)?;
                at += take;
                continue;
            }
            at += self.collect(&bytes[at..])?;
            if let Some((header, request)) = self.complete()? {
                let was_proved = self.proved;
                self.serve(store, header, request, out)?;
                if !was_proved && self.keys().is_some() {
                    // Later bytes are sealed.
                    break;
                }
            }
        }
        Ok(at)
    }

    /// Returns true if the client has proved that it knows the key.
    pub fn is_proved(&self) -> bool {
        self.proved
    }

    /// Decodes a header and checks its lengths.
    fn checked(&self, header: &[u8; HEADER_BYTES]) -> Result<Header> {
        let header = Header::decode(header)?;
        let is_short = header.message <= MOST_UNPROVED_BYTES && header.payload == 0;
        if self.proved || is_short {
            return Ok(header);
        }
        Err(wrong(ErrorClass::Access, "a long message before the proof"))
    }

    /// Stores bytes of a header and its message, and returns their number.
    fn collect(&mut self, bytes: &[u8]) -> Result<usize> {
        let wanted = match self.input.first_chunk::<HEADER_BYTES>() {
            None => HEADER_BYTES,
            Some(header) => HEADER_BYTES + self.checked(header)?.message,
        };
        let take = (wanted - self.input.len()).min(bytes.len());
        self.input.extend_from_slice(&bytes[..take]);
        Ok(take)
    }

    fn complete(&mut self) -> Result<Option<(Header, Request)>> {
        let Some(header) = self.input.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let header = self.checked(header)?;
        if self.input.len() < HEADER_BYTES + header.message {
            return Ok(None);
        }
        let message = &self.input[HEADER_BYTES..];
        // No other message is decoded for a client without proof.
        let request = if self.proved { wire::message(message)? } else { unproved(message)? };
        self.input.clear();
        let has_payload = matches!(request, Request::Write(..));
        if header.payload > 0 && !has_payload {
            return Err(wrong(ErrorClass::Io, "a payload where none is meant"));
        }
        Ok(Some((header, request)))
    }

    fn serve(
        &mut self,
        store: &mut dyn Store,
        header: Header,
        request: Request,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let reply = match request {
            Request::Nothing => return Ok(()),
            Request::Hello { version, nonce, cover } => self.greet(version, nonce, cover)?,
            Request::Proof(proof) => self.check(&proof)?,
            _ if !self.proved => return Err(wrong(ErrorClass::Access, "a request before the proof")),
            Request::Write(file, place) => {
                self.begin_write(store, file, place, header.payload, out)?;
                return Ok(());
            }
            Request::View { file, number, shape } => return self.tell(file, number, &shape),
            request => match self.answer(store, request) {
                Ok(None) => return Ok(()),
                Ok(Some(Reply::Done { value, .. })) => Reply::Done { value, verifier: store.verifier() },
                Ok(Some(reply)) => reply,
                Err(error) => Reply::failed(&error, 0),
            },
        };
        wire::put(out, &reply, 0);
        Ok(())
    }

    fn greet(&mut self, version: u32, client: Token, asked: u8) -> Result<Reply> {
        if version != VERSION || self.said.is_some() {
            return Err(wrong(ErrorClass::Io, "another version of the protocol"));
        }
        let nonce = token()?;
        let cover = number(self.cover.max(Cover::from_number(asked)));
        let said = Said { client, server: nonce, asked, cover };
        let local = self.local.clone();
        let proof =
            Greeting { client, server: nonce, asked, cover, local: &local }.proof(&self.key, End::Server);
        self.said = Some(said);
        Ok(Reply::Challenge { nonce, proof, cover, local })
    }

    fn check(&mut self, proof: &Token) -> Result<Reply> {
        let is_right = |said: Greeting<'_>| !self.proved && said.verifies(&self.key, End::Client, proof);
        if !self.greeting().is_some_and(is_right) {
            return Err(wrong(ErrorClass::Access, "a proof of another key"));
        }
        self.proved = true;
        Ok(Reply::Done { value: 0, verifier: 0 })
    }

    /// Returns the reply to a request; `None` if it comes later.
    fn answer(&mut self, store: &mut dyn Store, request: Request) -> Result<Option<Reply>> {
        let done = |value| Ok(Some(Reply::Done { value, verifier: 0 }));
        match request {
            Request::Look { name, make } => {
                Ok(Some(Reply::Manifest(store.look(self.client, &name, make)?)))
            }
            Request::Commit { name, text } => store.commit(self.client, &name, &text).and_then(|()| done(0)),
            Request::Open { name, read, write, make, stripes } => {
                self.open(store, &name, (read, write), make, stripes).map(Some)
            }
            Request::Close(file) => {
                if let Some(file) = self.files.remove(&file) {
                    store.close(&file.ticket);
                }
                done(0)
            }
            Request::Delete(name) => store.delete(&name).and_then(|()| done(0)),
            Request::List { after } => Ok(Some(Reply::Files(store.list(&after)?))),
            Request::Read(file, place) => {
                let file = self.file(file)?;
                let (driver, walk) = (Arc::clone(&file.driver), Walk::new(file, place)?);
                self.work = Work::Reading { driver, walk, done: 0 };
                Ok(None)
            }
            Request::Bytes(file) => done(self.file(file)?.driver.bytes()?),
            Request::Resize(file, bytes) => {
                self.file(file)?.driver.resize(bytes)?;
                done(bytes)
            }
            Request::Allocate(file, bytes) => self.allocate(file, bytes),
            Request::Sync(file) => self.sync(file),
            Request::Hello { .. }
            | Request::Proof(_)
            | Request::Nothing
            | Request::Write(..)
            | Request::View { .. } => unreachable!("served before"),
        }
    }

    fn file(&self, file: u32) -> Result<&File> {
        self.files.get(&file).ok_or_else(|| wrong(ErrorClass::File, "a file that is not open"))
    }

    fn open(
        &mut self,
        store: &mut dyn Store,
        name: &str,
        (read, write): (bool, bool),
        make: Make,
        (bytes, count, server): (u64, u32, u32),
    ) -> Result<Reply> {
        let stripes = Stripes::new(bytes, count).filter(|_| server < count);
        let stripes = stripes.ok_or_else(|| wrong(ErrorClass::Arg, "stripes that make no sense"))?;
        if self.files.len() >= MOST_FILES {
            return Err(wrong(ErrorClass::Other, "too many open files"));
        }
        let Opened { driver, ticket, identity } = store.open(name, read, write, make)?;
        let file = self.next;
        self.next += 1;
        let (views, unsynced) = (BTreeMap::new(), Arc::default());
        self.files.insert(file, File { driver, ticket, stripes, server, views, unsynced });
        Ok(Reply::Opened { file, ticket, identity, verifier: store.verifier() })
    }

    fn tell(&mut self, file: u32, number: u32, shape: &[u8]) -> Result<()> {
        let view = Arc::new(Tiles::decode(shape)?);
        // A later access by the view reports that the file is not open.
        if let Some(file) = self.files.get_mut(&file).filter(|_| number < MOST_VIEWS) {
            file.views.insert(number, view);
        }
        Ok(())
    }

    fn allocate(&mut self, file: u32, bytes: u64) -> Result<Option<Reply>> {
        let file = self.file(file)?;
        let (driver, stripes, server) = (Arc::clone(&file.driver), file.stripes, file.server);
        self.wait(Box::new(move || {
            for part in stripes.parts(0..bytes, server) {
                driver.allocate_range(part.start, part.end - part.start)?;
            }
            Ok(bytes)
        }));
        Ok(None)
    }

    fn sync(&mut self, file: u32) -> Result<Option<Reply>> {
        let file = self.file(file)?;
        let (driver, unsynced) = (Arc::clone(&file.driver), Arc::clone(&file.unsynced));
        self.wait(Box::new(move || {
            let mut earlier = unsynced.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(error) = &*earlier {
                return Err(error.clone());
            }
            driver.sync().map(|()| 0).inspect_err(|error| *earlier = Some(error.clone()))
        }));
        Ok(None)
    }

    fn wait(&mut self, later: Later) {
        self.work = Work::Waiting;
        self.later = Some(later);
    }

    /// Returns the operation for a thread, if there is one. Its result is passed to [`Session::finish`].
    pub fn later(&mut self) -> Option<Later> {
        self.later.take()
    }

    /// Replies with the result of the thread's operation.
    pub fn finish(&mut self, store: &dyn Store, result: Result<u64>, out: &mut Vec<u8>) {
        self.work = Work::Idle;
        let reply = match result {
            Ok(value) => Reply::Done { value, verifier: store.verifier() },
            Err(error) => Reply::failed(&error, 0),
        };
        wire::put(out, &reply, 0);
    }

    fn begin_write(
        &mut self,
        store: &mut dyn Store,
        number: u32,
        place: Selection,
        bytes: u64,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        // The payload arrives even if the access is invalid.
        let file = self.file(number);
        let to = file.and_then(|file| Ok((Arc::clone(&file.driver), Walk::new(file, place)?)));
        self.work = Work::Writing { to, left: bytes, done: 0 };
        self.write(store, &[], out)
    }

    /// Writes received bytes of a payload.
    fn write(&mut self, store: &dyn Store, mut bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let Work::Writing { to, left, done } = &mut self.work else {
            unreachable!("called while a payload comes in")
        };
        *left -= bytes.len() as u64;
        while let Ok((driver, walk)) = to
            && !bytes.is_empty()
        {
            let pieces = walk.take(bytes.len() as u64)?;
            let covered: u64 = pieces.iter().map(|piece| piece.bytes).sum();
            if covered == 0 {
                return Err(wrong(ErrorClass::Io, "a payload that is longer than its place"));
            }
            let (now, later) = bytes.split_at(covered as usize);
            bytes = later;
            let moved = driver.scatter(&pieces, now);
            *done += moved.bytes;
            if let Some(fault) = moved.fault {
                *to = Err(fault);
            }
        }
        if *left == 0 {
            let reply = match to {
                Err(error) => Reply::failed(error, *done),
                Ok(_) => Reply::Done { value: *done, verifier: store.verifier() },
            };
            wire::put(out, &reply, 0);
            self.work = Work::Idle;
        }
        Ok(())
    }

    /// Appends the next chunk of data that are being read. Returns false if no read is in progress.
    pub fn produce(&mut self, store: &dyn Store, out: &mut Vec<u8>) -> bool {
        let Work::Reading { driver, walk, done } = &mut self.work else { return false };
        let (pieces, mut fault) = match walk.take(CHUNK_BYTES) {
            Ok(pieces) => (pieces, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        let bytes: u64 = pieces.iter().map(|piece| piece.bytes).sum();
        let mut moved = Moved::default();
        if bytes > 0 {
            let start = out.len();
            wire::put(out, &Reply::Data, bytes);
            let head = out.len();
            out.resize(head + bytes as usize, 0);
            moved = driver.gather(&pieces, &mut out[head..]);
            out.truncate(head + moved.bytes as usize);
            wire::set_payload(&mut out[start..], moved.bytes);
        }
        *done += moved.bytes;
        fault = fault.or(moved.fault);
        if bytes == 0 || moved.bytes < bytes || fault.is_some() {
            let reply = match fault {
                Some(error) => Reply::failed(&error, *done),
                None => Reply::Done { value: *done, verifier: store.verifier() },
            };
            wire::put(out, &reply, 0);
            self.work = Work::Idle;
        }
        true
    }

    /// Ends the session: closes all files of the client.
    pub fn leave(&mut self, store: &mut dyn Store) {
        self.files.values().for_each(|file| store.close(&file.ticket));
        self.files.clear();
        store.leave(self.client);
    }
}

pub mod fuzz;
#[cfg(test)]
mod tests;
