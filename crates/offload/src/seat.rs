//! A rank's place in the kernel: the tables of its job, mapped, and the socket by which it calls operations
//! and is woken.
//!
//! # Safety
//! The tables are memory of the kernel's program, which changes it at any time: words are read and written by
//! atomics, blocks only where the protocol says that they are at rest (before the own call, and after an
//! operation is over until its record is used again).
#![allow(unsafe_code)]

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::time::Duration;

use tutti_coll::lower::{AREAS, CHANNELS, EVENTS, Packet, Program, RULES};
use tutti_sys::bpf::TableShape;
use tutti_sys::local_socket::Connection;
use tutti_sys::memory::Mapping;
use tutti_sys::{event, socket};
use tutti_transport::adaptive::tag::Key;

use crate::desk::{self, Answer, DESCRIPTORS, MESSAGE_BYTES, Request, TABLES};
use crate::layout::{
    AREA_BYTES, AREA_ENTRIES, COUNTERS, EVENT_ENTRIES, Entry, PORT, PROGRAMS, RECORD_BYTES, RECORD_ENTRIES,
    RECORD_STRIDE, RULE_ENTRIES, TooManyPeers, entries,
};
use crate::packet::{self, Line};

/// Limit on the time that netd takes to answer. Loading takes some 100 ms, finding neighbours less, and on a
/// busy machine more.
#[derive(Clone, Copy, Debug)]
pub struct AnswerLimit {
    /// After this time there is no answer.
    pub limit: Duration,
    /// Called once, when the answer has taken a second.
    pub tell: fn(),
}

impl Default for AnswerLimit {
    fn default() -> AnswerLimit {
        AnswerLimit { limit: Duration::from_secs(5), tell: || () }
    }
}

/// Time after which the user is told about the wait.
const TELL_AFTER: Duration = Duration::from_secs(1);

/// What a rank has of the kernel's program.
#[derive(Debug)]
pub struct Seat {
    netd: Connection,
    patience: AnswerLimit,
    socket: UdpSocket,
    job: u32,
    key: Key,
    rules: Mapping,
    events: Mapping,
    records: Mapping,
    areas: Mapping,
    counters: Mapping,
    /// The program stays at the interface as long as these are open.
    _attachments: Vec<OwnedFd>,
}

/// A group of ranks in the kernel.
#[derive(Debug)]
pub struct Group {
    slot: usize,
    line: Line,
    peers: Vec<(u32, Ipv4Addr)>,
}

/// Words of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The operation it is of.
    pub sequence: u32,
    /// The events that have come.
    pub arrived: u32,
    /// The last operation here that was over for this rank.
    pub done: u32,
    /// The last one here on which members disagree.
    pub disputed: u32,
    /// Events whose senders have said that they wait themselves, since [`Seat::forget_heard`].
    pub heard: u32,
}

/// How netd is.
///
/// # Errors
/// Why it cannot be asked.
pub fn status() -> Result<String, String> {
    let netd = connect()?;
    match ask(&netd, &Request::Status, &[], AnswerLimit::default())? {
        (Answer::Granted(_, text), _) => Ok(text),
        (Answer::Refused(text), _) => Err(text),
    }
}

fn connect() -> Result<Connection, String> {
    let connected = Connection::connect_service(Path::new(desk::DIRECTORY), desk::NAME);
    connected.map_err(|error| match error.kind() {
        io::ErrorKind::ConnectionRefused => "no `tutti netd` runs on this host".to_string(),
        io::ErrorKind::PermissionDenied => format!("no `tutti netd` of an administrator runs here: {error}"),
        _ => format!("`tutti netd` cannot be reached: {error}"),
    })
}

fn ask(
    netd: &Connection,
    request: &Request,
    lent: &[BorrowedFd<'_>],
    patience: AnswerLimit,
) -> Result<(Answer, Vec<OwnedFd>), String> {
    let told = |error: io::Error| format!("`tutti netd` does not answer: {error}");
    netd.send(&request.write(), lent).map_err(told)?;
    let mut bytes = [0; MESSAGE_BYTES];
    let first = patience.limit.min(TELL_AFTER);
    let answered = netd.receive_within(&mut bytes, first).or_else(|error| match error.kind() {
        io::ErrorKind::TimedOut if patience.limit > first => {
            (patience.tell)();
            netd.receive_within(&mut bytes, patience.limit - first)
        }
        _ => Err(error),
    });
    let (count, descriptors) = answered.map_err(told)?;
    let answer = Answer::read(&bytes[..count]).ok_or("`tutti netd` is of another version")?;
    Ok((answer, descriptors))
}

impl Seat {
    /// Asks netd for a program. `key` is for this use of the job alone, `address` where other hosts reach
    /// this one.
    ///
    /// # Errors
    /// Why there is none.
    pub fn take(job: u32, key: [u8; 16], address: Ipv4Addr, patience: AnswerLimit) -> Result<Seat, String> {
        let netd = connect()?;
        let told = |error: io::Error| format!("the kernel's tables: {error}");
        let socket = socket::datagrams(IpAddr::V4(address), None).map_err(told)?;
        socket::omit_checksums(&socket).map_err(told)?;
        event::set_nonblocking(socket.as_fd()).map_err(told)?;
        let request = Request::Begin { job, key, address };
        let mut descriptors = match ask(&netd, &request, &[socket.as_fd()], patience)? {
            (Answer::Granted(..), descriptors) if [DESCRIPTORS, TABLES].contains(&descriptors.len()) => {
                descriptors
            }
            (Answer::Granted(..), _) => return Err("`tutti netd` is of another version".into()),
            (Answer::Refused(text), _) => return Err(text),
        };
        let attachments = descriptors.split_off(TABLES);
        let map = |table: usize| map_table(descriptors[table].as_fd(), TABLE_SHAPES[table]);
        Ok(Seat {
            rules: map(0)?,
            events: map(1)?,
            records: map(2)?,
            areas: map(3)?,
            counters: map(4)?,
            netd,
            patience,
            socket,
            job,
            key: Key::from_bytes(key),
            _attachments: attachments,
        })
    }

    /// Makes a group known to the kernel.
    ///
    /// # Errors
    /// Why netd does not.
    pub fn join(&self, group: u32, rank: u32, peers: Vec<(u32, Ipv4Addr)>) -> Result<Group, String> {
        let request = Request::Join { group, rank, peers: peers.clone() };
        match ask(&self.netd, &request, &[], self.patience)? {
            (Answer::Granted(slot, _), _) => {
                let line = Line { job: self.job, group, key: self.key };
                Ok(Group { slot: slot as usize, line, peers })
            }
            (Answer::Refused(text), _) => Err(text),
        }
    }

    /// Gives the kernel a program of a group; before anybody calls an operation of it.
    ///
    /// # Errors
    /// It has to do with others than the group's peers.
    ///
    /// # Panics
    /// With a number that no program has: a bug of the caller.
    pub fn install(&self, group: &Group, number: usize, program: &Program) -> Result<(), TooManyPeers> {
        assert!(number < PROGRAMS);
        let ranks: Vec<u32> = group.peers.iter().map(|(rank, _)| *rank).collect();
        let (rules, events) = entries(program, &ranks)?;
        let place = group.slot * PROGRAMS + number;
        fill(&self.rules, place * RULES, &rules);
        fill(&self.events, place * EVENTS, &events);
        fence(Ordering::SeqCst);
        Ok(())
    }

    /// Sends a packet: a call to the own interface, a question to that of a peer. One that is lost is sent
    /// again.
    pub fn send(&self, group: &Group, packet: &Packet) {
        // A call is caught on its way out, so that it does not matter to whom.
        let peer = group.peers.iter().find(|(rank, _)| *rank == packet.to).or(group.peers.first());
        let Some((_, address)) = peer else { return };
        let _ = self.socket.send_to(&packet::write(packet, &group.line), SocketAddr::from((*address, PORT)));
    }

    /// Reads the words of the record that operation `sequence` of `group` uses in the kernel's table.
    ///
    /// Operations share a record in turn, so the words may be of another operation: compare
    /// [`Seen::sequence`], `done` and `disputed` with `sequence`. Each word is loaded with acquire
    /// ordering, one after the other, while the kernel may be writing. The result is therefore not a
    /// consistent snapshot.
    pub fn look(&self, group: &Group, sequence: u32) -> Seen {
        let word = |at: usize| self.word(group, sequence, at).load(Ordering::Acquire);
        Seen { sequence: word(4), arrived: word(12), done: word(20), disputed: word(24), heard: word(32) }
    }

    /// Before a question: what was heard is of earlier ones.
    pub fn forget_heard(&self, group: &Group, sequence: u32) {
        self.word(group, sequence, 32).store(0, Ordering::Relaxed);
    }

    /// Whether an operation is over for this rank.
    #[inline]
    pub fn is_done(&self, group: &Group, sequence: u32) -> bool {
        self.word(group, sequence, 20).load(Ordering::Acquire) == sequence
    }

    /// Asks for a packet when an operation is over; who sleeps looks once more after this.
    pub fn wants_waking(&self, group: &Group, sequence: u32) {
        self.word(group, sequence, 28).store(sequence, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// A block of an operation that is over.
    pub fn block(&self, group: &Group, sequence: u32, area: u8, into: &mut [u8]) {
        let place = self.record_place(group, sequence) * AREAS + usize::from(area);
        assert!(into.len() <= AREA_BYTES && usize::from(area) < AREAS);
        // SAFETY: the block lies within the mapping; its operation is over and its record not used again, so
        // that nobody writes there.
        unsafe {
            let from = self.areas.base().as_ptr().add(place * AREA_BYTES);
            std::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len());
        }
    }

    /// The socket that is readable when the kernel has sent something.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Takes what has come to the socket: nothing but that it came matters.
    pub fn hear(&self) {
        let mut bytes = [0; 64];
        // As many as there can be operations under way; what is left wakes once more.
        for _ in 0..2 * CHANNELS {
            if self.socket.recv_from(&mut bytes).is_err() {
                break;
            }
        }
    }

    /// What the kernel has counted, as [`crate::layout::Counter`] says.
    pub fn counters(&self) -> [u64; COUNTERS] {
        std::array::from_fn(|number| {
            // SAFETY: the word lies within the mapping and is aligned.
            let counter = unsafe { self.counters.base().cast::<AtomicU64>().add(number).as_ref() };
            counter.load(Ordering::Relaxed)
        })
    }

    fn record_place(&self, group: &Group, sequence: u32) -> usize {
        group.slot * CHANNELS as usize + (sequence % CHANNELS) as usize
    }

    fn word(&self, group: &Group, sequence: u32, at: usize) -> &AtomicU32 {
        let offset = self.record_place(group, sequence) * RECORD_STRIDE + at;
        assert!(offset + 4 <= self.records.bytes() && at.is_multiple_of(4));
        // SAFETY: within the mapping, as was just checked, and aligned, since strides are multiples of 8.
        unsafe { self.records.base().add(offset).cast::<AtomicU32>().as_ref() }
    }
}

/// Tables in the order in which they are handed out.
const TABLE_SHAPES: [TableShape; TABLES] = [
    TableShape { entry_bytes: size_of::<Entry>(), entries: RULE_ENTRIES },
    TableShape { entry_bytes: size_of::<Entry>(), entries: EVENT_ENTRIES },
    TableShape { entry_bytes: RECORD_BYTES, entries: RECORD_ENTRIES },
    TableShape { entry_bytes: AREA_BYTES, entries: AREA_ENTRIES },
    TableShape { entry_bytes: size_of::<u64>(), entries: COUNTERS },
];

/// Maps a table of the kernel's program. Anything else is refused: memory that its owner can truncate would
/// end this process (SIGBUS).
fn map_table(fd: BorrowedFd<'_>, expected: TableShape) -> Result<Mapping, String> {
    if TableShape::read(fd) != Some(expected) {
        return Err("`tutti netd` hands out what is no table of its program".into());
    }
    let bytes = expected.entry_bytes.next_multiple_of(8) * expected.entries;
    Mapping::beginning(fd, bytes.next_multiple_of(4096))
        .map_err(|error| format!("the kernel's tables: {error}"))
}

/// Writes entries of a table.
fn fill(table: &Mapping, first: usize, entries: &[Entry]) {
    assert!((first + entries.len()) * size_of::<Entry>() <= table.bytes());
    for (place, entry) in entries.iter().enumerate() {
        // SAFETY: within the mapping, as was just checked, and aligned.
        let word = unsafe { table.base().cast::<AtomicU64>().add(first + place).as_ref() };
        word.store(u64::from_le_bytes(*entry), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_another_process_is_no_table() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        for shape in TABLE_SHAPES {
            assert!(map_table(file.as_fd(), shape).unwrap_err().contains("no table"));
        }
    }
}
