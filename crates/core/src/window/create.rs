//! Creation and freeing of windows (MPI-5 section 12.2).
//!
//! One allgather distributes a `Card` of each member: the size and location of its memory. Before it, the
//! first member of each node has taken a slot of the job object. The slot contains the stations of the node's
//! members and the memory that is allocated with the window.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicUsize};

use tutti_base::config::OneSided;
use tutti_base::{Error, ErrorClass, Result};
use tutti_sys::job::Slot;
use tutti_sys::this_process;
use tutti_transport::exposure::Record;
use tutti_transport::window::Control;

use super::memory::{Base, WindowPlace, lend, of_process, open};
use super::polls::Polls;
use super::remote::Remote;
use super::{Counts, Facts, Flavor, Member, UNIFIED, Window};
use crate::attributes::Attributes;
use crate::collective::WaitContext;
use crate::communicator::Communicator;
use crate::constructors::create;
use crate::error_handler::ErrorHandler;
use crate::hints::{self, Hints};
use crate::info::Info;
use crate::lanes::{FirstLaneCell, LaneGuard};
use crate::names::ObjectName;
use crate::process::Process;

use super::epoch::Epochs;

/// Memory of this process for a new window.
#[derive(Clone, Copy, Debug)]
pub struct WindowPart {
    /// Start of the memory; unused if it is allocated with the window.
    pub base: Base,
    /// Length of the memory in bytes.
    pub bytes: u64,
    /// Displacement unit in bytes.
    pub unit: i64,
}

/// Data about a member's memory that all members exchange.
#[derive(Clone, Copy, Debug, Default)]
struct Card {
    bytes: u64,
    unit: i64,
    flavor: u64,
    /// Number of the slot taken by the first member of a node; 0 if none was available.
    slot: u64,
    /// True if memory allocated with the window may have gaps between the members.
    gaps: bool,
    /// Alignment of memory allocated with the window, a power of two.
    alignment: u64,
    /// True if other processes of the node can reach memory that the program provides.
    reach: bool,
    record: Record,
}

const WORDS: usize = 7 + Record::WORDS;
const PAGE_BYTES: u64 = 4096;

impl Card {
    fn encode(&self) -> Vec<u8> {
        let first = [
            self.bytes,
            self.unit.cast_unsigned(),
            self.flavor,
            self.slot,
            self.gaps.into(),
            self.alignment,
            self.reach.into(),
        ];
        first.into_iter().chain(self.record.words()).flat_map(u64::to_le_bytes).collect()
    }

    fn decode(bytes: &[u8]) -> Card {
        let mut words = [0; WORDS];
        for (word, eight) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(eight.try_into().expect("chunks of eight"));
        }
        let [bytes, unit, flavor, slot, gaps, alignment, reach, record @ ..] = words;
        let (gaps, reach) = (gaps != 0, reach != 0);
        Card {
            bytes,
            unit: unit.cast_signed(),
            flavor,
            slot,
            gaps,
            alignment,
            reach,
            record: Record::from_words(record).expect("a member of the window has written it"),
        }
    }
}

/// Outcome at a member, the best first.
#[derive(Clone, Copy)]
enum End {
    /// The member reaches the memory of all others by itself.
    Made = 0,
    /// The member has to send messages to some others.
    WithMessages = 1,
    Failed = 2,
}

/// Members that share memory with this one.
struct Near {
    /// Ranks of these members in the window.
    ranks: Vec<u32>,
    /// Ranks of these members on the node.
    locals: Vec<u32>,
    /// Index of this process among them.
    me: u32,
}

impl Near {
    /// Returns the members that share memory with this one; only this process if messages are forced.
    fn of(process: &Process, comm: &Arc<Communicator>, flavor: Flavor) -> Near {
        let alone = process.config.memory.one_sided == OneSided::Messages && flavor != Flavor::Shared;
        let mut near = Near { ranks: Vec::new(), locals: Vec::new(), me: 0 };
        for (rank, world) in (0..).zip(comm.group().iter()) {
            let is_me = world == process.rank;
            let Some(local) = process.local_rank(world).filter(|_| is_me || !alone) else { continue };
            if is_me {
                near.me = near.ranks.len() as u32;
            }
            near.ranks.push(rank);
            near.locals.push(local);
        }
        near
    }
}

/// Returns the offsets of the members' memory in the slot of a node, and the end. The stations come first.
/// With `gaps` the memory of every member is aligned, otherwise that of the first one.
fn layout(
    members: u32,
    has_logs: bool,
    sizes: &[u64],
    (gaps, alignment): (bool, u64),
) -> Option<(Vec<u64>, u64)> {
    let mut end = Control::bytes(members, has_logs).checked_next_multiple_of(alignment)?;
    let mut places = Vec::with_capacity(sizes.len());
    for bytes in sizes {
        places.push(end);
        end = end.checked_add(*bytes)?;
        if gaps {
            end = end.checked_next_multiple_of(alignment)?;
        }
    }
    // A member without memory at the end still needs an address.
    Some((places, end.checked_add(1)?))
}

/// Creates a window of any kind (MPI_Win_create and others). Collective over `comm`.
///
/// # Errors
/// `Comm` for an intercommunicator, `RmaShared` for members that cannot share memory, `NoMem`; `NotSame` if
/// members create windows of different kinds.
pub fn create(
    held: &mut LaneGuard,
    process: &Process,
    comm: &Arc<Communicator>,
    flavor: Flavor,
    part: WindowPart,
    info: &Info,
) -> Result<Arc<Window>> {
    if comm.inter().is_some() {
        return Err(Error::new(ErrorClass::Comm, "argument comm is an intercommunicator"));
    }
    let group = comm.group().clone();
    let own = create::create(held, process, comm, &group)?;
    let own = own.expect("all members are in the group");
    let near = Near::of(process, comm, flavor);
    let slot = if near.me == 0 { Slot::take(&process.job).ok() } else { None };
    let is_allocated = matches!(flavor, Flavor::Allocate | Flavor::Shared);
    let hints = Hints::with_info(hints::of_windows(is_allocated), info);
    let (card, loan) = card(held, process, flavor, part, &near, slot.as_ref(), &hints);
    let all = WaitContext::new(held, process, comm).allgather_bytes(&card.encode())?;
    let cards: Vec<Card> = all.chunks_exact(WORDS * 8).map(Card::decode).collect();
    check(process, comm, flavor, &cards, &near)?;
    let made = make(held, process, own, flavor, part, hints, near, slot, loan, &cards);
    let end = match &made {
        Ok(window) if window.sends_messages() => End::WithMessages,
        Ok(_) => End::Made,
        Err(_) => End::Failed,
    };
    // The window exists at all members or at none.
    let worst = WaitContext::new(held, process, comm).maximum(end as u64)?;
    let window = Arc::new(made?);
    if worst == End::Failed as u64 {
        return Err(Error::new(ErrorClass::NoMem, "another member could not map the memory of the window"));
    }
    if worst == End::WithMessages as u64 || window.lends() {
        window.begin_service(held, process);
    }
    Ok(window)
}

/// Returns the data about this process's memory, and the record of memory that it exposes.
fn card(
    held: &LaneGuard,
    process: &Process,
    flavor: Flavor,
    part: WindowPart,
    near: &Near,
    slot: Option<&Slot>,
    hints: &Hints,
) -> (Card, Option<Record>) {
    let mut exposures = process.exposures.borrow_mut(held);
    let reach = near.ranks.len() > 1
        && exposures.available().is_ok()
        && matches!(flavor, Flavor::Create | Flavor::Dynamic);
    let loan = (reach && flavor == Flavor::Create && part.bytes > 0)
        .then(|| lend(&mut exposures, part.base, part.bytes));
    let card = Card {
        bytes: part.bytes,
        unit: part.unit,
        flavor: flavor as u64,
        slot: slot.map_or(0, |slot| slot.number().into()),
        gaps: flavor == Flavor::Allocate || hints.value(hints::NONCONTIGUOUS) == Some("true"),
        alignment: hints.value(hints::ALIGNMENT).and_then(|bytes| bytes.parse().ok()).unwrap_or(1),
        reach,
        record: loan.unwrap_or_default(),
    };
    (card, loan)
}

/// Checks the exchanged data. All members get the same result.
fn check(
    process: &Process,
    comm: &Arc<Communicator>,
    flavor: Flavor,
    cards: &[Card],
    near: &Near,
) -> Result<()> {
    if let Some(rank) = cards.iter().position(|card| card.flavor != flavor as u64) {
        let reason = format!("rank {rank} makes a window of another kind in the same place");
        return Err(Error::new(ErrorClass::NotSame, reason));
    }
    if flavor == Flavor::Shared && near.ranks.len() < cards.len() {
        let far = comm.group().iter().find(|world| process.local_rank(*world).is_none());
        let far = far.map_or(0, |world| world.0);
        let reason = format!(
            "argument comm: rank {far} of the world is on another host or of another job; split it by MPI_COMM_TYPE_SHARED first"
        );
        return Err(Error::new(ErrorClass::RmaShared, reason));
    }
    if cards[near.ranks[0] as usize].slot == 0 {
        return Err(no_memory(this_process::file_limit()));
    }
    Ok(())
}

/// Maps the shared memory of the node and builds the window.
#[allow(clippy::too_many_arguments, reason = "the parts of a window, each made elsewhere")]
fn make(
    held: &LaneGuard,
    process: &Process,
    comm: Arc<Communicator>,
    flavor: Flavor,
    part: WindowPart,
    hints: Hints,
    near: Near,
    slot: Option<Slot>,
    loan: Option<Record>,
    cards: &[Card],
) -> Result<Window> {
    let allocates = matches!(flavor, Flavor::Allocate | Flavor::Shared);
    let close = |rank: &u32| &cards[*rank as usize];
    let sizes: Vec<u64> =
        near.ranks.iter().map(|rank| if allocates { close(rank).bytes } else { 0 }).collect();
    let gaps = near.ranks.iter().all(|rank| close(rank).gaps);
    let alignment = near.ranks.iter().map(|rank| close(rank).alignment).max().unwrap_or(1).max(PAGE_BYTES);
    let stations = near.ranks.len() as u32;
    // The memory attached to a dynamic window is known at its target only.
    let has_logs = flavor == Flavor::Create && stations > 1;
    let too_large = || Error::new(ErrorClass::NoMem, "argument size: the memory of all members does not fit");
    let (places, end) = layout(stations, has_logs, &sizes, (gaps, alignment)).ok_or_else(too_large)?;
    let number = close(&near.ranks[0]).slot as u32;
    let mapping = process.job.map_slot_aligned(number, end, alignment);
    let mapping = mapping.map_err(|error| {
        Error::new(ErrorClass::NoMem, format!("the memory of the window cannot be mapped: {error}"))
    })?;
    let base = |station: usize| Base::mapped(&mapping, places[station]);
    let own = if allocates { base(near.me as usize) } else { part.base };
    let members = members(held, process, flavor, &near, cards, own, base);
    let header = process.job.header();
    let crowded = header.local_ranks > header.processors;
    let facts = Facts {
        base: own.address(),
        size: AtomicI64::new(part.bytes as i64),
        unit: AtomicI32::new(part.unit as i32),
        flavor: AtomicI32::new(flavor as i32),
        model: AtomicI32::new(UNIFIED),
    };
    Ok(Window {
        flavor,
        members: members.into(),
        control: Control::new(mapping, stations, has_logs),
        station: near.me,
        near: near.locals.into(),
        looks: process.waiting.limits.lock_looks(),
        checks_types: process.config.diagnosis.check_types,
        own,
        slot: FirstLaneCell::new(slot),
        loan: FirstLaneCell::new(loan),
        epochs: FirstLaneCell::new(Epochs::default()),
        counts: FirstLaneCell::new(Counts::default()),
        remote: FirstLaneCell::new(Remote::default()),
        is_ordered: AtomicBool::new(false),
        polls: Polls::new(crowded),
        meetings: FirstLaneCell::new(0),
        bound: FirstLaneCell::new(None),
        attached: FirstLaneCell::new(Vec::new()),
        is_at_work: AtomicBool::new(false),
        handle: AtomicUsize::new(0),
        facts,
        attributes: Attributes::default(),
        name: FirstLaneCell::new(ObjectName::EMPTY),
        error_handler: FirstLaneCell::new(ErrorHandler::Fatal),
        hints: FirstLaneCell::new(hints),
        comm,
    })
}

/// Returns the error of a window without memory. `limit` is the process's limit for the length of files, if
/// any.
fn no_memory(limit: Option<u64>) -> Error {
    let reason = "the node has no shared memory for the window";
    let limit =
        limit.map(|bytes| format!("; files may have {bytes} bytes here (ulimit -f), and it lies in one"));
    Error::new(ErrorClass::NoMem, format!("{reason}{}", limit.unwrap_or_default()))
}

/// Returns the location of each member's memory. `base` returns memory that was allocated on this node, by
/// station.
#[allow(clippy::too_many_arguments, reason = "as for `make`")]
fn members(
    held: &LaneGuard,
    process: &Process,
    flavor: Flavor,
    near: &Near,
    cards: &[Card],
    own: Base,
    base: impl Fn(usize) -> Base,
) -> Vec<Member> {
    let unknown = |card: &Card| Member {
        place: WindowPlace::Message,
        station: None,
        bytes: card.bytes,
        unit: card.unit,
        refused: AtomicBool::new(false),
    };
    let mut members: Vec<Member> = cards.iter().map(unknown).collect();
    let mut exposures = process.exposures.borrow_mut(held);
    for (station, rank) in near.ranks.iter().enumerate() {
        let (member, card) = (&mut members[*rank as usize], &cards[*rank as usize]);
        member.station = Some(station as u32);
        let local = near.locals[station];
        member.place = match flavor {
            _ if station == near.me as usize => WindowPlace::Here(own),
            Flavor::Allocate | Flavor::Shared => WindowPlace::Here(base(station)),
            Flavor::Dynamic if card.reach => of_process(&mut exposures, local),
            Flavor::Create if card.reach => open(&mut exposures, local, &card.record),
            _ => WindowPlace::Message,
        };
    }
    members
}

impl Window {
    /// Returns true if some operations of this window need active messages.
    fn sends_messages(&self) -> bool {
        self.members
            .iter()
            .any(|member| matches!(member.place, WindowPlace::Message) || member.station.is_none())
    }

    /// Returns true if some memory is reached by system calls, which the system may refuse later.
    fn lends(&self) -> bool {
        self.members.len() > 1 && matches!(self.flavor, Flavor::Create | Flavor::Dynamic)
    }

    /// Frees the window (MPI_Win_free). Collective.
    ///
    /// # Errors
    /// `RmaSync` in an epoch, or the error of an attribute's delete callback. The window then remains.
    pub fn free(&self, held: &mut LaneGuard, process: &Process) -> Result<()> {
        self.epochs.borrow(held).free()?;
        self.attributes.delete_all(held, self.handle())?;
        self.flush_messages(held, process, None, "MPI_Win_free");
        self.meet(held, process, true)?;
        self.end_service(held, process);
        if let Some(loan) = self.loan.borrow_mut(held).take() {
            process.exposures.borrow_mut(held).withdraw(&loan);
        }
        self.comm.free(held, process)?;
        // Other members may still have it mapped, but no longer use it.
        drop(self.slot.borrow_mut(held).take());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other_or_begin_with_a_page() {
        let first = Control::bytes(3, false).next_multiple_of(4096);
        let check = |gaps, expected: [u64; 3], end| {
            let (places, found) = layout(3, false, &[10, 0, 5000], (gaps, 4096)).unwrap();
            assert_eq!((places, found), (expected.map(|place| place + first).to_vec(), first + end + 1));
        };
        check(false, [0, 10, 10], 5010);
        check(true, [0, 4096, 4096], 4096 + 8192);
        assert!(layout(2, true, &[u64::MAX, 1], (false, 4096)).is_none());
        let (places, _) = layout(2, false, &[10, 10], (true, 1 << 20)).unwrap();
        assert_eq!(places, [1 << 20, 2 << 20]);
    }

    #[test]
    fn a_card_survives() {
        let card =
            Card { bytes: 5, unit: -1, flavor: 311, slot: 9, gaps: true, alignment: 64, ..Card::default() };
        let bytes = card.encode();
        assert_eq!((bytes.len(), Card::decode(&bytes).encode()), (WORDS * 8, bytes));
    }
}
