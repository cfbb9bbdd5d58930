//! Rows: collectives: memory, choice of algorithms, and paths between hosts.

use crate::config::algorithms;
use crate::config::collectives::{Explain, Multicast, Offload, Tune, TuneSearch};
use crate::config::setting::{Audience, Scope, Setting, ValueKind};
use crate::config::values::{flag, one_of, within};

pub(super) const ROWS: &[Setting] = &[
    Setting {
        name: "TUTTI_TUNE",
        kind: ValueKind::Words(&["off", "known", "on"]),
        scope: Scope::Job,
        audience: Audience::User,
        doc: "on: try algorithms of repeated collectives while the program runs, use the best, and store it in the model file; known: use stored results only",
        set: |c, v| one_of(&Tune::NAMES, v).map(|x| c.collectives.tune = x),
        show: |c| c.collectives.tune.name().to_string(),
    },
    Setting {
        name: "TUTTI_OFFLOAD",
        kind: ValueKind::Words(&["auto", "on", "off"]),
        scope: Scope::Job,
        audience: Audience::User,
        doc: "small barriers, broadcasts and allreduces between hosts by the kernel's packet program; auto: if `tutti netd` runs",
        set: |c, v| one_of(&Offload::NAMES, v).map(|x| c.collectives.offload = x),
        show: |c| c.collectives.offload.name().to_string(),
    },
    Setting {
        name: "TUTTI_TUNE_SEARCH",
        kind: ValueKind::Words(&["halving", "row", "attributes", "factorial"]),
        scope: Scope::Job,
        audience: Audience::Developer,
        doc: "search strategy of tuning: halving (all candidates, then the better half again), row (one candidate after the other), attributes (one attribute after the other), factorial (extreme values of all attributes first)",
        set: |c, v| one_of(&TuneSearch::NAMES, v).map(|x| c.collectives.tune_search = x),
        show: |c| c.collectives.tune_search.name().to_string(),
    },
    Setting {
        name: "TUTTI_TUNE_ANY_ORDER",
        kind: ValueKind::Words(&["0", "1"]),
        scope: Scope::Job,
        audience: Audience::Developer,
        doc: "allow tuning to choose reductions with another order of operands, which changes the last bits of sums",
        set: |c, v| flag(v).map(|x| c.collectives.tune_any_order = x),
        show: |c| u8::from(c.collectives.tune_any_order).to_string(),
    },
    Setting {
        name: "TUTTI_TUNE_BUDGET",
        kind: ValueKind::Count,
        scope: Scope::Job,
        audience: Audience::Developer,
        doc: "part of a program's time that tuning may cost, in percent",
        set: |c, v| within(v, 0, 1_000_000).map(|x| c.collectives.tune_budget = x),
        show: |c| c.collectives.tune_budget.to_string(),
    },
    Setting {
        name: "TUTTI_ALGORITHM",
        kind: ValueKind::Text("list of collective=algorithm"),
        scope: Scope::Job,
        audience: Audience::User,
        doc: "force algorithms, for example allreduce=ring,bcast=knomial:radix=4:segment=32K:window=8",
        set: |c, v| {
            algorithms::check_list(v)
                .map_err(|why| format!("a list of collective=algorithm: {why}"))
                .map(|()| c.collectives.algorithm = v.to_string())
        },
        show: |c| c.collectives.algorithm.clone(),
    },
    Setting {
        name: "TUTTI_MODEL_FILE",
        kind: ValueKind::Text("path"),
        scope: Scope::Job,
        audience: Audience::User,
        doc: "file with the costs of this machine, written by tutti probe; by default in the user's cache directory",
        set: |c, v| {
            c.collectives.model_file = v.to_string();
            Ok(())
        },
        show: |c| c.collectives.model_file.clone(),
    },
    Setting {
        name: "TUTTI_CALIBRATE",
        kind: ValueKind::Words(&["0", "1"]),
        scope: Scope::Launcher,
        audience: Audience::User,
        doc: "let the first mpirun on a kind of machine (processor, number of processors, kernel) measure its costs for up to 0.5 s and store them in the user's cache directory",
        set: |c, v| flag(v).map(|x| c.collectives.calibrate = x),
        show: |c| (c.collectives.calibrate as u8).to_string(),
    },
    Setting {
        name: "TUTTI_DETERMINISTIC",
        kind: ValueKind::Words(&["0", "1", "bits"]),
        scope: Scope::Job,
        audience: Audience::User,
        doc: "1: reductions combine operands in a fixed order of ranks, for the same bits on any machine, binding and size; bits: also round sums and products once, for the same bits in any order of operands",
        set: |c, v| {
            c.collectives.reproducible = v == "bits";
            let value = if v == "bits" { Ok(true) } else { flag(v).map_err(|_| "0, 1 or bits".to_string()) };
            value.map(|x| c.collectives.deterministic = x)
        },
        show: |c| match (c.collectives.reproducible, c.collectives.deterministic) {
            (true, _) => "bits".to_string(),
            (false, on) => u8::from(on).to_string(),
        },
    },
    Setting {
        name: "TUTTI_EXPLAIN",
        kind: ValueKind::Words(&["0", "1", "all"]),
        scope: Scope::Process,
        audience: Audience::User,
        doc: "print on standard error why an algorithm is chosen for each collective of the program; all: every candidate, and the ways of messages and memory",
        set: |c, v| one_of(&Explain::NAMES, v).map(|x| c.collectives.explain = x),
        show: |c| c.collectives.explain.name().to_string(),
    },
    Setting {
        name: "TUTTI_MULTICAST",
        kind: ValueKind::Words(&["auto", "on", "off"]),
        scope: Scope::Job,
        audience: Audience::User,
        doc: "multicast of collectives between hosts, if the network supports it; auto: tested as soon as it could save time; on: tested at the first operation",
        set: |c, v| multicast(v).map(|x| c.collectives.multicast = x),
        show: |c| c.collectives.multicast.name().to_string(),
    },
    Setting {
        name: "TUTTI_MULTICAST_WINDOW",
        kind: ValueKind::Count,
        scope: Scope::Job,
        audience: Audience::Developer,
        doc: "number of datagrams that a sender multicasts before all receivers have acknowledged the first",
        set: |c, v| within(v, 1, 4096).map(|x| c.collectives.multicast_window = x),
        show: |c| c.collectives.multicast_window.to_string(),
    },
];

fn multicast(text: &str) -> std::result::Result<Multicast, String> {
    one_of(&Multicast::NAMES, text)
}
