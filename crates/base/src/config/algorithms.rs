//! Names of algorithms and their parameters, as TUTTI_ALGORITHM, the info key `tutti_algorithm` and `tutti`
//! take them.
//!
//! [`TABLE`] is a copy of the registry of `tutti-coll`. A test there compares them and writes the file anew
//! (`TUTTI_BLESS=1`). So the launcher detects a wrong name before it starts anything, without the code of the
//! algorithms.

/// A line each: collective, algorithm.
const TABLE: &str = include_str!("algorithms.tsv");

/// Most iterations of a schedule's loop that may be in flight.
pub const MAX_WINDOW: u32 = 64;

/// A parameter of an algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForcedParameter {
    /// Children of a node of a tree; [`u32::MAX`] means any number (`flat`).
    Radix(u32),
    /// Children of a node of a second tree, for the way down; 0 means as many as in the first.
    FanOut(u32),
    /// Ranks that may read one rank's memory at a time; 0 means all.
    Readers(u32),
    /// Bytes of a segment; 0 means one segment.
    Segment(u64),
    /// Iterations in flight, from 1 to [`MAX_WINDOW`].
    Window(u32),
}

/// Reads a parameter such as `radix=4`.
///
/// # Errors
/// Returns a description of the error for the user.
pub fn parameter(text: &str) -> Result<ForcedParameter, String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("{text:?} is not parameter=value"))?;
    let (name, value) = (name.trim(), value.trim());
    let wrong = |wanted: &str| format!("{name} is {wanted}, not {value:?}");
    let number = |least: u32| {
        let wanted = if least == 0 { "a number" } else { "a number from 1 on" };
        let number = super::values::size(value).ok().and_then(|number| u32::try_from(number).ok());
        number.filter(|number| *number >= least).ok_or_else(|| wrong(wanted))
    };
    Ok(match (name, value) {
        ("radix", "flat") => ForcedParameter::Radix(u32::MAX),
        ("fan_out", "flat") => ForcedParameter::FanOut(u32::MAX),
        ("radix", _) => ForcedParameter::Radix(number(1)?),
        ("fan_out", _) => ForcedParameter::FanOut(number(0)?),
        ("readers", _) => ForcedParameter::Readers(number(0)?),
        ("segment", _) => {
            ForcedParameter::Segment(super::values::size(value).map_err(|wanted| wrong(&wanted))?)
        }
        ("window", _) => {
            let window = number(1).ok().filter(|window| *window <= MAX_WINDOW);
            ForcedParameter::Window(window.ok_or_else(|| wrong(&format!("a number from 1 to {MAX_WINDOW}")))?)
        }
        _ => return Err(format!("{name} is no parameter: radix, fan_out, readers, segment, window are")),
    })
}

/// Checks the choice of an algorithm for a collective, with parameters if they follow: `knomial:radix=4`.
///
/// # Errors
/// Returns a description of the error, and the valid words.
pub fn check_choice(collective: &str, choice: &str) -> Result<(), String> {
    let mut words = choice.split(':');
    let name = words.next().unwrap_or_default().trim();
    let own: Vec<&str> = rows().filter(|row| row.0 == collective).map(|row| row.1).collect();
    if own.is_empty() {
        let mut all: Vec<&str> = rows().map(|row| row.0).collect();
        all.dedup();
        return Err(format!("{collective:?} is no collective; these are: {}", all.join(", ")));
    }
    if !own.contains(&name) {
        return Err(format!(
            "there is no algorithm {name:?} for {collective}; these are: {}",
            own.join(", ")
        ));
    }
    // A parameter that makes no difference to this algorithm may be named all the same.
    words.try_for_each(|word| parameter(word).map(drop))
}

/// Checks a list of choices such as `allreduce=ring,bcast=knomial:radix=4`; an empty one names none.
///
/// # Errors
/// Returns a description of the error, and the valid words.
pub fn check_list(list: &str) -> Result<(), String> {
    let mut seen = Vec::new();
    for entry in list.split(',').filter(|_| !list.trim().is_empty()) {
        let (collective, choice) =
            entry.split_once('=').ok_or_else(|| format!("{entry:?} is not collective=algorithm"))?;
        check_choice(collective.trim(), choice)?;
        if seen.contains(&collective.trim()) {
            return Err(format!("{} is named twice", collective.trim()));
        }
        seen.push(collective.trim());
    }
    Ok(())
}

/// Returns the algorithm that a list like `allreduce=ring,bcast=tree` names for a collective.
pub fn algorithm_in<'a>(list: &'a str, collective: &str) -> Option<&'a str> {
    let mut entries = list.split(',').filter_map(|entry| entry.split_once('='));
    entries.find(|(name, _)| name.trim() == collective).map(|(_, algorithm)| algorithm.trim())
}

/// Returns collective and algorithm of each line.
fn rows() -> impl Iterator<Item = (&'static str, &'static str)> {
    TABLE.lines().filter_map(|line| line.split_once('\t'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(list: &str, expected: Result<(), &str>) {
        match (check_list(list), expected) {
            (Ok(()), Ok(())) => {}
            (Err(got), Err(part)) => assert!(got.contains(part), "{list}: {got}"),
            (got, _) => panic!("{list}: {got:?}"),
        }
    }

    #[test]
    fn lists_hold_what_there_is() {
        check("", Ok(()));
        check("allreduce=ring, bcast = knomial:radix=4:segment=32K:window=8", Ok(()));
        check("bcast=knomial:radix=0", Err("radix is a number from 1 on, not \"0\""));
        check("bcast=knomial:segment=some", Err("segment is a size such as"));
        check("bcast=knomial:window=65", Err("window is a number from 1 to 64, not \"65\""));
        check("allreduce=ring:window=2", Ok(()));
        check("bcast=knomial:rdix=3", Err("rdix is no parameter: radix, fan_out"));
        check("bcast=knomial:flat", Err("\"flat\" is not parameter=value"));
        check("bcast=foo", Err("there is no algorithm \"foo\" for bcast; these are: "));
        check("bcst=knomial", Err("\"bcst\" is no collective; these are: "));
        check("ring", Err("\"ring\" is not collective=algorithm"));
        check("bcast=knomial,", Err("\"\" is not collective=algorithm"));
        check("bcast=knomial,bcast=knomial", Err("bcast is named twice"));
    }

    #[test]
    fn parameters_are_numbers_with_a_unit() {
        assert_eq!(parameter("radix=flat"), Ok(ForcedParameter::Radix(u32::MAX)));
        assert_eq!(parameter(" segment = 32K "), Ok(ForcedParameter::Segment(32 << 10)));
        assert_eq!(parameter("fan_out=0"), Ok(ForcedParameter::FanOut(0)));
    }
}
