//! Communicators (MPI-5 sections 7.4 to 7.8).

use std::ffi::c_int;
use std::sync::Arc;

use tutti_base::{Error, ErrorClass, Rank, Result};
use tutti_core::collective::{self, CommContext, WaitContext};
use tutti_core::communicator::{Communicator, Relation};
use tutti_core::constructors::create;
use tutti_core::constructors::split::{self, HardwareSplit, SplitType};
use tutti_core::dynamic;
use tutti_core::group::Group as Members;
use tutti_core::info::Info as Entries;
use tutti_core::intercommunicator::{self, Leaders};
use tutti_core::lanes::FirstLaneCell;
use tutti_core::names::ObjectName;
use tutti_core::session;

use crate::entry::{At, Call};
use crate::form::Form;
use crate::generated::constants::*;
use crate::handles::kind::{Comm, Group, Info};
use crate::handles::request::handle_of;
use crate::imp::memory::process;
use crate::phase;
use crate::scope::{HandleOut, In, Out, Text, TextOut};

/// Info key for the type of hardware resource that MPI_Comm_split_type uses.
const RESOURCE_KEY: &str = "mpi_hw_resource_type";

/// Returns the predefined communicator with this number.
pub fn predefined(number: usize) -> Option<Arc<Communicator>> {
    // Those of the world model, which sessions do not have (MPI-5 section 11.2.1).
    let process = tutti_core::process::process().filter(|_| phase::is_in_world())?;
    let found = match number {
        _ if number == MPI_COMM_WORLD.bits() => &process.library.world,
        _ if number == MPI_COMM_SELF.bits() => &process.library.myself,
        _ => return None,
    };
    found.set_handle(number);
    Some(Arc::clone(found))
}

/// Returns a new communicator to the program, or MPI_COMM_NULL.
pub fn give(place: HandleOut<Comm>, new: Option<Arc<Communicator>>) -> Result<()> {
    let Some(new) = new else { return place.set_null() };
    let handle = place.create(Arc::clone(&new))?;
    new.set_handle(handle.bits());
    Ok(())
}

/// Returns a new communicator to the program and gives it the hints of an info object (MPI-5 section 7.4.4).
pub fn give_with(
    call: &Call,
    place: HandleOut<Comm>,
    new: Option<Arc<Communicator>>,
    info: Option<&FirstLaneCell<Entries>>,
) -> Result<()> {
    if let (Some(new), Some(info)) = (&new, info) {
        new.set_hints(&call.held, &info.borrow(&call.held));
    }
    give(place, new)
}

/// Returns the number of members of the local group (MPI_Comm_size).
#[inline]
pub fn size(_call: &mut Call, comm: In<Comm>, size: Out<c_int>) -> Result<()> {
    size.set(comm.get()?.size() as c_int)
}

/// Returns the caller's rank in the local group (MPI_Comm_rank).
#[inline]
pub fn rank(_call: &mut Call, comm: In<Comm>, rank: Out<c_int>) -> Result<()> {
    rank.set(comm.get()?.rank().0 as c_int)
}

/// Returns the number of members of the remote group (MPI_Comm_remote_size).
pub fn remote_size(_call: &mut Call, comm: In<Comm>, size: Out<c_int>) -> Result<()> {
    size.set(inter(comm)?.peers().size() as c_int)
}

/// Returns whether a communicator is an intercommunicator (MPI_Comm_test_inter).
pub fn test_inter(_call: &mut Call, comm: In<Comm>, flag: Out<c_int>) -> Result<()> {
    flag.set_flag(comm.get()?.inter().is_some())
}

/// Returns the local group of a communicator (MPI_Comm_group).
pub fn group(_call: &mut Call, comm: In<Comm>, group: HandleOut<Group>) -> Result<()> {
    group.create(comm.get()?.group().clone()).map(drop)
}

/// Returns the remote group of an intercommunicator (MPI_Comm_remote_group).
pub fn remote_group(_call: &mut Call, comm: In<Comm>, group: HandleOut<Group>) -> Result<()> {
    group.create(inter(comm)?.peers().clone()).map(drop)
}

fn inter<'s>(comm: In<'s, Comm>) -> Result<&'s Arc<Communicator>> {
    let found = comm.get()?;
    if found.inter().is_some() {
        return Ok(found);
    }
    Err(Error::new(ErrorClass::Comm, format!("argument {} is an intracommunicator", comm.name())))
}

/// Compares the groups and contexts of two communicators (MPI_Comm_compare).
pub fn compare(_call: &mut Call, comm1: In<Comm>, comm2: In<Comm>, result: Out<c_int>) -> Result<()> {
    let (one, other) = (comm1.get()?, comm2.get()?);
    one.group().check_origin(other.group(), ErrorClass::Comm, "comm1 and comm2")?;
    result.set(match one.compare(other) {
        Relation::Identical => MPI_IDENT,
        Relation::Congruent => MPI_CONGRUENT,
        Relation::Similar => MPI_SIMILAR,
        Relation::Unequal => MPI_UNEQUAL,
    })
}

/// Duplicates a communicator with its attributes, without hints (MPI_Comm_dup and MPI_Comm_idup).
pub fn dup(call: &mut Call, comm: In<Comm>, newcomm: HandleOut<Comm>, form: Form) -> Result<()> {
    duplicate(call, comm, None, newcomm, form)
}

/// Duplicates a communicator with new hints (MPI_Comm_dup_with_info and MPI_Comm_idup_with_info).
pub fn dup_with_info(
    call: &mut Call,
    comm: In<Comm>,
    info: In<Info>,
    newcomm: HandleOut<Comm>,
    form: Form,
) -> Result<()> {
    let entries = info.optional()?.map(|info| info.borrow(&call.held).clone());
    duplicate(call, comm, Some(entries.unwrap_or_default()), newcomm, form)
}

fn duplicate(
    call: &mut Call,
    comm: In<Comm>,
    info: Option<Entries>,
    newcomm: HandleOut<Comm>,
    form: Form,
) -> Result<()> {
    let (process, comm) = (process()?, comm.get()?);
    // The result if a copy callback fails.
    newcomm.set_null()?;
    let Form::Nonblocking(request) = form else {
        return give(newcomm, Some(create::duplicate(&mut call.held, process, comm, info)?));
    };
    request.check_new()?;
    let (new, id) = create::start_duplicate(&mut call.held, process, comm, info)?;
    give(newcomm, Some(new))?;
    request.set(handle_of(id))
}

/// Creates a communicator of a group; collective over the parent (MPI_Comm_create).
pub fn create(call: &mut Call, comm: In<Comm>, group: In<Group>, newcomm: HandleOut<Comm>) -> Result<()> {
    newcomm.check()?;
    let (comm, group) = with_group(comm, group)?;
    let new = create::create(&mut call.held, process()?, comm, group)?;
    give(newcomm, new)
}

/// Returns a communicator and a group of processes in it: both of one session, or of none.
fn with_group<'s>(comm: In<'s, Comm>, group: In<'s, Group>) -> Result<(&'s Arc<Communicator>, &'s Members)> {
    let (comm, group) = (comm.get()?, group.get()?);
    comm.group().check_origin(group, ErrorClass::Group, "comm and group")?;
    Ok((comm, group))
}

/// Creates a communicator of a group; collective over the group (MPI_Comm_create_group).
pub fn create_group(
    call: &mut Call,
    comm: In<Comm>,
    group: In<Group>,
    tag: c_int,
    newcomm: HandleOut<Comm>,
) -> Result<()> {
    newcomm.check()?;
    check_tag(tag)?;
    let (comm, group) = with_group(comm, group)?;
    let new = create::create_group(&mut call.held, process()?, comm, group, tag)?;
    give(newcomm, new)
}

fn check_tag(tag: c_int) -> Result<()> {
    if tag >= 0 {
        return Ok(());
    }
    Err(Error::new(ErrorClass::Tag, format!("argument tag is {tag}; it must be 0 to MPI_TAG_UB")))
}

/// Splits a communicator by colours and keys (MPI_Comm_split).
pub fn split(
    call: &mut Call,
    comm: In<Comm>,
    color: c_int,
    key: c_int,
    newcomm: HandleOut<Comm>,
) -> Result<()> {
    newcomm.check()?;
    let new = split::split(&mut call.held, process()?, comm.get()?, color, key)?;
    give(newcomm, new)
}

/// Splits a communicator by shared hardware resources (MPI_Comm_split_type).
pub fn split_type(
    call: &mut Call,
    comm: In<Comm>,
    split_type: c_int,
    key: c_int,
    info: In<Info>,
    newcomm: HandleOut<Comm>,
) -> Result<()> {
    newcomm.check()?;
    let (process, comm, info) = (process()?, comm.get()?, info.optional()?);
    let asked = |key| info.and_then(|info| info.borrow(&call.held).text(key).map(str::to_string));
    let by_resource = || HardwareSplit::Guided(asked(RESOURCE_KEY).unwrap_or_default());
    let kind = match split_type {
        MPI_COMM_TYPE_SHARED => SplitType::Shared,
        MPI_UNDEFINED => SplitType::Undefined,
        MPI_COMM_TYPE_HW_UNGUIDED => SplitType::Hardware(HardwareSplit::Unguided),
        MPI_COMM_TYPE_HW_GUIDED => SplitType::Hardware(by_resource()),
        MPI_COMM_TYPE_RESOURCE_GUIDED => {
            let set = asked("mpi_pset_name").filter(|_| asked(RESOURCE_KEY).is_none());
            let group = set.and_then(|name| session::process_set(process, name.as_bytes()).ok());
            let first = group.and_then(|group| group.iter().next());
            first.map_or_else(|| SplitType::Hardware(by_resource()), SplitType::Set)
        }
        other => {
            let reason = format!("argument split_type is {other}, which is no MPI_COMM_TYPE_* constant");
            return Err(Error::new(ErrorClass::Arg, reason));
        }
    };
    let (new, resource) = split::split_type(&mut call.held, process, comm, &kind, key)?;
    if let (Some(info), Some(resource), MPI_COMM_TYPE_HW_UNGUIDED) = (info, resource, split_type) {
        info.borrow_mut(&call.held).set(RESOURCE_KEY, resource)?;
    }
    give_with(call, newcomm, new, info)
}

/// Frees a communicator when its operations are complete (MPI_Comm_free).
pub fn free(call: &mut Call, comm: HandleOut<Comm>) -> Result<()> {
    call.at = At::Comm(comm.input()?.raw());
    let (process, object) = (process()?, removable(comm)?);
    // The communicator stays valid for another attempt, as if an attribute callback had refused.
    collective::unreported_mismatch(CommContext::new(&call.held, process, object)).map_or(Ok(()), Err)?;
    object.free(&call.held, process)?;
    dynamic::spawn::forget_parent(&call.held, process, object);
    call.at = At::World;
    comm.remove().map(drop)
}

/// Frees a communicator after all its operations have completed (MPI_Comm_disconnect).
pub fn disconnect(call: &mut Call, comm: HandleOut<Comm>) -> Result<()> {
    call.at = At::Comm(comm.input()?.raw());
    let (process, object) = (process()?, removable(comm)?);
    let members = object.inter().map_or(object, |inter| &inter.local);
    WaitContext::new(&mut call.held, process, members).barrier()?;
    tutti_core::progress::send_queued(&mut call.held, process, "MPI_Comm_disconnect");
    dynamic::connected_jobs::part(&mut call.held, process, object)?;
    dynamic::spawn::forget_parent(&call.held, process, object);
    object.free(&call.held, process)?;
    call.at = At::World;
    comm.remove().map(drop)
}

fn removable<'s>(comm: HandleOut<'s, Comm>) -> Result<&'s Arc<Communicator>> {
    let input = comm.input()?;
    let object = input.get()?;
    if input.raw() == MPI_COMM_WORLD || input.raw() == MPI_COMM_SELF {
        return Err(Error::new(ErrorClass::Comm, "argument comm is predefined and cannot be freed"));
    }
    Ok(object)
}

/// Sets the name of a communicator (MPI_Comm_set_name).
pub fn set_name(call: &mut Call, comm: In<Comm>, comm_name: Text) -> Result<()> {
    *comm.get()?.name.borrow_mut(&call.held) = ObjectName::new(comm_name.bytes()?);
    Ok(())
}

/// Returns the name of a communicator (MPI_Comm_get_name).
pub fn get_name(call: &mut Call, comm: In<Comm>, comm_name: TextOut, resultlen: Out<c_int>) -> Result<()> {
    let name = match comm.optional()? {
        Some(comm) => comm.name.borrow(&call.held).clone(),
        None => ObjectName::new(b"MPI_COMM_NULL"),
    };
    let written = comm_name.set(name.as_bytes(), MPI_MAX_OBJECT_NAME as usize)?;
    resultlen.set(written as c_int)
}

/// Sets the hints that `info` contains; other hints stay as they are (MPI_Comm_set_info; MPI-5 section
/// 7.4.4).
pub fn set_info(call: &mut Call, comm: In<Comm>, info: In<Info>) -> Result<()> {
    let comm = comm.get()?;
    let entries = info.get()?.borrow(&call.held).clone();
    collective::set_info(&mut WaitContext::new(&mut call.held, process()?, comm), &entries)
}

/// Returns an info object with a communicator's hints (MPI_Comm_get_info).
pub fn get_info(call: &mut Call, comm: In<Comm>, info_used: HandleOut<Info>) -> Result<()> {
    let entries = comm.get()?.info(&call.held, &process()?.config);
    info_used.create(FirstLaneCell::new(entries)).map(drop)
}

/// Creates an intercommunicator of two communicators by their leaders (MPI_Intercomm_create).
pub fn intercomm_create(
    call: &mut Call,
    local_comm: In<Comm>,
    local_leader: c_int,
    peer_comm: In<Comm>,
    remote_leader: c_int,
    tag: c_int,
    newintercomm: HandleOut<Comm>,
) -> Result<()> {
    newintercomm.check()?;
    check_tag(tag)?;
    let local = local_comm.get()?;
    let Some(leader) = u32::try_from(local_leader).ok().filter(|rank| *rank < local.size()) else {
        let reason =
            format!("argument local_leader is {local_leader}; local_comm has {} processes", local.size());
        return Err(Error::new(ErrorClass::Rank, reason));
    };
    // peer_comm and remote_leader mean something at the leader only.
    let peer = if local.rank() == Rank(leader) { peer_comm.get()? } else { local };
    local.group().check_origin(peer.group(), ErrorClass::Comm, "local_comm and peer_comm")?;
    let leaders = Leaders { local: Rank(leader), peer_comm: peer, remote: remote_leader, tag };
    let new = intercommunicator::create(&mut call.held, process()?, local, leaders)?;
    give(newintercomm, Some(new))
}

/// Merges both groups of an intercommunicator (MPI_Intercomm_merge).
pub fn intercomm_merge(
    call: &mut Call,
    intercomm: In<Comm>,
    high: c_int,
    newintracomm: HandleOut<Comm>,
) -> Result<()> {
    newintracomm.check()?;
    let new = intercommunicator::merge(&mut call.held, process()?, intercomm.get()?, high != 0)?;
    give(newintracomm, Some(new))
}
