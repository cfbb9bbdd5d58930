//! Tests of both sides of a stream: arrivals of all kinds, and restarts.

use proptest::prelude::*;

use crate::fuzz::{changed_streams, receive};
use crate::{
    Cover, End, HEADER_BYTES, Incoming, MESSAGE_OVERHEAD, MOST_BYTES, Messages, OVERHEAD_BYTES, Outgoing,
    Root, SALT_BYTES, Salts, Sealed, StreamKeys,
};

const COVERS: [Cover; 2] = [Cover::Authenticated, Cover::Encrypted];

fn keys_with(
    secret: u8,
    purpose: &str,
    cover: Cover,
    end: End,
    salts: [u8; 2],
    context: &[u8],
) -> StreamKeys {
    let salts = Salts { connecting: [salts[0]; 32], accepting: [salts[1]; 32] };
    Root::new(&[secret; 32], purpose).connection(cover, end, &salts, context)
}

fn keys(cover: Cover, end: End) -> StreamKeys {
    keys_with(1, "test", cover, end, [2, 3], b"greeting")
}

/// Seals each text as one record.
fn records(keys: &StreamKeys, texts: &[&[u8]]) -> Vec<Vec<u8>> {
    let mut outgoing = Outgoing::new(keys);
    let record = |text: &&[u8]| {
        assert_eq!(outgoing.put([*text].into_iter()), text.len());
        let record = outgoing.pending().to_vec();
        outgoing.sent(record.len());
        record
    };
    texts.iter().map(record).collect()
}

/// Asserts that the receiver delivers `expected` and then fails, if `fails`.
#[track_caller]
fn check(cover: Cover, arrived: &[Vec<u8>], expected: &[u8], fails: bool) {
    for part in [1, 7, 4096, usize::MAX] {
        let (got, end) = receive(&keys(cover, End::Accepting), &arrived.concat(), part);
        assert_eq!((got, end.is_err()), (expected.to_vec(), fails), "{cover:?}, parts of {part}");
    }
}

#[test]
fn what_arrives_as_it_was_sent_is_delivered() {
    for cover in COVERS {
        let sent = records(&keys(cover, End::Connecting), &[b"one", b"two", b"three"]);
        check(cover, &sent, b"onetwothree", false);
        let is_readable = sent[0].windows(3).any(|three| three == b"one");
        assert_eq!(is_readable, cover == Cover::Authenticated);
    }
}

#[test]
fn each_bit_that_is_changed_is_noticed() {
    for cover in COVERS {
        let sent = records(&keys(cover, End::Connecting), &[b"one", b"two", b"three"]);
        for bit in 0..8 * sent[1].len() {
            let mut changed = sent.clone();
            changed[1][bit / 8] ^= 1 << (bit % 8);
            check(cover, &changed, b"one", true);
        }
    }
}

#[test]
fn records_that_are_dropped_repeated_reordered_or_inserted_are_noticed() {
    for cover in COVERS {
        let texts: [&[u8]; 3] = [b"one", b"two", b"six"];
        let sent = records(&keys(cover, End::Connecting), &texts);
        let at = |places: &[usize]| places.iter().map(|&place| sent[place].clone()).collect::<Vec<_>>();
        check(cover, &at(&[0, 2]), b"one", true);
        check(cover, &at(&[0, 0]), b"one", true);
        check(cover, &at(&[1, 0]), b"", true);
        // Cut between records: the layer above detects the missing data.
        check(cover, &at(&[0, 1]), b"onetwo", false);
        let reflected = records(&keys(cover, End::Accepting), &texts);
        check(cover, &reflected, b"", true);
        let mut cut = at(&[0, 1, 2]);
        cut[1].pop();
        check(cover, &cut, b"one", true);
    }
}

#[test]
fn other_keys_open_nothing() {
    let other = |secret, purpose, cover, salts, context: &[u8]| {
        let sent = records(&keys_with(secret, purpose, cover, End::Connecting, salts, context), &[b"one"]);
        check(Cover::Encrypted, &sent, b"", true);
    };
    other(2, "test", Cover::Encrypted, [2, 3], b"greeting");
    other(1, "tests", Cover::Encrypted, [2, 3], b"greeting");
    other(1, "test", Cover::Authenticated, [2, 3], b"greeting");
    other(1, "test", Cover::Encrypted, [3, 2], b"greeting");
    other(1, "test", Cover::Encrypted, [2, 3], b"greeting!");
}

#[test]
fn nothing_is_delivered_after_a_forged_record() {
    let sent = records(&keys(Cover::Encrypted, End::Connecting), &[b"one", b"two"]);
    let mut incoming = Incoming::new(&keys(Cover::Encrypted, End::Accepting));
    incoming.append(&sent[1]);
    assert!(incoming.has_content() && incoming.take(&mut [0; 9]).is_err());
    incoming.append(&sent[0]);
    assert!(incoming.take(&mut [0; 9]).is_err() && incoming.take_record().is_err());
}

#[test]
fn long_content_is_cut_into_records() {
    let text: Vec<u8> = (0..100_000u32).map(|at| (at % 251) as u8).collect();
    let mut outgoing = Outgoing::new(&keys(Cover::Encrypted, End::Connecting));
    let (mut taken, mut sent) = (0, Vec::new());
    while taken < text.len() {
        // Enough pieces for one record and a part of the next.
        let count = outgoing.put(text[taken..].chunks(5000));
        assert!(count > 0 && outgoing.put([&b"more"[..]].into_iter()) == 0, "the first goes first");
        assert!(outgoing.pending().len() <= count + 2 * OVERHEAD_BYTES && count <= 2 * MOST_BYTES);
        taken += count;
        while outgoing.is_pending() {
            let part = outgoing.pending().len().min(1000);
            sent.extend_from_slice(&outgoing.pending()[..part]);
            outgoing.sent(part);
        }
    }
    check(Cover::Encrypted, &[sent], &text, false);
}

#[test]
fn each_bit_of_a_message_counts() {
    let messages = Messages::new(&Root::new(&[1; 32], "test"));
    let mut sealed = b"frontcontent".to_vec();
    messages.seal(&[7; 12], &mut sealed, 5);
    assert!(sealed.starts_with(b"front") && sealed.len() == 12 + MESSAGE_OVERHEAD);
    assert!(!sealed.windows(7).any(|seven| seven == b"content"));
    for bit in 0..8 * sealed.len() {
        let mut changed = sealed.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(messages.open(&mut changed, 5).is_err(), "bit {bit}");
    }
    for length in 0..sealed.len() {
        assert!(messages.open(&mut sealed[..length].to_vec(), 5).is_err());
    }
    let other = Messages::new(&Root::new(&[2; 32], "test"));
    assert!(other.open(&mut sealed.clone(), 5).is_err());
    assert_eq!(messages.open(&mut sealed, 5), Ok(&b"frontcontent"[..]));
}

/// Two ends and the bytes in transit between them.
struct Pair {
    ends: [Sealed; 2],
    /// Bytes in transit from each end to the other.
    way: [Vec<u8>; 2],
    got: [Vec<u8>; 2],
}

impl Pair {
    fn new(cover: Cover) -> Pair {
        let end = |end| Sealed::new(&keys(cover, end));
        let ends = [end(End::Connecting), end(End::Accepting)];
        Pair { ends, way: Default::default(), got: Default::default() }
    }

    fn put(&mut self, end: usize, text: &[u8]) -> usize {
        self.ends[end].outgoing.put([text].into_iter())
    }

    /// Moves up to `most` bytes from an end into transit.
    fn send(&mut self, end: usize, most: usize) {
        let outgoing = &mut self.ends[end].outgoing;
        let count = outgoing.pending().len().min(most);
        self.way[end].extend_from_slice(&outgoing.pending()[..count]);
        outgoing.sent(count);
    }

    /// Bytes that the checkpoint removes from transit and returns later.
    fn give_back(&mut self, from: usize) {
        let bytes = std::mem::take(&mut self.way[from]);
        self.ends[1 - from].incoming.append(&bytes);
    }

    fn take(&mut self, end: usize) -> bool {
        let mut content = [0; 100];
        while let Ok(count) = self.ends[end].take(&mut content) {
            if count == 0 {
                return true;
            }
            self.got[end].extend_from_slice(&content[..count]);
        }
        false
    }

    /// Restores both ends from a checkpoint.
    fn restart(&mut self, salt: u8) {
        for end in [0, 1] {
            self.give_back(end);
        }
        for end in [0, 1] {
            self.ends[end].renew_outgoing(&[salt + end as u8; SALT_BYTES]);
            self.ends[end].renew_incoming(&[salt + end as u8; SALT_BYTES]);
        }
    }

    /// Moves all bytes until nothing changes. Returns false if a record was forged.
    fn settle(&mut self) -> bool {
        (0..4).all(|_| {
            [0, 1].iter().all(|&end| {
                self.send(end, usize::MAX);
                self.give_back(end);
                self.take(1 - end)
            })
        })
    }
}

/// Restarts with `sent` bytes of two records in transit, of which the receiver has taken none.
fn check_restart(cover: Cover, sent: usize, again: usize) {
    let mut pair = Pair::new(cover);
    pair.put(0, &[b'a'; MOST_BYTES + 10]);
    pair.send(0, sent);
    pair.restart(10);
    assert_eq!(pair.put(0, b"too early"), 0);
    for more in 0..again {
        // One or both ends have announced their restart, and may have received the announcement.
        pair.send(more % 2, if more < 2 { 20 } else { usize::MAX });
        pair.give_back(more % 2);
        assert!(pair.take(1 - more % 2));
        pair.restart(20 + 2 * more as u8);
    }
    assert!(pair.settle());
    assert_eq!(pair.put(0, b"end"), 3);
    assert_eq!(pair.put(1, b"other"), 5);
    assert!(pair.settle());
    let expected = [&[b'a'; MOST_BYTES + 10][..], b"end"].concat();
    assert!(pair.got == [b"other".to_vec(), expected], "{cover:?}, {sent} sent, {again} more restarts");
}

#[test]
fn restarted_streams_go_on() {
    for cover in COVERS {
        for sent in
            [0, 1, 3, 4, 5, 100, MOST_BYTES, MOST_BYTES + 20, MOST_BYTES + 21, MOST_BYTES + 50, 1 << 20]
        {
            for again in 0..6 {
                check_restart(cover, sent, again);
            }
        }
    }
}

#[test]
fn a_restart_while_one_end_has_answered_goes_on() {
    let mut pair = Pair::new(Cover::Encrypted);
    pair.restart(10);
    // End 1 receives the announcement and answers with content; end 0 has received nothing when both are
    // restarted.
    pair.send(0, usize::MAX);
    pair.send(1, usize::MAX);
    pair.give_back(0);
    assert!(pair.take(1) && pair.put(1, b"answer") == 6);
    pair.send(1, usize::MAX);
    pair.restart(20);
    assert!(pair.settle() && pair.got[0] == b"answer");
    assert_eq!(pair.put(0, b"on"), 2);
    assert!(pair.settle() && pair.got[1] == b"on");
}

#[test]
fn records_of_another_continuation_are_refused() {
    let mut one = Pair::new(Cover::Encrypted);
    let mut other = Pair::new(Cover::Encrypted);
    // Two continuations of one checkpoint: one that was not restarted, and one that was.
    one.put(0, b"one");
    one.send(0, usize::MAX);
    other.restart(10);
    other.way[0] = one.way[0].clone();
    other.give_back(0);
    assert!(!other.take(1));
    // Two restarts of one checkpoint: all records of one end come from the other restart.
    let (mut one, mut other) = (Pair::new(Cover::Encrypted), Pair::new(Cover::Encrypted));
    one.restart(10);
    other.restart(20);
    assert!(one.settle() && one.put(0, b"one") == 3);
    let mut replayed = crate::Announced::Renewal.write().to_vec();
    replayed.extend([10; SALT_BYTES]);
    replayed.extend_from_slice(one.ends[0].outgoing.pending());
    other.way[0] = replayed;
    other.give_back(0);
    assert!(!other.take(1) && other.got[1].is_empty());
}

#[test]
fn the_same_content_is_never_sealed_alike() {
    let mut pair = Pair::new(Cover::Encrypted);
    let mut seen = std::collections::BTreeSet::new();
    for restart in 0..4 {
        for _ in 0..3 {
            assert_eq!(pair.put(0, b"the same"), 8);
            let record = pair.ends[0].outgoing.pending()[HEADER_BYTES..].to_vec();
            assert!(seen.insert(record), "each has a nonce of its own");
            assert!(pair.settle());
        }
        // Not sent before the restart, so sealed again with the new keys.
        assert_eq!(pair.put(0, b"the same"), 8);
        assert!(seen.insert(pair.ends[0].outgoing.pending()[HEADER_BYTES..].to_vec()));
        pair.restart(10 + 2 * restart);
        assert!(pair.settle());
    }
    assert_eq!(pair.got[1].len(), 8 * 16);
}

#[test]
fn a_renewal_that_nobody_began_is_refused() {
    let mut pair = Pair::new(Cover::Encrypted);
    pair.ends[0].renew_outgoing(&[5; SALT_BYTES]);
    pair.send(0, usize::MAX);
    pair.give_back(0);
    assert!(!pair.take(1));
}

#[test]
fn room_is_given_up_again() {
    let mut outgoing = Outgoing::new(&keys(Cover::Encrypted, End::Connecting));
    let mut sealed = Sealed::new(&keys(Cover::Encrypted, End::Accepting));
    let mut sizes = Vec::new();
    for bytes in std::iter::repeat_n(MOST_BYTES, 10).chain(std::iter::repeat_n(8, 300)) {
        outgoing.put([&vec![1; bytes][..]].into_iter());
        let mut record = outgoing.pending();
        while !record.is_empty() {
            let room = sealed.incoming.room();
            let now = room.len().min(record.len());
            room[..now].copy_from_slice(&record[..now]);
            sealed.incoming.arrived(now);
            record = &record[now..];
            let mut content = vec![0; MOST_BYTES];
            while sealed.take(&mut content).unwrap() > 0 {}
        }
        outgoing.sent(outgoing.pending().len());
        sizes.push(sealed.incoming.memory_bytes());
    }
    assert!(sizes[9] > MOST_BYTES && sizes[309] <= MOST_BYTES / 2, "{} {}", sizes[9], sizes[309]);
}

proptest! {
    #[test]
    fn changed_streams_deliver_nothing_else(input in proptest::collection::vec(any::<u8>(), 0..40)) {
        changed_streams(&input);
    }
}
