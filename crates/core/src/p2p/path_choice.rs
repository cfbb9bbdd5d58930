//! Choice of the path of a long message within a host: a stream through a ring, or a single copy out of the
//! sender's memory. The kernel makes that copy, or the receiver if the memory is mapped.
//!
//! A ring copies bytes twice, but two processors copy at the same time, at the speed of their shared cache.
//! That is faster while both are otherwise idle. If messages go both ways, or ranks share processors, the two
//! copies follow one another. Then the kernel's single copy may be faster, although it pins page by page.
//!
//! These speeds change by the hour on a virtual machine. So a receiver measures its copies for each peer and
//! class of sizes. Now and then it takes the slower path to see whether that has improved.

/// Number of classes. The lengths of messages in a class differ by a factor of two at most.
const CLASSES: usize = 16;
/// Number of binary digits at which the first class ends. Shorter messages are not considered.
const SHORTEST: u32 = 14;
/// Number of copies after which the speed of a path counts as known.
const SAMPLES: u8 = 2;
/// Interval in messages at which the path that seems slower is taken.
const TRIED_AGAIN: u8 = 64;
/// Number of bytes to which measured ticks are scaled. It gives a resolution of one percent and fits into 32
/// bits.
const UNIT: u64 = 64 << 10;

/// Measurements of the two paths from one peer.
#[derive(Clone, Debug, Default)]
pub(super) struct PathChoice {
    classes: [Class; CLASSES],
}

/// Measurements for messages of similar length.
#[derive(Clone, Copy, Debug, Default)]
struct Class {
    /// Single copy, by `Reading`.
    read: [StoreMode; 2],
    /// Copies into a ring and out of it.
    fill: StoreMode,
    take: StoreMode,
    messages: u8,
}

/// Process that copies out of the sender's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// Copy by the kernel.
    Kernel,
    /// Copy by the receiver, as the memory is mapped.
    Mapped,
}

/// Ticks of the clock for [`UNIT`] bytes. It is an integer, as this code runs in the program's floating-point
/// environment.
#[derive(Clone, Copy, Debug, Default)]
struct StoreMode {
    ticks: u32,
    samples: u8,
}

impl StoreMode {
    /// Adds a measured copy. Disturbances only add time, so shorter times count at once, longer ones
    /// gradually.
    fn took(&mut self, ticks: u64, bytes: u64) {
        let sample = ticks.saturating_mul(UNIT) / bytes.max(1);
        let sample = u32::try_from(sample).unwrap_or(u32::MAX);
        if self.samples == 0 {
            self.ticks = sample;
        }
        let sample = sample.min(self.ticks.saturating_mul(4));
        self.ticks = match sample.checked_sub(self.ticks) {
            Some(more) => self.ticks + more / 8,
            None => self.ticks - (self.ticks - sample) / 2,
        };
        self.samples = self.samples.saturating_add(1);
    }

    fn is_known(self) -> bool {
        self.samples >= SAMPLES
    }
}

impl PathChoice {
    /// Returns the measurements for messages of this length.
    fn class(&mut self, bytes: u64) -> &mut Class {
        let digits = bytes.max(1).ilog2().saturating_sub(SHORTEST) as usize;
        &mut self.classes[digits.min(CLASSES - 1)]
    }

    /// Returns true if the next message of `bytes` bytes should be read. `alone` is true if the processors of
    /// both sides are otherwise idle.
    pub fn reads(&mut self, by: Reading, bytes: u64, alone: bool) -> bool {
        let class = self.class(bytes);
        class.messages = class.messages.wrapping_add(1);
        let Class { read, take, fill, messages } = *class;
        let read = read[by as usize];
        if !read.is_known() || !take.is_known() {
            return !read.is_known();
        }
        // A process that only receives has no measurement of the sender's side, which performs a similar
        // copy.
        let fill = if fill.is_known() { fill } else { take };
        let ring = if alone { take.ticks.max(fill.ticks) } else { take.ticks.saturating_add(fill.ticks) };
        (read.ticks < ring) != messages.is_multiple_of(TRIED_AGAIN)
    }

    /// Notes that a message of `bytes` bytes was read in `ticks` ticks.
    pub fn read(&mut self, by: Reading, bytes: u64, ticks: u64) {
        self.class(bytes).read[by as usize].took(ticks, bytes);
    }

    /// Notes that a piece of a message of `whole` bytes was copied into the ring.
    pub fn filled(&mut self, whole: u64, piece: usize, ticks: u64) {
        self.class(whole).fill.took(ticks, piece as u64);
    }

    /// Notes that a piece of a message of `whole` bytes was copied out of the ring.
    pub fn took(&mut self, whole: u64, piece: usize, ticks: u64) {
        self.class(whole).take.took(ticks, piece as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: u64 = 64 << 10;

    /// Checks how many of 640 messages are read. A KiB takes the given ticks by the kernel, into the ring and
    /// out of it.
    fn check(
        ways: &mut PathChoice,
        (read, fill, take): (u64, u64, u64),
        alone: bool,
        expected: std::ops::Range<u32>,
    ) {
        let mut count = 0;
        for _ in 0..640 {
            if ways.reads(Reading::Kernel, BYTES, alone) {
                count += 1;
                ways.read(Reading::Kernel, BYTES, read * 64);
            } else {
                ways.filled(BYTES, 32 << 10, fill * 32);
                ways.took(BYTES, 32 << 10, take * 32);
            }
        }
        assert!(expected.contains(&count), "{read} {fill} {take} {alone}: {count}");
    }

    #[test]
    fn the_shorter_way_is_taken_and_the_other_one_looked_at() {
        check(&mut PathChoice::default(), (150, 100, 100), true, 10..16);
        check(&mut PathChoice::default(), (150, 100, 100), false, 620..638);
        check(&mut PathChoice::default(), (250, 100, 100), false, 10..16);
        check(&mut PathChoice::default(), (90, 100, 100), true, 620..638);
    }

    #[test]
    fn a_machine_that_changes_is_followed() {
        let mut ways = PathChoice::default();
        check(&mut ways, (150, 100, 100), false, 620..638);
        check(&mut ways, (150, 30, 30), false, 0..600);
        check(&mut ways, (150, 30, 30), false, 10..16);
        check(&mut ways, (40, 30, 30), false, 200..640);
    }

    #[test]
    fn sizes_are_told_apart() {
        let mut ways = PathChoice::default();
        check(&mut ways, (150, 100, 100), false, 620..638);
        assert!(ways.reads(Reading::Kernel, 1 << 40, false) && ways.reads(Reading::Kernel, 1, false));
        ways.read(Reading::Kernel, 4 << 20, 1);
        assert_eq!(ways.classes.iter().filter(|class| class.read[0].samples > 0).count(), 2);
    }

    #[test]
    fn mapped_memory_is_a_way_of_its_own() {
        let mut ways = PathChoice::default();
        check(&mut ways, (250, 100, 100), false, 10..16);
        assert!(ways.reads(Reading::Mapped, BYTES, false), "it is not known");
        (0..2).for_each(|_| ways.read(Reading::Mapped, BYTES, 64 * 50));
        assert!(ways.reads(Reading::Mapped, BYTES, false) && !ways.reads(Reading::Kernel, BYTES, false));
    }
}
