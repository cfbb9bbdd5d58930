//! Processes of other jobs (MPI-5 chapter 11): started, met at ports, parted from.
//!
//! # Safety
//! Lists of strings come as C has them, ended by a null pointer or counted; the caller vouches for them
//! (MPI-5 section 2.5).

use std::ffi::{CStr, c_char, c_int};
use std::sync::Arc;

use tutti_base::{Error, ErrorClass, Rank, Result};
use tutti_core::communicator::Communicator;
use tutti_core::dynamic::orders::{self, Wish};
use tutti_core::dynamic::{ports, services, spawn as spawning};
use tutti_core::info::Info as Entries;

use crate::entry::Call;
use crate::generated::constants::{MPI_ERR_SPAWN, MPI_MAX_PORT_NAME, MPI_SUCCESS};
use crate::handles::kind::{Comm, Info};
use crate::imp::comm::give;
use crate::imp::memory::process;
use crate::scope::{Array, ArrayOut, HandleOut, In, Text, TextOut};
use crate::types::{MPI_Comm, MPI_Info};

/// Returns the communicator of a call and its root.
fn rooted<'s>(comm: In<'s, Comm>, root: c_int) -> Result<(&'s Arc<Communicator>, Rank)> {
    let comm = comm.get()?;
    if comm.inter().is_some() {
        return Err(Error::new(ErrorClass::Comm, "argument comm is an intercommunicator"));
    }
    let rank = u32::try_from(root).ok().filter(|rank| *rank < comm.size());
    rank.map(|rank| (comm, Rank(rank))).ok_or_else(|| {
        let reason = format!("argument root is {root}; it must be 0 to {}", comm.size() - 1);
        Error::new(ErrorClass::Root, reason)
    })
}

fn entries(call: &Call, info: In<Info>) -> Result<Entries> {
    Ok(info.optional()?.map(|info| info.borrow(&call.held).clone()).unwrap_or_default())
}

/// Returns the strings of a list that ends with a null pointer; a null pointer is an empty list
/// (MPI_ARGV_NULL).
///
/// # Safety
/// The caller's promise.
unsafe fn strings(list: *mut *mut c_char) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut next = list;
    // SAFETY: the list goes on until its null pointer.
    while !next.is_null() && !unsafe { *next }.is_null() {
        // SAFETY: as above; each is a string.
        unsafe {
            found.push(CStr::from_ptr(*next).to_bytes().to_vec());
            next = next.add(1);
        }
    }
    found
}

/// Starts processes that run one program (MPI_Comm_spawn).
///
/// # Safety
/// `argv` is null or a list of strings that ends with a null pointer, at the root.
#[allow(clippy::too_many_arguments, reason = "as many as the standard's function has")]
pub unsafe fn spawn(
    call: &mut Call,
    command: Text,
    argv: *mut *mut c_char,
    maxprocs: c_int,
    info: In<Info>,
    root: c_int,
    comm: In<Comm>,
    intercomm: HandleOut<Comm>,
    array_of_errcodes: ArrayOut<c_int>,
) -> Result<()> {
    let (group, root) = rooted(comm, root)?;
    let wishes = (group.rank() == root).then(|| {
        let info = entries(call, info)?;
        // SAFETY: the caller's promise.
        let arguments = unsafe { strings(argv) };
        Ok(vec![Wish { command: command.bytes()?.to_vec(), arguments, count: maxprocs, info }])
    });
    start(call, group, root, wishes, intercomm, array_of_errcodes)
}

/// Starts processes that run several programs (MPI_Comm_spawn_multiple).
///
/// # Safety
/// The lists have `count` items each, at the root, and consist of strings and of lists of strings as for
/// [`spawn`].
#[allow(clippy::too_many_arguments, reason = "as many as the standard's function has")]
pub unsafe fn spawn_multiple(
    call: &mut Call,
    count: c_int,
    array_of_commands: *mut *mut c_char,
    array_of_argv: *mut *mut *mut c_char,
    array_of_maxprocs: Array<c_int>,
    array_of_info: Array<MPI_Info>,
    root: c_int,
    comm: In<Comm>,
    intercomm: HandleOut<Comm>,
    array_of_errcodes: ArrayOut<c_int>,
) -> Result<()> {
    let (group, root) = rooted(comm, root)?;
    let wishes = (group.rank() == root).then(|| {
        if count < 1 || array_of_commands.is_null() {
            let reason = format!("argument count is {count}; it must be 1 or more, and as many commands");
            return Err(Error::new(ErrorClass::Arg, reason));
        }
        let counts = array_of_maxprocs.slice(count.into())?;
        let mut wishes = Vec::new();
        for (at, info) in array_of_info.handles(count.into())?.enumerate() {
            // SAFETY: the caller's promise.
            let (command, arguments) = unsafe {
                let arguments =
                    if array_of_argv.is_null() { Vec::new() } else { strings(*array_of_argv.add(at)) };
                (*array_of_commands.add(at), arguments)
            };
            if command.is_null() {
                let reason = format!("argument array_of_commands[{at}] is a null pointer");
                return Err(Error::new(ErrorClass::Arg, reason));
            }
            // SAFETY: not null, and the caller's promise.
            let command = unsafe { CStr::from_ptr(command) }.to_bytes().to_vec();
            wishes.push(Wish { command, arguments, count: counts[at], info: entries(call, info)? });
        }
        Ok(wishes)
    });
    start(call, group, root, wishes, intercomm, array_of_errcodes)
}

/// Starts processes; `wishes` are the requests of the root.
fn start(
    call: &mut Call,
    comm: &Arc<Communicator>,
    root: Rank,
    wishes: Option<Result<Vec<Wish>>>,
    intercomm: HandleOut<Comm>,
    codes: ArrayOut<c_int>,
) -> Result<()> {
    intercomm.check()?;
    let asked = match &wishes {
        Some(Ok(wishes)) => wishes.iter().map(|wish| i64::from(wish.count.max(0))).sum(),
        _ => 0,
    };
    let programs = || wishes.unwrap_or_else(|| Ok(Vec::new()))?.iter().map(orders::program).collect();
    let new = spawning::spawn(&mut call.held, process()?, comm, root, programs);
    let started = new.as_ref().map_or(0, |new| i64::from(new.peers().size()));
    let asked = match &new {
        Ok(_) => asked,
        Err(_) => spawning::spread_requested(&mut call.held, process()?, comm, root, asked as u32).into(),
    };
    if !codes.pointer().is_null() {
        let codes = codes.slice(started.max(asked))?;
        codes.fill(MPI_ERR_SPAWN);
        codes[..started as usize].fill(MPI_SUCCESS);
    }
    give(intercomm, Some(new?))
}

/// Returns the intercommunicator with the processes that started this one (MPI_Comm_get_parent).
pub fn get_parent(call: &mut Call, parent: HandleOut<Comm>) -> Result<()> {
    let Some(found) = tutti_core::dynamic::known(process()?).borrow(&call.held).parent().cloned() else {
        return parent.set_null();
    };
    match found.handle() {
        0 => give(parent, Some(found)),
        known => parent.set(MPI_Comm::from_bits(known)),
    }
}

/// Opens a port that clients can connect to (MPI_Open_port).
pub fn open_port(call: &mut Call, info: In<Info>, port_name: TextOut) -> Result<()> {
    info.optional()?;
    let name = ports::open(&call.held, process()?)?;
    port_name.set(name.as_bytes(), MPI_MAX_PORT_NAME as usize).map(drop)
}

/// Closes a port so that no client can connect (MPI_Close_port).
pub fn close_port(call: &mut Call, port_name: Text) -> Result<()> {
    ports::close(&call.held, process()?, port_name.bytes()?)
}

/// Accepts a connection of clients to a port (MPI_Comm_accept).
pub fn accept(
    call: &mut Call,
    port_name: Text,
    info: In<Info>,
    root: c_int,
    comm: In<Comm>,
    newcomm: HandleOut<Comm>,
) -> Result<()> {
    newcomm.check()?;
    let (comm, root) = rooted(comm, root)?;
    let name = || info.optional().and_then(|_| Ok(port_name.bytes()?.to_vec()));
    let new = ports::accept(&mut call.held, process()?, comm, root, name)?;
    give(newcomm, Some(new))
}

/// Connects to the server of a port (MPI_Comm_connect).
pub fn connect(
    call: &mut Call,
    port_name: Text,
    info: In<Info>,
    root: c_int,
    comm: In<Comm>,
    newcomm: HandleOut<Comm>,
) -> Result<()> {
    newcomm.check()?;
    let (comm, root) = rooted(comm, root)?;
    let name = || info.optional().and_then(|_| Ok(port_name.bytes()?.to_vec()));
    let new = ports::connect_from(&mut call.held, process()?, comm, root, name)?;
    give(newcomm, Some(new))
}

/// Connects two processes through a socket (MPI_Comm_join). Returns MPI_COMM_NULL if the other process is on
/// another host.
pub fn join(call: &mut Call, fd: c_int, intercomm: HandleOut<Comm>) -> Result<()> {
    intercomm.check()?;
    let new = ports::join(&mut call.held, process()?, fd)?;
    give(intercomm, new)
}

/// Publishes a port under the name of a service (MPI_Publish_name).
pub fn publish_name(call: &mut Call, service_name: Text, info: In<Info>, port_name: Text) -> Result<()> {
    info.optional()?;
    services::publish(&call.held, process()?, service_name.bytes()?, port_name.bytes()?)
}

/// Withdraws the name of a service (MPI_Unpublish_name).
pub fn unpublish_name(call: &mut Call, service_name: Text, info: In<Info>, port_name: Text) -> Result<()> {
    info.optional()?;
    services::unpublish(&call.held, process()?, service_name.bytes()?, port_name.bytes()?)
}

/// Returns the port that was published for a service (MPI_Lookup_name).
pub fn lookup_name(call: &mut Call, service_name: Text, info: In<Info>, port_name: TextOut) -> Result<()> {
    info.optional()?;
    let found = services::look_up(&mut call.held, process()?, service_name.bytes()?)?;
    port_name.set(&found, MPI_MAX_PORT_NAME as usize).map(drop)
}
