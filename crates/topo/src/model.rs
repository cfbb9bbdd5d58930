//! Table of a machine: a row for each processor, a column for each level of the hierarchy.
//!
//! A tree would have to choose whether a memory controller lies inside a cache or around it, and machines
//! differ in that. In a table each level stands by itself. Instances of a level are numbered `0..count` in
//! the order of the rows, which is the order of neighbourhood.

use std::collections::BTreeMap;

use tutti_sys::cpu::ProcessorSet;

/// Level of the hierarchy. The order is from the largest to the smallest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// A board, or another group of packages.
    Board = 0,
    /// A package, or socket.
    Package = 1,
    /// A memory controller with its memory.
    Numa = 2,
    /// A level 3 cache.
    L3 = 3,
    /// A level 2 cache.
    L2 = 4,
    /// A core.
    Core = 5,
    /// A hardware thread.
    Processor = 6,
}

/// Number of levels of the hierarchy.
pub const LEVELS: usize = 7;

/// Instance of each level that a process is confined to, if it is confined to one.
pub type Places = [Option<u32>; LEVELS];

impl Level {
    /// All levels, from the largest to the smallest.
    pub const ALL: [Level; LEVELS] =
        [Level::Board, Level::Package, Level::Numa, Level::L3, Level::L2, Level::Core, Level::Processor];

    /// Returns the level's name in text, in lower case.
    pub fn name(self) -> &'static str {
        ["board", "package", "numa", "l3", "l2", "core", "processor"][self as usize]
    }
}

/// Distance between two processes (ma-2012 dissertation, chapter 4). A greater distance means a slower path.
/// Processes on different machines are further apart than all of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Distance {
    /// Processes that share a cache.
    SharedCache = 1,
    /// Processes on the same socket and memory controller.
    SamePackageAndNuma = 2,
    /// Processes on different sockets with the same memory controller.
    SameNuma = 3,
    /// Processes on the same socket with different memory controllers.
    SamePackage = 4,
    /// Processes on the same board with nothing closer in common.
    SameBoard = 5,
    /// Processes on different boards of one machine.
    OtherBoard = 6,
}

/// One processor and its location at each level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// The operating system's number of the processor.
    pub number: u32,
    /// Instance of each level, if the processor is in one.
    pub at: [Option<u32>; LEVELS],
}

/// Topology of one machine.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Machine {
    pub(crate) name: String,
    pub(crate) rows: Vec<Row>,
    /// Operating system's number of each instance, for each level.
    pub(crate) numbers: [Vec<u32>; LEVELS],
}

impl Machine {
    /// Builds a machine from rows that name instances by the operating system's numbers (any numbers,
    /// as long as they differ within a level). Rows are put in order of neighbourhood.
    pub(crate) fn from_rows(name: String, mut rows: Vec<Row>) -> Machine {
        rows.sort_by_key(|row| row.at);
        rows.dedup_by_key(|row| row.number);
        let mut numbers: [Vec<u32>; LEVELS] = Default::default();
        for level in Level::ALL.map(|level| level as usize) {
            let mut known = BTreeMap::new();
            for row in &mut rows {
                let Some(number) = row.at[level] else { continue };
                let next = numbers[level].len() as u32;
                let index = *known.entry(number).or_insert(next);
                if index == next {
                    numbers[level].push(number);
                }
                row.at[level] = Some(index);
            }
        }
        Machine { name, rows, numbers }
    }

    /// Returns the name under which the machine was recorded, or the host's.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of instances of a level.
    pub fn count(&self, level: Level) -> usize {
        self.numbers[level as usize].len()
    }

    /// Returns the operating system's number of an instance (for memory controllers and packages; caches and
    /// boards are numbered by their source).
    pub fn number(&self, level: Level, instance: u32) -> Option<u32> {
        self.numbers[level as usize].get(instance as usize).copied()
    }

    /// Returns all processors, neighbours side by side.
    pub fn processors(&self) -> impl Iterator<Item = usize> + '_ {
        self.rows.iter().map(|row| row.number as usize)
    }

    /// Returns the instance of `level` that contains a processor. `None` if there is none or the processor is
    /// not one of this machine.
    pub fn instance(&self, processor: usize, level: Level) -> Option<u32> {
        self.row(processor)?.at[level as usize]
    }

    /// Returns the processors of an instance.
    pub fn members(&self, level: Level, instance: u32) -> ProcessorSet {
        let inside = self.rows.iter().filter(|row| row.at[level as usize] == Some(instance));
        inside.map(|row| row.number as usize).collect()
    }

    /// Returns the one instance of `level` that contains all processors of `set`; `None` if there is none.
    pub fn location(&self, set: &ProcessorSet, level: Level) -> Option<u32> {
        let mut found = set.iter().map(|processor| self.instance(processor, level));
        let first = found.next()??;
        found.all(|other| other == Some(first)).then_some(first)
    }

    /// Returns for each level the one instance that contains all processors of `set`.
    pub fn places(&self, set: &ProcessorSet) -> Places {
        Level::ALL.map(|level| self.location(set, level))
    }

    /// Returns the distance between two processes that may run on these processors: that of the closest
    /// instance that contains both sets entirely.
    pub fn distance(&self, one: &ProcessorSet, two: &ProcessorSet) -> Distance {
        let share = |level| {
            let instance = self.location(one, level);
            instance.is_some() && instance == self.location(two, level)
        };
        if share(Level::L3) || share(Level::L2) || share(Level::Core) {
            return Distance::SharedCache;
        }
        match (share(Level::Package), share(Level::Numa), share(Level::Board)) {
            (true, true, _) => Distance::SamePackageAndNuma,
            (false, true, _) => Distance::SameNuma,
            (true, false, _) => Distance::SamePackage,
            (false, false, true) => Distance::SameBoard,
            (false, false, false) => Distance::OtherBoard,
        }
    }

    fn row(&self, processor: usize) -> Option<&Row> {
        // Most machines list a processor near its number; the rest pays for the search.
        let is_it = |row: &&Row| row.number as usize == processor;
        self.rows.get(processor).filter(is_it).or_else(|| self.rows.iter().find(is_it))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Distance::*;

    fn check(machine: &str, one: &[usize], two: &[usize], expected: Distance) {
        let path = format!("{}/../../fixtures/machines/{machine}.txt", env!("CARGO_MANIFEST_DIR"));
        let machine = Machine::parse(&std::fs::read_to_string(path).unwrap()).unwrap();
        let set = |numbers: &[usize]| -> ProcessorSet { numbers.iter().copied().collect() };
        let (one, two) = (set(one), set(two));
        assert_eq!(machine.distance(&one, &two), expected, "{one:?} {two:?}");
        assert_eq!(machine.distance(&two, &one), expected, "{two:?} {one:?}");
    }

    #[test]
    fn distance_is_that_of_the_closest_thing_in_common() {
        check("epyc-2x16-nps2", &[0], &[0], SharedCache);
        check("epyc-2x16-nps2", &[0], &[3], SharedCache);
        check("epyc-2x16-nps2", &[0], &[4], SamePackageAndNuma);
        check("epyc-2x16-nps2", &[0], &[8], SamePackage);
        check("epyc-2x16-nps2", &[0], &[16], SameBoard);
        check("epyc-2x16-nps2", &[0, 1], &[2, 3], SharedCache);
        check("epyc-2x16-nps2", &[0, 4], &[0], SamePackageAndNuma);
        check("epyc-2x16-nps2", &[0, 31], &[0, 31], SameBoard);
        check("front-side-bus-2x4", &[0], &[1], SharedCache);
        check("front-side-bus-2x4", &[0], &[2], SamePackageAndNuma);
        check("front-side-bus-2x4", &[0], &[4], SameNuma);
        check("boards-2x2x2", &[0], &[2], SameBoard);
        check("boards-2x2x2", &[0], &[4], OtherBoard);
        check("laptop-4x2", &[0], &[4], SharedCache);
        check("laptop-4x2", &[0], &[999], OtherBoard);
    }

    /// Compares the distances from some processors of every recorded machine with `fixtures/distances.txt`.
    /// TUTTI_BLESS=1 in the environment rewrites the file.
    #[test]
    fn distances_are_as_recorded() {
        let fixtures = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
        let mut names: Vec<_> =
            std::fs::read_dir(fixtures.join("machines")).unwrap().map(|file| file.unwrap().path()).collect();
        names.sort();
        let mut text = String::new();
        for path in names {
            let machine = Machine::parse(&std::fs::read_to_string(path).unwrap()).unwrap();
            let last = machine.processors().last().unwrap();
            for one in [0, last] {
                text += &format!("{} processor {one}:", machine.name());
                let far = |two: usize| {
                    let set = |number: usize| -> ProcessorSet { [number].into_iter().collect() };
                    machine.distance(&set(one), &set(two)) as u8
                };
                for distance in 1..=6 {
                    let there: ProcessorSet =
                        machine.processors().filter(|two| far(*two) == distance).collect();
                    if !there.is_empty() {
                        text += &format!(" {distance}: {};", crate::text::show_list(there.iter()));
                    }
                }
                text += "\n";
            }
        }
        tutti_golden::check("distances.txt", &text);
    }

    #[test]
    fn instances_are_numbered_by_neighbourhood() {
        let row = |number, core| Row {
            number,
            at: [Some(0), Some(0), Some(0), None, None, Some(core), Some(number)],
        };
        let machine = Machine::from_rows("test".into(), vec![row(2, 9), row(0, 9), row(1, 4), row(3, 4)]);
        assert_eq!(machine.processors().collect::<Vec<_>>(), [1, 3, 0, 2]);
        assert_eq!((machine.count(Level::Core), machine.number(Level::Core, 1)), (2, Some(9)));
        assert_eq!(machine.members(Level::Core, 1).iter().collect::<Vec<_>>(), [0, 2]);
        assert_eq!(machine.instance(3, Level::Processor), Some(1));
        assert_eq!((machine.count(Level::L3), machine.instance(3, Level::L3)), (0, None));
    }
}
