//! Communication operations of origins (MPI-5 section 12.3): put, get, and accumulates in all their forms.

use std::sync::atomic::Ordering;

use tutti_base::{Error, ErrorClass, Result};
use tutti_data::{Datatype, Op, Reducer};

use super::memory::{self, PIECE_BYTES, RunUpdate, Spot, Update, WindowPlace};
use super::{Flavor, Member, Window};
use crate::buffer::{Buffer, ByteRun};
use crate::lanes::LaneGuard;
use crate::process::Process;
use crate::request::RequestId;
use crate::special::PROC_NULL;

/// The target's side of an operation, with the user's arguments.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// Rank in the group of the window.
    pub rank: i32,
    /// Displacement in units of the target.
    pub displacement: i64,
    /// Number of items at the target.
    pub count: u64,
    /// Datatype of one item.
    pub datatype: &'a Datatype,
}

/// Checked target of an operation.
pub(super) struct Aim<'a> {
    pub rank: u32,
    pub member: &'a Member,
    pub spot: Spot<'a>,
}

/// Operator bound to a type, kept for the next accumulate: programs repeat the same combinations.
#[derive(Debug)]
pub(super) struct Bound {
    op: u32,
    reducer: Reducer,
}

/// Length in bytes of the longest put that is left to its target. Up to it, two copies take no longer than a
/// system call.
const LOGGED_BYTES: u64 = 2048;

impl Bound {
    /// Returns the operator bound to the type; it is bound only if it differs from the kept one.
    #[inline(always)]
    fn to<'a>(
        kept: &'a mut Option<Bound>,
        op: &Op,
        datatype: &Datatype,
        strict: bool,
    ) -> Result<&'a Reducer> {
        let is_kept = kept
            .as_ref()
            .is_some_and(|bound| op.code() == Some(bound.op) && bound.reducer.datatype() == datatype);
        if !is_kept {
            *kept = Some(Bound { reducer: bind(op, datatype, strict)?, op: op.code().unwrap_or_default() });
        }
        Ok(&kept.as_ref().expect("it has just been put there").reducer)
    }
}

impl Window {
    /// Performs MPI_Put of contiguous memory to a mapped target, with equal types. Returns false if the
    /// target is not mapped or needs further checks; the caller then continues with [`Window::put`].
    ///
    /// # Errors
    /// The same as of [`Window::put`].
    #[inline(always)]
    pub fn put_run(&self, held: &LaneGuard, origin: ByteRun, target: Target<'_>) -> Result<bool> {
        let Some((run, _)) = self.near(held, &target, origin.bytes())? else { return Ok(false) };
        run.copy_from(origin);
        self.is_ordered.store(false, Ordering::Relaxed);
        self.polls.moved();
        Ok(true)
    }

    /// Performs MPI_Get of contiguous memory from a mapped target, with equal types. Returns false if the
    /// target is not mapped or needs further checks; the caller then continues with [`Window::get`].
    ///
    /// # Errors
    /// The same as of [`Window::get`].
    #[inline(always)]
    pub fn get_run(&self, held: &LaneGuard, origin: ByteRun, target: Target<'_>) -> Result<bool> {
        let Some((run, _)) = self.near(held, &target, origin.bytes())? else { return Ok(false) };
        origin.copy_from(run);
        self.has_read(target.rank as u32, target.displacement, Some(origin));
        Ok(true)
    }

    /// Performs an accumulate of a few items in a mapped target, with contiguous memory of `bytes` bytes on
    /// all sides. Returns false if it cannot; the caller then continues with [`Window::update`].
    ///
    /// # Errors
    /// The same as of [`Window::update`].
    #[inline(always)]
    pub fn update_run(
        &self,
        held: &LaneGuard,
        update: RunUpdate<'_>,
        target: Target<'_>,
        bytes: u64,
    ) -> Result<bool> {
        if bytes == 0 || bytes > PIECE_BYTES {
            return Ok(false);
        }
        let Some((run, member)) = self.near(held, &target, bytes)? else { return Ok(false) };
        let mut bound = self.bound.borrow_mut(held);
        let reducer = Bound::to(&mut bound, update.op, target.datatype, self.checks_types)?;
        let station = self.station_of(member.station.unwrap_or(0));
        memory::update_run((run, target.count), reducer, &update, station, self.looks);
        self.is_ordered.store(true, Ordering::Relaxed);
        self.has_read(target.rank as u32, target.displacement, update.result);
        Ok(true)
    }

    /// Notes an access for the detection of polling. `result` has the value that was read; None if the access
    /// wrote only.
    #[inline(always)]
    fn has_read(&self, rank: u32, displacement: i64, result: Option<ByteRun>) {
        match result.and_then(ByteRun::word) {
            Some(word) => {
                let window = std::ptr::from_ref(self) as u64;
                let place = window ^ u64::from(rank).rotate_right(20) ^ displacement.cast_unsigned();
                self.polls.read(place, word);
            }
            None => self.polls.moved(),
        }
    }

    /// Checks that an operation with a request may start: only in epochs of passive targets (MPI-5 section
    /// 12.3.5).
    ///
    /// # Errors
    /// `RmaSync` outside such an epoch.
    pub fn may_request(&self, held: &LaneGuard, target: i32, function: &str) -> Result<()> {
        if target == PROC_NULL { Ok(()) } else { self.epochs.borrow(held).passive(function) }
    }

    /// Performs MPI_Put. The buffer may be used again when this returns.
    ///
    /// # Errors
    /// `Rank`, `RmaSync`, `RmaRange`, `Truncate`.
    #[inline]
    pub fn put(
        &self,
        held: &mut LaneGuard,
        process: &Process,
        origin: &Buffer,
        target: Target<'_>,
    ) -> Result<()> {
        let Some(aim) = self.aim(held, target)? else { return Ok(()) };
        fits(origin, &aim.spot)?;
        self.is_ordered.store(false, Ordering::Relaxed);
        self.polls.moved();
        match aim.member.place() {
            WindowPlace::Here(base) => {
                base.buffer(&aim.spot)?.copy_from(origin);
                return Ok(());
            }
            _ if self.put_in_log(held, &aim, origin) => return Ok(()),
            WindowPlace::Lent(window) => match memory::put_lent(window, &aim.spot, origin) {
                Ok(()) => return Ok(()),
                Err(error) => self.turn_to_messages(process, aim.rank, error)?,
            },
            WindowPlace::Message => (),
        }
        self.put_by_message(held, process, &aim, origin)
    }

    /// Leaves a short put in the log of a target on this node whose epoch is that of MPI_Win_start. Returns
    /// false if the put does not qualify.
    fn put_in_log(&self, held: &LaneGuard, aim: &Aim<'_>, origin: &Buffer) -> bool {
        let (Some(station), Some(run)) = (aim.member.station, origin.user_run()) else { return false };
        let is_short = (1..=LOGGED_BYTES).contains(&run.bytes());
        // Items without gaps inside the window begin at a non-negative offset.
        is_short
            && aim.spot.datatype.dense_bytes(aim.spot.count).is_some()
            && self.epochs.borrow(held).is_started()
            && self.control.log(station, aim.spot.offset as u64, run.bytes() as usize, |data| run.pack(data))
    }

    /// Executes a put from the log of an origin.
    pub(super) fn store_own(&self, offset: u64, data: &[u8]) {
        let member = &self.members[self.rank() as usize];
        let inside = offset <= member.bytes && data.len() as u64 <= member.bytes - offset;
        assert!(inside, "an origin has looked whether its put is inside the window");
        self.own.store(offset, data);
    }

    /// Performs MPI_Get or MPI_Rget. Returns the request of the operation if it is not complete.
    ///
    /// # Errors
    /// `Rank`, `RmaSync`, `RmaRange`, `Truncate`.
    #[inline]
    pub fn get(
        &self,
        held: &mut LaneGuard,
        process: &Process,
        origin: &Buffer,
        target: Target<'_>,
        by_request: bool,
    ) -> Result<RequestId> {
        let Some(aim) = self.aim(held, target)? else { return Ok(RequestId::DONE_UNCANCELLABLE) };
        fits(origin, &aim.spot)?;
        match aim.member.place() {
            WindowPlace::Here(base) => {
                origin.copy_from(&base.buffer(&aim.spot)?);
                self.has_read(aim.rank, target.displacement, origin.user_run());
                return Ok(RequestId::DONE_UNCANCELLABLE);
            }
            WindowPlace::Lent(window) => match memory::get_lent(window, &aim.spot, origin) {
                Ok(()) => {
                    self.has_read(aim.rank, target.displacement, origin.user_run());
                    return Ok(RequestId::DONE_UNCANCELLABLE);
                }
                Err(error) => self.turn_to_messages(process, aim.rank, error)?,
            },
            WindowPlace::Message => (),
        }
        self.get_by_message(held, process, &aim, origin, by_request)
    }

    /// Performs MPI_Accumulate, MPI_Get_accumulate, MPI_Fetch_and_op or their forms with a request. Returns
    /// the request of the operation if it is not complete.
    ///
    /// # Errors
    /// `Rank`, `RmaSync`, `RmaRange`, `Truncate`; `Op` for an operator that is not predefined or does not
    /// apply to the type.
    #[inline]
    pub fn update(
        &self,
        held: &mut LaneGuard,
        process: &Process,
        update: Update<'_>,
        target: Target<'_>,
        by_request: bool,
    ) -> Result<RequestId> {
        let Some(mut aim) = self.aim(held, target)? else { return Ok(RequestId::DONE_UNCANCELLABLE) };
        if aim.spot.bytes() == 0 {
            return Ok(RequestId::DONE_UNCANCELLABLE);
        }
        update.origin.map_or(Ok(()), |origin| fits(origin, &aim.spot))?;
        update.result.map_or(Ok(()), |result| fits(result, &aim.spot))?;
        match aim.member.place() {
            WindowPlace::Here(base) => {
                let mut bound = self.bound.borrow_mut(held);
                let reducer = Bound::to(&mut bound, update.op, target.datatype, self.checks_types)?;
                let station = self.station_of(aim.member.station.unwrap_or(0));
                memory::update_here(*base, &aim.spot, reducer, &update, station, self.looks)?;
                self.has_read(aim.rank, target.displacement, update.result.and_then(Buffer::user_run));
                return Ok(RequestId::DONE_UNCANCELLABLE);
            }
            WindowPlace::Lent(window) => {
                bind(update.op, target.datatype, self.checks_types)?;
                let packed = bind(update.op, basic(update.op, target.datatype)?, false)?;
                let station = self.station_of(aim.member.station.unwrap_or(0));
                let alone = |work: &mut dyn FnMut() -> memory::Reached| station.alone(self.looks, work);
                match memory::update_lent(window, &aim.spot, &packed, &update, alone) {
                    Ok(()) => {
                        self.has_read(
                            aim.rank,
                            target.displacement,
                            update.result.and_then(Buffer::user_run),
                        );
                        return Ok(RequestId::DONE_UNCANCELLABLE);
                    }
                    Err(stopped) => {
                        self.turn_to_messages(process, aim.rank, stopped.error)?;
                        aim.spot.done = stopped.done;
                    }
                }
            }
            WindowPlace::Message => drop(bind(update.op, target.datatype, self.checks_types)?),
        }
        self.update_by_message(held, process, &aim, &update, by_request)
    }

    /// Performs MPI_Compare_and_swap on one item.
    ///
    /// # Errors
    /// `Rank`, `RmaSync`, `RmaRange`; `Type` for a type that cannot be compared.
    #[inline]
    pub fn swap(
        &self,
        held: &mut LaneGuard,
        process: &Process,
        [origin, compare, result]: [&Buffer; 3],
        target: Target<'_>,
    ) -> Result<()> {
        if !target.datatype.is_integral() || self.checks_types && target.datatype.is_char() {
            return Err(not_integral(target.datatype));
        }
        let Some(aim) = self.aim(held, target)? else { return Ok(()) };
        let station = aim.member.station.unwrap_or(0);
        match aim.member.place() {
            WindowPlace::Here(base) => {
                let own = base.buffer(&aim.spot)?;
                let swap = || memory::swap_here(&own, compare, origin, result);
                self.station_of(station).alone(self.looks, swap);
                self.has_read(aim.rank, target.displacement, result.user_run());
                return Ok(());
            }
            WindowPlace::Lent(window) => {
                let swap = || memory::swap_lent(window, &aim.spot, compare, origin, result);
                match self.station_of(station).alone(self.looks, swap) {
                    Ok(()) => {
                        self.has_read(aim.rank, target.displacement, result.user_run());
                        return Ok(());
                    }
                    Err(error) => self.turn_to_messages(process, aim.rank, error)?,
                }
            }
            WindowPlace::Message => (),
        }
        self.swap_by_message(held, process, &aim, [origin, compare, result])
    }

    /// Checks the user's arguments and the epoch. Returns None for `MPI_PROC_NULL`.
    #[inline(always)]
    fn aim<'a>(&'a self, held: &LaneGuard, target: Target<'a>) -> Result<Option<Aim<'a>>> {
        if target.rank == PROC_NULL {
            return Ok(None);
        }
        let rank = self.member(target.rank, "target_rank")?;
        self.epochs.borrow_mut(held).access(rank)?;
        let member = &self.members[rank as usize];
        match self.offset(member, &target) {
            Some(offset) => {
                let spot = Spot { offset, count: target.count, datatype: target.datatype, done: 0 };
                Ok(Some(Aim { rank, member, spot }))
            }
            None => Err(outside(target, member)),
        }
    }

    /// Returns the items of a target, which have `bytes` bytes without gaps, if they are mapped here.
    #[inline(always)]
    fn near(&self, held: &LaneGuard, target: &Target<'_>, bytes: u64) -> Result<Option<(ByteRun, &Member)>> {
        debug_assert_eq!(target.datatype.dense_bytes(target.count), Some(bytes));
        // A negative rank becomes a large unsigned number, so that no member is found for any invalid rank.
        let Some(member) = self.members.get(target.rank as u32 as usize) else { return Ok(None) };
        let WindowPlace::Here(base) = &member.place else { return Ok(None) };
        let offset = target.displacement.checked_mul(member.unit);
        let Some(offset) = offset.filter(|offset| is_within(member, *offset, bytes)) else { return Ok(None) };
        self.epochs.borrow_mut(held).access(target.rank as u32)?;
        Ok(Some((base.run(offset, bytes), member)))
    }

    /// Returns the offset of a target's items from its base in bytes, if they are inside its memory.
    #[inline(always)]
    fn offset(&self, member: &Member, target: &Target<'_>) -> Option<i64> {
        let offset = target.displacement.checked_mul(member.unit)?;
        let dense = target.datatype.dense_bytes(target.count);
        let inside = dense.is_some_and(|bytes| is_within(member, offset, bytes));
        (inside || self.is_inside(member, offset, target)).then_some(offset)
    }

    /// Returns true if the target's items are inside its memory. Items without bytes are always inside.
    fn is_inside(&self, member: &Member, offset: i64, target: &Target<'_>) -> bool {
        let Target { datatype, count, .. } = *target;
        match datatype.span(count) {
            None => datatype.packed_bytes(count) == 0,
            Some((low, high)) if self.flavor == Flavor::Dynamic => {
                offset.checked_add(low).is_some() && offset.checked_add(high).is_some()
            }
            Some((low, high)) => {
                offset.checked_add(low).is_some_and(|low| low >= 0)
                    && offset.checked_add(high).is_some_and(|high| high as u64 <= member.bytes)
            }
        }
    }
}

/// Returns true if `bytes` bytes from `offset` on are inside the memory of a member.
#[inline(always)]
fn is_within(member: &Member, offset: i64, bytes: u64) -> bool {
    offset >= 0 && offset.checked_add(bytes as i64).is_some_and(|end| end as u64 <= member.bytes)
}

#[cold]
fn outside(target: Target<'_>, member: &Member) -> Error {
    let Target { rank, displacement, count, datatype } = target;
    if displacement < 0 {
        let reason = format!("argument target_disp is {displacement}; it must not be negative");
        return Error::new(ErrorClass::Disp, reason);
    }
    let reason = format!(
        "arguments target_disp, target_count, target_datatype: {count} items of {datatype:?} at displacement \
         {displacement} (units of {} bytes) are not inside the {} bytes of the window at rank {rank}",
        member.unit, member.bytes
    );
    Error::new(ErrorClass::RmaRange, reason)
}

/// Checks that both sides have the same length, as their signatures must be equal (MPI-5 section 12.3.1).
#[inline(always)]
fn fits(origin: &Buffer, spot: &Spot<'_>) -> Result<()> {
    if origin.bytes() == spot.bytes() { Ok(()) } else { Err(unlike(origin, spot)) }
}

#[cold]
fn unlike(origin: &Buffer, spot: &Spot<'_>) -> Error {
    let reason = format!(
        "the origin's items have {} bytes, those of the target {}: both must have the same types",
        origin.bytes(),
        spot.bytes()
    );
    Error::new(ErrorClass::Truncate, reason)
}

#[cold]
fn not_integral(datatype: &Datatype) -> Error {
    let reason = format!(
        "argument datatype is {datatype:?}; it must be an integer, a logical or a byte type (MPI-5 section 12.3.4)"
    );
    Error::new(ErrorClass::Type, reason)
}

/// Binds an operator to the type of a target's items. `strict` applies the standard's rules to the letter.
fn bind(op: &Op, datatype: &Datatype, strict: bool) -> Result<Reducer> {
    if op.code().is_none() {
        let reason = "argument op is an operation of the program; accumulates take predefined ones only";
        return Err(Error::new(ErrorClass::Op, reason));
    }
    if strict {
        op.check_strictly(datatype)?;
    }
    op.bind(datatype)
}

/// Returns the type of packed items: bytes if the operator only moves them.
pub(super) fn basic<'a>(op: &Op, datatype: &'a Datatype) -> Result<&'a Datatype> {
    const BYTE: u32 = 0x247;
    let moves = matches!(op.name(), Some("MPI_REPLACE" | "MPI_NO_OP"));
    let found = if moves { Datatype::predefined(BYTE) } else { datatype.basic() };
    match found {
        Some(found) => Ok(found),
        None if datatype.is_predefined() => Ok(datatype),
        None => Err(Error::new(ErrorClass::Type, "argument target_datatype: its items are of several types")),
    }
}
