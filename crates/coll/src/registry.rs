//! Every algorithm by name: the lists of all families in one. Selection, verification, forced choice,
//! documentation and `tutti info` all use it.

use crate::algorithms::{banks, distance, exposed, groups, hosts, messages, neighbourhood};
use crate::build::Builder;
use crate::generator::need::ANY;
use crate::generator::parameters::WINDOW;
use crate::generator::{Generator, entry};
use crate::shape::{Collective, Params, Shape};
use crate::work;

/// Lists of all families: for several hosts, by messages, within a node, for two groups and for neighbours.
/// Of algorithms with equal times the first wins.
const FAMILIES: &[&[Generator]] = &[
    hosts::banks::GENERATORS,
    hosts::bank_moves::GENERATORS,
    hosts::frames::GENERATORS,
    hosts::doubling::GENERATORS,
    hosts::scan::GENERATORS,
    hosts::exchange::GENERATORS,
    hosts::levels::GENERATORS,
    hosts::multicast::GENERATORS,
    hosts::circulant::GENERATORS,
    hosts::ring::GENERATORS,
    hosts::reduce::GENERATORS,
    hosts::leaders::GENERATORS,
    hosts::slices::GENERATORS,
    hosts::circulant_reduce::GENERATORS,
    messages::barrier::GENERATORS,
    messages::bcast::GENERATORS,
    messages::gather::GENERATORS,
    messages::allgather::GENERATORS,
    messages::alltoall::GENERATORS,
    messages::reduce::GENERATORS,
    messages::allreduce::GENERATORS,
    messages::reduce_scatter::GENERATORS,
    messages::scan::GENERATORS,
    messages::together::GENERATORS,
    distance::messages::GENERATORS,
    banks::flags::GENERATORS,
    banks::moves::GENERATORS,
    banks::reduce::GENERATORS,
    banks::stream::GENERATORS,
    banks::stream_moves::GENERATORS,
    banks::together::GENERATORS,
    exposed::moves::GENERATORS,
    exposed::reduce::GENERATORS,
    exposed::together::GENERATORS,
    distance::exposed::GENERATORS,
    distance::exposed_reduce::GENERATORS,
    groups::GENERATORS,
    neighbourhood::GENERATORS,
];

/// Read of a file by all ranks. Its schedules are made from the ranks' bytes in each window
/// ([`crate::algorithms::files`]), not from a shape.
pub static FILE_READ: Generator =
    entry(Collective::FileRead, "two_phase", ANY, WINDOW, nothing, work::messages::spread);
/// Write to a file by all ranks, like [`FILE_READ`].
pub static FILE_WRITE: Generator =
    entry(Collective::FileWrite, "two_phase", ANY, WINDOW, nothing, work::messages::spread);

fn nothing(_: &Shape, _: &Params, _: &mut Builder) {}

static GENERATORS: [Generator; count()] = join();

/// Returns all registered algorithms.
pub fn registry() -> &'static [Generator] {
    &GENERATORS
}

const fn count() -> usize {
    let (mut family, mut count) = (0, 0);
    while family < FAMILIES.len() {
        count += FAMILIES[family].len();
        family += 1;
    }
    count
}

const fn join() -> [Generator; count()] {
    let mut all = [FAMILIES[0][0]; count()];
    let (mut family, mut place) = (0, 0);
    while family < FAMILIES.len() {
        let mut member = 0;
        while member < FAMILIES[family].len() {
            all[place] = FAMILIES[family][member];
            (member, place) = (member + 1, place + 1);
        }
        family += 1;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names that settings are checked against, which the launcher has without this crate.
    #[test]
    fn settings_know_every_algorithm() {
        let row = |one: &Generator| format!("{}\t{}", one.collective.name(), one.name);
        let mut rows: Vec<String> = registry().iter().map(row).collect();
        rows.sort_unstable();
        tutti_golden::check("../crates/base/src/config/algorithms.tsv", &(rows.join("\n") + "\n"));
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> =
            registry().iter().map(|generator| (generator.collective, generator.name)).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), registry().len());
    }
}
