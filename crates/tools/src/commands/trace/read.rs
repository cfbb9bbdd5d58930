//! Reader of traces that the library has written.

use std::borrow::Cow;
use std::path::Path;

use serde_json::Value;
use tutti_base::trace::{Action, Event, Level};
use tutti_sys::files;

use super::events::Trace;

/// Longest trace, in bytes.
const TRACE_BYTES: u64 = 8 << 30;

/// Reads the trace in a file.
///
/// # Errors
/// Fails if it cannot be read, or is no trace of Tutti.
pub fn file(path: &Path) -> Result<Trace, String> {
    let text = files::read_text_or_pipe(path, TRACE_BYTES)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    self::text(&text).map_err(|why| {
        format!("{} is no trace: {why}; `mpirun --trace FILE PROGRAM` writes one", path.display())
    })
}

/// Parses the text of a trace.
///
/// # Errors
/// Returns a description of the error.
pub fn text(text: &str) -> Result<Trace, String> {
    let all: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let lines = all["traceEvents"].as_array().ok_or("it has no traceEvents: is it a trace of Tutti?")?;
    let mut trace = Trace::default();
    for line in lines.iter().filter(|line| line["ph"] == "X") {
        let (event, host) = event(line).ok_or_else(|| format!("this event is not Tutti's: {line}"))?;
        let rank = event.rank as usize;
        if trace.hosts.len() <= rank {
            trace.hosts.resize(rank + 1, 0);
        }
        trace.hosts[rank] = host;
        trace.events.push(event);
    }
    trace.events.sort_by_key(|event| (event.start_ns, event.rank));
    Ok(trace)
}

/// Most ranks of a trace: more than this is not one.
const RANKS: u64 = 1 << 20;

fn event(line: &Value) -> Option<(Event, u32)> {
    let (arguments, number) = (&line["args"], |value: &Value| value.as_u64());
    // Events of hosts whose clock was thought to be behind may begin before the first one of rank 0.
    let ns = |value: &Value| value.as_f64().map(|us| (us * 1e3).round().max(0.0) as u64);
    let start_ns = ns(&line["ts"])?;
    let action = Action::parse(arguments["action"].as_str()?)?;
    let name = line["name"].as_str().filter(|name| *name != action.name()).unwrap_or_default();
    let event = Event {
        rank: number(&arguments["rank"]).filter(|rank| *rank < RANKS)? as u32,
        action,
        level: Level::parse(line["cat"].as_str()?)?,
        peer: number(&arguments["peer"])? as u32,
        bytes: number(&arguments["bytes"])?,
        key: u64::from_str_radix(arguments["key"].as_str()?, 16).ok()?,
        value: number(&arguments["value"])?,
        start_ns,
        end_ns: start_ns + ns(&line["dur"])?,
        name: Cow::Owned(name.to_string()),
    };
    Some((event, number(&line["pid"])? as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_trace_is_refused() {
        assert!(text("{}").unwrap_err().contains("no traceEvents"));
        assert!(text("[").is_err());
        let strange = r#"{"traceEvents":[{"ph":"X","name":"a","args":{}}]}"#;
        assert!(text(strange).unwrap_err().contains("not Tutti's"));
        assert_eq!(text(r#"{"traceEvents":[{"ph":"M"}]}"#), Ok(Trace::default()));
    }
}
