//! Fuzzing of sessions: a session neither panics nor grows without bound, whatever bytes a client with the
//! key sends, in whatever pieces.

use super::{
    Entry, Error, ErrorClass, HEADER_BYTES, MOST_UNPROVED_BYTES, Make, Opened, Request, Result, Session,
    Store, Token,
};
use crate::servers::greeting::Key;
use crate::servers::wire;
use crate::simulated::Simulated;
use std::sync::Arc;

/// Store with one file in memory.
#[derive(Debug, Default)]
pub struct Memory {
    /// File to which all names refer.
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

/// Returns a session whose client has given its proof and opened a file. The file has room for `room` bytes
/// and the given striping (length, servers, number of this one).
///
/// # Panics
/// If opening the file fails: a bug.
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

/// Processes bytes of a fuzzer as requests of a client with the key.
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

/// Processes bytes of a fuzzer as messages of a client without the key.
///
/// # Panics
/// If such a client proves that it knows the key, or many of its bytes are stored: a bug.
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
