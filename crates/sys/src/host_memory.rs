//! Checks whether the processor can use the memory at an address, and the message for a buffer that it
//! cannot use.
//!
//! Memory of a device (a GPU) appears as addresses without a mapping, as reserved addresses without access,
//! or as a mapping of the device's file. The check runs only after an access has failed, so that it costs
//! nothing otherwise.

use std::fs;

/// Folders of /dev whose files are memory of the host.
const OF_THE_HOST: [&str; 4] = ["/dev/shm/", "/dev/zero", "/dev/hugepages", "/dev/mqueue"];
/// Advice that is part of every message about such memory.
pub const ADVICE: &str =
    "memory of a device (GPU) cannot be handed to MPI here: copy it to memory of the host first";

/// Lowest address that the kernel maps by default (vm.mmap_min_addr).
const LOWEST_ADDRESS: u64 = 64 << 10;

/// Returns the reason for which memory at `address` of this process cannot be read or, with `is_written`,
/// written. Returns `None` if it can.
pub fn complaint(address: u64, is_written: bool) -> Option<String> {
    complaint_in(&fs::read_to_string("/proc/self/maps").ok()?, address, is_written)
}

/// Returns the reason for the process that `maps` (proc_pid_maps(5)) describes; see [`complaint`].
pub fn complaint_in(maps: &str, address: u64, is_written: bool) -> Option<String> {
    let Some((permissions, name)) = maps.lines().find_map(|line| mapping(line, address)) else {
        // A device has no memory at such low addresses.
        let advice = if address < LOWEST_ADDRESS { "it is a null pointer or close to one" } else { ADVICE };
        return Some(format!("nothing is mapped at {address:#x}; {advice}"));
    };
    let is_device = name.starts_with("/dev/") && !OF_THE_HOST.iter().any(|host| name.starts_with(host));
    let may_read = permissions.starts_with('r');
    let may_write = permissions[1..].starts_with('w');
    match (may_read, is_device) {
        (_, true) => Some(format!("{address:#x} lies in a mapping of {name}; {ADVICE}")),
        (false, _) => Some(format!("{address:#x} is reserved, but not accessible; {ADVICE}")),
        (true, _) if is_written && !may_write => {
            Some(format!("{address:#x} is read-only{}", named_mapping(name)))
        }
        _ => None,
    }
}

/// Returns true if the memory at `address` is executable according to `maps` (proc_pid_maps(5)).
pub fn is_code(maps: &str, address: u64) -> bool {
    maps.lines()
        .find_map(|line| mapping(line, address))
        .is_some_and(|(permissions, _)| permissions.contains('x'))
}

fn named_mapping(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!(", a mapping of {name}") }
}

/// Returns the permissions and the name of the mapping in a line of the list, if it contains the address.
fn mapping(line: &str, address: u64) -> Option<(&str, &str)> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let start = u64::from_str_radix(start, 16).ok()?;
    let end = u64::from_str_radix(end, 16).ok()?;
    let permissions = words.next().filter(|text| text.len() == 4)?;
    // Skips offset, device and inode.
    (start..end).contains(&address).then(|| (permissions, words.nth(3).unwrap_or("")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
55d0c0000000-55d0c0001000 r--p 00000000 fe:00 12   /usr/bin/solver
55d0c0002000-55d0c0003000 rw-p 00000000 00:00 0    [heap]
7f0000000000-7f0000200000 ---p 00000000 00:00 0 
7f0000200000-7f0000300000 rw-s 00000000 00:06 420  /dev/nvidia-uvm
7f0000300000-7f0000400000 rw-s 00000000 00:16 7    /dev/shm/segment
";

    fn check(address: u64, is_written: bool, expected: Option<&str>) {
        let found = complaint_in(MAPS, address, is_written);
        match (&found, expected) {
            (Some(found), Some(expected)) => assert!(found.contains(expected), "{found}"),
            _ => assert_eq!(found.as_deref(), expected),
        }
    }

    #[test]
    fn memory_that_cannot_be_used_is_named() {
        check(0x55d0_c000_2010, true, None);
        check(0x7f00_0030_0000, true, None);
        check(0x55d0_c000_0010, false, None);
        check(0x55d0_c000_0010, true, Some("read-only, a mapping of /usr/bin/solver"));
        check(0x7f00_0000_1000, false, Some("reserved, but not accessible; memory of a device"));
        check(0x7f00_0020_0000, false, Some("a mapping of /dev/nvidia-uvm; memory of a device"));
        check(0x7f00_0040_0000, false, Some("nothing is mapped at 0x7f0000400000; memory of a device"));
        check(0x40, false, Some("nothing is mapped at 0x40; it is a null pointer or close to one"));
    }

    #[test]
    fn memory_of_this_process_is_fine() {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        assert!(is_code(&maps, complaint as fn(u64, bool) -> Option<String> as usize as u64));
        assert!(!is_code(&maps, 0) && !is_code(&maps, &raw const maps as u64));
        let here = 0u8;
        assert_eq!(complaint(&raw const here as u64, true), None);
    }
}
