//! Parser of compressed lists of hosts and counts in the syntax of Slurm and Flux: `x[1-3,07-09],y`,
//! `2(x3),1`.

use super::host_files::Entry;
use crate::error::LaunchError;

/// Maximum number of hosts of an allocation, which limits the expansion of ranges.
const MOST_HOSTS: usize = 1 << 20;

/// Parses Slurm's list of hosts, with the slots from other variables.
///
/// # Errors
/// Fails if the list or the slots cannot be parsed.
pub fn slurm(list: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Vec<Entry>, LaunchError> {
    let names = expand(list).map_err(|error| error.in_place(format!("{list:?}")))?;
    let tasks = ["SLURM_TASKS_PER_NODE", "SLURM_JOB_CPUS_PER_NODE"].into_iter().find_map(&variable);
    let slots = tasks.map_or(Ok(vec![1; names.len()]), |text| {
        counts(&text).ok_or_else(|| {
            LaunchError::Invalid(format!("SLURM_TASKS_PER_NODE {text:?}: not a list of counts"))
        })
    })?;
    let entries = names.into_iter().enumerate().map(|(at, name)| {
        // The list of counts may be shorter than that of hosts. Its last count holds for the other hosts.
        let slots = slots.get(at).or(slots.last()).copied().unwrap_or(1).max(1);
        Entry { name, slots: Some(slots) }
    });
    Ok(entries.collect())
}

/// Expands `a[1-3,07-09],b` to names.
///
/// # Errors
/// Fails with the malformed part.
pub fn expand(list: &str) -> Result<Vec<String>, LaunchError> {
    let mut names = Vec::new();
    for item in split_outside(list) {
        let mut heads = vec![String::new()];
        let mut rest = item;
        while let Some((before, after)) = rest.split_once('[') {
            let (inside, after) =
                after.split_once(']').ok_or_else(|| LaunchError::Invalid("a bracket is open".to_string()))?;
            let numbers = ranges(inside)?;
            if heads.len().saturating_mul(numbers.len()) > MOST_HOSTS {
                return Err(LaunchError::Invalid("too many hosts".to_string()));
            }
            heads = heads
                .iter()
                .flat_map(|head| numbers.iter().map(move |number| format!("{head}{before}{number}")))
                .collect();
            rest = after;
        }
        names.extend(heads.into_iter().map(|head| head + rest).filter(|name| !name.is_empty()));
    }
    if names.is_empty() { Err(LaunchError::Invalid("it names no host".to_string())) } else { Ok(names) }
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

/// Expands `1-3,07-09` to `1 2 3 07 08 09`.
fn ranges(text: &str) -> Result<Vec<String>, LaunchError> {
    let mut numbers = Vec::new();
    for range in text.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| {
            text.parse::<u32>().map_err(|_| LaunchError::Invalid(format!("{range:?} is not a range")))
        };
        let (low, high, width) = (number(first)?, number(last)?, first.len());
        if high < low || (high - low) as usize >= MOST_HOSTS - numbers.len() {
            return Err(LaunchError::Invalid(format!("{range:?} is not a range")));
        }
        numbers.extend((low..=high).map(|number| format!("{number:0width$}")));
    }
    Ok(numbers)
}

/// Expands `2(x3),1` to `2 2 2 1`.
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

    fn check(list: &str, tasks: Option<&str>, expected: Result<&str, &str>) {
        let variable = |name: &str| tasks.filter(|_| name == "SLURM_TASKS_PER_NODE").map(str::to_string);
        match (slurm(list, variable), expected) {
            (Ok(got), Ok(expected)) => {
                let slots = |entry: &Entry| entry.slots.unwrap_or(0);
                let shown: Vec<String> =
                    got.iter().map(|entry| format!("{}:{}", entry.name, slots(entry))).collect();
                assert_eq!(shown.join(" "), expected, "{list:?}");
            }
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (got, expected) => panic!("{got:?} instead of {expected:?}"),
        }
    }

    fn check_list(list: &str, expected: Result<&str, &str>) {
        check(list, None, expected);
    }

    #[test]
    fn slots_follow_the_hosts() {
        check("x[1-3]", Some("2(x2),1"), Ok("x1:2 x2:2 x3:1"));
        check("x[1-3]", Some("4"), Ok("x1:4 x2:4 x3:4"));
        check("x[1-3]", Some("4(x"), Err("not a list of counts"));
        check("x[1-3]", Some("1(x99999999999)"), Err("not a list of counts"));
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
