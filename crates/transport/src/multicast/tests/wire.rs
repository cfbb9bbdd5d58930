//! Datagrams and words as bytes.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use crate::link::{Header, Peer, Verdict};
use crate::multicast::control::{MulticastControl, Path};
use crate::multicast::packet::{
    Datagram, FIRST, FRONT_BYTES, LAST, Member, PACKET_BYTES, PAYLOAD_BYTES, Unfit,
};
use crate::multicast::seal::Seal;
use crate::multicast::{Multicast, MulticastSettings};

const MEMBER: Member = Member { job: 7, rank: 1, ranks: 3 };

fn seal() -> Seal {
    Seal::new(&[9; 32])
}

fn sealed(payload: &[u8]) -> Vec<u8> {
    let mut room = vec![0; PACKET_BYTES];
    room[FRONT_BYTES..][..payload.len()].copy_from_slice(payload);
    let length = MEMBER.seal(&seal(), &mut room, (5, 1 << 40, FIRST | LAST), payload.len());
    room.truncate(length);
    room
}

fn check(bytes: &[u8], expected: Result<Datagram<'_>, Unfit>) {
    assert_eq!(MEMBER.parse(&seal(), bytes), expected);
}

#[test]
fn datagrams_survive_the_wire() {
    for payload in [&b""[..], b"text", &[3; PAYLOAD_BYTES]] {
        let bytes = sealed(payload);
        let kind = FIRST | LAST;
        check(&bytes, Ok(Datagram::Part { sender: 1, stream: 5, number: 1 << 40, kind, payload }));
    }
    check(&MEMBER.probe(&seal(), u64::MAX), Ok(Datagram::Probe { sender: 1, nonce: (1 << 56) - 1 }));
}

#[test]
fn what_is_not_ours_is_dropped() {
    let bytes = sealed(b"text");
    for bit in 32..8 * bytes.len() {
        let mut wrong = bytes.clone();
        wrong[bit / 8] ^= 1 << (bit % 8);
        check(&wrong, Err(Unfit::Forged));
    }
    let mut foreign = bytes.clone();
    foreign[0] ^= 1;
    check(&foreign, Err(Unfit::Foreign));
    check(&bytes[..30], Err(Unfit::Malformed));
    check(&[0; PACKET_BYTES + 1], Err(Unfit::Malformed));
    let stranger = Member { rank: 3, ranks: 9, ..MEMBER };
    check(&stranger.probe(&seal(), 1), Err(Unfit::Malformed));
}

#[test]
fn dropped_datagrams_are_counted() {
    let settings = MulticastSettings { job: 7, rank: 0, ranks: 3, secret: [9; 32], window: 4 };
    let mut machine = Multicast::new(&settings);
    let mut sink = |_: Peer, _: Header, _: &[u8]| -> Verdict { panic!("nothing is delivered") };
    let bytes = sealed(b"text");
    let mut forged = bytes.clone();
    *forged.last_mut().unwrap() ^= 1;
    for datagram in [&bytes[..], &forged, &[0; 40], b"short"] {
        machine.datagram(Duration::ZERO, datagram, &mut sink);
    }
    let counters = machine.counters();
    // Nobody has opened the stream of the first one.
    assert_eq!((counters.again, counters.forged, counters.foreign, counters.malformed), (1, 1, 1, 1));
}

#[test]
fn words_survive_the_wire() {
    let group = SocketAddrV4::new(Ipv4Addr::new(239, 1, 2, 3), 65535);
    let first = u64::MAX >> 8;
    for word in [
        MulticastControl::Open { first, quarter: 9, group, way: Path::default() },
        MulticastControl::Open {
            first,
            quarter: 9,
            group,
            way: Path { parent: Some(0), children: vec![7, 8] },
        },
        MulticastControl::Gathered { origin: 3, next: first },
        MulticastControl::Straight,
        MulticastControl::Opened { first },
        MulticastControl::Refused { first },
        MulticastControl::Have { next: first },
        MulticastControl::Lack { next: 3, ranges: vec![(0, 1), (7, u32::MAX)] },
        MulticastControl::Ask { end: first },
        MulticastControl::Repair { number: 8, kind: 3, payload: vec![1, 2, 3] },
        MulticastControl::Leave { end: 4 },
        MulticastControl::Left { end: 5 },
        MulticastControl::Decline { end: 6 },
    ] {
        let (header, payload) = word.encode(77);
        assert_eq!(header.0[0] & 0xff, crate::link::LINK_KIND);
        assert_eq!(MulticastControl::decode(header, &payload), Some((77, word)));
    }
    assert_eq!(MulticastControl::decode(Header([0xfe, 0, 0]), &[]), None);
    assert_eq!(MulticastControl::decode(Header([0xfe | 1 << 8, 0, 0]), &[1; 3]), None);
    assert_eq!(MulticastControl::decode(Header([0xfe | 5 << 8, 0, 0]), &[1; 9]), None);
    assert_eq!(MulticastControl::decode(Header([0xfe | 7 << 8, 0, 4]), &[]), None);
}
