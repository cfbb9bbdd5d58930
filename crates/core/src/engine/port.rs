//! What the engine needs of point-to-point communication: to start a send or a receive on a piece
//! of memory, and to ask whether it is complete.

use tutti_base::Result;

use crate::buffer::Buffer;

/// What became of an operation when it was started.
#[derive(Debug)]
pub enum Started<H> {
    /// It is already complete; there is nothing to ask for.
    Done,
    /// It goes on; [`Port::done`] tells when it ends.
    Pending(H),
}

/// Point-to-point communication as a schedule sees it: peers are ranks of the communicator, never this
/// one; messages of one (peer, lane) arrive in the order in which they were sent; lanes (below
/// [`tutti_coll::verify::LANES`]) are independent; nothing matches traffic of the user or of another
/// collective operation of the communicator.
pub trait Port {
    /// An operation under way.
    type Handle;

    /// Starts to send `buffer` to `peer`. May complete as late as when the peer receives it.
    ///
    /// # Errors
    /// Whatever point-to-point communication reports; the execution then ends with it.
    fn send(&mut self, peer: u32, lane: u16, buffer: Buffer) -> Result<Started<Self::Handle>>;

    /// Starts to receive exactly `buffer.bytes()` bytes from `peer`.
    ///
    /// # Errors
    /// As [`Port::send`]; also `Truncate` where the message is longer.
    fn recv(&mut self, peer: u32, lane: u16, buffer: Buffer) -> Result<Started<Self::Handle>>;

    /// Whether the operation is complete. After `true` the handle is dropped and not asked again.
    /// Does not wait; whether it drives progress is the port's affair.
    ///
    /// # Errors
    /// The failure of the operation, which ends it.
    fn done(&mut self, handle: &mut Self::Handle) -> Result<bool>;

    /// Gives an operation up (another one of the schedule failed): its memory is not touched after.
    fn cancel(&mut self, handle: Self::Handle);
}
