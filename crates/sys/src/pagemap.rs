//! Pages of a process that have content of their own (ioctl PAGEMAP_SCAN on /proc/PID/pagemap, Linux 6.7
//! and later). Older kernels offer the file itself, eight bytes a page. No privilege is needed for
//! processes that one may trace.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

const PAGE: u64 = 4096;
/// Maximum number of ranges that one call requests.
const RUNS: usize = 1024;
/// Number of entries of the file that are read at once.
const ENTRIES: usize = 8192;

/// Result of the ioctl: struct page_region of linux/fs.h.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

/// Argument of the ioctl: struct pm_scan_arg of linux/fs.h.
#[derive(Default)]
#[repr(C)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    regions_count: u64,
    max_pages: u64,
    inverted: u64,
    mask: u64,
    any_of: u64,
    returned: u64,
}

const PAGEMAP_SCAN: libc::c_ulong = 3 << 30 | (size_of::<Scan>() as libc::c_ulong) << 16 | 0x66 << 8 | 16;
const IS_FILE: u64 = 1 << 2;
const IS_PRESENT: u64 = 1 << 3;
const IS_SWAPPED: u64 = 1 << 4;
const IS_ZERO: u64 = 1 << 5;

/// Handle for queries about the pages of one process.
#[derive(Debug)]
pub struct Pages(File);

impl Pages {
    /// Opens the handle for a process.
    ///
    /// # Errors
    /// If there is no such process, or it may not be inspected.
    pub fn open(pid: i32) -> io::Result<Pages> {
        File::open(format!("/proc/{pid}/pagemap")).map(Pages)
    }

    /// Returns the ranges between two addresses whose pages are the process's own: neither untouched, nor
    /// those of a file.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn own(&self, start: u64, end: u64) -> io::Result<Vec<(u64, u64)>> {
        match self.scan(start, end) {
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOTTY | libc::EINVAL)) => {
                self.read(start, end)
            }
            result => result,
        }
    }

    fn scan(&self, start: u64, end: u64) -> io::Result<Vec<(u64, u64)>> {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        let mut found = vec![Region::default(); RUNS];
        let mut at = start;
        while at < end {
            let mut scan = Scan {
                size: size_of::<Scan>() as u64,
                start: at,
                end,
                regions: found.as_mut_ptr().addr() as u64,
                regions_count: RUNS as u64,
                inverted: IS_FILE | IS_ZERO,
                mask: IS_FILE | IS_ZERO,
                any_of: IS_PRESENT | IS_SWAPPED,
                ..Scan::default()
            };
            // SAFETY: the file is open, the structure of the stated size, the room for regions as long as it
            // says.
            let count = unsafe { libc::ioctl(self.0.as_raw_fd(), PAGEMAP_SCAN, &mut scan) };
            let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
            for region in &found[..count] {
                push(&mut runs, region.start, region.end);
            }
            if scan.walk_end <= at {
                break;
            }
            at = scan.walk_end;
        }
        Ok(runs)
    }

    fn read(&self, start: u64, end: u64) -> io::Result<Vec<(u64, u64)>> {
        let mut runs = Vec::new();
        let mut bytes = vec![0u8; ENTRIES * 8];
        let mut at = start;
        while at < end {
            let pages = ((end - at) / PAGE).min(ENTRIES as u64) as usize;
            self.0.read_exact_at(&mut bytes[..pages * 8], at / PAGE * 8)?;
            for (page, entry) in (0..).zip(bytes[..pages * 8].chunks_exact(8)) {
                let entry = u64::from_ne_bytes(entry.try_into().expect("chunks of eight"));
                // The page is present or swapped, and does not belong to a file.
                if entry >> 62 & 3 != 0 && entry >> 61 & 1 == 0 {
                    push(&mut runs, at + page * PAGE, at + (page + 1) * PAGE);
                }
            }
            at += pages as u64 * PAGE;
        }
        Ok(runs)
    }
}

fn push(runs: &mut Vec<(u64, u64)>, start: u64, end: u64) {
    match runs.last_mut() {
        Some(last) if last.1 == start => last.1 = end,
        _ => runs.push((start, end)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remap;

    #[test]
    fn touched_pages_are_found_by_both_ways() {
        let base = remap::map_private(16 * PAGE as usize).unwrap();
        let start = base.addr() as u64;
        for page in [1, 2, 7, 15] {
            // SAFETY: memory of the test.
            unsafe { base.add(page * PAGE as usize).write_volatile(1) };
        }
        let pages = Pages::open(std::process::id() as i32).unwrap();
        let at = |page: u64| start + page * PAGE;
        let expected = vec![(at(1), at(3)), (at(7), at(8)), (at(15), at(16))];
        assert_eq!(pages.own(start, at(16)).unwrap(), expected);
        assert_eq!(pages.read(start, at(16)).unwrap(), expected);
        // SAFETY: memory of the test that is used no more.
        unsafe { remap::unmap(base, 16 * PAGE as usize) };
    }
}
