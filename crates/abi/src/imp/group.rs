//! Groups (MPI-5 section 7.3).

use std::ffi::c_int;

use tutti_base::{Error, ErrorClass, Rank, Result};
use tutti_core::group::{Comparison, Group as Members};

use crate::entry::{At, Call};
use crate::generated::constants::{
    MPI_GROUP_EMPTY, MPI_IDENT, MPI_PROC_NULL, MPI_SIMILAR, MPI_UNDEFINED, MPI_UNEQUAL,
};
use crate::handles::kind::Group;
use crate::imp::memory::process;
use crate::scope::{Array, ArrayOut, HandleOut, In, Out};

/// Returns the predefined group with this number.
pub fn predefined(number: usize) -> Option<Members> {
    (number == MPI_GROUP_EMPTY.bits()).then(Members::empty)
}

/// Returns a new group, or `MPI_GROUP_EMPTY` if it has no members.
pub fn give(newgroup: HandleOut<Group>, members: Members) -> Result<()> {
    if members.is_empty() {
        return newgroup.set(MPI_GROUP_EMPTY);
    }
    newgroup.create(members).map(drop)
}

/// Returns two groups of a call, which must belong to one session, or to none. If the first belongs to none,
/// the second determines the error handler.
fn both<'s>(
    call: &mut Call,
    group1: In<'s, Group>,
    group2: In<'s, Group>,
) -> Result<(&'s Members, &'s Members)> {
    let one = group1.get().inspect_err(|_| call.at = At::Group(group2.raw()))?;
    let other = group2.get()?;
    one.check_origin(other, ErrorClass::Group, "group1 and group2")?;
    Ok((one, other))
}

/// Returns a rank as the C interface returns it.
fn rank_or_undefined(rank: Option<Rank>) -> c_int {
    rank.map_or(MPI_UNDEFINED, |rank| rank.0 as c_int)
}

/// Returns the constant for how two groups or communicators relate.
fn comparison(comparison: Comparison) -> c_int {
    match comparison {
        Comparison::Identical => MPI_IDENT,
        Comparison::Similar => MPI_SIMILAR,
        Comparison::Unequal => MPI_UNEQUAL,
    }
}

/// Returns the number of members of a group (MPI_Group_size).
pub fn size(_call: &mut Call, group: In<Group>, size: Out<c_int>) -> Result<()> {
    size.set(group.get()?.size() as c_int)
}

/// Returns the caller's rank in a group (MPI_Group_rank).
pub fn rank(_call: &mut Call, group: In<Group>, rank: Out<c_int>) -> Result<()> {
    let group = group.get()?;
    rank.set(rank_or_undefined(group.rank_of(process()?.rank)))
}

/// Translates ranks of one group to ranks of another (MPI_Group_translate_ranks).
pub fn translate_ranks(
    call: &mut Call,
    group1: In<Group>,
    n: c_int,
    ranks1: Array<c_int>,
    group2: In<Group>,
    ranks2: ArrayOut<c_int>,
) -> Result<()> {
    let (from, to) = both(call, group1, group2)?;
    let translated = ranks2.slice(n.into())?;
    for (index, (rank, place)) in ranks1.slice(n.into())?.iter().zip(translated).enumerate() {
        if *rank == MPI_PROC_NULL {
            *place = MPI_PROC_NULL;
            continue;
        }
        let member = u32::try_from(*rank).ok().and_then(|rank| from.get(Rank(rank))).ok_or_else(|| {
            let size = from.size();
            let reason =
                format!("argument ranks1[{index}] is {rank}, not a rank of a group of {size} processes");
            Error::new(ErrorClass::Rank, reason)
        })?;
        *place = rank_or_undefined(to.rank_of(member));
    }
    Ok(())
}

/// Compares members and order of two groups (MPI_Group_compare).
pub fn compare(call: &mut Call, group1: In<Group>, group2: In<Group>, result: Out<c_int>) -> Result<()> {
    let (one, other) = both(call, group1, group2)?;
    result.set(comparison(one.compare(other)))
}

/// Returns the union of two groups (MPI_Group_union).
pub fn union(
    call: &mut Call,
    group1: In<Group>,
    group2: In<Group>,
    newgroup: HandleOut<Group>,
) -> Result<()> {
    let (one, other) = both(call, group1, group2)?;
    give(newgroup, one.union(other))
}

/// Returns the intersection of two groups (MPI_Group_intersection).
pub fn intersection(
    call: &mut Call,
    group1: In<Group>,
    group2: In<Group>,
    newgroup: HandleOut<Group>,
) -> Result<()> {
    let (one, other) = both(call, group1, group2)?;
    give(newgroup, one.intersection(other))
}

/// Returns the members of one group that are missing in another (MPI_Group_difference).
pub fn difference(
    call: &mut Call,
    group1: In<Group>,
    group2: In<Group>,
    newgroup: HandleOut<Group>,
) -> Result<()> {
    let (one, other) = both(call, group1, group2)?;
    give(newgroup, one.difference(other))
}

/// Returns a group of the listed ranks (MPI_Group_incl).
pub fn incl(
    _call: &mut Call,
    group: In<Group>,
    n: c_int,
    ranks: Array<c_int>,
    newgroup: HandleOut<Group>,
) -> Result<()> {
    give(newgroup, group.get()?.incl(ranks.slice(n.into())?)?)
}

/// Returns a group without the listed ranks (MPI_Group_excl).
pub fn excl(
    _call: &mut Call,
    group: In<Group>,
    n: c_int,
    ranks: Array<c_int>,
    newgroup: HandleOut<Group>,
) -> Result<()> {
    give(newgroup, group.get()?.excl(ranks.slice(n.into())?)?)
}

/// Returns a group of the ranks in ranges (MPI_Group_range_incl).
pub fn range_incl(
    _call: &mut Call,
    group: In<Group>,
    n: c_int,
    ranges: Array<[c_int; 3]>,
    newgroup: HandleOut<Group>,
) -> Result<()> {
    give(newgroup, group.get()?.range_incl(ranges.slice(n.into())?)?)
}

/// Returns a group without the ranks in ranges (MPI_Group_range_excl).
pub fn range_excl(
    _call: &mut Call,
    group: In<Group>,
    n: c_int,
    ranges: Array<[c_int; 3]>,
    newgroup: HandleOut<Group>,
) -> Result<()> {
    give(newgroup, group.get()?.range_excl(ranges.slice(n.into())?)?)
}

/// Frees a group (MPI_Group_free). For `MPI_GROUP_EMPTY`, only the handle becomes null.
pub fn free(_call: &mut Call, group: HandleOut<Group>) -> Result<()> {
    if group.input()?.raw() == MPI_GROUP_EMPTY {
        return group.set_null();
    }
    group.remove().map(drop)
}
