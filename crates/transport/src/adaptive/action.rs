//! What the driver of the machines has to do.

use crate::link::Peer;

/// A connection, as driver and machines name it: small numbers. That of a connection that is gone is used
/// again when all actions have been done, so that an event that comes before that does no harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub u32);

/// What the driver has to do, but for sending datagrams (`Adaptive::transmit`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Find the address of this peer in the directory, then call `Adaptive::reachable` or
    /// `Adaptive::gone`.
    LookUp(Peer),
    /// The peer itself told its address: use it, then call `Adaptive::reachable`.
    Address(Peer, Vec<u8>),
    /// Connect to the peer's listening `address`; then `Adaptive::established` or `Adaptive::closed`.
    Connect {
        /// With whom.
        peer: Peer,
        /// Its name from now on.
        connection: ConnectionId,
        /// Where the peer listens.
        address: Vec<u8>,
        /// For the connection manager.
        private_data: Vec<u8>,
    },
    /// Records that are found on this connection may be delivered from now on, not before.
    Open(ConnectionId),
    /// Put the end mark behind the last record sent on this connection; nothing is sent on it any more.
    Finish(ConnectionId),
    /// Close this connection when all sends on it, its end mark included, are complete; there may be none any
    /// more. No event of it may be reported after this action was done.
    Disconnect(ConnectionId),
    /// Connect to where the peer listens, by segments that pass every path, for its datagrams; then
    /// `Adaptive::reached` if that can be told, and `Adaptive::established` or `Adaptive::closed`. What
    /// comes on it goes to `Adaptive::contacted`, at any time.
    Contact {
        /// With whom.
        peer: Peer,
        /// Its name from now on.
        connection: ConnectionId,
        /// For the connection manager.
        private_data: Vec<u8>,
    },
    /// Send this as the first frame on a connection that carries datagrams.
    Prove(ConnectionId, Vec<u8>),
    /// Have this peer told that it has to connect to this process (`Adaptive::called`), which cannot
    /// connect to it.
    Call(Peer),
    /// This peer was called and has not come for long: it may compute. A remark.
    Blocked(Peer),
    /// Long datagrams to this peer get lost, short ones do not. A remark.
    Swallowed(Peer),
    /// Neither of the two reaches the other: this peer cannot be spoken to any more.
    Unreachable(Peer),
    /// A connection in use broke: records may be lost, so this peer cannot be spoken to any more.
    Lost(Peer),
}

/// The answer to somebody who wants to connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Accept, with this private data; then `Adaptive::established` or `Adaptive::closed`. Records that
    /// arrive on it are kept until [`Action::Open`].
    Accept {
        /// Who it is: proved.
        peer: Peer,
        /// Its name from now on.
        connection: ConnectionId,
        /// For the connection manager.
        private_data: Vec<u8>,
    },
    /// Reject: unknown, forged, or not wanted any more.
    Reject,
}
