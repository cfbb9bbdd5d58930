//! Control variables: the settings (MPI-5 section 15.3.6).
//!
//! # Safety
//! A user's buffer holds as many elements of the variable's datatype as MPI_T_cvar_handle_alloc has returned.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int};

use tutti_base::Result;
use tutti_base::config::{Audience, CONTROL_VARIABLES, ConfigError, Scope};
use tutti_core::process;
use tutti_core::tool::settings::{self, Type};

use super::state::TOOL;
use super::{enumeration_of, give, index_of, item, put, put_datatype, ready};
use crate::entry::Call;
use crate::generated::constants::*;
use crate::handles::kind::Datatype;
use crate::scope::{Address, HandleOut, Out, Text, TextOut};
use crate::slots::{pointer, refuse};
use crate::types::{MPI_T_cvar_handle, MPI_T_enum};

/// Characters of a text with its zero.
const TEXT_ROOM: usize = 1024;

/// Returns the number of control variables (MPI_T_cvar_get_num).
pub fn cvar_get_num(call: &mut Call, num_cvar: Out<c_int>) -> Result<()> {
    ready(call)?;
    num_cvar.set(CONTROL_VARIABLES.len() as c_int)
}

/// Returns the description of a control variable (MPI_T_cvar_get_info).
#[allow(clippy::too_many_arguments, reason = "as many as the standard's function has")]
pub fn cvar_get_info(
    call: &mut Call,
    cvar_index: c_int,
    name: TextOut,
    name_len: Out<c_int>,
    verbosity: Out<c_int>,
    datatype: HandleOut<Datatype>,
    enumtype: Out<MPI_T_enum>,
    desc: TextOut,
    desc_len: Out<c_int>,
    bind: Out<c_int>,
    scope: Out<c_int>,
) -> Result<()> {
    ready(call)?;
    let setting = item(CONTROL_VARIABLES, cvar_index, "cvar_index")?;
    let index = cvar_index as usize;
    give(setting.name, name, name_len)?;
    give(setting.doc, desc, desc_len)?;
    let is_users = setting.audience == Audience::User;
    put(verbosity, if is_users { MPI_T_VERBOSITY_USER_BASIC } else { MPI_T_VERBOSITY_TUNER_BASIC })?;
    let none = pointer(MPI_T_ENUM_NULL);
    let (its_type, enumeration) = match settings::type_of(index) {
        Type::Count => (MPI_UNSIGNED_LONG_LONG, none),
        Type::Number => (MPI_COUNT, none),
        Type::Word(_) => (MPI_INT, enumeration_of(setting.name)),
        Type::Text => (MPI_CHAR, none),
    };
    put_datatype(datatype, its_type)?;
    put(enumtype, enumeration)?;
    put(bind, MPI_T_BIND_NO_OBJECT)?;
    put(
        scope,
        match CONTROL_VARIABLES[index].scope {
            Scope::Launcher => MPI_T_SCOPE_READONLY,
            Scope::Process => MPI_T_SCOPE_LOCAL,
            Scope::Job => MPI_T_SCOPE_ALL_EQ,
        },
    )
}

/// Returns the index of the control variable with this name (MPI_T_cvar_get_index).
pub fn cvar_get_index(call: &mut Call, name: Text, cvar_index: Out<c_int>) -> Result<()> {
    ready(call)?;
    cvar_index.set(index_of(name, CONTROL_VARIABLES.iter().map(|setting| setting.name))?)
}

/// Creates a handle of a control variable (MPI_T_cvar_handle_alloc). No setting is bound to an object.
pub fn cvar_handle_alloc(
    call: &mut Call,
    cvar_index: c_int,
    _obj_handle: Address,
    handle: Out<MPI_T_cvar_handle>,
    count: Out<c_int>,
) -> Result<()> {
    ready(call)?;
    item(CONTROL_VARIABLES, cvar_index, "cvar_index")?;
    handle.check()?;
    let index = cvar_index as usize;
    let elements = if settings::type_of(index) == Type::Text { TEXT_ROOM } else { 1 };
    put(count, elements as c_int)?;
    let bits = TOOL.borrow_mut(&call.held).controls.insert(index)?;
    handle.set(pointer(bits))
}

/// Frees a handle of a control variable (MPI_T_cvar_handle_free).
pub fn cvar_handle_free(call: &mut Call, handle: Out<MPI_T_cvar_handle>) -> Result<()> {
    ready(call)?;
    let removed = TOOL.borrow_mut(&call.held).controls.remove(handle.get()? as usize);
    removed.ok_or_else(|| refuse(MPI_T_ERR_INVALID_HANDLE, "argument handle is no control variable"))?;
    handle.set(pointer(MPI_T_CVAR_HANDLE_NULL))
}

fn variable(call: &Call, handle: MPI_T_cvar_handle) -> Result<usize> {
    ready(call)?;
    let found = TOOL.borrow_mut(&call.held).controls.get(handle as usize).copied();
    found.ok_or_else(|| refuse(MPI_T_ERR_INVALID_HANDLE, "argument handle is no control variable"))
}

fn wrong(error: &ConfigError) -> tutti_base::Error {
    refuse(MPI_T_ERR_INVALID, error.to_string())
}

/// Returns the value of a control variable (MPI_T_cvar_read).
pub fn cvar_read(call: &mut Call, handle: MPI_T_cvar_handle, buf: Address) -> Result<()> {
    let index = variable(call, handle)?;
    let text = settings::show(index, process::process().map(|process| &process.config))
        .map_err(|error| wrong(&error))?;
    match settings::type_of(index) {
        Type::Count => buf.store_bytes(&text.parse::<u64>().unwrap_or(0).to_ne_bytes(), "buf"),
        Type::Number => buf.store_bytes(&text.parse::<i64>().unwrap_or(0).to_ne_bytes(), "buf"),
        Type::Word(names) => {
            let place = names.iter().position(|name| *name == text).map_or(-1, |place| place as c_int);
            buf.store_bytes(&place.to_ne_bytes(), "buf")
        }
        Type::Text => {
            let mut bytes = text.into_bytes();
            bytes.truncate(TEXT_ROOM - 1);
            bytes.push(0);
            buf.store_bytes(&bytes, "buf")
        }
    }
}

/// Sets the value of a control variable (MPI_T_cvar_write).
pub fn cvar_write(call: &mut Call, handle: MPI_T_cvar_handle, buf: Address) -> Result<()> {
    let index = variable(call, handle)?;
    let name = CONTROL_VARIABLES[index].name;
    if CONTROL_VARIABLES[index].scope == Scope::Launcher
        || process::is_initialized() && !settings::is_always_writable(index)
    {
        let why =
            format!("{name} is fixed when a process starts: set it before MPI_Init, or in the environment");
        return Err(refuse(MPI_T_ERR_CVAR_SET_NEVER, why));
    }
    if buf.is_null() {
        return Err(refuse(MPI_T_ERR_INVALID, "argument buf is a null pointer"));
    }
    let text = match settings::type_of(index) {
        // SAFETY: the module's Safety section.
        Type::Count => unsafe { buf.pointer().cast::<u64>().read_unaligned() }.to_string(),
        // SAFETY: as above.
        Type::Number => unsafe { buf.pointer().cast::<i64>().read_unaligned() }.to_string(),
        Type::Word(names) => {
            // SAFETY: as above.
            let place = unsafe { buf.pointer().cast::<c_int>().read_unaligned() };
            let word = usize::try_from(place).ok().and_then(|place| names.get(place));
            let why = || refuse(MPI_T_ERR_INVALID, format!("{place} is no value of {name}"));
            (*word.ok_or_else(why)?).to_string()
        }
        Type::Text => {
            // SAFETY: as above; a text ends with a zero.
            unsafe { CStr::from_ptr(buf.pointer().cast()) }.to_string_lossy().into_owned()
        }
    };
    if settings::asks_for_checkpoint(index) {
        let not_now = |why: String| refuse(MPI_T_ERR_CVAR_SET_NOT_NOW, why);
        let running = process::process();
        let process = running.ok_or_else(|| not_now(format!("{name} is written while a process runs")))?;
        let header = process.job.header();
        return settings::keep(header.job_id, header.host, &text).map_err(not_now);
    }
    settings::write(index, &text).map_err(|error| wrong(&error))
}
