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

    /// Begins a renewal with a fresh random salt. What was given back by the checkpoint has been appended.
    pub fn renew(&mut self, own: &Salt) {
        self.incoming.renew(own);
        self.outgoing.renew(own);
    }
}
