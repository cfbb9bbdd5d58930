//! Attributes (MPI-5 section 7.7): keys with C callbacks, and the attributes of communicators and datatypes.
//! Those of windows are set and read through [`set`], [`get`] and [`delete`] here.

use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use tutti_base::{Result, Tag};
use tutti_core::attributes::{Attributes, KEYVALS, ObjectKind, OnCopy, OnDelete};
use tutti_core::error_codes::CODES;
use tutti_core::lanes::LaneGuard;
use tutti_core::process::Process;

use crate::dialect;
use crate::entry::Call;
use crate::generated::callbacks::{
    MPI_Comm_copy_attr_function, MPI_Comm_delete_attr_function, MPI_Type_copy_attr_function,
    MPI_Type_delete_attr_function, MPI_Win_copy_attr_function, MPI_Win_delete_attr_function,
};
use crate::generated::constants::{
    MPI_ANY_SOURCE, MPI_APPNUM, MPI_DUP_FN, MPI_HOST, MPI_IO, MPI_KEYVAL_INVALID, MPI_LASTUSEDCODE,
    MPI_NULL_COPY_FN, MPI_NULL_DELETE_FN, MPI_PROC_NULL, MPI_SUCCESS, MPI_TAG_UB, MPI_UNIVERSE_SIZE,
    MPI_WTIME_IS_GLOBAL,
};
use crate::handles::kind::{Comm, Datatype};
use crate::imp::memory::process;
use crate::scope::{Address, In, Out};
use crate::types::Raw;

/// Translates the address of a copy callback for objects of `kind` into core's form.
///
/// # Safety
/// `callback` is one of the constants of the ABI or the address of a copy function.
unsafe fn on_copy(kind: ObjectKind, callback: usize, extra_state: usize) -> OnCopy {
    match callback {
        MPI_NULL_COPY_FN => return OnCopy::Nothing,
        MPI_DUP_FN => return OnCopy::Duplicate,
        _ => {}
    }
    let dialect = dialect::spoken();
    OnCopy::Call(Arc::new(move |handle, keyval, value| {
        let (mut copy, mut flag): (usize, c_int) = (0, 0);
        let place = (&raw mut copy).cast::<c_void>();
        let (extra, value) = (extra_state as *mut c_void, value as *mut c_void);
        // SAFETY: the user's function, with the arguments that MPI-5 section 7.7.2 gives it.
        let code = unsafe {
            let (function, flag) = (callback, &raw mut flag);
            match kind {
                ObjectKind::Communicator => {
                    let comm = Raw::from_bits(handle);
                    (dialect.MPI_Comm_copy_attr_function)(function, comm, keyval, extra, value, place, flag)
                }
                ObjectKind::Datatype => {
                    let datatype = Raw::from_bits(handle);
                    (dialect.MPI_Type_copy_attr_function)(
                        function, datatype, keyval, extra, value, place, flag,
                    )
                }
                ObjectKind::Window => {
                    let win = Raw::from_bits(handle);
                    (dialect.MPI_Win_copy_attr_function)(function, win, keyval, extra, value, place, flag)
                }
            }
        };
        if code == MPI_SUCCESS { Ok((flag != 0).then_some(copy)) } else { Err(code) }
    }))
}

/// Translates the address of a delete callback into core's form.
///
/// # Safety
/// As [`on_copy`], with a delete function.
unsafe fn on_delete(kind: ObjectKind, callback: usize, extra_state: usize) -> OnDelete {
    if callback == MPI_NULL_DELETE_FN {
        return OnDelete::Nothing;
    }
    let dialect = dialect::spoken();
    OnDelete::Call(Arc::new(move |handle, keyval, value| {
        let (extra, value) = (extra_state as *mut c_void, value as *mut c_void);
        // SAFETY: the user's function, with the arguments that MPI-5 section 7.7.2 gives it.
        let code = unsafe {
            match kind {
                ObjectKind::Communicator => {
                    let comm = Raw::from_bits(handle);
                    (dialect.MPI_Comm_delete_attr_function)(callback, comm, keyval, value, extra)
                }
                ObjectKind::Datatype => {
                    let datatype = Raw::from_bits(handle);
                    (dialect.MPI_Type_delete_attr_function)(callback, datatype, keyval, value, extra)
                }
                ObjectKind::Window => {
                    let win = Raw::from_bits(handle);
                    (dialect.MPI_Win_delete_attr_function)(callback, win, keyval, value, extra)
                }
            }
        };
        if code == MPI_SUCCESS { Ok(()) } else { Err(code) }
    }))
}

/// Makes a key.
///
/// # Safety
/// As [`on_copy`] and [`on_delete`].
unsafe fn create_keyval(
    held: &LaneGuard,
    kind: ObjectKind,
    callbacks: (usize, usize),
    keyval: Out<c_int>,
    extra_state: Address,
) -> Result<()> {
    keyval.check()?;
    // SAFETY: the caller's promise.
    let (copy, delete) = unsafe {
        (on_copy(kind, callbacks.0, extra_state.bits()), on_delete(kind, callbacks.1, extra_state.bits()))
    };
    keyval.set(KEYVALS.borrow_mut(held).create(kind, copy, delete)?)
}

/// Gives up a key.
fn free_keyval(held: &LaneGuard, kind: ObjectKind, keyval: Out<c_int>) -> Result<()> {
    KEYVALS.borrow_mut(held).free(keyval.get()?, kind)?;
    keyval.set(MPI_KEYVAL_INVALID)
}

/// Sets an attribute of the object that the program knows by `handle`.
pub fn set(
    held: &LaneGuard,
    attributes: &Attributes,
    kind: ObjectKind,
    handle: usize,
    keyval: c_int,
    value: Address,
) -> Result<()> {
    let keyval = KEYVALS.borrow(held).find(keyval, kind)?;
    attributes.set(held, handle, &keyval, value.bits())
}

/// Reads an attribute that a program has set.
pub fn get(
    held: &LaneGuard,
    attributes: &Attributes,
    kind: ObjectKind,
    keyval: c_int,
    value: Address,
    flag: Out<c_int>,
) -> Result<()> {
    let keyval = KEYVALS.borrow(held).find(keyval, kind)?;
    let found = attributes.get(held, &keyval);
    if let Some(bits) = found {
        value.store(bits, "attribute_val")?;
    }
    flag.set_flag(found.is_some())
}

/// Deletes an attribute of the object that the program knows by `handle`.
pub fn delete(
    held: &LaneGuard,
    attributes: &Attributes,
    kind: ObjectKind,
    handle: usize,
    keyval: c_int,
) -> Result<()> {
    let keyval = KEYVALS.borrow(held).find(keyval, kind)?;
    attributes.delete(held, handle, &keyval)
}

/// Creates a key for attributes of communicators (MPI_Comm_create_keyval, MPI_Keyval_create).
///
/// # Safety
/// The callbacks are functions of the types that they have, or constants of the ABI.
pub unsafe fn create_comm_keyval(
    call: &mut Call,
    copy: Option<MPI_Comm_copy_attr_function>,
    delete: Option<MPI_Comm_delete_attr_function>,
    keyval: Out<c_int>,
    extra_state: Address,
) -> Result<()> {
    let callbacks = (copy.map_or(0, |copy| copy as usize), delete.map_or(0, |delete| delete as usize));
    // SAFETY: the caller's promise.
    unsafe { create_keyval(&call.held, ObjectKind::Communicator, callbacks, keyval, extra_state) }
}

/// Creates a key for attributes of datatypes (MPI_Type_create_keyval).
///
/// # Safety
/// As [`create_comm_keyval`].
pub unsafe fn create_type_keyval(
    call: &mut Call,
    copy: Option<MPI_Type_copy_attr_function>,
    delete: Option<MPI_Type_delete_attr_function>,
    keyval: Out<c_int>,
    extra_state: Address,
) -> Result<()> {
    let callbacks = (copy.map_or(0, |copy| copy as usize), delete.map_or(0, |delete| delete as usize));
    // SAFETY: the caller's promise.
    unsafe { create_keyval(&call.held, ObjectKind::Datatype, callbacks, keyval, extra_state) }
}

/// Creates a key for attributes of windows (MPI_Win_create_keyval).
///
/// # Safety
/// As [`create_comm_keyval`].
pub unsafe fn create_win_keyval(
    call: &mut Call,
    copy: Option<MPI_Win_copy_attr_function>,
    delete: Option<MPI_Win_delete_attr_function>,
    keyval: Out<c_int>,
    extra_state: Address,
) -> Result<()> {
    let callbacks = (copy.map_or(0, |copy| copy as usize), delete.map_or(0, |delete| delete as usize));
    // SAFETY: the caller's promise.
    unsafe { create_keyval(&call.held, ObjectKind::Window, callbacks, keyval, extra_state) }
}

/// Frees a key for attributes of communicators (MPI_Comm_free_keyval, MPI_Keyval_free).
pub fn free_comm_keyval(call: &mut Call, keyval: Out<c_int>) -> Result<()> {
    free_keyval(&call.held, ObjectKind::Communicator, keyval)
}

/// Frees a key for attributes of datatypes (MPI_Type_free_keyval).
pub fn free_type_keyval(call: &mut Call, keyval: Out<c_int>) -> Result<()> {
    free_keyval(&call.held, ObjectKind::Datatype, keyval)
}

/// Frees a key for attributes of windows (MPI_Win_free_keyval).
pub fn free_win_keyval(call: &mut Call, keyval: Out<c_int>) -> Result<()> {
    free_keyval(&call.held, ObjectKind::Window, keyval)
}

/// Sets an attribute of a datatype (MPI_Type_set_attr).
pub fn set_type(call: &mut Call, datatype: In<Datatype>, keyval: c_int, value: Address) -> Result<()> {
    let attributes = datatype.get()?.attributes();
    set(&call.held, attributes, ObjectKind::Datatype, datatype.raw().bits(), keyval, value)
}

/// Returns an attribute of a datatype (MPI_Type_get_attr).
pub fn get_type(
    call: &mut Call,
    datatype: In<Datatype>,
    keyval: c_int,
    value: Address,
    flag: Out<c_int>,
) -> Result<()> {
    get(&call.held, datatype.get()?.attributes(), ObjectKind::Datatype, keyval, value, flag)
}

/// Deletes an attribute of a datatype (MPI_Type_delete_attr).
pub fn delete_type(call: &mut Call, datatype: In<Datatype>, keyval: c_int) -> Result<()> {
    let attributes = datatype.get()?.attributes();
    delete(&call.held, attributes, ObjectKind::Datatype, datatype.raw().bits(), keyval)
}

/// Values of the predefined attributes, where programs find them: the standard returns their addresses
/// (MPI-5 section 9.1.2).
static PREDEFINED: [AtomicI32; 7] = [const { AtomicI32::new(0) }; 7];

/// Returns the address of the value of a predefined attribute of communicators.
fn predefined(held: &LaneGuard, process: &Process, keyval: c_int) -> Option<usize> {
    let value = match keyval {
        MPI_TAG_UB => Tag::UPPER_BOUND,
        // Every process can do I/O; no process has a host.
        MPI_IO => MPI_ANY_SOURCE,
        MPI_HOST => MPI_PROC_NULL,
        MPI_WTIME_IS_GLOBAL => 1,
        MPI_APPNUM => process.block().app_number.load(Ordering::Relaxed) as c_int,
        MPI_UNIVERSE_SIZE => process.job.header().universe_size as c_int,
        MPI_LASTUSEDCODE => CODES.borrow(held).last_used(),
        _ => return None,
    };
    let place = &PREDEFINED[(keyval - MPI_TAG_UB) as usize];
    place.store(value, Ordering::Relaxed);
    Some(place.as_ptr().addr())
}

/// Sets an attribute of a communicator (MPI_Comm_set_attr, MPI_Attr_put).
pub fn set_comm(call: &mut Call, comm: In<Comm>, keyval: c_int, value: Address) -> Result<()> {
    let attributes = &comm.get()?.attributes;
    set(&call.held, attributes, ObjectKind::Communicator, comm.raw().bits(), keyval, value)
}

/// Returns an attribute of a communicator (MPI_Comm_get_attr, MPI_Attr_get).
pub fn get_comm(
    call: &mut Call,
    comm: In<Comm>,
    keyval: c_int,
    value: Address,
    flag: Out<c_int>,
) -> Result<()> {
    let attributes = &comm.get()?.attributes;
    match predefined(&call.held, process()?, keyval) {
        Some(address) => {
            value.store(address, "attribute_val")?;
            flag.set_flag(true)
        }
        None => get(&call.held, attributes, ObjectKind::Communicator, keyval, value, flag),
    }
}

/// Deletes an attribute of a communicator (MPI_Comm_delete_attr, MPI_Attr_delete).
pub fn delete_comm(call: &mut Call, comm: In<Comm>, keyval: c_int) -> Result<()> {
    let attributes = &comm.get()?.attributes;
    delete(&call.held, attributes, ObjectKind::Communicator, comm.raw().bits(), keyval)
}
