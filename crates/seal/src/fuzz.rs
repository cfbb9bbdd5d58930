//! Attacks of an intermediary on a stream: for the fuzz target and for the ordinary tests.

use crate::{Cover, End, Forged, Outgoing, Root, Salts, Sealed};

const SALTS: Salts = Salts { connecting: [1; 32], accepting: [2; 32] };

fn keys(end: End, cover: Cover) -> crate::StreamKeys {
    Root::new(&[7; 32], "fuzz").connection(cover, end, &SALTS, b"greeting")
}

/// Seals a text and changes its records in transit. The first byte of `input` selects the protection. Each
/// three of the other bytes describe a change: its kind, its place, and its length or value.
///
/// # Panics
/// If the receiver gets anything but a beginning of the text, or uses too much memory.
pub fn changed_streams(input: &[u8]) {
    let Some((cover, changes)) = input.split_first() else { return };
    let cover = if cover % 2 == 0 { Cover::Encrypted } else { Cover::Authenticated };
    let text: Vec<u8> = (0..600u32).map(|at| (at * 7 % 251) as u8).collect();
    let mut outgoing = Outgoing::new(&keys(End::Connecting, cover));
    let mut records = Vec::new();
    for piece in text.chunks(97) {
        outgoing.put([piece].into_iter());
        records.extend_from_slice(outgoing.pending());
        outgoing.sent(outgoing.pending().len());
    }
    let original = records.clone();
    for change in changes.chunks_exact(3) {
        let at = usize::from(change[1]) * 3 % (records.len() + 1);
        let length = usize::from(change[2]).min(records.len() - at);
        match change[0] % 5 {
            0 if length > 0 => records[at] ^= change[2],
            1 => drop(records.drain(at..at + length)),
            2 => drop(records.splice(at..at, records[at..at + length].to_vec())),
            3 => drop(records.splice(at..at, change.to_vec())),
            _ => records.truncate(at.max(1)),
        }
        if records.is_empty() {
            break;
        }
    }
    let part = usize::from(*cover_part(input)) + 1;
    let got = receive(&keys(End::Accepting, cover), &records, part);
    let (got, end) = got;
    assert!(text.starts_with(&got), "what is delivered was sent");
    if records == original {
        assert!(end.is_ok() && got == text, "an unchanged stream is delivered");
    }
}

fn cover_part(input: &[u8]) -> &u8 {
    input.last().unwrap_or(&0)
}

/// Opens records that arrive in parts. Returns the content, and the result at the end.
pub(crate) fn receive(
    keys: &crate::StreamKeys,
    records: &[u8],
    part: usize,
) -> (Vec<u8>, Result<(), Forged>) {
    let mut sealed = Sealed::new(keys);
    let (mut got, mut content) = (Vec::new(), [0; 50]);
    for mut bytes in records.chunks(part) {
        while !bytes.is_empty() {
            let room = sealed.incoming.room();
            let now = room.len().min(bytes.len());
            room[..now].copy_from_slice(&bytes[..now]);
            sealed.incoming.arrived(now);
            bytes = &bytes[now..];
            loop {
                match sealed.take(&mut content) {
                    Ok(0) => break,
                    Ok(count) => got.extend_from_slice(&content[..count]),
                    Err(forged) => return (got, Err(forged)),
                }
            }
            assert!(sealed.incoming.memory_bytes() <= 64 << 10, "room is bounded");
        }
    }
    (got, Ok(()))
}
