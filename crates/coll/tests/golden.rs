//! Comparison of schedules as text, for all ranks, with `fixtures/schedules`. With TUTTI_BLESS=1 in the
//! environment the files are written anew: review the changes before you commit them.

use std::fmt::Write;
use std::sync::Arc;

use tutti_coll::hierarchy::{Hierarchy, RankLocation};
use tutti_coll::verify::{Case, Pattern};
use tutti_coll::{Collective, Params, registry};

fn check(name: &str, collective: Collective, ranks: u32, count: u64, params: Params) {
    check_on(name, collective, ranks, count, params, None);
}

/// Compares the schedules of ranks whose distances are known with a golden file.
fn check_on(
    name: &str,
    collective: Collective,
    ranks: u32,
    count: u64,
    params: Params,
    hierarchy: Option<&Arc<Hierarchy>>,
) {
    let generator = registry()
        .iter()
        .find(|generator| generator.collective == collective && generator.name == name)
        .expect("the test names a registered algorithm");
    let case = Case {
        collective,
        ranks,
        root: 0,
        count,
        commutative: true,
        in_place: false,
        params,
        pattern: Pattern::Whole,
    };
    let mut text = format!("{collective} {name}, {ranks} ranks, count {count}, {params}\n");
    for rank in 0..ranks {
        let schedule = generator.generate_on(&case.shape(rank), &params, hierarchy);
        write!(text, "\nrank {rank}\n{schedule}").expect("a string takes everything");
    }
    tutti_golden::check(&format!("schedules/{collective}-{name}.txt"), &text);
}

#[test]
fn schedules_are_as_recorded() {
    let flat = Params { radix: Params::FLAT, ..Params::default() };
    let segments = Params { radix: 2, segment: 4, window: 2, ..Params::default() };
    check("dissemination", Collective::Barrier, 5, 0, Params::default());
    check("tree", Collective::Barrier, 5, 0, flat);
    check("kary", Collective::Bcast, 6, 16, segments);
    check("knomial", Collective::Reduce, 6, 16, segments);
    check("knomial", Collective::Gather, 6, 2, Params::default());
    check("ring", Collective::Allreduce, 4, 10, Params::default());
    check("rabenseifner", Collective::Allreduce, 5, 8, Params::default());
    check("bruck", Collective::Alltoall, 5, 2, Params::default());
    check("spread", Collective::Alltoallv, 4, 2, Params::default());
    check("pairwise", Collective::ReduceScatter, 4, 2, Params::default());
    check("bank_flat", Collective::Allreduce, 4, 2, Params::default());
    check("bank_tree", Collective::Reduce, 6, 2, Params::default());
    check("bank_flat", Collective::Alltoall, 4, 2, Params::default());
}

#[test]
fn those_of_two_hosts_are_as_recorded() {
    // Dealt out: ranks 0, 2 and 4 on one host, 1 and 3 on the other.
    let place = |rank: u32| RankLocation { host: rank % 2, at: Default::default() };
    let hosts = Arc::new(Hierarchy::new(&(0..5).map(place).collect::<Vec<_>>()));
    let frames = Params { segment: 2, ..Params::default() };
    let check = |name, collective, params| check_on(name, collective, 5, 2, params, Some(&hosts));
    check("levels_frames", Collective::Gatherv, frames);
    check("levels_frames", Collective::Scatterv, frames);
    check("levels_frames", Collective::Alltoallv, frames);
    check("levels_bank", Collective::Allgatherv, Params::default());
}

#[test]
fn those_of_multicast_are_as_recorded() {
    let place = |rank: u32| RankLocation { host: rank / 2, at: Default::default() };
    let hosts = Arc::new(Hierarchy::new(&(0..6).map(place).collect::<Vec<_>>()));
    let segments = Params { segment: 4, ..Params::default() };
    check_on("multicast", Collective::Bcast, 6, 18, segments, Some(&hosts));
    let check =
        |name, collective, count| check_on(name, collective, 6, count, Params::default(), Some(&hosts));
    check("multicast", Collective::Barrier, 0);
    check("multicast", Collective::Allreduce, 2);
    check("multicast", Collective::Allgather, 2);
    check_on("multicast_turns", Collective::Allgather, 6, 7, segments, Some(&hosts));
}
