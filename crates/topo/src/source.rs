//! Sources for the description of the real machine.
//!
//! | source | when | cost |
//! |---|---|---|
//! | text in the job object | the launcher needed the machine to place ranks, and left it for them | none |
//! | hwloc | HWLOC_XMLFILE or HWLOC_SYNTHETIC is set, or /sys says nothing | 2 to 40 ms |
//! | /sys | otherwise | 0.1 ms and about 0.1 ms a processor |
//!
//! A test holds hwloc and /sys against one another.

use std::ffi::CString;
use std::fs;
use std::io;
use std::path::Path;

use tutti_sys::hwloc::{self, Kind};
use tutti_sys::{cpu, process};

use crate::model::{LEVELS, Level, Machine, Row};
use crate::text::parse_list;

/// Variables by which hwloc is told to see another machine.
const HWLOC_VARIABLES: [&str; 2] = ["HWLOC_XMLFILE", "HWLOC_SYNTHETIC"];
const SYSTEM: &str = "/sys/devices/system";

/// A thing with processors in it, as a source reports it.
struct Part {
    level: Level,
    number: u32,
    processors: Vec<u32>,
}

impl Machine {
    /// Describes the machine of this process. Never fails: without any source, every processor of
    /// the affinity mask is a core of one package.
    pub fn local() -> Machine {
        if HWLOC_VARIABLES.iter().any(|name| std::env::var_os(name).is_some())
            && let Ok(machine) = Machine::from_hwloc()
        {
            return machine;
        }
        let found = Machine::from_sys(Path::new(SYSTEM)).or_else(|_| Machine::from_hwloc());
        found.unwrap_or_else(|_| Machine::flat())
    }

    /// Describes the machine of a job by the text that the launcher left (see
    /// `tutti_sys::job::Job::machine`). Without one, returns the result of [`Machine::local`].
    pub fn of_job(text: &[u8]) -> Machine {
        let left = std::str::from_utf8(text).ok().filter(|text| !text.is_empty());
        left.and_then(|text| Machine::parse(text).ok()).unwrap_or_else(Machine::local)
    }

    /// Describes the machine that hwloc discovers.
    ///
    /// # Errors
    /// NotFound if hwloc is not installed; what hwloc reports.
    pub fn from_hwloc() -> io::Result<Machine> {
        Machine::of_objects(hwloc::discover()?)
    }

    /// Describes a machine that does not exist, from its synthetic description in hwloc's notation (`pack:2
    /// core:4 pu:2`).
    ///
    /// # Errors
    /// As [`Machine::from_hwloc`]; InvalidInput for what is no description.
    pub fn synthetic(description: &str) -> io::Result<Machine> {
        Machine::of_objects(hwloc::discover_synthetic(&CString::new(description)?)?)
    }

    fn of_objects(objects: Vec<hwloc::Object>) -> io::Result<Machine> {
        let parts = objects.into_iter().map(|object| {
            let level = match object.kind {
                Kind::Group => Level::Board,
                Kind::Package => Level::Package,
                Kind::Numa => Level::Numa,
                Kind::L3 => Level::L3,
                Kind::L2 => Level::L2,
                Kind::Core => Level::Core,
                Kind::Processor => Level::Processor,
            };
            // Cores are numbered anew in each package: name them by their first processor.
            let by_processor = matches!(level, Level::L3 | Level::L2 | Level::Core);
            let first = object.processors.first().copied().filter(|_| by_processor);
            Part { level, number: first.unwrap_or(object.number), processors: object.processors }
        });
        assemble(parts.collect()).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Describes the machine that the kernel shows under `system` (`/sys/devices/system`).
    ///
    /// # Errors
    /// If it is not there or names no processor.
    pub fn from_sys(system: &Path) -> io::Result<Machine> {
        let list = |path: &Path| -> Option<Vec<u32>> { parse_list(&fs::read_to_string(path).ok()?).ok() };
        let mut parts = Vec::new();
        for number in list(&system.join("cpu/online")).ok_or(io::ErrorKind::NotFound)? {
            let directory = system.join(format!("cpu/cpu{number}"));
            let topology = directory.join("topology");
            parts.push(Part { level: Level::Processor, number, processors: vec![number] });
            let package = fs::read_to_string(topology.join("physical_package_id")).ok();
            // Virtual machines say -1.
            let package = package.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
            parts.push(Part { level: Level::Package, number: package, processors: vec![number] });
            let siblings = list(&topology.join("core_cpus_list"))
                .or_else(|| list(&topology.join("thread_siblings_list")))
                .and_then(|siblings| siblings.first().copied());
            parts.push(Part {
                level: Level::Core,
                number: siblings.unwrap_or(number),
                processors: vec![number],
            });
            caches(&directory.join("cache"), number, &mut parts);
        }
        for node in list(&system.join("node/has_cpu")).unwrap_or_default() {
            let processors = list(&system.join(format!("node/node{node}/cpulist"))).unwrap_or_default();
            parts.push(Part { level: Level::Numa, number: node, processors });
        }
        assemble(parts).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Describes a machine of which only the permitted processors are known.
    fn flat() -> Machine {
        let numbers: Vec<u32> = match cpu::affinity() {
            Ok(set) => set.iter().map(|number| number as u32).collect(),
            Err(_) => vec![0],
        };
        let part = |level| move |&number: &u32| Part { level, number, processors: vec![number] };
        let cores = numbers.iter().map(part(Level::Core));
        let parts: Vec<Part> = numbers.iter().map(part(Level::Processor)).chain(cores).collect();
        assemble(parts).unwrap_or_default()
    }
}

/// Adds the level 2 and 3 caches of one processor.
fn caches(directory: &Path, number: u32, parts: &mut Vec<Part>) {
    for index in 0..8 {
        let cache = directory.join(format!("index{index}"));
        let read = |file: &str| fs::read_to_string(cache.join(file)).unwrap_or_default();
        let level = match read("level").trim() {
            "" => return,
            "2" => Level::L2,
            "3" => Level::L3,
            _ => continue,
        };
        let sharers = parse_list(&read("shared_cpu_list")).unwrap_or_default();
        if let Some(&first) = sharers.first() {
            parts.push(Part { level, number: first, processors: vec![number] });
        }
    }
}

/// Makes rows of parts; `None` without a processor.
fn assemble(parts: Vec<Part>) -> Option<Machine> {
    let highest = parts.iter().flat_map(|part| &part.processors).max()?;
    let mut rows: Vec<Option<Row>> = vec![None; *highest as usize + 1];
    for part in parts.iter().filter(|part| part.level == Level::Processor) {
        let mut at = [None; LEVELS];
        // What no source mentions is one thing: one board, one package, one memory.
        at[..=Level::Numa as usize].fill(Some(0));
        at[Level::Processor as usize] = Some(part.number);
        *rows.get_mut(part.number as usize)? = Some(Row { number: part.number, at });
    }
    for part in parts.iter().filter(|part| part.level != Level::Processor && is_real(part, &parts)) {
        for &processor in &part.processors {
            if let Some(Some(row)) = rows.get_mut(processor as usize) {
                row.at[part.level as usize] = Some(part.number);
            }
        }
    }
    let rows: Vec<Row> = rows.into_iter().flatten().collect();
    (!rows.is_empty()).then(|| Machine::from_rows(process::host_name(), rows))
}

/// Returns true for a part that is no board, and for a board that contains a package smaller than itself.
fn is_real(part: &Part, parts: &[Part]) -> bool {
    let holds = |other: &&Part| {
        other.processors.len() < part.processors.len()
            && other.processors.iter().all(|processor| part.processors.contains(processor))
    };
    part.level != Level::Board
        || parts.iter().filter(|part| part.level == Level::Package).any(|other| holds(&other))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tutti_sys::cpu::ProcessorSet;

    #[test]
    fn both_sources_see_the_same_machine() {
        let Ok(system) = Machine::from_sys(Path::new(SYSTEM)) else { return };
        let allowed = cpu::affinity().unwrap();
        // hwloc leaves out processors that this process may not use.
        if allowed.len() == system.processors().count()
            && let Ok(hwloc) = Machine::from_hwloc()
        {
            assert_eq!(system.to_string(), hwloc.to_string());
        }
    }

    /// Checks that hwloc's picture of a machine and the recorded one have the same distances.
    fn check_recorded(name: &str, description: &str) {
        let synthetic = match Machine::synthetic(description) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            found => found.unwrap(),
        };
        let path = format!("{}/../../fixtures/machines/{name}.txt", env!("CARGO_MANIFEST_DIR"));
        let recorded = Machine::parse(&fs::read_to_string(path).unwrap()).unwrap();
        let rows = |machine: &Machine| -> Vec<_> {
            let sets: Vec<ProcessorSet> =
                machine.processors().map(|processor| [processor].into_iter().collect()).collect();
            let row = |one| sets.iter().map(|two| machine.distance(one, two)).collect::<Vec<_>>();
            sets.iter().map(row).collect()
        };
        assert_eq!(rows(&synthetic), rows(&recorded), "{name}:\n{synthetic}");
    }

    #[test]
    fn hwloc_agrees_with_the_recorded_machines() {
        check_recorded("front-side-bus-4x4", "pack:4 l2:2 core:2 pu:1");
        check_recorded("boards-2x4x6", "group:2 pack:4 numa:1 l3:1 l2:6 core:1 pu:1");
        check_recorded("boards-2x2x3", "group:2 pack:2 numa:1 l2:3 core:1 pu:1");
        check_recorded("sockets-4x2", "pack:4 numa:1 l2:2 core:1 pu:1");
        check_recorded("epyc-2x64-nps4", "pack:2 numa:4 l3:2 l2:8 core:1 pu:2");
        assert!(Machine::synthetic("no machine").is_err());
    }

    #[test]
    fn something_is_always_found() {
        let machine = Machine::local();
        assert!(machine.count(Level::Core) >= 1 && machine.count(Level::Package) >= 1);
        assert_eq!(Machine::of_job(machine.to_string().as_bytes()), machine);
        assert_eq!(Machine::of_job(b""), machine);
        assert!(Machine::flat().count(Level::Core) >= 1);
        assert!(Machine::from_sys(Path::new("/nowhere")).is_err());
    }
}
