//! State of a communicator for its collective operations: agreements of its members, idle executions,
//! active operations. The code that uses it is in [`crate::collective`].
//!
//! # Safety
//! Nothing is read or written through the addresses that are remembered of a call.
#![allow(unsafe_code)]

pub(crate) mod agreement;
pub mod call;
pub mod choices;
pub mod collected;
pub(crate) mod deferred_calls;
pub mod hints;
pub(crate) mod history;
pub mod key;
pub mod learnings;
pub mod ledger;
pub(crate) mod node;
pub(crate) mod numbers;
pub(crate) mod offload_state;
pub(crate) mod places;
pub mod repertoire;
pub(crate) mod tuning;
pub(crate) mod turn;
pub(crate) mod under_way;
pub(crate) mod unit;

use tutti_base::config::Tune;
use tutti_base::ids::Plane;
use tutti_coll::Shape;
use tutti_coll::tune::{ProgressMode, Proposal};
use tutti_transport::banks::shelf::Shelf;
use tutti_transport::banks::{Banks, CallSignature};
use tutti_transport::exposure::Record;

use agreement::OperationAgreement;
use deferred_calls::DeferredCalls;
use hints::CollectiveHints;
use history::{CallHistory, Patience};
use key::CallKey;
use node::Neighbourhood;
use numbers::PersistentNumbers;
use offload_state::OffloadState;
use places::MemberLayout;
use turn::{BankTurn, SlotNeeds};
use under_way::Running;

use crate::engine::Execution;
use crate::host::Host;
use crate::lanes::{FirstLaneCell, LaneGuard};
use crate::p2p::agreement::{LANE_BITS, NUMBERS, PERSISTENT, is_past};
use crate::request::RequestId;
use crate::wire::Signature;

/// Maximum number of idle executions that a communicator keeps.
const KEPT: usize = 16;
/// Maximum number of active non-blocking operations of a communicator: the number of small slots in banks.
pub(crate) const MOST_UNDER_WAY: u32 = 128;

/// First bit of the upper 9 bits of a tag of MPI_Comm_create_group in the names of members. Ranks are below
/// 2^23; otherwise two calls whose tags differ only there could be confused.
const TAG_IN_NAME_SHIFT: u32 = 23;

/// State of a communicator for its collective operations.
#[derive(Debug)]
pub struct Collectives {
    /// Plane and tags of its messages.
    pub(crate) channel: Channel,
    /// Ranks by which messages name the members, if they meet inside another communicator.
    pub(crate) names: Option<Box<[u32]>>,
    /// Counters, hints and idle executions.
    pub(crate) state: FirstLaneCell<OperationState>,
    /// Layout of the members in the hardware, computed on first use.
    pub(crate) layout: MemberLayout,
    /// Banks of the members on this host.
    pub(crate) node: Neighbourhood,
    /// Banks of persistent operations that were freed.
    pub(crate) shelf: FirstLaneCell<Shelf>,
    /// State of multicast.
    pub(crate) multicast: FirstLaneCell<Terms>,
    /// State of operations that wait for an agreement, and of tuning.
    pub(crate) deferred: FirstLaneCell<DeferredCalls>,
    /// State of the kernel offload.
    pub(crate) offloaded: FirstLaneCell<OffloadState>,
}

/// Messages that belong to the collectives of a communicator.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Channel {
    /// The communicator's own plane; operations have successive numbers.
    Own,
    /// Another plane, of a communicator that the members share. All operations have this number, and follow
    /// one another.
    Outside(i32),
}

/// Operations and executions of a communicator.
#[derive(Debug, Default)]
pub(crate) struct OperationState {
    /// Hints that the user set.
    pub(crate) hints: CollectiveHints,
    /// Number of operations called so far; wraps around.
    pub(crate) operations: u32,
    /// Signatures of recent operations, to detect mismatched calls.
    pub(crate) history: CallHistory,
    /// Idle executions kept for reuse. A slot is `None` while its execution runs.
    pub(crate) idle_executions: Vec<Option<Box<CachedExecution>>>,
    /// Index of the execution that was replayed last.
    pub(crate) latest: usize,
    /// Index of the execution that is evicted next when there are too many.
    pub(crate) oldest: usize,
    /// Allocation kept for the next non-blocking operation.
    pub(crate) idle: Option<Box<Running>>,
    /// Number of non-blocking operations that are started and incomplete.
    pub(crate) under_way: u32,
    /// True while further operations wait to begin ([`DeferredCalls::waiting`]).
    pub(crate) has_waiting: bool,
    /// Number of times that existing plans were discarded ([`OperationState::forget_plans`]).
    pub(crate) generation: u32,
    /// Number of operations for which tuning sleeps while it is in this mode; they run as without tuning.
    /// Counted by calls.
    pub(crate) nap: (u32, Tune),
}

impl OperationState {
    /// Returns the tuning mode of operations.
    #[inline]
    pub(crate) fn tune(&self, host: &Host) -> Tune {
        self.hints.tune_of(&host.config)
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
    pub(crate) fn keep(&mut self, cached: Box<CachedExecution>) {
        // Each operation that ends lets a waiting one begin, which reuses the execution.
        let most = if self.has_waiting { MOST_UNDER_WAY as usize } else { KEPT };
        if let Some(place) = self.idle_executions.iter_mut().find(|place| place.is_none()) {
            *place = Some(cached);
        } else if self.idle_executions.len() < most {
            self.idle_executions.push(Some(cached));
        } else {
            let oldest = self.oldest;
            self.oldest = (oldest + 1) % KEPT;
            self.idle_executions[oldest] = Some(cached);
        }
    }

    /// Records whether operations wait to begin.
    pub(crate) fn wait(&mut self, has_waiting: bool) {
        if self.has_waiting && !has_waiting {
            self.idle_executions.truncate(KEPT);
        }
        self.has_waiting = has_waiting;
    }

    /// Discards all plans. Idle executions are dropped, and active ones are not found when they return.
    /// Otherwise members with different caches would use different plans.
    pub(crate) fn forget_plans(&mut self) {
        self.idle_executions.clear();
        (self.latest, self.oldest) = (0, 0);
        self.generation = self.generation.wrapping_add(1);
    }
}

/// An execution and the call for which it was made.
#[derive(Debug)]
pub(crate) struct CachedExecution {
    /// Execution of the plan, with its bindings to memory.
    pub(crate) execution: Execution<RequestId>,
    /// Paths that its plan was allowed to use.
    pub(crate) paths: AllowedPaths,
    /// Signature in the banks, which must be equal at all members.
    pub(crate) bank_signature: CallSignature,
    /// Signature in its messages.
    pub(crate) signature: Signature,
    /// Space that it needs in a slot, if it is confined to one host.
    pub(crate) room: Option<SlotNeeds>,
    /// True if tuning tried or learned its algorithm, false if the model selects it.
    pub(crate) tuned: bool,
    /// Progress mode of the operation.
    pub(crate) manner: ProgressMode,
    /// True if it counts for the agreement on multicast; then it is never replayed, since a replay does not
    /// count.
    pub(crate) counts: bool,
    /// Value of [`OperationState`]'s field of the same name when it was planned.
    pub(crate) generation: u32,
    /// True if the reason for its choice was printed (`TUTTI_EXPLAIN`).
    pub(crate) is_explained: bool,
    /// Key by which a repeated call finds it; `None` if it must not be replayed.
    pub(crate) key: Option<CallKey>,
    /// Lists of counts and displacements that belong to the key: see [`call::Arguments::with_lists`].
    pub(crate) lists: Vec<i64>,
    /// Addresses that the call passed with its lists.
    pub(crate) bases: BufferAddresses,
}

/// Addresses that a user passed, for comparison and as base of displacements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BufferAddresses(pub(crate) [*mut u8; 2]);

// SAFETY: nothing is read or written through them.
unsafe impl Send for BufferAddresses {}

impl Default for Collectives {
    fn default() -> Collectives {
        Collectives {
            channel: Channel::Own,
            names: None,
            state: FirstLaneCell::default(),
            layout: MemberLayout::default(),
            node: Neighbourhood::default(),
            shelf: FirstLaneCell::default(),
            multicast: FirstLaneCell::default(),
            deferred: FirstLaneCell::default(),
            offloaded: FirstLaneCell::default(),
        }
    }
}

impl Collectives {
    /// Makes the state for a group that meets inside a communicator it is a part of, under a user's tag
    /// (MPI_Comm_create_group). `names` are the members' ranks there. Other groups meet in the same place,
    /// and ranks in a group would not distinguish their members from ours. Messages have space for the
    /// lower bits of the tag; its upper bits are added to the names.
    pub fn outside(tag: i32, mut names: Box<[u32]>) -> Collectives {
        names.iter_mut().for_each(|name| *name ^= (tag as u32 / NUMBERS) << TAG_IN_NAME_SHIFT);
        let tag = (tag as u32 % NUMBERS) << LANE_BITS;
        Collectives { channel: Channel::Outside(tag as i32), names: Some(names), ..Collectives::default() }
    }

    /// Returns the rank by which messages name the member with this number.
    #[inline]
    pub(crate) fn name(&self, number: u32) -> u32 {
        self.names.as_ref().map_or(number, |names| names[number as usize])
    }

    /// Returns the plane of the communicator's context to which the messages belong.
    pub(crate) fn plane(&self) -> Plane {
        match self.channel {
            Channel::Own => Plane::Collective,
            Channel::Outside(_) => Plane::Agreement,
        }
    }

    /// Takes the number of the next operation, and returns it as a tag. Members take numbers in the order
    /// of their calls. An operation in the background takes its number when it is called, and keeps it for
    /// all its rounds.
    pub fn next_tag(&self, held: &LaneGuard) -> i32 {
        self.next_tag_of(held, 0)
    }

    /// Takes the tag of the next operation and records its signature.
    pub(crate) fn next_tag_of(&self, held: &LaneGuard, signature: Signature) -> i32 {
        let Channel::Own = self.channel else { return self.fixed_tag() };
        self.state.borrow_mut(held).next_tag(signature)
    }

    /// Notes that the persistent operation with this tag is freed.
    pub(crate) fn forget_persistent(&self, held: &LaneGuard, tag: i32) {
        let number = (tag & !PERSISTENT) as u32 >> LANE_BITS;
        self.state.borrow_mut(held).history.persistent.forget(number);
    }

    /// Starts the numbers of operations so that they wrap after `operations` of them, for tests. 0 changes
    /// nothing.
    pub(crate) fn wrap_after(&self, held: &LaneGuard, operations: u64) {
        if operations > 0 {
            let mut state = self.state.borrow_mut(held);
            state.operations = 0u32.wrapping_sub(operations as u32);
            state.history.persistent = PersistentNumbers::left(operations);
        }
    }

    /// Records the signature of an operation that has taken its number before.
    pub(crate) fn note(&self, held: &LaneGuard, tag: i32, signature: Signature) {
        let mut state = self.state.borrow_mut(held);
        let operations = state.operations;
        state.history.note_late(tag, signature, operations);
    }

    /// Returns the tuning mode of operations.
    #[inline]
    pub fn tune(&self, held: &LaneGuard, host: &Host) -> Tune {
        self.state.borrow(held).tune(host)
    }

    /// Returns true if results of reductions are to be rounded once.
    #[inline]
    pub fn is_reproducible(&self, held: &LaneGuard, host: &Host) -> bool {
        self.state.borrow(held).hints.is_reproducible(&host.config)
    }

    /// Copies tuning results from a communicator of the same members, all of whose operations have begun.
    pub(crate) fn inherit_tuning(&self, held: &LaneGuard, host: &Host, from: &Collectives) {
        let mode = self.tune(held, host);
        if mode.is_on() && from.tune(held, host) == mode {
            let other = from.deferred.borrow(held);
            self.deferred.borrow_mut(held).tuning.inherit(&other.tuning, mode);
        }
    }

    /// Replaces the hints that `named` contains; later operations use them.
    pub fn wish(&self, held: &LaneGuard, named: &CollectiveHints) {
        let mut state = self.state.borrow_mut(held);
        let hints = named.or(&state.hints);
        if state.hints != hints {
            state.nap = (0, Tune::Off);
            state.forget_plans();
            state.hints = hints;
        }
    }

    /// Makes the state of an operation that begins now, with the next tag.
    #[inline]
    pub(crate) fn ticket(&self, held: &LaneGuard, cached: &CachedExecution) -> Ticket {
        self.ticket_under(held, self.next_tag_of(held, cached.signature), cached)
    }

    /// Makes the same state with a tag that was taken at the call.
    pub(crate) fn ticket_under(&self, held: &LaneGuard, tag: i32, cached: &CachedExecution) -> Ticket {
        match self.node.banks(held) {
            Some(mut banks) => ticket(tag, tag as u32 >> LANE_BITS, &mut banks, cached),
            None => Ticket::new(tag, None, OperationAgreement::UNKNOWN, cached.signature),
        }
    }

    /// Returns the tag of all operations, if the members meet inside another communicator; otherwise 0.
    pub(crate) fn fixed_tag(&self) -> i32 {
        match self.channel {
            Channel::Own => 0,
            Channel::Outside(tag) => tag,
        }
    }
}

/// State of multicast on one communicator.
#[derive(Debug, Default)]
pub(crate) struct Terms {
    /// Number of operations that counted so far: see `crate::collective::multicast`.
    pub(crate) calls: u64,
    /// Value of `calls` from which on the next test or check may happen; `u64::MAX` if none may.
    pub(crate) next: u64,
    /// Time of the operations since the last test or check by the model, in nanoseconds.
    pub(crate) time_ns: u64,
    /// Number of failed tests.
    pub(crate) vain: u32,
    /// Shapes, each with the model's time of one operation in nanoseconds; `None` if such operations do not
    /// count.
    pub(crate) shapes: Vec<(Shape, Option<u64>)>,
    /// Number of operations until the next check.
    pub(crate) pause: u32,
    /// Number of tests so far, which distinguishes their messages.
    pub(crate) tries: u32,
    /// True if multicast works and algorithms may use it.
    pub(crate) is_there: bool,
}

impl Terms {
    /// Returns true if algorithms may use multicast.
    pub fn is_there(&self) -> bool {
        self.is_there
    }
}

/// Paths that an operation may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AllowedPaths {
    /// All paths that exist.
    All,
    /// Messages, without banks and exposed memory.
    Messages,
}

/// State of an operation from its call to its end.
#[derive(Clone, Debug)]
pub struct Ticket {
    /// Tag of its messages; the low bits become the lane.
    pub tag: i32,
    /// Reservation of a slot in the banks, for a schedule confined to one host.
    pub turn: Option<BankTurn>,
    /// Memory that this process has exposed for it.
    pub exposed: Vec<Record>,
    /// Bytes that this process has put into its bank besides those of the schedule.
    pub carried_bytes: usize,
    /// Check that the members agree about it.
    pub agreement: OperationAgreement,
    /// Signature in its messages.
    pub signature: Signature,
    /// Timer of its waits.
    pub(crate) patience: Patience,
}

impl Ticket {
    /// Makes the state of an operation whose messages have this tag.
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

/// Makes the state of an operation that begins now with this tag and number. A schedule confined to one
/// host reserves a slot in these banks.
#[inline]
pub(crate) fn ticket(tag: i32, number: u32, banks: &mut Banks, cached: &CachedExecution) -> Ticket {
    let turn = cached.room.map(|room| BankTurn::take(banks, room, cached.bank_signature.agreed));
    let agreement = OperationAgreement::begin(banks, number, &cached.bank_signature, turn.as_ref());
    Ticket::new(tag, turn, agreement, cached.signature)
}

impl CachedExecution {
    /// Returns true if this is the execution that tuning has chosen.
    #[inline]
    pub(crate) fn is_of(&self, proposal: &Proposal) -> bool {
        let Proposal { choice, manner, .. } = proposal;
        self.tuned && self.manner == *manner && self.execution.plan().choice.is_same(choice)
    }

    /// Compiles the schedule for its lists, which have occurred again. If that fails, it is not tried a
    /// third time.
    #[cold]
    fn compile(&mut self) -> bool {
        let BufferAddresses(bases) = self.bases;
        let compiled = !self.lists.is_empty() && self.execution.compile(bases);
        if !compiled && !self.lists.is_empty() {
            self.key = None;
        }
        compiled
    }
}

impl OperationState {
    /// Takes the next tag: see [`Collectives::next_tag`].
    #[inline]
    pub(crate) fn next_tag(&mut self, signature: Signature) -> i32 {
        let number = self.operations % NUMBERS;
        self.history.note(number, signature);
        self.operations = self.operations.wrapping_add(1);
        (number << LANE_BITS) as i32
    }

    /// Returns true if the operation with this tag, which is not persistent, has begun here.
    pub(crate) fn has_begun(&self, tag: i32) -> bool {
        let latest = self.operations.checked_sub(1).map(|latest| ((latest % NUMBERS) << LANE_BITS) as i32);
        latest.is_some_and(|latest| is_past(tag, latest))
    }

    /// Finds the idle execution with the given key, binds it to other memory, and returns its index.
    /// `None` if there is none that can restart.
    ///
    /// # Safety
    /// Same as for [`crate::collective::replay`].
    #[inline]
    pub(crate) unsafe fn awaken(
        &mut self,
        key: &CallKey,
        has_lists: impl Fn(&[i64]) -> bool,
        [send, recv]: [*mut u8; 2],
        is_meant: impl Fn(&CachedExecution) -> bool,
    ) -> Option<usize> {
        let generation = self.generation;
        let is_equal = |cached: &Option<Box<CachedExecution>>| {
            cached.as_ref().is_some_and(|cached| {
                cached.key.as_ref() == Some(key)
                    && cached.generation == generation
                    && is_meant(cached)
                    && has_lists(&cached.lists)
            })
        };
        // Most programs repeat their latest operation.
        if !self.idle_executions.get(self.latest).is_some_and(is_equal) {
            self.latest = self.idle_executions.iter().position(is_equal)?;
        }
        let place = self.latest;
        let cached = self.idle_executions[place].as_mut()?;
        // SAFETY: passed on.
        let ready = unsafe {
            cached.execution.restart(send, recv) || cached.compile() && cached.execution.restart(send, recv)
        };
        if ready { Some(place) } else { None }
    }
}
