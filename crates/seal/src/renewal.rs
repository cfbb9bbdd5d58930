//! Both sides of a sealed stream, with new keys after a restart from a checkpoint.
//!
//! Keys and numbers are memory of the process, so a checkpoint keeps them. A restarted process would seal
//! other content under numbers that the process of before has used as well. Therefore each end of a restarted
//! stream draws a new salt, sends it in the clear, and seals nothing before it has the other's. Keys are
//! derived from both. Numbers go on.
//!
//! What was sent before the checkpoint and had not been received is opened with the keys of before. It is at
//! most what the checkpoint gives back ([`Incoming::append`]) and the rest of a record that was sent in part.
//! So records of another continuation of the same checkpoint are refused.

use std::io::{self, IoSlice, IoSliceMut};

use crate::incoming::Incoming;
use crate::keys::StreamKeys;
use crate::outgoing::Outgoing;
use crate::{Forged, Salt};

/// A sealed stream in both directions.
#[derive(Debug)]
pub struct Sealed {
    /// What this end sends.
    pub outgoing: Outgoing,
    /// What it receives; content is taken by [`Sealed::take`].
    pub incoming: Incoming,
}

impl Sealed {
    /// A fresh connection.
    pub fn new(keys: &StreamKeys) -> Sealed {
        Sealed { outgoing: Outgoing::new(keys), incoming: Incoming::new(keys) }
    }

    /// See [`Incoming::take`].
    ///
    /// # Errors
    /// See there.
    #[inline]
    pub fn take(&mut self, into: &mut [u8]) -> Result<usize, Forged> {
        let taken = self.incoming.take(into);
        if let Some(salts) = self.incoming.take_answer() {
            self.outgoing.renewed(&salts);
        }
        taken
    }

    /// Moves content that has arrived into `pieces`, in their order; returns how many bytes.
    ///
    /// # Errors
    /// InvalidData: see [`Incoming::take`].
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

    /// Receives once by `receive`, which returns the number of bytes that it moved, or None if there are none
    /// now. The result is that, but None too if they end no record and `receive` has no more.
    ///
    /// # Errors
    /// Those of `receive`.
    pub fn fill(
        &mut self,
        receive: impl FnOnce(&mut [u8]) -> io::Result<Option<usize>>,
    ) -> io::Result<Option<usize>> {
        let room = self.incoming.room();
        let bytes = room.len();
        let Some(count) = receive(room)? else { return Ok(None) };
        self.incoming.arrived(count);
        // There may be more only if the room was too short for it.
        let is_vain = count > 0 && count < bytes && !self.incoming.has_content();
        Ok((!is_vain).then_some(count))
    }

    /// Sends what is pending by `send`, which returns how many bytes it took. The result is true if nothing
    /// is pending then.
    ///
    /// # Errors
    /// Those of `send`.
    pub fn flush(&mut self, mut send: impl FnMut(&[u8]) -> io::Result<usize>) -> io::Result<bool> {
        while !self.outgoing.pending().is_empty() {
            match send(self.outgoing.pending())? {
                0 => return Ok(false),
                count => self.outgoing.sent(count),
            }
        }
        Ok(!self.outgoing.is_pending())
    }

    /// Seals the beginning of what `pieces` are together, and sends it by `send`. Returns how many bytes it
    /// took from them. What `send` does not take is pending.
    ///
    /// # Errors
    /// Those of `send`.
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

    /// Begins a renewal with a fresh random salt, before anything more is sealed.
    /// [`Sealed::renew_incoming`] follows.
    pub fn renew_outgoing(&mut self, own: &Salt) {
        self.outgoing.renew(own);
    }

    /// Goes on with a renewal, before anything more is received. What the checkpoint gives back has been
    /// appended.
    pub fn renew_incoming(&mut self, own: &Salt) {
        self.incoming.renew(own);
    }
}
