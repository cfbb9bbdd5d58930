//! Decisions how a host writes: while its ranks stand still, or from copies while they go on; packed or not.
//! They depend on the amount of memory, and on the rate of the disk, which is measured before any rank is
//! stopped.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tutti_sys::cgroup;

use crate::image::packing::Packing;
use crate::sets::fresh_file;

/// Approximate bytes of memory per second that are read, hashed and compared.
const READ_RATE: f64 = 3e9;
/// Approximate bytes per second of copying a process. The cost of later page faults in the process is
/// included.
const FORK_RATE: f64 = 4e9;
/// Minimum time by which copies must shorten the pause to be worth making. They must also halve it.
const WORTH: Duration = Duration::from_millis(50);
/// Bytes written and synced at a time when the disk is measured, until one of the limits below is reached.
const PIECE: usize = 4 << 20;
const MOST_PIECES: u32 = 8;
const LONGEST: Duration = Duration::from_millis(100);
/// Minimum bytes of a set from which the rate of the disk is estimated. For less, the probe is more exact.
const LEAST_BYTES: u64 = 32 << 20;

/// User's choice when memory is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Writing {
    /// Chooses the shorter pause of the ranks.
    #[default]
    Auto,
    /// Writes while ranks stand still.
    Still,
    /// Writes from copies, while ranks run.
    Fork,
}

/// User's choice which blocks are packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Packed {
    /// Packs blocks where that is faster than the disk.
    #[default]
    Auto,
    /// Packs no block.
    Never,
    /// Packs every block that becomes smaller.
    Always,
}

impl Packed {
    /// Returns the rule for a disk of this rate, in bytes per second; None if the rate is unknown.
    pub fn packing(self, disk_rate: Option<f64>) -> Packing {
        match (self, disk_rate) {
            (Packed::Never, _) | (Packed::Auto, None) => Packing::Never,
            (Packed::Always, _) => Packing::Always,
            (Packed::Auto, Some(rate)) => Packing::Faster(rate),
        }
    }
}

/// Figures that a host has before it writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Bytes of memory of all ranks of the host.
    pub bytes: u64,
    /// Bytes that will be written, if it is as much as for the last set.
    pub written: u64,
    /// Rate of the disk in bytes per second.
    pub disk_rate: f64,
    /// Bytes of memory that are free on the host.
    pub free: u64,
}

/// Returns true if ranks should be copied, so that they go on while the copies are written.
pub fn forks(said: Writing, load: Load) -> bool {
    let bytes = load.bytes as f64;
    let still_s = bytes / READ_RATE + load.written as f64 / load.disk_rate;
    let fork_s = bytes / FORK_RATE;
    match said {
        Writing::Still => false,
        Writing::Fork => true,
        // Ranks may write to all of their memory meanwhile, and then all of it exists twice.
        Writing::Auto if load.free < load.bytes + load.bytes / 8 => false,
        Writing::Auto => still_s > 2.0 * fork_s && still_s - fork_s > WORTH.as_secs_f64(),
    }
}

/// Returns a better estimate of the disk's rate in bytes per second, after a set of `bytes` was written. The
/// rate lies between two limits. The lower one is `bytes` per `took`, the time of the whole writing. The
/// upper one is `bytes` per `waited`, the time spent waiting for the disk. `seemed` is the estimate so far.
/// It stays if the set was small.
pub fn refined(seemed: Option<f64>, bytes: u64, waited: Duration, took: Duration) -> Option<f64> {
    let rate = |time: Duration| bytes as f64 / time.as_secs_f64().max(1e-9);
    match seemed {
        Some(seemed) if bytes >= LEAST_BYTES => Some(seemed.clamp(rate(took), rate(waited.min(took)))),
        seemed => seemed,
    }
}

/// Measures the rate of the disk below `folder` in bytes per second: writes some bytes, syncs and deletes
/// them.
///
/// # Errors
/// Fails if a system call fails.
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

/// Returns bytes that no disk could compress.
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

/// Returns the free memory in bytes: the minimum of this host's and of each control group of this process.
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

/// Reads the available bytes from the text of /proc/meminfo; 0 if there are none.
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
        // There is no memory for the copies.
        check(Writing::Auto, 10 * GB, 10 * GB, 1e9, 9 * GB, false);
        check(Writing::Fork, 10 * GB, 10 * GB, 1e9, 9 * GB, true);
        check(Writing::Still, 10 * GB, 10 * GB, 1e9, 20 * GB, false);
        // The ranks have little memory, or little of it has changed, or the disk is as fast as memory.
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
