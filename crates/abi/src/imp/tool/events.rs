//! Events and who hears of them (MPI-5 section 15.3.8).
//!
//! Callbacks run at the end of the outermost call in which an event was noted (see
//! `tutti_core::tool::events`), without any borrow, so each may do what its safety level lets it; the least
//! demanding one that is registered is called. An instance is valid during its callback alone.
//!
//! # Safety
//! A user's buffer holds what is read: one element, or the whole event as its displacements say. Callbacks
//! and what they are given are the user's.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tutti_base::Result;
use tutti_core::giant::{GiantCell, Held};
use tutti_core::info::Info as Entries;
use tutti_core::tool::events::{self, Description, Event, KINDS, NUMBERS};

use super::{TOOL, Tool, enumeration_of, give, index_of, item, pointer, put, ready, refuse};
use crate::dialect::{self, Dialect};
use crate::entry::Call;
use crate::generated::callbacks::{
    MPI_T_event_cb_function, MPI_T_event_dropped_cb_function, MPI_T_event_free_cb_function,
};
use crate::generated::constants::*;
use crate::kind::Info;
use crate::scope::{Address, ArrayOut, HandleOut, In, Out, Text, TextOut};
use crate::types::{MPI_Datatype, MPI_T_enum, MPI_T_event_instance, MPI_T_event_registration};

/// Safety levels, from the least demanding on.
const LEVELS: [c_int; 4] = [
    MPI_T_CB_REQUIRE_NONE,
    MPI_T_CB_REQUIRE_MPI_RESTRICTED,
    MPI_T_CB_REQUIRE_THREAD_SAFE,
    MPI_T_CB_REQUIRE_ASYNC_SIGNAL_SAFE,
];

/// Somebody's interest in a kind of event.
#[derive(Debug)]
pub struct Registration {
    kind: usize,
    info: Entries,
    /// One a safety level.
    callbacks: [Option<Callback>; LEVELS.len()],
    dropped: Option<Dropped>,
}

/// The address of a function that hears of lost events, and who calls it.
type Dropped = (usize, &'static Dialect);

#[derive(Clone, Debug)]
struct Callback {
    function: usize,
    dialect: &'static Dialect,
    /// Address that the function gets.
    user_data: usize,
    info: Entries,
}

/// The only source: this process.
const SOURCE: (&str, &str) = ("tutti", "this process, in the order in which things happen");
const NS_PER_SECOND: i64 = 1_000_000_000;
/// Bytes of an event as it is copied: the integers, then the count.
const EVENT_BYTES: usize = NUMBERS * 4 + 8;

/// The event whose callbacks run, as an address; 0 if none.
static CURRENT: AtomicUsize = AtomicUsize::new(0);
static TELLING: AtomicBool = AtomicBool::new(false);

/// Says to the library which events anybody wants.
pub(super) fn listen(tool: &mut Tool) {
    let heard = tool.registrations.iter_mut().filter(|one| one.callbacks.iter().any(Option::is_some));
    events::want(heard.fold(0, |kinds, one| kinds | 1 << one.kind));
}

/// Tells of what has happened. No borrow is alive.
#[cold]
pub fn tell(held: &Held) {
    // What happens in callbacks is told when the next call is over.
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

fn hearers(held: &Held, kind: usize) -> Vec<usize> {
    let mut tool = TOOL.borrow_mut(held);
    let all = tool.registrations.all();
    all.into_iter().filter(|bits| tool.registrations.get(*bits).is_some_and(|one| one.kind == kind)).collect()
}

type Heard = (c_int, Callback, Option<Dropped>);

fn callback_of(held: &Held, bits: usize) -> Option<Heard> {
    let mut tool = TOOL.borrow_mut(held);
    let one = tool.registrations.get(bits)?;
    let (level, callback) = LEVELS
        .iter()
        .zip(&one.callbacks)
        .find_map(|(level, callback)| callback.clone().map(|callback| (*level, callback)))?;
    Some((level, callback, one.dropped))
}

/// MPI_T_source_get_num.
pub fn source_get_num(call: &mut Call, num_sources: Out<c_int>) -> Result<()> {
    ready(call)?;
    num_sources.set(1)
}

/// MPI_T_source_get_info.
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

/// MPI_T_source_get_timestamp.
pub fn source_get_timestamp(call: &mut Call, source_index: c_int, timestamp: Out<i64>) -> Result<()> {
    ready(call)?;
    item(&[SOURCE], source_index, "source_index")?;
    timestamp.set(events::now_ns() as i64)
}

fn give_info(place: HandleOut<Info>, entries: Entries) -> Result<()> {
    if place.is_absent() { Ok(()) } else { place.create(GiantCell::new(entries)).map(drop) }
}

/// MPI_T_event_get_num.
pub fn event_get_num(call: &mut Call, num_events: Out<c_int>) -> Result<()> {
    ready(call)?;
    num_events.set(KINDS.len() as c_int)
}

/// MPI_T_event_get_info. `num_elements` says how long the arrays are and gets how many elements there are.
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
    put(enumtype, enumeration_of(kind.elements))?;
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

/// Type and displacement of an element.
fn layout(kind: &Description, element: usize) -> (MPI_Datatype, isize) {
    let is_last = element + 1 == kind.elements.len();
    (if is_last { MPI_UNSIGNED_LONG_LONG } else { MPI_INT }, element as isize * 4)
}

/// MPI_T_event_get_index.
pub fn event_get_index(call: &mut Call, name: Text, event_index: Out<c_int>) -> Result<()> {
    ready(call)?;
    event_index.set(index_of(name, KINDS.iter().map(|kind| kind.name))?)
}

/// MPI_T_event_handle_alloc. No event is bound to an object.
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
    let bits = TOOL.borrow_mut(&call.held).registrations.insert(one)?;
    event_registration.set(pointer(bits))
}

fn entries(call: &Call, info: In<Info>) -> Result<Entries> {
    Ok(info.optional()?.map_or_else(Entries::new, |entries| entries.borrow(&call.held).clone()))
}

/// Does something with a registration.
fn with<R>(
    call: &Call,
    registration: MPI_T_event_registration,
    action: impl FnOnce(&mut Registration) -> Result<R>,
) -> Result<R> {
    ready(call)?;
    let mut tool = TOOL.borrow_mut(&call.held);
    let found = tool.registrations.get(registration as usize);
    let result = action(found.ok_or_else(no_registration)?)?;
    listen(&mut tool);
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

/// MPI_T_event_handle_set_info.
pub fn event_handle_set_info(
    call: &mut Call,
    event_registration: MPI_T_event_registration,
    info: In<Info>,
) -> Result<()> {
    let info = entries(call, info)?;
    with(call, event_registration, |one| {
        one.info = info;
        Ok(())
    })
}

/// MPI_T_event_handle_get_info.
pub fn event_handle_get_info(
    call: &mut Call,
    event_registration: MPI_T_event_registration,
    info_used: HandleOut<Info>,
) -> Result<()> {
    let info = with(call, event_registration, |one| Ok(one.info.clone()))?;
    info_used.create(GiantCell::new(info)).map(drop)
}

/// MPI_T_event_register_callback; without a function it withdraws that of the level.
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
    with(call, event_registration, |one| {
        one.callbacks[level] = callback;
        Ok(())
    })
}

fn callback(one: &mut Registration, cb_safety: c_int) -> Result<&mut Callback> {
    let found = one.callbacks[level(cb_safety)?].as_mut();
    found.ok_or_else(|| refuse(MPI_T_ERR_INVALID, "no callback is registered for this cb_safety"))
}

/// MPI_T_event_callback_set_info.
pub fn event_callback_set_info(
    call: &mut Call,
    event_registration: MPI_T_event_registration,
    cb_safety: c_int,
    info: In<Info>,
) -> Result<()> {
    let info = entries(call, info)?;
    with(call, event_registration, |one| {
        callback(one, cb_safety)?.info = info;
        Ok(())
    })
}

/// MPI_T_event_callback_get_info.
pub fn event_callback_get_info(
    call: &mut Call,
    event_registration: MPI_T_event_registration,
    cb_safety: c_int,
    info_used: HandleOut<Info>,
) -> Result<()> {
    let info = with(call, event_registration, |one| Ok(callback(one, cb_safety)?.info.clone()))?;
    info_used.create(GiantCell::new(info)).map(drop)
}

/// MPI_T_event_handle_free. The function hears when no callback of it will run any more: now.
pub fn event_handle_free(
    call: &mut Call,
    event_registration: MPI_T_event_registration,
    user_data: Address,
    free_cb_function: Option<MPI_T_event_free_cb_function>,
) -> Result<()> {
    ready(call)?;
    let bits = event_registration as usize;
    {
        let mut tool = TOOL.borrow_mut(&call.held);
        tool.registrations.remove(bits).ok_or_else(no_registration)?;
        listen(&mut tool);
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

/// MPI_T_event_set_dropped_handler.
pub fn event_set_dropped_handler(
    call: &mut Call,
    event_registration: MPI_T_event_registration,
    dropped_cb_function: Option<MPI_T_event_dropped_cb_function>,
) -> Result<()> {
    with(call, event_registration, |one| {
        one.dropped = dropped_cb_function.map(|function| (function as usize, dialect::spoken()));
        Ok(())
    })
}

/// The event of an instance, while its callback runs.
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

/// MPI_T_event_read.
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

/// MPI_T_event_copy.
pub fn event_copy(call: &mut Call, event_instance: MPI_T_event_instance, buffer: Address) -> Result<()> {
    buffer.store_bytes(&bytes_of(event_of(call, event_instance)?), "buffer")
}

/// MPI_T_event_get_timestamp.
pub fn event_get_timestamp(
    call: &mut Call,
    event_instance: MPI_T_event_instance,
    event_timestamp: Out<i64>,
) -> Result<()> {
    event_timestamp.set(event_of(call, event_instance)?.time_ns as i64)
}

/// MPI_T_event_get_source.
pub fn event_get_source(
    call: &mut Call,
    event_instance: MPI_T_event_instance,
    source_index: Out<c_int>,
) -> Result<()> {
    event_of(call, event_instance)?;
    source_index.set(0)
}
