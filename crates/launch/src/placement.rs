//! Where ranks run: mapping and binding, as functions of a machine and the processors allowed.
//!
//! The default binding is core when it is safe: when there are exactly as many ranks as cores, no rank
//! wants threads and no quota takes processor time away. With fewer ranks than cores another job may
//! run beside this one, and both would take the same cores; with more, ranks have to move.

use tutti_topo::model::{Level, Machine};
use tutti_topo::{ProcessorSet, text};

use crate::request::{BindTo, MapBy};

/// What is known about a job before it is placed.
#[derive(Clone, Copy, Debug)]
pub struct Demand {
    /// Ranks on this node.
    pub ranks: u32,
    /// Whether programs are asked to run several threads a rank.
    pub threads: bool,
    /// Processors' worth of time that the job may use.
    pub usable: usize,
    /// Mapping, if it was said.
    pub map_by: Option<MapBy>,
    /// Binding, if it was said.
    pub bind_to: Option<BindTo>,
}

/// Most hardware threads that a core has, on any machine.
const THREADS_PER_CORE: usize = 8;

/// Whether placing this job needs a description of the machine; finding one takes time.
pub fn needs_machine(demand: &Demand, allowed: &ProcessorSet) -> bool {
    match demand.bind_to {
        Some(BindTo::None) => false,
        Some(_) => true,
        None => {
            let ranks = demand.ranks as usize;
            let could_fill = ranks <= allowed.len() && ranks * THREADS_PER_CORE >= allowed.len();
            could_fill && !demand.threads && demand.usable == allowed.len()
        }
    }
}

/// The processors of each rank; `None` for a rank that is not bound.
pub fn place(demand: &Demand, machine: &Machine, allowed: &ProcessorSet) -> Vec<Option<ProcessorSet>> {
    let slots = slots(machine, allowed);
    if slots.is_empty() {
        // The description is of another machine (HWLOC_XMLFILE): nothing can be said about this one.
        return vec![None; demand.ranks as usize];
    }
    let cores = slots.iter().filter(|slot| slot.thread == 0).count();
    let bind_to = demand.bind_to.unwrap_or_else(|| {
        let fills = demand.ranks as usize == cores && needs_machine(demand, allowed);
        if fills { BindTo::Core } else { BindTo::None }
    });
    let places = map(demand.ranks, machine, &slots, demand.map_by.unwrap_or(MapBy::Core));
    places.into_iter().map(|processor| bind(machine, allowed, processor, bind_to)).collect()
}

/// A processor that a rank may be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot {
    /// How many allowed processors of the same core come before it.
    thread: u32,
    processor: usize,
}

/// The allowed processors in the order in which ranks take them: a core each first, then the second
/// threads of the cores.
fn slots(machine: &Machine, allowed: &ProcessorSet) -> Vec<Slot> {
    let mut slots: Vec<Slot> = Vec::new();
    let (mut last_core, mut thread) = (None, 0);
    for processor in machine.processors().filter(|&processor| allowed.contains(processor)) {
        let core = machine.instance(processor, Level::Core);
        thread = if core.is_some() && core == last_core { thread + 1 } else { 0 };
        last_core = core;
        slots.push(Slot { thread, processor });
    }
    slots.sort_by_key(|slot| slot.thread);
    slots
}

/// The processor of each rank; there is at least one slot. More ranks than slots go round again.
fn map(ranks: u32, machine: &Machine, slots: &[Slot], by: MapBy) -> Vec<usize> {
    let level = match by {
        MapBy::Core => None,
        MapBy::Numa => Some(Level::Numa),
        MapBy::Package => Some(Level::Package),
    };
    let mut groups: Vec<(Option<u32>, Vec<usize>)> = Vec::new();
    for slot in slots {
        let group = level.and_then(|level| machine.instance(slot.processor, level));
        match groups.iter_mut().find(|(known, _)| *known == group) {
            Some((_, members)) => members.push(slot.processor),
            None => groups.push((group, vec![slot.processor])),
        }
    }
    let place = |rank: usize| {
        let members = &groups[rank % groups.len()].1;
        members[rank / groups.len() % members.len()]
    };
    (0..ranks as usize).map(place).collect()
}

/// The allowed processors around one.
fn bind(machine: &Machine, allowed: &ProcessorSet, processor: usize, to: BindTo) -> Option<ProcessorSet> {
    let level = match to {
        BindTo::None => return None,
        BindTo::Processor => Level::Processor,
        BindTo::Core => Level::Core,
        BindTo::Numa => Level::Numa,
        BindTo::Package => Level::Package,
    };
    let members = machine.members(level, machine.instance(processor, level)?);
    Some(members.iter().filter(|&member| allowed.contains(member)).collect())
}

/// A line on the binding of a rank.
pub fn describe(rank: u32, set: Option<&ProcessorSet>, machine: &Machine) -> String {
    let Some(set) = set else { return format!("mpirun: rank {rank} is not bound\n") };
    let mut place = String::new();
    for level in [Level::Package, Level::Numa, Level::Core] {
        if let Some(instance) = machine.location(set, level) {
            place.push_str(&format!("{} {instance}, ", level.name()));
        }
    }
    format!("mpirun: rank {rank} is bound to {place}processors {}\n", text::show_list(set.iter()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(name: &str) -> Machine {
        let path = format!("{}/../../fixtures/machines/{name}.txt", env!("CARGO_MANIFEST_DIR"));
        Machine::parse(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    const PLAIN: Demand = Demand { ranks: 1, threads: false, usable: 0, map_by: None, bind_to: None };

    /// `expected` lists the processors of each rank, or says none.
    fn check(machine: &str, allowed: &str, demand: Demand, expected: &[&str]) {
        let machine = recorded(machine);
        let allowed: ProcessorSet =
            text::parse_list(allowed).unwrap().into_iter().map(|number| number as usize).collect();
        let usable = if demand.usable == 0 { allowed.len() } else { demand.usable };
        let demand = Demand { usable, ..demand };
        let got: Vec<String> = place(&demand, &machine, &allowed)
            .iter()
            .map(|set| set.as_ref().map_or("none".to_string(), |set| text::show_list(set.iter())))
            .collect();
        assert_eq!(got, expected, "{demand:?}");
    }

    #[test]
    fn by_default_ranks_that_fill_the_cores_are_bound_to_them() {
        check("one-2", "0-1", Demand { ranks: 2, ..PLAIN }, &["0", "1"]);
        check("one-2", "0-1", Demand { ranks: 1, ..PLAIN }, &["none"]);
        check("one-2", "0-1", Demand { ranks: 3, ..PLAIN }, &["none"; 3]);
        check("one-2", "0-1", Demand { ranks: 2, threads: true, ..PLAIN }, &["none"; 2]);
        check("one-2", "0-1", Demand { ranks: 2, usable: 1, ..PLAIN }, &["none"; 2]);
        check("one-2", "1", Demand { ranks: 1, ..PLAIN }, &["1"]);
        check("laptop-4x2", "0-7", Demand { ranks: 4, ..PLAIN }, &["0,4", "1,5", "2,6", "3,7"]);
        check("laptop-4x2", "0-7", Demand { ranks: 8, ..PLAIN }, &["none"; 8]);
        check("laptop-4x2", "0-1,4", Demand { ranks: 2, ..PLAIN }, &["0,4", "1"]);
    }

    #[test]
    fn mapping_and_binding_as_asked() {
        let core = Demand { bind_to: Some(BindTo::Core), ..PLAIN };
        check("epyc-2x16-nps2", "0-31", Demand { ranks: 3, ..core }, &["0", "1", "2"]);
        let numa = Demand { map_by: Some(MapBy::Numa), ..core };
        check("epyc-2x16-nps2", "0-31", Demand { ranks: 5, ..numa }, &["0", "8", "16", "24", "1"]);
        let package = Demand { map_by: Some(MapBy::Package), bind_to: Some(BindTo::Numa), ..PLAIN };
        check("epyc-2x16-nps2", "4-31", Demand { ranks: 3, ..package }, &["4-7", "16-23", "4-7"]);
        let thread = Demand { bind_to: Some(BindTo::Processor), ..PLAIN };
        check("laptop-4x2", "0-7", Demand { ranks: 5, ..thread }, &["0", "1", "2", "3", "4"]);
        check("one-2", "0-1", Demand { ranks: 5, ..core }, &["0", "1", "0", "1", "0"]);
        check("one-2", "0-1", Demand { ranks: 2, bind_to: Some(BindTo::None), ..PLAIN }, &["none"; 2]);
        check("one-2", "7-8", Demand { ranks: 2, ..core }, &["none"; 2]);
    }

    #[test]
    fn the_machine_is_looked_at_only_when_it_matters() {
        let check = |demand: Demand, processors: usize, expected: bool| {
            let allowed: ProcessorSet = (0..processors).collect();
            let demand = Demand { usable: processors, ..demand };
            assert_eq!(needs_machine(&demand, &allowed), expected, "{demand:?}");
        };
        check(Demand { ranks: 2, ..PLAIN }, 2, true);
        check(Demand { ranks: 3, ..PLAIN }, 2, false);
        check(Demand { ranks: 2, ..PLAIN }, 64, false);
        check(Demand { ranks: 2, bind_to: Some(BindTo::None), ..PLAIN }, 2, false);
        check(Demand { ranks: 2, bind_to: Some(BindTo::Core), ..PLAIN }, 64, true);
    }

    #[test]
    fn bindings_are_described() {
        let machine = recorded("laptop-4x2");
        let set: ProcessorSet = [1, 5].into_iter().collect();
        let text = describe(3, Some(&set), &machine);
        assert_eq!(text, "mpirun: rank 3 is bound to package 0, numa 0, core 1, processors 1,5\n");
        assert_eq!(describe(3, None, &machine), "mpirun: rank 3 is not bound\n");
    }
}
