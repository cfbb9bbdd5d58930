//! Performance variables: counters and states (MPI-5 section 15.3.7).
//!
//! Counters and sums count, for each handle, what happens between start and stop. Whatever else holds for the
//! process: it is always active and cannot be written.
//!
//! # Safety
//! A user's buffer holds one element of the datatype of the variable.
#![allow(unsafe_code)]

use std::ffi::c_int;

use tutti_base::Result;
use tutti_core::lanes::LaneGuard;
use tutti_core::tool::variables::{self, Class};

use super::state::{Handle, TOOL, Tool};
use super::{enumeration_of, give, index_of, item, put, put_datatype, ready};
use crate::entry::Call;
use crate::generated::constants::*;
use crate::handles::kind::Datatype;
use crate::scope::{Address, HandleOut, Out, Text, TextOut};
use crate::slots::{pointer, refuse};
use crate::types::{MPI_T_enum, MPI_T_pvar_handle, MPI_T_pvar_session};

fn class_number(class: Class) -> c_int {
    match class {
        Class::State(_) => MPI_T_PVAR_CLASS_STATE,
        Class::Level => MPI_T_PVAR_CLASS_LEVEL,
        Class::HighWatermark => MPI_T_PVAR_CLASS_HIGHWATERMARK,
        Class::Counter => MPI_T_PVAR_CLASS_COUNTER,
        Class::Aggregate => MPI_T_PVAR_CLASS_AGGREGATE,
    }
}

/// Returns the number of performance variables (MPI_T_pvar_get_num).
pub fn pvar_get_num(call: &mut Call, num_pvar: Out<c_int>) -> Result<()> {
    ready(call)?;
    num_pvar.set(variables::all().len() as c_int)
}

/// Returns the description of a performance variable (MPI_T_pvar_get_info).
#[allow(clippy::too_many_arguments, reason = "as many as the standard's function has")]
pub fn pvar_get_info(
    call: &mut Call,
    pvar_index: c_int,
    name: TextOut,
    name_len: Out<c_int>,
    verbosity: Out<c_int>,
    var_class: Out<c_int>,
    datatype: HandleOut<Datatype>,
    enumtype: Out<MPI_T_enum>,
    desc: TextOut,
    desc_len: Out<c_int>,
    bind: Out<c_int>,
    readonly: Out<c_int>,
    continuous: Out<c_int>,
    atomic: Out<c_int>,
) -> Result<()> {
    ready(call)?;
    let variable = item(variables::all(), pvar_index, "pvar_index")?;
    give(&variable.name, name, name_len)?;
    give(&variable.doc, desc, desc_len)?;
    put(verbosity, MPI_T_VERBOSITY_USER_BASIC)?;
    put(var_class, class_number(variable.class))?;
    let (its_type, names) = match variable.class {
        Class::State(_) => (MPI_INT, enumeration_of(&variable.name)),
        _ => (MPI_UNSIGNED_LONG_LONG, pointer(MPI_T_ENUM_NULL)),
    };
    put_datatype(datatype, its_type)?;
    put(enumtype, names)?;
    put(bind, MPI_T_BIND_NO_OBJECT)?;
    let counted = variable.class.is_counted();
    put(readonly, c_int::from(!counted))?;
    put(continuous, c_int::from(!counted))?;
    put(atomic, c_int::from(counted))
}

/// Returns the index of the performance variable with this name (MPI_T_pvar_get_index).
pub fn pvar_get_index(call: &mut Call, name: Text, var_class: c_int, pvar_index: Out<c_int>) -> Result<()> {
    ready(call)?;
    let index = index_of(name, variables::all().iter().map(|variable| variable.name.as_str()))?;
    if class_number(variables::all()[index as usize].class) != var_class {
        return Err(refuse(
            MPI_T_ERR_INVALID_NAME,
            format!("no variable of class {var_class} has this name"),
        ));
    }
    pvar_index.set(index)
}

/// Creates a session of performance variables (MPI_T_pvar_session_create).
pub fn pvar_session_create(call: &mut Call, session: Out<MPI_T_pvar_session>) -> Result<()> {
    ready(call)?;
    session.check()?;
    let bits = TOOL.borrow_mut(&call.held).sessions.insert(())?;
    session.set(pointer(bits))
}

/// Frees a session of performance variables with all its handles (MPI_T_pvar_session_free).
pub fn pvar_session_free(call: &mut Call, session: Out<MPI_T_pvar_session>) -> Result<()> {
    ready(call)?;
    let bits = session.get()? as usize;
    let mut tool = TOOL.borrow_mut(&call.held);
    tool.sessions.remove(bits).ok_or_else(no_session)?;
    tool.handles.retain(|handle| handle.session != bits);
    session.set(pointer(MPI_T_PVAR_SESSION_NULL))
}

#[cold]
fn no_session() -> tutti_base::Error {
    refuse(MPI_T_ERR_INVALID_SESSION, "argument session is no session of performance variables")
}

#[cold]
fn no_handle() -> tutti_base::Error {
    refuse(MPI_T_ERR_INVALID_HANDLE, "argument handle is no performance variable of this session")
}

/// Creates a handle of a performance variable (MPI_T_pvar_handle_alloc). No variable is bound to an object.
pub fn pvar_handle_alloc(
    call: &mut Call,
    session: MPI_T_pvar_session,
    pvar_index: c_int,
    _obj_handle: Address,
    handle: Out<MPI_T_pvar_handle>,
    count: Out<c_int>,
) -> Result<()> {
    ready(call)?;
    let variable = item(variables::all(), pvar_index, "pvar_index")?;
    handle.check()?;
    put(count, 1)?;
    let session = session as usize;
    let mut tool = TOOL.borrow_mut(&call.held);
    tool.sessions.get(session).ok_or_else(no_session)?;
    let bits = tool.handles.insert(Handle { session, variable, since: None, counted: 0 })?;
    handle.set(pointer(bits))
}

/// Frees a handle of a performance variable (MPI_T_pvar_handle_free).
pub fn pvar_handle_free(
    call: &mut Call,
    session: MPI_T_pvar_session,
    handle: Out<MPI_T_pvar_handle>,
) -> Result<()> {
    ready(call)?;
    let bits = handle.get()? as usize;
    let mut tool = TOOL.borrow_mut(&call.held);
    of_session(&mut tool, session, bits)?;
    tool.handles.remove(bits);
    handle.set(pointer(MPI_T_PVAR_HANDLE_NULL))
}

/// Returns the handle, if it is one of the session.
fn of_session(tool: &mut Tool, session: MPI_T_pvar_session, handle: usize) -> Result<&mut Handle> {
    let session = session as usize;
    tool.sessions.get(session).ok_or_else(no_session)?;
    let found = tool.handles.get(handle).filter(|handle| handle.session == session);
    found.ok_or_else(no_handle)
}

/// Calls a function on one counting variable, or on all of a session. `code` is the error for a variable that
/// does not count.
fn act(
    call: &Call,
    session: MPI_T_pvar_session,
    handle: MPI_T_pvar_handle,
    code: c_int,
    action: impl Fn(&mut Handle, u64),
) -> Result<()> {
    ready(call)?;
    let mut tool = TOOL.borrow_mut(&call.held);
    if handle as usize == MPI_T_PVAR_ALL_HANDLES {
        let session = session as usize;
        tool.sessions.get(session).ok_or_else(no_session)?;
        let counted = |one: &&mut Handle| one.session == session && one.variable.class.is_counted();
        tool.handles.iter_mut().filter(counted).for_each(|one| action(one, one.variable.value(&call.held)));
        return Ok(());
    }
    let one = of_session(&mut tool, session, handle as usize)?;
    if !one.variable.class.is_counted() {
        return Err(refuse(code, format!("{} is always active and cannot be written", one.variable.name)));
    }
    action(one, one.variable.value(&call.held));
    Ok(())
}

/// Starts one variable, or all variables of a session (MPI_T_pvar_start).
pub fn pvar_start(call: &mut Call, session: MPI_T_pvar_session, handle: MPI_T_pvar_handle) -> Result<()> {
    act(call, session, handle, MPI_T_ERR_PVAR_NO_STARTSTOP, Handle::start)
}

/// Stops one variable, or all variables of a session (MPI_T_pvar_stop).
pub fn pvar_stop(call: &mut Call, session: MPI_T_pvar_session, handle: MPI_T_pvar_handle) -> Result<()> {
    act(call, session, handle, MPI_T_ERR_PVAR_NO_STARTSTOP, Handle::stop)
}

/// Resets one variable, or all variables of a session (MPI_T_pvar_reset).
pub fn pvar_reset(call: &mut Call, session: MPI_T_pvar_session, handle: MPI_T_pvar_handle) -> Result<()> {
    act(call, session, handle, MPI_T_ERR_PVAR_NO_WRITE, |one, now| one.set(0, now))
}

/// Sets the value of a performance variable (MPI_T_pvar_write).
pub fn pvar_write(
    call: &mut Call,
    session: MPI_T_pvar_session,
    handle: MPI_T_pvar_handle,
    buf: Address,
) -> Result<()> {
    if handle as usize == MPI_T_PVAR_ALL_HANDLES {
        return Err(no_handle());
    }
    if buf.is_null() {
        return Err(refuse(MPI_T_ERR_INVALID, "argument buf is a null pointer"));
    }
    act(call, session, handle, MPI_T_ERR_PVAR_NO_WRITE, |one, now| {
        // SAFETY: the module's Safety section; what can be written are counts.
        one.set(unsafe { buf.pointer().cast::<u64>().read_unaligned() }, now);
    })
}

/// Returns the value of a performance variable (MPI_T_pvar_read).
pub fn pvar_read(
    call: &mut Call,
    session: MPI_T_pvar_session,
    handle: MPI_T_pvar_handle,
    buf: Address,
) -> Result<()> {
    ready(call)?;
    let mut tool = TOOL.borrow_mut(&call.held);
    read(&call.held, of_session(&mut tool, session, handle as usize)?, buf)
}

/// Returns the value of a performance variable and resets it (MPI_T_pvar_readreset).
pub fn pvar_readreset(
    call: &mut Call,
    session: MPI_T_pvar_session,
    handle: MPI_T_pvar_handle,
    buf: Address,
) -> Result<()> {
    ready(call)?;
    let mut tool = TOOL.borrow_mut(&call.held);
    let one = of_session(&mut tool, session, handle as usize)?;
    if !one.variable.class.is_counted() {
        let why = format!("{} cannot be reset", one.variable.name);
        return Err(refuse(MPI_T_ERR_PVAR_NO_ATOMIC, why));
    }
    read(&call.held, one, buf)?;
    one.set(0, one.variable.value(&call.held));
    Ok(())
}

fn read(held: &LaneGuard, handle: &Handle, buf: Address) -> Result<()> {
    let value = handle.value(handle.variable.value(held));
    match handle.variable.class {
        Class::State(_) => buf.store_bytes(&(value as i64 as c_int).to_ne_bytes(), "buf"),
        _ => buf.store_bytes(&value.to_ne_bytes(), "buf"),
    }
}
