//! Files striped over servers: transport and striping, not a file system.
//!
//! | module | what |
//! |---|---|
//! | [`stripes`] | which server has which bytes: pure |
//! | [`wire`] | frames, requests and replies |
//! | [`greeting`] | both ends prove that they know the key |
//! | [`walk`] | the pieces of an access at one server |
//! | [`session`] | what a server does for one client: a pure machine over a [`session::Store`] |
//! | [`root`] | the store: files beneath a directory, manifests |
//! | [`process`] | the server as a process: sockets around sessions |
//! | [`mount`] | where servers are, in a file of mode 0600 |
//! | [`client`] | one connection, and transfers over several at a time |
//! | [`manifest`] | how a file of servers is striped, as text |
//! | [`groups`] | what of an access is at which server |
//! | [`striped`] | the driver |
//! | [`errands`] | what people do with files of servers: list, copy, check |
//!
//! **Bytes stay at their offsets**: a server's file holds its stripes where the whole file has them, and
//! holes between. So no offset is ever translated, all servers of a *forward* mount may have opened the same
//! file of a shared file system, and the parts of a *scratch* file can be put together by any program that
//! copies ranges.
//!
//! **Who moves the data** (table 7.2 of the paper). A client on the server's host is lent the open file, and
//! copies by itself: the server, which all clients share, has no work at all, and the data are copied once,
//! as the kernel does it for a file of this host. For others the bytes of a write follow their request at
//! once and those of a read its header, however many: over a stream, asking first takes a journey in which
//! the link stands still, and what the server has no room for waits in the sender's socket, which is the
//! credit. A server has a chunk of memory a client ([`session::CHUNK_BYTES`]) and serves one chunk at a time
//! of each client that is ready.
//!
//! **No lists where there is a shape**: a view is told once; from then on an access is a range of its stream,
//! and both ends find by themselves which bytes are meant, in the depth of the datatype
//! ([`stripes::Ground`]).
//!
//! **Faults.** A server that is gone is an error that names it, for the access that finds it so; the next
//! access looks for it again. Data that were written and not synced may be lost with the host of a server:
//! its *verifier* (as NFSv3 has it, RFC 1813 section 3.3.21) tells, and the next sync reports it.

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
