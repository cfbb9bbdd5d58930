//! Caches of the processor: dropping lines that another core will write.

/// Bytes of a cache line.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;

/// Returns true if `drop_lines` is known to save time when another core writes the lines next. It was
/// measured on AMD's EPYC (family 25) only, for cores of different last-level caches. There a core waits 25
/// ns before it can write a line that the other cache also holds. Writing 64 KiB takes 30 us, and 6 us
/// after the lines have been dropped, which takes 5 us.
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

/// Writes the lines of `bytes` at `address` back to memory and drops them from all caches. Their content
/// does not change.
///
/// # Safety
/// The processor can ([`can_drop_lines`]), and the memory can be read.
pub unsafe fn drop_lines(address: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        let (first, end) = (address.addr() / LINE * LINE, address.addr() + bytes);
        let lines = if bytes > 0 { first..end } else { 0..0 };
        for line in lines.step_by(LINE) {
            // SAFETY: the caller's promise. The first line may begin before the memory, but it holds its
            // first byte, so both lie in the same page.
            unsafe { core::arch::asm!("clflushopt [{}]", in(reg) line, options(nostack, preserves_flags)) };
        }
        // The fence orders later writes after the flushes.
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
