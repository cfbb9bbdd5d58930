//! Tables and attachments of kernel programs (bpf(2)), found by their descriptors: reading a table's shape
//! and detaching a program.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// BPF_MAP_TYPE_ARRAY: entries of one size, numbered from 0.
const ARRAY: u64 = 2;
/// BPF_F_MMAPABLE: the entries can be mapped.
const MAPPABLE: u64 = 1 << 10;
/// BPF_LINK_DETACH, the command.
const LINK_DETACH: libc::c_long = 34;

/// Shape of a table whose entries can be mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableShape {
    /// Bytes of an entry.
    pub entry_bytes: usize,
    /// Number of entries; the first one is entry 0.
    pub entries: usize,
}

impl TableShape {
    /// Returns the shape of the table behind a descriptor; `None` if it is no table that can be mapped. The
    /// kernel never changes a table's size, so a mapping of such a table cannot fault (SIGBUS), where that of
    /// a file that another process truncates does.
    pub fn read(fd: BorrowedFd<'_>) -> Option<TableShape> {
        let number = fd.as_raw_fd();
        // The name of a file begins with a slash, so no file has this one.
        let name = std::fs::read_link(format!("/proc/self/fd/{number}")).ok()?;
        if name.as_os_str() != "anon_inode:bpf-map" {
            return None;
        }
        TableShape::parse(&std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")).ok()?)
    }

    fn parse(text: &str) -> Option<TableShape> {
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?.trim();
            match line.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16).ok(),
                None => line.parse::<u64>().ok(),
            }
        };
        let is_mappable = value("map_type")? == ARRAY && value("map_flags")? & MAPPABLE != 0;
        let shape = TableShape {
            entry_bytes: value("value_size")? as usize,
            entries: value("max_entries")? as usize,
        };
        is_mappable.then_some(shape)
    }
}

/// Detaches a program from the place where it is attached, even while other processes hold the attachment.
///
/// # Errors
/// Errors of the system: the descriptor is no attachment of that kind.
pub fn detach(attachment: BorrowedFd<'_>) -> io::Result<()> {
    #[repr(C)]
    struct Detach {
        link: u32,
    }
    let words = Detach { link: attachment.as_raw_fd() as u32 };
    // SAFETY: the structure is readable for its size.
    let done = unsafe { libc::syscall(libc::SYS_bpf, LINK_DETACH, &raw const words, size_of::<Detach>()) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    fn check(text: &str, expected: Option<(usize, usize)>) {
        let expected = expected.map(|(entry_bytes, entries)| TableShape { entry_bytes, entries });
        assert_eq!(TableShape::parse(text), expected, "{text}");
    }

    #[test]
    fn shapes_are_read_from_the_kernels_words() {
        let words = |kind: u32, flags: &str| {
            format!(
                "pos:\t0\nmap_type:\t{kind}\nkey_size:\t4\nvalue_size:\t36\nmax_entries:\t256\nmap_flags:\t{flags}\n"
            )
        };
        check(&words(2, "0x400"), Some((36, 256)));
        check(&words(2, "0x0"), None);
        check(&words(1, "0x400"), None);
        check("pos:\t0\nflags:\t02\n", None);
    }

    #[test]
    fn what_is_no_table_is_refused() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        assert_eq!(TableShape::read(file.as_fd()), None);
        assert!(detach(file.as_fd()).is_err());
    }
}
