//! Small messages between two processes on behalf of the library, for agreements of leaders outside
//! collectives.

use std::sync::Arc;

use tutti_base::ids::Plane;
use tutti_base::{Rank, Result};

use crate::buffer::Buffer;
use crate::communicator::Communicator;
use crate::completion;
use crate::lanes::LaneGuard;
use crate::matching::{Envelope, Pattern};
use crate::messenger::Messenger;
use crate::p2p::{Check, Mode, ReceiveSpec, SendSpec};
use crate::point_to_point::{Eager, start_receive, start_send};

/// Sends `mine` to `partner`, a rank of the peers of `comm`, and receives its bytes, whatever their number.
/// Both call this with the same tag.
///
/// # Errors
/// The error of a message.
pub fn exchange(
    held: &mut LaneGuard,
    messenger: &Messenger,
    comm: &Arc<Communicator>,
    partner: Rank,
    tag: i32,
    mine: Vec<u8>,
) -> Result<Vec<u8>> {
    let length = (mine.len() as u64).to_le_bytes().to_vec();
    let theirs = swap(held, messenger, comm, partner, tag, length, 8)?;
    let length = theirs.try_into().map_or(0, u64::from_le_bytes) as usize;
    swap(held, messenger, comm, partner, tag, mine, length)
}

/// Exchanges messages whose lengths both processes know: `theirs` is the number of bytes to receive.
pub(crate) fn swap(
    held: &mut LaneGuard,
    messenger: &Messenger,
    comm: &Arc<Communicator>,
    partner: Rank,
    tag: i32,
    mine: Vec<u8>,
    theirs: usize,
) -> Result<Vec<u8>> {
    let peer = comm.peers().get(partner).expect("the caller has checked the partner");
    let context = comm.context().plane(Plane::Agreement);
    let into = Buffer::owned(vec![0; theirs]);
    let pattern = Pattern { context, source: Some(partner.0), tag: Some(tag) };
    let receive = ReceiveSpec { buffer: into.clone(), pattern, from: None, check: Check::Nothing };
    let receiving = start_receive(held, messenger, comm, Some(receive));
    let envelope = Envelope { context, source: comm.rank().0, tag };
    let send = SendSpec { buffer: Buffer::owned(mine), peer, envelope, mode: Mode::Standard, signature: 0 };
    let sending = start_send(held, messenger, comm, Some(send), Eager::Untried);
    completion::wait(held, messenger, sending, "an agreement between leaders: ").result?;
    completion::wait(held, messenger, receiving, "an agreement between leaders: ").result?;
    Ok(into.to_vec())
}
