//! Parser of files that assign hosts and cores to ranks.
//!
//! A rank file has the syntax of Open MPI: `rank N=HOST slot=CORES` or `slot=PACKAGE:CORES`. Cores are lists
//! such as `0-3,8`, counted on the machine or in the package. HOST may be `+nK`, the K-th of the hosts that
//! are named elsewhere. A sequence file has a host in each line.

use tutti_topo::text::parse_list;

use crate::error::LaunchError;
use crate::hosts::{self, Host};
use crate::request::Cores;

/// Assignment that a file contains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assigned {
    /// Hosts that are named in the file and before.
    pub hosts: Vec<Host>,
    /// Index of the host, for each rank.
    pub host_of: Vec<usize>,
    /// Ranks with cores, and their cores.
    pub cores: Vec<(u32, Cores)>,
}

/// Parses a rank file. `known` are hosts that are named elsewhere. A line without a slot binds no rank.
///
/// # Errors
/// Fails with the line that cannot be parsed, or the rank that has no line.
pub fn parse(text: &str, file: &str, known: Vec<Host>) -> Result<Assigned, LaunchError> {
    let mut assigned = Assigned { hosts: known, ..Assigned::default() };
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or("").trim();
        if line.is_empty() {
            continue;
        }
        let (rank, name, cores) = split(line).map_err(|error| error.in_place(format!("{file}:{number}")))?;
        let host =
            find(&mut assigned.hosts, name).map_err(|error| error.in_place(format!("{file}:{number}")))?;
        assigned.cores.extend(cores.map(|cores| (rank, cores)));
        lines.push((rank, host));
    }
    lines.sort_unstable();
    for (wanted, &(rank, host)) in (0..).zip(&lines) {
        match rank {
            _ if rank == wanted => assigned.host_of.push(host),
            _ if rank < wanted => {
                return Err(LaunchError::Invalid(format!("{file}: rank {rank} has two lines")));
            }
            _ => return Err(LaunchError::Invalid(format!("{file}: rank {wanted} has no line"))),
        }
    }
    if lines.is_empty() {
        Err(LaunchError::Invalid(format!("{file}: it names no rank")))
    } else {
        Ok(assigned)
    }
}

/// Parses a sequence file, which has a line with a host for each rank.
///
/// # Errors
/// Fails with the line that cannot be parsed.
pub fn sequence(text: &str, file: &str) -> Result<Assigned, LaunchError> {
    let mut assigned = Assigned::default();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or("").trim();
        let Some(name) = line.split_whitespace().next() else { continue };
        let host =
            find(&mut assigned.hosts, name).map_err(|error| error.in_place(format!("{file}:{number}")))?;
        assigned.host_of.push(host);
    }
    if assigned.host_of.is_empty() {
        Err(LaunchError::Invalid(format!("{file}: it names no host")))
    } else {
        Ok(assigned)
    }
}

/// Splits a line into rank, host and cores.
fn split(line: &str) -> Result<(u32, &str, Option<Cores>), LaunchError> {
    let wrong =
        || LaunchError::Invalid(format!("{line}: a line is rank N=HOST slot=CORES or slot=PACKAGE:CORES"));
    let (rank, rest) =
        line.strip_prefix("rank").and_then(|rest| rest.trim_start().split_once('=')).ok_or_else(wrong)?;
    let rank = rank.trim().parse().map_err(|_| wrong())?;
    let (name, slot) = rest.trim().split_once(char::is_whitespace).unwrap_or((rest.trim(), ""));
    let Some(list) = slot.trim().strip_prefix("slot").and_then(|slot| slot.trim_start().strip_prefix('='))
    else {
        return if slot.trim().is_empty() { Ok((rank, name, None)) } else { Err(wrong()) };
    };
    let (package, list) = match list.trim().split_once(':') {
        Some((package, list)) => {
            (Some(package.trim_start_matches(['p', 'P']).parse().map_err(|_| wrong())?), list)
        }
        None => (None, list.trim()),
    };
    let cores = parse_list(list).ok().filter(|cores| !cores.is_empty()).ok_or_else(wrong)?;
    Ok((rank, name, Some(Cores { package, cores })))
}

/// Returns the index of a host, which is added if it is new.
fn find(known: &mut Vec<Host>, name: &str) -> Result<usize, LaunchError> {
    if let Some(number) = name.strip_prefix("+n") {
        let index = number.parse().ok().filter(|&index: &usize| index < known.len());
        return index.ok_or_else(|| LaunchError::Invalid(format!("{name}: {} hosts are named", known.len())));
    }
    let mut one = hosts::listed(&[name.to_string()], &[])?;
    let host = one.pop().ok_or_else(|| LaunchError::Invalid("a host has no name".to_string()))?;
    Ok(known.iter().position(|other| other.name == host.name).unwrap_or_else(|| {
        known.push(host);
        known.len() - 1
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks a rank file. `expected` has the host of each rank and its cores, `PACKAGE:CORES` or `CORES`, or
    /// `-` if it is not bound.
    fn check(text: &str, expected: Result<&[&str], &str>) {
        let known = vec![Host { name: "k0".into(), slots: 4 }, Host { name: "k1".into(), slots: 4 }];
        match (parse(text, "f", known), expected) {
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (Ok(got), Ok(expected)) => {
                let show = |rank: u32| {
                    let cores = got.cores.iter().find(|(of, _)| *of == rank).map(|(_, cores)| {
                        let package = cores.package.map_or(String::new(), |package| format!("{package}:"));
                        let list: Vec<String> = cores.cores.iter().map(u32::to_string).collect();
                        package + &list.join(",")
                    });
                    format!(
                        "{} {}",
                        got.hosts[got.host_of[rank as usize]].name,
                        cores.unwrap_or("-".to_string())
                    )
                };
                let all: Vec<String> = (0..got.host_of.len() as u32).map(show).collect();
                assert_eq!(all, expected);
            }
            (got, _) => panic!("{text:?}: {got:?}"),
        }
    }

    #[test]
    fn a_line_says_where_a_rank_runs() {
        check("rank 1=b slot=0-2\nrank 0=a slot=1:0,3 # first\n\n", Ok(&["a 1:0,3", "b 0,1,2"]));
        check("rank 0=+n1 slot=2\nrank 1=k0\nrank 2 = k1 slot = p0:1", Ok(&["k1 2", "k0 -", "k1 0:1"]));
    }

    #[test]
    fn what_is_wrong_is_named() {
        check("", Err("it names no rank"));
        check("rank 1=a slot=0", Err("rank 0 has no line"));
        check("rank 0=a\nrank 0=b", Err("rank 0 has two lines"));
        check("rank 0=a slot=x", Err("f:1: rank 0=a slot=x: a line is"));
        check("0=a slot=1", Err("a line is rank N=HOST"));
        check("rank 0=+n2 slot=1", Err("f:1: +n2: 2 hosts are named"));
    }

    #[test]
    fn a_sequence_names_a_host_a_rank() {
        let got = sequence("a\nb slots=4\n# no\na\n", "f").unwrap();
        assert_eq!(got.host_of, [0, 1, 0]);
        assert!(sequence("\n", "f").unwrap_err().to_string().contains("names no host"));
    }
}
