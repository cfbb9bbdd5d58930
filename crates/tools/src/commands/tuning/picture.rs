//! Picture of a loop that learns: the time of each operation, in the order of the loop, with axes and legend.

use std::fmt::Write;

use tutti_coll::tune::rehearse::{Outcome, Play};

/// Width and height.
const SIZE: (f64, f64) = (760.0, 300.0);
/// Room for text at the left and at the right, above and below.
const MARGIN: (f64, f64) = (100.0, 40.0);
/// Most dots: of longer courses every second, third, ... operation is drawn.
const MOST_DOTS: usize = 600;
/// Number of intervals between the marks of an axis.
const INTERVALS: u32 = 4;
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
         height=\"{height}\" role=\"img\"><style>text{{font:11px sans-serif;fill:#444}}</style>\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\
         <text x=\"{side}\" y=\"14\" font-weight=\"bold\">{title}</text>\
         <text x=\"{side}\" y=\"28\">Each dot is one operation, each colour one algorithm.</text>"
    );
    out += &axes(most, number, x, y);
    for (name, us) in [("default", periods[0]), ("best", best)] {
        let (at, right) = (y(us), width - side);
        let _ = write!(
            out,
            "<line x1=\"{side}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#bbb\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{name}: {:.1} ms</text>",
            right + 6.0,
            at + 4.0,
            us / 1e3
        );
    }
    let later = (number - outcome.course.len() as f64) as usize;
    let ways = outcome.course.iter().copied().chain(std::iter::repeat_n(outcome.chosen, later));
    let step = (number as usize / MOST_DOTS).max(1);
    for (operation, way) in ways.enumerate().step_by(step) {
        let (across, up) = (x(operation as f64), y(periods[way]));
        let hue = way * 360 / periods.len();
        let _ =
            write!(out, "<circle cx=\"{across:.1}\" cy=\"{up:.1}\" r=\"1.8\" fill=\"hsl({hue},60%,45%)\"/>");
    }
    let (decided, below) = (x(outcome.course.len() as f64), height - end);
    let _ = writeln!(
        out,
        "<line x1=\"{decided:.1}\" x2=\"{decided:.1}\" y1=\"{end}\" y2=\"{below}\" stroke=\"#888\" \
         stroke-dasharray=\"4\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">decided \
         after {} operations</text></svg>",
        decided - 6.0,
        end + 12.0,
        outcome.course.len()
    );
    out
}

/// Draws the axes: operations to the right, milliseconds upwards. `x` and `y` map an operation and a time in
/// microseconds to the picture.
fn axes(most_us: f64, operations: f64, x: impl Fn(f64) -> f64, y: impl Fn(f64) -> f64) -> String {
    let (left, right, bottom, top) = (x(0.0), x(operations), y(0.0), y(most_us));
    let mut out = format!(
        "<path d=\"M{left:.1},{top:.1} L{left:.1},{bottom:.1} L{right:.1},{bottom:.1}\" fill=\"none\" stroke=\"#444\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">operation</text>\
         <text x=\"16\" y=\"{:.1}\" text-anchor=\"middle\" transform=\"rotate(-90 16 {:.1})\">time of an \
         operation (ms)</text>",
        (left + right) / 2.0,
        bottom + 32.0,
        (top + bottom) / 2.0,
        (top + bottom) / 2.0
    );
    for mark in 0..=INTERVALS {
        let part = f64::from(mark) / f64::from(INTERVALS);
        let (up, across) = (y(part * most_us), x(part * operations));
        let _ = write!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{:.1}</text>\
             <text x=\"{across:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{:.0}</text>",
            left - 6.0,
            up + 4.0,
            part * most_us / 1e3,
            bottom + 16.0,
            part * operations
        );
    }
    out
}
