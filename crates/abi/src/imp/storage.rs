//! Memory for the program (MPI-5 section 9.2).

use tutti_base::{Error, ErrorClass, Result};

use crate::entry::Call;
use crate::kind::Info;
use crate::scope::{Address, In};

/// Alignment of memory where the program does not ask for more: a cache line.
const ALIGNMENT: usize = 64;

/// MPI_Alloc_mem. The info key `mpi_minimum_memory_alignment` is heard.
pub fn alloc_mem(call: &mut Call, size: i64, info: In<Info>, baseptr: Address) -> Result<()> {
    let wrong = || Error::new(ErrorClass::Arg, format!("argument size is {size}; it must not be negative"));
    let bytes = usize::try_from(size).map_err(|_| wrong())?;
    let wanted = info.optional()?.and_then(|info| {
        let info = info.borrow(&call.held);
        info.text("mpi_minimum_memory_alignment").and_then(|text| text.parse::<usize>().ok())
    });
    let alignment = wanted.filter(|wanted| wanted.is_power_of_two()).unwrap_or(ALIGNMENT).max(ALIGNMENT);
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

/// MPI_Free_mem.
pub fn free_mem(_call: &mut Call, base: Address) -> Result<()> {
    // SAFETY: the caller vouches that it is null or came from MPI_Alloc_mem, which is posix_memalign.
    unsafe { libc::free(base.pointer().cast()) };
    Ok(())
}
