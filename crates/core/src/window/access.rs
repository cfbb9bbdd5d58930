//! The operations of origins (MPI-5 section 12.3): put, get, and accumulates in all their forms.

use tutti_base::{Error, ErrorClass, Result};
use tutti_data::{Datatype, Op, Reducer};

use super::memory::{self, Place, Spot, Update};
use super::{Flavor, Member, Window};
use crate::buffer::Buffer;
use crate::giant::Held;
use crate::process::Process;
use crate::request::RequestId;
use crate::special::PROC_NULL;

/// The target's side of an operation, as the user names it.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// Rank in the group of the window.
    pub rank: i32,
    /// In units of the target.
    pub displacement: i64,
    /// Number of items.
    pub count: u64,
    /// What they are.
    pub datatype: &'a Datatype,
}

/// An operation with a target that exists.
pub(super) struct Aim<'a> {
    pub rank: u32,
    pub member: &'a Member,
    pub spot: Spot<'a>,
}

/// The operators by which a type is found to be one that MPI_Compare_and_swap takes.
const BITWISE_OR: u32 = 0x29;
const LOGICAL_OR: u32 = 0x31;

impl Window {
    /// MPI_Put. The buffer may be used again when this returns.
    ///
    /// # Errors
    /// `Rank`, `RmaSync`, `RmaRange`, `Truncate`.
    #[inline]
    pub fn put(&self, held: &mut Held, process: &Process, origin: &Buffer, target: Target<'_>) -> Result<()> {
        let Some(aim) = self.aim(held, target)? else { return Ok(()) };
        fits(origin, &aim.spot)?;
        match &aim.member.place {
            Place::Here(base) => {
                base.buffer(&aim.spot)?.copy_from(origin);
                Ok(())
            }
            Place::Lent(window) => memory::put_lent(window, &aim.spot, origin),
            Place::Message => self.put_by_message(held, process, &aim, origin),
        }
    }

    /// MPI_Get and MPI_Rget: the request of one that is still under way.
    ///
    /// # Errors
    /// `Rank`, `RmaSync`, `RmaRange`, `Truncate`.
    #[inline]
    pub fn get(
        &self,
        held: &mut Held,
        process: &Process,
        origin: &Buffer,
        target: Target<'_>,
        by_request: bool,
    ) -> Result<RequestId> {
        let Some(aim) = self.aim(held, target)? else { return Ok(RequestId::DONE) };
        fits(origin, &aim.spot)?;
        match &aim.member.place {
            Place::Here(base) => {
                origin.copy_from(&base.buffer(&aim.spot)?);
            }
            Place::Lent(window) => memory::get_lent(window, &aim.spot, origin)?,
            Place::Message => return self.get_by_message(held, process, &aim, origin, by_request),
        }
        Ok(RequestId::DONE)
    }

    /// MPI_Accumulate, MPI_Get_accumulate, MPI_Fetch_and_op and their forms by request: the request of one that is still under
    /// way.
    ///
    /// # Errors
    /// `Rank`, `RmaSync`, `RmaRange`, `Truncate`; `Op` for an operator that is not predefined or does not apply to the type.
    #[inline]
    pub fn update(
        &self,
        held: &mut Held,
        process: &Process,
        update: Update<'_>,
        target: Target<'_>,
        by_request: bool,
    ) -> Result<RequestId> {
        let Some(aim) = self.aim(held, target)? else { return Ok(RequestId::DONE) };
        if aim.spot.bytes() == 0 {
            return Ok(RequestId::DONE);
        }
        let reducer = bind(update.op, target.datatype)?;
        update.origin.map_or(Ok(()), |origin| fits(origin, &aim.spot))?;
        update.result.map_or(Ok(()), |result| fits(result, &aim.spot))?;
        let station = aim.member.station.unwrap_or(0);
        match &aim.member.place {
            Place::Here(base) => {
                let target = base.buffer(&aim.spot)?;
                let station = self.station_of(station);
                memory::update_here(&target, &reducer, &update, |work| station.alone(self.looks, work));
            }
            Place::Lent(window) => {
                let packed = bind(update.op, basic(update.op, target.datatype)?)?;
                let station = self.station_of(station);
                memory::update_lent(window, &aim.spot, &packed, &update, |work| {
                    station.alone(self.looks, work)
                })?;
            }
            Place::Message => return self.update_by_message(held, process, &aim, &update, by_request),
        }
        Ok(RequestId::DONE)
    }

    /// MPI_Compare_and_swap.
    ///
    /// # Errors
    /// `Rank`, `RmaSync`, `RmaRange`; `Type` for a type that cannot be compared.
    pub fn swap(
        &self,
        held: &mut Held,
        process: &Process,
        [origin, compare, result]: [&Buffer; 3],
        target: Target<'_>,
    ) -> Result<()> {
        let applies = |code| Op::predefined(code).is_some_and(|op| op.check(target.datatype).is_ok());
        if !applies(BITWISE_OR) && !applies(LOGICAL_OR) {
            let reason = format!(
                "argument datatype is {:?}; it must be an integer, a logical or a byte type (MPI-5 section 12.3.4)",
                target.datatype
            );
            return Err(Error::new(ErrorClass::Type, reason));
        }
        let Some(aim) = self.aim(held, target)? else { return Ok(()) };
        let station = aim.member.station.unwrap_or(0);
        match &aim.member.place {
            Place::Here(base) => {
                let target = base.buffer(&aim.spot)?;
                let swap = || memory::swap_here(&target, compare, origin, result);
                self.station_of(station).alone(self.looks, swap);
                Ok(())
            }
            Place::Lent(window) => {
                let swap = || memory::swap_lent(window, &aim.spot, compare, origin, result);
                self.station_of(station).alone(self.looks, swap)
            }
            Place::Message => self.swap_by_message(held, process, &aim, [origin, compare, result]),
        }
    }

    /// Checks what the user named; `None` for `MPI_PROC_NULL`.
    #[inline]
    fn aim<'a>(&'a self, held: &Held, target: Target<'a>) -> Result<Option<Aim<'a>>> {
        if target.rank == PROC_NULL {
            return Ok(None);
        }
        let rank = self.member(target.rank, "target_rank")?;
        self.epochs.borrow_mut(held).access(rank)?;
        let member = &self.members[rank as usize];
        let Target { displacement, count, datatype, .. } = target;
        let offset = displacement.checked_mul(member.unit);
        let spot = offset.map(|offset| Spot { offset, count, datatype });
        let inside = |spot: &Spot<'_>| match datatype.span(count) {
            None => datatype.packed_bytes(count) == 0,
            Some((low, high)) if self.flavor == Flavor::Dynamic => {
                spot.offset.checked_add(low).is_some() && spot.offset.checked_add(high).is_some()
            }
            Some((low, high)) => {
                spot.offset.checked_add(low).is_some_and(|low| low >= 0)
                    && spot.offset.checked_add(high).is_some_and(|high| high as u64 <= member.bytes)
            }
        };
        match spot.filter(inside) {
            Some(spot) => Ok(Some(Aim { rank, member, spot })),
            None => Err(outside(target, member)),
        }
    }
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

/// Whether both sides have the same length, as their signatures must (MPI-5 section 12.3.1).
#[inline]
fn fits(origin: &Buffer, spot: &Spot<'_>) -> Result<()> {
    if origin.bytes() == spot.bytes() {
        return Ok(());
    }
    let reason = format!(
        "the origin's items have {} bytes, those of the target {}: both must have the same types",
        origin.bytes(),
        spot.bytes()
    );
    Err(Error::new(ErrorClass::Truncate, reason))
}

/// An operator for items of a target.
#[inline]
fn bind(op: &Op, datatype: &Datatype) -> Result<Reducer> {
    if op.code().is_none() {
        let reason = "argument op is an operation of the program; accumulates take predefined ones only";
        return Err(Error::new(ErrorClass::Op, reason));
    }
    op.bind(datatype)
}

/// The type of packed items: bytes, where an operator only moves them.
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
