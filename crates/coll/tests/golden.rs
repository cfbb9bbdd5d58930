//! Schedules as text, for all ranks, against `fixtures/schedules`. With TUTTI_BLESS=1 in the
//! environment the files are written anew: read what changed before you commit it.

use std::fmt::Write;
use std::path::Path;

use tutti_coll::verify::{Case, Pattern};
use tutti_coll::{Collective, Params, registry};

fn check(name: &str, collective: Collective, ranks: u32, count: u64, params: Params) {
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
        let schedule = generator.generate(&case.shape(rank), &params);
        write!(text, "\nrank {rank}\n{schedule}").expect("a string takes everything");
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/schedules");
    let file = folder.join(format!("{collective}-{name}.txt"));
    if std::env::var_os("TUTTI_BLESS").is_some() {
        std::fs::create_dir_all(&folder).expect("fixtures can be written");
        std::fs::write(&file, &text).expect("fixtures can be written");
    }
    let expected = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(text == expected, "{} differs; now it is\n{text}", file.display());
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
