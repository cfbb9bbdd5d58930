//! Placement of ranks on processors: mapping and binding, as functions of a machine and the allowed
//! processors.
//!
//! By default ranks are bound to cores when that is safe. There must be exactly as many ranks as cores, no
//! rank may use threads, and no quota may limit the processor time. With fewer ranks than cores, another job
//! may run beside this one, and both would use the same cores. With more ranks than cores, ranks must be able
//! to move.

use tutti_topo::model::{Level, Machine};
use tutti_topo::{ProcessorSet, text};

use crate::error::LaunchError;
use crate::request::{BindTo, Cores, MapBy, Placing};

/// Properties of a job that determine its placement.
#[derive(Clone, Copy, Debug)]
pub struct Demand<'a> {
    /// Ranks on this host, by their world rank.
    pub world: &'a [u32],
    /// True if programs are configured to run several threads in each rank.
    pub threads: bool,
    /// Processor time that the job may use, in processors.
    pub usable: usize,
    /// Placement options of the command line.
    pub placing: &'a Placing,
}

impl Demand<'_> {
    fn ranks(&self) -> usize {
        self.world.len()
    }
}

/// Maximum number of hardware threads of a core, on any machine.
const THREADS_PER_CORE: usize = 8;

/// Returns true if the placement of this job needs a description of the machine, which takes time to obtain.
pub fn needs_machine(demand: &Demand<'_>, allowed: &ProcessorSet) -> bool {
    let placing = demand.placing;
    let is_told = !placing.told.is_empty() || !placing.cores.is_empty() || placing.cores_per_rank > 0;
    match placing.bind_to {
        _ if is_told => true,
        Some(BindTo::None) => false,
        Some(_) => true,
        None => {
            let ranks = demand.ranks();
            let could_fill = ranks <= allowed.len() && ranks * THREADS_PER_CORE >= allowed.len();
            could_fill && !demand.threads && demand.usable == allowed.len()
        }
    }
}

/// Returns the processors of each rank; None for a rank that is not bound.
///
/// # Errors
/// Fails if this machine lacks cores that the options name.
pub fn place(
    demand: &Demand<'_>,
    machine: &Machine,
    allowed: &ProcessorSet,
) -> Result<Vec<Option<ProcessorSet>>, LaunchError> {
    let placing = demand.placing;
    let allowed = &match placing.cores.is_empty() {
        true => allowed.clone(),
        false => {
            let only = processors_of(machine, &Cores { package: None, cores: placing.cores.clone() })?;
            only.iter().filter(|&processor| allowed.contains(processor)).collect()
        }
    };
    let slots = slots(machine, allowed);
    if slots.is_empty() {
        if !placing.cores.is_empty() {
            return Err(LaunchError::Invalid("none of the cores of --cpu-set may be used here".to_string()));
        }
        // The description is of another machine (HWLOC_XMLFILE), so this one is unknown.
        return Ok(vec![None; demand.ranks()]);
    }
    let cores = slots.iter().filter(|slot| slot.thread == 0).count();
    let bind_to = placing.bind_to.unwrap_or_else(|| {
        let fills = demand.ranks() == cores && needs_machine(demand, allowed);
        match placing.cores_per_rank {
            0 if !fills => BindTo::None,
            _ => BindTo::Core,
        }
    });
    let mut sets = map(demand, machine, &slots)?
        .into_iter()
        .map(|processors| match bind_to {
            // Ranks that are not bound stay on the processors that the job may use.
            BindTo::None if !placing.cores.is_empty() => Some(allowed.clone()),
            _ => bind(machine, allowed, &processors, bind_to),
        })
        .collect::<Vec<_>>();
    for (set, rank) in sets.iter_mut().zip(demand.world) {
        if let Some((_, cores)) = placing.told.iter().find(|(told, _)| told == rank) {
            let told =
                processors_of(machine, cores).map_err(|error| error.in_place(format!("rank {rank}")))?;
            let told: ProcessorSet = told.iter().filter(|&processor| allowed.contains(processor)).collect();
            if told.is_empty() {
                return Err(LaunchError::Invalid(format!("rank {rank}: its cores may not be used here")));
            }
            *set = Some(told);
        }
    }
    Ok(sets)
}

/// Returns the processors of cores that are named by their order.
fn processors_of(machine: &Machine, cores: &Cores) -> Result<ProcessorSet, LaunchError> {
    let mut known: Vec<u32> = Vec::new();
    for processor in machine.processors() {
        let package = machine.instance(processor, Level::Package);
        if cores.package.is_none_or(|wanted| package == Some(wanted)) {
            let core = machine.instance(processor, Level::Core);
            known.extend(core.filter(|core| known.last() != Some(core)));
        }
    }
    let mut processors = ProcessorSet::default();
    for &wanted in &cores.cores {
        let whose = cores.package.map_or("this machine".to_string(), |package| format!("package {package}"));
        let core = known.get(wanted as usize).ok_or_else(|| {
            let count = known.len();
            LaunchError::Invalid(format!("there is no core {wanted}: {whose} has {count}, counted from 0"))
        })?;
        processors = processors.iter().chain(machine.members(Level::Core, *core).iter()).collect();
    }
    Ok(processors)
}

/// Processor that can be assigned to a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot {
    /// Number of allowed processors of the same core that precede it.
    thread: u32,
    processor: usize,
}

/// Returns the allowed processors in the order in which they are assigned: one of each core first, then the
/// second threads of the cores.
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

/// Returns the first processors of each rank: one, or one of each core with `PE=N`. There must be at least
/// one slot. If there are more ranks than slots, slots are assigned again.
fn map(demand: &Demand<'_>, machine: &Machine, slots: &[Slot]) -> Result<Vec<Vec<usize>>, LaunchError> {
    let level = match demand.placing.map_by.unwrap_or(MapBy::Core) {
        MapBy::Core => None,
        MapBy::L2 => Some(Level::L2),
        MapBy::L3 => Some(Level::L3),
        MapBy::Numa => Some(Level::Numa),
        MapBy::Package => Some(Level::Package),
    };
    let per_rank = demand.placing.cores_per_rank as usize;
    let mut groups: Vec<(Option<u32>, Vec<usize>)> = Vec::new();
    for slot in slots.iter().filter(|slot| per_rank == 0 || slot.thread == 0) {
        let group = level.and_then(|level| machine.instance(slot.processor, level));
        match groups.iter_mut().find(|(known, _)| *known == group) {
            Some((_, members)) => members.push(slot.processor),
            None => groups.push((group, vec![slot.processor])),
        }
    }
    let places: Vec<Vec<&[usize]>> =
        groups.iter().map(|(_, members)| members.chunks_exact(per_rank.max(1)).collect()).collect();
    let places: Vec<Vec<&[usize]>> = places.into_iter().filter(|places| !places.is_empty()).collect();
    if places.is_empty() {
        let most = groups.iter().map(|(_, members)| members.len()).max().unwrap_or(0);
        return Err(LaunchError::Invalid(format!("PE={per_rank}: ranks may use {most} cores here")));
    }
    let in_a_row = demand.placing.ranks_per_unit.max(1) as usize;
    let place = |rank: usize| {
        let (round, turn) = (rank / in_a_row / places.len(), rank / in_a_row % places.len());
        let unit = &places[turn];
        unit[(round * in_a_row + rank % in_a_row) % unit.len()].to_vec()
    };
    Ok((0..demand.ranks()).map(place).collect())
}

/// Returns the allowed processors in the units that contain the given processors.
fn bind(machine: &Machine, allowed: &ProcessorSet, processors: &[usize], to: BindTo) -> Option<ProcessorSet> {
    let level = match to {
        BindTo::None => return None,
        BindTo::Processor => Level::Processor,
        BindTo::Core => Level::Core,
        BindTo::L2 => Level::L2,
        BindTo::L3 => Level::L3,
        BindTo::Numa => Level::Numa,
        BindTo::Package => Level::Package,
    };
    let mut around = Vec::new();
    for &processor in processors {
        around.extend(machine.members(level, machine.instance(processor, level)?).iter());
    }
    Some(around.into_iter().filter(|&member| allowed.contains(member)).collect())
}

/// Returns a line that describes the binding of a rank.
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

    /// Variables of the test cases.
    #[derive(Clone, Debug, Default)]
    struct Case {
        ranks: u32,
        threads: bool,
        usable: usize,
        placing: Placing,
    }

    impl Case {
        fn with_ranks(ranks: u32) -> Case {
            Case { ranks, ..Case::default() }
        }

        fn bound(ranks: u32, map_by: Option<MapBy>, bind_to: BindTo) -> Case {
            let placing = Placing { map_by, bind_to: Some(bind_to), ..Placing::default() };
            Case { ranks, placing, ..Case::default() }
        }
    }

    /// Checks a placement. `expected` has the processors of each rank or `none`, or the text of a refusal.
    fn check(machine: &str, allowed: &str, case: Case, expected: &[&str]) {
        let machine = recorded(machine);
        let allowed: ProcessorSet =
            text::parse_list(allowed).unwrap().into_iter().map(|number| number as usize).collect();
        let usable = if case.usable == 0 { allowed.len() } else { case.usable };
        let world: Vec<u32> = (0..case.ranks).collect();
        let demand = Demand { world: &world, threads: case.threads, usable, placing: &case.placing };
        let got = match place(&demand, &machine, &allowed) {
            Ok(sets) => sets
                .iter()
                .map(|set| set.as_ref().map_or("none".to_string(), |set| text::show_list(set.iter())))
                .collect(),
            Err(error) => vec![error.to_string()],
        };
        assert_eq!(got, expected, "{case:?}");
    }

    #[test]
    fn by_default_ranks_that_fill_the_cores_are_bound_to_them() {
        check("one-2", "0-1", Case::with_ranks(2), &["0", "1"]);
        check("one-2", "0-1", Case::with_ranks(1), &["none"]);
        check("one-2", "0-1", Case::with_ranks(3), &["none"; 3]);
        check("one-2", "0-1", Case { threads: true, ..Case::with_ranks(2) }, &["none"; 2]);
        check("one-2", "0-1", Case { usable: 1, ..Case::with_ranks(2) }, &["none"; 2]);
        check("one-2", "1", Case::with_ranks(1), &["1"]);
        check("laptop-4x2", "0-7", Case::with_ranks(4), &["0,4", "1,5", "2,6", "3,7"]);
        check("laptop-4x2", "0-7", Case::with_ranks(8), &["none"; 8]);
        check("laptop-4x2", "0-1,4", Case::with_ranks(2), &["0,4", "1"]);
    }

    #[test]
    fn mapping_and_binding_as_asked() {
        let epyc = "epyc-2x16-nps2";
        check(epyc, "0-31", Case::bound(3, None, BindTo::Core), &["0", "1", "2"]);
        let numa = Case::bound(5, Some(MapBy::Numa), BindTo::Core);
        check(epyc, "0-31", numa, &["0", "8", "16", "24", "1"]);
        let package = Case::bound(3, Some(MapBy::Package), BindTo::Numa);
        check(epyc, "4-31", package, &["4-7", "16-23", "4-7"]);
        check("laptop-4x2", "0-7", Case::bound(5, None, BindTo::Processor), &["0", "1", "2", "3", "4"]);
        check("one-2", "0-1", Case::bound(5, None, BindTo::Core), &["0", "1", "0", "1", "0"]);
        check("one-2", "0-1", Case::bound(2, None, BindTo::None), &["none"; 2]);
        check("one-2", "7-8", Case::bound(2, None, BindTo::Core), &["none"; 2]);
    }

    #[test]
    fn ranks_have_cores_of_their_own_and_follow_one_another_on_a_unit() {
        let epyc = "epyc-2x16-nps2";
        let of = |ranks, placing| Case { placing, ..Case::with_ranks(ranks) };
        let four = Placing { cores_per_rank: 4, ..Placing::default() };
        check(epyc, "0-31", of(3, four.clone()), &["0-3", "4-7", "8-11"]);
        check(
            "laptop-4x2",
            "0-7",
            of(2, Placing { cores_per_rank: 2, ..four.clone() }),
            &["0-1,4-5", "2-3,6-7"],
        );
        let packages = Placing { map_by: Some(MapBy::Package), ranks_per_unit: 2, ..four };
        check(epyc, "0-31", of(4, packages.clone()), &["0-3", "4-7", "16-19", "20-23"]);
        let far = Placing { cores_per_rank: 17, ..packages };
        check(epyc, "0-31", of(1, far), &["PE=17: ranks may use 16 cores here"]);
        let only = Placing { cores: vec![2, 3], ..Placing::default() };
        check(epyc, "0-31", of(1, only.clone()), &["2-3"]);
        check(epyc, "0-31", of(2, only.clone()), &["2", "3"]);
        check(epyc, "0-1", of(2, only), &["none of the cores of --cpu-set may be used here"]);
    }

    #[test]
    fn ranks_are_where_their_file_says() {
        let told = |package, cores: &[u32]| Placing {
            told: vec![(1, Cores { package, cores: cores.to_vec() })],
            ..Placing::default()
        };
        let of = |placing| Case { placing, ..Case::with_ranks(2) };
        check("epyc-2x16-nps2", "0-31", of(told(Some(1), &[0, 2])), &["none", "16,18"]);
        check("laptop-4x2", "0-7", of(told(None, &[3])), &["none", "3,7"]);
        check(
            "one-2",
            "0-1",
            of(told(None, &[2])),
            &["rank 1: there is no core 2: this machine has 2, counted from 0"],
        );
        check("one-2", "0", of(told(None, &[1])), &["rank 1: its cores may not be used here"]);
    }

    #[test]
    fn the_machine_is_looked_at_only_when_it_matters() {
        let check = |case: Case, processors: usize, expected: bool| {
            let allowed: ProcessorSet = (0..processors).collect();
            let world: Vec<u32> = (0..case.ranks).collect();
            let demand =
                Demand { world: &world, threads: case.threads, usable: processors, placing: &case.placing };
            assert_eq!(needs_machine(&demand, &allowed), expected, "{case:?}");
        };
        check(Case::with_ranks(2), 2, true);
        check(Case::with_ranks(3), 2, false);
        check(Case::with_ranks(2), 64, false);
        check(Case::bound(2, None, BindTo::None), 2, false);
        check(Case::bound(2, None, BindTo::Core), 64, true);
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
