//! What the addresses of this process are mapped to, as the kernel says at this moment (ioctl PROCMAP_QUERY on
//! /proc/self/maps, Linux 6.11 and later): about a microsecond a question, whatever the size of the process.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Bytes of a mapping's name that are looked at.
const NAME_BYTES: usize = 64;

/// A range of addresses that are mapped alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// First address.
    pub start: u64,
    /// One past the last address.
    pub end: u64,
    /// May be read.
    pub readable: bool,
    /// May be written.
    pub writable: bool,
    /// May be executed.
    pub executable: bool,
    /// Stores are seen by other mappings of the object.
    pub shared: bool,
    /// Where the range begins in the object.
    pub offset: u64,
    /// The object's inode; 0 for private anonymous memory.
    pub inode: u64,
    /// The object's device: major and minor number.
    pub device: (u32, u32),
    /// Bytes of a page (more than 4096: hugetlbfs).
    pub page_bytes: u64,
}

/// struct procmap_query of linux/fs.h.
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

/// _IOWR('f', 17, struct procmap_query)
const PROCMAP_QUERY: libc::c_ulong = 3 << 30 | (size_of::<Query>() as libc::c_ulong) << 16 | 0x66 << 8 | 17;
const READABLE: u64 = 1;
const WRITABLE: u64 = 2;
const EXECUTABLE: u64 = 4;
const SHARED: u64 = 8;
const COVERING_OR_NEXT: u64 = 16;
const FILE_BACKED: u64 = 32;

/// The address space of this process. In a child of fork it goes on describing the parent.
#[derive(Debug)]
pub struct Maps(File);

impl Maps {
    /// Opens it.
    ///
    /// # Errors
    /// Why it cannot be asked: no /proc, or a kernel without the call (ENOTTY).
    pub fn open() -> io::Result<Maps> {
        let maps = Maps(File::open("/proc/self/maps")?);
        let somewhere = &raw const maps as u64;
        maps.at(somewhere)?;
        Ok(maps)
    }

    /// The area that holds `address`, if it is mapped.
    ///
    /// # Errors
    /// What the kernel reports.
    pub fn at(&self, address: u64) -> io::Result<Option<Area>> {
        self.ask(Query { address, ..Query::default() })
    }

    /// The area that holds `address` and its name (`[heap]`, `[stack]`, a path; empty for most).
    ///
    /// # Errors
    /// What the kernel reports.
    pub fn named_at(&self, address: u64) -> io::Result<Option<(Area, String)>> {
        let mut name = [0u8; NAME_BYTES];
        let (name_address, name_bytes) = (name.as_mut_ptr() as u64, NAME_BYTES as u32);
        let query = Query { address, name_address, name_bytes, ..Query::default() };
        let area = match self.ask(query) {
            // A longer name is that of a file.
            Err(error) if error.raw_os_error() == Some(libc::ENAMETOOLONG) => self.at(address)?,
            other => other?,
        };
        let end = name.iter().position(|&byte| byte == 0).unwrap_or(NAME_BYTES);
        Ok(area.map(|area| (area, String::from_utf8_lossy(&name[..end]).into_owned())))
    }

    /// The area of a shared object that holds `address`, or the next one above it.
    ///
    /// # Errors
    /// What the kernel reports.
    pub fn shared_from(&self, address: u64) -> io::Result<Option<Area>> {
        self.ask(Query { address, flags: COVERING_OR_NEXT | FILE_BACKED | SHARED, ..Query::default() })
    }

    fn ask(&self, query: Query) -> io::Result<Option<Area>> {
        let mut query = Query { size: size_of::<Query>() as u64, ..query };
        // SAFETY: the file is open, the query is of the stated size, the name's buffer as long as it says.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Mapping, create_object};
    use std::os::fd::AsFd;

    #[test]
    fn mappings_are_described() {
        let Ok(maps) = Maps::open() else { return };
        let fd = create_object(c"test", 8192).unwrap();
        let mapping = Mapping::of(fd.as_fd()).unwrap();
        let base = mapping.base().as_ptr() as u64;
        let area = maps.at(base + 4096).unwrap().unwrap();
        assert!(area.shared && area.readable && area.writable && !area.executable);
        assert_eq!((area.start, area.end - area.start, area.offset, area.page_bytes), (base, 8192, 0, 4096));
        assert_eq!(maps.shared_from(base).unwrap().unwrap(), area);
        assert_eq!(maps.at(4096).unwrap(), None);
        let here = 0;
        let (area, name) = maps.named_at(&raw const here as u64).unwrap().unwrap();
        assert!(!area.shared && area.inode == 0 && area.writable, "{area:?} {name}");
        let (_, name) = maps.named_at(mappings_are_described as fn() as usize as u64).unwrap().unwrap();
        assert!(name.is_empty() || name.starts_with('/'), "{name}");
    }
}
