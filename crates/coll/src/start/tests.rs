//! Terms of known jobs, costs that are found again, and the figures of the paper.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use super::*;

const PAPER: &str = include_str!("../../../../fixtures/starts/yu-2006-table-2.1.txt");

fn scheme(text: &str) -> Scheme {
    text.parse().unwrap()
}

fn job(hosts: u32, ranks: u32) -> Job {
    Job { hosts, ranks, shared: 0 }
}

/// Terms of `name` for a job, as far as they are not zero.
fn check(name: &str, of: Job, expected: &[(&str, f64)]) {
    let terms = scheme(name).terms(&of);
    let found: Vec<(&str, f64)> = TERMS.into_iter().zip(terms).filter(|(_, times)| *times > 0.0).collect();
    assert_eq!(found, expected, "{name} {of:?}");
}

#[test]
fn terms_are_those_of_the_longest_path() {
    check("tree:8", job(1, 4), &[("fixed", 1.0), ("rank", 4.0)]);
    let star = [("fixed", 1.0), ("agent", 1.0), ("child", 15.0), ("rank", 4.0), ("hop", 1.0)];
    check("star", job(16, 64), &star);
    let tree = [("fixed", 1.0), ("agent", 4.0), ("child", 7.0), ("rank", 4.0), ("hop", 4.0)];
    check("tree:2", job(16, 64), &tree);
    let ring = [
        ("fixed", 1.0),
        ("agent", 1.0),
        ("child", 3.0),
        ("rank", 2.0),
        ("hop", 4.0),
        ("byte", 224.0),
        ("connection", 1.0),
    ];
    check("tree:8+ring", job(4, 8), &ring);
    let shared = Job { shared: 2, ..job(16, 64) };
    let testbed = [("fixed", 1.0), ("agent", 7.5), ("child", 15.0), ("rank", 32.0), ("hop", 1.0)];
    check("star", shared, &testbed);
}

#[test]
fn a_tree_grows_with_its_depth() {
    let tree = scheme("tree:16");
    let seconds = |hosts| tree.seconds(&job(hosts, hosts), &ASSUMED);
    assert!(seconds(1_000_000) < 6.0 * seconds(17));
    let star = scheme("star").seconds(&job(1_000_000, 1_000_000), &ASSUMED);
    assert!(star > 1000.0 * seconds(17));
}

#[test]
fn costs_are_found_again() {
    let costs = [0.02, 0.11, 3e-3, 4e-3, 2e-4, 3e-9, 1e-3];
    let mut runs = Runs::default();
    for name in ["star", "tree:2", "tree:8", "tree:4+ring", "tree:4+static", "each+combined"] {
        for (hosts, ranks) in [(1, 2), (2, 4), (4, 8), (8, 64), (16, 32), (16, 1024), (64, 64)] {
            let (scheme, job) = (scheme(name), job(hosts, ranks));
            runs.times.push(Run { scheme, job, measured: scheme.seconds(&job, &costs) });
        }
    }
    let fitted = runs.fit_times();
    assert!(fitted.error < 0.01 && fitted.told == [true; 7], "{fitted:?}");
    for (name, (found, cost)) in TERMS.iter().zip(fitted.costs.iter().zip(costs)) {
        assert!((found / cost - 1.0).abs() < 0.2, "{name}: {found} for {cost}");
    }
}

#[test]
fn without_runs_all_is_assumed() {
    let fitted = Runs::default().fit_times();
    assert_eq!((fitted.costs, fitted.told, fitted.error), (ASSUMED, [false; 7], 0.0));
}

/// Section 2.6: more than 4 times at 128 processes. Section 2.7: about two orders of magnitude at 2048.
#[test]
fn the_figures_of_the_paper_come_out() {
    let runs = Runs::parse(PAPER).unwrap();
    let fitted = runs.fit_times();
    assert!(fitted.error < 0.12, "{fitted:?}");
    let ratio = |ranks| {
        let job = job(ranks / 2, ranks);
        let [slow, fast] =
            ["each+combined", "daemons+bootstrap"].map(|name| scheme(name).seconds(&job, &fitted.costs));
        slow / fast
    };
    assert!((4.0..6.0).contains(&ratio(128)), "{} {fitted:?}", ratio(128));
    assert!((20.0..300.0).contains(&ratio(2048)), "{} {fitted:?}", ratio(2048));
}

#[test]
fn memory_of_connections_on_demand_does_not_grow_with_the_job() {
    let text = "memory static 16 16 3e6\nmemory static 16 64 9e6\nmemory adaptive:4 16 64 1.5e6\nmemory adaptive:0 1 1 1e6";
    let runs = Runs::parse(text).unwrap();
    let fitted = runs.fit_memory();
    assert!(fitted.error < 0.05, "{fitted:?}");
    let bytes = |connections: Connections, ranks| connections.bytes(&job(ranks, ranks), &fitted.costs);
    assert!(bytes(Connections::Adaptive(0), 1_000_000) < 10e6);
    assert!(bytes(Connections::Static, 1_000_000) > 1e11);
}

#[test]
fn what_is_not_understood_is_named() {
    for (text, expected) in [
        ("time star 2 4", "line 1: not \"time"),
        ("\ntime stars 2 4 1", "line 2: \"stars\" is none of each, star, daemons"),
        ("time tree:0 2 4 1", "\"0\" is not a number"),
        ("time star+rings 2 4 1", "is none of request, ring"),
        ("time star 4 2 1", "at least as many ranks"),
        ("time star 2 4 -1", "a positive measure"),
        ("memory dynamic 2 4 1", "none of static, adaptive"),
    ] {
        let error = Runs::parse(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
    for name in ["tree:8+ring", "star+request", "each+combined", "daemons+bootstrap"] {
        assert_eq!(scheme(name).to_string(), name);
    }
    for name in ["static", "adaptive", "adaptive:6"] {
        assert_eq!(name.parse::<Connections>().unwrap().to_string(), name);
    }
}
