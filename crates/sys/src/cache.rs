//! The caches of the processor, as far as a program can say something to them.

/// Bytes of a cache line.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;

/// Whether [`drop_lines`] is known to pay where another core's cache is far: measured on AMD's EPYC (family 25) only. There a core
/// waits 25 ns for each line that a core of another last-level cache holds too, before it can write it; 64 KiB take 30 us,
/// and 6 when they have been dropped, which takes 5.
pub fn can_drop_lines() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{__cpuid, __cpuid_count};
        let vendor = __cpuid(0);
        let is_amd = (vendor.ebx, vendor.edx, vendor.ecx) == (0x6874_7541, 0x6974_6e65, 0x444d_4163);
        // CLFLUSHOPT.
        is_amd && vendor.eax >= 7 && __cpuid_count(7, 0).ebx & 1 << 23 != 0
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Writes the lines of `bytes` at `address` back to memory and drops them from all caches. Their content stays what it is.
///
/// # Safety
/// The processor can ([`can_drop_lines`]), and the memory can be read.
pub unsafe fn drop_lines(address: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        let (first, end) = (address.addr() / LINE * LINE, address.addr() + bytes);
        let lines = if bytes > 0 { first..end } else { 0..0 };
        for line in lines.step_by(LINE) {
            // SAFETY: the caller's promise; a line that begins before the memory holds its first byte, so it lies in the same page.
            unsafe { core::arch::asm!("clflushopt [{}]", in(reg) line, options(nostack, preserves_flags)) };
        }
        // What is written next is ordered after it.
        // SAFETY: changes no state that the program sees.
        unsafe { core::arch::x86_64::_mm_sfence() };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (address, bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(skip: usize, bytes: usize) {
        let memory: Vec<u8> = (0..skip + bytes).map(|index| index as u8).collect();
        let expected = memory.clone();
        if can_drop_lines() {
            // SAFETY: within the memory.
            unsafe { drop_lines(memory.as_ptr().wrapping_add(skip), bytes) };
        }
        assert_eq!(memory, expected, "{skip} {bytes}");
    }

    #[test]
    fn what_is_dropped_stays_what_it_is() {
        for (skip, bytes) in [(0, 0), (0, 1), (1, 1), (63, 2), (5, 4096), (0, 65536), (13, 100_000)] {
            check(skip, bytes);
        }
    }
}
