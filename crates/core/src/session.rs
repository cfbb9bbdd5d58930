//! Sessions (MPI-5 section 11.3): a way into the library besides the world model.
//!
//! Sessions of a process share its one [`Process`]: isolation is that of communicators. There are two process
//! sets, the job and the process itself.

use std::sync::Arc;

use tutti_base::{Error, ErrorClass, Result};

use crate::buffered::{OF_SESSIONS, Place};
use crate::error_handler::ErrorHandler;
use crate::giant::{GiantCell, Held};
use crate::group::Group;
use crate::info::Info;
use crate::process::Process;

/// The names of the process sets.
pub const PROCESS_SETS: [&str; 2] = ["mpi://WORLD", "mpi://SELF"];

/// An open session.
#[derive(Debug)]
pub struct Session {
    /// What happens on errors.
    pub error_handler: GiantCell<ErrorHandler>,
    /// Hints that the program gave.
    pub info: Info,
    /// Where a buffer for buffered sends is attached.
    pub buffer: Arc<Place>,
}

impl Session {
    /// Opens a session.
    pub fn open(held: &Held, error_handler: ErrorHandler, info: Info) -> Session {
        let buffer = Arc::new(Place::new());
        OF_SESSIONS.borrow_mut(held).push(Arc::clone(&buffer));
        Session { error_handler: GiantCell::new(error_handler), info, buffer }
    }

    /// Closes it: waits for the messages in its buffer.
    pub fn close(&self, held: &mut Held, process: &Process) {
        self.buffer.flush(held, process);
        OF_SESSIONS.borrow_mut(held).retain(|place| !Arc::ptr_eq(place, &self.buffer));
    }
}

/// The group of a process set.
///
/// # Errors
/// `Arg` if there is no set of this name.
pub fn process_set(process: &Process, name: &[u8]) -> Result<Group> {
    match std::str::from_utf8(name) {
        Ok("mpi://WORLD") => Ok(process.world.group().clone()),
        Ok("mpi://SELF") => Ok(process.myself.group().clone()),
        _ => {
            let reason =
                format!("there is no process set {}; give one of {PROCESS_SETS:?}", name.escape_ascii());
            Err(Error::new(ErrorClass::Arg, reason))
        }
    }
}

/// A tag for the messages that make a communicator from a group: equal for equal string tags.
pub fn tag_of(string_tag: &[u8]) -> i32 {
    let hash = string_tag
        .iter()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
    (hash >> 33) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(one: &str, other: &str, same: bool) {
        assert!(tag_of(one.as_bytes()) >= 0);
        assert_eq!(tag_of(one.as_bytes()) == tag_of(other.as_bytes()), same, "{one} {other}");
    }

    #[test]
    fn tags_tell_string_tags_apart() {
        check("", "", true);
        check("org.example", "org.example", true);
        check("org.example", "org.exampld", false);
        check("", "a", false);
    }
}
