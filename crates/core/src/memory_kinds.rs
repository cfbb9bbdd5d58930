//! Kinds of memory that communication buffers may have (MPI-5 section 11.4.3, info key
//! `mpi_memory_alloc_kinds`).
//!
//! A list has entries `kind` or `kind:restrictor:...`, separated by commas. Tutti always supports `system`
//! and `mpi`. It supports `mpi` with restrictors if the program requests them, in one of three ways:
//!
//! - `mpirun -memory-alloc-kinds`,
//! - the info object of MPI_Comm_spawn, for the processes that it starts,
//! - the info object of MPI_Session_init.
//!
//! Objects have the kinds of the session from which they derive, or those of the world model.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use tutti_sys::spawning::ENV_MEMORY_KINDS;

use crate::info::Info;
use crate::lanes::{FirstLaneCell, LaneGuard};
use crate::origin::Origin;

/// Info key with the kinds that an object supports.
pub const KEY: &str = "mpi_memory_alloc_kinds";

/// Kinds that every object supports.
const ALWAYS: &str = "mpi,system";

/// Supported kinds, each with its restrictors.
const KINDS: [(&str, &[&str]); 2] =
    [("mpi", &["alloc_mem", "win_allocate", "win_allocate_shared"]), ("system", &[])];

/// Kinds of the world model.
static OF_WORLD: LazyLock<Arc<str>> =
    LazyLock::new(|| supported(&std::env::var(ENV_MEMORY_KINDS).unwrap_or_default()).into());

/// Kinds of open sessions that requested some.
static OF_SESSIONS: FirstLaneCell<BTreeMap<Origin, Arc<str>>> = FirstLaneCell::new(BTreeMap::new());

/// Returns true if Tutti supports the entry of a list.
fn is_supported(entry: &str) -> bool {
    let mut words = entry.split(':');
    let kind = words.next().unwrap_or_default();
    let Some((_, restrictors)) = KINDS.iter().find(|(known, _)| known.eq_ignore_ascii_case(kind)) else {
        return false;
    };
    words.all(|word| restrictors.iter().any(|known| known.eq_ignore_ascii_case(word)))
}

/// Returns true if Tutti supports all entries of a list.
pub fn are_supported(list: &str) -> bool {
    list.split(',').all(|entry| is_supported(entry.trim()))
}

/// Returns the kinds of an object for which these were requested: the permanent ones, then those of the
/// requested ones that are supported.
pub fn supported(requested: &str) -> String {
    let mut kinds: Vec<&str> = ALWAYS.split(',').collect();
    for entry in requested.split(',').map(str::trim).filter(|entry| is_supported(entry)) {
        if !kinds.iter().any(|known| known.eq_ignore_ascii_case(entry)) {
            kinds.push(entry);
        }
    }
    kinds.join(",")
}

/// Returns the kinds of the objects of a session, or of the world model.
pub fn kinds_of(held: &LaneGuard, origin: Origin) -> Arc<str> {
    let requested = OF_SESSIONS.borrow(held).get(&origin).map(Arc::clone);
    requested.unwrap_or_else(|| Arc::clone(&OF_WORLD))
}

/// Adds the kinds of an object of this origin to the info object that describes it.
pub fn add_to(info: &mut Info, held: &LaneGuard, origin: Origin) {
    // A list that is too long for an info object was also too long when it was requested.
    let _ = info.set(KEY, kinds_of(held, origin).as_bytes());
}

/// Stores the kinds that a session requested, until [`forget`]. A session without a request has those of the
/// world model.
pub(crate) fn request(held: &LaneGuard, session: Origin, requested: Option<&str>) {
    if let Some(requested) = requested {
        OF_SESSIONS.borrow_mut(held).insert(session, supported(requested).into());
    }
}

/// Removes the kinds of a session that is closed.
pub(crate) fn forget(held: &LaneGuard, session: Origin) {
    OF_SESSIONS.borrow_mut(held).remove(&session);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(requested: &str, expected: &str) {
        assert_eq!(supported(requested), expected);
    }

    #[test]
    fn supported_kinds_are_added_to_the_usual_ones() {
        check("", "mpi,system");
        check("system,mpi", "mpi,system");
        check("mpi:alloc_mem, cuda:device,MPI", "mpi,system,mpi:alloc_mem");
        check("mpi:win_allocate:alloc_mem,system:x", "mpi,system,mpi:win_allocate:alloc_mem");
        check("mpi:device,rocm,", "mpi,system");
    }

    #[test]
    fn a_list_is_supported_as_a_whole() {
        assert!(are_supported("system,mpi:alloc_mem"));
        assert!(!are_supported("system,cuda"));
        assert!(!are_supported(""));
    }

    #[test]
    fn sessions_have_what_they_request() {
        let held = crate::lanes::enter();
        let session = Origin::numbered(u32::MAX);
        request(&held, session, Some("mpi:win_allocate"));
        assert_eq!(&*kinds_of(&held, session), "mpi,system,mpi:win_allocate");
        forget(&held, session);
        assert_eq!(kinds_of(&held, session), kinds_of(&held, Origin::WORLD));
    }
}
