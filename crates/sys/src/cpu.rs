//! Processors that this process may use, and yielding a processor for a moment.

use std::fs;
use std::io;

use crate::cgroup::{self, Group};
use crate::floating_point;

const WORD_BITS: usize = 64;
/// Largest affinity mask that is requested from the kernel: 1024 words, 65536 processors.
const MAX_WORDS: usize = 1024;

/// Set of processors, identified by the kernel's numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessorSet {
    words: Vec<u64>,
}

impl ProcessorSet {
    /// Returns a set without processors.
    pub fn new() -> ProcessorSet {
        ProcessorSet::default()
    }

    /// Adds a processor to the set.
    ///
    /// # Panics
    /// If the number is larger than a kernel supports (65536): a bug of the caller.
    pub fn insert(&mut self, processor: usize) {
        assert!(processor < MAX_WORDS * WORD_BITS, "processor {processor}");
        let word = processor / WORD_BITS;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (processor % WORD_BITS);
    }

    /// Returns true if the set contains this processor.
    pub fn contains(&self, processor: usize) -> bool {
        self.words.get(processor / WORD_BITS).is_some_and(|word| word >> (processor % WORD_BITS) & 1 != 0)
    }

    /// Returns the number of processors in the set.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Returns true if the set contains no processor.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the processors of the set in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.words.len() * WORD_BITS).filter(|&processor| self.contains(processor))
    }
}

impl FromIterator<usize> for ProcessorSet {
    fn from_iter<I: IntoIterator<Item = usize>>(processors: I) -> ProcessorSet {
        let mut set = ProcessorSet::new();
        processors.into_iter().for_each(|processor| set.insert(processor));
        set
    }
}

/// Returns the processors on which the calling thread may run.
///
/// # Errors
/// Errors of sched_getaffinity.
pub fn affinity() -> io::Result<ProcessorSet> {
    let mut words = vec![0u64; 16];
    loop {
        let bytes = size_of_val(&words[..]);
        // SAFETY: words is writable for `bytes`; the raw call writes no more than that.
        let written = unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, bytes, words.as_mut_ptr()) };
        if written >= 0 {
            words.truncate(written as usize / size_of::<u64>());
            return Ok(ProcessorSet { words });
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINVAL) || words.len() >= MAX_WORDS {
            return Err(error);
        }
        words.resize(words.len() * 2, 0); // this kernel has room for more processors
    }
}

/// Restricts the calling thread to `set`. Async-signal-safe: may be called between fork and exec.
///
/// # Errors
/// The error of sched_setaffinity; InvalidInput if no processor of the set may be used.
pub fn set_affinity(set: &ProcessorSet) -> io::Result<()> {
    let bytes = size_of_val(&set.words[..]);
    // SAFETY: words is readable for `bytes`.
    let status = unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, bytes, set.words.as_ptr()) };
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Moves the calling thread to another processor of its affinity mask. Afterwards the mask is the same as
/// before. Returns false if there is no other processor.
///
/// Linux moves a thread only away from a processor that is not in its mask. Therefore the present one is
/// removed for some microseconds. A change of the mask from outside during that time is lost.
///
/// # Errors
/// Errors of sched_getaffinity and sched_setaffinity. The mask is unchanged, unless another process removes
/// processors at the same time.
pub fn move_elsewhere() -> io::Result<bool> {
    let (allowed, here) = (affinity()?, current());
    let others: ProcessorSet = allowed.iter().filter(|&processor| Some(processor) != here).collect();
    if others.is_empty() || here.is_none() {
        return Ok(false);
    }
    set_affinity(&others)?;
    set_affinity(&allowed)?;
    Ok(true)
}

/// Returns the number of processors that the calling thread can keep busy, at least 1. It is the size of
/// its affinity mask (which the cpuset limits), or less where a control group limits processor time.
pub fn usable_processors() -> usize {
    let masked = affinity().map_or(1, |set| set.len()).max(1);
    masked.min(quota_in_processors().unwrap_or(masked).max(1))
}

/// Returns the processor time that control groups allow this process, in processors, if they limit it.
pub fn quota() -> Option<f64> {
    let groups = cgroup::groups("cpu");
    floating_point::isolated(|| tightest(&groups))
}

/// Returns the number of whole processors that use up [`quota`], if there is a limit.
pub fn quota_in_processors() -> Option<usize> {
    let quota = quota();
    floating_point::isolated(|| quota.map(|processors| processors.ceil() as usize))
}

/// Returns the smallest limit of these groups in processors, if there is one.
fn tightest(groups: &[Group]) -> Option<f64> {
    let limit = |group: &Group| if group.is_unified { limit_v2(group) } else { limit_v1(group) };
    groups.iter().filter_map(limit).reduce(f64::min)
}

fn limit_v2(group: &Group) -> Option<f64> {
    let text = group.read("cpu.max")?;
    let mut numbers = text.split_whitespace().map(|number| number.parse::<f64>().ok());
    ratio(numbers.next()??, numbers.next()??)
}

fn limit_v1(group: &Group) -> Option<f64> {
    let number = |name| group.read(name)?.trim().parse::<f64>().ok();
    ratio(number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?)
}

fn ratio(quota_us: f64, period_us: f64) -> Option<f64> {
    (quota_us > 0.0 && period_us > 0.0).then(|| quota_us / period_us)
}

/// Returns the processor on which the calling thread runs now, if the kernel reports it.
pub fn current() -> Option<usize> {
    // SAFETY: the call has no preconditions.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// Yields the processor to another thread that is ready to run.
pub fn yield_now() {
    // SAFETY: the call has no preconditions and cannot fail on Linux.
    unsafe { libc::sched_yield() };
}

/// Returns the time since the start of the system in which the hypervisor gave processors of this machine
/// to others while they had work. The unit is a tick of 10 ms, summed over all processors. Returns 0 where
/// the kernel does not report it.
pub fn stolen_ticks() -> u64 {
    stolen_in(&fs::read_to_string("/proc/stat").unwrap_or_default())
}

/// Returns the eighth figure of the first line of /proc/stat (proc_stat(5): steal).
fn stolen_in(stat: &str) -> u64 {
    let all = stat.lines().find_map(|line| line.strip_prefix("cpu "));
    all.and_then(|figures| figures.split_whitespace().nth(7)?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn affinity_can_be_narrowed_and_restored() {
        std::thread::spawn(|| {
            let whole = affinity().unwrap();
            assert!(!whole.is_empty() && usable_processors() <= whole.len());
            let first = whole.iter().next().unwrap();
            let one: ProcessorSet = [first].into_iter().collect();
            set_affinity(&one).unwrap();
            yield_now();
            assert_eq!(affinity().unwrap().iter().collect::<Vec<_>>(), [first]);
            assert_eq!((current(), usable_processors()), (Some(first), 1));
            set_affinity(&whole).unwrap();
            assert_eq!(affinity().unwrap(), whole);
            assert!(set_affinity(&ProcessorSet::new()).is_err());
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_thread_moves_among_the_processors_that_it_may_use() {
        std::thread::spawn(|| {
            let whole = affinity().unwrap();
            assert_eq!(move_elsewhere().unwrap(), whole.len() > 1);
            assert_eq!(affinity().unwrap(), whole);
            let one: ProcessorSet = whole.iter().take(1).collect();
            set_affinity(&one).unwrap();
            assert!(!move_elsewhere().unwrap());
        })
        .join()
        .unwrap();
    }

    #[test]
    fn sets_hold_what_was_inserted() {
        let set: ProcessorSet = [0, 63, 64, 1000].into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 63, 64, 1000]);
        assert_eq!((set.len(), set.contains(999), set.contains(70_000)), (4, false, false));
    }

    #[test]
    fn stolen_time_is_the_eighth_figure() {
        assert_eq!(
            stolen_in("cpu  4583381 2069401 819213 3983887 11041 0 39533 226703 0 0\ncpu0 1\n"),
            226_703
        );
        assert_eq!((stolen_in(""), stolen_in("cpu  1 2 3\n")), (0, 0));
    }

    fn check(groups: &str, files: &[(&str, &str)], expected: Option<f64>) {
        let name = format!("tutti-cpu-{}-{:p}", std::process::id(), files);
        let root = std::env::temp_dir().join(name);
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        assert_eq!(tightest(&cgroup::groups_of(groups, "cpu", &root)), expected, "{groups}");
        let _ = fs::remove_dir_all(root);
    }

    #[test]
    fn the_tightest_quota_counts() {
        check("0::/a/b\n", &[("a/b/cpu.max", "max 100000\n")], None);
        check(
            "0::/a/b\n",
            &[("a/b/cpu.max", "400000 100000\n"), ("a/cpu.max", "150000 100000\n")],
            Some(1.5),
        );
        check("0::/not/visible\n", &[("cpu.max", "200000 100000\n")], Some(2.0));
        let v1 =
            [("cpu,cpuacct/x/cpu.cfs_quota_us", "50000\n"), ("cpu,cpuacct/x/cpu.cfs_period_us", "100000\n")];
        check("5:memory:/x\n4:cpu,cpuacct:/x\n", &v1, Some(0.5));
        check("4:cpuset:/x\nnonsense\n", &v1, None);
    }
}
