//! Picture of a loop that learns: the time of each operation, in the order of the loop.

use std::fmt::Write;

use tutti_coll::tune::rehearse::{Outcome, Play};

/// Width and height.
const SIZE: (f64, f64) = (660.0, 260.0);
/// Room for text at the left and at the right, above and below.
const MARGIN: (f64, f64) = (70.0, 30.0);
/// Width of the part after the decision, relative to the part before.
const AFTER: f64 = 0.25;

/// Dots are operations; lines the default and the best, and when it was decided.
pub fn draw(play: &Play, outcome: &Outcome, title: &str) -> String {
    let periods: Vec<f64> = (0..play.alternatives.len()).map(|way| play.period_ns(way) / 1e3).collect();
    let most = periods.iter().copied().fold(0.0, f64::max) * 1.1;
    let best = periods.iter().copied().fold(f64::INFINITY, f64::min);
    let ((width, height), (side, end)) = (SIZE, MARGIN);
    let number = outcome.course.len() as f64 * (1.0 + AFTER);
    let x = |operation: f64| side + operation / number * (width - 2.0 * side);
    let y = |us: f64| height - end - us / most * (height - 2.0 * end);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" role=\"img\"><style>text{{font:11px sans-serif;fill:#555}}</style>\
         <text x=\"{side}\" y=\"14\">{title}</text>"
    );
    for (name, us) in [("default", periods[0]), ("best", best)] {
        let (at, right, text) = (y(us), width - side, format!("{:.1} ms", us / 1e3));
        let _ = write!(
            out,
            "<line x1=\"{side}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#bbb\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{name}</text>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
            right + 6.0,
            at + 4.0,
            side - 6.0,
            at + 4.0
        );
    }
    let later = (number - outcome.course.len() as f64) as usize;
    let ways = outcome.course.iter().copied().chain(std::iter::repeat_n(outcome.chosen, later));
    for (operation, way) in ways.enumerate() {
        let (across, up) = (x(operation as f64), y(periods[way]));
        let hue = way * 360 / periods.len();
        let _ =
            write!(out, "<circle cx=\"{across:.1}\" cy=\"{up:.1}\" r=\"1.8\" fill=\"hsl({hue},60%,45%)\"/>");
    }
    let (decided, below) = (x(outcome.course.len() as f64), height - end);
    let _ = writeln!(
        out,
        "<line x1=\"{decided:.1}\" x2=\"{decided:.1}\" y1=\"{end}\" y2=\"{below}\" stroke=\"#888\" \
         stroke-dasharray=\"4\"/><text x=\"{decided:.1}\" y=\"{:.1}\" text-anchor=\"middle\">decided \
         after {} operations</text></svg>",
        height - end + 18.0,
        outcome.course.len()
    );
    out
}
