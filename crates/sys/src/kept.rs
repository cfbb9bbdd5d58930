//! What a rank knows of being stopped, kept and made again elsewhere: a few words that its daemon reads and
//! writes from outside.
//!
//! Memory that is copied whole is right wherever it comes up again, but for numbers that the kernel has
//! given: those of processes. They stay what they were in all records, as names, and are looked up where a
//! system call takes one ([`current`]). Between looking up and the end of the call a rank is [`Critical`],
//! and is stopped only behind that. So it is between looking whether bytes were given back to it and taking
//! more out of a socket: what the daemon took out of its sockets comes first ([`take_back`]).

use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// Most processes of a host whose numbers may differ from those in records.
pub const MOST: usize = 4096;
/// Who may not enter looks again after so long, so often.
const LOOK: Duration = Duration::from_micros(100);
const MOST_LOOKS: u32 = 500;
/// Bytes before the first entry of a region (where the one before it is, and its bytes), and of an entry
/// (its descriptor and one, its bytes).
const REGION_HEAD: usize = 16;
const ENTRY_HEAD: usize = 16;

/// The words. The daemon finds them by [`address`], which ranks say in their blocks.
#[derive(Debug)]
#[repr(C)]
struct Words {
    critical: AtomicU32,
    /// The daemon waits for this process to be outside: nobody enters.
    held: AtomicU32,
    /// How often the daemon has given bytes back, and how often they were taken.
    given_back: AtomicU32,
    taken_back: AtomicU32,
    /// How often this process was made from a checkpoint.
    restarts: AtomicU32,
    unused: u32,
    /// The last bytes that were given back.
    region: AtomicU64,
    region_bytes: AtomicU64,
    /// What to add to the clock of the machine, so that time goes on where it was kept on another.
    shift_ns: AtomicU64,
    count: AtomicU32,
    /// The number in records, and the number now.
    numbers: [[AtomicI32; 2]; MOST],
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
};

/// Where the words are, in this process.
pub fn address() -> u64 {
    (&raw const WORDS).addr() as u64
}

/// While it lives, this process is not stopped to be kept.
#[derive(Debug)]
pub struct Critical(());

impl Critical {
    /// From now on. Waits a moment if the daemon waits for this process to be outside.
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

/// Whether the daemon has taken bytes out of sockets that this process has to read before all others
/// ([`take_back`]). Asked while [`Critical`] it stays true or false until that is left.
#[inline]
pub fn has_given_back() -> bool {
    WORDS.given_back.load(Ordering::Relaxed) != WORDS.taken_back.load(Ordering::Relaxed)
}

/// How often this process was made from a checkpoint: its sockets then have other addresses, and its peers
/// too.
#[inline]
pub fn restarts() -> u32 {
    WORDS.restarts.load(Ordering::Relaxed)
}

/// What to add to the clock of the machine (modulo 2^64): not 0 if this process was kept on another one, or
/// before this one was started.
#[inline]
pub fn shift_ns() -> u64 {
    WORDS.shift_ns.load(Ordering::Relaxed)
}

/// Hands over what the daemon has taken out of sockets, by descriptor, in the order in which it came.
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
        // SAFETY: the daemon has mapped these bytes for this process and told it once; nobody else has them.
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

/// The number now of a process that records know by `number`. Whoever uses it is [`Critical`].
#[inline]
pub fn current(number: i32) -> i32 {
    match WORDS.count.load(Ordering::Relaxed) {
        0 => number,
        count => find(number, count as usize),
    }
}

/// Whether this process was made from a checkpoint: what the kernel has numbered may have other numbers now.
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

/// For the daemon: where the words lie, counted from [`address`].
pub mod at {
    /// Not 0: nobody enters.
    pub const HELD: u64 = 4;
    /// How often bytes were given back, how often taken; how often the process was made.
    pub const GIVEN_BACK: u64 = 8;
    /// See above.
    pub const TAKEN_BACK: u64 = 12;
    /// See above.
    pub const RESTARTS: u64 = 16;
    /// Where the last bytes lie that were given back, and how many they are.
    pub const REGION: u64 = 24;
    /// What is added to the clock of the machine.
    pub const SHIFT: u64 = 40;
    /// Where the numbers begin that [`renumbered`](super::renumbered) makes.
    pub const NUMBERS: u64 = 48;
}

/// For the daemon: whether the first word says that the rank is critical.
pub fn is_critical(first: u32) -> bool {
    first != 0
}

/// For the daemon: the bytes of a region that gives these back, by descriptor; `before` is the region that
/// was not taken yet, or zeros.
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

/// For the daemon: by how much the shift of a rank grows that was kept at `kept` (the start of the machine,
/// and its clock then), now that it is `here`.
pub fn shifted(kept: (&str, u64), here: (&str, u64)) -> u64 {
    // While the machine runs on, so does its clock.
    if kept.0 == here.0 { 0 } else { kept.1.wrapping_sub(here.1) }
}

/// For the daemon: the bytes at [`at::NUMBERS`] of a rank once its host's ranks have these numbers.
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

    /// There is one set of words.
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
    fn the_clock_goes_on_on_another_machine() {
        let check = |kept: (&str, u64), here: (&str, u64), expected: u64| {
            assert_eq!(here.1.wrapping_add(shifted(kept, here)), expected);
        };
        check(("one", 500), ("one", 900), 900);
        check(("one", 500), ("other", 20), 500);
        check(("one", 500), ("other", 9000), 500);
    }

    /// A mapping with these bytes, as a daemon makes it.
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
