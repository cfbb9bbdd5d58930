//! Files striped over servers: transport and striping, but no file system of its own.
//!
//! | module | content |
//! |---|---|
//! | [`stripes`] | assignment of bytes to servers: pure |
//! | [`wire`] | frames, requests and replies |
//! | [`greeting`] | both ends prove that they know the key |
//! | [`walk`] | pieces of an access at one server |
//! | [`session`] | a server's work for one client: a pure state machine over a [`session::Store`] |
//! | [`root`] | the store: files beneath a directory, manifests |
//! | [`process`] | the server as a process: sockets around sessions |
//! | [`mount`] | addresses of servers, in a file of mode 0600 |
//! | [`client`] | one connection for each server, and transfers over several at a time |
//! | [`manifest`] | striping of a file, as text |
//! | [`groups`] | division of an access among servers |
//! | [`striped`] | the driver |
//! | [`errands`] | user commands on files of servers: list, copy, check |
//!
//! **Bytes stay at their offsets**: a server's file has its stripes at the offsets of the whole file, with
//! holes between them. So offsets are never translated. All servers of a *forward* mount may open the same
//! file of a shared file system. The parts of a *scratch* file can be joined by any program that copies
//! ranges.
//!
//! **Data paths** (table 7.2 of the paper). A server lends the open file to a client on its own host, which
//! then copies by itself. The server, which all clients share, has no work, and the data are copied only
//! once, by the kernel. For other clients, the bytes of a write follow their request immediately, and those
//! of a read follow its header. Asking for permission first would take a round trip in which the link is
//! idle. Bytes for which the server has no room wait in the sender's socket, which serves as the credit. A
//! server has a chunk of memory for each client ([`session::CHUNK_BYTES`]) and serves one chunk at a time
//! for each client that is ready.
//!
//! **Shapes instead of lists**: a view is sent once. From then on an access is a range of its stream, and
//! both ends compute its bytes, in the depth of the datatype ([`stripes::Ground`]).
//!
//! **Failures.** The access that finds a server lost returns an error that names it; the next access tries
//! to connect again. Data that were written and not synced may be lost with the host of a server. Its
//! *verifier* (as in NFSv3, RFC 1813 section 3.3.21) reveals that, and the next sync reports it.

pub mod client;
pub mod errands;
pub mod greeting;
pub mod groups;
pub mod manifest;
pub mod mount;
pub mod process;
pub mod root;
pub mod sealed_socket;
pub mod session;
pub mod striped;
pub mod stripes;
pub mod walk;
pub mod wire;

pub use mount::Mount;
pub use striped::Striped;
