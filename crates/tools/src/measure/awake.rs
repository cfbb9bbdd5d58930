//! Prevention of idle processors in a virtual machine during a measurement.
//!
//! The hypervisor takes an idle processor away and may return it late; a measurement then measures the
//! hypervisor. Libraries that spin are never affected, those that sleep are at every wait. On one machine, 40
//! % of the processors' time was taken away while ranks slept and woke each other, and 2 % with busy
//! processors.
//!
//! So another process computes on each processor whenever it is idle. The process is in a control group of
//! its own that the kernel treats as idle (`cpu.idle`), so that it yields at once to any other thread. The
//! class `SCHED_IDLE` alone is not enough: the kernel divides processors between sessions first, and ignores
//! the class there.
//!
//! The mechanism needs permission to create control groups. Without it, and on physical machines, processors
//! sleep.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tutti_sys::cpu;

/// Directories that may contain control groups for processors.
const ROOTS: [&str; 3] = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/unified", "/sys/fs/cgroup"];
/// The group: one for all measurements, so that none is left behind by those that were killed.
const GROUP: &str = "tutti-awake";

/// Note about the mechanism in reports.
pub const NOTE: &str = "processors kept from falling asleep, as they are those of a virtual machine";

/// Processors do not sleep for as long as this lives.
pub struct Awake {
    spinner: Child,
    group: PathBuf,
}

impl Awake {
    /// Keeps all processors that this process may use awake, if this is a virtual machine and it may.
    pub fn begin() -> Option<Awake> {
        if !is_virtual(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default()) {
            return None;
        }
        let group = ROOTS.iter().find_map(|root| idle_group(Path::new(root)))?;
        let mut command = Command::new(std::env::current_exe().ok()?);
        let spinner = command.arg("awake").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().ok()?;
        let mut awake = Awake { spinner, group };
        awake.start().ok()?;
        Some(awake)
    }

    /// Moves the process to its group and starts it.
    fn start(&mut self) -> std::io::Result<()> {
        fs::write(self.group.join("cgroup.procs"), self.spinner.id().to_string())?;
        self.spinner.stdin.as_mut().map_or(Ok(()), |stdin| stdin.write_all(b"g"))
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        // It ends with its input, also if this process is killed.
        drop(self.spinner.stdin.take());
        let _ = self.spinner.wait();
        // Another measurement may still be in it.
        let _ = fs::remove_dir(&self.group);
    }
}

/// Runs the process that keeps processors awake: one spinning thread on each. It begins at the first byte of
/// its input and ends with the input.
///
/// # Errors
/// Fails if the processors are not known.
pub fn spin() -> Result<(), String> {
    let mut input = std::io::stdin();
    if !matches!(input.read(&mut [0]), Ok(1)) {
        return Ok(());
    }
    let processors = cpu::affinity()
        .map_err(|error| format!("cannot determine the processors of this process: {error}"))?;
    for processor in processors.iter() {
        std::thread::spawn(move || {
            // One that was taken away meanwhile has no thread: the others go on.
            while cpu::set_affinity(&[processor].into_iter().collect()).is_ok() {
                (0..1 << 20).for_each(|_| std::hint::spin_loop());
            }
        });
    }
    let _ = input.read_to_end(&mut Vec::new());
    Ok(())
}

/// Returns true if `/proc/cpuinfo` reports a hypervisor.
fn is_virtual(cpuinfo: &str) -> bool {
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags"));
    flags.is_some_and(|line| line.split_whitespace().any(|flag| flag == "hypervisor"))
}

/// Creates an idle control group below `root`, if that is possible.
fn idle_group(root: &Path) -> Option<PathBuf> {
    // Only version 2 of control groups requires this; a failure shows later.
    let _ = fs::write(root.join("cgroup.subtree_control"), "+cpu");
    let group = root.join(GROUP);
    fs::create_dir_all(&group).ok()?;
    let idle = group.join("cpu.idle");
    if !idle.exists() || fs::write(&idle, "1").is_err() {
        let _ = fs::remove_dir(&group);
        return None;
    }
    Some(group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_machines_are_told_by_their_processors() {
        let check = |flags: &str, expected| {
            assert_eq!(
                is_virtual(&format!("processor\t: 0\nflags\t\t: {flags}\nbugs\t: hypervisor\n")),
                expected
            );
        };
        check("fpu sse2 hypervisor lahf_lm", true);
        check("fpu sse2 lahf_lm", false);
        assert!(!is_virtual(""));
    }

    #[test]
    fn a_folder_that_is_no_control_group_is_left_as_it_was() {
        let root = std::env::temp_dir().join(format!("tutti-awake-{}", std::process::id()));
        fs::create_dir_all(&root).expect("there is room");
        assert_eq!(idle_group(&root), None);
        assert!(!root.join(GROUP).exists());
        fs::remove_dir_all(&root).expect("it is there");
    }
}
