//! What people do with files of servers: list, copy, check, describe.

use std::collections::BTreeMap;
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

use tutti_base::{Error, ErrorClass, Result};

use super::client::Client;
use super::manifest::{Wish, stripes_of};
use super::mount::{Mode, Server};
use super::striped::Striped;
use super::stripes::Stripes;
use super::wire::{Entry, Reply, Request};
use crate::amode::Amode;
use crate::driver::Driver;
use crate::posix::Posix;

/// What the names of files of servers begin with.
pub const PREFIX: &str = "tutti:";
/// Bytes that are copied at a time.
const CHUNK_BYTES: u64 = 8 << 20;

/// What all servers have of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// How long it is.
    pub bytes: u64,
    /// Its manifest.
    pub manifest: Option<String>,
    /// How many bytes each server's part has; `None` where there is none.
    pub parts: Vec<Option<u64>>,
    /// Something that was being made when a server was killed.
    pub is_left_over: bool,
}

/// How a server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// It runs on this host and lends the open file.
    Near,
    /// It has a part, which is asked for over a connection.
    Far,
    /// It answers, and has no part of the file.
    Up,
    /// It cannot be reached, and why.
    Gone(String),
}

/// What there is to say of one file.
#[derive(Clone, Debug)]
pub struct Described {
    /// What the servers do with files.
    pub mode: Mode,
    /// Its bytes; `None` where there is no such file; why it cannot be opened.
    pub bytes: Result<Option<u64>>,
    /// How it is divided, or would be if it were made.
    pub stripes: Stripes,
    /// All servers of the mount.
    pub servers: Vec<(Server, Way)>,
}

impl Described {
    /// Whether accesses go over connections alone, by the rule of the driver.
    pub fn is_remote(&self) -> bool {
        self.servers.iter().all(|(_, way)| *way != Way::Near)
    }
}

/// What there is to say of a file. Servers that are gone are part of the answer.
pub fn describe(client: &Arc<Client>, name: &str) -> Described {
    let mut servers = Vec::new();
    for (number, server) in client.mount().servers.iter().enumerate() {
        let reached = client.connect(&mut client.peer(number), number);
        let way = reached.map_or_else(|error| Way::Gone(error.to_string()), |()| Way::Up);
        servers.extend(server.clone().map(|server| (server, way)));
    }
    let (mode, mut stripes) = (client.mount().mode, client.mount().stripes());
    let bytes = match Striped::open(client, name, Amode::of(true, false), Wish::default()) {
        Err(error) if error.class == ErrorClass::NoSuchFile => Ok(None),
        Err(error) => Err(error),
        Ok(file) => {
            stripes = file.divided();
            for (number, (_, way)) in servers.iter_mut().take(stripes.count() as usize).enumerate() {
                *way = if file.is_near(number) { Way::Near } else { Way::Far };
            }
            file.bytes().map(Some)
        }
    };
    Described { mode, bytes, stripes, servers }
}

/// All files of the servers, by name.
///
/// # Errors
/// `Io` for a server that is gone, naming it, and what servers report.
pub fn list(client: &Client) -> Result<BTreeMap<String, Listed>> {
    let mut files: BTreeMap<String, Listed> = BTreeMap::new();
    let count = if client.mount().mode == Mode::Forward { 1 } else { client.servers() };
    for server in 0..count {
        let mut peer = client.peer(server);
        client.connect(&mut peer, server)?;
        let mut after = String::new();
        loop {
            let Reply::Files(entries) = peer.ask(&Request::List { after: after.clone() })? else {
                return Err(peer.error(ErrorClass::Io, "it answers what was not asked"));
            };
            let Some(last) = entries.last() else { break };
            after.clone_from(&last.name);
            for entry in entries {
                files.entry(entry.name.clone()).or_default().add(server, count, entry);
            }
        }
    }
    Ok(files)
}

impl Listed {
    fn add(&mut self, server: usize, servers: usize, entry: Entry) {
        self.parts.resize(servers, None);
        self.parts[server] = entry.bytes;
        self.bytes = self.bytes.max(entry.bytes.unwrap_or(0));
        self.manifest = self.manifest.take().or(entry.manifest);
        self.is_left_over |= entry.is_left_over;
    }

    /// What is wrong with it, for people.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.is_left_over {
            faults.push("a manifest was being written when its server ended".to_string());
        }
        match self.manifest.as_deref().map(stripes_of) {
            None => faults.push("there are parts, but no manifest: it was being made or deleted".to_string()),
            Some(Err(error)) => faults.push(error.to_string()),
            Some(Ok(stripes)) => {
                for server in 0..stripes.count() as usize {
                    if self.parts.get(server).copied().flatten().is_none() {
                        faults.push(format!("its part at server {server} is lost"));
                    }
                }
            }
        }
        faults
    }
}

/// What is wrong with the files of the servers: a name and a sentence each.
///
/// # Errors
/// As [`list`].
pub fn check(client: &Client) -> Result<Vec<(String, String)>> {
    if client.mount().mode == Mode::Forward {
        return Ok(Vec::new());
    }
    let faults = |(name, listed): (String, Listed)| {
        listed.faults().into_iter().map(move |fault| (name.clone(), fault))
    };
    Ok(list(client)?.into_iter().flat_map(faults).collect())
}

/// Opens a file of the servers, or of the system.
fn open(client: &Arc<Client>, name: &str, amode: Amode) -> Result<Box<dyn Driver>> {
    Ok(match name.strip_prefix(PREFIX) {
        Some(name) => Box::new(Striped::open(client, name, amode, Wish::default())?),
        None => Box::new(Posix::open(name.as_bytes(), amode)?),
    })
}

/// Copies a file, whole; how many bytes. What was at the other name is replaced.
///
/// # Errors
/// What system and servers report.
pub fn copy(client: &Arc<Client>, from: &str, to: &str) -> Result<u64> {
    let source = open(client, from, Amode::of(true, false))?;
    let target = open(client, to, Amode::to_make())?;
    target.resize(0)?;
    let (bytes, mut memory) = (source.bytes()?, vec![0; CHUNK_BYTES as usize]);
    let mut done = 0;
    while done < bytes {
        let take = (bytes - done).min(CHUNK_BYTES) as usize;
        let read = source.read(done, &mut [IoSliceMut::new(&mut memory[..take])]).result()? as usize;
        if read == 0 {
            let why = format!("{from} has become shorter while it was copied");
            return Err(Error::new(ErrorClass::Io, why));
        }
        target.write(done, &[IoSlice::new(&memory[..read])]).result()?;
        done += read as u64;
    }
    target.sync()?;
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(manifest: Option<&str>, parts: &[Option<u64>], expected: &[&str]) {
        let (manifest, parts) = (manifest.map(str::to_string), parts.to_vec());
        let faults = Listed { bytes: 0, manifest, parts, is_left_over: false }.faults();
        assert_eq!(faults.len(), expected.len(), "{faults:?}");
        for (fault, expected) in faults.iter().zip(expected) {
            assert!(fault.contains(expected), "{fault}");
        }
    }

    #[test]
    fn what_is_missing_is_told() {
        let manifest = "tutti file 1\nstripe 4096\nservers 2\n";
        check(Some(manifest), &[Some(0), Some(9)], &[]);
        check(Some(manifest), &[Some(0), None], &["part at server 1"]);
        check(Some(manifest), &[], &["server 0", "server 1"]);
        check(None, &[Some(0)], &["no manifest"]);
        check(Some("x"), &[Some(0)], &["makes no sense"]);
    }
}
