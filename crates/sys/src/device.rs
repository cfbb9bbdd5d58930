//! Detection of device (GPU) memory, by asking the device's driver.
//!
//! The driver (libcuda) is asked about a buffer before it is used. Memory of a device may fault, or it may
//! be accessible and still unusable for MPI here. A program without the driver pays one comparison for each
//! buffer: addresses above [`CHECKED_UP_TO`] are not checked. The replacement of dlopen
//! ([`crate::interpose`]) raises that limit. So a driver that the program loads later is found by the next
//! call of MPI.
//!
//! # Safety
//! The driver's functions have the types of its documentation; it stays loaded once it is there.

use std::ffi::{CStr, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use crate::{host_memory, interpose};

/// Highest address that is checked before it is used as a buffer: 1 (null and MPI_IN_PLACE), or all
/// addresses.
pub static CHECKED_UP_TO: AtomicUsize = AtomicUsize::new(usize::MAX);
/// Lowest value of [`CHECKED_UP_TO`].
const SENTINELS: usize = 1;
/// Number of unsuccessful searches for a driver after which the search stops. Loading that the program has
/// requested may take a while.
const PATIENCE: u32 = 1000;

/// Addresses of cuPointerGetAttributes and cuPointerGetAttribute; 0 if there is none.
static ASK_MANY: AtomicUsize = AtomicUsize::new(0);
static ASK_ONE: AtomicUsize = AtomicUsize::new(0);
static LOOKS: AtomicU32 = AtomicU32::new(0);

type AskMany = extern "C" fn(c_uint, *const c_int, *const *mut c_void, u64) -> c_int;
type AskOne = extern "C" fn(*mut c_void, c_int, u64) -> c_int;

/// CU_POINTER_ATTRIBUTE_MEMORY_TYPE and CU_POINTER_ATTRIBUTE_IS_MANAGED.
const MEMORY_TYPE: c_int = 2;
const IS_MANAGED: c_int = 8;
/// CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE and CU_MEMORYTYPE_ARRAY.
const HOST: c_uint = 1;
const DEVICE: c_uint = 2;
const ARRAY: c_uint = 3;
const LIBRARIES: [&CStr; 2] = [c"libcuda.so.1", c"libcuda.so"];

/// Kind of memory at an address, according to the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// Memory that no driver knows.
    Unknown,
    /// Memory of the host that a device can access: its pages must not be moved.
    Registered,
    /// Memory on the device itself.
    Device,
}

/// Returns true if an address must be checked by [`complaint`] before it is used.
#[inline(always)]
pub fn is_checked(address: usize) -> bool {
    address <= CHECKED_UP_TO.load(Ordering::Relaxed)
}

/// Returns the reason for which memory at `address` cannot be used, if it is device memory.
#[cold]
pub fn complaint(address: u64) -> Option<String> {
    let is_refused = has_driver() && address > SENTINELS as u64 && kind(address) == MemoryKind::Device;
    is_refused.then(|| format!("{address:#x} is memory of a CUDA device; {}", host_memory::ADVICE))
}

/// Looks for a driver among the objects that are loaded now.
pub fn begin() {
    find();
    if !knows_driver() {
        CHECKED_UP_TO.store(SENTINELS, Ordering::Relaxed);
    }
}

/// Returns true if a driver has been found so far.
pub fn knows_driver() -> bool {
    ASK_MANY.load(Ordering::Acquire) != 0 || ASK_ONE.load(Ordering::Acquire) != 0
}

/// Returns true if a driver is loaded. Searches again if an object was loaded since the last call.
pub fn has_driver() -> bool {
    if !is_checked(usize::MAX) || knows_driver() {
        return knows_driver();
    }
    let has_more = interpose::renew();
    find();
    // Relaxed: one search more or less does no harm.
    let looks = LOOKS.fetch_add(1, Ordering::Relaxed);
    if !knows_driver() && (has_more || looks >= PATIENCE) {
        LOOKS.store(0, Ordering::Relaxed);
        CHECKED_UP_TO.store(SENTINELS, Ordering::Relaxed);
    }
    knows_driver()
}

fn find() {
    // SAFETY: looks names up in libraries that are loaded; the reference to one that is found is kept.
    unsafe {
        let open = |name: &&CStr| libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        let library = LIBRARIES.iter().map(open).find(|library| !library.is_null());
        let library = library.unwrap_or(libc::RTLD_DEFAULT);
        let name = |name: &CStr| libc::dlsym(library, name.as_ptr()).expose_provenance();
        ASK_ONE.store(name(c"cuPointerGetAttribute"), Ordering::Release);
        ASK_MANY.store(name(c"cuPointerGetAttributes"), Ordering::Release);
    }
}

/// Asks the driver about the memory at an address.
pub fn kind(address: u64) -> MemoryKind {
    let (mut memory_type, mut is_managed): (c_uint, c_uint) = (0, 0);
    let (many, one) = (ASK_MANY.load(Ordering::Acquire), ASK_ONE.load(Ordering::Acquire));
    if many != 0 {
        let places = [(&raw mut memory_type).cast(), (&raw mut is_managed).cast()];
        let function: *const () = std::ptr::with_exposed_provenance(many);
        // SAFETY: the module's Safety section; both places have room for a word.
        let ask: AskMany = unsafe { std::mem::transmute(function) };
        if ask(2, [MEMORY_TYPE, IS_MANAGED].as_ptr(), places.as_ptr(), address) != 0 {
            return MemoryKind::Unknown;
        }
    } else if one != 0 {
        let function: *const () = std::ptr::with_exposed_provenance(one);
        // SAFETY: as above.
        let ask: AskOne = unsafe { std::mem::transmute(function) };
        if ask((&raw mut memory_type).cast(), MEMORY_TYPE, address) != 0 {
            return MemoryKind::Unknown;
        }
        ask((&raw mut is_managed).cast(), IS_MANAGED, address);
    }
    match memory_type {
        // Managed memory is accessible to the processor too; its driver moves its pages.
        DEVICE | HOST if is_managed & 0xff != 0 => MemoryKind::Registered,
        DEVICE | ARRAY => MemoryKind::Device,
        HOST => MemoryKind::Registered,
        _ => MemoryKind::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_driver_nothing_is_refused_and_nothing_is_looked_at_any_more() {
        let here = 0u8;
        for _ in 0..=PATIENCE + 1 {
            assert_eq!(complaint(&raw const here as u64), None);
        }
        assert!(is_checked(0) && is_checked(1));
        assert!(!is_checked(&raw const here as usize) && !has_driver());
        assert_eq!(kind(&raw const here as u64), MemoryKind::Unknown);
    }
}
