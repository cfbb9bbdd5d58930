//! What a server does for one client: a machine that is fed what came in and says what goes out. It owns no
//! socket and reads no clock.
//!
//! A client has one request under way; its bytes are moved chunk by chunk, as they come in or as there is
//! room for them on the way out, so a session keeps no more than a chunk and a message. What waits for a
//! device is work for a thread, and its reply comes later.

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
    self, Entry, HEADER_BYTES, Header, MOST_UNPROVED_BYTES, Make, Place, Reply, Request, Token, VERSION,
};
use crate::driver::{Driver, Moved};

/// Bytes that are moved at a time, before others have their turn.
pub const CHUNK_BYTES: u64 = 256 << 10;
/// Files that a client has open.
const MOST_FILES: usize = 4096;
/// Views that a client tells of a file.
const MOST_VIEWS: u32 = 64;

/// A file that a store has opened.
#[derive(Debug)]
pub struct Opened {
    /// Its bytes.
    pub driver: Arc<dyn Driver>,
    /// By which it is lent.
    pub ticket: Token,
    /// Device and inode of the part, as fstat tells them.
    pub identity: (u64, u64),
}

/// Where the files of a server are.
pub trait Store {
    /// The manifest of a file, if there is one and the mount has manifests; one that will be made is kept for
    /// `client` until it commits or leaves.
    ///
    /// # Errors
    /// `NoSuchFile`, `FileExists`, `FileInUse`, `BadFile`, what the system reports.
    fn look(&mut self, client: u64, name: &str, make: Make) -> Result<Option<String>>;

    /// Writes a manifest: all of it, or nothing.
    ///
    /// # Errors
    /// `FileExists`, `BadFile`, what the system reports.
    fn commit(&mut self, client: u64, name: &str, text: &str) -> Result<()>;

    /// Opens the part of a file.
    ///
    /// # Errors
    /// As [`Store::look`].
    fn open(&mut self, name: &str, read: bool, write: bool, make: Make) -> Result<Opened>;

    /// An open file is not lent any more.
    fn close(&mut self, ticket: &Token);

    /// Removes what there is of a file.
    ///
    /// # Errors
    /// `NoSuchFile`, `BadFile`, what the system reports.
    fn delete(&mut self, name: &str) -> Result<()>;

    /// The first files whose names come after `after`, in their order.
    ///
    /// # Errors
    /// What the system reports.
    fn list(&mut self, after: &str) -> Result<Vec<Entry>>;

    /// A client has left.
    fn leave(&mut self, client: u64);

    /// Another number once data that were not synced may be lost.
    fn verifier(&self) -> u64;
}

/// What a thread does.
pub type Later = Box<dyn FnOnce() -> Result<u64> + Send>;

enum Work {
    Idle,
    Reading {
        driver: Arc<dyn Driver>,
        walk: Walk,
        done: u64,
    },
    /// A payload comes in; after a fault it goes nowhere.
    Writing {
        to: Result<(Arc<dyn Driver>, Walk)>,
        left: u64,
        done: u64,
    },
    Waiting,
}

/// Numbers of a greeting: see [`Greeting`].
#[derive(Clone, Copy)]
struct Said {
    client: Token,
    server: Token,
    asked: u8,
    cover: u8,
}

/// See the module.
pub struct Session {
    client: u64,
    key: Key,
    local: Vec<u8>,
    /// The least cover that this server accepts.
    cover: Option<Cover>,
    /// Numbers of the greeting, once the client has sent its own.
    said: Option<Said>,
    proved: bool,
    files: BTreeMap<u32, File>,
    next: u32,
    work: Work,
    later: Option<Later>,
    /// A frame's header and message, as far as they have come in.
    input: Vec<u8>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session of client {} with {} files", self.client, self.files.len())
    }
}

/// Reads one of the two messages of a greeting, by its first byte: the number of its kind (postcard).
///
/// # Errors
/// `Access` for any other message; `Io` for what is none.
fn unproved(message: &[u8]) -> Result<Request> {
    const GREETING: [u8; 2] = [0, 1];
    match message.first() {
        Some(kind) if GREETING.contains(kind) => wire::message(message),
        _ => Err(wrong(ErrorClass::Access, "a request before the proof")),
    }
}

impl Session {
    /// With a client that has just connected.
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

    /// Protects what follows the greeting at least by this.
    pub fn with_cover(self, cover: Option<Cover>) -> Session {
        Session { cover, ..self }
    }

    fn greeting(&self) -> Option<Greeting<'_>> {
        let Said { client, server, asked, cover } = self.said?;
        Some(Greeting { client, server, asked, cover, local: &self.local })
    }

    /// Keys of all that follows the client's proof, in both directions; `None` before it, or if nothing is
    /// sealed.
    pub fn keys(&self) -> Option<StreamKeys> {
        let greeting = self.greeting().filter(|_| self.proved)?;
        greeting.keys(&self.key, End::Server)
    }

    /// Whether it takes what comes in: not while it is busy with a request.
    pub fn listens(&self) -> bool {
        matches!(self.work, Work::Idle | Work::Writing { .. })
    }

    /// Whether [`Session::produce`] has something.
    pub fn is_reading(&self) -> bool {
        matches!(self.work, Work::Reading { .. })
    }

    /// Takes what came in, as much as it can, and not beyond the client's proof if what
    /// follows is sealed: how much. What it has to say is
    /// appended to `out`.
    ///
    /// # Errors
    /// What no client of ours says: the connection is to be closed.
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
                    // What follows is sealed.
                    break;
                }
            }
        }
        Ok(at)
    }

    /// Whether the client has proved that it knows the key.
    pub fn is_proved(&self) -> bool {
        self.proved
    }

    /// A header whose lengths are meant.
    fn checked(&self, header: &[u8; HEADER_BYTES]) -> Result<Header> {
        let header = Header::decode(header)?;
        let is_short = header.message <= MOST_UNPROVED_BYTES && header.payload == 0;
        if self.proved || is_short {
            return Ok(header);
        }
        Err(wrong(ErrorClass::Access, "a long message before the proof"))
    }

    /// Keeps bytes of a header and its message; how many.
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
        // Nothing else is decoded for a client that has proved nothing.
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

    /// The reply to a request; none where it comes later.
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
        // An access by a view of a file that is not open is told that.
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

    /// What a thread is to do; [`Session::finish`] takes what becomes of it.
    pub fn later(&mut self) -> Option<Later> {
        self.later.take()
    }

    /// A thread is done.
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
        place: Place,
        bytes: u64,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        // The payload comes in any case.
        let file = self.file(number);
        let to = file.and_then(|file| Ok((Arc::clone(&file.driver), Walk::new(file, place)?)));
        self.work = Work::Writing { to, left: bytes, done: 0 };
        self.write(store, &[], out)
    }

    /// Writes what came in of a payload.
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

    /// Appends the next chunk of what is read, if something is; whether it was.
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

    /// The client is gone.
    pub fn leave(&mut self, store: &mut dyn Store) {
        self.files.values().for_each(|file| store.close(&file.ticket));
        self.files.clear();
        store.leave(self.client);
    }
}

pub mod fuzz;
#[cfg(test)]
mod tests;
