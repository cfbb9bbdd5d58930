//! The tool information interface (MPI-5 section 15.3): variables and events of `tutti_core::tool`, with
//! handles, sessions and C types.
//!
//! It may be used before MPI_Init and after MPI_Finalize. No error handler is called: functions return their
//! code, and a wrong argument without a code of its own is MPI_T_ERR_INVALID. Where the standard lets an
//! argument be null, nothing is returned there. Handles are numbers, and stale ones are recognised.

mod category;
mod control;
mod events;
mod performance;
mod state;

use std::ffi::c_int;
use std::sync::OnceLock;

use tutti_base::Result;
use tutti_core::lanes;
use tutti_core::tool::events::KINDS;
use tutti_core::tool::variables::{self, Class};
use tutti_core::tool::{Names, settings};

use crate::entry::Call;
use crate::generated::constants::*;
use crate::imp::environment::{level_of, number_of};
use crate::listeners::{LISTENERS, listen};
use crate::scope::{HandleOut, Out, Text, TextOut};
use crate::slots::{pointer, refuse};
use crate::types::{MPI_Datatype, MPI_T_enum};

use state::TOOL;

pub use category::*;
pub use control::*;
pub use events::*;
pub use performance::*;

/// Checks that the tool interface is initialised.
fn ready(call: &Call) -> Result<()> {
    if TOOL.borrow(&call.held).users == 0 {
        return Err(refuse(MPI_T_ERR_NOT_INITIALIZED, "call MPI_T_init_thread first"));
    }
    Ok(())
}

/// Returns the item of a list that the user names by its number.
fn item<'l, T>(list: &'l [T], index: c_int, name: &str) -> Result<&'l T> {
    usize::try_from(index).ok().and_then(|index| list.get(index)).ok_or_else(|| {
        refuse(MPI_T_ERR_INVALID_INDEX, format!("argument {name} is {index}; there are {}", list.len()))
    })
}

/// Returns the index of `name` in `names`.
fn index_of<'n>(name: Text<'_>, mut names: impl Iterator<Item = &'n str>) -> Result<c_int> {
    let wanted = name.bytes()?;
    let found = names.position(|one| one.as_bytes() == wanted);
    found.map(|place| place as c_int).ok_or_else(|| {
        refuse(MPI_T_ERR_INVALID_NAME, format!("nothing has the name {:?}", String::from_utf8_lossy(wanted)))
    })
}

/// Returns a string by the rules of MPI-5 section 15.3.3. `length` is the room of the buffer, and afterwards
/// the length of the whole string with its terminating zero.
fn give(text: &str, place: TextOut, length: Out<c_int>) -> Result<()> {
    if length.is_absent() {
        return Ok(());
    }
    let room = usize::try_from(length.get()?).unwrap_or(0);
    if room > 0 && !place.is_absent() {
        place.set(text.as_bytes(), room)?;
    }
    length.set(text.len() as c_int + 1)
}

/// Returns a value unless the user does not want it.
fn put<T: Copy>(place: Out<T>, value: T) -> Result<()> {
    if place.is_absent() { Ok(()) } else { place.set(value) }
}

/// Stores a predefined datatype at `place` like [`put`], unless the place is null.
fn put_datatype(place: HandleOut<crate::handles::kind::Datatype>, value: MPI_Datatype) -> Result<()> {
    if place.is_absent() { Ok(()) } else { place.set(value) }
}

/// Enumerations by name: of settings, of states, and of the names of events' elements.
fn enumerations() -> &'static [(String, Names)] {
    static ALL: OnceLock<Vec<(String, Names)>> = OnceLock::new();
    ALL.get_or_init(|| {
        let rows = tutti_base::config::CONTROL_VARIABLES.iter().enumerate();
        let settings = rows.filter_map(|(index, setting)| match settings::type_of(index) {
            settings::Type::Word(words) => Some((setting.name.to_string(), words)),
            _ => None,
        });
        let states = variables::all().iter().filter_map(|variable| match variable.class {
            Class::State(names) => Some((variable.name.clone(), names)),
            _ => None,
        });
        let elements = KINDS.iter().map(|kind| (kind.name.to_string(), kind.elements));
        let collectives = std::iter::once(("tutti_collective".to_string(), variables::collectives()));
        settings.chain(states).chain(elements).chain(collectives).collect()
    })
}

/// Numbers of enumerations begin here, so that none is null.
const FIRST_ENUMERATION: usize = 0x1000;

/// Returns the handle of the enumeration with this name.
fn enumeration_of(name: &str) -> MPI_T_enum {
    let place = enumerations().iter().position(|(other, _)| other == name);
    pointer(place.map_or(MPI_T_ENUM_NULL, |place| FIRST_ENUMERATION + place))
}

fn enumeration(handle: MPI_T_enum) -> Result<&'static (String, Names)> {
    let place = (handle as usize).checked_sub(FIRST_ENUMERATION);
    place.and_then(|place| enumerations().get(place)).ok_or_else(|| {
        refuse(
            MPI_T_ERR_INVALID_HANDLE,
            format!("argument enumtype is {:#x}, no enumeration", handle as usize),
        )
    })
}

/// Initialises the tool interface (MPI_T_init_thread). MPI_THREAD_MULTIPLE is provided only if the program
/// itself uses that level: its lock would slow down other programs.
pub fn init_thread(call: &mut Call, required: c_int, provided: Out<c_int>) -> Result<()> {
    provided.check()?;
    let wanted = level_of(required)?;
    let most = if lanes::threads_allowed() { MPI_THREAD_MULTIPLE } else { MPI_THREAD_SERIALIZED };
    TOOL.borrow_mut(&call.held).users += 1;
    provided.set(number_of(wanted).min(most))
}

/// Finalises the tool interface; the last call frees all remaining objects (MPI_T_finalize).
pub fn finalize(call: &mut Call) -> Result<()> {
    ready(call)?;
    let mut tool = TOOL.borrow_mut(&call.held);
    tool.users -= 1;
    if tool.users == 0 {
        tool.controls.retain(|_| false);
        tool.sessions.retain(|()| false);
        tool.handles.retain(|_| false);
        let mut listeners = LISTENERS.borrow_mut(&call.held);
        listeners.retain(|_| false);
        listen(&mut listeners);
    }
    Ok(())
}

/// Returns name and number of items of an enumeration (MPI_T_enum_get_info).
pub fn enum_get_info(
    call: &mut Call,
    enumtype: MPI_T_enum,
    num: Out<c_int>,
    name: TextOut,
    name_len: Out<c_int>,
) -> Result<()> {
    ready(call)?;
    let (title, names) = enumeration(enumtype)?;
    give(title, name, name_len)?;
    put(num, names.len() as c_int)
}

/// Returns name and value of an enumeration's item (MPI_T_enum_get_item).
pub fn enum_get_item(
    call: &mut Call,
    enumtype: MPI_T_enum,
    indx: c_int,
    value: Out<c_int>,
    name: TextOut,
    name_len: Out<c_int>,
) -> Result<()> {
    ready(call)?;
    let (_, names) = enumeration(enumtype)?;
    let found = usize::try_from(indx).ok().and_then(|index| names.get(index)).ok_or_else(|| {
        refuse(MPI_T_ERR_INVALID_ITEM, format!("argument indx is {indx}; there are {} items", names.len()))
    })?;
    give(found, name, name_len)?;
    put(value, indx)
}
