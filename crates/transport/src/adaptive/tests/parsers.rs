//! The parsers on well-formed and on any bytes; and what a process does with datagrams that are not for it,
//! not new, or not from who they say.

use std::time::Duration;

use proptest::prelude::*;

use super::world::{Weather, settings};
use crate::adaptive::packet::{
    self, Acknowledgement, DropReason, FIXED_BYTES, Fragment, Guard, Identity, Kind, Outline, Packet,
};
use crate::adaptive::tag::{Key, Use};
use crate::adaptive::words::{Claim, Nonces, PRIVATE_BYTES, Prover, Word};
use crate::adaptive::{Adaptive, Decision, Mode, fuzz};
use crate::link::{Full, Header, Peer, Verdict};

const SECRET: [u8; 32] = [9; 32];

fn key() -> Key {
    Key::new(&SECRET, Use::Datagram)
}

fn guard(hides: bool) -> Guard {
    Guard::new(&SECRET, hides)
}

/// Returns the reason for which a datagram is refused, or None.
fn refusal(bytes: &[u8], guard: &Guard) -> Option<DropReason> {
    packet::parse(bytes, &me(), guard, &mut Vec::new()).err()
}

fn me() -> Identity {
    Identity { job: 7, rank: 3, ranks: 10 }
}

/// Encodes a packet as a datagram.
fn write(packet: &Packet<'_>, to: u32, job: u32, hides: bool) -> Vec<u8> {
    let mut content = vec![0; FIXED_BYTES];
    match &packet.fragment {
        None => {
            let mut bare = [0; FIXED_BYTES];
            packet::write_bare(packet.from, to, job, packet.sequence, &mut bare);
            content.copy_from_slice(&bare);
        }
        Some(fragment) => {
            let outline = Outline { kind: fragment.kind, first: fragment.first, last: fragment.last };
            content.resize(outline.front_bytes(), 0);
            content.extend_from_slice(fragment.payload);
            outline.write(packet.from, to, job, packet.sequence, &mut content);
        }
    }
    let mut sealed = Vec::new();
    packet::seal(&content, &packet.acknowledgement, packet.address, &guard(hides), &mut sealed);
    sealed
}

fn kind() -> impl Strategy<Value = Kind> {
    use Kind::*;
    prop::sample::select(vec![Data, Request, Reply, Refuse, Confirm, Abandon, Bye])
}

/// A fragment's kind, header, whether it is the first of its record, the bytes of the record that follow it,
/// and its payload.
type Parts = (Kind, [u64; 3], bool, u32, Vec<u8>);

fn fragment() -> impl Strategy<Value = Option<Parts>> {
    let payload = prop::collection::vec(any::<u8>(), 0..1400);
    prop::option::of((kind(), any::<[u64; 3]>(), any::<bool>(), 0..3u32, payload))
}

proptest! {
    #[test]
    fn what_was_written_is_read(
        from in (0..10u32).prop_filter("not from myself", |&from| from != 3),
        sequence: u64,
        (below, selective, window) in any::<(u64, u64, u16)>(),
        address in prop::collection::vec(any::<u8>(), 0..=64),
        fragment in fragment(),
        hides: bool,
    ) {
        let fragment = fragment.as_ref().map(|(kind, header, first, rest, payload)| Fragment {
            kind: *kind,
            first: first.then_some((Header(*header), payload.len() as u32 + rest)),
            last: *rest == 0,
            payload,
        });
        let acknowledgement = Acknowledgement { below, selective, window };
        let packet = Packet { from, sequence, acknowledgement, address: &address, fragment };
        let (bytes, mut opened) = (write(&packet, 3, 7, hides), Vec::new());
        // Who encrypts reads what is not encrypted, and the other way round.
        for reads in [false, true] {
            prop_assert_eq!(packet::parse(&bytes, &me(), &guard(reads), &mut opened), Ok(packet));
        }
        for (to, job) in [(4, 7), (3, 8)] {
            prop_assert_eq!(refusal(&write(&packet, to, job, hides), &guard(hides)), Some(DropReason::Foreign));
        }
        prop_assert_eq!(refusal(&bytes, &Guard::new(&[8; 32], hides)), Some(DropReason::Forged));
    }

    #[test]
    fn no_bit_can_be_changed(
        bit in 0..8 * 200usize,
        payload in prop::collection::vec(any::<u8>(), 112),
        hides: bool,
    ) {
        let fragment = Fragment { kind: Kind::Data, first: Some((Header([1, 2, 3]), 112)), last: true, payload: &payload };
        let packet = Packet {
            from: 1,
            sequence: 5,
            acknowledgement: Acknowledgement::default(),
            address: &[],
            fragment: Some(fragment),
        };
        let mut bytes = write(&packet, 3, 7, hides);
        prop_assert_eq!(bytes.len(), if hides { 212 } else { 200 });
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(refusal(&bytes, &guard(hides)).is_some());
        bytes[bit / 8] ^= 1 << (bit % 8);
        bytes.truncate(bit / 8);
        prop_assert!(refusal(&bytes, &guard(hides)).is_some());
    }

    /// Checks arbitrary bytes behind the tag, too: a process that knows the secret may have an error.
    #[test]
    fn any_bytes_are_read_without_harm(
        start in prop::collection::vec(any::<u8>(), 0..200),
        flags in 0..5u8,
        kind in 0..9u8,
        hides: bool,
    ) {
        let guard = guard(hides);
        refusal(&start, &guard);
        let mut content = vec![0; FIXED_BYTES];
        packet::write_bare(1, 3, 7, 0, (&mut content[..]).try_into().unwrap());
        content.extend_from_slice(&start);
        content[3] = kind;
        content[42] = flags;
        content[43] = start.first().copied().unwrap_or(0);
        content[44..46].copy_from_slice(&[start.len() as u8, 0]);
        content[2] = 1;
        let tag = key().tag(&[&content]);
        content.extend_from_slice(&tag);
        let mut opened = Vec::new();
        if let Ok(packet) = packet::parse(&content, &me(), &guard, &mut opened) {
            prop_assert!(packet.from == 1 && packet.address.len() <= 64);
        }
    }

    #[test]
    fn words_are_read_as_written(nonce: u64, own: u64, address in prop::collection::vec(any::<u8>(), 0..=64)) {
        let words = [
            Word::Request { nonce },
            Word::Reply { nonce, own, address },
            Word::Refuse { nonce },
            Word::Confirm { nonce },
            Word::Abandon { nonce },
        ];
        for word in words {
            prop_assert_eq!(Word::parse(word.kind(), &word.text()), Some(word));
        }
    }

    #[test]
    fn any_bytes_are_words_or_not(kind in kind(), text in prop::collection::vec(any::<u8>(), 0..100)) {
        if let Some(word) = Word::parse(kind, &text) {
            prop_assert_eq!((word.kind(), word.text()), (kind, text));
        }
    }

    #[test]
    fn proofs_are_bound_to_what_they_claim(
        (job, from, to, connecting, accepting) in any::<(u32, u32, u32, u64, u64)>(),
        (connects, is_contact) in any::<(bool, bool)>(),
        bit in 0..8 * PRIVATE_BYTES,
    ) {
        let prover = Prover::new(&SECRET);
        let claim = Claim { job, from, to, is_contact, nonces: Nonces { connecting, accepting } };
        let mut data = prover.write(&claim, connects);
        prop_assert_eq!(data.len(), PRIVATE_BYTES);
        prop_assert_eq!(prover.read(&data, connects), Some(claim));
        prop_assert_eq!(prover.read(&data, !connects), None);
        prop_assert_eq!(Prover::new(&[1; 32]).read(&data, connects), None);
        prop_assert_eq!(prover.read(&data[..bit / 8], connects), None);
        data.extend_from_slice(&[0; 100]);
        prop_assert_eq!(prover.read(&data, connects), Some(claim));
        data[bit / 8] ^= 1 << (bit % 8);
        prop_assert_eq!(prover.read(&data, connects), None);
    }

    /// Runs the fuzz targets on arbitrary input.
    #[test]
    fn any_input_is_borne(input in prop::collection::vec(any::<u8>(), 0..3000)) {
        fuzz::datagrams(&input);
        fuzz::private_data(&input);
        fuzz::words(&input);
    }

    /// Checks that input from strangers changes nothing in a whole process.
    #[test]
    fn strangers_change_nothing(
        datagrams in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..100), 0..20),
        private_data in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let mut machine = Adaptive::new(settings(3, &Weather { ranks: 10, ..Weather::default() }));
        let now = Duration::from_secs(1);
        for datagram in &datagrams {
            machine.datagram(now, datagram, &mut |_: Peer, _: Header, _: &[u8]| -> Verdict { panic!("delivered") });
        }
        prop_assert_eq!(machine.requested(now, &private_data), Decision::Reject);
        let counters = machine.counters();
        prop_assert_eq!(counters.malformed + counters.foreign + counters.forged, datagrams.len() as u64);
        prop_assert_eq!((counters.rejected, counters.peers, machine.next_action()), (1, 0, None));
        prop_assert_eq!(machine.deadline(), None);
    }
}

/// Returns processes A and B and the datagrams of A after it has sent `records` records to B.
fn conversation(records: usize) -> (Adaptive, Adaptive, Vec<Vec<u8>>) {
    let weather = Weather { ranks: 10, mode: Mode::Never, ..Weather::default() };
    let (mut a, b) = (Adaptive::new(settings(1, &weather)), Adaptive::new(settings(3, &weather)));
    let now = Duration::from_secs(1);
    assert_eq!(a.send(now, Peer(3), Header::default(), 4, |_| panic!("it cannot leave")), Err(Full));
    a.reachable(now, Peer(3));
    let mut datagrams = Vec::new();
    for number in 0..records as u64 {
        a.send(now, Peer(3), Header([number, 0, 0]), 4, |room| room.fill(1)).unwrap();
        let again = a.send(now, Peer(3), Header([number, 0, 0]), 4, |_| panic!("another has not left"));
        assert_eq!(again, Err(Full));
        a.transmit(now, |to, _, bytes| {
            assert_eq!(to, Peer(3));
            datagrams.push(bytes.to_vec());
            true
        });
    }
    (a, b, datagrams)
}

/// Returns the first words of the headers that `machine` delivers.
fn delivered(machine: &mut Adaptive, datagrams: &[Vec<u8>]) -> Vec<u64> {
    let mut numbers = Vec::new();
    for datagram in datagrams {
        machine.datagram(Duration::from_secs(2), datagram, &mut |_: Peer, header: Header, _: &[u8]| {
            numbers.push(header.0[0]);
            Verdict::Taken
        });
    }
    numbers
}

#[test]
fn what_was_there_before_is_counted_and_dropped() {
    let (_, mut b, datagrams) = conversation(5);
    assert_eq!(delivered(&mut b, &datagrams), [0, 1, 2, 3, 4]);
    let replayed: Vec<Vec<u8>> = datagrams.iter().rev().cloned().collect();
    assert_eq!(delivered(&mut b, &replayed), []);
    assert_eq!((b.counters().duplicates, b.counters().received_records), (5, 5));
}

#[test]
fn datagrams_may_come_in_any_order() {
    let (_, mut b, mut datagrams) = conversation(5);
    datagrams.swap(0, 3);
    datagrams.swap(1, 2);
    assert_eq!(delivered(&mut b, &datagrams[..3]), []);
    assert_eq!(delivered(&mut b, &datagrams[3..]), [0, 1, 2, 3, 4]);
}

#[test]
fn what_is_taken_leaves_though_a_peer_is_silent() {
    let mut machine =
        Adaptive::new(settings(1, &Weather { ranks: 10, mode: Mode::Never, ..Weather::default() }));
    let peer = Peer(3);
    assert_eq!(machine.send(Duration::ZERO, peer, Header::default(), 4, |_| ()), Err(Full));
    machine.reachable(Duration::ZERO, peer);
    let (mut taken, mut firsts) = (0, 0);
    for step in 0..1000 {
        let now = Duration::from_millis(step);
        machine.tick(now);
        taken += u64::from(machine.send(now, peer, Header::default(), 4, |room| room.fill(7)).is_ok());
        machine.transmit(now, |_, _, _| true);
        let counters = machine.counters();
        firsts = counters.sent_datagrams - counters.repeated_datagrams;
        assert_eq!(firsts, taken, "after {step} ms");
    }
    assert!((16..=64).contains(&taken), "{taken}");
    assert!(machine.counters().repeated_datagrams > 0 && firsts == taken);
}

#[test]
fn a_peer_is_looked_up_once_and_nothing_is_taken_before() {
    let weather = Weather { ranks: 10, ..Weather::default() };
    let mut machine = Adaptive::new(settings(1, &weather));
    let now = Duration::from_secs(1);
    assert_eq!((machine.counters().peers, machine.deadline()), (0, None));
    for _ in 0..3 {
        let sent = machine.send(now, Peer(3), Header::default(), 4, |_| panic!("it cannot leave"));
        assert_eq!((sent, machine.has_room(Peer(3), 4)), (Err(Full), false));
    }
    machine.transmit(now, |_, _, _| panic!("its address is not known"));
    assert_eq!(machine.next_action(), Some(crate::adaptive::Action::LookUp(Peer(3))));
    assert_eq!((machine.next_action(), machine.deadline()), (None, None));
    assert_eq!(machine.connection_of(Peer(3)), None);
    assert_eq!(machine.connection_of(Peer(4)), None);
    machine.reachable(now, Peer(3));
    assert_eq!(machine.send(now, Peer(3), Header::default(), 4, |room| room.fill(1)), Ok(()));
    assert!(machine.deadline().is_some_and(|due| due <= now));
}
