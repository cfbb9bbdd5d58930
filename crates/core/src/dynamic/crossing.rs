//! Bridges over the network, for two groups that meet and are not all on one host.
//!
//! Such a bridge is a link of its own, with its own world, number and secret. So the network of a job needs
//! no knowledge of other jobs. Each member opens its endpoint and sends its address to all others, through
//! the roots. Groups of one job need no bridge, since their members can reach each other already.
//!
//! Both roots know the secret. They send it to their members encrypted with the secret of their job.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tutti_base::{Result, WorldRank};
use tutti_sys::job::{ADDRESS_BYTES, Secret};
use tutti_sys::letter::{self, Fields};
use tutti_transport::adaptive::tag::derive;
use tutti_transport::bridges::Way;
use tutti_transport::directory::{Address, Answer};
use tutti_transport::fabric::Identity;
use tutti_transport::{Directory, FabricLink, Link, Peer};

use super::line::Line;
use super::meeting::{Introduction, Part, damaged};
use crate::collective::WaitContext;
use crate::communicator::Communicator;
use crate::group::Group;
use crate::lanes::LaneGuard;
use crate::other_jobs::{are_several, names};
use crate::process::Process;

/// Size of an address in a list: its length, and the longest address.
const ROW_BYTES: usize = 1 + ADDRESS_BYTES;

/// Parameters shared by the members of a bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Crossing {
    /// Number that distinguishes it from other links.
    number: u64,
    secret: Secret,
    /// Network address for members whose own job uses no network; they are all on the host of their root.
    interface: String,
}

impl Crossing {
    /// Makes the parameters on which the roots agree. The secret is that of their line or, if they are on
    /// one host, `secret`, which was sent.
    pub(super) fn new(
        line: &Line,
        own: &Introduction,
        theirs: &Introduction,
        secret: &[u8],
    ) -> io::Result<Crossing> {
        let sent = || <[u8; 32]>::try_from(secret).map_err(|_| damaged());
        let secret = line.secret().map_or_else(sent, Ok)?;
        let interface = match line.interface() {
            _ if !own.interface.is_empty() => own.interface.clone(),
            Some(address) => address.to_string(),
            None => theirs.interface.clone(),
        };
        Ok(Crossing::with(secret, interface))
    }

    /// Makes the parameters with a number derived from the secret.
    fn with(secret: [u8; 32], interface: String) -> Crossing {
        let number = derive(&secret, &[b"number"]);
        let number = u64::from_le_bytes(number.first_chunk().copied().unwrap_or_default());
        Crossing { number, secret: Secret(secret), interface }
    }

    /// Encodes the parameters for members of the job with the secret `job`.
    pub(super) fn encode(&self, job: &[u8; 32]) -> Vec<u8> {
        let mut words = Vec::new();
        letter::put_number(&mut words, self.number);
        letter::put(&mut words, &hide(&self.secret.0, self.number, job));
        letter::put(&mut words, self.interface.as_bytes());
        words
    }

    /// Decodes the parameters. Returns InvalidData if they are damaged or of another job.
    pub(super) fn decode(words: &[u8], job: &[u8; 32]) -> io::Result<Crossing> {
        let mut fields = Fields::new(words);
        let number = fields.number().ok_or_else(damaged)?;
        let hidden = fields.field().and_then(|hidden| hidden.try_into().ok()).ok_or_else(damaged)?;
        let interface = String::from_utf8_lossy(fields.field().ok_or_else(damaged)?).into_owned();
        let crossing = Crossing::with(hide(&hidden, number, job), interface);
        if crossing.number == number { Ok(crossing) } else { Err(damaged()) }
    }
}

/// Encrypts a secret, or decrypts it again.
fn hide(secret: &[u8; 32], number: u64, job: &[u8; 32]) -> [u8; 32] {
    let mask = derive(job, &[b"crossing", &number.to_le_bytes()]);
    std::array::from_fn(|at| secret[at] ^ mask[at])
}

/// Addresses of all members, once they are known.
#[derive(Debug, Default)]
struct Table {
    /// Address of this member, once its endpoint is open.
    own: Option<Address>,
    /// Addresses of all members by number, once they are known.
    all: Option<Vec<Address>>,
    /// Members whose addresses were requested and not answered.
    asked: VecDeque<u32>,
}

/// Shared table, which the link queries as its directory.
#[derive(Clone, Debug, Default)]
struct Addresses(Arc<Mutex<Table>>);

impl Addresses {
    /// Locks the table of addresses.
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Directory for Addresses {
    fn publish(&mut self, address: &Address) {
        self.table().own = Some(*address);
    }

    fn request(&mut self, rank: u32) {
        self.table().asked.push_back(rank);
    }

    fn poll(&mut self) -> Option<Answer> {
        let mut table = self.table();
        let rank = *table.asked.front()?;
        let address = table.all.as_ref()?.get(rank as usize).copied();
        table.asked.pop_front();
        Some((rank, address))
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// Enters a bridge, and returns the group of the others, `members`. Collective over both groups. `swap`
/// sends data of this group's root to the other root and returns that root's data.
pub(super) fn enter(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    part: Part,
    (plan, members): (&Crossing, &[u8]),
    swap: &mut impl FnMut(&mut LaneGuard, Vec<u8>) -> Result<Vec<u8>>,
) -> Result<io::Result<Group>> {
    let remote: Group = {
        let mut others = process.library.other_jobs.borrow_mut(held);
        names(members).map(|name| others.meet(name)).collect()
    };
    if !are_several(&process.library.other_jobs.borrow(held).encode(comm.group()), members) {
        return Ok(Ok(remote));
    }
    let (first, second) = match part {
        Part::Accepts => (comm.group(), &remote),
        Part::Connects => (&remote, comm.group()),
    };
    let all: Vec<WorldRank> = first.iter().chain(second.iter()).collect();
    let addresses = Addresses::default();
    let link = open(held, process, plan, &all, &addresses);
    let own = if link.is_ok() { addresses.table().own } else { None };
    let ours = WaitContext::new(held, process, comm).allgather_bytes(&row(own))?;
    let theirs = swap(held, ours.clone())?;
    let both = if part == Part::Accepts { [ours, theirs] } else { [theirs, ours] }.concat();
    let known: Option<Vec<Address>> = both.chunks_exact(ROW_BYTES).map(read_row).collect();
    Ok(link.and_then(|link| {
        let known = known.filter(|known| known.len() == all.len());
        addresses.table().all = Some(known.ok_or_else(|| io::Error::other("a member has no network"))?);
        let members = all.iter().map(|member| Peer(member.0)).collect();
        process.messages.borrow_mut(held).link.bridges().add(Way::Far(Box::new(link)), members);
        Ok(remote)
    }))
}

/// Opens the link, which cannot reach other members yet.
fn open(
    held: &LaneGuard,
    process: &Process,
    plan: &Crossing,
    all: &[WorldRank],
    addresses: &Addresses,
) -> io::Result<FabricLink> {
    let header = process.job.header();
    let own = if header.has_other_hosts() { header.interface() } else { &plan.interface };
    let me = all.iter().position(|member| *member == process.rank).ok_or_else(damaged)?;
    let identity = Identity {
        rank: me as u32,
        ranks: all.len() as u32,
        job_id: plan.number,
        secret: plan.secret,
        interface: own.to_string(),
        is_kept: false,
    };
    let link = FabricLink::new(&process.config, &identity, Box::new(addresses.clone()))?;
    if process.messages.borrow(held).longest_payload() > link.max_payload() {
        let reason = format!(
            "TUTTI_EAGER_BYTES and fragment_bytes of TUTTI_DEBUG must be at most {} where jobs meet over the network",
            link.max_payload()
        );
        return Err(io::Error::other(reason));
    }
    Ok(link)
}

/// Encodes an address for the list; length 0 stands for none.
fn row(address: Option<Address>) -> [u8; ROW_BYTES] {
    let mut row = [0; ROW_BYTES];
    if let Some(address) = address {
        row[0] = address.bytes().len() as u8;
        row[1..][..address.bytes().len()].copy_from_slice(address.bytes());
    }
    row
}

/// Decodes an address of the list; `None` if there is none.
fn read_row(row: &[u8]) -> Option<Address> {
    let (length, bytes) = row.split_first()?;
    Address::new(bytes.get(..usize::from(*length))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_read_by_members_of_the_job_only() {
        let plan = Crossing::with([9; 32], "10.0.0.1".to_string());
        let words = plan.encode(&[3; 32]);
        assert_eq!(Crossing::decode(&words, &[3; 32]).unwrap(), plan);
        assert!(!words.windows(8).any(|eight| eight == [9; 8]), "the secret is hidden");
        assert!(Crossing::decode(&words, &[4; 32]).is_err());
        for end in 0..words.len() {
            assert!(Crossing::decode(&words[..end], &[3; 32]).is_err());
        }
    }

    #[test]
    fn addresses_are_answered_once_all_are_known() {
        let (one, other) = (Address::new(&[1, 2, 3]).unwrap(), Address::new(&[4; ADDRESS_BYTES]).unwrap());
        let rows = [row(Some(one)), row(Some(other)), row(None)];
        assert_eq!(rows.map(|row| read_row(&row)), [Some(one), Some(other), None]);
        let mut addresses = Addresses::default();
        addresses.publish(&one);
        addresses.request(1);
        assert_eq!(addresses.poll(), None);
        addresses.table().all = Some(vec![one, other]);
        assert_eq!((addresses.poll(), addresses.poll()), (Some((1, Some(other))), None));
    }
}
