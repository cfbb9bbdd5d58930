//! `xtask/floors.txt`: the floors of each crate, and known deviations, which may only decrease. There is a
//! section for each crate, or for a folder of one (`[core/p2p]`). It has a line for each floor, from the
//! bottom, with the files and folders on it.

use std::fmt::Write as _;
use std::path::Path;

const PATH: &str = "xtask/floors.txt";

/// Floors of a crate or of a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Section {
    /// Name of the crate, followed by the path below `src` for a folder.
    pub name: String,
    /// Number of files in the largest circle of imports.
    pub circle: Option<usize>,
    /// Number of lines of comment or prose that are too long.
    pub wide: Option<usize>,
    /// True if no circle may leave a file or folder of it.
    pub closed: bool,
    /// Names of several public types.
    pub twice: Vec<String>,
    /// Files and folders on each floor, from the bottom.
    pub floors: Vec<Vec<String>>,
}

/// Contents of the whole table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Text above the first section.
    pub head: String,
    /// Sections in the order of the file.
    pub sections: Vec<Section>,
}

impl Table {
    /// Reads the table from its file.
    pub fn read(root: &Path) -> Result<Table, Vec<String>> {
        Table::parse(&super::read(root, PATH)?).map_err(|complaint| vec![format!("{PATH}: {complaint}")])
    }

    /// Writes the table to its file.
    pub fn write(&self, root: &Path) -> Result<(), Vec<String>> {
        std::fs::write(root.join(PATH), self.text()).map_err(|error| vec![format!("{PATH}: {error}")])
    }

    /// Parses the text of a table. Comments are allowed above the first section only.
    fn parse(text: &str) -> Result<Table, String> {
        let head = text.lines().take_while(|line| !line.starts_with('['));
        let mut table = Table { head: head.map(|line| format!("{line}\n")).collect(), sections: Vec::new() };
        for line in text.lines().skip_while(|line| !line.starts_with('[')).filter(|line| !line.is_empty()) {
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                table.sections.push(Section { name: name.to_string(), ..Section::default() });
                continue;
            }
            let section = table.sections.last_mut().expect("the first line is the name of a section");
            let mut words = line.split_whitespace().map(str::to_string);
            match (words.next().unwrap_or_default().as_str(), words.collect::<Vec<_>>()) {
                ("circle", value) => section.circle = Some(number(&value)?),
                ("wide", value) => section.wide = Some(number(&value)?),
                ("closed", none) if none.is_empty() => section.closed = true,
                ("twice", names) => section.twice.extend(names),
                ("floor", names) => section.floors.push(names),
                (word, _) => return Err(format!("{word}: neither floor, circle, wide, closed nor twice")),
            }
        }
        Ok(table)
    }

    fn text(&self) -> String {
        let mut text = self.head.clone();
        for (place, section) in self.sections.iter().enumerate() {
            let blank = if place == 0 { "" } else { "\n" };
            let _ = writeln!(text, "{blank}[{}]", section.name);
            let numbers = [("circle", section.circle), ("wide", section.wide)];
            for (word, value) in numbers.iter().filter_map(|(word, value)| Some((word, (*value)?))) {
                let _ = writeln!(text, "{word} {value}");
            }
            if section.closed {
                text.push_str("closed\n");
            }
            let twice = (!section.twice.is_empty()).then_some(("twice", &section.twice));
            for (word, names) in twice.into_iter().chain(section.floors.iter().map(|floor| ("floor", floor)))
            {
                let _ = writeln!(text, "{word} {}", names.join(" "));
            }
        }
        text
    }

    /// Returns the section of a crate or a folder.
    pub fn section(&mut self, name: &str) -> Option<&mut Section> {
        self.sections.iter_mut().find(|section| section.name == name)
    }
}

fn number(words: &[String]) -> Result<usize, String> {
    match words {
        [one] => one.parse().map_err(|_| format!("{one} is no number")),
        _ => Err("one number is wanted".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read_and_written() {
        let text = "# why\n\n[base]\ncircle 2\nwide 7\nclosed\ntwice Kind Slot\nfloor ids error\nfloor config\n\n[base/config]\nfloor mod\n";
        let mut table = Table::parse(text).expect("it is a table");
        assert_eq!(table.text(), text);
        assert_eq!(table.section("base").map(|base| base.floors.len()), Some(2));
        assert!(Table::parse("[base]\nroof x\n").is_err());
        assert!(Table::parse("[base]\ncircle two\n").is_err());
    }
}
