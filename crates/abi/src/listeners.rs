//! Listeners for events (MPI-5 section 15.3.8), and calls of their callbacks.
//!
//! Callbacks run at the end of the outermost call in which an event was noted (see
//! `tutti_core::tool::events`). No borrow is active then, so each callback may do what its safety level
//! allows. The callback of the least demanding level is called. An instance is valid only during its
//! callback.
//!
//! # Safety
//! The user guarantees that callbacks and their arguments are valid.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tutti_core::info::Info as Entries;
use tutti_core::lanes::{FirstLaneCell, LaneGuard};
use tutti_core::tool::events;

use crate::generated::constants::*;
use crate::generated::dialect::Dialect;
use crate::slots::{Slots, pointer};

/// Safety levels, beginning with the least demanding.
pub const LEVELS: [c_int; 4] = [
    MPI_T_CB_REQUIRE_NONE,
    MPI_T_CB_REQUIRE_MPI_RESTRICTED,
    MPI_T_CB_REQUIRE_THREAD_SAFE,
    MPI_T_CB_REQUIRE_ASYNC_SIGNAL_SAFE,
];

/// Registration of a tool for a kind of event.
#[derive(Debug)]
pub struct Registration {
    /// Number of the kind of event.
    pub kind: usize,
    /// Info object of the registration.
    pub info: Entries,
    /// Callbacks, one for each safety level.
    pub callbacks: [Option<Callback>; LEVELS.len()],
    /// Function to call after events were lost.
    pub dropped: Option<Dropped>,
}

/// Address of a function to call after events were lost, and its calling convention.
pub type Dropped = (usize, &'static Dialect);

/// Function to call for events of a kind.
#[derive(Clone, Debug)]
pub struct Callback {
    /// Address of the program's function.
    pub function: usize,
    /// Calling convention of the program that registered the function.
    pub dialect: &'static Dialect,
    /// Argument of the program for the function.
    pub user_data: usize,
    /// Info object of the callback.
    pub info: Entries,
}

/// All registrations for events in this process.
pub static LISTENERS: FirstLaneCell<Slots<Registration>> = FirstLaneCell::new(Slots::new(4));

/// The event whose callbacks run, as an address; 0 if none.
pub static CURRENT: AtomicUsize = AtomicUsize::new(0);
static TELLING: AtomicBool = AtomicBool::new(false);

/// Informs the library of the kinds of events that have listeners.
pub fn listen(listeners: &mut Slots<Registration>) {
    let heard = listeners.iter_mut().filter(|one| one.callbacks.iter().any(Option::is_some));
    events::want(heard.fold(0, |kinds, one| kinds | 1 << one.kind));
}

/// Calls the callbacks of all noted events. No borrow is active.
#[cold]
pub fn tell(held: &LaneGuard) {
    // Events in callbacks are reported at the end of the next call.
    if TELLING.swap(true, Ordering::Relaxed) {
        return;
    }
    let (events, dropped) = events::take();
    for event in &events {
        CURRENT.store(std::ptr::from_ref(event) as usize, Ordering::Relaxed);
        for bits in hearers(held, event.kind as usize) {
            // It may have been freed by the callback before.
            let Some((level, callback, _)) = callback_of(held, bits) else { continue };
            let instance = pointer(std::ptr::from_ref(event) as usize);
            // SAFETY: the module's Safety section.
            unsafe {
                let (function, user_data) = (callback.function, callback.user_data as *mut _);
                (callback.dialect.MPI_T_event_cb_function)(
                    function,
                    instance,
                    pointer(bits),
                    level,
                    user_data,
                );
            };
        }
        CURRENT.store(0, Ordering::Relaxed);
    }
    for (kind, count) in dropped.iter().enumerate().filter(|(_, count)| **count > 0) {
        for bits in hearers(held, kind) {
            let Some((level, callback, Some((function, dialect)))) = callback_of(held, bits) else {
                continue;
            };
            let (count, user_data) = (*count as i64, callback.user_data as *mut _);
            // SAFETY: the module's Safety section.
            unsafe {
                (dialect.MPI_T_event_dropped_cb_function)(
                    function,
                    count,
                    pointer(bits),
                    0,
                    level,
                    user_data,
                );
            };
        }
    }
    TELLING.store(false, Ordering::Relaxed);
}

fn hearers(held: &LaneGuard, kind: usize) -> Vec<usize> {
    let mut listeners = LISTENERS.borrow_mut(held);
    let all = listeners.all();
    all.into_iter().filter(|bits| listeners.get(*bits).is_some_and(|one| one.kind == kind)).collect()
}

type Heard = (c_int, Callback, Option<Dropped>);

fn callback_of(held: &LaneGuard, bits: usize) -> Option<Heard> {
    let mut listeners = LISTENERS.borrow_mut(held);
    let one = listeners.get(bits)?;
    let (level, callback) = LEVELS
        .iter()
        .zip(&one.callbacks)
        .find_map(|(level, callback)| callback.clone().map(|callback| (*level, callback)))?;
    Some((level, callback, one.dropped))
}
