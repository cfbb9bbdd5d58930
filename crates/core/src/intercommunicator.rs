//! Intercommunicators: creation from two groups, and merging into one (MPI-5 section 7.6).

use std::sync::Arc;

use tutti_base::{Error, ErrorClass, Rank, Result};

use crate::collective::WaitContext;
use crate::communicator::Communicator;
use crate::constructors::create::{agree, agree_by, between, duplicate_bare};
use crate::dynamic::meeting::{Part, meet};
use crate::dynamic::ports;
use crate::exchange::exchange;
use crate::lanes::LaneGuard;
use crate::other_jobs::are_several;
use crate::process::Process;

/// Leaders of two groups, which can communicate with each other.
#[derive(Clone, Copy, Debug)]
pub struct Leaders<'a> {
    /// Rank of the own leader in the local communicator.
    pub local: Rank,
    /// Communicator of both leaders; significant at the leader only.
    pub peer_comm: &'a Arc<Communicator>,
    /// Rank of the other leader in `peer_comm`; significant at the leader only.
    pub remote: i32,
    /// Tag on `peer_comm` that no other agreement uses at the same time.
    pub tag: i32,
}

/// Creates an intercommunicator (MPI_Intercomm_create).
///
/// # Errors
/// `Rank` for an invalid leader, `Comm` if the groups overlap.
pub fn create(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    leaders: Leaders<'_>,
) -> Result<Arc<Communicator>> {
    let speaks = comm.rank() == leaders.local;
    let own = process.library.other_jobs.borrow(held).encode(comm.group());
    let mut theirs = Vec::new();
    if speaks {
        let partner = remote_leader(leaders)?;
        theirs = exchange(held, process, leaders.peer_comm, partner, leaders.tag, own.clone())?;
    }
    WaitContext::new(held, process, comm).broadcast_bytes(leaders.local, &mut theirs)?;
    if are_several(&own, &theirs) && have_strangers(held, process, comm, leaders, &theirs)? {
        return introduce(held, process, comm, leaders, own < theirs);
    }
    let remote = process.library.other_jobs.borrow(held).decode(&theirs)?;
    if let Some(both) = remote.iter().find(|member| comm.group().contains(*member)) {
        return Err(Error::new(ErrorClass::Comm, format!("rank {both} of the world is in both groups")));
    }
    let local = duplicate_bare(held, process, comm)?;
    let serial = agree_by(held, process, |held, value| {
        let own = WaitContext::new(held, process, comm).maximum(value)?;
        let mut highest = own.to_le_bytes().to_vec();
        if speaks {
            let partner = remote_leader(leaders)?;
            let theirs = exchange(held, process, leaders.peer_comm, partner, leaders.tag, highest)?;
            highest = own.max(theirs.try_into().map_or(own, u64::from_le_bytes)).to_le_bytes().to_vec();
        }
        WaitContext::new(held, process, comm).broadcast_bytes(leaders.local, &mut highest)?;
        Ok(highest.try_into().map_or(own, u64::from_le_bytes))
    })?;
    Ok(between(held, process, comm, local, remote, serial))
}

/// Returns true if a member of either group does not know a member of the other. All members get the same
/// result.
fn have_strangers(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    leaders: Leaders<'_>,
    theirs: &[u8],
) -> Result<bool> {
    let unknown = u64::from(process.library.other_jobs.borrow(held).decode(theirs).is_err());
    let own = WaitContext::new(held, process, comm).maximum(unknown)?;
    let mut either = vec![own as u8];
    if comm.rank() == leaders.local {
        let partner = remote_leader(leaders)?;
        let said = exchange(held, process, leaders.peer_comm, partner, leaders.tag, either.clone())?;
        either[0] |= said.first().copied().unwrap_or(1);
    }
    WaitContext::new(held, process, comm).broadcast_bytes(leaders.local, &mut either)?;
    Ok(either != [0])
}

/// Connects two groups of which only the leaders can communicate, through a port of the leader that
/// `accepts`.
fn introduce(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    leaders: Leaders<'_>,
    accepts: bool,
) -> Result<Arc<Communicator>> {
    let line = (comm.rank() == leaders.local).then(|| {
        let partner = remote_leader(leaders)?;
        ports::connect_leaders(held, process, accepts, |held, own| {
            exchange(held, process, leaders.peer_comm, partner, leaders.tag, own)
        })
    });
    let part = if accepts { Part::Accepts } else { Part::Connects };
    meet(held, process, comm, leaders.local, line, (part, ErrorClass::Comm))
}

/// Merges an intercommunicator (MPI_Intercomm_merge). The side with `high` set comes second. If both sides
/// pass the same value, the group whose first process has the lower world rank comes first.
///
/// # Errors
/// `Comm` for an intracommunicator.
pub fn merge(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    high: bool,
) -> Result<Arc<Communicator>> {
    let Some(inter) = comm.inter() else {
        return Err(Error::new(ErrorClass::Comm, "argument intercomm is an intracommunicator"));
    };
    let theirs = WaitContext::new(held, process, comm).swap_bytes(vec![u8::from(high)])?;
    let their_high = theirs.first().is_some_and(|flag| *flag != 0);
    let own_first = match (high, their_high) {
        (false, true) => true,
        (true, false) => false,
        _ => comm.is_first(),
    };
    let (low, up) = if own_first { (comm.group(), &inter.remote) } else { (&inter.remote, comm.group()) };
    let group = low.union(up);
    let rank = group.rank_of(process.rank).expect("the union contains the own group");
    let serial = agree(held, process, comm)?;
    let handler = comm.error_handler.borrow(held).clone();
    Ok(Communicator::new(None, group, rank, None, handler).publish(held, process, serial))
}

/// Checks the rank of the remote leader.
fn remote_leader(leaders: Leaders<'_>) -> Result<Rank> {
    match u32::try_from(leaders.remote).ok().filter(|rank| *rank < leaders.peer_comm.peers().size()) {
        Some(rank) => Ok(Rank(rank)),
        None => Err(Error::new(
            ErrorClass::Rank,
            format!(
                "argument remote_leader is {}; peer_comm has {} processes",
                leaders.remote,
                leaders.peer_comm.peers().size()
            ),
        )),
    }
}
