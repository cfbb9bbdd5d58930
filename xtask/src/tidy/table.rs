//! `xtask/floors.txt`: the floors of each crate, and what is known to be wrong and may only get less. A
//! section a crate, or a folder of one (`[core/p2p]`); a line a floor, from the bottom, with the files and
//! folders on it.

use std::fmt::Write as _;
use std::path::Path;

const PATH: &str = "xtask/floors.txt";

/// The floors of a crate or of a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Section {
    /// The crate's name, and the folder's path below `src` if it is one of a folder.
    pub name: String,
    /// Files of the largest circle of imports.
    pub circle: Option<usize>,
    /// Lines of comment or prose that are too long.
    pub wide: Option<usize>,
    /// No circle leaves a file or folder of it.
    pub closed: bool,
    /// Names that stand for several public types.
    pub twice: Vec<String>,
    /// What is on each floor, from the bottom.
    pub floors: Vec<Vec<String>>,
}

/// The whole table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// What stands above the first section.
    pub head: String,
    /// In the order of the file.
    pub sections: Vec<Section>,
}

impl Table {
    /// Reads the file.
    pub fn read(root: &Path) -> Result<Table, Vec<String>> {
        Table::parse(&super::read(root, PATH)?).map_err(|complaint| vec![format!("{PATH}: {complaint}")])
    }

    /// Writes it.
    pub fn write(&self, root: &Path) -> Result<(), Vec<String>> {
        std::fs::write(root.join(PATH), self.text()).map_err(|error| vec![format!("{PATH}: {error}")])
    }

    /// Reads the text of a table. Comments stand above the first section only.
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

    /// The section of a crate or a folder.
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
