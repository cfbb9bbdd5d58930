//! Driver of the multicast machines over a socket for IP multicast and the link between hosts.
//!
//! A checkpoint keeps the socket as a datagram socket without its contents: datagrams may get lost. In a
//! restored process the socket is in no group, and is replaced.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::time::{Duration, Instant};

use tutti_sys::{event, kept, kept_socket, multicast};

use super::packet::PACKET_BYTES;
use super::{Batch, Multicast, MulticastCounters, MulticastSettings};
use crate::link::{Full, Header, Link, Peer, Sink};

/// Highest number of bytes of one receive call: datagrams that the kernel has put together.
const ROOM_BYTES: usize = 64 << 10;
/// Highest number of receive calls of one poll.
const PER_POLL: usize = 16;
/// Delay before another attempt when something found no room.
const NO_ROOM: Duration = Duration::from_micros(200);
/// Usual waiting time for room above which a waiting thread sleeps at once.
const LONG: Duration = Duration::from_micros(50);

/// Multicast of one process.
#[derive(Debug)]
pub struct Casting {
    machine: Multicast,
    interface: Ipv4Addr,
    socket_state: SocketState,
    /// Number of restores from a checkpoint when the socket was opened; `None` if no checkpoint keeps it.
    restarts: Option<u32>,
    /// True if the interface takes one datagram a call.
    single: bool,
    /// True if the socket has refused more.
    is_full: bool,
    /// Time since which nothing more could be sent, followed by the usual length of that state.
    refused: Option<Instant>,
    usual: Duration,
    room: Box<[u8]>,
    start: Instant,
}

#[derive(Debug)]
enum SocketState {
    /// No operation has needed the socket yet.
    Closed,
    Open(UdpSocket),
    /// Reason why there is no socket.
    Shut(String),
}

impl Casting {
    /// Prepares multicast over the interface with this address. Nothing is opened before it is needed. If
    /// `is_kept`, a checkpoint of the job keeps its sockets.
    pub fn new(settings: &MulticastSettings, interface: Ipv4Addr, is_kept: bool) -> Casting {
        let (room, start) = (Box::default(), Instant::now());
        Casting {
            machine: Multicast::new(settings),
            interface,
            socket_state: SocketState::Closed,
            restarts: is_kept.then(kept::restarts),
            single: false,
            is_full: false,
            refused: None,
            usual: Duration::ZERO,
            room,
            start,
        }
    }

    /// Listens to the group of the job; whether that can be done.
    pub fn join(&mut self) -> bool {
        self.renew();
        if matches!(self.socket_state, SocketState::Closed) {
            self.open();
            self.room = vec![0; ROOM_BYTES].into();
        }
        matches!(self.socket_state, SocketState::Open(_))
    }

    fn open(&mut self) {
        let opened = multicast::join(self.interface, self.machine.group()).and_then(|socket| {
            if self.restarts.is_some() {
                kept_socket::mark(socket.as_fd())?;
            }
            Ok(socket)
        });
        self.socket_state =
            opened.map_or_else(|error| SocketState::Shut(error.to_string()), SocketState::Open);
    }

    /// Joins the group again after a restore from a checkpoint, over the interface that the process has now.
    fn renew(&mut self) {
        if self.restarts.is_none_or(|restarts| restarts == kept::restarts()) {
            return;
        }
        self.restarts = Some(kept::restarts());
        let SocketState::Open(socket) = &self.socket_state else { return };
        if let Ok(SocketAddr::V4(now)) = socket.local_addr() {
            self.interface = *now.ip();
        }
        self.open();
    }

    /// Returns the reason why there is no multicast here, if known.
    pub fn refusal(&self) -> Option<&str> {
        if let SocketState::Shut(reason) = &self.socket_state { Some(reason) } else { None }
    }

    /// Multicasts a test. What cannot be sent is not heard.
    pub fn probe(&mut self, nonce: u64) {
        let probe = self.machine.probe(nonce);
        let SocketState::Open(socket) = &self.socket_state else { return };
        if let Err(error) = multicast::send(socket, self.machine.group(), &probe, PACKET_BYTES) {
            self.socket_state = SocketState::Shut(error.to_string());
        }
    }

    /// Returns true if the tests of all these were heard.
    pub fn has_heard(&self, nonce: u64, of: &[Peer]) -> bool {
        self.machine.has_heard(nonce, of)
    }

    /// Returns true if some receivers of what this process multicasts do not hear.
    pub fn has_deaf(&self) -> bool {
        self.machine.has_deaf() || matches!(self.socket_state, SocketState::Shut(_))
    }

    /// Returns true if all that this process has multicast is there.
    pub fn is_at_rest(&self) -> bool {
        self.machine.is_at_rest()
    }

    /// Returns true if it was ever wanted.
    pub fn is_used(&self) -> bool {
        !matches!(self.socket_state, SocketState::Closed)
    }

    /// Returns the counts so far.
    pub fn counters(&self) -> MulticastCounters {
        self.machine.counters()
    }

    /// Sends a record to peers that `link` leads to: see [`Link::multicast`].
    ///
    /// # Errors
    /// [`Full`].
    pub fn send(
        &mut self,
        link: &mut impl Link,
        to: &[Peer],
        header: Header,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]),
        rest: &mut Vec<Peer>,
    ) -> Result<(), Full> {
        self.join();
        let sent = self.machine.send(self.start.elapsed(), to, header, bytes, fill, rest);
        self.transmit(link);
        self.note_refusal(sent.is_err());
        sent
    }

    /// Learns how long it takes until more can be sent.
    fn note_refusal(&mut self, is_refused: bool) {
        match self.refused {
            None if is_refused => self.refused = Some(Instant::now()),
            Some(since) if !is_refused => {
                self.usual = (7 * self.usual + since.elapsed()) / 8;
                self.refused = None;
            }
            _ => {}
        }
    }

    /// Returns true if more cannot be sent before the link, or receivers, have gone on for longer than it
    /// takes to sleep and wake up.
    pub fn waits_long(&self) -> bool {
        self.refused.is_some() && self.usual >= LONG
    }

    /// Returns the descriptor that becomes writable when the link takes more, if it does not now.
    pub fn wants_room(&self) -> Option<RawFd> {
        let SocketState::Open(socket) = &self.socket_state else { return None };
        (self.is_full && !event::is_writable(socket.as_fd())).then(|| socket.as_raw_fd())
    }

    /// Returns the next record that was handed back: see [`Link::handed_back`].
    pub fn handed_back(&mut self) -> Option<(Peer, Header, Vec<u8>)> {
        self.machine.handed_back()
    }

    /// Takes a record of the link's own, which the reliable link has delivered.
    pub fn told(&mut self, from: Peer, header: Header, payload: &[u8], sink: &mut impl Sink) {
        let listens = self.join();
        self.machine.told(self.start.elapsed(), from, header, payload, listens, sink);
    }

    /// Takes datagrams that have arrived, and sends what is due. Returns true if anything was taken.
    pub fn poll(&mut self, link: &mut impl Link, sink: &mut impl Sink) -> bool {
        self.renew();
        let Casting { machine, socket_state, room, start, .. } = self;
        let SocketState::Open(socket) = socket_state else { return false };
        let mut taken = false;
        for _ in 0..PER_POLL {
            // What went wrong with one is as if it were lost.
            let Ok(Some((bytes, each))) = multicast::receive(socket, room) else { break };
            for datagram in room[..bytes].chunks(each) {
                machine.datagram(start.elapsed(), datagram, sink);
            }
            taken = true;
        }
        taken |= machine.poll(start.elapsed(), sink);
        self.transmit(link);
        taken
    }

    /// Prepares a sleep: appends the descriptor to watch and returns the latest end.
    pub fn before_sleep(&self, descriptors: &mut Vec<RawFd>) -> Option<Instant> {
        let SocketState::Open(socket) = &self.socket_state else { return None };
        descriptors.push(socket.as_raw_fd());
        let due = self.start + self.machine.deadline(self.wants_room().is_none())?;
        Some(due.max(Instant::now() + NO_ROOM))
    }

    fn transmit(&mut self, link: &mut impl Link) {
        let Casting { machine, socket_state, single, is_full, start, .. } = self;
        let group = machine.group();
        let mut broken = None;
        let mut send = |batch: Batch<'_>| {
            let SocketState::Open(socket) = &*socket_state else { return true };
            if !*single {
                match multicast::send(socket, group, batch.bytes, batch.each) {
                    Ok(sent) => return sent,
                    Err(error) if !is_of_batches(&error, &batch) => broken = Some(error),
                    Err(_) => *single = true,
                }
            }
            // What has left of a batch that is tried again is known by its numbers.
            let mut datagrams = batch.bytes.chunks(batch.each);
            broken.is_some()
                || datagrams.all(|one| multicast::send(socket, group, one, batch.each).unwrap_or(true))
        };
        *is_full = false;
        let wire = |batch: Batch<'_>| {
            let sent = send(batch);
            *is_full |= !sent;
            sent
        };
        machine.transmit(start.elapsed(), wire, |peer, header, payload| {
            link.try_send(peer, header, payload).is_ok()
        });
        if let Some(error) = broken {
            // Everybody is deaf from now on; what is under way is repaired.
            self.socket_state = SocketState::Shut(error.to_string());
        }
    }
}

/// Returns true if an error may be about many datagrams a call.
fn is_of_batches(error: &io::Error, batch: &Batch<'_>) -> bool {
    batch.bytes.len() > batch.each && error.kind() != io::ErrorKind::WouldBlock
}
