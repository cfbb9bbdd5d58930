//! Sessions (MPI-5 section 11.3), and groups and communicators that are created from their process sets.

use std::ffi::c_int;

use tutti_base::{Error, ErrorClass, Rank, Result, WorldRank};
use tutti_core::communicator::Communicator;
use tutti_core::constructors::create;
use tutti_core::error_handler::{ErrorHandler, HandlerKind};
use tutti_core::group::Group as Members;
use tutti_core::host::ThreadLevel;
use tutti_core::info::Info as Entries;
use tutti_core::intercommunicator::{self, Leaders};
use tutti_core::lanes::FirstLaneCell;
use tutti_core::lifecycle;
use tutti_core::memory_kinds;
use tutti_core::session::{self, Session as Opened};

use crate::entry::{At, Call};
use crate::generated::constants::MPI_MAX_STRINGTAG_LEN;
use crate::handles::kind::{Comm, Errhandler, Group, Info, Session};
use crate::imp::environment;
use crate::imp::error_handler::{call_handler, return_handle};
use crate::imp::memory::process;
use crate::imp::{comm, group};
use crate::phase;
use crate::scope::{HandleOut, In, Out, Text, TextOut};

/// Creates a session with its error handler and hints (MPI_Session_init).
pub fn init(
    call: &mut Call,
    info: In<Info>,
    errhandler: In<Errhandler>,
    session: HandleOut<Session>,
) -> Result<()> {
    session.check()?;
    let handler = handler_for(call, errhandler, HandlerKind::Session)?;
    let entries = match info.optional()? {
        Some(entries) => entries.borrow(&call.held).clone(),
        None => Entries::new(),
    };
    let level = level_of(&entries);
    let process = environment::bring_up(call, level)?;
    if !phase::is_running() {
        phase::sessions(true);
    }
    session.create(Opened::open(&call.held, handler, &entries, level))?;
    environment::advance_unattended(call, process)
}

/// Info key for the thread level.
const THREAD_LEVEL: &str = "thread_level";
/// Returns the thread level that a program requests by the info key of MPI-5 section 11.3.1. Every level is
/// provided.
fn level_of(info: &Entries) -> ThreadLevel {
    match info.text(THREAD_LEVEL) {
        Some("MPI_THREAD_MULTIPLE") => ThreadLevel::Multiple,
        Some("MPI_THREAD_SERIALIZED") => ThreadLevel::Serialized,
        Some("MPI_THREAD_FUNNELED") => ThreadLevel::Funneled,
        Some("MPI_THREAD_SINGLE") => ThreadLevel::Single,
        _ => session::DEFAULT_LEVEL,
    }
}

/// Returns the error handler for a new object; the null handle stands for the default. The handler also
/// receives errors of this call.
fn handler_for(call: &mut Call, errhandler: In<Errhandler>, kind: HandlerKind) -> Result<ErrorHandler> {
    let handler = errhandler.optional()?.cloned().unwrap_or(ErrorHandler::Fatal);
    handler.check_kind(kind)?;
    call.at = At::Given(errhandler.raw());
    Ok(handler)
}

/// Finalises a session (MPI_Session_finalize). With the last session the process leaves the job, unless the
/// world model uses it, or may do so later.
pub fn finalize(call: &mut Call, session: HandleOut<Session>) -> Result<()> {
    call.at = At::Session(session.input()?.raw());
    let closed = session.remove()?;
    call.at = At::World;
    closed.close(&mut call.held, process()?);
    if !session::are_open(&call.held) && !phase::is_in_world() {
        lifecycle::close(&mut call.held, process()?, phase::was_finalised());
        phase::sessions(false);
    }
    Ok(())
}

/// Returns an info object with the session's thread level (MPI-5 section 11.3.1) and the kinds of memory
/// (MPI_Session_get_info).
pub fn get_info(call: &mut Call, session: In<Session>, info_used: HandleOut<Info>) -> Result<()> {
    let session = session.get()?;
    let mut entries = Entries::new();
    memory_kinds::add_to(&mut entries, &call.held, session.origin);
    entries.set(THREAD_LEVEL, super::info::name_of(session.level))?;
    info_used.create(FirstLaneCell::new(entries)).map(drop)
}

/// Returns the number of process sets of a session (MPI_Session_get_num_psets).
pub fn get_num_psets(
    _call: &mut Call,
    session: In<Session>,
    info: In<Info>,
    npset_names: Out<c_int>,
) -> Result<()> {
    session.get()?;
    info.optional()?;
    npset_names.set(session::process_sets(process()?).len() as c_int)
}

/// Returns the name of a process set (MPI_Session_get_nth_pset). `pset_len` is the size of the buffer with
/// the terminating zero, and afterwards the size that the whole name needs.
pub fn get_nth_pset(
    _call: &mut Call,
    session: In<Session>,
    info: In<Info>,
    n: c_int,
    pset_len: Out<c_int>,
    pset_name: TextOut,
) -> Result<()> {
    session.get()?;
    info.optional()?;
    let sets = session::process_sets(process()?);
    let name = usize::try_from(n).ok().and_then(|n| sets.get(n)).ok_or_else(|| {
        let reason = format!("argument n is {n}; there are {} process sets", sets.len());
        Error::new(ErrorClass::Arg, reason)
    })?;
    let room = usize::try_from(pset_len.get()?).unwrap_or(0);
    pset_name.set(name.as_bytes(), room)?;
    pset_len.set(name.len() as c_int + 1)
}

/// Returns an info object that describes a process set (MPI_Session_get_pset_info).
pub fn get_pset_info(
    _call: &mut Call,
    session: In<Session>,
    pset_name: Text,
    info: HandleOut<Info>,
) -> Result<()> {
    session.get()?;
    let members = session::process_set(process()?, pset_name.bytes()?)?;
    let mut entries = Entries::new();
    entries.set("mpi_size", members.size().to_string())?;
    info.create(FirstLaneCell::new(entries)).map(drop)
}

/// Returns the group of a process set (MPI_Group_from_session_pset).
pub fn group_from_pset(
    _call: &mut Call,
    session: In<Session>,
    pset_name: Text,
    newgroup: HandleOut<Group>,
) -> Result<()> {
    let origin = session.get()?.origin;
    group::give(newgroup, session::process_set(process()?, pset_name.bytes()?)?.with_origin(origin))
}

/// Creates a communicator of a group without a parent (MPI_Comm_create_from_group).
pub fn create_from_group(
    call: &mut Call,
    group: In<Group>,
    stringtag: Text,
    info: In<Info>,
    errhandler: In<Errhandler>,
    newcomm: HandleOut<Comm>,
) -> Result<()> {
    newcomm.check()?;
    let (errhandler, info) = (handler_for(call, errhandler, HandlerKind::Communicator)?, info.optional()?);
    let tag = tag_of(stringtag)?;
    let (process, members) = (process()?, group.get()?);
    let new = create::create_group(&mut call.held, process, &process.library.world, members, tag)?;
    if let Some(new) = &new {
        equip(call, new, errhandler, info);
    }
    comm::give(newcomm, new)
}

/// Creates an intercommunicator of two groups (MPI_Intercomm_create_from_groups). A process outside the local
/// group receives MPI_COMM_NULL.
#[allow(clippy::too_many_arguments, reason = "as many as the standard's function has")]
pub fn intercomm_create_from_groups(
    call: &mut Call,
    local_group: In<Group>,
    local_leader: c_int,
    remote_group: In<Group>,
    remote_leader: c_int,
    stringtag: Text,
    info: In<Info>,
    errhandler: In<Errhandler>,
    newintercomm: HandleOut<Comm>,
) -> Result<()> {
    newintercomm.check()?;
    let (errhandler, info) = (handler_for(call, errhandler, HandlerKind::Communicator)?, info.optional()?);
    let tag = tag_of(stringtag)?;
    let (process, members, others) = (process()?, local_group.get()?, remote_group.get()?);
    members.check_origin(others, ErrorClass::Group, "local_group and remote_group")?;
    let local = leader_of(members, local_leader, "local_leader")?.0;
    let remote = leader_of(others, remote_leader, "remote_leader")?.1;
    let Some(comm) = create::create_group(&mut call.held, process, &process.library.world, members, tag)?
    else {
        return newintercomm.set_null();
    };
    let leaders = Leaders { local, peer_comm: &process.library.world, remote: remote.0 as i32, tag };
    let new = intercommunicator::create(&mut call.held, process, &comm, leaders)?;
    comm.free(&call.held, process)?;
    equip(call, &new, errhandler, info);
    comm::give(newintercomm, Some(new))
}

/// Returns the rank of a leader in the group and in the world.
fn leader_of(group: &Members, rank: c_int, argument: &str) -> Result<(Rank, WorldRank)> {
    let leader = u32::try_from(rank).ok().filter(|rank| *rank < group.size()).map(Rank);
    let found = leader.and_then(|leader| Some((leader, group.get(leader)?)));
    found.ok_or_else(|| {
        let reason = format!("argument {argument} is {rank}; the group has {} processes", group.size());
        Error::new(ErrorClass::Rank, reason)
    })
}

fn tag_of(stringtag: Text) -> Result<i32> {
    let tag = stringtag.bytes()?;
    if tag.len() < MPI_MAX_STRINGTAG_LEN as usize {
        return Ok(session::tag_of(tag));
    }
    let reason =
        format!("argument stringtag has {} bytes; fewer than {MPI_MAX_STRINGTAG_LEN} are allowed", tag.len());
    Err(Error::new(ErrorClass::Arg, reason))
}

/// Sets the error handler and the hints of a new communicator.
fn equip(call: &Call, new: &Communicator, handler: ErrorHandler, info: Option<&FirstLaneCell<Entries>>) {
    *new.error_handler.borrow_mut(&call.held) = handler;
    if let Some(entries) = info {
        new.set_hints(&call.held, &entries.borrow(&call.held));
    }
}

/// Sets the error handler of a session (MPI_Session_set_errhandler).
pub fn set_errhandler(call: &mut Call, session: In<Session>, errhandler: In<Errhandler>) -> Result<()> {
    let (session, handler) = (session.get()?, errhandler.get()?);
    handler.check_kind(HandlerKind::Session)?;
    *session.error_handler.borrow_mut(&call.held) = handler.clone();
    Ok(())
}

/// Returns the error handler of a session (MPI_Session_get_errhandler).
pub fn get_errhandler(
    call: &mut Call,
    session: In<Session>,
    errhandler: HandleOut<Errhandler>,
) -> Result<()> {
    let handler = session.get()?.error_handler.borrow(&call.held).clone();
    return_handle(&handler, errhandler)
}

/// Calls the error handler of a session (MPI_Session_call_errhandler).
pub fn call_errhandler(call: &mut Call, session: In<Session>, errorcode: c_int) -> Result<()> {
    let handler = session.get()?.error_handler.borrow(&call.held).clone();
    call.at = At::Session(session.raw());
    call_handler(call, &handler, session.raw().bits(), errorcode)
}
