//! For fuzzing: whatever bytes a client that knows the key sends, in whatever pieces, a session neither
//! panics nor grows without bound.

use super::{
    Entry, Error, ErrorClass, HEADER_BYTES, MOST_UNPROVED_BYTES, Make, Opened, Request, Result, Session,
    Store, Token,
};
use crate::servers::greeting::Key;
use crate::servers::wire;
use crate::simulated::Simulated;
use std::sync::Arc;

/// Files in memory.
#[derive(Debug, Default)]
pub struct Memory {
    /// What all names lead to.
    pub file: Option<Arc<Simulated>>,
}

impl Store for Memory {
    fn look(&mut self, _: u64, _: &str, _: Make) -> Result<Option<String>> {
        Ok(None)
    }

    fn commit(&mut self, _: u64, _: &str, _: &str) -> Result<()> {
        Ok(())
    }

    fn open(&mut self, _: &str, _: bool, _: bool, _: Make) -> Result<Opened> {
        let none = || Error::new(ErrorClass::NoSuchFile, "there is none");
        let file = self.file.as_ref().ok_or_else(none)?;
        Ok(Opened { driver: Arc::<Simulated>::clone(file), ticket: [0; 16], identity: (0, 0) })
    }

    fn close(&mut self, _: &Token) {}

    fn delete(&mut self, _: &str) -> Result<()> {
        Ok(())
    }

    fn list(&mut self, _: &str) -> Result<Vec<Entry>> {
        Ok(Vec::new())
    }

    fn leave(&mut self, _: u64) {}

    fn verifier(&self) -> u64 {
        7
    }
}

/// A session whose client has proved that it knows the key, and has opened a file of `room` bytes of
/// which every byte is a stripe of three.
///
/// # Panics
/// If the greeting fails: a bug.
pub fn proved(store: &mut Memory, room: u64, stripes: (u64, u32, u32)) -> Session {
    store.file = Some(Arc::new(Simulated::new(1, room, 0)));
    let key = Key::random().expect("random numbers");
    let mut session = Session::new(1, key, Vec::new());
    session.proved = true;
    let open = Request::Open { name: "x".to_string(), read: true, write: true, make: Make::No, stripes };
    let (mut bytes, mut out) = (Vec::new(), Vec::new());
    wire::put(&mut bytes, &open, 0);
    let fed = session.feed(store, &bytes, &mut out).expect("a request that makes sense");
    assert_eq!(fed, bytes.len());
    session
}

/// The entry for bytes of a fuzzer.
pub fn requests(input: &[u8]) {
    let mut store = Memory::default();
    let mut session = proved(&mut store, 1 << 16, (5, 3, 1));
    let mut out = Vec::new();
    for piece in input.chunks(1 + input.len() / 7) {
        let mut at = 0;
        while at < piece.len() {
            let Ok(taken) = session.feed(&mut store, &piece[at..], &mut out) else { return };
            at += taken;
            for _ in 0..64 {
                if !session.produce(&store, &mut out) {
                    break;
                }
                out.clear();
            }
            if let Some(later) = session.later() {
                let result = later();
                session.finish(&store, result, &mut out);
            }
            if taken == 0 && !session.listens() {
                return;
            }
        }
    }
}

/// The entry for bytes of a fuzzer that a client sends which does not know the key.
///
/// # Panics
/// If such a client has proved that it knows the key, or much is kept of what it sends: a bug.
pub fn greetings(input: &[u8]) {
    let mut store = Memory::default();
    let mut session = Session::new(1, Key::random().expect("random numbers"), Vec::new());
    let mut out = Vec::new();
    for piece in input.chunks(1 + input.len() / 5) {
        match session.feed(&mut store, piece, &mut out) {
            Ok(taken) => assert_eq!(taken, piece.len()),
            Err(_) => return,
        }
        assert!(!session.proved && session.input.len() <= HEADER_BYTES + MOST_UNPROVED_BYTES);
    }
}
