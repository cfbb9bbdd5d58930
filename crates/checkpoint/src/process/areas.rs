//! Mapped areas of a process, read from the text of /proc/PID/smaps.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::error::CheckpointError;
use crate::image::{Advice, Area, Backing, EXECUTE, FileIdentity, READ, WRITE};

/// Area as the kernel lists it, before shared objects have their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Description of the area. For a shared object its number is still 0.
    pub area: Area,
    /// Device and inode of the mapped object.
    pub identity: (u64, u64),
    /// Name of the area in the kernel's list: a path, or a name such as `[vdso]`.
    pub name: String,
}

/// Parses the text of /proc/PID/smaps. Leaves out `[vsyscall]`, which the kernel maps into every process and
/// no process can change.
///
/// # Errors
/// Fails with a text for the user if an area cannot be saved, such as memory of a device.
pub fn parse(text: &str) -> Result<Vec<Listed>, CheckpointError> {
    let mut found: Vec<Listed> = Vec::new();
    for line in text.lines() {
        if let Some(flags) = line.strip_prefix("VmFlags:") {
            if let Some(last) = found.last_mut() {
                last.area.advice = advice(flags, &last.name)?;
            }
        } else if line.split(' ').next().is_some_and(|first| first.contains('-') && !first.ends_with(':')) {
            found.push(
                header(line).ok_or_else(|| {
                    CheckpointError::Obstacle(format!("an area that cannot be read: {line}"))
                })?,
            );
        }
    }
    found.retain(|listed| listed.name != "[vsyscall]");
    Ok(found)
}

/// Parses the first line of an area: addresses, permissions, offset, device, inode and name.
fn header(line: &str) -> Option<Listed> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let (start, end) = (hex(start)?, hex(end)?);
    let permissions = words.next()?.as_bytes();
    let offset = hex(words.next()?)?;
    let (major, minor) = words.next()?.split_once(':')?;
    let device = libc::makedev(hex(major)? as u32, hex(minor)? as u32);
    let inode: u64 = words.next()?.parse().ok()?;
    let name = words.next().unwrap_or("").trim_start().to_string();
    let bit = |at: usize, letter: u8, bit: u8| if permissions.get(at) == Some(&letter) { bit } else { 0 };
    let protection = bit(0, b'r', READ) | bit(1, b'w', WRITE) | bit(2, b'x', EXECUTE);
    let shared = permissions.get(3) == Some(&b's');
    let backing = if is_of_kernel(&name) {
        Backing::Kernel(name.clone())
    } else if inode == 0 {
        Backing::Anonymous
    } else if is_object(&name) {
        Backing::Object(0)
    } else {
        Backing::File(FileIdentity { path: name.clone().into_bytes(), bytes: 0, changed_ns: 0 })
    };
    let area = Area { start, end, protection, shared, offset, backing, advice: Advice::default() };
    Some(Listed { area, identity: (device, inode), name })
}

fn is_of_kernel(name: &str) -> bool {
    name == "[vdso]" || name.starts_with("[vvar")
}

/// Returns true if this is the name of a shared object without a path.
pub fn is_object(name: &str) -> bool {
    let is_shared_memory = name.starts_with("/dev/shm/") && name.ends_with(" (deleted)");
    name.starts_with("/memfd:")
        || name == "/dev/zero (deleted)"
        || name.starts_with("/SYSV")
        || is_shared_memory
}

/// Converts the line VmFlags. Refuses memory that cannot be saved.
fn advice(flags: &str, name: &str) -> Result<Advice, CheckpointError> {
    let mut advice = Advice::default();
    for flag in flags.split_ascii_whitespace() {
        match flag {
            "gd" => advice.grows_down = true,
            "nr" => advice.no_reserve = true,
            "dc" => advice.no_fork = true,
            "wf" => advice.wiped_on_fork = true,
            "dd" => advice.no_dump = true,
            "hg" => advice.huge = true,
            "nh" => advice.no_huge = true,
            "lo" => advice.locked = true,
            "um" => advice.watched |= 1,
            "uw" => advice.watched |= 2,
            "ht" => {
                return Err(CheckpointError::Obstacle(format!(
                    "memory of huge pages of its own (hugetlbfs{})",
                    named(name)
                )));
            }
            "io" if !is_of_kernel(name) => {
                return Err(CheckpointError::Obstacle(format!("memory of a device{}", named(name))));
            }
            "ss" => return Err(CheckpointError::Obstacle("a shadow stack".to_string())),
            _ => {}
        }
    }
    Ok(advice)
}

fn named(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!(", {name}") }
}

/// Returns the current identity of a file.
///
/// # Errors
/// Fails if the file no longer exists under that name.
pub fn identify(path: &str) -> Result<FileIdentity, CheckpointError> {
    match std::fs::metadata(Path::new(path)) {
        Ok(known) if !path.ends_with(" (deleted)") => Ok(FileIdentity {
            path: path.as_bytes().to_vec(),
            bytes: known.len(),
            changed_ns: known.mtime() * 1_000_000_000 + known.mtime_nsec(),
        }),
        _ => Err(CheckpointError::Obstacle(format!(
            "the file {path}, which is mapped and has been deleted or replaced"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
55d0c0000000-55d0c0001000 r-xp 00002000 fe:00 1234                       /usr/bin/a b
Size:                  4 kB
Rss:                   4 kB
VmFlags: rd ex mr mw me sd
7f0000000000-7f0000400000 rw-s 00100000 00:01 77                         /memfd:tutti-job (deleted)
VmFlags: rd wr sh mr mw me ms dc lo uw
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                          [stack]
VmFlags: rd wr mr mw me gd ac nr hg
7ffc00100000-7ffc00102000 r-xp 00000000 00:00 0                          [vdso]
VmFlags: rd ex mr mw me de io
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
VmFlags: ex
";

    #[test]
    fn areas_are_read() {
        let found = parse(TEXT).unwrap();
        let names: Vec<&str> = found.iter().map(|listed| &listed.name[..]).collect();
        assert_eq!(names, ["/usr/bin/a b", "/memfd:tutti-job (deleted)", "[stack]", "[vdso]"]);
        let area = &found[0].area;
        assert_eq!((area.start, area.end, area.offset), (0x55d0_c000_0000, 0x55d0_c000_1000, 0x2000));
        assert_eq!((area.protection, area.shared), (READ | EXECUTE, false));
        assert!(matches!(&area.backing, Backing::File(file) if file.path == b"/usr/bin/a b"));
        let object = &found[1];
        assert_eq!((&object.area.backing, object.identity), (&Backing::Object(0), (1, 77)));
        let advice = object.area.advice;
        assert!(object.area.shared && advice.no_fork && advice.locked && advice.watched == 2);
        let stack = found[2].area.advice;
        assert!(stack.grows_down && stack.no_reserve && stack.huge);
        assert_eq!(found[3].area.backing, Backing::Kernel("[vdso]".to_string()));
    }

    #[test]
    fn what_cannot_be_kept_is_named() {
        let check = |line: &str, expected: &str| {
            let error = parse(line).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        };
        check("7f00-8000 rw-s 0 00:05 9 /dev/dri/card0\nVmFlags: rd io", "a device, /dev/dri/card0");
        check("7f00-8000 rw-p 0 00:05 9 /anon_hugepage\nVmFlags: rd ht", "huge pages");
        check("not-hex rw", "cannot be read");
    }

    #[test]
    fn the_areas_of_this_process_can_be_read() {
        let text = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let found = parse(&text).unwrap();
        assert!(found.iter().any(|listed| listed.name == "[vdso]"));
        assert!(found.windows(2).all(|pair| pair[0].area.end <= pair[1].area.start));
    }
}
