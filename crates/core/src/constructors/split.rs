//! Splitting a communicator by colour (MPI-5 section 7.4.2) or by hardware (MPI_Comm_split_type).

use std::sync::Arc;

use tutti_base::{Error, ErrorClass, Result, WorldRank};

pub use super::color::HardwareSplit;
use super::color::color;
use super::create::agree;
use crate::collective::WaitContext;
use crate::communicator::{Communicator, Inter};
use crate::group::Group;
use crate::lanes::LaneGuard;
use crate::process::Process;
use crate::special::UNDEFINED;

/// Criterion of a split by type (MPI_Comm_split_type).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SplitType {
    /// Processes that can share memory.
    Shared,
    /// Processes in the same process set, which the set's first member identifies.
    Set(WorldRank),
    /// Processes that share a named hardware resource, or the next level that divides the group.
    Hardware(HardwareSplit),
    /// No criterion: the caller gets no communicator.
    Undefined,
}

/// Splits a communicator (MPI_Comm_split). Returns `None` for colour `MPI_UNDEFINED`.
///
/// # Errors
/// Returns `Arg` for a negative colour.
pub fn split(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    color: i32,
    key: i32,
) -> Result<Option<Arc<Communicator>>> {
    if color < 0 && color != UNDEFINED {
        return Err(Error::new(
            ErrorClass::Arg,
            format!("argument color is {color}; it must be 0 or more, or MPI_UNDEFINED"),
        ));
    }
    let mut mine = color.to_le_bytes().to_vec();
    mine.extend(key.to_le_bytes());
    let among = comm.inter().map_or(comm, |inter| &inter.local);
    let all = WaitContext::new(held, process, among).allgather_bytes(&mine)?;
    let members = of_color(&all, color, comm.group())?;
    let handler = comm.error_handler.borrow(held).clone();
    let Some(inter) = comm.inter() else {
        let serial = agree(held, process, comm)?;
        let Some(rank) = members.rank_of(process.rank).filter(|_| color != UNDEFINED) else {
            return Ok(None);
        };
        return Ok(Some(
            Communicator::new(None, members, rank, None, handler).publish(held, process, serial),
        ));
    };
    let theirs = WaitContext::new(held, process, comm).swap_bytes(all)?;
    let serial = agree(held, process, comm)?;
    let remote = of_color(&theirs, color, &inter.remote)?;
    let local = split(held, process, &inter.local, color, key)?;
    Ok(match (local, members.rank_of(process.rank)) {
        (Some(local), Some(rank)) if !remote.is_empty() => {
            let inter = Some(Inter { remote, local });
            Some(Communicator::new(None, members, rank, inter, handler).publish(held, process, serial))
        }
        _ => None,
    })
}

/// Splits by type (MPI_Comm_split_type). Returns the communicator, and the type of hardware resource that
/// its members share. The caller's place in the hardware comes from its processor set.
///
/// # Errors
/// Returns the same errors as [`split`].
pub fn split_type(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    kind: &SplitType,
    key: i32,
) -> Result<(Option<Arc<Communicator>>, Option<&'static str>)> {
    let how = match kind {
        SplitType::Hardware(how) => Some(how),
        SplitType::Shared | SplitType::Set(_) | SplitType::Undefined => None,
    };
    let (placed, resource) = color(held, process, comm, how)?;
    let color = match kind {
        SplitType::Shared => process.job.header().host as i32,
        SplitType::Set(first) => first.0 as i32,
        SplitType::Undefined => UNDEFINED,
        SplitType::Hardware(_) => placed,
    };
    let new = split(held, process, comm, color, key)?;
    // An unguided split stops where it no longer divides (MPI-5 section 7.4.2).
    let divided = new.as_ref().is_some_and(|new| new.size() < comm.size());
    let new = new.filter(|_| divided || how != Some(&HardwareSplit::Unguided));
    let resource = resource.filter(|_| new.is_some());
    Ok((new, resource))
}

/// Returns the members with `color`, ordered by key and then by rank.
fn of_color(all: &[u8], color: i32, group: &Group) -> Result<Group> {
    let mut members: Vec<(i32, WorldRank)> = Vec::new();
    for (member, entry) in group.iter().zip(all.chunks_exact(8)) {
        let number = |at: usize| i32::from_le_bytes([entry[at], entry[at + 1], entry[at + 2], entry[at + 3]]);
        if number(0) == color {
            members.push((number(4), member));
        }
    }
    members.sort_by_key(|(key, _)| *key);
    let members: Group = members.into_iter().map(|(_, member)| member).collect();
    Ok(members.with_origin(group.origin()))
}
