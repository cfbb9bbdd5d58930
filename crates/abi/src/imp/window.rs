//! Windows (MPI-5 sections 12.2 and 12.5): creation and destruction, attributes and names, synchronisation.
//!
//! # Safety
//! The memory of MPI_Win_create belongs to the user, who guarantees its validity until MPI_Win_free (MPI-5
//! section 12.2.1).

use std::ffi::c_int;
use std::sync::Arc;

use tutti_base::{Error, ErrorClass, Result};
use tutti_core::attributes::ObjectKind;
use tutti_core::error_handler::HandlerKind;
use tutti_core::group::Group as Members;
use tutti_core::info::Info as Entries;
use tutti_core::lanes::FirstLaneCell;
use tutti_core::names::ObjectName;
use tutti_core::window::create::{self, WindowPart};
use tutti_core::window::memory::Base;
use tutti_core::window::{Flavor, LockKind, Window};

use crate::entry::{At, Call};
use crate::generated::constants::*;
use crate::handles::kind::{Comm, Errhandler, Group, Info, Win};
use crate::imp::attribute;
use crate::imp::error_handler::{call_handler, return_handle};
use crate::imp::memory::{process, refuse_device};
use crate::scope::{Address, CountOut, HandleOut, In, Out, Text, TextOut};

/// Parses a size of memory in bytes, which must not be negative.
fn size_of(size: i64) -> Result<u64> {
    u64::try_from(size).map_err(|_| {
        Error::new(ErrorClass::Size, format!("argument size is {size}; it must not be negative"))
    })
}

fn unit_of(disp_unit: i64) -> Result<i64> {
    if disp_unit > 0 {
        return Ok(disp_unit);
    }
    Err(Error::new(ErrorClass::Disp, format!("argument disp_unit is {disp_unit}; it must be positive")))
}

/// Makes a window and returns its handle.
fn make(
    call: &mut Call,
    flavor: Flavor,
    base: Address,
    (size, disp_unit): (i64, i64),
    info: In<Info>,
    comm: In<Comm>,
    win: HandleOut<Win>,
) -> Result<Arc<Window>> {
    win.check()?;
    let (process, comm) = (process()?, comm.get()?);
    let entries: Entries = info.optional()?.map(|info| info.borrow(&call.held).clone()).unwrap_or_default();
    let (bytes, unit) = (size_of(size)?, unit_of(disp_unit)?);
    if flavor == Flavor::Create && base.is_null() && bytes > 0 {
        return Err(Error::new(ErrorClass::Base, "argument base is a null pointer"));
    }
    refuse_device(base, || "argument base".to_string())?;
    // SAFETY: see the module's Safety section.
    let base = unsafe { Base::new(base.pointer()) };
    let window =
        create::create(&mut call.held, process, comm, flavor, WindowPart { base, bytes, unit }, &entries)?;
    let handle = win.create(Arc::clone(&window))?;
    window.set_handle(handle.bits());
    Ok(window)
}

/// Creates a window over memory of the program (MPI_Win_create).
pub fn create(
    call: &mut Call,
    base: Address,
    size: i64,
    disp_unit: i64,
    info: In<Info>,
    comm: In<Comm>,
    win: HandleOut<Win>,
) -> Result<()> {
    make(call, Flavor::Create, base, (size, disp_unit), info, comm, win).map(drop)
}

/// Creates a window with new memory (MPI_Win_allocate).
pub fn allocate(
    call: &mut Call,
    size: i64,
    disp_unit: i64,
    info: In<Info>,
    comm: In<Comm>,
    baseptr: Address,
    win: HandleOut<Win>,
) -> Result<()> {
    let window = make(call, Flavor::Allocate, Address::NOWHERE, (size, disp_unit), info, comm, win)?;
    baseptr.store(window.facts.base, "baseptr")
}

/// Creates a window with new memory that ranks of a host share (MPI_Win_allocate_shared).
pub fn allocate_shared(
    call: &mut Call,
    size: i64,
    disp_unit: i64,
    info: In<Info>,
    comm: In<Comm>,
    baseptr: Address,
    win: HandleOut<Win>,
) -> Result<()> {
    let window = make(call, Flavor::Shared, Address::NOWHERE, (size, disp_unit), info, comm, win)?;
    baseptr.store(window.facts.base, "baseptr")
}

/// Creates a window without memory, for later attachment (MPI_Win_create_dynamic).
pub fn create_dynamic(call: &mut Call, info: In<Info>, comm: In<Comm>, win: HandleOut<Win>) -> Result<()> {
    make(call, Flavor::Dynamic, Address::NOWHERE, (0, 1), info, comm, win).map(drop)
}

/// Returns memory that this process may load and store directly, for windows of any flavour
/// (MPI_Win_shared_query; MPI-5 section 12.2.3).
pub fn shared_query(
    call: &mut Call,
    win: In<Win>,
    rank: c_int,
    size: Out<isize>,
    disp_unit: CountOut,
    baseptr: Address,
) -> Result<()> {
    let _ = call;
    let window = win.get()?;
    if window.flavor() == Flavor::Dynamic {
        let reason = "argument win was made by MPI_Win_create_dynamic: it has no memory of its own";
        return Err(Error::new(ErrorClass::RmaFlavor, reason));
    }
    let (address, bytes, unit) = window.query((rank != MPI_PROC_NULL).then_some(rank))?;
    // No memory has no address.
    let address = if bytes == 0 { 0 } else { address };
    size.set(bytes as isize)?;
    disp_unit.set(unit)?;
    baseptr.store(address, "baseptr")
}

/// Attaches memory to a dynamic window (MPI_Win_attach).
pub fn attach(call: &mut Call, win: In<Win>, base: Address, size: i64) -> Result<()> {
    refuse_device(base, || "argument base".to_string())?;
    win.get()?.attach(&call.held, base.bits() as u64, size_of(size)?)
}

/// Detaches memory from a dynamic window (MPI_Win_detach).
pub fn detach(call: &mut Call, win: In<Win>, base: Address) -> Result<()> {
    win.get()?.detach(&call.held, base.bits() as u64)
}

/// Frees a window; collective over its group (MPI_Win_free).
pub fn free(call: &mut Call, win: HandleOut<Win>) -> Result<()> {
    call.at = At::Win(win.input()?.raw());
    let window = win.input()?.get()?;
    window.free(&mut call.held, process()?)?;
    call.at = At::World;
    win.remove().map(drop)
}

/// Returns the group of a window (MPI_Win_get_group).
pub fn get_group(_call: &mut Call, win: In<Win>, group: HandleOut<Group>) -> Result<()> {
    group.create(win.get()?.group().clone()).map(drop)
}

/// Sets the name of a window (MPI_Win_set_name).
pub fn set_name(call: &mut Call, win: In<Win>, win_name: Text) -> Result<()> {
    *win.get()?.name.borrow_mut(&call.held) = ObjectName::new(win_name.bytes()?);
    Ok(())
}

/// Returns the name of a window (MPI_Win_get_name).
pub fn get_name(call: &mut Call, win: In<Win>, win_name: TextOut, resultlen: Out<c_int>) -> Result<()> {
    let name = match win.optional()? {
        Some(window) => window.name.borrow(&call.held).clone(),
        None => ObjectName::new(b"MPI_WIN_NULL"),
    };
    let written = win_name.set(name.as_bytes(), MPI_MAX_OBJECT_NAME as usize)?;
    resultlen.set(written as c_int)
}

/// Sets the hints that `info` contains, and leaves the others as they are (MPI_Win_set_info).
pub fn set_info(call: &mut Call, win: In<Win>, info: In<Info>) -> Result<()> {
    let window = win.get()?;
    let entries = info.get()?.borrow(&call.held).clone();
    window.set_info(&call.held, &entries);
    Ok(())
}

/// Returns an info object with a window's hints (MPI_Win_get_info).
pub fn get_info(call: &mut Call, win: In<Win>, info_used: HandleOut<Info>) -> Result<()> {
    let entries = win.get()?.info(&call.held);
    info_used.create(FirstLaneCell::new(entries)).map(drop)
}

/// Sets the error handler of a window (MPI_Win_set_errhandler).
pub fn set_errhandler(call: &mut Call, win: In<Win>, errhandler: In<Errhandler>) -> Result<()> {
    let (window, handler) = (win.get()?, errhandler.get()?);
    handler.check_kind(HandlerKind::Window)?;
    *window.error_handler.borrow_mut(&call.held) = handler.clone();
    Ok(())
}

/// Returns the error handler of a window (MPI_Win_get_errhandler).
pub fn get_errhandler(call: &mut Call, win: In<Win>, errhandler: HandleOut<Errhandler>) -> Result<()> {
    let handler = win.get()?.error_handler.borrow(&call.held).clone();
    return_handle(&handler, errhandler)
}

/// Calls the error handler of a window (MPI_Win_call_errhandler).
pub fn call_errhandler(call: &mut Call, win: In<Win>, errorcode: c_int) -> Result<()> {
    let handler = win.get()?.error_handler.borrow(&call.held).clone();
    call_handler(call, &handler, win.raw().bits(), errorcode)
}

/// Returns the value of a predefined attribute: the base itself, or the address of the value for any other.
fn predefined_attribute(window: &Window, keyval: c_int) -> Option<usize> {
    let facts = &window.facts;
    Some(match keyval {
        MPI_WIN_BASE => facts.base,
        MPI_WIN_SIZE => facts.size.as_ptr().addr(),
        MPI_WIN_DISP_UNIT => facts.unit.as_ptr().addr(),
        MPI_WIN_CREATE_FLAVOR => facts.flavor.as_ptr().addr(),
        MPI_WIN_MODEL => facts.model.as_ptr().addr(),
        _ => return None,
    })
}

/// Sets an attribute of a window (MPI_Win_set_attr).
pub fn set_attr(call: &mut Call, win: In<Win>, keyval: c_int, value: Address) -> Result<()> {
    let attributes = &win.get()?.attributes;
    attribute::set(&call.held, attributes, ObjectKind::Window, win.raw().bits(), keyval, value)
}

/// Returns an attribute of a window (MPI_Win_get_attr).
pub fn get_attr(
    call: &mut Call,
    win: In<Win>,
    keyval: c_int,
    value: Address,
    flag: Out<c_int>,
) -> Result<()> {
    let window = win.get()?;
    match predefined_attribute(window, keyval) {
        Some(bits) => {
            value.store(bits, "attribute_val")?;
            flag.set_flag(true)
        }
        None => attribute::get(&call.held, &window.attributes, ObjectKind::Window, keyval, value, flag),
    }
}

/// Deletes an attribute of a window (MPI_Win_delete_attr).
pub fn delete_attr(call: &mut Call, win: In<Win>, keyval: c_int) -> Result<()> {
    let attributes = &win.get()?.attributes;
    attribute::delete(&call.held, attributes, ObjectKind::Window, win.raw().bits(), keyval)
}

/// Completes the window's operations and begins the next epoch (MPI_Win_fence).
pub fn fence(call: &mut Call, assert: c_int, win: In<Win>) -> Result<()> {
    win.get()?.fence(&mut call.held, process()?, assert)
}

/// Exposes the window to a group of origins (MPI_Win_post).
pub fn post(call: &mut Call, group: In<Group>, assert: c_int, win: In<Win>) -> Result<()> {
    let (win, group) = with_group(win, group)?;
    win.post(&mut call.held, process()?, group, assert)
}

/// Begins an access epoch to a group of targets (MPI_Win_start).
pub fn start(call: &mut Call, group: In<Group>, assert: c_int, win: In<Win>) -> Result<()> {
    let (win, group) = with_group(win, group)?;
    win.start(&mut call.held, process()?, group, assert)
}

/// Returns a window and a group of processes in it: both of one session, or of none.
fn with_group<'s>(win: In<'s, Win>, group: In<'s, Group>) -> Result<(&'s Window, &'s Members)> {
    let (win, group) = (win.get()?, group.get()?);
    win.group().check_origin(group, ErrorClass::Group, "win and group")?;
    Ok((win, group))
}

/// Ends the access epoch that MPI_Win_start began (MPI_Win_complete).
pub fn complete(call: &mut Call, win: In<Win>) -> Result<()> {
    win.get()?.complete(&mut call.held, process()?)
}

/// Waits for the end of the exposure epoch (MPI_Win_wait).
pub fn wait(call: &mut Call, win: In<Win>) -> Result<()> {
    win.get()?.wait(&mut call.held, process()?)
}

/// Tests for the end of the exposure epoch (MPI_Win_test).
pub fn test(call: &mut Call, win: In<Win>, flag: Out<c_int>) -> Result<()> {
    flag.check()?;
    let over = win.get()?.test(&mut call.held, process()?)?;
    flag.set_flag(over)
}

/// Begins an access epoch to one target (MPI_Win_lock).
pub fn lock(call: &mut Call, lock_type: c_int, rank: c_int, assert: c_int, win: In<Win>) -> Result<()> {
    let window = win.get()?;
    let kind = match lock_type {
        MPI_LOCK_SHARED => LockKind::Shared,
        MPI_LOCK_EXCLUSIVE => LockKind::Exclusive,
        other => {
            let reason =
                format!("argument lock_type is {other}; it must be MPI_LOCK_SHARED or MPI_LOCK_EXCLUSIVE");
            return Err(Error::new(ErrorClass::Locktype, reason));
        }
    };
    window.lock(&mut call.held, process()?, kind, rank, assert)
}

/// Ends the access epoch to one target (MPI_Win_unlock).
pub fn unlock(call: &mut Call, rank: c_int, win: In<Win>) -> Result<()> {
    win.get()?.unlock(&mut call.held, process()?, rank)
}

/// Begins an access epoch to all targets (MPI_Win_lock_all).
pub fn lock_all(call: &mut Call, assert: c_int, win: In<Win>) -> Result<()> {
    win.get()?.lock_all(&mut call.held, process()?, assert)
}

/// Ends the access epoch to all targets (MPI_Win_unlock_all).
pub fn unlock_all(call: &mut Call, win: In<Win>) -> Result<()> {
    win.get()?.unlock_all(&mut call.held, process()?)
}

/// Completes operations to one target, at both sides (MPI_Win_flush).
#[inline]
pub fn flush(call: &mut Call, rank: c_int, win: In<Win>) -> Result<()> {
    win.get()?.flush(&mut call.held, process, Some(rank))
}

/// Completes operations to all targets, at both sides (MPI_Win_flush_all).
pub fn flush_all(call: &mut Call, win: In<Win>) -> Result<()> {
    win.get()?.flush(&mut call.held, process, None)
}

/// Completes operations to one target at the origin (MPI_Win_flush_local).
pub fn flush_local(call: &mut Call, rank: c_int, win: In<Win>) -> Result<()> {
    win.get()?.flush_local(&mut call.held, process()?, Some(rank))
}

/// Completes operations to all targets at the origin (MPI_Win_flush_local_all).
pub fn flush_local_all(call: &mut Call, win: In<Win>) -> Result<()> {
    win.get()?.flush_local(&mut call.held, process()?, None)
}

/// Synchronises private and public copy of the window (MPI_Win_sync).
pub fn sync(call: &mut Call, win: In<Win>) -> Result<()> {
    win.get()?.synchronise(&mut call.held, process()?);
    Ok(())
}
