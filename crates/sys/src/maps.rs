//! Queries for the mappings of this process (ioctl PROCMAP_QUERY on /proc/self/maps, Linux 6.11 and later).
//! A query takes about a microsecond, whatever the size of the process.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Length of the part of a mapping's name that is read, in bytes.
const NAME_BYTES: usize = 64;

/// Range of addresses with equal mapping attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// First address of the range.
    pub start: u64,
    /// One past the last address.
    pub end: u64,
    /// True if the range may be read.
    pub readable: bool,
    /// True if the range may be written.
    pub writable: bool,
    /// True if the range may be executed.
    pub executable: bool,
    /// True if stores are visible in other mappings of the object.
    pub shared: bool,
    /// Offset in the object at which the range begins.
    pub offset: u64,
    /// Inode of the object; 0 for private anonymous memory.
    pub inode: u64,
    /// Device of the object: major and minor number.
    pub device: (u32, u32),
    /// Size of a page in bytes (more than 4096 for hugetlbfs).
    pub page_bytes: u64,
}

/// Argument of the ioctl: struct procmap_query of linux/fs.h.
#[derive(Default)]
#[repr(C)]
struct Query {
    size: u64,
    flags: u64,
    address: u64,
    start: u64,
    end: u64,
    permissions: u64,
    page_bytes: u64,
    offset: u64,
    inode: u64,
    device_major: u32,
    device_minor: u32,
    name_bytes: u32,
    build_id_bytes: u32,
    name_address: u64,
    build_id_address: u64,
}

/// Number of the ioctl: _IOWR('f', 17, struct procmap_query).
const PROCMAP_QUERY: libc::c_ulong = 3 << 30 | (size_of::<Query>() as libc::c_ulong) << 16 | 0x66 << 8 | 17;
const READABLE: u64 = 1;
const WRITABLE: u64 = 2;
const EXECUTABLE: u64 = 4;
const SHARED: u64 = 8;
const COVERING_OR_NEXT: u64 = 16;
const FILE_BACKED: u64 = 32;

/// Handle for queries about the address space of this process. In a child of fork it still describes the
/// parent.
#[derive(Debug)]
pub struct Maps(File);

impl Maps {
    /// Opens the handle and checks that queries work.
    ///
    /// # Errors
    /// No /proc, or a kernel without the call (ENOTTY).
    pub fn open() -> io::Result<Maps> {
        let maps = Maps(File::open("/proc/self/maps")?);
        let somewhere = &raw const maps as u64;
        maps.area_at(somewhere)?;
        Ok(maps)
    }

    /// Returns the area that contains `address`, if it is mapped.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub fn area_at(&self, address: u64) -> io::Result<Option<Area>> {
        self.ask(Query { address, ..Query::default() })
    }

    /// Returns the area that contains `address` and its name (`[heap]`, `[stack]`, a path; empty for most).
    ///
    /// # Errors
    /// Errors of the kernel.
    pub fn named_at(&self, address: u64) -> io::Result<Option<(Area, String)>> {
        let mut name = [0u8; NAME_BYTES];
        let (name_address, name_bytes) = (name.as_mut_ptr() as u64, NAME_BYTES as u32);
        let query = Query { address, name_address, name_bytes, ..Query::default() };
        let area = match self.ask(query) {
            // A longer name belongs to a file.
            Err(error) if error.raw_os_error() == Some(libc::ENAMETOOLONG) => self.area_at(address)?,
            other => other?,
        };
        let end = name.iter().position(|&byte| byte == 0).unwrap_or(NAME_BYTES);
        Ok(area.map(|area| (area, String::from_utf8_lossy(&name[..end]).into_owned())))
    }

    /// Returns the area of a file or object that contains `address`, or the next one above. The second
    /// value is true if its name is `name`. Allocates nothing, so that it may run in place of a system call
    /// of the program.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub fn file_from(&self, address: u64, name: &[u8]) -> io::Result<Option<(Area, bool)>> {
        let mut found = [0u8; NAME_BYTES];
        let (name_address, name_bytes) = (found.as_mut_ptr() as u64, NAME_BYTES as u32);
        let query = Query { address, flags: COVERING_OR_NEXT | FILE_BACKED, ..Query::default() };
        let area = match self.ask(Query { name_address, name_bytes, ..query }) {
            // A longer name belongs to another file.
            Err(error) if error.raw_os_error() == Some(libc::ENAMETOOLONG) => self.ask(query)?,
            other => other?,
        };
        let end = found.iter().position(|&byte| byte == 0).unwrap_or(NAME_BYTES);
        Ok(area.map(|area| (area, &found[..end] == name)))
    }

    /// Returns the area of a shared object that contains `address`, or the next one above it.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub fn shared_from(&self, address: u64) -> io::Result<Option<Area>> {
        self.ask(Query { address, flags: COVERING_OR_NEXT | FILE_BACKED | SHARED, ..Query::default() })
    }

    fn ask(&self, query: Query) -> io::Result<Option<Area>> {
        let mut query = Query { size: size_of::<Query>() as u64, ..query };
        // SAFETY: the file is open, the query is of the stated size, the name's buffer of the stated length.
        if unsafe { libc::ioctl(self.0.as_raw_fd(), PROCMAP_QUERY, &mut query) } < 0 {
            let error = io::Error::last_os_error();
            return if error.raw_os_error() == Some(libc::ENOENT) { Ok(None) } else { Err(error) };
        }
        Ok(Some(Area {
            start: query.start,
            end: query.end,
            readable: query.permissions & READABLE != 0,
            writable: query.permissions & WRITABLE != 0,
            executable: query.permissions & EXECUTABLE != 0,
            shared: query.permissions & SHARED != 0,
            offset: query.offset,
            inode: query.inode,
            device: (query.device_major, query.device_minor),
            page_bytes: query.page_bytes,
        }))
    }
}

/// Returns the private areas of this process with special attributes. They are not inherited, wiped in
/// children, left out of core files, sealed, or guarded by a key. Reads the complete list of the kernel,
/// which takes some milliseconds for each GiB of small pages.
///
/// # Errors
/// The list cannot be read.
pub fn special_areas() -> io::Result<Vec<(u64, u64)>> {
    Ok(special_in(&std::fs::read_to_string("/proc/self/smaps")?))
}

/// Finds these areas in the kernel's list (proc_pid_smaps(5)). Memory of files and devices is ignored.
fn special_in(account: &str) -> Vec<(u64, u64)> {
    const SPECIAL: [&str; 4] = ["dc", "wf", "dd", "sl"];
    let (mut found, mut area) = (Vec::new(), None);
    for line in account.lines() {
        if let Some(range) = private_area(line) {
            area = range;
        }
        let flags = line.strip_prefix("VmFlags:").unwrap_or_default();
        let has_flag = flags.split_ascii_whitespace().any(|flag| SPECIAL.contains(&flag));
        let key = line.strip_prefix("ProtectionKey:").map_or("0", str::trim);
        if let Some(range) = area.filter(|_| has_flag || key != "0") {
            found.push(range);
            area = None;
        }
    }
    found
}

/// Parses the first line of an area. Returns its range if it is private memory without a file; the outer
/// `None` means that no area begins here.
fn private_area(line: &str) -> Option<Option<(u64, u64)>> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
    let is_private = words.next()?.ends_with('p') && words.nth(2) == Some("0");
    Some(is_private.then_some((start, end)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Mapping, create_object};
    use std::os::fd::AsFd;

    #[test]
    fn areas_with_attributes_are_found() {
        let account = "\
7f0000000000-7f0000001000 rw-p 00000000 00:00 0
ProtectionKey:         0
VmFlags: rd wr mr mw me ac
7f0000001000-7f0000002000 rw-p 00000000 00:00 0          [anon: x]
ProtectionKey:         0
VmFlags: rd wr mr mw me wf
7f0000003000-7f0000004000 rw-s 00000000 00:01 9          /memfd:x (deleted)
VmFlags: rd wr sh dc
7f0000005000-7f0000006000 rw-p 00000000 00:00 0
ProtectionKey:         3
VmFlags: rd wr dd
";
        assert_eq!(
            special_in(account),
            [(0x7f00_0000_1000, 0x7f00_0000_2000), (0x7f00_0000_5000, 0x7f00_0000_6000)]
        );
        assert!(special_areas().is_ok());
    }

    #[test]
    fn mappings_are_described() {
        let Ok(maps) = Maps::open() else { return };
        let fd = create_object(c"test", 8192).unwrap();
        let mapping = Mapping::of_object(fd.as_fd()).unwrap();
        let base = mapping.base().as_ptr() as u64;
        let area = maps.area_at(base + 4096).unwrap().unwrap();
        assert!(area.shared && area.readable && area.writable && !area.executable);
        assert_eq!((area.start, area.end - area.start, area.offset, area.page_bytes), (base, 8192, 0, 4096));
        assert_eq!(maps.shared_from(base).unwrap().unwrap(), area);
        assert_eq!(maps.area_at(4096).unwrap(), None);
        let here = 0;
        let (area, name) = maps.named_at(&raw const here as u64).unwrap().unwrap();
        assert!(!area.shared && area.inode == 0 && area.writable, "{area:?} {name}");
        let name = b"/memfd:test (deleted)";
        assert_eq!(
            maps.file_from(base + 4096, name).unwrap().unwrap(),
            (maps.area_at(base).unwrap().unwrap(), true)
        );
        assert!(!maps.file_from(base, b"/memfd:tes").unwrap().unwrap().1);
        let (_, name) = maps.named_at(mappings_are_described as fn() as usize as u64).unwrap().unwrap();
        assert!(name.is_empty() || name.starts_with('/'), "{name}");
    }
}
