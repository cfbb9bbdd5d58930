//! The datagram endpoint: one UDP socket for all peers.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, RawFd};

use tutti_sys::event;

use super::address;
use crate::link::Peer;

/// Longest datagram: what an Ethernet frame of 1500 bytes leaves behind the headers of IPv6 and UDP.
pub const DATAGRAM_BYTES: usize = 1452;
/// Most datagrams that one poll takes.
const PER_POLL: usize = 32;

/// The socket, and the addresses of peers that were spoken to.
#[derive(Debug)]
pub struct Datagrams {
    socket: UdpSocket,
    peers: HashMap<u32, SocketAddr>,
}

impl Datagrams {
    /// A socket on a port of its own at `interface`.
    ///
    /// # Errors
    /// What the system reports, for example that it has no such interface.
    pub fn new(interface: IpAddr) -> std::io::Result<Datagrams> {
        let socket = UdpSocket::bind((interface, 0))?;
        event::set_nonblocking(socket.as_fd())?;
        Ok(Datagrams { socket, peers: HashMap::new() })
    }

    /// Where peers reach it.
    ///
    /// # Errors
    /// What the system reports.
    pub fn address(&self) -> std::io::Result<Vec<u8>> {
        self.socket.local_addr().map(address::encode)
    }

    /// Keeps the address of a peer; false if it is none.
    pub fn learn(&mut self, peer: Peer, bytes: &[u8]) -> bool {
        let address = address::decode(bytes);
        if let Some(address) = address {
            self.peers.insert(peer.0, address);
        }
        address.is_some()
    }

    /// Sends one: false if the system has no room now. What cannot be sent otherwise is lost, as datagrams may be.
    pub fn send(&self, to: Peer, bytes: &[u8]) -> bool {
        let Some(&address) = self.peers.get(&to.0) else { return true };
        match self.socket.send_to(bytes, address) {
            Err(error) => error.kind() != ErrorKind::WouldBlock,
            Ok(_) => true,
        }
    }

    /// Takes what has arrived, a bounded number. True if there may be more.
    pub fn receive(&self, mut arrived: impl FnMut(&[u8])) -> bool {
        let mut room = [0; 2048];
        for _ in 0..PER_POLL {
            match self.socket.recv_from(&mut room) {
                Ok((bytes, _)) => arrived(&room[..bytes]),
                // An error that a datagram of ours came back with: it is lost, and will be sent again.
                Err(error) if error.kind() != ErrorKind::WouldBlock => {}
                Err(_) => return false,
            }
        }
        true
    }

    /// Whether something has arrived.
    pub fn pending(&self) -> bool {
        event::is_readable(self.socket.as_fd())
    }

    /// What a sleeper watches.
    pub fn descriptor(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Bytes of memory for peers.
    pub fn memory_bytes(&self) -> usize {
        self.peers.capacity() * size_of::<(u32, SocketAddr)>()
    }
}

/// The address by which this host reaches others, for a job that names no interface: the one the system would send from.
pub fn default_interface() -> IpAddr {
    // Connecting a datagram socket sends nothing.
    let chosen = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|socket| {
        socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9))?;
        socket.local_addr()
    });
    chosen.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |address| address.ip())
}
