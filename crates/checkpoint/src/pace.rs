//! How a host writes: while its ranks stand still, or from copies of them while they go on; packed or as it
//! is. It goes by how fast the disk is, which is measured before anything stops, and by how much there is.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tutti_sys::cgroup;

use crate::image::packing::Packing;
use crate::sets::fresh_file;

/// Bytes of memory that are read, hashed and compared in a second, about.
const READ_RATE: f64 = 3e9;
/// Bytes of memory in a second of copying a process, with what it costs the process afterwards to get pages
/// of its own that it writes, about.
const FORK_RATE: f64 = 4e9;
/// A shorter pause is worth a copy if it is shorter by so much, and by half.
const WORTH: Duration = Duration::from_millis(50);
/// The disk is measured by pieces, each synced, until one of these is reached.
const PIECE: usize = 4 << 20;
const MOST_PIECES: u32 = 8;
const LONGEST: Duration = Duration::from_millis(100);
/// A set of fewer bytes says less of a disk than a probe does.
const LEAST_BYTES: u64 = 32 << 20;

/// What a user says of when to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Writing {
    /// What makes the pause shorter.
    #[default]
    Auto,
    /// While ranks stand still.
    Still,
    /// From copies of them.
    Fork,
}

/// What a user says of packing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Packed {
    /// Where it is faster than the disk.
    #[default]
    Auto,
    /// Never.
    Never,
    /// Whatever gets smaller.
    Always,
}

impl Packed {
    /// Of a disk that takes so many bytes a second.
    pub fn packing(self, disk_rate: Option<f64>) -> Packing {
        match (self, disk_rate) {
            (Packed::Never, _) | (Packed::Auto, None) => Packing::Never,
            (Packed::Always, _) => Packing::Always,
            (Packed::Auto, Some(rate)) => Packing::Faster(rate),
        }
    }
}

/// What a host knows before it writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Bytes of memory of its ranks.
    pub bytes: u64,
    /// Bytes that are written, if it is as the last time.
    pub written: u64,
    /// Bytes that the disk takes a second.
    pub disk_rate: f64,
    /// Bytes of memory that are free.
    pub free: u64,
}

/// Whether copies of ranks are written, which then go on meanwhile.
pub fn forks(said: Writing, load: Load) -> bool {
    let bytes = load.bytes as f64;
    let still_s = bytes / READ_RATE + load.written as f64 / load.disk_rate;
    let fork_s = bytes / FORK_RATE;
    match said {
        Writing::Still => false,
        Writing::Fork => true,
        // If ranks write all of their memory meanwhile, all of it is there twice.
        Writing::Auto if load.free < load.bytes + load.bytes / 8 => false,
        Writing::Auto => still_s > 2.0 * fork_s && still_s - fork_s > WORTH.as_secs_f64(),
    }
}

/// Bytes a second that the disk takes, as it seemed to be and after so many bytes of a set: it was waited for
/// so long, and took no longer than all of the writing, during much of which it had something to do.
pub fn refined(seemed: Option<f64>, bytes: u64, waited: Duration, took: Duration) -> Option<f64> {
    let rate = |time: Duration| bytes as f64 / time.as_secs_f64().max(1e-9);
    match seemed {
        Some(seemed) if bytes >= LEAST_BYTES => Some(seemed.clamp(rate(took), rate(waited.min(took)))),
        seemed => seemed,
    }
}

/// Bytes a second that the disk below `folder` takes: some are written there, synced and deleted.
///
/// # Errors
/// What the system reports.
pub fn probe(folder: &Path, host: u32) -> io::Result<f64> {
    let (path, mut file) = fresh_file(folder, &format!("probe-{host}"))?;
    let mut measure = || -> io::Result<f64> {
        let piece = noise(PIECE);
        let begun = Instant::now();
        let mut pieces = 0u32;
        while pieces < MOST_PIECES && begun.elapsed() < LONGEST {
            file.write_all(&piece)?;
            file.sync_data()?;
            pieces += 1;
        }
        Ok(f64::from(pieces) * PIECE as f64 / begun.elapsed().as_secs_f64().max(1e-9))
    };
    let result = measure();
    let _ = fs::remove_file(&path);
    result
}

/// Nothing that a disk could store in fewer bytes.
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let words = (0..bytes / 8).flat_map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_ne_bytes()
    });
    words.collect()
}

/// Bytes of memory that this host, and the group of this process in it, has left.
pub fn free_memory() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let in_groups = cgroup::groups("memory").into_iter().filter_map(|group| {
        let number = |file| group.read(file)?.trim().parse::<u64>().ok();
        let files = match group.is_unified {
            true => ["memory.max", "memory.current"],
            false => ["memory.limit_in_bytes", "memory.usage_in_bytes"],
        };
        Some(number(files[0])?.saturating_sub(number(files[1])?))
    });
    in_groups.chain([available(&text)]).min().unwrap_or(0)
}

/// What /proc/meminfo says; 0: nothing.
fn available(text: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let number = line.and_then(|line| line.split_ascii_whitespace().next()?.parse::<u64>().ok());
    number.unwrap_or(0) << 10
}

#[cfg(test)]
mod tests {
    use super::*;

    const GB: u64 = 1_000_000_000;

    fn check(said: Writing, bytes: u64, written: u64, disk_rate: f64, free: u64, expected: bool) {
        assert_eq!(forks(said, Load { bytes, written, disk_rate, free }), expected, "{bytes} {written}");
    }

    #[test]
    fn copies_are_written_where_the_pause_is_shorter_for_it() {
        check(Writing::Auto, 10 * GB, 10 * GB, 1e9, 20 * GB, true);
        // There is no room for them.
        check(Writing::Auto, 10 * GB, 10 * GB, 1e9, 9 * GB, false);
        check(Writing::Fork, 10 * GB, 10 * GB, 1e9, 9 * GB, true);
        check(Writing::Still, 10 * GB, 10 * GB, 1e9, 20 * GB, false);
        // Little memory, or little of it that has changed, and a disk as fast as memory.
        check(Writing::Auto, GB / 100, GB / 100, 1e9, 20 * GB, false);
        check(Writing::Auto, GB, 0, 1e9, 20 * GB, false);
        check(Writing::Auto, GB, GB, 20e9, 20 * GB, false);
        check(Writing::Auto, GB, GB, 1e8, 20 * GB, true);
    }

    #[test]
    fn what_packing_goes_by() {
        assert_eq!(Packed::Auto.packing(None), Packing::Never);
        assert_eq!(Packed::Auto.packing(Some(1e9)), Packing::Faster(1e9));
        assert_eq!(Packed::Always.packing(None), Packing::Always);
        assert_eq!(Packed::Never.packing(Some(1.0)), Packing::Never);
    }

    #[test]
    fn a_disk_and_memory_are_measured() {
        let folder = std::env::temp_dir().join(format!("tutti-pace-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        assert!(probe(&folder, 3).unwrap() > 0.0);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        fs::remove_dir_all(&folder).unwrap();
        assert!(probe(&folder, 3).is_err());
        let check = |seemed, bytes, expected| {
            let [waited, took] = [250, 500].map(Duration::from_millis);
            assert_eq!(refined(seemed, bytes, waited, took), expected);
        };
        check(Some(1e9), 100_000_000, Some(4e8));
        check(Some(3e8), 100_000_000, Some(3e8));
        check(Some(1e8), 100_000_000, Some(2e8));
        check(Some(1e9), 1_000_000, Some(1e9));
        check(None, 100_000_000, None);
        assert_eq!(available("MemTotal:  9 kB\nMemAvailable:    2048 kB\n"), 2 << 20);
        assert!(free_memory() > 0 && available("") == 0);
    }
}
