//! What a communicator keeps for its collective operations: what its members have agreed upon, executions at
//! rest, operations under way. What is done with it is in [`crate::collective`].
//!
//! # Safety
//! Nothing is read or written through the addresses that are kept of a call.
#![allow(unsafe_code)]

pub(crate) mod agreement;
pub(crate) mod begun;
pub mod choices;
pub mod collected;
pub(crate) mod deferred;
pub(crate) mod hosts;
pub mod learnings;
pub mod ledger;
pub(crate) mod node;
pub(crate) mod numbers;
pub mod operation;
pub(crate) mod places;
pub mod repertoire;
pub(crate) mod tuning;
pub(crate) mod turn;
pub(crate) mod under_way;
pub(crate) mod unit;
pub mod wishes;
pub mod words;

use tutti_base::config::Tune;
use tutti_base::ids::Plane;
use tutti_coll::Shape;
use tutti_coll::tune::{Manner, Proposal};
use tutti_transport::banks::shelf::Shelf;
use tutti_transport::banks::{Banks, Said};
use tutti_transport::exposure::Record;

use agreement::OperationAgreement;
use begun::{Begun, Patience};
use deferred::Deferred;
use hosts::Standing;
use node::Neighbourhood;
use numbers::PersistentNumbers;
use places::Near;
use turn::{BankTurn, SlotNeeds};
use under_way::Running;
use wishes::Wishes;
use words::Words;

use crate::engine::Execution;
use crate::host::Host;
use crate::lanes::{FirstLaneCell, LaneGuard};
use crate::p2p::agreement::{LANE_BITS, NUMBERS, PERSISTENT, is_past};
use crate::request::RequestId;
use crate::wire::Signature;

/// Executions that a communicator keeps at rest.
const KEPT: usize = 16;
/// Non-blocking operations of a communicator that are under way at a time, at most: the number of small slots
/// in banks.
pub(crate) const MOST_UNDER_WAY: u32 = 128;

/// First bit of the upper 9 bits of a tag of MPI_Comm_create_group in the names of members. Ranks are below
/// 2^23, or two of these calls could be taken for each other as if their tags differed in nothing else.
const TAG_IN_NAME_SHIFT: u32 = 23;

/// What a communicator keeps for its collective operations.
#[derive(Debug)]
pub struct Collectives {
    pub(crate) channel: Channel,
    /// For members that meet outside: the ranks by which messages there name them.
    pub(crate) names: Option<Box<[u32]>>,
    pub(crate) state: FirstLaneCell<OperationState>,
    pub(crate) near: Near,
    pub(crate) node: Neighbourhood,
    /// Banks of persistent operations that were freed.
    pub(crate) shelf: FirstLaneCell<Shelf>,
    pub(crate) multicast: FirstLaneCell<Terms>,
    pub(crate) deferred: FirstLaneCell<Deferred>,
    pub(crate) offloaded: FirstLaneCell<Standing>,
}

/// Which messages belong to the collectives of a communicator.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Channel {
    /// The communicator's own plane, operations numbered in turn.
    Own,
    /// Another plane of a communicator that the members share: all operations have this number, and follow one
    /// another.
    Outside(i32),
}

#[derive(Debug, Default)]
pub(crate) struct OperationState {
    /// What was asked for.
    pub(crate) wishes: Wishes,
    pub(crate) operations: u32,
    /// What they were.
    pub(crate) begun: Begun,
    /// Executions that are at rest; `None` while one is under way.
    pub(crate) rest: Vec<Option<Run>>,
    /// The place of the execution that was done again last.
    pub(crate) latest: usize,
    /// The place whose execution goes next when there are too many.
    pub(crate) oldest: usize,
    /// For the next operation behind a request.
    pub(crate) idle: Option<Box<Running>>,
    /// Number of non-blocking operations that are started and incomplete.
    pub(crate) under_way: u32,
    /// True while further operations wait to begin ([`Deferred::waiting`]).
    pub(crate) has_waiting: bool,
    /// How often what was planned before was forgotten ([`OperationState::forget_plans`]).
    pub(crate) generation: u32,
    /// Operations for which tuning sleeps while it is in this mode: they go as without it. Goes by calls.
    pub(crate) nap: (u32, Tune),
}

impl OperationState {
    #[inline]
    pub(crate) fn tune(&self, host: &Host) -> Tune {
        self.wishes.tune_of(&host.config)
    }

    /// Returns true if the next operation goes as without tuning, in this mode.
    #[inline]
    pub(crate) fn sleeps(&self, mode: Tune) -> bool {
        self.nap.0 > 0 && self.nap.1 == mode
    }

    /// Returns true if a new operation has to wait. The number under way is bounded, since progress polls
    /// each of them.
    #[inline]
    pub(crate) fn is_crowded(&self) -> bool {
        self.has_waiting || self.under_way >= MOST_UNDER_WAY
    }

    /// Keeps an idle execution for reuse.
    #[inline]
    pub(crate) fn keep(&mut self, run: Run) {
        // Each operation that ends lets a waiting one begin, which reuses the execution.
        let most = if self.has_waiting { MOST_UNDER_WAY as usize } else { KEPT };
        if let Some(place) = self.rest.iter_mut().find(|place| place.is_none()) {
            *place = Some(run);
        } else if self.rest.len() < most {
            self.rest.push(Some(run));
        } else {
            let oldest = self.oldest;
            self.oldest = (oldest + 1) % KEPT;
            self.rest[oldest] = Some(run);
        }
    }

    /// Notes whether operations wait to begin.
    pub(crate) fn wait(&mut self, has_waiting: bool) {
        if self.has_waiting && !has_waiting {
            self.rest.truncate(KEPT);
        }
        self.has_waiting = has_waiting;
    }

    /// What was planned so far is not used again: what is at rest goes, and what is under way is not found when it comes back
    /// here. Members who did not know of each other's rest would else take different plans.
    pub(crate) fn forget_plans(&mut self) {
        self.rest.clear();
        (self.latest, self.oldest) = (0, 0);
        self.generation = self.generation.wrapping_add(1);
    }
}

/// An execution and the call that it was made for.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) execution: Execution<RequestId>,
    /// What its plan was allowed to use.
    pub(crate) means: Means,
    /// What the members must agree on.
    pub(crate) said: Said,
    /// What its messages say of it.
    pub(crate) signature: Signature,
    /// What it needs of a slot, if it is within the node.
    pub(crate) room: Option<SlotNeeds>,
    /// Its algorithm is one that is tried or was learned, not what the model chooses.
    pub(crate) tuned: bool,
    /// How it moves on.
    pub(crate) manner: Manner,
    /// It counts for what members agree on of multicast, so it is never done again by the way that does not
    /// count.
    pub(crate) counts: bool,
    /// That of [`OperationState`] when it was planned.
    pub(crate) generation: u32,
    pub(crate) words: Option<Words>,
    /// With the words: see [`Operation::listed`].
    pub(crate) lists: Vec<i64>,
    pub(crate) given: Given,
}

/// Addresses that a user gave, to be compared and counted from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given(pub(crate) [*mut u8; 2]);

// SAFETY: nothing is read or written through them.
unsafe impl Send for Given {}

/// Boxed, since it is handed around.
pub(crate) type Run = Box<Prepared>;

impl Default for Collectives {
    fn default() -> Collectives {
        Collectives {
            channel: Channel::Own,
            names: None,
            state: FirstLaneCell::default(),
            near: Near::default(),
            node: Neighbourhood::default(),
            shelf: FirstLaneCell::default(),
            multicast: FirstLaneCell::default(),
            deferred: FirstLaneCell::default(),
            offloaded: FirstLaneCell::default(),
        }
    }
}

impl Collectives {
    /// Those of a group that meets inside a communicator it is a part of, under a tag of the user's
    /// (MPI_Comm_create_group). `names` are the members' ranks there: other groups meet in the same place,
    /// and ranks in a group would not tell their members from ours. Messages have room for the lower bits of the
    /// tag; its upper bits are added to the names.
    pub fn outside(tag: i32, mut names: Box<[u32]>) -> Collectives {
        names.iter_mut().for_each(|name| *name ^= (tag as u32 / NUMBERS) << TAG_IN_NAME_SHIFT);
        let tag = (tag as u32 % NUMBERS) << LANE_BITS;
        Collectives { channel: Channel::Outside(tag as i32), names: Some(names), ..Collectives::default() }
    }

    /// What messages call the member with this number.
    #[inline]
    pub(crate) fn name(&self, number: u32) -> u32 {
        self.names.as_ref().map_or(number, |names| names[number as usize])
    }

    pub(crate) fn plane(&self) -> Plane {
        match self.channel {
            Channel::Own => Plane::Collective,
            Channel::Outside(_) => Plane::Agreement,
        }
    }

    /// The number of the next operation, as a tag. Members take numbers in the order of their calls, so whatever
    /// goes on in the background takes its number when it is called for, and keeps it for all its rounds.
    pub fn next_tag(&self, held: &LaneGuard) -> i32 {
        self.next_tag_of(held, 0)
    }

    /// The same for an operation that says this of itself.
    pub(crate) fn next_tag_of(&self, held: &LaneGuard, signature: Signature) -> i32 {
        let Channel::Own = self.channel else { return self.fixed_tag() };
        self.state.borrow_mut(held).next_tag(signature)
    }

    /// Notes that the persistent operation with this tag is freed.
    pub(crate) fn forget_persistent(&self, held: &LaneGuard, tag: i32) {
        let number = (tag & !PERSISTENT) as u32 >> LANE_BITS;
        self.state.borrow_mut(held).begun.persistent.forget(number);
    }

    /// Starts the numbers of operations so that they wrap after `operations` of them, for tests. 0 changes
    /// nothing.
    pub(crate) fn wrap_after(&self, held: &LaneGuard, operations: u64) {
        if operations > 0 {
            let mut state = self.state.borrow_mut(held);
            state.operations = 0u32.wrapping_sub(operations as u32);
            state.begun.persistent = PersistentNumbers::left(operations);
        }
    }

    /// An operation that has taken its number before says what it is.
    pub(crate) fn note(&self, held: &LaneGuard, tag: i32, signature: Signature) {
        let mut state = self.state.borrow_mut(held);
        let operations = state.operations;
        state.begun.note_late(tag, signature, operations);
    }

    /// Whether operations are tuned.
    #[inline]
    pub fn tune(&self, held: &LaneGuard, host: &Host) -> Tune {
        self.state.borrow(held).tune(host)
    }

    /// Begins with what tuning has learned on a communicator of the same members, all of whose operations
    /// have begun.
    pub(crate) fn inherit_tuning(&self, held: &LaneGuard, host: &Host, from: &Collectives) {
        let mode = self.tune(held, host);
        if mode.is_on() && from.tune(held, host) == mode {
            let other = from.deferred.borrow(held);
            self.deferred.borrow_mut(held).tuning.inherit(&other.tuning, mode);
        }
    }

    /// Replaces the hints that `named` contains; later operations use them.
    pub fn wish(&self, held: &LaneGuard, named: &Wishes) {
        let mut state = self.state.borrow_mut(held);
        let wishes = named.or(&state.wishes);
        if state.wishes != wishes {
            state.nap = (0, Tune::Off);
            state.forget_plans();
            state.wishes = wishes;
        }
    }

    /// What an operation that begins now gets.
    #[inline]
    pub(crate) fn ticket(&self, held: &LaneGuard, run: &Run) -> Ticket {
        self.ticket_under(held, self.next_tag_of(held, run.signature), run)
    }

    /// The same under a tag that it took when it was called for.
    pub(crate) fn ticket_under(&self, held: &LaneGuard, tag: i32, run: &Run) -> Ticket {
        match self.node.banks(held) {
            Some(mut banks) => ticket(tag, tag as u32 >> LANE_BITS, &mut banks, run),
            None => Ticket::new(tag, None, OperationAgreement::UNKNOWN, run.signature),
        }
    }

    pub(crate) fn fixed_tag(&self) -> i32 {
        match self.channel {
            Channel::Own => 0,
            Channel::Outside(tag) => tag,
        }
    }
}

/// What a communicator knows of it.
#[derive(Debug, Default)]
pub(crate) struct Terms {
    /// Operations so far that count, with which one it is asked next at the earliest, and how long they
    /// have taken by the model since it was asked: see `crate::collective::multicast`.
    pub(crate) calls: u64,
    pub(crate) next: u64,
    pub(crate) time_ns: u64,
    /// How often it was asked in vain.
    pub(crate) vain: u32,
    /// Whether operations of these shapes count, and how long one takes by the model.
    pub(crate) shapes: Vec<(Shape, Option<u64>)>,
    /// Operations until it is asked again.
    pub(crate) pause: u32,
    pub(crate) tries: u32,
    pub(crate) is_there: bool,
}

impl Terms {
    /// Whether algorithms may use multicast.
    pub fn is_there(&self) -> bool {
        self.is_there
    }
}

/// What an operation may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Means {
    /// Whatever there is.
    All,
    /// Messages only.
    Messages,
}

/// What an operation has from its call to its end.
#[derive(Clone, Debug)]
pub struct Ticket {
    /// Its messages have this tag (whose low bits become the lane).
    pub tag: i32,
    /// Its turn at the banks, for a schedule within the node.
    pub turn: Option<BankTurn>,
    /// What this process has exposed for it.
    pub exposed: Vec<Record>,
    /// Bytes that this process has put into its bank beside those of the schedule.
    pub carried_bytes: usize,
    /// Whether the members agree about it.
    pub agreement: OperationAgreement,
    /// What its messages say of it.
    pub signature: Signature,
    /// How long it has waited.
    pub(crate) patience: Patience,
}

impl Ticket {
    /// Of an operation whose messages have this tag.
    #[inline]
    pub fn new(
        tag: i32,
        turn: Option<BankTurn>,
        agreement: OperationAgreement,
        signature: Signature,
    ) -> Ticket {
        Ticket {
            tag,
            turn,
            exposed: Vec::new(),
            carried_bytes: 0,
            agreement,
            signature,
            patience: Patience::default(),
        }
    }
}

/// What an operation gets that begins now under a number of its own, on these banks if it is one within the node.
#[inline]
pub(crate) fn ticket(tag: i32, number: u32, banks: &mut Banks, run: &Run) -> Ticket {
    let turn = run.room.map(|room| BankTurn::take(banks, room, run.said.agreed));
    let agreement = OperationAgreement::begin(banks, number, &run.said, turn.as_ref());
    Ticket::new(tag, turn, agreement, run.signature)
}

impl Prepared {
    /// Returns true if it does what tuning has chosen.
    #[inline]
    pub(crate) fn is_of(&self, proposal: &Proposal) -> bool {
        let Proposal { choice, manner, .. } = proposal;
        self.tuned && self.manner == *manner && self.execution.plan().choice.is_same(choice)
    }

    /// Compiles it for its lists, which have come again. If that cannot be done it is not tried a third time.
    #[cold]
    fn compile(&mut self) -> bool {
        let Given(given) = self.given;
        let compiled = !self.lists.is_empty() && self.execution.compile(given);
        if !compiled && !self.lists.is_empty() {
            self.words = None;
        }
        compiled
    }
}

impl OperationState {
    /// See [`Collectives::next_tag`].
    #[inline]
    pub(crate) fn next_tag(&mut self, signature: Signature) -> i32 {
        let number = self.operations % NUMBERS;
        self.begun.note(number, signature);
        self.operations = self.operations.wrapping_add(1);
        (number << LANE_BITS) as i32
    }

    /// Returns true if the operation with this tag, which is not persistent, has begun here.
    pub(crate) fn has_begun(&self, tag: i32) -> bool {
        let latest = self.operations.checked_sub(1).map(|latest| ((latest % NUMBERS) << LANE_BITS) as i32);
        latest.is_some_and(|latest| is_past(tag, latest))
    }

    /// Where the execution is at rest that `words` name, bound to other memory and ready to go.
    ///
    /// # Safety
    /// As for [`crate::collective::replay`].
    #[inline]
    pub(crate) unsafe fn awaken(
        &mut self,
        words: &Words,
        has_lists: impl Fn(&[i64]) -> bool,
        [send, recv]: [*mut u8; 2],
        is_meant: impl Fn(&Run) -> bool,
    ) -> Option<usize> {
        let generation = self.generation;
        let said = |run: &Option<Run>| {
            run.as_ref().is_some_and(|run| {
                run.words.as_ref() == Some(words)
                    && run.generation == generation
                    && is_meant(run)
                    && has_lists(&run.lists)
            })
        };
        // Most programs repeat what they did last.
        if !self.rest.get(self.latest).is_some_and(said) {
            self.latest = self.rest.iter().position(said)?;
        }
        let place = self.latest;
        let run = self.rest[place].as_mut()?;
        // SAFETY: passed on.
        let ready = unsafe {
            run.execution.restart(send, recv) || run.compile() && run.execution.restart(send, recv)
        };
        if ready { Some(place) } else { None }
    }
}
