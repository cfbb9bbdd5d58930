//! Locations of a communicator's members in the hardware, as the launcher bound them. Trees and rings
//! follow the layout (S3).
//!
//! The launcher writes the places into the job object before it starts a rank, so all members read the same
//! ones, without a message. Later changes of a rank's binding have no effect, since the members must agree.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tutti_coll::simulate::Layout;
use tutti_coll::{Environment, Model};
use tutti_sys::floating_point::isolated;
use tutti_topo::model::Places;
use tutti_topo::{Level, Machine, ProcessorSet};

use crate::communicator::Communicator;
use crate::group::{Comparison, Group};
use crate::hardware;
use crate::messenger::Messenger;

/// Number of groups whose layouts are remembered.
const REMEMBERED: usize = 64;

/// Layout of a communicator's members in the hardware hierarchy, computed on first use.
#[derive(Debug, Default)]
pub struct MemberLayout(OnceLock<Option<Arc<Layout>>>);

impl MemberLayout {
    /// Returns the layout of the members. `None` if no process is bound, so that nothing is known.
    pub fn of(&self, messenger: &Messenger, all: &Layouts, comm: &Communicator) -> Option<Arc<Layout>> {
        let found = || all.of(comm.group(), || near(messenger, comm));
        self.0.get_or_init(|| if is_mixed(messenger, comm) { None } else { found() }).clone()
    }
}

/// Layouts of the latest groups of this job. Communicators with the same group share one layout; its
/// address is the key of their selections ([`super::choices`]).
#[derive(Debug, Default)]
pub struct Layouts(Mutex<VecDeque<(Group, Option<Arc<Layout>>)>>);

impl Layouts {
    /// Returns the layout of this group, all of whose members belong to this job.
    fn of(&self, group: &Group, find: impl FnOnce() -> Option<Arc<Layout>>) -> Option<Arc<Layout>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, layout)) = known.iter().find(|(of, _)| of.compare(group) == Comparison::Identical) {
            return layout.clone();
        }
        let layout = find();
        if known.len() == REMEMBERED {
            known.pop_front();
        }
        known.push_back((group.clone(), layout.clone()));
        layout
    }
}

/// Returns the local ranks of the members of `comm` if all of them are on this host.
pub fn local_ranks(messenger: &Messenger, comm: &Communicator) -> Option<Vec<u32>> {
    comm.group().iter().map(|world| messenger.local_rank(world)).collect()
}

/// Returns true if the members belong to several jobs. They share no job object, so what one of them knows
/// of its own job must not affect how an operation is done.
pub fn is_mixed(messenger: &Messenger, comm: &Communicator) -> bool {
    let both = || comm.group().iter().chain(comm.inter().into_iter().flat_map(|inter| inter.remote.iter()));
    both().any(|member| messenger.is_foreign(member))
}

/// Computes the layout of the members. Members on several hosts get it from what all of them know.
fn near(messenger: &Messenger, comm: &Communicator) -> Option<Arc<Layout>> {
    let job = &messenger.job;
    match local_ranks(messenger, comm) {
        Some(ranks) => layout(
            || hardware::machine(Some(messenger)),
            ranks.iter().map(|local| job.block(*local).places()).collect(),
        ),
        None => {
            // Only what all members know: not how those of other hosts are bound.
            let hosts: Vec<u32> = comm.group().iter().map(|world| job.place(world.0).host).collect();
            Some(Arc::new(Layout::on_machines(&hosts, &job.wait_for_machines())))
        }
    }
}

/// Returns the environment that all members of a communicator of several jobs know.
pub fn mixed(ranks: u32, model: Arc<Model>) -> Environment {
    Environment::in_job(ranks, ranks, 1, model)
}

/// Computes the layout from the places of ranks on one host; `None` if no rank is bound.
fn layout<'a>(machine: impl FnOnce() -> &'a Machine, places: Vec<Places>) -> Option<Arc<Layout>> {
    if places.iter().all(|places| *places == Places::default()) {
        return None;
    }
    let machine = machine();
    let sets: Vec<ProcessorSet> = places.iter().map(|places| processors(machine, places)).collect();
    Some(Arc::new(Layout::from_sets(machine, &sets, 1)))
}

/// Returns the processors of the smallest part of the machine to which a rank is bound.
fn processors(machine: &Machine, places: &Places) -> ProcessorSet {
    let smallest = Level::ALL.into_iter().rev().find_map(|level| Some((level, places[level as usize]?)));
    match smallest {
        Some((level, instance)) => machine.members(level, instance),
        None => machine.processors().collect(),
    }
}

/// Returns the cost model of the job, or the defaults if the machine was not probed.
pub fn model(messenger: &Messenger) -> Arc<Model> {
    static MODEL: OnceLock<Arc<Model>> = OnceLock::new();
    let read = || {
        let text = std::str::from_utf8(messenger.job.model()).unwrap_or_default();
        let model = Model::parse(text).unwrap_or_else(|reason| {
            if messenger.rank.0 == 0 {
                eprintln!(
                    "Tutti: the model of this machine is passed over: {reason}; `tutti probe` makes a new one"
                );
            }
            Model::default()
        });
        Arc::new(model.under(&messenger.config))
    };
    Arc::clone(MODEL.get_or_init(|| isolated(read)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the layout of ranks that are bound to these cores, or not bound.
    fn check(cores: &[Option<usize>], expected: Option<&[u32]>) {
        let path = format!("{}/../../fixtures/machines/boards-2x2x2.txt", env!("CARGO_MANIFEST_DIR"));
        let machine =
            Machine::parse(&std::fs::read_to_string(path).expect("it is there")).expect("it is right");
        let bound = |core: &usize| machine.places(&std::iter::once(*core).collect());
        let places = cores.iter().map(|core| core.as_ref().map(bound).unwrap_or_default()).collect();
        let found = layout(|| &machine, places);
        assert_eq!(found.as_ref().map(|found| found.hierarchy().order()), expected);
    }

    #[test]
    fn groups_that_are_alike_share_a_layout() {
        let layouts = Layouts::default();
        let of = |ranks: &[u32]| {
            let group: Group = ranks.iter().map(|rank| tutti_base::WorldRank(*rank)).collect();
            layouts.of(&group, || Some(Arc::new(Layout::flat(ranks.len() as u32, 1)))).expect("it is found")
        };
        let first = of(&[0, 2]);
        assert!(Arc::ptr_eq(&first, &of(&[0, 2])) && !Arc::ptr_eq(&first, &of(&[2, 0])));
        (0..REMEMBERED as u32).for_each(|rank| drop(of(&[rank])));
        assert!(!Arc::ptr_eq(&first, &of(&[0, 2])));
        assert_eq!(layouts.0.lock().expect("nobody died").len(), REMEMBERED);
    }

    #[test]
    fn members_are_ordered_by_where_they_are_bound() {
        check(&[None; 3], None);
        check(&[Some(0), Some(4), Some(1), Some(2)], Some(&[0, 2, 3, 1]));
        check(&[Some(0), None, Some(7), Some(1)], Some(&[0, 3, 1, 2]));
    }
}
