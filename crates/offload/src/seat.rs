//! A rank's access to the kernel's program: the mapped tables of its job, and the socket by which it starts
//! operations and is woken.
//!
//! A checkpoint saves the tables as bytes ([`kept::hold_packet_program`]). A restored rank finds them as
//! memory at their addresses, and its socket on another port. Before it continues an operation, it requests
//! a program from netd, which takes over the tables. It also registers its groups again under the same
//! numbers ([`Seat::go_on`]). Packets in transit are lost, as any packet may be, and are requested again.
//!
//! # Safety
//! The tables are memory of the kernel's program, which changes it at any time. Words are accessed as
//! atomics. Blocks are accessed only while the kernel does not use them: before the own call, and after an
//! operation until its record is reused.
#![allow(unsafe_code)]

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tutti_coll::lower::{AREAS, CHANNELS, EVENTS, Packet, Program, RULES};
use tutti_sys::bpf::TableShape;
use tutti_sys::kept::{self, Critical, PacketProgram};
use tutti_sys::local_socket::Connection;
use tutti_sys::memory::Mapping;
use tutti_sys::{event, kept_socket, socket};
use tutti_transport::adaptive::tag::Key;

use crate::desk::{self, Answer, DESCRIPTORS, MESSAGE_BYTES, Request, TABLES};
use crate::layout::{
    AREA_BYTES, AREA_ENTRIES, COUNTERS, EVENT_ENTRIES, Entry, PORT, PROGRAMS, RECORD_BYTES, RECORD_ENTRIES,
    RECORD_STRIDE, RULE_ENTRIES, TooManyPeers, entries,
};
use crate::packet::{self, Line};

/// Limit on the time that netd takes to answer. Loading takes about 100 ms, finding neighbours less, and
/// both take longer on a busy machine.
#[derive(Clone, Copy, Debug)]
pub struct AnswerLimit {
    /// Time after which the request fails.
    pub limit: Duration,
    /// Function that is called once, when the answer has taken a second.
    pub tell: fn(),
}

impl Default for AnswerLimit {
    fn default() -> AnswerLimit {
        AnswerLimit { limit: Duration::from_secs(5), tell: || () }
    }
}

/// Time after which the user is informed about the wait.
const TELL_AFTER: Duration = Duration::from_secs(1);

/// Access of a rank to the kernel's program.
#[derive(Debug)]
pub struct Seat {
    tie: Mutex<Tie>,
    patience: AnswerLimit,
    socket: UdpSocket,
    job: u32,
    key: [u8; 16],
    rules: Mapping,
    events: Mapping,
    records: Mapping,
    areas: Mapping,
    counters: Mapping,
}

/// Connection of a seat with the program of this host. All of it is replaced after a restart.
#[derive(Debug)]
struct Tie {
    netd: Connection,
    /// Attachments of the program, which stays at the interface as long as they are open.
    attachments: Vec<OwnedFd>,
    /// Registered groups, by slot.
    joined: Vec<Joined>,
    /// Restarts of this process ([`kept::restarts`]) at the time when the program was granted.
    restarts: u32,
    /// Reason why there is no program any more, if it was lost.
    lost: Option<String>,
}

/// Group as registered with netd.
#[derive(Clone, Debug)]
struct Joined {
    group: u32,
    rank: u32,
    peers: Vec<Peer>,
}

/// Rank of a group, with its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Rank of the peer in the group.
    pub rank: u32,
    /// Number of the peer's host in the job.
    pub host: u32,
    /// Address of that host.
    pub address: Ipv4Addr,
}

/// Program that netd has granted.
struct Granted {
    netd: Connection,
    tables: Vec<OwnedFd>,
    attachments: Vec<OwnedFd>,
}

/// Limit on the attempts to get a program after a restart; below, the pause between them. The program of
/// the checkpointed job may not be removed yet.
const ATTEMPTS: u32 = 50;
const PAUSE: Duration = Duration::from_millis(100);

/// Group of ranks that the kernel knows.
#[derive(Debug)]
pub struct Group {
    slot: usize,
    line: Line,
    ranks: Vec<u32>,
}

/// Words of a record in the kernel's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Number of the operation to which the words belong.
    pub sequence: u32,
    /// Events that have arrived.
    pub arrived: u32,
    /// Last operation in this record that was complete for this rank.
    pub done: u32,
    /// Last operation in this record on which members disagree.
    pub disputed: u32,
    /// Events whose senders have reported that they wait themselves, since [`Seat::forget_heard`].
    pub heard: u32,
}

/// Returns the state of netd.
///
/// # Errors
/// The reason for which it cannot be asked.
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

/// Requests a program from netd for the job with this number and key. The kernel wakes the rank at
/// `socket`.
fn begin((job, key): (u32, [u8; 16]), socket: &UdpSocket, patience: AnswerLimit) -> Result<Granted, String> {
    let netd = connect()?;
    let address = match socket.local_addr() {
        Ok(SocketAddr::V4(address)) => *address.ip(),
        _ => return Err("the rank's socket has no address of IPv4".into()),
    };
    let request = Request::Begin { job, key, address };
    let mut tables = match ask(&netd, &request, &[socket.as_fd()], patience)? {
        (Answer::Granted(..), found) if [DESCRIPTORS, TABLES].contains(&found.len()) => found,
        (Answer::Granted(..), _) => return Err("`tutti netd` is of another version".into()),
        (Answer::Refused(text), _) => return Err(text),
    };
    let attachments = tables.split_off(TABLES);
    Ok(Granted { netd, tables, attachments })
}

/// Registers a group with netd and returns its slot.
fn join(tie: &Tie, joined: &Joined, patience: AnswerLimit) -> Result<usize, String> {
    let peers = joined.peers.iter().map(|peer| (peer.rank, peer.address)).collect();
    let request = Request::Join { group: joined.group, rank: joined.rank, peers };
    match ask(&tie.netd, &request, &[], patience)? {
        (Answer::Granted(slot, _), _) => Ok(slot as usize),
        (Answer::Refused(text), _) => Err(text),
    }
}

impl Seat {
    /// Requests a program from netd. `key` must be used for this purpose of the job only. `address` is the
    /// one at which other hosts reach this host.
    ///
    /// # Errors
    /// The reason for which there is none.
    pub fn take(job: u32, key: [u8; 16], address: Ipv4Addr, patience: AnswerLimit) -> Result<Seat, String> {
        // A checkpoint at this point would find descriptors and memory that are not recorded yet.
        let _critical = Critical::enter();
        let told = |error: io::Error| format!("the kernel's tables: {error}");
        let socket = socket::datagrams(IpAddr::V4(address), None).map_err(told)?;
        kept_socket::mark(socket.as_fd()).map_err(told)?;
        socket::omit_checksums(&socket).map_err(told)?;
        event::set_nonblocking(socket.as_fd()).map_err(told)?;
        let Granted { netd, tables, attachments } = begin((job, key), &socket, patience)?;
        let map = |table: usize| map_table(tables[table].as_fd(), TABLE_SHAPES[table]);
        let tie = Tie { netd, attachments, joined: Vec::new(), restarts: kept::restarts(), lost: None };
        let seat = Seat {
            rules: map(0)?,
            events: map(1)?,
            records: map(2)?,
            areas: map(3)?,
            counters: map(4)?,
            tie: Mutex::new(tie),
            patience,
            socket,
            job,
            key,
        };
        seat.note(&seat.tie());
        Ok(seat)
    }

    fn tie(&self) -> MutexGuard<'_, Tie> {
        self.tie.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tables(&self) -> [&Mapping; TABLES] {
        [&self.rules, &self.events, &self.records, &self.areas, &self.counters]
    }

    /// Records for the daemon which memory and descriptors a checkpoint must treat as the packet program.
    fn note(&self, tie: &Tie) {
        let tables = self.tables().map(|table| (table.base().as_ptr().addr() as u64, table.bytes() as u64));
        let netd = tie.netd.as_fd().as_raw_fd();
        let holders = tie.attachments.iter().map(AsRawFd::as_raw_fd).chain([netd]).collect();
        kept::hold_packet_program(&PacketProgram { tables: tables.to_vec(), holders });
    }

    /// Gets a program on this host, if this process was restored from a checkpoint since it got the last
    /// one. Returns true in that case.
    ///
    /// # Errors
    /// The reason for which there is none. It is not requested again then.
    pub fn go_on(&self) -> Result<bool, String> {
        let mut tie = self.tie();
        if tie.restarts == kept::restarts() {
            return tie.lost.clone().map_or(Ok(false), Err);
        }
        let _critical = Critical::enter();
        tie.restarts = kept::restarts();
        tie.lost = self.take_again(&mut tie).err();
        self.note(&tie);
        tie.lost.clone().map_or(Ok(true), Err)
    }

    /// Returns true if this process was restored from a checkpoint. Other ranks may then need any time
    /// until they have a program.
    pub fn has_moved(&self) -> bool {
        self.tie().restarts > 0
    }

    fn take_again(&self, tie: &mut Tie) -> Result<(), String> {
        let granted = (1..=ATTEMPTS).find_map(|attempt| {
            let granted = begin((self.job, self.key), &self.socket, self.patience);
            let is_last = attempt == ATTEMPTS;
            if granted.is_err() && !is_last {
                std::thread::sleep(PAUSE);
            }
            granted.map_or_else(|why| is_last.then_some(Err(why)), |granted| Some(Ok(granted)))
        });
        let Granted { netd, tables, attachments } = granted.expect("the last attempt decides")?;
        for (number, table) in self.tables().into_iter().enumerate() {
            check_table(tables[number].as_fd(), TABLE_SHAPES[number])?;
            // No group is registered yet, so the program does not access the tables.
            table.replace(tables[number].as_fd()).map_err(|error| format!("the kernel's tables: {error}"))?;
        }
        (tie.netd, tie.attachments) = (netd, attachments);
        for slot in 0..tie.joined.len() {
            let mut joined = tie.joined[slot].clone();
            for peer in &mut joined.peers {
                let address = kept::host_address(peer.host);
                peer.address =
                    address.ok_or_else(|| format!("the address of host {} is unknown", peer.host))?;
            }
            if join(tie, &joined, self.patience)? != slot {
                return Err("`tutti netd` gives a group another place".into());
            }
            tie.joined[slot] = joined;
        }
        Ok(())
    }

    /// Registers a group with the kernel's program.
    ///
    /// # Errors
    /// The reason for which netd refuses.
    pub fn join(&self, group: u32, rank: u32, peers: Vec<Peer>) -> Result<Group, String> {
        let mut tie = self.tie();
        let ranks = peers.iter().map(|peer| peer.rank).collect();
        let joined = Joined { group, rank, peers };
        let slot = join(&tie, &joined, self.patience)?;
        if slot != tie.joined.len() {
            return Err("`tutti netd` is of another version".into());
        }
        tie.joined.push(joined);
        let line = Line { job: self.job, group, key: Key::from_bytes(self.key) };
        Ok(Group { slot, line, ranks })
    }

    /// Stores a program of a group in the kernel's tables. Must be called before any member starts an
    /// operation of it.
    ///
    /// # Errors
    /// If the program communicates with ranks that are not the group's peers.
    ///
    /// # Panics
    /// If the number is too large: a bug of the caller.
    pub fn install(&self, group: &Group, number: usize, program: &Program) -> Result<(), TooManyPeers> {
        assert!(number < PROGRAMS);
        let (rules, events) = entries(program, &group.ranks)?;
        let place = group.slot * PROGRAMS + number;
        fill(&self.rules, place * RULES, &rules);
        fill(&self.events, place * EVENTS, &events);
        fence(Ordering::SeqCst);
        Ok(())
    }

    /// Sends a packet: a call to the own interface, or a question to a peer's interface. A lost packet is
    /// sent again by the caller.
    pub fn send(&self, group: &Group, packet: &Packet) {
        // The kernel intercepts a call on its way out, so its destination does not matter.
        let tie = self.tie();
        let peers = tie.joined.get(group.slot).map_or(&[][..], |joined| &joined.peers);
        let peer = peers.iter().find(|peer| peer.rank == packet.to).or(peers.first());
        let Some(&Peer { address, .. }) = peer else { return };
        drop(tie);
        let _ = self.socket.send_to(&packet::write(packet, &group.line), SocketAddr::from((address, PORT)));
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

    /// Clears the events of waiting senders before a question, because they belong to earlier questions.
    pub fn forget_heard(&self, group: &Group, sequence: u32) {
        self.word(group, sequence, 32).store(0, Ordering::Relaxed);
    }

    /// Returns true if an operation is complete for this rank.
    #[inline]
    pub fn is_done(&self, group: &Group, sequence: u32) -> bool {
        self.word(group, sequence, 20).load(Ordering::Acquire) == sequence
    }

    /// Requests a packet at the end of an operation. A rank that goes to sleep must check once more after
    /// this.
    pub fn wants_waking(&self, group: &Group, sequence: u32) {
        self.word(group, sequence, 28).store(sequence, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Copies a block of an operation that is complete.
    pub fn block(&self, group: &Group, sequence: u32, area: u8, into: &mut [u8]) {
        let place = self.record_place(group, sequence) * AREAS + usize::from(area);
        assert!(into.len() <= AREA_BYTES && usize::from(area) < AREAS);
        // SAFETY: the block lies within the mapping. Its operation is complete and its record not reused,
        // so nothing writes to it.
        unsafe {
            let from = self.areas.base().as_ptr().add(place * AREA_BYTES);
            std::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len());
        }
    }

    /// Returns the socket that becomes readable when the kernel has sent a packet.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Discards the packets at the socket: only their arrival matters.
    pub fn hear(&self) {
        let mut bytes = [0; 64];
        // The limit is the number of operations that can be in progress; remaining packets wake the rank
        // once more.
        for _ in 0..2 * CHANNELS {
            if self.socket.recv_from(&mut bytes).is_err() {
                break;
            }
        }
    }

    /// Returns the kernel's counters, in the order of [`crate::layout::Counter`].
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

/// Shapes of the tables, in the order in which netd passes them.
const TABLE_SHAPES: [TableShape; TABLES] = [
    TableShape { entry_bytes: size_of::<Entry>(), entries: RULE_ENTRIES },
    TableShape { entry_bytes: size_of::<Entry>(), entries: EVENT_ENTRIES },
    TableShape { entry_bytes: RECORD_BYTES, entries: RECORD_ENTRIES },
    TableShape { entry_bytes: AREA_BYTES, entries: AREA_ENTRIES },
    TableShape { entry_bytes: size_of::<u64>(), entries: COUNTERS },
];

/// Checks that a descriptor is a table of the kernel's program. Anything else is rejected: memory that its
/// owner can truncate would end this process by SIGBUS.
fn check_table(fd: BorrowedFd<'_>, expected: TableShape) -> Result<(), String> {
    match TableShape::read(fd) {
        Some(found) if found == expected => Ok(()),
        _ => Err("`tutti netd` hands out what is no table of its program".into()),
    }
}

/// Maps a table of the kernel's program into memory.
fn map_table(fd: BorrowedFd<'_>, expected: TableShape) -> Result<Mapping, String> {
    check_table(fd, expected)?;
    let bytes = expected.entry_bytes.next_multiple_of(8) * expected.entries;
    Mapping::beginning(fd, bytes.next_multiple_of(4096))
        .map_err(|error| format!("the kernel's tables: {error}"))
}

/// Writes consecutive entries of a table.
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
