//! Entry points for fuzzers, here so that ordinary tests run them too. Not part of the interface.

use std::time::Duration;

use super::packet::{FIXED_BYTES, Kind};
use super::tag::{Key, Use};
use super::words::{Prover, Word};
use super::{Adaptive, ConnectionId, Decision, Mode, Settings};
use crate::link::{Header, Peer, Verdict};

const SECRET: [u8; 32] = [5; 32];
const JOB: u32 = 7;
const RANKS: u32 = 4;

fn machine() -> Adaptive {
    Adaptive::new(Settings {
        ranks: RANKS,
        rank: 0,
        job: JOB,
        secret: SECRET,
        hides: true,
        seed: [1; 16],
        datagram_bytes: 1472,
        record_bytes: 4096,
        mode: Mode::OnDemand,
        threshold_messages: 2,
        threshold_bytes: 1 << 20,
        max_connections: 2,
        max_contacts: 2,
        can_call: true,
        sees_reach: true,
        address: Vec::new(),
        listen_address: b"here".to_vec(),
    })
}

/// Feeds `input` as datagrams of strangers, and as datagrams with any content from peers that know the
/// secret. The first two bytes of each piece are its length and the action before it. Nothing may panic, and
/// memory stays bounded.
pub fn datagrams(input: &[u8]) {
    let mut machine = machine();
    let key = Key::new(&SECRET, Use::Datagram);
    let mut now = Duration::from_millis(1);
    let mut rest = input;
    while let [length, what, tail @ ..] = rest {
        let (piece, after) = tail.split_at((usize::from(*length) * 6).min(tail.len()));
        rest = after;
        now += Duration::from_micros(u64::from(*what) * 100);
        let leave = what & 1 == 1;
        let mut sink = |_: Peer, _: Header, _: &[u8]| if leave { Verdict::Left } else { Verdict::Taken };
        machine.datagram(now, piece, &mut sink);
        let mut content = piece.to_vec();
        content.resize(piece.len().max(FIXED_BYTES), 0);
        content[..3].copy_from_slice(&[0x75, 0x74, 1]);
        content[4..8].copy_from_slice(&JOB.to_le_bytes());
        content[8..12].copy_from_slice(&(1 + u32::from(what >> 1 & 1)).to_le_bytes());
        content[12..16].copy_from_slice(&0u32.to_le_bytes());
        // Numbers near those that are expected say more than any.
        content[17..24].fill(0);
        let tag = key.tag(&[&content]);
        content.extend_from_slice(&tag);
        machine.datagram(now, &content, &mut sink);
        if what & 4 == 4 {
            machine.reachable(now, Peer(1));
            let _ = machine.connection_of(Peer(1)).is_some()
                || machine.send(now, Peer(1), Header::default(), piece.len(), |room| room.fill(1)).is_err();
        }
        if what & 16 == 16 {
            machine.called(now, Peer(2));
            machine.reached(now, ConnectionId(u32::from(*length)));
            machine.contacted(now, ConnectionId(u32::from(*length) % 8), piece, &mut sink);
            machine.closed(now, ConnectionId(u32::from(*length) % 4));
        }
        machine.poll(now, &mut sink);
        machine.tick(now);
        machine.transmit(now, |_, _, _| what & 8 == 0);
        while let Some(action) = machine.next_action() {
            std::hint::black_box(action);
        }
        assert!(machine.counters().memory_bytes < 4 << 20, "memory is bounded");
    }
}

/// Feeds `input` as private data of a connecting process, and of an accepting one.
pub fn private_data(input: &[u8]) {
    assert_eq!(machine().requested(Duration::ZERO, input), Decision::Reject);
    let prover = Prover::new(&SECRET);
    for connects in [false, true] {
        if let Some(claim) = prover.read(input, connects) {
            assert_eq!(prover.write(&claim, connects), input[..super::words::PRIVATE_BYTES]);
        }
    }
}

/// Feeds `input` as the text of a message about connections, of the kind of its first byte.
pub fn words(input: &[u8]) {
    use Kind::*;
    let Some((first, text)) = input.split_first() else { return };
    let kinds = [Data, Request, Reply, Refuse, Confirm, Abandon, Bye];
    let kind = kinds[usize::from(*first) % kinds.len()];
    if let Some(word) = Word::parse(kind, text) {
        assert_eq!((word.kind(), word.text()), (kind, text.to_vec()));
    }
}
