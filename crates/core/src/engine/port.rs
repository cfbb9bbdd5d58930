//! What the engine needs of the world: to start a send or a receive on a piece of memory and to ask whether it
//! is complete; and of the node ([`NodePort`]) flags, banks, and the exposed memory of others.

use tutti_base::Result;
use tutti_base::trace::Level;
use tutti_coll::ir::Access;

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
/// [`tutti_coll::ir::LANES`]) are independent; nothing matches traffic of the user or of another
/// collective operation of the communicator.
pub trait Port: NodePort {
    /// An operation under way.
    type Handle;

    /// Starts to send `buffer` to `peer`. May complete as late as when the peer receives it.
    ///
    /// # Errors
    /// Whatever point-to-point communication reports; the execution then ends with it.
    fn send(&mut self, peer: u32, lane: u16, buffer: Buffer) -> Result<Started<Self::Handle>>;

    /// Sends `buffer` to all of `group` at once, as far as that can be done; those to whom it has to be sent
    /// one by one are added to `rest`. False: not now, ask again.
    ///
    /// # Errors
    /// As [`Port::send`].
    fn multicast(&mut self, group: &[u32], lane: u16, buffer: &Buffer, rest: &mut Vec<u32>) -> Result<bool> {
        let _ = (lane, buffer);
        rest.extend_from_slice(group);
        Ok(true)
    }

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

    /// Starts to write what ranks have given of a window of the file, or to read what they have asked for: in memory one rank's after
    /// the other. For operations on a file.
    ///
    /// # Errors
    /// Why it cannot be started; what goes wrong with the file is told at the end of the operation.
    fn file(&mut self, window: u32, write: bool, memory: Buffer) -> Result<Started<Self::Handle>> {
        let _ = (window, write, memory);
        unreachable!("an operation on a file has one")
    }

    /// Takes in what has arrived meanwhile: asked between steps that move much data.
    fn look_around(&mut self) {}

    /// Gives an operation up (another one of the schedule failed): its memory is not touched after.
    fn cancel(&mut self, handle: Self::Handle);
}

/// Where in the memory that a peer has exposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Whose.
    pub peer: u32,
    /// Under which number.
    pub slot: u16,
    /// Which entry, where the memory is a table of entries; else 0.
    pub entry: u32,
    /// Packed bytes from the beginning (of the entry).
    pub offset: u64,
}

/// Memory to be exposed: one run, or one for each rank. Base and bytes.
#[derive(Clone, Copy)]
pub enum Exposed<'a> {
    /// One run.
    Run(*mut u8, u64),
    /// So many entries, by their number.
    Table(u32, &'a dyn Fn(u32) -> (*mut u8, u64)),
    /// Entries of one buffer, of which more is known.
    Rows(*mut u8, &'a Rows),
}

/// Entries of one buffer.
#[derive(Clone, Debug)]
pub struct Rows {
    /// Of each, where it begins from the base of the buffer on, and its bytes.
    pub each: Box<[(usize, u64)]>,
    /// Which is of this rank: it is for none of the others.
    pub own: u32,
    /// Bytes of those that are for others.
    pub bytes: u64,
    /// Bytes of the longest of these.
    pub longest: u64,
}

impl Rows {
    /// Those of rank `own`.
    pub fn new(each: Box<[(usize, u64)]>, own: u32) -> Rows {
        let others = each.iter().enumerate().filter(|(row, _)| *row != own as usize);
        let (bytes, longest) = others.fold((0, 0), |(sum, most), (_, &(_, one))| (sum + one, one.max(most)));
        Rows { each, own, bytes, longest }
    }
}

impl Exposed<'_> {
    /// How many runs it has.
    #[inline]
    pub fn runs(&self) -> u32 {
        match self {
            Exposed::Run(..) => 1,
            Exposed::Table(count, _) => *count,
            Exposed::Rows(_, rows) => rows.each.len() as u32,
        }
    }

    /// Run `number`.
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

/// What a schedule in program order needs of the node, for one operation. Peers are ranks of the communicator and may be
/// this one.
pub trait NodePort {
    /// Whether the operation may use its flags and its bank by now: whoever needs what lay there before has left.
    /// Asked until it is true; everything below comes after.
    fn granted(&mut self) -> bool;

    /// Sets the own flag. What was written before is visible to whoever finds it reached.
    fn post(&mut self, flag: u16, value: u64);

    /// Whether the flag of `peer` is at least `value`.
    fn reached(&mut self, peer: u32, flag: u16, value: u64) -> bool;

    /// The bank of `peer`: as many bytes as the operation was said to need. Own: to be written; of others: to be read.
    fn bank(&mut self, peer: u32) -> *mut u8;

    /// Lets the others at own memory until this rank leaves.
    ///
    /// # Errors
    /// Why the memory cannot be exposed.
    fn expose(&mut self, slot: u16, memory: Exposed<'_>, access: Access) -> Result<()>;

    /// It moves exposed memory by value, and nothing else of it: see [`NodePort::carry`].
    const LIGHT: bool = false;

    /// Of a light port: gives the others a copy of own memory; whether that can be done.
    fn carry(&mut self, slot: u16, memory: Exposed<'_>, access: Access) -> bool {
        let _ = (slot, memory, access);
        false
    }

    /// Of a light port: where the copy is, if the peer has given one.
    fn carried(&mut self, from: Remote) -> Option<*const u8> {
        let _ = from;
        None
    }

    /// Whether others may get at own memory, so that this rank has to stay until they are done.
    fn lends(&self) -> bool {
        true
    }

    /// The memory of a peer as an address of this process, if it is mapped here.
    fn direct(&mut self, from: Remote, bytes: u64) -> Option<*const u8>;

    /// Copies exposed memory of a peer to `into`, which says how much.
    ///
    /// # Errors
    /// Why it stopped.
    fn pull(&mut self, from: Remote, into: &Buffer) -> Result<()>;

    /// Copies `from` to exposed memory of a peer.
    ///
    /// # Errors
    /// Why it stopped.
    fn push(&mut self, from: &Buffer, into: Remote) -> Result<()>;

    /// For a trace: what the messages and flags of this operation have in common at all ranks, and no other operation has.
    fn mark(&self) -> u64 {
        0
    }

    /// For a trace: a peer's rank in the world, and how far it is.
    fn whereabouts(&self, peer: u32) -> (u32, Level) {
        (peer, Level::Node)
    }

    /// The operation is over for this rank; others may still read its bank.
    fn leave(&mut self);
}
