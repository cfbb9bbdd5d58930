//! Options for the placement and binding of ranks.

use crate::error::LaunchError;
use crate::options::policies;
use crate::options::row::{Row, row};
use crate::request::Assignment;

pub(super) const ROWS: &[Row] = &[
    row(
        &["map-by"],
        &["POLICY"],
        "a unit: slot, core, l2cache, l3cache, numa, package, node; or ppr:N:UNIT; and :PE=N",
        |r, v| policies::map(r, &v[0]),
    ),
    row(
        &["rank-by"],
        &["UNIT"],
        "number ranks host by host (slot) or in turn over the hosts (node)",
        |r, v| policies::rank(r, &v[0]),
    ),
    row(
        &["bind-to", "bindto", "binding"],
        &["UNIT"],
        "confine ranks to none, hwthread, core, l2cache, l3cache, numa, package (default: see below)",
        |r, v| policies::bind(r, &v[0]),
    ),
    row(
        &["cpu-set", "cpu-list"],
        &["CORES"],
        "use only these cores of each host, counted in their order",
        |r, v| {
            r.request.placing.cores = policies::list(&v[0])?;
            Ok(())
        },
    ),
    row(
        &["rankfile", "rf"],
        &["FILE"],
        "where each rank runs: a line rank N=HOST slot=CORES or slot=PACKAGE:CORES",
        |r, v| {
            r.request.assignment = Assignment::RankFile(v[0].clone());
            Ok(())
        },
    ),
    row(&["rankmap"], &["NUMBERS"], "for each rank the place of its host in the list of hosts", |r, v| {
        let vector = v[0].strip_prefix("(vector,").and_then(|numbers| numbers.strip_suffix(')'));
        let numbers = vector.unwrap_or(&v[0]);
        r.request.assignment = Assignment::Hosts(
            numbers
                .split(',')
                .map(str::parse)
                .collect::<Result<_, _>>()
                .map_err(|_| LaunchError::Invalid("numbers are needed".to_string()))?,
        );
        Ok(())
    }),
];
