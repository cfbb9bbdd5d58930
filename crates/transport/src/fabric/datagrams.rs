//! The datagram endpoint: one UDP socket for all peers.

use std::cell::Cell;
use std::io::{Error, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, RawFd};

use tutti_base::PortRange;
use tutti_sys::{event, interface, kept, kept_socket, socket};

/// Longest datagram: what an Ethernet frame of 1500 bytes leaves behind the headers of IPv6 and UDP.
pub const DATAGRAM_BYTES: usize = 1452;
/// Highest number of datagrams that one poll takes.
const PER_POLL: usize = 32;

/// The socket of all datagrams.
#[derive(Debug)]
pub struct Datagrams {
    socket: UdpSocket,
    /// True if other code has closed the descriptor of the socket.
    is_closed: Cell<bool>,
}

impl Datagrams {
    /// Opens a socket at `interface`, on one of `ports` if they are given. If `is_kept`, a checkpoint of the
    /// job keeps it.
    ///
    /// # Errors
    /// The error of the system, for example that it has no such interface.
    pub fn new(interface: IpAddr, ports: Option<PortRange>, is_kept: bool) -> std::io::Result<Datagrams> {
        // What is not marked yet is a socket of the program's own, and a checkpoint is refused for it.
        let critical = kept::Critical::enter();
        let socket = socket::datagrams(interface, ports)?;
        if is_kept {
            kept_socket::mark(socket.as_fd())?;
        }
        drop(critical);
        event::set_nonblocking(socket.as_fd())?;
        Ok(Datagrams { socket, is_closed: Cell::new(false) })
    }

    /// Returns the address at which peers reach the socket.
    ///
    /// # Errors
    /// The error of the system.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Sends a datagram. Returns false if the system has no room now. Other failures lose the datagram, as
    /// datagrams may be lost.
    pub fn send(&self, to: SocketAddr, bytes: &[u8]) -> bool {
        match self.socket.send_to(bytes, to) {
            Err(error) => self.is_lost(&error),
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
                Err(error) if self.is_lost(&error) && !self.is_closed() => {}
                Err(_) => return false,
            }
        }
        true
    }

    /// Returns true if the program has closed the descriptor of the socket, or has given its number to
    /// another file: nothing will come or go here any more.
    pub fn is_closed(&self) -> bool {
        self.is_closed.get()
    }

    /// Returns true if an error is one datagram's loss, as against no room or nothing there now.
    fn is_lost(&self, error: &Error) -> bool {
        if socket::is_gone(error) {
            self.is_closed.set(true);
        }
        error.kind() != ErrorKind::WouldBlock
    }

    /// Returns the descriptor that a sleeper watches.
    pub fn descriptor(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// Returns the address by which this host reaches others, for a job that names no interface: the one the
/// system would send from, else one that leads anywhere.
pub fn default_interface() -> IpAddr {
    interface::of_this_host("", None).unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
}
