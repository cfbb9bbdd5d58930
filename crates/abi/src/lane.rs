//! Selection of the lane in which a call enters the library, before any lock is taken (see
//! `tutti_core::lanes`).
//!
//! A request's handle contains its lane. For a communicator, the entry can only guess, as an object may be
//! looked up only inside a lane. The guess is the lane that the last call with this handle has found.
//! `Call::go_to_lane_of` corrects it.
//!
//! # Safety
//! Functions on handles of requests read memory that the caller of the MPI function guarantees, as in
//! [`crate::scope`].
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::sync::atomic::{AtomicU8, Ordering};

use tutti_core::communicator::Communicator;
use tutti_core::lanes::{self, Lane};
use tutti_core::request::RequestId;

use crate::handles::FIRST_INT;
use crate::handles::request::id_in;
use crate::types::{MPI_Comm, MPI_Request};

/// Communicators beyond this number share guesses.
const GUESSES: usize = 4096;
static GUESSED: [AtomicU8; GUESSES] = [const { AtomicU8::new(0) }; GUESSES];

/// Returns the lane that a call on this communicator probably needs.
#[inline(always)]
pub fn of_comm(comm: MPI_Comm) -> Lane {
    if lanes::threads_allowed() { guess(comm.bits()) } else { Lane::FIRST }
}

/// Returns the lane of a request.
///
/// # Safety
/// The pointer is null or that of a handle.
#[inline(always)]
pub unsafe fn of_request(request: *const MPI_Request) -> Lane {
    if lanes::threads_allowed() {
        // SAFETY: the caller's promise.
        unsafe { common(1, request) }
    } else {
        Lane::FIRST
    }
}

/// Returns the common lane of all requests, or the first lane if they differ.
///
/// # Safety
/// The pointer is null, or points to `count` handles.
#[inline(always)]
pub unsafe fn of_requests(count: c_int, requests: *const MPI_Request) -> Lane {
    if lanes::threads_allowed() {
        // SAFETY: the caller's promise.
        unsafe { common(count, requests) }
    } else {
        Lane::FIRST
    }
}

/// Notes the lane of a communicator for the next call with its handle.
pub fn learn(comm: &Communicator) {
    if let Some(place) = place(comm.handle()) {
        GUESSED[place].store(comm.lane().number() as u8, Ordering::Relaxed);
    }
}

fn guess(handle: usize) -> Lane {
    let guessed = place(handle).map(|place| GUESSED[place].load(Ordering::Relaxed));
    guessed.and_then(|number| Lane::new(number.into())).unwrap_or(Lane::FIRST)
}

/// Returns the index of a communicator's guess, or `None` for predefined ones, which are in the first lane.
fn place(handle: usize) -> Option<usize> {
    (handle >= FIRST_INT).then_some(handle as u32 as usize % GUESSES)
}

unsafe fn common(count: c_int, requests: *const MPI_Request) -> Lane {
    if requests.is_null() {
        return Lane::FIRST;
    }
    let mut common = None;
    for place in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: one of the handles the caller vouches for.
        let handle = unsafe { *requests.add(place) };
        let Some(lane) = id_in(handle).and_then(RequestId::lane) else { continue };
        if common.is_some_and(|common| common != lane) {
            return Lane::FIRST;
        }
        common = Some(lane);
    }
    common.unwrap_or(Lane::FIRST)
}
