//! Sockets between hosts for ranks that are restored from a checkpoint. Daemons connect with each other
//! before there are any ranks, and pass the sockets to them.
//!
//! The set lists both ends of every connection. The daemon of one end connects to that of the other, sends
//! the index of the connection, and proves that it belongs to the job. Then each daemon gives its socket to
//! the rank that had that end. A connection may have one end only, because the other side had not accepted it
//! yet. It is restored as a closed one, as if the other side had refused it, and the ranks connect again.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use tutti_base::PortRange;
use tutti_checkpoint::image::{ConnectionEnd, Socket};
use tutti_checkpoint::process::network::pairs;
use tutti_sys::socket::{self, SAFE_SEGMENT_BYTES};
use tutti_sys::{event, kept_socket};

use crate::tree::handshake::{self, Secret};

/// Maximum time for all connections of a host.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_micros(200);
/// Maximum number of connections that have not sent a complete greeting.
const MOST_STRANGERS: usize = 1024;
/// Bytes of a greeting: index of the end in the list, and proof.
const GREETING: usize = 8 + 32;

/// Sockets for the restored ranks of one host.
#[derive(Debug)]
pub struct Sockets {
    interface: IpAddr,
    ports: Option<PortRange>,
    /// Streams of connections, by open file.
    connections: BTreeMap<u32, TcpStream>,
    /// Pairs of host number and address, for the hosts of the job that have IPv4.
    pub hosts: Vec<(u32, Ipv4Addr)>,
}

/// Incoming connection whose greeting is incomplete or not checked.
struct Stranger {
    stream: TcpStream,
    said: Vec<u8>,
}

/// Data that a daemon needs to connect with the others.
#[derive(Debug)]
pub struct Meeting<'a> {
    /// Number of this host.
    pub host: u32,
    /// Ends of all connections of the job.
    pub all: &'a [ConnectionEnd],
    /// Listening address of the daemon of each host.
    pub addresses: &'a [(u32, SocketAddr)],
    /// Shared secret of the job.
    pub secret: &'a Secret,
    /// Listening socket of this daemon.
    pub door: TcpListener,
}

impl Sockets {
    /// Creates the value without connections. Ranks listen at `interface`.
    pub fn new(interface: IpAddr, ports: Option<PortRange>) -> Sockets {
        Sockets { interface, ports, connections: BTreeMap::new(), hosts: Vec::new() }
    }

    /// Connects with the daemons of the other hosts.
    ///
    /// # Errors
    /// Fails with the host that cannot be reached or does not connect.
    pub fn meet(&mut self, meeting: &Meeting<'_>) -> io::Result<()> {
        let addresses = meeting.addresses.iter();
        let version_4 = addresses.filter_map(|&(host, address)| match address.ip().to_canonical() {
            IpAddr::V4(address) => Some((host, address)),
            IpAddr::V6(_) => None,
        });
        self.hosts = version_4.collect();
        let others = pairs(meeting.all);
        meeting.door.set_nonblocking(true)?;
        let mut expected = BTreeMap::new();
        let mut strangers = Vec::new();
        for (place, (end, other)) in meeting.all.iter().zip(&others).enumerate() {
            let Some(other) = *other else { continue };
            if end.host != meeting.host {
                continue;
            }
            // The end that comes first in the list connects.
            if place > other {
                expected.insert(place, end.file);
                continue;
            }
            let stream = meeting.connect(end, other)?;
            self.connections.insert(end.file, stream);
            accept(&meeting.door, &mut strangers);
        }
        let until = Instant::now() + PATIENCE;
        while !expected.is_empty() {
            accept(&meeting.door, &mut strangers);
            for index in (0..strangers.len()).rev() {
                if listen(&mut strangers[index]) {
                    continue;
                }
                let stranger = strangers.swap_remove(index);
                if let Some(place) = meeting.recognise(&stranger.said)
                    && let Some(file) = expected.remove(&place)
                {
                    self.connections.insert(file, stranger.stream);
                }
            }
            if Instant::now() > until {
                let first = expected.keys().next().and_then(|&place| others[place]);
                let host = first.map_or(0, |place| meeting.all[place].host);
                let what = format!(
                    "{} connections with the daemons of other hosts do not come, one of host {host} among them",
                    expected.len()
                );
                return Err(io::Error::new(io::ErrorKind::TimedOut, what));
            }
            if !expected.is_empty() {
                std::thread::sleep(LOOK);
            }
        }
        Ok(())
    }

    /// Returns the socket for open file `file`.
    ///
    /// # Errors
    /// Fails if a system call fails.
    pub fn open(&self, file: u32, kind: Socket, flags: i32) -> io::Result<OwnedFd> {
        let socket: OwnedFd = match kind {
            Socket::Datagrams => socket::datagrams(self.interface, self.ports)?.into(),
            Socket::Listener => socket::listen(self.interface, self.ports, None)?.into(),
            Socket::Unconnected => kept_socket::closed_connection()?.into(),
            Socket::Connection(_) => match self.connections.get(&file) {
                Some(stream) => {
                    stream.set_nodelay(true)?;
                    stream.try_clone()?.into()
                }
                None => kept_socket::closed_connection()?.into(),
            },
        };
        kept_socket::mark(socket.as_fd())?;
        if flags & libc::O_NONBLOCK != 0 {
            event::set_nonblocking(socket.as_fd())?;
        }
        Ok(socket)
    }
}

impl Meeting<'_> {
    /// Returns the proof for an end. It is a hash value, because these are compared in constant time.
    fn proof(&self, place: usize) -> blake3::Hash {
        handshake::derive(self.secret, &format!("connection {place} of ranks made again")).into()
    }

    /// Connects, on behalf of `end`, to the daemon of the end at index `other`.
    fn connect(&self, end: &ConnectionEnd, other: usize) -> io::Result<TcpStream> {
        let there = self.all[other].host;
        let named = |error: io::Error| {
            io::Error::new(
                error.kind(),
                format!("the daemon of host {there} cannot be connected with: {error}"),
            )
        };
        let address = self.addresses.iter().find(|(host, _)| *host == there);
        let address = address.ok_or_else(|| named(io::ErrorKind::NotFound.into()))?.1;
        let segment_bytes = end.ends.is_narrow.then_some(SAFE_SEGMENT_BYTES);
        let mut stream = socket::connect_within(address, segment_bytes, PATIENCE).map_err(named)?;
        let greeting = [&(other as u64).to_le_bytes()[..], self.proof(other).as_bytes()].concat();
        stream.write_all(&greeting).map_err(named)?;
        Ok(stream)
    }

    /// Returns the index of the end that a greeting names, if its proof is valid.
    fn recognise(&self, said: &[u8]) -> Option<usize> {
        let (place, proof) = said.split_first_chunk::<8>()?;
        let place = usize::try_from(u64::from_le_bytes(*place)).ok()?;
        let is_own = self.all.get(place).is_some_and(|end| end.host == self.host);
        let proof: [u8; 32] = proof.try_into().ok()?;
        (is_own && self.proof(place) == blake3::Hash::from_bytes(proof)).then_some(place)
    }
}

fn accept(door: &TcpListener, strangers: &mut Vec<Stranger>) {
    while strangers.len() < MOST_STRANGERS
        && let Ok((stream, _)) = door.accept()
    {
        if stream.set_nonblocking(true).is_ok() {
            strangers.push(Stranger { stream, said: Vec::new() });
        }
    }
}

/// Reads a greeting. Returns true if more bytes must arrive.
fn listen(stranger: &mut Stranger) -> bool {
    let mut room = [0; GREETING];
    let wanted = GREETING - stranger.said.len();
    match stranger.stream.read(&mut room[..wanted]) {
        Ok(0) => false,
        Ok(count) => {
            stranger.said.extend_from_slice(&room[..count]);
            stranger.said.len() < GREETING
        }
        Err(error) => matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
    }
}

#[cfg(test)]
mod tests {
    use tutti_checkpoint::image::Ends;

    use super::*;

    /// Connects three hosts with each other. One of the connections has one end only.
    #[test]
    fn each_end_gets_its_connection() {
        let end = |host, file, local: u16, peer: u16| {
            let address = |port| SocketAddr::from(([10, 0, 0, 1], port));
            let ends = Ends { local: address(local), peer: address(peer), is_narrow: false };
            ConnectionEnd { host, file, ends }
        };
        let all = vec![
            end(0, 4, 1, 2),
            end(1, 4, 2, 1),
            end(2, 9, 3, 1),
            end(0, 5, 1, 3),
            end(1, 6, 8, 9),
            end(2, 7, 5, 6),
            end(1, 8, 6, 5),
        ];
        let doors: Vec<TcpListener> = (0..3).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let addresses: Vec<(u32, SocketAddr)> =
            (0..).zip(&doors).map(|(host, door)| (host, door.local_addr().unwrap())).collect();
        let foreign = TcpStream::connect(addresses[1].1).unwrap();
        let made: Vec<Sockets> = std::thread::scope(|scope| {
            let (all, addresses) = (&all, &addresses);
            let begin = |(host, door): (u32, TcpListener)| {
                scope.spawn(move || {
                    let mut sockets = Sockets::new("127.0.0.1".parse().unwrap(), None);
                    let secret = Secret::default();
                    sockets.meet(&Meeting { host, all, addresses, secret: &secret, door }).unwrap();
                    sockets
                })
            };
            let threads: Vec<_> = (0..).zip(doors).map(begin).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        drop(foreign);
        for (one, file, other, its) in [(0, 4, 1, 4), (2, 9, 0, 5), (2, 7, 1, 8)] {
            let [mut from, mut to] =
                [(one, file), (other, its)].map(|(host, file): (usize, u32)| &made[host].connections[&file]);
            from.write_all(b"here").unwrap();
            let mut got = [0; 4];
            to.set_nonblocking(false).unwrap();
            to.read_exact(&mut got).unwrap();
            assert_eq!(&got, b"here");
        }
        assert!(!made[1].connections.contains_key(&6));
        let kind = Socket::Connection(all[4].ends);
        let closed = TcpStream::from(made[1].open(6, kind, 0).unwrap());
        assert_eq!((&closed).read(&mut [0; 4]).unwrap(), 0);
        assert!(kept_socket::is_marked(closed.as_fd()));
    }
}
