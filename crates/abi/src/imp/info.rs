//! Info objects (MPI-5 chapter 10).

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;

use tutti_base::{Error, ErrorClass, Result};
use tutti_core::host::ThreadLevel;
use tutti_core::info::{Info as Entries, StartDescription};
use tutti_core::lanes::FirstLaneCell;
use tutti_core::process;

use crate::entry::Call;
use crate::generated::constants::{MPI_INFO_ENV, MPI_MAX_INFO_KEY};
use crate::handles::kind::Info;
use crate::scope::{HandleOut, In, Out, Text, TextOut};

/// Returns the predefined info object with this number.
pub fn predefined(number: usize) -> Option<FirstLaneCell<Entries>> {
    (number == MPI_INFO_ENV.bits()).then(|| FirstLaneCell::new(Entries::of_start(&start())))
}

/// Describes the start of this process for MPI_INFO_ENV, also before MPI_Init. The thread level is missing:
/// it is part of the description only if the start requested it (MPI-5 section 11.2.1), and mpirun has no
/// option for that.
fn start() -> StartDescription {
    let mut arguments = std::env::args_os().map(|argument| argument.as_bytes().to_vec());
    let asked = StartDescription::asked_for();
    let in_job = || process::process().map(|process| process.library.world.size());
    StartDescription {
        max_processes: asked.max_processes.or_else(in_job),
        command: arguments.next().unwrap_or_default(),
        arguments: arguments.collect(),
        working_directory: std::env::current_dir()
            .map_or(Vec::new(), |path| OsStr::as_bytes(path.as_os_str()).to_vec()),
        ..asked
    }
}

/// Returns a thread level in the standard's spelling.
pub fn name_of(level: ThreadLevel) -> &'static str {
    match level {
        ThreadLevel::Single => "MPI_THREAD_SINGLE",
        ThreadLevel::Funneled => "MPI_THREAD_FUNNELED",
        ThreadLevel::Serialized => "MPI_THREAD_SERIALIZED",
        ThreadLevel::Multiple => "MPI_THREAD_MULTIPLE",
    }
}

/// Returns an info object of the program; predefined ones must not be changed.
fn writable<'s>(info: In<'s, Info>) -> Result<&'s FirstLaneCell<Entries>> {
    if info.raw() == MPI_INFO_ENV {
        return Err(Error::new(ErrorClass::Info, "argument info is MPI_INFO_ENV, which cannot be changed"));
    }
    info.get()
}

/// Creates an empty info object (MPI_Info_create).
pub fn create(_call: &mut Call, info: HandleOut<Info>) -> Result<()> {
    info.create(FirstLaneCell::new(Entries::default())).map(drop)
}

/// Creates an info object that describes the start of the process (MPI_Info_create_env).
///
/// # Safety
/// `argv` is null or holds `argc` strings.
pub unsafe fn create_env(
    _call: &mut Call,
    argc: c_int,
    argv: *mut *mut c_char,
    info: HandleOut<Info>,
) -> Result<()> {
    let mut description = start();
    let count = if argv.is_null() { 0 } else { usize::try_from(argc).unwrap_or(0) };
    // SAFETY: the caller's promise.
    let given = (0..count).map(|index| unsafe { *argv.add(index) }).take_while(|text| !text.is_null());
    // SAFETY: as above.
    let mut given = given.map(|text| unsafe { CStr::from_ptr(text) }.to_bytes().to_vec());
    if let Some(command) = given.next() {
        description.command = command;
        description.arguments = given.collect();
    }
    info.create(FirstLaneCell::new(Entries::of_start(&description))).map(drop)
}

/// Duplicates an info object (MPI_Info_dup).
pub fn dup(call: &mut Call, info: In<Info>, newinfo: HandleOut<Info>) -> Result<()> {
    let entries = info.get()?.borrow(&call.held).clone();
    newinfo.create(FirstLaneCell::new(entries)).map(drop)
}

/// Sets the value of a key (MPI_Info_set).
pub fn set(call: &mut Call, info: In<Info>, key: Text, value: Text) -> Result<()> {
    writable(info)?.borrow_mut(&call.held).set(key.bytes()?, value.bytes()?)
}

/// Deletes a key and its value (MPI_Info_delete).
pub fn delete(call: &mut Call, info: In<Info>, key: Text) -> Result<()> {
    writable(info)?.borrow_mut(&call.held).delete(key.bytes()?)
}

/// Returns the value of a key (MPI_Info_get). `valuelen` does not include the terminating zero, for which the
/// buffer has room.
pub fn get(
    call: &mut Call,
    info: In<Info>,
    key: Text,
    valuelen: c_int,
    value: TextOut,
    flag: Out<c_int>,
) -> Result<()> {
    let capacity = usize::try_from(valuelen).map_err(|_| {
        Error::new(ErrorClass::Arg, format!("argument valuelen is {valuelen}; give 0 or more"))
    })?;
    let entries = info.get()?.borrow(&call.held);
    let found = entries.get(key.bytes()?)?;
    if let Some(text) = found {
        value.set(text, capacity + 1)?;
    }
    flag.set_flag(found.is_some())
}

/// Returns the value of a key (MPI_Info_get_string). `buflen` is the size of the buffer with the terminating
/// zero, and afterwards the size that the whole value needs.
pub fn get_string(
    call: &mut Call,
    info: In<Info>,
    key: Text,
    buflen: Out<c_int>,
    value: TextOut,
    flag: Out<c_int>,
) -> Result<()> {
    let length = buflen.get()?;
    let capacity = usize::try_from(length)
        .map_err(|_| Error::new(ErrorClass::Arg, format!("argument buflen is {length}; give 0 or more")))?;
    let entries = info.get()?.borrow(&call.held);
    let found = entries.get(key.bytes()?)?;
    if let Some(text) = found {
        value.set(text, capacity)?;
        buflen.set(text.len() as c_int + 1)?;
    }
    flag.set_flag(found.is_some())
}

/// Returns the length of a key's value (MPI_Info_get_valuelen).
pub fn get_valuelen(
    call: &mut Call,
    info: In<Info>,
    key: Text,
    valuelen: Out<c_int>,
    flag: Out<c_int>,
) -> Result<()> {
    valuelen.check()?;
    let entries = info.get()?.borrow(&call.held);
    let found = entries.get(key.bytes()?)?;
    if let Some(text) = found {
        valuelen.set(text.len() as c_int)?;
    }
    flag.set_flag(found.is_some())
}

/// Returns the number of keys in an info object (MPI_Info_get_nkeys).
pub fn get_nkeys(call: &mut Call, info: In<Info>, nkeys: Out<c_int>) -> Result<()> {
    nkeys.set(info.get()?.borrow(&call.held).len() as c_int)
}

/// Returns the key at an index (MPI_Info_get_nthkey).
pub fn get_nthkey(call: &mut Call, info: In<Info>, n: c_int, key: TextOut) -> Result<()> {
    let entries = info.get()?.borrow(&call.held);
    key.set(entries.nth_key(n)?, MPI_MAX_INFO_KEY as usize).map(drop)
}

/// Frees an info object (MPI_Info_free).
pub fn free(_call: &mut Call, info: HandleOut<Info>) -> Result<()> {
    info.remove().map(drop)
}
