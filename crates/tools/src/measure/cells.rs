//! Cells to measure: operations, modes and sizes, in their order.

use crate::measure::options::{CompareOptions, IN_THREADS};
use crate::measure::session::Ask;

/// Returns true if the operation has no sizes: it has no data, or always the same amount.
pub fn has_no_data(op: &str) -> bool {
    op.ends_with("barrier") || op == "line" || op == "fetch_and_op"
}

/// Operations whose bytes are those of one rank's block.
const OF_BLOCKS: [&str; 5] = ["gather", "scatter", "allgather", "alltoall", "reduce_scatter"];

/// Returns true if the bytes of the operation are those of a block for each rank, in any form of it
/// (`ialltoallv`).
pub fn has_blocks(op: &str) -> bool {
    let blocking = op.strip_prefix(['i', 'p']).unwrap_or(op);
    [op, blocking].iter().any(|name| OF_BLOCKS.iter().any(|block| name.starts_with(block)))
}

/// Returns all cells in the order of the measurement.
pub fn asks(options: &CompareOptions) -> Vec<Ask> {
    let mut asks = Vec::new();
    for mode in &options.modes {
        // A barrier has no data that could change, and threads do not look at theirs.
        for op in options.ops.iter().filter(|op| mode == "plain" || !(has_no_data(op) || *op == IN_THREADS)) {
            let sizes = if has_no_data(op) { vec![0] } else { options.sizes.to_vec() };
            asks.extend(sizes.into_iter().map(|bytes| Ask { op: op.clone(), mode: mode.clone(), bytes }));
        }
    }
    asks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line;

    #[test]
    fn operations_of_blocks_are_known_in_all_forms() {
        let check = |ops: &[&str], expected: bool| {
            ops.iter().for_each(|op| assert_eq!(has_blocks(op), expected, "{op}"));
        };
        check(&["gather", "scatterv", "iallgatherv", "palltoallw", "reduce_scatter_block"], true);
        check(&["put", "ibcast", "pingpong", "reduce", "preduce", "allreduce", "scan"], false);
    }

    #[test]
    fn every_cell_is_asked_for_once() {
        let options = command_line::options("--ops latency,barrier --sizes 8,64").expect("options");
        let shown: Vec<_> =
            asks(&options).iter().map(|ask| format!("{} {} {}", ask.op, ask.mode, ask.bytes)).collect();
        let expected = [
            "latency plain 8",
            "latency plain 64",
            "barrier plain 0",
            "latency changing 8",
            "latency changing 64",
        ];
        assert_eq!(shown, expected);
    }
}
