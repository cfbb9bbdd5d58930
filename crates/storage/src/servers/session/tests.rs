//! Tests of sessions against models.

use super::fuzz::{Memory, greetings, proved, requests};
use super::*;
use crate::servers::stripes::Ground;
use proptest::prelude::*;
use tutti_data::{Datatype, Form, Tiling};

const FILE: u32 = 1;

/// Sends a request in pieces, and returns all that arrives: the data, and the last reply.
fn ask(
    session: &mut Session,
    store: &mut Memory,
    request: &Request,
    payload: &[u8],
    cut: usize,
) -> (Vec<u8>, Reply) {
    let (mut bytes, mut out) = (Vec::new(), Vec::new());
    wire::put(&mut bytes, request, payload.len() as u64);
    bytes.extend_from_slice(payload);
    for piece in bytes.chunks(cut.max(1)) {
        assert_eq!(session.feed(store, piece, &mut out).unwrap(), piece.len());
    }
    while session.produce(store, &mut out) {}
    if let Some(later) = session.later() {
        let result = later();
        session.finish(store, result, &mut out);
    }
    let (mut rest, mut data) = (&out[..], Vec::new());
    loop {
        let header = Header::decode(rest.first_chunk().unwrap()).unwrap();
        let (message, after) = rest[HEADER_BYTES..].split_at(header.message);
        let (payload, after) = after.split_at(header.payload as usize);
        rest = after;
        match wire::message(message).unwrap() {
            Reply::Data => data.extend_from_slice(payload),
            reply => {
                assert!(rest.is_empty());
                return (data, reply);
            }
        }
    }
}

fn done(value: u64) -> Reply {
    Reply::Done { value, verifier: 7 }
}

fn tiles(piece: i64, gap: i64, displacement: i64) -> Tiles {
    let byte = Datatype::predefined(0x247).unwrap();
    let block = Datatype::create_contiguous(piece, byte, Form::Int).unwrap();
    let tile = Datatype::create_resized(0, piece + gap, &block, Form::Int).unwrap();
    tile.commit();
    Tiles::new(displacement, Tiling::from_datatype(&tile))
}

#[test]
fn nobody_without_the_key_is_served() {
    let key = Key::random().unwrap();
    let check = |request: &Request| {
        let (mut bytes, mut out) = (Vec::new(), Vec::new());
        wire::put(&mut bytes, &Request::Hello { version: VERSION, nonce: [1; 16], cover: 0 }, 0);
        wire::put(&mut bytes, request, 0);
        let mut session = Session::new(1, key, Vec::new());
        assert!(session.feed(&mut Memory::default(), &bytes, &mut out).is_err());
    };
    check(&Request::Proof([0; 16]));
    check(&Request::List { after: String::new() });
}

#[test]
fn nothing_long_is_kept_before_the_proof() {
    let check = |message: usize, payload: u64, expected| {
        let mut session = Session::new(1, Key::random().unwrap(), Vec::new());
        let header = [&(message as u32).to_le_bytes()[..], &payload.to_le_bytes()].concat();
        let fed = session.feed(&mut Memory::default(), &[&header[..], &[0; 8]].concat(), &mut Vec::new());
        assert_eq!(fed.is_ok(), expected, "{message} {payload}");
    };
    check(MOST_UNPROVED_BYTES, 0, true);
    check(MOST_UNPROVED_BYTES + 1, 0, false);
    check(wire::MOST_MESSAGE_BYTES, 0, false);
    check(MOST_UNPROVED_BYTES, 1, false);
}

#[test]
fn the_greeting_fits_before_the_proof() {
    for request in
        [Request::Hello { version: u32::MAX, nonce: [255; 16], cover: 255 }, Request::Proof([255; 16])]
    {
        let mut bytes = Vec::new();
        wire::put(&mut bytes, &request, 0);
        let message = &bytes[HEADER_BYTES..];
        assert!(message.len() <= MOST_UNPROVED_BYTES);
        assert_eq!(unproved(message).unwrap(), request);
    }
    let mut bytes = Vec::new();
    wire::put(&mut bytes, &Request::Nothing, 0);
    assert!(unproved(&bytes[HEADER_BYTES..]).is_err());
}

#[test]
fn a_write_to_what_is_not_open_is_told_after_its_payload() {
    let mut store = Memory::default();
    let mut session = proved(&mut store, 1000, (10, 1, 0));
    let place = Selection::Run { offset: 0, bytes: 5 };
    let (_, reply) = ask(&mut session, &mut store, &Request::Write(99, place), b"hello", 3);
    assert!(matches!(reply, Reply::Failed { class, .. } if class == ErrorClass::File as i32));
    let (_, reply) = ask(&mut session, &mut store, &Request::Bytes(FILE), &[], 100);
    assert_eq!(reply, done(0));
}

#[test]
fn a_full_device_is_told_with_what_was_written() {
    let mut store = Memory::default();
    let mut session = proved(&mut store, 100, (1000, 1, 0));
    let place = Selection::Run { offset: 0, bytes: 500 };
    let (_, reply) = ask(&mut session, &mut store, &Request::Write(FILE, place), &[1; 500], 70);
    assert!(
        matches!(reply, Reply::Failed { class, value: 100, .. } if class == ErrorClass::NoSpace as i32),
        "{reply:?}"
    );
}

proptest! {
    /// Checks that the servers' parts of an access together are the whole, for each form of place.
    #[test]
    fn random_accesses_against_a_model(
        piece in 1i64..60, gap in 0i64..60, displacement in 0i64..40, stream in 0u64..300, bytes in 1u64..4000,
        stripe in 1u64..700, count in 1u32..5, cut in 1usize..5000, way in 0u8..3,
    ) {
        let view = Arc::new(tiles(piece, gap, displacement));
        let ground = if way == 0 { Ground::File } else { Ground::View(Arc::clone(&view)) };
        let stripes = Stripes::new(stripe, count).unwrap();
        let data: Vec<u8> = (0..bytes).map(|byte| (byte % 251) as u8 + 1).collect();
        let mut all = Vec::new();
        ground.runs(stream..stream + bytes, &mut all, usize::MAX);
        let mut back = vec![0; bytes as usize];
        for server in 0..count {
            let mut store = Memory::default();
            let mut session = proved(&mut store, u64::MAX, (stripe, count, server));
            let parts: Vec<_> = ground.parts(stream..stream + bytes, stripes, server).collect();
            let own = parts.iter().flat_map(|part| &data[(part.start - stream) as usize..(part.end - stream) as usize]);
            let own: Vec<u8> = own.copied().collect();
            let place = match way {
                0 => Selection::Run { offset: stream, bytes },
                1 => {
                    let tell = Request::View { file: FILE, number: 3, shape: view.encode() };
                    let (mut told, mut out) = (Vec::new(), Vec::new());
                    wire::put(&mut told, &tell, 0);
                    session.feed(&mut store, &told, &mut out).unwrap();
                    Selection::View { number: 3, stream, bytes }
                }
                _ => {
                    let mut pieces = Vec::new();
                    stripes.cut(&all, |owner, piece, _| if owner == server { pieces.push(piece) });
                    Selection::List(wire::list(&pieces))
                }
            };
            let (_, reply) = ask(&mut session, &mut store, &Request::Write(FILE, place.clone()), &own, cut);
            prop_assert_eq!(reply, done(own.len() as u64));
            let (read, reply) = ask(&mut session, &mut store, &Request::Read(FILE, place), &[], cut);
            prop_assert_eq!(&read, &own);
            prop_assert_eq!(reply, done(own.len() as u64));
            // No other byte was written.
            let (_, writes) = store.file.as_ref().unwrap().contents();
            prop_assert_eq!(writes.iter().map(|count| u64::from(*count)).sum::<u64>(), own.len() as u64);
            let mut rest = &read[..];
            for part in parts {
                let (now, later) = rest.split_at((part.end - part.start) as usize);
                back[(part.start - stream) as usize..][..now.len()].copy_from_slice(now);
                rest = later;
            }
        }
        prop_assert_eq!(back, data);
    }

    #[test]
    fn any_bytes_do_no_harm(input in proptest::collection::vec(any::<u8>(), 0..600)) {
        requests(&input);
        greetings(&input);
    }

    /// Generates frames with accesses to arbitrary places.
    #[test]
    fn any_place_does_no_harm(
        offset in any::<u64>(), bytes in any::<u64>(), list in proptest::collection::vec((any::<u64>(), any::<u64>()), 0..5),
        shape in proptest::collection::vec(any::<u8>(), 0..80), payload in 0usize..3000, way in 0u8..6,
    ) {
        let mut input = Vec::new();
        let write = |place| Request::Write(FILE, place);
        let request = match way {
            0 => Request::Read(FILE, Selection::Run { offset, bytes }),
            1 => write(Selection::Run { offset, bytes }),
            2 => Request::Read(FILE, Selection::List(list)),
            3 => write(Selection::List(list)),
            _ => {
                wire::put(&mut input, &Request::View { file: FILE, number: 0, shape }, 0);
                write(Selection::View { number: 0, stream: offset, bytes })
            }
        };
        let payload = if matches!(request, Request::Write(..)) { payload } else { 0 };
        wire::put(&mut input, &request, payload as u64);
        input.resize(input.len() + payload, 1);
        requests(&input);
    }
}
