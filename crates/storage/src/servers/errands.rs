//! User commands on files of servers: list, copy, check, describe.

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

/// Prefix of the names of files on servers.
pub const PREFIX: &str = "tutti:";
/// Number of bytes that are copied at a time.
const CHUNK_BYTES: u64 = 8 << 20;

/// State of a file on all servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Manifest of the file, if there is one.
    pub manifest: Option<String>,
    /// Length of each server's part in bytes; `None` where there is none.
    pub parts: Vec<Option<u64>>,
    /// True if a server was killed while it wrote the manifest.
    pub is_left_over: bool,
}

/// Access path to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// The server runs on this host and lends the open file.
    Near,
    /// The server has a part, which is accessed over a connection.
    Far,
    /// The server answers, and has no part of the file.
    Up,
    /// The server cannot be reached, for this reason.
    Gone(String),
}

/// Description of one file on servers.
#[derive(Clone, Debug)]
pub struct Described {
    /// Use of files by the servers.
    pub mode: Mode,
    /// Length in bytes; `None` if there is no such file; an error if it cannot be opened.
    pub bytes: Result<Option<u64>>,
    /// Striping of the file, or the one that it would get if it were created.
    pub stripes: Stripes,
    /// All servers of the mount with their access paths.
    pub servers: Vec<(Server, Way)>,
}

impl Described {
    /// Returns true if accesses go over connections only, by the rule of the driver.
    pub fn is_remote(&self) -> bool {
        self.servers.iter().all(|(_, way)| *way != Way::Near)
    }
}

/// Describes a file. Lost servers are part of the result.
pub fn describe(client: &Arc<Client>, name: &str) -> Described {
    let mut servers = Vec::new();
    for (number, server) in client.mount().servers.iter().enumerate() {
        let reached = client.connect(&mut client.peer(number), number);
        let way = reached.map_or_else(|error| Way::Gone(error.to_string()), |()| Way::Up);
        servers.extend(server.clone().map(|server| (server, way)));
    }
    let (mode, mut stripes) = (client.mount().mode, client.mount().stripes());
    let bytes = match Striped::open(client, name, Amode::for_existing(true, false), Wish::default()) {
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

/// Returns all files of the servers by name.
///
/// # Errors
/// `Io` for a lost server, naming it, and errors of servers.
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

    /// Returns the problems of the file, for users.
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

/// Returns the problems of all files of the servers: name and description of each.
///
/// # Errors
/// Errors of [`list`].
pub fn check(client: &Client) -> Result<Vec<(String, String)>> {
    if client.mount().mode == Mode::Forward {
        return Ok(Vec::new());
    }
    let faults = |(name, listed): (String, Listed)| {
        listed.faults().into_iter().map(move |fault| (name.clone(), fault))
    };
    Ok(list(client)?.into_iter().flat_map(faults).collect())
}

/// Opens a file of the servers, or of the file system.
fn open(client: &Arc<Client>, name: &str, amode: Amode) -> Result<Box<dyn Driver>> {
    Ok(match name.strip_prefix(PREFIX) {
        Some(name) => Box::new(Striped::open(client, name, amode, Wish::default())?),
        None => Box::new(Posix::open(name.as_bytes(), amode)?),
    })
}

/// Copies a whole file and returns its length in bytes. An existing target is replaced.
///
/// # Errors
/// Errors of the system and of servers.
pub fn copy(client: &Arc<Client>, from: &str, to: &str) -> Result<u64> {
    let source = open(client, from, Amode::for_existing(true, false))?;
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
