//! Bytes in both directions over one socket, sealed if the two ends have agreed on that in the greeting.
//!
//! A checkpoint stops no rank between the look whether it was restarted and the end of what it sends or
//! receives ([`Critical`]): a restarted rank seals nothing with the keys of before (`tutti_seal::renewal`).

use std::io::{self, IoSlice, IoSliceMut, Read};
use std::net::TcpStream;
use std::os::fd::AsFd;

use tutti_seal::{Root, Salt, Sealed, StreamKeys};
use tutti_sys::job::Secret;
use tutti_sys::kept::{self, Critical};
use tutti_sys::socket;

/// The bytes of one connection, sealed or plain.
#[derive(Debug)]
pub struct Wire {
    socket: TcpStream,
    seal: Option<Box<Seal>>,
}

#[derive(Debug)]
struct Seal {
    both: Sealed,
    /// Restarts of this process from a checkpoint at the last derivation of keys.
    restarts: u32,
    /// Salt of a renewal of which the receiving side does not know yet.
    renewal: Option<Salt>,
}

/// Draws a random salt for new keys.
///
/// # Errors
/// When the system has no randomness.
pub fn salt() -> io::Result<Salt> {
    Ok(Secret::random()?.0)
}

/// Derives the root of the keys of connections between ranks.
pub fn root(secret: &[u8; 32]) -> Root {
    Root::new(secret, "ranks")
}

impl Wire {
    /// Wraps a socket that does not block. Without keys, bytes are sent unchanged.
    pub fn new(socket: TcpStream, keys: Option<&StreamKeys>) -> Wire {
        let seal = keys.map(|keys| {
            Box::new(Seal { both: Sealed::new(keys), restarts: kept::restarts(), renewal: None })
        });
        Wire { socket, seal }
    }

    /// Returns the socket below the seal.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Bytes of memory for records.
    pub fn memory_bytes(&self) -> usize {
        let both = self.seal.as_ref().map(|seal| &seal.both);
        both.map_or(0, |both| both.outgoing.memory_bytes() + both.incoming.memory_bytes())
    }

    /// Returns true if a read would find something without the socket.
    #[inline]
    pub fn has_content(&self) -> bool {
        self.seal.as_ref().is_some_and(|seal| seal.both.incoming.has_content())
    }

    /// Returns true if sealed bytes wait for room in the socket.
    #[inline]
    pub fn is_pending(&self) -> bool {
        self.seal.as_ref().is_some_and(|seal| seal.both.outgoing.is_pending())
    }

    /// Sends what is pending; true if nothing is any more.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn flush(&mut self) -> io::Result<bool> {
        let Some(seal) = &mut self.seal else { return Ok(true) };
        let _critical = Critical::enter();
        seal.follow_restart()?;
        let socket = &self.socket;
        seal.both.flush(|bytes| socket::send(socket.as_fd(), &[IoSlice::new(bytes)]))
    }

    /// Takes bytes from `pieces` in their order, as many as there is room for: how many. They are sent, or
    /// pending.
    ///
    /// # Errors
    /// The connection is broken.
    #[inline]
    pub fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match &mut self.seal {
            None => socket::send(self.socket.as_fd(), pieces),
            Some(seal) => seal.write(&self.socket, pieces),
        }
    }

    /// Bytes that came, in the order of `pieces`; `None`: none now. 0: the other end has closed.
    ///
    /// # Errors
    /// The connection is broken, or what came was not sealed by the other end.
    #[inline]
    pub fn read(&mut self, pieces: &mut [IoSliceMut<'_>]) -> io::Result<Option<usize>> {
        match &mut self.seal {
            None => receive(&self.socket, pieces),
            Some(seal) => seal.read(&self.socket, pieces),
        }
    }

    /// Takes bytes that were taken out of the socket before, if they have to be opened. Returns false if they
    /// are content.
    pub fn give_back(&mut self, bytes: &[u8]) -> bool {
        let Some(seal) = &mut self.seal else { return false };
        seal.both.incoming.append(bytes);
        true
    }
}

impl Seal {
    /// Notices that this process was made from a checkpoint.
    #[inline]
    fn follow_restart(&mut self) -> io::Result<()> {
        let restarts = kept::restarts();
        if restarts != self.restarts {
            let salt = salt()?;
            self.both.renew_outgoing(&salt);
            (self.renewal, self.restarts) = (Some(salt), restarts);
        }
        Ok(())
    }

    fn write(&mut self, socket: &TcpStream, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let _critical = Critical::enter();
        self.follow_restart()?;
        self.both.write(pieces, |bytes| socket::send(socket.as_fd(), &[IoSlice::new(bytes)]))
    }

    fn read(&mut self, socket: &TcpStream, pieces: &mut [IoSliceMut<'_>]) -> io::Result<Option<usize>> {
        loop {
            let taken = self.both.take_into(pieces)?;
            if taken > 0 {
                return Ok(Some(taken));
            }
            let _critical = Critical::enter();
            // What was taken out of the socket before comes first.
            if kept::has_given_back() {
                return Ok(None);
            }
            self.follow_restart()?;
            if let Some(salt) = self.renewal.take() {
                self.both.renew_incoming(&salt);
            }
            match self.both.fill(|room| received(socket, &mut [IoSliceMut::new(room)]))? {
                Some(count) if count > 0 => {}
                end => return Ok(end),
            }
        }
    }
}

/// Bytes that the socket had; `None`: none now.
#[inline]
pub(super) fn receive(socket: &TcpStream, pieces: &mut [IoSliceMut<'_>]) -> io::Result<Option<usize>> {
    let _critical = Critical::enter();
    // What was taken out of the socket before comes first.
    if kept::has_given_back() {
        return Ok(None);
    }
    received(socket, pieces)
}

#[inline]
fn received(mut socket: &TcpStream, pieces: &mut [IoSliceMut<'_>]) -> io::Result<Option<usize>> {
    loop {
        match socket.read_vectored(pieces) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other.map(Some),
        }
    }
}
