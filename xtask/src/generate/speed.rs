//! The picture of speed in the README: times of other libraries by Tutti's, from the last complete
//! line of the ledger (`docs/measurements/ledger.md`), so that it shows nothing that was not measured.

use std::fmt::Write;
use std::path::Path;

use super::Output;

const LEDGER: &str = "docs/measurements/ledger.md";
/// Colours of Tutti and of the others.
const COLOURS: [&str; 2] = ["#0b6e4f", "#8a8f98"];
/// Pixels from the left edge to the bars, and the greatest length of a bar.
const LEFT: f64 = 110.0;
const LONGEST: f64 = 420.0;
/// Pixels from one bar to the next.
const STEP: usize = 34;

/// One bar: library, and the geometric mean of its times by Tutti's.
struct Bar {
    library: String,
    ratio: f64,
}

/// Returns the picture, or a complaint if the ledger has no figures for it.
pub fn file(root: &Path) -> Result<Output, Vec<String>> {
    let text =
        std::fs::read_to_string(root.join(LEDGER)).map_err(|error| vec![format!("{LEDGER}: {error}")])?;
    let picture = newest(&text).map(|(bars, note)| draw(&bars, &note));
    let picture = picture.ok_or_else(|| vec![format!("{LEDGER}: no line has ratios of other libraries")])?;
    Ok(("docs/guide/src/speed.svg".to_string(), picture))
}

/// Reads the last line of the ledger's table that compares with all other libraries: the bars from short to
/// long, and what was measured.
fn newest(text: &str) -> Option<(Vec<Bar>, String)> {
    let mut rows = text.lines().filter(|line| line.starts_with('|')).map(cells);
    let names = rows.next()?;
    let rows: Vec<Vec<&str>> = rows.collect();
    rows.iter().rev().find_map(|row| read(&names, row))
}

fn read(names: &[&str], row: &[&str]) -> Option<(Vec<Bar>, String)> {
    let mut bars = vec![Bar { library: "Tutti".to_string(), ratio: 1.0 }];
    let mut counted = "";
    for (name, cell) in names.iter().zip(row) {
        let Some(library) = name.strip_prefix("by ").filter(|library| *library != "the commit before") else {
            continue;
        };
        let (ratio, rest) = cell.split_once(" of ")?;
        let ratio: f64 = ratio.parse().ok().filter(|ratio| *ratio > 0.0)?;
        counted = rest.split(';').next()?;
        bars.push(Bar { library: library.to_string(), ratio: 1.0 / ratio });
    }
    bars.sort_by(|one, two| one.ratio.total_cmp(&two.ratio));
    let column = |wanted: &str| names.iter().position(|name| *name == wanted).and_then(|at| row.get(at));
    let note =
        format!("Geometric mean of {counted} cells, commit {}, {}", column("commit")?, column("processor")?);
    Some((bars, note))
}

fn cells(line: &str) -> Vec<&str> {
    line.trim_matches('|').split('|').map(str::trim).collect()
}

/// Draws bars whose lengths are logarithms of the ratios, with a line where the ratio is 1.
fn draw(bars: &[Bar], note: &str) -> String {
    let most = bars.iter().map(|bar| bar.ratio).fold(2.0, f64::max);
    let length = |ratio: f64| 24.0 + (LONGEST - 24.0) * ratio.max(1.0).ln() / most.ln();
    let height = 56 + STEP * bars.len() + 30;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 640 {height}\" width=\"640\" \
         font-family=\"sans-serif\" font-size=\"14\" role=\"img\">\n\
         <title>Time of the same operations, by Tutti's time</title>\n\
         <rect width=\"640\" height=\"{height}\" fill=\"#ffffff\"/>\n\
         <text x=\"16\" y=\"26\" font-size=\"15\" font-weight=\"bold\">Time for the same operations (Tutti = 1; \
         shorter is better)</text>\n"
    );
    for (at, bar) in bars.iter().enumerate() {
        let top = 44 + STEP * at;
        let colour = COLOURS[usize::from(bar.library != "Tutti")];
        let (wide, middle) = (length(bar.ratio), top + 16);
        let ratio = if bar.ratio < 10.0 { format!("{:.1}", bar.ratio) } else { format!("{:.0}", bar.ratio) };
        let _ = write!(
            out,
            "<text x=\"{:.0}\" y=\"{middle}\" text-anchor=\"end\">{}</text>\n\
             <rect x=\"{LEFT:.0}\" y=\"{top}\" width=\"{wide:.0}\" height=\"22\" fill=\"{colour}\"/>\n\
             <text x=\"{:.0}\" y=\"{middle}\">{ratio}</text>\n",
            LEFT - 8.0,
            bar.library,
            LEFT + wide + 6.0,
        );
    }
    let _ = write!(
        out,
        "<text x=\"16\" y=\"{}\" font-size=\"12\" fill=\"#555555\">{note}. Lengths are logarithmic.</text>\n</svg>\n",
        height - 14
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_has_the_ratios_of_the_newest() {
        let ledger = "# L\n| issue | commit | processor | by the commit before | by MPICH | by Intel MPI |\n|---|---|---|---|---|---|\n\
                      | 1 | aa | X | 1 of 2; a | 0.9 of 2; a | 0.8 of 2; a |\n| 2 | bb | X | 1 of 9; a | 0.04 of 9; a | 0.5 of 9; a |\n| 3 | cc | X | 1 of 9; a | - | - |\n";
        let (bars, note) = newest(ledger).unwrap();
        let found: Vec<(&str, f64)> = bars.iter().map(|bar| (bar.library.as_str(), bar.ratio)).collect();
        assert_eq!(found, [("Tutti", 1.0), ("Intel MPI", 2.0), ("MPICH", 25.0)]);
        assert_eq!(note, "Geometric mean of 9 cells, commit bb, X");
        assert!(draw(&bars, &note).contains(">25</text>"));
        assert!(newest("| issue | commit |\n|---|---|\n").is_none());
    }
}
