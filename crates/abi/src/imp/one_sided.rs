//! One-sided operations (MPI-5 section 12.3).

use std::ffi::c_int;

use tutti_base::{Error, ErrorClass, Result};
use tutti_core::buffer::{Buffer, ByteRun};
use tutti_core::request::RequestId;
use tutti_core::window::Window;
use tutti_core::window::access::Target;
use tutti_core::window::memory::{RunUpdate, Update};
use tutti_data::Datatype as Data;

use crate::entry::Call;
use crate::generated::constants::MPI_NO_OP;
use crate::handles::kind::{Datatype, Op, Request, Win};
use crate::handles::request::handle_of;
use crate::imp::memory::{self, Message, process};
use crate::scope::{Address, HandleOut, In};

/// Parses the target's side of an operation.
#[inline(always)]
fn target<'s>(rank: c_int, displacement: i64, count: i64, datatype: In<'s, Datatype>) -> Result<Target<'s>> {
    let count = memory::count_of(count, datatype)?;
    Ok(Target { rank, displacement, count, datatype: memory::datatype(datatype)? })
}

/// Parses both sides of an operation. If both have the same datatype, it is looked up once.
#[inline(always)]
fn both<'s>(
    (address, count, datatype): (Address, i64, In<'s, Datatype>),
    (rank, displacement, target_count, target_datatype): (c_int, i64, i64, In<'s, Datatype>),
) -> Result<(Message<'s>, Target<'s>)> {
    let message = side(address, count, datatype)?;
    let target = if target_datatype.raw() == datatype.raw() {
        let count = memory::count(target_count, "target_count")?;
        Target { rank, displacement, count, datatype: message.datatype }
    } else {
        target(rank, displacement, target_count, target_datatype)?
    };
    Ok((message, target))
}

/// Parses both sides of an operation with the same items, if the origin's are contiguous. Otherwise returns
/// `None`, and [`both`] parses them.
#[inline(always)]
fn run_and_target<'s>(
    (address, count, datatype): (Address, i64, In<'s, Datatype>),
    (rank, displacement, target_count, target_datatype): (c_int, i64, i64, In<'s, Datatype>),
) -> Result<Option<(ByteRun, Target<'s>)>> {
    if target_datatype.raw() != datatype.raw() || target_count != count {
        return Ok(None);
    }
    let items = memory::count_of(count, datatype)?;
    let found = memory::datatype(datatype)?;
    let run = memory::run_of(address, items, found)?.map(|run| (run, found));
    // The count of a contiguous buffer is not negative.
    Ok(run.map(|(run, datatype)| (run, Target { rank, displacement, count: count as u64, datatype })))
}

/// Parses the origin's side of an operation, or its result. Unlike a message, it needs a datatype even for no
/// items, as in MPICH.
#[inline(always)]
fn side<'s>(address: Address, count: i64, handle: In<'s, Datatype>) -> Result<Message<'s>> {
    memory::message_of(address, memory::count_of(count, handle)?, memory::datatype(handle)?)
}

/// Returns the target's side of an operation on one item.
#[inline(always)]
fn one<'s>(rank: c_int, displacement: i64, datatype: &'s Data) -> Target<'s> {
    Target { rank, displacement, count: 1, datatype }
}

/// Returns the datatype of an operation on one item, which must be predefined.
#[inline(always)]
fn predefined<'s>(datatype: In<'s, Datatype>) -> Result<&'s Data> {
    let found = memory::datatype(datatype)?;
    if found.is_predefined() { Ok(found) } else { Err(derived(datatype)) }
}

#[cold]
fn derived(datatype: In<Datatype>) -> Error {
    let reason = format!("argument {} is a derived datatype; it must be a predefined one", datatype.name());
    Error::new(ErrorClass::Type, reason)
}

/// Writes to the window of a target (MPI_Put).
#[allow(clippy::too_many_arguments, reason = "as many as the standard's function has")]
#[inline(always)]
pub fn put(
    call: &mut Call,
    origin_addr: Address,
    origin_count: i64,
    origin_datatype: In<Datatype>,
    target_rank: c_int,
    target_disp: i64,
    target_count: i64,
    target_datatype: In<Datatype>,
    win: In<Win>,
) -> Result<()> {
    let window = win.get()?;
    let origin = (origin_addr, origin_count, origin_datatype);
    let target = (target_rank, target_disp, target_count, target_datatype);
    if let Some((origin, target)) = run_and_target(origin, target)?
        && window.put_run(&call.held, origin, target)?
    {
        return Ok(());
    }
    put_any(call, origin, target, window)
}

/// Starts a put of any datatypes. It is not inlined, so that its caller can keep values in registers. The
/// same holds for similar functions here.
#[inline(never)]
fn put_any(
    call: &mut Call,
    origin: (Address, i64, In<Datatype>),
    target: (c_int, i64, i64, In<Datatype>),
    window: &Window,
) -> Result<()> {
    let (origin, target) = both(origin, target)?;
    window.put(&mut call.held, process()?, &origin.buffer, target)
}

/// Writes to the window of a target, with a request (MPI_Rput).
#[allow(clippy::too_many_arguments, reason = "as many as the standard's function has")]
pub fn rput(
    call: &mut Call,
    origin_addr: Address,
    origin_count: i64,
    origin_datatype: In<Datatype>,
    target_rank: c_int,
    target_disp: i64,
    target_count: i64,
    target_datatype: In<Datatype>,
    win: In<Win>,
    request: HandleOut<Request>,
) -> Result<()> {
    request.check_new()?;
    win.get()?.may_request(&call.held, target_rank, call.function.name)?;
    put(
        call,
        origin_addr,
        origin_count,
        origin_datatype,
        target_rank,
        target_disp,
        target_count,
        target_datatype,
        win,
    )?;
    request.set(handle_of(RequestId::DONE_UNCANCELLABLE))
}

/// Starts a get (MPI_Get), also with a request (MPI_Rget).
#[allow(clippy::too_many_arguments, reason = "as many as the standard's function has")]
#[inline(always)]
fn start_get(
    call: &mut Call,
    origin: (Address, i64, In<Datatype>),
    target: (c_int, i64, i64, In<Datatype>),
    win: In<Win>,
    by_request: bool,
) -> Result<RequestId> {
    let window = win.get()?;
    if let Some((origin, target)) = run_and_target(origin, target)?
        && window.get_run(&call.held, origin, target)?
    {
        return Ok(RequestId::DONE_UNCANCELLABLE);
    }
    get_any(call, origin, target, window, by_request)
}

/// Starts a get of any kind, if [`start_get`]'s fast path does not apply.
#[inline(never)]
fn get_any(
    call: &mut Call,
    origin: (Address, i64, In<Datatype>),
    target: (c_int, i64, i64, In<Datatype>),
    window: &Window,
    by_request: bool,
) -> Result<RequestId> {
    let (origin, target) = both(origin, target)?;
    window.get(&mut call.held, process()?, &origin.buffer, target, by_request)
}

/// Reads from the window of a target (MPI_Get).
#[allow(clippy::too_many_arguments, reason = "as many as the standard's function has")]
#[inline(always)]
pub fn get(
    call: &mut Call,
    origin_addr: Address,
    origin_count: i64,
    origin_datatype: In<Datatype>,
    target_rank: c_int,
    target_disp: i64,
    target_count: i64,
    target_datatype: In<Datatype>,
    win: In<Win>,
) -> Result<()> {
    let origin = (origin_addr, origin_count, origin_datatype);
    let target = (target_rank, target_disp, target_count, target_datatype);
    start_get(call, origin, target, win, false).map(drop)
}

/// Reads from the window of a target, with a request (MPI_Rget).
#[allow(clippy::too_many_arguments, reason = "as many as the standard's function has")]
pub fn rget(
    call: &mut Call,
    origin_addr: Address,
    origin_count: i64,
    origin_datatype: In<Datatype>,
    target_rank: c_int,
    target_disp: i64,
    target_count: i64,
    target_datatype: In<Datatype>,
    win: In<Win>,
    request: HandleOut<Request>,
) -> Result<()> {
    request.check_new()?;
    win.get()?.may_request(&call.held, target_rank, call.function.name)?;
    let origin = (origin_addr, origin_count, origin_datatype);
    let target = (target_rank, target_disp, target_count, target_datatype);
    let id = start_get(call, origin, target, win, true)?;
    request.set(handle_of(id))
}

/// Starts an accumulate of any form.
#[inline(always)]
fn start_update(
    call: &mut Call,
    (origin, result): (Option<Buffer>, Option<Buffer>),
    target: Target<'_>,
    op: In<Op>,
    window: &Window,
    by_request: bool,
) -> Result<RequestId> {
    let update = Update { origin: origin.as_ref(), result: result.as_ref(), op: op.get()? };
    window.update(&mut call.held, process()?, update, target, by_request)
}

/// Returns the origin's items, unless the operator does not look at them.
#[inline(always)]
fn operand(op: In<Op>, address: Address, count: i64, datatype: In<Datatype>) -> Result<Option<Buffer>> {
    if op.raw() == MPI_NO_OP {
        return Ok(None);
    }
    side(address, count, datatype).map(|message| Some(message.buffer))
}

/// Starts an accumulate of any datatypes, without a result.
#[inline(never)]
fn accumulate_any(
    call: &mut Call,
    (address, count, datatype): (Address, i64, In<Datatype>),
    (rank, displacement, target_count, target_datatype): (c_int, i64, i64, In<Datatype>),
    op: In<Op>,
    window: &Window,
    by_request: bool,
) -> Result<RequestId> {
    let origin = operand(op, address, count, datatype)?;
    let target = target(rank, displacement, target_count, target_datatype)?;
    start_update(call, (origin, None), target, op, window, by_request)
}

/// Combines data with the window of a target (MPI_Accumulate).
#[allow(clippy::too_many_arguments, reason = "as many as the standard's function has")]
#[inline(always)]
pub fn accumulate(
    call: &mut Call,
    origin_addr: Address,
    origin_count: i64,
    origin_datatype: In<Datatype>,
    target_rank: c_int,
    target_disp: i64,
    target_count: i64,
    target_datatype: In<Datatype>,
    op: In<Op>,
    win: In<Win>,
) -> Result<()> {
    let window = win.get()?;
    let origin = (origin_addr, origin_count, origin_datatype);
    let target = (target_rank, target_disp, target_count, target_datatype);
    if op.raw() != MPI_NO_OP
        && let Some((origin, target)) = run_and_target(origin, target)?
    {
        let update = RunUpdate { origin: Some(origin), result: None, op: op.get()? };
        if window.update_run(&call.held, update, target, origin.bytes())? {
            return Ok(());
        }
    }
    accumulate_any(call, origin, target, op, window, false).map(drop)
}

/// Combines data with the window of a target, with a request (MPI_Raccumulate).
#[allow(clippy::too_many_arguments, reason = "as many as the standard's function has")]
pub fn raccumulate(
    call: &mut Call,
    origin_addr: Address,
    origin_count: i64,
    origin_datatype: In<Datatype>,
    target_rank: c_int,
    target_disp: i64,
    target_count: i64,
    target_datatype: In<Datatype>,
    op: In<Op>,
    win: In<Win>,
    request: HandleOut<Request>,
) -> Result<()> {
    request.check_new()?;
    win.get()?.may_request(&call.held, target_rank, call.function.name)?;
    let origin = (origin_addr, origin_count, origin_datatype);
    let target = (target_rank, target_disp, target_count, target_datatype);
    let id = accumulate_any(call, origin, target, op, win.get()?, true)?;
    request.set(handle_of(id))
}

/// Combines data with a target's window and returns the old content (MPI_Get_accumulate).
#[allow(clippy::too_many_arguments, reason = "as many as the standard's function has")]
pub fn get_accumulate(
    call: &mut Call,
    origin_addr: Address,
    origin_count: i64,
    origin_datatype: In<Datatype>,
    result_addr: Address,
    result_count: i64,
    result_datatype: In<Datatype>,
    target_rank: c_int,
    target_disp: i64,
    target_count: i64,
    target_datatype: In<Datatype>,
    op: In<Op>,
    win: In<Win>,
) -> Result<()> {
    let window = win.get()?;
    let origin = operand(op, origin_addr, origin_count, origin_datatype)?;
    let result = side(result_addr, result_count, result_datatype)?;
    let target = target(target_rank, target_disp, target_count, target_datatype)?;
    start_update(call, (origin, Some(result.buffer)), target, op, window, false).map(drop)
}

/// Combines data with a target's window and returns the old content, with a request (MPI_Rget_accumulate).
#[allow(clippy::too_many_arguments, reason = "as many as the standard's function has")]
pub fn rget_accumulate(
    call: &mut Call,
    origin_addr: Address,
    origin_count: i64,
    origin_datatype: In<Datatype>,
    result_addr: Address,
    result_count: i64,
    result_datatype: In<Datatype>,
    target_rank: c_int,
    target_disp: i64,
    target_count: i64,
    target_datatype: In<Datatype>,
    op: In<Op>,
    win: In<Win>,
    request: HandleOut<Request>,
) -> Result<()> {
    request.check_new()?;
    win.get()?.may_request(&call.held, target_rank, call.function.name)?;
    let window = win.get()?;
    let origin = operand(op, origin_addr, origin_count, origin_datatype)?;
    let result = side(result_addr, result_count, result_datatype)?;
    let target = target(target_rank, target_disp, target_count, target_datatype)?;
    let id = start_update(call, (origin, Some(result.buffer)), target, op, window, true)?;
    request.set(handle_of(id))
}

/// Combines one element with a target's window and returns the old one (MPI_Fetch_and_op).
#[allow(clippy::too_many_arguments, reason = "as many as the standard's function has")]
#[inline(always)]
pub fn fetch_and_op(
    call: &mut Call,
    origin_addr: Address,
    result_addr: Address,
    datatype: In<Datatype>,
    target_rank: c_int,
    target_disp: i64,
    op: In<Op>,
    win: In<Win>,
) -> Result<()> {
    let window = win.get()?;
    let data = predefined(datatype)?;
    if let Some(result) = memory::run_of(result_addr, 1, data)? {
        // The origin's item is as long as the result's.
        let origin = if op.raw() == MPI_NO_OP {
            None
        } else {
            memory::check_address(origin_addr, "origin_addr", 1, data)?;
            Some(memory::run_like(origin_addr, result))
        };
        let update = RunUpdate { origin, result: Some(result), op: op.get()? };
        if window.update_run(&call.held, update, one(target_rank, target_disp, data), result.bytes())? {
            return Ok(());
        }
    }
    fetch_and_op_any(call, (origin_addr, result_addr, datatype), (target_rank, target_disp), op, window)
}

/// Combines one element of any type (MPI_Fetch_and_op).
#[inline(never)]
fn fetch_and_op_any(
    call: &mut Call,
    (origin, result, datatype): (Address, Address, In<Datatype>),
    (rank, displacement): (c_int, i64),
    op: In<Op>,
    window: &Window,
) -> Result<()> {
    let data = predefined(datatype)?;
    let origin = operand(op, origin, 1, datatype)?;
    let result = memory::message_of(result, 1, data)?.buffer;
    start_update(call, (origin, Some(result)), one(rank, displacement, data), op, window, false).map(drop)
}

/// Replaces one element of a target's window if it equals a value (MPI_Compare_and_swap).
#[allow(clippy::too_many_arguments, reason = "as many as the standard's function has")]
#[inline(always)]
pub fn compare_and_swap(
    call: &mut Call,
    origin_addr: Address,
    compare_addr: Address,
    result_addr: Address,
    datatype: In<Datatype>,
    target_rank: c_int,
    target_disp: i64,
    win: In<Win>,
) -> Result<()> {
    let window = win.get()?;
    let data = predefined(datatype)?;
    let origin = memory::message_of(origin_addr, 1, data)?;
    let compare = memory::message_of(compare_addr, 1, data)?;
    let result = memory::message_of(result_addr, 1, data)?;
    let buffers = [&origin.buffer, &compare.buffer, &result.buffer];
    window.swap(&mut call.held, process()?, buffers, one(target_rank, target_disp, data))
}
