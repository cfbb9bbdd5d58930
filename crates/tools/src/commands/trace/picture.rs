//! Picture of a trace. Time runs to the right; ranks are below each other, grouped by host. One strip for
//! each host shows when network and node are busy. Each rank has a row for each level. The critical path is
//! framed, and connected where it changes the rank.

use std::collections::HashMap;
use std::fmt::Write;

use tutti_base::trace::{Action, Event, Level, group, lines};

use super::events::{Trace, busy, span};
use crate::measure::report::svg::escape;

const WIDTH: f64 = 1200.0;
const LEFT: f64 = 90.0;
const TOP: f64 = 44.0;
const LINE: f64 = 8.0;
const GAP: f64 = 6.0;
/// More rectangles make a picture that no browser likes: the longest are drawn.
const MOST: usize = 20_000;
/// Lines of a row at most.
const MOST_LINES: u32 = 8;

const STYLE: &str = "text{font:10px sans-serif;fill:#333}.h{font-weight:bold}.c{stroke:#000;stroke-width:1.2}\
                     .p{stroke:#000;stroke-width:1;fill:none;stroke-dasharray:3 2}.g{stroke:#ddd}";

/// Legend: the name and the style of each colour.
const LEGEND: [(&str, &str); 7] = [
    ("sends to another host", "#d9480f"),
    ("receives from another host", "#f59f00"),
    ("moves within the host", "#1c7ed6"),
    ("copies", "#868e96"),
    ("combines", "#2b8a3e"),
    ("waits for a flag", "#d0ebff"),
    ("call or operation", "#e9ecef"),
];

fn colour(event: &Event) -> &'static str {
    let number = match (event.action, event.level) {
        (Action::Call | Action::Operation, _) => 6,
        (Action::Await, _) => 5,
        (Action::Receive, Level::Network) => 1,
        (_, Level::Network) => 0,
        (Action::Reduce | Action::Combine, _) => 4,
        (_, Level::Node) => 2,
        _ => 3,
    };
    LEGEND[number].1
}

/// Draws the picture. `critical` are the indices of the events on the critical path.
pub fn draw(trace: &Trace, critical: &[usize], title: &str) -> String {
    let (first, last) = span(&trace.events);
    let scale = (WIDTH - LEFT - 10.0) / (last - first).max(1) as f64;
    let x = |ns: u64| LEFT + (ns - first) as f64 * scale;
    let mut canvas = Canvas { out: String::new(), y: TOP, middles: HashMap::new(), x: &x, critical };
    let least = least_length(&trace.events);
    let hosts = trace.hosts.iter().copied().max().map_or(0, |most| most + 1);
    for host in 0..hosts {
        canvas.host(trace, host);
        for rank in (0..).zip(&trace.hosts).filter(|(_, other)| **other == host).map(|(rank, _)| rank) {
            canvas.rank(trace, rank, least);
        }
    }
    let height = canvas.y + 24.0;
    canvas.path(trace);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\">\
         <style>{STYLE}</style>\n<text x=\"8\" y=\"14\" class=\"h\">{}</text>\n",
        escape(title)
    );
    legend(&mut out);
    axis(first, last, height, &x, &mut out);
    out + &canvas.out + "</svg>\n"
}

/// Events shorter than this are left out, so that not too many remain; those on the path stay.
fn least_length(events: &[Event]) -> u64 {
    let mut lengths: Vec<u64> = events.iter().map(|event| event.end_ns - event.start_ns).collect();
    if lengths.len() <= MOST {
        return 0;
    }
    let place = lengths.len() - MOST;
    *lengths.select_nth_unstable(place).1
}

fn legend(out: &mut String) {
    let mut x = LEFT;
    for (name, colour) in LEGEND {
        let _ = writeln!(
            out,
            "<rect x=\"{x:.1}\" y=\"22\" width=\"10\" height=\"8\" fill=\"{colour}\"/><text x=\"{:.1}\" y=\"30\">{name}</text>",
            x + 13.0
        );
        x += 26.0 + name.len() as f64 * 5.2;
    }
    let _ = writeln!(
        out,
        "<rect x=\"{x:.1}\" y=\"22\" width=\"10\" height=\"8\" fill=\"#fff\" class=\"c\"/><text x=\"{:.1}\" y=\"30\">on the critical path</text>",
        x + 13.0
    );
}

/// Draws ten labels of times, with lines through the picture.
fn axis(first: u64, last: u64, height: f64, x: &dyn Fn(u64) -> f64, out: &mut String) {
    let step = round_step((last - first).max(1) as f64 / 10.0);
    let mut at = 0.0;
    while at <= (last - first) as f64 {
        let place = x(first + at as u64);
        let _ = writeln!(
            out,
            "<line x1=\"{place:.1}\" x2=\"{place:.1}\" y1=\"{TOP}\" y2=\"{:.1}\" class=\"g\"/>\
             <text x=\"{place:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{} us</text>",
            height - 18.0,
            height - 6.0,
            at / 1e3
        );
        at += step;
    }
}

/// Returns the smallest of 1, 2 or 5 times a power of ten that is at least `step` and at least 1.
fn round_step(step: f64) -> f64 {
    let power = 10f64.powf(step.max(1.0).log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .map(|factor| factor * power)
        .into_iter()
        .find(|round| *round >= step)
        .unwrap_or(step)
}

struct Canvas<'a> {
    out: String,
    y: f64,
    /// Vertical positions of the critical path's events: the middle of each.
    middles: HashMap<usize, f64>,
    x: &'a dyn Fn(u64) -> f64,
    critical: &'a [usize],
}

impl Canvas<'_> {
    /// Draws the name and the strip of a host.
    fn host(&mut self, trace: &Trace, host: u32) {
        let _ = writeln!(self.out, "<text x=\"8\" y=\"{:.1}\" class=\"h\">host {host}</text>", self.y + 9.0);
        for (level, colour) in [(Level::Network, LEGEND[0].1), (Level::Node, LEGEND[2].1)] {
            for (start, end) in busy(trace, host, level) {
                let (from, to) = ((self.x)(start), (self.x)(end));
                let _ = writeln!(
                    self.out,
                    "<rect x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"4\" fill=\"{colour}\"/>",
                    self.y,
                    (to - from).max(0.3)
                );
            }
            self.y += 5.0;
        }
        self.y += GAP;
    }

    /// Draws the rows of a rank.
    fn rank(&mut self, trace: &Trace, rank: u32, least: u64) {
        let _ = writeln!(self.out, "<text x=\"24\" y=\"{:.1}\">rank {rank}</text>", self.y + 8.0);
        let top = self.y;
        for number in 0..5 {
            let is_member = |place: &usize| {
                let event = &trace.events[*place];
                event.rank == rank && group(event) == number
            };
            let members: Vec<usize> = (0..trace.events.len()).filter(is_member).collect();
            let events: Vec<&Event> = members.iter().map(|&place| &trace.events[place]).collect();
            let lines = lines(&events);
            for ((place, event), line) in members.iter().zip(&events).zip(&lines) {
                let y = self.y + f64::from((*line).min(MOST_LINES - 1)) * LINE;
                self.event(*place, event, y, least);
            }
            let used = lines.iter().max().map_or(0, |most| (most + 1).min(MOST_LINES));
            self.y += f64::from(used) * LINE;
        }
        self.y = self.y.max(top + LINE) + GAP;
    }

    fn event(&mut self, place: usize, event: &Event, y: f64, least: u64) {
        let is_critical = self.critical.contains(&place);
        if is_critical {
            self.middles.insert(place, y + (LINE - 1.0) / 2.0);
        } else if event.end_ns - event.start_ns < least {
            return;
        }
        let (from, to) = ((self.x)(event.start_ns), (self.x)(event.end_ns));
        let class = if is_critical { " class=\"c\"" } else { "" };
        let what = if event.name.is_empty() { event.action.name() } else { &event.name };
        let with = if event.peer == event.rank { String::new() } else { format!(", rank {}", event.peer) };
        let bytes = if event.bytes == 0 { String::new() } else { format!(", {} bytes", event.bytes) };
        let _ = writeln!(
            self.out,
            "<rect x=\"{from:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{}\"{class}><title>{}{with}{bytes}: {:.3} us from {:.3} us</title></rect>",
            (to - from).max(0.3),
            LINE - 1.0,
            colour(event),
            escape(what),
            (event.end_ns - event.start_ns) as f64 / 1e3,
            event.start_ns as f64 / 1e3,
        );
    }

    /// Draws the lines where the critical path changes the rank.
    fn path(&mut self, trace: &Trace) {
        for pair in self.critical.windows(2) {
            let (one, two) = (&trace.events[pair[0]], &trace.events[pair[1]]);
            let (Some(from), Some(to)) = (self.middles.get(&pair[0]), self.middles.get(&pair[1])) else {
                continue;
            };
            if one.rank != two.rank {
                let _ = writeln!(
                    self.out,
                    "<path d=\"M{:.1} {from:.1}L{:.1} {to:.1}\" class=\"p\"/>",
                    (self.x)(one.end_ns.min(two.start_ns.max(one.start_ns))),
                    (self.x)(two.start_ns.max(one.start_ns))
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_the_axis_are_round() {
        assert_eq!([0.3, 1.0, 3.0, 70.0, 1100.0].map(round_step), [1.0, 1.0, 5.0, 100.0, 2000.0]);
    }

    #[test]
    fn an_empty_trace_is_a_picture_too() {
        let drawn = draw(&Trace::default(), &[], "nothing");
        assert!(drawn.contains("nothing") && !drawn.contains("NaN"), "{drawn}");
    }
}
