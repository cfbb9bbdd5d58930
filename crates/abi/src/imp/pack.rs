//! Packing (MPI-5 sections 5.2 and 5.3).

use tutti_base::{Error, ErrorClass, Result};
use tutti_data::Datatype as Data;

use crate::entry::Call;
use crate::handles::kind::{Comm, Datatype};
use crate::imp::memory;
use crate::scope::{Address, CountOut, In, Text};

/// The items of a user's buffer.
struct Items<'s> {
    base: *mut u8,
    count: u64,
    data: &'s Data,
}

/// Returns the items of a user's buffer; `name` and `count_name` are those of the arguments.
fn items<'s>(
    (buffer, name): (Address, &str),
    (count, count_name): (i64, &str),
    datatype: In<'s, Datatype>,
) -> Result<Items<'s>> {
    let (count, data) = (memory::count(count, count_name)?, memory::datatype(datatype)?);
    memory::check_address(buffer, name, count, data)?;
    Ok(Items { base: buffer.pointer(), count, data })
}

/// Returns address and number of the bytes from `position` to the end of a buffer of `size` bytes.
fn rest(buffer: Address, size: i64, position: i64, name: &str) -> Result<(*mut u8, usize)> {
    let room = usize::try_from(size).ok().zip(usize::try_from(position).ok());
    let Some((size, position)) = room.filter(|(size, position)| position <= size) else {
        let reason = format!("argument position is {position}, outside argument {name} of {size} bytes");
        return Err(Error::new(ErrorClass::Arg, reason));
    };
    if buffer.is_null() && size > position {
        return Err(Error::new(ErrorClass::Buffer, format!("argument {name} is a null pointer")));
    }
    memory::refuse_device(buffer, || format!("argument {name}"))?;
    let start =
        if buffer.is_null() { std::ptr::dangling_mut() } else { buffer.pointer().wrapping_add(position) };
    Ok((start, size - position))
}

/// Refuses what needs more bytes than there are.
fn check_room(needed: i64, room: usize, name: &str) -> Result<()> {
    if u64::try_from(needed).is_ok_and(|needed| needed <= room as u64) {
        return Ok(());
    }
    let reason = format!("argument {name} has {room} bytes from position on, but {needed} are needed");
    Err(Error::new(ErrorClass::Truncate, reason))
}

fn check_representation(datarep: Text) -> Result<()> {
    match datarep.bytes()? {
        b"external32" => Ok(()),
        other => {
            let reason = format!("argument datarep is {}; give external32", other.escape_ascii());
            Err(Error::new(ErrorClass::Arg, reason))
        }
    }
}

/// Packs items at a position of a buffer (MPI_Pack).
#[allow(clippy::too_many_arguments, reason = "those of the standard")]
pub fn pack(
    _call: &mut Call,
    inbuf: Address,
    incount: i64,
    datatype: In<Datatype>,
    outbuf: Address,
    outsize: i64,
    position: CountOut,
    comm: In<Comm>,
) -> Result<()> {
    comm.get()?;
    let items = items((inbuf, "inbuf"), (incount, "incount"), datatype)?;
    let before = position.get()?;
    let (start, room) = rest(outbuf, outsize, before, "outbuf")?;
    check_room(items.data.pack_size(incount)?, room, "outbuf")?;
    // SAFETY: the caller of the MPI function vouches for both buffers (MPI-5 section 5.2).
    let written = unsafe {
        let out = std::slice::from_raw_parts_mut(start, room);
        items.data.pack(items.base, items.count, 0, out)
    };
    position.set(before + written as i64)
}

/// Unpacks items from a position of a buffer (MPI_Unpack).
#[allow(clippy::too_many_arguments, reason = "those of the standard")]
pub fn unpack(
    _call: &mut Call,
    inbuf: Address,
    insize: i64,
    position: CountOut,
    outbuf: Address,
    outcount: i64,
    datatype: In<Datatype>,
    comm: In<Comm>,
) -> Result<()> {
    comm.get()?;
    let items = items((outbuf, "outbuf"), (outcount, "outcount"), datatype)?;
    let before = position.get()?;
    let (start, room) = rest(inbuf, insize, before, "inbuf")?;
    let needed = items.data.pack_size(outcount)?;
    check_room(needed, room, "inbuf")?;
    // SAFETY: the caller of the MPI function vouches for both buffers; `needed` is at most `room`.
    let read = unsafe {
        let input = std::slice::from_raw_parts(start, needed as usize);
        items.data.unpack(items.base, items.count, 0, input)
    };
    position.set(before + read as i64)
}

/// Returns a bound on the bytes that items take when packed (MPI_Pack_size).
pub fn pack_size(
    _call: &mut Call,
    incount: i64,
    datatype: In<Datatype>,
    comm: In<Comm>,
    size: CountOut,
) -> Result<()> {
    comm.get()?;
    memory::count(incount, "incount")?;
    size.set(memory::datatype(datatype)?.pack_size(incount)?)
}

/// Packs items in the representation "external32" (MPI_Pack_external).
#[allow(clippy::too_many_arguments, reason = "those of the standard")]
pub fn pack_external(
    _call: &mut Call,
    datarep: Text,
    inbuf: Address,
    incount: i64,
    datatype: In<Datatype>,
    outbuf: Address,
    outsize: i64,
    position: CountOut,
) -> Result<()> {
    check_representation(datarep)?;
    let items = items((inbuf, "inbuf"), (incount, "incount"), datatype)?;
    let before = position.get()?;
    let (start, room) = rest(outbuf, outsize, before, "outbuf")?;
    // SAFETY: the caller of the MPI function vouches for both buffers (MPI-5 section 5.3).
    let written = unsafe {
        let out = std::slice::from_raw_parts_mut(start, room);
        items.data.pack_external(items.base, items.count, out)?
    };
    position.set(before + written as i64)
}

/// Unpacks items in the representation "external32" (MPI_Unpack_external).
#[allow(clippy::too_many_arguments, reason = "those of the standard")]
pub fn unpack_external(
    _call: &mut Call,
    datarep: Text,
    inbuf: Address,
    insize: i64,
    position: CountOut,
    outbuf: Address,
    outcount: i64,
    datatype: In<Datatype>,
) -> Result<()> {
    check_representation(datarep)?;
    let items = items((outbuf, "outbuf"), (outcount, "outcount"), datatype)?;
    let before = position.get()?;
    let (start, room) = rest(inbuf, insize, before, "inbuf")?;
    // SAFETY: the caller of the MPI function vouches for both buffers (MPI-5 section 5.3).
    let read = unsafe {
        let input = std::slice::from_raw_parts(start, room);
        items.data.unpack_external(items.base, items.count, input)?
    };
    position.set(before + read as i64)
}

/// Returns the bytes that items take in "external32" (MPI_Pack_external_size).
pub fn pack_external_size(
    _call: &mut Call,
    datarep: Text,
    incount: i64,
    datatype: In<Datatype>,
    size: CountOut,
) -> Result<()> {
    check_representation(datarep)?;
    memory::count(incount, "incount")?;
    size.set(memory::datatype(datatype)?.pack_external_size(incount)?)
}
