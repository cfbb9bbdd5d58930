//! Functions beyond the standard, which `mpi-ext.h` declares: sums that are rounded once.
//!
//! # Safety
//! The wrapper passes the requirement on to the program that `values` holds so many items and `result` one.

use tutti_base::Result;
use tutti_core::collective::WaitContext;
use tutti_data::GlobalSum;

use crate::entry::Call;
use crate::handles::kind::{Comm, Datatype};
use crate::imp::collective::{block, intra};
use crate::imp::memory::{count_of, datatype, process};
use crate::scope::{Address, In};

/// Returns at all members the sum of all values of all members, rounded once (MPIX_Allsum). The number of
/// values may differ from member to member.
pub fn allsum(
    call: &mut Call,
    values: Address,
    count: i64,
    handle: In<Datatype>,
    result: Address,
    comm: In<Comm>,
) -> Result<()> {
    let comm = intra(comm)?;
    let mut sum = GlobalSum::new(datatype(handle)?)?;
    // Checks the buffers.
    block(values, count, handle)?;
    block(result, 1, handle)?;
    // SAFETY: see the module's Safety section.
    unsafe { sum.add(values.pointer(), count_of(count, handle)? as usize) };
    let mut words = sum.words();
    WaitContext::new(&mut call.held, process()?, comm).add_words(&mut words)?;
    sum.set_words(&words);
    // SAFETY: see the module's Safety section.
    unsafe { sum.write(result.pointer()) };
    Ok(())
}
