//! Entry points of the fuzz targets: arbitrary bytes that arrive over a connection. The tests call them with
//! random input.

use std::time::Duration;

use super::daemon::{Daemon, Event};
use tutti_seal::{Cover, End, Incoming, Root, SALT_BYTES, Salts};

use super::frame::Reader;
use super::handshake::{Admitting, HELLO_BYTES, Joining};
use super::message::{Down, Up};

/// Checks that a peer that sends arbitrary bytes is never admitted.
pub fn strangers(input: &[u8]) {
    let admitting = input.split_first_chunk::<HELLO_BYTES>().and_then(|(hello, rest)| {
        let (admitting, _) = Admitting::new([9; 32], hello, &[1; 32]).ok()?;
        Some((admitting, rest.first_chunk()?))
    });
    if let Some((admitting, proof)) = admitting {
        assert!(admitting.admit(proof).is_err(), "a proof without the secret");
    }
    if let Some(challenge) = input.first_chunk() {
        let (joining, _) = Joining::new([9; 32], 1, [2; 32]);
        assert!(joining.prove(challenge).is_err(), "a challenge without the secret");
    }
}

/// Checks that bytes inserted into a trusted connection never become a frame, as they lack the key.
pub fn frames(input: &[u8]) {
    let salts = Salts { connecting: [1; SALT_BYTES], accepting: [2; SALT_BYTES] };
    let keys = Root::new(&[3; 32], "fuzz").connection(Cover::Encrypted, End::Accepting, &salts, b"");
    let mut reader = Reader::new(Incoming::new(&keys));
    for piece in input.chunks(7) {
        reader.feed(piece);
        match reader.next_frame() {
            Ok(None) => {}
            Ok(Some(_)) => panic!("a frame without the key"),
            Err(_) => return,
        }
    }
}

/// Checks that arbitrary messages of a faulty daemon are parsed or refused, and handled without harm.
pub fn messages(input: &[u8]) {
    let mut daemon = Daemon::new(1);
    let mut actions = Vec::new();
    let mut rest = input;
    let mut now = Duration::ZERO;
    while let Some((&first, after)) = rest.split_first() {
        let event = if first % 2 == 0 {
            postcard::take_from_bytes::<Down>(after).map(|(down, rest)| (Event::Down(down), rest))
        } else {
            let child = u32::from(first) / 2;
            postcard::take_from_bytes::<Up>(after).map(|(up, rest)| (Event::Up(child, up), rest))
        };
        let Ok((event, more)) = event else { return };
        rest = more;
        now += Duration::from_millis(u64::from(first));
        daemon.handle(event, now, &mut actions);
        daemon.handle(Event::Joined(u32::from(first) / 2), now, &mut actions);
        daemon.tick(now, &mut actions);
        actions.clear();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::message::{JobInfo, Phase};
    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_taken_without_harm(input in proptest::collection::vec(any::<u8>(), 0..400)) {
            strangers(&input);
            frames(&input);
            messages(&input);
        }

        /// Feeds the same messages after a malformed plan.
        #[test]
        fn plans_may_be_nonsense(
            daemons in 0u32..9,
            radix in 0u32..4,
            runs in proptest::collection::vec((0u32..5, any::<u32>()), 0..5),
            daemon_of in proptest::collection::vec(0u32..12, 0..6),
            tail in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let names = (0..daemons).map(|number| number.to_string()).collect();
            let plan = JobInfo { names, radix, runs, daemon_of, ..JobInfo::default() };
            let words = [Down::Plan(Box::new(plan)), Down::Ask(super::super::message::Ask { host: 3, local: 1, generation: 0 })];
            let ups = [Up::Reached(Phase::Joined), Up::Reached(Phase::Drained)];
            let mut input = Vec::new();
            for word in words {
                input.push(2);
                input.extend(postcard::to_stdvec(&word).expect("plain data"));
            }
            for up in ups {
                input.push(7);
                input.extend(postcard::to_stdvec(&up).expect("plain data"));
            }
            input.extend(tail);
            messages(&input);
        }
    }
}
