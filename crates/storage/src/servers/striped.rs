//! Driver of files that are striped over servers.
//!
//! Memory and file are cut at the ends of stripes. Consecutive pieces at the same server form a *group*.
//! Groups of servers on this host are moved through lent files. Those of each other server form one errand;
//! all errands run at the same time.

use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tutti_base::{Error, ErrorClass, Result};
use tutti_data::{Segment, Tiles};

use super::client::{self, Client, Data, Peer, ServerTask};
use super::groups::{Group, Outcome, below, get_near, put_near, split, split_mut, zero};
use super::manifest::{Wish, home, manifest, stripes_of};
use super::mount::Mode;
use super::stripes::{Ground, Stripes};
use super::wire::{self, Make, Reply, Request, Selection};
use crate::amode::Amode;
use crate::driver::{Driver, Moved, Views};
use crate::posix::Posix;

/// Number of views of a file that a server stores at a time.
const VIEWS: usize = 16;
/// Maximum time that a client may take to create a file.
const MAKING: Duration = Duration::from_secs(2);
/// Time between two requests for the manifest of a file that is being created.
const AGAIN: Duration = Duration::from_millis(2);

/// File that is striped over servers.
#[derive(Debug)]
pub struct Striped {
    client: Arc<Client>,
    name: String,
    amode: Amode,
    stripes: Stripes,
    parts: Vec<Mutex<Part>>,
}

/// State of the file at one server.
#[derive(Debug, Default)]
struct Part {
    /// Server's number of the file, with the number of the connection for which it is valid.
    open: Option<(u32, u64)>,
    /// File that a server on this host has lent.
    near: Option<Arc<Posix>>,
    views: Vec<Arc<Tiles>>,
    next_view: usize,
    verifier: u64,
    /// Verifier under which data were written that are not synced yet, if any.
    unsynced: Option<u64>,
    /// Loss of data that every sync reports.
    lost: Option<Error>,
}

/// Sends a request to each of these servers at the same time. Returns the replies or errors.
fn ask_all(peers: &mut [&mut Peer], requests: Vec<Request>) -> Vec<Result<Reply>> {
    let errand = |(number, request): (usize, Request)| ServerTask::new(number, &request, Data::None);
    let mut errands: Vec<ServerTask<'_>> = requests.into_iter().enumerate().map(errand).collect();
    client::run(peers, &mut errands);
    errands.into_iter().map(|errand| errand.outcome.expect("it was run")).collect()
}

/// Requests the manifest of a file. If another client is creating the file, waits until it is finished or
/// has left.
fn patiently(peer: &mut Peer, look: &Request) -> Result<Reply> {
    let until = Instant::now() + MAKING;
    loop {
        match peer.ask(look) {
            Err(error) if error.class == ErrorClass::FileInUse && Instant::now() < until => {
                std::thread::sleep(AGAIN);
            }
            result => return result,
        }
    }
}

impl Striped {
    /// Opens a file or creates it.
    ///
    /// # Errors
    /// Errors of [`super::session::Store::look`]; `Io` for a lost server, naming it.
    pub fn open(client: &Arc<Client>, name: &str, amode: Amode, wish: Wish) -> Result<Striped> {
        let mut guards = client.all();
        for (number, peer) in guards.iter_mut().enumerate() {
            // A connection that was lost is made again once.
            client.connect(peer, number).or_else(|_| client.connect(peer, number))?;
        }
        let mut peers: Vec<&mut Peer> = guards.iter_mut().map(|guard| &mut **guard).collect();
        let make = match (amode.creates(), amode.is_exclusive()) {
            (false, _) => Make::No,
            (true, false) => Make::IfMissing,
            (true, true) => Make::Exclusive,
        };
        let (stripes, make, commits) = match client.mount().mode {
            Mode::Forward => (client.mount().stripes(), make, false),
            Mode::Scratch => {
                let look = Request::Look { name: name.to_string(), make };
                let home = home(name, peers.len());
                match patiently(peers[home], &look)? {
                    Reply::Manifest(Some(text)) => (stripes_of(&text)?, Make::No, false),
                    _ => (wish.for_mount(client.mount().stripes()), Make::Empty, true),
                }
            }
        };
        if stripes.count() as usize > peers.len() {
            let why =
                format!("{name:?} lies on {} io-servers, the mount has {}", stripes.count(), peers.len());
            return Err(Error::new(ErrorClass::Io, why));
        }
        peers.truncate(stripes.count() as usize);
        let parts = (0..peers.len()).map(|_| Mutex::default()).collect();
        let file = Striped { client: Arc::clone(client), name: name.to_string(), amode, stripes, parts };
        if let Err(error) = file.open_parts(&mut peers, make) {
            file.close_parts(&mut peers);
            return Err(error);
        }
        if commits {
            let text = manifest(name, stripes)?;
            let home = home(name, client.servers());
            drop(peers);
            if let Err(error) = guards[home].ask(&Request::Commit { name: name.to_string(), text }) {
                let mut peers: Vec<&mut Peer> = guards.iter_mut().map(|guard| &mut **guard).collect();
                file.close_parts(&mut peers);
                return Err(error);
            }
        }
        Ok(file)
    }

    /// Deletes a file on all servers.
    ///
    /// # Errors
    /// `NoSuchFile`; errors of [`Striped::open`].
    pub fn delete(client: &Arc<Client>, name: &str) -> Result<()> {
        let mut guards = client.all();
        for (number, peer) in guards.iter_mut().enumerate() {
            client.connect(peer, number).or_else(|_| client.connect(peer, number))?;
        }
        let mut peers: Vec<&mut Peer> = guards.iter_mut().map(|guard| &mut **guard).collect();
        let home = match client.mount().mode {
            Mode::Forward => 0,
            Mode::Scratch => home(name, peers.len()),
        };
        peers[home].ask(&Request::Delete(name.to_string()))?;
        if client.mount().mode == Mode::Scratch {
            peers.remove(home);
            let requests = peers.iter().map(|_| Request::Delete(name.to_string())).collect();
            let results = ask_all(&mut peers, requests);
            let is_bad = |result: &Result<Reply>| {
                result.as_ref().is_err_and(|error| error.class != ErrorClass::NoSuchFile)
            };
            results.into_iter().find(is_bad).transpose()?;
        }
        Ok(())
    }

    /// Returns the striping of the file.
    pub fn divided(&self) -> Stripes {
        self.stripes
    }

    /// Returns true if a server has lent its part.
    pub fn is_near(&self, server: usize) -> bool {
        self.part(server).near.is_some()
    }

    /// Returns true if no server has lent its part: all data go over connections.
    fn is_far(&self) -> bool {
        (0..self.parts.len()).all(|server| !self.is_near(server))
    }

    fn part(&self, server: usize) -> std::sync::MutexGuard<'_, Part> {
        self.parts[server].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn request_to_open(&self, server: usize, make: Make) -> Request {
        Request::Open {
            name: self.name.clone(),
            read: self.amode.reads(),
            write: self.amode.writes(),
            make,
            stripes: (self.stripes.bytes(), self.stripes.count(), server as u32),
        }
    }

    /// Opens the parts at all servers. If they share the file, the first one creates it.
    fn open_parts(&self, peers: &mut [&mut Peer], make: Make) -> Result<()> {
        let mut first = 0;
        if self.client.mount().mode == Mode::Forward && make != Make::No {
            let reply = peers[0].ask(&self.request_to_open(0, make))?;
            self.opened(peers[0], 0, reply)?;
            first = 1;
        }
        let make = if first == 1 { Make::No } else { make };
        let requests = (first..peers.len()).map(|server| self.request_to_open(server, make)).collect();
        let replies = ask_all(&mut peers[first..], requests);
        for (server, reply) in (first..).zip(replies) {
            let reply = reply.map_err(|error| self.lost_part(error, make))?;
            self.opened(peers[server], server, reply)?;
        }
        Ok(())
    }

    /// Closes the parts that are open. The caller has locked the servers.
    fn close_parts(&self, peers: &mut [&mut Peer]) {
        for (server, part) in self.parts.iter().enumerate() {
            let open = part.lock().unwrap_or_else(PoisonError::into_inner).open.take();
            if let Some((file, _)) = open.filter(|(_, epoch)| *epoch == peers[server].epoch) {
                // A lost server has closed the file already.
                let _ = peers[server].ask(&Request::Close(file));
            }
        }
    }

    /// Replaces the error if a part is missing: a file with a manifest has a part at each server.
    fn lost_part(&self, error: Error, make: Make) -> Error {
        let is_lost = self.client.mount().mode == Mode::Scratch
            && make == Make::No
            && error.class == ErrorClass::NoSuchFile;
        if is_lost {
            Error::new(ErrorClass::Io, format!("{error}: its part of the file is lost"))
        } else {
            error
        }
    }

    /// Records that a server has opened its part.
    fn opened(&self, peer: &Peer, server: usize, reply: Reply) -> Result<()> {
        let Reply::Opened { file, ticket, identity, verifier } = reply else {
            return Err(peer.error(ErrorClass::Io, "it does not open the file"));
        };
        let near = self.client.borrow(peer, &ticket, identity);
        let near = near.map(|file| Posix::from_file(File::from(file), PathBuf::from(&self.name), self.amode));
        let mut part = self.part(server);
        part.near = near.transpose()?.map(Arc::new);
        part.views.clear();
        part.next_view = 0;
        part.open = Some((file, peer.epoch));
        part.verifier = verifier;
        Part::compare(&mut part, peer, verifier);
        Ok(())
    }

    /// Ensures that a server is connected and has its part open. Returns the server's number of the file.
    fn ensure(&self, peer: &mut Peer, server: usize) -> Result<u32> {
        self.client.connect(peer, server)?;
        if let Some((file, epoch)) = self.part(server).open
            && epoch == peer.epoch
        {
            return Ok(file);
        }
        let reply = peer.ask(&self.request_to_open(server, Make::No));
        self.opened(peer, server, reply.map_err(|error| self.lost_part(error, Make::No))?)?;
        Ok(self.part(server).open.expect("it was opened").0)
    }

    /// Returns the groups of pieces of the file, in the order of memory.
    fn groups(&self, pieces: &[Segment]) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        self.stripes.cut(pieces, |server, piece, position| {
            let server = server as usize;
            match groups.last_mut() {
                Some(last) if last.server == server => {
                    last.memory.end += piece.bytes;
                    match last.pieces.last_mut() {
                        Some(before) if before.offset + before.bytes as i64 == piece.offset => {
                            before.bytes += piece.bytes;
                        }
                        _ => last.pieces.push(piece),
                    }
                }
                _ => {
                    let memory = position..position + piece.bytes;
                    groups.push(Group { server, pieces: vec![piece], memory });
                }
            }
        });
        groups
    }

    /// Returns the groups of a range of a view's stream, without pieces: the server computes them.
    fn view_groups(&self, view: &Arc<Tiles>, stream: Range<u64>) -> Vec<Group> {
        let ground = Ground::View(Arc::clone(view));
        let start = stream.start;
        let part = |server: usize| {
            let parts = ground.parts(stream.clone(), self.stripes, server as u32);
            let group = move |part: Range<u64>| Group {
                server,
                pieces: Vec::new(),
                memory: part.start - start..part.end - start,
            };
            parts.map(group).collect::<Vec<_>>()
        };
        let mut groups: Vec<Group> = (0..self.parts.len()).flat_map(part).collect();
        groups.sort_unstable_by_key(|group| group.memory.start);
        groups
    }

    /// Locks the servers of groups, in their order, and opens their parts.
    fn engage(&self, groups: &[Group], what: &What<'_>) -> Engaged<'_> {
        let mut servers: Vec<usize> = groups.iter().map(|group| group.server).collect();
        servers.sort_unstable();
        servers.dedup();
        let mut guards = self.client.engage(servers.iter().copied());
        let files =
            servers.iter().zip(&mut guards).map(|(server, peer)| self.ensure(peer, *server)).collect();
        // Groups of a view have no pieces, so the server must compute them, even if it has lent its file
        // meanwhile.
        let by_view = matches!(what, What::View(..));
        let near = |server: &usize| self.part(*server).near.clone().filter(|_| !by_view);
        let near = servers.iter().map(near).collect();
        Engaged { servers, guards, files, near }
    }

    /// Returns the description of an access's bytes for a server.
    fn place(
        &self,
        peer: &mut Peer,
        server: usize,
        file: u32,
        groups: &[&Group],
        what: &What<'_>,
    ) -> Result<Selection> {
        match what {
            What::Run(offset, bytes) => Ok(Selection::Run { offset: *offset, bytes: *bytes }),
            What::Pieces => {
                let pieces: Vec<Segment> =
                    groups.iter().flat_map(|group| group.pieces.iter().copied()).collect();
                Ok(Selection::List(wire::list(&pieces)))
            }
            What::View(view, stream, bytes) => {
                let mut part = self.part(server);
                let known = part.views.iter().position(|known| Arc::ptr_eq(known, view));
                let number = match known {
                    Some(number) => number,
                    None => {
                        let number = part.next_view % VIEWS;
                        part.next_view += 1;
                        peer.tell(&Request::View { file, number: number as u32, shape: view.encode() })?;
                        if number < part.views.len() {
                            part.views[number] = Arc::clone(view);
                        } else {
                            part.views.push(Arc::clone(view));
                        }
                        number
                    }
                };
                Ok(Selection::View { number: number as u32, stream: *stream, bytes: *bytes })
            }
        }
    }

    /// Returns the order in which groups are written, server by server. Clients start with different
    /// servers, because each server writes a file for one client at a time.
    fn turns(&self, groups: &[Group]) -> Vec<usize> {
        let count = self.parts.len();
        let first = std::process::id() as usize % count;
        let mut turns: Vec<usize> = (0..groups.len()).collect();
        turns.sort_by_key(|turn| (groups[*turn].server + count - first) % count);
        turns
    }

    /// Writes groups of memory to their servers.
    fn put(&self, groups: &[Group], memory: &[&[u8]], what: &What<'_>) -> Moved {
        let mut engaged = self.engage(groups, what);
        let mut outcome = Outcome::new(self.parts.len());
        let mut shares: Vec<Vec<&[u8]>> = vec![Vec::new(); self.parts.len()];
        let mut split = split(memory, groups);
        for turn in self.turns(groups) {
            let (group, lines) = (&groups[turn], std::mem::take(&mut split[turn]));
            match engaged.near(group.server) {
                Some(near) if !outcome.has_failed(group.server) => {
                    outcome.add(group.server, put_near(&near, group, &lines));
                }
                Some(_) => {}
                None => shares[group.server].extend(lines),
            }
        }
        let data = shares.into_iter().map(Data::Out).collect();
        self.far(&mut engaged, groups, data, what, true, &mut outcome);
        for server in &engaged.servers {
            let mut part = self.part(*server);
            let verifier = part.verifier;
            part.unsynced.get_or_insert(verifier);
        }
        outcome.moved(groups)
    }

    /// Performs the errands of servers that have not lent their files.
    fn far(
        &self,
        engaged: &mut Engaged<'_>,
        groups: &[Group],
        data: Vec<Data<'_>>,
        what: &What<'_>,
        write: bool,
        outcome: &mut Outcome,
    ) {
        let mut data: Vec<Option<Data<'_>>> = data.into_iter().map(Some).collect();
        let (mut peers, mut errands) = (Vec::new(), Vec::new());
        let Engaged { servers, guards, files, near } = engaged;
        for (((server, peer), file), near) in servers.iter().zip(guards).zip(files).zip(near) {
            let file = match file {
                Ok(file) => *file,
                Err(error) => {
                    outcome.fail(*server, error.clone());
                    continue;
                }
            };
            if near.is_some() {
                continue;
            }
            let own: Vec<&Group> = groups.iter().filter(|group| group.server == *server).collect();
            match self.place(peer, *server, file, &own, what) {
                Ok(place) => {
                    let request =
                        if write { Request::Write(file, place) } else { Request::Read(file, place) };
                    let data = data[*server].take().unwrap_or(Data::None);
                    errands.push(ServerTask::new(*server, &request, data));
                    peers.push(&mut **peer);
                }
                Err(error) => outcome.fail(*server, error),
            }
        }
        client::run(&mut peers, &mut errands);
        for (errand, peer) in errands.iter_mut().zip(&peers) {
            let moved = match errand.outcome.take().expect("it was run") {
                Ok(Reply::Done { value, verifier }) => {
                    self.part(errand.server).compare(peer, verifier);
                    Moved::all(value)
                }
                Ok(_) => Moved {
                    bytes: 0,
                    fault: Some(peer.error(ErrorClass::Io, "it answers what was not asked")),
                },
                // Data sent to a lost server are uncertain.
                Err(error) if write => Moved { bytes: 0, fault: Some(error) },
                Err(error) => Moved { bytes: errand.moved, fault: Some(error) },
            };
            outcome.add(errand.server, moved);
        }
    }

    /// Reads groups into memory. `below` returns the number of the access's bytes within a file of a given
    /// length.
    fn get(
        &self,
        groups: &[Group],
        memory: &mut [&mut [u8]],
        what: &What<'_>,
        below: impl FnOnce(u64) -> u64,
    ) -> Moved {
        let mut outcome = Outcome::new(self.parts.len());
        {
            let mut engaged = self.engage(groups, what);
            let mut shares: Vec<Vec<&mut [u8]>> = (0..self.parts.len()).map(|_| Vec::new()).collect();
            for (group, mut lines) in groups.iter().zip(split_mut(memory, groups)) {
                match engaged.near(group.server) {
                    // Bytes after the end of a part also lie after the end of later reads there.
                    Some(near) if !outcome.has_ended(group.server) => {
                        let bytes = group.memory.end - group.memory.start;
                        outcome.add_of(group.server, get_near(&near, group, &mut lines), bytes);
                    }
                    Some(_) => {}
                    None => shares[group.server].extend(lines),
                }
            }
            let data = shares.into_iter().map(Data::In).collect();
            self.far(&mut engaged, groups, data, what, false, &mut outcome);
        }
        let moved = outcome.moved(groups);
        let total = groups.last().map_or(0, |group| group.memory.end);
        if moved.fault.is_some() || moved.bytes == total {
            return moved;
        }
        // The part of a server may end before the file does: the range between is a hole.
        let end = match self.bytes() {
            Ok(bytes) => below(bytes).min(total),
            Err(error) => return Moved { bytes: moved.bytes, fault: Some(error) },
        };
        for hole in outcome.missing(groups) {
            let hole = hole.start.min(end)..hole.end.min(end);
            zero(memory, hole);
        }
        Moved::all(end.max(moved.bytes))
    }

    /// Sends the same request to all servers that have a part of their own. Returns the replies.
    fn ask_parts(&self, request: impl Fn(u32) -> Request) -> Result<Vec<(u64, u64)>> {
        let count = if self.client.mount().mode == Mode::Forward { 1 } else { self.parts.len() };
        self.ask_servers(count, request)
    }

    /// Sends a request to each of the first `count` servers and waits for all replies. `request` creates it
    /// from the server's number of the file.
    ///
    /// Returns a value and a verifier per server, in their order. The verifier is like that of NFS (RFC
    /// 1813, section 3.3.21). It changes when the server's host restarts or its directory is replaced, so
    /// that unsynced data may be lost; a restart of the server alone changes nothing. If it is not the
    /// verifier under which unsynced data were written, the loss is noted for the server's part of the
    /// file. The part also notes an error that a connected server returns for a sync.
    ///
    /// # Errors
    /// The first error, in the order of the servers. If the file cannot be opened at one of them, no
    /// request is sent; otherwise all replies have arrived.
    fn ask_servers(&self, count: usize, request: impl Fn(u32) -> Request) -> Result<Vec<(u64, u64)>> {
        let mut guards = self.client.engage(0..count);
        let files = guards.iter_mut().enumerate().map(|(server, peer)| self.ensure(peer, server));
        let files = files.collect::<Result<Vec<u32>>>()?;
        let mut peers: Vec<&mut Peer> = guards.iter_mut().map(|guard| &mut **guard).collect();
        let requests: Vec<Request> = files.into_iter().map(request).collect();
        let syncs = matches!(requests.first(), Some(Request::Sync(_)));
        let replies = ask_all(&mut peers, requests);
        for (number, reply) in replies.iter().enumerate().filter(|_| syncs) {
            // Errors of a server's device count; a lost server has reported nothing.
            if let (Err(error), true) = (reply, peers[number].is_connected()) {
                self.part(number).lost.get_or_insert_with(|| error.clone());
            }
        }
        let answer = |(number, reply): (usize, Result<Reply>)| match reply? {
            Reply::Done { value, verifier } => {
                self.part(number).compare(peers[number], verifier);
                Ok((value, verifier))
            }
            _ => Err(peers[number].error(ErrorClass::Io, "it answers what was not asked")),
        };
        replies.into_iter().enumerate().map(answer).collect()
    }
}

/// Bytes of an access: a range, a list of pieces, or a range of a view's stream.
enum What<'a> {
    Run(u64, u64),
    Pieces,
    View(&'a Arc<Tiles>, u64, u64),
}

/// Servers that take part in an access.
struct Engaged<'a> {
    servers: Vec<usize>,
    guards: Vec<client::Engaged<'a>>,
    files: Vec<Result<u32>>,
    near: Vec<Option<Arc<Posix>>>,
}

impl Engaged<'_> {
    /// Returns the lent file of a server that is connected.
    fn near(&self, server: usize) -> Option<Arc<Posix>> {
        let place = self.servers.binary_search(&server).expect("the server of a group takes part");
        self.files[place].as_ref().ok().and(self.near[place].clone())
    }
}

impl Part {
    /// Compares the verifier of a reply with the one under which data were written. Records a loss if they
    /// differ.
    fn compare(&mut self, peer: &Peer, verifier: u64) {
        self.verifier = verifier;
        if self.unsynced.is_some_and(|before| before != verifier) {
            let why = "its host or its directory is not what it was: data that were written and not synced are lost";
            self.lost.get_or_insert_with(|| peer.error(ErrorClass::Io, why));
            self.unsynced = Some(verifier);
        }
    }
}

impl Driver for Striped {
    fn read(&self, offset: u64, into: &mut [IoSliceMut<'_>]) -> Moved {
        let bytes = into.iter().map(|line| line.len() as u64).sum();
        if bytes == 0 {
            return Moved::default();
        }
        let groups = self.groups(&[Segment { offset: offset as i64, bytes }]);
        let mut memory: Vec<&mut [u8]> = into.iter_mut().map(|line| &mut **line).collect();
        let below = |end: u64| end.saturating_sub(offset).min(bytes);
        self.get(&groups, &mut memory, &What::Run(offset, bytes), below)
    }

    fn write(&self, offset: u64, from: &[IoSlice<'_>]) -> Moved {
        let bytes = from.iter().map(|line| line.len() as u64).sum();
        if bytes == 0 {
            return Moved::default();
        }
        let groups = self.groups(&[Segment { offset: offset as i64, bytes }]);
        let memory: Vec<&[u8]> = from.iter().map(|line| &**line).collect();
        self.put(&groups, &memory, &What::Run(offset, bytes))
    }

    fn gather(&self, pieces: &[Segment], packed: &mut [u8]) -> Moved {
        let (mut done, mut rest) = (0, packed);
        for some in pieces.chunks(wire::MOST_PIECES / 2) {
            let bytes: u64 = some.iter().map(|piece| piece.bytes).sum();
            let (now, later) = rest.split_at_mut(bytes as usize);
            rest = later;
            let moved = self.get(&self.groups(some), &mut [now], &What::Pieces, |end| below(some, end));
            done += moved.bytes;
            if moved.fault.is_some() || moved.bytes < bytes {
                return Moved { bytes: done, ..moved };
            }
        }
        Moved::all(done)
    }

    fn scatter(&self, pieces: &[Segment], packed: &[u8]) -> Moved {
        let (mut done, mut rest) = (0, packed);
        for some in pieces.chunks(wire::MOST_PIECES / 2) {
            let bytes: u64 = some.iter().map(|piece| piece.bytes).sum();
            let (now, later) = rest.split_at(bytes as usize);
            rest = later;
            let moved = self.put(&self.groups(some), &[now], &What::Pieces);
            done += moved.bytes;
            if moved.fault.is_some() {
                return Moved { bytes: done, ..moved };
            }
        }
        Moved::all(done)
    }

    fn views(&self) -> Option<&dyn Views> {
        self.is_far().then_some(self)
    }

    fn bytes(&self) -> Result<u64> {
        let parts = self.ask_parts(Request::Bytes)?;
        Ok(parts.into_iter().map(|(bytes, _)| bytes).max().unwrap_or(0))
    }

    fn resize(&self, bytes: u64) -> Result<()> {
        self.ask_parts(|file| Request::Resize(file, bytes)).map(drop)
    }

    fn allocate(&self, bytes: u64) -> Result<()> {
        self.ask_servers(self.parts.len(), |file| Request::Allocate(file, bytes)).map(drop)
    }

    fn sync(&self) -> Result<()> {
        // Each server caches its data separately, even if they share the file.
        let synced = self.ask_servers(self.parts.len(), Request::Sync);
        for server in 0..self.parts.len() {
            let mut part = self.part(server);
            if synced.is_ok() {
                part.unsynced = None;
            }
            if let Some(lost) = &part.lost {
                return Err(lost.clone());
            }
        }
        synced.map(drop)
    }

    fn is_remote(&self) -> bool {
        self.is_far()
    }

    fn stripes(&self) -> Option<(u64, u32)> {
        Some((self.stripes.bytes(), self.stripes.count()))
    }

    fn describe(&self) -> String {
        let near = (0..self.parts.len()).filter(|server| self.is_near(*server)).count();
        format!(
            "{} over {} io-servers, {near} of them near, stripes of {} bytes",
            self.client.mount().mode.name(),
            self.stripes.count(),
            self.stripes.bytes()
        )
    }
}

impl Views for Striped {
    fn read_view(&self, view: &Arc<Tiles>, stream: u64, into: &mut [IoSliceMut<'_>]) -> Moved {
        let bytes = into.iter().map(|line| line.len() as u64).sum();
        let groups = self.view_groups(view, stream..stream + bytes);
        let mut memory: Vec<&mut [u8]> = into.iter_mut().map(|line| &mut **line).collect();
        let below = |end: u64| view.stream_below(end).saturating_sub(stream).min(bytes);
        self.get(&groups, &mut memory, &What::View(view, stream, bytes), below)
    }

    fn write_view(&self, view: &Arc<Tiles>, stream: u64, from: &[IoSlice<'_>]) -> Moved {
        let bytes = from.iter().map(|line| line.len() as u64).sum();
        let groups = self.view_groups(view, stream..stream + bytes);
        let memory: Vec<&[u8]> = from.iter().map(|line| &**line).collect();
        self.put(&groups, &memory, &What::View(view, stream, bytes))
    }
}

impl Drop for Striped {
    fn drop(&mut self) {
        if self.parts.iter().all(|part| part.lock().unwrap_or_else(PoisonError::into_inner).open.is_none()) {
            return;
        }
        let mut guards = self.client.engage(0..self.parts.len());
        let mut peers: Vec<&mut Peer> = guards.iter_mut().map(|guard| &mut **guard).collect();
        self.close_parts(&mut peers);
    }
}
