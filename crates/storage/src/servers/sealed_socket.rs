//! Socket between a client and a server: plain during the greeting, then sealed if both ends have agreed on
//! that (`tutti_seal`).

use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read};
use std::net::TcpStream;
use std::os::fd::AsFd;

use tutti_base::config::Protection;
use tutti_seal::{Cover, Sealed, StreamKeys};
use tutti_sys::socket;

/// Returns the least protection of connections between clients and servers for a setting.
pub fn cover(protection: Protection) -> Option<Cover> {
    Cover::demanded_by(protection)
}

/// Stream socket whose bytes are sealed after the greeting.
#[derive(Debug)]
pub struct SealedSocket {
    /// Socket that carries the plain or sealed bytes.
    pub stream: TcpStream,
    sealed: Option<Box<Sealed>>,
}

impl SealedSocket {
    /// Wraps a connection on which nothing is sealed yet.
    pub fn new(stream: TcpStream) -> SealedSocket {
        SealedSocket { stream, sealed: None }
    }

    /// Seals all later messages. `early` has arrived already.
    pub fn seal(&mut self, keys: &StreamKeys, early: &[u8]) {
        let mut sealed = Sealed::new(keys);
        sealed.incoming.append(early);
        self.sealed = Some(Box::new(sealed));
    }

    /// Returns true if all later messages are sealed.
    pub fn is_sealed(&self) -> bool {
        self.sealed.is_some()
    }

    /// Returns true if sealed bytes wait for room in the socket.
    pub fn is_pending(&self) -> bool {
        self.sealed.as_ref().is_some_and(|sealed| sealed.outgoing.is_pending())
    }

    /// Sends pending bytes. Returns true if none are left.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn flush(&mut self) -> io::Result<bool> {
        let Some(sealed) = &mut self.sealed else { return Ok(true) };
        let stream = &self.stream;
        sealed.flush(|bytes| socket::send(stream.as_fd(), &[IoSlice::new(bytes)]))
    }

    /// Sends bytes from `pieces`, as many as the socket has room for, and returns their number, at least
    /// one.
    ///
    /// # Errors
    /// Errors of the system; WouldBlock.
    pub fn send(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let stream = &self.stream;
        let taken = match &mut self.sealed {
            None => socket::send(stream.as_fd(), pieces)?,
            Some(sealed) => {
                sealed.write(pieces, |bytes| socket::send(stream.as_fd(), &[IoSlice::new(bytes)]))?
            }
        };
        if taken > 0 { Ok(taken) } else { Err(ErrorKind::WouldBlock.into()) }
    }

    /// Receives into `pieces`, in their order. Returns the number of bytes; 0 if the other end has closed
    /// the connection.
    ///
    /// # Errors
    /// Errors of the system; WouldBlock; InvalidData for bytes that the other end did not send.
    pub fn receive(&mut self, pieces: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let mut stream = &self.stream;
        let Some(sealed) = &mut self.sealed else { return stream.read_vectored(pieces) };
        loop {
            let taken = sealed.take_into(pieces)?;
            if taken > 0 {
                return Ok(taken);
            }
            let mut end = false;
            let filled = sealed.fill(|room| match stream.read(room) {
                Ok(count) => {
                    end = count == 0;
                    Ok(Some(count))
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => Ok(None),
                Err(error) => Err(error),
            });
            filled?;
            if end {
                return Ok(0);
            }
        }
    }
}
