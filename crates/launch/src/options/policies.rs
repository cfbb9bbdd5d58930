//! Policies of mapping, ranking and binding in the syntax of Open MPI and MPICH: a unit, and modifiers after
//! colons or commas.

use std::path::Path;

use tutti_topo::text::parse_list;

use super::row::Reading;
use super::values::count;
use crate::error::LaunchError;
use crate::request::{Across, Assignment, BindTo, MapBy, Request};

/// Parses `--map-by POLICY`.
pub(super) fn map(reading: &mut Reading, text: &str) -> Result<(), LaunchError> {
    let request = &mut reading.request;
    let (first, rest) = text.split_once(':').unwrap_or((text, ""));
    let unit = first.to_ascii_lowercase();
    let rest = match unit.as_str() {
        "ppr" => per_unit(request, rest)?,
        "seq" => {
            request.assignment = Assignment::Sequence(None);
            rest
        }
        "rankfile" => {
            request.assignment = Assignment::RankFile(String::new());
            rest
        }
        "node" | "host" => {
            request.across = Across::Node;
            rest
        }
        _ if unit.starts_with("pe-list=") => {
            request.placing.cores = list(&first["pe-list=".len()..])?;
            rest
        }
        _ => {
            request.placing.map_by = Some(level(&unit)?);
            rest
        }
    };
    for modifier in rest.split([':', ',']).filter(|modifier| !modifier.is_empty()) {
        modify(request, modifier)?;
    }
    match &request.assignment {
        Assignment::RankFile(name) if name.is_empty() => {
            Err(LaunchError::Invalid("rankfile needs :file=NAME".to_string()))
        }
        _ => Ok(()),
    }
}

/// Parses `ppr:N:UNIT`, and returns the text that follows.
fn per_unit<'t>(request: &mut Request, text: &'t str) -> Result<&'t str, LaunchError> {
    let mut parts = text.splitn(3, ':');
    let number = count(parts.next().unwrap_or(""))?;
    let unit = parts
        .next()
        .ok_or_else(|| LaunchError::Invalid("ppr:N:UNIT is needed".to_string()))?
        .to_ascii_lowercase();
    if unit == "node" || unit == "host" {
        request.per_node = Some(number);
    } else {
        let level = level(&unit)?;
        request.per_unit = Some((number, level));
        request.placing.map_by = Some(level);
        request.placing.ranks_per_unit = number;
    }
    request.is_within_slots = true;
    Ok(parts.next().unwrap_or(""))
}

/// Parses a modifier of a policy.
fn modify(request: &mut Request, modifier: &str) -> Result<(), LaunchError> {
    let lower = modifier.to_ascii_lowercase();
    match lower.split_once('=') {
        Some(("pe", number)) => {
            request.placing.cores_per_rank = count(number)?;
            return Ok(());
        }
        Some(("file", _)) => {
            let name = modifier["file=".len()..].to_string();
            match &mut request.assignment {
                Assignment::RankFile(file) => *file = name,
                Assignment::Sequence(file) => *file = Some(name),
                _ => {
                    return Err(LaunchError::Invalid(format!(
                        "modifier {modifier} belongs to seq and rankfile"
                    )));
                }
            }
            return Ok(());
        }
        _ => {}
    }
    match lower.as_str() {
        "nooversubscribe" => request.is_within_slots = true,
        "oversubscribe" => request.is_within_slots = false,
        "nolocal" => request.is_not_here = true,
        // These modifiers describe the behaviour of Tutti: more ranks than cores are permitted, cores are
        // counted, and spawned jobs inherit nothing.
        "overload-allowed" | "overload" | "span" | "corecpus" | "hwtcpus" | "noinherit" | "ordered" => {}
        _ => return Err(LaunchError::Invalid(format!("modifier {modifier} is not supported"))),
    }
    Ok(())
}

/// Parses the name of a unit.
fn level(text: &str) -> Result<MapBy, LaunchError> {
    match text {
        "slot" | "core" | "hwthread" | "l1cache" | "pu" => Ok(MapBy::Core),
        "l2cache" | "l2" => Ok(MapBy::L2),
        "l3cache" | "l3" => Ok(MapBy::L3),
        "numa" => Ok(MapBy::Numa),
        "package" | "socket" | "skt" => Ok(MapBy::Package),
        _ => Err(LaunchError::Invalid("slot, core, l2cache, l3cache, node, numa, package, ppr:N:UNIT, seq, rankfile:file=NAME or pe-list=LIST is needed"
            .to_string())),
    }
}

/// Parses `--rank-by POLICY`.
pub(super) fn rank(reading: &mut Reading, text: &str) -> Result<(), LaunchError> {
    let (unit, modifiers) = text.split_once(':').unwrap_or((text, ""));
    let known = ["", "span", "fill"];
    if let Some(wrong) = modifiers.split([':', ',']).find(|modifier| !known.contains(modifier)) {
        return Err(LaunchError::Invalid(format!("modifier {wrong} is not supported")));
    }
    reading.request.rank_by = Some(match unit.to_ascii_lowercase().as_str() {
        "slot" | "fill" | "core" | "hwthread" | "numa" | "package" | "socket" => Across::Slot,
        "node" | "span" => Across::Node,
        _ => return Err(LaunchError::Invalid("slot, node, fill or span is needed".to_string())),
    });
    Ok(())
}

/// Parses `--bind-to UNIT`.
pub(super) fn bind(reading: &mut Reading, text: &str) -> Result<(), LaunchError> {
    let (unit, modifiers) = text.split_once(':').unwrap_or((text, ""));
    let known = ["overload-allowed", "overload", "no-overload", "if-supported", "oversubscribe"];
    for modifier in modifiers.split([',', ':']).filter(|modifier| !modifier.is_empty()) {
        if !known.contains(&modifier.to_ascii_lowercase().as_str()) {
            return Err(LaunchError::Invalid(format!("modifier {modifier} is not supported")));
        }
    }
    reading.request.placing.bind_to = Some(match unit.to_ascii_lowercase().as_str() {
        "none" => BindTo::None,
        "hwthread" | "pu" => BindTo::Processor,
        "core" | "l1cache" => BindTo::Core,
        "l2cache" | "l2" => BindTo::L2,
        "l3cache" | "l3" => BindTo::L3,
        "numa" => BindTo::Numa,
        "package" | "socket" => BindTo::Package,
        _ => {
            return Err(LaunchError::Invalid(
                "none, hwthread, core, l2cache, l3cache, numa or package is needed".to_string(),
            ));
        }
    });
    Ok(())
}

/// Parses a list of core numbers.
pub(super) fn list(text: &str) -> Result<Vec<u32>, LaunchError> {
    let numbers = parse_list(text)?;
    if numbers.is_empty() {
        Err(LaunchError::Invalid("a list of numbers is needed".to_string()))
    } else {
        Ok(numbers)
    }
}

/// Returns the words of a file with a program in each line, joined by `:` as on a command line. A `#` begins
/// a comment; a `\` at the end continues the line.
pub(super) fn lines(text: &str, file: &Path) -> Result<Vec<String>, LaunchError> {
    let mut words: Vec<String> = Vec::new();
    for line in text.replace("\\\n", " ").lines() {
        let line = line.split('#').next().unwrap_or("").trim();
        if line.is_empty() {
            continue;
        }
        if !words.is_empty() && words.last().is_some_and(|word| word != ":") && !line.starts_with(':') {
            words.push(":".to_string());
        }
        words.extend(split(line).ok_or_else(|| {
            LaunchError::Invalid(format!("{}: {line}: a quote is not closed", file.display()))
        })?);
    }
    if words.last().is_some_and(|word| word == ":") {
        words.pop();
    }
    Ok(words)
}

/// Splits a line into words like a shell: at blanks, with quotes and backslashes.
pub(crate) fn split(line: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => word.get_or_insert_default().push(letters.next()?),
            (None, _) if letter.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}
