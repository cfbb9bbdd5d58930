//! Both sides of a sealed stream, with new keys after a restart from a checkpoint.
//!
//! Keys and numbers are memory of the process, so a checkpoint saves them. A restarted process would seal
//! other content under numbers that the original process has used as well. Therefore each end of a
//! restarted stream draws a new salt and sends it in the clear. It seals nothing before it has the other
//! end's salt. New keys are derived from both. The numbers continue.
//!
//! Data that were sent before the checkpoint and not received yet are opened with the old keys. These are
//! at most the bytes that the checkpoint returns ([`Incoming::append`]) and the rest of a record that was
//! sent in part. So records of another continuation of the same checkpoint are rejected.

use std::io::{self, IoSlice, IoSliceMut};

use crate::incoming::Incoming;
use crate::keys::StreamKeys;
use crate::outgoing::Outgoing;
use crate::{Forged, Salt};

/// Sealed stream in both directions.
#[derive(Debug)]
pub struct Sealed {
    /// Sending side of the stream.
    pub outgoing: Outgoing,
    /// Receiving side of the stream. Its content is taken by [`Sealed::take`].
    pub incoming: Incoming,
}

impl Sealed {
    /// Creates both sides of a fresh connection.
    pub fn new(keys: &StreamKeys) -> Sealed {
        Sealed { outgoing: Outgoing::new(keys), incoming: Incoming::new(keys) }
    }

    /// Moves content into `into`, like [`Incoming::take`], and completes a renewal that the other end has
    /// answered.
    ///
    /// # Errors
    /// Errors of `Incoming::take`.
    #[inline]
    pub fn take(&mut self, into: &mut [u8]) -> Result<usize, Forged> {
        let taken = self.incoming.take(into);
        if let Some(salts) = self.incoming.take_answer() {
            self.outgoing.renewed(&salts);
        }
        taken
    }

    /// Moves content that has arrived into `pieces`, in their order. Returns the number of bytes.
    ///
    /// # Errors
    /// InvalidData for the errors of [`Incoming::take`].
    pub fn take_into(&mut self, pieces: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let mut taken = 0;
        for piece in pieces {
            match self.take(piece) {
                Ok(count) => taken += count,
                Err(forged) if taken == 0 => return Err(forged.into()),
                // The next call fails again.
                Err(_) => break,
            }
            if !self.incoming.has_content() {
                break;
            }
        }
        Ok(taken)
    }

    /// Receives once by `receive`, which returns the number of bytes, or `None` if there are none now.
    /// Returns the same number. Returns `None` also if the bytes complete no record and `receive` has no
    /// more.
    ///
    /// # Errors
    /// Errors of `receive`.
    pub fn fill(
        &mut self,
        receive: impl FnOnce(&mut [u8]) -> io::Result<Option<usize>>,
    ) -> io::Result<Option<usize>> {
        let room = self.incoming.room();
        let bytes = room.len();
        let Some(count) = receive(room)? else { return Ok(None) };
        self.incoming.arrived(count);
        // There can be more bytes only if the buffer was too short for them.
        let is_vain = count > 0 && count < bytes && !self.incoming.has_content();
        Ok((!is_vain).then_some(count))
    }

    /// Sends pending records by `send`, which returns the number of bytes that it accepted. Returns true if
    /// nothing is pending afterwards.
    ///
    /// # Errors
    /// Errors of `send`.
    pub fn flush(&mut self, mut send: impl FnMut(&[u8]) -> io::Result<usize>) -> io::Result<bool> {
        while !self.outgoing.pending().is_empty() {
            match send(self.outgoing.pending())? {
                0 => return Ok(false),
                count => self.outgoing.sent(count),
            }
        }
        Ok(!self.outgoing.is_pending())
    }

    /// Seals as much of the beginning of `pieces` as possible, and sends it by `send`. Returns the number
    /// of bytes taken from `pieces`. Records that `send` does not accept are pending.
    ///
    /// # Errors
    /// Errors of `send`.
    pub fn write(
        &mut self,
        pieces: &[IoSlice<'_>],
        mut send: impl FnMut(&[u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let mut taken = 0;
        while self.flush(&mut send)? {
            let mut skipped = taken;
            let left = pieces.iter().filter_map(|piece| {
                let now = skipped.min(piece.len());
                skipped -= now;
                piece.get(now..).filter(|left| !left.is_empty())
            });
            let now = self.outgoing.put(left);
            if now == 0 {
                break;
            }
            taken += now;
        }
        Ok(taken)
    }

    /// Starts a renewal with a fresh random salt, before anything more is sealed. The caller then calls
    /// [`Sealed::renew_incoming`].
    pub fn renew_outgoing(&mut self, own: &Salt) {
        self.outgoing.renew(own);
    }

    /// Continues a renewal, before anything more is received. The caller has appended the bytes that the
    /// checkpoint returns.
    pub fn renew_incoming(&mut self, own: &Salt) {
        self.incoming.renew(own);
    }
}
