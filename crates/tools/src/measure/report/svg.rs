//! Plots in SVG: time over size on logarithmic axes, one line for each library; and bars.

use std::fmt::Write;

/// Width and height of a plot.
const WIDTH: f64 = 440.0;
const HEIGHT: f64 = 270.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 34.0;

/// One line of a plot.
pub struct Series<'a> {
    /// Name of the library.
    pub name: &'a str,
    /// Colour of the line, as in CSS.
    pub colour: &'a str,
    /// Size in bytes and time in microseconds, both above 0.
    pub points: Vec<(f64, f64)>,
}

/// Linear map of the logarithm of values from `low..high` to `from..to`.
struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    fn new(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Axis {
        let (low, high) = values
            .map(f64::log10)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
        let room = if high - low < 0.3 { 0.3 } else { (high - low) * 0.04 };
        Axis { low: low - room, high: high + room, from, to }
    }

    fn position_of(&self, value: f64) -> f64 {
        self.from + (value.log10() - self.low) / (self.high - self.low) * (self.to - self.from)
    }

    /// Powers of ten inside the axis.
    fn decades(&self) -> impl Iterator<Item = f64> + use<> {
        (self.low.ceil() as i32..=self.high.floor() as i32).map(|power| 10f64.powi(power))
    }
}

/// Draws a plot of time over size. The result is empty if there is nothing to draw.
pub fn lines(series: &[Series]) -> String {
    let points = || series.iter().flat_map(|one| one.points.iter());
    if points().count() < 2 {
        return String::new();
    }
    let x = Axis::new(points().map(|point| point.0), LEFT, WIDTH - RIGHT);
    let y = Axis::new(points().map(|point| point.1), HEIGHT - BOTTOM, TOP);
    let mut out = open(WIDTH, HEIGHT);
    grid(&x, &y, points().map(|point| point.0 as u64), &mut out);
    for one in series.iter().filter(|one| !one.points.is_empty()) {
        let path: Vec<_> = one
            .points
            .iter()
            .map(|p| format!("{:.1},{:.1}", x.position_of(p.0), y.position_of(p.1)))
            .collect();
        let (name, colour) = (escape(one.name), one.colour);
        let _ = write!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            path.join(" ")
        );
        for point in &one.points {
            let _ = write!(
                out,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{colour}\"><title>{name}, {} B: {}</title></circle>",
                x.position_of(point.0),
                y.position_of(point.1),
                point.0,
                super::words::time(point.1)
            );
        }
    }
    out + "</svg>"
}

fn grid(x: &Axis, y: &Axis, sizes: impl Iterator<Item = u64>, out: &mut String) {
    for value in y.decades() {
        let at = y.position_of(value);
        let _ = write!(
            out,
            "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\" class=\"g\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            at + 4.0,
            decade(value)
        );
    }
    let mut sizes: Vec<_> = sizes.collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut free = 0.0;
    for bytes in sizes {
        let at = x.position_of(bytes as f64);
        if at >= free {
            let _ = write!(
                out,
                "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{0}\" class=\"g\"/>\
                 <text x=\"{at:.1}\" y=\"{1}\" text-anchor=\"middle\">{2}</text>",
                HEIGHT - BOTTOM,
                HEIGHT - BOTTOM + 16.0,
                super::words::size(bytes)
            );
            free = at + 34.0;
        }
    }
}

fn decade(us: f64) -> String {
    match us {
        _ if us >= 0.99e6 => format!("{:.0} s", us / 1e6),
        _ if us >= 0.99e3 => format!("{:.0} ms", us / 1e3),
        _ if us >= 0.99 => format!("{us:.0} us"),
        _ => format!("{:.0} ns", us * 1e3),
    }
}

/// Draws horizontal bars from names, colours and values.
pub fn bars(rows: &[(&str, &str, f64)], unit: &str) -> String {
    let most = rows.iter().map(|row| row.2).fold(0.0, f64::max);
    if most <= 0.0 {
        return String::new();
    }
    let mut out = open(WIDTH, rows.len() as f64 * 26.0 + 8.0);
    for (i, (name, colour, value)) in rows.iter().enumerate() {
        let top = 4.0 + i as f64 * 26.0;
        let width = (value / most * (WIDTH - 190.0)).max(1.0);
        let _ = write!(
            out,
            "<text x=\"84\" y=\"{0:.1}\" text-anchor=\"end\">{1}</text>\
             <rect x=\"92\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"18\" fill=\"{colour}\"/>\
             <text x=\"{2:.1}\" y=\"{0:.1}\">{value:.0} {unit}</text>",
            top + 13.0,
            escape(name),
            98.0 + width
        );
    }
    out + "</svg>"
}

fn open(width: f64, height: f64) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" role=\"img\"><style>text{{font:11px sans-serif;fill:#555}}\
         .g{{stroke:#e4e4e4}}</style>"
    )
}

/// Escapes text for XML.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_has_a_line_for_each_library_with_points() {
        let series = [
            Series { name: "a<b", colour: "#123", points: vec![(8.0, 0.5), (1024.0, 40.0)] },
            Series { name: "none", colour: "#456", points: vec![] },
        ];
        let plot = lines(&series);
        assert_eq!(plot.matches("<polyline").count(), 1);
        assert_eq!(plot.matches("<circle").count(), 2);
        assert!(plot.contains("a&lt;b, 8 B: 0.50 us"), "{plot}");
        assert!(plot.contains(">10 us<") && plot.contains(">1K<"), "{plot}");
        assert!(!plot.contains("NaN") && !plot.contains("inf"), "{plot}");
    }

    #[test]
    fn equal_values_do_not_break_the_axes() {
        let plot = lines(&[Series { name: "a", colour: "#123", points: vec![(8.0, 1.0), (8.0, 1.0)] }]);
        assert!(!plot.contains("NaN") && !plot.contains("inf"), "{plot}");
        assert_eq!(lines(&[]), "");
    }

    #[test]
    fn bars_are_relative_to_the_longest() {
        let plot = bars(&[("a", "#123", 50.0), ("b", "#456", 100.0)], "ms");
        assert!(plot.contains("width=\"125.0\"") && plot.contains("width=\"250.0\""), "{plot}");
        assert_eq!(bars(&[], "ms"), "");
    }
}
