//! Partitioned point-to-point communication (MPI-5 chapter 4).

use std::ffi::c_int;

use tutti_base::{Error, ErrorClass, Result};
use tutti_core::completion;
use tutti_core::partitioned::{self, InParts};
use tutti_core::request::RequestId;

use crate::entry::{At, Call};
use crate::handles::kind::{Comm, Datatype, Info, Request};
use crate::handles::request::handle_of;
use crate::imp::memory::{self, Message, process};
use crate::imp::request::{id_of, some_id};
use crate::scope::{Address, Array, HandleOut, In, Out};

/// Returns the memory of all partitions, and how many there are.
fn parts<'s>(
    buf: Address,
    partitions: c_int,
    count: i64,
    datatype: In<'s, Datatype>,
) -> Result<(Message<'s>, u32)> {
    let number = u32::try_from(partitions).map_err(|_| {
        Error::new(ErrorClass::Count, format!("argument partitions is {partitions}; it must not be negative"))
    })?;
    let each = memory::count(count, "count")?;
    let all = each.checked_mul(u64::from(number)).ok_or_else(|| {
        Error::new(
            ErrorClass::Count,
            format!("argument count: {number} partitions of {each} items are too many"),
        )
    })?;
    Ok((memory::message_of(buf, all, memory::datatype_of(each, datatype)?)?, number))
}

fn in_parts<'a>(message: &'a Message<'_>, partitions: u32, count: i64) -> InParts<'a> {
    InParts { buffer: &message.buffer, datatype: message.datatype, partitions, count: count as u64 }
}

/// Creates a request for a send in partitions (MPI_Psend_init).
#[allow(clippy::too_many_arguments, reason = "as many as the standard's function has")]
pub fn send_init(
    call: &mut Call,
    buf: Address,
    partitions: c_int,
    count: i64,
    datatype: In<Datatype>,
    dest: c_int,
    tag: c_int,
    comm: In<Comm>,
    info: In<Info>,
    request: HandleOut<Request>,
) -> Result<()> {
    request.check_new()?;
    info.optional()?;
    let (process, comm) = (process()?, comm.get()?);
    let (message, partitions) = parts(buf, partitions, count, datatype)?;
    let message = in_parts(&message, partitions, count);
    request.set(handle_of(partitioned::send_init(&call.held, process, comm, message, dest, tag)?))
}

/// Creates a request for a receive in partitions (MPI_Precv_init).
#[allow(clippy::too_many_arguments, reason = "as many as the standard's function has")]
pub fn recv_init(
    call: &mut Call,
    buf: Address,
    partitions: c_int,
    count: i64,
    datatype: In<Datatype>,
    source: c_int,
    tag: c_int,
    comm: In<Comm>,
    info: In<Info>,
    request: HandleOut<Request>,
) -> Result<()> {
    request.check_new()?;
    info.optional()?;
    let (process, comm) = (process()?, comm.get()?);
    let (message, partitions) = parts(buf, partitions, count, datatype)?;
    let message = in_parts(&message, partitions, count);
    request.set(handle_of(partitioned::receive_init(&call.held, process, comm, message, source, tag)?))
}

/// Returns the request of a call. The error handler of its communicator receives errors of the call.
fn request_of(call: &mut Call, request: In<Request>) -> Result<RequestId> {
    let id = some_id(request)?;
    call.at = At::Context(completion::context_of(&call.held, process()?, id)?);
    Ok(id)
}

/// Parses the number of a partition, which must not be negative.
fn number(partition: c_int, name: &str) -> Result<usize> {
    usize::try_from(partition).map_err(|_| {
        Error::new(ErrorClass::Arg, format!("argument {name} is {partition}; it must not be negative"))
    })
}

/// Marks one partition as ready for sending (MPI_Pready).
pub fn ready(call: &mut Call, partition: c_int, request: In<Request>) -> Result<()> {
    let id = request_of(call, request)?;
    let partition = number(partition, "partition")?;
    partitioned::ready(&call.held, process()?, id, std::iter::once(partition))
}

/// Marks a range of partitions as ready for sending (MPI_Pready_range).
pub fn ready_range(call: &mut Call, low: c_int, high: c_int, request: In<Request>) -> Result<()> {
    let id = request_of(call, request)?;
    let (first, last) = (number(low, "partition_low")?, number(high, "partition_high")?);
    if first > last {
        let reason = format!("argument partition_low is {low}, which is above partition_high, {high}");
        return Err(Error::new(ErrorClass::Arg, reason));
    }
    partitioned::ready(&call.held, process()?, id, first..last + 1)
}

/// Marks the listed partitions as ready for sending (MPI_Pready_list).
pub fn ready_list(
    call: &mut Call,
    length: c_int,
    array_of_partitions: Array<c_int>,
    request: In<Request>,
) -> Result<()> {
    let id = request_of(call, request)?;
    let list = array_of_partitions.slice(length.into())?;
    if let Some(negative) = list.iter().find(|partition| **partition < 0) {
        number(*negative, "array_of_partitions")?;
    }
    let mut sorted: Vec<usize> = list.iter().map(|partition| *partition as usize).collect();
    sorted.sort_unstable();
    if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        let reason = format!("argument array_of_partitions has {} twice", twice[0]);
        return Err(Error::new(ErrorClass::Arg, reason));
    }
    partitioned::ready(&call.held, process()?, id, sorted.iter().copied())
}

/// Returns whether a partition has arrived (MPI_Parrived). For null and inactive requests, it has (MPI-5
/// section 4.2.2).
pub fn arrived(call: &mut Call, request: In<Request>, partition: c_int, flag: Out<c_int>) -> Result<()> {
    flag.check()?;
    let Some(_) = id_of(request)? else { return flag.set_flag(true) };
    let id = request_of(call, request)?;
    let partition = number(partition, "partition")?;
    flag.set_flag(partitioned::has_arrived(&mut call.held, process()?, id, partition)?)
}
