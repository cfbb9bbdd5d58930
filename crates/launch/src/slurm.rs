//! The hosts of an allocation, from what the resource manager puts into the environment. Pure.

use crate::hosts::{self, Host};

/// Most hosts of an allocation: bounds what a range may unfold to.
const MOST_HOSTS: usize = 1 << 20;

/// The agent inside a Slurm allocation: a step of one task on one host beside all others.
pub const SLURM_AGENT: &str =
    "srun --nodes=1 --ntasks=1 --overlap --mpi=none --cpu-bind=none --quiet --nodelist={host}";

/// What an allocation gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Its hosts.
    pub hosts: Vec<Host>,
    /// The agent that reaches them, if it has one.
    pub agent: Option<&'static str>,
}

/// The allocation that the environment tells of, if any. `read` reads a file.
///
/// # Errors
/// If the environment tells what cannot be understood.
pub fn allocation(
    variable: impl Fn(&str) -> Option<String>,
    read: impl Fn(&str) -> std::io::Result<String>,
) -> Result<Option<Allocation>, String> {
    if let Some(list) = variable("SLURM_JOB_NODELIST").or_else(|| variable("SLURM_NODELIST")) {
        let names = expand(&list).map_err(|reason| format!("SLURM_JOB_NODELIST {list:?}: {reason}"))?;
        let tasks = ["SLURM_TASKS_PER_NODE", "SLURM_JOB_CPUS_PER_NODE"].into_iter().find_map(&variable);
        let slots = tasks.map_or(Ok(vec![1; names.len()]), |text| {
            counts(&text).ok_or_else(|| format!("SLURM_TASKS_PER_NODE {text:?}: not a list of counts"))
        })?;
        let mut all = Vec::new();
        for (at, name) in names.iter().enumerate() {
            // A step's list may be shorter than the job's: the last count holds on.
            hosts::add(&mut all, name, slots.get(at).or(slots.last()).copied().unwrap_or(1).max(1));
        }
        return Ok(Some(Allocation { hosts: all, agent: Some(SLURM_AGENT) }));
    }
    if let Some(file) = variable("PBS_NODEFILE") {
        let text = read(&file).map_err(|error| format!("PBS_NODEFILE {file}: {error}"))?;
        return Ok(Some(Allocation { hosts: hosts::listed(&[], &[(file, text)])?, agent: None }));
    }
    Ok(None)
}

/// Unfolds `a[1-3,07-09],b` to names.
///
/// # Errors
/// What is malformed.
pub fn expand(list: &str) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for item in split_outside(list) {
        let mut heads = vec![String::new()];
        let mut rest = item;
        while let Some((before, after)) = rest.split_once('[') {
            let (inside, after) = after.split_once(']').ok_or("a bracket is open")?;
            let numbers = ranges(inside)?;
            if heads.len().saturating_mul(numbers.len()) > MOST_HOSTS {
                return Err("too many hosts".to_string());
            }
            heads = heads
                .iter()
                .flat_map(|head| numbers.iter().map(move |number| format!("{head}{before}{number}")))
                .collect();
            rest = after;
        }
        names.extend(heads.into_iter().map(|head| head + rest).filter(|name| !name.is_empty()));
    }
    if names.is_empty() { Err("it names no host".to_string()) } else { Ok(names) }
}

/// Splits at commas that are not in brackets.
fn split_outside(list: &str) -> Vec<&str> {
    let mut depth = 0;
    list.split(|letter: char| {
        match letter {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        letter == ',' && depth == 0
    })
    .collect()
}

/// `1-3,07-09` as `1 2 3 07 08 09`.
fn ranges(text: &str) -> Result<Vec<String>, String> {
    let mut numbers = Vec::new();
    for range in text.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| text.parse::<u32>().map_err(|_| format!("{range:?} is not a range"));
        let (low, high, width) = (number(first)?, number(last)?, first.len());
        if high < low || (high - low) as usize >= MOST_HOSTS - numbers.len() {
            return Err(format!("{range:?} is not a range"));
        }
        numbers.extend((low..=high).map(|number| format!("{number:0width$}")));
    }
    Ok(numbers)
}

/// `2(x3),1` as `2 2 2 1`.
fn counts(text: &str) -> Option<Vec<u32>> {
    let mut counts = Vec::new();
    for item in text.split(',') {
        let (count, times) = match item.split_once("(x") {
            Some((count, times)) => (count, times.strip_suffix(')')?.parse().ok()?),
            None => (item, 1usize),
        };
        if times > MOST_HOSTS - counts.len() {
            return None;
        }
        counts.extend(std::iter::repeat_n(count.parse::<u32>().ok()?, times));
    }
    Some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(variables: &[(&str, &str)], expected: Result<&str, &str>) {
        let find = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string())
        };
        let got = allocation(find, |_| Ok("x1\nx1\nx2\n".to_string()));
        match (got, expected) {
            (Ok(got), Ok(expected)) => {
                let hosts = got.map_or(Vec::new(), |got| got.hosts);
                let shown: Vec<String> =
                    hosts.iter().map(|host| format!("{}:{}", host.name, host.slots)).collect();
                assert_eq!(shown.join(" "), expected, "{variables:?}");
            }
            (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
            (got, expected) => panic!("{got:?} instead of {expected:?}"),
        }
    }

    fn check_list(list: &str, expected: Result<&str, &str>) {
        check(&[("SLURM_JOB_NODELIST", list)], expected);
    }

    #[test]
    fn allocations_of_slurm_and_pbs() {
        check(&[], Ok(""));
        let slurm = |tasks| [("SLURM_JOB_NODELIST", "x[1-3]"), ("SLURM_TASKS_PER_NODE", tasks)];
        check(&slurm("2(x2),1"), Ok("x1:2 x2:2 x3:1"));
        check(&slurm("4"), Ok("x1:4 x2:4 x3:4"));
        check(&slurm("4(x"), Err("not a list of counts"));
        check(&slurm("1(x99999999999)"), Err("not a list of counts"));
        check(&[("PBS_NODEFILE", "f")], Ok("x1:2 x2:1"));
    }

    #[test]
    fn compressed_lists_are_unfolded() {
        check_list("xa", Ok("xa:1"));
        check_list("x[08-11],y", Ok("x08:1 x09:1 x10:1 x11:1 y:1"));
        check_list("r[1,3]n[0-1]-ib", Ok("r1n0-ib:1 r1n1-ib:1 r3n0-ib:1 r3n1-ib:1"));
        check_list("x[1-", Err("open"));
        check_list("x[3-1]", Err("not a range"));
        check_list("x[0-4000000000]", Err("not a range"));
        check_list("", Err("no host"));
    }
}
