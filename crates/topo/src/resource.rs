//! Splitting processes by the hardware they are confined to (MPI-5 section 7.4.2: MPI_Comm_split_type
//! with MPI_COMM_TYPE_HW_GUIDED, MPI_COMM_TYPE_RESOURCE_GUIDED and MPI_COMM_TYPE_HW_UNGUIDED).

use tutti_sys::cpu::ProcessorSet;

use crate::model::{Level, Machine, Places};

/// A type of resource that the info key `mpi_hw_resource_type` may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// The memory of one node: all its processes share it.
    SharedMemory,
    /// An instance of a level.
    At(Level),
}

/// Names of resource types, those of hwloc as a URI. One resource may have several names; the first is
/// the one that is listed.
const NAMES: &[(&str, Resource)] = &[
    ("mpi_shared_memory", Resource::SharedMemory),
    ("hwloc://Machine", Resource::SharedMemory),
    ("hwloc://Group", Resource::At(Level::Board)),
    ("hwloc://Package", Resource::At(Level::Package)),
    ("hwloc://Socket", Resource::At(Level::Package)),
    ("hwloc://NUMANode", Resource::At(Level::Numa)),
    ("hwloc://L3Cache", Resource::At(Level::L3)),
    ("hwloc://L2Cache", Resource::At(Level::L2)),
    ("hwloc://Core", Resource::At(Level::Core)),
    ("hwloc://PU", Resource::At(Level::Processor)),
];

impl Resource {
    /// Returns the resource of a name, in any case of letters; `None` for an unknown name.
    pub fn from_name(name: &str) -> Option<Resource> {
        NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|&(_, resource)| resource)
    }

    /// Returns the name under which the resource is listed.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(_, resource)| *resource == self).map_or("", |(name, _)| name)
    }
}

/// Returns the number of the instance of `resource` to which a process bound to `set` is confined. `None` if
/// it may run on several, or the machine has none.
pub fn resource_of(machine: &Machine, set: &ProcessorSet, resource: Resource) -> Option<u32> {
    match resource {
        Resource::SharedMemory => Some(0),
        Resource::At(level) => machine.location(set, level),
    }
}

/// Returns every resource type whose name is a URI, with whether a process bound to `set` is confined to one
/// instance of it (the answer of MPI_Get_hw_resource_info, MPI-5 section 9.1.2).
pub fn confinement(machine: &Machine, set: &ProcessorSet) -> Vec<(&'static str, bool)> {
    let are_uris = NAMES.iter().filter(|(name, _)| name.contains("://"));
    are_uris.map(|&(name, resource)| (name, resource_of(machine, set, resource).is_some())).collect()
}

/// Returns the outermost level that distinguishes processes at these places of one node; `None` if none does.
pub fn unguided(machine: &Machine, places: &[Places]) -> Option<Level> {
    Level::ALL.into_iter().find(|level| {
        let at = *level as usize;
        machine.count(*level) > 1 && places.windows(2).any(|pair| pair[0][at] != pair[1][at])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Machine {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/machines/epyc-2x16-nps2.txt");
        Machine::parse(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    fn set(numbers: std::ops::Range<usize>) -> ProcessorSet {
        numbers.collect()
    }

    fn check_unguided(sets: &[std::ops::Range<usize>], expected: Option<(Level, &[Option<u32>])>) {
        let places: Vec<_> = sets.iter().cloned().map(|numbers| machine().places(&set(numbers))).collect();
        let level = unguided(&machine(), &places);
        let got = level.map(|level| places.iter().map(|at| at[level as usize]).collect::<Vec<_>>());
        assert_eq!((level, got.as_deref()), (expected.map(|found| found.0), expected.map(|found| found.1)));
    }

    #[test]
    fn a_guided_split_follows_confinement() {
        let check = |name: &str, numbers, expected| {
            let resource = Resource::from_name(name).unwrap();
            assert_eq!(resource_of(&machine(), &set(numbers), resource), expected, "{name}");
        };
        check("mpi_shared_memory", 0..32, Some(0));
        check("hwloc://NUMANode", 8..16, Some(1));
        check("hwloc://numanode", 7..9, None);
        check("hwloc://Package", 16..32, Some(1));
        check("hwloc://L3Cache", 4..6, Some(1));
        check("hwloc://Core", 31..32, Some(31));
        check("hwloc://Core", 0..32, None);
        check("hwloc://Core", 0..0, None);
        assert_eq!(Resource::from_name("hwloc://Moon"), None);
        assert_eq!(Resource::At(Level::Package).name(), "hwloc://Package");
    }

    #[test]
    fn an_unguided_split_takes_the_outermost_level_that_splits() {
        check_unguided(&[0..1, 16..17], Some((Level::Package, &[Some(0), Some(1)])));
        check_unguided(&[0..1, 8..9, 9..10], Some((Level::Numa, &[Some(0), Some(1), Some(1)])));
        check_unguided(&[0..1, 1..2], Some((Level::L2, &[Some(0), Some(1)])));
        check_unguided(&[0..1, 0..32], Some((Level::Package, &[Some(0), None])));
        check_unguided(&[0..32, 0..32], None);
        check_unguided(std::slice::from_ref(&(0..1)), None);
        check_unguided(&[], None);
    }

    #[test]
    fn confinement_lists_every_resource() {
        let list = confinement(&machine(), &set(0..4));
        let yes: Vec<_> = list.iter().filter(|(_, confined)| *confined).map(|(name, _)| *name).collect();
        assert!(list.iter().all(|(name, _)| name.starts_with("hwloc://")));
        assert!(yes.contains(&"hwloc://L3Cache") && !yes.contains(&"hwloc://Core"), "{yes:?}");
    }
}
