//! Recorder of the events that end a wait, for the report of a hang ([`tutti_hang`]). A wait describes itself
//! by a function that returns a text. While the recorder of the thread is on, that function also notes the
//! events. So a wait costs nothing more until somebody asks.

use std::cell::RefCell;

use tutti_base::WorldRank;
use tutti_hang::{Kind, Mode, Need, Ranks};

/// Maximum number of needs that are noted for a wait.
const MOST: usize = 64;

/// Needs of a wait.
#[derive(Debug)]
pub struct Recording {
    /// Quantifier of the needs.
    pub mode: Mode,
    /// Events that end the wait.
    pub needs: Vec<Need>,
    /// True if needs were left out.
    pub is_cut: bool,
}

thread_local! {
    static RECORDING: RefCell<Option<Recording>> = const { RefCell::new(None) };
}

/// Returns what `describe` returns, and the needs that it notes.
pub fn record(describe: &dyn Fn() -> String) -> (String, Recording) {
    let new = Recording { mode: Mode::All, needs: Vec::new(), is_cut: false };
    RECORDING.with(|recording| *recording.borrow_mut() = Some(new));
    let text = describe();
    let noted = RECORDING.with(|recording| recording.borrow_mut().take());
    (text, noted.expect("set above and taken here alone"))
}

/// Notes a need. The function is called only while the recorder is on. All noted needs must be met, unless
/// [`note_any`] was called.
pub fn note(need: impl FnOnce() -> Need) {
    // A thread that ends has no recorder any more, and may still wait in a destructor.
    if !RECORDING.try_with(|recording| recording.borrow().is_some()).unwrap_or(false) {
        return;
    }
    let need = need();
    RECORDING.with(|recording| {
        if let Some(recording) = &mut *recording.borrow_mut() {
            recording.is_cut |= recording.needs.len() >= MOST;
            if recording.needs.len() < MOST {
                recording.needs.push(need);
            }
        }
    });
}

/// Notes that one of the needs is enough. Returns true if the recorder is on.
pub fn note_any() -> bool {
    let begin = |recording: &RefCell<Option<Recording>>| {
        recording.borrow_mut().as_mut().map(|r| r.mode = Mode::Any).is_some()
    };
    RECORDING.try_with(begin).unwrap_or(false)
}

/// Returns a need that all these ranks of the world must meet.
pub fn of_all(kind: Kind, object: String, ranks: impl IntoIterator<Item = WorldRank>) -> Need {
    Need { object, ..Need::new(kind, to_set(ranks), Mode::All) }
}

/// Returns ranks of the world as a set.
pub fn to_set(ranks: impl IntoIterator<Item = WorldRank>) -> Ranks {
    ranks.into_iter().map(|rank| rank.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_are_noted_while_somebody_asks() {
        let need = || of_all(Kind::Lock, "w".to_string(), [WorldRank(3)]);
        note(|| unreachable!("nobody asks"));
        let (text, recording) = record(&|| {
            (0..=MOST).for_each(|_| note(need));
            assert!(note_any());
            "text".to_string()
        });
        assert_eq!((text.as_str(), recording.mode, recording.is_cut), ("text", Mode::Any, true));
        assert_eq!((recording.needs.len(), &recording.needs[0]), (MOST, &need()));
        assert!(!note_any());
    }
}
