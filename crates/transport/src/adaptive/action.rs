//! Requests of the connection machines to their driver, and their decisions on incoming connections.

use crate::link::Peer;

/// A connection, as driver and machines name it: small numbers. That of a connection that is gone is used
/// again when all actions have been done, so that an event that comes before that does no harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub u32);

/// Request to the driver. Sending datagrams is not among them: see `Adaptive::transmit`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Look up the address of this peer in the directory. Then call `Adaptive::reachable` or
    /// `Adaptive::gone`.
    LookUp(Peer),
    /// Use this address, which the peer itself has sent. Then call `Adaptive::reachable`.
    Address(Peer, Vec<u8>),
    /// Connect to the listening `address` of the peer. Then call `Adaptive::established` or
    /// `Adaptive::closed`.
    Connect {
        /// Process that listens.
        peer: Peer,
        /// Name of the new connection.
        connection: ConnectionId,
        /// Address at which the peer listens for connections.
        address: Vec<u8>,
        /// Private data of the connection request.
        private_data: Vec<u8>,
    },
    /// Deliver the records that arrive on this connection; until now they were held back.
    Open(ConnectionId),
    /// Send the end mark after the last record on this connection. Nothing else is sent on it afterwards.
    Finish(ConnectionId),
    /// Close this connection once all sends on it are complete, the end mark included. There may be none
    /// left. Afterwards the driver reports no event of this connection.
    Disconnect(ConnectionId),
    /// Connect to the peer's listening address for its datagrams, with segments small enough for every path.
    /// Call `Adaptive::reached` if the driver can observe it, then `Adaptive::established` or
    /// `Adaptive::closed`. Frames that arrive on the connection go to `Adaptive::contacted`, at any time.
    Contact {
        /// Process that listens.
        peer: Peer,
        /// Name of the new connection.
        connection: ConnectionId,
        /// Private data of the connection request.
        private_data: Vec<u8>,
    },
    /// Send these bytes as the first frame on a connection that carries datagrams.
    Prove(ConnectionId, Vec<u8>),
    /// Request through the directory that this peer connects to this process (`Adaptive::called`), as this
    /// process cannot connect to the peer.
    Call(Peer),
    /// Remark: this peer was called long ago and has not connected. It may be computing.
    Blocked(Peer),
    /// Remark: long datagrams to this peer get lost, short ones arrive.
    Swallowed(Peer),
    /// Report that neither process reaches the other. No message can be sent to this peer any more.
    Unreachable(Peer),
    /// Report that a connection in use broke. Records may be lost, so no message can be sent to this peer any
    /// more.
    Lost(Peer),
}

/// Decision on an incoming connection request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Accept the connection with this private data. Then call `Adaptive::established` or `Adaptive::closed`.
    /// Records that arrive on it are held back until [`Action::Open`].
    Accept {
        /// Authenticated identity of the requesting process.
        peer: Peer,
        /// Name of the new connection.
        connection: ConnectionId,
        /// Private data of the acceptance.
        private_data: Vec<u8>,
    },
    /// Reject the request: the process is unknown, the proof is wrong, or the connection is no longer needed.
    Reject,
}
