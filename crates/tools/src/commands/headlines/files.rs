//! Headlines of S10 (Yu 2006, chapter 7): the same accesses to the same io-servers, by two transports. The
//! paper compares RDMA with TCP. Here clients copy from and to memory that local servers expose, and the
//! comparison is with TCP. Four servers and four clients run on this machine, with files in memory. Ranks
//! never exchange data; each accesses its servers alone.

use std::path::Path;

use super::outcome::{Outcome, Value};
use crate::commands::files::servers::{Scratch, on_servers};
use crate::measure::crew::{Crew, Pace, Rounds};
use crate::measure::library::Library;
use crate::measure::programs::Programs;
use crate::measure::results::{Measure, Results};
use crate::measure::sample::Cell;
use crate::measure::session::Ask;

/// Servers, and clients, as in the paper's figures.
pub const SERVERS: u32 = 4;
/// Directory of the files' parts.
const MEMORY: &str = "/dev/shm";
/// Ranks do not exchange data by one transport and access servers by the other.
const HINTS: &str = "romio_cb_read disable\nromio_cb_write disable\n";

/// Headline about files, with its two measurements.
pub struct Row {
    /// Claim of the paper.
    pub claim: &'static str,
    /// The operation of `files-bench`.
    pub op: &'static str,
    /// Bytes of each access, or of its pieces.
    pub bytes: u64,
    /// Ratio of the speeds in the paper.
    pub paper: f64,
}

const fn row(claim: &'static str, op: &'static str, bytes: u64, paper: f64) -> Row {
    Row { claim, op, bytes, paper }
}

/// Headlines about files, with the paper's section.
pub static ROWS: [Row; 8] = [
    row("near over TCP: rows, read (7.4.1)", "read_contiguous", 1 << 20, 2.4),
    row("near over TCP: rows, write (7.4.1)", "write_contiguous", 1 << 20, 1.82),
    row("near over TCP: tile, read (7.4.3)", "read_tile", 32, 3.4),
    row("near over TCP: tile, write (7.4.3)", "write_tile", 32, 2.7),
    row("no copy over packed: read (7.4.2)", "read_list", 256, 2.13),
    row("no copy over packed: write (7.4.2)", "write_list", 256, 1.66),
    row("near over TCP: BT-IO, write (7.4.5)", "write_bt", 0, 2.5),
    row("near over TCP: BT-IO, read (7.4.5)", "read_bt", 0, 2.5),
];

/// Measures all rows that the user selected, and calls `tell` with the result of each at once.
///
/// # Errors
/// Fails if the directory cannot be created.
pub fn measure(
    tutti: &Library,
    programs: &Programs,
    pace: Pace,
    wanted: &[&Row],
    mut rounds: impl FnMut(usize) -> Rounds,
    mut tell: impl FnMut(&Row, &Outcome),
) -> Result<(), String> {
    let scratch = Scratch::new(Path::new(MEMORY))?;
    let hints = scratch.0.join("hints");
    std::fs::write(&hints, HINTS).map_err(|error| format!("{}: {error}", hints.display()))?;
    let settings = vec![
        ("BENCH_FILE".to_string(), "tutti:headline".to_string()),
        ("ROMIO_HINTS".to_string(), hints.to_string_lossy().into_owned()),
    ];
    let variants = on_servers(tutti, SERVERS, &scratch.0, &settings);
    let members = variants.iter().map(|one| (one, programs.path_of("files-bench", one))).collect();
    let mut crew = Crew::new(members, SERVERS, &programs.directory, pace);
    for (number, row) in wanted.iter().enumerate() {
        let ask = Ask { op: row.op.to_string(), mode: "independent".to_string(), bytes: row.bytes };
        let mut results = Results::default();
        rounds(number).run(|round| crew.measure(&ask, round, &mut results));
        let value = value(row, &ask, &variants, &results);
        tell(row, &Outcome { ranks: SERVERS.to_string(), value });
    }
    Ok(())
}

fn value(row: &Row, ask: &Ask, variants: &[Library], results: &Results) -> Result<Value, String> {
    let cell = Cell { op: ask.op.clone(), mode: ask.mode.clone(), ranks: SERVERS, bytes: ask.bytes };
    let time = |variant: &Library, measure| {
        results.time(&cell, &variant.name, measure).ok_or_else(|| results.failures.join("; "))
    };
    let ratio = |measure| Ok::<_, String>(time(&variants[1], measure)? / time(&variants[0], measure)?);
    let (least, median) = (ratio(Measure::Least)?, ratio(Measure::Median)?);
    let how = variants.iter().map(|one| Ok(format!("{} {:.0} us", one.name, time(one, Measure::Median)?)));
    Ok(Value {
        least,
        median,
        other: None,
        // Operations that use both processors are judged by their median time.
        reached: median >= row.paper,
        how: how.collect::<Result<Vec<_>, String>>()?.join(", "),
    })
}
