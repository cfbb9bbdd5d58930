//! Who has come to a port and has not proved yet that it knows the port's name.
//!
//! Anybody can connect, and say nothing. So all who have come are listened to at once, each until one deadline for its whole
//! proof; and of too many the first makes room. Who has proved itself while another was let in waits for the next who accepts.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

use tutti_sys::letter::{self, Partial};
use tutti_sys::local_socket::Connection;

use super::line::{FarLine, Line, Proving};

/// How long the whole proof may take: also one that is interrupted by a pause of some seconds.
const PROOF: Duration = Duration::from_secs(30);
/// Most who prove at a time, and most who have.
const MOST: usize = 128;

/// What somebody has shown so far.
#[derive(Debug)]
enum Stranger {
    /// On this host: a letter with the key of the port.
    Near(Connection, Partial),
    /// On another host: see [`super::line`].
    Far(TcpStream, Proving),
}

/// All who have come.
#[derive(Debug)]
pub(super) struct Acceptor {
    key: u64,
    secret: [u8; 32],
    strangers: VecDeque<(Instant, Stranger)>,
    proved: VecDeque<Line>,
}

impl Acceptor {
    /// Of a port whose name has this key, and which others prove to know by `secret`.
    pub(super) fn new(key: u64, secret: [u8; 32]) -> Acceptor {
        Acceptor { key, secret, strangers: VecDeque::new(), proved: VecDeque::new() }
    }

    /// Adds a connection of this user on this host.
    pub(super) fn near(&mut self, connection: Connection) {
        self.add(Stranger::Near(connection, Partial::default()));
    }

    /// Somebody has come over the network.
    pub(super) fn far(&mut self, stream: TcpStream) {
        let proving = stream.set_nonblocking(true).and_then(|()| Proving::new(&self.secret));
        if let Ok(proving) = proving {
            self.add(Stranger::Far(stream, proving));
        }
    }

    fn add(&mut self, stranger: Stranger) {
        if self.strangers.len() == MOST {
            self.strangers.pop_front();
        }
        self.strangers.push_back((Instant::now() + PROOF, stranger));
    }

    /// Listens to all, and lets the first in who has proved itself. Does not wait.
    pub(super) fn admit(&mut self) -> Option<Line> {
        let now = Instant::now();
        for _ in 0..self.strangers.len() {
            let Some((until, stranger)) = self.strangers.pop_front() else { break };
            match self.listen(stranger) {
                Ok(Heard::More(stranger)) if now < until => self.strangers.push_back((until, stranger)),
                Ok(Heard::Proved(line)) if self.proved.len() < MOST => self.proved.push_back(line),
                // Too late, too many, or somebody else.
                _ => {}
            }
        }
        self.proved.pop_front()
    }

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
                    // No byte more than the proof: what follows is the line's.
                    let mut bytes = vec![0; proving.wanted()];
                    let count = match stream.read(&mut bytes) {
                        Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                        Ok(count) => count,
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                        Err(error) => return Err(error),
                    };
                    // The first bytes on this connection: there is room for them.
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

    /// What becomes readable when one of them says more.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        self.strangers.iter().map(|(_, stranger)| match stranger {
            Stranger::Near(connection, _) => std::os::fd::AsFd::as_fd(connection).as_raw_fd(),
            Stranger::Far(stream, _) => stream.as_raw_fd(),
        })
    }

    /// When the first of them has to have proved itself.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.strangers.iter().map(|(until, _)| *until).min()
    }
}

/// What somebody has said.
enum Heard {
    More(Stranger),
    Proved(Line),
}
