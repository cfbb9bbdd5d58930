//! Control groups of this process (versions 1 and 2): their folders, their memory limits, and processes
//! that were killed for lack of memory.

use std::fs;
use std::path::{Path, PathBuf};

/// Folder under which control groups are mounted.
const ROOT: &str = "/sys/fs/cgroup";

/// Control group of this process, or a group above it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// True for version 2 of control groups, false for version 1.
    pub is_unified: bool,
    /// Folder of the group in the file system.
    pub folder: PathBuf,
}

impl Group {
    /// Returns the content of one of the group's files, if it can be read.
    pub fn read(&self, file: &str) -> Option<String> {
        fs::read_to_string(self.folder.join(file)).ok()
    }
}

/// Returns the groups of this process that may limit the resource of `controller`, each before its parent.
pub fn groups(controller: &str) -> Vec<Group> {
    let text = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    groups_of(&text, controller, Path::new(ROOT))
}

/// Returns the groups that `text`, the content of `/proc/self/cgroup`, lists for `controller`. Their
/// folders lie below `root`.
pub fn groups_of(text: &str, controller: &str, root: &Path) -> Vec<Group> {
    text.lines().flat_map(|line| groups_of_line(line, controller, root).unwrap_or_default()).collect()
}

fn groups_of_line(line: &str, controller: &str, root: &Path) -> Option<Vec<Group>> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (controllers, path) = (fields.next()?, fields.next()?.trim_start_matches('/'));
    let is_unified = controllers.is_empty();
    if !is_unified && !controllers.split(',').any(|name| name == controller) {
        return None;
    }
    let top: PathBuf = if is_unified { root.to_path_buf() } else { root.join(controllers) };
    // In a container the path may be the host's, which is not visible there. Then the top folder is the
    // group.
    let own = top.join(path);
    let folders = own.ancestors().take_while(|folder| folder.starts_with(&top));
    Some(folders.map(|folder| Group { is_unified, folder: folder.to_path_buf() }).collect())
}

/// Counts of processes that the kernel has killed for lack of memory. Two of them are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Killings {
    /// In the control group of this process and below it.
    in_group: u64,
    /// On the whole machine.
    in_all: u64,
}

/// Kills for lack of memory between two points in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// No process was killed.
    No,
    /// Processes of this machine were killed; it is not known whether they belonged to this group.
    OfMachine,
    /// Processes of this control group were killed. The value is its memory limit in bytes, `None` if it
    /// has none.
    OfGroup(Option<u64>),
}

impl Killings {
    /// Reads the present counts of the kernel.
    pub fn now() -> Killings {
        let all = fs::read_to_string("/proc/vmstat").unwrap_or_default();
        Killings::from_counts(&groups("memory"), &all)
    }

    fn from_counts(groups: &[Group], vmstat: &str) -> Killings {
        let count = |group: &Group| {
            let file = if group.is_unified { "memory.events" } else { "memory.oom_control" };
            field(&group.read(file)?, "oom_kill")
        };
        Killings {
            // The count of the innermost group includes all groups below it. In version 1 a group counts
            // only its own processes, and the ranks are in it.
            in_group: groups.iter().find_map(count).unwrap_or(0),
            in_all: field(vmstat, "oom_kill").unwrap_or(0),
        }
    }

    /// Returns the kills between `before` and these counts.
    pub fn since(self, before: Killings) -> Shortage {
        if self.in_group > before.in_group {
            Shortage::OfGroup(memory_limit(&groups("memory")))
        } else if self.in_all > before.in_all {
            Shortage::OfMachine
        } else {
            Shortage::No
        }
    }
}

/// Returns the smallest memory limit of these groups in bytes, if there is one.
fn memory_limit(groups: &[Group]) -> Option<u64> {
    // Version 1 reports the largest possible value where there is no limit.
    const NO_LIMIT: u64 = 1 << 60;
    let limit = |group: &Group| {
        let file = if group.is_unified { "memory.max" } else { "memory.limit_in_bytes" };
        group.read(file)?.trim().parse::<u64>().ok().filter(|&bytes| bytes < NO_LIMIT)
    };
    groups.iter().filter_map(limit).min()
}

/// Returns the number in the line that begins with `name`.
fn field(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(key, _)| *key == name)?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks kills and limits. `groups` has the format of /proc/self/cgroup, `files` lie below the root,
    /// and `vmstat` is /proc/vmstat. Expected are kills in the group and in all, and the limit.
    fn check(groups: &str, files: &[(&str, &str)], vmstat: &str, expected: (u64, u64, Option<u64>)) {
        let root = std::env::temp_dir().join(format!("tutti-cgroup-{}-{:p}", std::process::id(), files));
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let found = groups_of(groups, "memory", &root);
        let killings = Killings::from_counts(&found, vmstat);
        let got = (killings.in_group, killings.in_all, memory_limit(&found));
        let _ = fs::remove_dir_all(root);
        assert_eq!(got, expected, "{groups}");
    }

    #[test]
    fn killings_and_limits_are_found_in_both_versions() {
        let events = "low 0\nhigh 0\nmax 7\noom 3\noom_kill 2\n";
        check(
            "0::/a/b\n",
            &[("a/b/memory.events", events), ("a/b/memory.max", "max\n"), ("a/memory.max", "67108864\n")],
            "oom_kill 5\n",
            (2, 5, Some(64 << 20)),
        );
        check("0::/\n", &[("cgroup.procs", "")], "pgfault 1\noom_kill 5\n", (0, 5, None));
        let control = "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n";
        let files = [
            ("memory/x/memory.oom_control", control),
            ("memory/x/memory.limit_in_bytes", "1048576\n"),
            ("memory/memory.limit_in_bytes", "9223372036854771712\n"),
        ];
        check("5:cpu:/x\n4:memory:/x\n0::/\n", &files, "", (4, 0, Some(1 << 20)));
        check("nonsense", &[], "nonsense", (0, 0, None));
    }

    #[test]
    fn a_shortage_is_one_that_is_new() {
        let before = Killings { in_group: 1, in_all: 9 };
        assert_eq!(before.since(before), Shortage::No);
        assert_eq!(Killings { in_group: 1, in_all: 10 }.since(before), Shortage::OfMachine);
        assert!(matches!(Killings { in_group: 2, in_all: 10 }.since(before), Shortage::OfGroup(_)));
    }
}
