//! Shared memory of a communicator on one node, for collective operations: flags and banks (S1), and the
//! memory that its members expose to each other (S2).
//!
//! Banks are opened at the first plan and returned with the communicator. All members get the same answer
//! whether banks exist ([`Banks::open`]), so they plan alike. An operation holds a [`BankTurn`] from its
//! call on. Members take these in the order of their calls, which MPI requires to be the same everywhere
//! (MPI-5 section 6.14). Persistent operations start in any order, so each has banks of its own.
//!
//! If the members are on several hosts, those of each host have banks of their own. The first operation
//! that is blocking or made persistent agrees on whether all hosts have some
//! ([`Neighbourhood::needs_agreement`]). Until then messages are sent. The same holds for the banks of each
//! persistent operation when it is made.

use std::cell::RefMut;
use std::sync::OnceLock;
use std::time::Duration;
use std::{io, thread};

use tutti_base::{ErrorClass, WorldRank};
use tutti_coll::generator::Node;
use tutti_coll::{Plan, simulate};
use tutti_sys::job::Reach;
use tutti_sys::regions::RegionKey;
use tutti_transport::banks::shelf::Owner;
use tutti_transport::banks::{Banks, Layout};

use super::places;
use super::turn::SlotNeeds;
use crate::communicator::Communicator;
use crate::lanes::{FirstLaneCell, LaneGuard};
use crate::messenger::Messenger;
use crate::p2p::agreement;
use crate::progress;
use crate::wire::Signature;

/// Banks of a communicator or of a persistent operation.
#[derive(Debug, Default)]
pub struct Neighbourhood {
    state: FirstLaneCell<BankState>,
    terms: FirstLaneCell<Terms>,
    /// Number of each member among those of this host, if the members are on several hosts.
    numbers: OnceLock<Option<Box<[u32]>>>,
}

/// Agreement of members on several hosts.
#[derive(Clone, Copy, Debug, Default)]
enum Terms {
    /// The agreement has not started.
    #[default]
    Open,
    /// The agreement is in progress.
    Asked,
    /// The agreement is over with this result.
    Settled(HostOffer),
}

/// Paths that a host offers to the members on it, from the best to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostOffer {
    /// Banks and exposed memory, which is mapped or reached by system calls.
    Mapped = 0,
    /// Banks and exposed memory, which is reached by system calls.
    Call = 1,
    /// Banks, but no exposed memory.
    Banks = 2,
    /// Messages, without banks.
    Messages = 3,
}

/// Number for a member that is on another host.
const ELSEWHERE: u32 = u32::MAX;

/// State of the banks on this host.
#[derive(Debug, Default)]
enum BankState {
    /// Not opened so far.
    #[default]
    Unknown,
    /// Closed: none are available.
    Closed,
    /// Open banks, with the kind of access to each other's memory.
    Open(Box<Banks>, Reach),
}

impl HostOffer {
    /// Returns the class of algorithms that may be used.
    pub fn node(self) -> Node {
        match self {
            HostOffer::Mapped | HostOffer::Call => Node::Exposed,
            HostOffer::Banks => Node::Shared,
            HostOffer::Messages => Node::Any,
        }
    }

    /// Returns the kind of access to memory that others expose.
    pub fn reach(self) -> simulate::Reach {
        if self == HostOffer::Mapped { simulate::Reach::Mapped } else { simulate::Reach::Call }
    }
}

impl Neighbourhood {
    /// Opens the banks of a communicator if possible, and returns the paths that its operations may use.
    pub fn of_communicator(&self, held: &LaneGuard, messenger: &Messenger, comm: &Communicator) -> HostOffer {
        if self.numbers(messenger, comm).is_some() {
            return match *self.terms.borrow(held) {
                Terms::Settled(offer) => offer,
                Terms::Open | Terms::Asked => HostOffer::Messages,
            };
        }
        self.of_host(held, messenger, comm)
    }

    /// Returns the paths that the members on this host may use.
    fn of_host(&self, held: &LaneGuard, messenger: &Messenger, comm: &Communicator) -> HostOffer {
        if matches!(*self.state.borrow(held), BankState::Unknown) {
            let moving = || progress::take_in(held, messenger);
            let banks = open(messenger, comm, moving, |Members { lowest, ranks, me }| {
                let key = RegionKey { communicator: comm.serial().0, number: 0, lowest };
                let layout = Layout::of_communicator(&messenger.job.header().banks, ranks.len() as u32);
                let banks = Banks::open(&messenger.job, key, &layout, ranks, me)?;
                Ok(banks.map(|banks| (banks, await_reach(held, messenger, ranks))))
            });
            *self.state.borrow_mut(held) = match banks {
                Some((banks, reach)) => BankState::Open(Box::new(banks), reach),
                None => BankState::Closed,
            };
        }
        match *self.state.borrow(held) {
            BankState::Open(_, Reach::Mapped) => HostOffer::Mapped,
            BankState::Open(_, Reach::Call) => HostOffer::Call,
            BankState::Open(_, Reach::None) => HostOffer::Banks,
            BankState::Closed | BankState::Unknown => HostOffer::Messages,
        }
    }

    /// Returns what this host offers, if the members are on several hosts and have not agreed. The largest
    /// number of all hosts must be passed to [`Neighbourhood::settle`]. Until then only messages are sent.
    pub fn needs_agreement(
        &self,
        held: &LaneGuard,
        messenger: &Messenger,
        comm: &Communicator,
    ) -> Option<u64> {
        self.numbers(messenger, comm)?;
        let Terms::Open = *self.terms.borrow(held) else { return None };
        *self.terms.borrow_mut(held) = Terms::Asked;
        Some(self.of_host(held, messenger, comm) as u64)
    }

    /// Returns true if members on several hosts have not started to agree.
    pub fn is_open(&self, held: &LaneGuard) -> bool {
        matches!(*self.terms.borrow(held), Terms::Open)
    }

    /// Returns true if members on several hosts have agreed.
    pub fn is_settled(&self, held: &LaneGuard) -> bool {
        matches!(*self.terms.borrow(held), Terms::Settled(_))
    }

    /// Ends the agreement: all hosts offer this.
    pub fn settle(&self, held: &LaneGuard, offer: u64) {
        let offers = [HostOffer::Mapped, HostOffer::Call, HostOffer::Banks];
        let offer = offers.into_iter().find(|known| *known as u64 == offer).unwrap_or(HostOffer::Messages);
        *self.terms.borrow_mut(held) = Terms::Settled(offer);
    }

    /// Returns the number of each member among those of this host, if the members are on several hosts.
    #[inline]
    pub fn numbers(&self, messenger: &Messenger, comm: &Communicator) -> Option<&[u32]> {
        self.numbers.get_or_init(|| numbers(messenger, comm)).as_deref()
    }

    /// Returns the rank of a member of this host's banks.
    pub fn rank_of(&self, messenger: &Messenger, comm: &Communicator, member: u32) -> u32 {
        let numbers = self.numbers(messenger, comm);
        let place = numbers.and_then(|all| all.iter().position(|number| *number == member));
        place.map_or(member, |rank| rank as u32)
    }

    /// Opens the banks of a new persistent operation. Returns `None` if there is no space for them.
    pub fn of_persistent(
        held: &LaneGuard,
        messenger: &Messenger,
        comm: &Communicator,
        signature: Signature,
        plan: &Plan,
    ) -> Option<Neighbourhood> {
        let room = SlotNeeds::of(messenger.near_bytes, plan);
        // Members of operations that do not fit together share nothing. Their needs may differ, and each of
        // them waits alone.
        let digest = agreement::digest(signature);
        let moving = || progress::progress(held, messenger);
        let banks = open(messenger, comm, moving, |Members { lowest, ranks, me }| {
            let sizes = &messenger.job.header().banks;
            let layout = Layout::of_persistent(sizes, ranks.len() as u32, room.bytes, room.lends);
            let owner = Owner { communicator: comm.serial().0, lowest, digest };
            comm.collectives.shelf.borrow_mut(held).open(&messenger.job, owner, &layout, ranks, me)
        })?;
        // Access to exposed memory was agreed upon for the communicator.
        let state = FirstLaneCell::new(BankState::Open(banks, Reach::None));
        Some(Neighbourhood { state, ..Neighbourhood::default() })
    }

    /// Puts the banks of a freed persistent operation on the shelf. They are reused if it `is_whole`: no run
    /// of it has failed.
    pub fn put_on_shelf(self, held: &LaneGuard, comm: &Communicator, is_whole: bool) {
        let BankState::Open(banks, _) = self.state.into_inner() else { return };
        if is_whole {
            comm.collectives.shelf.borrow_mut(held).put(banks);
        }
    }

    /// Returns the banks. Nothing else may be done for the operation's communicator while they are
    /// borrowed. A user's operator, the only foreign code that runs meanwhile, must not communicate (MPI-5
    /// section 6.9.5).
    #[inline]
    pub fn banks<'a>(&'a self, held: &'a LaneGuard) -> Option<RefMut<'a, Banks>> {
        RefMut::filter_map(self.state.borrow_mut(held), |state| match state {
            BankState::Open(banks, _) => Some(&mut **banks),
            BankState::Unknown | BankState::Closed => None,
        })
        .ok()
    }
}

/// Numbers the members on this host in rank order, if the members are on several hosts.
fn numbers(messenger: &Messenger, comm: &Communicator) -> Option<Box<[u32]>> {
    let several = !places::is_mixed(messenger, comm) && places::local_ranks(messenger, comm).is_none();
    several.then(|| {
        let mut next = 0;
        let number = |world: WorldRank| match messenger.local_rank(world) {
            Some(_) => {
                next += 1;
                next - 1
            }
            None => ELSEWHERE,
        };
        comm.group().iter().map(number).collect()
    })
}

/// Returns the kind of access of these ranks of the host to each other's memory, equal at all of them. An
/// early rank waits until the others have called MPI_Init, and takes in messages meanwhile.
fn await_reach(held: &LaneGuard, messenger: &Messenger, locals: &[u32]) -> Reach {
    /// Shortest and longest pause between two checks.
    const PAUSES: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(20)];
    let (mut pause, mut told) = (PAUSES[0], false);
    // The other ranks arrive, or they exit and the launcher ends the job.
    let reach = loop {
        if let Some(reach) = messenger.job.reach_among(locals) {
            break reach;
        }
        if !progress::take_in(held, messenger) {
            messenger.block().set_waiting("the other ranks of the host to call MPI_Init");
            told = true;
            messenger.job.wait_for_declarations(pause);
            pause = (2 * pause).min(PAUSES[1]);
        }
    };
    if told {
        messenger.block().set_waiting("");
    }
    reach
}

/// The members of a communicator on this host.
#[derive(Clone, Copy)]
struct Members<'a> {
    /// Local ranks of the members.
    ranks: &'a [u32],
    /// The lowest local rank.
    lowest: u32,
    /// Position of this process in `ranks`.
    me: u32,
}

/// Opens banks for the members on this host. While other members have to come first, it calls `move_on` and
/// tries again.
fn open<T>(
    messenger: &Messenger,
    comm: &Communicator,
    move_on: impl Fn() -> bool,
    mut open: impl FnMut(Members<'_>) -> io::Result<Option<T>>,
) -> Option<T> {
    if comm.size() < 2 || places::is_mixed(messenger, comm) {
        return None;
    }
    let job = &messenger.job;
    let ranks: Vec<u32> = comm.group().iter().filter_map(|world| job.local_rank(world.0)).collect();
    let me =
        ranks.iter().position(|local| *local == messenger.local).expect("a member is on its host") as u32;
    let lowest = ranks.iter().copied().min().expect("a communicator has members");
    let mut pauses = 0;
    loop {
        match open(Members { ranks: &ranks, lowest, me }) {
            Ok(banks) => break banks,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if !move_on() {
                    await_others(messenger, pauses);
                    pauses += 1;
                }
            }
            Err(error) => {
                messenger.fail(ErrorClass::NoMem, &format!("shared memory of a communicator: {error}"))
            }
        }
    }
}

/// Lets the other members of the host run, which must make the same operations as this one. Each pause is
/// longer than the one before.
fn await_others(messenger: &Messenger, pauses: u32) {
    /// Number of attempts that only yield the processor.
    const YIELDS: u32 = 16;
    /// Longest pause between two attempts.
    const LONGEST: Duration = Duration::from_millis(2);
    match pauses.checked_sub(YIELDS) {
        None => thread::yield_now(),
        Some(sleeps) => {
            messenger
                .block()
                .set_waiting("other ranks to make the persistent operations that this one has made");
            thread::sleep(Duration::from_micros(10 << sleeps.min(10)).min(LONGEST));
            messenger.block().set_waiting("");
        }
    }
}
