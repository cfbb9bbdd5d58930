//! Which MPI functions are implemented: the standard's list against that of the library's sources.

use std::collections::BTreeSet;

/// All functions of the standard ABI, a line each, the name first.
const ALL: &str = include_str!("../../../../spec/functions.tsv");
/// The implemented ones.
const IMPLEMENTED: &str = include_str!("../../../../spec/implemented.tsv");

/// Names of functions, split by whether they are implemented.
#[derive(Debug, PartialEq, Eq)]
pub struct Functions<'a> {
    /// Those that work.
    pub implemented: Vec<&'a str>,
    /// Those that raise MPI_ERR_UNSUPPORTED_OPERATION.
    pub unsupported: Vec<&'a str>,
}

/// The functions of this version.
pub fn functions() -> Functions<'static> {
    split(ALL, IMPLEMENTED)
}

fn split<'a>(all: &'a str, implemented: &str) -> Functions<'a> {
    let done: BTreeSet<&str> = names(implemented).collect();
    let (implemented, unsupported) = names(all).partition(|name| done.contains(name));
    Functions { implemented, unsupported }
}

/// First column of the lines that begin with the name of a function.
fn names(table: &str) -> impl Iterator<Item = &str> {
    table.lines().filter_map(|line| line.split('\t').next()).filter(|name| name.starts_with("MPI_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_is_unsupported() {
        let all = "name\treturns\nMPI_Send\tint\nMPI_Recv\tint\nMPI_Win_lock\tint\n";
        let got = split(all, "# comment\nMPI_Recv\tp2p::recv\nMPI_Send\tp2p::send\n");
        assert_eq!(got.implemented, ["MPI_Send", "MPI_Recv"]);
        assert_eq!(got.unsupported, ["MPI_Win_lock"]);
    }

    #[test]
    fn the_standard_has_its_functions() {
        let functions = functions();
        assert_eq!(functions.implemented.len() + functions.unsupported.len(), 664);
    }
}
