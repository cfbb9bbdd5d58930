//! Files (MPI-5 chapter 14).
//!
//! # Safety
//! [`Memory::user`] requires what MPI-5 section 2.5 requires of the caller of the function. So do the
//! program's functions for data representations. The wrapper passes the requirement on to the program.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use tutti_base::{Error, ErrorClass, Result};
use tutti_core::lanes;
use tutti_core::lanes::FirstLaneCell;
use tutti_core::request::Status;
use tutti_data::Datatype as Data;
use tutti_io::access::Split;
use tutti_io::file::{self, Whence};
use tutti_io::memory::Items;
use tutti_io::representation::{Convert, FileExtent, UserRepresentation, register};
use tutti_io::{Access, File as Opened, Memory, Pointer};

use crate::entry::{At, Call};
use crate::form::Form;
use crate::generated::callbacks::{
    MPI_Datarep_conversion_function, MPI_Datarep_conversion_function_c, MPI_Datarep_extent_function,
};
use crate::generated::constants::*;
use crate::handles::kind::{Comm, Datatype, File, Group, Info};
use crate::handles::request::handle_of;
use crate::imp::datatype;
use crate::imp::memory::{check_address, count, datatype as committed, process};
use crate::imp::request::report;
use crate::scope::{Address, CountOut, HandleOut, In, Out, Text, TextOut};
use crate::status::StatusOut;
use crate::types::MPI_Datatype;

/// Direction of an access: to the file, or from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// MPI_File_read and its like.
    Read,
    /// MPI_File_write and its like.
    Write,
}

/// Participants and file pointer of an access without an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// One process, with its individual pointer.
    One,
    /// All, their own pointers.
    All,
    /// One process, with the shared pointer.
    Shared,
    /// All, the shared pointer in the order of ranks.
    Ordered,
}

impl By {
    fn access(self, direction: Direction) -> Access {
        let (pointer, collective) = match self {
            By::One => (Pointer::Individual, false),
            By::All => (Pointer::Individual, true),
            By::Shared => (Pointer::Shared, false),
            By::Ordered => (Pointer::Ordered, true),
        };
        Access { write: direction == Direction::Write, pointer, collective }
    }
}

/// Participants of an access at an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// One process.
    One,
    /// All.
    All,
}

/// Parses the user's memory of an access.
fn memory(buf: Address, items: i64, handle: In<Datatype>) -> Result<Memory> {
    let items = count(items, "count")?;
    let datatype = committed(handle)?;
    check_address(buf, "buf", items, datatype)?;
    // SAFETY: the caller of the MPI function vouches for the memory that the arguments describe.
    unsafe { Memory::user(buf.pointer(), items, datatype) }
}

/// Does an access, or starts it.
fn perform(
    call: &mut Call,
    access: Access,
    fh: In<File>,
    (buf, items, datatype): (Address, i64, In<Datatype>),
    form: Form,
) -> Result<()> {
    let file = fh.get()?;
    match form {
        Form::Nonblocking(request) => {
            request.check_new()?;
            let memory = memory(buf, items, datatype)?;
            request.set(handle_of(file.start(&mut call.held, process()?, access, memory)?))
        }
        Form::Blocking(status) => {
            let memory = memory(buf, items, datatype)?;
            let (bytes, result) = file.access(&mut call.held, process()?, access, memory);
            status.set(report(Status { bytes, ..Status::EMPTY }));
            result
        }
        Form::Persistent(..) => unreachable!("files have no persistent accesses"),
    }
}

/// Reads or writes at an offset (MPI_File_read_at, MPI_File_write_at, and their collective and non-blocking
/// forms).
#[allow(clippy::too_many_arguments, reason = "as many as the standard's function has, and which")]
pub fn access_at(
    call: &mut Call,
    (direction, who): (Direction, Who),
    fh: In<File>,
    offset: i64,
    buf: Address,
    count: i64,
    datatype: In<Datatype>,
    form: Form,
) -> Result<()> {
    let write = direction == Direction::Write;
    let access = Access { write, pointer: Pointer::Explicit(offset), collective: who == Who::All };
    perform(call, access, fh, (buf, count, datatype), form)
}

/// Reads or writes at a file pointer (MPI_File_read, MPI_File_write, and all of their forms without an
/// offset).
pub fn access(
    call: &mut Call,
    (direction, by): (Direction, By),
    fh: In<File>,
    buf: Address,
    count: i64,
    datatype: In<Datatype>,
    form: Form,
) -> Result<()> {
    perform(call, by.access(direction), fh, (buf, count, datatype), form)
}

/// Begins a split collective access at an offset (MPI_File_read_at_all_begin, MPI_File_write_at_all_begin).
#[allow(clippy::too_many_arguments, reason = "as many as the standard's function has, and which")]
pub fn begin_at(
    call: &mut Call,
    direction: Direction,
    fh: In<File>,
    offset: i64,
    buf: Address,
    count: i64,
    datatype: In<Datatype>,
) -> Result<()> {
    let write = direction == Direction::Write;
    let access = Access { write, pointer: Pointer::Explicit(offset), collective: true };
    let memory = memory(buf, count, datatype)?;
    fh.get()?.begin(&mut call.held, process()?, access, memory)
}

/// Begins a split access at a file pointer (MPI_File_read_all_begin, MPI_File_read_ordered_begin, and their
/// forms for writing).
pub fn begin(
    call: &mut Call,
    (direction, by): (Direction, By),
    fh: In<File>,
    buf: Address,
    count: i64,
    datatype: In<Datatype>,
) -> Result<()> {
    let memory = memory(buf, count, datatype)?;
    fh.get()?.begin(&mut call.held, process()?, by.access(direction), memory)
}

/// Ends a split access (MPI_File_read_at_all_end and similar functions).
pub fn end(call: &mut Call, split: Split, fh: In<File>, buf: Address, status: StatusOut) -> Result<()> {
    let _ = buf;
    let (bytes, result) = fh.get()?.end(&mut call.held, process()?, split);
    status.set(report(Status { bytes, ..Status::EMPTY }));
    result
}

/// Opens a file; collective over a communicator (MPI_File_open).
pub fn open(
    call: &mut Call,
    comm: In<Comm>,
    filename: Text,
    amode: c_int,
    info: In<Info>,
    fh: HandleOut<File>,
) -> Result<()> {
    fh.check()?;
    let entries = info.optional()?.map(|info| info.borrow(&call.held).clone()).unwrap_or_default();
    let file = Opened::open(&mut call.held, process()?, comm.get()?, filename.bytes()?, amode, &entries)?;
    let handle = fh.create(Arc::clone(&file))?;
    file.set_handle(&call.held, handle.bits());
    Ok(())
}

/// Closes a file; collective over its group (MPI_File_close).
pub fn close(call: &mut Call, fh: HandleOut<File>) -> Result<()> {
    call.at = At::File(fh.input()?.raw());
    let file = fh.input()?.get()?;
    let result = file.close(&mut call.held, process()?);
    if file.is_open(&call.held) {
        return result;
    }
    // The error handler of a file that is gone is the default one.
    call.at = At::File(MPI_FILE_NULL);
    fh.remove()?;
    result
}

/// Deletes a file by its name (MPI_File_delete).
pub fn delete(call: &mut Call, filename: Text, info: In<Info>) -> Result<()> {
    info.optional()?;
    let name = filename.bytes()?;
    let process = process()?;
    call.held.release_while(|| file::delete(process, name))
}

/// Sets the size of a file in bytes (MPI_File_set_size).
pub fn set_size(call: &mut Call, fh: In<File>, size: i64) -> Result<()> {
    fh.get()?.resize(&mut call.held, process()?, size)
}

/// Reserves storage for the first bytes of a file (MPI_File_preallocate).
pub fn preallocate(call: &mut Call, fh: In<File>, size: i64) -> Result<()> {
    fh.get()?.allocate(&mut call.held, process()?, size)
}

/// Returns the size of a file in bytes (MPI_File_get_size).
pub fn get_size(_call: &mut Call, fh: In<File>, size: Out<i64>) -> Result<()> {
    size.set(fh.get()?.bytes()? as i64)
}

/// Returns the group that has opened a file (MPI_File_get_group).
pub fn get_group(_call: &mut Call, fh: In<File>, group: HandleOut<Group>) -> Result<()> {
    group.create(fh.get()?.group().clone()).map(drop)
}

/// Returns the access mode of a file (MPI_File_get_amode).
pub fn get_amode(_call: &mut Call, fh: In<File>, amode: Out<c_int>) -> Result<()> {
    amode.set(fh.get()?.amode().bits())
}

/// Sets hints of a file (MPI_File_set_info).
pub fn set_info(call: &mut Call, fh: In<File>, info: In<Info>) -> Result<()> {
    let entries = info.optional()?.map(|info| info.borrow(&call.held).clone()).unwrap_or_default();
    fh.get()?.set_hints(&mut call.held, process()?, &entries)
}

/// Returns an info object with a file's hints (MPI_File_get_info).
pub fn get_info(call: &mut Call, fh: In<File>, info_used: HandleOut<Info>) -> Result<()> {
    let info = fh.get()?.info(&call.held);
    info_used.create(FirstLaneCell::new(info)).map(drop)
}

/// Sets the process's view of a file (MPI_File_set_view).
pub fn set_view(
    call: &mut Call,
    fh: In<File>,
    disp: i64,
    etype: In<Datatype>,
    filetype: In<Datatype>,
    datarep: Text,
    info: In<Info>,
) -> Result<()> {
    let file = fh.get()?;
    let entries = info.optional()?.map(|info| info.borrow(&call.held).clone());
    let (etype, filetype) = (etype.get()?.data(), filetype.get()?.data());
    file.set_view(&mut call.held, process()?, disp, etype, filetype, datarep.bytes()?, entries.as_ref())
}

/// Returns the process's view of a file (MPI_File_get_view).
pub fn get_view(
    call: &mut Call,
    fh: In<File>,
    disp: Out<i64>,
    etype: HandleOut<Datatype>,
    filetype: HandleOut<Datatype>,
    datarep: TextOut,
) -> Result<()> {
    let view = fh.get()?.view(&call.held);
    disp.set(view.displacement)?;
    etype.set(datatype::handle_of(&call.held, &view.etype)?)?;
    filetype.set(datatype::handle_of(&call.held, &view.filetype)?)?;
    datarep.set(view.representation.name(), MPI_MAX_DATAREP_STRING as usize).map(drop)
}

/// Parses the origin of an offset.
fn whence(whence: c_int) -> Result<Whence> {
    match whence {
        MPI_SEEK_SET => Ok(Whence::Start),
        MPI_SEEK_CUR => Ok(Whence::Current),
        MPI_SEEK_END => Ok(Whence::End),
        other => {
            let why =
                format!("argument whence is {other}; it must be MPI_SEEK_SET, MPI_SEEK_CUR or MPI_SEEK_END");
            Err(Error::new(ErrorClass::Arg, why))
        }
    }
}

/// Moves the individual file pointer (MPI_File_seek).
pub fn seek(call: &mut Call, fh: In<File>, offset: i64, from: c_int) -> Result<()> {
    fh.get()?.seek(&call.held, offset, whence(from)?)
}

/// Moves the shared file pointer; collective (MPI_File_seek_shared).
pub fn seek_shared(call: &mut Call, fh: In<File>, offset: i64, from: c_int) -> Result<()> {
    fh.get()?.seek_shared(&mut call.held, process()?, offset, whence(from)?)
}

/// Returns the individual file pointer in units of the view (MPI_File_get_position).
pub fn get_position(call: &mut Call, fh: In<File>, offset: Out<i64>) -> Result<()> {
    offset.set(fh.get()?.position(&call.held)?)
}

/// Returns the shared file pointer in units of the view (MPI_File_get_position_shared).
pub fn get_position_shared(call: &mut Call, fh: In<File>, offset: Out<i64>) -> Result<()> {
    offset.set(fh.get()?.shared_position(&mut call.held, process()?)?)
}

/// Converts an offset in the view to bytes in the file (MPI_File_get_byte_offset).
pub fn get_byte_offset(call: &mut Call, fh: In<File>, offset: i64, disp: Out<i64>) -> Result<()> {
    disp.set(fh.get()?.byte_of(&call.held, offset)?)
}

/// Returns the extent of a datatype in the file's representation (MPI_File_get_type_extent).
pub fn get_type_extent(
    call: &mut Call,
    fh: In<File>,
    datatype: In<Datatype>,
    extent: CountOut,
) -> Result<()> {
    extent.set(fh.get()?.extent_of(&call.held, datatype.get()?.data())?)
}

/// Switches atomic mode of a file on or off (MPI_File_set_atomicity).
pub fn set_atomicity(call: &mut Call, fh: In<File>, flag: c_int) -> Result<()> {
    fh.get()?.set_atomic(&mut call.held, process()?, flag != 0)
}

/// Returns whether a file is in atomic mode (MPI_File_get_atomicity).
pub fn get_atomicity(call: &mut Call, fh: In<File>, flag: Out<c_int>) -> Result<()> {
    flag.set_flag(fh.get()?.is_atomic(&call.held))
}

/// Transfers written data to the storage device; collective (MPI_File_sync).
pub fn sync(call: &mut Call, fh: In<File>) -> Result<()> {
    fh.get()?.sync(&mut call.held, process()?)
}

/// An address that the program's functions get back.
#[derive(Clone, Copy)]
struct Extra(*mut c_void);

// SAFETY: nothing is read or written through it here.
unsafe impl Send for Extra {}
// SAFETY: as above.
unsafe impl Sync for Extra {}

impl Extra {
    /// Returns the address. It is a method so that closures capture the whole value, which may move between
    /// threads.
    fn pointer(self) -> *mut c_void {
        self.0
    }
}

/// Translates the code that the program's function returned (MPI-5 section 14.5.3).
fn returned(code: c_int, what: &str) -> Result<()> {
    match code {
        MPI_SUCCESS => Ok(()),
        code => {
            let why = format!("the program's function that {what} returned {code}");
            Err(Error::new(ErrorClass::Conversion, why))
        }
    }
}

fn handle(data: &Data) -> Result<MPI_Datatype> {
    datatype::handle_of(&lanes::enter(), data)
}

/// Returns a conversion by a function with `int` counts, which is called for as many items at a time as they
/// hold.
fn narrow(function: Option<MPI_Datarep_conversion_function>, extra: Extra) -> Option<Convert> {
    let function = function?;
    Some(Box::new(move |items: &Items, bytes: &mut [u8]| {
        let datatype = handle(items.datatype())?;
        let mut position = 0;
        while position < items.count() {
            let count = (items.count() - position).min(c_int::MAX as u64);
            // SAFETY: the user's function, with the arguments that MPI-5 section 14.5.3 gives it: it finds
            // the items by their position in both buffers.
            let code = unsafe {
                function(
                    items.base().cast(),
                    datatype,
                    count as c_int,
                    bytes.as_mut_ptr().cast(),
                    position as i64,
                    extra.pointer(),
                )
            };
            returned(code, "converts data")?;
            position += count;
        }
        Ok(())
    }))
}

/// Returns a conversion by a function with large counts.
fn wide(function: Option<MPI_Datarep_conversion_function_c>, extra: Extra) -> Option<Convert> {
    let function = function?;
    Some(Box::new(move |items: &Items, bytes: &mut [u8]| {
        let datatype = handle(items.datatype())?;
        // SAFETY: as in `narrow`.
        let code = unsafe {
            function(
                items.base().cast(),
                datatype,
                items.count() as i64,
                bytes.as_mut_ptr().cast(),
                0,
                extra.pointer(),
            )
        };
        returned(code, "converts data")
    }))
}

fn make(
    datarep: Text,
    read: Option<Convert>,
    write: Option<Convert>,
    extent: Option<MPI_Datarep_extent_function>,
    extra: Extra,
) -> Result<()> {
    let Some(extent) = extent else {
        return Err(Error::new(ErrorClass::Arg, "argument dtype_file_extent_fn is a null pointer"));
    };
    let extent: FileExtent = Box::new(move |data: &Data| {
        let datatype = handle(data)?;
        let mut bytes = 0;
        // SAFETY: the user's function, with the arguments that MPI-5 section 14.5.3 gives it.
        let code = unsafe { extent(datatype, &raw mut bytes, extra.pointer()) };
        returned(code, "tells the extent of a type in a file")?;
        if bytes < 0 {
            let why = format!("the extent of {data:?} in a file is {bytes}; it must not be negative");
            return Err(Error::new(ErrorClass::Conversion, why));
        }
        Ok(bytes as i64)
    });
    register(UserRepresentation { name: datarep.bytes()?.to_vec(), read, write, extent })
}

/// Registers a data representation by the program's conversion functions (MPI_Register_datarep).
pub fn register_datarep(
    _call: &mut Call,
    datarep: Text,
    read: Option<MPI_Datarep_conversion_function>,
    write: Option<MPI_Datarep_conversion_function>,
    extent: Option<MPI_Datarep_extent_function>,
    extra_state: Address,
) -> Result<()> {
    let extra = Extra(extra_state.pointer().cast());
    make(datarep, narrow(read, extra), narrow(write, extra), extent, extra)
}

/// Registers a data representation by conversion functions with large counts (MPI_Register_datarep_c).
pub fn register_datarep_c(
    _call: &mut Call,
    datarep: Text,
    read: Option<MPI_Datarep_conversion_function_c>,
    write: Option<MPI_Datarep_conversion_function_c>,
    extent: Option<MPI_Datarep_extent_function>,
    extra_state: Address,
) -> Result<()> {
    let extra = Extra(extra_state.pointer().cast());
    make(datarep, wide(read, extra), wide(write, extra), extent, extra)
}
