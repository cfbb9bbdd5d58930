//! State of a rank for checkpoints. The daemon reads and writes these words from outside when the rank is
//! stopped, saved ("kept") and restarted elsewhere.
//!
//! A complete copy of memory is valid wherever it is restored, except for numbers that the kernel assigns:
//! those of processes. All records keep the original numbers as names, and they are translated where a
//! system call takes one ([`current`]). Between translation and the end of the call a rank is [`Critical`],
//! and is stopped only after that. The same holds between checking for returned bytes and reading a socket:
//! bytes that the daemon took out of the rank's sockets come first ([`take_back`]).

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// Maximum number of a host's processes whose numbers may differ from those in records.
pub const MOST: usize = 4096;
/// Maximum number of hosts whose addresses a rank receives after a restart.
pub const MOST_HOSTS: usize = 4096;
/// Maximum length of the text with the addresses of a job's I/O servers, in bytes.
pub const MOST_SERVERS_BYTES: usize = 32 << 10;
/// Maximum number of tables of the kernel's packet program that a rank has mapped.
const MOST_TABLES: usize = 8;
/// Maximum number of descriptors by which a rank holds that program.
const MOST_HOLDERS: usize = 4;
/// Pause between the checks of a rank that must not enter a critical section, and their maximum number.
const LOOK: Duration = Duration::from_micros(100);
const MOST_LOOKS: u32 = 500;
/// Length of the head of a region in bytes: address and length of the region before it. The head of an
/// entry has its descriptor plus one, and its length.
const REGION_HEAD: usize = 16;
const ENTRY_HEAD: usize = 16;

/// Words shared with the daemon, which finds them by [`address`] in the ranks' blocks.
#[derive(Debug)]
#[repr(C)]
struct Words {
    critical: AtomicU32,
    /// Not 0 while the daemon waits for this process to leave critical sections: no thread may enter one.
    held: AtomicU32,
    /// Number of times that the daemon has returned bytes; below, the number of times that they were taken.
    given_back: AtomicU32,
    taken_back: AtomicU32,
    /// Number of times that this process was restored from a checkpoint.
    restarts: AtomicU32,
    unused: u32,
    /// Address of the last region of returned bytes; below, its length.
    region: AtomicU64,
    region_bytes: AtomicU64,
    /// Nanoseconds to add to the machine's clock, so that time continues where it stopped on another
    /// machine.
    shift_ns: AtomicU64,
    count: AtomicU32,
    /// Pairs of process numbers: the number in records, and the present one.
    numbers: [[AtomicI32; 2]; MOST],
    /// Tables of the kernel's packet program: address and length of each; 0 in unused entries.
    tables: [[AtomicU64; 2]; MOST_TABLES],
    /// Descriptors by which this process holds that program, plus 1; 0 in unused entries.
    holders: [AtomicI32; MOST_HOLDERS],
    /// Addresses of the job's hosts since the last restart, by host number (IPv4; 0: not known).
    hosts: [AtomicU32; MOST_HOSTS],
    /// Length of the text with the I/O servers' addresses since the last restart; below, the text.
    servers_bytes: AtomicU32,
    servers: [AtomicU8; MOST_SERVERS_BYTES],
}

static WORDS: Words = Words {
    critical: AtomicU32::new(0),
    held: AtomicU32::new(0),
    given_back: AtomicU32::new(0),
    taken_back: AtomicU32::new(0),
    restarts: AtomicU32::new(0),
    unused: 0,
    region: AtomicU64::new(0),
    region_bytes: AtomicU64::new(0),
    shift_ns: AtomicU64::new(0),
    count: AtomicU32::new(0),
    numbers: [const { [const { AtomicI32::new(0) }; 2] }; MOST],
    tables: [const { [const { AtomicU64::new(0) }; 2] }; MOST_TABLES],
    holders: [const { AtomicI32::new(0) }; MOST_HOLDERS],
    hosts: [const { AtomicU32::new(0) }; MOST_HOSTS],
    servers_bytes: AtomicU32::new(0),
    servers: [const { AtomicU8::new(0) }; MOST_SERVERS_BYTES],
};

/// Memory and descriptors of the kernel's packet program in a rank ([`hold_packet_program`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketProgram {
    /// Address and length in bytes of each mapped table.
    pub tables: Vec<(u64, u64)>,
    /// Descriptors of the connection with `tutti netd` and of the program's attachments.
    pub holders: Vec<i32>,
}

/// Returns the address of the words in this process.
pub fn address() -> u64 {
    (&raw const WORDS).addr() as u64
}

/// Guard of a critical section: while it lives, this process is not stopped for a checkpoint.
#[derive(Debug)]
pub struct Critical(());

impl Critical {
    /// Enters a critical section. Waits up to 50 ms if the daemon waits for this process to leave such
    /// sections.
    #[inline]
    pub fn enter() -> Critical {
        WORDS.critical.fetch_add(1, Ordering::SeqCst);
        if WORDS.held.load(Ordering::SeqCst) != 0 {
            Critical::stay_out();
        }
        Critical(())
    }

    #[cold]
    fn stay_out() {
        for _ in 0..MOST_LOOKS {
            WORDS.critical.fetch_sub(1, Ordering::SeqCst);
            std::thread::sleep(LOOK);
            WORDS.critical.fetch_add(1, Ordering::SeqCst);
            if WORDS.held.load(Ordering::SeqCst) == 0 {
                return;
            }
        }
    }
}

impl Drop for Critical {
    #[inline]
    fn drop(&mut self) {
        WORDS.critical.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Returns true if the daemon has taken bytes out of sockets that this process must read before all others
/// ([`take_back`]). Within a critical section the result does not change.
#[inline]
pub fn has_given_back() -> bool {
    WORDS.given_back.load(Ordering::Relaxed) != WORDS.taken_back.load(Ordering::Relaxed)
}

/// Returns the number of times that this process was restored from a checkpoint. Its sockets then have
/// other addresses, and so have its peers.
#[inline]
pub fn restarts() -> u32 {
    WORDS.restarts.load(Ordering::Relaxed)
}

/// Returns the nanoseconds to add to the machine's clock (modulo 2^64). Not 0 if this process was saved on
/// another machine, or before this one was started.
#[inline]
pub fn shift_ns() -> u64 {
    WORDS.shift_ns.load(Ordering::Relaxed)
}

/// Publishes for the daemon which memory and descriptors of this process belong to the kernel's packet
/// program. A checkpoint saves the tables as bytes; after a restart the process requests a program again.
///
/// # Panics
/// If there are more of them than entries: a bug of the caller.
pub fn hold_packet_program(program: &PacketProgram) {
    let PacketProgram { tables, holders } = program;
    assert!(tables.len() <= MOST_TABLES && holders.len() <= MOST_HOLDERS);
    for (number, room) in WORDS.tables.iter().enumerate() {
        let (start, bytes) = tables.get(number).copied().unwrap_or_default();
        room[0].store(start, Ordering::Relaxed);
        room[1].store(bytes, Ordering::Relaxed);
    }
    for (number, room) in WORDS.holders.iter().enumerate() {
        room.store(holders.get(number).map_or(0, |holder| holder + 1), Ordering::Relaxed);
    }
}

/// Returns the address of a host of the job since the last restart of this process, if it is known.
pub fn host_address(host: u32) -> Option<Ipv4Addr> {
    let word = WORDS.hosts.get(host as usize)?.load(Ordering::Relaxed);
    (word != 0).then(|| Ipv4Addr::from_bits(word))
}

/// Returns the text with the addresses of the job's I/O servers since the last restart, if it has any.
pub fn servers() -> Option<String> {
    let bytes = WORDS.servers_bytes.load(Ordering::Relaxed) as usize;
    let text = WORDS.servers.get(..bytes)?.iter().map(|byte| byte.load(Ordering::Relaxed)).collect();
    String::from_utf8(text).ok().filter(|text| !text.is_empty())
}

/// Passes to `hand` the bytes that the daemon has taken out of sockets, with their descriptor, in the order
/// in which they arrived.
#[cold]
pub fn take_back(mut hand: impl FnMut(i32, &[u8])) {
    let _critical = Critical::enter();
    if !has_given_back() {
        return;
    }
    let mut regions = Vec::new();
    let mut next = (WORDS.region.load(Ordering::Relaxed), WORDS.region_bytes.load(Ordering::Relaxed));
    while next.0 != 0 {
        let (address, bytes) = next;
        let start = std::ptr::with_exposed_provenance_mut::<u8>(address as usize);
        // SAFETY: the daemon has mapped these bytes for this process and announced them once; nothing else
        // uses them.
        let region = unsafe { std::slice::from_raw_parts(start, bytes as usize) };
        next = (word(region, 0), word(region, 8));
        regions.push((start, region));
    }
    for (start, region) in regions.into_iter().rev() {
        let mut at = REGION_HEAD;
        while at + ENTRY_HEAD <= region.len() {
            let (number, bytes) = (word(region, at), word(region, at + 8) as usize);
            if number == 0 {
                break;
            }
            at += ENTRY_HEAD;
            hand((number - 1) as i32, &region[at..at + bytes]);
            at += bytes.next_multiple_of(8);
        }
        let bytes = region.len();
        // SAFETY: the region is a mapping of its own, and no reference to it is left.
        unsafe { libc::munmap(start.cast(), bytes) };
    }
    WORDS.region.store(0, Ordering::Relaxed);
    WORDS.taken_back.store(WORDS.given_back.load(Ordering::Relaxed), Ordering::Relaxed);
}

fn word(region: &[u8], at: usize) -> u64 {
    region.get(at..at + 8).map_or(0, |bytes| u64::from_ne_bytes(bytes.try_into().expect("eight bytes")))
}

/// Returns the present number of a process that records identify by `number`. The caller must be
/// [`Critical`].
#[inline]
pub fn current(number: i32) -> i32 {
    match WORDS.count.load(Ordering::Relaxed) {
        0 => number,
        count => find(number, count as usize),
    }
}

/// Returns true if this process was restored from a checkpoint: numbers assigned by the kernel may differ
/// now.
#[inline]
pub fn has_restarted() -> bool {
    WORDS.count.load(Ordering::Relaxed) != 0
}

#[cold]
fn find(number: i32, count: usize) -> i32 {
    let pairs = &WORDS.numbers[..count.min(MOST)];
    let pair = pairs.iter().find(|pair| pair[0].load(Ordering::Relaxed) == number);
    pair.map_or(number, |pair| pair[1].load(Ordering::Relaxed))
}

/// Offsets of the words from [`address`], for the daemon.
pub mod at {
    /// Not 0 while no thread may enter a critical section.
    pub const HELD: u64 = 4;
    /// Number of times that bytes were returned.
    pub const GIVEN_BACK: u64 = 8;
    /// Number of times that returned bytes were taken.
    pub const TAKEN_BACK: u64 = 12;
    /// Number of times that the process was restored.
    pub const RESTARTS: u64 = 16;
    /// Address and length of the last region of returned bytes.
    pub const REGION: u64 = 24;
    /// Nanoseconds added to the clock of the machine.
    pub const SHIFT: u64 = 40;
    /// Start of the process numbers encoded by [`renumbered`](super::renumbered).
    pub const NUMBERS: u64 = 48;
    /// Start of the bytes that [`packet_program`](super::packet_program) decodes.
    pub const PACKET_PROGRAM: u64 = std::mem::offset_of!(super::Words, tables) as u64;
    /// Start of the bytes that [`hosts`](super::hosts) encodes.
    pub const HOSTS: u64 = std::mem::offset_of!(super::Words, hosts) as u64;
    /// Start of the bytes that [`told_servers`](super::told_servers) encodes.
    pub const SERVERS: u64 = std::mem::offset_of!(super::Words, servers_bytes) as u64;
}

/// Length of the data at [`at::PACKET_PROGRAM`], in bytes.
pub const PACKET_PROGRAM_BYTES: usize = MOST_TABLES * 16 + MOST_HOLDERS * 4;

/// Decodes a rank's parts of the kernel's packet program. For the daemon.
pub fn packet_program(bytes: &[u8; PACKET_PROGRAM_BYTES]) -> PacketProgram {
    let (tables, holders) = bytes.split_at(MOST_TABLES * 16);
    let tables = (0..MOST_TABLES).map(|number| (word(tables, number * 16), word(tables, number * 16 + 8)));
    let holders = holders.as_chunks::<4>().0.iter().map(|bytes| i32::from_ne_bytes(*bytes) - 1);
    PacketProgram {
        tables: tables.filter(|(start, _)| *start != 0).collect(),
        holders: holders.filter(|holder| *holder >= 0).collect(),
    }
}

/// Encodes, for [`at::SERVERS`], the text with the addresses of the I/O servers; at most
/// [`MOST_SERVERS_BYTES`] of it. For the daemon.
pub fn told_servers(text: &[u8]) -> Vec<u8> {
    let text = &text[..text.len().min(MOST_SERVERS_BYTES)];
    [&(text.len() as u32).to_ne_bytes()[..], text].concat()
}

/// Encodes, for [`at::HOSTS`], the present addresses of the job's hosts. For the daemon.
pub fn hosts(addresses: &[(u32, Ipv4Addr)]) -> Vec<u8> {
    let mut words = vec![0u32; MOST_HOSTS];
    for (host, address) in addresses {
        if let Some(word) = words.get_mut(*host as usize) {
            *word = address.to_bits();
        }
    }
    words.into_iter().flat_map(u32::to_ne_bytes).collect()
}

/// Returns true if the first word shows that the rank is in a critical section. For the daemon.
pub fn is_critical(first: u32) -> bool {
    first != 0
}

/// Encodes a region that returns these bytes, by descriptor. `before` is address and length of the region
/// that was not taken yet, or zeros. For the daemon.
pub fn given_back<'a>(before: (u64, u64), entries: impl Iterator<Item = (i32, &'a [u8])>) -> Vec<u8> {
    let mut region = [before.0.to_ne_bytes(), before.1.to_ne_bytes()].concat();
    for (number, bytes) in entries {
        region.extend((number as u64 + 1).to_ne_bytes());
        region.extend((bytes.len() as u64).to_ne_bytes());
        region.extend_from_slice(bytes);
        region.resize(region.len().next_multiple_of(8), 0);
    }
    region
}

/// Returns the growth of a rank's clock shift. `kept` is the machine's start and its clock when the rank
/// was saved; `here` those of this machine. For the daemon.
pub fn shifted(kept: (&str, u64), here: (&str, u64)) -> u64 {
    // While the machine stays up, its clock continues.
    if kept.0 == here.0 { 0 } else { kept.1.wrapping_sub(here.1) }
}

/// Encodes, for [`at::NUMBERS`], the pairs of process numbers in records and at present. For the daemon.
pub fn renumbered(pairs: &[(i32, i32)]) -> Vec<u8> {
    let pairs = &pairs[..pairs.len().min(MOST)];
    let mut bytes = (pairs.len() as u32).to_ne_bytes().to_vec();
    for (record, now) in pairs {
        bytes.extend(record.to_ne_bytes());
        bytes.extend(now.to_ne_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Lock that serialises the tests, because the process has only one set of words.
    static ALONE: Mutex<()> = Mutex::new(());

    #[test]
    fn the_bytes_are_those_of_the_words() {
        let _alone = ALONE.lock();
        assert_eq!(current(7), 7);
        let bytes = renumbered(&[(7, 70), (8, 80)]);
        let offsets = [
            std::mem::offset_of!(Words, held),
            std::mem::offset_of!(Words, given_back),
            std::mem::offset_of!(Words, taken_back),
            std::mem::offset_of!(Words, restarts),
            std::mem::offset_of!(Words, region),
            std::mem::offset_of!(Words, shift_ns),
            std::mem::offset_of!(Words, count),
        ];
        let told =
            [at::HELD, at::GIVEN_BACK, at::TAKEN_BACK, at::RESTARTS, at::REGION, at::SHIFT, at::NUMBERS];
        assert_eq!(offsets.map(|offset| offset as u64), told);
        assert_eq!(std::mem::offset_of!(Words, region_bytes), at::REGION as usize + 8);
        assert_eq!(std::mem::offset_of!(Words, numbers), at::NUMBERS as usize + 4);
        assert_eq!((bytes.len(), &bytes[..4]), (20, &2u32.to_ne_bytes()[..]));
        for (place, word) in
            WORDS.numbers[0].iter().chain(&WORDS.numbers[1]).zip(bytes[4..].as_chunks::<4>().0)
        {
            place.store(i32::from_ne_bytes(*word), Ordering::Relaxed);
        }
        WORDS.count.store(2, Ordering::Relaxed);
        assert_eq!((current(7), current(8), current(9)), (70, 80, 9));
        WORDS.count.store(0, Ordering::Relaxed);
        let inside = Critical::enter();
        assert!(is_critical(WORDS.critical.load(Ordering::Relaxed)));
        drop(inside);
        assert!(!is_critical(WORDS.critical.load(Ordering::Relaxed)));
    }

    #[test]
    fn what_a_rank_has_of_the_packet_program_is_read_as_it_was_noted() {
        let _alone = ALONE.lock();
        let program = PacketProgram { tables: vec![(4096, 8192), (1 << 40, 1)], holders: vec![0, 7] };
        for expected in [program, PacketProgram::default()] {
            hold_packet_program(&expected);
            let start = std::ptr::with_exposed_provenance::<[u8; PACKET_PROGRAM_BYTES]>(
                (address() + at::PACKET_PROGRAM) as usize,
            );
            (&raw const WORDS).expose_provenance();
            // SAFETY: these bytes lie within the words, and nothing changes them meanwhile.
            let bytes = unsafe { start.read_unaligned() };
            assert_eq!(packet_program(&bytes), expected);
        }
        let bytes = hosts(&[(1, Ipv4Addr::new(10, 0, 0, 7)), (MOST_HOSTS as u32, Ipv4Addr::LOCALHOST)]);
        for (word, bytes) in WORDS.hosts.iter().zip(bytes.as_chunks::<4>().0) {
            word.store(u32::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
        let known = [0, 1, MOST_HOSTS as u32].map(host_address);
        assert_eq!(known, [None, Some(Ipv4Addr::new(10, 0, 0, 7)), None]);
        assert_eq!(servers(), None);
        let bytes = told_servers(b"mode scratch");
        WORDS.servers_bytes.store(bytes.len() as u32 - 4, Ordering::Relaxed);
        WORDS.servers.iter().zip(&bytes[4..]).for_each(|(room, byte)| room.store(*byte, Ordering::Relaxed));
        assert_eq!(servers().as_deref(), Some("mode scratch"));
        assert_eq!(std::mem::offset_of!(Words, servers), at::SERVERS as usize + 4);
        WORDS.servers_bytes.store(0, Ordering::Relaxed);
    }

    #[test]
    fn the_clock_goes_on_on_another_machine() {
        let check = |kept: (&str, u64), here: (&str, u64), expected: u64| {
            assert_eq!(here.1.wrapping_add(shifted(kept, here)), expected);
        };
        check(("one", 500), ("one", 900), 900);
        check(("one", 500), ("other", 20), 500);
        check(("one", 500), ("other", 9000), 500);
    }

    /// Creates a mapping with these bytes, as a daemon does.
    fn map(bytes: &[u8]) -> (u64, u64) {
        let room = crate::remap::map_private(bytes.len()).unwrap();
        // SAFETY: the mapping is as long as the bytes, and new.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), room, bytes.len()) };
        (room.expose_provenance() as u64, bytes.len() as u64)
    }

    #[test]
    fn what_was_given_back_comes_in_order() {
        let _alone = ALONE.lock();
        let first = given_back((0, 0), [(3, &b"abc"[..]), (9, b"")].into_iter());
        let before = map(&first);
        let second = given_back(before, [(3, &b"12345678"[..]), (0, b"z")].into_iter());
        let (region, bytes) = map(&second);
        WORDS.region.store(region, Ordering::Relaxed);
        WORDS.region_bytes.store(bytes, Ordering::Relaxed);
        WORDS.given_back.store(2, Ordering::Relaxed);
        assert!(has_given_back());
        let mut taken = Vec::new();
        take_back(|number, bytes| taken.push((number, bytes.to_vec())));
        let expected = [(3, &b"abc"[..]), (9, b""), (3, b"12345678"), (0, b"z")];
        assert_eq!(taken, expected.map(|(number, bytes)| (number, bytes.to_vec())));
        assert!(!has_given_back());
        take_back(|_, _| panic!("it was taken"));
    }
}
