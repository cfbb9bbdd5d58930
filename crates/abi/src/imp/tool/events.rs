//! Events and their listeners (MPI-5 section 15.3.8).
//!
//! Callbacks run at the end of the outermost call in which an event was noted ([`crate::listeners`]).
//!
//! # Safety
//! A user's buffer has room for one element, or for the whole event by its displacements. The user guarantees
//! that callbacks and their arguments are valid.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::sync::atomic::Ordering;

use tutti_base::Result;
use tutti_core::info::Info as Entries;
use tutti_core::lanes::FirstLaneCell;
use tutti_core::tool::events::{self, Description, Event, KINDS, NUMBERS};

use super::{enumeration_of, give, index_of, item, put, ready};
use crate::dialect;
use crate::entry::Call;
use crate::generated::callbacks::{
    MPI_T_event_cb_function, MPI_T_event_dropped_cb_function, MPI_T_event_free_cb_function,
};
use crate::generated::constants::*;
use crate::handles::kind::Info;
use crate::listeners::{CURRENT, Callback, LEVELS, LISTENERS, Registration, listen};
use crate::scope::{Address, ArrayOut, HandleOut, In, Out, Text, TextOut};
use crate::slots::{pointer, refuse};
use crate::types::{MPI_Datatype, MPI_T_enum, MPI_T_event_instance, MPI_T_event_registration};

/// The only source: this process.
const SOURCE: (&str, &str) = ("tutti", "this process, in the order in which things happen");
const NS_PER_SECOND: i64 = 1_000_000_000;
/// Bytes of an event as it is copied: the integers, then the count.
const EVENT_BYTES: usize = NUMBERS * 4 + 8;

/// Returns the number of event sources (MPI_T_source_get_num).
pub fn source_get_num(call: &mut Call, num_sources: Out<c_int>) -> Result<()> {
    ready(call)?;
    num_sources.set(1)
}

/// Returns the description of an event source (MPI_T_source_get_info).
#[allow(clippy::too_many_arguments, reason = "as many as the standard's function has")]
pub fn source_get_info(
    call: &mut Call,
    source_index: c_int,
    name: TextOut,
    name_len: Out<c_int>,
    desc: TextOut,
    desc_len: Out<c_int>,
    ordering: Out<c_int>,
    ticks_per_second: Out<i64>,
    max_ticks: Out<i64>,
    info: HandleOut<Info>,
) -> Result<()> {
    ready(call)?;
    let (title, meaning) = item(&[SOURCE], source_index, "source_index").copied()?;
    give(title, name, name_len)?;
    give(meaning, desc, desc_len)?;
    put(ordering, MPI_T_SOURCE_ORDERED)?;
    put(ticks_per_second, NS_PER_SECOND)?;
    put(max_ticks, i64::MAX)?;
    give_info(info, Entries::new())
}

/// Returns the current time of an event source (MPI_T_source_get_timestamp).
pub fn source_get_timestamp(call: &mut Call, source_index: c_int, timestamp: Out<i64>) -> Result<()> {
    ready(call)?;
    item(&[SOURCE], source_index, "source_index")?;
    timestamp.set(events::now_ns() as i64)
}

fn give_info(place: HandleOut<Info>, entries: Entries) -> Result<()> {
    if place.is_absent() { Ok(()) } else { place.create(FirstLaneCell::new(entries)).map(drop) }
}

/// Returns the number of event types (MPI_T_event_get_num).
pub fn event_get_num(call: &mut Call, num_events: Out<c_int>) -> Result<()> {
    ready(call)?;
    num_events.set(KINDS.len() as c_int)
}

/// Returns the description of an event type (MPI_T_event_get_info). `num_elements` is the length of the
/// arrays, and afterwards the number of elements.
#[allow(clippy::too_many_arguments, reason = "as many as the standard's function has")]
pub fn event_get_info(
    call: &mut Call,
    event_index: c_int,
    name: TextOut,
    name_len: Out<c_int>,
    verbosity: Out<c_int>,
    array_of_datatypes: ArrayOut<MPI_Datatype>,
    array_of_displacements: ArrayOut<isize>,
    num_elements: Out<c_int>,
    enumtype: Out<MPI_T_enum>,
    info: HandleOut<Info>,
    desc: TextOut,
    desc_len: Out<c_int>,
    bind: Out<c_int>,
) -> Result<()> {
    ready(call)?;
    let kind = item(&KINDS, event_index, "event_index")?;
    give(kind.name, name, name_len)?;
    give(kind.doc, desc, desc_len)?;
    put(verbosity, MPI_T_VERBOSITY_USER_DETAIL)?;
    put(enumtype, enumeration_of(kind.name))?;
    put(bind, MPI_T_BIND_NO_OBJECT)?;
    if !num_elements.is_absent() {
        let room = i64::from(num_elements.get()?).clamp(0, kind.elements.len() as i64);
        if !array_of_datatypes.pointer().is_null() {
            let places = array_of_datatypes.slice(room)?.iter_mut();
            places.enumerate().for_each(|(element, place)| *place = layout(kind, element).0);
        }
        if !array_of_displacements.pointer().is_null() {
            let places = array_of_displacements.slice(room)?.iter_mut();
            places.enumerate().for_each(|(element, place)| *place = layout(kind, element).1);
        }
        num_elements.set(kind.elements.len() as c_int)?;
    }
    give_info(info, Entries::new())
}

/// Returns datatype and displacement of an element.
fn layout(kind: &Description, element: usize) -> (MPI_Datatype, isize) {
    let is_last = element + 1 == kind.elements.len();
    (if is_last { MPI_UNSIGNED_LONG_LONG } else { MPI_INT }, element as isize * 4)
}

/// Returns the index of the event type with this name (MPI_T_event_get_index).
pub fn event_get_index(call: &mut Call, name: Text, event_index: Out<c_int>) -> Result<()> {
    ready(call)?;
    event_index.set(index_of(name, KINDS.iter().map(|kind| kind.name))?)
}

/// Registers for an event type (MPI_T_event_handle_alloc). No event is bound to an object.
pub fn event_handle_alloc(
    call: &mut Call,
    event_index: c_int,
    _obj_handle: Address,
    info: In<Info>,
    event_registration: Out<MPI_T_event_registration>,
) -> Result<()> {
    ready(call)?;
    item(&KINDS, event_index, "event_index")?;
    event_registration.check()?;
    let info = entries(call, info)?;
    let one = Registration {
        kind: event_index as usize,
        info,
        callbacks: [const { None }; LEVELS.len()],
        dropped: None,
    };
    let bits = LISTENERS.borrow_mut(&call.held).insert(one)?;
    event_registration.set(pointer(bits))
}

fn entries(call: &Call, info: In<Info>) -> Result<Entries> {
    Ok(info.optional()?.map_or_else(Entries::new, |entries| entries.borrow(&call.held).clone()))
}

/// Calls `action` with a registration.
fn with_registration<R>(
    call: &Call,
    registration: MPI_T_event_registration,
    action: impl FnOnce(&mut Registration) -> Result<R>,
) -> Result<R> {
    ready(call)?;
    let mut listeners = LISTENERS.borrow_mut(&call.held);
    let found = listeners.get(registration as usize);
    let result = action(found.ok_or_else(no_registration)?)?;
    listen(&mut listeners);
    Ok(result)
}

#[cold]
fn no_registration() -> tutti_base::Error {
    refuse(MPI_T_ERR_INVALID_HANDLE, "argument event_registration is no registration of an event")
}

fn level(cb_safety: c_int) -> Result<usize> {
    let found = LEVELS.iter().position(|level| *level == cb_safety);
    found.ok_or_else(|| {
        refuse(MPI_T_ERR_INVALID, format!("argument cb_safety is {cb_safety}, no safety level"))
    })
}

/// Sets hints of an event registration (MPI_T_event_handle_set_info).
pub fn event_handle_set_info(
    call: &mut Call,
    event_registration: MPI_T_event_registration,
    info: In<Info>,
) -> Result<()> {
    let info = entries(call, info)?;
    with_registration(call, event_registration, |one| {
        one.info = info;
        Ok(())
    })
}

/// Returns an info object with the hints of a registration (MPI_T_event_handle_get_info).
pub fn event_handle_get_info(
    call: &mut Call,
    event_registration: MPI_T_event_registration,
    info_used: HandleOut<Info>,
) -> Result<()> {
    let info = with_registration(call, event_registration, |one| Ok(one.info.clone()))?;
    info_used.create(FirstLaneCell::new(info)).map(drop)
}

/// Sets the callback of a safety level, or removes it if there is no function
/// (MPI_T_event_register_callback).
pub fn event_register_callback(
    call: &mut Call,
    event_registration: MPI_T_event_registration,
    cb_safety: c_int,
    info: In<Info>,
    user_data: Address,
    event_cb_function: Option<MPI_T_event_cb_function>,
) -> Result<()> {
    let (level, info) = (level(cb_safety)?, entries(call, info)?);
    let callback = event_cb_function.map(|function| Callback {
        function: function as usize,
        dialect: dialect::spoken(),
        user_data: user_data.bits(),
        info,
    });
    with_registration(call, event_registration, |one| {
        one.callbacks[level] = callback;
        Ok(())
    })
}

fn callback(one: &mut Registration, cb_safety: c_int) -> Result<&mut Callback> {
    let found = one.callbacks[level(cb_safety)?].as_mut();
    found.ok_or_else(|| refuse(MPI_T_ERR_INVALID, "no callback is registered for this cb_safety"))
}

/// Sets hints of a registered callback (MPI_T_event_callback_set_info).
pub fn event_callback_set_info(
    call: &mut Call,
    event_registration: MPI_T_event_registration,
    cb_safety: c_int,
    info: In<Info>,
) -> Result<()> {
    let info = entries(call, info)?;
    with_registration(call, event_registration, |one| {
        callback(one, cb_safety)?.info = info;
        Ok(())
    })
}

/// Returns an info object with a callback's hints (MPI_T_event_callback_get_info).
pub fn event_callback_get_info(
    call: &mut Call,
    event_registration: MPI_T_event_registration,
    cb_safety: c_int,
    info_used: HandleOut<Info>,
) -> Result<()> {
    let info = with_registration(call, event_registration, |one| Ok(callback(one, cb_safety)?.info.clone()))?;
    info_used.create(FirstLaneCell::new(info)).map(drop)
}

/// Ends a registration (MPI_T_event_handle_free). The program's function is called at once, as no further
/// callback will run.
pub fn event_handle_free(
    call: &mut Call,
    event_registration: MPI_T_event_registration,
    user_data: Address,
    free_cb_function: Option<MPI_T_event_free_cb_function>,
) -> Result<()> {
    ready(call)?;
    let bits = event_registration as usize;
    {
        let mut listeners = LISTENERS.borrow_mut(&call.held);
        listeners.remove(bits).ok_or_else(no_registration)?;
        listen(&mut listeners);
    }
    if let Some(function) = free_cb_function {
        // SAFETY: the module's Safety section.
        unsafe {
            let (function, user_data) = (function as usize, user_data.pointer().cast());
            let caller = dialect::spoken().MPI_T_event_free_cb_function;
            caller(function, pointer(bits), MPI_T_CB_REQUIRE_NONE, user_data);
        };
    }
    Ok(())
}

/// Sets the function to call after events were lost (MPI_T_event_set_dropped_handler).
pub fn event_set_dropped_handler(
    call: &mut Call,
    event_registration: MPI_T_event_registration,
    dropped_cb_function: Option<MPI_T_event_dropped_cb_function>,
) -> Result<()> {
    with_registration(call, event_registration, |one| {
        one.dropped = dropped_cb_function.map(|function| (function as usize, dialect::spoken()));
        Ok(())
    })
}

/// Returns the event of an instance, while its callback runs.
fn event_of<'e>(call: &Call, instance: MPI_T_event_instance) -> Result<&'e Event> {
    ready(call)?;
    let current = CURRENT.load(Ordering::Relaxed);
    if current == 0 || instance as usize != current {
        return Err(refuse(
            MPI_T_ERR_INVALID_HANDLE,
            "argument event_instance is no event whose callback runs",
        ));
    }
    // SAFETY: it is the address of the event that is being told, which lives until its callbacks have
    // returned.
    Ok(unsafe { &*(current as *const Event) })
}

fn bytes_of(event: &Event) -> [u8; EVENT_BYTES] {
    let mut bytes = [0; EVENT_BYTES];
    for (place, number) in bytes.chunks_exact_mut(4).zip(event.numbers) {
        place.copy_from_slice(&number.to_ne_bytes());
    }
    bytes[NUMBERS * 4..].copy_from_slice(&event.bytes.to_ne_bytes());
    bytes
}

/// Returns one element of an event's data (MPI_T_event_read).
pub fn event_read(
    call: &mut Call,
    event_instance: MPI_T_event_instance,
    element_index: c_int,
    buffer: Address,
) -> Result<()> {
    let event = event_of(call, event_instance)?;
    item(KINDS[event.kind as usize].elements, element_index, "element_index")?;
    let start = element_index as usize * 4;
    let end = if element_index as usize == NUMBERS { EVENT_BYTES } else { start + 4 };
    buffer.store_bytes(&bytes_of(event)[start..end], "buffer")
}

/// Copies all data of an event (MPI_T_event_copy).
pub fn event_copy(call: &mut Call, event_instance: MPI_T_event_instance, buffer: Address) -> Result<()> {
    buffer.store_bytes(&bytes_of(event_of(call, event_instance)?), "buffer")
}

/// Returns the time of an event (MPI_T_event_get_timestamp).
pub fn event_get_timestamp(
    call: &mut Call,
    event_instance: MPI_T_event_instance,
    event_timestamp: Out<i64>,
) -> Result<()> {
    event_timestamp.set(event_of(call, event_instance)?.time_ns as i64)
}

/// Returns the source of an event (MPI_T_event_get_source).
pub fn event_get_source(
    call: &mut Call,
    event_instance: MPI_T_event_instance,
    source_index: Out<c_int>,
) -> Result<()> {
    event_of(call, event_instance)?;
    source_index.set(0)
}
