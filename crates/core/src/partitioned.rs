//! Functions behind the MPI calls of partitioned communication (MPI-5 chapter 4). Callers hold the first
//! lane.

use std::sync::Arc;

use tutti_base::ids::Plane;
use tutti_base::{Error, ErrorClass, Rank, Result};
use tutti_data::Datatype;
use tutti_transport::Peer;

use crate::buffer::{Buffer, signature};
use crate::communicator::{Communicator, Partner};
use crate::lanes::{LaneGuard, engage};
use crate::matching::{Envelope, Pattern};
use crate::p2p::partitioned::Partitions;
use crate::point_to_point;
use crate::process::Process;
use crate::progress;
use crate::request::{RequestId, Template};

/// Partitioned message of a user: the memory of all partitions.
#[derive(Clone, Copy, Debug)]
pub struct InParts<'a> {
    /// Buffer of all partitions, one after the other.
    pub buffer: &'a Buffer,
    /// Datatype of the items.
    pub datatype: &'a Datatype,
    /// Number of partitions of equal size.
    pub partitions: u32,
    /// Number of items in each partition.
    pub count: u64,
}

impl InParts<'_> {
    fn layout(&self) -> Partitions {
        let bytes = self.count * self.datatype.size() as u64;
        Partitions { buffer: self.buffer.clone(), count: self.partitions as usize, bytes }
    }

    fn signature(&self, process: &Process) -> u16 {
        if !process.config.diagnosis.check_types {
            return 0;
        }
        signature(self.datatype, self.count * u64::from(self.partitions))
    }
}

fn check_tag(tag: i32) -> Result<()> {
    if tag >= 0 {
        return Ok(());
    }
    let reason = format!("argument tag is {tag}; it must be 0 to MPI_TAG_UB, also to receive partitions");
    Err(Error::new(ErrorClass::Tag, reason))
}

/// Creates an inactive send request and announces it to `destination` (MPI_Psend_init).
///
/// # Errors
/// `Rank` or `Tag`, naming the argument.
pub fn send_init(
    held: &LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    message: InParts<'_>,
    destination: i32,
    tag: i32,
) -> Result<RequestId> {
    check_tag(tag)?;
    let peer = match comm.destination(destination)? {
        Partner::Process(peer) => Some(Peer(peer.0)),
        _ => None,
    };
    let envelope =
        Envelope { context: (comm.context().plane(Plane::Partitioned)), source: comm.rank().0, tag };
    let id = point_to_point::persistent(held, process, comm, Some(Template::Partitioned));
    let (layout, signature) = (message.layout(), message.signature(process));
    process.in_lane(held, comm.lane(), |held| {
        process.messages.borrow_mut(held).announce(id, layout, peer, envelope, signature);
    });
    Ok(id)
}

/// Creates an inactive receive request (MPI_Precv_init).
///
/// # Errors
/// `Rank` or `Tag`, naming the argument. Wildcards are not allowed (MPI-5 section 4.2.1).
pub fn receive_init(
    held: &LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    message: InParts<'_>,
    source: i32,
    tag: i32,
) -> Result<RequestId> {
    check_tag(tag)?;
    let context = comm.context().plane(Plane::Partitioned);
    let pattern = match comm.source(source)? {
        Partner::ProcNull => None,
        Partner::Any => {
            let reason = "argument source is MPI_ANY_SOURCE, from which partitions cannot be received";
            return Err(Error::new(ErrorClass::Rank, reason));
        }
        Partner::Process(_) => Some(Pattern { context, source: Some(source as u32), tag: Some(tag) }),
    };
    debug_assert!(pattern.is_none() || comm.peers().get(Rank(source as u32)).is_some());
    let id = point_to_point::persistent(held, process, comm, Some(Template::Partitioned));
    let (layout, signature) = (message.layout(), message.signature(process));
    process.in_lane(held, comm.lane(), |held| {
        process.messages.borrow_mut(held).expect(id, layout, pattern, signature);
    });
    Ok(id)
}

/// Marks partitions of a send as ready (MPI_Pready and similar functions).
///
/// # Errors
/// The same as of [`crate::p2p::PointToPoint::ready`].
pub fn ready(
    held: &LaneGuard,
    process: &Process,
    id: RequestId,
    partitions: impl Iterator<Item = usize> + Clone,
) -> Result<()> {
    let lane = id.lane().unwrap_or(held.lane());
    process.in_lane(held, lane, |held| process.messages.borrow_mut(held).ready(id, partitions))
}

/// Returns true if a partition has arrived (MPI_Parrived). Makes progress if it has not. The caller holds the
/// first lane.
///
/// # Errors
/// The same as of [`crate::p2p::State::has_arrived`].
pub fn has_arrived(held: &mut LaneGuard, process: &Process, id: RequestId, partition: usize) -> Result<bool> {
    let lane = id.lane().unwrap_or(held.lane());
    let arrived = |held: &LaneGuard| {
        process.in_lane(held, lane, |held| process.messages.borrow_mut(held).state.has_arrived(id, partition))
    };
    if arrived(held)? {
        return Ok(true);
    }
    engage(lane);
    progress::poll(held, process);
    arrived(held)
}
