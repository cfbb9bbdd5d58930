//! Message buffers: an address, a count and a datatype become a [`Message`].
//!
//! # Safety
//! [`Buffer::user`] requires what MPI-5 section 2.5 requires of the caller of the function. The wrapper
//! passes the requirement on to the program.

use tutti_base::{Error, ErrorClass, Result};
use tutti_core::buffer::{Buffer, ByteRun, device};
use tutti_core::point_to_point::Typed;
use tutti_core::process::{self, Process};
use tutti_core::type_object::TypeObject;
use tutti_data::Datatype;

use crate::generated::constants::MPI_BYTE;
use crate::handles::kind;
use crate::scope::{Address, In};

/// A user's buffer, checked.
#[derive(Debug)]
pub struct Message<'s> {
    /// Memory that contains the items.
    pub buffer: Buffer,
    /// Datatype of each item.
    pub datatype: &'s Datatype,
    /// Number of items in the buffer.
    pub count: u64,
}

impl Message<'_> {
    /// Returns the message in the form of core's functions.
    #[inline]
    pub fn typed(&self) -> Typed<'_> {
        Typed { buffer: &self.buffer, datatype: self.datatype, count: self.count }
    }
}

/// Returns the process. The entry wrapper has made sure that there is one.
///
/// # Errors
/// Fails with `Other` between the end of MPI_Finalize and that of the last session.
#[inline(always)]
pub fn process() -> Result<&'static Process> {
    process::process().ok_or_else(no_process)
}

#[cold]
fn no_process() -> Error {
    Error::new(ErrorClass::Other, "MPI is not initialised")
}

/// Returns a datatype that messages may use.
///
/// # Errors
/// Fails with `Type` for an invalid handle, or for a datatype that is not committed.
#[inline(always)]
pub fn datatype<'s>(handle: In<'s, kind::Datatype>) -> Result<&'s Datatype> {
    let datatype = handle.get()?.data();
    if datatype.dense().is_some() || datatype.is_committed() {
        Ok(datatype)
    } else {
        Err(not_committed(handle.name()))
    }
}

#[cold]
fn not_committed(name: &str) -> Error {
    let reason = format!("argument {name} is not committed; call MPI_Type_commit first");
    Error::new(ErrorClass::Type, reason)
}

/// Returns the datatype of `items` items. For none it may be MPI_DATATYPE_NULL, as in MPICH.
///
/// # Errors
/// Fails like [`datatype`].
#[inline(always)]
pub fn datatype_of(items: u64, handle: In<'_, kind::Datatype>) -> Result<&Datatype> {
    datatype(handle).or_else(|error| datatype_of_none(items, handle, error))
}

#[cold]
fn datatype_of_none<'s>(items: u64, handle: In<'s, kind::Datatype>, error: Error) -> Result<&'s Datatype> {
    let byte = TypeObject::predefined(MPI_BYTE.bits() as u32).filter(|_| items == 0 && handle.is_null());
    byte.map(|byte| byte.data()).ok_or(error)
}

/// Parses a count that must not be negative.
///
/// # Errors
/// Fails with `Count` if it is negative.
#[inline(always)]
pub fn count(count: i64, name: &str) -> Result<u64> {
    u64::try_from(count).map_err(|_| negative(count, name))
}

#[cold]
fn negative(count: i64, name: &str) -> Error {
    Error::new(ErrorClass::Count, format!("argument {name} is {count}; it must not be negative"))
}

/// Parses the count of items of a datatype. Its name follows from the datatype's: `sendcount` for `sendtype`.
///
/// # Errors
/// Fails with `Count` if it is negative.
#[inline(always)]
pub fn count_of(items: i64, handle: In<'_, kind::Datatype>) -> Result<u64> {
    u64::try_from(items).map_err(|_| negative_of(items, handle.name()))
}

#[cold]
fn negative_of(count: i64, datatype: &str) -> Error {
    negative(count, &argument_beside(datatype, "count"))
}

/// Returns the name of the argument `what` (its count, its buffer) that belongs to a datatype of this name.
#[cold]
pub fn argument_beside(datatype: &str, what: &str) -> String {
    let one = datatype.strip_suffix('s').unwrap_or(datatype);
    let whose = one.strip_suffix("datatype").or(one.strip_suffix("type"));
    format!("{}{what}{}", whose.unwrap_or_default(), &datatype[one.len()..])
}

/// Memory of a message, whose arguments are checked. Contiguous data need no [`Buffer`].
#[derive(Clone, Copy, Debug)]
pub struct Data<'s> {
    address: Address,
    count: u64,
    datatype: &'s Datatype,
}

impl<'s> Data<'s> {
    /// Returns the data as a contiguous run, if they have no gaps.
    #[inline(always)]
    pub fn run(&self) -> Option<ByteRun> {
        // SAFETY: the caller of the MPI function vouches for the memory that the arguments describe.
        unsafe { ByteRun::user(self.address.pointer(), self.count, self.datatype) }
    }

    /// Returns the data as a message.
    ///
    /// # Errors
    /// Fails with `Count` if the message would not fit in the address space.
    #[inline(always)]
    pub fn message(&self) -> Result<Message<'s>> {
        let Data { address, count, datatype } = *self;
        // SAFETY: the caller of the MPI function vouches for the memory that the arguments describe.
        let buffer = unsafe { Buffer::user(address.pointer(), count, datatype)? };
        Ok(Message { buffer, datatype, count })
    }
}

/// Parses the arguments that describe the memory of a message.
///
/// # Errors
/// Fails with `Count`, `Type` or `Buffer`; the message contains the argument.
#[inline(always)]
pub fn data<'s>(address: Address, items: i64, handle: In<'s, kind::Datatype>) -> Result<Data<'s>> {
    let count = count_of(items, handle)?;
    data_of(address, count, datatype_of(count, handle)?)
}

/// Checks the address of data whose count and datatype are checked.
///
/// # Errors
/// Fails with `Buffer` for a null pointer or MPI_IN_PLACE.
#[inline(always)]
fn data_of(address: Address, count: u64, datatype: &Datatype) -> Result<Data<'_>> {
    check_address(address, "buf", count, datatype)?;
    Ok(Data { address, count, datatype })
}

/// Parses the buffer of a message.
///
/// # Errors
/// Fails like [`data`], and with `Count` if the message would not fit in the address space.
#[inline(always)]
pub fn message<'s>(address: Address, items: i64, handle: In<'s, kind::Datatype>) -> Result<Message<'s>> {
    data(address, items, handle)?.message()
}

/// Returns the contiguous buffer of a message whose count and datatype are checked, which needs no
/// [`Buffer`]. `None` for other buffers.
///
/// # Errors
/// Fails like [`message_of`].
#[inline(always)]
pub fn run_of(address: Address, count: u64, datatype: &Datatype) -> Result<Option<ByteRun>> {
    Ok(data_of(address, count, datatype)?.run())
}

/// Returns a contiguous buffer with the length of `other`, at an address that was checked.
#[inline(always)]
pub fn run_like(address: Address, other: ByteRun) -> ByteRun {
    // SAFETY: the caller of the MPI function vouches for the memory that the arguments describe.
    unsafe { ByteRun::at(address.pointer(), other.bytes()) }
}

/// Returns a buffer of a message whose count and datatype are checked.
///
/// # Errors
/// Fails with `Buffer` for a null pointer or MPI_IN_PLACE.
#[inline(always)]
pub fn message_of(address: Address, count: u64, datatype: &Datatype) -> Result<Message<'_>> {
    data_of(address, count, datatype)?.message()
}

/// Refuses an address at which `count` items of `datatype` cannot be.
///
/// # Errors
/// Fails with `Buffer` for a null pointer, MPI_IN_PLACE or memory of a device.
#[inline(always)]
pub fn check_address(address: Address, name: &str, count: u64, datatype: &Datatype) -> Result<()> {
    if device::is_checked(address.bits()) { look_at(address, name, count, datatype) } else { Ok(()) }
}

/// Looks at an address that [`check_address`] suspects. Absolute addresses count from MPI_BOTTOM.
#[cold]
fn look_at(address: Address, name: &str, count: u64, datatype: &Datatype) -> Result<()> {
    if count == 0 || datatype.size() == 0 {
        return Ok(());
    }
    if address.bits() <= 1 && datatype.true_lb() == 0 {
        let reason = format!("argument {name} is a null pointer or MPI_IN_PLACE");
        return Err(Error::new(ErrorClass::Buffer, reason));
    }
    refuse_device(address.offset(datatype.true_lb() as isize), || format!("argument {name}"))
}

/// Refuses memory of a device; `what` names the argument.
///
/// # Errors
/// Fails with `Buffer`.
#[inline(always)]
pub fn refuse_device(address: Address, what: impl Fn() -> String) -> Result<()> {
    if device::is_checked(address.bits())
        && let Some(why) = device::complaint(address.bits() as u64)
    {
        return Err(Error::new(ErrorClass::Buffer, format!("{}: {why}", what())));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(datatype: &str, expected: &str) {
        assert_eq!(argument_beside(datatype, "count"), expected);
    }

    #[test]
    fn arguments_are_named_like_their_datatypes() {
        check("datatype", "count");
        check("sendtype", "sendcount");
        check("recvtypes", "recvcounts");
        check("origin_datatype", "origin_count");
    }
}
