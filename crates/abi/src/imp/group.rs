//! Groups (MPI-5 section 7.3).

use std::ffi::c_int;

use tutti_base::Result;
use tutti_core::group::Group as Members;

use crate::entry::Call;
use crate::generated::constants::MPI_GROUP_EMPTY;
use crate::kind::Group;
use crate::scope::{Array, HandleOut, In, Out};

/// The predefined groups.
pub fn predefined(number: usize) -> Option<Members> {
    (number == MPI_GROUP_EMPTY.bits()).then(Members::empty)
}

/// MPI_Group_size.
pub fn size(_call: &mut Call, group: In<Group>, size: Out<c_int>) -> Result<()> {
    size.set(group.get()?.size() as c_int)
}

/// MPI_Group_incl.
pub fn incl(
    _call: &mut Call,
    group: In<Group>,
    n: c_int,
    ranks: Array<c_int>,
    newgroup: HandleOut<Group>,
) -> Result<()> {
    let chosen = group.get()?.incl(ranks.slice(n.into())?)?;
    newgroup.create(chosen).map(drop)
}

/// MPI_Group_free.
pub fn free(_call: &mut Call, group: HandleOut<Group>) -> Result<()> {
    group.remove().map(drop)
}
