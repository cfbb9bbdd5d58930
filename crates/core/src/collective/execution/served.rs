//! Memory of a member that its owner copies for a peer, where the system denies the peer access. Uses the
//! messages of [`crate::p2p::served`].

use tutti_base::{Result, WorldRank};

use crate::buffer::Buffer;
use crate::completion;
use crate::lanes::LaneGuard;
use crate::matching::Envelope;
use crate::messenger::Messenger;
use crate::progress;
use crate::request::RequestId;

/// Reads from memory that `owner` has exposed, by asking the owner to send it. `envelope` names the
/// operation.
///
/// # Errors
/// Returns `Other` if the owner has no memory there.
pub fn get(
    held: &LaneGuard,
    messenger: &Messenger,
    owner: WorldRank,
    envelope: Envelope,
    address: u64,
    into: Buffer,
) -> Result<()> {
    let id = messenger.messages.borrow_mut(held).start_get(owner, envelope, address, into);
    settle(held, messenger, owner, id)
}

/// Writes to memory that `owner` has exposed. The data are stored when this returns.
///
/// # Errors
/// Returns the same errors as [`get`].
pub fn put(
    held: &LaneGuard,
    messenger: &Messenger,
    owner: WorldRank,
    envelope: Envelope,
    address: u64,
    from: Buffer,
) -> Result<()> {
    let id = messenger.messages.borrow_mut(held).start_put(owner, address, from);
    settle(held, messenger, owner, id)?;
    // Packets keep their order: the answer to this one comes after the data are stored.
    get(held, messenger, owner, envelope, address, Buffer::empty())
}

/// Takes in messages until a request is over, since other ranks may need an answer from this process
/// meanwhile. No other thread enters the lane.
fn settle(held: &LaneGuard, messenger: &Messenger, owner: WorldRank, id: RequestId) -> Result<()> {
    let mut waiter = messenger.waiter();
    let sleeper = messenger.sleeper(held.lane());
    let block = messenger.block();
    let mut told = false;
    while !completion::is_complete(held, messenger, id)? {
        if progress::take_in(held, messenger) {
            waiter.reset();
            continue;
        }
        waiter.pause(sleeper, || {
            if !told {
                block.set_waiting(&format!("rank {owner} to copy from or to memory that it has lent"));
                told = true;
            }
            progress::take_in(held, messenger) || messenger.messages.borrow_mut(held).pending()
        });
    }
    if told {
        block.set_waiting("");
    }
    progress::tell_threads(held, messenger);
    completion::finish(held, messenger, id).result.map(drop)
}
