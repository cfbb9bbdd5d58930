//! Events of a trace (actions of a rank with their times) and their text. The text is the Trace Event Format
//! of Chrome, which Perfetto reads, with one event on each line.
//!
//! The library writes a trace at the end of a job, the simulator one of its prediction. `tutti trace` draws
//! both.

use std::borrow::Cow;
use std::fmt::Write;

/// Kind of action that an event records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A function of MPI was called.
    Call,
    /// A collective operation, from its first step to its last.
    Operation,
    /// A message was sent.
    Send,
    /// A message was received.
    Receive,
    /// Bytes were copied.
    Copy,
    /// Elements were combined.
    Reduce,
    /// A flag was set.
    Post,
    /// A flag of a peer was awaited.
    Await,
    /// Memory was exposed to a peer.
    Expose,
    /// A peer's memory was read.
    Pull,
    /// A peer's memory was written.
    Push,
    /// A peer's memory was combined with own.
    Combine,
    /// A window of a file was read.
    FileRead,
    /// A window of a file was written.
    FileWrite,
}

impl Action {
    const NAMES: [(&str, Action); 14] = [
        ("call", Action::Call),
        ("operation", Action::Operation),
        ("send", Action::Send),
        ("receive", Action::Receive),
        ("copy", Action::Copy),
        ("reduce", Action::Reduce),
        ("post", Action::Post),
        ("await", Action::Await),
        ("expose", Action::Expose),
        ("pull", Action::Pull),
        ("push", Action::Push),
        ("combine", Action::Combine),
        ("file_read", Action::FileRead),
        ("file_write", Action::FileWrite),
    ];

    /// Returns the name of the action in the text of a trace.
    pub fn name(self) -> &'static str {
        Action::NAMES[self as usize].0
    }

    /// Returns the action with this name in the text of a trace.
    pub fn parse(name: &str) -> Option<Action> {
        Action::NAMES.iter().find(|entry| entry.0 == name).map(|entry| entry.1)
    }
}

/// Distance that an action spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// Within the rank itself.
    Own,
    /// Between ranks of the same host.
    Node,
    /// Between different hosts.
    Network,
}

impl Level {
    /// All levels, from the nearest to the farthest.
    pub const ALL: [Level; 3] = [Level::Own, Level::Node, Level::Network];

    /// Returns the name of the level in the text of a trace.
    pub fn name(self) -> &'static str {
        ["own", "node", "network"][self as usize]
    }

    /// Returns the level with this name in the text of a trace.
    pub fn parse(name: &str) -> Option<Level> {
        Level::ALL.into_iter().find(|level| level.name() == name)
    }
}

/// One action of a rank, with its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Rank that performed the action, in the world.
    pub rank: u32,
    /// Kind of the action.
    pub action: Action,
    /// Distance that the action spanned.
    pub level: Level,
    /// Peer, by its rank in the world: the other side of a message, or the owner of the memory or flag. It is
    /// the rank itself for other actions.
    pub peer: u32,
    /// Number of bytes that the action handled.
    pub bytes: u64,
    /// Key that both sides of a transfer share: the operation, and the lane of messages or the number of a
    /// flag.
    pub key: u64,
    /// Value of the flag, for actions on flags.
    pub value: u64,
    /// Start time in nanoseconds.
    pub start_ns: u64,
    /// End time in nanoseconds.
    pub end_ns: u64,
    /// Name of the called function, or of the operation's algorithm.
    pub name: Cow<'static, str>,
}

/// Number of tracks of a rank. Overlapping events are drawn side by side: calls, operations, steps by level.
const TRACKS: u32 = 64;

/// Returns for each event the number of the line that shows the event. The events are in the order of their
/// starts, and those of a line do not overlap.
pub fn lines(events: &[&Event]) -> Vec<u32> {
    let mut ends: Vec<u64> = Vec::new();
    let line = |event: &&Event| {
        let free = ends.iter().position(|end| *end <= event.start_ns);
        let line = free.unwrap_or_else(|| {
            ends.push(0);
            ends.len() - 1
        });
        ends[line] = event.end_ns.max(event.start_ns + 1);
        line as u32
    };
    events.iter().map(line).collect()
}

/// Returns the group of tracks that an event is drawn in: calls, operations, or one for each level.
pub fn group(event: &Event) -> u32 {
    match event.action {
        Action::Call => 0,
        Action::Operation => 1,
        _ => 2 + event.level as u32,
    }
}

const GROUPS: [&str; 5] = ["calls", "operations", "own", "node", "network"];

/// Writes the events of one rank, which is on `host`, as lines of a trace, each followed by a comma. Times
/// are written as `time - origin_ns`.
pub fn write_rank(events: &mut [Event], host: u32, origin_ns: i128, out: &mut String) {
    events.sort_by_key(|event| (event.start_ns, event.end_ns));
    let rank = events.first().map_or(0, |event| event.rank);
    for (number, title) in (0..).zip(GROUPS) {
        let members: Vec<&Event> = events.iter().filter(|event| group(event) == number).collect();
        let lines = lines(&members);
        for line in 0..lines.iter().copied().max().map_or(0, |most| (most + 1).min(TRACKS)) {
            let track = (rank * GROUPS.len() as u32 + number) * TRACKS + line;
            let _ = writeln!(
                out,
                "{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{host},\"tid\":{track},\"args\":{{\"name\":\"rank {rank} {title}\"}}}},"
            );
        }
        for (event, line) in members.iter().zip(lines) {
            let track = (rank * GROUPS.len() as u32 + number) * TRACKS + line.min(TRACKS - 1);
            write_event(event, (host, track), origin_ns, out);
        }
    }
}

fn write_event(event: &Event, (host, track): (u32, u32), origin_ns: i128, out: &mut String) {
    let us = |ns: i128| ns as f64 / 1e3;
    let start = us(i128::from(event.start_ns) - origin_ns);
    let length = us(i128::from(event.end_ns) - i128::from(event.start_ns));
    let action = event.action.name();
    let name = if event.name.is_empty() { action } else { &event.name };
    let _ = writeln!(
        out,
        "{{\"ph\":\"X\",\"name\":\"{name}\",\"cat\":\"{}\",\"pid\":{host},\"tid\":{track},\"ts\":{start:.3},\"dur\":{length:.3},\
         \"args\":{{\"action\":\"{action}\",\"rank\":{},\"peer\":{},\"bytes\":{},\"key\":\"{:x}\",\"value\":{}}}}},",
        event.level.name(),
        event.rank,
        event.peer,
        event.bytes,
        event.key,
        event.value
    );
}

/// Returns a complete trace from the results of [`write_rank`] for all ranks. `hosts` are names.
pub fn whole(ranks: &[String], hosts: &[String]) -> String {
    let mut out = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n".to_string();
    ranks.iter().for_each(|rank| out += rank);
    for (host, name) in hosts.iter().enumerate() {
        let end = if host + 1 < hosts.len() { "," } else { "" };
        let _ = writeln!(
            out,
            "{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{host},\"args\":{{\"name\":\"{name}\"}}}}{end}"
        );
    }
    out + "]}\n"
}

/// A message each way, by the clock of the side that sent or received it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exchange {
    /// When this side sent its message,
    pub sent_ns: u64,
    /// and when the other side had it.
    pub reached_ns: u64,
    /// When the other side sent its message,
    pub answered_ns: u64,
    /// and when this side had it.
    pub got_ns: u64,
}

/// Returns the difference of another clock to the own one in nanoseconds (Mills, NTP). The fastest exchange
/// counts, as its two directions differ least.
pub fn clock_offset_ns(exchanges: &[Exchange]) -> i64 {
    let ways = |one: &Exchange| {
        let there = i128::from(one.reached_ns) - i128::from(one.sent_ns);
        (there, i128::from(one.got_ns) - i128::from(one.answered_ns))
    };
    let fastest = exchanges.iter().map(ways).min_by_key(|(there, back)| there + back);
    fastest.map_or(0, |(there, back)| ((there - back) / 2) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(start_ns: u64, end_ns: u64) -> Event {
        Event {
            rank: 1,
            action: Action::Send,
            level: Level::Network,
            peer: 0,
            bytes: 8,
            key: 0xab,
            value: 0,
            start_ns,
            end_ns,
            name: Cow::Borrowed(""),
        }
    }

    #[test]
    fn what_overlaps_is_drawn_side_by_side() {
        let events = [event(0, 10), event(5, 15), event(10, 12), event(20, 20), event(20, 21)];
        assert_eq!(lines(&events.iter().collect::<Vec<_>>()), [0, 1, 0, 0, 1]);
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for (name, action) in Action::NAMES {
            assert_eq!((action.name(), Action::parse(name)), (name, Some(action)));
        }
        for level in Level::ALL {
            assert_eq!(Level::parse(level.name()), Some(level));
        }
    }

    #[test]
    fn a_trace_is_a_line_an_event() {
        let mut text = String::new();
        write_rank(&mut [event(2500, 4000)], 3, 500, &mut text);
        let all = whole(&[text], &["host 0".to_string()]);
        let line = "{\"ph\":\"X\",\"name\":\"send\",\"cat\":\"network\",\"pid\":3,\"tid\":576,\"ts\":2.000,\"dur\":1.500,\
                    \"args\":{\"action\":\"send\",\"rank\":1,\"peer\":0,\"bytes\":8,\"key\":\"ab\",\"value\":0}},";
        assert!(all.lines().any(|one| one == line), "{all}");
        assert!(all.ends_with("\"args\":{\"name\":\"host 0\"}}\n]}\n"), "{all}");
    }

    #[test]
    fn the_fastest_exchange_tells_the_offset() {
        let exchange =
            |sent_ns, reached_ns, answered_ns, got_ns| Exchange { sent_ns, reached_ns, answered_ns, got_ns };
        let exchanges =
            [exchange(100, 1000, 1000, 300), exchange(400, 1255, 1257, 412), exchange(500, 3000, 3000, 900)];
        assert_eq!(clock_offset_ns(&exchanges), 850);
        assert_eq!(clock_offset_ns(&[]), 0);
    }
}
