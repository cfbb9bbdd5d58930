//! Parsers of host files and lists, one for each format. They are pure functions.
//!
//! The formats differ. `slots=4` belongs to Open MPI alone, `x:4` is a host with slots for Hydra. The second
//! column of Grid Engine's file is a number. A line that cannot be parsed is an error with its number, since
//! skipping a host would make the job smaller.

use super::ranges;
use crate::error::LaunchError;

/// Host in a file, with its slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Name of the host as written in the file.
    pub name: String,
    /// Slots of the host, if the file has a number.
    pub slots: Option<u32>,
}

impl Entry {
    fn new(name: &str, slots: Option<u32>) -> Entry {
        Entry { name: name.to_string(), slots }
    }
}

/// Parses each line that has more than a comment.
fn by_line(
    text: &str,
    parse: impl Fn(&str) -> Result<Entry, LaunchError>,
) -> Result<Vec<Entry>, LaunchError> {
    let lines = (1..).zip(text.lines().map(|line| line.split('#').next().unwrap_or("").trim()));
    lines
        .filter(|(_, line)| !line.is_empty())
        .map(|(number, line)| parse(line).map_err(|error| error.in_place(format!("line {number}"))))
        .collect()
}

fn count(text: &str) -> Result<u32, LaunchError> {
    let number = text.parse().ok().filter(|&slots| slots > 0);
    number.ok_or_else(|| LaunchError::Invalid(format!("{text:?} is not a number of slots")))
}

/// Splits `NAME:SLOTS`. An IPv6 address has colons of its own.
fn with_slots(word: &str) -> Result<Entry, LaunchError> {
    match word.split_once(':') {
        Some((name, slots)) if !slots.contains(':') => Ok(Entry::new(name, Some(count(slots)?))),
        _ => Ok(Entry::new(word, None)),
    }
}

/// Parses a host file of Hydra (MPICH): `NAME[:SLOTS]`, followed by words for the binding, an interface or a
/// user.
///
/// # Errors
/// Fails with a line that cannot be parsed, or a word that Tutti does not support: `ifname=`, `user=`.
pub fn hydra(text: &str) -> Result<Vec<Entry>, LaunchError> {
    by_line(text, |line| {
        let mut words = line.split_whitespace();
        let entry = with_slots(words.next().unwrap_or(""))?;
        for word in words {
            match word.split_once('=') {
                // The binding of ranks is the same on all hosts (--bind-to).
                Some(("binding", _)) => {}
                Some(("ifname", _)) => {
                    return Err(LaunchError::Invalid(format!(
                        "{word}: not supported here: --interface NAME"
                    )));
                }
                Some(("user", _)) => {
                    return Err(LaunchError::Invalid(format!(
                        "{word}: not supported here: User in ~/.ssh/config"
                    )));
                }
                _ => {
                    return Err(LaunchError::Invalid(format!(
                        "{word}: not understood; a line is NAME[:SLOTS]"
                    )));
                }
            }
        }
        Ok(entry)
    })
}

/// Parses a host file or machine file of Intel MPI. Its launcher is a Hydra. Names may have ranges.
///
/// # Errors
/// Fails like [`hydra`].
pub fn intel(text: &str) -> Result<Vec<Entry>, LaunchError> {
    let mut entries = Vec::new();
    for entry in hydra(text)? {
        let names = ranges::expand(&entry.name)?;
        entries.extend(names.into_iter().map(|name| Entry { name, slots: entry.slots }));
    }
    Ok(entries)
}

/// Parses a host file of Open MPI: `NAME slots=4 max_slots=8`, with blanks around `=` allowed, or `NAME:4`.
///
/// # Errors
/// Fails with a line that cannot be parsed. Relative (`+n1`) and excluded (`^x`) hosts are not supported.
pub fn open_mpi(text: &str) -> Result<Vec<Entry>, LaunchError> {
    by_line(text, |line| {
        let line = line.replace('=', " = ");
        let mut words = line.split_whitespace();
        let mut entry = with_slots(words.next().unwrap_or(""))?;
        while let Some(word) = words.next() {
            let (Some("="), Some(value)) = (words.next(), words.next()) else {
                return Err(LaunchError::Invalid(format!(
                    "{word}: not understood; a line is NAME [slots=N]"
                )));
            };
            match word {
                "slots" | "slot" | "count" | "cpu" | "cpus" | "cores" => entry.slots = Some(count(value)?),
                "max_slots" | "max-slots" | "slots_max" | "slots-max" | "cpus_max" | "cpus-max" => {}
                _ => {
                    return Err(LaunchError::Invalid(format!(
                        "{word}={value}: not understood; a line is NAME [slots=N]"
                    )));
                }
            }
        }
        Ok(entry)
    })
}

/// Parses Grid Engine's file: host, slots, queue, processors.
///
/// # Errors
/// Fails with a line that has no number of slots.
pub fn grid_engine(text: &str) -> Result<Vec<Entry>, LaunchError> {
    by_line(text, |line| {
        let mut words = line.split_whitespace();
        let (name, slots) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        Ok(Entry::new(name, Some(count(slots)?)))
    })
}

/// Parses hosts that are repeated for each slot, separated by blanks, commas or line ends.
///
/// # Errors
/// Never fails; the type is that of all parsers.
pub fn names(text: &str) -> Result<Vec<Entry>, LaunchError> {
    let words = text.split([' ', ',', '\t', '\n', '\r']).filter(|word| !word.is_empty());
    Ok(words.map(|name| Entry::new(name, Some(1))).collect())
}

/// Parses an alternating list of hosts and slots: `x 4 y 2`.
///
/// # Errors
/// Fails with a host that has no number.
pub fn pairs(text: &str) -> Result<Vec<Entry>, LaunchError> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let pairs = words.chunks(2).map(|pair| match pair {
        [name, slots] => Ok(Entry::new(name, Some(count(slots)?))),
        _ => Err(LaunchError::Invalid(format!("{} has no number of slots", pair.join(" ")))),
    });
    pairs.collect()
}

/// Parses hosts with slots in the syntax of `--host`: `x:4,y`.
///
/// # Errors
/// Fails with a number of slots that is malformed.
pub fn listed(text: &str) -> Result<Vec<Entry>, LaunchError> {
    text.split([',', ' ']).filter(|word| !word.is_empty()).map(with_slots).collect()
}

/// Parses hosts with ranges: `x[1-4],y`.
///
/// # Errors
/// Fails with a malformed range.
pub fn groups(text: &str) -> Result<Vec<Entry>, LaunchError> {
    Ok(ranges::expand(text)?.iter().map(|name| Entry::new(name, None)).collect())
}

/// Parses the replies of Flux: its hosts with ranges, and `2 Nodes, 8 Cores, 0 GPUs`. Each host gets an equal
/// part of the cores.
///
/// # Errors
/// Fails with a reply that cannot be parsed.
pub fn flux(hostlist: &str, info: &str) -> Result<Vec<Entry>, LaunchError> {
    let names = ranges::expand(hostlist.trim())?;
    let words: Vec<&str> = info.split([' ', ',', '\n']).filter(|word| !word.is_empty()).collect();
    let cores =
        words.windows(2).find(|pair| pair[1].starts_with("Core")).and_then(|pair| pair[0].parse().ok());
    let cores: usize = cores.ok_or_else(|| {
        LaunchError::Invalid(format!("flux resource info: {info:?} has no number of cores"))
    })?;
    let slots = u32::try_from(cores / names.len()).unwrap_or(u32::MAX).max(1);
    Ok(names.iter().map(|name| Entry::new(name, Some(slots))).collect())
}

/// Maximum number of hosts in a message.
const SHOWN: usize = 8;

/// Returns the names as a list that fits into one line.
pub fn abbreviated(names: &[&str]) -> String {
    match names.len() {
        0..=SHOWN => names.join(", "),
        all => format!("{}, and {} more", names[..SHOWN].join(", "), all - SHOWN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(parse: fn(&str) -> Result<Vec<Entry>, LaunchError>, text: &str, expected: Result<&str, &str>) {
        match (parse(text), expected) {
            (Ok(got), Ok(expected)) => {
                let slots = |entry: &Entry| entry.slots.map_or(String::new(), |slots| format!(":{slots}"));
                let shown: Vec<String> =
                    got.iter().map(|entry| format!("{}{}", entry.name, slots(entry))).collect();
                assert_eq!(shown.join(" "), expected, "{text:?}");
            }
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (got, expected) => panic!("{text:?}: {got:?} instead of {expected:?}"),
        }
    }

    #[test]
    fn files_of_hydra() {
        check(hydra, "# all\nx1:4\n\nx2 # here\nx3:2 binding=core\n", Ok("x1:4 x2 x3:2"));
        check(hydra, "2001:db8::1\n", Ok("2001:db8::1"));
        check(hydra, "x1\nx2:two\n", Err("line 2: \"two\" is not a number"));
        check(hydra, "x1 ifname=eth1\n", Err("line 1: ifname=eth1: not supported here: --interface"));
        check(hydra, "x1 user=me\n", Err("user=me"));
        check(hydra, "x1 slots=4\n", Err("slots=4: not understood"));
    }

    #[test]
    fn files_of_intel_mpi() {
        check(intel, "pi-worker-0.pi.ns.svc:2\n", Ok("pi-worker-0.pi.ns.svc:2"));
        check(intel, "x[01-02]:4\ny\n", Ok("x01:4 x02:4 y"));
    }

    #[test]
    fn files_of_open_mpi() {
        check(open_mpi, "x1 slots=4\nx2 slots = 2 max_slots=8\nx3\nx4:3\n", Ok("x1:4 x2:2 x3 x4:3"));
        check(open_mpi, "x1 cpus=4 # c\n", Ok("x1:4"));
        check(open_mpi, "x1 slots=0\n", Err("line 1: \"0\" is not a number"));
        check(open_mpi, "x1 slots\n", Err("slots: not understood"));
        check(open_mpi, "x1 user=me\n", Err("user=me: not understood"));
    }

    #[test]
    fn files_and_lists_of_managers() {
        check(grid_engine, "x1 4 all.q@x1 UNDEFINED\nx2 2 all.q@x2 0,1:0,2\n", Ok("x1:4 x2:2"));
        check(grid_engine, "x1\n", Err("line 1: \"\" is not a number"));
        check(names, "x1\nx1 x2,x3\n", Ok("x1:1 x1:1 x2:1 x3:1"));
        check(pairs, "x1 4 x2 2 ", Ok("x1:4 x2:2"));
        check(pairs, "x1 4 x2", Err("x2 has no number"));
        check(pairs, "x1 x2", Err("not a number"));
        check(listed, "x1:4,x2", Ok("x1:4 x2"));
        check(groups, "x[1-2],y", Ok("x1 x2 y"));
        let flux_of = |text: &str| {
            let (hosts, info) = text.split_once('|').unwrap_or((text, ""));
            flux(hosts, info)
        };
        check(flux_of, "x[0-1]\n|2 Nodes, 8 Cores, 0 GPUs\n", Ok("x0:4 x1:4"));
        check(flux_of, "x0\n|1 Node, 1 Core, 0 GPUs\n", Ok("x0:1"));
        check(flux_of, "x0\n|nothing\n", Err("has no number of cores"));
    }

    #[test]
    fn lists_are_abbreviated() {
        let names: Vec<String> = (0..10).map(|number| format!("x{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(abbreviated(&names[..2]), "x0, x1");
        assert_eq!(abbreviated(&names), "x0, x1, x2, x3, x4, x5, x6, x7, and 2 more");
    }
}
