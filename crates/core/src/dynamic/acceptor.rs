//! Connections to a port that have not proved yet that they know the port's name.
//!
//! Any process can connect, and send nothing. So all connections are read at once, each with one deadline
//! for its whole proof. Of too many the oldest is dropped. A connection that has proved itself while
//! another was accepted waits for the next accept.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

use tutti_sys::letter::{self, Partial};
use tutti_sys::local_socket::Connection;

use super::line::{FarLine, Line, Proving};

/// Time limit for the whole proof; long enough for an interruption of some seconds.
const PROOF: Duration = Duration::from_secs(30);
/// Maximum number of connections in the proof, and of those that have passed it.
const MOST: usize = 128;

/// A connection and the part of its proof that has arrived.
#[derive(Debug)]
enum Stranger {
    /// On this host: the proof is a letter with the key of the port.
    Near(Connection, Partial),
    /// On another host: see [`super::line`] for the proof.
    Far(TcpStream, Proving),
}

/// All unfinished and proved connections of a port.
#[derive(Debug)]
pub(super) struct Acceptor {
    /// Key in the port's name, which local connections send.
    key: u64,
    /// Secret that connections over the network prove to know.
    secret: [u8; 32],
    /// Connections in the proof, with their deadlines, oldest first.
    strangers: VecDeque<(Instant, Stranger)>,
    /// Connections that have passed the proof, oldest first.
    proved: VecDeque<Line>,
}

impl Acceptor {
    /// Makes the acceptor of a port whose name has this key. Connections from other hosts prove that they
    /// know `secret`.
    pub(super) fn new(key: u64, secret: [u8; 32]) -> Acceptor {
        Acceptor { key, secret, strangers: VecDeque::new(), proved: VecDeque::new() }
    }

    /// Adds a connection of this user on this host.
    pub(super) fn near(&mut self, connection: Connection) {
        self.add(Stranger::Near(connection, Partial::default()));
    }

    /// Adds a connection over the network.
    pub(super) fn far(&mut self, stream: TcpStream) {
        let proving = stream.set_nonblocking(true).and_then(|()| Proving::new(&self.secret));
        if let Ok(proving) = proving {
            self.add(Stranger::Far(stream, proving));
        }
    }

    /// Adds a connection with its deadline, and drops the oldest if there are too many.
    fn add(&mut self, stranger: Stranger) {
        if self.strangers.len() == MOST {
            self.strangers.pop_front();
        }
        self.strangers.push_back((Instant::now() + PROOF, stranger));
    }

    /// Reads from all connections, and returns the first one that has proved itself. Does not wait.
    pub(super) fn admit(&mut self) -> Option<Line> {
        let now = Instant::now();
        for _ in 0..self.strangers.len() {
            let Some((until, stranger)) = self.strangers.pop_front() else { break };
            match self.listen(stranger) {
                Ok(Heard::More(stranger)) if now < until => self.strangers.push_back((until, stranger)),
                Ok(Heard::Proved(line)) if self.proved.len() < MOST => self.proved.push_back(line),
                // Too late, too many, or without a valid proof.
                _ => {}
            }
        }
        self.proved.pop_front()
    }

    /// Reads from one connection, without waiting.
    fn listen(&self, stranger: Stranger) -> io::Result<Heard> {
        match stranger {
            Stranger::Near(connection, mut partial) => {
                match letter::receive_short(&connection, &mut partial, size_of::<u64>())? {
                    None => Ok(Heard::More(Stranger::Near(connection, partial))),
                    Some(key) if key == self.key.to_le_bytes() => Ok(Heard::Proved(Line::Near(connection))),
                    Some(_) => Err(io::ErrorKind::PermissionDenied.into()),
                }
            }
            Stranger::Far(mut stream, mut proving) => {
                loop {
                    // Reads no byte beyond the proof: what follows belongs to the line.
                    let mut bytes = vec![0; proving.wanted()];
                    let count = match stream.read(&mut bytes) {
                        Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                        Ok(count) => count,
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                        Err(error) => return Err(error),
                    };
                    // These are the first bytes sent on this connection, so the socket has space for them.
                    stream.write_all(&proving.take(&bytes[..count])?)?;
                    if let Some(secret) = proving.agreed() {
                        stream.set_nonblocking(false)?;
                        return FarLine::accepted(stream, secret).map(Line::Far).map(Heard::Proved);
                    }
                }
                Ok(Heard::More(Stranger::Far(stream, proving)))
            }
        }
    }

    /// Returns the descriptors that become readable when a connection sends more.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        self.strangers.iter().map(|(_, stranger)| match stranger {
            Stranger::Near(connection, _) => std::os::fd::AsFd::as_fd(connection).as_raw_fd(),
            Stranger::Far(stream, _) => stream.as_raw_fd(),
        })
    }

    /// Returns the earliest deadline of the proofs.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.strangers.iter().map(|(until, _)| *until).min()
    }
}

/// Result of reading from a connection.
enum Heard {
    /// The proof is incomplete.
    More(Stranger),
    /// The connection has passed the proof.
    Proved(Line),
}
