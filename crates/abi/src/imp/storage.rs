//! Memory for the program (MPI-5 section 9.2): large pieces are shared with the other ranks of the node from
//! the start, so that collectives work in them in place.

use std::ptr::NonNull;

use tutti_base::{Error, ErrorClass, Result};
use tutti_core::process;

use crate::entry::Call;
use crate::handles::kind::Info;
use crate::imp::memory;
use crate::scope::{Address, In};

/// Default alignment of memory in bytes: a cache line.
const ALIGNMENT: usize = 64;
/// Size in bytes from which allocations are shared memory, in whole pages.
const SHARED_BYTES: usize = 32 << 10;
const PAGE_BYTES: usize = 4096;

/// Allocates memory (MPI_Alloc_mem). The info key `mpi_minimum_memory_alignment` is supported.
pub fn alloc_mem(call: &mut Call, size: i64, info: In<Info>, baseptr: Address) -> Result<()> {
    let wrong = || Error::new(ErrorClass::Arg, format!("argument size is {size}; it must not be negative"));
    let bytes = usize::try_from(size).map_err(|_| wrong())?;
    let wanted = info.optional()?.and_then(|info| {
        let info = info.borrow(&call.held);
        info.text("mpi_minimum_memory_alignment").and_then(|text| text.parse::<usize>().ok())
    });
    let alignment = wanted.filter(|wanted| wanted.is_power_of_two()).unwrap_or(ALIGNMENT).max(ALIGNMENT);
    if bytes >= SHARED_BYTES
        && alignment <= PAGE_BYTES
        && let Ok(process) = memory::process()
        && let Some(memory) = process.exposures.borrow_mut(&call.held).allocate(bytes as u64)
    {
        return baseptr.store(memory.as_ptr() as usize, "baseptr");
    }
    let mut memory = std::ptr::null_mut();
    // SAFETY: a place for the result; the alignment is a power of two and a multiple of a pointer's size.
    if unsafe { libc::posix_memalign(&raw mut memory, alignment, bytes.max(1)) } != 0 {
        return Err(Error::new(
            ErrorClass::NoMem,
            format!("argument size: there are no {size} bytes to give"),
        ));
    }
    baseptr.store(memory as usize, "baseptr")
}

/// Frees memory (MPI_Free_mem). It works after MPI_Finalize too, like Open MPI, as destructors of static
/// objects call it then.
pub fn free_mem(call: &mut Call, base: Address) -> Result<()> {
    let memory = base.pointer();
    if let Some(shared) = NonNull::new(memory.cast())
        && let Some(process) = process::started_ever()
    {
        // SAFETY: the caller vouches that nobody uses it any more.
        if unsafe { process.exposures.borrow_mut(&call.held).free(shared) } {
            return Ok(());
        }
    }
    // SAFETY: the caller vouches that it is null or came from MPI_Alloc_mem, where it was posix_memalign's.
    unsafe { libc::free(memory.cast()) };
    Ok(())
}
