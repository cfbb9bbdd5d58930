//! A socket between a client and a server: plain during the greeting, then sealed if both ends have agreed on
//! that (`tutti_seal`).

use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read};
use std::net::TcpStream;
use std::os::fd::AsFd;

use tutti_base::config::Protection;
use tutti_seal::{Cover, Sealed, StreamKeys};
use tutti_sys::socket;

/// Least cover of what clients and servers of a process send to each other.
pub fn cover(protection: Protection) -> Option<Cover> {
    match protection {
        Protection::Greeting => None,
        Protection::Authenticate => Some(Cover::Authenticated),
        Protection::Auto | Protection::Encrypt => Some(Cover::Encrypted),
    }
}

/// A stream socket whose bytes are sealed once the greeting is over.
#[derive(Debug)]
pub struct SealedSocket {
    /// The socket below the seal.
    pub stream: TcpStream,
    sealed: Option<Box<Sealed>>,
}

impl SealedSocket {
    /// A connection on which nothing is sealed yet.
    pub fn new(stream: TcpStream) -> SealedSocket {
        SealedSocket { stream, sealed: None }
    }

    /// Seals all that follows. `early` has arrived already.
    pub fn seal(&mut self, keys: &StreamKeys, early: &[u8]) {
        let mut sealed = Sealed::new(keys);
        sealed.incoming.append(early);
        self.sealed = Some(Box::new(sealed));
    }

    /// Returns true if all that follows is sealed.
    pub fn is_sealed(&self) -> bool {
        self.sealed.is_some()
    }

    /// Returns true if sealed bytes wait for room in the socket.
    pub fn is_pending(&self) -> bool {
        self.sealed.as_ref().is_some_and(|sealed| sealed.outgoing.is_pending())
    }

    /// Sends what is pending; true if nothing is any more.
    ///
    /// # Errors
    /// What the system reports.
    pub fn flush(&mut self) -> io::Result<bool> {
        let Some(sealed) = &mut self.sealed else { return Ok(true) };
        let stream = &self.stream;
        sealed.flush(|bytes| send(stream, &[IoSlice::new(bytes)]))
    }

    /// Takes bytes from `pieces`, as many as there is room for, at least one.
    ///
    /// # Errors
    /// What the system reports; WouldBlock.
    pub fn send(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let stream = &self.stream;
        let taken = match &mut self.sealed {
            None => send(stream, pieces)?,
            Some(sealed) => sealed.write(pieces, |bytes| send(stream, &[IoSlice::new(bytes)]))?,
        };
        if taken > 0 { Ok(taken) } else { Err(ErrorKind::WouldBlock.into()) }
    }

    /// Receives into `pieces`, in their order; 0: the other end has closed.
    ///
    /// # Errors
    /// What the system reports; WouldBlock; InvalidData for what the other end did not send.
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

/// Bytes that the socket took. A program that is not told otherwise dies of the signal that a plain write to
/// a server that was killed raises, so the system is asked not to send it.
fn send(stream: &TcpStream, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
    loop {
        match socket::send(stream.as_fd(), pieces) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(0),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}
