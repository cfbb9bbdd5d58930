//! Interface of the engine to communication. A `Port` starts sends and receives and reports their
//! completion. A [`NodePort`] provides flags, banks, and exposed memory of other processes on the node.

use tutti_base::Result;
use tutti_base::trace::Level;
use tutti_coll::ir::Access;

use crate::buffer::Buffer;

/// Outcome of the start of an operation.
#[derive(Debug)]
pub enum Started<H> {
    /// The operation is complete already.
    Done,
    /// The operation is outstanding; [`Port::done`] reports its end.
    Pending(H),
}

/// Point-to-point communication for schedules.
///
/// - Peers are ranks of the communicator, never this one.
/// - Messages of one pair (peer, lane) arrive in the order of sending.
/// - Lanes (below [`tutti_coll::ir::LANES`]) are independent.
/// - No message matches traffic of the user or of another collective operation of the communicator.
pub trait Port: NodePort {
    /// Handle of an outstanding operation.
    type Handle;

    /// Starts to send `buffer` to `peer`. The send may complete as late as its receive.
    ///
    /// # Errors
    /// The errors of point-to-point communication, which end the execution.
    fn send(&mut self, peer: u32, lane: u16, buffer: Buffer) -> Result<Started<Self::Handle>>;

    /// Sends `buffer` to the members of `group` by multicast. Members that need single messages are added to
    /// `rest`. Returns false if there is no room now; the caller repeats the call.
    ///
    /// # Errors
    /// The same as of [`Port::send`].
    fn multicast(&mut self, group: &[u32], lane: u16, buffer: &Buffer, rest: &mut Vec<u32>) -> Result<bool> {
        let _ = (lane, buffer);
        rest.extend_from_slice(group);
        Ok(true)
    }

    /// Starts to receive exactly `buffer.bytes()` bytes from `peer`.
    ///
    /// # Errors
    /// The same as of [`Port::send`], and `Truncate` if the message is longer.
    fn recv(&mut self, peer: u32, lane: u16, buffer: Buffer) -> Result<Started<Self::Handle>>;

    /// Returns true if the operation is complete. The handle is then dropped and not used again. This
    /// function does not wait. An implementation may drive progress or not.
    ///
    /// # Errors
    /// The failure of the operation, which ends it.
    fn done(&mut self, handle: &mut Self::Handle) -> Result<bool>;

    /// Starts to write a window of the file from the data of all ranks, or to read it for them. The memory
    /// has one rank's data after the other. Only operations on files call this.
    ///
    /// # Errors
    /// The reason for which it cannot be started. Errors of the file are reported at the end of the
    /// operation.
    fn file(&mut self, window: u32, write: bool, memory: Buffer) -> Result<Started<Self::Handle>> {
        let _ = (window, write, memory);
        unreachable!("an operation on a file has one")
    }

    /// Processes messages that have arrived. Called between steps that move much data.
    fn look_around(&mut self) {}

    /// Abandons an operation because another one of the schedule has failed. Its memory is not touched any
    /// more.
    fn cancel(&mut self, handle: Self::Handle);
}

/// Location in the memory that a peer has exposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Rank that owns the memory.
    pub peer: u32,
    /// Number under which the owner has exposed it.
    pub slot: u16,
    /// Number of the entry if the memory is a table of entries, otherwise 0.
    pub entry: u32,
    /// Offset from the beginning of the memory or the entry, in packed bytes.
    pub offset: u64,
}

/// Memory to be exposed: one contiguous piece, or one for each rank. Each has a base and a length in bytes.
#[derive(Clone, Copy)]
pub enum Exposed<'a> {
    /// Contiguous memory: base and length in bytes.
    Run(*mut u8, u64),
    /// Table of entries: their number, and a function for base and length of each.
    Table(u32, &'a dyn Fn(u32) -> (*mut u8, u64)),
    /// Entries of one buffer, with known offsets.
    Rows(*mut u8, &'a Rows),
}

/// Entries of one buffer with their offsets.
#[derive(Clone, Debug)]
pub struct Rows {
    /// Offset of each entry from the base of the buffer, and its length in bytes.
    pub each: Box<[(usize, u64)]>,
    /// Number of the entry of this rank, which no other rank uses.
    pub own: u32,
    /// Total length of the entries for other ranks, in bytes.
    pub bytes: u64,
    /// Length of the longest of these, in bytes.
    pub longest: u64,
}

impl Rows {
    /// Returns the entries of the buffer of rank `own`.
    pub fn new(each: Box<[(usize, u64)]>, own: u32) -> Rows {
        let others = each.iter().enumerate().filter(|(row, _)| *row != own as usize);
        let (bytes, longest) = others.fold((0, 0), |(sum, most), (_, &(_, one))| (sum + one, one.max(most)));
        Rows { each, own, bytes, longest }
    }
}

impl Exposed<'_> {
    /// Returns the number of contiguous pieces.
    #[inline]
    pub fn runs(&self) -> u32 {
        match self {
            Exposed::Run(..) => 1,
            Exposed::Table(count, _) => *count,
            Exposed::Rows(_, rows) => rows.each.len() as u32,
        }
    }

    /// Returns base and length of piece `number`.
    #[inline]
    pub fn run(&self, number: u32) -> (*mut u8, u64) {
        match self {
            Exposed::Run(base, bytes) => (*base, *bytes),
            Exposed::Table(_, entry) => entry(number),
            Exposed::Rows(base, rows) => {
                let (offset, bytes) = rows.each[number as usize];
                (base.wrapping_add(offset), bytes)
            }
        }
    }
}

/// Access to the node for one operation whose schedule is in program order. Peers are ranks of the
/// communicator, including this one.
pub trait NodePort {
    /// Returns true if the operation may use its flags and its bank: no rank needs their old content any
    /// more. It must return true before any other function is called.
    fn granted(&mut self) -> bool;

    /// Sets the own flag. Earlier writes are visible to a rank that finds the flag set.
    fn post(&mut self, flag: u16, value: u64);

    /// Returns true if the flag of `peer` is at least `value`.
    fn reached(&mut self, peer: u32, flag: u16, value: u64) -> bool;

    /// Returns the bank of `peer`, with as many bytes as the operation requested. The own bank is written,
    /// others are read.
    fn bank(&mut self, peer: u32) -> *mut u8;

    /// Exposes own memory to the other ranks until this rank leaves the operation.
    ///
    /// # Errors
    /// The reason for which the memory cannot be exposed.
    fn expose(&mut self, slot: u16, memory: Exposed<'_>, access: Access) -> Result<()>;

    /// True for a light port, which handles exposed memory by copies only: see [`NodePort::carry`].
    const LIGHT: bool = false;

    /// Passes a copy of own memory to the other ranks, for a light port. Returns false if that is not
    /// possible.
    fn carry(&mut self, slot: u16, memory: Exposed<'_>, access: Access) -> bool {
        let _ = (slot, memory, access);
        false
    }

    /// Returns the address of a peer's copy, for a light port, if there is one.
    fn carried(&mut self, from: Remote) -> Option<*const u8> {
        let _ = from;
        None
    }

    /// Returns true if other ranks may access own memory, so that this rank must wait for them at the end.
    fn lends(&self) -> bool {
        true
    }

    /// Returns the address in this process of a peer's memory, if it is mapped here.
    fn direct(&mut self, from: Remote, bytes: u64) -> Option<*const u8>;

    /// Copies exposed memory of a peer to `into`, whose length determines the number of bytes.
    ///
    /// # Errors
    /// The reason for which the copy stopped.
    fn pull(&mut self, from: Remote, into: &Buffer) -> Result<()>;

    /// Copies `from` to exposed memory of a peer.
    ///
    /// # Errors
    /// The reason for which the copy stopped.
    fn push(&mut self, from: &Buffer, into: Remote) -> Result<()>;

    /// Returns a key for traces. It is equal for this operation at all ranks and differs from other
    /// operations.
    fn mark(&self) -> u64 {
        0
    }

    /// Returns a peer's world rank and its distance, for traces.
    fn whereabouts(&self, peer: u32) -> (u32, Level) {
        (peer, Level::Node)
    }

    /// Ends the operation at this rank. Other ranks may still read its bank.
    fn leave(&mut self);
}
